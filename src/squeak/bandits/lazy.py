"""The exact posterior, brought up to date only at the arms that may be chosen next.

Since the last full update let pulls i = 1 … q have innovations e_i (reward less mean) of variance v_i = λ + s_i².
By Cauchy–Schwarz over the pulls, μ changes at every arm by at most √Δ·ρ with ρ² = Σ e_i²/v_i, where Δ is what s²
has lost there. Hence

    μ_now(x) + β·s_now(x)  ≤  μ_old(x) + ρ√Δ + β√(s_old² − Δ)  ≤  μ_old(x) + s_old(x)·√(β² + ρ²).

Some promising arms, the contenders, are kept exact; as long as the best of them beats this bound at every other arm
it is the best of all. Else all arms are brought up to date at once, in matrix products: each of the q pulls reads
u·A kernel values from memory when taken alone, all of them together no more.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from squeak.bandits.exact import DRIFT, ExactPosterior, counted, repeat_factor
from squeak.bandits.posterior import copies, kernel_row
from squeak.core.kernels import block, diagonal
from squeak.core.rows import take
from squeak.core.state import LEAST, numbers, parts, wholes
from squeak.core.types import Array, BoolArray, IntArray, Rows

LIMIT = 32
"""After so many pulls every arm is brought up to date."""

FEWEST, PART = 256, 32
"""Contenders: the best 1/PART of the arms, and no fewer than FEWEST."""


class LazyPosterior:
    """:class:`ExactPosterior` for the arm of the largest μ + β·s, with most arms' updates put off.

    (K_u + λ·diag(1/n))⁻¹ is that of ``base`` plus Σ_i f_i w_i w_iᵀ: a first pull appends w = (−M⁻¹k, 1), a repeated
    one has its own row of the inverse. The covariance of the pulled arm with every arm is g_i·w_iᵀK(pulled, arms).
    Between calls: ``base`` is the model before the pulls put off, of which there are fewer than LIMIT.

    Source: The theory page, "Bandits"; the bound above is ours.

    ``ridge``: λ = noise².
    """

    def __init__(self, kernel: Any, arms: Rows, ridge: float) -> None:
        self.ridge, self.base = ridge, ExactPosterior(kernel, arms, ridge)
        self._begin()

    def _begin(self) -> None:
        """Take the base as it is for the present."""
        base = self.base
        self._std = np.sqrt(base.variance)
        self._new: list[int] = []
        self._slots: dict[int, int] = {}
        self.pulled, self.counts, self.sums = base.pulled, base.counts.copy(), base.sums.copy()
        self.logdet = base.logdet
        self._n = 0
        self._W = np.zeros((LIMIT, base.size + LIMIT))
        self._scalars = np.zeros((4, LIMIT))
        """Factor f of the inverse, gain g of the covariance, step of the mean, 1/v of the variance."""
        self._rho = 0.0
        self._known: tuple[Array, Array, Array] | None = None
        self._contenders: IntArray | None = None
        self._place: Array = np.zeros(0)
        self._values: Array = np.zeros((0, 0))
        self._mean = self._variance = np.zeros(0)

    @property
    def size(self) -> int:
        """The number of distinct arms pulled."""
        return len(self.pulled)

    @property
    def mean(self) -> Array:
        """μ at every arm."""
        return self._now()[0]

    @property
    def variance(self) -> Array:
        """s² at every arm."""
        return self._now()[1]

    def variance_with(self, pending: list[int]) -> Array:
        """Return s² at every arm once the pending pulls are told."""
        if pending and self._n:
            self._settle()
        return self.base.variance_with(pending) if pending else self.variance

    def best(self, width: float, active: BoolArray, pending: list[int]) -> int:
        """Return the active arm with the largest μ + β·s/√λ, where s knows of the pending pulls; β is ``width``."""
        if pending and self._n:
            self._settle()
        if pending:
            return self.base.best(width, active, pending)
        beta = width / math.sqrt(self.ridge)
        if self._contenders is None:
            self._settle()
            self._choose_contenders(beta, active)
        reach = self.base.mean + math.sqrt(beta * beta + self._rho) * self._std
        reach[self._contenders] = self._mean + beta * np.sqrt(self._variance)
        reach[~active] = -np.inf
        arm = int(np.argmax(reach))
        if self._n == 0 or self._place[arm] >= 0:
            return arm
        self._settle()
        return self.best(width, active, pending)

    def _choose_contenders(self, beta: float, active: BoolArray) -> None:
        base = self.base
        number = min(len(base.diag), max(FEWEST, len(base.diag) // PART))
        scores = np.where(active, base.mean + beta * self._std, -np.inf)
        chosen = np.sort(np.argpartition(scores, len(scores) - number)[len(scores) - number :])
        self._gather(chosen, base.mean[chosen], base.variance[chosen])

    def _gather(self, chosen: IntArray, mean: Array, variance: Array) -> None:
        """Take some arms for contenders: their mean and variance now, and their kernel values."""
        size = self.base.size
        self._contenders, self._mean, self._variance = chosen, mean, variance
        self._place = np.full(len(self.base.diag), -1, dtype=np.int64)
        self._place[chosen] = np.arange(len(chosen))
        self._values = np.empty((size + LIMIT, len(chosen)))
        np.take(self.base.columns, chosen, axis=1, out=self._values[:size])
        for i, arm in enumerate(self._new):
            self._values[size + i] = self._value_row(arm, chosen)

    def _value_row(self, arm: int, others: IntArray) -> Array:
        base = self.base
        return kernel_row(base.kernel, base.arms, base.diag, arm, others)

    def _inverse_times(self, vector: Array) -> Array:
        """Return (K_u + λ·diag(1/n))⁻¹ times a vector, or times each row of a matrix."""
        s, W = self.base.size, self._W[: self._n, : self.size]
        out = np.zeros(vector.shape)
        out[..., :s] = vector[..., :s] @ self.base.inverse
        return np.asarray(out + (self._scalars[0, : self._n] * (vector @ W.T)) @ W)

    def _inverse_row(self, slot: int) -> Array:
        s, W = self.base.size, self._W[: self._n, : self.size]
        row = (self._scalars[0, : self._n] * W[:, slot]) @ W
        if slot < s:
            row[:s] += self.base.inverse[slot]
        return np.asarray(row)

    def observe(self, arm: int, total: float, times: int = 1) -> None:
        """Take in ``times`` pulls of one arm whose rewards (less the prior mean) sum to ``total``."""
        if self._n == LIMIT:
            self._settle()
        slot, ridge = self.base.slot(arm), self.ridge / times
        slot = self._slots.get(arm, -1) if slot < 0 else slot
        averages = self.sums / self.counts
        if slot < 0:
            values = self._value_row(arm, self.pulled) if self.size else np.zeros(0)
            solved = self._inverse_times(values)
            w, gain = np.append(-solved, 1.0), 1.0
            here = max(float(self.base.diag[arm] - values @ solved), 0.0)
            mean = float(solved @ averages)
            factor = 1.0 / (here + ridge)
        else:
            w, gain = self._inverse_row(slot), self.ridge / self.counts[slot]
            here = max(float(gain - gain * gain * w[slot]), 0.0)
            mean = float(averages[slot] - gain * (w @ averages))
            factor = repeat_factor(self.ridge, self.counts[slot], times, w[slot])
        if self._drifted(arm, here):
            self.rebuild(self.pulled, self.counts, self.sums)
            self.observe(arm, total, times)
            return
        error = total / times - mean
        if slot < 0:
            if self._contenders is not None:
                self._values[self.size] = self._value_row(arm, self._contenders)
            self._slots[arm] = self.size
            self._new.append(arm)
        self.pulled, self.counts, self.sums = counted(
            (self.pulled, self.counts, self.sums), slot, arm, total, times
        )
        self._W[self._n, : len(w)] = w
        self._scalars[:, self._n] = factor, gain, error / (ridge + here), 1.0 / (ridge + here)
        self.logdet += math.log1p(here / ridge)
        self._rho += error * error / (ridge + here)
        self._n += 1
        self._known = None
        self._update_contenders(arm, here * ridge / (here + ridge))

    def _drifted(self, arm: int, here: float) -> bool:
        """Tell whether two ways to the variance of an arm differ: a ridge so small that rounding shows."""
        if self._n == 0 or self._contenders is None or self._place[arm] < 0:
            return False
        return bool(abs(here - self._variance[self._place[arm]]) > DRIFT * self.ridge)

    def _update_contenders(self, arm: int, after: float) -> None:
        if self._contenders is None:
            return
        i = self._n - 1
        covariance = self._scalars[1, i] * (self._W[i, : self.size] @ self._values[: self.size])
        self._mean = self._mean + self._scalars[2, i] * covariance
        covariance *= covariance
        covariance *= self._scalars[3, i]
        self._variance = np.maximum(self._variance - covariance, 0.0)
        if self._place[arm] >= 0:
            self._variance[self._place[arm]] = after

    def _now(self) -> tuple[Array, Array, Array]:
        """Return mean and variance at every arm, and the kernel columns of the arms first pulled since the base."""
        base = self.base
        if self._n == 0:
            return base.mean, base.variance, np.zeros((0, len(base.diag)))
        if self._known is None:
            fresh = np.empty((len(self._new), len(base.diag)))
            if self._new:
                new = np.array(self._new)
                fresh[:] = block(base.kernel, take(base.arms, new), base.arms)
                fresh[np.arange(len(new)), new] = base.diag[new]
            gains, steps, parts = self._scalars[1:, : self._n]
            W = gains[:, None] * self._W[: self._n, : self.size]
            G = W[:, : base.size] @ base.columns
            G += W[:, base.size :] @ fresh
            variance = base.variance - parts @ (G * G)
            variance[self.pulled] = self._pulled_variance()
            self._known = base.mean + steps @ G, np.maximum(variance, 0.0), fresh
        return self._known

    def _pulled_variance(self) -> Array:
        """Return s² at the arms pulled: λ/n − (λ/n)²·[M⁻¹]_ii."""
        s, W = self.base.size, self._W[: self._n, : self.size]
        diag = self._scalars[0, : self._n] @ (W * W)
        diag[:s] += self.base.inverse.diagonal()
        level = self.ridge / self.counts
        return np.maximum(level - level * level * diag, 0.0)

    def variance_sum(self, counts: IntArray) -> float:
        """Return Σ_i n_i·s_i² over the arms."""
        return float(self.counts @ self._pulled_variance())

    def _settle(self) -> None:
        """Bring every arm up to date."""
        if self._n:
            mean, variance, columns = self._now()
            known = (self.pulled, self.counts, self.sums)
            W = self._W[: self._n, : self.size]
            change = W.T @ (self._scalars[0, : self._n, None] * W)
            self.base.absorb((mean, variance, self.logdet), known, columns, change)
        self._begin()

    def rebuild(self, pulled: IntArray, counts: Array, sums: Array) -> None:
        """Start again from counts and sums of rewards."""
        self.base.rebuild(pulled, counts, sums)
        self._begin()

    def predict(self, X: Rows) -> tuple[Array, Array]:
        """Return mean and variance of f at any rows."""
        base = self.base
        if self._n == 0:
            return base.predict(X)
        values = block(base.kernel, X, take(base.arms, self.pulled))
        solved = self._inverse_times(values)
        variance = diagonal(base.kernel, X) - np.einsum("ij,ij->i", solved, values)
        return solved @ (self.sums / self.counts), np.maximum(variance, 0.0)

    def add(self, rows: Rows) -> None:
        """Add arms; their mean and variance follow from the pulls so far."""
        self._settle()
        self.base.add(rows)
        self._begin()

    def to_arrays(self) -> dict[str, Any]:
        """Return everything that the next pull depends on, but arms and kernel."""
        n, chosen = self._n, self._contenders
        values = {
            "pulled": self.pulled,
            "counts": self.counts,
            "sums": self.sums,
            "rows": self._W[:n, : self.size],
            "scalars": self._scalars[:, :n],
            "totals": np.array([self.logdet, self._rho]),
            "contenders": np.zeros(0, dtype=np.int64) if chosen is None else chosen,
            "mean": self._mean,
            "variance": self._variance,
        }
        return self.base.to_arrays() | parts(STATE, values, "lazy_")[0]

    def restore(self, arrays: dict[str, Any]) -> None:
        """Take the state that :meth:`to_arrays` gave; anything that does not fit raises."""
        self.base.restore(arrays)
        self._begin()
        part = copies(STATE, arrays, "lazy_", len(self.base.diag), ("pulled", "contenders"))
        s, u, n = self.base.size, len(part["pulled"]), len(part["rows"])
        if not s <= u <= s + n <= s + LIMIT or np.any(np.diff(part["contenders"]) <= 0):
            raise ValueError("the pulls put off do not fit")
        self.pulled, self.counts, self.sums = part["pulled"], part["counts"], part["sums"]
        self._new = self.pulled[s:].tolist()
        self._slots = {arm: s + i for i, arm in enumerate(self._new)}
        self._n = n
        self._W[:n, :u], self._scalars[:, :n] = part["rows"], part["scalars"]
        self.logdet, self._rho = part["totals"].tolist()
        if len(part["contenders"]):
            self._gather(part["contenders"], part["mean"], part["variance"])


STATE = {
    "pulled": wholes("u"),
    "counts": numbers("u", low=LEAST),
    "sums": numbers("u"),
    "rows": numbers("n", "u"),
    "scalars": numbers(4, "n"),
    "totals": numbers(2),
    "contenders": wholes("contenders"),
    "mean": numbers("contenders"),
    "variance": numbers("contenders", low=0.0),
}
