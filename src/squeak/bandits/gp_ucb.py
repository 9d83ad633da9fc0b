"""GP-UCB: the highest upper confidence bound of a Gaussian process; exact, or only while few arms were pulled."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from squeak.bandits.base import Bandit
from squeak.bandits.batch_bkb import BatchBKB
from squeak.bandits.exact import learn
from squeak.bandits.lazy import LazyPosterior
from squeak.core.checks import check_positive, check_whole
from squeak.core.state import checked, flag, whole
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
    """Choose among candidates by exact GP-UCB: pull the arm with the largest μ(x) + β·s(x).

    μ and s are the mean and the standard deviation of a Gaussian process, given all t rewards. Repeated pulls of an
    arm are counted, so a step takes a time of order A·u + u² for A arms of which u were pulled. The regret grows
    like γ_t·√t with γ_t = ½·logdet(I + K_t/λ) where ``beta="logdet"``; the default is narrower, does better in
    practice, and has no such guarantee. Rewards may have any mean and spread, unless you say in which units they
    are (see ``scale``).

    Parameters
    ----------
    arms : rows
        One row for every candidate.
    kernel : kernel
        How similar two arms are. The default is an RBF of the median width.
    noise : float, optional
        The standard deviation ξ of a reward around f; λ = noise². The default is 0.1.
    norm : float, optional
        A bound F on ‖f − prior_mean‖ in the kernel's space; it is about the range of f. The default is 1.
    delta : float
        With the theorem's widths the intervals hold for all arms and steps with probability 1 − delta.
    beta : float, {"logdet", "theory", "theory-sum", "public"} or Width
        The width β of the intervals; the guide on bandits compares them. A number, such as the default of 2, is in
        posterior standard deviations, and no theorem holds for it. "logdet" is the theorem's.
    prior_mean : float, optional
        The expected reward of an arm of which nothing is known. The default is 0.
    refit : None, "doubling" or numbers of rewards
        When the length scale, the noise and the prior mean are fitted to the rewards by marginal likelihood.
    scale : None or "auto"
        "auto" draws the first eight arms at random, and takes the mean and the spread of the rewards told for the
        prior mean and for the unit of kernel and noise; again at 16, 32, … rewards. ``unit_`` is the spread taken.
        None is the same as "auto" while nothing else is in units of rewards. If ``noise``, ``norm``,
        ``prior_mean`` or a kernel with a factor (``4.0 * RBF(0.3)``) is given, or a ``beta`` by name, then
        rewards are taken as they are.
    random_state : None, int, RandomState or Generator
        The seed, which decides the first arm only.
    verbose : int
        1 shows a progress bar in :meth:`run`.

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


class AutoUCB(BatchBKB):
    """GP-UCB that stays cheap: exact while few arms are pulled or few are repeated, then :class:`BatchBKB`.

    The exact algorithm takes a time of order A·u per step, and is faster while u, the number of distinct arms
    pulled, is small. The change keeps all rewards, and the first dictionary is drawn from the exact variances.

    Parameters
    ----------
    arms : rows
        One row for every candidate.
    kernel : kernel
        How similar two arms are. The default is an RBF of the median width.
    crossover : int
        The number of distinct arms pulled before the change.
    repeats : float
        The number of pulls per distinct arm before the change; batches pay when arms are pulled again and again.
    oversampling, batch_factor, stopping, max_batch
        As in :class:`BatchBKB`.
    noise, norm, delta, beta, prior_mean, refit, scale, random_state, verbose
        As in :class:`GPUCB`.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.bandits import AutoUCB
    >>> from squeak.kernels import RBF
    >>> arms = np.random.default_rng(1).random((500, 2))
    >>> f = np.exp(-8 * ((arms - 0.6) ** 2).sum(axis=1))
    >>> rng = np.random.default_rng(0)
    >>> bandit = AutoUCB(arms, RBF(0.25), noise=0.1, crossover=20, repeats=1, random_state=0)
    >>> bandit = bandit.run(lambda i: f[i] + 0.1 * rng.standard_normal(), 100)
    >>> bandit.is_exact_, bool(f.max() - f[bandit.best_.index] < 0.1)
    (False, True)
    """

    kind: ClassVar[str] = "auto_ucb"
    OPTIONS: ClassVar[tuple[str, ...]] = ("crossover", "repeats", *BatchBKB.OPTIONS)

    def __init__(
        self, arms: Any, kernel: Any = None, *, crossover: int = 50, repeats: float = 4.0, **params: Any
    ) -> None:
        self.crossover = check_whole("crossover", crossover)
        self.repeats = check_positive("repeats", repeats)
        super().__init__(arms, kernel, **params)

    @property
    def is_exact_(self) -> bool:
        """Whether the posterior is still the exact one."""
        return isinstance(self._model, LazyPosterior)

    def _start(self) -> None:
        if self._pays(int(np.count_nonzero(self.counts_))):
            super()._start()
            return
        self._forget_batches()
        self._model = LazyPosterior(self.kernel_, self.arms_, self.ridge_)
        if self.counts_.any():
            self._model.rebuild(*self._counted())
            self._log_sum = self._model.logdet

    def _learn(self, arms: IntArray, totals: Array, times: IntArray) -> None:
        if not self.is_exact_:
            super()._learn(arms, totals, times)
            return
        learn(self._model, arms, totals, times, self._counted())
        self._log_sum = self._model.logdet
        if self._pays(self._model.size):
            pulled = np.flatnonzero(self.counts_)
            self._model = self._posterior(self.kernel_, self.arms_, self.ridge_, self._model.variance)
            self._resample(pulled, self.counts_[pulled])

    def _pays(self, distinct: int) -> bool:
        """Tell whether the dictionary is the cheaper one from here on."""
        return distinct > self.crossover and self.n_told_ >= self.repeats * distinct

    def _choose(self, limit: int | None) -> list[int]:
        if not self.is_exact_:
            return super()._choose(limit)
        self.n_batches_ += 1
        return [self._model.best(self._width(), self.active_, self._pending)]

    def _members(self) -> IntArray:
        return np.zeros(0, dtype=np.int64) if self.is_exact_ else super()._members()

    def _model_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        if self.is_exact_:
            return self._model.to_arrays(), {"exact": True, "n_batches": self.n_batches_}
        arrays, facts = super()._model_parts()
        return arrays, facts | {"exact": False}

    def _restore_model(self, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        found = checked({"exact": flag(), "n_batches": whole()}, arrays, content)
        if found["exact"]:
            self._model.restore(arrays)
            self.n_batches_ = found["n_batches"]
        else:
            self._model = self._posterior(self.kernel_, self.arms_, self.ridge_)
            super()._restore_model(arrays, content)
