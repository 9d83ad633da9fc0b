"""What is wrong with a CSV file: Arrow says what it could not read, and the row is found; words among numbers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from squeak.core.advice import Advice, InputError
from squeak.core.types import IntArray
from squeak.data.columns import kind_of
from squeak.data.csv_text import LATIN, MOST_BYTES, CsvText, Record
from squeak.data.files import AnyPath, unreadable

FEW_WORDS, FEW_SHARE = 5, 0.1
"""A column is numbers but for a few words if no more than this share of its values are words; or no more than this
many different words, a quarter of the different numbers, and half of the values."""

MOST_WORDS = 1000
"""More different words than this are not a few."""

LOOKED_AT = 200
"""So many different values tell text from the rest without a look at all of them."""


@dataclass(frozen=True)
class Read:
    """Text read as values of a type; ``words`` are those that are none, by the row that each first stands in."""

    values: Any
    words: dict[str, int]
    rows: IntArray
    """The rows that hold them."""


def types_of(kind: str | None) -> Iterator[Any]:
    """Yield the types that text of a kind may be read as; of every kind for None."""
    import pyarrow as pa

    if kind in (None, "number"):
        yield from (pa.float64(), pa.bool_())
    if kind in (None, "date"):
        yield from (pa.timestamp("us"), pa.timestamp("us", tz="UTC"))
    if kind in (None, "time"):
        yield pa.time64("us")


def read_words(text: Any, wanted: Any, most: int | None = None) -> Read | None:
    """Return text as values of a type, null where it is missing or a word; None for more than ``most`` words."""
    import pyarrow as pa

    try:
        return Read(_convert(text, wanted), {}, np.zeros(0, dtype=np.int64))
    except pa.ArrowInvalid:
        pass
    coded = text.dictionary_encode()
    bad = _bad_places(coded.dictionary, wanted, len(text) if most is None else most)
    if bad is None:
        return None
    good = np.ones(len(coded.dictionary), dtype=bool)
    good[bad] = False
    values = _convert(coded.dictionary.filter(pa.array(good)), wanted)
    places = pa.array(np.cumsum(good) - 1, mask=~good)
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero((codes >= 0) & ~good[codes])
    _, first = np.unique(codes[rows], return_index=True)
    words = {coded.dictionary[int(codes[row])].as_py(): int(row) for row in rows[np.sort(first)]}
    return Read(values.take(places.take(coded.indices)), words, rows)


def read_but_for_few(text: Any, kind: str | None, least: int = 0) -> tuple[Any, Read] | None:
    """Return the type that text is but for a few words, and how it reads; None for what is just text.

    ``kind``: the kind that is expected; half of the values may then be words. ``least``: more different values than
    this must be of the type.
    """
    import pyarrow as pa

    present = len(text) - text.null_count
    different = text.drop_null().unique()
    if not present:
        return None
    for wanted in types_of(kind):
        some = different.slice(0, LOOKED_AT)
        if _bad_places(some, wanted, len(some) // 2) is None:
            continue
        read = read_words(text, wanted, MOST_WORDS)
        if read is None or len(different) - len(read.words) <= least:
            continue
        share = len(read.rows) / present
        few = len(read.words) <= min(FEW_WORDS, (len(different) - len(read.words)) / 4)
        if share <= FEW_SHARE or (share <= 0.5 and (few or kind is not None)):
            return pa.bool_() if pa.types.is_boolean(wanted) else wanted, read
    return None


def _convert(text: Any, wanted: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pc.utf8_trim_whitespace(text)
    if kind_of(wanted) not in ("date", "time"):
        return text.cast(wanted)
    text = pc.replace_substring_regex(text, r"(\.\d{6})\d+", r"\1")  # what is finer than a microsecond
    if kind_of(wanted) == "date":
        return text.cast(wanted)
    day = pa.scalar("1970-01-01")  # Arrow reads no times of day by themselves
    return pc.binary_join_element_wise(day, text, " ").cast(pa.timestamp("us")).cast(wanted)


def _bad_places(words: Any, wanted: Any, most: int) -> list[int] | None:
    """Return where the words stand that are no values of a type, by halving; None for more than ``most``."""
    import pyarrow as pa

    bad: list[int] = []
    waiting = [(0, len(words))]
    while waiting:
        low, high = waiting.pop()
        try:
            _convert(words.slice(low, high - low), wanted)
        except pa.ArrowInvalid:
            if high - low > 1:
                middle = (low + high) // 2
                waiting += [(middle, high), (low, middle)]
                continue
            bad.append(low)
            if len(bad) > most:
                return None
    return bad


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
    error: BaseException, text: CsvText, types: Mapping[str, Any], path: AnyPath, columns: Sequence[Any] | None
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


def check_quotes(text: CsvText, path: AnyPath) -> None:
    """Refuse a file whose last row is all that follows a quote that is never closed."""
    last = deque(text.records(path), maxlen=1)
    if last and last[0].lines > 1:
        raise ValueError(
            f"row {last[0].row} of {text.labels[path]} has a quote that is never closed, so that "
            f"{last[0].lines:,} lines to the end of the file are one value: close it, or take the line out"
        )


def _batches(
    text: CsvText, path: AnyPath, as_type: Any, columns: Sequence[Any] | None
) -> Iterator[tuple[int, Any]]:
    """Yield the batches of a file with all columns as one type, each with the number of its first row."""
    row = 0
    stream, batches = text.open(path, dict.fromkeys(text.names, as_type), columns, lambda line: "skip")
    with stream, batches:
        for batch in batches:
            yield row, batch
            row += batch.num_rows


def bad_bytes(text: CsvText, path: AnyPath) -> InputError | None:
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
    text: CsvText, types: Mapping[str, Any], path: AnyPath, columns: Sequence[Any] | None
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
