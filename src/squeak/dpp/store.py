"""Where the rows are: in memory, or in a source that is read from its beginning whenever some are needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.kernels import gram
from squeak.core.rows import check_rows, copy_rows, join, n_rows, take
from squeak.core.types import Array, IntArray, Rows
from squeak.data import Preprocessing, RowSource, reopen
from squeak.data.blocks import LARGEST_BLOCK
from squeak.samplers.bless import distinct

SMALL = 2_000
"""Up to so many rows in memory, their kernel matrix (32 MB at most) is made once and kept."""


class MemoryRows:
    """Checked rows in memory of our own."""

    in_memory = True

    def __init__(self, X: Rows) -> None:
        self.X = X
        self._values: Array | None = None

    @property
    def n(self) -> int:
        """The number of rows."""
        return n_rows(self.X)

    def needed(self) -> None:
        """Say that rows are needed: they are there."""

    def data(self) -> Any:
        """Return what a sampler is fitted on."""
        return self.X

    def first(self) -> Rows:
        """Return the rows that widths are learned from: all."""
        return self.X

    def few(self, size: int, rng: np.random.Generator) -> Rows:
        """Return some of the rows, drawn uniformly."""
        return self.X if size >= self.n else take(self.X, np.sort(distinct(self.n, size, rng)))

    def blocks(self) -> Iterator[Rows]:
        """Yield all rows in order."""
        for part in engine.tiles(self.n, LARGEST_BLOCK):
            yield take(self.X, part)

    def fetch(self, numbers: IntArray) -> Rows:
        """Return rows by their numbers."""
        return take(self.X, numbers)

    def values(self, kernel: Any, numbers: IntArray) -> Array | None:
        """Return the kernel's matrix of some rows where it is kept for all of them, else None."""
        if self.n > SMALL:
            return None
        if self._values is None:
            self._values = gram(kernel, self.X)
        return self._values[np.ix_(numbers, numbers)]


class SourceRows:
    """Rows of a repeatable source, read in blocks and never held; some are fetched in one more pass."""

    in_memory = False

    def __init__(self, source: RowSource, kernel: Any, n: int | None = None) -> None:
        self.source, self._kernel, self._n = source, kernel, n

    @property
    def n(self) -> int:
        """The number of rows kept; known once they were all read."""
        if self._n is None:
            self._n = sum(n_rows(block) for block in self.blocks())
        return self._n

    def needed(self) -> None:
        """Say that rows are needed: the source can be read."""

    @property
    def recipe(self) -> dict[str, Any] | None:
        """How to open the source again, as JSON data."""
        return self.source.recipe

    @property
    def preprocessing(self) -> Preprocessing | None:
        """What turned the user's columns into rows."""
        return self.source.preprocessing

    def data(self) -> Any:
        """Return what a sampler is fitted on."""
        return self.source

    def first(self) -> Rows:
        """Return the rows that widths are learned from: the first block."""
        blocks = self.blocks()
        try:
            return next(blocks)
        finally:
            blocks.close()  # type: ignore[attr-defined]

    def few(self, size: int, rng: np.random.Generator) -> Rows:
        """Return some rows of the first block, drawn uniformly; no pass is spent on them."""
        return MemoryRows(self.first()).few(size, rng)

    def blocks(self) -> Iterator[Rows]:
        """Yield all rows in order, checked."""
        seen = 0
        for block in self.source.blocks():
            yield check_rows(block.X, self._kernel, first_row=seen)
            seen += n_rows(block.X)
        if self._n is not None and seen != self._n:
            raise ValueError(f"the source gave {self._n:,} rows before and {seen:,} now: its data has changed")
        self._n = seen

    def fetch(self, numbers: IntArray) -> Rows:
        """Return rows by their numbers, ascending, in one pass."""
        found: Rows = None
        seen = 0
        for block in self.blocks():
            inside = numbers[np.searchsorted(numbers, seen) : np.searchsorted(numbers, seen + n_rows(block))]
            if inside.size or found is None:
                part = take(block, inside - seen)
                found = part if found is None else join(found, part)
            seen += n_rows(block)
        return found

    def values(self, kernel: Any, numbers: IntArray) -> Array | None:
        """Return None: nothing is kept."""
        return None


class NamedRows(SourceRows):
    """Rows of files that are known by name only, from a saved DPP: nothing is opened until the caller says so.

    ``recipe``: how the source is opened again, as the saved file says.
    """

    def __init__(self, recipe: dict[str, Any], preprocessing: Preprocessing | None, kernel: Any, n: int) -> None:
        self._recipe, self._preprocessing, self._kernel, self._n = recipe, preprocessing, kernel, n

    @property
    def recipe(self) -> dict[str, Any] | None:
        """How to open the source again, as JSON data."""
        return self._recipe

    @property
    def preprocessing(self) -> Preprocessing | None:
        """What turned the user's columns into rows."""
        return self._preprocessing

    def needed(self) -> None:
        """Refuse: the caller has not said yet where the rows are."""
        paths = self._recipe["paths"]
        named = ", ".join(map(repr, paths[:3])) + (", …" if len(paths) > 3 else "")
        raise ValueError(
            f"this DPP was saved without its {self._n:,} rows; it names the files {named}, which were not opened. "
            "Give the rows with attach_rows(squeak.rows(...)), or call attach_rows() to open those files"
        )

    def attached(self, X: Any) -> MemoryRows | SourceRows:
        """Return the rows in ``X``, or where it is None in the files that are named; others are refused."""
        if X is None:
            return SourceRows(reopen(self._recipe, self._preprocessing), self._kernel, self._n)
        if isinstance(X, RowSource):
            X.check_preprocessed(self._preprocessing, "those of the fit", "dpp.dictionary_.preprocessing")
        elif self._preprocessing is not None:
            X = self._preprocessing.encode(X)
        found = rows_of(X, self._kernel)
        if isinstance(found, SourceRows):
            return SourceRows(found.source, self._kernel, self._n)
        if found.n != self._n:
            raise ValueError(f"the DPP was fitted on {self._n:,} rows, and these are {found.n:,}")
        return found


def rows_of(X: Any, kernel: Any) -> MemoryRows | SourceRows:
    """Return the rows of an array (copied, so that later changes to it do no harm) or of a row source."""
    if not isinstance(X, RowSource):
        checked = check_rows(X, kernel)
        arrays = isinstance(checked, np.ndarray) and isinstance(X, np.ndarray)
        return MemoryRows(checked if arrays and not np.may_share_memory(checked, X) else copy_rows(checked))
    if not X.repeatable:
        raise ValueError(
            "an iterator can be read only once, and sampling needs the rows again: pass a function that returns a "
            "new iterator, or the rows themselves"
        )
    return SourceRows(X, kernel)
