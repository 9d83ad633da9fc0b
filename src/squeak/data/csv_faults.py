"""What is wrong with a CSV file: Arrow says what it could not read, and here the row is found and named."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from squeak.core.advice import Advice, InputError
from squeak.data.columns import kind_of
from squeak.data.csv_text import LATIN, MOST_BYTES, CsvText, Record
from squeak.data.files import unreadable
from squeak.data.words import read_words

KINDS = {"number": "numbers", "date": "dates", "time": "times"}


class Fault(Enum):
    """What Arrow could not read."""

    bytes = "bytes that are no text"
    value = "a value that is not of its column's type"
    columns = "a row with too many or few values"
    long = "a line that is longer than a block"
    other = "anything else"


class WordError(ValueError):
    """A word stands where a value of another type should."""


def fault_of(error: BaseException) -> Fault:
    """Return what an error is about: Arrow has one class for all of them, and tells them apart by words alone."""
    words = str(error)
    if "UTF8" in words:
        return Fault.bytes
    if isinstance(error, WordError) or "conversion error" in words:
        return Fault.value
    if "Expected" in words and "columns" in words:
        return Fault.columns
    return Fault.long if "straddl" in words else Fault.other


def explained(
    error: BaseException, text: CsvText, types: Mapping[str, Any], path: Path, columns: Sequence[Any] | None
) -> Exception:
    """Return an error that names the row; the file is read again as text to find it."""
    fault, label = fault_of(error), text.labels[path]
    if fault is Fault.bytes:
        return bad_bytes(text, path) or unreadable(error, label, "CSV file")
    if fault is Fault.value and (found := _find_bad_value(text, types, path, columns)) is not None:
        row, name, word = found
        return bad_value(label, row, name, word, kind_of(types[name]))
    if fault is Fault.columns:
        for record in text.records(path):
            if len(record.values) != len(text.names):
                return _ragged(text, label, record)
    if fault is Fault.long:
        for record in text.records(path, longest=MOST_BYTES):
            if not record.values:
                return ValueError(
                    f"row {record.row} of {label} is longer than {MOST_BYTES >> 20} MB: is a quote opened in it "
                    "and never closed?"
                )
    return unreadable(error, label, "CSV file")


def bad_value(label: str, row: int, name: str, word: str, kind: str) -> InputError:
    """Return the error for a word in a column of another type."""
    return InputError(
        f"row {row} of {label}: column {name!r} is {short(word)!r}, not a {kind}",
        Advice("pass {} if that stands for a missing value", "na_values", [short(word)]),
        Advice("{} if it is a mistake", "on_bad_rows", "skip"),
        categories_of(name),
    )


def categories_of(name: str) -> Advice:
    """Return what to do where a column that looks like numbers holds categories."""
    stored = "if it holds categories, store it as text in a Parquet file"
    return Advice("if it holds categories, pass {}", "categories", {name: "onehot"}, otherwise=stored)


def _ragged(text: CsvText, label: str, record: Record) -> InputError:
    values = "1 value" if len(record.values) == 1 else f"{len(record.values):,} values"
    span = f" over {record.lines:,} lines (is a quote not closed?)" if record.lines > 1 else ""
    return InputError(
        f"row {record.row} of {label} has {values}{span} where {len(text.names):,} columns are: "
        f"{short(text.form.delimiter.join(record.values))!r}",
        Advice("is the file cut short? skip such lines with {}", "on_bad_rows", "skip"),
    )


def check_quotes(text: CsvText, path: Path) -> None:
    """Refuse a file whose last row is all that follows a quote that is never closed."""
    last = deque(text.records(path), maxlen=1)
    if last and last[0].lines > 1:
        raise ValueError(
            f"row {last[0].row} of {text.labels[path]} has a quote that is never closed, so that "
            f"{last[0].lines:,} lines to the end of the file are one value: close it, or take the line out"
        )


def _batches(text: CsvText, path: Path, as_type: Any, columns: Sequence[Any] | None) -> Iterator[tuple[int, Any]]:
    """Yield the batches of a file with all columns as one type, each with the number of its first row."""
    row = 0
    stream, batches = text.open(path, dict.fromkeys(text.names, as_type), columns, lambda line: "skip")
    with stream, batches:
        for batch in batches:
            yield row, batch
            row += batch.num_rows


def bad_bytes(text: CsvText, path: Path) -> InputError | None:
    """Return the error for the first row that is not text, by its first bad byte."""
    import pyarrow as pa

    for row, batch in _batches(text, path, pa.binary(), None):
        found = [bad for column in batch.columns if (bad := _bad_byte(column)) is not None]
        if found:
            at, byte = min(found)
            fact = f"row {row + at} of {text.labels[path]} is not text in {text.form.encoding}"
            return InputError(f"{fact}: it holds the byte {byte:#x}", LATIN)
    return None


def _bad_byte(column: Any) -> tuple[int, int] | None:
    """Return the first row of a column of bytes that is not text in UTF-8, and its first bad byte."""
    import pyarrow as pa

    try:
        column.cast(pa.string())
    except pa.ArrowInvalid:
        for row, value in enumerate(column.to_pylist()):
            try:
                (value or b"").decode()
            except UnicodeDecodeError as error:
                return row, value[error.start]
    return None


def _find_bad_value(
    text: CsvText, types: Mapping[str, Any], path: Path, columns: Sequence[Any] | None
) -> tuple[int, str, str] | None:
    import pyarrow as pa

    for row, batch in _batches(text, path, pa.string(), columns):
        found = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if kind_of(types[name]) in KINDS:
                read = read_words(text.without_missing(name, column), types[name])
                if read is not None and read.words:
                    word, at = next(iter(read.words.items()))
                    found.append((row + at, name, word))
        if found:
            return min(found)
    return None


def short(word: str) -> str:
    """Return the beginning of a long word."""
    return word if len(word) <= 40 else word[:40] + "…"
