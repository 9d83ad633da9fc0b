"""Readers of what is in memory or memory-mapped, and of iterators: rows as they stand, part by part."""

from __future__ import annotations

import copy
import hashlib
import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from squeak.core.rows import copy_rows, refuse_masked
from squeak.data.npy_files import NpyFile
from squeak.data.pieces import Piece, as_table
from squeak.data.preprocessing import check_names

PART = 65_536
"""Rows of an array in memory that count as one part."""

FINGERPRINT_ROWS = 64


class Reader(ABC):
    """Rows of one source, in parts that can be read apart from each other."""

    names: Sequence[Any]
    """The columns: names, or numbers where there are none."""
    n_rows: int | None = None
    """The number of rows; None where only reading them all would tell."""
    n_parts: int = 1
    repeatable: bool = True
    """Whether the rows can be read more than once."""
    ahead: bool = False
    """Whether reading takes long enough to be done on a thread of its own."""
    live: bool = False
    """Whether rows come as time passes: a block is then what has come, and no block waits for further rows."""
    sparse: bool = False
    """Whether the rows are CSR."""
    held: bool = False
    """Whether the rows are in the memory of this program already."""
    recipe: dict[str, Any] | None = None
    """How to open it again, as JSON data; None for what lives in memory."""
    float32: set[str] | None = None
    """The columns of a table that are float32 throughout; None for arrays, whose own type counts."""
    skipped_lines: int = 0
    """Lines of the part last read that could not be cut into columns and were skipped."""

    @abstractmethod
    def pieces(self, part: int, columns: Sequence[Any] | None, start: int, size: int) -> Iterator[Piece]:
        """Yield the rows of a part from row ``start`` of it on, in pieces of about ``size``.

        Tables come with the columns named, in that order; arrays come whole, for columns are cheap to leave
        out later.
        """

    def check_unchanged(self, part: int) -> None:
        """Refuse a part that is not what it was when it was opened, where that can be known."""
        return

    def part_path(self, part: int) -> Any:
        """Return the file that a part is of; None for what lives in memory."""
        return None

    def part_name(self, part: int) -> str:
        """Return words for a part, for messages."""
        return f"rows {part * PART:,} to {min((part + 1) * PART, self.n_rows or 0) - 1:,}"

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a text that is the same for the same data; empty where that cannot be known beforehand."""

    def alone(self, first: int, stop: int) -> Reader:
        """Return a reader that knows at least of parts ``first`` to ``stop`` − 1, to be sent to another process."""
        return self


class MemoryReader(Reader):
    """Rows in memory, or mapped there, in stretches of 65,536; targets may come beside them."""

    target: Any = None
    offset: int = 0
    """The number of the first of the rows that are here, among all rows."""

    def _measure(self, rows: int, target: Any) -> None:
        if target is not None and len(target) != rows:
            raise ValueError(f"there are {rows:,} rows and {len(target):,} targets")
        self.target, self.n_rows, self.n_parts = target, rows, -(-rows // PART)

    def _stretches(self, part: int, start: int, size: int) -> Iterator[tuple[slice, Any]]:
        """Yield the places here of a part's rows from row ``start`` on, ``size`` at a time, and their targets."""
        stop = min((part + 1) * PART, self.n_rows or 0)
        for first in range(part * PART + start, stop, size):
            which = slice(first - self.offset, min(first + size, stop) - self.offset)
            yield which, None if self.target is None else np.asarray(self.target[which])

    def _cut(self, first: int, stop: int) -> tuple[Self, slice]:
        """Return a copy that has its targets of some parts only, and the places here of their rows."""
        found = copy.copy(self)
        which = slice(first * PART - self.offset, min(stop * PART, self.n_rows or 0) - self.offset)
        found.offset = first * PART
        found.target = None if self.target is None else np.array(self.target[which])
        return found, which


