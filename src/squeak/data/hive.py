"""Columns that stand in the names of folders: ``year=2020/month=7/part.parquet``, as Hive and Spark write them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from squeak.data.files import AnyPath
from squeak.data.pieces import Piece
from squeak.data.readers import Reader

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The name of the folder of rows that have no value."""


def hive_values(paths: Sequence[AnyPath]) -> dict[AnyPath, dict[str, str]]:
    """Return what the folders of each file say, for the names that all files have."""
    found = {}
    for path in paths:
        named = [part.partition("=") for part in path.parts[:-1]]
        found[path] = {unquote(name): unquote(value) for name, sign, value in named if sign and name}
    shared = [name for name in found[paths[0]] if all(name in one for one in found.values())] if paths else []
    return {path: {name: one[name] for name in shared} for path, one in found.items()}


def with_folders(reader: Reader, paths: Sequence[AnyPath], kinds: Mapping[str, str], only: Any = None) -> Reader:
    """Return a reader of files with the columns that their folders say; the reader itself where there are none.

    ``kinds``: what is known of columns beforehand. ``only``: the columns to take, where they are known.
    """
    values = hive_values(paths)
    names = [name for name in values[paths[0]] if name not in reader.names and (only is None or name in only)]
    if not names:
        return reader
    return FolderReader(reader, {path: {name: one[name] for name in names} for path, one in values.items()}, kinds)


class FolderReader(Reader):
    """Rows of files beside what their folders say of all rows of a file.

    ``values``: of every file. A column of whole numbers or fractions throughout is one of numbers, unless ``kinds``
    says that it is text.
    """

    def __init__(
        self, inner: Reader, values: Mapping[AnyPath, Mapping[str, str]], kinds: Mapping[str, str]
    ) -> None:
        import pyarrow as pa

        self._inner = inner
        keys = list(next(iter(values.values())))
        self.names = [*inner.names, *keys]
        self.n_rows, self.n_parts, self.ahead, self.float32 = (
            inner.n_rows,
            inner.n_parts,
            inner.ahead,
            inner.float32,
        )
        self.recipe = None if inner.recipe is None else {**inner.recipe, "folders": keys}
        self._values: dict[AnyPath, dict[str, Any]] = {path: {} for path in values}
        for key in keys:
            said = [None if one[key] == NO_VALUE else one[key] for one in values.values()]
            numbers = None if kinds.get(key) == "text" else _numbers(said)
            kind = pa.string() if numbers is None else pa.float64()
            for path, value in zip(values, said if numbers is None else numbers, strict=True):
                self._values[path][key] = pa.scalar(value, kind)

    @property
    def skipped_lines(self) -> int:  # type: ignore[override]
        """Lines of the part last read that were skipped."""
        return self._inner.skipped_lines

    def pieces(self, part: int, columns: Sequence[Any] | None, start: int, size: int) -> Iterator[Piece]:
        """Yield the rows of a part with the columns of its folders."""
        import pyarrow as pa

        said = self._values[self._inner.part_path(part)]
        wanted = self.names if columns is None else list(columns)
        inside = [name for name in wanted if name not in said] or list(self._inner.names[:1])
        for piece in self._inner.pieces(part, inside, start, size):
            there = {name: piece.data.column(name) for name in inside}
            there |= {name: pa.repeat(value, piece.n) for name, value in said.items()}
            yield replace(piece, data=pa.table({name: there[name] for name in wanted}))

    def part_path(self, part: int) -> Any:
        """Return the file of a part."""
        return self._inner.part_path(part)

    def check_unchanged(self, part: int) -> None:
        """Refuse a file that was changed or replaced since it was opened."""
        self._inner.check_unchanged(part)

    def part_name(self, part: int) -> str:
        """Return words for a part, for messages."""
        return self._inner.part_name(part)

    def fingerprint(self) -> str:
        """Return the fingerprint of the files, with what their folders say."""
        said = [{name: value.as_py() for name, value in one.items()} for one in self._values.values()]
        return hashlib.sha256(repr((self._inner.fingerprint(), said)).encode()).hexdigest()


def _numbers(said: list[str | None]) -> list[float | None] | None:
    """Return texts as numbers; None where one of them is none."""
    try:
        return [None if value is None else float(value) for value in said]
    except ValueError:
        return None
