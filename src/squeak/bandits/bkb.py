"""BKB: GP-UCB on a dictionary of the arms pulled, drawn anew after every reward, or for each batch of many."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from squeak.bandits.base import Bandit
from squeak.bandits.evidence import LANDMARKS
from squeak.bandits.posterior import Posterior
from squeak.bandits.runs import check_factor
from squeak.bandits.sparse import MANY, SparsePosterior
from squeak.core.checks import check_choice, check_positive, check_whole
from squeak.core.rows import n_rows, take
from squeak.core.saved import fill, put_together, take_apart
from squeak.core.state import flag, whole, wholes
from squeak.core.thinning import keep_probability
from squeak.core.types import Array, BoolArray, IntArray, Rows
from squeak.samplers.dictionary import Dictionary


class SparseBandit(Bandit):
    """A bandit on a dictionary: what BKB and its batched form share."""

    OPTIONS: ClassVar[tuple[str, ...]] = ("oversampling",)
    _posterior: ClassVar[type[SparsePosterior]] = SparsePosterior

    def __init__(self, arms: Any, kernel: Any = None, *, oversampling: float = 5.0, **params: Any) -> None:
        self.oversampling = check_positive("oversampling", oversampling)
        super().__init__(arms, kernel, **params)

    def _start(self) -> None:
        self._model = self._posterior(self.kernel_, self.arms_, self.ridge_)
        pulled, counts, _ = self._counted()
        if len(pulled):  # hyper-parameters changed: score the arms pulled from many of them, then draw
            members = pulled
            if len(pulled) > MANY:
                members = np.sort(self._generator().choice(pulled, MANY, replace=False))
            self._update(members, np.ones(len(members), dtype=bool), pulled, self.counts_[pulled])
            self._resample(pulled, self.counts_[pulled])
            self._log_sum = self._model.log_determinant(pulled, counts)

    def _resample(self, told: IntArray, times: IntArray) -> None:
        """Draw the dictionary from scratch, by the variances so far and the new counts; make the posterior."""
        pulled = np.flatnonzero(self.counts_)
        chance = keep_probability(self.counts_[pulled] * self._model.leverage[pulled], self.oversampling, 1)
        stays = self._generator().random(len(pulled)) < chance
        if not stays.any():
            stays[np.argmax(chance)] = True
        self._update(pulled[stays], np.asarray(chance[stays] >= 1.0), told, times)

    def _update(self, members: IntArray, sure: BoolArray, told: IntArray, times: IntArray) -> None:
        self._model.update(members, sure, *self._counted(), told, times.astype(np.float64))

    @property
    def dictionary_(self) -> Dictionary:
        """The dictionary: some of the arms pulled, ``indices`` their numbers.

        Its weights do not estimate sums over the arms: the posterior projects on the atoms' span and needs none.
        """
        members = self._members()
        if not len(members):
            raise AttributeError("there is no dictionary before the first reward, or while the posterior is exact")
        return Dictionary(
            kernel=self.kernel_,
            atoms=take(self.arms_, members),
            indices=members,
            probabilities=np.ones(len(members)),
            counts=np.ones(len(members), dtype=np.int64),
            copies=1,
            oversampling=self.oversampling,
            ridge=self.ridge_,
            n_seen=self.n_arms,
            sources=(("arms", self.n_arms),),
            calibrated=False,
        )

    def _members(self) -> IntArray:
        members: IntArray = self._model.members
        return members

    def _landmarks(self, pulled: IntArray) -> IntArray | None:
        if len(pulled) <= LANDMARKS:
            return None
        # a dictionary drawn for a kernel that is too wide would hide the need for a narrower one: fill it up
        even = np.linspace(0, len(pulled) - 1, LANDMARKS).astype(np.int64)
        return np.unique(np.concatenate([np.searchsorted(pulled, self._members()), even]))


class BKB(SparseBandit):
    """Budgeted kernel bandit: GP-UCB whose posterior lives on a dictionary of the arms pulled.

    After every reward the dictionary is drawn anew: arm i, pulled n_i times, stays with probability
    min(1, oversampling·n_i·σ̃_i²). Its size follows the effective dimension and not the number of steps. The
    variance is DTC's, a sum of two terms that are never negative, so that no arm's interval collapses for want of
    atoms near it. A step costs O(A·m²).

    Parameters
    ----------
    arms : rows
    kernel : kernel
    oversampling : float
        q̄. 3 to 5 gives the regret of the exact algorithm; 1 does not. See :func:`bkb_oversampling` for the
        theorem's.
    noise, norm, delta, beta, prior_mean, refit, random_state, verbose
        As in :class:`GPUCB`.

    References
    ----------
    Calandriello et al. 2019; Carratino thesis, algorithm 5; the theory page, "Bandits".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.bandits import BKB
    >>> from squeak.kernels import RBF
    >>> arms = np.random.default_rng(1).random((500, 2))
    >>> f = np.exp(-8 * ((arms - 0.6) ** 2).sum(axis=1))
    >>> rng = np.random.default_rng(0)
    >>> bandit = BKB(arms, RBF(0.25), noise=0.1, random_state=0)
    >>> bandit = bandit.run(lambda i: f[i] + 0.1 * rng.standard_normal(), 80)
    >>> bool(f.max() - f[bandit.best_.index] < 0.1), len(bandit.dictionary_) < 80
    (True, True)
    """

    kind: ClassVar[str] = "bkb"

    def _learn(self, arms: IntArray, totals: Array, times: IntArray) -> None:
        self._log_sum += self._model.information(arms, times, self.beta.inflation)
        self._resample(arms, times)


def bkb_oversampling(eps: float, delta: float, n_steps: int) -> float:
    """Return the oversampling of BKB's theorem: 6·a·log(4T/δ)/ε², a = (1 + ε)/(1 − ε).

    With it, σ²/a ≤ σ̃² ≤ a·σ² at every arm and step with probability 1 − delta. For a few hundred steps it keeps
    every arm pulled.

    Parameters
    ----------
    eps, delta : float
    n_steps : int
        T, the number of pulls.

    Returns
    -------
    float

    References
    ----------
    Calandriello et al. 2019, theorem 1; the theory page, "Bandits".

    Examples
    --------
    >>> from squeak.bandits import bkb_oversampling
    >>> round(bkb_oversampling(0.5, 0.1, 400))
    697
    """
    if not (0 < eps < 1 and 0 < delta < 1 and n_steps >= 1):
        raise ValueError(
            f"eps and delta lie between 0 and 1, n_steps from 1 on; they are {eps}, {delta}, {n_steps}"
        )
    return 6.0 * (1.0 + eps) / (1.0 - eps) * math.log(4.0 * n_steps / delta) / eps**2


MOST_AT_ONCE = 10_000
"""Arms of one batch at most: one that ends early costs nothing in regret, and a number from a file may be any."""


class Batch:
    """One batch in the making: mean and width are frozen, variances fall with each arm chosen.

    Only V learns of the arms chosen, so that variances never rise while it lasts: an upper bound that is out of
    date is still an upper bound. After each choice the bounds of those arms alone are made anew that might be the
    highest.

    ``model``: as it was at the last feedback. ``width``: β in ridge-leverage units.
    """

    def __init__(self, model: SparsePosterior, width: float, active: BoolArray) -> None:
        self._model, self._width = model, width
        self._at_feedback = model.leverage
        self._variance = self._at_feedback.copy()
        self._bounds = np.where(active, model.mean + width * np.sqrt(self._variance), -np.inf)
        self._since = np.zeros(len(self._variance), dtype=np.int64)  # steps that an arm's variance knows of
        self._solver = model.solver.copy()
        self._steps: Array = np.empty((64, len(model.solver)))  # √scale·h of each step: σ̃² falls by (z·row)²
        self.size = 0
        self.sum = 1.0
        """1 + Σ of the variances at the last feedback, over the arms chosen."""

    def next_arm(self) -> int:
        """Return the arm with the highest bound; refreshes what might be it."""
        best = int(np.argmax(self._bounds))
        while self._since[best] < self.size:
            self._refresh(np.array([best]))
            floor = self._bounds[best]  # the highest bound is no lower: below it nothing needs to be known
            doubtful = np.flatnonzero((self._bounds >= floor) & (self._since < self.size))
            if len(doubtful):
                self._refresh(doubtful)
            best = int(np.argmax(self._bounds))
        return best

    def _refresh(self, arms: IntArray) -> None:
        first = int(self._since[arms].min())
        steps = self._steps[first : self.size]
        falls = (steps @ np.take(self._model.features, arms, axis=1)) ** 2
        falls[np.arange(first, self.size)[:, None] < self._since[arms]] = 0.0  # what an arm knows of already
        variance = np.maximum(self._variance[arms] - falls.sum(axis=0), self._model.residual[arms])
        self._variance[arms] = variance
        self._since[arms] = self.size
        self._bounds[arms] = self._model.mean[arms] + self._width * np.sqrt(variance)

    def add(self, arm: int) -> float:
        """Let V know of a pull; returns the arm's variance before it."""
        if self._since[arm] < self.size:
            self._refresh(np.array([arm]))
        before = float(self._variance[arm])
        z = self._model.features[:, arm]
        h = self._solver @ z
        h /= np.sqrt(1.0 + float(z @ h))
        self._solver -= np.multiply.outer(h, h)
        if self.size == len(self._steps):
            self._steps = np.concatenate([self._steps, np.empty_like(self._steps)])
        self._steps[self.size] = h
        self.size += 1
        self.sum += float(self._at_feedback[arm])
        return before

    def largest_ratio(self, arms: list[int]) -> float:
        """Return max_x of 1 + Σ_s k̃(x, x_s)²/σ̃²(x), all at the last feedback.

        A tighter bound on what variances lost.
        """
        at = np.take(self._model.features, np.array(arms), axis=1)
        overlap = (at.T @ self._model.solver) @ self._model.features
        lost = np.einsum("ij,ij->j", overlap, overlap)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(self._at_feedback > 0, lost / self._at_feedback, 0.0)
        return 1.0 + float(ratio.max())


