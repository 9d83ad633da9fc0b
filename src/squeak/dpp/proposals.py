"""Proposals: a few rows drawn by their scores, accepted or refused as a whole, and thinned to an exact sample.

With scores l_i = αφ_iᵀ(I + αA)⁻¹φ_i and any r > 0, row i is drawn c_i ~ Poisson(r·e^(1/r)·l_i) times, t in all. The
rows drawn, weighted by c_i/(r·l_i), make L̃; they are accepted with probability a, and S ~ DPP(L̃) is then exactly
DPP(αL):

    log a = Tr αA(I + αA)⁻¹ − t/r − log det(I + αA) + log det(I + L̃)  ≤  0,

for log det is concave. r = Σl is DPP-VFX (q = r·Σl), r = Tr αA(I + αA)⁻¹ is α-DPP; we take the r that costs least.
The Poisson rate must not be rounded: rounding it by a factor f gives DPP(f·αL).

A proposal is thinned by the Cholesky factor of I + L alone, without eigenvectors.

Rows are decided from the last to the first. With C Cᵀ = I + L, row j decided after S (the later rows that are in):

    P(j ∈ S | later decisions) = 1 − (1 + a)/C_jj²,   a = cᵀGc,   c = C[S, j],

where G is the inverse of L_SS less what the rows up to j explain, C[S, :j + 1] C[S, :j + 1]ᵀ. As a ≥ 0, a row
whose coin is not below 1 − 1/C_jj² is out whatever came before: only the others are looked at one by one. After
the factor, which the acceptance test of DPP-VFX needs anyway, the cost is O(u·|S|²) for u rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from squeak.core.kernels import gram
from squeak.core.rows import take
from squeak.core.seeds import SAMPLE, generator_at
from squeak.core.types import Array, IntArray, Rows
from squeak.dpp.preparing import OVERSAMPLING, Prepared
from squeak.dpp.store import MemoryRows, SourceRows

(_posv,) = get_lapack_funcs(("posv",), dtype=np.float64)


def sample_from_factor(factor: Array, uniforms: Array) -> IntArray:
    """Return a sample of DPP(L), ascending, from the lower factor C of I + L = C Cᵀ and a coin for each row.

    Derivation: eliminate the undecided rows before j from I + L with the 1 taken off the diagonal of those in S.
    What is left for S is Σ_j = Σ_{j+1} + c cᵀ, for j beside S it is C_jj·c, and for j itself C_jj²; the
    probability is 1 less the ratio of determinants without and with j. Out, j leaves Σ_j; in, it borders it.

    Source: Our own arrangement of the chain rule; Launay, Galerne, Desolneux, "Exact sampling of determinantal
    point processes without eigendecomposition", 2018, decide the rows in order with the marginal kernel instead.
    """
    squares = np.square(factor.diagonal())
    candidates = np.flatnonzero(uniforms * squares < squares - 1.0)[::-1].tolist()
    chosen: list[int] = []
    rows = np.empty((16, len(squares)))  # of the factor, those chosen
    G = np.empty((16, 16))
    upto = len(squares)  # columns from here on have been taken into G
    for j in candidates:
        k, left, h = len(chosen), squares[j], None
        if k:
            inverse = G[:k, :k]
            if upto > j + 1:
                _update(inverse, rows[:k, j + 1 : upto])
            c = rows[:k, j]
            g = inverse @ c
            a = 1.0 + max(float(c @ g), 0.0)
            inverse -= np.multiply.outer(g, g / a)
            left /= a
            h = (factor[j, j] / a) * g
        upto = j
        if uniforms[j] * left >= left - 1.0:
            continue
        if k == len(rows):
            rows, G = np.concatenate([rows, np.empty_like(rows)]), np.pad(G, (0, k))
        rows[k] = factor[j]
        G[k, k] = 1.0 / (left - 1.0)
        if h is not None:
            scaled = h / (left - 1.0)
            G[:k, :k] += np.multiply.outer(h, scaled)
            G[k, :k] = G[:k, k] = -scaled
        chosen.append(j)
    return np.array(chosen[::-1], dtype=np.int64)


def _update(G: Array, R: Array) -> None:
    """Put (G⁻¹ + R Rᵀ)⁻¹ in the place of G."""
    GR = G @ R
    inner = R.T @ GR
    inner.flat[:: len(inner) + 1] += 1.0
    _, solved, _ = _posv(inner, GR.T)
    G -= GR @ solved


(_potrf,) = get_lapack_funcs(("potrf",), dtype=np.float64)

MOST_REFUSED = 4.0
"""r is never so small that more than 1 − e⁻⁴ of the proposals are refused on its account."""

STEP, DRAW, ENTRY, FLOP = 2.5e-4, 1.3e-7, 2.5e-8, 1.2e-11
"""Rough seconds of a proposal, a draw, an entry of its matrix, and u³ for its factor: they choose r, no more."""

ROUNDING = 1e-6
"""A log a above this is no rounding error."""

LARGEST = 20_000
"""Proposals of more rows than this are refused: their matrix would take 3 GB."""

AHEAD = 2**20
"""Rows drawn ahead at most, where fetching them takes a pass over the source."""


def lost_by(total: float, draws: float) -> float:
    """Return −log of the part of the proposals that are accepted at r = ``draws``, on account of r alone.

    r·s·(e^(1/r) − 1) − s, about s/(2r).
    """
    return total * (draws * math.expm1(1.0 / draws) - 1.0)


def best_draws(total: float, n: int) -> float:
    """Return the r at which an exact sample costs least: few rows a proposal against few proposals.

    Any r is exact. Where factors cost most and rows hardly repeat, t³·e^(s/2r) with t ≈ r·s is least at r = s/6.
    """
    grid = np.geomspace(min(total / 16, 1.0), max(16 * total, 64.0), 161).tolist()

    def cost(draws: float) -> float:
        drawn = draws * math.exp(1.0 / draws) * total
        rows = n * -math.expm1(-drawn / n)
        return math.log(STEP + DRAW * drawn + ENTRY * rows**2 + FLOP * rows**3) + lost_by(total, draws)

    allowed = [draws for draws in grid if draws > 0.02 and lost_by(total, draws) <= MOST_REFUSED]
    return float(min(allowed, key=cost))


@dataclass(frozen=True)
class Drawn:
    """A proposal before its rows are looked at; ``rng`` holds the coins that are still to be tossed."""

    rows: IntArray
    counts: IntArray
    rng: np.random.Generator


MOST_DRAWS = 1e8
"""Draws of one proposal, repeats counted; they are held in memory."""


class Proposer:
    """Draws proposals for DPP(αL) and decides them.

    ``scale``: α. ``draws``: r; the best one when left out.
    """

    def __init__(self, prepared: Prepared, scale: float, draws: float | None = None) -> None:
        self.prepared, self.scale = prepared, scale
        surrogate = prepared.surrogate
        total, n = surrogate.total(scale), len(prepared.bounds)
        self.draws = best_draws(total, n) if draws is None else draws
        self._constant = surrogate.trace(scale) - surrogate.log_det(scale)
        self._known = prepared.exact and scale == prepared.scale
        self._stretch = prepared.stretch(scale)
        self.rate = self._rate(float(prepared.heights[-1]) * self._stretch)
        if not self.rate <= MOST_DRAWS:
            raise ValueError(f"proposals of {self.rate:.3g} draws do not fit into memory: the scores are too large")
        expected = n * -math.expm1(-self._rate(total) / n)
        if expected > LARGEST:
            raise ValueError(
                f"a sample of about {total:,.0f} rows would take proposals of {expected:,.0f}: ask for fewer with "
                "expected_size or k, or use a larger length_scale"
            )

    def _rate(self, total: float) -> float:
        """Return the expected number of draws from scores of that sum."""
        return self.draws * math.exp(1.0 / self.draws) * total

    def draw(self, rng: np.random.Generator) -> Drawn:
        """Return Poisson(r·e^(1/r)·b_i) draws of every row, b the bounds; only those drawn are named."""
        heights = self.prepared.heights
        places = rng.random(rng.poisson(self.rate)) * heights[-1]
        numbers = np.minimum(np.searchsorted(heights, places, side="right"), len(heights) - 1)
        rows, counts = np.unique(numbers, return_counts=True)
        return Drawn(rows, counts, rng)

    def decide(self, drawn: Drawn, X: Rows, values: Array | None) -> IntArray | None:
        """Return a sample of DPP(αL), or None for a proposal that is refused.

        ``X``: those drawn. ``values``: their kernel matrix, where it is known.
        """
        prepared, rng = self.prepared, drawn.rng
        rows, counts = drawn.rows, drawn.counts
        bounds = prepared.bounds[rows]
        scores = bounds if self._known or not len(rows) else prepared.surrogate.scores(X, self.scale)
        if not self._known and len(rows):
            counts = rng.binomial(counts, np.minimum(scores / (self._stretch * bounds), 1.0))
            kept = np.flatnonzero(counts)
            rows, counts, scores = rows[kept], counts[kept], scores[kept]
            X = take(X, kept)
            values = None if values is None else values[np.ix_(kept, kept)]
        factor, log_accept = self._accept(X, values, counts, scores)
        if math.log(1.0 - rng.random()) > log_accept:
            return None
        return rows[sample_from_factor(factor, rng.random(len(rows)))]

    def _accept(self, X: Rows, values: Array | None, counts: IntArray, scores: Array) -> tuple[Array, float]:
        """Return the factor of I + L̃ and log a."""
        if len(counts) == 0:
            return np.zeros((0, 0)), self._constant
        kernel = self.prepared.surrogate.features.kernel
        K = gram(kernel, X) if values is None else values
        root = np.sqrt(self.scale / self.draws * counts / scores)
        M = root[:, None] * K * root
        M.flat[:: len(M) + 1] += 1.0
        factor, info = _potrf(M.T, lower=1, clean=0, overwrite_a=1)
        if info != 0:
            raise ValueError(f"{kernel!r} is not positive semi-definite on {len(M)} rows; use a PSD kernel")
        log_accept = self._constant - counts.sum() / self.draws + 2.0 * float(np.log(factor.diagonal()).sum())
        if not log_accept <= ROUNDING:
            raise ValueError(
                f"{kernel!r} is not positive semi-definite, or loses its digits: a proposal's probability came "
                f"out as exp({log_accept:.3g}) > 1"
            )
        return factor, log_accept


def outcomes(
    proposer: Proposer, rows: MemoryRows | SourceRows, seed: int, call: int, first: int, ahead: int
) -> Iterator[IntArray | None]:
    """Yield what comes of the proposals number ``first``, ``first + 1``, … of a call: a sample, or None.

    Each has a generator of its own, so it does not matter how many are drawn ahead: from memory one at a time, from
    a source as many as one pass should serve.
    """
    kernel: Any = proposer.prepared.surrogate.features.kernel
    while rows.in_memory:
        drawn = proposer.draw(generator_at(seed, SAMPLE, call, first))
        yield proposer.decide(drawn, rows.fetch(drawn.rows), rows.values(kernel, drawn.rows))
        first += 1
    while True:
        batch = max(1, min(ahead, int(AHEAD / max(proposer.rate, 1.0))))
        waiting = [proposer.draw(generator_at(seed, SAMPLE, call, first + i)) for i in range(batch)]
        needed = np.unique(np.concatenate([drawn.rows for drawn in waiting]))
        X = rows.fetch(needed)
        for drawn in waiting:
            yield proposer.decide(drawn, take(X, np.searchsorted(needed, drawn.rows)), None)
        first += batch


class RejectionLimitError(ValueError):
    """No proposal was accepted within the limit; the message says what to change.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.dpp import DPP, RejectionLimitError
    >>> from squeak.kernels import RBF
    >>> from squeak.samplers import Uniform
    >>> X = np.random.default_rng(0).standard_normal((60, 3))
    >>> try:
    ...     DPP(5.0 * RBF(0.7), Uniform(max_atoms=3), max_rejections=5, random_state=0).fit(X).sample()
    ... except RejectionLimitError as error:
    ...     print(str(error)[:31])
    5 proposals in a row were refus
    """


def refused(proposer: Proposer, k: int | None, limit: int, *, weighted: bool) -> RejectionLimitError:
    """Return the error after so many proposals in a row that were refused."""
    cure = ", leave out weighted=True" if weighted else ""
    rank = "" if k is None else " (the kernel's matrix may have too small a rank for k)"
    size = proposer.prepared.surrogate.size(proposer.scale) if k is None else k
    return RejectionLimitError(
        f"{limit:,} proposals in a row were refused: a dictionary of {len(proposer.prepared.dictionary):,} atoms "
        f"is too poor for samples of about {size:.0f} rows. Give a sampler with more atoms, as "
        f"sampler=Squeak(oversampling={4 * OVERSAMPLING:g}){cure}, ask for smaller samples{rank}, or raise "
        "max_rejections"
    )


def missed(k: int, size: int, misses: int) -> RejectionLimitError:
    """Return the error after so many samples in a row of another size than k."""
    return RejectionLimitError(
        f"{misses:,} samples in a row had another size than k = {k} (the last had {size}): the kernel's matrix may "
        "have too small a rank; ask for fewer rows or use a smaller length_scale"
    )
