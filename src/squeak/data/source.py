"""Row sources: whatever the rows come from, blocks of numbers come out, the same ones every time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.rows import check_rows, same_rows, take
from squeak.core.seeds import ORDER, generator_at
from squeak.core.types import IntArray, Rows
from squeak.data.blocks import SMALLEST_BLOCK, Block, Cursor, Encoded, block_rows, cut, joined
from squeak.data.csv_text import CsvFormat
from squeak.data.learning import Request, learn, select
from squeak.data.pieces import Piece, finite_matrix
from squeak.data.preprocessing import Preprocessing, Strange, missing_column
from squeak.data.readers import IteratorReader, Reader
from squeak.data.remote import RemoteFile
from squeak.data.targets import is_name, targets_of

LEARN_BYTES = 64 * 2**20
"""Scales and categories are learned from no more than this."""


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
            pieces: Iterator[Piece] = (self._split(piece) for piece in self.reader.look(wanted, block_rows(1)))
        else:
            pieces = (piece for part in self._order() for piece in self._part_pieces(int(part), 0, wanted))
        for piece in pieces:
            found.append(piece.up_to(wanted - total))
            total += piece.n
            if total >= wanted:
                break
        return found

    def check_preprocessed(self, known: Preprocessing | None, than: str, name: str) -> None:
        """Refuse rows that were preprocessed in another way than those of an object, which has it by that name."""
        if self.preprocessing != known:
            raise ValueError(
                f"these rows were preprocessed in another way than {than}: make them with "
                f"squeak.rows(..., preprocessing={name})"
            )

    def begins_with(self, row: Rows) -> bool:
        """Tell whether the first row kept is the one given; what cannot be read twice is not used up."""
        for piece in self._first_pieces():
            X, _, _ = self._encode(piece)
            if X.shape[0]:
                return same_rows(take(X, slice(0, 1)), row)
        return False

    def kept_pieces(self) -> Iterator[tuple[Piece, IntArray]]:
        """Yield the rows as they stand, with all their columns, and which rows of each piece are kept."""
        for part in self._order().tolist():
            for piece in self.reader.pieces(part, list(self.reader.names), 0, block_rows(1)):
                which = None
                if self.skip:
                    needed = replace(piece, data=piece.data.select(self._wanted())) if piece.is_table else piece
                    which = self._encode(self._split(needed))[2]
                yield piece, np.arange(piece.n) if which is None else which

    def blocks_with(self, names: Sequence[str]) -> Iterator[tuple[Block, Any]]:
        """Yield the kept rows as they are read, each block with a table of some columns of the same rows.

        The columns come as they stand in the source; they need not be those that rows are made of. Files are read
        one block ahead, as by :meth:`blocks`.
        """
        for name in names:
            if name not in self._known_names or isinstance(self.reader.names, range):
                raise ValueError(missing_column(str(name), list(map(str, self.reader.names))))
        blocks = self._blocks_with(names)
        yield from engine.ahead(blocks) if self.reader.ahead else blocks

    def _blocks_with(self, names: Sequence[str]) -> Iterator[tuple[Block, Any]]:
        wanted, before, strange = self._wanted(), 0, Strange()
        size, self.skipped_ = block_rows(len(self.feature_names), self.reader.sparse), 0
        for part in self._order().tolist():
            first = before
            for piece in self.reader.pieces(part, [*wanted, *(set(names) - set(wanted))], 0, size):
                needed = replace(piece, data=piece.data.select(wanted)) if piece.is_table else piece
                X, y, which = self._encode(self._split(needed), strange)
                kept = np.arange(piece.n) if which is None else which
                if len(kept):
                    others = piece.data.select(list(names)).take(kept) if names else None
                    yield Block(X, y, numbers=before + kept), others
                before, self.skipped_ = before + piece.n, self.skipped_ + piece.n - len(kept)
            self._check_count(part, before - first)
            self.skipped_ += self.reader.skipped_lines
        if self._given:
            strange.warn()
        if before == self.skipped_:
            raise ValueError("there are no rows" + (f": all {before:,} were skipped" if before else ""))

    def _wanted(self) -> list[Any]:
        return [*self._names, *([] if self._column_of_target is None else [self._column_of_target])]

    def _part_pieces(self, part: int, start: int, size: int) -> Iterator[Piece]:
        """Yield a part's pieces with only the columns that are needed, the target apart."""
        for piece in self.reader.pieces(part, self._wanted(), start, size):
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
    def column_names(self) -> tuple[Any, ...]:
        """The columns that rows are made of: their names, or their numbers where there are none."""
        return tuple(self._names)

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
        whole = joined(list(self.blocks()))
        return whole.X, whole.y

    def blocks(self, start: Cursor | None = None, apart: bool = False) -> Iterator[Block]:
        """Yield the rows in blocks, from a place on; all but the last have :func:`block_rows` rows.

        Files are read one block ahead on a thread of their own. ``skipped_`` counts the rows skipped so far. With
        ``apart`` no block has rows of two parts: they are the blocks of :meth:`part_pairs`, part after part.
        """
        size = block_rows(len(self.feature_names), self.reader.sparse)
        pieces = self._encoded(start or Cursor(), size)
        blocks = (one.take(0, len(one.ends)) for one in pieces) if self.reader.live else cut(pieces, size, apart)
        yield from engine.ahead(blocks) if self.reader.ahead else blocks

    def part_name(self, first: int, stop: int) -> str:
        """Return words for some parts, in reading order."""
        order = self._order()
        names = list(dict.fromkeys(self.reader.part_name(int(part)) for part in order[first:stop]))
        return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"

    def alone(self, first: int, stop: int) -> RowSource:
        """Return a source of which parts ``first`` to ``stop`` − 1 can be read, for the way to another process.

        Rows in memory come along for these parts only; those of files are read where the source is then.
        """
        found = RowSource.__new__(RowSource)  # what was added to a source on the way stays here
        found.__dict__.update(self.__dict__, _preprocessing=self.preprocessing, _learned=True)
        found.target = self.target if self.target is None or is_name(self.target) else True
        parts = self._order()[first:stop]
        low, high = int(parts.min()), int(parts.max()) + 1
        found.reader = self.reader.alone(low, high) if high - low == len(parts) else self.reader
        return found

    def part_blocks(self, first: int, stop: int) -> Iterator[Rows]:
        """Yield the rows of parts ``first`` to ``stop`` − 1, in reading order, in blocks; what a leaf reads."""
        for block in self.part_pairs(first, stop):
            yield block.X

    def part_pairs(self, first: int, stop: int) -> Iterator[Block]:
        """Yield the rows of parts ``first`` to ``stop`` − 1 with their targets, in blocks."""
        size = block_rows(len(self.feature_names), self.reader.sparse)
        yield from cut(self._encoded(Cursor(part=first), size, stop), size)

    def _encoded(self, start: Cursor, size: int, stop: int | None = None) -> Iterator[Encoded]:
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
                    yield Encoded(X, y, ends, Cursor(part, row, kept, skipped), before)
                kept, skipped, row = kept + len(ends), skipped + piece.n - len(ends), row + piece.n
                self.skipped_ = skipped
            self._check_count(number, row)
            skipped += self.reader.skipped_lines
            self.skipped_ = skipped
            before += row
        if self._given:
            strange.warn()
        if kept == 0 and stop is None:  # a part may be empty
            raise ValueError(f"there are no rows{f': all {skipped:,} were skipped' if skipped else ''}")

    def check_unchanged(self) -> None:
        """Refuse files of this machine that were changed or replaced since they were opened.

        Workers know the sizes of files alone, so whoever has opened them asks when the workers are done.
        """
        files = {self.reader.part_path(part): part for part in range(self.n_parts)}
        for path, part in files.items():
            if not isinstance(path, RemoteFile):  # its time travels, and workers ask for themselves
                self.reader.check_unchanged(part)

    def _check_count(self, part: int, rows: int) -> None:
        """Refuse a part that was changed while it was read, or had another number of rows the first time."""
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
        if preprocessing is None:
            X, which = finite_matrix(piece, self.skip)
        else:
            X, which = preprocessing.apply(piece, skip=self.skip, strange=strange, own=not self._given)
        if self.target is None:
            return X, None, which
        y, whole = targets_of(piece, self.target, which, self.skip)
        if whole is None:
            return X, y, which
        return X[whole], y, whole if which is None else which[whole]


def gather(X: Any, kernel: Any) -> tuple[Rows, Preprocessing | None]:
    """Return all rows of an array or of a row source, checked, and how they were preprocessed."""
    if isinstance(X, RowSource):
        return check_rows(X.collect()[0], kernel), X.preprocessing
    return check_rows(X, kernel), None


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
