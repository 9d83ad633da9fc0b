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

POINTS = 200
"""About so many points of the curve are kept where the number of rows is known."""

MOST_POINTS = 2_000
"""Of more points every second one is dropped: a stream without end takes no more memory as it goes on."""

COUNTS = 4
"""Columns of a point before its sums: rows, atoms, growths and seconds."""


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
    tested, and the number of rows before it. ``keep_losses``: whether every loss is kept, or their sums alone.
    """

    kind = OnlineEstimator.kind

    def __init__(
        self,
        model: Any,
        y: Any,
        told: Callable[[int, float, int], None],
        each: Callable[[Tested, int], None] | None = None,
        keep_losses: bool = True,
    ) -> None:
        self.model, self.y, self.told, self.each, self.keep_losses = model, y, told, each, keep_losses
        self.losses: list[Array] = [np.zeros(0)]
        self.surrogate: list[Array] = [np.zeros(0)]
        self.points: list[Array] = []
        """Rows, atoms, growths, seconds, and the sums of both losses."""
        self.run_name = type(model).__name__ + _learned(model)

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """Return the learner's parameters: what two passes are compared by."""
        params: dict[str, Any] = self.model.get_params(deep=False)
        return params

    def read(self, X: Any, start: Cursor | None = None, keeper: Any = None) -> None:
        """Predict and learn row after row, from a place of the source on, and note every loss."""
        seen, spent, lost, own = 0, 0.0, 0.0, 0.0
        if self.points:
            rows, atoms, _, spent, lost, own = self.points[-1].tolist()
            seen = int(rows)
            self.told(seen, lost / seen, int(atoms))
        for tested in self.model.test_then_train_blocks(X, self.y, n_blocks=POINTS, start=start):
            if self.each is not None:
                self.each(tested, seen)
            surrogate = tested.surrogate
            losses = tested.errors if hasattr(self.model, "classes_") else surrogate
            seen, spent = seen + len(losses), spent + tested.seconds
            lost, own = lost + float(losses.sum()), own + float(surrogate.sum())
            atoms = tested.facts["atoms"]
            if self.keep_losses:
                self.losses.append(losses)
                self.surrogate.append(surrogate)
            self.points.append(np.array([seen, atoms, tested.facts["growths"], spent, lost, own]))
            if len(self.points) > MOST_POINTS:
                del self.points[-2::-2]
            self.told(len(losses), lost / seen, atoms)
            if keeper is not None and tested.cursor is not None:
                arrays, content = self.model.to_parts()
                arrays = {name: np.array(array) for name, array in arrays.items()}  # the learner goes on in its own
                keeper.keep(OnlineState(arrays, copy.deepcopy(content), self.curves()), [], tested.cursor)

    def curves(self) -> tuple[Array, ...]:
        """Return the losses, the model's own losses, and the points of the curve."""
        return np.concatenate(self.losses), np.concatenate(self.surrogate), np.array(self.points)

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
        losses, surrogate, points = state.curves
        if self.keep_losses and not len(losses):
            raise ValueError("the checkpoint holds sums of losses alone: go on with keep_losses=False")
        self.model.__dict__.update(found.__dict__)
        self.points = list(points)
        if self.keep_losses:
            self.losses, self.surrogate = [losses], [surrogate]

    def _parts_at(self, state: OnlineState, history: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        losses, surrogate, points = state.curves
        parts = {"losses": losses, "surrogate": surrogate, "points": points[:, :COUNTS], "sums": points[:, COUNTS:]}
        curves = {f"curve_{name}": np.ascontiguousarray(curve) for name, curve in parts.items()}
        return {**state.arrays, **curves}, {**state.content, "sampler": self.run_name}

    @staticmethod
    def _state_from(arrays: dict[str, Any], content: dict[str, Any], kernel: Any) -> tuple[OnlineState, list[Any]]:
        losses, surrogate, points, sums = checked(CURVE_PARTS, arrays, {}, "curve_").values()
        rows = np.append(0, points[:, 0].astype(np.int64))
        kept = len(losses) or sums is not None  # files of version 0.1 have no sums
        if len(rows) == 1 or np.diff(rows).min() < 1 or (len(losses) or rows[-1]) != rows[-1] or not kept:
            raise ValueError("its losses are damaged")
        OnlineEstimator.from_parts(arrays, content, kernel)  # what does not fit is refused now
        if sums is None:
            sums = sums_at(rows[1:], losses, surrogate)
        return OnlineState(arrays, content, (np.array(losses), np.array(surrogate), np.hstack([points, sums]))), []


def sums_at(rows: Any, *losses: Array) -> Array:
    """Return the sums of losses up to some numbers of rows, shape (len(rows), len(losses))."""
    return np.column_stack([np.cumsum(one)[rows - 1] for one in losses])


CURVE_PARTS = {
    "losses": numbers("n"),
    "surrogate": numbers("n"),
    "points": numbers("points", COUNTS),
    "sums": numbers("points", 2, optional=True),
}


def _learned(model: Any) -> str:
    """Return words for what a learner has learned before; none where that is nothing."""
    if not model.__sklearn_is_fitted__():
        return ""
    arrays, content = model.to_parts()
    found = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name in sorted(arrays):
        found.update(np.ascontiguousarray(arrays[name]).tobytes())
    return f" that had learned {model.n_seen_:,} rows, {found.hexdigest()[:16]}"
