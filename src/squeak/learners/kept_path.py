"""``alpha="auto"`` by iterations on kept kernel values: one set of values and one preconditioner for every alpha.

All alphas are columns of one system. A pass reads the kernel values once and multiplies them by as many vectors.
The preconditioner of a column is S + alpha_j·I with the same S = Q Λ Qᵀ from drawn rows: one eigendecomposition
serves all, and its eigenvalues give the degrees of freedom Σ λ/(λ + alpha) of generalised cross-validation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import eigh

from squeak.core import engine
from squeak.core.nystrom import Features
from squeak.core.rows import n_rows
from squeak.core.types import Array
from squeak.learners.cached import kept_in_memory
from squeak.learners.data import ArrayTraining
from squeak.learners.falkon import ProductTerm, ResidualTerm, conjugate_gradient
from squeak.learners.rounding import drawn_part, leading_features, outlook
from squeak.learners.sampled import SampledTerm, sample_size
from squeak.learners.tiles import power_of_two

LEFT = 1e-4
"""The part of each alpha's objective that may be left to gain when alphas are compared."""

MOST_PASSES = 30


@dataclass(frozen=True)
class PathPreconditioner:
    """R with R Rᵀ = S + alpha_j·I for every column j, from S = Q Λ Qᵀ: R = Q (Λ + alpha_j)^½."""

    values: Array
    vectors: Array
    alpha: Array
    """Shape (columns,)."""

    def half(self, v: Array) -> Array:
        """Return R⁻¹ v, column by column."""
        return np.asarray((self.vectors.T @ v) / np.sqrt(self.values[:, None] + self.alpha))

    def back(self, v: Array) -> Array:
        """Return R⁻ᵀ v, column by column."""
        return np.asarray(self.vectors @ (v / np.sqrt(self.values[:, None] + self.alpha)))


@dataclass(frozen=True)
class Path:
    """The errors by generalised cross-validation of some alphas, the best of them, and its coefficients."""

    alphas: Array
    errors: Array
    alpha: float
    beta: Array
    unexplained: float
    """The error at the best alpha as a part of the targets' mean square."""
    values: Any
    """Kernel values in memory."""


def kept_path(
    data: ArrayTraining, features: Features, alphas: Array, budget: float | None, seed: int
) -> Path | str:
    """Return the path of alpha, or why float32 cannot serve: the best alpha may lie among those too small for it.

    Parameters
    ----------
    data : ArrayTraining
    features : Features
    alphas : array
        Increasing.
    budget : float, optional
        Bytes of kernel values that are kept.
    seed : int
    """
    y = np.asarray(data.y, dtype=np.float64).reshape(n_rows(data.X), -1)
    unit = power_of_two(y)
    data = replace(data, y=y / unit)
    views, first = {}, len(alphas)
    low = 0
    while low < first:  # alphas that serve are those from some number on
        middle = (low + first) // 2
        views[middle] = outlook(data, features, float(alphas[middle]), seed)
        low, first = (middle + 1, first) if views[middle].reason or views[middle].exactly else (low, middle)
    if first == len(alphas):
        return "no alpha of the grid is large enough for float32"
    used, outputs = leading_features(features, views[first].rank), y.shape[1]
    kept, seen = kept_in_memory(data, used, budget, single=True)
    n, m = kept.X.shape
    some = drawn_part(data, sample_size(n, m), seed, 91)
    gram, moment = (n / n_rows(some.X) * array for array in some.sum(SampledTerm(used)))
    with engine.single_blas():
        values, vectors = eigh(gram, check_finite=False)
    values, tried = np.maximum(values, 0.0), np.repeat(alphas[first:], outputs)
    P: Any = PathPreconditioner(values, vectors, tried)
    beta = P.back(P.half(np.tile(moment, len(alphas) - first)))
    all_targets = replace(kept, y=np.tile(data.y, len(alphas) - first))
    gradient, residual = all_targets.sum(ResidualTerm(seen, used.mixing @ beta, np.float32))
    objective = residual + tried * np.square(beta).sum(axis=0)
    found = conjugate_gradient(
        lambda v: all_targets.sum(ProductTerm(seen, v))[0],
        gradient - tried * beta,
        P,
        MOST_PASSES,
        0.0,
        square=objective,
        gain=LEFT,
    )
    assert found.objective is not None
    beta = beta + found.beta
    residual = np.maximum(found.objective - tried * np.square(beta).sum(axis=0), 0.0) * np.tile(
        unit**2, len(beta.T) // outputs
    )
    weight = float(n) if data.weight is None else float(np.sum(data.weight))
    freedom = np.sum(values[:, None] / (values[:, None] + alphas[first:]), axis=0)
    left = np.maximum(1.0 - freedom / n, 1e-12)
    errors = (residual.reshape(-1, outputs) * unit**2).sum(axis=1) / weight / left**2
    best = int(np.argmin(errors))
    if best == 0 and first > 0:
        return f"alphas below {alphas[first]:.3g} are too small for float32 and may be better"
    square = np.square(y).sum() if data.weight is None else float(np.sum(data.weight @ np.square(y)))
    own = beta[:, best * outputs : (best + 1) * outputs] * unit
    part = float(errors[best]) * weight / (float(square) or np.inf)
    return Path(alphas[first:], errors, float(alphas[first + best]), own, part, kept.X)
