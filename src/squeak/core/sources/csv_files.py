"""CSV files, read file by file: never more than a few blocks in memory."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from squeak.core.sources.columns import kind_of
from squeak.core.sources.files import Wanted, compare_kinds, sample, tell_apart, unreadable
from squeak.core.sources.pieces import Piece
from squeak.core.sources.preprocessing import check_names
from squeak.core.sources.readers import Reader

MISSING_WORDS = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A")
CSV_BYTES = 4 * 2**20


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
    """Rows of CSV files, each a part; numbers are read as float64, and only the columns that are needed."""

    ahead = True

    def __init__(
        self, paths: list[Path], form: CsvFormat, wanted: Wanted, *, skip: bool, as_text: Collection[str] = ()
    ) -> None:
        self._paths, self.form, self._skip = paths, form, skip
        self._labels = tell_apart(paths)
        self.skipped_lines = 0
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
        self._types = self._column_types(first, as_text)
        self.recipe = {"paths": [str(path.resolve()) for path in paths]}

    def _header(self, path: Path) -> tuple[list[str], bool]:
        """Return the names of a file's columns and whether it has rows, or say what is odd about its beginning."""
        import pyarrow as pa

        label, form = self._labels[path], self.form
        try:
            with pa.input_stream(str(path)) as stream:
                head = stream.read(2**20)
        except OSError as error:
            raise unreadable(error, label, "CSV file") from None
        if not head.strip():
            raise ValueError(f"{label} is empty")
        if b"\x00" in head and form.encoding.replace("-", "") == "utf8":
            raise ValueError(f"{label} is not a CSV file: it holds zero bytes")
        try:
            text = head.decode(form.encoding, "strict" if len(head) < 2**20 else "ignore")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{label} is not text in {form.encoding}: {error.reason}; pass encoding='latin1'?"
            ) from None
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

    def _open(self, path: Path, *, types: dict[str, Any] | None, columns: Sequence[str] | None, block: int) -> Any:
        import pyarrow.csv as pc

        form = self.form
        return pc.open_csv(
            str(path),
            read_options=pc.ReadOptions(
                block_size=block,
                column_names=list(self.names) if form.header is False else None,
                encoding=form.encoding,
            ),
            parse_options=pc.ParseOptions(
                delimiter=form.delimiter, newlines_in_values=True, invalid_row_handler=self._bad_line
            ),
            convert_options=pc.ConvertOptions(
                column_types=types,
                include_columns=None if columns is None else list(columns),
                null_values=[*MISSING_WORDS, *form.na_values],
                strings_can_be_null=True,
            ),
        )

    def _bad_line(self, line: Any) -> str:
        if self._skip:
            self.skipped_lines += 1
            return "skip"
        return "error"

    def _column_types(self, path: Path, as_text: Collection[str]) -> dict[str, Any]:
        """Return the types found in the first block; whole numbers are read as float64: fractions may follow."""
        import pyarrow as pa

        try:
            with self._open(path, types=None, columns=None, block=CSV_BYTES) as reader:
                schema = reader.schema
        except (pa.ArrowInvalid, OSError, KeyError) as error:
            raise self._explain(error, path, None) from None
        self.skipped_lines = 0
        types = {}
        for field in schema:
            number = kind_of(field.type) in ("number", "empty") and not pa.types.is_boolean(field.type)
            types[field.name] = pa.float64() if number else field.type
            if field.name in as_text:
                types[field.name] = pa.string()
        return types

    def pieces(self, part: int, columns: Sequence[Any] | None, start: int, size: int) -> Iterator[Piece]:
        """Yield the rows of a file from row ``start`` of it on."""
        import pyarrow as pa

        path = self._paths[part]
        seen = self.skipped_lines = 0
        try:
            with self._open(path, types=self._types, columns=columns, block=CSV_BYTES) as batches:
                for batch in batches:
                    if seen + batch.num_rows > start:
                        skip = max(0, start - seen)
                        yield Piece(pa.Table.from_batches([batch.slice(skip)]), self._labels[path], seen + skip)
                    seen += batch.num_rows
        except (pa.ArrowInvalid, pa.ArrowKeyError, OSError, UnicodeDecodeError) as error:
            raise self._explain(error, path, columns) from None

    def _explain(self, error: BaseException, path: Path, columns: Sequence[Any] | None) -> Exception:
        """Return an error that names the row; the file is read again as text to find it."""
        label, reason = self._labels[path], " ".join(str(error).split())
        if "conversion error" in reason:
            found = self._find_bad_value(path, columns)
            if found is not None:
                row, name, value, wanted = found
                return ValueError(
                    f"row {row} of {label}: column {name!r} is {value!r}, not {wanted}; if that stands for a "
                    f"missing value, pass na_values=[{value!r}]"
                )
        if "Expected" in reason and "columns" in reason:
            return ValueError(
                f"{label} is cut short or has a line with more or fewer values than columns: {reason[:200]}; "
                "skip such lines with on_bad_rows='skip'"
            )
        return unreadable(error, label, "CSV file")

    def _find_bad_value(self, path: Path, columns: Sequence[Any] | None) -> tuple[int, str, str, str] | None:
        import pyarrow as pa

        row = 0
        text = {name: pa.string() for name in self.names}
        for batch in self._open(path, types=text, columns=columns, block=CSV_BYTES):
            first: tuple[int, str, str, str] | None = None
            for name in batch.schema.names:
                wanted = self._types[name]
                if kind_of(wanted) == "text":
                    continue
                try:
                    batch.column(batch.schema.get_field_index(name)).cast(wanted)
                except pa.ArrowInvalid:
                    at, value = _first_bad(batch.column(batch.schema.get_field_index(name)), wanted)
                    if first is None or row + at < first[0]:
                        first = (row + at, name, value, f"a {kind_of(wanted)}")
            if first is not None:
                return first
            row += batch.num_rows
        return None

    def part_name(self, part: int) -> str:
        """Return the file's name, for messages."""
        return self._labels[self._paths[part]]

    def fingerprint(self) -> str:
        """Return a hash of the files' names, sizes, beginnings, ends and samples."""
        return self._digest


def _first_bad(column: Any, wanted: Any) -> tuple[int, str]:
    """Return the first value that does not convert, by halving."""
    import pyarrow as pa

    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            column.slice(low, middle - low).cast(wanted)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low, str(column[low].as_py())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
