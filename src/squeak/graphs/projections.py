"""Resistances by random projections, with what is known exactly taken out of the noise.

Johnson-Lindenstrauss: x = L⁺BᵀE^½q with random signs q has covariance L⁺, so r_e is the mean of (x_u − x_v)².
Given all other nodes, the part of that variance that u and v themselves add is known:

    r_e = b_eᵀ(L_SS)⁻¹b_e + E[(m_u − m_v)²],   S = {u, v},   m = (L_SS)⁻¹·(what the neighbours of S send it),

the law of total variance. Only the second term is averaged over projections. In a well connected graph it is a few
percent of the first, so a handful of projections does; the first term alone is a lower bound (all other nodes
shorted), so no score is ever 0. What bottlenecks add is found beforehand and added exactly
(:mod:`squeak.graphs.bottlenecks`).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from squeak.core.types import Array, IntArray
from squeak.graphs.bottlenecks import SINGLE, Block, SlowDirections
from squeak.graphs.edges import Edges
from squeak.graphs.forest import certain_edges
from squeak.graphs.solver import NormalisedSystem

CHUNK = 8
"""Projections at a time: a block of eight float32 columns is what the processor reads at once."""

MOST = 4096
SETTLED = 0.95
"""The part of the edges whose standard error must be small enough."""

TILE = 32_768


class ProjectedResistances:
    """Projections of one graph, from which the resistance between any two nodes of a component can be read.

    Parameters
    ----------
    edges : Edges
        All pairs different, sorted.
    ridge, error, n_projections, tol
        As in :func:`squeak.graphs.effective_resistances`.
    rng : Generator
    least : int
        Projections to begin with: fewer where a median error is enough, more where every edge matters.
    """

    def __init__(
        self,
        edges: Edges,
        ridge: float,
        error: float,
        n_projections: int | None,
        tol: float,
        rng: np.random.Generator,
        least: int = CHUNK,
    ) -> None:
        most, certain = MOST if n_projections is None else n_projections, certain_edges(edges, ridge)
        system, slow = _prepared(edges, ridge, tol, 1 if least < CHUNK else 2, rng)
        self.edges, self._diagonal = edges, system.diagonal
        self._slow = slow.z, slow.t
        self._columns: list[tuple[Block, Block]] = []
        self.n_projections = 0
        local = _Local(edges.u, edges.v, edges.weights, edges.weights, system.diagonal)
        exact = local.known.copy()
        local.add_squares(*self._slow, exact)
        total = np.zeros(len(edges))
        while self.n_projections < most:
            width = min(least if self.n_projections == 0 else CHUNK, most - self.n_projections)
            z, t = _solved(edges, system, ridge, width, tol, rng)
            self._columns.append(slow.removed(z, t))
            local.add_squares(*self._columns[-1], total)
            self.n_projections += z.shape[1]
            if n_projections is None:
                noisy = total / self.n_projections
                spread = noisy * np.sqrt(2.0 / self.n_projections)
                small = spread <= error * np.minimum(exact + noisy, 1.0)
                if (certain | small).mean() >= SETTLED:
                    break
        self.leverage: Array = np.clip(exact + total / self.n_projections, local.known, 1.0)
        self.leverage[certain] = 1.0

    def scores(self, u: IntArray, v: IntArray, weights: Array, between: Array) -> Array:
        """Return a·r for pairs of nodes of one component, a the given weights.

        ``between`` is the weight of the edge between the two in the graph itself, 0 where there is none.
        """
        local = _Local(u, v, weights, between, self._diagonal)
        exact, total = local.known.copy(), np.zeros(len(u))
        local.add_squares(*self._slow, exact)
        for z, t in self._columns:
            local.add_squares(z, t, total)
        found: Array = exact + total / self.n_projections
        return found


def _prepared(
    edges: Edges, ridge: float, tol: float, probes: int, rng: np.random.Generator
) -> tuple[NormalisedSystem, SlowDirections]:
    """Return the system and its slow directions, in float32 where tol, ridge and bottlenecks allow it."""
    if tol >= 1e-4 and (ridge == 0 or ridge > 1e-6):
        system = NormalisedSystem(edges, ridge, single=True)
        slow = SlowDirections(system, edges)
        slow.search(probes, rng)
        if slow.smallest >= SINGLE:
            return system, slow
    system = NormalisedSystem(edges, ridge)
    slow = SlowDirections(system, edges)
    slow.search(probes, rng)
    return system, slow


def _solved(
    edges: Edges, system: NormalisedSystem, ridge: float, width: int, tol: float, rng: np.random.Generator
) -> tuple[Block, Block]:
    """Return projections z and t = Nz."""
    y = _right_sides(edges, system, ridge, width, rng)
    z, residual = system.solve_normalised(y, tol)
    return z, z - y + residual


def _right_sides(
    edges: Edges, system: NormalisedSystem, ridge: float, width: int, rng: np.random.Generator
) -> NDArray[np.floating]:
    """Return D^(-1/2)(BᵀE^½q + √ridge·q'): columns of covariance ℒ, from random signs."""
    n, m = edges.n_nodes, len(edges)
    signs = (2.0 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, count=width) - 1.0).astype(
        system.dtype
    )
    q = signs.take(np.frombuffer(rng.bytes(m), dtype=np.uint8), axis=0)
    ends, values = np.empty((m, 2), dtype=np.int32), np.empty((m, 2), dtype=system.dtype)
    ends[:, 0], ends[:, 1] = edges.u, edges.v
    values[:, 0] = np.sqrt(edges.weights)
    np.negative(values[:, 0], out=values[:, 1])
    y = sp.csc_matrix((values.ravel(), ends.ravel(), np.arange(0, 2 * m + 1, 2, dtype=np.int32)), shape=(n, m)) @ q
    if ridge > 0:
        y += np.sqrt(ridge) * rng.choice([-1.0, 1.0], size=(n, width))
    y *= system.scale[:, None]
    return np.asarray(y)


