"""FALKON: ridge regression on a dictionary by conjugate gradients, a few passes over the rows.

With features z(x) = Mᵀ k(atoms, x) the system is (Σ w z zᵀ + alpha·I) β = Σ w z yᵀ. The dictionary's own estimate
of its left side, R Rᵀ = Σ_j c_j z_j z_jᵀ + alpha·I over the atoms with c_j = 1/π_j, is the preconditioner: the
closer the dictionary, the fewer iterations, whatever the condition of K.

The papers write T = chol(K_MM + jitter·I) and B = n^(−½) T⁻¹ R⁻¹. Here T is the pivoted factor of K_MM that ends
where pivots drown in rounding: M = T⁻¹ on its span, so that repeated or dependent centres need no jitter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import eigh_tridiagonal, solve_triangular

from squeak.core import engine
from squeak.core.kernels import against, block
from squeak.core.nystrom import Features
from squeak.core.rows import take
from squeak.core.types import Array, Rows
from squeak.learners.normal import shifted_factor
from squeak.learners.tiles import few_rows, in_precision_of, power_of_two, sum_tiles, tiles_of
from squeak.trees.sums import Arrays

REPLACE = 20
"""Every so many iterations the residual is computed anew, so that rounding does not add up."""

DRIFT = 10.0
"""A residual that has grown by so much over the least before is no longer on its way down."""

STALLED = 8
"""Iterations without a smaller residual after which none is to be had."""

CONDITION_WARNING = 50.0
SKETCH_SIGNS = 8
"""Non-zero entries of a row's column in KRILL's sketch."""


@dataclass(frozen=True)
class ProductTerm:
    """Σ w z (zᵀ v + t): one conjugate-gradient step over a block of rows, nothing of size n kept."""

    features: Features
    vector: Array | None
    targets: bool = False

    def __call__(self, X: Rows, pair: tuple[Any, Any]) -> Arrays:
        """Return the sum over a block, in tiles on the threads."""
        y, weight = pair
        mixing = self.features.mixing
        inner = None if self.vector is None else mixing @ self.vector
        outputs = 1 if y is None else y.reshape(len(y), -1).shape[1]
        columns = outputs if inner is None else inner.shape[1]

        def add(sums: Arrays, tile: slice) -> None:
            values = block(self.features.kernel, take(X, tile), self.features.atoms)
            right = np.zeros((len(values), columns)) if inner is None else in_precision_of(values, inner)
            if self.targets:
                right += y[tile].reshape(len(values), -1)
            if weight is not None:
                right *= weight[tile][:, None]
            sums[0][:] += in_precision_of(values.T, right)

        (total,) = sum_tiles(X, len(mixing), 1, lambda: (np.zeros((len(mixing), columns)),), add)
        return (mixing.T @ total,)


@dataclass(frozen=True)
class RightTerm:
    """Σ w z yᵀ, the right side of the system; with Σ w y² for every output, and Σ w."""

    features: Features

    def __call__(self, X: Rows, pair: tuple[Any, Any]) -> Arrays:
        """Return the sums over a block."""
        y, weight = pair
        targets, w = y.reshape(len(y), -1), np.ones(len(y)) if weight is None else weight
        with np.errstate(over="ignore"):
            square = w @ np.square(targets, dtype=np.float64)
        return (*ProductTerm(self.features, None, targets=True)(X, pair), square, np.array(float(w.sum())))


@dataclass(frozen=True)
class ResidualTerm:
    """Σ w z (y − f)ᵀ and Σ w (y − f)² at some coefficients of the atoms."""

    features: Features
    coef: Array
    dtype: Any = np.float64
    """The precision in which values are multiplied."""

    def __call__(self, X: Rows, pair: tuple[Any, Any]) -> Arrays:
        """Return the sums over a block, in tiles on the threads."""
        y, weight = pair
        m, outputs = self.coef.shape
        values_of, few = against(self.features.kernel, self.features.atoms), getattr(X, "tile", None) or few_rows(m)

        def add(sums: Arrays, tile: slice) -> None:
            for start in range(tile.start, tile.stop, few):
                some = slice(start, min(start + few, tile.stop))
                values = np.asarray(values_of(take(X, some)), dtype=self.dtype)
                missed = y[some].reshape(len(values), -1) - in_precision_of(values, self.coef)
                weighted = missed if weight is None else weight[some][:, None] * missed
                sums[0][:] += in_precision_of(values.T, weighted)
                sums[1][:] += np.einsum("ij,ij->j", weighted, missed)

        total, square = sum_tiles(X, m, 1, lambda: (np.zeros((m, outputs)), np.zeros(outputs)), add)
        return self.features.mixing.T @ total, square


@dataclass(frozen=True)
class SketchTerm:
    """Φ Z of KRILL: rows of features added with random signs into a few buckets each."""

    features: Features
    buckets: int
    seed: int

    def __call__(self, X: Rows, pair: tuple[Any, Any]) -> Arrays:
        """Return the sketch of a block; the signs of a tile depend on its first row, not on its place."""
        import scipy.sparse as sp

        weight, m = pair[1], len(self.features.mixing)

        def add(sums: Arrays, tile: slice) -> None:
            values = block(self.features.kernel, take(X, tile), self.features.atoms)
            if weight is not None:
                values = values * np.sqrt(weight[tile])[:, None]
            seed = int(np.abs(values[0]).sum() * 2**40) % 2**63
            rng = np.random.default_rng([self.seed, seed])
            rows = rng.integers(self.buckets, size=(len(values), SKETCH_SIGNS))
            signs = rng.choice([-1.0, 1.0], size=rows.shape) / np.sqrt(SKETCH_SIGNS)
            where = np.repeat(np.arange(len(values)), SKETCH_SIGNS)
            shape = (self.buckets, len(values))
            sums[0][:] += sp.csr_array((signs.ravel(), (rows.ravel(), where)), shape=shape) @ values

        (total,) = sum_tiles(X, m, self.buckets, lambda: (np.zeros((self.buckets, m)),), add)
        return (total @ self.features.mixing,)


@dataclass(frozen=True)
class VoronoiTerm:
    """How many rows have each atom as their nearest, in the kernel: weights for centres that carry none."""

    features: Features

    def __call__(self, X: Rows, pair: tuple[Any, Any]) -> Arrays:
        """Return the (weighted) counts of a block."""
        _, weight = pair
        m = len(self.features.mixing)

        def count(tile: slice) -> Array:
            nearest = block(self.features.kernel, take(X, tile), self.features.atoms).argmax(axis=1)
            return np.bincount(nearest, None if weight is None else weight[tile], minlength=m).astype(np.float64)

        return (np.sum(engine.map_ordered(count, tiles_of(X, m)), axis=0),)


@dataclass(frozen=True)
class Preconditioner:
    """R with R Rᵀ = S + alpha·I in the coordinates of the features; S does not depend on alpha."""

    S: Array
    factor: Array
    alpha: float

    @classmethod
    def from_gram(cls, S: Array, alpha: float) -> Preconditioner:
        """Return the preconditioner of an estimate S of Σ w z zᵀ."""
        return cls(S, shifted_factor(S, alpha), alpha)

    def at(self, alpha: float) -> Preconditioner:
        """Return the same at another alpha: one Cholesky factor."""
        return self if alpha == self.alpha else Preconditioner.from_gram(self.S, alpha)

    def half(self, v: Array) -> Array:
        """Return R⁻¹ v."""
        return np.asarray(solve_triangular(self.factor, v, lower=True, check_finite=False))

    def back(self, v: Array) -> Array:
        """Return R⁻ᵀ v."""
        return np.asarray(solve_triangular(self.factor, v, lower=True, trans=1, check_finite=False))


def weighted_preconditioner(features: Features, weights: Array, alpha: float) -> Preconditioner:
    """Return the preconditioner from the atoms' own features: S = Σ_j c_j z_j z_jᵀ, FALKON's in the middle form."""
    with engine.single_blas():
        Z = block(features.kernel, features.atoms, features.atoms) @ features.mixing
        Z *= np.sqrt(weights)[:, None]
        return Preconditioner.from_gram(Z.T @ Z, alpha)


def check_weights(d: Any) -> None:
    """Refuse a dictionary whose weights estimate nothing."""
    if not d.calibrated:
        raise ValueError("centres without weights need preconditioner='voronoi' or 'krill', or 'auto'")


def preconditioner(
    data: Any, features: Features, d: Any, alpha: float, kind: str, seed: int, seen: Any = None
) -> Any:
    """Return the preconditioner of a kind: ``"falkon"``, ``"voronoi"`` or ``"krill"``; ``"auto"`` chooses.

    The dictionary's weights where they estimate sums over the rows; else a sketch of the rows (KRILL), which takes
    a pass. ``seen`` are the features of the rows as ``data`` has them, where those are kernel values.
    """
    seen = features if seen is None else seen
    if kind == "auto":
        kind = "falkon" if d.calibrated else "krill"
    if kind == "falkon":
        check_weights(d)
        mean = 1.0 if data.weight is None else float(np.mean(data.weight))
        return weighted_preconditioner(features, d.weights * mean, alpha)
    if kind == "voronoi":
        (counts,) = data.sum(VoronoiTerm(seen))
        return weighted_preconditioner(features, counts, alpha)
    if kind == "krill":
        (sketch,) = data.sum(SketchTerm(seen, 2 * features.rank, seed))
        with engine.single_blas():
            return Preconditioner.from_gram(sketch.T @ sketch, alpha)
    raise ValueError(f"preconditioner must be 'auto', 'falkon', 'voronoi' or 'krill'; it is {kind!r}")


@dataclass
class Solution:
    """What conjugate gradients found: coefficients, iterations, residuals, and the condition number seen."""

    beta: Array
    n_iter: int
    residuals: list[float]
    condition: float
    converged: bool
    left: Array
    """What is left to gain, as a part of each output's objective: as CG's own scalars tell, where it was given."""
    objective: Array | None = None
    """Its value at the end."""
    lowest: float = 1.0
    """The least eigenvalue of the preconditioned system that was seen."""


def conjugate_gradient(
    product: Callable[[Array], Array],
    right: Array,
    P: Preconditioner,
    max_iter: int,
    tol: float,
    start: Array | None = None,
    callback: Callable[[int, Array], bool | None] | None = None,
    square: Array | None = None,
    gain: float = 0.0,
) -> Solution:
    """Solve (Σ w z zᵀ + alpha·I) β = right, in the preconditioned variable γ = Rᵀ β.

    Each output has its own scalars and stops when its residual is ``tol`` of its right-hand side; the residual is
    computed anew every 20 iterations. A callback that returns True stops the iterations.

    With ``square``, the objective J = Σ w (y − f)² + alpha·‖β‖² at β = 0, an output also stops when what is left to
    gain is at most ``gain``·J. A step of length a along a residual r gains a·‖r‖², so J is known at every step;
    what is left is rᵀW⁻¹r ≤ ‖r‖²/θ with θ the least eigenvalue of the preconditioned system W, of which the
    scalars have an estimate. Iterations that gain no more, because products are rounded, end as well.

    Parameters
    ----------
    product : function
        Σ w z (zᵀ v), one pass over the rows.
    right : array of shape (r, p)
    P : Preconditioner
    max_iter : int
    tol : float
        Relative, per output.
    start : array of shape (r, p), optional
        β to begin from.
    callback : function of (iteration, β), optional
    square : array of shape (p,), optional
    gain : float

    References
    ----------
    Rudi, Carratino, Rosasco, "FALKON", NIPS 2017; errata on the theory page. Hestenes, Stiefel, "Methods of
    conjugate gradients for solving linear systems", 1952, for the gain of a step.
    """

    def apply(gamma: Array) -> Array:
        v = P.back(gamma)
        return P.half(product(v) + P.alpha * v)

    if not np.isfinite(right).all():
        raise ValueError("the targets are not finite, or so large that their sums are not: scale them")
    unit = power_of_two(right)
    b = P.half(right / unit)
    size = np.linalg.norm(b, axis=0)
    gamma = np.zeros_like(b) if start is None else P.factor.T @ (start / unit)
    r = b.copy() if start is None else b - apply(gamma)
    p, rs = r.copy(), np.einsum("ij,ij->j", r, r)
    value = None if square is None else square / unit / unit - np.einsum("ij,ij->j", gamma, b + r)
    active = rs > (tol * size) ** 2
    scalars: list[tuple[Array, Array]] = []
    residuals: list[float] = []
    best, least, left = gamma.copy(), rs.copy(), np.full(len(rs), np.nan)
    done = improved = 0
    while done < max_iter and active.any():
        done += 1
        Ap = apply(p)
        curvature = np.einsum("ij,ij->j", p, Ap)
        active &= curvature > 0
        a = np.where(active, rs / np.where(active, curvature, 1.0), 0.0)
        gamma = gamma + p * a
        r = b - apply(gamma) if done % REPLACE == 0 else r - Ap * a
        fresh = np.einsum("ij,ij->j", r, r)
        turn = np.where(active & (rs > 0), fresh / np.where(rs > 0, rs, 1.0), 0.0)
        scalars.append((a, turn))
        p = r + p * turn
        gained, rs = a * rs, fresh
        better = rs < least
        best[:, better], least = gamma[:, better], np.minimum(rs, least)
        residuals.append(float(np.max(np.sqrt(rs) / np.where(size > 0, size, 1.0))))
        active &= np.sqrt(rs) > tol * size
        if value is not None:
            value = value - gained
            left = rs / np.array([_ends(scalars, output)[0] for output in range(len(rs))])
            left = left / np.maximum(value, np.finfo(np.float64).tiny)
            active &= left > gain
            improved = done if better[active].any() else improved
            if done - improved >= STALLED:
                break
        p[:, ~active] = 0.0
        if callback is not None and callback(done, P.back(gamma) * unit):
            break
    drifted = rs > DRIFT**2 * least  # a tolerance below rounding: directions lose their conjugacy and errors grow
    gamma = np.where(drifted, best, gamma)
    ends = [_ends(scalars, output) for output in range(len(rs))]
    condition, lowest = max(high / low for low, high in ends), min(low for low, _ in ends)
    with np.errstate(over="ignore"):
        value = None if value is None else value * unit * unit
    return Solution(P.back(gamma) * unit, done, residuals, condition, not active.any(), left, value, lowest)


def _ends(scalars: list[tuple[Array, Array]], output: int) -> tuple[float, float]:
    """Return the least and the largest eigenvalue of the preconditioned system that CG's own scalars show.

    They are the entries of a tridiagonal matrix whose eigenvalues approach those of the system from inside.
    """
    scalars = scalars[:REPLACE]  # later ones have lost their meaning to rounding
    steps = [(float(a[output]), float(b[output])) for a, b in scalars if a[output] > 0]
    if len(steps) < 2:
        return 1.0, 1.0
    diagonal = [1.0 / steps[0][0]]
    beside = []
    for (a, b), (following, _) in pairwise(steps):
        diagonal.append(1.0 / following + b / a)
        beside.append(np.sqrt(max(b, 0.0)) / a)
    values = eigh_tridiagonal(np.array(diagonal), np.array(beside), eigvals_only=True)
    return (float(values[0]), float(values[-1])) if values[0] > 0 else (1.0, 1.0)
