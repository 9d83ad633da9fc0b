"""Parts of the data: some of the rows each, read anew each time, where they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from squeak.core.advice import InputError
from squeak.core.rows import check_rows, copy_rows, label_of, take
from squeak.core.types import Rows
from squeak.data import RowSource, block_rows
from squeak.data.blocks import LARGEST_BLOCK
from squeak.data.dask_parts import Partition
from squeak.data.pieces import Piece


class PartError(InputError):
    """A part of the data could not be turned into a dictionary; the message names the part."""


class Part(Protocol):
    """Some of the rows, read anew each time: a leaf is a function of its part alone."""

    @property
    def name(self) -> str:
        """Words for the part, for messages."""

    def blocks(self) -> Iterator[Rows]:
        """Yield the rows, block by block."""

    def fingerprint(self) -> str:
        """Return a text that is the same for the same part; empty where that cannot be known."""

    def alone(self) -> Part:
        """Return the part with nothing but its own rows, for the way to another process."""


@dataclass(frozen=True)
class ArrayPart:
    """A stretch of an array in memory."""

    rows: Rows
    first: int
    stop: int
    offset: int = 0
    """The number of the first of ``rows`` among all rows."""

    @property
    def name(self) -> str:
        """Words for the part, for messages."""
        return f"rows {self.first:,} to {self.stop - 1:,}"

    def alone(self) -> ArrayPart:
        """Return the part with nothing but its own rows."""
        mine = copy_rows(take(self.rows, slice(self.first - self.offset, self.stop - self.offset)))
        return ArrayPart(mine, self.first, self.stop, self.first)

    def blocks(self) -> Iterator[Rows]:
        """Yield the rows, block by block."""
        size = block_rows(self.rows.shape[1]) if isinstance(self.rows, np.ndarray) else 65_536
        for start in range(self.first - self.offset, self.stop - self.offset, size):
            yield take(self.rows, slice(start, min(start + size, self.stop - self.offset)))

    def fingerprint(self) -> str:
        """Return the part's place; the first row of all is known to the run."""
        return f"{self.first}-{self.stop}"


@dataclass(frozen=True)
class SourcePart:
    """Some parts of a row source: row groups, files, stretches."""

    source: RowSource
    first: int
    stop: int
    data: str = ""
    """The fingerprint of the source, which may take a look at all targets: once for all parts."""

    @property
    def name(self) -> str:
        """Words for the part, for messages."""
        return self.source.part_name(self.first, self.stop)

    def blocks(self) -> Iterator[Rows]:
        """Yield the rows, block by block."""
        return self.source.part_blocks(self.first, self.stop)

    def fingerprint(self) -> str:
        """Return the source's fingerprint and the part's place in it."""
        return f"{self.data}-{self.first}-{self.stop}"

    def alone(self) -> SourcePart:
        """Return the part with nothing but its own rows; files are opened where they are read."""
        return replace(self, source=self.source.alone(self.first, self.stop))


@dataclass(frozen=True)
class LoadedPart:
    """What a function of the user's returns: rows, or an iterator of blocks of rows."""

    number: int
    load: Callable[[], Any]

    @property
    def name(self) -> str:
        """Words for the part, for messages."""
        return f"part {self.number}"

    def blocks(self) -> Iterator[Rows]:
        """Yield the rows, block by block."""
        found = self.load()
        if hasattr(found, "__next__"):
            yield from found
        else:
            yield found

    def fingerprint(self) -> str:
        """Return the part's number: what a function will return cannot be known."""
        return str(self.number)

    def alone(self) -> LoadedPart:
        """Return the part: the function goes along."""
        return self


@dataclass(frozen=True)
class DelayedPart:
    """A chunk of rows of a dask array, or a partition of a dask dataframe, computed where it is read."""

    number: int
    partition: Partition

    @property
    def name(self) -> str:
        """Words for the part, for messages."""
        return f"dask part {self.number}"

    def blocks(self) -> Iterator[Rows]:
        """Yield the rows, block by block."""
        return (piece.data for piece in self.partition.pieces(_as_array, 0, LARGEST_BLOCK))

    def fingerprint(self) -> str:
        """Return the name that dask gives to the part, the same for the same computation."""
        return str(self.partition.delayed.key)

    def alone(self) -> DelayedPart:
        """Return the part: its graph goes along."""
        return replace(self, partition=replace(self.partition, travelled=True))


def _as_array(rows: Any) -> Piece:
    return Piece(rows.to_numpy() if hasattr(rows, "to_numpy") else rows)


@dataclass(frozen=True)
class SamePart:
    """A part that has been looked at: when it is read again its first rows must be what they were."""

    part: Part
    label: str
    kernel: Any

    @property
    def name(self) -> str:
        """Words for the part, for messages."""
        return self.part.name

    def blocks(self) -> Iterator[Rows]:
        """Yield the rows, block by block; refuse the part if it has changed."""
        known = False
        for block in self.part.blocks():
            if not known and label_of(check_rows(block, self.kernel)) != self.label:
                raise PartError(
                    "it gives other rows each time it is read, so that a retry or a lost worker would change the "
                    "result: use rows that stay: a file, an array, a fixed seed"
                )
            known = True
            yield block

    def fingerprint(self) -> str:
        """Return the fingerprint of the part."""
        return self.part.fingerprint()

    def alone(self) -> SamePart:
        """Return the part with nothing but its own rows."""
        return replace(self, part=self.part.alone())
