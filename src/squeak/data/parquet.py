"""Parquet files, read by row groups: never more than a few blocks in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from squeak.data.groups import GroupReader


class ParquetReader(GroupReader):
    """Rows of Parquet files; each row group is a part."""

    what = "Parquet file"
    group = "row group"
    _footer: tuple[Any, Any] = None, None
    """The file last read and its footer, which tells of all row groups: to parse it for each would cost more."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave the footer here: it is read where the file is."""
        return {name: value for name, value in self.__dict__.items() if name != "_footer"}

    def _look(self, file: Any) -> tuple[Any, list[int]]:
        import pyarrow.parquet as pq

        metadata = pq.read_metadata(file)
        groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        return metadata.schema.to_arrow_schema(), groups

    def _batches(self, file: Any, path: Any, group: int, columns: list[str], size: int) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        known, footer = self._footer
        how: dict[str, Any] = {
            "metadata": footer if known == path else None,
            "pre_buffer": not isinstance(file, pa.OSFile),  # many small reads take long over a network
            "buffer_size": 2**20,
            "page_checksum_verification": True,
        }
        with pq.ParquetFile(file, **how) as opened:
            self._footer = path, opened.metadata
            yield from opened.iter_batches(batch_size=size, row_groups=[group], columns=columns)
