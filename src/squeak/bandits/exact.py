"""The exact posterior of a Gaussian process at every arm, kept up to date pull by pull, on counts.

With u distinct arms pulled n_i times each, λ = noise² and ȳ_i the mean reward of arm i:

    μ(x)  = k_u(x)ᵀ (K_u + λ·diag(1/n))⁻¹ ȳ
    s²(x) = k(x, x) − k_u(x)ᵀ (K_u + λ·diag(1/n))⁻¹ k_u(x)

are those of all t pulls. A pull changes one entry of the diagonal or appends a row: the inverse follows in O(u²),
and one product with the u kept columns k(·, x_i) gives the posterior covariance of the pulled arm with every arm,
O(A·u).
"""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import numpy as np

from squeak.bandits.posterior import copies, highest, kernel_row, upper_bound
from squeak.core.cholesky import inverse_factor
from squeak.core.kernels import block, diagonal
from squeak.core.rows import join, take
from squeak.core.state import LEAST, numbers, parts, wholes
from squeak.core.types import Array, BoolArray, IntArray, Rows

REBUILD = 64
"""From so many arms told at once on, the posterior is made anew instead of arm by arm."""

DRIFT = 1e-3
"""Two ways to the variance of a pulled arm may differ by this part of λ; else everything is made anew."""


