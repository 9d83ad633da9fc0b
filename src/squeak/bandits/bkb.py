"""BKB: GP-UCB on a dictionary of the arms pulled, drawn anew after every reward."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from squeak.bandits.base import Bandit
from squeak.bandits.checks import check_positive
from squeak.bandits.evidence import LANDMARKS
from squeak.bandits.sparse import SparseModel
from squeak.core.storage import register
from squeak.core.thinning import keep_probability
from squeak.core.types import Array, BoolArray, IntArray, Rows

MANY = 500
"""Above so many arms told at once the log-determinant is bounded by a sum."""


class SparseBandit(Bandit):
    """A bandit on a dictionary: what BKB and its batched form share."""

    def __init__(self, arms: Any, kernel: Any = None, *, oversampling: float = 5.0, **params: Any) -> None:
        self.oversampling = check_positive(oversampling, "oversampling")
        super().__init__(arms, kernel, **params)

    _model_class: ClassVar[type[SparseModel]] = SparseModel

    def _start(self) -> None:
        self._model = self._model_class(self.kernel_, self.arms_, self.ridge_)
        pulled = np.flatnonzero(self.counts_)
        if len(pulled):  # hyper-parameters changed: score the arms pulled from many of them, then draw
            members = self._first_members(pulled)
            self._update(members, np.ones(len(members), dtype=bool), pulled, self.counts_[pulled])
            self._resample(pulled, self.counts_[pulled])
            self._log_sum = self._model.log_determinant(pulled, self.counts_[pulled].astype(np.float64))

    def _first_members(self, pulled: IntArray) -> IntArray:
        """Return a dictionary to score the pulled arms from, where no score is known: at most 500 of them."""
        if len(pulled) <= MANY:
            return pulled
        return np.sort(self._generator().choice(pulled, MANY, replace=False))

    def _resample(self, told: IntArray, times: IntArray) -> None:
        """Draw the dictionary from scratch, by the variances so far and the new counts; make the posterior."""
        pulled = np.flatnonzero(self.counts_)
        chance = keep_probability(self.counts_[pulled] * self._model.variance[pulled], self.oversampling, 1)
        stays = self._generator().random(len(pulled)) < chance
        if not stays.any():
            stays[np.argmax(chance)] = True
        self._update(pulled[stays], np.asarray(chance[stays] >= 1.0), told, times)

    def _update(self, members: IntArray, sure: BoolArray, told: IntArray, times: IntArray) -> None:
        pulled = np.flatnonzero(self.counts_)
        counts = self.counts_[pulled].astype(np.float64)
        self._model.update(members, sure, pulled, counts, self._centred(pulled), told, times.astype(np.float64))

    def _note(self, arms: IntArray, times: IntArray) -> None:
        """Add pulls to the running log-determinant: log det(I + a·√n(B + R)√n), B and R the variance's two terms.

        For one arm it is log(1 + a·n·σ̃²); for many told at once it is at most the sum of those, and no less than
        what the same pulls give one after the other.
        """
        model = self._model
        if len(arms) > MANY:
            self._log_sum += float(np.log1p(self.beta.inflation * times * model.variance[arms]).sum())
            return
        z = np.take(model.features, arms, axis=1)
        overlap = z.T @ model.solver @ z
        overlap[np.diag_indices_from(overlap)] += model.residual[arms]
        root = np.sqrt(times)
        overlap *= self.beta.inflation * np.multiply.outer(root, root)
        overlap[np.diag_indices_from(overlap)] += 1.0
        self._log_sum += float(np.linalg.slogdet(overlap)[1])

    def _masked(self, scores: Array) -> Array:
        return scores if self.active_.all() else np.where(self.active_, scores, -np.inf)

    @property
    def dictionary_(self) -> IntArray:
        """The numbers of the arms in the dictionary."""
        return self._model.members.copy()

    def _landmarks(self, pulled: IntArray) -> IntArray | None:
        if len(pulled) <= LANDMARKS:
            return None
        # a dictionary drawn for a kernel that is too wide would hide the need for a narrower one: fill it up
        even = np.linspace(0, len(pulled) - 1, LANDMARKS).astype(np.int64)
        return np.unique(np.concatenate([np.searchsorted(pulled, self._model.members), even]))

    def _grow(self, rows: Rows) -> None:
        self._model.add(rows)

    def _posterior_at_arms(self) -> tuple[Array, Array]:
        return self._model.mean, self.noise_ * np.sqrt(self._model.variance)

    def _posterior(self, X: Rows) -> tuple[Array, Array]:
        mean, variance = self._model.predict(X)
        return mean, self.noise_ * np.sqrt(variance)

    def _variance_sum(self) -> float:
        return float(self.counts_ @ self._model.variance)

    def _options(self) -> dict[str, Any]:
        return {"oversampling": self.oversampling}

    def _model_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._model.to_arrays(), {}

    def _restore_model(self, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        self._model.restore(arrays)


@register
class BKB(SparseBandit):
    """Budgeted kernel bandit: GP-UCB whose posterior lives on a dictionary of the arms pulled.

    After every reward the dictionary is drawn anew: arm i, pulled n_i times, stays with probability
    min(1, oversampling·n_i·σ̃_i²). Its size follows the effective dimension and not the number of steps. The
    variance is DTC's, a sum of two terms that are never negative, so that no arm's interval collapses for want of
    atoms near it.
    A step costs O(A·m²).

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
        self._note(arms, times)
        self._resample(arms, times)

    def _choose(self, limit: int | None) -> list[int]:
        variance = self._with_pending() if self._pending else self._model.variance
        scores = self._model.mean + self._width() * np.sqrt(variance)
        return [int(np.argmax(self._masked(scores)))]

    def _with_pending(self) -> Array:
        """Return the variances once the pending pulls are told; the model stays as it is."""
        model, solver = self._model, self._model.solver
        signal = model.signal
        for arm in self._pending:
            z = model.features[:, arm]
            h = solver @ z
            scale = 1.0 / (1.0 + float(z @ h))
            overlap = h @ model.features
            signal = np.maximum(signal - scale * overlap * overlap, 0.0)
            solver = solver - scale * np.multiply.outer(h, h)
        variance: Array = signal + model.residual if model.keep_residual else signal
        return variance


def bkb_oversampling(eps: float, delta: float, n_steps: int) -> float:
    """Return the oversampling of BKB's theorem: 6·a·log(4T/δ)/ε², a = (1 + ε)/(1 − ε).

    With it, σ²/a ≤ σ̃² ≤ a·σ² at every arm and step with probability 1 − delta. For a few hundred steps it keeps
    every arm pulled.

    Parameters
    ----------
    eps, delta : float
    n_steps : int
        T, the number of pulls.

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
