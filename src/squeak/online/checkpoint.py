"""Checkpoints of progressive validation: the learner, the place in its source, and every loss so far."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from squeak.core.rows import rows_from_arrays
from squeak.core.state import checked, numbers
from squeak.core.types import Array, Rows
from squeak.data import Cursor, Preprocessing, RowSource
from squeak.online.base import OnlineEstimator
from squeak.online.stream import Tested
from squeak.samplers.checkpoint import Resumable
from squeak.samplers.dictionary import preprocessing_from_parts

CURVES = ("losses", "surrogate", "points")

POINTS = 200
"""About so many points of the curve are kept where the number of rows is known."""


@dataclass(frozen=True)
class OnlineState:
    """A learner taken apart at the end of a block, and what its rows have cost up to there."""

    arrays: dict[str, Any]
    content: dict[str, Any]
    curves: tuple[Array, ...]

    @property
    def preprocessing(self) -> Preprocessing | None:
        """What turned the user's columns into rows."""
        return preprocessing_from_parts(self.arrays, self.content)

    @property
    def head(self) -> Rows:
        """The first row."""
        return rows_from_arrays(self.arrays, "head_")


class OnlineRun(Resumable):
    """A pass of test-then-train, as :class:`squeak.samplers.checkpoint.Run` keeps it.

    ``model``: as it is before the first row of the pass. ``y``: the targets of rows that are no row source.
    ``told``: called after every block with how many rows there were more. ``each``: called with the block as it was
    tested, and the number of rows before it.
    """

    kind = OnlineEstimator.kind

    def __init__(
        self,
        model: Any,
        y: Any,
        told: Callable[[int, float, int], None],
        each: Callable[[Tested, int], None] | None = None,
    ) -> None:
        self.model, self.y, self.told, self.each = model, y, told, each
        self.losses: list[Array] = []
        self.surrogate: list[Array] = []
        self.points: list[Array] = []
        """Rows, atoms, growths and seconds."""
        self.run_name = type(model).__name__ + _learned(model)

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """Return the learner's parameters: what two passes are compared by."""
        params: dict[str, Any] = self.model.get_params(deep=False)
        return params

    def read(self, X: Any, start: Cursor | None = None, keeper: Any = None) -> None:
        """Predict and learn row after row, from a place of the source on, and note every loss."""
        seen, spent, lost = 0, 0.0, 0.0
        if self.points:
            rows, atoms, _, spent = self.points[0][-1].tolist()
            seen, lost = int(rows), float(self.losses[0].sum())
            self.told(seen, lost / seen, int(atoms))
        for tested in self.model.test_then_train_blocks(X, self.y, n_blocks=POINTS, start=start):
            if self.each is not None:
                self.each(tested, seen)
            surrogate = tested.surrogate
            losses = tested.errors if hasattr(self.model, "classes_") else surrogate
            seen, spent, lost = seen + len(losses), spent + tested.seconds, lost + float(losses.sum())
            atoms = tested.facts["atoms"]
            self.losses.append(losses)
            self.surrogate.append(surrogate)
            self.points.append(np.array([[seen, atoms, tested.facts["growths"], spent]]))
            self.told(len(losses), lost / seen, atoms)
            if keeper is not None and tested.cursor is not None:
                arrays, content = self.model.to_parts()
                arrays = {name: np.array(array) for name, array in arrays.items()}  # the learner goes on in its own
                keeper.keep(OnlineState(arrays, copy.deepcopy(content), self.curves()), [], tested.cursor)

    def curves(self) -> tuple[Array, ...]:
        """Return the losses, the model's own losses, and the points of the curve."""
        return tuple(np.concatenate(getattr(self, name)) for name in CURVES)

    def _as_source(self, X: Any) -> RowSource:
        if not isinstance(X, RowSource):
            raise ValueError("checkpoint is for a row source: pass squeak.rows(X, y)")
        return X

    def _read(self, X: Any, state: Any, *, start: Any = None, keeper: Any = None, past: Any = None) -> None:
        if state is not None:
            self._restore(state, past)
        self.read(X, start, keeper)

    def _restore(self, state: OnlineState, history: Any) -> None:
        found = OnlineEstimator.from_parts(state.arrays, state.content, self.model.kernel)
        self.model.__dict__.update(found.__dict__)
        for name, curve in zip(CURVES, state.curves, strict=True):
            setattr(self, name, [curve])

    def _parts_at(self, state: OnlineState, history: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        curves = {f"curve_{name}": curve for name, curve in zip(CURVES, state.curves, strict=True)}
        return {**state.arrays, **curves}, {**state.content, "sampler": self.run_name}

    @staticmethod
    def _state_from(arrays: dict[str, Any], content: dict[str, Any], kernel: Any) -> tuple[OnlineState, list[Any]]:
        curves = tuple(checked(CURVE_PARTS, arrays, {}, "curve_").values())
        if not len(curves[0]) or not len(curves[2]):
            raise ValueError("its losses are damaged")
        OnlineEstimator.from_parts(arrays, content, kernel)  # what does not fit is refused now
        return OnlineState(arrays, content, tuple(np.array(curve) for curve in curves)), []


CURVE_PARTS = {"losses": numbers("n"), "surrogate": numbers("n"), "points": numbers("points", 4)}


def _learned(model: Any) -> str:
    """Return words for what a learner has learned before; none where that is nothing."""
    if not model.__sklearn_is_fitted__():
        return ""
    arrays, content = model.to_parts()
    found = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name in sorted(arrays):
        found.update(np.ascontiguousarray(arrays[name]).tobytes())
    return f" that had learned {model.n_seen_:,} rows, {found.hexdigest()[:16]}"
