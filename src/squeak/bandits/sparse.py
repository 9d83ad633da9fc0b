"""The posterior on a dictionary of arms (DTC) at every arm: what BKB and its batched form compute with.

With z(x) the plain Nyström features of the dictionary, V = Σ_i n_i z_i z_iᵀ + λI and S_i the sum of arm i's
rewards:

    μ̃(x) = z(x)ᵀ V⁻¹ Σ_i S_i z_i
    σ̃²(x) = s̃²(x)/λ = (k(x, x) − ‖z(x)‖²)/λ + z(x)ᵀ V⁻¹ z(x)

The variance is a sum of two terms that are never negative: what the dictionary cannot see (the residual), and what
the pulls have not told (the signal). Without the first it is the SoR posterior, whose variance starves far from the
dictionary.

Features are triangular, so they nest: those of arms that are sure to be in the dictionary (the core) stay as they
are from step to step, and only the coordinates of arms whose coin changes are made anew, in O(A·m) each. A pull
changes V by a matrix of rank one, O(A·m) again. What these changes are follows from the features of the arms pulled
alone (:mod:`squeak.bandits.growth`), so that all of them, and the mean, take one product over the arms. An arm that
leaves the core takes O(A·m) too: rotations make one coordinate its own. Only when many of them leave at once, or
many rewards are told, is V solved anew for all arms, in O(A·m²).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from squeak.bandits.growth import Growth, left_out, span, times_triangle, two_terms
from squeak.bandits.posterior import copies, highest, upper_bound
from squeak.core.cholesky import GrowingCholesky, inverse_factor
from squeak.core.kernels import against, block, diagonal
from squeak.core.nystrom import IN_SPAN, FixedFeatures, spanning_features
from squeak.core.rows import join, n_rows, take
from squeak.core.state import numbers, parts, wholes
from squeak.core.types import Array, BoolArray, IntArray, Rows

FEW = 4
"""If more arms are told at once, and more than a quarter of the coordinates, V is made anew; if more leave, all."""

MANY = 500
"""From more arms told at once on, their log-determinant is bounded by a sum."""

REFRESH = 2000
"""Pulls taken in one by one before everything is made anew, so that rounding cannot add up."""


class SparsePosterior:
    """The :class:`~squeak.bandits.posterior.Posterior` on a dictionary of arms.

    Between calls: ``mean``, ``residual`` and ``signal`` are the formulas above for ``members`` and all pulls taken
    in; residual and signal are over λ, as leverage scores are.

    Source: Carratino thesis, equation 7.1, with the variance as a sum; the theory page, "Bandits".

    ``ridge``: λ = noise². ``variance``: s² at every arm as known from elsewhere, for the first dictionary.
    """

    def __init__(self, kernel: Any, arms: Rows, ridge: float, variance: Array | None = None) -> None:
        self.kernel, self.arms, self.ridge = kernel, arms, ridge
        self.diag = diagonal(kernel, arms)
        self._columns: dict[int, Array] = {}  # k(x_i, arms) of arms that were in a dictionary lately
        self._values: Callable[[Rows], Array] | None = None  # X ↦ k(X, arms)
        self.members: IntArray = np.zeros(0, dtype=np.int64)
        self.mean = np.zeros(len(self.diag))
        self.residual = (self.diag if variance is None else variance) / ridge
        self.signal = np.zeros(len(self.diag))
        self.solver: Array = np.zeros((0, 0))
        """V⁻¹, (m, m)."""
        self.weights: Array = np.zeros(0)
        """V⁻¹Σ S_i z_i: the mean is weights·z(x)."""
        self._basis: list[int] = []  # the arms that gave a coordinate, those of the core first
        self._factor = GrowingCholesky()
        self._buffer: Array = np.zeros((0, len(self.diag)))
        self._core = 0  # coordinates of the core
        self._core_residual, self._core_signal, self._core_solver = self.residual, self.signal, self.solver
        self._spare: set[int] = set()  # arms of the core that lie in the span of the others
        self._steps = 0

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_values": None}  # a function, made when it is needed

    @property
    def features(self) -> Array:
        """z(x) of every arm, (m, A)."""
        return self._buffer[: len(self._basis)]

    @property
    def leverage(self) -> Array:
        """σ̃² at every arm: the variance over λ."""
        return self._total(self.residual, self.signal)

    @property
    def variance(self) -> Array:
        """s̃² at every arm."""
        return self.ridge * self.leverage

    def _total(self, residual: Array, signal: Array) -> Array:
        return residual + signal

    def variance_with(self, pending: list[int]) -> Array:
        """Return s̃² at every arm once the pending pulls are told; the dictionary stays as it is."""
        return self.ridge * self._leverage_with(pending)

    def _leverage_with(self, pending: list[int]) -> Array:
        signal, solver = self.signal, self.solver
        for arm in pending:
            signal, solver = self._after_pull(arm, 1, signal, solver)
        return self._total(self.residual, signal)

    def best(self, width: float, active: BoolArray, pending: list[int]) -> int:
        """Return the active arm with the largest μ̃ + β·σ̃, where σ̃ knows of the pending pulls; β is ``width``."""
        return highest(upper_bound(self.mean, np.sqrt(self._leverage_with(pending)), width), active)

    def variance_sum(self, counts: IntArray) -> float:
        """Return Σ_i n_i·s̃_i² over the arms."""
        return self.ridge * float(counts @ self.leverage)

    def information(self, arms: IntArray, times: IntArray, inflation: float) -> float:
        """Return what pulls add to the log-determinant: log det(I + a·√n(B + R)√n), B and R the two terms of σ̃².

        For one arm it is log(1 + a·n·σ̃²); for many told at once it is at most the sum of those, and no less than
        what the same pulls give one after the other.
        """
        if len(arms) > MANY:
            return float(np.log1p(inflation * times * self.leverage[arms]).sum())
        z = np.take(self.features, arms, axis=1)
        overlap = z.T @ self.solver @ z
        overlap[np.diag_indices_from(overlap)] += self.residual[arms]
        root = np.sqrt(times)
        overlap *= inflation * np.multiply.outer(root, root)
        overlap[np.diag_indices_from(overlap)] += 1.0
        return float(np.linalg.slogdet(overlap)[1])

    def update(
        self,
        members: IntArray,
        sure: BoolArray,
        pulled: IntArray,
        counts: Array,
        sums: Array,
        told: IntArray,
        times: Array,
    ) -> None:
        """Take a new dictionary, and the pulls told since the last call.

        ``members``: the dictionary: numbers of arms. ``sure``: which of them were sure to be in it; they make up
        the core. ``pulled``, ``counts``, ``sums``: every arm pulled, how often, and the sum of its rewards less the
        prior mean. ``told``, ``times``: the arms that are new in ``counts``, and by how much.
        """
        sure = sure if sure.any() else np.ones(len(members), dtype=bool)
        core = set(self._basis[: self._core]) | self._spare
        left = core - set(members.tolist())
        self._steps += len(told)
        stays = core > left and len(left) <= FEW and self._steps < REFRESH
        if stays:
            self._truncate()
            for arm in sorted(left):
                self._leave(arm)
            core = set(self._basis) | self._spare
        else:
            self._embed(members[sure])
            self._steps, core = 0, set(members[sure].tolist())
        rest = [arm for arm in members[sure].tolist() if arm not in core]
        known = core | set(rest)
        coins = [arm for arm in members[~sure].tolist() if arm not in known]
        if stays and len(told) <= max(FEW, self._core // FEW):
            self._follow(rest, coins, pulled, counts, sums, told, times)
        else:
            self._append(rest)
            self._keep_core(rest)
            self._append(coins)
            there = np.take(self.features, pulled, axis=1)
            self._solve(there, counts)
            self.weights = self.solver @ (there @ sums)
            self.mean = self.weights @ self.features
        self.members = members.copy()
        if len(self._columns) > max(2 * len(members), 64):
            self._columns = {arm: self._columns[arm] for arm in members.tolist() if arm in self._columns}

    def _truncate(self) -> None:
        """Forget the coordinates beyond the core."""
        if self._core < len(self._basis):  # else the factor keeps its room to grow
            self._basis = self._basis[: self._core]
            self._factor = GrowingCholesky(self._factor.inverse[: self._core, : self._core])
        self.residual, self.signal, self.solver = self._core_residual, self._core_signal, self._core_solver

    def _leave(self, arm: int) -> None:
        """Take an arm out of the core, in O(A·m)."""
        if arm not in self._basis:  # it lay in the span of the others, or of those that left before it
            self._spare.discard(arm)
            return
        place = self._basis.index(arm)
        own, told, self.solver, inverse = left_out(place, self._factor.inverse, self.solver, self.features)
        self.residual = self.residual + own * own / self.ridge
        self.signal = np.maximum(self.signal - told * told, 0.0)
        self._factor = GrowingCholesky(inverse)
        del self._basis[place]
        self._spare = set()  # what was in the span may no longer be: these arms are looked at anew
        self._keep_core([])

    def _keep_core(self, appended: list[int]) -> None:
        """Let all coordinates so far be the core."""
        self._spare |= set(appended) - set(self._basis)
        self._core = len(self._basis)
        self._core_residual, self._core_signal, self._core_solver = self.residual, self.signal, self.solver

    def _after_pull(self, arm: int, times: int, signal: Array, solver: Array) -> tuple[Array, Array]:
        """Return signal and V⁻¹ after some pulls of one arm."""
        z = self.features[:, arm]
        h = solver @ z
        scale = times / (1.0 + times * float(z @ h))
        overlap = h @ self.features
        return np.maximum(signal - scale * overlap * overlap, 0.0), solver - scale * np.multiply.outer(h, h)

    def _embed(self, members: IntArray) -> None:
        """Make the features of a core from scratch, in O(A·m²)."""
        found, order = spanning_features(self.kernel, take(self.arms, members), IN_SPAN)
        inverse = found.mixing.T
        chosen = members[order]
        self._basis = chosen.tolist()
        self._spare = set(members.tolist()) - set(self._basis)
        self._factor = GrowingCholesky(inverse)
        self._buffer = times_triangle(inverse, self._take_columns(chosen))
        square = np.einsum("ij,ij->j", self._buffer, self._buffer)
        self.residual = np.maximum(self.diag - square, 0.0) / self.ridge
        self.signal, self.solver = np.zeros(len(self.diag)), np.zeros((len(chosen), len(chosen)))

    def _take_columns(self, arms: IntArray) -> Array:
        """Return k(x_i, arms) of some arms, (m, A), in a new array; each is computed once."""
        if self._values is None:
            self._values = against(self.kernel, self.arms)
        for arm in arms.tolist():
            if arm not in self._columns:
                self._columns[arm] = self._values(take(self.arms, slice(arm, arm + 1)))[0]
                self._columns[arm][arm] = self.diag[arm]
        return np.array([self._columns[arm] for arm in arms.tolist()]).reshape(-1, len(self.diag))

    def _append(self, arms: list[int]) -> None:
        """Add the coordinates of more arms, in O(A·m) each; V⁻¹ and the signal do not follow."""
        numbers = np.array(arms, dtype=np.int64)
        left = self._take_columns(numbers)
        left -= np.take(self.features, numbers, axis=1).T @ self.features
        self._add_coordinates(left, *span(left[:, numbers], self.diag[numbers]), numbers)

    def _add_coordinates(self, left: Array, inverse: Array, order: IntArray, arms: IntArray) -> Array:
        """Add the coordinates inverse·left[order]; ``left``: what the others leave of the columns of ``arms``."""
        m, chosen = len(self._basis), arms[order]
        if not len(chosen):
            return left[:0]
        new = times_triangle(inverse, left[order])
        schur = left[np.ix_(order, chosen)]
        self._factor = self._factor.append(np.take(self.features, chosen, axis=1).T, (schur + schur.T) / 2)
        self._reserve(m + len(new))
        self._buffer[m : m + len(new)] = new
        self._basis += chosen.tolist()
        self.residual = np.maximum(self.residual - np.einsum("ij,ij->j", new, new) / self.ridge, 0.0)
        return new

    def _follow(
        self,
        rest: list[int],
        coins: list[int],
        pulled: IntArray,
        counts: Array,
        sums: Array,
        told: IntArray,
        times: Array,
    ) -> None:
        """Let V know of the pulls told and add coordinates: those of ``rest``, then those of the coins."""
        growth = Growth(np.take(self.features, pulled, axis=1), self.solver, pulled, counts, self.ridge)
        fallen = growth.pull(told, times)
        blocks = []
        for arms in (rest, coins):
            numbers = np.array(arms, dtype=np.int64)
            columns = self._take_columns(numbers)
            blocks.append((columns, growth.append(columns, numbers, self.diag[numbers]), growth.solver))
        self.weights = growth.weights(sums)
        m = self._core
        stacked = [fallen, *(part for _, new, _ in blocks for part in (new.cross, new.solved)), self.weights[None]]
        products = np.vstack([part[:, :m] for part in stacked]) @ self.features
        parts_ = np.split(products, np.cumsum([len(part) for part in stacked])[:-1])
        self.signal = np.maximum(self.signal - np.einsum("ij,ij->j", parts_[0], parts_[0]), 0.0)
        for i, (columns, new, solver) in enumerate(blocks):
            before = self._buffer[m : len(self._basis)]  # the coordinates that came before in this step
            columns -= parts_[1 + 2 * i]
            columns -= new.cross[:, m:] @ before
            fresh = self._add_coordinates(columns, new.inverse, new.order, new.arms)
            fresh = fresh - parts_[2 + 2 * i]
            fresh -= new.solved[:, m:] @ before
            fresh = times_triangle(new.whitener, fresh)
            self.signal = self.signal + np.einsum("ij,ij->j", fresh, fresh)
            self.solver = solver
            if i == 0:
                self._keep_core(rest)
        self.mean = parts_[-1][0] + self.weights[m:] @ self._buffer[m : len(self._basis)]

    def _solve(self, there: Array, counts: Array) -> None:
        """Make V⁻¹ and the signal from scratch, in O(A·m²); the core's are the leading part."""
        V = (there * counts) @ there.T
        V[np.diag_indices_from(V)] += self.ridge
        whitener = inverse_factor(V)
        whitened = times_triangle(whitener, self.features.copy())
        core, leading = self._core, whitener[: self._core, : self._core]
        self._core_signal = np.einsum("ij,ij->j", whitened[:core], whitened[:core])
        self._core_solver = leading.T @ leading
        self.signal = self._core_signal + np.einsum("ij,ij->j", whitened[core:], whitened[core:])
        self.solver = whitener.T @ whitener

    def _reserve(self, size: int) -> None:
        if size > len(self._buffer):
            grown = np.empty((max(64, size + size // 2), len(self.diag)))
            grown[: len(self._basis)] = self.features
            self._buffer = grown

    def predict(self, X: Rows) -> tuple[Array, Array]:
        """Return μ̃ and s̃² at any rows."""
        _, mean, residual, signal = self._at(X)
        return mean, self.ridge * self._total(residual, signal)

    def _features(self, X: Rows) -> Array:
        if not self._basis:
            return np.zeros((n_rows(X), 0))
        atoms = take(self.arms, np.array(self._basis, dtype=np.int64))
        return FixedFeatures(self.kernel, atoms, self._factor.inverse.T).block(X)

    def _at(self, X: Rows) -> tuple[Array, Array, Array, Array]:
        """Return features, mean, residual and signal at any rows."""
        z = self._features(X)
        residual, signal = two_terms(z, diagonal(self.kernel, X), self.solver)
        return z, z @ self.weights, residual / self.ridge, signal

    def add(self, rows: Rows) -> None:
        """Add arms, in O(new·m²)."""
        z, mean, residual, signal = self._at(rows)
        diag = diagonal(self.kernel, rows)
        core_residual, core_signal = two_terms(z[:, : self._core], diag, self._core_solver)
        self.arms, self.diag, self._values = join(self.arms, rows), np.append(self.diag, diag), None
        if self._columns:
            kept = np.fromiter(self._columns, dtype=np.int64)
            more = block(self.kernel, take(self.arms, kept), rows)
            self._columns = {
                arm: np.append(self._columns[arm], new) for arm, new in zip(kept.tolist(), more, strict=True)
            }
        self._buffer = np.hstack([self.features, z.T])
        self.mean, self.residual = np.append(self.mean, mean), np.append(self.residual, residual)
        self.signal = np.append(self.signal, signal)
        self._core_residual = np.append(self._core_residual, core_residual / self.ridge)
        self._core_signal = np.append(self._core_signal, core_signal)

    def log_determinant(self, pulled: IntArray, counts: Array) -> float:
        """Return logdet(V/λ) + Σ_i log(1 + n_i·residual_i), an upper bound of logdet(I + K_t/λ)."""
        inside = -np.linalg.slogdet(self.solver)[1] - len(self._basis) * np.log(self.ridge) if self._basis else 0.0
        return float(inside + np.log1p(counts * self.residual[pulled]).sum())

    def to_arrays(self) -> dict[str, Any]:
        """Return everything that the next pull depends on, but arms and kernel."""
        values = {
            "basis": np.array(self._basis, dtype=np.int64),
            "spare": np.array(sorted(self._spare), dtype=np.int64),
            "numbers": np.array([self._core, self._steps], dtype=np.int64),
            "slots": np.fromiter(self._columns, dtype=np.int64),
            "columns": np.array(list(self._columns.values())).reshape(-1, len(self.diag)),
            "features": self.features,
            "factor": self._factor.inverse,
        }
        return parts(STATE, values | {name.strip("_"): getattr(self, name) for name in PLAIN}, "model_")[0]

    def restore(self, arrays: dict[str, Any]) -> None:
        """Take the state that :meth:`to_arrays` gave; anything that does not fit raises."""
        named = ("members", "basis", "spare", "slots")
        given = copies(STATE, arrays, "model_", len(self.diag), named, m=len(arrays["model_basis"]))
        self._core, self._steps = given["numbers"].tolist()
        if self._core != len(given["core_solver"]) or self._core > len(given["basis"]):
            raise ValueError("the model's core does not fit")
        for name in PLAIN:
            setattr(self, name, given[name.strip("_")])
        self._basis, self._spare = given["basis"].tolist(), set(given["spare"].tolist())
        self._buffer, self._factor = given["features"], GrowingCholesky(given["factor"])
        self._columns = dict(zip(given["slots"].tolist(), given["columns"], strict=True))


PLAIN = (
    *("members", "solver", "weights", "mean", "residual", "signal"),
    *("_core_solver", "_core_residual", "_core_signal"),
)
"""Attributes that are written as they are."""

STATE = {
    **{name: numbers("arms") for name in ("mean", "signal", "core_signal")},
    **{name: numbers("arms", low=0.0) for name in ("residual", "core_residual")},
    **{name: wholes(name) for name in ("members", "spare", "slots")},
    "basis": wholes("m"),
    "numbers": wholes(2),
    "columns": numbers("slots", "arms"),
    "features": numbers("m", "arms"),
    "factor": numbers("m", "m"),
    "solver": numbers("m", "m"),
    "core_solver": numbers("core", "core"),
    "weights": numbers("m"),
}
