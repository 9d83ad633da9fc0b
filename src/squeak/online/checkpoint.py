"""Checkpoints of progressive validation: the learner, the place in its source, and every loss so far."""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from squeak.core.rows import rows_from_arrays
from squeak.core.sources import Cursor, RowSource
from squeak.online.base import OnlineEstimator
from squeak.online.files import estimator_from, parts_of

CURVES = ("losses", "surrogate", "points")


@dataclass(frozen=True)
class OnlineState:
    """A learner taken apart at the end of a block, and what its rows have cost up to there."""

    arrays: dict[str, Any]
    content: dict[str, Any]
    curves: tuple[Any, ...]
    preprocessing: Any
    head: Any


class OnlineRun:
    """A pass of test-then-train, as :class:`squeak.samplers.checkpoint.Run` keeps it.

    Parameters
    ----------
    model : OnlineEstimator
        As it is before the first row of the pass.
    learn : function of (run, blocks)
        Learns from the blocks and fills the run's curves.
    """

    kind = OnlineEstimator.kind

    def __init__(self, model: Any, learn: Any) -> None:
        self.model, self._learn = model, learn
        self.losses: list[Any] = []
        self.surrogate: list[Any] = []
        self.points: list[Any] = []
        self.run_name = type(model).__name__ + _learned(model)

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """Return the learner's parameters: what two passes are compared by."""
        params: dict[str, Any] = self.model.get_params(deep=False)
        return params

    def _as_source(self, X: Any) -> RowSource:
        if not isinstance(X, RowSource):
            raise ValueError("checkpoint is for a row source: pass squeak.rows(X, y)")
        return X

    def _read(self, X: Any, state: Any, *, start: Any = None, keeper: Any = None, past: Any = None) -> None:
        if state is not None:
            self._restore(state, past)
        self._learn(self, X, start, keeper)

    def keep(self, keeper: Any, cursor: Cursor) -> None:
        """Hand the learner as it is now to the keeper."""
        arrays, content = parts_of(self.model)
        arrays = {name: np.array(array) for name, array in arrays.items()}  # the learner goes on in its own
        preprocessing, head = self.model._stream.preprocessing, self.model._head
        state = OnlineState(arrays, copy.deepcopy(content), self.curves(), preprocessing, head)
        keeper.keep(state, [], cursor)

    def curves(self) -> tuple[Any, ...]:
        """Return the losses, the model's own losses, and the points of the curve."""
        return tuple(np.concatenate(getattr(self, name)) for name in CURVES)

    def _restore(self, state: OnlineState, history: Any) -> None:
        found = estimator_from(state.arrays, state.content, self.model.kernel)
        self.model.__dict__.update(found.__dict__)
        for name, curve in zip(CURVES, state.curves, strict=True):
            setattr(self, name, [curve])

    def _parts_at(self, state: OnlineState, history: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        curves = {f"curve_{name}": curve for name, curve in zip(CURVES, state.curves, strict=True)}
        return {**state.arrays, **curves}, {**state.content, "sampler": self.run_name}

    @staticmethod
    def _state_from(arrays: dict[str, Any], content: dict[str, Any], kernel: Any) -> tuple[OnlineState, list[Any]]:
        curves = tuple(np.array(arrays[f"curve_{name}"]) for name in CURVES)
        n = len(curves[0])
        if curves[0].shape != (n,) or curves[1].shape != (n,) or curves[2].shape[1:] != (4,) or not n:
            raise ValueError("its losses are damaged")
        model = estimator_from(arrays, content, kernel)
        head = rows_from_arrays(arrays, "head_")
        return OnlineState(arrays, content, curves, model._stream.preprocessing, head), []


def _learned(model: Any) -> str:
    """Return words for what a learner has learned before; none where that is nothing."""
    if not model.__sklearn_is_fitted__():
        return ""
    arrays, content = parts_of(model)
    found = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name in sorted(arrays):
        found.update(np.ascontiguousarray(arrays[name]).tobytes())
    return f" that had learned {model.n_seen_:,} rows, {found.hexdigest()[:16]}"
