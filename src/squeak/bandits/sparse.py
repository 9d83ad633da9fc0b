"""The posterior on a dictionary of arms (DTC) at every arm: what BKB and its batched form compute with.

With z(x) the plain Nyström features of the dictionary, V = Σ_i n_i z_i z_iᵀ + λI and S_i the sum of arm i's rewards:

    μ̃(x) = z(x)ᵀ V⁻¹ Σ_i S_i z_i
    σ̃²(x) = (k(x, x) − ‖z(x)‖²)/λ + z(x)ᵀ V⁻¹ z(x)

The variance is a sum of two terms that are never negative: what the dictionary cannot see, and what the pulls have not told.
Without the first it is the SoR posterior, whose variance starves far from the dictionary.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import dtrmm

from squeak.core.cholesky import inverse_factor
from squeak.core.kernels import block, diagonal
from squeak.core.nystrom import TriangularFeatures
from squeak.core.rows import join, n_rows, take
from squeak.core.types import Array, IntArray, Rows


class Columns:
    """Kernel columns k(x_i, arms) of the arms that were in a dictionary lately, shape (kept, A); computed once each.

    Arms that have left the dictionary are dropped when more than twice the columns in use are kept.
    """

    def __init__(self, kernel: Any, arms: Rows, diag: Array) -> None:
        self._kernel, self._arms, self._diag = kernel, arms, diag
        self.slots: dict[int, int] = {}
        self.values: Array = np.empty((0, len(diag)))

    def take(self, members: IntArray) -> Array:
        """Return the columns of these arms, (m, A), in a new array."""
        missing = [int(arm) for arm in members if int(arm) not in self.slots]
        if len(self.slots) + len(missing) > max(2 * len(members), 64):
            self._drop(set(members.tolist()))
        if len(self.slots) + len(missing) > len(self.values):
            grown = np.empty((max(64, 3 * len(members), len(self.slots) + len(missing)), len(self._diag)))
            grown[: len(self.slots)] = self.values[: len(self.slots)]
            self.values = grown
        for arm in missing:
            slot = len(self.slots)
            self.values[slot] = block(self._kernel, take(self._arms, slice(arm, arm + 1)), self._arms)[0]
            self.values[slot, arm] = self._diag[arm]
            self.slots[arm] = slot
        return self.values[[self.slots[int(arm)] for arm in members]]

    def _drop(self, wanted: set[int]) -> None:
        kept = [arm for arm in self.slots if arm in wanted]
        self.values[: len(kept)] = self.values[[self.slots[arm] for arm in kept]]
        self.slots = {arm: slot for slot, arm in enumerate(kept)}

    def add(self, arms: Rows, diag: Array, rows: Rows) -> None:
        """Take in more arms: ``arms`` and ``diag`` are all of them, ``rows`` the new ones."""
        self._arms, self._diag = arms, diag
        wider = np.empty((len(self.values), len(diag)))
        used = len(self.slots)
        wider[:used, : self.values.shape[1]] = self.values[:used]
        if used:
            kept = np.fromiter(self.slots, dtype=np.int64)
            wider[:used, self.values.shape[1] :] = block(self._kernel, take(arms, kept), rows)
        self.values = wider


class SparseModel:
    """Mean and variance in ridge-leverage units at every arm, from a dictionary of arms.

    Between calls: ``mean`` and ``variance`` are the formulas above for ``members`` and the pulls taken in since
    :meth:`rebuild`. Pulls between two dictionaries cost O(A·m + m²) with :meth:`observe`.

    Parameters
    ----------
    kernel : resolved kernel
    arms : checked rows
    ridge : float
        λ = noise².

    References
    ----------
    Carratino thesis, equation 7.1; spec 5, with the variance as a sum.
    """

    keep_residual = True
    """False: the SoR posterior, for comparison."""

    def __init__(self, kernel: Any, arms: Rows, ridge: float) -> None:
        self.kernel, self.arms, self.ridge = kernel, arms, ridge
        self.diag = diagonal(kernel, arms)
        self.columns = Columns(kernel, arms, self.diag)
        self.members: IntArray = np.zeros(0, dtype=np.int64)
        self.features: TriangularFeatures | None = None
        self.mean = np.zeros(len(self.diag))
        self.variance = self.diag / ridge
        self.embedded: Array = np.zeros((0, len(self.diag)))
        """b(x) = L⁻¹z(x) for V = L Lᵀ at the last rebuild, (m, A)."""
        self.inner: Array = np.zeros((0, 0))
        """(I + Σ b bᵀ)⁻¹ over the pulls since, (m, m): zᵀV⁻¹z = bᵀ·inner·b."""
        self.residual: Array = self.diag / ridge
        self._whitener: Array = np.zeros((0, 0))
        self._solution: Array = np.zeros(0)
        """b(x)ᵀ·solution is the mean."""

    def rebuild(self, members: IntArray, pulled: IntArray, counts: Array, sums: Array) -> None:
        """Take a new dictionary and all pulls so far, in O(A·m²)."""
        if not np.array_equal(members, self.members) or self.features is None:
            self._embed(members)
        Z = self._features_of_arms
        there = np.take(Z, pulled, axis=1)
        V = (there * counts) @ there.T
        V[np.diag_indices_from(V)] += self.ridge
        self._whitener = inverse_factor(V)
        self.embedded = _times_triangle(self._whitener, Z.copy())
        self.inner = np.eye(len(V))
        self._solution = self._whitener @ (there @ sums)
        self.mean = self._solution @ self.embedded
        self.variance = self.residual + np.einsum("ij,ij->j", self.embedded, self.embedded)

    def _embed(self, members: IntArray) -> None:
        features = TriangularFeatures(self.kernel, take(self.arms, members))
        chosen = members[features.order]
        triangle = np.ascontiguousarray(features.mixing[features.order].T)
        self._features_of_arms = _times_triangle(triangle, self.columns.take(chosen))
        square = np.einsum("ij,ij->j", self._features_of_arms, self._features_of_arms)
        self.residual = np.maximum(self.diag - square, 0.0) / self.ridge
        if not self.keep_residual:
            self.residual = np.zeros_like(self.residual)
        self.members, self.features = members.copy(), features

    def direction(self, arm: int) -> tuple[Array, float]:
        """Return inner·b for an arm, and bᵀ·inner·b."""
        b = self.embedded[:, arm]
        h = self.inner @ b
        return h, float(b @ h)

    def shrink(self, arm: int, times: int = 1) -> tuple[Array, float]:
        """Let V know of pulls whose rewards are not known yet; every variance falls. Returns (zᵀV⁻¹z_arm, scale)."""
        h, here = self.direction(arm)
        scale = times / (1.0 + times * here)
        overlap = h @ self.embedded
        self.variance -= scale * overlap * overlap
        np.maximum(self.variance, self.residual, out=self.variance)
        self.inner -= scale * np.multiply.outer(h, h)
        return overlap, scale

    def observe(self, arm: int, total: float, times: int = 1) -> None:
        """Take in ``times`` pulls of one arm whose rewards (less the prior mean) sum to ``total``."""
        h, _ = self.direction(arm)
        gap = total / times - float(self.mean[arm])
        overlap, scale = self.shrink(arm, times)
        self.mean += (scale * gap) * overlap
        self._solution = self._solution + (scale * gap) * h

    def predict(self, X: Rows) -> tuple[Array, Array]:
        """Return mean and variance (ridge-leverage units) at any rows."""
        diag = diagonal(self.kernel, X)
        if self.features is None:
            return np.zeros(len(diag)), diag / self.ridge
        mean, variance, _ = self._at(block(self.kernel, X, self.features.atoms) @ self.features.mixing, diag)
        return mean, variance

    def _at(self, z: Array, diag: Array) -> tuple[Array, Array, Array]:
        b = z @ self._whitener.T
        residual = np.maximum(diag - np.einsum("ij,ij->i", z, z), 0.0) / self.ridge
        if not self.keep_residual:
            residual = np.zeros_like(residual)
        return b @ self._solution, residual + np.einsum("ij,ij->i", b @ self.inner, b), residual

    def add(self, rows: Rows) -> None:
        """Add arms, in O(new·m²)."""
        new_diag = diagonal(self.kernel, rows)
        if self.features is None:
            mean, variance, residual = np.zeros(len(new_diag)), new_diag / self.ridge, new_diag / self.ridge
            z = np.zeros((len(new_diag), 0))
        else:
            z = block(self.kernel, rows, self.features.atoms) @ self.features.mixing
            mean, variance, residual = self._at(z, new_diag)
            self._features_of_arms = np.hstack([self._features_of_arms, z.T])
            self.embedded = np.hstack([self.embedded, self._whitener @ z.T])
        self.arms = join(self.arms, rows)
        self.diag = np.concatenate([self.diag, new_diag])
        self.columns.add(self.arms, self.diag, rows)
        if self.features is None:
            self.embedded = np.zeros((0, len(self.diag)))
        self.mean = np.concatenate([self.mean, mean])
        self.variance = np.concatenate([self.variance, variance])
        self.residual = np.concatenate([self.residual, residual])

    def log_determinant(self, counts: Array, pulled: IntArray) -> float:
        """Return logdet(V/λ) + Σ_i log(1 + n_i·residual_i), an upper bound of logdet(I + K_t/λ)."""
        if self.features is None:
            return float(np.log1p(counts * self.diag[pulled] / self.ridge).sum())
        inside = -2.0 * np.log(self._whitener.diagonal()).sum() - len(self._whitener) * np.log(self.ridge)
        return float(inside - np.linalg.slogdet(self.inner)[1] + np.log1p(counts * self.residual[pulled]).sum())

    def to_arrays(self) -> dict[str, Any]:
        """Return everything that the next pull depends on, but arms and kernel."""
        arrays: dict[str, Any] = {"model_members": self.members, "model_mean": self.mean}
        arrays |= {"model_variance": self.variance, "model_residual": self.residual}
        if self.features is not None:
            arrays |= {
                "model_slots": np.fromiter(self.columns.slots, dtype=np.int64),
                "model_columns": self.columns.values[: len(self.columns.slots)],
                "model_features": self._features_of_arms,
                "model_embedded": self.embedded,
                "model_inner": self.inner,
                "model_whitener": self._whitener,
                "model_solution": self._solution,
            }
        return arrays

    def restore(self, arrays: dict[str, Any]) -> None:
        """Take the state that :meth:`to_arrays` gave; anything that does not fit raises."""
        A = n_rows(self.arms)
        self.members = np.array(arrays["model_members"])
        self.mean, self.variance = np.array(arrays["model_mean"]), np.array(arrays["model_variance"])
        self.residual = np.array(arrays["model_residual"])
        if any(array.shape != (A,) for array in (self.mean, self.variance, self.residual)):
            raise ValueError("the model's numbers do not fit its arms")
        if len(self.members) == 0:
            return
        self.features = TriangularFeatures(self.kernel, take(self.arms, self.members))
        m, slots = self.features.rank, np.array(arrays["model_slots"])
        shapes = {"features": (m, A), "embedded": (m, A), "inner": (m, m), "whitener": (m, m), "solution": (m,)}
        shapes |= {"columns": (len(slots), A)}
        for name, shape in shapes.items():
            if arrays[f"model_{name}"].shape != shape or not np.isfinite(arrays[f"model_{name}"]).all():
                raise ValueError(f"the model's {name} does not fit")
        self._features_of_arms = np.array(arrays["model_features"])
        self.embedded, self.inner = np.array(arrays["model_embedded"]), np.array(arrays["model_inner"])
        self._whitener, self._solution = np.array(arrays["model_whitener"]), np.array(arrays["model_solution"])
        self.columns.values = np.array(arrays["model_columns"])
        self.columns.slots = {int(arm): slot for slot, arm in enumerate(slots)}


def _times_triangle(lower: Array, values: Array) -> Array:
    """Return lower·values for a lower triangular matrix, in the memory of ``values`` (m, A), at half a product's cost."""
    dtrmm(1.0, lower.T, values.T, side=1, lower=0, trans_a=0, overwrite_b=1)
    return values
