"""Uncertainty in the target's units: the noise of a fit, leave-one-out scores, and conformal intervals.

With features z, A = Σ w z zᵀ + alpha·I and q(x) = z(x)ᵀA⁻¹z(x), the posterior variance of f at x is
s²(x) = k(x, x) − ‖z‖² + alpha·q(x), on the kernel's scale; a new target there varies by

    std(x) = σ̂·spread(x),   spread(x)² = 1 + s²(x)/alpha,   σ̂² = Σ w (y − f)²/(Σ w − freedom).

Leaving a row out changes A by w z zᵀ, so that its residual and q are known without a refit: with h = w·q,

    y − f₋ᵢ(x_i) = (y − f(x_i))/(1 − h),   q₋ᵢ = q/(1 − h).

The scores (y − f₋ᵢ)/spread₋ᵢ say by how many spreads new targets miss. A row that is an atom stands in the span as
no new row does, so its atom is left out with it (:class:`OwnAtoms`). All functions take arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from squeak.core import engine
from squeak.core.advice import Advice, InputError
from squeak.core.checks import check_number
from squeak.core.kernels import block, diagonal
from squeak.core.nystrom import Features
from squeak.core.rows import n_rows, take
from squeak.core.types import Array, IntArray, Rows
from squeak.learners.normal import shifted_factor
from squeak.learners.tiles import tile_rows

LEAST_LEFT = 1e-10
"""1 − h is taken to be no less: a row that fits itself alone says nothing of others."""

SIGNED_FROM = 500
"""Scores from which the two ends may lie at different distances: fewer cannot tell how a target is skewed."""

TAILS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""The parts of what is not covered that may lie below the interval."""

WORTH = 0.97
"""Ends at different distances are taken where they make the interval narrower by this factor or more."""


@dataclass(frozen=True)
class Posterior:
    """What rows say of f at other rows; arrays of shape (n,), and (n, outputs) for the values."""

    outside: Array
    """k(x, x) − ‖z‖²: the variance of f that no row can lower, for it lies outside of the atoms' span."""
    inside: Array
    """q = zᵀA⁻¹z."""
    values: Array
    """k(x, atoms)·coef."""

    def variance(self, alpha: float) -> Array:
        """Return s², the posterior variance of f on the kernel's scale."""
        return np.asarray(self.outside + alpha * self.inside)


def inverse_factor(gram: Array, alpha: float) -> Array:
    """Return L⁻¹ with L Lᵀ = gram + alpha·I: what :func:`posterior` and :func:`freedom` need of a fit.

    Parameters
    ----------
    gram : array of shape (r, r)
        Σ w z zᵀ.
    alpha : float

    Returns
    -------
    array of shape (r, r)
    """
    factor = shifted_factor(gram, alpha)
    return np.asarray(solve_triangular(factor, np.eye(len(factor)), lower=True, check_finite=False))


def posterior(features: Features, inverse: Array, coef: Array, X: Rows) -> Posterior:
    """Return what a fit says at some rows, in tiles on the threads.

    Parameters
    ----------
    features : Features
    inverse : array of shape (r, r)
        Of :func:`inverse_factor`.
    coef : array of shape (m, outputs)
        Coefficients of the atoms.
    X : rows

    Returns
    -------
    Posterior
    """
    n = n_rows(X)
    outside, inside, values = np.empty(n), np.empty(n), np.empty((n, coef.shape[1]))

    def fill(tile: slice) -> None:
        part = take(X, tile)
        k = block(features.kernel, part, features.atoms)
        z = k @ features.mixing
        left = diagonal(features.kernel, part) - np.einsum("ij,ij->i", z, z)
        v = z @ inverse.T
        outside[tile], inside[tile] = np.maximum(left, 0.0), np.einsum("ij,ij->i", v, v)
        values[tile] = k @ coef

    engine.map_ordered(fill, engine.tiles(n, tile_rows(len(features.mixing))))
    return Posterior(outside, inside, values)


def freedom(inverse: Array, alpha: float) -> float:
    """Return the effective degrees of freedom, tr(G(G + alpha·I)⁻¹) = r − alpha·‖L⁻¹‖², of a fit.

    Parameters
    ----------
    inverse : array of shape (r, r)
        Of :func:`inverse_factor`.
    alpha : float

    Returns
    -------
    float
    """
    return max(0.0, len(inverse) - alpha * float(np.einsum("ij,ij->", inverse, inverse)))


def left_over(inverse: Array, alpha: float, weight: float) -> float:
    """Return Σ w − freedom: how many rows' worth of residuals is left to tell the noise from.

    Where weights add up to less than the rank, they are taken to add up to it, so that something is left.

    Parameters
    ----------
    inverse : array of shape (r, r)
        Of :func:`inverse_factor`.
    alpha : float
    weight : float
        Σ w, the number of rows where they have no weights.

    Returns
    -------
    float

    References
    ----------
    Hastie, Tibshirani, "Generalized Additive Models", 1990, section 3.5, for the degrees of freedom of a smoother.
    """
    return max(weight, float(len(inverse))) - freedom(inverse, alpha)


