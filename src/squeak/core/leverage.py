"""Ridge leverage scores: exact from all rows, and estimated from a weighted dictionary.

τ_i(ridge) = [K (K + ridge·I)⁻¹]_ii says how much row i adds that the other rows do not already say; their sum
is the effective dimension. From a dictionary with weights w the estimate is the same formula with
ΦSSᵀΦᵀ, S = diag(√w), in place of ΦΦᵀ. :class:`WeightedFactor` computes it for any row; samplers,
certificates, bandits and determinantal point processes all call it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from squeak.core import engine
from squeak.core.checks import check_positive
from squeak.core.cholesky import (
    GrowingCholesky,
    NotPositiveDefiniteError,
    inverse_factor,
    pivoted_inverse_factor,
)
from squeak.core.kernels import block, diagonal, gram
from squeak.core.rows import check_rows, join, n_rows, take
from squeak.core.types import Array, IntArray, Rows

TILE = 1024
PANEL = 128
"""Columns of the triangular factor taken at a time, so that products skip its zeros."""

SMALLEST_RIDGE = 1e-10
"""A ridge below this part of the kernel's diagonal drowns in rounding."""

INDEFINITE = 1e-6
"""A residual k(x, x) − ‖v‖² below −INDEFINITE·k(x, x) is no rounding error: the kernel is not PSD."""


@dataclass(frozen=True)
class WeightedFactor:
    """The inverse factor of K_II + ridge·diag(1/w) for atoms I with weights w, and the scores from it.

    With L Lᵀ = K_II + ridge·diag(1/w) and v(x) = L⁻¹ k(I, x):

        φᵀ(ΦSSᵀΦᵀ + ridge·Π)⁻¹φ = (k(x, x) − ‖v(x)‖²) / ridge.

    This form needs no weighting of kernel columns; L is S⁻¹ times the factor of S K_II S + ridge·I.
    Between calls: ``factor.size == len(weights) == n_rows(atoms)``.

    References
    ----------
    Thesis, equations 3.2 to 3.5; the theory page.
    """

    kernel: Any
    atoms: Rows
    weights: Array
    ridge: float
    factor: GrowingCholesky

    @classmethod
    def build(
        cls,
        kernel: Any,
        atoms: Rows,
        weights: Array,
        ridge: float,
        values: Array | None = None,
        room: int = 0,
    ) -> tuple[WeightedFactor, IntArray]:
        """Factor from scratch; returns the factor and the order in which it holds the atoms.

        Atoms that explain most come first (pivoted Cholesky of S K_II S + ridge·I).
        ``values`` is K_II where it is known already; ``room`` the number of atoms that are to come in all.
        """
        with engine.single_blas():
            A = gram(kernel, atoms) if values is None else values
            A = weighted_gram(A, weights, ridge, out=A if values is None else None)
            try:
                inverse, order = pivoted_inverse_factor(A)
            except NotPositiveDefiniteError:
                raise _explain(repr(kernel), gram(kernel, atoms), ridge) from None
            del A  # before the buffer with room is made
            inverse *= np.sqrt(weights[order])
        return cls(kernel, take(atoms, order), weights[order], ridge, GrowingCholesky(inverse, room)), order

    @classmethod
    def empty(cls, kernel: Any, rows: Rows, ridge: float) -> WeightedFactor:
        """Return the factor of no atoms, for rows of the kind given."""
        return cls(kernel, take(rows, slice(0, 0)), np.zeros(0), ridge, GrowingCholesky())

    def grow(self, rows: Rows, weights: Array, projected: Array, schur: Array) -> WeightedFactor:
        """Return the factor with more atoms; ``schur`` is their residual Gram matrix plus ridge/w."""
        try:
            factor = self.factor.append(projected, schur)
        except NotPositiveDefiniteError:
            raise _lost_in_rounding(self.ridge, float(schur.diagonal().max())) from None
        atoms, weights = join(self.atoms, rows), np.concatenate([self.weights, weights])
        return WeightedFactor(self.kernel, atoms, weights, self.ridge, factor)

    def project(self, X: Rows) -> Array:
        """Return v(x) = L⁻¹ k(I, x) for every row of a block, shape (len(X), m), on this thread."""
        if self.factor.size == 0:
            return np.zeros((n_rows(X), 0))
        return self.factor.project(block(self.kernel, X, self.atoms))

    def residuals(self, X: Rows) -> Array:
        """Return k(x, x) − ‖v(x)‖² for every row, in tiles on the threads."""

        def tile_residuals(tile: slice) -> Array:
            part = take(X, tile)
            values = block(self.kernel, part, self.atoms)
            diag = diagonal(self.kernel, part)
            left = diag.copy()
            for panel in engine.tiles(self.factor.size, PANEL):
                v = values[:, : panel.stop] @ self.factor.inverse[panel, : panel.stop].T
                left -= np.einsum("ij,ij->i", v, v)
            return positive_residuals(left, diag, self)

        return np.concatenate(engine.map_ordered(tile_residuals, engine.tiles(n_rows(X), TILE)))

    def scores(self, X: Rows, shrink: float = 1.0) -> Array:
        """Return shrink·φᵀ(ΦSSᵀΦᵀ + ridge·Π)⁻¹φ for every row: the estimator of rows already represented."""
        return shrink / self.ridge * self.residuals(X)

    def atom_scores(self, shrink: float = 1.0) -> Array:
        """Return the same score for the atoms themselves, in O(m²): (1/w)(1 − (ridge/w)·[A⁻¹]_ii)."""
        left = 1.0 - self.ridge / self.weights * self.factor.diagonal_of_inverse()
        return shrink * _above_floor(left, diagonal(self.kernel, self.atoms), self.weights, self.ridge)

    def effective_dimension(self) -> float:
        """Return Tr W(W + ridge·I)⁻¹ with W = S K_II S: Σ w·score, the dictionary's estimate of d_eff."""
        return float(self.weights @ self.atom_scores())


