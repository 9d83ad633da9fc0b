"""The one scorer of edges: those of a graph, to keep or thin them, and new ones, to decide whether they come in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squeak.core import engine
from squeak.core.checks import check_between, check_positive, check_whole
from squeak.core.seeds import PROBE, RandomState, draw_seed, generator_at
from squeak.core.types import Array, IntArray
from squeak.graphs.edges import Edges, certain_edges, check_graph_ridge, merged_places
from squeak.graphs.exact import (
    SMALL,
    dense_leverage,
    dense_resistances,
    factored_leverage,
    leverage_from,
    scaled_graph,
)
from squeak.graphs.forms import read_graph
from squeak.graphs.projections import CHUNK, ProjectedResistances, far_apart, leverage_by_scales, shorted_scores

METHODS = ("auto", "exact", "factor", "projections")
ROUGH, FIRST = 0.2, 2
"""From this error on so few projections are begun with: well connected graphs need no more for most edges."""

LARGEST_TOL = 1e-3


@dataclass(frozen=True)
class Scoring:
    """How resistances are computed, fixed for a fit: see :func:`squeak.graphs.effective_resistances`."""

    ridge: float
    error: float = 0.1
    tol: float = LARGEST_TOL
    n_projections: int | None = None
    method: str = "auto"

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}; it is {self.method!r}")
        check_graph_ridge(self.ridge)
        check_between("error", check_positive("error", self.error), 0, 1)
        if self.n_projections is not None:
            check_whole("n_projections", self.n_projections)
        if check_positive("tol", self.tol) > LARGEST_TOL:
            raise ValueError(
                f"tol must be at most {LARGEST_TOL:g}; it is {self.tol!r}: looser solves underestimate the edges "
                "that hold the graph together"
            )

    def method_for(self, graph: Edges) -> str:
        """Return the method for a graph: "auto" is exact where that is cheap."""
        if self.method != "auto":
            return self.method
        if self.n_projections is not None:
            return "projections"
        if graph.n_nodes <= SMALL:
            return "exact"
        return "factor" if len(graph) <= 2 * graph.n_nodes and graph.n_nodes <= 5 * SMALL else "projections"


class Oracle:
    """The resistances of one graph, computed when they are asked for.

    ``graph`` is what it was made of, parallel edges added up: the same graph, scoring, seed and place give the same
    bits, whoever asks.

    ``atoms``: pairs may come more than once. ``seed``, ``*place``: for projections.
    """

    def __init__(self, atoms: Edges, scoring: Scoring, seed: int, *place: int) -> None:
        self.graph, self._place = merged_places(atoms)
        self._scoring, self._key = scoring, (seed, PROBE, *place)
        self._scaled, self._size, self._ridge = scaled_graph(self.graph, scoring.ridge)
        self._method = scoring.method_for(self.graph)

    @cached_property
    def leverage(self) -> Array:
        """The leverage of the edges of ``graph``."""
        graph, ridge = self._scaled, self._ridge
        with engine.single_blas():
            if self._method == "projections":
                if far_apart(graph):
                    rng = generator_at(*self._key)
                    return leverage_by_scales(
                        graph, ridge, lambda g, shift: self._projections(g, shift, rng).leverage
                    )
                return self._projected.leverage
            if self._resistances is not None:
                found = leverage_from(self._resistances, graph)
            else:
                found = (dense_leverage if self._method == "exact" else factored_leverage)(graph, ridge)
            return np.where(certain_edges(graph, ridge), 1.0, np.maximum(found, shorted_scores(graph, ridge)))

    @cached_property
    def _resistances(self) -> Array | None:
        """Between any two nodes of a small graph; None of others."""
        if self._method != "exact" or self.graph.n_nodes > SMALL:
            return None
        with engine.single_blas():
            return dense_resistances(self._scaled, self._ridge)

    @cached_property
    def _projected(self) -> ProjectedResistances:
        with engine.single_blas():
            return self._projections(self._scaled, self._ridge, generator_at(*self._key))

    def _projections(self, part: Edges, ridge: float, rng: np.random.Generator) -> ProjectedResistances:
        scoring = self._scoring
        least = FIRST if scoring.n_projections is None and scoring.error >= ROUGH else CHUNK
        return ProjectedResistances(part, ridge, scoring.error, scoring.n_projections, scoring.tol, rng, least)

    @property
    def effective_dimension(self) -> float:
        """Σ of the leverage: Tr L(L + ridge)⁻¹, nodes less components without a ridge."""
        return float(self.leverage.sum())

    def own_scores(self, original: Array) -> Array:
        """Return a_e·r_e for the edges that the graph was made of, a_e their original weights."""
        return np.asarray(self.leverage[self._place] * (original / self.graph.weights[self._place]))

    def new_scores(self, u: IntArray, v: IntArray, weights: Array) -> Array:
        """Return the leverage of each new edge, were it added alone: s/(1 + s), s = a·r; 1 across components.

        Nodes that the graph does not have yet count as components of their own. It is 1 for all in a large graph
        whose weights are too far apart for projections: its edges are then scored within it, once they are in.
        """
        n = self.graph.n_nodes
        scores = np.ones(len(u))
        known = (u < n) & (v < n) if self._ridge > 0 else ~self.joins(u, v)
        if known.any():
            a, b, w = u[known], v[known], weights[known] / self._size
            if self._resistances is not None:
                s = np.maximum(self._resistances[a, b], 0.0) * w
            elif not far_apart(self._scaled):
                s = self._projected.scores(a, b, w, self._between(a, b))
            else:
                return scores
            scores[known] = s / (1.0 + s)
        return scores

    def joins(self, u: IntArray, v: IntArray) -> NDArray[np.bool_]:
        """Tell which pairs lie in two components, where nodes that are new are components of their own."""
        n, (_, labels) = self.graph.n_nodes, self._scaled.components()
        inside = (u < n) & (v < n)
        inside[inside] = labels[u[inside]] == labels[v[inside]]
        return ~inside

    @cached_property
    def _keys(self) -> IntArray:
        """A number for every pair of the graph, ascending."""
        return np.asarray(self.graph.u * self.graph.n_nodes + self.graph.v)

    def _between(self, u: IntArray, v: IntArray) -> Array:
        """Return the weight of the graph's own edge between each pair, 0 where there is none."""
        keys, key = self._keys, u * self.graph.n_nodes + v
        order = np.argsort(key)
        key = key[order]  # neighbours in memory are then looked for one after the other
        place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        found = np.empty(len(key))
        found[order] = np.where(keys[place] == key, self._scaled.weights[place], 0.0)
        return found


