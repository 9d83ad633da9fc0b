"""Rows that are made when they are read, each part from random numbers of its own place."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from squeak.core.checks import check_whole
from squeak.core.seeds import RandomState, draw_seed, generator_at
from squeak.data.pieces import Piece
from squeak.data.readers import PART, MemoryReader, floats

MADE = 83
"""Where the random numbers of made rows are drawn."""


@dataclass(frozen=True)
class GeneratedRows:
    """Rows of a function of random numbers: as many as you like, none of them stored, and any part again.

    Rows are made 65,536 at a time. The random numbers of such a part depend on the seed and on its place alone, so
    that parts can be read in any order, by any worker, and as often as it takes.

    Parameters
    ----------
    make : callable
        ``make(rng, n)`` returns n rows as an array, or a pair (rows, targets), from a
        :class:`numpy.random.Generator`.
    n : int
        The number of rows.
    random_state : None, int, RandomState or Generator
        The seed. The same seed gives the same rows.

    References
    ----------
    Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, for numbers by their place.

    Examples
    --------
    >>> import squeak
    >>> def make(rng, n):
    ...     X = rng.standard_normal((n, 2))
    ...     return X, X[:, 0] > 0
    >>> source = squeak.rows(squeak.GeneratedRows(make, 10**9, random_state=0), target=True)
    >>> source
    RowSource(1,000,000,000 rows, 2 columns, 15,259 parts)
    >>> X, y = next(iter(source))
    >>> X.shape, next(source.part_blocks(15_258, 15_259)).shape
    ((65536, 2), (51712, 2))
    """

    make: Callable[[np.random.Generator, int], Any]
    n: int
    random_state: RandomState = None

    def __post_init__(self) -> None:
        check_whole("n", self.n)
        if not callable(self.make):
            raise TypeError(f"make must be a function of a generator and a number of rows; it is {self.make!r}")


class GeneratedReader(MemoryReader):
    """Makes the rows of :class:`GeneratedRows`, part by part."""

    ahead = True

    def __init__(self, given: GeneratedRows) -> None:
        self._make, self._seed = given.make, draw_seed(given.random_state)
        self._measure(int(given.n), None)
        first = self._rows(0, 2)[0]
        self.names = range(first.shape[1])

    def _rows(self, part: int, most: int = PART) -> tuple[Any, Any]:
        """Return the rows of a part, or as many as the function is asked for, and their targets."""
        n = min((self.n_rows or 0) - part * PART, PART, most)
        X, y = _checked(self._make(generator_at(self._seed, MADE, part), n), n)
        return floats(X), y

    def pieces(self, part: int, columns: Sequence[Any] | None, start: int, size: int) -> Iterator[Piece]:
        """Yield the rows of a part from row ``start`` of it on, in pieces of ``size``: it is made as a whole."""
        X, y = self._rows(part)
        for first in range(start, len(X), size):
            some = slice(first, min(first + size, len(X)))
            yield Piece(X[some], "", part * PART + first, None if y is None else y[some])

    def fingerprint(self) -> str:
        """Return a hash of the number of rows, the seed and the first rows."""
        X, y = self._rows(0, 64)
        made = (self.n_rows, self._seed, X.tobytes(), None if y is None else y.tolist())
        return hashlib.sha256(repr(made).encode()).hexdigest()

    def alone(self, first: int, stop: int) -> GeneratedReader:
        """Return the reader: the function goes along."""
        return self


def _checked(made: Any, n: int) -> tuple[Any, Any]:
    """Return the rows and targets that a function made, or say what they are instead of n of each."""
    asked = f"make was asked for {n:,} rows of numbers, and gave"
    if isinstance(made, tuple) and len(made) != 2:
        raise ValueError(f"{asked} a tuple of {len(made)}: it gives rows, or a pair of rows and targets")
    X, y = made if isinstance(made, tuple) else (made, None)
    try:
        X, y = np.asarray(X), None if y is None else np.asarray(y)
    except ValueError:
        raise ValueError(f"{asked} rows or targets of different lengths: use arrays") from None
    if X.dtype.kind not in "fbui":
        raise ValueError(f"{asked} rows of type {X.dtype}: make numbers of them")
    if X.ndim != 2:
        raise ValueError(f"{asked} an array of shape {X.shape}: rows form an array of shape (rows, columns)")
    if len(X) != n:
        raise ValueError(f"{asked} {len(X):,}: it gives as many rows as it is asked for")
    if y is not None and y.shape[:1] != (n,):
        raise ValueError(f"{asked} targets of shape {y.shape}: every row has one")
    return X, y
