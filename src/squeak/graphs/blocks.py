"""Streams of edges: whatever the user has, as blocks of clean edges, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core.rows import refuse_hidden
from squeak.data import RowSource
from squeak.graphs.edges import Edges, from_columns
from squeak.graphs.forms import is_columns, is_networkx, is_path, read_graph


def edge_blocks(source: Any, n_nodes: int | None = None, *, first: int = 0) -> Iterator[Edges]:
    """Yield the edges of a graph, a file, a row source or an iterator of blocks, in order; loops are left out.

    Parameters
    ----------
    source : graph, edges, path, list of paths, row source or iterator
        Adjacency matrices and networkx graphs come as one block. Edges (m, 2), (m, 3) or (u, v, weights) come as
        they are: equal pairs are parallel edges. A square array is an adjacency matrix. Files are text (two or
        three columns, ``#`` and ``%`` begin a comment), CSV, Parquet or npy, read block by block. An iterator
        gives blocks of edges, where an array of shape (2, 2) or (3, 3) is edges too.
    n_nodes : int, optional
        Larger node numbers, and matrices of more nodes, are refused.
    first : int
        The number of the first edge, for messages.

    Yields
    ------
    Edges

    Examples
    --------
    >>> from squeak.graphs import edge_blocks
    >>> [len(block) for block in edge_blocks(iter([[(0, 1), (1, 2)], [(2, 2), (2, 0)]]))]
    [2, 1]
    """
    if isinstance(source, Edges):
        yield source
        return
    if is_path(source):
        from squeak.graphs.files import open_edges

        source = open_edges(source)
    if isinstance(source, RowSource):
        source = (block.X for block in source.blocks())
    if hasattr(source, "__next__"):
        for block in source:
            if _is_table(block):
                yield from_columns(np.asarray(block).T, n_nodes, first)
                first += len(block)
                continue
            for edges in edge_blocks(block, n_nodes, first=first):
                yield edges
                first += len(block[0]) if is_columns(block) else len(edges)
    elif is_columns(source):
        yield from_columns(source, n_nodes, first)
    elif _is_table(source) and len(source) != np.shape(source)[1]:
        yield from_columns(np.asarray(source).T, n_nodes, first)
    else:
        edges = read_graph(source, n_nodes).edges
        if n_nodes is not None and edges.n_nodes > n_nodes:
            raise ValueError(f"the graph has {edges.n_nodes} nodes, n_nodes is {n_nodes}")
        yield edges


def _is_table(source: Any) -> bool:
    """Tell whether a source is a table of edges: rows of two nodes, and maybe a weight."""
    if sp.issparse(source) or is_networkx(source) or not isinstance(source, list | tuple | np.ndarray):
        return False
    refuse_hidden(source, "the edges")
    array = np.asarray(source)
    return array.ndim == 2 and array.shape[1] in (2, 3) and array.dtype.kind in "iuf"
