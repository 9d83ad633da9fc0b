"""GP-UCB, exact: the arm with the highest upper confidence bound of a Gaussian process."""

from __future__ import annotations

from typing import Any, ClassVar

from squeak.bandits.base import Bandit
from squeak.bandits.exact import learn
from squeak.bandits.lazy import LazyPosterior
from squeak.core.types import Array, IntArray


class ExactBandit(Bandit):
    """A bandit on the exact posterior."""

    _posterior: ClassVar[Any] = LazyPosterior

    def _start(self) -> None:
        self._model = self._posterior(self.kernel_, self.arms_, self.ridge_)
        if self.counts_.any():
            self._model.rebuild(*self._counted())
        self._log_sum = self._model.logdet

    def _learn(self, arms: IntArray, totals: Array, times: IntArray) -> None:
        learn(self._model, arms, totals, times, self._counted())
        self._log_sum = self._model.logdet


class GPUCB(ExactBandit):
    """Exact GP-UCB: pull the arm with the largest μ(x) + β·s(x).

    μ and s are mean and standard deviation of the Gaussian process given all t rewards. With repeats counted, a
    step costs O(A·u + u²) for A arms of which u were pulled. Regret grows like γ_t·√t with γ_t = ½·logdet(I +
    K_t/λ).

    Parameters
    ----------
    arms : rows
        One row for every arm.
    kernel : kernel
        RBF of the median width when left out.
    noise : float
        Standard deviation ξ of a reward around f; λ = noise².
    norm : float
        F, a bound on ‖f − prior_mean‖ in the kernel's space; about the range of f.
    delta : float
        The intervals hold for all arms and steps with probability 1 − delta.
    beta : {"logdet", "theory", "theory-sum", "public"}, float or Width
        The width β; the guide on bandits compares them. A number is in posterior standard deviations.
    prior_mean : float
        What is expected of an arm of which nothing is known.
    refit : None, "doubling" or numbers of rewards
        When to fit length scale, noise and prior mean to the rewards by marginal likelihood.
    random_state : None, int, RandomState or Generator
        Used for the first arm only.
    verbose : int
        1: a progress bar in :meth:`run`.

    References
    ----------
    Srinivas et al. 2010; Carratino thesis, chapter 6; the theory page, "Bandits".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.bandits import GPUCB
    >>> from squeak.kernels import RBF
    >>> arms = np.linspace(0, 1, 200).reshape(-1, 1)
    >>> f = np.sin(9 * arms[:, 0]) * arms[:, 0]
    >>> rng = np.random.default_rng(0)
    >>> bandit = GPUCB(arms, RBF(0.15), noise=0.05, random_state=0)
    >>> for _ in range(60):
    ...     arm = bandit.ask()
    ...     bandit.tell(arm, f[arm] + 0.05 * rng.standard_normal())
    >>> bool(f.max() - f[bandit.best_.index] < 0.02)
    True
    """

    kind: ClassVar[str] = "gp_ucb"
