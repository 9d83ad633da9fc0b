"""CSV files, read file by file: never more than a few blocks in memory."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from squeak.core.advice import InputWarning
from squeak.data.columns import kind_of
from squeak.data.csv_faults import (
    KINDS,
    MOST_WORDS,
    Fault,
    WordError,
    bad_bytes,
    bad_value,
    categories_of,
    check_quotes,
    explained,
    fault_of,
    read_but_for_few,
    read_words,
    short,
    types_of,
)
from squeak.data.csv_text import MOST_BYTES, CsvFormat, CsvText
from squeak.data.files import AnyPath, Unchanged, Wanted, compare_kinds, recipe_of, sample
from squeak.data.pieces import Piece
from squeak.data.readers import Reader

MOST_CLASSES = 100
"""A target of no more different numbers, and a few words, may be classes: it stays text."""


class CsvReader(Reader):
    """Rows of CSV files, each a part; numbers are read as float64, and only the columns that are needed.

    ``wanted``: which of the columns are needed. ``skip``: whether lines and values that cannot be read are skipped
    and counted, or refused. ``kinds``: what is known of columns beforehand: "text" for categories, "number",
    "date", "time" and "duration". ``words``: words that are values of the column, though elsewhere they stand for a
    missing one.
    """

    ahead = True

    def __init__(
        self,
        paths: list[AnyPath],
        form: CsvFormat,
        wanted: Wanted,
        *,
        skip: bool,
        kinds: Mapping[str, str] | None = None,
        words: Mapping[str, Collection[str]] | None = None,
        target: Any = None,
    ) -> None:
        self.form, self._skip, self._text = form, skip, CsvText(paths, form, words or {})
        labels = self._text.labels
        self._watched = Unchanged(paths, labels)
        self.skipped_lines = self._longest = 0
        self.float32 = set()
        headers = {path: self._text.header(path) for path in paths}
        self._paths = [path for path, (_, has_rows) in headers.items() if has_rows]
        if not self._paths:
            raise ValueError(f"{labels[paths[0]]} has a header and no rows")
        first = self._paths[0]
        self.names = self._text.names = headers[first][0]
        needed = dict.fromkeys(wanted(self.names), "")
        digest = hashlib.sha256(repr(form).encode())
        for path in self._paths:
            compare_kinds(dict.fromkeys(headers[path][0], ""), needed, labels[path], labels[first])
            digest.update(path.name.encode())
            digest.update(sample(path))
        self._digest = digest.hexdigest()
        self.n_parts = len(self._paths)
        self._odd: dict[str, set[str]] = {}
        self._types: dict[str, Any] = {}
        self._column_types(first, needed, kinds or {}, target)
        self.recipe = recipe_of(paths)

    def _bad_line(self, line: Any) -> str:
        if self._skip:  # a quote that is not closed makes one line of many
            lines = 1 + (line.text or "").rstrip("\r\n").count("\n")
            self.skipped_lines, self._longest = self.skipped_lines + lines, max(self._longest, lines)
            return "skip"
        return "error"

    def _column_types(self, path: AnyPath, needed: Collection[str], kinds: Mapping[str, str], target: Any) -> None:
        """Find the types in the first block; whole numbers are read as float64: fractions may follow."""
        import pyarrow as pa

        numbers = {name: pa.float64() for name in self._text.numbers_at_first(path) if kinds.get(name) != "text"}
        while True:
            try:
                stream, reader = self._text.open(path, numbers, None, self._bad_line)
                with stream, reader:
                    first = next(iter(reader), None)
                    schema = reader.schema
                break
            except (pa.ArrowInvalid, OSError, KeyError) as error:
                if numbers:  # not all of them hold numbers alone, or it is something else: without them Arrow tells
                    numbers = {}
                elif not self._longer(error):
                    raise explained(error, self._text, self._types, path, None) from None
        self.skipped_lines = 0
        for place, field in enumerate(schema):
            name, kind = field.name, kind_of(field.type)
            known = kinds.get(name)
            if known == "text":
                self._types[name] = pa.string()
            elif kind == "empty":
                self._types[name] = next(types_of(known or "number"), pa.float64())
            elif kind == "number" and not pa.types.is_boolean(field.type):
                self._types[name] = pa.float64()
            elif kind == "date" and getattr(field.type, "unit", None) == "ns":
                # Arrow before 16 wraps dates that nanoseconds cannot hold; microseconds hold all of them
                self._types[name], self._odd[name] = pa.timestamp("us", tz=field.type.tz), set()
            else:
                self._types[name] = field.type
            if name in needed and known != "text":
                if pa.types.is_binary(field.type) and (bad := bad_bytes(self._text, path)) is not None:
                    raise bad
                if kind == "text" and first is not None:
                    text = self._text.without_missing(name, first.column(place))
                    self._but_for_words(path, name, text, known, MOST_CLASSES if name == target else 0)

    def _but_for_words(self, path: AnyPath, name: str, text: Any, known: str | None, least: int) -> None:
        """Take a column that is numbers, dates or times but for a few words as such, or refuse the words."""
        found = read_but_for_few(text, known, least)
        if found is None:
            return
        self._types[name], read = found
        if read.words and not self._skip:
            word, row = next(iter(read.words.items()))
            raise bad_value(self._text.labels[path], row, name, word, kind_of(self._types[name]))
        self._odd[name] = set()
        self._say(path, name, read.words)

    def _say(self, path: AnyPath, name: str, words: Collection[str]) -> None:
        """Warn of words that were not met before."""
        new = [word for word in words if word not in self._odd[name]]
        if new and len(self._odd[name]) < MOST_WORDS:
            self._odd[name].update(new)
            some = ", ".join(repr(short(word)) for word in new[:5])
            more = f" and {len(new) - 5:,} more" if len(new) > 5 else ""
            kind = KINDS[kind_of(self._types[name])]
            fact = f"{self._text.labels[path]}: column {name!r} holds {kind} but for {some}{more}, read as missing"
            warnings.warn(InputWarning(fact, categories_of(name)), stacklevel=2)

    def _converted(self, path: AnyPath, batch: Any) -> Any:
        """Return a batch with the columns that may hold words as the types they are of."""
        import pyarrow as pa

        columns = list(batch.columns)
        for place, name in enumerate(batch.schema.names):
            if self._text.keeps_words and kind_of(columns[place].type) == "text":
                columns[place] = self._text.without_missing(name, columns[place])
            if name not in self._odd:
                continue
            read = read_words(columns[place], self._types[name])
            assert read is not None
            if read.words and not self._skip:
                raise WordError
            swallowed = [word for word in read.words if "\n" in word]
            if swallowed:  # a quote that is not closed makes one value of many lines
                texts = [columns[place][int(row)].as_py() for row in read.rows]
                lines = [text.rstrip("\r\n").count("\n") for text in texts]
                self.skipped_lines, self._longest = self.skipped_lines + sum(lines), 1 + max(lines)
            self._say(path, name, read.words)
            columns[place] = read.values
        return pa.table(columns, names=batch.schema.names)

    def pieces(self, part: int, columns: Sequence[Any] | None, start: int, size: int) -> Iterator[Piece]:
        """Yield the rows of a file from row ``start`` of it on."""
        import pyarrow as pa

        path = self._paths[part]
        label = self.part_name(part)
        self._watched.check(path)
        while True:
            seen = self.skipped_lines = self._longest = 0
            types = {name: pa.string() if name in self._odd else one for name, one in self._types.items()}
            try:
                stream, batches = self._text.open(path, types, columns, self._bad_line)
                with stream, batches:
                    for batch in batches:
                        table = self._converted(path, batch)
                        begin, seen = seen, seen + batch.num_rows
                        if seen > start:
                            piece = Piece(table.slice(max(0, start - begin)), label, max(start, begin))
                            start = seen
                            yield piece
                if stream.odd_quotes:
                    check_quotes(self._text, path)
                if self._longest > 1:
                    warnings.warn(
                        f"{label}: {self._longest:,} lines were skipped as one row, for a quote spans them: is it "
                        "not closed?",
                        stacklevel=2,
                    )
                return
            except (pa.ArrowInvalid, pa.ArrowKeyError, OSError, UnicodeDecodeError, WordError) as error:
                self._watched.check(path)
                if not self._longer(error) and not self._with_words(error):
                    raise explained(error, self._text, self._types, path, columns) from None

    def _longer(self, error: BaseException) -> bool:
        """Make blocks longer where a line is too long for one; tell whether to try again."""
        if fault_of(error) is not Fault.long or self._text.block >= MOST_BYTES:
            return False
        self._text.block *= 4
        return True

    def _with_words(self, error: BaseException) -> bool:
        """Read dates of any form, and words as missing where rows may be skipped; tell whether to try again."""
        import pyarrow as pa

        kinds = {name: kind_of(one) for name, one in self._types.items() if name not in self._odd}
        kinds = {name: kind for name, kind in kinds.items() if kind == "date" or (self._skip and kind in KINDS)}
        if fault_of(error) is not Fault.value or not kinds:
            return False
        for name, kind in kinds.items():
            self._odd[name] = set()
            if kind == "date":
                self._types[name] = pa.timestamp("us", tz=getattr(self._types[name], "tz", None))
        return True

    def check_unchanged(self, part: int) -> None:
        """Refuse a file that was changed or replaced since it was opened."""
        self._watched.check(self._paths[part])

    def part_path(self, part: int) -> AnyPath:
        """Return the file of a part."""
        return self._paths[part]

    def part_name(self, part: int) -> str:
        """Return the file's name, for messages."""
        return self._text.labels[self._paths[part]]

    def fingerprint(self) -> str:
        """Return a hash of the files' names, sizes, beginnings, ends and samples."""
        return self._digest
