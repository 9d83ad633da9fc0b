"""Thin: the one random step of SQUEAK, DISQUEAK and the graph sparsifiers, on plain arrays.

A row starts with ``copies`` coins at probability 1. Each time its score is known better, its probability
p is lowered to p' = min(p, score) and every coin left is kept with probability p'/p. A row with no coin
left is forgotten. The weight counts/(copies·p) is then a martingale: its expectation stays exactly 1,
whatever the scores were, as long as p' is fixed before the draw.
"""

from __future__ import annotations

import numpy as np
from scipy.special import bdtrc

from squeak.core.types import Array, IntArray


def thin(probabilities: Array, counts: IntArray, scores: Array, rng: np.random.Generator) -> tuple[Array, IntArray]:
    """Lower each probability to its new score and thin the counts to match.

    Probabilities never rise (p' = min(p, score)), so counts' ~ Binomial(counts, p'/p) is well
    defined and E[counts'/p'] = counts/p: weights stay unbiased. Rows with no count left may go.

    References
    ----------
    Thesis, section 3.3 (SHRINK); the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.core.thinning import thin
    >>> p, q = thin(np.array([1.0, 0.5]), np.array([8, 8]), np.array([0.25, 0.9]), np.random.default_rng(0))
    >>> p, q
    (array([0.25, 0.5 ]), array([2, 8]))
    """
    lowered = np.minimum(probabilities, scores)
    return lowered, rng.binomial(counts, lowered / probabilities)


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

    Examples
    --------
    >>> from squeak.core.thinning import count_from_uniform
    >>> count_from_uniform(0.3, 0.5, 1), count_from_uniform(0.7, 0.5, 1), count_from_uniform(0.01, 0.5, 4)
    (1, 0, 4)
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


def expected_survivors(probabilities: Array, counts: IntArray, scores: Array) -> tuple[float, float]:
    """Return mean and variance of the number of rows that :func:`thin` would leave."""
    stay = any_survives(np.minimum(probabilities, scores) / probabilities, counts)
    return float(stay.sum()), float((stay * (1.0 - stay)).sum())
