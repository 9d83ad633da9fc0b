"""The normal equations of ridge regression on Nyström features, summed over rows in one pass.

With features z(x) = Mᵀ k(x), k(x) = k(atoms, x) and Mᵀ K_MM M = I (core/nystrom), ridge regression is

    (Σ w z zᵀ + alpha·I) β = Σ w z yᵀ,     f(x) = z(x)ᵀ β = k(x)ᵀ (M β).

To form z for every row costs a product of its own. Σ k kᵀ costs one kernel pass and one symmetric product, and
Mᵀ(Σ k kᵀ)M a product of size m; but its rounding, eps·‖Σ k kᵀ‖, is magnified by ‖M‖² = 1/λ_min(K_MM). Nearly all of
‖Σ k kᵀ‖ lies in a few directions: with U the first eigenvectors of K_MM, k = k' + U c, c = Uᵀk, the sums of
k'k'ᵀ, k'cᵀ and ccᵀ are kept apart, and what is left to magnify is eps·(n/m)·λ², λ the last of theirs. Whether
that is well below alpha is known before the pass (:func:`leading_directions`); if it is not, features are formed
for every row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky

from squeak.core import engine
from squeak.core.kernels import against, block
from squeak.core.nystrom import Features
from squeak.core.rows import n_rows, take
from squeak.core.types import Array, Rows
from squeak.learners.tiles import sum_tiles
from squeak.trees.sums import Arrays

FEW = 256
"""Rows whose kernel values are computed and projected before the next ones are: they stay in the cache."""

UNKNOWN = 10**9
"""Rows of a source that does not say how many it has."""

ROUNDING = 1e-3
"""The part of alpha that rounding may reach."""

LEADING = (128, 64, 32)
"""One direction in so many is kept apart, the fewest that do: a fifth more work at most."""

SMALL = 2e10
"""Below so many products, n·m², features are formed for every row: it takes less than a second."""

SMALLEST_SQUARE = 1e-290
"""A sum of squares below has lost its digits, or vanished."""


def shifted_factor(S: Array, alpha: float) -> Array:
    """Return the lower Cholesky factor of S + alpha·I, or say that alpha is lost in rounding."""
    A = S.copy()
    A[np.diag_indices_from(A)] += alpha
    try:
        return np.asarray(cholesky(A, lower=True, overwrite_a=True, check_finite=False))
    except np.linalg.LinAlgError:
        raise ValueError(
            f"alpha {alpha:.3g} is lost in rounding beside eigenvalues of {np.linalg.norm(S, 2):.3g}: "
            "use a larger alpha"
        ) from None


def residual_sum(square: Array, moment: Array, beta: Array, alpha: float) -> Array:
    """Return Σ w (y − f)² for every output, where (Σ w z zᵀ + alpha·I) β = Σ w z y, from sums alone.

    What is no more than rounding counts as nothing; it is not a number where squares are too large for one.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = square - np.einsum("ij,ij->j", beta, moment + alpha * beta)
        rounding = float(np.finfo(np.float64).eps) * len(beta) * square
        return np.asarray(np.where(found <= rounding, 0.0, found) + 0.0 * square)


