"""Baselines: samplers that the literature compares with; for new work take :class:`squeak.samplers.Squeak`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

import numpy as np

from squeak.core.checks import check_whole
from squeak.core.cholesky import NotPositiveDefiniteError, inverse_factor
from squeak.core.constructors import parameters
from squeak.core.kernels import diagonal, gram
from squeak.core.leverage import dictionary_scores, weighted_gram
from squeak.core.rows import n_rows, take
from squeak.core.seeds import SAMPLE, generator_at
from squeak.core.thinning import keep_probability, thin
from squeak.core.types import Array, Rows
from squeak.samplers.base import Coins, Plan
from squeak.samplers.batch import BatchSampler, Choice, keep_by_score, merge_draws
from squeak.samplers.theory import online_oracle_oversampling

SMALLEST_BLOCK = 256
"""Rows that :class:`InkEstimate` takes in at once, at least."""


@parameters
class MultinomialNystrom(BatchSampler):
    """Draw ``max_atoms`` rows independently with given probabilities; a row drawn twice counts twice.

    Row i has weight count_i/(max_atoms·P_i), 1 in expectation where P_i is above 0. There are at most ``max_atoms``
    atoms, fewer where rows were drawn more than once.

    Parameters
    ----------
    kernel : kernel, optional
    max_atoms : int
        The number of draws.
    probabilities : array of shape (n,), "diagonal", callable or None
        One for each row, scaled to sum 1; "diagonal" for k_ii/Tr K; a callable is given the rows; None for
        uniform.
    ridge : float, optional
        Not used for the choice; it is the ridge of the dictionary's scores.
    source : str, optional
    random_state : None, int, RandomState or Generator

    References
    ----------
    Thesis, section 2.1 (Nyström sampling; there binomial); the theory page. Williams and Seeger, NeurIPS 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import Linear
    >>> from squeak.samplers import MultinomialNystrom
    >>> X = np.random.default_rng(0).standard_normal((400, 3))
    >>> s = MultinomialNystrom(kernel=Linear(), max_atoms=50, probabilities="diagonal", random_state=0)
    >>> int(s.fit(X).dictionary_.counts.sum())
    50
    """

    max_atoms: int = field(default=100, kw_only=False)
    probabilities: Array | str | Callable[[Rows], Array] | None = None
    ridge: float | None = None

    def _choose(self, X: Rows, plan: Plan, seed: int) -> tuple[list[Choice], float]:
        chances = self._chances(X, plan)
        size = check_whole("max_atoms", self.max_atoms)
        draws = generator_at(seed, SAMPLE).choice(n_rows(X), size, p=chances)
        return [merge_draws(draws, chances[draws], size, plan.ridge)], 1.0

    def _chances(self, X: Rows, plan: Plan) -> Array:
        n, asked = n_rows(X), self.probabilities
        if asked is None:
            return np.full(n, 1.0 / n)
        if isinstance(asked, str):
            if asked != "diagonal":
                raise ValueError(f"probabilities must be numbers, 'diagonal', a function or None; it is {asked!r}")
            chances = diagonal(plan.kernel, X)
        else:
            chances = np.asarray(asked(X) if callable(asked) else asked, dtype=np.float64)
        if chances.shape != (n,) or not np.isfinite(chances).all() or chances.min() < 0 or chances.sum() <= 0:
            raise ValueError(f"probabilities must be {n} finite numbers that are not negative and not all zero")
        return np.asarray(chances / chances.sum())


@parameters
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

    copies: int = 200

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


@parameters
class _Oracle(Coins, BatchSampler):
    """Exact scores in the order of the stream, from one factor of K + ridge·I."""

    _theory = staticmethod(online_oracle_oversampling)

    @staticmethod
    def _factor(X: Rows, plan: Plan) -> Array:
        """Return T = L⁻¹ for L Lᵀ = K + ridge·I: its leading rows belong to the rows seen first."""
        K = weighted_gram(gram(plan.kernel, X), np.ones(n_rows(X)), plan.ridge)
        try:
            return inverse_factor(K)
        except NotPositiveDefiniteError:
            raise ValueError(
                f"{plan.kernel!r} is not positive semi-definite, or the ridge is lost in rounding"
            ) from None


class OnlineOracle(_Oracle):
    """Keep each row by its exact score within the rows up to it, for ever: SORACLE-RLS-NOREM.

    τ_(t,t) = 1 − ridge/L_tt², L Lᵀ = K + ridge·I; p = min(1, (oversampling/copies)·τ_(t,t)). The sum of these
    scores is the online effective dimension, d_eff ≤ d_onl ≤ log det(I + K/ridge). What :class:`Kors`
    approximates; O(n³).

    Parameters
    ----------
    kernel, ridge, oversampling, copies, eps, delta, n, source, random_state
        As in :class:`Squeak`.

    Attributes
    ----------
    dictionary_ : Dictionary
    online_dimension_ : float
        d_onl, the sum of the scores.

    References
    ----------
    Thesis, algorithm 7 and lemma 3.9; the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.samplers import OnlineOracle
    >>> X = np.random.default_rng(0).standard_normal((500, 2))
    >>> s = OnlineOracle(kernel=RBF(2.0), ridge=1.0, oversampling=5, random_state=0).fit(X)
    >>> round(s.online_dimension_, 1)
    24.4
    """

    online_dimension_: float

    def _choose(self, X: Rows, plan: Plan, seed: int) -> tuple[list[Choice], float]:
        T = self._factor(X, plan)
        scores = np.clip(1.0 - plan.ridge * np.square(T.diagonal()), 0.0, 1.0)
        self._facts = {"online_dimension_": float(scores.sum())}
        return [keep_by_score(scores, plan, plan.ridge, generator_at(seed, SAMPLE))], 1.0


class OnlineOracleRemoval(_Oracle):
    """Thin every stored row by its exact score within the rows seen so far, at every step: SORACLE-RLS-REM.

    τ_(t,i) = 1 − ridge·Σ_(j ≤ t) T_ji², T = L⁻¹, L Lᵀ = K + ridge·I. After all n rows counts_i ~
    Binomial(copies, p_i) with p_i from τ_(n,i), exactly as :class:`ExactRLS`. What :class:`Squeak`
    approximates; O(n³).

    Parameters
    ----------
    kernel, ridge, oversampling, copies, eps, delta, n, source, random_state
        As in :class:`Squeak`.

    References
    ----------
    Thesis, algorithm 9; the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.samplers import OnlineOracleRemoval
    >>> X = np.random.default_rng(0).standard_normal((300, 2))
    >>> d = OnlineOracleRemoval(kernel=RBF(2.0), ridge=1.0, oversampling=5, random_state=0).fit(X).dictionary_
    >>> 20 < len(d) < 100
    True
    """

    def _choose(self, X: Rows, plan: Plan, seed: int) -> tuple[list[Choice], float]:
        T = self._factor(X, plan)
        n = n_rows(X)
        rng = generator_at(seed, SAMPLE)
        squares = np.zeros(n)
        probabilities, counts = np.ones(n), np.zeros(n, dtype=np.int64)
        for t in range(n):
            squares[: t + 1] += np.square(T[t, : t + 1])
            counts[t] = plan.copies
            stored = np.flatnonzero(counts[: t + 1])
            scores = np.clip(1.0 - plan.ridge * squares[stored], 0.0, 1.0)
            chances = np.maximum(
                keep_probability(scores, plan.oversampling, plan.copies), np.finfo(np.float64).tiny
            )
            probabilities[stored], counts[stored] = thin(probabilities[stored], counts[stored], chances, rng)
        kept = np.flatnonzero(counts)
        choice = Choice(kept, probabilities[kept], counts[kept], plan.copies, plan.ridge, plan.oversampling)
        return [choice], 1.0
