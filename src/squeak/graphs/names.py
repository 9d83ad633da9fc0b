"""Nodes by name: text or other values in place of numbers, numbered in the order in which they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from squeak.core.rows import refuse_hidden
from squeak.core.types import IntArray
from squeak.data import RowSource
from squeak.data.columns import numbers, texts

Names = dict[Any, int]
"""The number of each node by its name, in the order of the numbers."""


def is_unknown(value: Any) -> bool:
    """Tell whether a label, or a name, is missing: None or NaN."""
    return value is None or (isinstance(value, float | np.floating) and bool(np.isnan(value)))


def are_names(values: Any) -> bool:
    """Tell whether a column of nodes has names: anything but numbers."""
    kind = getattr(getattr(values, "dtype", None), "kind", None)
    if kind in ("i", "u", "f", "b"):
        return False
    array = np.asarray(values)
    if array.dtype.kind == "O":
        return not all(isinstance(value, int | float | np.number) for value in array.tolist())
    return array.dtype.kind in "US"


def numbered(columns: Sequence[Any], names: Names | None, first: int = 0) -> tuple[Any, ...]:
    """Return columns of edges with the numbers of their nodes, whose names join those that are known.

    ``names``: those of the edges before, or None where nodes must be numbers. ``first``: the number of the first
    edge. Edges with and without names do not go together.
    """
    u, v, *weights = columns
    if not (are_names(u) or are_names(v)):
        if names and len(u):
            raise ValueError(f"edge {first}: the nodes of the edges before had names; these are numbers")
        return (u, v, *weights)
    if names is None:
        raise TypeError("nodes must be whole numbers from 0 on here; number them first")
    if first and not names:
        raise ValueError(f"edge {first}: the nodes of the edges before were numbers; these have names")
    for values in (u, v):
        refuse_hidden(values, "the edges' ends")
    left, right = (values.tolist() if hasattr(values, "tolist") else list(values) for values in (u, v))
    if len(left) != len(right):
        raise ValueError(f"there are {len(left)} first nodes and {len(right)} second nodes")
    ends = np.empty(2 * len(left), dtype=np.int64)
    for place, name in enumerate(name for pair in zip(left, right, strict=True) for name in pair):
        if is_unknown(name):
            raise ValueError(f"edge {first + place // 2} has no name at one of its ends")
        ends[place] = names.setdefault(name, len(names))
    return (ends[0::2], ends[1::2], *(np.asarray(w, dtype=np.float64) for w in weights))


def named(names: Any, places: IntArray) -> Any:
    """Return nodes by their names, or by their numbers where they have none.

    ``names``: an array of them, or None.
    """
    return places if names is None else names[places]


def as_array(names: Any) -> Any:
    """Return names as an array: of text where all are, else of objects."""
    values = list(names)
    if values and all(isinstance(name, str) for name in values):
        return np.array(values)
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def trimmed(names: Names, count: int) -> Names:
    """Take away all names but the first ones, in place: those of edges that were not taken in after all."""
    for name in list(names)[count:]:
        del names[name]
    return names


def places_of(nodes: Any, names: Any, n_nodes: int) -> IntArray:
    """Return the numbers of nodes that are given by name, or by number where they have none."""
    asked = [nodes] if isinstance(nodes, str) else list(nodes)
    known: Any = range(n_nodes) if names is None else {name: place for place, name in enumerate(names.tolist())}
    for node in asked:
        if node not in known:
            raise ValueError(f"the graph has no node {node!r}")
    return np.array([int(node) if names is None else known[node] for node in asked], dtype=np.int64)


@dataclass(frozen=True)
class NamedTable:
    """A table of edges in files or a database whose nodes have names; it is read anew at every pass."""

    source: RowSource
    columns: tuple[str, ...]

    def blocks(self) -> Iterator[tuple[Any, ...]]:
        """Yield blocks of edges: two columns of text, and one of weights where there are three."""
        for piece, _ in self.source.kept_pieces():
            parts = [piece.data.column(name) for name in self.columns]
            ends = [texts(part).to_pylist() for part in parts[:2]]
            yield (*ends, *(numbers(part, name) for part, name in zip(parts[2:], self.columns[2:], strict=True)))


ENDS = ("source", "target")
"""What the two columns of nodes are called in a table that has others too; the weight is called weight."""


def frame_columns(names: Sequence[str], what: str) -> tuple[str, ...]:
    """Return which columns of a table are edges: all of two or three, or those that are called so.

    ``what``: the table, for messages.
    """
    if len(names) in (2, 3):
        return tuple(names)
    if set(ENDS) <= set(names):
        return (*ENDS, *(["weight"] if "weight" in names else []))
    raise ValueError(
        f"{what} has {len(names)} columns; an edge list has two (nodes) or three (and a weight), or columns that "
        "are called source, target and weight"
    )


def is_frame(graph: Any) -> bool:
    """Tell whether something is a table with named columns: of pandas, polars or pyarrow."""
    return hasattr(graph, "columns") and type(graph).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow")


def is_square_frame(graph: Any) -> bool:
    """Tell whether a table of pandas is an adjacency matrix: its rows are called as its columns are."""
    index = getattr(graph, "index", None)
    return index is not None and graph.shape[0] == graph.shape[1] and list(index) == list(graph.columns)


def is_edge_frame(graph: Any) -> bool:
    """Tell whether a table can only be one of edges: its nodes are text, or its columns are called so."""
    names = list(graph.column_names if hasattr(graph, "column_names") else graph.columns)
    return set(ENDS) <= set(names) or (
        len(names) in (2, 3) and any(are_names(column) for column in read_frame(graph)[0][:2])
    )


def read_frame(graph: Any) -> tuple[list[Any], Callable[..., Any]]:
    """Return the columns of a table of edges, and what makes such a table of columns again."""
    arrow = hasattr(graph, "column_names")
    names = list(graph.column_names if arrow else graph.columns)
    chosen = frame_columns(names, "the table")
    columns = [graph.column(name).to_numpy() if arrow else graph[name].to_numpy() for name in chosen]
    titles = (*chosen, "weight")[:3]

    def back(*found: Any) -> Any:
        content = dict(zip(titles, found, strict=True))
        if not arrow:
            return type(graph)(content)
        import pyarrow as pa

        return pa.table(content)

    return columns, back
