"""How the posterior on a dictionary changes with pulls and atoms, from the features of the arms pulled alone.

Every change of the variances at all arms is a product of few rows with the features of all arms. These rows follow
from the features at the arms pulled, among which are all that are told and all that may become atoms. They are
found first, in O(u·m) and O(m²) each for u arms pulled, so that one product over all arms serves all changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dtrmm

from squeak.core.cholesky import inverse_factor, pivoted_inverse_factor
from squeak.core.nystrom import IN_SPAN
from squeak.core.types import Array, IntArray


class NewRows(NamedTuple):
    """The coordinates of some new atoms, as rows over the features z before them.

    A coordinate is inverse·(k(x, arms) − cross·z)[order]; what it adds to the signal is the square of
    whitener·(coordinate − solved·z).
    """

    arms: IntArray
    inverse: Array
    order: IntArray
    """The arms that are not in the span of those before them, by their places in ``arms``."""
    cross: Array
    solved: Array
    whitener: Array


class Growth:
    """Features of the arms pulled, and V⁻¹, while pulls are told and atoms are added.

    ``there``: the features, (m, u). ``solver``: V⁻¹ before the pulls. ``pulled``: the arms, in rising order.
    ``counts``: how often each was pulled, with the pulls that are told.
    """

    def __init__(self, there: Array, solver: Array, pulled: IntArray, counts: Array, ridge: float) -> None:
        self.there, self.solver = there, solver
        self._pulled, self._counts, self._ridge = pulled, counts, ridge

    def pull(self, arms: IntArray, times: Array) -> Array:
        """Let V know of pulls of distinct arms; returns rows h: the signal falls by Σ (h·z)²."""
        z = self.there[:, np.searchsorted(self._pulled, arms)]
        h = self.solver @ z
        inner = z.T @ h
        inner[np.diag_indices_from(inner)] += 1.0 / times
        rows = inverse_factor(inner) @ h.T
        self.solver = self.solver - rows.T @ rows
        return rows

    def append(self, columns: Array, arms: IntArray, diag: Array) -> NewRows:
        """Add the coordinates of some arms pulled; ``columns``: k(x_i, ·) at all arms. ``diag``: k(x_i, x_i)."""
        places = np.searchsorted(self._pulled, arms)
        cross = self.there[:, places].T
        left = np.take(columns, self._pulled, axis=1) - cross @ self.there
        inverse, order = span(left[:, places], diag)
        if not len(order):
            empty = np.zeros((0, len(self.there)))
            return NewRows(arms, inverse, order, cross, empty, inverse)
        new = inverse @ left[order]
        weighted = new * self._counts
        solved = weighted @ self.there.T @ self.solver
        schur = weighted @ new.T - solved @ (self.there @ weighted.T)
        schur[np.diag_indices_from(schur)] += self._ridge
        whitener = inverse_factor(schur)
        rows = np.hstack([-(whitener @ solved), whitener])
        grown, m = rows.T @ rows, len(self.there)
        grown[:m, :m] += self.solver
        self.there, self.solver = np.vstack([self.there, new]), grown
        return NewRows(arms, inverse, order, cross, solved, whitener)

    def weights(self, sums: Array) -> Array:
        """Return V⁻¹Σ S_i z_i."""
        return np.asarray(self.solver @ (self.there @ sums))


def span(schur: Array, diag: Array) -> tuple[Array, IntArray]:
    """Return L⁻¹ and the order of what other atoms leave of some kernel values, without those in their span.

    ``diag``: the kernel's diagonal itself, which says how little is nothing.
    """
    largest, least = float(schur.diagonal().max(initial=0.0)), IN_SPAN * float(diag.max(initial=0.0))
    if largest <= least:
        return np.zeros((0, 0)), np.zeros(0, dtype=np.int64)
    return pivoted_inverse_factor((schur + schur.T) / 2, least / largest)


def left_out(place: int, inverse: Array, solver: Array, features: Array) -> tuple[Array, Array, Array, Array]:
    """Take an atom out. The features, at all arms, become those of the others, and their last row has no meaning.

    ``place``: which atom, by its coordinate. ``inverse``: L⁻¹, whose column there is orthogonal to the features of
    all other atoms. Returns the coordinate that was the atom's own, whose square over λ the residual gains; a row
    whose square the signal loses; and V⁻¹ and L⁻¹ of the others.
    """
    inverse = inverse.copy()
    weights = inverse[place:, place].copy()
    direction = np.concatenate([np.zeros(place), weights / np.linalg.norm(weights)])
    known = solver @ direction
    known /= np.sqrt(direction @ known)
    told, solver = known @ features, solver - np.multiply.outer(known, known)
    for rows in (solver, solver.T, inverse):
        turned(rows[place:], weights)
    own = turned(features[place:], weights)
    return own, told, solver[:-1, :-1].copy(), np.delete(inverse[:-1], place, axis=1)


def turned(rows: Array, weights: Array) -> Array:
    """Turn rows so that weights·rows, over the norm of the weights, is one of them; return it, and keep the others.

    The others are orthogonal to it, as the rows were to each other, and take the place of all rows but the last.
    Row i of them follows from the rows up to i + 1, so that a lower triangular matrix stays one but for the column
    that it loses. The rows are changed.
    """
    norms = np.sqrt(np.cumsum(weights * weights))
    total = weights[0] * rows[0]
    for i in range(1, len(rows)):
        row = rows[i]
        np.multiply(row, norms[i - 1] / norms[i], out=rows[i - 1])
        rows[i - 1] -= (weights[i] / (norms[i - 1] * norms[i])) * total
        total += weights[i] * row
    return np.asarray(total / norms[-1])


def times_triangle(lower: Array, values: Array) -> Array:
    """Return lower·values for a lower triangular matrix, in the memory of ``values`` (m, A)."""
    if values.size:
        dtrmm(1.0, lower.T, values.T, side=1, lower=0, trans_a=0, overwrite_b=1)
    return values


def two_terms(z: Array, diag: Array, solver: Array) -> tuple[Array, Array]:
    """Return k(x, x) − ‖z‖² and zᵀV⁻¹z for every row z: what the atoms cannot see, and what was not told."""
    residual = np.maximum(diag - np.einsum("ij,ij->i", z, z), 0.0)
    return residual, np.maximum(np.einsum("ij,ij->i", z @ solver, z), 0.0)
