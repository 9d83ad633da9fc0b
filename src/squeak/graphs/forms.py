"""Graphs of every kind that users have, in and out: what goes in comes back as the same kind."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core.rows import refuse_hidden
from squeak.graphs.edges import Edges, check_edges, merged

ADAPTERS = {"networkx": "squeak.adapters.networkx"}
"""Graphs of other libraries: the module that reads them, imported when such a graph comes in."""

ASYMMETRY = 1e-10
"""How much a_uv and a_vu may differ, relative to the larger, in a matrix that is called symmetric."""


MANY_NODES, NODES_AN_EDGE = 50_000_000, 100
"""Beyond both, numbers are taken for names."""


@dataclass(frozen=True)
class Form:
    """A graph's edges, and the way back to the kind of object that they came from."""

    edges: Edges
    back: Callable[[Edges], Any]


def read_graph(graph: Any, n_nodes: int | None = None) -> Form:
    """Return the edges of a graph and the way back.

    Parameters
    ----------
    graph : scipy.sparse matrix or array, dense matrix, networkx graph, edge array, tuple, path or Edges
        A symmetric adjacency matrix; an integer array of shape (m, 2); an array of shape (m, 3) whose last
        column are weights; a tuple (u, v) or (u, v, weights); a file that :func:`squeak.graphs.edge_blocks`
        reads. Loops are dropped, parallel edges added up; directed graphs are refused.
    n_nodes : int, optional
        For edges: the number of nodes, where the last ones may have no edge.
    """
    if isinstance(graph, Edges):
        return Form(merged(graph), lambda edges: edges)
    library = library_of(graph)
    if library is not None:
        adapter = importlib.import_module(ADAPTERS[library])
        form: Form = adapter.read(graph)
        return form
    if sp.issparse(graph):
        return _sparse(graph)
    if is_path(graph):
        from squeak.graphs.files import read_edges

        return Form(merged(read_edges(graph, n_nodes)), lambda edges: edges)
    if isinstance(graph, tuple) and len(graph) in (2, 3):
        return _columns(graph, n_nodes)
    refuse_hidden(graph, "the graph")
    array = np.asarray(graph)
    if array.ndim != 2:
        raise TypeError(f"a graph cannot be read from a {type(graph).__name__}{_shape(array)}: {_WAYS}")
    if array.shape[1] in (2, 3) and array.shape[0] != array.shape[1]:
        return _table(array, n_nodes)
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


_WAYS = "pass a square adjacency matrix, edges (m, 2) or (m, 3), (u, v, weights), a networkx graph or a path"


def library_of(graph: Any) -> str | None:
    """Return the library of :data:`ADAPTERS` that a graph's class, or one that it is derived from, belongs to."""
    names = (cls.__module__.partition(".")[0] for cls in type(graph).__mro__)
    return next((name for name in names if name in ADAPTERS), None)


def is_path(source: Any) -> bool:
    """Tell whether a source of edges is a path or a list of paths."""
    items = source if isinstance(source, list) else [source]
    return bool(items) and all(isinstance(item, str | os.PathLike) for item in items)


def is_columns(source: Any) -> bool:
    """Tell whether a source of edges is a tuple (u, v) or (u, v, weights)."""
    return isinstance(source, tuple) and len(source) in (2, 3) and np.ndim(source[0]) == 1


def is_symmetric(A: Any) -> bool:
    """Tell whether a_uv and a_vu differ by no more than rounding."""
    apart = abs(A - A.T)
    return not (apart > ASYMMETRY * abs(A).maximum(abs(A.T))).nnz


def _shape(array: Any) -> str:
    return f" of shape {array.shape}" if array.dtype != object else ""


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
    if not is_symmetric(A):
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


def _columns(graph: tuple[Any, ...], n_nodes: int | None) -> Form:
    weights = graph[2] if len(graph) == 3 else None
    edges = merged(_numbered(check_edges(graph[0], graph[1], weights, n_nodes), n_nodes))
    return Form(edges, lambda found: (found.u, found.v, found.weights))


def _table(array: Any, n_nodes: int | None) -> Form:
    if array.dtype == object or array.dtype.kind in "US":
        raise TypeError("nodes must be whole numbers from 0 on; number them first")
    weights = array[:, 2] if array.shape[1] == 3 else None
    edges = merged(_numbered(check_edges(array[:, 0], array[:, 1], weights, n_nodes), n_nodes))
    return Form(edges, lambda found: np.column_stack([found.u, found.v, found.weights]))


def _numbered(edges: Edges, n_nodes: int | None) -> Edges:
    """Return the edges, or say that their nodes have names for numbers: arrays have a place for each number."""
    if n_nodes is None and edges.n_nodes > max(MANY_NODES, NODES_AN_EDGE * len(edges)):
        raise ValueError(
            f"node numbers go up to {edges.n_nodes - 1:,} with {len(edges):,} edges, and every number up to it "
            "would be a node: number nodes from 0 on (numpy.unique(..., return_inverse=True)), or give n_nodes"
        )
    return edges
