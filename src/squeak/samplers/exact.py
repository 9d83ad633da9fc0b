"""Sampling with the exact scores: the reference, for as many rows as a full kernel matrix allows."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.dictionary import Dictionary
from squeak.core.kernels import gram
from squeak.core.leverage import scores_at, weighted_spectrum
from squeak.core.rows import label_of, n_rows, take
from squeak.core.seeds import SAMPLE, RandomState, draw_seed, generator_at
from squeak.core.sources import gather
from squeak.core.thinning import keep_probability, thin
from squeak.samplers.base import DEFAULT_OVERSAMPLING, ScoreSampler, own_kernel
from squeak.samplers.theory import oracle_oversampling


class ExactRLS(ScoreSampler):
    """Keep each row with probability proportional to its exact ridge leverage score.

    τ_i = [K(K + ridge·I)⁻¹]_ii, counts_i ~ Binomial(copies, p_i), p_i = min(1, (oversampling/copies)·τ_i), weight
    counts/(copies·p). Needs all of K: O(n³) time and O(n²) memory.

    Parameters
    ----------
    kernel, ridge, oversampling, copies, eps, delta, n, source, random_state
        As in :class:`Squeak`.

    References
    ----------
    Thesis, section 2.2.2 (ORACLE-RLS) and chapter 3 (EXACT-RLS); spec 2.2.

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

    def fit(self, X: Any, y: Any = None) -> ExactRLS:
        """Score all rows exactly and keep some; ``y`` is ignored."""
        if callable(self.ridge):
            raise TypeError("ExactRLS takes a constant ridge; schedules are for streams (Squeak)")
        kernel = own_kernel(self.kernel)
        X, preprocessing = gather(X, kernel)
        plan = self._make_plan(X, kernel)
        n = n_rows(X)
        with engine.single_blas():
            spectrum = weighted_spectrum(gram(plan.kernel, X), np.ones(n))
        scores = scores_at(*spectrum, np.ones(n), plan.ridge)
        probabilities, counts = thin(
            np.ones(n),
            np.full(n, plan.copies),
            keep_probability(scores, plan.oversampling, plan.copies),
            generator_at(draw_seed(self.random_state), SAMPLE),
        )
        kept = np.flatnonzero(counts)
        if kept.size == 0:
            raise ValueError(
                f"none of the {n:,} rows was kept: raise oversampling ({plan.oversampling:g}) or lower the ridge"
            )
        self._dictionary = Dictionary(
            kernel=plan.kernel,
            atoms=take(X, kept),
            indices=kept,
            probabilities=probabilities[kept],
            counts=counts[kept],
            copies=plan.copies,
            oversampling=plan.oversampling,
            ridge=plan.ridge,
            n_seen=n,
            sources=((label_of(X) if self.source is None else str(self.source), n),),
            eps=plan.eps,
            preprocessing=preprocessing,
        )
        return self

    @property
    def dictionary_(self) -> Dictionary:
        """The dictionary of the rows given to fit."""
        return self._dictionary if hasattr(self, "_dictionary") else super().dictionary_
