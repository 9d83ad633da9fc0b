"""Thin: the one random step of SQUEAK, DISQUEAK and the graph sparsifiers, on plain arrays.

A row starts with ``copies`` coins at probability 1. Each time its score is known better, its probability
p is lowered to p' = min(p, score) and every coin left is kept with probability p'/p. A row with no coin
left is forgotten. The weight counts/(copies·p) is then a martingale: its expectation stays exactly 1,
whatever the scores were, as long as p' is fixed before the draw.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import bdtrc

from squeak.core.types import Array, IntArray


def thin(probabilities: Array, counts: IntArray, scores: Array, rng: np.random.Generator) -> tuple[Array, IntArray]:
    """Lower each probability to its new score and thin the counts to match.

    Probabilities never rise (p' = min(p, score)), so counts' ~ Binomial(counts, p'/p) is well
    defined and E[counts'/p'] = counts/p: weights stay unbiased. Rows with no count left may go.

    Source: Thesis, section 3.3 (SHRINK); the theory page.
    """
    lowered = np.minimum(probabilities, scores)
    return lowered, rng.binomial(counts, lowered / probabilities)


def thin_to(
    probabilities: Array, counts: IntArray, scores: Array, size: int, rng: np.random.Generator
) -> tuple[Array, IntArray]:
    """Thin as :func:`thin` does, to a number of rows that is fixed before the draw.

    p' = min(p, c·score), with c such that the chances s_i that a row keeps any coin sum up to ``size``. Which rows
    stay is drawn systematically: laid end to end in random order, the lengths s_i are met by a comb of teeth at
    distance 1 whose place is uniform. It meets a length s_i ≤ 1 with probability s_i exactly, and ``size`` of them.
    A row that stays has as many coins as a Binomial(counts, p'/p) that is not 0. So every count has the
    distribution of :func:`thin`; only different rows are no longer independent. c depends on what was known before
    the draw, p' never exceeds p, and E[counts'/p'] = counts/p: weights stay unbiased. Rows whose score is 0 go, as
    they do there.

    Source: Madow, "On the theory of systematic sampling, II", Annals of Mathematical Statistics 1949.
    """
    coins: int | IntArray = 1 if (counts == 1).all() else counts

    def lowered_by(factor: float) -> tuple[Array, Array]:
        lowered = np.minimum(probabilities, factor * scores)
        return lowered, any_survives(lowered / probabilities, coins)

    alive = scores > 0
    if np.count_nonzero(alive) <= size:
        return probabilities, np.where(alive, counts, 0)
    reach = np.log(probabilities[alive]) - np.log(scores[alive])
    nobody, everybody = float(reach.min()) - 40.0, float(reach.max())
    found = brentq(lambda log: float(lowered_by(np.exp(log))[1].sum()) - size, nobody, everybody, xtol=1e-14)
    lowered, stay = lowered_by(np.exp(found))
    kept = _systematic(stay, size, rng)
    left = np.zeros(len(counts), dtype=np.int64)
    uniforms = stay[kept] * rng.random(len(kept))  # below the chance to stay: at least one coin is left
    ratios = lowered[kept] / probabilities[kept]
    for at, u, ratio in zip(kept.tolist(), uniforms.tolist(), ratios.tolist(), strict=True):
        left[at] = max(1, count_from_uniform(u, ratio, int(counts[at])))
    return lowered, left


def _systematic(chances: Array, size: int, rng: np.random.Generator) -> IntArray:
    """Return the places of ``size`` rows drawn with the chances given, which sum up to it, by one random number."""
    sure, rest = np.flatnonzero(chances >= 1.0), np.flatnonzero(chances < 1.0)
    order = rest[rng.permutation(len(rest))]
    ends = np.cumsum(chances[order])
    if ends.size:
        ends[-1] = size - len(sure)  # but for rounding it is
    teeth = np.floor(np.minimum(ends, size - len(sure)) + rng.random())
    met = order[np.diff(teeth, prepend=0.0) > 0]
    return np.sort(np.concatenate([sure, met]))


def keep_probability(scores: float | Array, oversampling: float, copies: int) -> Array:
    """Return the probability of each coin: p = min(1, (oversampling/copies)·score)."""
    return np.asarray(np.minimum(1.0, (oversampling / copies) * scores))


def any_survives(probabilities: Array, copies: int | IntArray) -> Array:
    """Return P(at least one of ``copies`` coins survives) = 1 − (1 − p)^copies, without cancellation."""
    if isinstance(copies, int) and copies == 1:
        return np.asarray(probabilities)
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(copies * np.log1p(-np.asarray(probabilities))))


def count_from_uniform(uniform: float, probability: float, copies: int) -> int:
    """Return the Binomial(copies, p) count that a uniform number stands for, large counts at small u.

    count = #{j ≥ 1 : u < P(Binomial(copies, p) ≥ j)}. It is 0 exactly when u ≥ 1 − (1 − p)^copies and grows
    with p, so a row can be given up as soon as an upper bound of its p is below its u.
    """
    if probability >= 1.0:
        return copies
    if copies == 1:
        return int(uniform < probability)
    low, high = 0, copies  # the tail falls with j: bisect for the last one above u
    while low < high:
        middle = (low + high + 1) // 2
        if uniform < bdtrc(middle - 1, copies, probability):
            low = middle
        else:
            high = middle - 1
    return low


def expected_survivors(probabilities: Array, counts: IntArray, scores: Array) -> float:
    """Return the mean of the number of rows that :func:`thin` would leave."""
    return float(any_survives(np.minimum(probabilities, scores) / probabilities, counts).sum())
