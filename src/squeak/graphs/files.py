"""Edge lists in files: text, CSV, Parquet and npy, read block by block; written as text, CSV or Parquet."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from squeak.core.advice import Advice, InputError
from squeak.core.outputs import replacing
from squeak.data import RowSource, rows
from squeak.graphs.edges import Edges

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
    from squeak.graphs.blocks import edge_blocks

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
