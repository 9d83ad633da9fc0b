"""What a command writes: where it may, and how tables become files."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from squeak.cli.errors import echo, stop

Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Write even over a file that is read, or that squeak did not write.")
]

APOSTROPHES = (
    "some texts would be formulas in a spreadsheet: in the CSV file an apostrophe stands before them; Parquet has "
    "them as they are"
)


def check_outputs(
    inputs: Iterable[str | Path | None],
    *,
    overwrite: bool,
    squeak_files: Sequence[Path | None] = (),
    others: Sequence[Path | None] = (),
    states: Sequence[Path | None] = (),
) -> None:
    """Fail before a long run where its results could not be written, or would take the place of something else.

    ``inputs``: what the command reads; None for what was not given. ``overwrite``: whether the user allows it to
    take the place of an input, or of a file that is not ours. ``squeak_files``, ``others``: what the command writes
    at its end: .sqk files, which only take the place of others, and everything else. ``states``: .sqk files that
    are written while the inputs are still read: those never take the place of an input.
    """
    from squeak.core.outputs import check_place
    from squeak.core.storage import StorageError, read
    from squeak.data.files import find_files, is_url

    squeak_files = [*squeak_files, *states]
    outputs = [path for path in (*squeak_files, *others) if path is not None]
    for out in outputs:
        check_place(out)
    for place, out in enumerate(outputs):
        if any(same_file(out, other) for other in outputs[:place]):
            raise typer.BadParameter(f"{out} is named twice: one result would take the place of the other")
    given = [os.fspath(one) for one in inputs if one is not None and not is_url(one)]
    files = [path for one in given for path in find_files(one) if isinstance(path, Path)]
    for out in outputs:
        if overwrite and out not in states:
            continue
        if any(same_file(out, file) for file in files):
            raise typer.BadParameter(
                f"{out} is one of the files that are read: it would be overwritten. Choose another name, or say "
                "--overwrite"
            )
        for one in given:
            if _would_be_read(out, one):
                raise typer.BadParameter(
                    f"{out} would be one of the files of {one} when they are read again. Choose another name, or "
                    "say --overwrite"
                )
    for path in squeak_files:
        if path is not None and path.exists() and not (overwrite and path not in states):
            try:
                read(path)
            except StorageError:
                raise typer.BadParameter(
                    f"{path} is there already and is not a squeak file: choose another name, or say --overwrite"
                ) from None


def check_ending(out: Path, *endings: str, option: str = "--out") -> None:
    """Refuse a file whose name does not end as one of the kinds that can be written."""
    if out.suffix not in endings:
        raise typer.BadParameter(f"{option} ends in {', '.join(endings[:-1])} or {endings[-1]}; it is {out}")


def check_figure(figure: Path | None) -> None:
    """Fail before a long run where its figure could not be drawn."""
    if figure is None:
        return
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("--figure needs matplotlib: pip install 'squeak-learn[report]'") from None
    check_ending(figure, ".png", ".svg", ".pdf", option="--figure")


def same_file(one: Path, other: Path) -> bool:
    """Tell whether two names lead to one file, by links of either kind."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()


def _would_be_read(out: Path, given: str) -> bool:
    """Tell whether a file that may not be there yet belongs to a folder or a glob that is read."""
    from squeak.data.files import file_kind, is_hidden

    source, place = Path(given).expanduser(), out.parent.resolve() / out.name
    if source.is_dir():
        root = source.resolve()
        return bool(file_kind(out)) and place.is_relative_to(root) and not is_hidden(place.relative_to(root))
    if source.exists() or not glob.has_magic(given):
        return False
    parts = source.parts
    first = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    root = Path(*parts[:first]).resolve()
    return place.is_relative_to(root) and _matches(place.relative_to(root).parts, parts[first:])


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[start:], pattern[1:]) for start in range(len(parts) + 1))
    hidden = bool(parts) and parts[0].startswith(".") and not pattern[0].startswith(".")
    return bool(parts) and not hidden and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def is_fresh(out: Path, overwrite: bool) -> None:
    """Refuse an output that is there already, unless the user allows it."""
    if out.exists() and not overwrite:
        raise typer.BadParameter(f"{out} is there already: choose another name, or say --overwrite")


@contextlib.contextmanager
def going_on(checkpoint: Path | None, quiet: bool) -> Iterator[None]:
    """Say that a run goes on, and how it will if it is interrupted."""
    if checkpoint is not None and checkpoint.exists() and not quiet:
        echo(f"{checkpoint} is there: going on from it if its run had not ended", err=True)
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is not None and checkpoint.exists():
            stop(f"interrupted; the same command goes on from {checkpoint}", 130)
        raise


class TableWriter:
    """Writes tables one after the other into an open file, as Parquet or CSV by the name's ending."""

    def __init__(self, stream: Any, ending: str) -> None:
        self._stream, self._csv = stream, ending == ".csv"
        self._writer: Any = None
        self.changed = False
        """Whether an apostrophe was put before a text, see :func:`squeak.core.text.for_cell`."""

    def write(self, table: Any) -> None:
        """Write the rows of a table or batch; all have the columns of the first."""
        import pyarrow as pa
        from pyarrow import csv, parquet

        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        if self._csv:
            table = self._cells(table)
        if self._writer is None:
            self._writer = (csv.CSVWriter if self._csv else parquet.ParquetWriter)(self._stream, table.schema)
        self._writer.write_table(table)

    def close(self) -> None:
        """Write what is left to write."""
        if self._writer is not None:
            self._writer.close()

    def _cells(self, table: Any) -> Any:
        import pyarrow as pa

        from squeak.core.text import for_cell

        columns = []
        for column in table.columns:
            kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
            if pa.types.is_string(kind) or pa.types.is_large_string(kind):
                given = column.to_pylist()
                safe = [text if text is None else for_cell(text) for text in given]
                self.changed |= safe != given
                column = pa.array(safe, kind)
            columns.append(column)
        names = [for_cell(name) for name in table.column_names]
        self.changed |= names != table.column_names
        return pa.table(columns, names=names)


def write_table(out: Path, table: Any) -> bool:
    """Write a table whole or not at all; tell whether texts had to be changed for a CSV file."""
    from squeak.core.outputs import replacing

    with replacing(out) as stream:
        writer = TableWriter(stream, out.suffix)
        writer.write(table)
        writer.close()
    return writer.changed
