"""Partitions of a Dask DataFrame and chunks of a Dask array as parts of a source, computed where they are read."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from squeak.data.pieces import Piece, as_table
from squeak.data.readers import Reader, floats


def delayed_parts(X: Any) -> list[Any]:
    """Return the chunks of rows of a dask array, or the partitions of a dask dataframe, as delayed objects."""
    if hasattr(X, "numblocks"):
        if X.ndim != 2 or X.numblocks[1] != 1:
            raise ValueError(
                "a dask array must have two dimensions and all columns in one chunk: X.rechunk({1: -1})"
            )
        return [chunk for line in X.to_delayed().tolist() for chunk in line]
    if hasattr(X, "npartitions") and hasattr(X, "to_delayed"):
        return list(X.to_delayed())
    raise TypeError(f"rows cannot be read from a {type(X).__name__}: pass a dask array or dataframe")


def computed(delayed: Any) -> Any:
    """Return the rows of a part, computed here."""
    from dask.local import get_sync

    problem = None
    try:
        found = delayed.compute(scheduler=get_sync)  # by its name, older versions warn of the client that is active
        if type(found).__name__ != "Future":  # which older versions give for what a client holds
            return found
    except (KeyError, ValueError) as error:
        if not (isinstance(error, KeyError) or str(error).startswith("Missing dependency")):
            raise
        problem = error
    raise ValueError(
        "the partitions of a persisted Dask collection are known to its client alone: pass it as it was before "
        "persist(), or write it to files"
    ) from problem


class DelayedReader(Reader):
    """Rows of a Dask collection, partition by partition; nothing else of it travels or is computed."""

    ahead = True

    def __init__(self, collection: Any) -> None:
        parts = delayed_parts(collection)
        self._parts: dict[int, Any] = dict(enumerate(parts))
        self.n_parts = len(parts)
        named = hasattr(collection, "columns")
        self.names = [str(name) for name in collection.columns] if named else range(collection.shape[1])
        if not named and not math.isnan(collection.shape[0]):
            self.n_rows = int(collection.shape[0])
        keys = repr([str(part.key) for part in parts])
        self._fingerprint = hashlib.sha256(keys.encode()).hexdigest()

    def pieces(self, part: int, columns: Sequence[Any] | None, start: int, size: int) -> Iterator[Piece]:
        """Yield the rows of a partition from row ``start`` of it on, in pieces of ``size``."""
        rows = computed(self._parts[part])
        table = as_table(rows)
        if table is not None and columns is not None:
            table = table.select(list(columns))
        whole = Piece(floats(np.asarray(rows)) if table is None else table, self.part_name(part))
        for first in range(start, whole.n, size):
            yield whole.from_row(first).up_to(size)

    def part_name(self, part: int) -> str:
        """Return words for a partition."""
        return f"dask part {part}"

    def fingerprint(self) -> str:
        """Return a hash of the names that dask gives to the partitions, the same for the same computation."""
        return self._fingerprint

    def alone(self, first: int, stop: int) -> Reader:
        """Return a reader with the graphs of these partitions alone."""
        found = copy.copy(self)
        found._parts = {part: self._parts[part] for part in range(first, stop)}
        return found
