"""Experts of a mixture beside the kernel learners: a linear one, and the target of the row before."""

from __future__ import annotations

from copy import copy
from typing import ClassVar

import numpy as np

from squeak.core import engine
from squeak.core.rows import n_rows, take
from squeak.core.saved import Layout
from squeak.core.state import numbers, whole
from squeak.core.types import Array, Rows
from squeak.online.learner import BLOCK, NewtonPlan
from squeak.online.losses import LogisticLoss
from squeak.online.stored import Columns, Stored, rearranged

LARGEST_VALUE = 1e3
"""To the linear expert, larger values of a column are this one; those of scaled columns never are."""


class PreviousTarget(Stored):
    """Predicts the target of the row before; 0 at first."""

    _state: ClassVar[Layout] = {"last": numbers("outputs"), "n_seen": whole()}

    def __init__(self, n_outputs: int) -> None:
        self.last: Array = np.zeros(n_outputs)
        self.n_heads, self.n_seen = n_outputs, 0

    facts: ClassVar[dict[str, int]] = {"atoms": 0, "coordinates": 0, "growths": 0}

    def copy(self) -> PreviousTarget:
        """Return one of its own in the same state."""
        return copy(self)

    def with_outputs(self, columns: Columns) -> PreviousTarget:
        """Return one with other outputs."""
        other = PreviousTarget(len(columns))
        other.last, other.n_seen = rearranged(self.last[None], columns)[0], self.n_seen
        return other

    def scores(self, X: Rows) -> Array:
        """Return the predictions of rows, shape (n, outputs)."""
        return np.tile(self.last, (n_rows(X), 1))

    def score_row(self, x: Rows) -> list[float]:
        """Return the predictions of one row."""
        return list(self.last.tolist())

    def learn(self, X: Rows, targets: Array) -> Array:
        """Predict each row, then learn from it; returns the predictions."""
        said = np.vstack([self.last, targets[:-1]])
        self.last, self.n_seen = targets[-1].copy(), self.n_seen + len(targets)
        return said

    def learn_row(self, x: Rows, targets: list[float]) -> list[float]:
        """Predict one row, then learn from it."""
        said, self.last = self.last.tolist(), np.array(targets)
        self.n_seen += 1
        return list(said)

    def _sizes(self) -> dict[str, int]:
        return {"outputs": len(self.last)}


class LinearLearner(Stored):
    """Newton heads on the columns themselves and a constant; a head for every half-life and output.

    With the squared loss and a half-life h this is ridge regression in which a row of i rounds ago counts
    2^(−i/h), with predictions clipped to the bound. With the logistic loss a score z is told as tanh(z/2) = 2p − 1,
    the mean of the label, for experts are compared by their squared errors. A row takes a time of order columns².

    ``plan``: as that of the kernel learners. ``width``: the number of columns.
    """

    _state: ClassVar[Layout] = {"n_seen": whole()}
    _inner: ClassVar[tuple[str, str]] = ("heads", "head{}_")

    facts: ClassVar[dict[str, int]] = {"atoms": 0, "coordinates": 0, "growths": 0}

    def __init__(self, plan: NewtonPlan, width: int, n_outputs: int) -> None:
        self.plan, self.width, self.n_outputs, self.n_seen = plan, width, n_outputs, 0
        self.heads = plan.heads(n_outputs)
        for head in self.heads:
            head.extend(width + 1)

    @property
    def told_as_means(self) -> bool:
        """Whether scores are logarithms of odds, which are told as the means of ±1."""
        return isinstance(self.plan.rule.loss, LogisticLoss)

    @property
    def n_heads(self) -> int:
        """How many predictions a row has."""
        return len(self.heads)

    def copy(self) -> LinearLearner:
        """Return a learner of its own in the same state."""
        other = copy(self)
        other.heads = [head.copy() for head in self.heads]
        return other

    def with_outputs(self, columns: Columns) -> LinearLearner:
        """Return a learner with other outputs; a new one has learned that a row of zeros is not of its class."""
        other = LinearLearner(self.plan, self.width, len(columns))
        other.n_seen = self.n_seen
        zeros = np.eye(1, self.width + 1, self.width)
        for i, head in enumerate(other.heads):
            spell, column = divmod(i, len(columns))
            came = columns[column]
            if came is None:
                head.learn_block(zeros, np.full(1, -1.0))
            else:
                other.heads[i] = self.heads[spell * self.n_outputs + came[0]].turned(came[1])
        return other

    def scores(self, X: Rows) -> Array:
        """Return the predictions of rows, shape (n, half-lives·outputs)."""
        features = self._features(X)
        return self._told(np.column_stack([head.scores(features) for head in self.heads]))

    def score_row(self, x: Rows) -> list[float]:
        """Return the predictions of one row."""
        phi = self._features(x)[0]
        return self._told_of([head.score_row(phi) for head in self.heads])

    def gradient_squares(self, X: Rows, shares: Array) -> Array:
        """Return the mean of (∂f/∂x_j)² over rows for each column, summed over heads by their ``shares``."""
        slopes = np.column_stack([head.weights[:-1] for head in self.heads])
        steep = (0.5 * (1.0 - self.scores(X) ** 2)) ** 2 if self.told_as_means else np.ones((1, self.n_heads))
        return np.asarray(slopes**2 @ (shares * steep.mean(axis=0)))

    def learn(self, X: Rows, targets: Array) -> Array:
        """Predict each row, then learn from it; returns the predictions, shape (n, half-lives·outputs)."""
        features, said = self._features(X), np.empty((n_rows(X), self.n_heads))
        for tile in engine.even_tiles(n_rows(X), BLOCK):
            part = take(features, tile)
            for column, head in enumerate(self.heads):
                said[tile, column] = head.learn_block(part, targets[tile, column % self.n_outputs])
        self.n_seen += n_rows(X)
        return self._told(said)

    def learn_row(self, x: Rows, targets: list[float]) -> list[float]:
        """Predict one row, then learn from it."""
        phi, self.n_seen = self._features(x)[0], self.n_seen + 1
        pairs = zip(self.heads, targets * len(self.plan.half_lives), strict=True)
        return self._told_of([head.learn_row(phi, y) for head, y in pairs])

    def _told(self, said: Array) -> Array:
        """Return what is told of scores."""
        return np.asarray(np.tanh(0.5 * said)) if self.told_as_means else said

    def _told_of(self, said: list[float]) -> list[float]:
        """Return the same of one row."""
        return list(self._told(np.array(said)).tolist()) if self.told_as_means else said

    def _features(self, X: Rows) -> Array:
        """Return the columns and a constant, shape (n, width + 1)."""
        found = np.empty((n_rows(X), self.width + 1))
        found[:, -1], columns = 1.0, found[:, :-1]
        np.minimum(np.maximum(X, -LARGEST_VALUE, out=columns), LARGEST_VALUE, out=columns)
        return found

    def _inner_sizes(self) -> dict[str, int]:
        return {"size": self.width + 1}
