"""Rows of a source as they stand there, with all their columns, found again by their numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from squeak.core.sources.pieces import Piece
from squeak.core.sources.source import LARGEST_BLOCK, RowSource
from squeak.core.types import IntArray


def originals(source: RowSource, numbers: IntArray) -> Any:
    """Return an Arrow table of some rows with every column of the source, in one pass.

    Parameters
    ----------
    source : RowSource
    numbers : array of int
        Ascending, counted over the rows that the source keeps: the numbers that samplers give.

    Examples
    --------
    >>> import numpy as np, squeak
    >>> from squeak.core.sources.originals import originals
    >>> originals(squeak.rows(np.arange(6.0).reshape(3, 2)), np.array([0, 2])).to_pydict()
    {'0': [0.0, 4.0], '1': [1.0, 5.0]}
    """
    import pyarrow as pa

    names, seen, tables = list(source.reader.names), 0, []
    for part in source._order().tolist():
        for piece in source.reader.pieces(part, names, 0, LARGEST_BLOCK):
            kept = _kept(source, piece) if source.skip else np.arange(piece.n)
            inside = numbers[np.searchsorted(numbers, seen) : np.searchsorted(numbers, seen + len(kept))] - seen
            if inside.size:
                tables.append(_table(piece, names, kept[inside]))
            seen += len(kept)
    if not tables:
        return _table(piece, names, np.zeros(0, dtype=np.int64))
    return pa.concat_tables(tables)


def _kept(source: RowSource, piece: Piece) -> IntArray:
    """Return which rows of a piece the source keeps."""
    if piece.is_table:
        target = [] if source._column_of_target is None else [source._column_of_target]
        piece = replace(piece, data=piece.data.select([*source._names, *target]))
    which = source._encode(source._split(piece))[2]
    return np.arange(piece.n) if which is None else which


def _table(piece: Piece, names: list[Any], rows: IntArray) -> Any:
    import pyarrow as pa

    if piece.is_table:
        return piece.data.take(pa.array(rows))
    values = piece.data[rows]
    values = values if isinstance(values, np.ndarray) else values.toarray()
    return pa.table({str(name): np.ascontiguousarray(values[:, column]) for column, name in enumerate(names)})
