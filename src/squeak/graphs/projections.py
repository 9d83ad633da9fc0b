"""Resistances by random projections, with what is known exactly taken out of the noise.

Johnson-Lindenstrauss: x = L⁺BᵀE^½q with random signs q has covariance L⁺, so r_e is the mean of (x_u − x_v)².
Given all other nodes, the part of that variance that u and v themselves add is known:

    r_e = b_eᵀ(L_SS)⁻¹b_e + E[(m_u − m_v)²],   S = {u, v},   m = (L_SS)⁻¹·(what the neighbours of S send it),

the law of total variance. Only the second term is averaged over projections. In a well connected graph it is a few
percent of the first, so a handful of projections does; the first term alone is a lower bound (all other nodes
shorted), so no score is ever 0.

Bottlenecks of a graph make directions in which its Laplacian is nearly singular. Of a right-hand side BᵀE^½q a
direction of eigenvalue λ has the share √λ, so a solve to a residual of 1e-3 may never see it, and the edges that
alone hold two parts together would score next to nothing. A white right-hand side shows such directions: its
solution is 1/λ there. Found once, they are taken out of the projections and their part of every resistance is added
exactly:

    L⁺ = SSᵀ + (I − SSᵀL)·L⁺·(I − LSSᵀ)   for any S with SᵀLS = I.

Where weights are farther apart than a solver resolves, one scale of weights is taken at a time. To an edge of
weight a, edges a million times as heavy are as good as shorts, and edges a millionth as heavy as good as none: both
change its leverage by about a millionth for every such edge on its way. So the edges of one scale are scored in the
graph in which heavier ones are contracted and lighter ones left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh, qr

from squeak.core import engine
from squeak.core.types import Array, IntArray
from squeak.graphs.edges import Edges, certain_edges, merged_places
from squeak.graphs.solver import FEW, NormalisedSystem, one_by_one

Block = NDArray[np.floating]

MORE, LARGEST, SLOWEST, NUMBERS = 8, 128, 58, 4e6
"""White right-hand sides at a time while they show slow directions: twice as many each time, up to the second.

In all the third, or more where that makes no more values than the last.
"""

MISSED = (
    "the graph has more than {} parts that hang together by next to nothing: edges between further such parts may "
    "score too low (a ridge, or method='factor' or 'exact', scores them right)"
)

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
        n, width, more = len(self.z), first, MORE
        most = min(n, max(SLOWEST, int(NUMBERS / n)))
        while width > 0:
            white = self._in_range(rng.standard_normal((n, width)))
            if self._add(self._in_range(self._solved(white))) < width or not self.resolved:
                return
            width, more = min(more, most - self.z.shape[1]), min(2 * more, LARGEST)
        if most < n:
            warnings.warn(MISSED.format(self.z.shape[1]), stacklevel=2)

    @property
    def resolved(self) -> bool:
        """Whether the system's numbers are fine enough for what was found."""
        return self._system.dtype == np.float64 or self.smallest >= SINGLE

    def _solved(self, block: Array) -> Array:
        """Return the solutions, as far as they come; few columns are faster one by one.

        At a small eigenvalue the residual of conjugate gradients falls from step to step: what the least residual
        of the Krylov space would have seen, the last step has seen as well.
        """
        parts = np.hsplit(block, block.shape[1]) if block.shape[1] < MORE else [block]
        return np.hstack([self._system.attempt(part, self.tolerance, LIMIT, within=True)[0] for part in parts])

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


CHUNK = 8
"""Projections at a time: a block of eight float32 columns is what the processor reads at once."""

MOST = 4096
SETTLED = 0.95
"""The part of the edges whose standard error must be small enough."""

TILE = 16_384
"""Pairs at a time: what is between fits the processor's cache."""


