"""Edges from anywhere, block by block, edge lists in files, and edges as a row source to go on from."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core import engine
from squeak.core.advice import Advice, InputError
from squeak.core.outputs import replacing
from squeak.core.rows import refuse_hidden
from squeak.core.types import Array
from squeak.data import Preprocessing, RowSource, reopen, rows
from squeak.data.files import sample
from squeak.data.learning import Request
from squeak.data.opening import paths_of
from squeak.data.readers import IteratorReader
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


TEXT = (".txt", ".edges", ".el", ".edgelist", ".tsv", ".ncol")
LINES = 262_144
"""Lines of a text file at a time."""


def is_text(path: Path) -> bool:
    """Tell whether a file is a plain edge list by its name."""
    return path.suffix.lower() in TEXT


def open_edges(source: Any, **how: Any) -> RowSource | Iterator[Any]:
    """Return a row source of edges for CSV, Parquet and npy, or an iterator of blocks for text files.

    ``**how``: parameters of :func:`squeak.rows`, for files that are not text.
    """
    paths = [Path(one) for one in (source if isinstance(source, list) else [source])]
    if all(is_text(path) for path in paths):
        return (block for path in paths for block in text_blocks(path))
    found = rows(source, categories=None, **how)
    try:
        width = len(found.feature_names)
    except InputError as error:
        if error.parameter != "categories":  # what it takes to read text
            raise
        raise InputError(error.args[0], "nodes are whole numbers from 0 on, so number them first") from None
    if width not in (2, 3):
        words = "pass squeak.rows(path, columns=[...])"
        raise InputError(
            f"{paths[0].name} has {width} columns; an edge list has two (nodes) or three (and a weight)",
            Advice("choose them with {name}", "columns", otherwise="leave out the others", python=words),
        )
    return found


def text_blocks(path: Path) -> Iterator[Any]:
    """Yield blocks of an edge list: two or three columns, by spaces, tabs or commas; # and % are comments."""
    place = 0
    with open(path, encoding="utf8") as file:
        try:
            while lines := list(islice(file, LINES)):
                block = _parse(lines, path, place)
                place += len(lines)
                if len(block):
                    yield block
        except UnicodeDecodeError:
            raise ValueError(f"{path.name} is not text, after line {place}") from None


def _parse(lines: list[str], path: Path, place: int) -> Any:
    kept = [line for line in lines if line.strip() and line.lstrip()[0] not in "#%"]
    if not kept:
        return np.zeros((0, 2))
    commas = "," in kept[0]
    width = len(kept[0].replace(",", " ").split())
    if width not in (2, 3):
        raise ValueError(
            f"{path.name} has {width} columns; an edge list has two (nodes) or three (and a weight): "
            "leave out the rest"
        )
    try:
        return np.loadtxt(kept, delimiter="," if commas else None, ndmin=2)
    except ValueError:
        for number, line in enumerate(lines, start=place + 1):
            words = line.replace(",", " ").split()
            if line.strip() and line.lstrip()[0] not in "#%" and not (len(words) == width and _numbers(words)):
                raise ValueError(
                    f"{path.name}, line {number}: {line.strip()[:60]!r} is not an edge of {width} numbers"
                ) from None
        raise


def _numbers(words: list[str]) -> bool:
    try:
        return bool([float(word) for word in words])
    except ValueError:
        return False


def read_edges(source: Any, n_nodes: int | None = None) -> Edges:
    """Return all edges of a file in memory."""
    parts = list(edge_blocks(source, n_nodes))
    if not parts:
        raise ValueError(f"there are no edges in {source}")
    nodes = max(part.n_nodes for part in parts)
    return Edges(
        nodes,
        np.concatenate([part.u for part in parts]),
        np.concatenate([part.v for part in parts]),
        np.concatenate([part.weights for part in parts]),
    )


def write_edges(edges: Edges, path: str | os.PathLike[str]) -> None:
    """Write an edge list with weights: Parquet, CSV, npy or text by the ending; whole or not at all."""
    kind = Path(path).suffix.lower()
    if kind not in (".parquet", ".csv", ".npy", *TEXT):
        raise ValueError(f"{Path(path).name}: edges are written as .parquet, .csv, .npy or .txt")
    with replacing(path) as stream:
        if kind == ".npy":
            np.save(stream, np.column_stack([edges.u, edges.v, edges.weights]))
        elif kind in (".parquet", ".csv"):
            import pyarrow as pa

            table = pa.table({"u": edges.u, "v": edges.v, "weight": edges.weights})
            if kind == ".csv":
                from pyarrow import csv

                csv.write_csv(table, stream)
            else:
                from pyarrow import parquet

                parquet.write_table(table, stream)
        else:
            for u, v, w in zip(edges.u.tolist(), edges.v.tolist(), edges.weights.tolist(), strict=True):
                stream.write(f"{u} {v} {w!r}\n".encode())


TILE = 65_536
"""Edges of a graph in memory that are handed out at a time."""


class EdgeReader(IteratorReader):
    """Blocks of clean edges as rows (u, v, weight); ``n_nodes`` counts the nodes of all blocks so far.

    ``fingerprint``: empty where what the blocks will hold cannot be known. ``recipe``: how to open them again.
    """

    def __init__(
        self,
        blocks: Iterable[Edges] | Callable[[], Iterable[Edges]],
        fingerprint: str = "",
        recipe: dict[str, Any] | None = None,
    ) -> None:
        self.n_nodes, self.recipe, self._fingerprint = 0, recipe, fingerprint
        make = blocks if callable(blocks) else None
        super().__init__(self._tables(blocks) if make is None else lambda: self._tables(make()), has_target=False)

    def _tables(self, blocks: Any) -> Iterator[Array]:
        for edges in blocks:
            self.n_nodes = max(self.n_nodes, edges.n_nodes)
            yield np.column_stack([edges.u, edges.v, edges.weights])

    def fingerprint(self) -> str:
        """Return the text that was given for these edges."""
        return self._fingerprint


def edge_source(edges: Any, n_nodes: int | None = None) -> RowSource:
    """Return a row source of whatever :func:`squeak.graphs.edge_blocks` reads, with places to go on from."""
    if isinstance(edges, RowSource):
        return edges
    if is_path(edges):
        paths = [Path(one).resolve() for one in (edges if isinstance(edges, list) else [edges])]
        if not all(is_text(path) for path in paths):
            found = open_edges(edges)
            assert isinstance(found, RowSource)
            return found
        digest = hashlib.sha256(b"".join(path.name.encode() + sample(path) for path in paths)).hexdigest()
        recipe = {"paths": [str(path) for path in paths], "edge_list": True}
        reader = EdgeReader(lambda: edge_blocks(list(paths), n_nodes), digest, recipe)
    elif hasattr(edges, "__next__"):
        reader = EdgeReader(edge_blocks(edges, n_nodes))
    else:
        graph = next(edge_blocks(edges, n_nodes))
        if len(graph) == 0:
            raise ValueError("there are no edges")
        columns = (np.array([graph.n_nodes]), graph.u, graph.v, graph.weights)
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(column).tobytes() for column in columns)).hexdigest()
        reader = EdgeReader(lambda: (graph.take(tile) for tile in engine.tiles(len(graph), TILE)), digest)
    return RowSource(reader, Request(), learned=True)  # edges pass as they are


def reopened_edges(recipe: dict[str, Any], preprocessing: Preprocessing | None) -> RowSource:
    """Open the files of a recipe again."""
    return edge_source(paths_of(recipe)) if recipe.get("edge_list") else reopen(recipe, preprocessing)
