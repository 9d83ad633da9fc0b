"""Leverage in graphs whose weights are farther apart than a solver resolves: one scale of weights at a time.

To an edge of weight a, edges a million times as heavy are as good as shorts, and edges a millionth as heavy as good
as none: both change its leverage by about a millionth for every such edge on its way. So the edges of one scale are
scored in the graph in which heavier ones are contracted and lighter ones left out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from squeak.core.types import Array
from squeak.graphs.edges import Edges, merged_places
from squeak.graphs.forest import certain_edges
from squeak.graphs.projections import shorted_scores

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
