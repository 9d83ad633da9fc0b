"""Rows of a source that this program's memory does not hold, or only workers see: a sample, and some in passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.advice import InputError
from squeak.core.checks import refuse_mixed
from squeak.core.tasks import by_itself
from squeak.core.types import Array, IntArray
from squeak.learners.data import ArrayTraining, SourceTraining
from squeak.learners.drawn import Drawn, numbers_of, of_part
from squeak.learners.splits import SplitTree
from squeak.trees.sums import Block, joined_there

MOST_BYTES = 4 * 2**30
"""So much memory the rows may take that are gathered at a time."""

SAMPLE_ROWS = 50_000
"""Rows by which the space is split, and to which one model is fitted, where memory does not hold all of them."""


def enough_rows(atoms: int) -> int:
    """Return to how many rows one model with so many atoms is fitted: more hardly change so few numbers."""
    return max(SAMPLE_ROWS, 50 * atoms)


def dense(X: Any) -> Array:
    """Return rows in float64, or say that sparse ones have no directions to split along."""
    if not isinstance(X, np.ndarray):
        raise TypeError("widths and splits are learned along dense columns: pass a dense array or a table")
    return np.asarray(X, dtype=np.float64)


def stays(data: SourceTraining) -> bool:
    """Tell whether the rows of a source stay where they are: with the workers of a cluster that read them."""
    return data.client is not None and not data.source.reader.held


def gathered(data: SourceTraining) -> ArrayTraining | None:
    """Return the rows of a source in memory, None where they take more of it than :data:`MOST_BYTES`."""
    rows: list[Array] = []
    targets: list[Any] = []
    size = 0
    for X, (y, _) in data.blocks():
        rows.append(dense(X))
        targets.append(y)
        size += rows[-1].nbytes
        if size > MOST_BYTES:
            if not data.source.repeatable:
                raise InputError(
                    f"the rows take more than {MOST_BYTES / 2**30:g} GB, and this source can be read only once",
                    "write them to a file, which is read in passes",
                )
            return None
    if not rows:
        raise ValueError("there are no rows")
    return ArrayTraining(np.concatenate(rows), np.concatenate(targets))


@dataclass(frozen=True)
class Sample:
    """Rows drawn from all with equal chances, in their order, and what else a pass tells of all rows."""

    drawn: Drawn
    n_all: int
    values: Any
    """The distinct targets, where they were asked for."""

    @property
    def rows(self) -> ArrayTraining:
        """The rows that were drawn."""
        return ArrayTraining(self.drawn.X, self.drawn.y)

    @property
    def numbers(self) -> Array:
        """The random numbers by which they were drawn: rows with smaller ones than these are not left out."""
        return np.asarray(self.drawn.numbers)

    def joined(self, other: Sample) -> Sample:
        """Return the sample of the rows of both."""
        known = [one.values for one in (self, other) if one.values is not None]
        both = np.concatenate(known) if known else None
        refuse_mixed([] if both is None else both)
        values = None if both is None else np.unique(both)
        return Sample(self.drawn.joined(other.drawn), self.n_all + other.n_all, values)


@dataclass(frozen=True)
class _Draw:
    """How rows are drawn from a part; travels to a worker."""

    seed: int
    size: int
    classes: bool

    def __call__(self, part: Any) -> Sample:
        return self.of(part.part, part())

    def of(self, part: int, blocks: Iterator[Block]) -> Sample:
        """Return the rows drawn from a part with this number."""
        drawn, n, values = Drawn(self.seed, place=of_part(part), most=self.size), 0, None
        for X, (y, _) in blocks:
            drawn, n = drawn.plus(dense(X), y), n + len(y)
            if self.classes:
                known = y if values is None else np.concatenate([values, y])
                refuse_mixed(known)
                values = np.unique(known)
        return Sample(drawn, n, values)


def sampled(data: SourceTraining, size: int, seed: int, classes: bool = False) -> Sample:
    """Draw rows without replacement in one pass: those with the smallest of random numbers, one for each row.

    The number of a row depends on the seed, its part and its place in the part, so that the sample is the same
    wherever the rows are read. Workers draw from their parts and join what they drew; the sample alone comes here.

    Parameters
    ----------
    data : SourceTraining
    size : int
        The number of rows; fewer are drawn where these would take more than :data:`MOST_BYTES`.
    seed : int
    classes : bool
        Whether all distinct targets are wanted.

    Returns
    -------
    Sample
    """
    draw = _Draw(seed, max(1, min(size, MOST_BYTES // (8 * len(data.source.feature_names)))), classes)
    if data.client is not None and stays(data):
        tasks = [data.client.submit(by_itself, draw, part) for part in data.parts()]
        found = joined_there(tasks, Sample.joined, data.client)
    else:
        found = reduce(Sample.joined, (draw.of(part, blocks) for part, blocks in data.by_part()))
    assert isinstance(found, Sample)
    if not found.n_all:
        raise ValueError("there are no rows")
    return found


def bounded(data: SourceTraining, size: int, seed: int, classes: bool = False) -> ArrayTraining | Sample:
    """Return all rows where they may be held in this program's memory, else a sample of them.

    Rows that are with workers stay there, unless there are no more of them than the sample has.

    Parameters
    ----------
    data : SourceTraining
    size : int
    seed : int
    classes : bool
        Whether all distinct targets are wanted.

    Returns
    -------
    ArrayTraining or Sample
    """
    whole = None if stays(data) else gathered(data)
    if whole is not None:
        if classes:
            refuse_mixed(whole.y)
        return whole
    found = sampled(data, size, seed, classes)
    return found.rows if found.n_all == len(found.numbers) else found


def groups_of(sizes: Array, most: float) -> list[IntArray]:
    """Return the leaves in groups, one after the other, whose sizes add up to no more than ``most`` where possible.

    Parameters
    ----------
    sizes : array of shape (leaves,)
    most : float

    Returns
    -------
    list of arrays of int

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.learners.leaf_passes import groups_of
    >>> [group.tolist() for group in groups_of(np.array([3.0, 4.0, 9.0, 1.0]), 8.0)]
    [[0, 1], [2], [3]]
    """
    groups: list[list[int]] = [[]]
    filled = 0.0
    for leaf, size in enumerate(sizes):
        if groups[-1] and filled + size > most:
            groups.append([])
            filled = 0.0
        groups[-1].append(leaf)
        filled += float(size)
    return [np.array(group) for group in groups]


@dataclass(frozen=True)
class LeafRows:
    """The rows in which a leaf has a share, in the order of the source."""

    X: Array
    y: Any
    share: Array
    numbers: Array
    """A random number for each, by its place in the source, where a seed was given."""


def rows_of(data: SourceTraining, tree: SplitTree, leaves: IntArray, seed: int | None = None) -> list[LeafRows]:
    """Return the rows in which some leaves have a share, in one pass over all rows.

    Parameters
    ----------
    data : SourceTraining
    tree : SplitTree
    leaves : array of int
    seed : int, optional
        Of the rows' random numbers.

    Returns
    -------
    list of LeafRows
    """
    found: list[list[tuple[Any, ...]]] = [[] for _ in leaves]
    with engine.single_blas():  # as on workers: which side a row is on may hang on a last digit
        for part, blocks in data.by_part():
            first = 0
            for rows, (y, _) in blocks:
                X, n = dense(rows), len(y)
                numbers = np.empty(n) if seed is None else numbers_of(seed, of_part(part), first, n)
                shares, first = tree.shares(X), first + n
                for place, leaf in enumerate(leaves):
                    some, share = shares[leaf]
                    order = np.argsort(some)
                    some = some[order]
                    if len(some):
                        found[place].append((X[some], y[some], share[order], numbers[some]))
    out = []
    for place in range(len(leaves)):  # one after the other, so that few rows are here twice
        out.append(LeafRows(*map(np.concatenate, zip(*found[place], strict=True))))
        found[place] = []
    return out
