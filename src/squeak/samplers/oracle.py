"""The sequential oracles: exact scores within the rows seen so far, with and without removal."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core.cholesky import NotPositiveDefiniteError, inverse_factor
from squeak.core.kernels import gram
from squeak.core.leverage import weighted_gram
from squeak.core.rows import n_rows
from squeak.core.seeds import SAMPLE, RandomState, generator_at
from squeak.core.thinning import keep_probability, thin
from squeak.core.types import Array, Rows
from squeak.samplers.base import DEFAULT_OVERSAMPLING, Plan
from squeak.samplers.batch import BatchSampler, Choice, keep_by_score
from squeak.samplers.theory import online_oracle_oversampling


class _Oracle(BatchSampler):
    """Exact scores in the order of the stream, from one factor of K + ridge·I."""

    _theory = staticmethod(online_oracle_oversampling)

    def __init__(
        self,
        kernel: Any = None,
        ridge: float | None = None,
        oversampling: float | str = DEFAULT_OVERSAMPLING,
        copies: int = 1,
        eps: float | None = None,
        delta: float | None = None,
        n: int | None = None,
        source: str | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.kernel = kernel
        self.ridge = ridge
        self.oversampling = oversampling
        self.copies = copies
        self.eps = eps
        self.delta = delta
        self.n = n
        self.source = source
        self.random_state = random_state

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