def weighted_gram(K: Array, weights: Array, ridge: float = 0.0, out: Array | None = None) -> Array:
    """Return S K S + ridge·I with S = diag(√w); ``out``, which may be K, is filled with it where it is given."""
    root = np.sqrt(weights)
    A = np.multiply(root[:, None], K, out=out)
    A *= root
    A[np.diag_indices_from(A)] += ridge
    return np.asarray(A)


def positive_residuals(left: Array, diag: Array, scorer: WeightedFactor) -> Array:
    """Clip rounding below zero; refuse what rounding cannot explain."""
    worst = np.min(left + INDEFINITE * diag, initial=np.inf)
    if worst < 0 or np.isnan(worst):
        raise not_psd(scorer, float(np.min(left)))
    return np.maximum(left, 0.0)


def not_psd(scorer: WeightedFactor, residual: float) -> ValueError:
    """Return the error for a row at a negative squared distance from the dictionary."""
    largest = float(diagonal(scorer.kernel, scorer.atoms).max(initial=0.0))
    if scorer.ridge < SMALLEST_RIDGE * largest:
        return _lost_in_rounding(scorer.ridge, largest)
    return ValueError(
        f"{scorer.kernel!r} is not positive semi-definite: a row lies at squared distance {residual:.3g} < 0 "
        "from the dictionary; use a PSD kernel"
    )


def _explain(kernel: str, K: Array, ridge: float) -> ValueError:
    """Return the error for a factorisation that failed: the kernel's fault, or the ridge's."""
    if not np.isfinite(K).all():
        return ValueError(f"{kernel} gives values that are not finite: scale the columns first")
    smallest, largest = np.linalg.eigvalsh(K)[[0, -1]]
    if smallest < -INDEFINITE * max(largest, 0.0):
        return ValueError(
            f"{kernel} is not positive semi-definite: its matrix on {len(K)} rows has eigenvalue "
            f"{smallest:.3g}; use a PSD kernel"
        )
    return _lost_in_rounding(ridge, largest)


def _lost_in_rounding(ridge: float, largest: float) -> ValueError:
    return ValueError(
        f"ridge {ridge:.3g} is lost in rounding beside values of {largest:.3g}; use a larger ridge, or centre "
        "and scale the columns"
    )


def check_resolved(eigenvalues: Array, ridge: float) -> None:
    """Refuse a spectrum in which the ridge drowns in rounding, or that no PSD kernel has; ascending order."""
    largest = max(float(eigenvalues[-1]), 0.0)
    if eigenvalues[0] < -INDEFINITE * largest:
        raise ValueError(
            f"the kernel is not positive semi-definite: its matrix has eigenvalue {eigenvalues[0]:.3g} beside "
            f"{largest:.3g}; use a PSD kernel"
        )
    if len(eigenvalues) * np.finfo(np.float64).eps * largest > 0.01 * ridge:
        raise _lost_in_rounding(ridge, largest)


