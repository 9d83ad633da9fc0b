"""What ``squeak online`` needs of rows that come as time passes: where from, and predictions as they are made."""

from __future__ import annotations

import csv
import io
import itertools
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import typer

from squeak.cli.errors import echo
from squeak.cli.reading import Columns

FIRST_ROWS = 256
"""Rows that are waited for before the first is learned, unless --learn-rows says otherwise."""

STDIN = "-"


@contextmanager
def following(path: Path) -> Iterator[Any]:
    """Give a function that reads a growing file; Ctrl-C, or SIGTERM, ends the file instead of the program."""
    from squeak.data.lines import from_growing

    stopped: list[int] = []
    ends = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(one, lambda number, frame: stopped.append(number)) for one in ends]
    try:
        yield from_growing(path, lambda: bool(stopped))
    finally:
        for one, handler in zip(ends, before, strict=True):
            signal.signal(one, handler)


class Kept:
    """Saves a learner of rows that cannot be read again: every so many seconds, and where its run ends in an error.

    ``path``: where; None: nowhere. ``each``: what is called first with every block.
    """

    def __init__(self, model: Any, path: Path | None, every: float, each: Any = None) -> None:
        self._model, self._path, self._every, self._each = model, path, every, each
        self._saved, self._learned = time.monotonic(), False

    def __call__(self, tested: Any, before: int) -> None:
        """Take note of a block that has been learned."""
        if self._each is not None:
            self._each(tested, before)
        self._learned = True
        if time.monotonic() - self._saved >= self._every:
            self._save()

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is not None and self._learned and self._path is not None:
            self._save()
            echo(f"wrote {self._path}: the learner as it was before the error", err=True)

    def _save(self) -> None:
        import squeak as sq

        if self._path is not None:
            sq.save(self._model, self._path)
        self._saved = time.monotonic()


def live_source(
    reading: Columns, read: Any, label: str, target: str, *, preprocessing: Any | Literal["learn"], first_rows: int
) -> tuple[Any, Any]:
    """Return the source of rows that come as lines of CSV, and the targets of the first of them."""
    import squeak as sq
    from squeak.data.csv_text import CsvFormat
    from squeak.data.lines import csv_tables

    given = reading.parameters()
    form = CsvFormat(given["delimiter"] or ",", given["header"], tuple(given["na_values"]), given["encoding"])
    skip = given["on_bad_rows"] == "skip"
    tables = csv_tables(read, form, label=label, target=target, first_rows=first_rows, skip=skip)
    first = next(tables)
    if target not in first.column_names:
        raise typer.BadParameter(f"{label} has no column {target!r}; it has {', '.join(first.column_names)}")
    choices: dict[str, Any] = {"preprocessing": preprocessing}
    if isinstance(preprocessing, str):
        choices = {**reading.choices(), "learn_rows": first.num_rows}
    rows = sq.rows(itertools.chain([first], tables), target, on_bad_rows=given["on_bad_rows"], **choices)
    rows.reader.live = True
    return rows, np.asarray(first[target].to_pandas())


class Predictions:
    """Writes the prediction and the target of every row as CSV, as they are made.

    ``path``: "-" is standard output. ``goes_on``: whether rows that a run before wrote are kept.
    """

    def __init__(self, path: str, *, goes_on: bool) -> None:
        self._path, self._goes_on, self._stream = path, goes_on, None if path != STDIN else sys.stdout

    def __call__(self, tested: Any, before: int) -> None:
        """Write the rows of a block, of which there were so many before."""
        from squeak.core.text import for_cell

        if self._stream is None:
            self._stream = self._opened(before)
        elif before == 0:  # standard output, which has no lines of a run before
            self._stream.write("prediction,target\n")
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for pair in zip(tested.predictions.tolist(), np.asarray(tested.y).tolist(), strict=True):
            writer.writerow([for_cell(value) if isinstance(value, str) else value for value in pair])
        self._stream.write(text.getvalue())
        self._stream.flush()

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None and self._path != STDIN:
            self._stream.close()

    def _opened(self, before: int) -> Any:
        """Return the open file, behind the rows of the run that goes on."""
        lines = ["prediction,target\n"]
        if before and self._goes_on:
            with Path(self._path).open(encoding="utf8") as known:
                lines = list(itertools.islice(known, before + 1))
            if len(lines) <= before:
                raise ValueError(f"{self._path} has fewer predictions than the run that goes on had made")
        stream = Path(self._path).open("w", encoding="utf8")  # noqa: SIM115 - closed by close()
        stream.writelines(lines)
        return stream
