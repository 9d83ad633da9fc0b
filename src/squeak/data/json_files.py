"""Files of JSON lines, one object a line, read a stretch of lines at a time."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from squeak.data.columns import kind_of
from squeak.data.csv_faults import types_of
from squeak.data.files import AnyPath, Unchanged, Wanted, open_stream, recipe_of, sample, tell_apart, unreadable
from squeak.data.pieces import Piece
from squeak.data.preprocessing import check_names
from squeak.data.readers import Reader

STRETCH_BYTES, MOST_BYTES = 4 * 2**20, 64 * 2**20
"""What is read at once; where a line is longer, up to the second."""


class JsonReader(Reader):
    """Rows of files of JSON lines, each a part; numbers are read as float64.

    The columns and their types are those of the first 4 MB of the first file; a field that a line does not have is
    missing there. ``kinds``: what is known of columns beforehand: "text" for categories.
    """

    ahead = True

    def __init__(self, paths: list[AnyPath], wanted: Wanted, kinds: Mapping[str, str]) -> None:
        self._labels, self._paths = tell_apart(paths), paths
        self._watched = Unchanged(paths, self._labels)
        self.float32 = set()
        digest = hashlib.sha256()
        for path in paths:
            digest.update(path.name.encode())
            digest.update(sample(path))
        self._digest, self.n_parts = digest.hexdigest(), len(paths)
        self.recipe = recipe_of(paths)
        self._types = self._column_types(paths[0], kinds)
        self.names = list(self._types)
        check_names(self.names, self._labels[paths[0]])
        wanted(self.names)

    def _column_types(self, path: AnyPath, kinds: Mapping[str, str]) -> dict[str, Any]:
        """Return the types of the first stretch; whole numbers become float64, for fractions may follow."""
        import pyarrow as pa

        first = next(self._tables(path, None), None)
        if first is None:
            raise ValueError(f"{self._labels[path]} has no rows")
        found: dict[str, Any] = {}
        for field in first.schema:
            known, kind = kinds.get(field.name), kind_of(field.type)
            if known == "text" and kind == "text":
                found[field.name] = pa.string()
            elif kind == "empty":
                found[field.name] = next(types_of(known or "number"), pa.float64())
            elif pa.types.is_integer(field.type):
                found[field.name] = pa.float64()
            else:
                found[field.name] = field.type
        return found

    def _tables(self, path: AnyPath, names: Collection[str] | None) -> Iterator[Any]:
        """Yield the lines of a file as tables, of the columns named; all of them while types are not known."""
        import pyarrow as pa
        import pyarrow.json as pj

        label, seen = self._labels[path], 0
        options: dict[str, Any] = {}
        if names is not None:
            schema = pa.schema([(name, self._types[name]) for name in names])
            options = {"explicit_schema": schema, "unexpected_field_behavior": "ignore"}
        try:
            with open_stream(path) as stream:
                for text in _stretches(stream):
                    table = pj.read_json(
                        io.BytesIO(text),
                        read_options=pj.ReadOptions(block_size=len(text) + 1),
                        parse_options=pj.ParseOptions(**options),
                    )
                    yield table if names is None else table.select(list(names))
                    seen += table.num_rows
        except (pa.ArrowException, OSError) as error:
            self._watched.check(path)
            raise unreadable(error, f"{label} (rows counted from row {seen} on)", "file of JSON lines") from None

    def pieces(self, part: int, columns: Sequence[Any] | None, start: int, size: int) -> Iterator[Piece]:
        """Yield the rows of a file from row ``start`` of it on."""
        path, seen = self._paths[part], 0
        self._watched.check(path)
        for table in self._tables(path, self.names if columns is None else list(columns)):
            begin, seen = seen, seen + table.num_rows
            if seen > start:
                yield Piece(table.slice(max(0, start - begin)), self._labels[path], max(start, begin))

    def check_unchanged(self, part: int) -> None:
        """Refuse a file that was changed or replaced since it was opened."""
        self._watched.check(self._paths[part])

    def part_path(self, part: int) -> AnyPath:
        """Return the file of a part."""
        return self._paths[part]

    def part_name(self, part: int) -> str:
        """Return the file's name, for messages."""
        return self._labels[self._paths[part]]

    def fingerprint(self) -> str:
        """Return a hash of the files' names, sizes, beginnings, ends and samples."""
        return self._digest


def _stretches(stream: Any) -> Iterator[bytes]:
    """Yield whole lines, about 4 MB of them at a time."""
    rest = b""
    while True:
        read = stream.read(STRETCH_BYTES)
        text = rest + read
        end = text.rfind(b"\n") + 1 if read else len(text)
        if not read:
            if text.strip():
                yield text
            return
        if end == 0 and len(text) > MOST_BYTES:
            raise OSError(f"a line has more than {MOST_BYTES:,} bytes")
        rest = text[end:]
        if text[:end].strip():
            yield text[:end]
