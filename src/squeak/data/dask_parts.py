"""Partitions of a Dask DataFrame and chunks of a Dask array as parts of a source, computed by the workers.

A worker computes a partition where it learns from it. Where the program itself needs some rows, a worker of the
active cluster computes the partition and sends these rows alone: files may be where workers are, and nowhere else.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from squeak.core.places import elsewhere
from squeak.data.pieces import Piece, as_table
from squeak.data.readers import Reader, floats


def partitions(X: Any) -> list[Partition]:
    """Return the chunks of rows of a dask array or the partitions of a dask dataframe, each with its own graph."""
    import dask

    if hasattr(X, "numblocks"):
        if X.ndim != 2 or X.numblocks[1] != 1:
            raise ValueError(
                "a dask array must have two dimensions and all columns in one chunk: X.rechunk({1: -1})"
            )
        parts = [chunk for line in X.to_delayed().tolist() for chunk in line]
    elif hasattr(X, "npartitions") and hasattr(X, "to_delayed"):
        parts = list(X.to_delayed())
    else:
        raise TypeError(f"rows cannot be read from a {type(X).__name__}: pass a dask array or dataframe")
    return [Partition(dask.optimize(part)[0]) for part in parts]  # a graph as it comes is that of all partitions


@dataclass(frozen=True)
class Partition:
    """A partition of a Dask collection: how it is computed."""

    delayed: Any
    travelled: bool = False
    """Whether it is where it shall be computed: with a worker."""

    def pieces(self, made: Callable[[Any], Piece], start: int, size: int) -> Iterator[Piece]:
        """Yield the rows from row ``start`` on, in pieces of ``size``; ``made`` gives a piece of all of them.

        Where a cluster is active and this is not one of its workers, one of them computes the partition and
        keeps it until all pieces are asked for; each comes when it is asked for.
        """
        there = None if self.travelled else elsewhere()
        if there is None or not there.keeps:
            whole = made(self.computed())
            yield from (whole.from_row(first).up_to(size) for first in range(start, whole.n, size))
            return
        held = there.submit(_made, made, self, name="partition")
        [n] = there.gathered([there.submit(_count, held, name="rows")])
        for first in range(start, n, size):
            yield from there.gathered([there.submit(_some, held, first, size, name="rows")])

    def computed(self) -> Any:
        """Return all rows, computed here."""
        from dask.local import get_sync

        problem = None
        try:
            found = self.delayed.compute(scheduler=get_sync)  # by its name, older versions warn of an active client
            if type(found).__name__ != "Future":  # which older versions give for what a client holds
                return found
        except (KeyError, ValueError) as error:
            if not (_names_a_partition(error) or str(error).startswith("Missing dependency")):
                raise
            problem = error
        raise ValueError(
            "the partitions of a persisted Dask collection are known to its client alone: pass it as it was before "
            "persist(), or write it to files"
        ) from problem


def _names_a_partition(error: Exception) -> bool:
    """Tell whether an error is that a graph lacks a partition: Dask calls it ("name", number, …)."""
    key = error.args[0] if isinstance(error, KeyError) and error.args else None
    return isinstance(key, tuple) and len(key) > 1 and all(isinstance(number, int) for number in key[1:])


def _made(made: Callable[[Any], Piece], partition: Partition) -> Piece:
    return made(partition.computed())


def _count(whole: Piece) -> int:
    return whole.n


def _some(whole: Piece, first: int, size: int) -> Piece:
    """Return some of the rows, with no memory shared: what is a view of all would travel with all."""
    piece = whole.from_row(first).up_to(size)
    return replace(piece, data=piece.data.take(np.arange(piece.n))) if piece.is_table else piece


class DelayedReader(Reader):
    """Rows of a Dask collection, partition by partition; nothing else of it travels or is computed."""

    ahead = True

    def __init__(self, collection: Any) -> None:
        parts = partitions(collection)
        self._parts = dict(enumerate(parts))
        self.n_parts = len(parts)
        named = hasattr(collection, "columns")
        self.names = [str(name) for name in collection.columns] if named else range(collection.shape[1])
        if not named and not math.isnan(collection.shape[0]):
            self.n_rows = int(collection.shape[0])
        keys = repr([str(part.delayed.key) for part in parts])
        self._fingerprint = hashlib.sha256(keys.encode()).hexdigest()

    def pieces(self, part: int, columns: Sequence[Any] | None, start: int, size: int) -> Iterator[Piece]:
        """Yield the rows of a partition from row ``start`` of it on, in pieces of ``size``."""
        place = self.part_name(part)

        def made(rows: Any) -> Piece:
            table = as_table(rows)
            if table is not None and columns is not None:
                table = table.select(list(columns))
            return Piece(floats(np.asarray(rows)) if table is None else table, place)

        return self._parts[part].pieces(made, start, size)

    def part_name(self, part: int) -> str:
        """Return words for a partition."""
        return f"dask part {part}"

    def fingerprint(self) -> str:
        """Return a hash of the names that dask gives to the partitions, the same for the same computation."""
        return self._fingerprint

    def alone(self, first: int, stop: int) -> Reader:
        """Return a reader with the graphs of these partitions alone."""
        found = copy.copy(self)
        found._parts = {part: replace(self._parts[part], travelled=True) for part in range(first, stop)}
        return found
