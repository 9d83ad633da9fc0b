"""What ``squeak online`` needs of rows that come as time passes: where from, and predictions as they are made."""

from __future__ import annotations

import csv
import io
import itertools
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import typer

from squeak.cli.errors import echo
from squeak.cli.reading import Columns

FIRST_ROWS = 256
"""Rows that are waited for before the first is learned, unless --learn-rows says otherwise."""

STDIN = "-"

FOLLOWED = "followed"
"""What a learner's file calls the place up to which a file that grows was learned."""

HEADER = "prediction,target\n"


@contextmanager
def following(path: Path, **options: Any) -> Iterator[Any]:
    """Give a reader of a growing file; Ctrl-C, or SIGTERM, ends the file instead of the program."""
    from squeak.data.lines import Growing

    stopped: list[int] = []
    ends = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(one, lambda number, frame: stopped.append(number)) for one in ends]
    try:
        with closing(Growing(path, lambda: bool(stopped), **options)) as lines:
            yield lines
    finally:
        for one, handler in zip(ends, before, strict=True):
            signal.signal(one, handler)


class Kept:
    """Saves a learner of rows that cannot be read again: every so many seconds, and where its run ends in an error.

    It is saved between two blocks of rows. Where that fails, for the disk is full for a moment, the run goes on.

    ``path``: where; None: nowhere.
    """

    def __init__(self, path: Path | None, every: float) -> None:
        self._path, self._every = path, every
        self._model: Any = None
        self._each: Any = None
        self._lines: Any = None
        self._saved, self._new = time.monotonic(), False

    def begun(self, model: Any, each: Any = None, lines: Any = None) -> Kept:
        """Take over what is saved, what is called first with every block, and the reader of a file that grows."""
        self._model, self._each, self._lines = model, each, lines
        return self

    def __call__(self, tested: Any, before: int) -> None:
        """Take note of a block that has been learned."""
        if self._each is not None:
            self._each(tested, before)
        self._new = True

    def idle(self) -> None:
        """Save what has been learned since the last time, if that is long ago."""
        if self._new and time.monotonic() - self._saved >= self._every:
            self._saved = time.monotonic()
            self._try()

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is not None and self._new and self._path is not None and self._try():
            echo(f"wrote {self._path}: the learner as it was before the error", err=True)

    def _try(self) -> bool:
        """Save the learner, and tell whether that was possible."""
        try:
            self.save()
        except OSError as error:
            echo(f"squeak: {self._path} could not be written: {error.strerror or error}", err=True)
            return False
        return True

    def save(self) -> None:
        """Save the learner, and with it how far it has learned a file that grows."""
        from squeak.core.storage import write

        if self._path is not None:
            arrays, content = self._model.to_parts()
            content |= {} if self._lines is None else {FOLLOWED: self._lines.mark}
            write(self._path, self._model.kind, arrays, content)
        self._new = False


def live_source(
    reading: Columns,
    read: Any,
    label: str,
    target: str,
    *,
    preprocessing: Any | Literal["learn"],
    first_rows: int,
    are_labels: Callable[[Any], bool],
) -> tuple[Any, Any]:
    """Return the source of rows that come as lines of CSV, and the targets of the first of them.

    ``are_labels``: tells whether targets are labels; others are numbers, whatever the first of them look like.
    """
    import squeak as sq
    from squeak.data.csv_text import CsvFormat
    from squeak.data.lines import csv_tables

    given = reading.parameters()
    form = CsvFormat(given["delimiter"] or ",", given["header"], tuple(given["na_values"]), given["encoding"])
    skip = given["on_bad_rows"] == "skip"

    def labels(column: Any) -> bool:
        return are_labels(np.asarray(column.to_pandas()))

    options: dict[str, Any] = {"labels": labels, "first_rows": first_rows, "skip": skip}
    tables = csv_tables(read, form, label=label, target=target, **options)
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

    ``path``: "-" is standard output. ``goes_on``: whether the file keeps the rows of a run that goes on from its
    checkpoint. ``adds``: whether it keeps all rows, for the learner goes on with other ones.
    """

    def __init__(self, path: str, *, goes_on: bool, adds: bool = False) -> None:
        self._path, self._goes_on, self._adds = path, goes_on, adds and path != STDIN and Path(path).exists()
        self._stream: Any = None if path != STDIN else sys.stdout
        if self._adds:
            with Path(path).open("rb") as known:
                first = known.readline(len(HEADER) + 1)
            if first.split() not in ([], [HEADER.strip().encode()]):
                raise typer.BadParameter(
                    f"{path} is there already and holds no predictions: choose another name, or say --overwrite"
                )

    def __call__(self, tested: Any, before: int) -> None:
        """Write the rows of a block, of which there were so many before."""
        from squeak.core.text import for_cell

        if self._stream is None:
            self._stream = self._opened(before)
        elif before == 0:  # standard output, which has no lines of a run before
            self._stream.write(HEADER)
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
        """Return the open file, behind the rows that it keeps."""
        path, records, end = Path(self._path), 0, 0
        if before and self._goes_on:
            records, end = whole_records(path, before + 1)
            if records <= before:
                raise ValueError(f"{self._path} has fewer predictions than the run that goes on had made")
        elif self._adds:
            records, end = whole_records(path)
        stream = path.open("a" if records else "w", encoding="utf8", newline="")
        if records:
            stream.truncate(end)
        else:
            stream.write(HEADER)
        return stream


def whole_records(path: Path, most: float = math.inf) -> tuple[int, int]:
    """Return how many records of CSV a file has, ``most`` at most, and the place behind them.

    A record goes on while a quote is open. The last one does not count if its end was not written any more.
    """
    records, end, at, quotes = 0, 0, 0, 0
    with path.open("rb") as stream:
        for line in stream:
            at, quotes = at + len(line), quotes + line.count(b'"')
            if line.endswith(b"\n") and quotes % 2 == 0:
                records, end = records + 1, at
                if records == most:
                    break
    return records, end