def shorted_scores(graph: Edges, ridge: float) -> Array:
    """Return a·r with all other nodes shorted, for every edge: what its own two ends tell, and no more than a·r."""
    diagonal = graph.degrees() + ridge
    diagonal[diagonal == 0] = 1.0  # nodes without edges
    return _Local(graph.u, graph.v, graph.weights, graph.weights, diagonal).known


class _Local:
    """What each pair needs of its two ends: the exact part of a·r, and the factors of the random one."""

    def __init__(self, u: IntArray, v: IntArray, weights: Array, between: Array, diagonal: Array) -> None:
        self._u, self._v = u.astype(np.int32), v.astype(np.int32)
        self.known: Array = np.empty(len(u))
        self._factors = np.empty((len(u), 4), dtype=np.float32)
        inverse = 1.0 / diagonal
        for start in range(0, len(u), TILE):  # what is between fits the processor's cache
            here = slice(start, start + TILE)
            self._fill(here, weights[here], between[here], inverse[self._u[here]], inverse[self._v[here]])
        if between is weights:
            np.minimum(self.known, 1.0, out=self.known)

    def _fill(self, here: slice, weights: Array, between: Array, iu: Array, iv: Array) -> None:
        square = np.minimum((between * iu) * (between * iv), 1.0)
        left = np.maximum(1.0 - square, 1e-14)
        self.known[here] = weights * (iu + iv - 2.0 * between * iu * iv) / left
        cu, cv, alpha = np.sqrt(weights * iu), np.sqrt(weights * iv), np.sqrt(square)
        P, R = (cu - cv * alpha) / left, (cv - cu * alpha) / left
        for column, factor in enumerate((P, alpha * R, -R, -alpha * P)):
            self._factors[here, column] = factor

    def add_squares(self, z: NDArray[np.floating], t: NDArray[np.floating], total: Array) -> None:
        """Add Σ (m_u − m_v)² over the columns, for t = Nz."""
        if z.shape[1] == 0:
            return
        for start in range(0, len(total), TILE):
            here = slice(start, start + TILE)
            u, v, f = self._u[here], self._v[here], self._factors[here]
            m = t.take(u, axis=0)
            m *= f[:, 0, None]
            for values, ends, column in ((z, u, 1), (t, v, 2), (z, v, 3)):
                part = values.take(ends, axis=0)
                part *= f[:, column, None]
                m += part
            total[here] += np.einsum("ij,ij->i", m, m)