def leading_directions(features: Features, n: float, alpha: float) -> Array | None:
    """Return the first eigenvectors of K_MM if sums of k may be taken with them apart, None if rounding forbids it.

    It is allowed if eps·(n/m)·λ²·‖M‖² ≤ alpha/1000, λ the last of the eigenvalues kept apart.
    """
    from scipy.sparse.linalg import eigsh

    m = len(features.mixing)
    if n * m * m <= SMALL or m < 2 * LEADING[-1]:
        return None
    K = block(features.kernel, features.atoms, features.atoms)
    start = np.random.default_rng(0).random(m)
    values, vectors = eigsh(K, k=m // LEADING[-1], v0=start)
    values, vectors = values[::-1], vectors[:, ::-1]
    magnified = float(np.finfo(np.float64).eps) * n / m * _norm(features.mixing) ** 2
    for part in LEADING:
        count = max(1, m // part)
        if magnified * float(values[count - 1]) ** 2 <= ROUNDING * alpha:
            return np.ascontiguousarray(vectors[:, :count])
    return None


def _norm(A: Array) -> float:
    """Return the largest singular value, by power iteration; from below, and near enough."""
    v: Any = np.random.default_rng(0).random(A.shape[1])
    size = 1.0
    for _ in range(30):
        v = A.T @ (A @ v)
        size = float(np.linalg.norm(v))
        v = v / size
    return float(np.sqrt(size))


@dataclass(frozen=True)
class NormalTerm:
    """Sums over rows for :class:`NormalEquations`.

    Without ``leading`` directions Σ w z zᵀ, Σ w z yᵀ and Σ w z; with them U those of [k', c], k = k' + U c. Then
    Σ w y² and Σ w y for every output, Σ w and the number of rows.
    """

    features: Features
    leading: Array | None = None

    def __call__(self, X: Rows, pair: tuple[Any, Any]) -> Arrays:
        """Return the sums over a block, in tiles on the threads."""
        y, weight = pair
        targets = y.reshape(len(y), -1)
        U, outputs = self.leading, targets.shape[1]
        m = self.features.rank if U is None else len(U)
        r = 0 if U is None else U.shape[1]
        values_of = against(self.features.kernel, self.features.atoms)

        def zero() -> Arrays:
            G, cross, top = np.zeros((m, m)), np.zeros((m, r)), np.zeros((r, r))
            b, first, square = np.zeros((m, outputs)), np.zeros((r, outputs)), np.zeros(outputs)
            return G, cross, top, b, first, np.zeros(m), np.zeros(r), square, np.zeros(outputs)

        def add(sums: Arrays, tile: slice) -> None:
            G, cross, top, b, first, rows, firsts, square, total = sums
            t = targets[tile]
            root = None if weight is None else np.sqrt(weight[tile])[:, None]
            t = t if root is None else t * root
            ones = np.ones(len(t)) if root is None else root[:, 0]
            u, c = self._columns(values_of, take(X, tile), root)
            sides = np.hstack([c, t, ones[:, None]])  # one product with u for all of them: it is read once
            beside = sides.T @ u
            cross += beside[:r].T
            b += beside[r:-1].T
            rows += beside[-1]
            if U is not None:
                among = c.T @ sides
                top += among[:, :r]
                first += among[:, r:-1]
                firsts += among[:, -1]
            G += u.T @ u
            square += np.einsum("ij,ij->j", t, t)
            total += ones @ t

        sums = sum_tiles(X, len(self.features.mixing), m, zero, add)
        size = float(n_rows(X)) if weight is None else float(weight.sum())
        return (*sums, np.array(size), np.array(float(n_rows(X))))

    def _columns(self, values_of: Callable[[Rows], Array], X: Rows, root: Array | None) -> tuple[Array, Array]:
        """Return z (or k' and c) for the rows of a tile, a few rows at a time so that they stay in the cache."""
        U, mixing = self.leading, self.features.mixing
        n, r = n_rows(X), 0 if U is None else U.shape[1]
        u, c = np.empty((n, mixing.shape[1] if U is None else len(mixing))), np.empty((n, r))
        for few in engine.tiles(n, FEW):
            values = values_of(take(X, few))
            if root is not None:
                values = values * root[few]  # not in place: they may be kept for other passes
            if U is None:
                np.matmul(values, mixing, out=u[few])
            else:
                np.matmul(values, U, out=c[few])
                np.subtract(values, c[few] @ U.T, out=u[few])
        return u, c


@dataclass(frozen=True)
class NormalEquations:
    """Σ w z zᵀ and Σ w z yᵀ in the coordinates of some features, with what goodness of fit and a mean need."""

    features: Features
    gram: Array
    moment: Array
    square: Array
    weight: float
    n: int
    rows: Array | None = None
    """Σ w z; None where the equations come from a file that does not have it."""
    total: Array | None = None
    """Σ w y."""

    @classmethod
    def of(cls, term: NormalTerm, sums: Arrays) -> NormalEquations:
        """Return the equations from the sums of a :class:`NormalTerm`."""
        G, cross, top, b, first, rows, firsts, square, total, weight, n = sums
        if term.leading is not None:
            U, mixing = term.leading, term.features.mixing
            with engine.single_blas():
                beside, turned = mixing.T @ cross, mixing.T @ U
                G = mixing.T @ G @ mixing + beside @ turned.T + turned @ beside.T + turned @ top @ turned.T
                b, rows = mixing.T @ b + turned @ first, mixing.T @ rows + turned @ firsts
        return cls(term.features, (G + G.T) / 2, b, square, float(weight), int(n), rows, total)

    @classmethod
    def sum(cls, data: Any, features: Features, alpha: float | None = None) -> NormalEquations:
        """Return the equations of all rows, in one pass; with an alpha, in the cheapest way that is safe for it."""
        leading = None
        if alpha is not None:
            leading = leading_directions(features, data.heaviest * (data.n_at_most or UNKNOWN), alpha)
        term = NormalTerm(features, leading)
        return cls.of(term, data.sum(term))

    def plus(self, other: NormalEquations) -> NormalEquations:
        """Return the equations of both sets of rows; the features must be the same."""
        return NormalEquations(
            self.features,
            self.gram + other.gram,
            self.moment + other.moment,
            self.square + other.square,
            self.weight + other.weight,
            self.n + other.n,
            None if self.rows is None or other.rows is None else self.rows + other.rows,
            None if self.total is None or other.total is None else self.total + other.total,
        )

    def centred(self) -> tuple[NormalEquations, Array]:
        """Return the equations of the targets less their weighted mean, and that mean: no pass of its own.

        Σ w z (y − ȳ) = Σ w z y − ȳ·Σ w z. A mean that is large beside the targets' spread would cancel; targets
        are taken less some number near it before they are summed.
        """
        if self.rows is None or self.total is None:
            raise ValueError("these sums do not hold the mean of the targets: learn anew")
        mean = self.total / self.weight
        square = np.maximum(self.square - self.weight * mean**2, 0.0)
        moment = self.moment - np.outer(self.rows, mean)
        return replace(self, moment=moment, square=square, total=np.zeros_like(mean)), mean

    def moved_to(self, features: Features) -> NormalEquations:
        """Return the equations with every row replaced by its projection on the span of other atoms.

        T = M_newᵀ K(new, old) M_old, G ← T G Tᵀ, b ← T b. What a row loses is its distance from the new span,
        which the dictionary's ε and ridge bound.
        """
        cross = block(features.kernel, features.atoms, self.features.atoms)
        with engine.single_blas():
            T = features.mixing.T @ cross @ self.features.mixing
            gram, moment = T @ self.gram @ T.T, T @ self.moment
            rows = None if self.rows is None else T @ self.rows
        return replace(self, features=features, gram=(gram + gram.T) / 2, moment=moment, rows=rows)

    def solve(self, alpha: float) -> Array:
        """Return β, by one Cholesky factor."""
        return np.asarray(cho_solve((shifted_factor(self.gram, alpha), True), self.moment))

    def residual(self, beta: Array, alpha: float) -> Array:
        """Return Σ w (y − f)² = Σ w y² − βᵀ(Σ w z y + alpha·β) for every output, at the solution for an alpha.

        What is no more than rounding counts as nothing.
        """
        return residual_sum(self.square, self.moment, beta, alpha)

    def half(self) -> NormalEquations:
        """Return the equations of the first half of the features: on the span of the atoms that came first."""
        first = max(1, len(self.gram) // 2)
        return replace(self, gram=self.gram[:first, :first], moment=self.moment[:first], rows=None)

    def spectrum(self) -> Spectrum:
        """Return the eigenvalues and eigenvectors of Σ w z zᵀ, from which any alpha is cheap."""
        vanished = (self.square < SMALLEST_SQUARE) & self.moment.any(axis=0)
        if vanished.any() or not np.isfinite(self.square).all():
            raise ValueError("the squares of the targets are too large or too small for float64: scale the targets")
        with engine.single_blas():
            values, vectors = np.linalg.eigh(self.gram)  # scipy's would hold the interpreter lock
        values = np.maximum(values, 0.0)
        return Spectrum(values, vectors, vectors.T @ self.moment, self.square, self.weight, self.n)


@dataclass(frozen=True)
class Spectrum:
    """Σ w z zᵀ = V Λ Vᵀ and Vᵀ Σ w z yᵀ: the whole path of alpha for one factorisation."""

    values: Array
    vectors: Array
    moment: Array
    square: Array
    weight: float
    n: int

    def solve(self, alpha: float) -> Array:
        """Return β at an alpha."""
        return np.asarray(self.vectors @ (self.moment / (self.values + alpha)[:, None]))

    def freedom(self, alpha: float) -> float:
        """Return the degrees of freedom, Σ λ/(λ + alpha)."""
        return float(np.sum(self.values / (self.values + alpha)))

    def residual(self, alpha: float) -> Array:
        """Return Σ w (y − f)² for every output, from the sums alone.

        What no alpha explains, Σ w y² − Σ m²/λ, is apart from the rest, Σ (m²/λ)·(alpha/(λ + alpha))²: all that
        rounding can do is then the same for every alpha, and what is no more than rounding counts as nothing.
        """
        eps = float(np.finfo(np.float64).eps) * len(self.values)
        seen = self.values > eps * self.values.max(initial=0.0)
        explained = self.moment[seen] ** 2 / self.values[seen, None]
        outside = self.square - explained.sum(axis=0)
        inside = np.square(alpha / (self.values[seen] + alpha)) @ explained
        return np.asarray(np.where(outside > eps * self.square, outside, 0.0) + inside)

    def gcv(self, alpha: float) -> float:
        """Return the generalised cross-validation error, mean squared residual/(1 − freedom/n)²."""
        left = max(1.0 - self.freedom(alpha) / max(self.n, 1), 1e-12)
        return float(np.sum(self.residual(alpha)) / self.weight / left**2)