class ArrayReader(MemoryReader):
    """Rows of an array, dense or CSR, in memory or memory-mapped."""

    def __init__(self, X: Any, target: Any = None, path: Path | None = None) -> None:
        self.sparse = bool(sp.issparse(X))
        self.X = sp.csr_array(X) if self.sparse else X
        if self.X.ndim != 2:
            hint = " (one column? pass x.reshape(-1, 1))" if self.X.ndim == 1 else ""
            raise ValueError(_in(path, f"rows must form a 2-D table; this has shape {self.X.shape}{hint}"))
        if self.X.dtype.kind not in "fbui":
            raise TypeError(_in(path, f"rows must be numbers; these are of type {self.X.dtype}"))
        if 0 in self.X.shape:
            raise ValueError(_in(path, f"there are no rows or no columns: the shape is {self.X.shape}"))
        self._measure(int(self.X.shape[0]), target)
        self.path = None if path is None else path.resolve()
        self.names, self.held = range(self.X.shape[1]), not isinstance(self.X, NpyFile)
        self.recipe = None if path is None else {"paths": [str(path.resolve())]}

    @classmethod
    def open(cls, path: Path, target: Any = None) -> ArrayReader:
        """Open a ``.npy`` file, to be read block by block."""
        return cls(NpyFile(path), target, path)

    def pieces(self, part: int, columns: Sequence[Any] | None, start: int, size: int) -> Iterator[Piece]:
        """Yield the rows of a part from row ``start`` of it on, in pieces of ``size``."""
        place = "" if self.path is None else self.path.name
        for which, target in self._stretches(part, start, size):
            _check_mapped(self.X)
            yield Piece(floats(self.X[which]), place, which.start + self.offset, target)

    def check_unchanged(self, part: int) -> None:
        """Refuse a file that was changed or replaced since it was opened."""
        if isinstance(self.X, NpyFile):
            self.X.watched.check()

    def alone(self, first: int, stop: int) -> Reader:
        """Return a reader with nothing but the rows of these parts; those of a file are read where it is."""
        found, which = self._cut(first, stop)
        found.X = self.X.part(which) if isinstance(self.X, NpyFile) else copy_rows(self.X[which])
        return found

    def fingerprint(self) -> str:
        """Return a hash of the shape, the type, 64 rows from beginning to end, and all targets."""
        digest = hashlib.sha256(repr((self.X.shape, np.dtype(self.X.dtype).str, sp.issparse(self.X))).encode())
        n = int(self.X.shape[0])
        for row in np.unique(np.linspace(0, n - 1, FINGERPRINT_ROWS).astype(int)):
            one = self.X[row : row + 1]
            digest.update((one.toarray() if sp.issparse(one) else np.ascontiguousarray(one)).tobytes())
        if self.target is not None:
            digest.update(repr((self.target.shape, self.target.dtype.str)).encode())
            digest.update(
                repr(self.target.tolist()).encode() if self.target.dtype.hasobject else self.target.tobytes()
            )
        return digest.hexdigest()


class TableReader(MemoryReader):
    """Rows of a pandas, polars or Arrow table in memory."""

    def __init__(self, table: Any, target: Any = None) -> None:
        self.table: Any = as_table(table)
        self.names, self.held = list(self.table.column_names), True
        self.float32 = {field.name for field in self.table.schema if str(field.type) in ("float", "halffloat")}
        check_names(self.names, "")
        shape = (int(self.table.num_rows), len(self.names))
        if 0 in shape:
            raise ValueError(f"the table has no rows or no columns: its shape is {shape}")
        self._measure(shape[0], target)

    def pieces(self, part: int, columns: Sequence[Any] | None, start: int, size: int) -> Iterator[Piece]:
        """Yield the rows of a part from row ``start`` of it on, in pieces of ``size``."""
        table = self.table if columns is None else self.table.select(list(columns))
        for which, target in self._stretches(part, start, size):
            rows = table.slice(which.start, which.stop - which.start)
            yield Piece(rows, "", which.start + self.offset, target)

    def alone(self, first: int, stop: int) -> Reader:
        """Return a reader with nothing but the rows of these parts; a slice of a table would hold them all."""
        found, which = self._cut(first, stop)
        found.table = self.table.take(np.arange(which.start, which.stop))
        return found

    def fingerprint(self) -> str:
        """Return a hash of the schema, of 64 rows from beginning to end, and of all targets."""
        n = self.table.num_rows
        some = np.unique(np.linspace(0, n - 1, FINGERPRINT_ROWS).astype(int))
        rows, target = self.table.take(some).to_pylist(), None if self.target is None else self.target.tolist()
        return hashlib.sha256(repr((n, str(self.table.schema), rows, target)).encode()).hexdigest()


