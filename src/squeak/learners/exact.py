"""Kernel ridge regression with every row an atom, for parts of a table: one Cholesky factor in the end.

With K = k(X, X), weights w and W = Σ w the function f = Σ_i c_i k(·, x_i) that minimises
Σ w_i (y_i − f(x_i))² + alpha·W·‖f‖² has (K + D) c = y, D = alpha·W·diag(1/w). A factor of some thousand rows costs
less than the sums over a large dictionary do, and loses nothing.

Width and penalty are chosen on 70% of the rows, where a factor takes a third of the time, and distances are
computed once for all widths. The factor of all rows, L Lᵀ = K + D with the held-out rows at the end, gives the
model of all rows, and what the model without the held-out rows says of them: with z = L⁻¹ y it is L_bf z_f, since
K_bf = L_bf L_ffᵀ and c_f = L_ff⁻ᵀ z_f.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.spatial.distance import cdist

from squeak.core import engine
from squeak.core.kernels import Laplacian, Matern, Metric, block
from squeak.core.types import Array, IntArray
from squeak.learners.metric import ALPHAS, Held, Trial, in_medians, next_metric, widened
from squeak.learners.tiles import power_of_two

WIDTHS = (1.4, 1.0, 0.7, 0.5, 0.35, 0.25)
"""Multiples of the width that few atoms preferred: more of them reach less far."""

FIRST_WIDTH, SAME_WIDTH = 2, 1
"""The places of 0.7 and of 1 among them."""

MOVES = ((0, 1), (1, 0), (1, 1), (0, -1), (-1, 0))
"""Steps to narrower widths and to larger penalties, in the order in which they are tried."""

SOLVES, SOLVES_AGAIN = 5, 3
"""How many pairs of a width and a penalty are tried, and how many in the metric of the slopes found then."""

PART, ENOUGH = 0.7, 500
"""The part of the rows on which they are tried, and the number of rows below which it is all of them."""

FEW = 128
"""Rows whose kernel values are computed at a time."""

REFINEMENTS = 8
PRECISE, ROUGH = 1e-10, 1e-4
"""Residuals of a solution, and of one that only tells a width and a penalty, end below this part of the targets."""


def solved(K: Array, shift: Array, y: Array, back: int = 0, precise: float = PRECISE) -> tuple[Array, Array]:
    """Return c with (K + diag(shift)) c = y, and what the solution without the last rows says of these.

    The factor is of float32, which takes half the time, and its answer is refined, c ← c + A⁻¹(y − (K + D)c), with
    residuals of float64. Where that does not settle, K is factored in float64.

    Parameters
    ----------
    K : array of shape (n, n)
        Symmetric, up to rounding, with its rows one after the other in memory.
    shift : array of shape (n,)
    y : array of shape (n, outputs)
    back : int
        How many rows at the end are held out.
    precise : float
        Residuals are brought below this part of the targets.

    Returns
    -------
    coef : array of shape (n, outputs)
    said : array of shape (back, outputs)
        K_bf (K_ff + D_f)⁻¹ y_f, to the precision of the factor.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.learners.exact import solved
    >>> coef, said = solved(np.array([[1.0, 0.5], [0.5, 1.0]]), np.ones(2), np.array([[5.0], [5.0]]), back=1)
    >>> coef.round(9).ravel(), said.round(6)                       # 0.5·5/2 without the second row
    (array([2., 2.]), array([[1.25]]))
    """
    size = power_of_two(y)
    targets = y / size
    with engine.single_blas():
        try:
            L = _factor(K, shift, np.float32)
            c, missed = np.zeros_like(targets), np.inf
            for _ in range(REFINEMENTS):
                residual = targets - K @ c - shift[:, None] * c
                now = float(np.abs(residual).max())
                if now <= precise:
                    return np.asarray(size * c), size * _said(L, targets, back)
                if not now < 0.5 * missed:
                    break
                missed = now
                c += cho_solve((L, True), residual.astype(np.float32), check_finite=False)
        except np.linalg.LinAlgError:
            pass
        L = _factor(K, shift, np.float64)
        return np.asarray(size * cho_solve((L, True), targets, check_finite=False)), size * _said(L, targets, back)


def _factor(K: Array, shift: Array, dtype: Any) -> Array:
    """Return the lower factor of K + diag(shift), with what was above it left there."""
    A = K.astype(dtype)
    A[np.diag_indices(len(A))] += shift.astype(dtype)
    return np.asarray(cholesky(A.T, lower=True, overwrite_a=True, check_finite=False))


def _said(L: Array, y: Array, back: int) -> Array:
    """Return L_bf L_ff⁻¹ y_f for the last rows."""
    if not back:
        return np.zeros((0, y.shape[1]))
    front = len(L) - back
    z = solve_triangular(L, y.astype(L.dtype), lower=True, check_finite=False)
    return np.asarray(L[front:, :front] @ z[:front], dtype=np.float64)


def _filled(X: Array, Y: Array, values_of: Callable[[Array, Array], Array]) -> Array:
    """Return a matrix of values of X against Y, a few rows at a time; where X is Y, half of it and its mirror."""
    out, same = np.empty((len(X), len(Y))), X is Y

    def fill(tile: slice) -> None:
        stop = tile.stop if same else len(Y)
        out[tile, :stop] = values_of(X[tile], Y[:stop])
        if same:
            out[: tile.start, tile] = out[tile, : tile.start].T

    engine.map_ordered(fill, engine.tiles(len(X), FEW))
    return out


def _at_widths(kernel: Any, X: Array, Y: Array) -> Callable[[float], Array]:
    """Return the function factor ↦ k(X, Y) with a multiple of the kernel's width; distances are computed once."""
    if isinstance(kernel, Metric):
        rows = kernel.mapped(X)
        return _at_widths(kernel.kernel, rows, rows if X is Y else kernel.mapped(Y))
    if isinstance(kernel, Matern) and kernel.nu != 0.5:
        return lambda factor: _filled(X, Y, lambda rows, others: block(widened(kernel, factor), rows, others))
    width = np.asarray(kernel.length_scale)
    rows = X / width
    others = rows if X is Y else Y / width
    if isinstance(kernel, Laplacian):
        distances, power = _filled(rows, others, lambda some, all_: cdist(some, all_, "cityblock")), 1
    else:
        distances, power = _squared(rows, others), 2
        if isinstance(kernel, Matern):
            distances, power = np.sqrt(distances, out=distances), 1

    def values(factor: float) -> Array:
        out = distances * (-1.0 / (power * factor**power))
        return np.exp(out, out=out)

    return values


