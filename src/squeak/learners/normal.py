"""The normal equations of ridge regression on Nyström features, summed over rows in one pass.

With features z(x) = Mᵀ k(x), k(x) = k(atoms, x) and Mᵀ K_MM M = I (core/nystrom), ridge regression is

    (Σ w z zᵀ + alpha·I) β = Σ w z yᵀ,     f(x) = z(x)ᵀ β = k(x)ᵀ (M β).

Σ k kᵀ costs one kernel pass and one symmetric product, and Mᵀ(Σ k kᵀ)M one product of size m. Rounding in the sum,
eps·‖Σ k kᵀ‖, is then magnified by ‖M‖²; where that could reach alpha, features are formed for every row instead,
at twice the price. Which of the two is known before the pass: :func:`raw_is_safe`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from squeak.core import engine
from squeak.core.kernels import block
from squeak.core.nystrom import TriangularFeatures
from squeak.core.rows import n_rows, take
from squeak.core.sums import Arrays
from squeak.core.types import Array, Rows

TILE = 4096
"""Rows of a tile at most: large, so that the symmetric product is most of the work."""

TILE_BYTES = 32 * 2**20
LANE_BYTES = 192 * 2**20
UNKNOWN = 10**9
"""Rows of a source that does not say how many it has."""

SAFE = 0.01
"""The part of alpha that rounding may reach."""


def tile_rows(m: int) -> int:
    """Return how many rows of m numbers make a tile."""
    return int(np.clip(TILE_BYTES // (8 * max(m, 1)), 256, TILE))


def lanes_for(m: int) -> int:
    """Return how many sums are kept side by side: by the size alone, so that bits do not depend on threads."""
    return int(np.clip(LANE_BYTES // (8 * max(m, 1) ** 2), 2, 16))


def raw_is_safe(features: TriangularFeatures, n: float, alpha: float) -> bool:
    """Tell whether Σ k kᵀ may be summed as it is: eps·‖Σ k kᵀ‖·‖M‖² well below alpha.

    ‖Σ k kᵀ‖ ≤ n·max ‖k‖², which is estimated by the atoms' own columns: n/m·‖K_MM‖²_F.
    """
    K = block(features.kernel, features.atoms, features.atoms)
    largest = n / len(K) * float(np.linalg.norm(K)) ** 2
    spread = float(np.linalg.norm(features.mixing)) ** 2
    return bool(np.finfo(np.float64).eps * largest * spread <= SAFE * alpha)


@dataclass(frozen=True)
class NormalTerm:
    """Σ w u uᵀ, Σ w u yᵀ, Σ w y yᵀ (its diagonal), Σ w and the number of rows; u is k(x), or z(x)."""

    features: TriangularFeatures
    raw: bool

    def __call__(self, X: Rows, pair: tuple[Any, Any]) -> Arrays:
        """Return the sums over a block, in tiles on the threads."""
        y, weight = pair
        targets = y.reshape(len(y), -1)
        m = len(self.features.mixing) if self.raw else self.features.rank
        tiles, lanes = engine.tiles(n_rows(X), tile_rows(len(self.features.mixing))), lanes_for(m)

        def lane(number: int) -> Arrays:
            G, b, square = np.zeros((m, m)), np.zeros((m, targets.shape[1])), np.zeros(targets.shape[1])
            for tile in tiles[number::lanes]:
                u = self._columns(take(X, tile))
                t = targets[tile]
                if weight is not None:
                    root = np.sqrt(weight[tile])[:, None]
                    u, t = u * root, t * root
                G += u.T @ u
                b += u.T @ t
                square += np.einsum("ij,ij->j", t, t)
            return G, b, square

        found = engine.map_ordered(lane, range(min(lanes, len(tiles))))
        G, b, square = found[0]
        for other in found[1:]:
            G += other[0]
            b += other[1]
            square += other[2]
        total = float(n_rows(X)) if weight is None else float(weight.sum())
        return G, b, square, np.array(total), np.array(float(n_rows(X)))

    def _columns(self, X: Rows) -> Array:
        values = block(self.features.kernel, X, self.features.atoms)
        return values if self.raw else values @ self.features.mixing


@dataclass(frozen=True)
class NormalEquations:
    """Σ w z zᵀ and Σ w z yᵀ in the coordinates of some features, with what goodness of fit needs."""

    features: TriangularFeatures
    gram: Array
    moment: Array
    square: Array
    weight: float
    n: int

    @classmethod
    def of(cls, features: TriangularFeatures, sums: Arrays, raw: bool) -> NormalEquations:
        """Return the equations from the sums of a :class:`NormalTerm`."""
        gram, moment, square, weight, n = sums
        if raw:
            mixing = features.mixing
            with engine.single_blas():
                gram, moment = mixing.T @ gram @ mixing, mixing.T @ moment
        return cls(features, (gram + gram.T) / 2, moment, square, float(weight), int(n))

    @classmethod
    def sum(cls, data: Any, features: TriangularFeatures, alpha: float) -> NormalEquations:
        """Return the equations of all rows, in one pass."""
        n = data.n_at_most or UNKNOWN
        scale = 1.0 if data.weight is None else float(np.max(data.weight))
        raw = raw_is_safe(features, n * scale, alpha)
        return cls.of(features, data.sum(NormalTerm(features, raw)), raw)

    def plus(self, other: NormalEquations) -> NormalEquations:
        """Return the equations of both sets of rows; the features must be the same."""
        return NormalEquations(
            self.features,
            self.gram + other.gram,
            self.moment + other.moment,
            self.square + other.square,
            self.weight + other.weight,
            self.n + other.n,
        )

    def moved_to(self, features: TriangularFeatures) -> NormalEquations:
        """Return the equations with every row replaced by its projection on the span of other atoms.

        T = M_newᵀ K(new, old) M_old, G ← T G Tᵀ, b ← T b. What a row loses is its distance from the new span,
        which the dictionary's ε and ridge bound.
        """
        cross = block(features.kernel, features.atoms, self.features.atoms)
        with engine.single_blas():
            T = features.mixing.T @ cross @ self.features.mixing
            gram, moment = T @ self.gram @ T.T, T @ self.moment
        return NormalEquations(features, (gram + gram.T) / 2, moment, self.square, self.weight, self.n)

    def solve(self, alpha: float) -> Array:
        """Return β, by one Cholesky factor."""
        from scipy.linalg import cho_factor, cho_solve

        A = self.gram.copy()
        A[np.diag_indices_from(A)] += alpha
        try:
            return np.asarray(
                cho_solve(cho_factor(A, lower=True, overwrite_a=True, check_finite=False), self.moment)
            )
        except np.linalg.LinAlgError:
            raise ValueError(
                f"alpha {alpha:.3g} is lost in rounding beside eigenvalues of {np.linalg.norm(self.gram, 2):.3g}: "
                "use a larger alpha"
            ) from None

    def spectrum(self) -> Spectrum:
        """Return the eigenvalues and eigenvectors of Σ w z zᵀ, from which any alpha is cheap."""
        values, vectors = eigh(self.gram, check_finite=False)
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
        """Return Σ w (y − f)² for every output, from the sums alone."""
        left = self.values + alpha
        fitted = np.einsum("ij,ij,i->j", self.moment, self.moment, (left + alpha) / left**2)
        return np.asarray(np.maximum(self.square - fitted, 0.0))

    def gcv(self, alpha: float) -> float:
        """Return the generalised cross-validation error, mean squared residual/(1 − freedom/n)²."""
        left = max(1.0 - self.freedom(alpha) / max(self.n, 1), 1e-12)
        return float(np.sum(self.residual(alpha)) / self.weight / left**2)
