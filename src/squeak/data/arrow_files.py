"""Arrow files (IPC, Feather), read by record batches: never more than a few blocks in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from squeak.data.groups import GroupReader


class ArrowReader(GroupReader):
    """Rows of Arrow files; each record batch is a part, and so is a file of the streaming form."""

    what = "Arrow file"
    group = "record batch"

    def _look(self, file: Any) -> tuple[Any, list[int]]:
        import pyarrow as pa

        with _opened(file) as opened:
            schema = opened.schema
        file.seek(0)
        with _opened(file, schema.names[:1]) as opened:  # a batch tells its length with any of its columns
            if isinstance(opened, pa.RecordBatchStreamReader):
                return schema, [sum(batch.num_rows for batch in opened)]
            return schema, [opened.get_batch(number).num_rows for number in range(opened.num_record_batches)]

    def _batches(self, file: Any, path: Any, group: int, columns: list[str], size: int) -> Iterator[Any]:
        import pyarrow as pa

        with _opened(file, columns) as opened:
            streamed = isinstance(opened, pa.RecordBatchStreamReader)
            for batch in opened if streamed else [opened.get_batch(group)]:
                chosen = batch.select(columns)
                for begin in range(0, chosen.num_rows, size):
                    yield chosen.slice(begin, size)


def _opened(file: Any, columns: list[str] | None = None) -> Any:
    """Return the batches of an open file of either form, which its first bytes tell; only some of the columns."""
    import pyarrow as pa

    if columns is not None:
        with _opened(file) as whole:
            places = [whole.schema.get_field_index(name) for name in columns]
        file.seek(0)
        options = {"options": pa.ipc.IpcReadOptions(included_fields=places)}
    else:
        options = {}
    magic = file.read(6)
    if magic[:4] == b"FEA1":
        raise ValueError("it is of the first version of Feather, which is no longer written; write it anew")
    file.seek(0)
    return (pa.ipc.open_file if magic == b"ARROW1" else pa.ipc.open_stream)(file, **options)