class IteratorReader(Reader):
    """Blocks from an iterator: arrays, CSR, tables, or pairs (rows, target); once, or anew from a function."""

    nothing = "the iterator gives no blocks"
    """What is said where there is nothing to read."""

    def __init__(self, source: Iterable[Any] | Callable[[], Iterable[Any]], *, has_target: bool) -> None:
        self.repeatable = callable(source)
        self._make: Callable[[], Iterable[Any]] = source if callable(source) else lambda: source
        self._opened = False
        self._has_target = has_target
        self._held: list[Any] = []
        self._rest: Iterator[Any] | None = None
        self._previous: Any = None
        first = self._peek()
        self.sparse = bool(sp.issparse(first.data))
        self.names = list(first.data.column_names) if first.is_table else range(first.data.shape[1])

    def _fresh(self) -> Iterator[Any]:
        """Return a new iterator, or say that the function gave an old one."""
        source = iter(self._make())
        if self.repeatable and source is self._previous:
            raise ValueError("the function gave the same iterator twice: it must return a new one on every call")
        self._previous = source
        return source

    def _peek(self) -> Piece:
        """Look at the first block; for an iterator that runs only once it is kept."""
        source = self._fresh()
        try:
            block = next(source)
        except StopIteration:
            raise ValueError(self.nothing) from None
        if self.repeatable:
            _close(source)
        else:
            self._held, self._rest = [block], source
        return self._piece(block, 0)

    def look(self, rows: int, size: int) -> Iterator[Piece]:
        """Yield the first pieces, at least ``rows`` rows; they will come again when the rows are read."""
        if self.repeatable:
            yield from self.pieces(0, None, 0, size)
            return
        assert self._rest is not None
        seen = 0
        for number in itertools.count():
            if number >= len(self._held):
                block = next(self._rest, None)
                if block is None:
                    return
                self._held.append(block)
            piece = self._piece(self._held[number], seen)
            yield piece
            seen += piece.n
            if seen >= rows:
                return

    def pieces(self, part: int, columns: Sequence[Any] | None, start: int, size: int) -> Iterator[Piece]:
        """Yield the blocks as they come, without the first ``start`` rows."""
        if self.repeatable:
            blocks: Iterator[Any] = self._fresh()
        else:
            if self._opened or self._rest is None:
                raise ValueError(
                    "an iterator can be read only once, and it was: pass a function that returns a new iterator"
                )
            self._opened = True
            held, self._held = self._held, []
            blocks = itertools.chain(held, self._rest)
        seen = 0
        try:
            for block in blocks:
                piece = self._piece(block, seen)
                seen += piece.n
                if seen > start:
                    yield piece.from_row(max(0, start - piece.first))
        finally:
            _close(blocks)

    def _piece(self, block: Any, first: int) -> Piece:
        target = None
        if self._has_target:
            if not isinstance(block, tuple) or len(block) != 2:
                raise ValueError("with target=True an iterator gives pairs (rows, target)")
            block, target = block
        if target is not None:
            refuse_masked_targets(target, first)
            target = np.asarray(target)
        table = as_table(block)
        if table is not None:
            return self._with_target(Piece(table, "", first, target))
        refuse_masked(block, first)
        try:
            X = sp.csr_array(block) if sp.issparse(block) else np.asarray(block)
        except ValueError:
            raise ValueError(
                f"block from row {first} on is no array: pairs (rows, target) need target=True, and all rows the "
                "same number of columns"
            ) from None
        if X.ndim != 2 or X.dtype.kind not in "fbui":
            raise TypeError(
                f"block from row {first} on: blocks must be 2-D arrays of numbers or tables; this one has shape "
                f"{X.shape} and type {X.dtype}"
            )
        if hasattr(self, "names") and X.shape[1] != len(self.names):
            before = len(self.names)
            raise ValueError(f"rows from row {first} on have {X.shape[1]} columns; the rows before had {before}")
        return self._with_target(Piece(floats(X), "", first, target))

    @staticmethod
    def _with_target(piece: Piece) -> Piece:
        if piece.target is not None and len(piece.target) != piece.n:
            raise ValueError(f"block from row {piece.first} on: {piece.n} rows and {len(piece.target)} targets")
        return piece

    def fingerprint(self) -> str:
        """Return nothing: what an iterator will give cannot be known."""
        return ""


def _close(blocks: Any) -> None:
    """End a generator now: the file, cursor or connection that it holds open is free for the next pass."""
    if isinstance(blocks, Generator):
        blocks.close()


def floats(X: Any) -> Any:
    """Return numbers as float32 or float64."""
    return X.astype(np.float32 if X.dtype in (np.float16, np.float32) else np.float64, copy=False)


def refuse_masked_targets(target: Any, first: int = 0) -> None:
    """Refuse targets with masked values: numpy would pass on what the mask hides."""
    try:
        refuse_masked(target, first)
    except ValueError as error:
        raise ValueError(f"the target of {error}") from None


def _check_mapped(X: Any) -> None:
    """Refuse a memory map whose file has become shorter: to look at what is gone would end the process."""
    path = getattr(X, "filename", None) if isinstance(X, np.memmap) else None
    if path is None or not os.path.exists(path):  # a deleted file stays readable through its map
        return
    whole: Any = X
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    there, needed = os.path.getsize(path), int(getattr(whole, "offset", 0)) + int(whole.nbytes)
    if there < needed:
        name = os.path.basename(path)
        raise ValueError(f"{name} was cut short while it was read: it has {there:,} bytes, {needed:,} are needed")


def _in(path: Path | None, message: str) -> str:
    return message if path is None else f"{os.fspath(path.name)}: {message}"
