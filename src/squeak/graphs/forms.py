"""Graphs of every kind that users have, in and out: what goes in comes back as the same kind."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core.rows import refuse_hidden
from squeak.graphs.edges import Edges, check_edges, from_columns, merged
from squeak.graphs.names import (
    Names,
    are_names,
    as_array,
    is_frame,
    is_square_frame,
    named,
    numbered,
    read_frame,
)

ASYMMETRY = 1e-10
"""How much a_uv and a_vu may differ, relative to the larger, in a matrix that is called symmetric."""


MANY_NODES, NODES_AN_EDGE = 50_000_000, 100
"""Beyond both, numbers are taken for names."""


@dataclass(frozen=True)
class Form:
    """A graph's edges, and the way back to the kind of object that they came from."""

    edges: Edges
    back: Callable[[Edges], Any]
    nodes: Any = None
    """The names of the nodes, in the order of their numbers; None where they are numbers."""


def read_graph(graph: Any, n_nodes: int | None = None) -> Form:
    """Return the edges of a graph and the way back.

    ``graph``: a symmetric adjacency matrix; an integer array of shape (m, 2); an array of shape (m, 3) whose last
    column are weights; a tuple (u, v) or (u, v, weights); a table of pandas, polars or pyarrow with two or three
    columns; a file that :func:`squeak.graphs.edge_blocks` reads. Nodes that are text have names, and are numbered
    in the order in which they come. Loops are dropped, parallel edges added up; directed graphs are refused.
    ``n_nodes``: for edges: the number of nodes, where the last ones may have no edge.
    """
    if isinstance(graph, Edges):
        return Form(merged(graph), lambda edges: edges)
    if is_networkx(graph):
        return read_networkx(graph)
    if sp.issparse(graph):
        return _sparse(graph)
    if is_path(graph):
        from squeak.graphs.sources import read_edges

        names: Names = {}
        edges = merged(read_edges(graph, n_nodes, names))
        return _form(edges, names, lambda u, v, weights: (u, v, weights)) if names else Form(edges, lambda e: e)
    if isinstance(graph, tuple) and len(graph) in (2, 3):
        return _columns(graph, n_nodes, lambda u, v, weights: (u, v, weights))
    refuse_hidden(graph, "the graph")
    if is_frame(graph):
        if not is_square_frame(graph):
            columns, back = read_frame(graph)
            return _columns(columns, n_nodes, back)
        form = _sparse(sp.csr_matrix(graph.to_numpy()))
        titles = {"index": graph.index, "columns": graph.columns}
        return Form(
            form.edges,
            lambda found: type(graph)(found.adjacency().toarray(), **titles),
            _unless_numbers(list(graph.columns)),
        )
    if pairs := named_pairs(graph):
        return _columns(pairs, n_nodes, partial(_rows_like, graph))
    array = np.asarray(graph)
    if array.ndim != 2:
        raise TypeError(f"a graph cannot be read from a {type(graph).__name__}{_shape(array)}: {_WAYS}")
    if array.shape[1] in (2, 3) and array.shape[0] != array.shape[1]:
        return _columns(array.T, n_nodes, lambda u, v, weights: np.column_stack([u, v, weights]))
    if array.shape[0] != array.shape[1]:
        raise ValueError(f"an adjacency matrix must be square; it has shape {array.shape}")
    if array.dtype.kind not in "fiub":
        raise TypeError(f"an adjacency matrix must hold real numbers, not {array.dtype}")
    if array.shape == (2, 2) and array.diagonal().any():
        raise ValueError(
            "a 2 × 2 array is read as an adjacency matrix, but this one may be two edges: pass (u, v), or a matrix "
            "without loops"
        )
    return _sparse(sp.csr_matrix(array.astype(np.float64)), dense=True)


def named_pairs(graph: Any) -> Any:
    """Return the columns of a list, or an array of text, whose rows are edges between names; None for all else."""
    if isinstance(graph, np.ndarray):
        if graph.ndim != 2 or graph.shape[1] not in (2, 3) or graph.dtype.kind not in "USO":
            return None
        columns = list(graph.T)
    elif isinstance(graph, list) and graph and all(isinstance(row, tuple | list) for row in graph):
        if len({len(row) for row in graph}) != 1 or len(graph[0]) not in (2, 3):
            return None
        columns = [list(column) for column in zip(*graph, strict=True)]
    else:
        return None
    return tuple(columns) if are_names(columns[0]) or are_names(columns[1]) else None


def _rows_like(graph: Any, u: Any, v: Any, weights: Any) -> Any:
    """Return edges between names as a list of triples, or as an array of objects where one was given."""
    rows = list(zip(u.tolist(), v.tolist(), weights.tolist(), strict=True))
    return np.array(rows, dtype=object).reshape(-1, 3) if isinstance(graph, np.ndarray) else rows


