"""Rows of a source as they stand there, with all their columns, found again by their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core.types import IntArray
from squeak.data.pieces import Piece
from squeak.data.source import RowSource


def originals(source: RowSource, numbers: IntArray) -> Any:
    """Return an Arrow table of some rows with every column of the source, in one pass.

    ``numbers``: ascending, counted over the rows that the source keeps: the numbers that samplers give.
    """
    import pyarrow as pa

    names, seen, tables = list(source.reader.names), 0, []
    for piece, kept in source.kept_pieces():
        inside = numbers[np.searchsorted(numbers, seen) : np.searchsorted(numbers, seen + len(kept))] - seen
        if inside.size:
            tables.append(_table(piece, names, kept[inside]))
        seen += len(kept)
    return pa.concat_tables(tables) if tables else _table(piece, names, np.zeros(0, dtype=np.int64))


def _table(piece: Piece, names: list[Any], rows: IntArray) -> Any:
    import pyarrow as pa

    if piece.is_table:
        return piece.data.take(pa.array(rows))
    values = piece.data[rows]
    values = values if isinstance(values, np.ndarray) else values.toarray()
    return pa.table({str(name): np.ascontiguousarray(values[:, column]) for column, name in enumerate(names)})
