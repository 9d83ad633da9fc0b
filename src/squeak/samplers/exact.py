"""Sampling with the exact scores: the reference, for as many rows as a full kernel matrix allows."""

from __future__ import annotations

import numpy as np

from squeak.core.constructors import parameters
from squeak.core.kernels import gram
from squeak.core.leverage import scores_at, weighted_spectrum
from squeak.core.rows import n_rows
from squeak.core.seeds import SAMPLE, generator_at
from squeak.core.types import Rows
from squeak.samplers.base import Coins, Plan
from squeak.samplers.batch import BatchSampler, Choice, keep_by_score
from squeak.samplers.theory import oracle_oversampling


@parameters
class ExactRLS(Coins, BatchSampler):
    """Keep each row with probability proportional to its exact ridge leverage score.

    τ_i = [K(K + ridge·I)⁻¹]_ii, counts_i ~ Binomial(copies, p_i), p_i = min(1, (oversampling/copies)·τ_i), weight
    counts/(copies·p). Needs all of K: O(n³) time and O(n²) memory.

    Parameters
    ----------
    kernel, ridge, oversampling, copies, eps, delta, n, source, random_state
        As in :class:`Squeak`.

    References
    ----------
    Thesis, section 2.2.2 (ORACLE-RLS) and chapter 3 (EXACT-RLS); the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.samplers import ExactRLS
    >>> X = np.random.default_rng(0).standard_normal((500, 2))
    >>> len(ExactRLS(kernel=RBF(2.0), ridge=1.0, oversampling=5, random_state=0).fit(X).dictionary_)
    57
    """

    _theory = staticmethod(oracle_oversampling)

    def _choose(self, X: Rows, plan: Plan, seed: int) -> tuple[list[Choice], float]:
        spectrum = weighted_spectrum(gram(plan.kernel, X), np.ones(n_rows(X)))
        scores = scores_at(*spectrum, np.ones(n_rows(X)), plan.ridge)
        return [keep_by_score(scores, plan, plan.ridge, generator_at(seed, SAMPLE))], 1.0
