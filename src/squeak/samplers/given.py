"""Nyström sampling with the caller's own probabilities: the thesis' first three algorithms, to the letter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

import numpy as np

from squeak.core.constructors import parameters
from squeak.core.rows import n_rows
from squeak.core.seeds import SAMPLE, generator_at
from squeak.core.types import Array, Rows
from squeak.samplers.base import Plan
from squeak.samplers.batch import BatchSampler, Choice


@parameters
class BinomialNystrom(BatchSampler):
    """Keep row i with counts_i ~ Binomial(copies, p_i), for probabilities p_i that the caller gives.

    The weight counts_i/(copies·p_i) is 1 in expectation for every p_i, and coins of different rows are independent,
    so that no sum of the probabilities is needed; the number of atoms is random, at most 3·copies·Σp with
    probability 1 − exp(−copies·Σp). Where every p_i is at least τ_i/ρ, τ the ridge leverage scores, and copies is
    4·ρ·log(4n/δ)/ε², the dictionary is (ε, ridge)-accurate with probability 1 − δ. For a number of draws that is
    fixed, take :class:`MultinomialNystrom`.

    Parameters
    ----------
    kernel : kernel, optional
    copies : int
        q̄, the coins of a row.
    probabilities : array of shape (n,), callable or None
        One for each row, above 0 and at most 1: the exact scores are ORACLE-RLS, scores within a factor ρ are the
        thesis' algorithm 3. A callable is given the rows. None is 1/n, uniform sampling.
    ridge : float, optional
        Not used for the choice; it is the ridge of the dictionary's scores. 1e-3 of the mean diagonal by default.
    source : str, optional
    random_state : None, int, RandomState or Generator

    References
    ----------
    Thesis, algorithms 1 to 3, propositions 2.3 and 2.5, corollary 2.9; the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.leverage import exact_leverage_scores
    >>> from squeak.samplers import BinomialNystrom
    >>> X = np.random.default_rng(0).standard_normal((500, 2))
    >>> p = exact_leverage_scores(X, RBF(2.0), ridge=1.0)
    >>> d = BinomialNystrom(RBF(2.0), copies=10, probabilities=p, ridge=1.0, random_state=0).fit(X).dictionary_
    >>> bool(len(d) < 3 * 10 * p.sum()), bool(abs(d.weights.sum() - 500) < 200)
    (True, True)
    """

    copies: int = field(default=10, kw_only=False)
    probabilities: Array | Callable[[Rows], Array] | None = None
    ridge: float | None = None

    def _choose(self, X: Rows, plan: Plan, seed: int) -> tuple[list[Choice], float]:
        n, asked = n_rows(X), self.probabilities
        if isinstance(asked, str):
            raise TypeError(f"probabilities must be numbers, a function or None; it is {asked!r}")
        given = np.full(n, 1.0 / n) if asked is None else asked(X) if callable(asked) else asked
        chances = np.asarray(given, dtype=np.float64)
        if chances.shape != (n,) or not (chances > 0).all() or not (chances <= 1).all():
            raise ValueError(f"probabilities must be {n} numbers above 0 and at most 1")
        counts = generator_at(seed, SAMPLE).binomial(plan.copies, chances)
        kept = np.flatnonzero(counts)
        return [Choice(kept, chances[kept], counts[kept], plan.copies, plan.ridge, None)], 1.0
