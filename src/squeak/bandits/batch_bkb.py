"""Batched BKB: many arms at once, a dictionary for each batch, and variances refreshed only where it matters."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from squeak.bandits.bkb import SparseBandit
from squeak.bandits.posterior import Posterior
from squeak.bandits.runs import check_factor
from squeak.bandits.sparse import SparsePosterior
from squeak.core.checks import check_choice, check_whole
from squeak.core.rows import n_rows
from squeak.core.saved import fill, put_together, take_apart
from squeak.core.state import flag, whole, wholes
from squeak.core.types import Array, BoolArray, IntArray, Rows

SHARE = 10
"""Where the user sets no limit, a batch has at most a tenth of the pulls told so far, …"""

FEW = 8
"""… or so many, if that is more."""

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
    """Choose several candidates at a time: ``ask`` returns an array of arms that can be pulled together.

    Within a batch, the dictionary, the mean and the width are those of the last feedback, and each arm that is
    chosen lowers the variances. A batch ends when 1 + Σ_s σ̃²(x_s) over its arms, with variances from before the
    batch, exceeds ``batch_factor``. No variance has then fallen by more than that factor, which is what the regret
    bound needs. Batches grow as variances fall, and the cost of a new dictionary is shared by all arms of a batch.

    The rule does not know the width. An arm that was pulled n times has σ̃² of about 1/n, so once a width has
    settled on few arms, which narrow ones such as the default do early, the rule alone would double the number of
    their pulls with each batch, and learn nothing from rewards meanwhile. Unless ``max_batch`` is given, a batch
    therefore has at most a tenth of the pulls told so far, or 8 if that is more. A batch that ends early keeps the
    regret bound, and the number of batches still grows with the logarithm of the pulls alone.

    Parameters
    ----------
    arms : rows
        One row for every candidate.
    kernel : kernel
        How similar two arms are. The default is an RBF of the median width.
    oversampling : float
        q̄ of the dictionary, from 3 to 5.
    batch_factor : float
        C̃ > 1. Near 1, batches are single arms, as in :class:`BKB`.
    stopping : {"global", "local"}
        "local" continues after the sum above until max_x 1 + Σ_s k̃(x, x_s)²/σ̃²(x), a tighter bound of the same
        ratio, exceeds the factor. Batches are then larger, and each arm takes a time of order A·m more.
    max_batch : int, optional
        The largest number of arms in a batch, such as the number of machines. The default is a tenth of the pulls
        told so far, and 8 at least; 10,000, the most, leaves the end of a batch to its variances.
    noise, norm, delta, beta, prior_mean, refit, scale, random_state, verbose
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
    >>> bandit = BatchBKB(arms, RBF(0.25), noise=0.1, max_batch=8, random_state=0)
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
        most = min(MOST_AT_ONCE, limit or MOST_AT_ONCE, self.max_batch or max(FEW, self.n_told_ // SHARE))
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
