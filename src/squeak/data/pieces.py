"""A piece of the data as it stands in its source, where it stands, and which of its rows are bad."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core.advice import Advice, InputError, InputTypeError
from squeak.core.types import Array, IntArray, Rows


@dataclass(frozen=True)
class Piece:
    """Some rows of a source: a numeric matrix (dense or CSR) or an Arrow table.

    ``place``: the file they stand in; empty for rows in memory. ``first``: the number of the first of them there,
    from 0. ``hidden``: the number of the column of an array that was taken out to be the target; numbers in
    messages count it.
    """

    data: Any
    place: str = ""
    first: int = 0
    target: Any = None
    hidden: int | None = None

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.data.num_rows if self.is_table else self.data.shape[0])

    @property
    def is_table(self) -> bool:
        """Whether columns have names and types of their own."""
        return not isinstance(self.data, np.ndarray) and not sp.issparse(self.data)

    def from_row(self, start: int) -> Piece:
        """Return the piece without its first ``start`` rows."""
        if start == 0:
            return self
        data = self.data.slice(start) if self.is_table else self.data[start:]
        target = None if self.target is None else self.target[start:]
        return replace(self, data=data, first=self.first + start, target=target)

    def up_to(self, stop: int) -> Piece:
        """Return the first ``stop`` rows of the piece."""
        if stop >= self.n:
            return self
        data = self.data.slice(0, stop) if self.is_table else self.data[:stop]
        return replace(self, data=data, target=None if self.target is None else self.target[:stop])

    def without_target(self, name: Any) -> Piece:
        """Return the piece with one of its columns taken out as the target."""
        if self.is_table:
            return replace(self, data=self.data.drop_columns([name]), target=self.data.column(name))
        others = [number for number in range(self.data.shape[1]) if number != name]
        target = self.data[:, [name]].toarray()[:, 0] if sp.issparse(self.data) else self.data[:, name]
        return replace(self, data=self.data[:, others], target=target, hidden=int(name))

    def column_number(self, position: int) -> int:
        """Return the number that the user knows a column of an array by."""
        return position + (self.hidden is not None and position >= self.hidden)

    def row(self, number: int) -> str:
        """Return words for a row, by its number within the piece."""
        return f"row {self.first + number}" + (f" of {self.place}" if self.place else "")

    def words(self, message: str) -> str:
        """Return a message that begins with the file's name, where there is one."""
        return f"{self.place}: {message}" if self.place else message


def as_table(X: Any) -> Any:
    """Return a pandas, polars or Arrow table as an Arrow table, or None for anything else.

    The libraries are asked only if the object is theirs, so none of them is imported for an array.
    """
    library = type(X).__module__.partition(".")[0]
    if library == "pyarrow":
        import pyarrow as pa

        if isinstance(X, pa.RecordBatch):
            return pa.Table.from_batches([X])
        return X if isinstance(X, pa.Table) else None
    if library == "pandas" and hasattr(X, "iloc") and hasattr(X, "columns"):
        return _from_pandas(X)
    if library == "polars" and hasattr(X, "to_arrow") and hasattr(X, "columns"):
        return X.to_arrow()
    return None


def _from_pandas(frame: Any) -> Any:
    import pyarrow as pa

    names = [str(name) for name in frame.columns]
    columns = []
    for name, (_, column) in zip(names, frame.items(), strict=True):
        plain = isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub"
        try:
            columns.append(pa.array(column.to_numpy() if plain else column, from_pandas=True))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            reason = str(error).splitlines()[0]
            raise InputTypeError(
                f"column {name!r} holds values of several or unknown types ({reason})",
                "make them one",
                Advice("drop it with {}", "drop", [name]),
            ) from None
    return pa.table(columns, names=names)


SKIP = Advice("skip such rows with {}", "on_bad_rows", "skip")
FILL = Advice("fill missing values with {}", "missing", "median", otherwise="fit the model with {}")


def finite_rows(
    X: Array, raw: Array, piece: Piece, skip: bool, label: Callable[[int], str]
) -> tuple[Array, IntArray | None]:
    """Return the finite rows of an array, and which of them they are (None for all).

    ``X``, ``raw``: the rows, and their values as the user has them. ``piece``: where they stand. ``skip``: whether
    the others are left out, or refused. ``label``: words for a column by its place in X.
    """
    finite = np.isfinite(X)
    if finite.all():
        return X, None
    whole = finite.all(axis=1)
    if not skip:
        row = int(np.argmin(whole))
        column = int(np.argmin(finite[row]))
        value = raw[row, column]
        strange = f"{value:g}, which no {X.dtype} holds when scaled" if np.isfinite(value) else str(value)
        fact = f"{piece.row(row)}: {label(column)} is {strange}"
        raise InputError(fact, SKIP, *([FILL] if np.isnan(value) else []))
    kept = np.flatnonzero(whole)
    return X[kept], kept


def finite_matrix(piece: Piece, skip: bool) -> tuple[Rows, IntArray | None]:
    """Return the finite rows of a plain matrix, and which of them they are (None for all)."""
    if sp.issparse(piece.data):
        return finite_sparse(piece.data, piece, skip)
    return finite_rows(piece.data, piece.data, piece, skip, lambda place: f"column {piece.column_number(place)}")


def finite_sparse(X: Any, piece: Piece, skip: bool) -> tuple[Rows, IntArray | None]:
    """Return the finite rows of a CSR matrix, and which of them they are (None for all)."""
    csr = sp.csr_array(X)
    finite = np.isfinite(csr.data)
    if finite.all():
        return csr, None
    owners = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
    if not skip:
        place = int(np.argmin(finite))
        column = piece.column_number(int(csr.indices[place]))
        raise InputError(f"{piece.row(int(owners[place]))}: column {column} is {csr.data[place]}", SKIP)
    kept = np.setdiff1d(np.arange(csr.shape[0]), owners[~finite])
    return csr[kept], kept
