"""AutoUCB: exact while few arms were pulled, batched BKB from the crossover on."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from squeak.bandits.batch_bkb import BatchBKB
from squeak.bandits.checks import check_count, check_positive
from squeak.bandits.gp_ucb import REBUILD, Pending
from squeak.bandits.lazy import LazyModel
from squeak.core.state import checked, flag, whole
from squeak.core.storage import register
from squeak.core.types import Array, IntArray, Rows


@register
class AutoUCB(BatchBKB):
    """GP-UCB that stays cheap: exact on counts while few arms are pulled or few repeated, then :class:`BatchBKB`.

    The exact algorithm costs O(A·u) a step and is the faster one while u, the number of distinct arms pulled, is
    small. The move keeps all rewards; the first dictionary is drawn from the exact variances.

    Parameters
    ----------
    arms : rows
    kernel : kernel
    crossover : int
        Distinct arms pulled before the move.
    repeats : float
        Pulls for each distinct arm before the move: batches pay when arms are pulled again and again.
    oversampling, batch_factor, stopping, max_batch
        As in :class:`BatchBKB`.
    noise, norm, delta, beta, prior_mean, refit, random_state, verbose
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

    def __init__(
        self, arms: Any, kernel: Any = None, *, crossover: int = 50, repeats: float = 4.0, **params: Any
    ) -> None:
        self.crossover = check_count(crossover, "crossover")
        self.repeats = check_positive(repeats, "repeats")
        self._exact: LazyModel | None = None
        super().__init__(arms, kernel, **params)

    @property
    def is_exact_(self) -> bool:
        """Whether the posterior is still the exact one."""
        return self._exact is not None

    def _start(self) -> None:
        pulled = np.flatnonzero(self.counts_)
        self._exact, self._overlay = None, Pending()
        if self._pays(len(pulled)):
            super()._start()
            return
        self._untold = np.zeros(self.n_arms, dtype=np.int64)
        self._model = self._model_class(self.kernel_, self.arms_, self.ridge_)
        self._exact = LazyModel(self.kernel_, self.arms_, self.ridge_)
        if len(pulled):
            self._exact.rebuild(pulled, self.counts_[pulled].astype(np.float64), self._centred(pulled))
            self._log_sum = self._exact.logdet

    def _learn(self, arms: IntArray, totals: Array, times: IntArray) -> None:
        if self._exact is None:
            super()._learn(arms, totals, times)
            return
        if len(arms) >= REBUILD:
            pulled = np.flatnonzero(self.counts_)
            self._exact.rebuild(pulled, self.counts_[pulled].astype(np.float64), self._centred(pulled))
        else:
            for arm, total, count in zip(arms.tolist(), totals.tolist(), times.tolist(), strict=True):
                self._exact.observe(arm, total, count)
        self._log_sum = self._exact.logdet
        if self._pays(self._exact.size):
            self._move(self._exact)

    def _pays(self, distinct: int) -> bool:
        """Tell whether the dictionary is the cheaper one from here on."""
        return distinct > self.crossover and self.n_told_ >= self.repeats * distinct

    def _move(self, exact: LazyModel) -> None:
        """Go over to the dictionary."""
        self._model.signal, self._model.residual = exact.variance / self.ridge_, np.zeros(self.n_arms)
        self._exact = None
        pulled = np.flatnonzero(self.counts_)
        self._resample(pulled, self.counts_[pulled])

    def _choose(self, limit: int | None) -> list[int]:
        if self._exact is None:
            return super()._choose(limit)
        self.n_batches_ += 1
        if not self._pending:
            return [self._exact.best(self.beta_, self.active_)]
        variance = self._overlay.follow(self._exact, self._pending, self.n_told_)
        return [int(np.argmax(self._masked(self._exact.mean + self.beta_ * np.sqrt(variance))))]

    def _grow(self, rows: Rows) -> None:
        super()._grow(rows)
        if self._exact is not None:
            self._exact.add(rows)

    def _posterior_at_arms(self) -> tuple[Array, Array]:
        if self._exact is None:
            return super()._posterior_at_arms()
        return self._exact.mean, np.sqrt(self._exact.variance)

    def _posterior(self, X: Any) -> tuple[Array, Array]:
        if self._exact is None:
            return super()._posterior(X)
        mean, variance = self._exact.predict(X)
        return mean, np.sqrt(variance)

    def _variance_sum(self) -> float:
        if self._exact is None:
            return super()._variance_sum()
        return float(self.counts_ @ self._exact.variance) / self.ridge_

    def _options(self) -> dict[str, Any]:
        return {"crossover": self.crossover, "repeats": self.repeats} | super()._options()

    def _model_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        if self._exact is None:
            arrays, facts = super()._model_parts()
            return arrays, facts | {"exact": False}
        return self._exact.to_arrays(), {"exact": True, "n_batches": self.n_batches_}

    def _restore_model(self, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        found = checked({"exact": flag(), "n_batches": whole()}, arrays, content)
        if found["exact"]:
            assert self._exact is not None
            self._exact.restore(arrays)
            self.n_batches_ = found["n_batches"]
        else:
            self._exact = None
            super()._restore_model(arrays, content)
