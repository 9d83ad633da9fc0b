"""networkx graphs in and out; needs the extra ``graphs``."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.graphs.edges import Edges, check_edges, merged
from squeak.graphs.forms import Form


def read(graph: Any) -> Form:
    """Return the edges of a networkx graph, nodes numbered in its own order, and the way back.

    The attribute ``weight`` is the weight, 1 where it is missing. What comes back has the same nodes, with their
    attributes, and the attributes of the edges that were kept; only ``weight`` is new.

    Examples
    --------
    >>> import networkx as nx
    >>> from squeak.adapters.networkx import read
    >>> form = read(nx.path_graph(["a", "b", "c"]))
    >>> form.edges.u, form.edges.v
    (array([0, 1]), array([1, 2]))
    >>> list(form.back(form.edges).edges(data="weight"))
    [('a', 'b', 1.0), ('b', 'c', 1.0)]
    """
    if not hasattr(graph, "is_directed"):
        raise TypeError(f"a graph cannot be read from a networkx {type(graph).__name__}")
    if graph.is_directed():
        raise ValueError("the graph is directed: pass graph.to_undirected()")
    nodes = list(graph.nodes)
    number = {node: place for place, node in enumerate(nodes)}
    triples = [(number[a], number[b], 1.0 if w is None else w) for a, b, w in graph.edges(data="weight")]
    u, v, w = (list(column) for column in zip(*triples, strict=True)) if triples else ([], [], [])
    try:
        weights = np.asarray(w, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError("the attribute 'weight' must be a number on every edge") from None
    edges = merged(check_edges(np.asarray(u, dtype=np.int64), np.asarray(v, dtype=np.int64), weights, len(nodes)))

    def back(found: Edges) -> Any:
        made = graph.__class__()
        made.graph.update(graph.graph)
        made.add_nodes_from(graph.nodes(data=True))
        plain = not graph.is_multigraph()
        for a, b, weight in zip(found.u.tolist(), found.v.tolist(), found.weights.tolist(), strict=True):
            ends = nodes[a], nodes[b]
            attributes = dict(graph.edges[ends]) if plain and graph.has_edge(*ends) else {}
            made.add_edge(*ends, **{**attributes, "weight": weight})
        return made

    return Form(edges, back)
