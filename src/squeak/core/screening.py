"""Screening: which rows of a block could enter the dictionary at all, at a fraction of a full pass.

Row t holds a uniform number u_t, drawn before anything is computed, and enters when u_t is below its
probability p_t. p_t grows with the residual k_tt − ‖v_t‖², and ‖v_t‖² only grows as more atoms are taken into
account. So k_tt alone and then the first few atoms give upper bounds of p_t, and nearly every row can be given up
there: its u_t is already above the bound. The decision is the same as from the full score, bit for bit of chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from squeak.core import engine
from squeak.core.cholesky import eliminate, times_transposed
from squeak.core.kernels import block, diagonal, gram
from squeak.core.leverage import INDEFINITE, WeightedFactor, not_psd, positive_residuals
from squeak.core.rows import n_rows, take
from squeak.core.thinning import any_survives, count_from_uniform, keep_probability
from squeak.core.types import Array, IntArray, Rows

Scores = TypeVar("Scores", float, Array)

TILE = 2048
FIRST_STAGE = 32
MANY = 1024
"""With more atoms the products of a decision cost more than the steps around them."""

SLACK = 1e-10
"""Residuals are raised by this part of k(x, x), so that rounding never gives up a row that would enter."""


def entry_score(residual: Scores, ridge: float) -> Scores:
    """Return the leverage score of a row about to join: s/(1 + s), s = residual/ridge.

    It is the score with the row itself added to the dictionary at weight 1 (Sherman–Morrison).

    References
    ----------
    Thesis, equation 3.4 (KORS); the theory page.
    """
    s = residual / ridge
    return s / (1.0 + s)


def entry(
    left: float,
    diag: float,
    uniform: float,
    scorer: WeightedFactor,
    oversampling: float,
    copies: int,
    shrink: float,
) -> tuple[float, float, int]:
    """Decide on one row by its residual and its uniform number: the step that every row-by-row pass takes.

    Parameters
    ----------
    left, diag : float
        The row's residual, and k(x, x).
    uniform : float
    scorer : WeightedFactor
        What the residual is from.
    oversampling, copies, shrink
        As in :func:`decide`.

    Returns
    -------
    left, p, count : float, float, int
        The residual without rounding below 0, the probability of each coin, and how many coins came up.
    """
    if not left >= 0.0:
        if not left >= -INDEFINITE * diag:
            raise not_psd(scorer, left)
        left = 0.0
    p = min(1.0, (oversampling / copies) * (shrink * entry_score(left, scorer.ridge)))
    return left, p, count_from_uniform(uniform, p, copies)


def stages(m: int) -> list[slice]:
    """Cut m atoms into stages that double: the work done before most rows are given up stays small."""
    edges = [0]
    size = min(FIRST_STAGE, m)
    while size < m:
        edges.append(size)
        size *= 2
    edges.append(m)
    return [slice(a, b) for a, b in pairwise(edges) if b > a]


@dataclass(frozen=True)
class Chance:
    """How a score becomes the chance of each coin of a row: min(1, (oversampling/copies)·shrink·score)."""

    oversampling: float
    copies: int = 1
    shrink: float = 1.0


def _may_enter(residual: Array, diag: Array, uniforms: Array, scorer: WeightedFactor, chance: Chance) -> Array:
    """Return which rows could enter, by residuals from some of the atoms, or from none."""
    left = positive_residuals(residual, diag, scorer)
    bound = entry_score(left + SLACK * diag, scorer.ridge)
    p = keep_probability(chance.shrink * bound, chance.oversampling, chance.copies)
    return np.asarray(uniforms < any_survives(p, chance.copies))


def screen(scorer: WeightedFactor, X: Rows, uniforms: Array, chance: Chance) -> IntArray:
    """Return the numbers of the rows that could enter: all whose uniform number is below their chance, few others.

    The chance is against the dictionary as it stands; rows of the block do not see each other here. Rows that are
    not given up are decided on by :func:`decide`, from all atoms. So with many atoms a stage that would cost more
    than it saves there is left out: from s of m atoms to 2s costs 3s²/m² of a decision, and saves the part of them
    that it gives up, which is about that of the stage before.
    """
    m = scorer.factor.size
    diag = diagonal(scorer.kernel, X)
    candidates = np.flatnonzero(_may_enter(diag, diag, uniforms, scorer, chance))  # whatever the atoms are

    def survivors(tile: slice) -> IntArray:
        alive = candidates[tile]
        part, u, own = take(X, alive), uniforms[alive], diag[alive]
        residual = own.copy()
        places = np.arange(len(alive))
        values = np.empty((len(alive), 0))
        for stage in stages(m):
            fresh = block(scorer.kernel, take(part, places), take(scorer.atoms, stage))
            values = np.hstack([values, fresh]) if stage.start else fresh
            v = values @ scorer.factor.inverse[stage, : stage.stop].T
            residual[places] -= np.einsum("ij,ij->i", v, v)
            stay = _may_enter(residual[places], own[places], u[places], scorer, chance)
            given_up = 1.0 - np.count_nonzero(stay) / len(places)
            places = places[stay]
            if not places.size or (m > MANY and given_up * m**2 < 3 * stage.stop**2):
                break
            values = values[stay]
        return np.asarray(alive[places])

    parts = engine.map_ordered(survivors, engine.tiles(len(candidates), TILE))
    return np.concatenate([candidates[:0], *parts])


@dataclass(frozen=True)
class Entries:
    """The rows of a chunk that entered, with what the factor needs to take them in."""

    rows: IntArray
    probabilities: Array
    counts: IntArray
    weights: Array
    projected: Array
    schur: Array
    decided: int
    """How many rows of the chunk were decided: all of them, or up to the one that reached the limit."""


def _projected(
    scorer: WeightedFactor, X: Rows, diag: Array, uniforms: Array, chance: Chance
) -> tuple[IntArray, Array]:
    """Return the numbers of the rows that could enter, and v(x) of each.

    With many atoms v(x) is computed in three parts, half of it first, and rows are given up between them.
    """
    alive, m = np.arange(n_rows(X)), scorer.factor.size
    if m <= MANY:
        return alive, scorer.project(X)
    values, residual = block(scorer.kernel, X, scorer.atoms), diag.copy()
    parts: list[tuple[IntArray, Array]] = []
    for first, end in pairwise((0, m // 2, 3 * m // 4, m)):
        v = times_transposed(values[:, :end], scorer.factor.inverse[first:end, :end])
        parts.append((alive, v))
        residual[alive] -= np.einsum("ij,ij->i", v, v)
        stay = _may_enter(residual[alive], diag[alive], uniforms[alive], scorer, chance)
        alive, values = alive[stay], values[stay] if end < m else values
    return alive, np.hstack([v[np.searchsorted(rows, alive)] for rows, v in parts])


def decide(scorer: WeightedFactor, X: Rows, uniforms: Array, chance: Chance, limit: int | None = None) -> Entries:
    """Take the rows of a chunk one after the other, each scored against all that entered before it.

    This is the row-by-row algorithm on the residual Gram matrix R = K_cc − V Vᵀ: a row's residual is R_tt, and
    when it enters with weight w the rows after it lose R_tj²/(R_tt + ridge/w). Stops after the row that
    brings the dictionary to ``limit`` atoms.

    References
    ----------
    Thesis, algorithm 8 (KORS); the theory page.
    """
    ridge, m = scorer.ridge, scorer.factor.size
    oversampling, copies, shrink = chance.oversampling, chance.copies, chance.shrink
    diag, decided = diagonal(scorer.kernel, X), n_rows(X)
    alive, projected = _projected(scorer, X, diag, uniforms, chance)
    residual = gram(scorer.kernel, take(X, alive)) - projected @ projected.T
    running = residual.copy()
    rows: list[int] = []
    chances: list[float] = []
    counts: list[int] = []
    for t, (level, uniform) in enumerate(zip(diag[alive].tolist(), uniforms[alive].tolist(), strict=True)):
        left, p, count = entry(float(running[t, t]), level, uniform, scorer, oversampling, copies, shrink)
        if count == 0:
            continue
        rows.append(t)
        chances.append(p)
        counts.append(count)
        if limit is not None and m + len(rows) >= limit:
            decided = int(alive[t]) + 1
            break
        eliminate(running, t, left + ridge * copies * p / count)
    chosen = np.array(rows, dtype=np.int64)
    probabilities = np.array(chances)
    copies_left = np.array(counts, dtype=np.int64)
    weights = copies_left / (copies * probabilities)
    schur = residual[np.ix_(chosen, chosen)]
    schur[np.diag_indices_from(schur)] = np.maximum(schur.diagonal(), 0.0) + ridge / weights
    return Entries(alive[chosen], probabilities, copies_left, weights, projected[chosen], schur, decided)
