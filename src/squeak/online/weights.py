"""Weights of experts by the fixed-share rule: what mixes learners side by side."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from squeak.core.saved import Layout
from squeak.core.state import number, numbers, whole
from squeak.core.types import Array
from squeak.online.stored import Columns, Stored

ERROR_ROWS = 1000
"""Rows that the mean squared error of a mixture looks back on."""


class SharedWeights(Stored):
    """The weights of experts, for each output; formulas in :mod:`squeak.online.mixture`.

    ``share``: the part of the weight that is shared out after each round. ``bound``: C; None: unknown.
    """

    _state: ClassVar[Layout] = {
        "weights": numbers("experts", "outputs", low=0.0, high=1.0),
        "bound": number(low=0.0),
        "error": number(low=0.0, optional=True),
        "n_seen": whole(),
    }

    def __init__(self, experts: int, n_outputs: int, share: float, bound: float | None) -> None:
        self.n_outputs, self.share = n_outputs, share
        self.grows, self.bound, self.error = bound is None, 0.0 if bound is None else bound, 0.0
        self.weights: Array = np.full((experts, n_outputs), 1.0 / experts)
        self.n_seen = 0

    def weighed(self, said: Array) -> Array:
        """Return the predictions of the mixture for those of the experts, shape (n, experts, outputs)."""
        return np.asarray(np.einsum("io,nio->no", self.weights, said))

    def take_outputs(self, columns: Columns) -> None:
        """Take other outputs; for a new one all experts count the same."""
        even = np.full(len(self.weights), 1.0 / len(self.weights))
        self.weights = np.column_stack([even if came is None else self.weights[:, came[0]] for came in columns])
        self.n_outputs = len(columns)

    def _clipped(self, said: Array) -> Array:
        """Return what experts say within the bound, where one is given."""
        return said if self.grows else np.minimum(np.maximum(said, -self.bound), self.bound)

    def learn_rounds(self, said: Array, targets: Array, judged: Array | None = None) -> Array:
        """Return the predictions of the mixture, shape (n, outputs); after each the weights learn from its target.

        ``said``: what the experts say, shape (n, experts, outputs). ``judged``: what losses are taken of, where
        that is something else.
        """
        judged = said if judged is None else judged
        if self.grows:
            rounds = zip(said, targets, judged, strict=True)
            return np.array([self.learn_round(*one) for one in rounds]).reshape(targets.shape)
        likely = _likely((judged - targets[:, None]) / (math.sqrt(8.0) * self.bound))
        weights, before = self.weights, np.empty(said.shape)
        for i in range(len(said)):
            before[i] = weights
            weights = self._shared(weights * likely[i])
        self.weights = weights
        self.n_seen += len(said)
        return np.asarray((before * said).sum(axis=1))

    def learn_round(self, said: Array, target: Array, judged: Array | None = None) -> Array:
        """Return the prediction of one row, shape (outputs,), and learn, as :meth:`learn_rounds` does."""
        prediction: Array = (self.weights * said).sum(axis=0)
        unit = math.sqrt(8.0) * self.bound
        if self.grows:
            self._see(np.abs(prediction - target).max(), self.n_seen)
            unit = math.sqrt(20.0) * self.error
        if unit > 0.0:
            self.weights = self._shared(
                self.weights * _likely(((said if judged is None else judged) - target) / unit)
            )
        self.n_seen += 1
        return prediction

    def _shared(self, kept: Array) -> Array:
        """Return weights with a sum of 1, a part of which is shared out."""
        return np.asarray(kept * ((1.0 - self.share) / kept.sum(axis=0)) + self.share / len(kept))

    def _see(self, error: float, rounds: int) -> None:
        """Take an error into the root of the mean square, so that targets of any size are learned alike."""
        part = 1.0 / (min(rounds, ERROR_ROWS) + 1)
        self.error = math.hypot(math.sqrt(1.0 - part) * self.error, math.sqrt(part) * float(error))

    def _sizes(self) -> dict[str, int]:
        return {"experts": self.weights.shape[0], "outputs": self.weights.shape[1]}

    def _take(self, found: dict[str, Any]) -> None:
        if not np.allclose(found["weights"].sum(axis=0), 1.0):
            raise ValueError("the weights of the experts do not fit")
        if found["error"] is None:  # older versions went by the largest target
            found["error"] = math.sqrt(0.4) * found["bound"]
        super()._take(found)


def _likely(away: Array) -> Array:
    """Return exp(−loss) of every expert, beside that of the best one; the experts are the last axis but one."""
    losses = away**2
    return np.asarray(np.exp(losses.min(axis=-2, keepdims=True) - losses))
