"""Directions in which a Laplacian is nearly singular: what the bottlenecks of a graph make.

Of a right-hand side BᵀE^½q a direction of eigenvalue λ has the share √λ, so a solve to a residual of 1e-3 may
never see it, and the edges that alone hold two parts together would score next to nothing. A white right-hand
side shows such directions: its solution is 1/λ there. Found once, they are taken out of the projections and
their part of every resistance is added exactly:

    L⁺ = SSᵀ + (I − SSᵀL)·L⁺·(I − LSSᵀ)   for any S with SᵀLS = I.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, qr

from squeak.core.types import Array
from squeak.graphs.edges import Edges
from squeak.graphs.solver import NormalisedSystem

Block = NDArray[np.floating]

MORE, MOST = 8, 58
"""White right-hand sides at a time while they show slow directions, and in all."""

REACH = 2.0
"""An eigenvalue of ℒ below this over the number of nodes counts.

A cut of conductance λ around half of n nodes adds about 1/(λ·n) to the leverage that its edges have by their own
degrees; where that is below a half it is left to the projections.
"""

SINGLE = 1e-5
"""The smallest eigenvalue that float32 resolves."""

LIMIT = 480
"""Iterations of a search, whose result is of use whether it has come to an end or not."""


class SlowDirections:
    """Columns z with zᵀℒz = I in normalised coordinates and their images t = Nz; none in a well connected graph."""

    def __init__(self, system: NormalisedSystem, edges: Edges) -> None:
        n = edges.n_nodes
        self.z: Array = np.zeros((n, 0))
        self.t: Array = np.zeros((n, 0))
        self._units: Array = np.zeros((n, 0))
        self.smallest = np.inf
        self.tolerance = min(1e-3, 0.1 / np.sqrt(n))
        """Of the solves: one direction has the share 1/√n of a white right-hand side, give or take.

        It can stay unseen where all columns have less than a tenth of that: of one column 8 in 100 do.
        """
        self._system, self._flat = system, _Flat(edges, system)

    def search(self, first: int, rng: np.random.Generator) -> None:
        """Take in what the solutions of white columns show: the first ones, and more while they show more."""
        n, width = len(self.z), first
        while self.z.shape[1] + width <= MOST:
            white = self._in_range(rng.standard_normal((n, width)))
            if self._add(self._in_range(self._solved(white))) < width:
                break
            width = min(MORE, n)

    def _solved(self, block: Array) -> Array:
        """Return the solutions, as far as they come; few columns are faster one by one."""
        parts = np.hsplit(block, block.shape[1]) if block.shape[1] < MORE else [block]
        return np.hstack([self._system.attempt(part, self.tolerance, LIMIT)[0] for part in parts])

    def _in_range(self, block: Block) -> Array:
        return self._flat.removed(np.asarray(block, dtype=np.float64))

    def _add(self, block: Array) -> int:
        """Take in the slow directions in the span of the block; return how many there are more than before.

        What looks slow is solved for once more: in one solution of a white column the part of all other
        directions, about 1 in each, weighs as much as a slow one.
        """
        known = self.z.shape[1]
        values, candidates = self._slowest(block, 4.0 * REACH)
        if len(values) <= known:
            return 0
        values, units = self._slowest(self._in_range(self._solved(candidates)), REACH)
        self.smallest = float(values.min(initial=self.smallest))
        rounding = 1e-6 if self._system.dtype == np.float32 else 1e-15
        real = values > rounding
        self._units, z = units[:, real], units[:, real] / np.sqrt(values[real])
        self.z, self.t = z, self._system.product(z)
        return int(np.count_nonzero(real)) - int(known)

    def _slowest(self, block: Array, reach: float) -> tuple[Array, Array]:
        """Return the small Ritz values of ℒ on the span of the block and what is known, with their unit vectors."""
        block = block[:, np.isfinite(block).all(axis=0) & block.any(axis=0)]
        if block.shape[1] == 0:
            return np.zeros(0), block
        q = qr(np.hstack([self._units, block / np.abs(block).max(axis=0, initial=0.0)]), mode="economic")[0]
        values, vectors = eigh(np.eye(q.shape[1]) - q.T @ self._system.product(q))
        slow = values < reach / len(block)
        return values[slow], q @ vectors[:, slow]

    def removed(self, z: Block, t: Block) -> tuple[Block, Block]:
        """Return z and t = Nz without what they have of the slow directions."""
        if self.z.shape[1] == 0:
            return z, t
        share = (self.z - self.t).T @ z
        return (z - self.z @ share).astype(z.dtype), (t - self.t @ share).astype(t.dtype)


class _Flat:
    """D^½·1 on every component: the null space of ℒ without a ridge; with one, of no use to any edge either."""

    def __init__(self, edges: Edges, system: NormalisedSystem) -> None:
        self._count, self._labels = edges.components()
        self._flat = np.sqrt(system.diagonal)
        self._sizes = np.bincount(self._labels, system.diagonal, minlength=self._count)

    def removed(self, block: Array) -> Array:
        """Return the block without its part in these directions."""
        sums = [np.bincount(self._labels, self._flat * column, minlength=self._count) for column in block.T]
        means = np.column_stack(sums) / self._sizes[:, None]
        return np.asarray(block - self._flat[:, None] * means[self._labels])
