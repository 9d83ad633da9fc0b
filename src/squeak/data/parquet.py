"""Parquet files, read by row groups: never more than a few blocks in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from squeak.data.columns import kind_of
from squeak.data.files import Unchanged, Wanted, compare_kinds, sample, tell_apart, unreadable
from squeak.data.pieces import Piece
from squeak.data.preprocessing import check_names
from squeak.data.readers import Reader


class ParquetReader(Reader):
    """Rows of Parquet files; each row group is a part."""

    ahead = True

    def __init__(self, paths: list[Path], wanted: Wanted) -> None:
        import pyarrow.parquet as pq

        self._labels = tell_apart(paths)
        self._watched = Unchanged(paths, self._labels)
        self._groups: list[tuple[Path, int, int, int]] = []
        digest, total = hashlib.sha256(), 0
        first_kinds: dict[str, str] = {}
        for path in paths:
            label = self._labels[path]
            try:
                metadata = pq.read_metadata(path)
                schema = metadata.schema.to_arrow_schema()
            except Exception as error:
                raise unreadable(error, label, "Parquet file") from None
            check_names(schema.names, label)
            kinds = {field.name: kind_of(field.type) for field in schema}
            narrow = {field.name for field in schema if str(field.type) in ("float", "halffloat")}
            if path == paths[0]:
                self.names, self.float32 = list(schema.names), narrow
                first_kinds = {name: kinds[name] for name in wanted(schema.names)}
            else:
                compare_kinds(kinds, first_kinds, label, self._labels[paths[0]])
                self.float32 = (self.float32 or set()) & narrow
            begin = 0
            for group in range(metadata.num_row_groups):
                rows = metadata.row_group(group).num_rows
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
        self.recipe = {"paths": [str(path.resolve()) for path in paths]}
        self._digest = digest.hexdigest()

    def pieces(self, part: int, columns: Sequence[Any] | None, start: int, size: int) -> Iterator[Piece]:
        """Yield the rows of a row group from row ``start`` of it on, in pieces of about ``size``."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path, group, begin, _ = self._groups[part]
        label = self._labels[path]
        seen = 0
        self._watched.check(path)
        try:
            with pq.ParquetFile(path, pre_buffer=False, buffer_size=2**20, page_checksum_verification=True) as file:
                batches = file.iter_batches(
                    batch_size=size, row_groups=[group], columns=None if columns is None else list(columns)
                )
                for batch in batches:
                    if seen + batch.num_rows > start:
                        skip = max(0, start - seen)
                        table = pa.Table.from_batches([batch.slice(skip)])
                        yield Piece(table, label, begin + seen + skip)
                    seen += batch.num_rows
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            self._watched.check(path)
            raise unreadable(error, label, f"Parquet file (row group {group})") from None

    def check_unchanged(self, part: int) -> None:
        """Refuse a file that was changed or replaced since it was opened."""
        self._watched.check(self._groups[part][0])

    def part_name(self, part: int) -> str:
        """Return the file's name and the row group's number, for messages."""
        path, group, _, _ = self._groups[part]
        return f"{self._labels[path]} (row group {group})"

    def fingerprint(self) -> str:
        """Return a hash of the files' names, sizes, ends (with the statistics of every column) and samples."""
        return self._digest
