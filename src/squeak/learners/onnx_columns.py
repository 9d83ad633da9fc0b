"""A preprocessing as nodes of ONNX: the user's columns become rows of numbers in the file as they do here."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core.types import Array
from squeak.data import Preprocessing
from squeak.data.columns import CodeColumn, DateColumn, NumberColumn, OneHotColumn
from squeak.data.target_columns import FOLDS, Column, TargetColumn
from squeak.learners.onnx_graph import Graph

ROWS = "X"
"""The name of the input where columns have no names."""

UNITS = {"date": "days since 1970-01-01", "time": "hours since midnight", "duration": "seconds"}
"""What a date, a time of day and a duration are as numbers."""

FARTHEST = 1e100
"""Scaled numbers are cut off here before they are clipped softly: squares do not overflow."""


def input_columns(preprocessing: Preprocessing | None, width: int) -> list[dict[str, Any]]:
    """Return what a file says of every input: its name, its kind, the number of columns, unit or known values."""
    if preprocessing is None or preprocessing.width is not None:
        count = width if preprocessing is None else preprocessing.width
        return [{"name": ROWS, "kind": "numbers", "columns": count}]
    found: list[dict[str, Any]] = []
    for column in preprocessing.columns:
        said: dict[str, Any] = {"name": column.name, "kind": "number", "columns": 1}
        if isinstance(column, DateColumn):
            said |= {"kind": column.kind, "unit": UNITS[column.kind]}
        elif not isinstance(column, NumberColumn):
            said |= {"kind": "category", "values": list(column.values)}
        found.append(said)
    return found


def encoded_rows(graph: Graph, preprocessing: Preprocessing | None) -> str:
    """Return the rows as the kernel sees them, shape (n, d), from the inputs of the graph."""
    if preprocessing is None:
        return ROWS
    if preprocessing.width is not None:
        wanted = [int(column.name) for column in preprocessing.columns]
        every = wanted == list(range(preprocessing.width))
        x = ROWS if every else graph("Gather", ROWS, wanted, axis=1)
    else:
        parts = [_column(graph, column) for column in preprocessing.columns]
        x = parts[0] if len(parts) == 1 else graph("Concat", *parts, axis=1)
    x = _rounded(graph, x, preprocessing.dtype)
    if preprocessing.fill is not None:
        x = graph("Where", graph("IsNaN", x), preprocessing.fill, x)
    if preprocessing.centre is not None and preprocessing.scale is not None:
        x = graph("Div", graph("Sub", x, preprocessing.centre), preprocessing.scale)
        if preprocessing.clip is not None:
            x = _clipped(graph, x, preprocessing.clip)
    return _rounded(graph, x, preprocessing.dtype)


def _column(graph: Graph, column: Column) -> str:
    """Return the numbers of a column, NaN where missing: an empty text is a missing category."""
    if isinstance(column, NumberColumn | DateColumn):
        return column.name
    n = len(column.values)
    keys = [*column.values, *([] if "" in column.values else [""])]
    places = [*range(n), *([] if "" in column.values else [n + 1])]
    codes = graph(
        "LabelEncoder",
        column.name,
        domain="ai.onnx.ml",
        keys_strings=keys,
        values_int64s=places,
        default_int64=n,
    )
    table = np.vstack([_numbers(column), np.full((1, len(column.features)), np.nan)])
    return graph("Gather", table, graph("Squeeze", codes, [1]), axis=0)


def _numbers(column: OneHotColumn | CodeColumn | TargetColumn) -> Array:
    """Return the numbers of every known value, and of one that is not known."""
    n = len(column.values)
    if isinstance(column, TargetColumn):
        return np.asarray(column.statistics[FOLDS])
    return np.eye(n + 1) if isinstance(column, OneHotColumn) else np.arange(n + 1.0)[:, None]


def _rounded(graph: Graph, x: str, dtype: str) -> str:
    """Return numbers that were held in float32, as they were."""
    if dtype == "float64":
        return x
    kinds = graph.onnx.TensorProto
    return graph("Cast", graph("Cast", x, to=kinds.FLOAT), to=kinds.DOUBLE)


def _clipped(graph: Graph, x: str, bound: Array) -> str:
    """Return c·t/√(1 + t²) with t = z/c in the columns that have a bound c, and others as they are."""
    bent = bound > 0
    safe = np.where(bent, bound, 1.0)
    t = graph("Clip", graph("Div", x, safe), -FARTHEST, FARTHEST)
    root = graph("Sqrt", graph("Add", graph("Mul", t, t), 1.0))
    clipped = graph("Mul", graph("Div", t, root), safe)
    return clipped if bent.all() else graph("Where", bent[None], clipped, x)
