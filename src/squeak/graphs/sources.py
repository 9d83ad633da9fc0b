"""Edges from anywhere, block by block, edge lists in files, and edges as a row source to go on from."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core import engine
from squeak.core.advice import Advice, InputError
from squeak.core.outputs import replacing
from squeak.core.rows import refuse_hidden
from squeak.core.text import for_cell
from squeak.core.types import Array
from squeak.data import Preprocessing, RowSource, reopen, rows
from squeak.data.files import sample
from squeak.data.learning import Request
from squeak.data.opening import paths_of
from squeak.data.readers import IteratorReader
from squeak.graphs.edges import Edges, from_columns
from squeak.graphs.forms import is_columns, is_networkx, is_path, named_pairs, read_graph
from squeak.graphs.names import (
    NamedTable,
    Names,
    as_array,
    frame_columns,
    is_frame,
    is_square_frame,
    named,
    numbered,
    read_frame,
)


def edge_blocks(
    source: Any, n_nodes: int | None = None, *, first: int = 0, names: Names | None = None
) -> Iterator[Edges]:
    """Yield the edges of a graph, a file, a row source or an iterator of blocks, in order; loops are left out.

    Parameters
    ----------
    source : graph, edges, path, list of paths, row source or iterator
        Adjacency matrices and networkx graphs come as one block. Edges (m, 2), (m, 3) or (u, v, weights) come as
        they are: equal pairs are parallel edges. A square array is an adjacency matrix. Files are text (two or
        three columns, ``#`` and ``%`` begin a comment), CSV, Parquet or npy, read block by block. Tables of pandas,
        polars and pyarrow have two or three columns, or columns called source, target and weight. An iterator
        gives blocks of edges, where an array of shape (2, 2) or (3, 3) is edges too.
    n_nodes : int, optional
        Larger node numbers, and matrices of more nodes, are refused.
    first : int
        The number of the first edge, for messages.
    names : dict, optional
        The number of each node by its name. Nodes that are text, or other values that are no numbers, get the next
        number when they first come, and are entered here. Without it such nodes are refused.

    Yields
    ------
    Edges

    Examples
    --------
    >>> from squeak.graphs import edge_blocks
    >>> [len(block) for block in edge_blocks(iter([[(0, 1), (1, 2)], [(2, 2), (2, 0)]]))]
    [2, 1]
    >>> names = {}
    >>> [block.n_nodes for block in edge_blocks([("ann", "bob"), ("bob", "eve")], names=names)], names
    ([3], {'ann': 0, 'bob': 1, 'eve': 2})
    """
    if isinstance(source, Edges):
        yield source
        return
    if is_path(source) or isinstance(source, NamedTable | RowSource):
        source = file_blocks(source)
    if hasattr(source, "__next__"):
        for block in source:
            if _is_table(block):
                yield _from(np.asarray(block).T, n_nodes, first, names)
                first += len(block)
                continue
            for edges in edge_blocks(block, n_nodes, first=first, names=names):
                yield edges
                first += len(block[0]) if is_columns(block) else len(edges)
    elif is_columns(source):
        yield _from(source, n_nodes, first, names)
    elif is_frame(source) and not is_square_frame(source):
        yield _from(read_frame(source)[0], n_nodes, first, names)
    elif pairs := named_pairs(source):
        yield _from(pairs, n_nodes, first, names)
    elif _is_table(source) and len(source) != np.shape(source)[1]:
        yield _from(np.asarray(source).T, n_nodes, first, names)
    else:
        form = read_graph(source, n_nodes)
        edges = form.edges
        if n_nodes is not None and edges.n_nodes > n_nodes:
            raise ValueError(f"the graph has {edges.n_nodes} nodes, n_nodes is {n_nodes}")
        if form.nodes is not None and names is not None:
            edges = _from(
                (form.nodes[edges.u], form.nodes[edges.v], edges.weights), n_nodes, first, names, form.nodes
            )
        yield edges


def file_blocks(source: Any) -> Iterator[Any]:
    """Return the edges of files, or of a row source, block by block as they stand: arrays, or columns of names."""
    found = open_edges(source) if is_path(source) else source
    if isinstance(found, RowSource):
        return (block.X for block in found.blocks())
    return found.blocks() if isinstance(found, NamedTable) else found


def _from(columns: Any, n_nodes: int | None, first: int, names: Names | None, all_names: Any = ()) -> Edges:
    """Return the edges of columns, their nodes numbered where they have names; ``all_names`` come first."""
    if names is not None:
        for name in all_names:
            names.setdefault(name, len(names))
    found = from_columns(numbered(columns, names, first), n_nodes, first)
    return found.on_nodes(max(found.n_nodes, len(names or ())))


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


def open_edges(source: Any, **how: Any) -> RowSource | NamedTable | Iterator[Any]:
    """Return a row source of edges for CSV, Parquet and npy, or an iterator of blocks for text files.

    A table whose nodes are text has names.

    ``**how``: parameters of :func:`squeak.rows`, for files that are not text.
    """
    paths = [Path(one) for one in (source if isinstance(source, list) else [source])]
    if all(is_text(path) for path in paths):
        return (block for path in paths for block in text_blocks(path))
    found = rows(source, categories=None, **how)
    columns, name = found.column_names, paths[0].name
    try:
        chosen = frame_columns([str(column) for column in columns], name)
    except ValueError as error:
        words = "pass squeak.rows(path, columns=[...])"
        advice = Advice("choose them with {name}", "columns", otherwise="leave out the others", python=words)
        raise InputError(str(error), advice) from None
    if len(chosen) < len(columns):
        return open_edges(source, **{**how, "columns": list(chosen), "drop": ()})
    try:
        found.feature_names  # noqa: B018 (text is refused)
    except InputError as error:
        if error.parameter != "categories":  # what it takes to read text
            raise
        return NamedTable(found, chosen)
    return found


def text_blocks(path: Path) -> Iterator[Any]:
    """Yield blocks of an edge list: two or three columns, by spaces, tabs or commas; # and % are comments."""
    place, first = 0, list[str]()
    with open(path, encoding="utf8") as file:
        try:
            while lines := list(islice(file, LINES)):
                block = _parse(lines, path, place, first)
                place += len(lines)
                if len(block):
                    yield block
        except UnicodeDecodeError:
            raise ValueError(f"{path.name} is not text, after line {place}") from None


def _fields(line: str) -> list[str]:
    """Return the parts of a line, by commas where it has any, else by spaces."""
    return [part.strip() for part in line.split(",")] if "," in line else line.split()


def _parse(lines: list[str], path: Path, place: int, first: list[str]) -> Any:
    """Return the edges of some lines: numbers, or columns of names where the first line of the file has names."""
    kept = [line for line in lines if line.strip() and line.lstrip()[0] not in "#%"]
    if not kept:
        return np.zeros((0, 2))
    if not first:
        first += _fields(kept[0])
    width = len(first)
    if width not in (2, 3):
        raise ValueError(
            f"{path.name} has {width} columns; an edge list has two (nodes) or three (and a weight): "
            "leave out the rest"
        )
    if not _numbers(first[:2]):
        return _names(lines, path, place, width)
    try:
        return np.loadtxt(kept, delimiter="," if "," in kept[0] else None, ndmin=2)
    except ValueError:
        for number, line in enumerate(lines, start=place + 1):
            words = _fields(line)
            if line.strip() and line.lstrip()[0] not in "#%" and not (len(words) == width and _numbers(words)):
                raise ValueError(
                    f"{path.name}, line {number}: {line.strip()[:60]!r} is not an edge of {width} numbers"
                ) from None
        raise


def _names(lines: list[str], path: Path, place: int, width: int) -> Any:
    """Return the columns of lines whose first two words are the names of nodes."""
    found: list[list[str]] = []
    for number, line in enumerate(lines, start=place + 1):
        if line.strip() and line.lstrip()[0] not in "#%":
            words = _fields(line)
            if len(words) != width or not all(words) or not _numbers(words[2:]):
                weight = " and a weight" if width == 3 else ""
                header = (
                    ", unless this is a header, which # would make a comment" if not found and not place else ""
                )
                raise ValueError(
                    f"{path.name}, line {number}: {line.strip()[:60]!r} is not an edge of two names{weight}{header}"
                )
            found.append(words)
    u, v, *weights = (list(column) for column in zip(*found, strict=True))
    if place == 0 and len(found) > 1 and _numbers([*u[1:], *v[1:]]):
        raise ValueError(
            f"{path.name}: the first line, {u[0]} {v[0]}, is not numbers as the others are: begin a header with #"
        )
    return (u, v, *(np.asarray(column, dtype=np.float64) for column in weights))


def _numbers(words: list[str]) -> bool:
    try:
        return all(float(word) is not None for word in words)
    except ValueError:
        return False


def read_edges(source: Any, n_nodes: int | None = None, names: Names | None = None) -> Edges:
    """Return all edges of a file in memory; ``names``: as in :func:`edge_blocks`."""
    parts = list(edge_blocks(source, n_nodes, names=names))
    if not parts:
        raise ValueError(f"there are no edges in {source}")
    nodes = max(part.n_nodes for part in parts)
    return Edges(
        nodes,
        np.concatenate([part.u for part in parts]),
        np.concatenate([part.v for part in parts]),
        np.concatenate([part.weights for part in parts]),
    )


def write_edges(edges: Edges, path: str | os.PathLike[str], nodes: Any = None) -> None:
    """Write an edge list with weights: Parquet, CSV, npy or text by the ending; whole or not at all.

    ``nodes``: the names of the nodes, where they have any.
    """
    kind = Path(path).suffix.lower()
    if kind not in (".parquet", ".csv", ".npy", *TEXT):
        raise ValueError(f"{Path(path).name}: edges are written as .parquet, .csv, .npy or .txt")
    if nodes is not None and kind == ".npy":
        raise ValueError(f"{Path(path).name}: nodes with names are written as .parquet, .csv or .txt")
    if nodes is not None and kind == ".csv":  # a spreadsheet shall not run a name as a formula
        nodes = as_array([for_cell(str(name)) for name in nodes])
    u, v = named(nodes, edges.u), named(nodes, edges.v)
    between = "," if nodes is not None and any(" " in str(name) for name in nodes) else " "
    with replacing(path) as stream:
        if kind == ".npy":
            np.save(stream, np.column_stack([edges.u, edges.v, edges.weights]))
        elif kind in (".parquet", ".csv"):
            import pyarrow as pa

            table = pa.table({"u": u, "v": v, "weight": edges.weights})
            if kind == ".csv":
                from pyarrow import csv

                csv.write_csv(table, stream)
            else:
                from pyarrow import parquet

                parquet.write_table(table, stream)
        else:
            for a, b, w in zip(u.tolist(), v.tolist(), edges.weights.tolist(), strict=True):
                stream.write(f"{a}{between}{b}{between}{w!r}\n".encode())


TILE = 65_536
"""Edges of a graph in memory that are handed out at a time."""


class EdgeReader(IteratorReader):
    """Blocks of clean edges as rows (u, v, weight); ``n_nodes`` counts the nodes of all blocks so far.

    ``fingerprint``: empty where what the blocks will hold cannot be known. ``recipe``: how to open them again.
    ``known``: the names of nodes that come with the blocks.
    """

    def __init__(
        self,
        blocks: Iterable[Edges] | Callable[[], Iterable[Edges]],
        known: Names,
        fingerprint: str = "",
        recipe: dict[str, Any] | None = None,
    ) -> None:
        self.n_nodes, self.known, self.recipe, self._fingerprint = 0, known, recipe, fingerprint
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
    names: Names = {}
    if is_path(edges):
        paths = [Path(one).resolve() for one in (edges if isinstance(edges, list) else [edges])]
        if all(is_text(path) for path in paths):
            digest = hashlib.sha256(b"".join(path.name.encode() + sample(path) for path in paths)).hexdigest()
            recipe: dict[str, Any] | None = {"paths": [str(path) for path in paths], "edge_list": True}
            again = partial(edge_blocks, list(paths), n_nodes, names=names)
            return _source_of(EdgeReader(again, names, digest, recipe))
        edges = open_edges(edges)
    if isinstance(edges, RowSource):
        return edges
    if isinstance(edges, NamedTable):
        table = edges
        known = table.source.recipe
        recipe = None if known is None else {**known, "edge_columns": list(table.columns)}
        again = partial(edge_blocks, table, n_nodes, names=names)
        return _source_of(EdgeReader(again, names, table.source.fingerprint, recipe))
    if hasattr(edges, "__next__"):
        return _source_of(EdgeReader(edge_blocks(edges, n_nodes, names=names), names))
    graph = next(edge_blocks(edges, n_nodes, names=names))
    if len(graph) == 0:
        raise ValueError("there are no edges")
    columns = (np.array([graph.n_nodes]), graph.u, graph.v, graph.weights)
    words = "\0".join(map(repr, names)).encode()
    digest = hashlib.sha256(
        b"".join(np.ascontiguousarray(column).tobytes() for column in columns) + words
    ).hexdigest()
    tiles = lambda: (graph.take(tile) for tile in engine.tiles(len(graph), TILE))  # noqa: E731
    return _source_of(EdgeReader(tiles, names, digest))


def _source_of(reader: EdgeReader) -> RowSource:
    return RowSource(reader, Request(), learned=True)  # edges pass as they are


def reopened_edges(recipe: dict[str, Any], preprocessing: Preprocessing | None) -> RowSource:
    """Open the files of a recipe again."""
    if recipe.get("edge_list"):
        return edge_source(paths_of(recipe))
    found = reopen(recipe, preprocessing)
    columns = recipe.get("edge_columns")
    return found if columns is None else edge_source(NamedTable(found, tuple(map(str, columns))))
