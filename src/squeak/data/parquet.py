"""Parquet files, read by row groups: never more than a few blocks in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from squeak.data.groups import GroupReader


class ParquetReader(GroupReader):
    """Rows of Parquet files; each row group is a part."""

    what = "Parquet file"
    group = "row group"

    def _look(self, file: Any) -> tuple[Any, list[int]]:
        import pyarrow.parquet as pq

        metadata = pq.read_metadata(file)
        groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        return metadata.schema.to_arrow_schema(), groups

    def _batches(self, file: Any, group: int, columns: list[str], size: int) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        far = not isinstance(file, pa.OSFile)  # many small reads take long over a network
        with pq.ParquetFile(file, pre_buffer=far, buffer_size=2**20, page_checksum_verification=True) as opened:
            yield from opened.iter_batches(batch_size=size, row_groups=[group], columns=columns)
