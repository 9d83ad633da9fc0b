"""Thompson sampling from the exact posterior."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from squeak.bandits.exact import ExactPosterior
from squeak.bandits.gp_ucb import ExactBandit
from squeak.bandits.posterior import highest
from squeak.core.kernels import gram
from squeak.core.types import Array, Rows


class ThompsonSampling(ExactBandit):
    """Thompson sampling, exact: draw one f from the Gaussian process given all rewards, and pull its best arm.

    A draw is f = g + K(·, u)(K_u + λ·diag(1/n))⁻¹(ȳ − g_u − e), where g ~ N(0, K) is a draw from the prior over all
    arms, u are the arms pulled n times with mean reward ȳ, and e ~ N(0, λ/n): its law is that of the posterior,
    with all its correlations between arms. The first draw costs O(A³) for A arms, each further one O(A² + A·u): for
    a few thousand arms. :class:`DictionaryThompson` is for more.

    Parameters
    ----------
    arms, kernel, noise, norm, delta, beta, prior_mean, refit, scale, random_state, verbose
        As in :class:`GPUCB`; beta is not used.

    References
    ----------
    Thompson 1933; Chowdhury and Gopalan 2017; Wilson et al. 2020 (the form of the draw).

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.bandits import ThompsonSampling
    >>> from squeak.kernels import RBF
    >>> arms = np.linspace(0, 1, 50).reshape(-1, 1)
    >>> bandit = ThompsonSampling(arms, RBF(0.3), noise=0.05, random_state=0)
    >>> bandit.run(lambda i: float(arms[i, 0]), 30).best_.index > 40
    True
    """

    kind: ClassVar[str] = "thompson_sampling"
    _posterior = ExactPosterior
    _root: Array | None

    def _start(self) -> None:
        super()._start()
        self._root = None  # of the prior's covariance, made for the first draw

    def _grow(self, rows: Rows) -> None:
        super()._grow(rows)
        self._root = None

    def _draw(self) -> Array:
        """Return f at every arm, less the prior mean: one draw from the posterior."""
        if self._root is None:
            values, vectors = np.linalg.eigh(gram(self.kernel_, self.arms_))
            self._root = vectors * np.sqrt(np.maximum(values, 0.0))
        model, rng = self._model, self._generator()
        prior = self._root @ rng.standard_normal(self.n_arms)
        noise = np.sqrt(model.ridge / model.counts) * rng.standard_normal(model.size)
        gap = model.sums / model.counts - prior[model.pulled] - noise
        return np.asarray(prior + (model.inverse @ gap) @ model.columns)

    def _choose(self, limit: int | None) -> list[int]:
        return [highest(self._draw(), self.active_)]
