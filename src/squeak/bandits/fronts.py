"""Several objectives: which points no other dominates, and a direction in which to improve them."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core.types import Array, BoolArray

DRAWS = 64
"""Draws from the posteriors of several objectives, of which the expected improvement is the mean."""


def non_dominated(values: Array) -> BoolArray:
    """Tell which rows no other row is at least as large as in every column and larger than in one."""
    order = np.lexsort(values.T[::-1])[::-1]  # a row is dominated only by rows that come before it
    found = np.zeros(len(values), dtype=bool)
    front: Array = np.empty((0, values.shape[1]))
    for i in order:
        beaten = (front >= values[i]).all(axis=1) & (front > values[i]).any(axis=1)
        if not beaten.any():
            found[i] = True
            front = np.vstack([front, values[i]])
    return found


class Direction:
    """A random direction λ, and s(y) = min_i (max(y_i − r_i, 0)/λ_i)^m for m objectives.

    The mean over λ of the largest s among some points is the volume that they dominate above r, up to a constant.

    ``values``: those of the points so far, a row each. ``front``: which of them r is to lie below, by a tenth of
    their range.

    Source: Golovin and Zhang (2020), Random hypervolume scalarizations for provable multi-objective black box
    optimization, lemma 5.
    """

    def __init__(self, values: Array, front: BoolArray, rng: np.random.Generator) -> None:
        best, worst = values[front].max(axis=0), values[front].min(axis=0)
        self._reference = (worst - 0.1 * np.maximum(best - worst, 1e-3))[:, None, None]
        weights = np.abs(rng.standard_normal((values.shape[1], 1, 1)))
        self._weights = weights / np.linalg.norm(weights)
        self._normal = rng.standard_normal((values.shape[1], DRAWS, 1))
        self.reached = self._along(values.T[:, None, :])[0]
        """s at every point so far."""

    def _along(self, values: Array) -> Array:
        shares = np.maximum(values - self._reference, 0.0) / self._weights
        return np.asarray(shares.min(axis=0) ** len(values))

    def improvement(self, means: Any, variances: Any, incumbent: float) -> Array:
        """Return the expected rise of s above an incumbent, where the objectives are normal and independent."""
        std = np.sqrt(np.asarray(variances))[:, None, :]
        drawn = np.asarray(means)[:, None, :] + std * self._normal
        return np.asarray(np.maximum(self._along(drawn) - incumbent, 0.0).mean(axis=0))
