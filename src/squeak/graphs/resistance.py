"""Effective resistances r_e = b_eᵀL⁺b_e and leverage a_e·r_e: exact, by a sparse factor, or by projections."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.linalg import splu

from squeak.core import engine
from squeak.core.seeds import PROBE, RandomState, draw_seed, generator_at
from squeak.core.types import Array
from squeak.graphs.edges import Edges, merged_places
from squeak.graphs.elimination import resistance_matrix
from squeak.graphs.forest import certain_edges
from squeak.graphs.forms import read_graph
from squeak.graphs.projections import CHUNK, ProjectedResistances, shorted_scores
from squeak.graphs.scales import leverage_by_scales

EPS = float(np.finfo(np.float64).eps)
METHODS = ("auto", "exact", "factor", "projections")
SMALL = 1000
"""Nodes up to which the dense inverse is taken by "auto"."""

FIRST = 2
"""Projections to begin with; well connected graphs need no more for most of their edges."""

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


def effective_resistances(
    graph: Any,
    method: str = "auto",
    *,
    ridge: float = 0.0,
    eta: float = 0.2,
    n_projections: int | None = None,
    tolerance: float = 1e-3,
    random_state: RandomState = None,
) -> Array:
    """Return r_e = b_eᵀ(L + ridge·I)⁺b_e for every edge, in the order of ``scipy.sparse.triu(A).nonzero()``.

    Parameters
    ----------
    graph : see :func:`squeak.graphs.sparsify`
    method : {"auto", "exact", "factor", "projections"}
        Dense inverse per component, columns of a sparse factor, or Johnson-Lindenstrauss projections. "auto"
        is exact up to 1,000 nodes and for thin graphs up to 5,000, and uses projections beyond.
    ridge : float
    eta : float
        Of projections: enough of them that the standard error of 95% of the edges is at most ``eta``, relative to
        the resistance. Bridges and edges whose neighbourhoods tell all are exact.
    n_projections : int, optional
        So many instead. With 24·log(n)/η² every edge is within 1 ± η with high probability.
    tolerance : float
        Of the solver; 1e-3 at most, for looser ones underestimate bottlenecks.
    random_state : None, int, RandomState or Generator
        For projections.

    References
    ----------
    Spielman, Srivastava, "Graph sparsification by effective resistances"; the theory page, "Graphs".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.graphs import effective_resistances
    >>> triangle = np.ones((3, 3)) - np.eye(3)
    >>> effective_resistances(triangle)
    array([0.66666667, 0.66666667, 0.66666667])
    """
    edges = read_graph(graph).edges
    seed = draw_seed(random_state)
    options: dict[str, Any] = {"ridge": ridge, "eta": eta, "n_projections": n_projections, "tolerance": tolerance}
    return leverage_of(edges, method, **options, seed=seed) / edges.weights


def edge_leverage(graph: Any, method: str = "auto", *, random_state: RandomState = None, **options: Any) -> Array:
    """Return a_e·r_e, the leverage of every edge: the chance that a random spanning tree takes it.

    They sum to the number of nodes less that of components (with a ridge: to Tr L(L + ridge·I)⁻¹). Parameters
    are those of :func:`effective_resistances`.

    References
    ----------
    The theory page, "Graphs".

    Examples
    --------
    >>> import networkx as nx
    >>> from squeak.graphs import edge_leverage
    >>> float(edge_leverage(nx.karate_club_graph()).sum().round(9))
    33.0
    """
    return leverage_of(read_graph(graph).edges, method, **options, seed=draw_seed(random_state))


def leverage_of(
    edges: Edges,
    method: str = "auto",
    *,
    ridge: float = 0.0,
    eta: float = 0.2,
    n_projections: int | None = None,
    tolerance: float = 1e-3,
    seed: int = 0,
) -> Array:
    """Return the leverage of every edge; parallel edges share that of their pair by weight."""
    check_options(method, ridge, eta, n_projections, tolerance)
    if len(edges) == 0:
        return np.zeros(0)
    graph, place = merged_places(edges)
    graph, sizes, shift = scaled_graph(graph, ridge)
    with engine.single_blas():
        scores = _by_method(graph, method, shift, eta, n_projections, tolerance, seed)
    if len(graph) == len(edges):
        return np.asarray(scores[place])
    share: Array = scores[place] * (edges.weights / sizes) / graph.weights[place]
    return share


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


def _by_method(
    graph: Edges,
    method: str,
    ridge: float,
    eta: float,
    n_projections: int | None,
    tolerance: float,
    seed: int,
) -> Array:
    if method == "auto":
        thin = len(graph) <= 2 * graph.n_nodes and graph.n_nodes <= 5 * SMALL
        small = graph.n_nodes <= SMALL
        method = "exact" if small else "factor" if thin else "projections"
        if n_projections is not None:
            method = "projections"
    if method in ("exact", "factor"):
        found = _exact(graph, ridge) if method == "exact" else _by_factor(graph, ridge)
        return np.where(certain_edges(graph, ridge), 1.0, np.maximum(found, shorted_scores(graph, ridge)))
    rng = generator_at(seed, PROBE)
    least = CHUNK if n_projections is not None else FIRST

    def projected(part: Edges, shift: float) -> Array:
        return ProjectedResistances(part, shift, eta, n_projections, tolerance, rng, least).leverage

    return leverage_by_scales(graph, ridge, projected)


def check_options(method: str, ridge: float, eta: float, n_projections: int | None, tolerance: float) -> None:
    """Refuse parameters that mean nothing."""
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}; it is {method!r}")
    check_graph_ridge(ridge)
    if not 0 < eta < 1:
        raise ValueError(f"eta must lie strictly between 0 and 1; it is {eta!r}")
    whole = isinstance(n_projections, int | np.integer) and not isinstance(n_projections, bool)
    if n_projections is not None and not (whole and n_projections >= 1):
        raise ValueError(f"n_projections must be a whole number from 1 on; it is {n_projections!r}")
    if not 0 < tolerance <= 1e-3:
        raise ValueError(
            f"tolerance must be positive and at most 1e-3; it is {tolerance!r}: looser solves "
            "underestimate the edges that hold the graph together"
        )


def check_graph_ridge(ridge: float) -> float:
    """Return the ridge, 0 or positive, or raise."""
    if isinstance(ridge, bool) or not isinstance(ridge, int | float | np.number):
        raise TypeError(f"ridge must be a number; it is {ridge!r}")
    if not 0 <= ridge < math.inf:
        raise ValueError(f"ridge must be finite and not negative; it is {ridge!r}")
    return float(ridge)


def _exact(graph: Edges, ridge: float) -> Array:
    """Return scores from the dense inverse, component by component."""
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
        scores[here] = dense_resistances(Edges(len(nodes), u, v, w), ridge)[u, v] * w
    return np.clip(scores, 0.0, 1.0)


def dense_resistances(graph: Edges, ridge: float) -> Array:
    """Return the resistance between any two nodes, or any two of a component where the ridge is 0.

    By the inverse, r = P_uu + P_vv − 2P_uv, unless weights are so far apart that light ones are lost in a degree
    that matters, or that the leverage of the edges does not sum to what it must: nodes less components, or with a
    ridge the nodes, for a ridge is an edge from each node to one more. Then nodes are eliminated one by one.
    """
    n = graph.n_nodes
    with contextlib.suppress(LinAlgError, ValueError):
        P = dense_inverse(graph, ridge)
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
def dense_inverse(graph: Edges, ridge: float) -> Array:
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


def _by_factor(graph: Edges, ridge: float) -> Array:
    """Return scores from the columns of the inverse, one node a component grounded, some columns at a time."""
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
    diagonal, cross = np.zeros(n), np.zeros(len(graph))
    place = number[graph.u]
    order = np.argsort(place, kind="stable")
    cuts = np.searchsorted(place[order], np.arange(len(free) + 1))
    for tile in engine.tiles(len(free), COLUMNS):
        unit = np.zeros((len(free), tile.stop - tile.start))
        unit[np.arange(tile.start, tile.stop), np.arange(tile.stop - tile.start)] = 1.0
        P = factor.solve(unit)
        diagonal[free[tile]] = P[np.arange(tile.start, tile.stop), np.arange(tile.stop - tile.start)]
        here = order[cuts[tile.start] : cuts[tile.stop]]
        ends = number[graph.v[here]]
        known = ends >= 0
        cross[here[known]] = P[ends[known], place[here[known]] - tile.start]
    scores = (diagonal[graph.u] + diagonal[graph.v] - 2.0 * cross) * graph.weights
    total = float(scores.sum() + ridge * diagonal.sum())
    lost = EPS * float(((graph.degrees() + ridge) * diagonal).max())
    most = LOST if n <= SMALL else LOST_BY_FACTOR
    if lost > most or not _as_they_must(scores, total, n if ridge > 0 else len(free), n):
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
        return _exact(graph, ridge)
    raise ValueError(
        "the weights differ by more than float64 resolves: leave out edges below 1e-12 of the largest weight"
    )
