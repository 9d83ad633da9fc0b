"""A preconditioner from some of the rows, drawn at random: how many, their sums, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.kernels import against32
from squeak.core.nystrom import Features
from squeak.core.rows import take
from squeak.core.types import Rows
from squeak.learners.tiles import sum_tiles
from squeak.trees.sums import Arrays

PRODUCT = 0.045
"""Nanoseconds of a core for a row of a sample and a pair of features: two products in float32."""

READ = 0.5
"""Nanoseconds of a core for a kernel value in a pass, read once and used twice."""

KERNEL, KERNEL_SINGLE = 6.0, 1.8
"""A kernel value in float64, and in float32 where the kernel has that."""

FLOP, FLOP_SINGLE = 1 / 24, 1 / 44
"""An operation of a matrix product."""

EFFECTIVE = 0.8
"""The effective dimension as a part of the atoms: a cautious guess."""

TIMES_ATOMS = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0)

GAIN = 1e-6
"""The iterations end when no more than this part of the objective is left to gain, in float64 twice as much."""

PANEL = 256
"""Features that are computed at a time, so that products skip the zeros of a triangular matrix."""

FEW = 512
"""Rows whose kernel values are computed at a time."""


def passes_with(times: float) -> float:
    """Return how many passes a preconditioner from so many rows for each atom takes.

    With s rows for effective dimension D the preconditioned system has eigenvalues (1 ± √(D/s))² as those of a
    Wishart matrix, and the objective's gap falls by D/s with every pass.
    """
    return float(np.log(1.0 / GAIN) / np.log(times / EFFECTIVE))


def value_cost(columns: int, single: bool) -> float:
    """Return the nanoseconds of a kernel value of rows with so many columns, in float32 or in float64."""
    return KERNEL_SINGLE + 2 * columns * FLOP_SINGLE if single else KERNEL + 2 * columns * FLOP


def computes_in_float32(kernel: Any, X: Rows) -> bool:
    """Tell whether the kernel's values of such rows take less time in float32 than in float64."""
    dense = hasattr(X, "dtype") and hasattr(X, "strides")
    return dense and bool(getattr(kernel, "fast_float32", False))


def sample_size(n: int, m: int, anew: float = 0.0) -> int:
    """Return from how many rows to make the preconditioner: where it and the passes take the least time.

    ``anew`` are nanoseconds that a kernel value takes in a pass besides, where it is computed anew.
    """
    a_pass = n * m * (READ + anew)
    best = min(TIMES_ATOMS, key=lambda times: times * m**3 * PRODUCT + passes_with(times) * a_pass)
    return min(n, int(best * m))


@dataclass(frozen=True)
class SampledTerm:
    """Σ w z zᵀ over a sample, and Σ w z yᵀ if it has targets, in float32: a preconditioner needs no more digits.

    An entry's rounding is a part of the root of its two diagonal entries, so that large features do not drown small
    ones. Atoms are taken in the order of the first feature that they enter; features from a Cholesky factor are
    then a triangular matrix, and half of the product is left out.
    """

    features: Features

    def __call__(self, X: Rows, pair: tuple[Any, Any]) -> Arrays:
        """Return the sums, in tiles on the threads."""
        y, weight = pair
        r, entered = self.features.rank, self.features.mixing != 0
        first = np.where(entered.any(axis=1), entered.argmax(axis=1), r)
        order = np.argsort(first, kind="stable")[: np.count_nonzero(first < r)]
        first, mixing = first[order], self.features.mixing[order].astype(np.float32)
        values_of = against32(self.features.kernel, take(self.features.atoms, order))
        panels = [(panel, int(np.searchsorted(first, panel.stop))) for panel in engine.tiles(r, PANEL)]
        unit = 1.0 if weight is None else float(np.max(weight))
        outputs = 0 if y is None else y.shape[1]

        def add(sums: Arrays, tile: slice) -> None:
            n = tile.stop - tile.start
            K, Z = np.empty((n, len(order)), dtype=np.float32), np.empty((n, r), dtype=np.float32)
            for few in engine.tiles(n, FEW):
                values_of(take(X, slice(tile.start + few.start, tile.start + few.stop)), K[few])
            for panel, used in panels:
                np.matmul(K[:, :used], mixing[:used, panel], out=Z[:, panel])
            root: Any = np.ones((1, 1)) if weight is None else np.sqrt(weight[tile] / unit)[:, None]
            if weight is not None:
                Z *= root.astype(np.float32)
            sums[0][:] += Z.T @ Z
            if outputs:
                sums[1][:] += Z.T @ (root * y[tile]).astype(np.float32)

        sums = sum_tiles(X, len(order), r, lambda: (np.zeros((r, r)), np.zeros((r, outputs))), add)
        return tuple(unit * array for array in sums)