def _squared(X: Array, Y: Array) -> Array:
    """Return ‖x − y‖² by a product of matrices: near enough to choose a width by."""
    centre = Y.mean(axis=0)
    left, right = X - centre, Y - centre
    with engine.single_blas():
        out = left @ (-2.0 * right.T)
    out += np.einsum("ij,ij->i", left, left)[:, None]
    out += np.einsum("ij,ij->i", right, right)
    return np.asarray(np.maximum(out, 0.0, out=out))


def shift_of(alpha: float, total: float, n: int, weight: Array | None) -> Array:
    """Return the diagonal D = alpha·W·diag(1/w) for n rows, or for part of the rows whose weights add up to W."""
    return np.full(n, alpha * total) if weight is None else alpha * total / weight


def exactly(trial: Trial, held: Held, groups: IntArray | None = None, learn: bool = True) -> Trial:
    """Return a trial with every row an atom, at the best width and penalty near its own.

    From 0.7 times the trial's width and its own penalty, narrower and wider kernels and larger and smaller
    penalties are tried on 70% of the rows as long as the error on the held-out rows falls, :data:`SOLVES` in all.
    The slopes of the best of these models, which has far more atoms than the one that the metric was learned with,
    then give another metric. It is taken if its error, at the best of :data:`SOLVES_AGAIN` pairs, is less.
    D is that of all rows throughout: noise does not depend on how many rows there are.

    Parameters
    ----------
    trial : Trial
        Of few atoms.
    held : Held
    groups : array of int of shape (d,), optional
        Columns with one number share a width.
    learn : bool
        False: the metric stays as it is.

    Returns
    -------
    Trial
        Its coefficients are those of all rows, with the held-out rows at the end, at the same alpha·W; the error
        is of the model without these.
    """
    some = held.first(max(ENOUGH, int(PART * len(held.X))), len(held.X_back))
    some = some.with_atoms(len(some.X))
    total = float(len(held.X) if held.weight is None else held.weight.sum())
    best = _around(trial, FIRST_WIDTH, SOLVES, some, total)
    if learn:
        factor = in_medians(best.kernel, some.X)
        kernel = next_metric(best, some, isinstance(best.kernel, Metric), groups)
        again = _around(replace(best, kernel=widened(kernel, factor)), SAME_WIDTH, SOLVES_AGAIN, some, total)
        best = min(best, again, key=lambda one: one.error)
    X, y = held.all_rows()
    weight = None if held.weight is None else np.concatenate([held.weight, np.asarray(held.weight_back)])
    K = _filled(X, X, lambda rows, others: block(best.kernel, rows, others))
    coef, said = solved(K, shift_of(best.alpha, total, len(X), weight), y, len(held.X_back))
    return replace(best, error=_error(held, said), coef=coef, back=said)


def _around(trial: Trial, width: int, solves: int, held: Held, total: float) -> Trial:
    """Return the best of some pairs of a width and a penalty, every row an atom: uphill from those of a trial.

    ``width`` is the place in :data:`WIDTHS` from which it begins, and ``total`` the weight of all rows.
    """
    gram, beside = _at_widths(trial.kernel, held.X, held.X), _at_widths(trial.kernel, held.X_back, held.X)
    grams: dict[int, tuple[Array, Array]] = {}
    found: dict[tuple[int, int], float] = {}
    best: list[tuple[Array, Array]] = []

    def at(width: int, step: int) -> float:
        if width not in grams:
            grams.clear()  # one at a time: they are large
            grams[width] = gram(WIDTHS[width]), beside(WIDTHS[width])
        K, K_back = grams[width]
        coef, _ = solved(K, shift_of(float(ALPHAS[step]), total, len(K), held.weight), held.y, precise=ROUGH)
        said = K_back @ coef
        error = _error(held, said)
        if not error >= min(found.values(), default=np.inf):
            best[:] = [(coef, said)]
        return error

    here = width, int(np.argmin(np.abs(np.log(ALPHAS / trial.alpha))))
    found[here] = at(*here)
    moved = True
    while moved and len(found) < solves:
        moved = False
        for narrower, larger in MOVES:
            there = here[0] + narrower, here[1] + larger
            inside = 0 <= there[0] < len(WIDTHS) and 0 <= there[1] < len(ALPHAS)
            if not inside or there in found or len(found) >= solves:
                continue
            found[there] = at(*there)
            if found[there] < found[here]:
                here, moved = there, True
                break
    [(coef, said)] = best
    return replace(
        trial,
        kernel=widened(trial.kernel, WIDTHS[here[0]]),
        alpha=float(ALPHAS[here[1]]),
        error=found[here],
        coef=coef,
        back=said,
        factor=trial.factor * WIDTHS[here[0]],
        at_edge=here[1] in (0, len(ALPHAS) - 1),
        equations=None,
    )


def _error(held: Held, said: Array) -> float:
    return float(np.average(np.square(held.y_back - said).sum(axis=1), weights=held.weight_back))
