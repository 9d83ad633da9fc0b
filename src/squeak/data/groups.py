"""Files whose rows lie in groups that can be read apart: what readers of Parquet and of Arrow files share."""

from __future__ import annotations

import hashlib
import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from squeak.data.columns import kind_of
from squeak.data.files import (
    AnyPath,
    Unchanged,
    Wanted,
    compare_kinds,
    open_seekable,
    recipe_of,
    sample,
    tell_apart,
    unreadable,
)
from squeak.data.pieces import Piece
from squeak.data.preprocessing import check_names
from squeak.data.readers import Reader

UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
"""What pandas calls the row numbers that it writes beside the columns: a data frame does not count them either."""


class GroupReader(Reader):
    """Rows of files with a schema; each group of rows is a part."""

    ahead = True
    what: ClassVar[str]
    """What such a file is called."""
    group: ClassVar[str]
    """What a group of rows is called."""

    @abstractmethod
    def _look(self, file: Any) -> tuple[Any, list[int]]:
        """Return the schema of an open file, and the number of rows of every group."""

    @abstractmethod
    def _batches(self, file: Any, path: AnyPath, group: int, columns: list[str], size: int) -> Iterator[Any]:
        """Yield the rows of one group of an open file, with the columns named, in batches of about ``size``."""

    def __init__(self, paths: list[AnyPath], wanted: Wanted) -> None:
        self._labels = tell_apart(paths)
        self._watched = Unchanged(paths, self._labels)
        self._groups: list[tuple[AnyPath, int, int, int]] = []
        digest, total = hashlib.sha256(), 0
        first_kinds: dict[str, str] = {}
        for path in paths:
            label = self._labels[path]
            try:
                with open_seekable(path) as file:
                    schema, rows_of = self._look(file)
            except Exception as error:
                raise unreadable(error, label, self.what) from None
            check_names(schema.names, label)
            kinds = {field.name: kind_of(field.type) for field in schema}
            narrow = {field.name for field in schema if str(field.type) in ("float", "halffloat")}
            if path == paths[0]:
                self.names = [name for name in schema.names if not UNNAMED_INDEX.fullmatch(name)]
                self.float32, first_kinds = narrow, {name: kinds[name] for name in wanted(self.names)}
            else:
                compare_kinds(kinds, first_kinds, label, self._labels[paths[0]])
                self.float32 = (self.float32 or set()) & narrow
            begin = 0
            for group, rows in enumerate(rows_of):
                if rows:
                    self._groups.append((path, group, begin, rows))
                begin += rows
            total += begin
            digest.update(repr((path.name, begin, schema.names)).encode())
            digest.update(sample(path))
        if total == 0:
            raise ValueError(f"{self._labels[paths[0]]} has no rows")
        self.n_rows = total
        self.n_parts = len(self._groups)
        self.recipe = recipe_of(paths)
        self._digest = digest.hexdigest()

    def pieces(self, part: int, columns: Sequence[Any] | None, start: int, size: int) -> Iterator[Piece]:
        """Yield the rows of a group from row ``start`` of it on, in pieces of about ``size``."""
        import pyarrow as pa

        path, group, begin, _ = self._groups[part]
        label = self._labels[path]
        seen = 0
        self._watched.check(path)
        try:
            with open_seekable(path) as file:
                wanted = list(self.names if columns is None else columns)
                for batch in self._batches(file, path, group, wanted, size):
                    if seen + batch.num_rows > start:
                        skip = max(0, start - seen)
                        table = pa.Table.from_batches([batch.slice(skip)])
                        yield Piece(table, label, begin + seen + skip)
                    seen += batch.num_rows
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            self._watched.check(path)
            raise unreadable(error, label, f"{self.what} ({self.group} {group})") from None

    def check_unchanged(self, part: int) -> None:
        """Refuse a file that was changed or replaced since it was opened."""
        self._watched.check(self._groups[part][0])

    def part_path(self, part: int) -> AnyPath:
        """Return the file of a part."""
        return self._groups[part][0]

    def part_name(self, part: int) -> str:
        """Return the file's name and the group's number, for messages."""
        path, group, _, _ = self._groups[part]
        return f"{self._labels[path]} ({self.group} {group})"

    def fingerprint(self) -> str:
        """Return a hash of the files' names, sizes, ends (with the statistics of every column) and samples."""
        return self._digest
