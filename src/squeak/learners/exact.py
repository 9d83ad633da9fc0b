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
from scipy.spatial.distance import cdist

from squeak.core import engine
from squeak.core.kernels import RBF, Laplacian, Matern, Metric, block
from squeak.core.panels import PANEL, PanelFactor, symmetric_times
from squeak.core.types import Array, Floats, IntArray
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

REFINEMENTS = 8
PRECISE, ROUGH = 1e-10, 1e-4
"""Residuals of a solution, and of one that only tells a width and a penalty, end below this part of the targets."""


def solved(
    K: Floats, shift: Array, y: Array, back: int = 0, precise: float = PRECISE, room: Floats | None = None
) -> tuple[Array, Array]:
    """Return c with (K + diag(shift)) c = y, and what the solution without the last rows says of these.

    The factor is of float32, which takes half the time, and its answer is refined, c ← c + A⁻¹(y − (K + D)c), with
    residuals of float64. Where that does not settle, K is factored in float64.

    Parameters
    ----------
    K : array of shape (n, n)
        Symmetric, of float32 or float64, held by its tiles up to the diagonal (:mod:`squeak.core.panels`).
    shift : array of shape (n,)
    y : array of shape (n, outputs)
    back : int
        How many rows at the end are held out.
    precise : float
        Residuals are brought below this part of the targets.
    room : array of float32 of shape (n, n) or more, optional
        The factor is written here.

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
    room = np.empty(K.shape, dtype=np.float32) if room is None else room[: len(K), : len(K)]
    try:
        factor = _factor(K, shift, room)
        c, missed = np.zeros_like(targets), np.inf
        for _ in range(REFINEMENTS):
            residual = targets - symmetric_times(K, c) - shift[:, None] * c
            now = float(np.abs(residual).max())
            if now <= precise:
                return np.asarray(size * c), size * _said(factor, targets, back)
            if not now < 0.5 * missed:
                break
            missed = now
            c += factor.solve(residual)
    except np.linalg.LinAlgError:
        pass
    factor = _factor(K, shift, np.empty(K.shape))
    return np.asarray(size * factor.solve(targets)), size * _said(factor, targets, back)


def _factor(K: Floats, shift: Array, room: Floats) -> PanelFactor:
    """Return the factor of K + diag(shift), in a room of its precision."""
    for tile in engine.tiles(len(K), PANEL):
        room[tile, : tile.stop] = K[tile, : tile.stop]
    room[np.diag_indices(len(K))] += shift.astype(room.dtype)
    return PanelFactor(room)


def _said(factor: PanelFactor, y: Array, back: int) -> Array:
    """Return L_bf L_ff⁻¹ y_f for the last rows."""
    if not back:
        return np.zeros((0, y.shape[1]))
    front = len(y) - back
    z = factor.forward(y)
    with engine.single_blas():
        return np.asarray(factor.lower[front:, :front] @ z[:front], dtype=np.float64)


def _filled(X: Array, Y: Array, values_of: Callable[[Array, Array], Array], out: Floats) -> Floats:
    """Fill a matrix with values of X against Y, some rows at a time; where X is Y, its tiles up to the diagonal."""

    def fill(tile: slice) -> None:
        stop = tile.stop if X is Y else len(Y)
        out[tile, :stop] = values_of(X[tile], Y[:stop])

    engine.map_ordered(fill, engine.tiles(len(X), PANEL))
    return out


def _at_widths(kernel: Any, X: Array, Y: Array, distances: Floats, out: Floats) -> Callable[[float], Floats]:
    """Return the function factor ↦ k(X, Y) with a multiple of the kernel's width.

    Distances are computed once, in float64, into one of the two arrays given, and kernel values into the other.
    Where X is Y, both hold their tiles up to the diagonal.
    """
    if isinstance(kernel, Metric):
        rows = kernel.mapped(X)
        return _at_widths(kernel.kernel, rows, rows if X is Y else kernel.mapped(Y), distances, out)
    if isinstance(kernel, Matern) and kernel.nu != 0.5:
        return lambda factor: _filled(X, Y, lambda some, all_: block(widened(kernel, factor), some, all_), out)
    width, power = np.asarray(kernel.length_scale), 2 if isinstance(kernel, RBF) else 1
    centre = Y.mean(axis=0)  # about it, distances by a product of matrices keep more digits
    rows = (X - centre) / width
    others = rows if X is Y else (Y - centre) / width

    def between(some: Array, all_: Array) -> Array:
        if isinstance(kernel, Laplacian):
            return np.asarray(cdist(some, all_, "cityblock"))
        squares = _squared(some, all_)
        return squares if power == 2 else np.sqrt(squares, out=squares)

    _filled(rows, others, between, distances)

    def values(factor: float) -> Floats:
        for tile in engine.tiles(len(out), PANEL):
            part = slice(0, tile.stop if X is Y else len(Y))
            some = np.multiply(distances[tile, part], -1.0 / (power * factor**power), out=out[tile, part])
            np.exp(some, out=some)
        return out

    return values


def _squared(X: Array, Y: Array) -> Array:
    """Return ‖x − y‖² by a product of matrices: near enough to choose a width by."""
    out = X @ (-2.0 * Y.T)
    out += np.einsum("ij,ij->i", X, X)[:, None]
    out += np.einsum("ij,ij->i", Y, Y)
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
    X, y = held.all_rows()
    K, room = np.empty((len(X), len(X))), np.empty((len(X), len(X)), dtype=np.float32)
    best = _around(trial, FIRST_WIDTH, SOLVES, some, total, K, room)
    if learn:
        factor = in_medians(best.kernel, some.X)
        kernel = next_metric(best, some, isinstance(best.kernel, Metric), groups)
        again = _around(
            replace(best, kernel=widened(kernel, factor)), SAME_WIDTH, SOLVES_AGAIN, some, total, K, room
        )
        best = min(best, again, key=lambda one: one.error)
    weight = None if held.weight is None else np.concatenate([held.weight, np.asarray(held.weight_back)])
    _filled(X, X, lambda rows, others: block(best.kernel, rows, others), K)
    coef, said = solved(K, shift_of(best.alpha, total, len(X), weight), y, len(held.X_back), room=room)
    return replace(best, error=_error(held, said), coef=coef, back=said)


def _around(trial: Trial, width: int, solves: int, held: Held, total: float, memory: Array, room: Floats) -> Trial:
    """Return the best of some pairs of a width and a penalty, every row an atom: downhill from those of a trial.

    ``width`` is the place in :data:`WIDTHS` from which it begins, and ``total`` the weight of all rows. In the
    ``memory`` of a float64 matrix of all rows, distances and kernel values lie side by side as float32: their
    rounding is far below any penalty. The factor is written to ``room``.
    """
    n, shape = len(held.X), (len(held.X_back), len(held.X))
    halves = memory.view(np.float32)
    gram = _at_widths(trial.kernel, held.X, held.X, halves[:n, :n], halves[:n, n : 2 * n])
    beside = _at_widths(trial.kernel, held.X_back, held.X, np.empty(shape), np.empty(shape))
    grams: dict[int, tuple[Floats, Floats]] = {}
    found: dict[tuple[int, int], float] = {}
    best: list[tuple[Array, Array]] = []

    def at(width: int, step: int) -> float:
        if width not in grams:
            grams.clear()  # their memory is that of the next ones
            grams[width] = gram(WIDTHS[width]), beside(WIDTHS[width])
        K, K_back = grams[width]
        shift = shift_of(float(ALPHAS[step]), total, n, held.weight)
        coef, _ = solved(K, shift, held.y, precise=ROUGH, room=room)
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
