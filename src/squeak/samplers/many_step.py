"""Many steps: the ridge is halved down to the one asked for, each dictionary scoring the rows of the next."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from squeak.core.constructors import parameters
from squeak.core.kernels import diagonal
from squeak.core.seeds import SAMPLE, generator_at
from squeak.core.types import Rows
from squeak.samplers.base import Coins, Plan
from squeak.samplers.batch import BatchSampler, Choice, bounded_scores, keep_by_score
from squeak.samplers.dictionary import Dictionary
from squeak.samplers.theory import many_step_oversampling


@parameters
class ManyStep(Coins, BatchSampler):
    """Halve the ridge from Tr K to the one asked for; the dictionary at each ridge gives the scores at the next.

    At ridge_0 = Tr K a row's score is at most k_ii/(k_ii + ridge_0): the first dictionary is drawn by that.
    Then ridge_t = max(ridge_(t−1)/2, ridge), τ̃ from the dictionary before (with the papers' (1 + ε) on the
    ridge in their form), p = min(1, (oversampling/copies)·τ̃). It ends exactly at ``ridge``.

    Parameters
    ----------
    kernel, ridge, oversampling, copies, eps, delta, n, source, random_state
        As in :class:`Squeak`.
    score : callable, optional
        Given a dictionary, how well the task at hand is solved with it (larger is better): the ridge is
        halved no further once that stops improving, and the best dictionary is returned.

    Attributes
    ----------
    dictionary_ : Dictionary
    path_ : list of Dictionary
        One for each ridge, largest ridge first.
    passes_ : float

    References
    ----------
    Thesis, algorithm 5 with the clamp and the start of the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.samplers import ManyStep
    >>> X = np.random.default_rng(0).standard_normal((1500, 2))
    >>> s = ManyStep(kernel=RBF(2.0), ridge=1.0, oversampling=5, random_state=0).fit(X)
    >>> len(s.path_), s.dictionary_.ridge
    (12, 1.0)
    """

    _theory = staticmethod(many_step_oversampling)

    score: Callable[[Dictionary], float] | None = None

    def _choose(self, X: Rows, plan: Plan, seed: int) -> tuple[list[Choice], float]:
        diag = diagonal(plan.kernel, X)
        ridge = max(float(diag.sum()), plan.ridge)
        scores = diag / (diag + ridge)
        path: list[Choice] = []
        passes, best = 0.0, -np.inf
        while True:
            choice = keep_by_score(scores, plan, ridge, generator_at(seed, SAMPLE, len(path)))
            if self.score is not None and choice.rows.size:
                value = float(self.score(self._dictionary_of(choice, X, plan, None)))
                if np.isnan(value):
                    raise ValueError(f"score returned NaN for the dictionary at ridge {ridge:g}")
                if path and not value > best:
                    break
                best = value
            path.append(choice)
            if ridge == plan.ridge:
                break
            ridge = max(ridge / 2, plan.ridge)
            scores = bounded_scores(choice, X, plan, (1.0 + plan.eps) * ridge)
            passes += 1.0
        return path, passes

    @property
    def path_(self) -> list[Dictionary]:
        """The dictionaries along the way, largest ridge first."""
        self.dictionary_  # noqa: B018  (raises where nothing is fitted)
        return self._path
