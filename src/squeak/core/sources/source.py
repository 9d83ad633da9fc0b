"""Row sources: whatever the rows come from, blocks of numbers come out, the same ones every time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core import engine
from squeak.core.rows import check_rows, same_rows, take
from squeak.core.seeds import ORDER, generator_at
from squeak.core.sources.columns import ColumnError, kind_of, numbers, texts
from squeak.core.sources.csv_files import CsvFormat
from squeak.core.sources.learning import Request, learn, select
from squeak.core.sources.pieces import Piece
from squeak.core.sources.preprocessing import Preprocessing, Strange, finite_matrix, missing_column
from squeak.core.sources.readers import IteratorReader, Reader
from squeak.core.types import IntArray, Rows

BLOCK_BYTES = 32 * 2**20
LARGEST_BLOCK, SMALLEST_BLOCK = 65_536, 256
LEARN_BYTES = 64 * 2**20
"""Scales and categories are learned from no more than this."""


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
    """Rows ready for a kernel, their targets, and the place where the next block begins.

    ``numbers`` says which rows of the source they are, in reading order from 0: rows that are skipped count, lines
    of a CSV file that are no rows do not.
    """

    X: Rows
    y: Any
    cursor: Cursor
    numbers: IntArray


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
    >>> [block.shape for block in source]
    [(6, 2)]
    >>> source
    RowSource(6 rows, 2 columns, 1 part, 2 features)
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
        names = list(reader.names)
        self._known_names = set(names)
        self._column_of_target = self._known(target) if is_name(target) else None
        self._request = request.named(self._known)
        if self._column_of_target is not None and self._column_of_target not in self._known_names:
            raise ValueError(missing_column(str(target), names))
        left = [name for name in names if name != self._column_of_target]
        if preprocessing is not None and preprocessing.width is None:
            self._request = Request(columns=preprocessing.column_names)
        self._names: Sequence[Any] = select(left, self._request)
        place = {name: position for position, name in enumerate(left)}
        self._positions = [place[name] for name in self._names]
        self._learned, self._preprocessing = learned or preprocessing is not None, preprocessing
        if shuffle_seed is not None and reader.n_parts < 2:
            raise ValueError("there is only one part (row group, or CSV file), so there is no order to shuffle")
        self.skipped_ = 0
        self._given = preprocessing is not None and not learned
        self._rows_of: dict[int, int] = {}

    def _known(self, name: Any) -> Any:
        """Return a column's name as the reader has it: 0 and "0" are the same column."""
        if name in self._known_names or not isinstance(name, str | int | np.integer):
            return name
        if isinstance(self.reader.names, range):
            return int(name) if isinstance(name, np.integer) or str(name).isdigit() else name
        return str(name)

    @property
    def preprocessing(self) -> Preprocessing | None:
        """How columns become numbers, learned from the first rows; None where an array passes as it is."""
        if not self._learned:
            pieces = [piece for piece in self._first_pieces() if piece.n]
            if not pieces:
                raise ValueError("there are no rows")
            narrow = self.reader.float32
            float32 = narrow is not None and all(name in narrow for name in self._names)
            self._preprocessing = learn(pieces, self._names, self._positions, self._request, float32=float32)
            self._learned = True
        return self._preprocessing

    def _first_pieces(self) -> list[Piece]:
        """Return the first rows in reading order, 64 MB at most; an iterator keeps them for the reading."""
        affordable = max(SMALLEST_BLOCK, LEARN_BYTES // (8 * max(1, len(self._names))))
        wanted, found, total = min(int(self._request.learn_rows), affordable), [], 0
        if isinstance(self.reader, IteratorReader):
            pieces: Iterator[Piece] = (self._split(piece) for piece in self.reader.look(wanted, LARGEST_BLOCK))
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
        """Yield a part's pieces with only the columns that are needed, the target apart."""
        target = [] if self._column_of_target is None else [self._column_of_target]
        for piece in self.reader.pieces(part, [*self._names, *target], start, size):
            yield self._split(piece)

    def _split(self, piece: Piece) -> Piece:
        return piece if self._column_of_target is None else piece.without_target(self._column_of_target)

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
        target = self.target if is_name(self.target) else ""
        return data and f"{data}-{target}-{self.skip}-{self._shuffle_seed}"

    @property
    def recipe(self) -> dict[str, Any] | None:
        """How to open the source again, as JSON data; None for what lives in memory."""
        if self.reader.recipe is None or not (self.target is None or is_name(self.target)):
            return None
        form = {**asdict(self._form), "na_values": list(self._form.na_values)}
        return {
            **self.reader.recipe,
            "target": self._column_of_target,
            "skip": self.skip,
            "shuffle_seed": self._shuffle_seed,
            "form": form,
        }

    def __repr__(self) -> str:
        rows = "? rows" if self.n_rows is None else f"{self.n_rows:,} rows"
        parts = "1 part" if self.n_parts == 1 else f"{self.n_parts:,} parts"
        known = f", {len(self.feature_names):,} features" if self._learned else ""
        return f"RowSource({rows}, {len(self._names):,} columns, {parts}{known})"

    def __iter__(self) -> Iterator[Any]:
        for block in self.blocks():
            yield block.X if self.target is None else (block.X, block.y)

    def collect(self) -> tuple[Rows, Any]:
        """Return all rows in memory, and their targets (None without a target)."""
        whole = _joined(list(self.blocks()))
        return whole.X, whole.y

    def blocks(self, start: Cursor | None = None) -> Iterator[Block]:
        """Yield the rows in blocks, from a place on; all but the last have :func:`block_rows` rows.

        Files are read one block ahead on a thread of their own. ``skipped_`` counts the rows skipped so far.
        """
        size = LARGEST_BLOCK if self.reader.sparse else block_rows(len(self.feature_names))
        blocks = _cut(self._encoded(start or Cursor(), size), size)
        yield from engine.ahead(blocks) if self.reader.ahead else blocks

    def part_name(self, first: int, stop: int) -> str:
        """Return words for some parts, in reading order."""
        order = self._order()
        names = list(dict.fromkeys(self.reader.part_name(int(part)) for part in order[first:stop]))
        return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"

    def part_blocks(self, first: int, stop: int) -> Iterator[Rows]:
        """Yield the rows of parts ``first`` to ``stop`` − 1, in reading order, in blocks; what a leaf reads."""
        for block in self.part_pairs(first, stop):
            yield block.X

    def part_pairs(self, first: int, stop: int) -> Iterator[Block]:
        """Yield the rows of parts ``first`` to ``stop`` − 1 with their targets, in blocks."""
        size = LARGEST_BLOCK if self.reader.sparse else block_rows(len(self.feature_names))
        yield from _cut(self._encoded(Cursor(part=first), size, stop), size)

    def _encoded(self, start: Cursor, size: int, stop: int | None = None) -> Iterator[_Encoded]:
        """Yield the kept rows piece by piece, with the place that each of them ends at."""
        kept, skipped = start.kept, start.skipped
        strange = Strange()
        before = kept + skipped - start.row
        for part, number in enumerate(self._order().tolist()[:stop]):
            if part < start.part:
                continue
            row = start.row if part == start.part else 0
            for piece in self._part_pieces(number, row, size):
                X, y, which = self._encode(piece, strange)
                ends = row + 1 + (np.arange(piece.n) if which is None else which)
                if len(ends):
                    yield _Encoded(X, y, ends, Cursor(part, row, kept, skipped), before)
                kept, skipped, row = kept + len(ends), skipped + piece.n - len(ends), row + piece.n
                self.skipped_ = skipped
            self._check_count(number, row)
            skipped += self.reader.skipped_lines
            self.skipped_ = skipped
            before += row
        if self._given:
            strange.warn()
        if kept == 0:
            raise ValueError(f"there are no rows{f': all {skipped:,} were skipped' if skipped else ''}")

    def _check_count(self, part: int, rows: int) -> None:
        """Refuse a part that was read before and had another number of rows then."""
        if part in self._rows_of:
            self.reader.check_unchanged(part)
        before = self._rows_of.setdefault(part, rows)
        if before != rows:
            where = self.reader.part_name(part) if self.n_parts > 1 or self.recipe is not None else "the source"
            raise ValueError(
                f"{where} had {before:,} rows when it was first read and has {rows:,} now: every pass must give "
                "the same rows, so open it again with squeak.rows when it has changed"
            )

    def _encode(self, piece: Piece, strange: Strange | None = None) -> tuple[Rows, Any, IntArray | None]:
        """Return the rows of a piece that are kept, their targets, and which they are (None for all)."""
        preprocessing = self.preprocessing
        y = None if self.target is None else _target_values(piece, self.target)
        if preprocessing is None:
            X, which = finite_matrix(piece, self.skip)
        else:
            X, which = preprocessing.apply(piece, skip=self.skip, strange=strange)
        if y is None:
            return X, None, which
        y = y if which is None else y[which]
        bad = _missing(y)
        if not bad.any():
            return X, self._truth(piece, y), which
        if not self.skip:
            at = int(np.argmax(bad))
            row = piece.row(at if which is None else int(which[at]))
            raise ValueError(
                f"{row}: the target {_quoted(self.target)}is {y[at]}; skip such rows with on_bad_rows='skip'"
            )
        whole = np.flatnonzero(~bad)
        return X[whole], self._truth(piece, y[whole]), whole if which is None else which[whole]

    def _truth(self, piece: Piece, y: Any) -> Any:
        """Return targets that are truth values as such, now that none is missing: they are classes, not numbers."""
        kind = getattr(piece.target, "type", None) or getattr(piece.target, "dtype", None)
        return y.astype(np.bool_) if str(kind) == "bool" else y


def _target_values(piece: Piece, target: Any) -> Any:
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


def is_name(target: Any) -> bool:
    """Tell whether a target is the name or the number of a column (not the targets themselves, or True)."""
    return isinstance(target, str | int | np.integer) and not isinstance(target, bool)


def gather(X: Any, kernel: Any) -> tuple[Rows, Preprocessing | None]:
    """Return all rows of an array or of a row source, checked, and how they were preprocessed."""
    if isinstance(X, RowSource):
        return check_rows(X.collect()[0], kernel), X.preprocessing
    return check_rows(X, kernel), None


@dataclass(frozen=True)
class _Encoded:
    """Kept rows of one piece; ``ends[i]`` rows of the part are read once row i is, ``before`` in earlier parts."""

    X: Rows
    y: Any
    ends: IntArray
    begin: Cursor
    before: int

    def after(self, rows: int) -> Cursor:
        """Return the place after the first ``rows`` of them."""
        end, begin = int(self.ends[rows - 1]), self.begin
        return Cursor(begin.part, end, begin.kept + rows, begin.skipped + end - begin.row - rows)

    def take(self, start: int, stop: int) -> Block:
        """Return some of the rows."""
        numbers = self.before + self.ends[start:stop] - 1
        if start == 0 and stop == len(self.ends):
            return Block(self.X, self.y, self.after(stop), numbers)
        y = None if self.y is None else self.y[start:stop]
        return Block(self.X[start:stop], y, self.after(stop), numbers)


def _cut(pieces: Iterator[_Encoded], size: int) -> Iterator[Block]:
    """Cut pieces of any sizes into blocks of ``size`` rows; the last may be shorter."""
    waiting: list[Block] = []
    room = size
    for piece in pieces:
        at, n = 0, len(piece.ends)
        while at < n:
            stop = min(n, at + room)
            waiting.append(piece.take(at, stop))
            room, at = room - (stop - at), stop
            if room == 0:
                yield _joined(waiting)
                waiting, room = [], size
    if waiting:
        yield _joined(waiting)


def _joined(parts: list[Block]) -> Block:
    X, y, numbers = parts[0].X, parts[0].y, parts[0].numbers
    if len(parts) > 1:
        rows = [part.X for part in parts]
        if any(sp.issparse(part) != sp.issparse(X) for part in rows):
            raise TypeError("the blocks of a source must be all dense or all sparse")
        X = sp.csr_array(sp.vstack(rows, format="csr")) if sp.issparse(X) else np.concatenate(rows)
        y = None if y is None else np.concatenate([part.y for part in parts])
        numbers = np.concatenate([part.numbers for part in parts])
    return Block(X, y, parts[-1].cursor, numbers)


def _missing(y: Any) -> Any:
    if y.dtype.kind == "O":
        bad = np.array([_is_missing(value) for value in y.ravel()]).reshape(y.shape)
    elif y.dtype.kind in "mM":
        bad = np.isnat(y)
    else:
        bad = ~np.isfinite(y) if y.dtype.kind == "f" else np.zeros(y.shape, dtype=bool)
    return bad.any(axis=1) if bad.ndim == 2 else bad


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA is neither equal nor unequal
        return True


def _quoted(target: Any) -> str:
    return f"{target!r} " if is_name(target) else ""
