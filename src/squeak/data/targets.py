"""Targets: which column they are, their values, and which of them are missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from squeak.core.advice import InputError
from squeak.core.checks import is_missing
from squeak.core.types import Array, IntArray
from squeak.data.columns import ColumnError, kind_of, numbers, texts
from squeak.data.pieces import SKIP, Piece


def is_name(target: Any) -> bool:
    """Tell whether a target is the name or the number of a column (not the targets themselves, or True)."""
    return isinstance(target, str | int | np.integer) and not isinstance(target, bool)


def _values(piece: Piece, target: Any) -> Any:
    """Return the targets of a piece: numbers, or text for classes."""
    values = piece.target
    if values is None:
        raise ValueError("targets are asked for that the source does not give")
    if hasattr(values, "type"):  # an Arrow column
        try:
            if kind_of(values.type) == "text":
                return texts(values).to_numpy(zero_copy_only=False).astype(object)
            return numbers(values, str(target)).astype(np.float64)
        except ColumnError as error:
            raise ValueError(piece.words(str(error))) from None
    if values.dtype.kind in "mM":  # as dates and durations in a table: days and seconds
        import pyarrow as pa

        if np.datetime_data(values.dtype)[0] not in ("s", "ms", "us", "ns"):
            values = values.astype(f"{values.dtype.kind}8[s]")
        return numbers(pa.array(values.ravel()), str(target)).reshape(values.shape)
    return values.astype(np.float64) if values.dtype.kind in "bui" else values


def targets_of(piece: Piece, target: Any, which: IntArray | None, skip: bool) -> tuple[Any, IntArray | None]:
    """Return the targets of the rows of a piece that are kept, and which of those have one (None for all).

    ``target``: the column's name, for messages. ``which``: the rows of the piece that are kept; None for all.
    ``skip``: whether rows without a target are left out, or refused.
    """
    y = _values(piece, target)
    y = y if which is None else y[which]
    bad, whole = _missing(y), None
    if bad.any():
        if not skip:
            at = int(np.argmax(bad))
            row = piece.row(at if which is None else int(which[at]))
            name = f"{target!r} " if is_name(target) else ""
            value = y[at]
            words = "missing" if value is None or (np.ndim(value) == 0 and value != value) else value
            raise InputError(f"{row}: the target {name}is {words}", SKIP)
        whole = np.flatnonzero(~bad)
        y = y[whole]
    kind = getattr(piece.target, "type", None) or getattr(piece.target, "dtype", None)
    if str(kind) == "bool":  # now that none is missing: truth values are classes, not numbers
        y = y.astype(np.bool_)
    return y, whole


def targets_as_numbers(pieces: Sequence[Piece]) -> tuple[Array, tuple[str, ...]]:
    """Return the targets of some pieces as numbers, NaN where missing, and names for their columns.

    Numbers are themselves. Of text and truth values, which are classes, every class becomes a column of 0 and 1; of
    two classes, the second alone.
    """
    given = [_values(piece, None) for piece in pieces]
    y = np.concatenate([values.astype(object) if values.dtype.kind in "OUS" else values for values in given])
    bad, first = _missing(y), pieces[0].target
    truth = str(getattr(first, "type", None) or getattr(first, "dtype", None)) == "bool"
    if y.dtype.kind != "O" and not truth:
        Y = y.astype(np.float64).reshape(len(y), -1)
        names = tuple(map(str, range(Y.shape[1]))) if Y.shape[1] > 1 else ("",)
    else:
        words = np.array(["" if missing else str(value) for missing, value in zip(bad, y.ravel(), strict=True)])
        classes = np.unique(words[~bad])
        classes = classes[1:] if len(classes) == 2 else classes
        Y = (words[:, None] == classes).astype(np.float64)
        names = tuple(map(str, classes)) if len(classes) > 1 else ("",)
    Y[bad] = np.nan
    return Y, names


def _missing(y: Any) -> Any:
    if y.dtype.kind == "O":
        bad = np.array([is_missing(value) for value in y.ravel()]).reshape(y.shape)
    elif y.dtype.kind in "mM":
        bad = np.isnat(y)
    else:
        bad = ~np.isfinite(y) if y.dtype.kind == "f" else np.zeros(y.shape, dtype=bool)
    return bad.any(axis=1) if bad.ndim == 2 else bad
