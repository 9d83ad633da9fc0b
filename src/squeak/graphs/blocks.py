"""Streams of edges: whatever the user has, as blocks of clean edges, in order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core.sources import RowSource
from squeak.graphs.edges import Edges, check_edges
from squeak.graphs.forms import ADAPTERS, read_graph


def edge_blocks(source: Any, n_nodes: int | None = None, *, first: int = 0) -> Iterator[Edges]:
    """Yield the edges of a graph, a file, a row source or an iterator of blocks, in order; loops are left out.

    Parameters
    ----------
    source : graph, edges, path, list of paths, row source or iterator
        Adjacency matrices and networkx graphs come as one block. Edges (m, 2), (m, 3) or (u, v, weights) come as
        they are: equal pairs are parallel edges. Files are text (two or three columns, ``#`` and ``%`` begin a
        comment), CSV, Parquet or npy, read block by block. An iterator gives blocks of edges.
    n_nodes : int, optional
        Larger node numbers are refused.
    first : int
        The number of the first edge, for messages.

    Examples
    --------
    >>> from squeak.graphs import edge_blocks
    >>> [len(block) for block in edge_blocks(iter([[(0, 1), (1, 2)], [(2, 2), (2, 0)]]))]
    [2, 1]
    """
    if isinstance(source, Edges):
        yield source
        return
    if isinstance(source, str | os.PathLike) or (
        isinstance(source, list) and source and all(isinstance(one, str | os.PathLike) for one in source)
    ):
        from squeak.graphs.files import open_edges

        source = open_edges(source)
    if isinstance(source, RowSource):
        source = (block.X for block in source.blocks())
    if hasattr(source, "__next__"):
        for block in source:
            yield from edge_blocks(block, n_nodes, first=first)
            first += _count(block)
        return
    if sp.issparse(source) or type(source).__module__.partition(".")[0] in ADAPTERS:
        yield read_graph(source).edges
        return
    if isinstance(source, tuple) and len(source) in (2, 3) and np.ndim(source[0]) == 1:
        yield check_edges(source[0], source[1], source[2] if len(source) == 3 else None, n_nodes, first=first)
        return
    array = np.asarray(source)
    if array.ndim == 2 and array.shape[1] in (2, 3) and array.dtype.kind in "iuf":
        weights = array[:, 2] if array.shape[1] == 3 else None
        yield check_edges(array[:, 0], array[:, 1], weights, n_nodes, first=first)
        return
    yield read_graph(source, n_nodes).edges


def _count(block: Any) -> int:
    if isinstance(block, tuple) and len(block) in (2, 3) and np.ndim(block[0]) == 1:
        return len(block[0])
    return len(block)
