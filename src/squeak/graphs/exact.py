"""Leverage of edges in every digit: from a dense inverse, from a sparse factor, or by elimination.

Nodes are eliminated one after the other (the star-mesh transform): with p_i = w_ki/d_k, d_k = Σ_i w_ki, the nodes
that are left get w_ij + p_i·w_kj, a sum of positive numbers, so nothing cancels however far apart weights are. That
is the way of Grassmann, Taksar and Heyman. Backwards, x_k is Σ p_i x_i and noise of variance 1/d_k in the Gaussian
field whose variances Var(x_i − x_j) are the resistances, hence

    r_kj = 1/d_k + Σ_i p_i·r_ij − ½ Σ_il p_i·p_l·r_il.

Each of the sums is no larger than a small multiple of r_kj (the strongest neighbour of k and the triangle
inequality bound it), so their difference keeps its digits too.
"""

from __future__ import annotations

import contextlib
import math

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.linalg import splu

from squeak.core import engine
from squeak.core.types import Array
from squeak.graphs.edges import Edges


def _eliminated(weights: Array) -> tuple[Array, Array]:
    """Return p (above the diagonal) and d of every node as it is eliminated, one by one; 0 where it is alone."""
    n, W = len(weights), weights.copy()
    P, degrees = np.zeros((n, n)), np.zeros(n)
    for k in range(n - 1):
        row = W[k, k + 1 :]
        degrees[k] = row.sum()
        if degrees[k] > 0:
            P[k, k + 1 :] = row / degrees[k]
            W[k + 1 :, k + 1 :] += P[k, k + 1 :, None] * row  # the diagonal is never looked at
    return P, degrees


def grounded_solution(weights: Array, ground: Array, right: Array) -> Array:
    """Return x with (L + diag(ground))·x = right, L the Laplacian of the weights, as accurate whatever they are.

    ``weights``: symmetric, not negative, and 0 on the diagonal. ``ground``: not negative; in every component some
    are positive.
    """
    n = len(weights)
    W = np.zeros((n + 1, n + 1))
    W[:n, :n] = weights
    W[:n, n] = W[n, :n] = ground
    P, degrees = _eliminated(W)
    x = np.vstack([right, np.zeros((1, right.shape[1]))])
    for k in range(n):
        x[k + 1 :] += P[k, k + 1 :, None] * x[k]
    x[n] = 0.0
    for k in range(n - 1, -1, -1):
        x[k] = x[k] / degrees[k] + P[k, k + 1 :] @ x[k + 1 :]
    return np.asarray(x[:n])


def resistance_matrix(weights: Array) -> Array:
    """Return the resistance between any two nodes of a component; 0 between two components.

    ``weights``: symmetric, not negative, and 0 on the diagonal.
    """
    n = len(weights)
    P, degrees = _eliminated(weights)
    R = np.zeros((n, n))
    for k in range(n - 2, -1, -1):
        if degrees[k] > 0:
            p = P[k, k + 1 :]
            spread = R[k + 1 :, k + 1 :] @ p
            R[k, k + 1 :] = R[k + 1 :, k] = 1.0 / degrees[k] + np.maximum(spread - 0.5 * (p @ spread), 0.0)
    return R


EPS = float(np.finfo(np.float64).eps)
SMALL = 1000
"""Nodes up to which the resistances between all of them are computed."""

SMALLEST_WEIGHT, LARGEST_SHIFT = 1e-290, 1e200
"""In units of the largest weight: farther apart, weights are measured by the middle of their range."""

ROUNDING = 1e-10
"""How far the leverage of all edges may be from what it must sum to, a node, where inverses are trusted."""

LOST, LOST_BY_FACTOR = 1e-8, 1e-5
"""What rounding may cost: of a degree d, as much as float64 does not hold, times the resistance to the rest.

A dense inverse is soon replaced; instead of a sparse factor of thousands of nodes that takes minutes.
"""

COLUMNS = 128
"""Columns of the inverse at a time, in the sparse method."""


def scaled_graph(graph: Edges, ridge: float) -> tuple[Edges, float, float]:
    """Return the graph in units of its largest weight, that, and the ridge: no square overflows or vanishes.

    Where the smallest would vanish beside the largest, the unit is the middle of the two.
    """
    size, least = float(graph.weights.max()), float(graph.weights.min())
    if least < SMALLEST_WEIGHT * size:
        size = math.sqrt(size) * math.sqrt(least)
    with np.errstate(over="ignore"):
        shift = min(float(np.float64(ridge) / size), LARGEST_SHIFT)
    return graph.with_weights(np.maximum(graph.weights / size, np.finfo(np.float64).tiny)), size, shift


def dense_leverage(graph: Edges, ridge: float) -> Array:
    """Return the leverage of every edge from dense inverses: of a small graph at once, else of each component."""
    if graph.n_nodes <= SMALL:
        return leverage_from(dense_resistances(graph, ridge), graph)
    scores = np.zeros(len(graph))
    count, labels = graph.components()
    where = labels[graph.u]
    order = np.argsort(where, kind="stable")
    cuts = np.searchsorted(where[order], np.arange(count + 1))
    number = np.empty(graph.n_nodes, dtype=np.int64)
    by_component = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[by_component], np.arange(count + 1))
    for component in np.flatnonzero(np.diff(cuts)):
        here = order[cuts[component] : cuts[component + 1]]
        nodes = by_component[starts[component] : starts[component + 1]]
        number[nodes] = np.arange(len(nodes))
        u, v, w = number[graph.u[here]], number[graph.v[here]], graph.weights[here]
        part = Edges(len(nodes), u, v, w)
        scores[here] = leverage_from(dense_resistances(part, ridge), part)
    return scores


