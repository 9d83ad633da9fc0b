"""Rows of CSV that come as lines, from standard input or at the end of a file that grows."""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from squeak.data.csv_text import MISSING_WORDS, CsvFormat
from squeak.data.preprocessing import check_names

CHUNK = 2**16
PAUSE = 0.2
"""Seconds between two looks at a file that has not grown."""


def from_descriptor(number: int) -> Callable[[], bytes]:
    """Return a function that gives the next bytes of an open file as soon as there are some; none at its end."""
    return lambda: os.read(number, CHUNK)


def from_growing(path: Path, stopped: Callable[[], bool]) -> Callable[[], bytes]:
    """Return a function that waits at the end of a file for more lines, and gives none once it is told to stop.

    A last line that has no end yet is still being written: it is not given.
    """
    file = path.open("rb", buffering=0)
    waiting = b""

    def read() -> bytes:
        nonlocal waiting
        while not stopped():
            found = file.read(CHUNK)
            lines, end, waiting = (waiting + found).rpartition(b"\n")
            if end:
                return lines + end
            if found:
                continue
            if os.fstat(file.fileno()).st_size < file.tell():
                raise ValueError(f"{path} became shorter while it was read")
            time.sleep(PAUSE)
        file.close()
        return b""

    return read


def csv_tables(
    read: Callable[[], bytes],
    form: CsvFormat,
    *,
    label: str,
    target: str | None = None,
    first_rows: int = 1,
    skip: bool = False,
) -> Iterator[Any]:
    """Yield Arrow tables of the lines that have come; the types of columns are those of the first table.

    A row is one line. Numbers are float64 but for the ``target``, which keeps its type.

    ``read``: gives the next bytes, and none at the end. ``label``: words for the source, in messages.
    ``first_rows``: so many rows are waited for at first, unless there are fewer. ``skip``: leave out lines with too
    many or few values, or with words where numbers are.
    """
    types: dict[str, Any] | None = None
    names: list[str] | None = None
    waiting, seen, ended = b"", 0, False
    while not ended:
        found = read()
        ended = not found
        waiting += found
        end = len(waiting) if ended else waiting.rfind(b"\n") + 1
        if names is None:
            first = waiting.find(b"\n") + 1 or (end if ended else 0)
            if not first:
                continue
            names, used = _names(waiting[:first], form, label)
            waiting, end = waiting[used:], end - used
        if types is None and not ended and waiting.count(b"\n", 0, end) < first_rows:
            continue
        lines, waiting = waiting[:end], waiting[end:]
        if not lines.strip():
            continue
        table = _table(lines, names, types, form, skip=skip, where=f"{label}, after row {seen:,}")
        if types is None:
            table, types = _settled(table, target)
        seen += table.num_rows
        if table.num_rows:
            yield table
    if types is None:
        raise ValueError(f"{label} has no rows")


def _names(line: bytes, form: CsvFormat, label: str) -> tuple[list[str], int]:
    """Return the names of the columns, and how many bytes of the first line they take."""
    text = line.decode(form.encoding).lstrip("\ufeff")
    found = next(csv.reader([text], delimiter=form.delimiter), [])
    if form.header is False:
        return [f"c{number}" for number in range(len(found))], 0
    check_names(found, label)
    return found, len(line)


def _table(
    lines: bytes, names: list[str], types: dict[str, Any] | None, form: CsvFormat, *, skip: bool, where: str
) -> Any:
    import pyarrow as pa
    import pyarrow.csv as pc

    try:
        return pc.read_csv(
            pa.BufferReader(lines),
            read_options=pc.ReadOptions(column_names=names, encoding=form.encoding, use_threads=False),
            parse_options=pc.ParseOptions(
                delimiter=form.delimiter, invalid_row_handler=(lambda row: "skip") if skip else None
            ),
            convert_options=pc.ConvertOptions(
                column_types=types, null_values=[*MISSING_WORDS, *form.na_values], strings_can_be_null=True
            ),
        )
    except pa.ArrowInvalid as error:
        each = lines.splitlines(keepends=True)
        if not skip or types is None:
            raise ValueError(f"{where}: {error}") from None
        if len(each) == 1:
            return pa.table({name: pa.array([], kind) for name, kind in types.items()})
        return pa.concat_tables(_table(line, names, types, form, skip=True, where=where) for line in each)


def _settled(table: Any, target: str | None) -> tuple[Any, dict[str, Any]]:
    """Return the first table with types that later rows will fit, and these types."""
    import pyarrow as pa

    types = {}
    for field in table.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_null(field.type)
        types[field.name] = pa.float64() if number and field.name != target else field.type
    return table.cast(pa.schema(list(types.items()))), types
