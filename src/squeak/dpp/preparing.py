"""The work done once: a dictionary at ridge 1/scale, a surrogate from it, and a bound on every row's score."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone

from squeak.core import engine
from squeak.core.cholesky import GrowingCholesky, inverse_factor
from squeak.core.kernels import diagonal, gram
from squeak.core.nystrom import EigenFeatures
from squeak.core.rows import n_rows, take
from squeak.core.seeds import PROBE as PROBE_ROWS
from squeak.core.seeds import READ, generator_at
from squeak.core.types import Array, Rows
from squeak.dpp.store import MemoryRows, SourceRows
from squeak.dpp.surrogate import LARGEST_SPECTRUM, TILE, Surrogate, solve_scale, span_of, unexplained
from squeak.samplers import Kors, Squeak, Uniform
from squeak.samplers.dictionary import Dictionary

COORDINATES = 2**24
"""Numbers of a block's coordinates that are held at once, 128 MB: fewer rows than this holds make one block."""

MARGIN = 1e-6
"""Bounds are raised by this part, so that rounding cannot lift a score above its bound."""

LOST = 1.0
"""With the default sampler, 1 − 1/e of the proposals may be refused on account of the dictionary."""

LARGEST_OVERSAMPLING = 64.0
PROBE = 1_500
"""Rows from which that is estimated."""


OVERSAMPLING, KORS_OVERSAMPLING = 4.0, 16.0
FEWEST = 30.0
"""Atoms that the default sampler should keep where all scores are tiny."""


def default_sampler(rows: MemoryRows | SourceRows, kernel: Any, scale: float, *, weighted: bool) -> Any:
    """Return the default sampler; where scores are tiny it oversamples more, so that some rows are kept."""
    trace = scale * float(diagonal(kernel, rows.first()).sum())
    asked = KORS_OVERSAMPLING if weighted else OVERSAMPLING
    return (Kors if weighted else Squeak)(oversampling=max(asked, FEWEST / trace) if trace > 0 else asked)