class ProjectedResistances:
    """Projections of one graph, from which the resistance between any two nodes of a component can be read.

    ``edges``: all pairs different, sorted. ``ridge``, ``error``, ``n_projections``, ``tol``: as in
    :func:`squeak.graphs.effective_resistances`. ``least``: projections to begin with: fewer where a median error is
    enough, more where every edge matters.
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
            if n_projections is None and self._settled(exact, total, error, certain) >= SETTLED * len(edges):
                break
        self.leverage: Array = exact  # which is not needed any more
        for here in engine.tiles(len(edges), TILE):
            exact[here] += total[here] / self.n_projections
            np.clip(exact[here], local.known[here], 1.0, out=exact[here])
        self.leverage[certain] = 1.0

    def _settled(self, exact: Array, total: Array, error: float, certain: NDArray[np.bool_]) -> int:
        """Return how many edges are certain or have a standard error that is small enough."""
        count, rate = 0, error / np.sqrt(2.0 / self.n_projections)
        for here in engine.tiles(len(total), TILE):
            noisy = total[here] / self.n_projections
            small = noisy <= rate * np.minimum(exact[here] + noisy, 1.0)
            count += int(np.count_nonzero(certain[here] | small))
        return count

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
        if slow.resolved:
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
    bits, few = np.frombuffer(rng.bytes(m), dtype=np.uint8), width <= FEW
    q = signs.T.copy().take(bits, axis=1).T if few else signs.take(bits, axis=0)
    root, starts = np.sqrt(edges.weights).astype(system.dtype), np.arange(m + 1, dtype=np.int32)
    halves = (sp.csc_matrix((root, ends.astype(np.int32), starts), shape=(n, m)) for ends in (edges.u, edges.v))
    left, right = (one_by_one(half, q) if few else half @ q for half in halves)
    y = left - right
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
        self._factors = np.empty((4, len(u)), dtype=np.float32)
        roots = np.sqrt(diagonal)
        for here in engine.tiles(len(u), TILE):
            self._fill(here, weights[here], between[here], diagonal, roots)
        if between is weights:
            np.minimum(self.known, 1.0, out=self.known)

    def _fill(self, here: slice, weights: Array, between: Array, diagonal: Array, roots: Array) -> None:
        """Solve with L_SS = [[d_u, −b], [−b, d_v]] by what else is at the two ends, s_u = d_u − b and s_v alike.

        With h = s_u·s_v/(s_u + s_v), b_eᵀ(L_SS)⁻¹ is (s_v, −s_u)/((s_u + s_v)·(b + h)) and b_eᵀ(L_SS)⁻¹b_e is
        1/(b + h): no digits cancel where the edge is far heavier than all others of its ends.
        """
        u, v = self._u[here], self._v[here]
        su, sv = (np.maximum(diagonal.take(ends) - between, 0.0) for ends in (u, v))
        both = su + sv
        both[both == 0] = 1.0
        su /= both
        sv /= both
        both *= sv
        both *= su
        both += between
        np.divide(weights, both, out=self.known[here])
        root = np.sqrt(weights)
        root /= both
        su *= root
        sv *= root
        ru, rv = roots.take(u), roots.take(v)
        factors = self._factors[:, here]
        np.multiply(ru, sv, out=factors[0], casting="same_kind")
        np.multiply(between / ru, su, out=factors[1], casting="same_kind")
        np.multiply(-rv, su, out=factors[2], casting="same_kind")
        np.multiply(-between / rv, sv, out=factors[3], casting="same_kind")

    def add_squares(self, z: NDArray[np.floating], t: NDArray[np.floating], total: Array) -> None:
        """Add Σ (m_u − m_v)² over the columns, for t = Nz; a few columns go one by one, which is faster."""
        if z.shape[1] > FEW:
            self._add_squares(z, t, total)
        else:
            for column in range(z.shape[1]):
                self._add_squares(z[:, column].copy(), t[:, column].copy(), total)

    def _add_squares(self, z: NDArray[np.floating], t: NDArray[np.floating], total: Array) -> None:
        """Add them for a block of columns, or for one column."""
        for here in engine.tiles(len(total), TILE):
            u, v, f = self._u[here], self._v[here], self._factors[:, here]
            if z.ndim == 2:
                f = f[:, :, None]
            m = t.take(u, axis=0)
            m *= f[0]
            for values, ends, factor in ((z, u, f[1]), (t, v, f[2]), (z, v, f[3])):
                part = values.take(ends, axis=0)
                part *= factor
                m += part
            total[here] += m * m if z.ndim == 1 else np.einsum("ij,ij->i", m, m)


FAR = 1e15
"""The largest weight over the smallest, up to which all weights are taken together."""

WIDTH, APART = 1e3, 1e6
"""A scale is so wide, and what differs from it by so much is heavy or light."""


def far_apart(graph: Edges) -> bool:
    """Tell whether the weights of a graph are too far apart to be taken together."""
    return bool(graph.weights.max() > FAR * graph.weights.min())


def leverage_by_scales(graph: Edges, ridge: float, score: Callable[[Edges, float], Array]) -> Array:
    """Return the leverage of every edge, as ``score`` finds it for a graph with weights of nearly one scale.

    ``graph``: all pairs different, sorted.
    """
    if not far_apart(graph):
        return score(graph, ridge)
    w = graph.weights
    scores = shorted_scores(graph, ridge)
    levels = np.floor(np.log(w) / np.log(WIDTH))
    for level in np.unique(levels):
        inside = levels == level
        top, bottom = float(w[inside].max()), float(w[inside].min())
        _, labels = graph.take(w > APART * top).components()
        near = np.flatnonzero((labels[graph.u] != labels[graph.v]) & (w >= bottom / APART))
        if len(near) == 0:
            continue
        a, b = labels[graph.u[near]], labels[graph.v[near]]
        ends = np.minimum(a, b), np.maximum(a, b)
        small, place = merged_places(Edges(int(labels.max()) + 1, *ends, w[near] / top))
        found = score(small, ridge / top if ridge >= bottom / APART else 0.0)[place]
        found *= w[near] / top / small.weights[place]
        here = inside[near]
        scores[near[here]] = np.maximum(found[here], scores[near[here]])
    return np.where(certain_edges(graph, ridge), 1.0, np.minimum(scores, 1.0))
