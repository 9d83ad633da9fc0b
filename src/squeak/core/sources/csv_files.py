"""CSV files, read file by file: never more than a few blocks in memory."""

from __future__ import annotations

import csv
import hashlib
import io
import warnings
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from squeak.core.sources.columns import kind_of
from squeak.core.sources.files import Unchanged, Wanted, compare_kinds, sample, tell_apart, unreadable
from squeak.core.sources.pieces import Piece
from squeak.core.sources.preprocessing import check_names
from squeak.core.sources.readers import Reader
from squeak.core.sources.words import MOST_WORDS, read_but_for_few, read_words, types_of

MISSING_WORDS = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A")
CSV_BYTES, MOST_BYTES = 4 * 2**20, 64 * 2**20
"""What is read at once; where a line is longer, up to the second."""
HEAD_BYTES = 2**20
MOST_CLASSES = 100
"""A target of no more different numbers, and a few words, may be classes: it stays text."""
KINDS = {"number": "numbers", "date": "dates", "time": "times"}


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
            raise ValueError(f"no encoding is known by the name {self.encoding!r}") from None
        if not isinstance(self.delimiter, str) or len(self.delimiter) != 1 or self.delimiter in '\n\r"':
            raise ValueError(f"delimiter must be one character; it is {self.delimiter!r}")


