"""INK-ESTIMATE, SQUEAK's predecessor: normalised scores, a number of copies fixed in advance."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core.kernels import gram
from squeak.core.leverage import dictionary_scores
from squeak.core.rows import n_rows, take
from squeak.core.seeds import SAMPLE, RandomState, generator_at
from squeak.core.thinning import thin
from squeak.core.types import Rows
from squeak.samplers.base import Plan
from squeak.samplers.batch import BatchSampler, Choice

SMALLEST_BLOCK = 256


class InkEstimate(BatchSampler):
    """Historical: one pass that keeps about ``copies`` copies by normalised scores.

    Each block joins with all its copies; then p'_i = min(p_i, τ̃_i/d̃) with d̃ = Σ w·τ̃ the estimated
    effective dimension, and counts' ~ Binomial(counts, p'/p). The number of copies is fixed, so accuracy
    falls as the effective dimension grows: :class:`Squeak` dropped the normalisation for that reason. Here
    for comparison.

    Parameters
    ----------
    kernel, ridge, source, random_state
        As in :class:`Squeak`.
    copies : int
        Copies kept in expectation, and coins of a row.

    References
    ----------
    Calandriello, Lazaric, Valko, "Analysis of Nyström method with sequential ridge leverage scores", UAI 2016;
    the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.samplers import InkEstimate
    >>> X = np.random.default_rng(0).standard_normal((1000, 2))
    >>> d = InkEstimate(kernel=RBF(2.0), ridge=1.0, copies=100, random_state=0).fit(X).dictionary_
    >>> 60 < int(d.counts.sum()) < 150
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        ridge: float | None = None,
        copies: int = 200,
        source: str | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.kernel = kernel
        self.ridge = ridge
        self.copies = copies
        self.source = source
        self.random_state = random_state

    oversampling = 1.0  # a class attribute: there is no such parameter, for scores are normalised

    def _choose(self, X: Rows, plan: Plan, seed: int) -> tuple[list[Choice], float]:
        n, at = n_rows(X), 0
        rows = np.zeros(0, dtype=np.int64)
        probabilities, counts = np.zeros(0), np.zeros(0, dtype=np.int64)
        while at < n:
            new = np.arange(at, min(n, at + max(SMALLEST_BLOCK, len(rows))))
            at = int(new[-1]) + 1
            rows = np.concatenate([rows, new])
            probabilities = np.concatenate([probabilities, np.ones(len(new))])
            counts = np.concatenate([counts, np.full(len(new), plan.copies)])
            weights = counts / (plan.copies * probabilities)
            scores = dictionary_scores(gram(plan.kernel, take(X, rows)), weights, plan.ridge)
            dimension = max(1.0, float(weights @ scores))
            rng = generator_at(seed, SAMPLE, at)
            probabilities, counts = thin(probabilities, counts, np.minimum(1.0, scores / dimension), rng)
            alive = counts > 0
            rows, probabilities, counts = rows[alive], probabilities[alive], counts[alive]
        return [Choice(rows, probabilities, counts, plan.copies, plan.ridge, None)], 1.0
