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
from typing import Any

import numpy as np

from squeak.bandits.acquisitions import highest, upper_bound
from squeak.bandits.posterior import check_numbers, fitting, kernel_row
from squeak.core.cholesky import inverse_factor
from squeak.core.kernels import block, diagonal
from squeak.core.rows import join, take
from squeak.core.types import Array, BoolArray, IntArray, Rows

REBUILD = 64
"""From so many arms told at once on, the posterior is made anew instead of arm by arm."""

DRIFT = 1e-3
"""Two ways to the variance of a pulled arm may differ by this part of λ; else everything is made anew."""


class ExactPosterior:
    """The :class:`~squeak.bandits.posterior.Posterior` of all pulls, exact at every arm.

    Between calls: ``mean`` and ``variance`` are the formulas above for the pulls observed so far, and ``logdet`` is
    logdet(I + K_t/λ).

    Parameters
    ----------
    kernel : resolved kernel
    arms : checked rows
    ridge : float
        λ = noise².

    References
    ----------
    The theory page, "Bandits".
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
        self._inverse: Array = np.zeros((0, 0))
        self._scratch: Array = np.zeros((0, 0))
        self._expect_nothing()

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
        slot = self._slots[arm]
        if slot >= 0:  # K_u e = M e − (λ/n) e, so that only one column of the inverse is needed
            return np.asarray((self.ridge / self.counts[slot] * self.inverse[slot]) @ self.columns)
        return self._covariance_of_new(arm)[0]

    def _covariance_of_new(self, arm: int) -> tuple[Array, Array, Array]:
        """Return the covariance, the arm's kernel column and M⁻¹k_u(x), for an arm never pulled."""
        column = kernel_row(self.kernel, self.arms, self.diag, arm)
        if self.size == 0:
            return column.copy(), column, np.zeros(0)
        solved = self.inverse @ self.columns[:, arm]
        return np.asarray(column - solved @ self.columns), column, solved

    def covariance_between(self, X: Rows, Y: Rows) -> Array:
        """Return the posterior covariance of f at some rows with f at others."""
        known = take(self.arms, self.pulled)
        return block(self.kernel, X, Y) - block(self.kernel, X, known) @ self.inverse @ block(self.kernel, Y, known).T

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

    def best(self, beta: float, active: BoolArray, pending: list[int]) -> int:
        """Return the active arm with the largest μ + β·s, where s knows of the pending pulls."""
        return highest(upper_bound(self.mean, np.sqrt(self.variance_with(pending)), beta), active)

    def observe(self, arm: int, total: float, times: int = 1) -> None:
        """Take in ``times`` pulls of one arm whose rewards (less the prior mean) sum to ``total``."""
        slot = int(self._slots[arm])
        column = solved = np.zeros(0)
        for attempt in (0, 1):
            if slot < 0:
                covariance, column, solved = self._covariance_of_new(arm)
            else:
                covariance = self.covariance(arm)
            drift = abs(float(covariance[arm]) - float(self.variance[arm]))
            if drift <= DRIFT * self.ridge or attempt or self.size == 0:
                break
            self.rebuild(self.pulled, self.counts, self.sums)  # a ridge so small that rounding shows: start clean
            slot = int(self._slots[arm])
        here = max(float(covariance[arm]), 0.0)
        ridge = self.ridge / times
        step = (total / times - self.mean[arm]) / (ridge + here)
        self.logdet += math.log1p(here / ridge)
        self.mean += step * covariance
        covariance *= covariance
        covariance /= ridge + here
        self.variance -= covariance
        np.maximum(self.variance, 0.0, out=self.variance)
        self.variance[arm] = here * ridge / (here + ridge)
        if slot < 0:
            self._append(arm, column, solved, here + ridge, total, times)
        else:
            self._repeat(slot, total, times)
        self._expect_nothing()

    def _repeat(self, slot: int, total: float, times: int) -> None:
        before, after = self.counts[slot], self.counts[slot] + times
        drop = self.ridge * times / (before * after)  # the diagonal falls by so much
        row = self.inverse[slot].copy()
        factor = drop / (1.0 - drop * row[slot])
        self._add_outer(factor * row, row)
        self.counts[slot] = after
        self.sums[slot] += total

    def _add_outer(self, x: Array, y: Array) -> None:
        u = len(x)
        scratch = self._scratch[:u, :u]
        np.multiply(x[:, None], y, out=scratch)
        self._inverse[:u, :u] += scratch

    def _append(self, arm: int, column: Array, solved: Array, schur: float, total: float, times: int) -> None:
        u = self.size
        self._reserve(u + 1)
        if u:
            self._add_outer(solved / schur, solved)
            self._inverse[u, :u] = self._inverse[:u, u] = -solved / schur
        self._inverse[u, u] = 1.0 / schur
        self._columns[u] = column
        self._slots[arm] = u
        self.pulled = np.append(self.pulled, arm)
        self.counts = np.append(self.counts, float(times))
        self.sums = np.append(self.sums, total)

    def _reserve(self, size: int) -> None:
        """Make room for so many distinct arms, growing geometrically."""
        if size <= len(self._columns):
            return
        capacity = max(64, size, len(self._columns) * 3 // 2)
        columns, inverse = np.empty((capacity, len(self.diag))), np.zeros((capacity, capacity))
        columns[: self.size], inverse[: self.size, : self.size] = self.columns, self.inverse
        self._columns, self._inverse, self._scratch = columns, inverse, np.empty((capacity, capacity))

    def rebuild(self, pulled: IntArray, counts: Array, sums: Array) -> None:
        """Start again from counts and sums of rewards, in O(A·u²): for much data at once, or a new prior mean."""
        keep = np.array([self._slots[arm] for arm in pulled], dtype=np.int64)
        old = self._columns
        columns = np.empty((len(pulled), len(self.diag)))
        for row, (arm, slot) in enumerate(zip(pulled, keep, strict=True)):
            columns[row] = old[slot] if slot >= 0 else kernel_row(self.kernel, self.arms, self.diag, int(arm))
        M = columns[:, pulled].copy()
        M[np.diag_indices_from(M)] += self.ridge / counts
        factor = inverse_factor((M + M.T) / 2)
        whitened = factor @ columns
        self.pulled, self.counts, self.sums = pulled.copy(), counts.astype(np.float64), sums.astype(np.float64)
        self._slots[:] = -1
        self._slots[pulled] = np.arange(len(pulled))
        self._columns, self._inverse = columns, factor.T @ factor
        self._scratch = np.empty_like(self._inverse)
        self.variance = np.maximum(self.diag - np.einsum("ij,ij->j", whitened, whitened), 0.0)
        self.mean = (factor @ (sums / counts)) @ whitened
        self.logdet = float(-2.0 * np.log(factor.diagonal()).sum() - np.log(self.ridge / counts).sum())
        self._expect_nothing()

    def absorb(
        self,
        posterior: tuple[Array, Array, float],
        known: tuple[IntArray, Array, Array],
        columns: Array,
        rows: Array,
        factors: Array,
    ) -> None:
        """Take the result of many pulls: mean, variance and logdet; arms, counts and sums; the new arms' columns.

        The inverse grows by rowsᵀ·diag(factors)·rows.
        """
        before, u = self.size, len(known[0])
        self._reserve(u)
        self._columns[before:u] = columns
        self._inverse[:u, :u] += rows.T @ (factors[:, None] * rows)
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
        new_diag = diagonal(self.kernel, rows)
        mean, variance = self.predict(rows)
        columns = np.empty((len(self._columns), len(self.diag) + len(new_diag)))
        if self.size:
            columns[: self.size, : len(self.diag)] = self.columns
            columns[: self.size, len(self.diag) :] = block(self.kernel, take(self.arms, self.pulled), rows)
        self.arms, self._columns = join(self.arms, rows), columns
        self.diag = np.concatenate([self.diag, new_diag])
        self.mean = np.concatenate([self.mean, mean])
        self.variance = np.concatenate([self.variance, variance])
        self._slots = np.concatenate([self._slots, np.full(len(new_diag), -1, dtype=np.int64)])
        self._expect_nothing()

    def to_arrays(self) -> dict[str, Any]:
        """Return everything that the next pull depends on, but arms and kernel."""
        return {
            "model_mean": self.mean,
            "model_variance": self.variance,
            "model_pulled": self.pulled,
            "model_counts": self.counts,
            "model_sums": self.sums,
            "model_columns": self.columns,
            "model_inverse": self.inverse,
            "model_logdet": np.array([self.logdet]),
        }

    def restore(self, arrays: dict[str, Any]) -> None:
        """Take the state that :meth:`to_arrays` gave; anything that does not fit raises."""
        A, u = len(self.diag), len(arrays["model_pulled"])
        shapes = {"mean": (A,), "variance": (A,), "pulled": (u,), "counts": (u,), "sums": (u,), "columns": (u, A)}
        given = fitting(arrays, "model_", shapes | {"inverse": (u, u), "logdet": (1,)})
        check_numbers(given["pulled"], A)
        if len(np.unique(given["pulled"])) != u:
            raise ValueError("the model's arms do not fit")
        self.mean, self.variance, self.pulled = given["mean"], given["variance"], given["pulled"]
        self.counts, self.sums, self.logdet = given["counts"], given["sums"], float(given["logdet"][0])
        self._columns, self._inverse = given["columns"], given["inverse"]
        self._scratch = np.empty_like(self._inverse)
        self._slots[self.pulled] = np.arange(u)
        self._expect_nothing()


def learn(model: Any, arms: IntArray, totals: Array, times: IntArray, known: tuple[IntArray, Array, Array]) -> None:
    """Let an exact or lazy posterior take in pulls of distinct arms.

    ``known`` is what ``rebuild`` takes, these pulls among them: many at once are faster taken in from scratch.
    """
    if len(arms) >= REBUILD:
        model.rebuild(*known)
        return
    for arm, total, count in zip(arms.tolist(), totals.tolist(), times.tolist(), strict=True):
        model.observe(arm, total, count)
