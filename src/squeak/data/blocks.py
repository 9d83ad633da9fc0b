"""Blocks of rows, the places where they end, and how pieces of any size are cut into them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core.types import IntArray, Rows

BLOCK_BYTES = 32 * 2**20
LARGEST_BLOCK, SMALLEST_BLOCK = 65_536, 256


def block_rows(width: int, sparse: bool = False) -> int:
    """Return how many rows of ``width`` numbers make a block: 32 MB of them, from 256 to 65,536; so many of CSR."""
    affordable = LARGEST_BLOCK if sparse else BLOCK_BYTES // (8 * max(width, 1))
    return int(np.clip(affordable, SMALLEST_BLOCK, LARGEST_BLOCK))


@dataclass(frozen=True)
class Cursor:
    """A place between two rows of a source: the part (in reading order), its rows read, and what came of all."""

    part: int = 0
    row: int = 0
    kept: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class Block:
    """Rows ready for a kernel, their targets, and the place where the next block begins.

    ``numbers`` says which rows of the source they are, in reading order from 0: rows that are skipped count, lines
    of a CSV file that are no rows do not. Models take a block in place of rows, and do not preprocess it again.
    """

    X: Rows
    y: Any = None
    cursor: Cursor = Cursor()
    numbers: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))


@dataclass(frozen=True)
class Encoded:
    """Kept rows of one piece; ``ends[i]`` rows of the part are read once row i is, ``before`` in earlier parts."""

    X: Rows
    y: Any
    ends: IntArray
    begin: Cursor
    before: int

    def after(self, rows: int) -> Cursor:
        """Return the place after the first ``rows`` of them."""
        end, begin = int(self.ends[rows - 1]), self.begin
        return Cursor(begin.part, end, begin.kept + rows, begin.skipped + end - begin.row - rows)

    def take(self, start: int, stop: int) -> Block:
        """Return some of the rows."""
        numbers = self.before + self.ends[start:stop] - 1
        if start == 0 and stop == len(self.ends):
            return Block(self.X, self.y, self.after(stop), numbers)
        y = None if self.y is None else self.y[start:stop]
        return Block(self.X[start:stop], y, self.after(stop), numbers)


def cut(pieces: Iterator[Encoded], size: int, apart: bool = False) -> Iterator[Block]:
    """Cut pieces of any sizes into blocks of ``size`` rows; the last, or the last of each part, may be shorter."""
    waiting: list[Block] = []
    room = size
    for piece in pieces:
        if apart and waiting and waiting[-1].cursor.part < piece.begin.part:
            yield joined(waiting)
            waiting, room = [], size
        at, n = 0, len(piece.ends)
        while at < n:
            stop = min(n, at + room)
            waiting.append(piece.take(at, stop))
            room, at = room - (stop - at), stop
            if room == 0:
                yield joined(waiting)
                waiting, room = [], size
    if waiting:
        yield joined(waiting)


def joined(parts: list[Block]) -> Block:
    """Return blocks that follow each other as one."""
    X, y, numbers = parts[0].X, parts[0].y, parts[0].numbers
    if len(parts) > 1:
        rows = [part.X for part in parts]
        if any(sp.issparse(part) != sp.issparse(X) for part in rows):
            raise TypeError("the blocks of a source must be all dense or all sparse")
        X = sp.csr_array(sp.vstack(rows, format="csr")) if sp.issparse(X) else np.concatenate(rows)
        y = None if y is None else np.concatenate([part.y for part in parts])
        numbers = np.concatenate([part.numbers for part in parts])
    return Block(X, y, parts[-1].cursor, numbers)