@dataclass(frozen=True)
class OwnAtoms:
    """Rows that are atoms themselves, and what it takes to leave their atom out with them.

    With P = M Mᵀ, B = M A⁻¹Mᵀ and the coefficients c, all over the atoms, a fit without atom j has
    P − P_j P_jᵀ/P_jj, B − B_j B_jᵀ/B_jj and c − B_j c_j/B_jj.
    """

    rows: IntArray
    """Places among the rows that are left out."""
    cross: Array
    """B_jᵀk(x)."""
    size: Array
    """B_jj."""
    outside: Array
    """(P_jᵀk(x))²/P_jj: the variance of f at x that no other atom can lower, less what no atom can."""
    coef: Array
    """c_j, shape (rows, outputs)."""

    @classmethod
    def of(cls, features: Features, inverse: Array, coef: Array, rows: IntArray, atoms: IntArray) -> OwnAtoms:
        """Return it for rows at some places, each of which is the atom of that number.

        Parameters
        ----------
        features : Features
        inverse : array of shape (r, r)
            Of :func:`inverse_factor`.
        coef : array of shape (m, outputs)
        rows, atoms : arrays of int

        Returns
        -------
        OwnAtoms
        """
        M = features.mixing[atoms]
        used = np.flatnonzero(np.einsum("ij,ij->i", M, M))  # others are in the span of those before them
        rows, atoms, M = rows[used], atoms[used], M[used]
        z = features.block(take(features.atoms, atoms)) if len(atoms) else np.zeros(M.shape)
        U, v = M @ inverse.T, z @ inverse.T
        outside = np.einsum("ij,ij->i", M, z) ** 2 / np.einsum("ij,ij->i", M, M)
        size = np.einsum("ij,ij->i", U, U)
        return cls(rows, np.einsum("ij,ij->i", U, v), size, outside, coef[atoms])


def left_out(
    residual: Array, found: Posterior, weight: Array | None = None, own: OwnAtoms | None = None
) -> tuple[Array, Posterior]:
    """Return residuals and the posterior as they would be at each row without that row: no refit.

    Parameters
    ----------
    residual : array of shape (n, outputs)
        y − f(x).
    found : Posterior
        At the same rows, which are rows of the fit.
    weight : array of shape (n,), optional
        The rows' weights in the fit.
    own : OwnAtoms, optional
        Rows that are left out together with their atom: no new row has one.

    Returns
    -------
    residual, found : array of shape (n, outputs), Posterior
        The values are those of the fit without the row, where ``found`` has those of the fit.

    References
    ----------
    Golub, Heath, Wahba 1979; the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.learners.intervals import Posterior, left_out
    >>> x, y, alpha = np.array([1.0, 2.0, 3.0]), np.array([[1.0], [2.5], [2.5]]), 0.5
    >>> A = x @ x + alpha
    >>> f = np.outer(x, x @ y) / A
    >>> found, _ = left_out(y - f, Posterior(np.zeros(3), x * x / A, f))
    >>> rest = slice(1, 3)
    >>> bool(np.isclose(found[0, 0], y[0, 0] - x[0] * (x[rest] @ y[rest, 0]) / (x[rest] @ x[rest] + alpha)))
    True
    """
    w = np.ones(len(residual)) if weight is None else weight
    left = np.maximum(1.0 - w * found.inside, LEAST_LEFT)
    missed, inside, outside = residual / left[:, None], found.inside / left, found.outside.copy()
    if own is not None:
        at = own.rows
        size = own.size + w[at] * own.cross**2 / left[at]
        coef = own.coef - (w[at] * own.cross)[:, None] * missed[at]
        cross = own.cross / left[at]
        missed[at] += (cross / size)[:, None] * coef
        inside[at] = np.maximum(inside[at] - cross**2 / size, 0.0)
        outside[at] += own.outside
    return missed, Posterior(outside, inside, found.values + residual - missed)


def loo_scores(
    residual: Array, found: Posterior, alpha: float, weight: Array | None = None, own: OwnAtoms | None = None
) -> Array:
    """Return leave-one-out residuals in units of the spread there, (y − f₋ᵢ(x_i))/√(1 + s₋ᵢ²/alpha), with signs.

    They are in the target's units. To divide by a deviation of one's own, use :func:`left_out`.

    Parameters
    ----------
    residual : array of shape (n, outputs)
        y − f(x).
    found : Posterior
        At the same rows, which are rows of the fit.
    alpha : float
    weight : array of shape (n,), optional
    own : OwnAtoms, optional
        Rows that are left out together with their atom.

    Returns
    -------
    array of shape (n, outputs)
    """
    missed, without = left_out(residual, found, weight, own)
    return np.asarray(missed / np.sqrt(1.0 + without.variance(alpha) / alpha)[:, None])