def guessed_scale(rows: MemoryRows | SourceRows, kernel: Any, size: float, seed: int) -> float:
    """Return the scale for an expected size, from a uniform sample of the rows."""
    most = min(LARGEST_SPECTRUM // 2, rows.n)
    uniform = Uniform(kernel, most, random_state=generator_at(seed, READ, 1))
    eigenvalues = uniform.fit(rows.data()).dictionary_.eigenvalues()
    eigenvalues = eigenvalues[eigenvalues > 1e-12 * eigenvalues[0]]
    if size >= len(eigenvalues) and len(eigenvalues) < most:
        raise ValueError(f"the kernel's matrix has rank about {len(eigenvalues)}: no sample has {size:g} rows")
    return solve_scale(min(size, 0.9 * len(eigenvalues)), eigenvalues)


@dataclass(frozen=True)
class Prepared:
    """All that proposals need of the rows.

    ``scale``: the α for which the work was done. ``bounds``: b_i ≥ l_i at that scale. ``exact``: whether the bounds
    are the scores themselves.
    """

    surrogate: Surrogate
    scale: float
    bounds: Array
    exact: bool
    dictionary: Dictionary

    @cached_property
    def heights(self) -> Array:
        """The running sums of the bounds, by which rows are drawn."""
        return np.cumsum(self.bounds)

    def stretch(self, scale: float) -> float:
        """Return c with l_i(scale) ≤ c·b_i: α/(1 + αλ) grows with α, and no faster than α."""
        return max(1.0, scale / self.scale)


def enlarged(rows: MemoryRows | SourceRows, sampler: Any, scale: float, seed: int) -> Any:
    """Return a fitted sampler whose dictionary lets most proposals pass, its oversampling doubled until so.

    What a dictionary costs in proposals is estimated from a few rows, so that the sum over all is made only once.
    """
    few = rows.few(PROBE, generator_at(seed, PROBE_ROWS))
    while True:
        dictionary = sampler.fit(rows.data()).dictionary_
        if lost(dictionary, few, scale * dictionary.n_seen / n_rows(few)) <= LOST:
            return sampler
        if 2 * len(dictionary) >= dictionary.n_seen or sampler.oversampling >= LARGEST_OVERSAMPLING:
            return sampler
        sampler = clone(sampler).set_params(oversampling=2 * sampler.oversampling)


def lost(dictionary: Dictionary, X: Rows, scale: float) -> float:
    """Return −log of the part of proposals that pass on account of the dictionary's span, were ``X`` all rows.

    log det(I + αA) + Tr (I + αA)⁻¹α(C − A) − log det(I + αC) with A = P C P: how far log det's tangent at A lies
    above its value at C. Never negative, 0 where the atoms span the rows.
    """
    span = span_of(dictionary.kernel, dictionary.atoms)
    moment, left, _ = _coordinates(span, X)
    K = scale * gram(dictionary.kernel, X)
    K.flat[:: len(K) + 1] += 1.0
    log_dets = [np.linalg.slogdet(np.eye(span.rank) + scale * moment)[1], np.linalg.slogdet(K)[1]]
    return float(log_dets[0] + scale * left.sum() - log_dets[1])


def prepare(rows: MemoryRows | SourceRows, sampler: Any, kernel: Any, scale: float, *, weighted: bool) -> Prepared:
    """Read the rows and return what proposals need; a sampler that is fitted already is not fitted again.

    The projected form reads them for the dictionary and once more; the weighted form once more too, or, with
    :class:`~squeak.samplers.Kors` at the ridge that fits, not again: atoms are then only ever added, so that a
    row's score against those known when it came bounds its score against all.
    """
    if weighted and isinstance(sampler, Kors) and sampler.ridge == 1.0 / scale:
        return _in_one_pass(rows, sampler, kernel, scale)
    if not hasattr(sampler, "_state"):
        sampler.fit(rows.data())
    dictionary = sampler.dictionary_
    if not weighted:
        return _projected(rows, dictionary, scale)
    if not dictionary.calibrated:
        raise ValueError(f"{type(sampler).__name__} gives no weights that estimate sums: use weighted=False")
    surrogate = Surrogate.weighted(kernel, dictionary.atoms, dictionary.weights)
    bounds = np.concatenate([surrogate.scores(block, scale) for block in rows.blocks()])
    return Prepared(surrogate, scale, bounds, True, dictionary)


def _in_one_pass(rows: MemoryRows | SourceRows, sampler: Any, kernel: Any, scale: float) -> Prepared:
    bounds = []
    for block in rows.blocks():
        sampler.partial_fit(block)
        bounds.append(sampler.factor_.scores(block))
    dictionary = sampler.dictionary_
    surrogate = Surrogate.weighted(kernel, dictionary.atoms, dictionary.weights)
    return Prepared(surrogate, scale, np.concatenate(bounds) * (1 + MARGIN), False, dictionary)


def _projected(rows: MemoryRows | SourceRows, dictionary: Dictionary, scale: float) -> Prepared:
    """Sum z zᵀ over all rows, and bound each row's score by the sum so far: online leverage scores.

    With G_t the sum over the blocks up to the row's own, G_t ⪯ G, so l_i ≤ α(k_ii − ‖z_i‖²) + αz_iᵀ(I + αG_t)⁻¹z_i;
    in the last block, and so wherever there is only one, this is l_i itself.
    """
    span = span_of(dictionary.kernel, dictionary.atoms)
    moment = np.zeros((span.rank, span.rank))
    residual, bounds = 0.0, []
    for block in rows.blocks():
        for part in engine.tiles(n_rows(block), max(TILE, COORDINATES // max(span.rank, 1))):
            added, left, Z = _coordinates(span, take(block, part))
            moment += added
            residual += float(left.sum())
            factor = GrowingCholesky(inverse_factor(np.eye(span.rank) + scale * moment))
            bounds.append(scale * (left + _lengths(factor, Z)))
    exact = len(bounds) == 1
    surrogate = Surrogate.rotated(span, moment, residual)
    found = np.concatenate(bounds)
    return Prepared(surrogate, scale, found if exact else found * (1 + MARGIN), exact, dictionary)


def _coordinates(span: EigenFeatures, X: Rows) -> tuple[Array, Array, Array]:
    """Return Σ z zᵀ, k(x, x) − ‖z‖² and z for the rows of a block, in tiles on the threads, summed in order."""
    Z, left = np.empty((n_rows(X), span.rank)), np.empty(n_rows(X))

    def one(tile: slice) -> Array:
        part = take(X, tile)
        Z[tile] = span.block(part)
        explained = np.einsum("ij,ij->i", Z[tile], Z[tile])
        left[tile] = unexplained(diagonal(span.kernel, part), explained, span.kernel)
        return np.asarray(Z[tile].T @ Z[tile])

    total = np.zeros((span.rank, span.rank))
    for run in engine.tiles(n_rows(X), 32 * TILE):  # the tiles' own sums would take too much memory all at once
        tiles = [slice(t.start + run.start, t.stop + run.start) for t in engine.tiles(run.stop - run.start, TILE)]
        for added in engine.map_ordered(one, tiles):
            total += added
    return total, left, Z


def _lengths(factor: GrowingCholesky, Z: Array) -> Array:
    """Return zᵀM⁻¹z for every row of Z, M = L Lᵀ, from L⁻¹."""

    def one(tile: slice) -> Array:
        v = factor.project(Z[tile])
        return np.asarray(np.einsum("ij,ij->i", v, v))

    return np.concatenate(engine.map_ordered(one, engine.tiles(len(Z), TILE)))
