"""Kernel ridge regression with every row an atom, for parts of a table: one Cholesky factor for each penalty.

With K = k(X, X), weights w and W = Σ w the function f = Σ_i c_i k(·, x_i) that minimises
Σ w_i (y_i − f(x_i))² + alpha·W·‖f‖² has (K + D) c = y, D = alpha·W·diag(1/w). A factor of some thousand rows costs
less than the sums over a large dictionary do, and loses nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from squeak.core import engine
from squeak.core.kernels import against
from squeak.core.types import Array
from squeak.learners.metric import ALPHAS, Held, Trial, widened

WIDTHS = (1.4, 1.0, 0.7, 0.5, 0.35, 0.25)
"""Multiples of the width that few atoms preferred: more of them reach less far."""

FIRST_WIDTH = 2

MOVES = ((0, 1), (1, 0), (1, 1), (0, -1), (-1, 0))
"""Steps to narrower widths and to larger penalties, in the order in which they are tried."""

SOLVES = 5
"""How many pairs of a width and a penalty are tried."""

FEW = 128
"""Rows whose kernel values are computed at a time."""

REFINEMENTS = 8
PRECISE = 1e-10
"""Residuals of a solution are brought below this part of the targets."""


def solved(K: Array, shift: Array, y: Array) -> Array:
    """Return c with (K + diag(shift)) c = y.

    The factor is of float32, which takes half the time, and its answer is refined, c ← c + A⁻¹(y − (K + D)c), with
    residuals of float64. Where that does not settle, K is factored in float64.

    Parameters
    ----------
    K : array of shape (n, n)
        Symmetric, up to rounding, with its rows one after the other in memory.
    shift : array of shape (n,)
    y : array of shape (n, outputs)

    Returns
    -------
    array of shape (n, outputs)

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.learners.exact import solved
    >>> solved(np.array([[1.0, 0.5], [0.5, 1.0]]), np.ones(2), np.array([[5.0], [5.0]])).round(9).ravel()
    array([2., 2.])
    """
    size = float(np.abs(y).max(initial=0.0)) or 1.0
    targets = y / size
    places = np.diag_indices(len(K))
    with engine.single_blas():
        try:
            A = K.astype(np.float32)
            A[places] += shift.astype(np.float32)
            factor = cho_factor(A.T, lower=True, overwrite_a=True, check_finite=False)
            c, missed = np.zeros_like(targets), np.inf
            for _ in range(REFINEMENTS):
                residual = targets - K @ c - shift[:, None] * c
                now = float(np.abs(residual).max())
                if now <= PRECISE:
                    return np.asarray(size * c)
                if not now < 0.5 * missed:
                    break
                missed = now
                c += cho_solve(factor, residual.astype(np.float32), check_finite=False)
        except np.linalg.LinAlgError:
            pass
        full = K.copy()
        full[places] += shift
        factor = cho_factor(full.T, lower=True, overwrite_a=True, check_finite=False)
        return np.asarray(size * cho_solve(factor, targets, check_finite=False))


def _values(kernel: Any, X: Array, Y: Array) -> Array:
    """Return k(X, Y), a few rows at a time so that they stay in the cache."""
    out, columns = np.empty((len(X), len(Y))), against(kernel, Y)

    def fill(tile: slice) -> None:
        out[tile] = columns(X[tile])

    engine.map_ordered(fill, engine.tiles(len(X), FEW))
    return out


def shift_of(alpha: float, n: int, weight: Array | None) -> Array:
    """Return the diagonal D = alpha·W·diag(1/w)."""
    return np.full(n, alpha * n) if weight is None else alpha * weight.sum() / weight


def exactly(trial: Trial, held: Held) -> Trial:
    """Return a trial with every row an atom, at the best width and penalty near its own.

    From 0.7 times the trial's width and its own penalty, narrower and wider kernels and larger and smaller
    penalties are tried as long as the error on the rows kept back falls, :data:`SOLVES` in all.

    Parameters
    ----------
    trial : Trial
        Of few atoms.
    held : Held

    Returns
    -------
    Trial
    """
    found: dict[tuple[int, int], Trial] = {}
    grams: dict[int, tuple[Array, Array]] = {}

    def at(width: int, step: int) -> Trial:
        kernel, alpha = widened(trial.kernel, WIDTHS[width]), float(ALPHAS[step])
        if width not in grams:
            grams.clear()  # one at a time: they are large
            grams[width] = _values(kernel, held.X, held.X), _values(kernel, held.X_back, held.X)
        K, K_back = grams[width]
        coef = solved(K, shift_of(alpha, len(K), held.weight), held.y)
        said = K_back @ coef
        squares = np.square(held.y_back - said).sum(axis=1)
        error = float(np.average(squares, weights=held.weight_back))
        factor = trial.factor * WIDTHS[width]
        return replace(
            trial, kernel=kernel, alpha=alpha, error=error, coef=coef, back=said, factor=factor, equations=None
        )

    here = FIRST_WIDTH, int(np.argmin(np.abs(np.log(ALPHAS / trial.alpha))))
    found[here] = at(*here)
    moved = True
    while moved and len(found) < SOLVES:
        moved = False
        for width, step in MOVES:
            there = here[0] + width, here[1] + step
            inside = 0 <= there[0] < len(WIDTHS) and 0 <= there[1] < len(ALPHAS)
            if not inside or there in found or len(found) >= SOLVES:
                continue
            found[there] = at(*there)
            if found[there].error < found[here].error:
                here, moved = there, True
                break
    return replace(found[here], at_edge=here[1] in (0, len(ALPHAS) - 1))


def exact_whole(trials: list[Trial], held: Held) -> list[tuple[Array, Array]]:
    """Return all rows, those kept back among them, and their coefficients at each trial's width and penalty.

    Targets are less the mean of the rows to solve on.

    Parameters
    ----------
    trials : list of Trial
    held : Held

    Returns
    -------
    list of (atoms of shape (n, d), coef of shape (n, outputs))
        The atoms are one array.
    """
    X, y = np.concatenate([held.X, held.X_back]), np.concatenate([held.y, held.y_back])
    weight = None if held.weight is None else np.concatenate([held.weight, np.asarray(held.weight_back)])
    return [(X, solved(_values(trial.kernel, X, X), shift_of(trial.alpha, len(X), weight), y)) for trial in trials]