def dictionary_scores(K: Array, weights: Array, ridge: float, shrink: float = 1.0) -> Array:
    """Return the atoms' scores from K_II at any ridge: (1/w)(1 − ridge·[(S K_II S + ridge·I)⁻¹]_ii).

    One Cholesky factor, O(m³): for atoms that are in no factor yet, and for trying out a ridge.
    """
    try:
        factor = GrowingCholesky(inverse_factor(weighted_gram(K, weights, ridge), overwrite=True))
    except NotPositiveDefiniteError:
        raise _explain("the kernel", K, ridge) from None
    return shrink * _above_floor(1.0 - ridge * factor.diagonal_of_inverse(), K.diagonal(), weights, ridge)


def _above_floor(weighted_scores: Array, diag: Array, weights: Array, ridge: float) -> Array:
    """Return the scores, no less than their lower bound k_ii/(Tr S K S + ridge).

    In exact arithmetic the bound changes nothing. Where a huge ridge lets 1 − ridge·[A⁻¹]_ii round to 0 it keeps
    the score positive, so that no row loses its chance to stay.
    """
    return np.maximum(weighted_scores / weights, diag / (weights @ diag + ridge))


def scores_at(eigenvalues: Array, squares: Array, weights: Array, ridge: float, shrink: float = 1.0) -> Array:
    """Return the atoms' scores at any ridge from S K_II S = U Λ Uᵀ: (1/w) Σ_j U_ij² λ_j/(λ_j + ridge).

    Free of cancellation; ``squares`` is U².
    """
    check_resolved(eigenvalues, ridge)
    positive = np.maximum(eigenvalues, 0.0)
    return shrink / weights * (squares @ (positive / (positive + ridge)))


def weighted_spectrum(K: Array, weights: Array) -> tuple[Array, Array]:
    """Return the eigenvalues and the squared eigenvectors of S K S, S = diag(√w), ascending."""
    eigenvalues, vectors = eigh(weighted_gram(K, weights), overwrite_a=True, check_finite=False)
    return eigenvalues, np.square(vectors, out=vectors)


def check_ridge(ridge: float) -> float:
    """Return the ridge as a float, or raise: it must be positive and finite."""
    return check_positive("ridge", ridge)


def exact_leverage_scores(X: Rows, kernel: Any, ridge: float) -> Array:
    """Return the ridge leverage score of every row, from the full kernel matrix.

    τ_i = [K (K + ridge·I)⁻¹]_ii = Σ_j U_ij² λ_j/(λ_j + ridge), where K = U Λ Uᵀ. It takes a time of order n³ and a
    memory of order n², so use it for a few thousand rows.

    Parameters
    ----------
    X : rows
        The rows.
    kernel : kernel
        How similar two rows are.
    ridge : float
        The regularisation, which is compared with eigenvalues of K, and not of K/n.

    Returns
    -------
    array of shape (n,)

    References
    ----------
    Thesis, section 1.2 and equation 2.12 (with the square that the print leaves out).

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import Linear
    >>> from squeak.leverage import exact_leverage_scores
    >>> exact_leverage_scores(np.eye(3), Linear(), ridge=1.0)
    array([0.5, 0.5, 0.5])
    """
    X = check_rows(X, kernel)
    eigenvalues, squares = weighted_spectrum(gram(kernel, X), np.ones(n_rows(X)))
    return scores_at(eigenvalues, squares, np.ones(n_rows(X)), check_ridge(ridge))


def effective_dimension(X: Rows, kernel: Any, ridge: float) -> float:
    """Return d_eff(ridge) = Tr K(K + ridge·I)⁻¹, the sum of the exact ridge leverage scores.

    It is the number of directions of the data that stand out from the ridge, and at most min(rank, Tr K/ridge).

    Parameters
    ----------
    X : rows
        The rows.
    kernel : kernel
        How similar two rows are.
    ridge : float
        The regularisation, which is compared with eigenvalues of K.

    Returns
    -------
    float

    References
    ----------
    Thesis, section 1.2.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import Linear
    >>> from squeak.leverage import effective_dimension
    >>> effective_dimension(np.eye(4), Linear(), ridge=1.0)
    2.0
    """
    return float(exact_leverage_scores(X, kernel, ridge).sum())
