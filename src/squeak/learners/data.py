"""The rows of a fit, read as often as a learner needs them: from memory, from a source, or on a cluster's workers.

A learner says what to add up over the rows; where they lie, and who adds, is decided here. Sums are added in an
order that is fixed by the parts of a source: neither threads nor workers change a bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from squeak.core import engine
from squeak.core.advice import Advice, InputError
from squeak.core.allocator import freed_memory_kept
from squeak.core.checks import refuse_mixed
from squeak.core.progress import Pass
from squeak.core.rows import n_rows, take
from squeak.core.tasks import Place
from squeak.core.types import Array, Rows
from squeak.data import Block as SourceBlock
from squeak.data import Cursor, RowSource
from squeak.trees.sums import Arrays, Block, PartSums, added, same, sum_blocks, sum_parts

Term: TypeAlias = Callable[[Rows, Any], Arrays]
"""Given rows and a pair (targets, weights), either of them None, arrays to be added up."""

Encode: TypeAlias = Callable[[Any], Array]


class Weigh(Protocol):
    """Weights of rows by their targets."""

    @property
    def heaviest(self) -> float:
        """The largest weight."""

    def __call__(self, y: Any) -> Array:
        """Return a weight for each of some targets."""


@dataclass(frozen=True)
class ArrayTraining:
    """Rows in memory."""

    X: Rows
    y: Any = None
    weight: Any = None

    repeatable = True

    @property
    def n(self) -> int | None:
        """The number of rows."""
        return n_rows(self.X)

    n_at_most = n

    @property
    def heaviest(self) -> float:
        """The largest weight of a row."""
        return 1.0 if self.weight is None else float(np.max(self.weight))

    def head(self, rows: int) -> Rows:
        """Return some rows, spread evenly over all."""
        n = n_rows(self.X)
        return take(self.X, np.unique(np.linspace(0, n - 1, min(n, rows)).astype(np.int64)))

    def blocks(self) -> Iterator[Block]:
        """Yield the rows with targets and weights, once through."""
        yield self.X, (self.y, self.weight)

    def sum(self, term: Term) -> Arrays:
        """Return the sum of the term over all rows."""
        with engine.single_blas():
            return PartSums().plus(term(self.X, (self.y, self.weight))).total()


@dataclass(frozen=True)
class SourceTraining:
    """Rows of a source, block by block; on the workers of a cluster where a client is given."""

    source: RowSource
    encode: Encode | None = None
    client: Place | None = None
    weigh: Weigh | None = None
    """Weights of rows by their targets; None: they have none."""

    weight = None

    @property
    def heaviest(self) -> float:
        """The largest weight of a row."""
        return 1.0 if self.weigh is None else self.weigh.heaviest

    @property
    def repeatable(self) -> bool:
        """Whether the rows can be read again."""
        return self.source.repeatable

    @property
    def n(self) -> int | None:
        """The number of rows where it is known before they are read, and none is skipped."""
        return None if self.source.skip else self.source.n_rows

    @property
    def n_at_most(self) -> int | None:
        """The number of rows, before any is skipped; None where nobody knows."""
        return self.source.n_rows

    def head(self, rows: int) -> Rows:
        """Return some rows of the first block, spread evenly over it."""
        for block in self.source.blocks():
            return ArrayTraining(block.X).head(rows)
        raise ValueError("there are no rows")

    def blocks(self) -> Iterator[Block]:
        """Yield the rows with their targets, once through."""
        for block in self.read():
            yield block.X, self.pair(block.y)

    def read(self, start: Cursor | None = None, apart: bool = False) -> Iterator[SourceBlock]:
        """Yield the blocks of the source, and show how far they are read."""
        shown = Pass(self.source.n_rows, 0 if start is None else start.kept)
        for block in self.source.blocks(start, apart):
            yield block
            shown.update(n_rows(block.X))

    def first(self) -> Block:
        """Return the first block with its targets, which is no pass."""
        block = next(self.source.blocks(apart=True))
        return block.X, self.pair(block.y)

    def pair(self, y: Any) -> tuple[Any, Any]:
        """Return targets as the learner's numbers, and weights."""
        return self.encoded(y), None if self.weigh is None else self.weigh(y)

    def encoded(self, y: Any) -> Any:
        """Return targets as the learner's numbers."""
        return y if y is None or self.encode is None else self.encode(y)

    def sum(self, term: Term) -> Arrays:
        """Return the sum of the term over all rows; the parts' sums are added in the order of the parts."""
        if self.client is not None:
            return sum_parts(self.parts(), term, self.client)
        total = PartSums()
        with engine.single_blas():  # as on workers
            for part, blocks in self.by_part():
                total = total.at(part).ended(sum_blocks(blocks, term))
        return total.total()

    def by_part(self) -> Iterator[tuple[int, Iterator[Block]]]:
        """Yield the number of every part that has rows, and its blocks, once through."""
        for part, blocks in groupby(self.read(apart=True), lambda block: block.cursor.part):
            yield part, ((block.X, self.pair(block.y)) for block in blocks)

    def parts(self) -> list[Callable[[], Iterator[Block]]]:
        """Return the parts as they travel to workers, each with no more than it needs."""
        self.source.check_unchanged()
        return [_SourceBlocks(self.alone(part, part + 1), part) for part in range(self.source.n_parts)]

    def alone(self, first: int, stop: int) -> SourceTraining:
        """Return parts ``first`` to ``stop`` − 1 as they travel to a worker, which reads them by itself."""
        return SourceTraining(self.source.alone(first, stop), self.encode, None, self.weigh)

    def persist(self) -> SourceTraining | PersistedTraining:
        """Return the same rows held in the workers' memory, for many passes, where their place keeps them there."""
        if self.client is None or not self.client.keeps:
            return self
        return PersistedTraining([self.client.submit(_held, part) for part in self.parts()], self.client)