class BatchBKB(SparseBandit):
    """BKB in batches: ``ask`` returns an array of arms that can be pulled at the same time.

    Within a batch dictionary, mean and width are those of the last feedback; each arm chosen lowers the variances.
    A batch ends when 1 + Σ_s σ̃²(x_s) over its arms, with variances from before the batch, exceeds
    ``batch_factor``: no variance has then fallen by more than that factor, which is what the regret bound needs.
    Batches grow as variances fall, and the cost of a new dictionary is shared by all arms of a batch.

    Parameters
    ----------
    arms : rows
    kernel : kernel
    oversampling : float
        q̄ of the dictionary; 3 to 5.
    batch_factor : float
        C̃ > 1. Near 1: single arms, as in :class:`BKB`.
    stopping : {"global", "local"}
        "local" goes on after the sum above until max_x 1 + Σ_s k̃(x, x_s)²/σ̃²(x), a tighter bound of the same ratio,
        exceeds the factor: larger batches at O(A·m) more for each arm.
    max_batch : int, optional
        No more arms than this at once: the number of machines. 10,000 unless given, and at most.
    noise, norm, delta, beta, prior_mean, refit, random_state, verbose
        As in :class:`GPUCB`.

    References
    ----------
    Calandriello et al. 2020; the theory page, "Bandits".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.bandits import BatchBKB
    >>> from squeak.kernels import RBF
    >>> arms = np.random.default_rng(1).random((500, 2))
    >>> f = np.exp(-8 * ((arms - 0.6) ** 2).sum(axis=1))
    >>> rng = np.random.default_rng(0)
    >>> bandit = BatchBKB(arms, RBF(0.25), noise=0.1, random_state=0)
    >>> for _ in range(60):
    ...     batch = bandit.ask()
    ...     bandit.tell(batch, f[batch] + 0.1 * rng.standard_normal(len(batch)))
    >>> bool(f.max() - f[bandit.best_.index] < 0.1), bandit.n_told_ > 70
    (True, True)
    """

    kind: ClassVar[str] = "batch_bkb"
    OPTIONS: ClassVar[tuple[str, ...]] = ("oversampling", "batch_factor", "stopping", "max_batch")

    def __init__(
        self,
        arms: Any,
        kernel: Any = None,
        *,
        oversampling: float = 5.0,
        batch_factor: float = 2.0,
        stopping: str = "global",
        max_batch: int | None = None,
        **params: Any,
    ) -> None:
        self.batch_factor = check_factor(batch_factor)
        self.stopping = check_choice("stopping", stopping, "global", "local")
        self.max_batch = None if max_batch is None else check_whole("max_batch", max_batch)
        self.n_batches_ = 0
        super().__init__(arms, kernel, oversampling=oversampling, **params)

    def ask(self) -> Any:
        """Return the numbers of the arms to pull next; an arm may come more than once.

        It may be asked again before all rewards are told: what is pending counts as part of the batch.

        Returns
        -------
        array of ints
        """
        return np.array(self._next_arms(None), dtype=np.int64)

    def _start(self) -> None:
        self._forget_batches()
        super()._start()

    def _forget_batches(self) -> None:
        self._untold: IntArray = np.zeros(self.n_arms, dtype=np.int64)  # rewards told that the model lacks
        self._stale = False

    def _learn(self, arms: IntArray, totals: Array, times: IntArray) -> None:
        self._log_sum += self._model.information(arms, times, self.beta.inflation)
        np.add.at(self._untold, arms, times)
        self._stale = True

    def _first(self) -> int:
        self.n_batches_ += 1
        return super()._first()

    def _choose(self, limit: int | None) -> list[int]:
        beta = self.beta.in_batch(self._width(), self.batch_factor)
        batch = Batch(self._model, beta, self.active_)
        for arm in self._pending:
            batch.add(arm)
        most = min(MOST_AT_ONCE, limit or MOST_AT_ONCE, self.max_batch or MOST_AT_ONCE)
        chosen: list[int] = []
        while len(chosen) < most and not (chosen and self._full(batch, chosen)):
            arm = batch.next_arm()
            batch.add(arm)
            chosen.append(arm)
        self.n_batches_ += 1
        return chosen

    def _full(self, batch: Batch, chosen: list[int]) -> bool:
        if batch.sum <= self.batch_factor:
            return False
        return self.stopping == "global" or batch.largest_ratio(self._pending + chosen) > self.batch_factor

    def _now(self) -> Posterior:
        if self._stale:  # rewards came since the last dictionary
            told = np.flatnonzero(self._untold)
            self._resample(told, self._untold[told])
            self._untold[:] = 0
            self._stale = False
        return super()._now()

    def _grow(self, rows: Rows) -> None:
        super()._grow(rows)
        self._untold = np.concatenate([self._untold, np.zeros(n_rows(rows), dtype=np.int64)])

    def _model_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, content = take_apart(self, STATE)
        return self._model.to_arrays() | arrays, content

    def _restore_model(self, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        super()._restore_model(arrays, content)
        fill(self, put_together(STATE, arrays, content, arms=self.n_arms))
        self._untold = self._untold.copy()


STATE = {"_untold": wholes("arms"), "_stale": flag(), "n_batches_": whole()}
