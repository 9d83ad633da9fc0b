"""Rows of CSV that come as lines, from standard input or at the end of a file that grows."""

from __future__ import annotations

import csv
import hashlib
import os
import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from squeak.data.csv_text import MISSING_WORDS, CsvFormat
from squeak.data.preprocessing import check_names

CHUNK = 2**16
PAUSE = 0.2
"""Seconds between two looks at a file that has not grown."""

BEFORE = 4096
"""So many bytes before a place in a file tell whether it is still the same file."""


def from_descriptor(number: int, idle: Callable[[], None] = lambda: None) -> Callable[[], bytes]:
    """Return a function that gives the next bytes of an open file as soon as there are some; none at its end.

    ``idle``: called before bytes are read, and again and again while there are none.
    """

    def read() -> bytes:
        idle()
        while os.name != "nt" and not select.select([number], [], [], PAUSE)[0]:  # on Windows for sockets alone
            idle()
        return os.read(number, CHUNK)

    return read


class Growing:
    """Reads a file that grows: gives the next lines, waits for more, and gives none once it is told to stop.

    A last line that has no end yet is still being written: it is not given. Where the path leads to another file,
    as logs are renamed and begun anew, that one is read once nothing is left of the first, without its header.

    ``stopped``: tells whether to stop. ``idle``: called before lines are read, and again and again while there are
    none. ``header``: whether the first line has names. ``mark``: that of a reader before, or None: the lines up to
    there are left out, but for the header, where the file still has the same ones.
    """

    def __init__(
        self,
        path: Path,
        stopped: Callable[[], bool],
        idle: Callable[[], None] = lambda: None,
        *,
        header: bool = True,
        mark: Any = None,
    ) -> None:
        self._path, self._stopped, self._idle, self._header = path, stopped, idle, header
        self._begin()
        self._first, self._skips = b"", False
        self.goes_on = isinstance(mark, dict) and self._goes_to(mark)
        """Whether the file has the lines before the mark that was given."""
        self.mark = self._marked()
        """The place where the lines end that were given before the present call, and what stands before it."""

    def _begin(self) -> None:
        self._file = self._path.open("rb", buffering=0)
        self._given, self._last, self._partial = 0, b"", b""

    def _marked(self) -> dict[str, Any]:
        return {"place": self._given, "sha256": hashlib.sha256(self._last).hexdigest()}

    def _goes_to(self, mark: dict[str, Any]) -> bool:
        """Go to a place if the lines before it are the same; tells whether they are."""
        place = mark.get("place")
        if type(place) is not int or not 0 < place <= os.fstat(self._file.fileno()).st_size:
            return False
        self._file.seek(place - min(place, BEFORE))
        self._given, self._last = place, self._file.read(min(place, BEFORE))
        if self._marked() != mark:
            self.close()
            self._begin()
            return False
        if self._header:
            with self._path.open("rb") as file:
                self._first = file.readline()
        return True

    def __call__(self) -> bytes:
        """Return the next lines."""
        self.mark = self._marked()
        lines, self._first = self._first, b""
        while not lines and not self._stopped():
            self._idle()
            found = self._file.read(CHUNK)
            whole, end, self._partial = (self._partial + found).rpartition(b"\n")
            lines = whole + end
            self._given, self._last = self._given + len(lines), (self._last + lines)[-BEFORE:]
            if lines and self._skips:
                lines, self._skips = lines.partition(b"\n")[2], False
            elif not found and not self._turned():
                time.sleep(PAUSE)
        return lines

    def _turned(self) -> bool:
        """Turn to the file that the path leads to, if that is another one by now; tells whether it is."""
        try:
            there = self._path.stat()
        except FileNotFoundError:  # renamed, and not begun anew yet
            return False
        here, place = os.fstat(self._file.fileno()), self._file.tell()
        if here.st_size < place:
            raise ValueError(f"{self._path} became shorter while it was read")
        if os.path.samestat(there, here) or here.st_size > place:
            return False
        self.close()
        self._begin()
        self.mark, self._skips = self._marked(), self._header
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def csv_tables(
    read: Callable[[], bytes],
    form: CsvFormat,
    *,
    label: str,
    target: str | None = None,
    labels: Callable[[Any], bool] = lambda column: True,
    first_rows: int = 1,
    skip: bool = False,
) -> Iterator[Any]:
    """Yield Arrow tables of the lines that have come; the types of columns are those of the first table.

    A row is one line. Numbers are float64, but a ``target`` that is labels keeps its type.

    ``read``: gives the next bytes, and none at the end. ``label``: words for the source, in messages.
    ``labels``: tells whether the first values of the target are labels.
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
            keeps = target in table.column_names and labels(table[target])
            table, types = _settled(table, target if keeps else None)
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
