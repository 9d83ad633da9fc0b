"""GP-UCB, exact: the arm with the highest upper confidence bound of a Gaussian process."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from squeak.bandits.base import Bandit
from squeak.bandits.exact import ExactModel
from squeak.bandits.lazy import LazyModel
from squeak.core.storage import register
from squeak.core.types import Array, IntArray, Rows

REBUILD = 64
"""From so many arms told at once on, the posterior is made anew instead of arm by arm."""


class Pending:
    """The variance at every arm once the pending pulls are told: it does not depend on their rewards.

    Between calls: ``variance`` belongs to the model after ``model_pulls`` rewards and the pulls in ``arms``.
    """

    def __init__(self) -> None:
        self.arms: list[int] = []
        self._told = -1
        self._rows: list[Array] = []
        self.variance: Array = np.zeros(0)

    def follow(self, model: ExactModel | LazyModel, pending: list[int], told: int) -> Array:
        """Return the variance for the pulls pending now; goes on from the last call where it can."""
        n = len(self.arms)
        if told != self._told or self.arms != pending[:n] or len(self.variance) != len(model.variance):
            self.arms, self._rows, self._told = [], [], told
            self.variance = model.variance.copy()
        for arm in pending[len(self.arms) :]:
            covariance = model.covariance(arm)
            for row in self._rows:
                covariance -= row[arm] * row
            row = covariance / np.sqrt(model.ridge + max(float(covariance[arm]), 0.0))
            self.variance = np.maximum(self.variance - row * row, 0.0)
            self._rows.append(row)
            self.arms.append(arm)
        return self.variance


class ExactBandit(Bandit):
    """A bandit on the exact posterior; a subclass says which arm is best by mean and standard deviation."""

    _model_class: ClassVar[Any] = ExactModel

    def _start(self) -> None:
        self._model = self._model_class(self.kernel_, self.arms_, self.ridge_)
        self._overlay = Pending()
        pulled = np.flatnonzero(self.counts_)
        if len(pulled):
            self._model.rebuild(pulled, self.counts_[pulled].astype(np.float64), self._centred(pulled))
        self._sync()

    def _sync(self) -> None:
        self._log_sum = self._model.logdet

    def _learn(self, arms: IntArray, totals: Array, times: IntArray) -> None:
        if len(arms) >= REBUILD:
            pulled = np.flatnonzero(self.counts_)
            self._model.rebuild(pulled, self.counts_[pulled].astype(np.float64), self._centred(pulled))
        else:
            for arm, total, count in zip(arms.tolist(), totals.tolist(), times.tolist(), strict=True):
                self._model.observe(arm, total, count)
        self._sync()

    def _grow(self, rows: Rows) -> None:
        self._model.add(rows)

    def _choose(self, limit: int | None) -> list[int]:
        variance = self._overlay.follow(self._model, self._pending, self.n_told_) if self._pending else None
        std = np.sqrt(self._model.variance if variance is None else variance)
        scores = self._scores(self._model.mean, std)
        if not self.active_.all():
            scores = np.where(self.active_, scores, -np.inf)
        return [int(np.argmax(scores))]

    def _scores(self, mean: Array, std: Array) -> Array:
        """Return how much each arm promises; mean is less the prior mean."""
        raise TypeError(f"{type(self).__name__} is abstract: use GPUCB")

    def _posterior_at_arms(self) -> tuple[Array, Array]:
        return self._model.mean, np.sqrt(self._model.variance)

    def _posterior(self, X: Rows) -> tuple[Array, Array]:
        mean, variance = self._model.predict(X)
        return mean, np.sqrt(variance)

    def _variance_sum(self) -> float:
        model = self._model
        return float(model.counts @ model.pulled_variance()) / self.ridge_

    def _model_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._model.to_arrays(), {}

    def _restore_model(self, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        self._model.restore(arrays)


@register
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

    _model_class = LazyModel

    def _choose(self, limit: int | None) -> list[int]:
        if self._pending:
            return super()._choose(limit)
        return [self._model.best(self.beta_, self.active_)]

    def _scores(self, mean: Array, std: Array) -> Array:
        return mean + self.beta_ * std