def _form(edges: Edges, names: Names, back: Callable[..., Any]) -> Form:
    """Return edges with the way back to columns of their ends, by name where they have any."""
    nodes = as_array(names) if names else None
    return Form(edges, lambda found: back(named(nodes, found.u), named(nodes, found.v), found.weights), nodes)


def _unless_numbers(nodes: list[Any]) -> Any:
    """Return the names of nodes, or None where they are the numbers from 0 on."""
    plain = all(isinstance(node, int | np.integer) for node in nodes) and nodes == list(range(len(nodes)))
    return None if plain else as_array(nodes)


def read_both(one: Any, other: Any) -> tuple[Edges, Edges]:
    """Return the edges of two graphs on the same nodes: of those with names, equal names are one node."""
    left, right = read_graph(one), read_graph(other)
    if left.nodes is None or right.nodes is None:
        return left.edges, right.edges
    known: Names = {name: place for place, name in enumerate(left.nodes.tolist())}
    place = np.array([known.setdefault(name, len(known)) for name in right.nodes.tolist()], dtype=np.int64)
    u, v = place[right.edges.u], place[right.edges.v]
    moved = merged(Edges(len(known), np.minimum(u, v), np.maximum(u, v), right.edges.weights))
    return left.edges.on_nodes(len(known)), moved


_WAYS = "pass a square adjacency matrix, edges (m, 2) or (m, 3), (u, v, weights), a networkx graph or a path"


def is_networkx(graph: Any) -> bool:
    """Tell whether a graph's class, or one that it is derived from, is networkx's."""
    return any(cls.__module__.partition(".")[0] == "networkx" for cls in type(graph).__mro__)


def is_path(source: Any) -> bool:
    """Tell whether a source of edges is a path or a list of paths."""
    items = source if isinstance(source, list) else [source]
    return bool(items) and all(isinstance(item, str | os.PathLike) for item in items)


def is_columns(source: Any) -> bool:
    """Tell whether a source of edges is a tuple (u, v) or (u, v, weights)."""
    return isinstance(source, tuple) and len(source) in (2, 3) and np.ndim(source[0]) == 1


def _shape(array: Any) -> str:
    return f" of shape {array.shape}" if array.dtype != object else ""


def read_networkx(graph: Any) -> Form:
    """Return the edges of a networkx graph, nodes numbered in its own order, and the way back.

    The attribute ``weight`` is the weight, 1 where it is missing. What comes back has the same nodes, with their
    attributes, and the attributes of the edges that were kept; only ``weight`` is new.

    Nothing is imported: whoever has such a graph has networkx.
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

    return Form(edges, back, _unless_numbers(nodes))


def _sparse(matrix: Any, *, dense: bool = False) -> Form:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"an adjacency matrix must be square; it has shape {matrix.shape}")
    if np.dtype(matrix.dtype).kind not in "fiub":
        raise TypeError(f"an adjacency matrix must hold real numbers, not {matrix.dtype}")
    A = sp.csr_matrix(matrix.astype(np.float64))  # before parallel edges are added up in a narrow type
    A.sum_duplicates()
    if A.nnz and not np.isfinite(A.data).all():
        place = int(np.flatnonzero(~np.isfinite(A.data))[0])
        row = int(np.searchsorted(A.indptr, place, side="right")) - 1
        raise ValueError(f"entry ({row}, {A.indices[place]}) of the adjacency matrix is {A.data[place]}")
    if (abs(A - A.T) > ASYMMETRY * abs(A).maximum(abs(A.T))).nnz:  # by more than rounding
        raise ValueError(
            "the adjacency matrix is not symmetric, so the graph is directed: pass A + A.T, or A.maximum(A.T)"
        )
    upper = sp.triu(A, k=1).tocoo()
    edges = merged(check_edges(upper.row, upper.col, upper.data, A.shape[0]))

    def back(found: Edges) -> Any:
        symmetric = found.adjacency()
        if dense:
            return symmetric.toarray()
        kind = getattr(sp, f"{matrix.format}_{'array' if isinstance(matrix, sp.sparray) else 'matrix'}")
        return kind(symmetric)

    return Form(edges, back)


def _columns(columns: Any, n_nodes: int | None, back: Callable[..., Any]) -> Form:
    """Return edges in two or three columns, or say that their nodes have names for numbers: each has a place.

    ``back``: makes the kind of object given of two columns of nodes and one of weights.
    """
    names: Names = {}
    edges = merged(from_columns(numbered(columns, names), n_nodes))
    if n_nodes is None and edges.n_nodes > max(MANY_NODES, NODES_AN_EDGE * len(edges)):
        raise ValueError(
            f"node numbers go up to {edges.n_nodes - 1:,} with {len(edges):,} edges, and every number up to it "
            "would be a node: number nodes from 0 on (numpy.unique(..., return_inverse=True)), make them text, "
            "which is read as names, or give n_nodes"
        )
    return _form(edges.on_nodes(max(edges.n_nodes, len(names))), names, back)
