"""The oracle of all subsets, and the chi-square test on counts that every sampler of the room is held against."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.stats import chi2


def all_subsets(n: int) -> list[tuple[int, ...]]:
    return [subset for size in range(n + 1) for subset in combinations(range(n), size)]


def brute_force(L: np.ndarray, k: int | None = None) -> dict[tuple[int, ...], float]:
    """Return P(S) = det(L_S)/Σ det over all subsets, or over those of size k: by the definition."""
    subsets = [s for s in all_subsets(len(L)) if k is None or len(s) == k]
    dets = np.array([np.linalg.det(L[np.ix_(s, s)]) if s else 1.0 for s in subsets])
    dets = np.where(dets > 1e-13, dets, 0.0)
    return dict(zip(subsets, dets / dets.sum(), strict=True))


def p_value(samples: list[np.ndarray], probabilities: dict[tuple[int, ...], float]) -> float:
    """Return the p-value of Pearson's chi-square on counts; bins that expect fewer than 5 are pooled.

    An impossible subset among the samples gives 0.
    """
    counts = dict.fromkeys(probabilities, 0)
    for sample in samples:
        counts[tuple(int(i) for i in sample)] += 1
    observed = np.array(list(counts.values()), dtype=float)
    expected = np.array(list(probabilities.values())) * len(samples)
    if observed[expected == 0].sum() > 0:
        return 0.0
    large = expected >= 5
    observed = np.append(observed[large], observed[~large].sum())
    expected = np.append(expected[large], expected[~large].sum())
    if expected[-1] < 5:  # the pool itself is small: add it to the smallest bin
        smallest = int(np.argmin(expected[:-1]))
        observed[smallest] += observed[-1]
        expected[smallest] += expected[-1]
        observed, expected = observed[:-1], expected[:-1]
    statistic = ((observed - expected) ** 2 / expected).sum()
    return float(chi2.sf(statistic, len(expected) - 1))


def largest_error(samples: list[np.ndarray], K: np.ndarray) -> float:
    """Return how far frequencies of rows and pairs and the mean size lie from the truth, in standard errors.

    P(i) = K_ii, P(i and j) = K_ii K_jj − K_ij², E|S| = Tr K.
    """
    n, N = len(K), len(samples)
    member = np.zeros((N, n))
    for row, sample in enumerate(samples):
        member[row, sample] = 1.0
    single = np.diag(K)
    pairs = np.outer(single, single) - K * K
    both = member.T @ member / N
    upper = np.triu_indices(n, 1)
    errors = [
        np.abs(member.mean(axis=0) - single) / np.sqrt(single * (1 - single) / N),
        np.abs(both - pairs)[upper] / np.sqrt(np.maximum(pairs * (1 - pairs), 1.0 / N)[upper] / N),
        [abs(member.sum(axis=1).mean() - single.sum()) / np.sqrt((single.sum() - (K * K).sum()) / N)],
    ]
    return float(np.concatenate(errors).max())
