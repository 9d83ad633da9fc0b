"""Some rows of a fit with their targets, drawn evenly while the rows are read: what leave-one-out scores are of.

Every row gets a random number, in the order of the rows; those with the smallest numbers stay. That is a draw
without replacement, it needs no pass of its own, and it is the same wherever the rows lie and however they are cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from squeak.core.rows import join, n_rows, take
from squeak.core.seeds import SAMPLE, generator_at
from squeak.core.tasks import by_itself
from squeak.core.types import Array, Rows
from squeak.data import Block, Cursor, RowSource
from squeak.learners.data import ArrayTraining, Training
from squeak.trees.sums import joined_there

MOST_ROWS = 4_000
"""Rows that are drawn: their scores tell a share of 90% to half a percent."""

PLACE = 79
"""Where the random numbers of rows are drawn."""


@dataclass(frozen=True)
class Drawn:
    """Rows drawn so far, in the order in which they came; never changed, only replaced.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.learners.drawn import Drawn
    >>> X, y = np.arange(10_000.0)[:, None], np.arange(10_000.0)
    >>> whole = Drawn(seed=0).plus(X, y)
    >>> parts = Drawn(seed=0).plus(X[:7], y[:7]).plus(X[7:], y[7:])
    >>> len(whole.y), bool((whole.X == parts.X).all())
    (4000, True)
    """

    seed: int
    n_seen: int = 0
    numbers: Any = None
    """The random numbers of the rows drawn."""
    X: Any = None
    y: Any = None
    weight: Any = None
    place: int = PLACE
    most: int = MOST_ROWS
    """Rows that are drawn."""

    def plus(self, X: Rows, y: Any, weight: Any = None) -> Drawn:
        """Return the draw with more rows to draw from.

        Parameters
        ----------
        X : rows
        y : array
            Their targets, as they stand.
        weight : array, optional

        Returns
        -------
        Drawn
        """
        numbers, n_seen = numbers_of(self.seed, self.place, self.n_seen, n_rows(X)), self.n_seen + n_rows(X)
        full = self.numbers is not None and len(self.numbers) >= self.most
        limit = self.numbers.max() if full else 1.0
        low = np.flatnonzero(numbers < limit)
        if len(low) > self.most:
            low = np.sort(low[np.argpartition(numbers[low], self.most)[: self.most]])
        ours = (n_seen, numbers[low], take(X, low), y[low], None if weight is None else weight[low])
        return self.joined(Drawn(self.seed, *ours, self.place, self.most))

    def joined(self, other: Drawn) -> Drawn:
        """Return the draw from the rows of both.

        Parameters
        ----------
        other : Drawn

        Returns
        -------
        Drawn
        """
        if self.numbers is None or other.numbers is None:
            return other if self.numbers is None else self
        n_seen = max(self.n_seen, other.n_seen)
        if not len(other.numbers):
            return replace(self, n_seen=n_seen)
        numbers = np.concatenate([self.numbers, other.numbers])
        keep = np.arange(len(numbers))
        if len(numbers) > self.most:
            keep = np.sort(np.argpartition(numbers, self.most)[: self.most])
        weight = None
        if self.weight is not None or other.weight is not None:
            weights = (np.ones(len(one.numbers)) if one.weight is None else one.weight for one in (self, other))
            weight = np.concatenate(list(weights))[keep]
        X, y = take(join(self.X, other.X), keep), np.concatenate([self.y, other.y])[keep]
        return Drawn(self.seed, n_seen, numbers[keep], X, y, weight, self.place, self.most)


class Sampled(RowSource):
    """A source of whose rows some are drawn as they are read, by whoever reads them."""

    def __init__(self, source: RowSource, seed: int) -> None:
        self.__dict__.update(source.__dict__)
        self._seed = seed
        self._drawn: Drawn | None = None

    def blocks(self, start: Cursor | None = None, apart: bool = False) -> Iterator[Block]:
        """Yield the rows in blocks, as the source does."""
        drawn = Drawn(self._seed) if start is None and self._drawn is None else None
        for part in super().blocks(start, apart):
            if drawn is not None:
                drawn = drawn.plus(part.X, part.y)
            yield part
        if drawn is not None:
            self._drawn = drawn

    def drawn(self, client: Any = None) -> Drawn | None:
        """Return the rows drawn; if nobody has read all rows in order, after a pass, by a cluster's workers."""
        if self._drawn is None and self.repeatable:
            if client is None:
                for _ in self.blocks():
                    pass
            else:
                parts = [(self.alone(part, part + 1), part) for part in range(self.n_parts)]
                tasks = [client.submit(by_itself, partial(_of_part, self._seed), part) for part in parts]
                self._drawn = joined_there(tasks, Drawn.joined, client)
        return self._drawn


def _of_part(seed: int, given: tuple[RowSource, int]) -> Drawn:
    source, part = given
    drawn = Drawn(seed, place=of_part(part))
    for block in source.part_pairs(part, part + 1):
        drawn = drawn.plus(block.X, block.y)
    return drawn


def of_part(part: int) -> int:
    """Return where the random numbers of a part's rows are drawn, if every part has its own."""
    return PLACE + 1 + part


def numbers_of(seed: int, place: int, first: int, n: int) -> Array:
    """Return the random numbers of n rows from row ``first`` on, however the rows are cut."""
    rng = generator_at(seed, SAMPLE, place)
    rng.bit_generator.advance(first)  # type: ignore[attr-defined]
    return rng.random(n)


def watched(data: Training, seed: int) -> Training:
    """Return the rows of a fit such that some of a source's are drawn as they are read.

    Parameters
    ----------
    data : rows of a fit
    seed : int

    Returns
    -------
    rows of a fit
    """
    return data if isinstance(data, ArrayTraining) else replace(data, source=Sampled(data.source, seed))


def drawn_from(data: Training, seed: int) -> Drawn | None:
    """Return some rows of a fit with their targets as numbers; None where they cannot be read again.

    Parameters
    ----------
    data : rows of a fit
        As :func:`watched` returned them, with targets that are not shifted.
    seed : int

    Returns
    -------
    Drawn or None
    """
    if isinstance(data, ArrayTraining):
        return Drawn(seed).plus(data.X, data.y, data.weight)
    assert isinstance(data.source, Sampled)
    drawn = data.source.drawn(data.client)
    if drawn is None:
        return None
    y, weight = data.pair(drawn.y)
    return replace(drawn, y=y, weight=weight)
