"""Row sources: whatever the rows come from, blocks of numbers come out, the same ones every time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core import engine
from squeak.core.rows import check_rows, same_rows, take
from squeak.core.seeds import ORDER, generator_at
from squeak.core.sources.columns import ColumnError, kind_of, numbers, texts
from squeak.core.sources.files import CsvFormat
from squeak.core.sources.learning import Request, learn, select
from squeak.core.sources.pieces import Piece
from squeak.core.sources.preprocessing import Preprocessing, finite_matrix
from squeak.core.sources.readers import ArrayReader, IteratorReader, Reader
from squeak.core.types import IntArray, Rows

BLOCK_BYTES = 32 * 2**20
LARGEST_BLOCK, SMALLEST_BLOCK = 65_536, 256


def block_rows(width: int) -> int:
    """Return how many rows of ``width`` numbers make a block: 32 MB of them, from 256 to 65,536."""
    return int(np.clip(BLOCK_BYTES // (8 * max(width, 1)), SMALLEST_BLOCK, LARGEST_BLOCK))


@dataclass(frozen=True)
class Cursor:
    """A place between two rows of a source: the part (in reading order), its rows read, and what came of all."""

    part: int = 0
    row: int = 0
    kept: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class Block:
    """Rows ready for a kernel, their targets, and the place where the next block begins."""

    X: Rows
    y: Any
    cursor: Cursor


class RowSource:
    """Rows that are read block by block, as often as their origin allows; made by :func:`squeak.rows`.

    Iterating gives blocks of rows, or pairs (rows, target). The cut into blocks depends on the rows alone, so the
    same rows give the same blocks from an array, a file or an iterator.

    Parameters
    ----------
    reader : Reader
        Gives the rows as they stand.
    request : Request
        What is asked of the preprocessing.
    target : str, int, True or None
    skip : bool
        Whether rows with missing or infinite values are skipped and counted, or refused.
    preprocessing : Preprocessing, optional
        One that was learned before; ``request`` is then not looked at.
    learned : bool
        Whether ``preprocessing`` is final, even if it is None.
    shuffle_seed : int or None
        Read the parts in a random order.
    form : CsvFormat, optional
        How the CSV files are written.

    Examples
    --------
    >>> import numpy as np, squeak
    >>> source = squeak.rows(np.arange(12.0).reshape(6, 2), scale="standard")
    >>> source
    RowSource(6 rows, 2 columns, 1 part, 2 features)
    >>> [block.shape for block in source]
    [(6, 2)]
    """

    def __init__(
        self,
        reader: Reader,
        request: Request,
        *,
        target: Any = None,
        skip: bool = False,
        preprocessing: Preprocessing | None = None,
        learned: bool = False,
        shuffle_seed: int | None = None,
        form: CsvFormat | None = None,
    ) -> None:
        self.reader, self.target, self.skip = reader, target, skip
        self._form, self._shuffle_seed = form or CsvFormat(), shuffle_seed
        self._request = request
        self._inside = target if isinstance(target, str | int) and not isinstance(target, bool) else None
        if preprocessing is None:
            self._names: Sequence[Any] = select(list(reader.names), request, self._inside)
        else:
            self._names = self._names_for(preprocessing)
        self._learned, self._preprocessing = learned or preprocessing is not None, preprocessing
        if shuffle_seed is not None and reader.n_parts < 2:
            raise ValueError("there is only one part (row group, or CSV file), so there is no order to shuffle")
        self.skipped_ = 0

    def _names_for(self, preprocessing: Preprocessing) -> Sequence[Any]:
        if preprocessing.width is not None:
            return select(list(self.reader.names), Request(), self._inside)
        wanted = Request(columns=preprocessing.column_names)
        return select(list(self.reader.names), wanted, self._inside)

    @property
    def preprocessing(self) -> Preprocessing | None:
        """How columns become numbers, learned from the first rows; None where an array passes as it is."""
        if not self._learned:
            pieces = [piece for piece in self._first_pieces() if piece.n]
            if not pieces:
                raise ValueError("there are no rows")
            self._preprocessing, self._learned = learn(pieces, self._names, self._request), True
        return self._preprocessing

    def _first_pieces(self) -> list[Piece]:
        """Return the first rows in reading order; an iterator keeps them for the reading."""
        wanted, found, total = self._request.learn_rows, [], 0
        if isinstance(self.reader, IteratorReader):
            pieces: Iterator[Piece] = self.reader.look(wanted, LARGEST_BLOCK)
        else:
            pieces = (piece for part in self._order() for piece in self._part_pieces(int(part), 0, wanted))
        for piece in pieces:
            found.append(piece.up_to(wanted - total))
            total += piece.n
            if total >= wanted:
                break
        return found

    def begins_with(self, row: Rows) -> bool:
        """Tell whether the first row kept is the one given; what cannot be read twice is not used up."""
        for piece in self._first_pieces():
            X, _, _ = self._encode(piece)
            if X.shape[0]:
                return same_rows(take(X, slice(0, 1)), row)
        return False

    def _part_pieces(self, part: int, start: int, size: int) -> Iterator[Piece]:
        columns = None
        if not isinstance(self.reader, ArrayReader | IteratorReader):
            columns = [*self._names, *([] if self._inside is None else [self._inside])]
        return self.reader.pieces(part, columns, start, size)

    def _order(self) -> IntArray:
        if self._shuffle_seed is None:
            return np.arange(self.reader.n_parts)
        return generator_at(self._shuffle_seed, ORDER).permutation(self.reader.n_parts)

    @property
    def n_rows(self) -> int | None:
        """The number of rows before any are skipped; None where only reading them all would tell."""
        return self.reader.n_rows

    @property
    def n_parts(self) -> int:
        """The number of parts that can be read apart: row groups, files, or stretches of an array."""
        return self.reader.n_parts

    @property
    def repeatable(self) -> bool:
        """Whether the rows can be read more than once."""
        return self.reader.repeatable

    @property
    def feature_names(self) -> tuple[str, ...]:
        """A name for every number of a row."""
        if self.preprocessing is None:
            return tuple(str(name) for name in self._names)
        return self.preprocessing.feature_names

    @property
    def fingerprint(self) -> str:
        """A text that is the same for the same data read in the same way; empty for an iterator."""
        data = self.reader.fingerprint()
        return data and f"{data}-{self.target!r}-{self.skip}-{self._shuffle_seed}"

    @property
    def recipe(self) -> dict[str, Any] | None:
        """How to open the source again, as JSON data; None for what lives in memory."""
        if self.reader.recipe is None or not isinstance(self.target, str | int | None):
            return None
        form = {**asdict(self._form), "na_values": list(self._form.na_values)}
        return {
            **self.reader.recipe,
            "target": self.target,
            "skip": self.skip,
            "shuffle_seed": self._shuffle_seed,
            "form": form,
        }

    def __repr__(self) -> str:
        rows = "? rows" if self.n_rows is None else f"{self.n_rows:,} rows"
        parts = "1 part" if self.n_parts == 1 else f"{self.n_parts:,} parts"
        known = f", {len(self.feature_names):,} features" if self._learned or self.repeatable else ""
        return f"RowSource({rows}, {len(self._names):,} columns, {parts}{known})"

    def __iter__(self) -> Iterator[Any]:
        for block in self.blocks():
            yield block.X if self.target is None else (block.X, block.y)

    def collect(self) -> tuple[Rows, Any]:
        """Return all rows in memory, and their targets (None without a target)."""
        blocks = [(block.X, block.y) for block in self.blocks()]
        whole = _joined(blocks, Cursor())
        return whole.X, whole.y

    def blocks(self, start: Cursor | None = None) -> Iterator[Block]:
        """Yield the rows in blocks, from a place on; all but the last have :func:`block_rows` rows.

        Files are read one block ahead on a thread of their own. ``skipped_`` counts the rows skipped so far.
        """
        size = LARGEST_BLOCK if self.reader.sparse else block_rows(len(self.feature_names))
        blocks = _cut(self._encoded(start or Cursor(), size), size)
        yield from engine.ahead(blocks) if self.reader.ahead else blocks

    def _encoded(self, start: Cursor, size: int) -> Iterator[_Encoded]:
        """Yield the kept rows piece by piece, with the place that each of them ends at."""
        kept, skipped = start.kept, start.skipped
        for part, number in enumerate(self._order().tolist()):
            if part < start.part:
                continue
            row = start.row if part == start.part else 0
            for piece in self._part_pieces(number, row, size):
                X, y, which = self._encode(piece)
                ends = row + 1 + (np.arange(piece.n) if which is None else which)
                if len(ends):
                    yield _Encoded(X, y, ends, Cursor(part, row, kept, skipped))
                kept, skipped, row = kept + len(ends), skipped + piece.n - len(ends), row + piece.n
                self.skipped_ = skipped
            skipped += self.reader.skipped_lines
            self.skipped_ = skipped
        if kept == 0:
            raise ValueError(f"there are no rows{f': all {skipped:,} were skipped' if skipped else ''}")

    def _encode(self, piece: Piece) -> tuple[Rows, Any, IntArray | None]:
        """Return the rows of a piece that are kept, their targets, and which they are (None for all)."""
        preprocessing = self.preprocessing
        y = None if self.target is None else self._target_values(piece)
        data = piece
        if self._inside is not None and not piece.is_table:
            data = replace(piece, data=piece.data[:, [c for c in range(piece.data.shape[1]) if c != self._inside]])
        if preprocessing is None:
            X, which, _ = finite_matrix(data.data, data, self.skip)
        else:
            X, which, _ = preprocessing.apply(piece if preprocessing.width is not None else data, skip=self.skip)
        if y is None:
            return X, None, which
        y = y if which is None else y[which]
        bad = _missing(y)
        if not bad.any():
            return X, y, which
        if not self.skip:
            at = int(np.argmax(bad))
            row = piece.row(at if which is None else int(which[at]))
            raise ValueError(
                f"{row}: the target {_quoted(self.target)}is {y[at]}; skip such rows with on_bad_rows='skip'"
            )
        whole = np.flatnonzero(~bad)
        return X[whole], y[whole], whole if which is None else which[whole]

    def _target_values(self, piece: Piece) -> Any:
        """Return the targets of a piece: numbers, or text for classes."""
        if self._inside is None:
            if piece.target is None:
                raise ValueError(f"target={self.target!r} asks for targets that the source does not give")
            values = np.asarray(piece.target)
            return values.astype(np.float64) if values.dtype.kind in "bui" else values
        if not piece.is_table:
            return piece.data[:, self._inside].astype(np.float64)
        column = piece.data.column(self._inside)
        try:
            if kind_of(column.type) == "text":
                return texts(column).to_numpy(zero_copy_only=False).astype(object)
            return numbers(column, str(self._inside)).astype(np.float64)
        except ColumnError as error:
            raise ValueError(piece.words(str(error))) from None


def gather(X: Any, kernel: Any) -> tuple[Rows, Preprocessing | None]:
    """Return all rows of an array or of a row source, checked, and how they were preprocessed."""
    if isinstance(X, RowSource):
        return check_rows(X.collect()[0], kernel), X.preprocessing
    return check_rows(X, kernel), None


@dataclass(frozen=True)
class _Encoded:
    """Kept rows of one piece; ``ends[i]`` rows of the part are read once row i is."""

    X: Rows
    y: Any
    ends: IntArray
    begin: Cursor

    def after(self, rows: int) -> Cursor:
        """Return the place after the first ``rows`` of them."""
        end, begin = int(self.ends[rows - 1]), self.begin
        return Cursor(begin.part, end, begin.kept + rows, begin.skipped + end - begin.row - rows)

    def take(self, start: int, stop: int) -> tuple[Rows, Any]:
        if start == 0 and stop == len(self.ends):
            return self.X, self.y
        return self.X[start:stop], None if self.y is None else self.y[start:stop]


def _cut(pieces: Iterator[_Encoded], size: int) -> Iterator[Block]:
    """Cut pieces of any sizes into blocks of ``size`` rows; the last may be shorter."""
    waiting: list[tuple[Rows, Any]] = []
    room, cursor = size, Cursor()
    for piece in pieces:
        at, n = 0, len(piece.ends)
        while at < n:
            stop = min(n, at + room)
            waiting.append(piece.take(at, stop))
            cursor, room, at = piece.after(stop), room - (stop - at), stop
            if room == 0:
                yield _joined(waiting, cursor)
                waiting, room = [], size
    if waiting:
        yield _joined(waiting, cursor)


def _joined(parts: list[tuple[Rows, Any]], cursor: Cursor) -> Block:
    X, y = parts[0]
    if len(parts) > 1:
        rows = [part for part, _ in parts]
        if any(sp.issparse(part) != sp.issparse(X) for part in rows):
            raise TypeError("the blocks of a source must be all dense or all sparse")
        X = sp.csr_array(sp.vstack(rows, format="csr")) if sp.issparse(X) else np.concatenate(rows)
        y = None if y is None else np.concatenate([target for _, target in parts])
    return Block(X, y, cursor)


def _missing(y: Any) -> Any:
    if y.dtype.kind == "O":
        return np.array([value is None for value in y])
    bad = ~np.isfinite(y) if y.dtype.kind == "f" else np.zeros(y.shape, dtype=bool)
    return bad.any(axis=1) if bad.ndim == 2 else bad


def _quoted(target: Any) -> str:
    return f"{target!r} " if isinstance(target, str | int) and not isinstance(target, bool) else ""
