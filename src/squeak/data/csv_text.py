"""CSV files as text: how they are cut into rows and columns, and which words stand for a missing value."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from squeak.core.advice import Advice, InputError
from squeak.data.files import AnyPath, open_stream, tell_apart, unreadable
from squeak.data.preprocessing import check_names

MISSING_WORDS = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A")
CSV_BYTES, MOST_BYTES = 4 * 2**20, 64 * 2**20
"""What is read at once; where a line is longer, up to the second."""
HEAD_BYTES = 2**20
LATIN = Advice("pass {}?", "encoding", "latin1")


@dataclass(frozen=True)
class CsvFormat:
    """How a CSV file is written."""

    delimiter: str = ","
    header: bool | None = None
    """None: the first line has names, and is refused where it looks like data."""
    na_values: tuple[str, ...] = ()
    encoding: str = "utf8"

    def __post_init__(self) -> None:
        try:
            "".encode(self.encoding)
        except LookupError:
            words = f"{{name}}: no encoding is known by the name {self.encoding!r}"
            raise InputError(Advice(words, "encoding", self.encoding)) from None
        if not isinstance(self.delimiter, str) or len(self.delimiter) != 1 or self.delimiter in '\n\r"':
            words = f"{{name}} must be one character; it is {self.delimiter!r}"
            raise InputError(Advice(words, "delimiter", self.delimiter))


@dataclass(frozen=True)
class Record:
    """A row as text: its number, how many lines it spans, and its values (none where it is too long)."""

    row: int
    lines: int
    values: list[str]


class CsvText:
    """The text of CSV files that have the same columns.

    ``words``: words that are values of the column, though elsewhere they stand for a missing one.
    """

    def __init__(self, paths: list[AnyPath], form: CsvFormat, words: Mapping[str, Collection[str]]) -> None:
        self.form, self.labels, self.block = form, tell_apart(paths), CSV_BYTES
        self.names: list[str] = []
        """The columns, once a header was read."""
        self._missing = (*MISSING_WORDS, *form.na_values)
        kept = {name: set(values) & set(self._missing) for name, values in words.items()}
        self._words = {name: some for name, some in kept.items() if some}

    @property
    def keeps_words(self) -> bool:
        """Whether a word that stands for a missing value elsewhere is a value of some column."""
        return bool(self._words)

    def header(self, path: AnyPath) -> tuple[list[str], bool]:
        """Return the names of a file's columns and whether it has rows, or say what is odd about its beginning."""
        label, form = self.labels[path], self.form
        try:
            with open_stream(path) as stream:
                head = stream.read(HEAD_BYTES)
                while head.count(b"\n") < 2 and len(head) < MOST_BYTES and (more := stream.read(len(head))):
                    head += more
                whole = not stream.read(1)
        except OSError as error:
            raise unreadable(error, label, "CSV file") from None
        if not head.strip():
            raise ValueError(f"{label} is empty")
        if b"\x00" in head and form.encoding.replace("-", "") == "utf8":
            raise ValueError(f"{label} is not a CSV file: it holds zero bytes")
        try:
            text = head.decode(form.encoding, "strict" if whole else "ignore")
        except UnicodeDecodeError as error:
            raise InputError(f"{label} is not text in {form.encoding}: {error.reason}", LATIN) from None
        with _long_values():
            lines = csv.reader(io.StringIO(text.lstrip("\ufeff"), newline=""), delimiter=form.delimiter)
            names = next((line for line in lines if line), [])
            has_rows = form.header is False or any(lines)
        self._check_delimiter(names, label)
        if form.header is False:
            return [f"c{number}" for number in range(len(names))], has_rows
        if form.header is None and all(_is_number(name) for name in names):
            raise InputError(
                f"{label}: the first line has numbers where names are expected",
                Advice("pass {}", "header", False),
                Advice("{} where they are names", "header", True),
            )
        check_names(names, label)
        return names, has_rows

    def _check_delimiter(self, names: list[str], label: str) -> None:
        if len(names) != 1:
            return
        other = max(";\t|,", key=names[0].count)
        if names[0].count(other) and other != self.form.delimiter:
            fact = f"{label} has one column when cut at {self.form.delimiter!r}"
            raise InputError(fact, Advice(f"is the delimiter {other!r}? pass {{}}", "delimiter", other))

    def open(
        self,
        path: AnyPath,
        types: dict[str, Any] | None,
        columns: Sequence[str] | None,
        bad_line: Callable[..., str],
    ) -> tuple[Stream, Any]:
        """Return a file's bytes and the batches of rows made of them; ``bad_line`` says what to do with a line."""
        import pyarrow.csv as pc

        form = self.form
        stream = Stream(path)
        return stream, pc.open_csv(
            stream,
            read_options=pc.ReadOptions(
                block_size=self.block,
                column_names=list(self.names) if form.header is False else None,
                encoding=form.encoding,
            ),
            parse_options=pc.ParseOptions(
                delimiter=form.delimiter, newlines_in_values=True, invalid_row_handler=bad_line
            ),
            convert_options=pc.ConvertOptions(
                column_types=types,
                include_columns=None if columns is None else list(columns),
                null_values=list(self._missing),
                strings_can_be_null=not self._words,
            ),
        )

    def without_missing(self, name: str, text: Any) -> Any:
        """Return text with the words that stand for a missing value as such, but for those that are values here."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self._words:
            return text
        missing = [word for word in self._missing if word not in self._words.get(name, ())]
        return pc.if_else(pc.is_in(text, value_set=pa.array(missing)), pa.scalar(None, pa.string()), text)

    def numbers_at_first(self, path: AnyPath) -> list[str]:
        """Return the columns with a number in the first row.

        Arrow takes five times as long to find the type of a column as to read it as the one that it is told.
        """
        with closing(self.records(path, self.block)) as records:
            words = next((record.values for record in records), [])
        return [name for name, word in zip(self.names, words, strict=False) if _is_number(word)]

    def records(self, path: AnyPath, longest: int | None = None) -> Generator[Record, None, None]:
        """Yield the rows as Python's slower reader sees them, to find one that Arrow does not name."""
        with (
            io.TextIOWrapper(
                io.BufferedReader(Stream(path)), encoding=self.form.encoding, errors="replace", newline=""
            ) as text,
            _long_values(longest),
        ):
            lines = csv.reader(text, delimiter=self.form.delimiter)
            row, before = 0 if self.form.header is False else -1, 0
            try:
                for values in lines:
                    if values:
                        if row >= 0:
                            yield Record(row, lines.line_num - before, values)
                        row += 1
                    before = lines.line_num
            except csv.Error:
                yield Record(row, lines.line_num - before, [])


class Stream(io.RawIOBase):
    """The bytes of a file, unpacked, that tells whether an odd number of quotes went by."""

    def __init__(self, path: AnyPath) -> None:
        self._bytes = open_stream(path)
        self.odd_quotes = False

    def readable(self) -> bool:
        """Return True: it can be read."""
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Return up to ``size`` bytes; none at the end."""
        found: bytes = self._bytes.read(None if size is None or size < 0 else size)
        self.odd_quotes ^= bool(found.count(b'"') % 2)
        return found

    def readinto(self, room: Any) -> int:
        """Fill room with bytes and return how many there were."""
        found = self.read(len(room))
        room[: len(found)] = found
        return len(found)

    def close(self) -> None:
        """Close the file."""
        self._bytes.close()
        super().close()


@contextmanager
def _long_values(longest: int | None = None) -> Iterator[None]:
    """Let Python's reader take values of any length; it has one limit for the whole process."""
    before = csv.field_size_limit(longest or 2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