def leverage_of(edges: Edges, method: str = "auto", *, ridge: float = 0.0, seed: int = 0, **options: Any) -> Array:
    """Return the leverage of every edge; parallel edges share that of their pair by weight.

    ``method``, ``ridge``: see :func:`squeak.graphs.effective_resistances`. ``**options``: of :class:`Scoring`:
    ``error``, ``tol``, ``n_projections``.
    """
    scoring = Scoring(ridge, method=method, **options)
    return Oracle(edges, scoring, seed).own_scores(edges.weights) if len(edges) else np.zeros(0)


def effective_resistances(
    graph: Any,
    method: str = "auto",
    *,
    ridge: float = 0.0,
    error: float = ROUGH,
    n_projections: int | None = None,
    tol: float = LARGEST_TOL,
    random_state: RandomState = None,
) -> Array:
    """Return r_e = b_eᵀ(L + ridge·I)⁺b_e for every edge, in the order of ``scipy.sparse.triu(A).nonzero()``.

    Parameters
    ----------
    graph : see :func:`squeak.graphs.sparsify`
    method : {"auto", "exact", "factor", "projections"}
        Dense inverse, columns of a sparse factor, or Johnson-Lindenstrauss projections. "auto" is exact up to 1,000
        nodes and for thin graphs up to 5,000, and uses projections beyond.
    ridge : float
    error : float
        Of projections: enough of them that the standard error of 95% of the edges is at most ``error``, relative to
        the resistance. Bridges and edges whose neighbourhoods tell all are exact. The sparsifiers ask for 0.1.
    n_projections : int, optional
        So many instead. With 24·log(n)/error² every edge is within 1 ± error with high probability.
    tol : float
        Of the solver; 1e-3 at most, for looser ones underestimate bottlenecks.
    random_state : None, int, RandomState or Generator
        For projections.

    Returns
    -------
    array, shape (m,)

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
    options: dict[str, Any] = {"ridge": ridge, "error": error, "n_projections": n_projections, "tol": tol}
    return edge_leverage(edges, method, random_state=random_state, **options) / edges.weights


def edge_leverage(
    graph: Any, method: str = "auto", *, error: float = ROUGH, random_state: RandomState = None, **options: Any
) -> Array:
    """Return a_e·r_e, the leverage of every edge: the chance that a random spanning tree takes it.

    They sum to the number of nodes less that of components (with a ridge: to Tr L(L + ridge·I)⁻¹).

    Parameters
    ----------
    graph : see :func:`squeak.graphs.sparsify`
    method, error, random_state, **options
        Those of :func:`effective_resistances`.

    Returns
    -------
    array, shape (m,)
        In the order of ``scipy.sparse.triu(A).nonzero()``.

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
    return leverage_of(read_graph(graph).edges, method, error=error, seed=draw_seed(random_state), **options)