@dataclass(frozen=True)
class PersistedTraining:
    """Rows held by the workers of a cluster, a future a part."""

    parts: list[Any]
    client: Place
    seen: Any = None
    """Features that most terms have, of the size of the atoms squared, and ..."""
    held: Any = None
    """... what stands for them with the workers: they travel once, and not in every pass."""

    weight = None
    repeatable = True

    def sum(self, term: Term) -> Arrays:
        """Return the sum of the term over all rows, each part's where it is held, added in their order."""
        known = self.seen is not None and getattr(term, "features", None) is self.seen
        small: Any = replace(cast(Any, term), features=None) if known else term
        shared = self.client.submit(same, small)  # what is scattered would be lost with its worker
        features = self.held if known else None
        return added([self.client.submit(_sum_held, part, shared, features) for part in self.parts], self.client)

    def changed(
        self, change: Callable[[list[Block], Any], list[Block]], features: Any, seen: Any
    ) -> PersistedTraining:
        """Return the rows as a function of them and of features makes them, which stays where it was computed.

        ``seen``: the features of what it makes.
        """
        whole, light = (self.client.submit(same, one) for one in (features, seen))
        parts = [self.client.submit(change, part, whole, name="values") for part in self.parts]
        return replace(self, parts=parts, seen=seen, held=light)


@dataclass(frozen=True)
class _SourceBlocks:
    """The blocks of one part of a source; travels to a worker."""

    data: SourceTraining
    part: int

    def __call__(self) -> Iterator[Block]:
        for block in self.data.source.part_pairs(self.part, self.part + 1):
            yield block.X, self.data.pair(block.y)


def _held(part: _SourceBlocks) -> list[Block]:
    return list(part())


def _sum_held(blocks: list[Block], term: Any, features: Any) -> Arrays | None:
    if features is not None:
        term = replace(term, features=features)
    with engine.serial(), freed_memory_kept():
        return sum_blocks(iter(blocks), term)


Training: TypeAlias = ArrayTraining | SourceTraining


def as_numbers(y: Any) -> Array:
    """Return targets as numbers, or say that text is for classifiers."""
    try:
        return np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        given = np.asarray(y, dtype=object).ravel()
        words = next((value for value in given if isinstance(value, str)), given[0])
        raise InputError(
            f"the target holds {words!r}, which is not a number: a regression predicts numbers",
            Advice(
                "{} learns classes",
                "task",
                "classification",
                python="AutoClassifier and KernelClassifier learn classes",
            ),
        ) from None


def check_finite(values: Any, what: str) -> None:
    """Refuse numbers beside the rows that are missing or infinite, and name the first row; and mixed classes."""
    values = np.asarray(values)
    refuse_mixed(values)
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return
    row, *column = np.argwhere(~np.isfinite(values))[0]
    where = f"row {row}, column {column[0]} of {what}" if column else f"row {row} of {what}"
    raise ValueError(f"{where} is {values[(row, *column)]}: drop or impute missing and infinite values first")


@dataclass(frozen=True)
class Shifted:
    """Targets less a number for each output."""

    encode: Encode | None
    by: Array

    def __call__(self, y: Any) -> Array:
        """Return the targets, shifted."""
        values = np.asarray(y if self.encode is None else self.encode(y), dtype=np.float64)
        return values - (self.by if values.ndim > 1 else self.by[0])


class NearMean:
    """Targets less the mean of the first block that is seen: sums of them do not cancel, and it takes no pass."""

    def __init__(self, encode: Encode | None) -> None:
        self.encode = encode
        self.by: Array | None = None

    def __call__(self, y: Any) -> Array:
        """Return the targets, shifted."""
        if self.by is None:
            values = np.asarray(y if self.encode is None else self.encode(y), dtype=np.float64)
            self.by = np.atleast_1d(values.mean(axis=0))
        return Shifted(self.encode, self.by)(y)


def near_mean(data: SourceTraining) -> tuple[SourceTraining, NearMean]:
    """Return a source's rows with targets less a number near their mean, and where to find it after a pass.

    The workers of a cluster must know it before: there the first block is read for it.
    """
    shift = NearMean(data.encode)
    if data.client is not None:
        shift(next(data.source.blocks(apart=True)).y)
    return replace(data, encode=shift), shift


def _mean_term(X: Rows, pair: tuple[Any, Any]) -> Arrays:
    y, weight = pair
    targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    if weight is None:
        return targets.sum(axis=0), np.array(float(len(targets)))
    return weight @ targets, np.array(weight.sum())


def centred(data: Training) -> tuple[Training, Array]:
    """Return the rows with targets of weighted mean zero, and that mean: a pass over a source's targets."""
    total, weight = data.sum(_mean_term)
    mean = np.asarray(total / weight)
    shift = Shifted(None if isinstance(data, ArrayTraining) else data.encode, mean)
    if isinstance(data, ArrayTraining):
        return ArrayTraining(data.X, shift(data.y), data.weight), mean
    return replace(data, encode=shift), mean