def leverage_from(resistances: Array, graph: Edges) -> Array:
    """Return the leverage of every edge from the resistances between all nodes."""
    return np.asarray(np.clip(resistances[graph.u, graph.v] * graph.weights, 0.0, 1.0))


def dense_resistances(graph: Edges, ridge: float) -> Array:
    """Return the resistance between any two nodes, or any two of a component where the ridge is 0.

    By the inverse, r = P_uu + P_vv − 2P_uv, unless weights are so far apart that light ones are lost in a degree
    that matters, or that the leverage of the edges does not sum to what it must: nodes less components, or with a
    ridge the nodes, for a ridge is an edge from each node to one more. Then nodes are eliminated one by one.
    """
    n = graph.n_nodes
    with contextlib.suppress(LinAlgError, ValueError):
        P = _dense_inverse(graph, ridge)
        diagonal = np.diag(P)
        found: Array = diagonal[:, None] + diagonal - 2.0 * P
        scores = found[graph.u, graph.v] * graph.weights
        expected = n if ridge > 0 else n - graph.components()[0]
        lost = EPS * float(((graph.degrees() + ridge) * diagonal).max())
        if lost <= LOST and _as_they_must(scores, float(scores.sum() + ridge * diagonal.sum()), expected, n):
            return found
    W = np.zeros((n + 1, n + 1))
    W[graph.u, graph.v] = W[graph.v, graph.u] = graph.weights
    W[:n, n] = W[n, :n] = ridge
    return resistance_matrix(W)[:n, :n]


@np.errstate(over="ignore", invalid="ignore")
def _dense_inverse(graph: Edges, ridge: float) -> Array:
    """Return (L + ridge·I)⁻¹, or without a ridge (L + Σ c·11ᵀ)⁻¹ over components: r = P_uu + P_vv − 2P_uv."""
    n = graph.n_nodes
    M = np.zeros((n, n))
    M[graph.u, graph.v] = M[graph.v, graph.u] = -graph.weights
    M[np.diag_indices(n)] = graph.degrees()
    if ridge > 0:
        M += ridge * np.eye(n)
    else:
        count, labels = graph.components()
        sizes = np.bincount(labels, minlength=count)
        weight = np.bincount(labels, np.diag(M), minlength=count)
        M += (labels[:, None] == labels) * (np.where(weight > 0, weight, 1.0) / sizes**2)[labels]
    return np.asarray(cho_solve(cho_factor(M, lower=True), np.eye(n)))


@np.errstate(over="ignore", invalid="ignore")
def factored_leverage(graph: Edges, ridge: float) -> Array:
    """Return the leverage of every edge by a sparse factor, one node a component grounded, some columns a time."""
    n = graph.n_nodes
    _, labels = graph.components()
    grounded = np.zeros(n, dtype=bool)
    if ridge == 0:
        grounded[np.unique(labels, return_index=True)[1]] = True
    free = np.flatnonzero(~grounded)
    number = np.full(n, -1)
    number[free] = np.arange(len(free))
    M = (graph.laplacian() + ridge * sp.identity(n)).tocsc()[free][:, free].tocsc()
    try:
        factor = splu(M, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError:  # weights differ by more than float64 resolves
        return _unresolved(graph, ridge)
    diagonal, cross, astray = np.zeros(n), np.zeros(len(graph)), 0.0
    to_ground = np.full(n, float(ridge))
    for one, other in ((graph.u, graph.v), (graph.v, graph.u)):
        np.add.at(to_ground, one[grounded[other]], graph.weights[grounded[other]])
    place = number[graph.u]
    order = np.argsort(place, kind="stable")
    cuts = np.searchsorted(place[order], np.arange(len(free) + 1))
    for tile in engine.tiles(len(free), COLUMNS):
        unit = np.zeros((len(free), tile.stop - tile.start))
        unit[np.arange(tile.start, tile.stop), np.arange(tile.stop - tile.start)] = 1.0
        P = factor.solve(unit)
        # what flows in at a node must reach the ground: not so where light edges or the ridge are lost in a degree
        astray = max(astray, float(np.abs(to_ground[free] @ P - 1.0).max()))
        diagonal[free[tile]] = P[np.arange(tile.start, tile.stop), np.arange(tile.stop - tile.start)]
        here = order[cuts[tile.start] : cuts[tile.stop]]
        ends = number[graph.v[here]]
        known = ends >= 0
        cross[here[known]] = P[ends[known], place[here[known]] - tile.start]
    scores = (diagonal[graph.u] + diagonal[graph.v] - 2.0 * cross) * graph.weights
    total = float(scores.sum() + ridge * diagonal.sum())
    lost = EPS * float(((graph.degrees() + ridge) * diagonal).max())
    most = LOST if n <= SMALL else LOST_BY_FACTOR
    if not astray <= most or lost > most or not _as_they_must(scores, total, n if ridge > 0 else len(free), n):
        return _unresolved(graph, ridge)
    return np.clip(scores, 0.0, 1.0)


def _as_they_must(scores: Array, total: float, expected: int, n: int) -> bool:
    """Tell whether leverage is from 0 to 1 and sums to what it must, but for rounding."""
    return bool(
        abs(total - expected) <= ROUNDING * n
        and scores.min(initial=0.0) >= -ROUNDING
        and scores.max(initial=1.0) <= 1.0 + ROUNDING
    )


def _unresolved(graph: Edges, ridge: float) -> Array:
    """Return the scores of a graph whose sparse factor is of no use, if it is small enough for a dense way."""
    if graph.n_nodes <= 5 * SMALL:
        return dense_leverage(graph, ridge)
    raise ValueError(
        "the weights differ by more than float64 resolves: leave out edges below 1e-12 of the largest weight"
    )