class CsvReader(Reader):
    """Rows of CSV files, each a part; numbers are read as float64, and only the columns that are needed.

    Parameters
    ----------
    paths : list of Path
    form : CsvFormat
    wanted : function
        Which of the columns are needed.
    skip : bool
        Whether lines and values that cannot be read are skipped and counted, or refused.
    kinds : mapping from columns to kinds
        What is known of columns beforehand: "text" for categories, "number", "date", "time" and "duration".
    words : mapping from columns to words
        Words that are values of the column, though elsewhere they stand for a missing one.
    target : str, optional
    """

    ahead = True

    def __init__(
        self,
        paths: list[Path],
        form: CsvFormat,
        wanted: Wanted,
        *,
        skip: bool,
        kinds: Mapping[str, str] | None = None,
        words: Mapping[str, Collection[str]] | None = None,
        target: Any = None,
    ) -> None:
        self._paths, self.form, self._skip = paths, form, skip
        self._labels = tell_apart(paths)
        self._watched = Unchanged(paths, self._labels)
        self._missing = (*MISSING_WORDS, *form.na_values)
        self._words = {name: kept for name, one in (words or {}).items() if (kept := set(one) & set(self._missing))}
        self.skipped_lines = self._longest = 0
        self.n_parts = len(paths)
        digest = hashlib.sha256(repr(form).encode())
        self.float32 = set()
        headers = {path: self._header(path) for path in paths}
        self._paths = [path for path, (_, has_rows) in headers.items() if has_rows]
        if not self._paths:
            raise ValueError(f"{self._labels[paths[0]]} has a header and no rows")
        first = self._paths[0]
        self.names = headers[first][0]
        needed = dict.fromkeys(wanted(self.names), "")
        for path in self._paths:
            compare_kinds(dict.fromkeys(headers[path][0], ""), needed, self._labels[path], self._labels[first])
            digest.update(path.name.encode())
            digest.update(sample(path))
        self._digest = digest.hexdigest()
        self.n_parts = len(self._paths)
        self._block = CSV_BYTES
        self._odd: dict[str, set[str]] = {}
        self._types: dict[str, Any] = {}
        self._column_types(first, needed, kinds or {}, target)
        self.recipe = {"paths": [str(path.resolve()) for path in paths]}

    def _header(self, path: Path) -> tuple[list[str], bool]:
        """Return the names of a file's columns and whether it has rows, or say what is odd about its beginning."""
        import pyarrow as pa

        label, form = self._labels[path], self.form
        try:
            with pa.input_stream(str(path)) as stream:
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
            raise ValueError(
                f"{label} is not text in {form.encoding}: {error.reason}; pass encoding='latin1'?"
            ) from None
        with _long_values():
            lines = csv.reader(io.StringIO(text.lstrip("\ufeff"), newline=""), delimiter=form.delimiter)
            names = next((line for line in lines if line), [])
            has_rows = form.header is False or any(lines)
        self._check_delimiter(names, label)
        if form.header is False:
            return [f"c{number}" for number in range(len(names))], has_rows
        if form.header is None and all(_is_number(name) for name in names):
            raise ValueError(
                f"{label}: the first line has numbers where names are expected; pass header=False, or header=True "
                "where they are names"
            )
        check_names(names, label)
        return names, has_rows

    def _check_delimiter(self, names: list[str], label: str) -> None:
        if len(names) != 1:
            return
        other = max(";\t|,", key=names[0].count)
        if names[0].count(other) and other != self.form.delimiter:
            raise ValueError(
                f"{label} has one column when cut at {self.form.delimiter!r}; is the delimiter {other!r}? "
                f"pass delimiter={other!r}"
            )

    def _open(self, path: Path, types: dict[str, Any] | None, columns: Sequence[str] | None) -> tuple[_Stream, Any]:
        """Return a file's bytes and the batches of rows made of them."""
        import pyarrow.csv as pc

        form = self.form
        stream = _Stream(path)
        return stream, pc.open_csv(
            stream,
            read_options=pc.ReadOptions(
                block_size=self._block,
                column_names=list(self.names) if form.header is False else None,
                encoding=form.encoding,
            ),
            parse_options=pc.ParseOptions(
                delimiter=form.delimiter, newlines_in_values=True, invalid_row_handler=self._bad_line
            ),
            convert_options=pc.ConvertOptions(
                column_types=types,
                include_columns=None if columns is None else list(columns),
                null_values=list(self._missing),
                strings_can_be_null=not self._words,
            ),
        )

    def _bad_line(self, line: Any) -> str:
        if self._skip:  # a quote that is not closed makes one line of many
            lines = 1 + (line.text or "").rstrip("\r\n").count("\n")
            self.skipped_lines, self._longest = self.skipped_lines + lines, max(self._longest, lines)
            return "skip"
        return "error"

    def _column_types(self, path: Path, needed: Collection[str], kinds: Mapping[str, str], target: Any) -> None:
        """Find the types in the first block; whole numbers are read as float64: fractions may follow."""
        import pyarrow as pa

        while True:
            try:
                stream, reader = self._open(path, None, None)
                with stream, reader:
                    first = next(iter(reader), None)
                    schema = reader.schema
                break
            except (pa.ArrowInvalid, OSError, KeyError) as error:
                if not self._longer(error):
                    raise self._explain(error, path, None) from None
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
            else:
                self._types[name] = field.type
            if name in needed and known != "text":
                if pa.types.is_binary(field.type):
                    raise self._explain(pa.ArrowInvalid("invalid UTF8 data"), path, [name])
                if kind == "text" and first is not None:
                    text = self._without_missing(name, first.column(place))
                    self._but_for_words(path, name, text, known, MOST_CLASSES if name == target else 0)

    def _but_for_words(self, path: Path, name: str, text: Any, known: str | None, least: int) -> None:
        """Take a column that is numbers, dates or times but for a few words as such, or refuse the words."""
        found = read_but_for_few(text, known, least)
        if found is None:
            return
        self._types[name], read = found
        if read.words and not self._skip:
            word, row = next(iter(read.words.items()))
            raise self._bad_value(path, row, name, word)
        self._odd[name] = set()
        self._say(path, name, read.words)

    def _say(self, path: Path, name: str, words: Collection[str]) -> None:
        """Warn of words that were not met before."""
        new = [word for word in words if word not in self._odd[name]]
        if new and len(self._odd[name]) < MOST_WORDS:
            self._odd[name].update(new)
            some = ", ".join(_short(word) for word in new[:5]) + (
                f" and {len(new) - 5:,} more" if len(new) > 5 else ""
            )
            warnings.warn(
                f"{self._labels[path]}: column {name!r} holds {KINDS[kind_of(self._types[name])]} but for {some}, "
                f"read as missing; if it holds categories, pass categories={{{name!r}: 'onehot'}}",
                stacklevel=2,
            )

    def _without_missing(self, name: str, text: Any) -> Any:
        """Return text with the words that stand for a missing value as such, but for those that are values here."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self._words:
            return text
        missing = [word for word in self._missing if word not in self._words.get(name, ())]
        return pc.if_else(pc.is_in(text, value_set=pa.array(missing)), pa.scalar(None, pa.string()), text)

    def _converted(self, path: Path, batch: Any) -> Any:
        """Return a batch with the columns that may hold words as the types they are of."""
        import pyarrow as pa

        columns = list(batch.columns)
        for place, name in enumerate(batch.schema.names):
            if self._words and kind_of(columns[place].type) == "text":
                columns[place] = self._without_missing(name, columns[place])
            if name not in self._odd:
                continue
            read = read_words(columns[place], self._types[name])
            assert read is not None
            if read.words and not self._skip:
                raise pa.ArrowInvalid("conversion error")
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
        self._watched.check(path)
        while True:
            seen = self.skipped_lines = self._longest = 0
            types = {name: pa.string() if name in self._odd else one for name, one in self._types.items()}
            try:
                stream, batches = self._open(path, types, columns)
                with stream, batches:
                    for batch in batches:
                        table = self._converted(path, batch)
                        begin, seen = seen, seen + batch.num_rows
                        if seen > start:
                            piece = Piece(table.slice(max(0, start - begin)), self._labels[path], max(start, begin))
                            start = seen
                            yield piece
                if stream.odd_quotes:
                    self._check_quotes(path)
                if self._longest > 1:
                    warnings.warn(
                        f"{self._labels[path]}: {self._longest:,} lines were skipped as one row, for a quote "
                        "spans them: is it not closed?",
                        stacklevel=2,
                    )
                return
            except (pa.ArrowInvalid, pa.ArrowKeyError, OSError, UnicodeDecodeError) as error:
                self._watched.check(path)
                if not self._longer(error) and not self._with_words(error):
                    raise self._explain(error, path, columns) from None

    def _longer(self, error: BaseException) -> bool:
        """Make blocks longer where a line is too long for one; tell whether to try again."""
        if "straddl" not in str(error) or self._block >= MOST_BYTES:
            return False
        self._block *= 4
        return True

    def _with_words(self, error: BaseException) -> bool:
        """Read dates of any form, and words as missing where rows may be skipped; tell whether to try again."""
        import pyarrow as pa

        kinds = {name: kind_of(one) for name, one in self._types.items() if name not in self._odd}
        kinds = {name: kind for name, kind in kinds.items() if kind == "date" or (self._skip and kind in KINDS)}
        if "conversion error" not in str(error) or "UTF8" in str(error) or not kinds:
            return False
        for name, kind in kinds.items():
            self._odd[name] = set()
            if kind == "date":
                self._types[name] = pa.timestamp("us", tz=getattr(self._types[name], "tz", None))
        return True

    def _explain(self, error: BaseException, path: Path, columns: Sequence[Any] | None) -> Exception:
        """Return an error that names the row; the file is read again as text to find it."""
        label, reason = self._labels[path], " ".join(str(error).split())
        if "UTF8" in reason:
            found = self._find_bad_bytes(path)
            if found is not None:
                row, byte = found
                return ValueError(
                    f"row {row} of {label} is not text in {self.form.encoding}: it holds the byte {byte:#x}; pass "
                    "encoding='latin1'?"
                )
        if "conversion error" in reason:
            bad = self._find_bad_value(path, columns)
            if bad is not None:
                return self._bad_value(path, *bad)
        if "Expected" in reason and "columns" in reason:
            for record in self._records(path):
                if len(record.values) != len(self.names):
                    return ValueError(self._ragged(label, record))
        if "straddl" in reason:
            for record in self._records(path, longest=MOST_BYTES):
                if not record.values:
                    return ValueError(
                        f"row {record.row} of {label} is longer than {MOST_BYTES >> 20} MB: is a quote "
                        "opened in it and never closed?"
                    )
        return unreadable(error, label, "CSV file")

    def _bad_value(self, path: Path, row: int, name: str, word: str) -> ValueError:
        kind, shown = kind_of(self._types[name]), _short(word)
        return ValueError(
            f"row {row} of {self._labels[path]}: column {name!r} is {shown}, not a {kind}; if that stands for a "
            f"missing value, pass na_values=[{shown}]; if it is a mistake, on_bad_rows='skip'; if the column holds "
            f"categories, categories={{{name!r}: 'onehot'}}"
        )

    def _ragged(self, label: str, record: _Record) -> str:
        values = "1 value" if len(record.values) == 1 else f"{len(record.values):,} values"
        span = f" over {record.lines:,} lines (is a quote not closed?)" if record.lines > 1 else ""
        return (
            f"row {record.row} of {label} has {values}{span} where {len(self.names):,} columns are: "
            f"{_short(self.form.delimiter.join(record.values))}; is the file cut short? skip such lines with "
            "on_bad_rows='skip'"
        )

    def _check_quotes(self, path: Path) -> None:
        """Refuse a file whose last row is all that follows a quote that is never closed."""
        last = deque(self._records(path), maxlen=1)
        if last and last[0].lines > 1:
            raise ValueError(
                f"row {last[0].row} of {self._labels[path]} has a quote that is never closed, so that "
                f"{last[0].lines:,} lines to the end of the file are one value: close it, or take the line out"
            )

    def _records(self, path: Path, longest: int | None = None) -> Iterator[_Record]:
        """Yield the rows as Python's slower reader sees them, to find one that Arrow does not name."""
        with (
            io.TextIOWrapper(
                io.BufferedReader(_Stream(path)), encoding=self.form.encoding, errors="replace", newline=""
            ) as text,
            _long_values(longest),
        ):
            lines = csv.reader(text, delimiter=self.form.delimiter)
            row, before = 0 if self.form.header is False else -1, 0
            try:
                for values in lines:
                    if values:
                        if row >= 0:
                            yield _Record(row, lines.line_num - before, values)
                        row += 1
                    before = lines.line_num
            except csv.Error:
                yield _Record(row, lines.line_num - before, [])

    def _find_bad_bytes(self, path: Path) -> tuple[int, int] | None:
        """Return the first row that is not text in UTF-8, and its first bad byte."""
        import pyarrow as pa

        row = 0
        stream, batches = self._open(path, dict.fromkeys(self.names, pa.binary()), None)
        with stream, batches:
            for batch in batches:
                found = []
                for column in batch.columns:
                    try:
                        column.cast(pa.string())
                    except pa.ArrowInvalid:
                        for at, value in enumerate(column.to_pylist()):
                            try:
                                (value or b"").decode()
                            except UnicodeDecodeError as error:
                                found.append((row + at, value[error.start]))
                                break
                if found:
                    return min(found)
                row += batch.num_rows
        return None

    def _find_bad_value(self, path: Path, columns: Sequence[Any] | None) -> tuple[int, str, str] | None:
        import pyarrow as pa

        row = 0
        stream, batches = self._open(path, dict.fromkeys(self.names, pa.string()), columns)
        with stream, batches:
            for batch in batches:
                found = []
                for name, column in zip(batch.schema.names, batch.columns, strict=True):
                    wanted = self._types[name]
                    if kind_of(wanted) not in KINDS:
                        continue
                    read = read_words(self._without_missing(name, column), wanted)
                    if read is not None and read.words:
                        word, at = next(iter(read.words.items()))
                        found.append((row + at, name, word))
                if found:
                    return min(found)
                row += batch.num_rows
        return None

    def check_unchanged(self, part: int) -> None:
        """Refuse a file that was changed or replaced since it was opened."""
        self._watched.check(self._paths[part])

    def part_name(self, part: int) -> str:
        """Return the file's name, for messages."""
        return self._labels[self._paths[part]]

    def fingerprint(self) -> str:
        """Return a hash of the files' names, sizes, beginnings, ends and samples."""
        return self._digest


@dataclass(frozen=True)
class _Record:
    """A row as text: its number, how many lines it spans, and its values (none where it is too long)."""

    row: int
    lines: int
    values: list[str]


class _Stream(io.RawIOBase):
    """The bytes of a file, unpacked, that tells whether an odd number of quotes went by."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self._bytes = pa.input_stream(str(path))
        self.odd_quotes = False

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Return up to ``size`` bytes; none at the end."""
        found: bytes = self._bytes.read(None if size is None or size < 0 else size)
        self.odd_quotes ^= bool(found.count(b'"') % 2)
        return found

    def readinto(self, room: Any) -> int:
        found = self.read(len(room))
        room[: len(found)] = found
        return len(found)

    def close(self) -> None:
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


def _short(word: str) -> str:
    return repr(word if len(word) <= 40 else word[:40] + "…")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
