"""BKB: GP-UCB on a dictionary of the arms pulled, drawn anew after every reward."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from squeak.bandits.base import Bandit
from squeak.bandits.evidence import LANDMARKS
from squeak.bandits.sparse import MANY, SparsePosterior
from squeak.core.checks import check_choice, check_positive
from squeak.core.rows import take
from squeak.core.thinning import any_survives, keep_probability
from squeak.core.types import Array, BoolArray, IntArray
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
        chance = self._inclusion(self.counts_[pulled], self._model.leverage[pulled])
        stays = self._generator().random(len(pulled)) < chance
        if not stays.any():
            stays[np.argmax(chance)] = True
        self._update(pulled[stays], np.asarray(chance[stays] >= 1.0), told, times)

    def _inclusion(self, counts: IntArray, leverage: Array) -> Array:
        """Return the chance of every arm pulled to be in the dictionary."""
        return keep_probability(counts * leverage, self.oversampling, 1)

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
    """Choose among candidates by GP-UCB on a dictionary of the arms pulled: the budgeted kernel bandit.

    After every reward the dictionary is drawn again: arm i, pulled n_i times, stays with probability min(1,
    oversampling·n_i·σ̃_i²). Its size follows the effective dimension, and not the number of steps. The variance is
    that of DTC, a sum of two terms that are never negative, so that no arm's interval collapses because there are
    no atoms near it. A step takes a time of order A·m² for A arms and m atoms.

    Parameters
    ----------
    arms : rows
        One row for every candidate.
    kernel : kernel
        How similar two arms are. The default is an RBF of the median width.
    oversampling : float
        q̄, the factor in the probability above. 3 to 5 gives the regret of the exact algorithm, and 1 does not.
        :func:`bkb_oversampling` has the theorem's value.
    coins : {"arm", "pull"}
        "arm" tosses one coin per arm, as above. "pull" tosses one for each pull, as the algorithm is printed: an
        arm is in the dictionary if any of its coins is heads, with probability 1 − (1 − min(1,
        oversampling·σ̃_i²))^n_i, which is no larger.
    noise, norm, delta, beta, prior_mean, refit, scale, random_state, verbose
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
    OPTIONS: ClassVar[tuple[str, ...]] = ("oversampling", "coins")

    def __init__(self, arms: Any, kernel: Any = None, *, coins: str = "arm", **params: Any) -> None:
        self.coins = check_choice("coins", coins, "arm", "pull")
        super().__init__(arms, kernel, **params)

    def _inclusion(self, counts: IntArray, leverage: Array) -> Array:
        if self.coins == "arm":
            return super()._inclusion(counts, leverage)
        return any_survives(keep_probability(leverage, self.oversampling, 1), counts)

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