def _smallest(ordered: Array, total: Array, share: float) -> float:
    """Return the smallest score up to which a share of the weight lies, a new row's included; infinite if none."""
    wanted = share * (total[-1] + total[-1] / len(total))
    place = int(np.searchsorted(total, wanted - 1e-9 * total[-1] / len(total)))
    return float(ordered[place]) if place < len(ordered) else np.inf


def conformal_quantiles(scores: Array, coverage: float, weight: Array | None = None) -> tuple[Array, Array]:
    """Return the two ends between which a new score lies with a probability of at least ``coverage``.

    If the k scores and the new one are exchangeable, the ⌈(k + 1)·coverage⌉-th smallest |score| is an end on both
    sides with exactly that guarantee, for any k and any distribution; it is infinite where k is too small. From 500
    scores on, the ends may also lie at different distances, each the quantile of signed scores for its share of
    what is not covered (the same guarantee for shares that are fixed, by Bonferroni's inequality). Of eleven ways
    to share, the narrowest is taken where it narrows the interval by 3% or more: for skewed targets. Choosing it by
    the same scores costs less than half a percent of coverage.

    Parameters
    ----------
    scores : array of shape (k,) or (k, outputs)
        Signed scores: residuals of rows that the model has not seen, in units of a spread.
    coverage : float
        Between 0 and 1, both excluded.
    weight : array of shape (k,), optional
        How many rows each score stands for; the new row counts as the mean of them.

    Returns
    -------
    low, high : arrays of shape () or (outputs,)

    References
    ----------
    Vovk, Gammerman, Shafer, "Algorithmic Learning in a Random World", 2005. Lei, G'Sell, Rinaldo, Tibshirani,
    Wasserman, "Distribution-Free Predictive Inference for Regression", JASA 2018. Tibshirani, Barber, Candès,
    Ramdas, "Conformal Prediction Under Covariate Shift", NeurIPS 2019, for weights.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.learners.intervals import conformal_quantiles
    >>> low, high = conformal_quantiles(np.array([-3.0, 1.0, 2.0, -0.5]), 0.8)
    >>> float(low), float(high)
    (-3.0, 3.0)
    """
    check_coverage(coverage)
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim > 1:
        ends = [conformal_quantiles(column, coverage, weight) for column in scores.T]
        return np.array([low for low, _ in ends]), np.array([high for _, high in ends])
    if not len(scores):
        return np.array(-np.inf), np.array(np.inf)
    weight = np.ones(len(scores)) if weight is None else weight

    def quantile(values: Array, shares: Any) -> Array:
        order = np.argsort(values, kind="stable")
        ordered, total = values[order], np.cumsum(weight[order])
        return np.array([_smallest(ordered, total, share) for share in shares])

    (high,) = quantile(np.abs(scores), [coverage])
    low = -high
    if len(scores) >= SIGNED_FROM:
        tails = np.array(TAILS)
        lows = -quantile(-scores, 1.0 - tails * (1.0 - coverage))
        highs = quantile(scores, 1.0 - (1.0 - tails) * (1.0 - coverage))
        best = int(np.argmin(highs - lows))
        if highs[best] - lows[best] < WORTH * (high - low):
            low, high = lows[best], highs[best]
    return np.asarray(low), np.asarray(high)


def interval(
    mean: Array, std: Array, scores: Array, coverage: float, weight: Array | None = None
) -> tuple[Array, Array]:
    """Return mean + low·std and mean + high·std, low and high by :func:`conformal_quantiles`.

    Parameters
    ----------
    mean : array of shape (n,) or (n, outputs)
    std : array of shape (n,) or (n, outputs)
        The unit of the scores at every row.
    scores : array of shape (k,) or (k, outputs)
    coverage : float
    weight : array of shape (k,), optional
        Of the scores.

    Returns
    -------
    low, high : arrays of the shape of ``mean``

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.learners.intervals import interval
    >>> scores = np.linspace(-2.0, 2.0, 99)
    >>> low, high = interval(np.zeros(2), np.array([1.0, 3.0]), scores, 0.9)
    >>> low.round(2), high.round(2)
    (array([-1.84, -5.51]), array([1.84, 5.51]))
    """
    mean, std = np.asarray(mean), np.asarray(std)
    if mean.ndim > std.ndim:
        std = std[:, None]
    ends = conformal_quantiles(scores, coverage, weight)
    low, high = (np.where(np.isinf(end), end, mean + np.where(np.isinf(end), 0.0, end) * std) for end in ends)
    return low, high


def check_coverage(coverage: Any) -> float:
    """Return the coverage, or refuse one that is not between 0 and 1.

    Parameters
    ----------
    coverage : float

    Returns
    -------
    float
    """
    value = check_number("coverage", coverage)
    if not 0.0 < value < 1.0:
        raise InputError(
            Advice(f"{{name}} must lie strictly between 0 and 1; it is {coverage!r}", "coverage", coverage)
        )
    return value
