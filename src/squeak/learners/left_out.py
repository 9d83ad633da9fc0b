"""What a fit says of its own errors, computed when first asked for: the noise, and scores of rows left out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core.nystrom import Features
from squeak.core.rows import n_rows, take
from squeak.core.state import LARGEST
from squeak.core.types import Array, IntArray, Rows
from squeak.learners import intervals
from squeak.learners.drawn import Drawn

DERIVED = ("inverse", "noise", "scores", "values")
"""What is computed when it is first asked for, and anew in another process."""


@dataclass(frozen=True)
class Sample:
    """Rows of a fit with targets as numbers, and their weights in the fit."""

    X: Rows
    y: Array
    """Shape (k, outputs)."""
    weight: Array | None = None

    def of_some(self, rows: IntArray) -> Sample:
        """Return some of the rows, by their places."""
        return Sample(take(self.X, rows), self.y[rows], None if self.weight is None else self.weight[rows])


@dataclass
class LeftOut:
    """A fit, and what is known of its errors; what is not asked for is not computed.

    After a file was read, noise and scores are those that it holds.
    """

    features: Features
    gram: Array
    alpha: float
    coef: Array
    """Shape (m, outputs)."""
    intercept: Array
    residual: Array | None = None
    """Σ w (y − f)² for every output, where it is known."""
    weight: float | None = None
    """Σ w, where it is known."""
    known_noise: Array | None = None
    """σ̂, where a file has it."""
    sample: Sample | None = None
    before: tuple[Array, Array | None] | None = None
    """Scores, with weights, of rows that are no longer at hand."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in DERIVED}

    @cached_property
    def inverse(self) -> Array:
        """L⁻¹ with L Lᵀ = Σ w z zᵀ + alpha·I."""
        return intervals.inverse_factor(self.gram, self.alpha)

    @cached_property
    def noise(self) -> Array | None:
        """σ̂ for every output, in units of the targets; None where the sums are not known, or no numbers."""
        if self.residual is None or not np.isfinite(self.residual).all():
            return self.known_noise
        return np.asarray(np.sqrt(np.maximum(self.residual, 0.0) / self._left_over()))

    def _left_over(self) -> float:
        assert self.weight is not None
        return intervals.left_over(self.inverse, self.alpha, self.weight)

    def residual_sum(self) -> Array | None:
        """Return Σ w (y − f)², from the noise where a file has only that; None where neither is known."""
        if self.residual is not None or self.known_noise is None:
            return self.residual
        return np.asarray(np.square(self.known_noise) * self._left_over())

    def spread(self, X: Rows) -> Array:
        """Return √(1 + s²/alpha) at some rows: by how much more than the noise a target varies there."""
        return np.asarray(np.sqrt(1.0 + self.posterior(X).variance(self.alpha) / self.alpha))

    def posterior(self, X: Rows) -> intervals.Posterior:
        """Return what the fit says at some rows."""
        return intervals.posterior(self.features, self.inverse, self.coef, X)

    @cached_property
    def scores(self) -> Array | None:
        """Leave-one-out residuals in units of the spread, shape (k, outputs), sorted where they have no weights."""
        parts = [] if self.before is None else [self.before[0]]
        if self.sample is not None and n_rows(self.sample.X):
            found = self.posterior(self.sample.X)
            residual = self.sample.y - found.values - self.intercept
            parts.append(intervals.loo_scores(residual, found, self.alpha, self.sample.weight, self._own()))
        if not parts:
            return None
        scores = np.clip(np.concatenate(parts), -LARGEST, LARGEST)
        return np.sort(scores, axis=0) if self.score_weights is None else scores

    @property
    def score_weights(self) -> Array | None:
        """How many rows each score stands for; None: one."""
        parts = []
        if self.before is not None:
            parts.append((len(self.before[0]), self.before[1]))
        if self.sample is not None:
            parts.append((n_rows(self.sample.X), self.sample.weight))
        if all(weight is None for _, weight in parts):
            return None
        return np.concatenate([np.ones(count) if weight is None else weight for count, weight in parts])

    @cached_property
    def values(self) -> Array | None:
        """f₋ᵢ(x_i) at the rows of the sample, shape (k, outputs)."""
        if self.sample is None:
            return None
        found, y = self.posterior(self.sample.X), self.sample.y
        residual = y - found.values - self.intercept
        missed, _ = intervals.left_out(residual, found, self.sample.weight, self._own())
        return np.asarray(y - missed)

    def _own(self) -> intervals.OwnAtoms | None:
        assert self.sample is not None
        rows, atoms = same_as(self.sample.X, self.features.atoms)
        return None if not len(rows) else intervals.OwnAtoms.of(self.features, self.inverse, self.coef, rows, atoms)


def same_as(X: Rows, atoms: Rows) -> tuple[IntArray, IntArray]:
    """Return the places of rows that are atoms, and of these atoms; of rows that are equal the first."""
    if isinstance(X, np.ndarray) != isinstance(atoms, np.ndarray) and not isinstance(X, list):
        X, atoms = sp.csr_array(X), sp.csr_array(atoms)
    places = {key: place for place, key in reversed(list(enumerate(_keys(X))))}
    found = {places.pop(key, -1): atom for atom, key in enumerate(_keys(atoms))}
    found.pop(-1, None)
    return np.array(list(found), dtype=np.int64), np.array(list(found.values()), dtype=np.int64)


def _keys(rows: Rows) -> list[Any]:
    """Return something for every row that equal rows have in common."""
    if isinstance(rows, list):
        return [row if isinstance(row, str | bytes) else repr(row) for row in rows]
    if isinstance(rows, np.ndarray):
        return [row.tobytes() for row in np.ascontiguousarray(rows, dtype=np.float64)]
    data, ends = np.asarray(rows.data, dtype=np.float64), pairwise(rows.indptr)
    columns = rows.indices.astype(np.int64)
    return [(columns[a:b].tobytes(), data[a:b].tobytes()) for a, b in ends]


def sample_of(drawn: Drawn | None) -> Sample | None:
    """Return the rows of a draw, their targets as numbers."""
    if drawn is None or drawn.numbers is None:
        return None
    return Sample(drawn.X, np.asarray(drawn.y, dtype=np.float64).reshape(n_rows(drawn.X), -1), drawn.weight)
