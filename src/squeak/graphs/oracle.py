"""Scores of edges within a sample: of its own, to thin it, and of new ones, to decide whether they come in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from squeak.core import engine
from squeak.core.seeds import PROBE, generator_at
from squeak.core.types import Array, IntArray
from squeak.graphs.edges import Edges, merged_places
from squeak.graphs.forest import certain_edges
from squeak.graphs.projections import ProjectedResistances, shorted_scores
from squeak.graphs.resistance import SMALL, dense_resistances, scaled_graph
from squeak.graphs.scales import far_apart, leverage_by_scales


@dataclass(frozen=True)
class Scoring:
    """How resistances are computed: the solver's and the projections' parameters, fixed for a fit."""

    ridge: float
    eta: float = 0.1
    tolerance: float = 1e-3


class Oracle:
    """The resistances of one graph: exact up to 1,000 nodes, by projections beyond.

    ``graph`` is what it was made of, parallel edges added up: the same graph, seed and place give the same bits.
    """

    def __init__(self, atoms: Edges, scoring: Scoring, seed: int, *place: int) -> None:
        self._ridge = scoring.ridge
        graph, self._place = merged_places(atoms)
        self.graph = graph
        self._graph, self._size, ridge = scaled_graph(graph, scoring.ridge)
        self._keys = graph.u * graph.n_nodes + graph.v
        _, self._labels = self._graph.components()
        self._resistances: Array | None = None
        self._projected: ProjectedResistances | None = None
        with engine.single_blas():
            if graph.n_nodes <= SMALL:
                self._resistances = dense_resistances(self._graph, ridge)
                own = self._resistances[graph.u, graph.v] * self._graph.weights
                own = np.clip(np.maximum(own, shorted_scores(self._graph, ridge)), 0.0, 1.0)
                self._own = np.where(certain_edges(self._graph, ridge), 1.0, own)
            else:
                rng = generator_at(seed, PROBE, *place)

                def projected(part: Edges, shift: float) -> ProjectedResistances:
                    return ProjectedResistances(part, shift, scoring.eta, None, scoring.tolerance, rng)

                if far_apart(self._graph):
                    self._own = leverage_by_scales(self._graph, ridge, lambda *part: projected(*part).leverage)
                else:
                    self._projected = projected(self._graph, ridge)
                    self._own = self._projected.leverage

    @property
    def effective_dimension(self) -> float:
        """Σ of the leverage: Tr L(L + ridge)⁻¹, nodes less components without a ridge."""
        return float(self._own.sum())

    def own_scores(self, original: Array) -> Array:
        """Return a_e·r_e for the sample's edges, a_e their original weights."""
        return np.asarray(self._own[self._place] * (original / self.graph.weights[self._place]))

    def new_scores(self, u: IntArray, v: IntArray, weights: Array) -> Array:
        """Return the leverage of each new edge, were it added alone: s/(1 + s), s = a·r; 1 across components.

        Nodes that the graph does not have yet count as components of their own. It is 1 for all in a large graph
        whose weights are too far apart for projections: its edges are then scored within it, once they are in.
        """
        n = self._graph.n_nodes
        scores = np.ones(len(u))
        known = (u < n) & (v < n) if self._ridge > 0 else ~self.joins(u, v)
        if known.any():
            a, b, w = u[known], v[known], weights[known] / self._size
            if self._resistances is not None:
                s = np.maximum(self._resistances[a, b], 0.0) * w
            elif self._projected is not None:
                s = self._projected.scores(a, b, w, self._between(a, b))
            else:
                return scores
            scores[known] = s / (1.0 + s)
        return scores

    def joins(self, u: IntArray, v: IntArray) -> NDArray[np.bool_]:
        """Tell which pairs lie in two components, where nodes that are new are components of their own."""
        n = self._graph.n_nodes
        inside = (u < n) & (v < n)
        inside[inside] = self._labels[u[inside]] == self._labels[v[inside]]
        return ~inside

    def _between(self, u: IntArray, v: IntArray) -> Array:
        """Return the weight of the graph's own edge between each pair, 0 where there is none."""
        key = u * self._graph.n_nodes + v
        order = np.argsort(key)
        key = key[order]  # neighbours in memory are then looked for one after the other
        place = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        found = np.empty(len(key))
        found[order] = np.where(self._keys[place] == key, self._graph.weights[place], 0.0)
        return found