class ExactPosterior:
    """The :class:`~squeak.bandits.posterior.Posterior` of all pulls, exact at every arm.

    Between calls: ``mean`` and ``variance`` are the formulas above for the pulls observed so far, and ``logdet`` is
    logdet(I + K_t/λ).

    Source: The theory page, "Bandits".

    ``ridge``: λ = noise².
    """

    def __init__(self, kernel: Any, arms: Rows, ridge: float) -> None:
        self.kernel, self.arms, self.ridge = kernel, arms, ridge
        self.diag = diagonal(kernel, arms)
        self.mean = np.zeros(len(self.diag))
        self.variance = self.diag.copy()
        self.logdet = 0.0
        self.pulled: IntArray = np.zeros(0, dtype=np.int64)
        self.counts: Array = np.zeros(0)
        self.sums: Array = np.zeros(0)
        self._slots = np.full(len(self.diag), -1, dtype=np.int64)
        self._columns: Array = np.zeros((0, len(self.diag)))
        self._inverse: Array = np.zeros((0, 0))  # zero beyond the arms pulled
        self._expect_nothing()

    def copy(self) -> ExactPosterior:
        """Return a posterior of its own in the same state; arrays that are not changed in place are shared."""
        other = copy(self)
        for name in ("_slots", "_columns", "_inverse"):
            setattr(other, name, getattr(self, name).copy())
        other._expect_nothing()
        return other

    @property
    def size(self) -> int:
        """The number of distinct arms pulled."""
        return len(self.pulled)

    @property
    def columns(self) -> Array:
        """K(pulled, arms), shape (u, A)."""
        return self._columns[: self.size]

    @property
    def inverse(self) -> Array:
        """(K_u + λ·diag(1/n))⁻¹, shape (u, u)."""
        return self._inverse[: self.size, : self.size]

    def slot(self, arm: int) -> int:
        """Return the place of an arm among those pulled, or −1."""
        return int(self._slots[arm])

    def covariance(self, arm: int) -> Array:
        """Return the posterior covariance of f at one arm with f at every arm, in O(A·u)."""
        return self._pull(arm)[0]

    def _pull(self, arm: int) -> tuple[Array, Array, Array]:
        """Return the covariance, a new arm's kernel column, and w: a pull adds a multiple of wwᵀ to M⁻¹."""
        slot = self._slots[arm]
        if slot >= 0:  # K_u e = M e − (λ/n) e, so that only one column of the inverse is needed
            w = self.inverse[slot].copy()
            return np.asarray((self.ridge / self.counts[slot] * w) @ self.columns), self.columns[:0], w
        column = kernel_row(self.kernel, self.arms, self.diag, arm)
        solved = self.inverse @ self.columns[:, arm]
        return np.asarray(column - solved @ self.columns), column[None, :], np.append(-solved, 1.0)

    def covariance_between(self, X: Rows, Y: Rows) -> Array:
        """Return the posterior covariance of f at some rows with f at others."""
        known = take(self.arms, self.pulled)
        return (
            block(self.kernel, X, Y) - block(self.kernel, X, known) @ self.inverse @ block(self.kernel, Y, known).T
        )

    def _expect_nothing(self) -> None:
        """Forget the pending pulls, what they leave of s², and the rows by whose squares each of them lowers it."""
        self._expected, self._falls, self._after = list[int](), list[Array](), self.variance

    def variance_with(self, pending: list[int]) -> Array:
        """Return s² at every arm once the pending pulls are told; goes on from the last call where it can."""
        if self._expected != pending[: len(self._expected)]:
            self._expect_nothing()
        for arm in pending[len(self._expected) :]:
            covariance = self.covariance(arm)
            for row in self._falls:
                covariance -= row[arm] * row
            row = covariance / np.sqrt(self.ridge + max(float(covariance[arm]), 0.0))
            self._after = np.maximum(self._after - row * row, 0.0)
            self._falls.append(row)
            self._expected.append(arm)
        return self._after

    def best(self, width: float, active: BoolArray, pending: list[int]) -> int:
        """Return the active arm with the largest μ + β·s/√λ, where s knows of the pending pulls; β is ``width``."""
        std = np.sqrt(self.variance_with(pending))
        return highest(upper_bound(self.mean, std, width / math.sqrt(self.ridge)), active)

    def observe(self, arm: int, total: float, times: int = 1) -> None:
        """Take in ``times`` pulls of one arm whose rewards (less the prior mean) sum to ``total``."""
        covariance, column, w = self._pull(arm)
        if self.size and abs(float(covariance[arm] - self.variance[arm])) > DRIFT * self.ridge:
            self.rebuild(self.pulled, self.counts, self.sums)  # a ridge so small that rounding shows: start clean
            covariance, column, w = self._pull(arm)
        here, ridge, slot = max(float(covariance[arm]), 0.0), self.ridge / times, self.slot(arm)
        mean = self.mean + (total / times - self.mean[arm]) / (ridge + here) * covariance
        variance = np.maximum(self.variance - covariance * covariance / (ridge + here), 0.0)
        variance[arm] = here * ridge / (here + ridge)
        if slot < 0:
            scaled = w / (here + ridge)
            change = np.multiply.outer(scaled, w)
            change[-1] = scaled  # symmetric to the bit
        else:
            change = np.multiply.outer(repeat_factor(self.ridge, self.counts[slot], times, w[slot]) * w, w)
        known = counted((self.pulled, self.counts, self.sums), slot, arm, total, times)
        self.absorb((mean, variance, self.logdet + math.log1p(here / ridge)), known, column, change)

    def _reserve(self, size: int) -> None:
        """Make room for so many distinct arms, growing geometrically."""
        if size <= len(self._columns):
            return
        capacity = max(64, size, len(self._columns) * 3 // 2)
        columns, inverse = np.empty((capacity, len(self.diag))), np.zeros((capacity, capacity))
        columns[: self.size], inverse[: self.size, : self.size] = self.columns, self.inverse
        self._columns, self._inverse = columns, inverse

    def rebuild(self, pulled: IntArray, counts: Array, sums: Array) -> None:
        """Start again from counts and sums of rewards, in O(A·u²): for much data at once, or a new prior mean."""
        columns = np.empty((len(pulled), len(self.diag)))
        for row, (arm, slot) in enumerate(zip(pulled.tolist(), self._slots[pulled].tolist(), strict=True)):
            columns[row] = self._columns[slot] if slot >= 0 else kernel_row(self.kernel, self.arms, self.diag, arm)
        M = columns[:, pulled].copy()
        M[np.diag_indices_from(M)] += self.ridge / counts
        factor = inverse_factor((M + M.T) / 2)
        whitened = factor @ columns
        self.pulled, self.counts, self.sums = pulled.copy(), counts.astype(np.float64), sums.astype(np.float64)
        self._slots[:] = -1
        self._slots[pulled] = np.arange(len(pulled))
        self._columns, self._inverse = columns, factor.T @ factor
        self.variance = np.maximum(self.diag - np.einsum("ij,ij->j", whitened, whitened), 0.0)
        self.mean = (factor @ (sums / counts)) @ whitened
        self.logdet = float(-2.0 * np.log(factor.diagonal()).sum() - np.log(self.ridge / counts).sum())
        self._expect_nothing()

    def absorb(
        self,
        posterior: tuple[Array, Array, float],
        known: tuple[IntArray, Array, Array],
        columns: Array,
        change: Array,
    ) -> None:
        """Take the result of some pulls.

        These are mean, variance, logdet; arms, counts and sums; the new arms' columns; what the inverse grows by.
        """
        before, u = self.size, len(known[0])
        self._reserve(u)
        self._columns[before:u] = columns
        self._inverse[:u, :u] += change
        self._slots[known[0][before:]] = np.arange(before, u)
        self.mean, self.variance, self.logdet = posterior
        self.pulled, self.counts, self.sums = known
        self._expect_nothing()

    def predict(self, X: Rows) -> tuple[Array, Array]:
        """Return mean and variance of f at any rows."""
        diag = diagonal(self.kernel, X)
        if self.size == 0:
            return np.zeros(len(diag)), diag
        values = block(self.kernel, X, take(self.arms, self.pulled))
        mean = values @ (self.inverse @ (self.sums / self.counts))
        return mean, np.maximum(diag - np.einsum("ij,ij->i", values @ self.inverse, values), 0.0)

    def variance_sum(self, counts: IntArray) -> float:
        """Return Σ_i n_i·s_i² over the arms."""
        return float(self.counts @ self.variance[self.pulled])

    def add(self, rows: Rows) -> None:
        """Add arms; their mean and variance follow from the pulls so far, in O(new·u²)."""
        mean, variance = self.predict(rows)
        old, new = len(self.diag), len(mean)
        columns = np.empty((len(self._columns), old + new))
        if self.size:
            columns[: self.size, :old] = self.columns
            columns[: self.size, old:] = block(self.kernel, take(self.arms, self.pulled), rows)
        self.arms, self._columns = join(self.arms, rows), columns
        self.diag = np.append(self.diag, diagonal(self.kernel, rows))
        self.mean, self.variance = np.append(self.mean, mean), np.append(self.variance, variance)
        self._slots = np.append(self._slots, np.full(new, -1, dtype=np.int64))
        self._expect_nothing()

    def to_arrays(self) -> dict[str, Any]:
        """Return everything that the next pull depends on, but arms and kernel."""
        values = {name: np.atleast_1d(getattr(self, name)) for name in STATE}
        return parts(STATE, values, "model_")[0]

    def restore(self, arrays: dict[str, Any]) -> None:
        """Take the state that :meth:`to_arrays` gave; anything that does not fit raises."""
        given = copies(STATE, arrays, "model_", len(self.diag), ("pulled",))
        self._columns, self._inverse = given.pop("columns"), given.pop("inverse")
        self.logdet = float(given.pop("logdet")[0])
        self.__dict__.update(given)
        self._slots[self.pulled] = np.arange(self.size)
        self._expect_nothing()


STATE = {
    "pulled": wholes("u"),
    "mean": numbers("arms"),
    "variance": numbers("arms", low=0.0),
    "counts": numbers("u", low=LEAST),
    "sums": numbers("u"),
    "columns": numbers("u", "arms"),
    "inverse": numbers("u", "u"),
    "logdet": numbers(1),
}


def counted(
    known: tuple[IntArray, Array, Array], slot: int, arm: int, total: float, times: int
) -> tuple[IntArray, Array, Array]:
    """Return arms pulled, counts and sums after some pulls of one arm, at ``slot`` among them or new (−1)."""
    pulled, counts, sums = known
    if slot < 0:
        return np.append(pulled, arm), np.append(counts, float(times)), np.append(sums, total)
    more = np.arange(len(pulled)) == slot
    return pulled, counts + times * more, sums + total * more


def repeat_factor(ridge: float, count: float, times: int, diagonal: float) -> float:
    """Return f, where more pulls of an arm change M⁻¹ by f·wwᵀ, w its row and ``diagonal`` its own entry there."""
    drop = ridge * times / (count * (count + times))  # the diagonal of M falls by so much
    return float(drop / (1.0 - drop * diagonal))


def learn(model: Any, arms: IntArray, totals: Array, times: IntArray, known: tuple[IntArray, Array, Array]) -> None:
    """Let an exact or lazy posterior take in pulls of distinct arms.

    ``known`` is what ``rebuild`` takes, these pulls among them: many at once are faster taken in from scratch.
    """
    if len(arms) >= REBUILD:
        model.rebuild(*known)
        return
    for arm, total, count in zip(arms.tolist(), totals.tolist(), times.tolist(), strict=True):
        model.observe(arm, total, count)
