"""The parts of a space for rows that memory does not hold: split by a sample of them, and read in passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from squeak.core.advice import InputError
from squeak.core.types import Array, IntArray
from squeak.learners.data import ArrayTraining, SourceTraining
from squeak.learners.splits import SplitTree

MOST_BYTES = 4 * 2**30
"""So much memory the rows may take that are gathered at a time."""

SAMPLE_ROWS = 50_000
"""Rows by which the space is split where memory does not hold all of them."""


def dense(X: Any) -> Array:
    """Return rows in float64, or say that sparse ones have no directions to split along."""
    if not isinstance(X, np.ndarray):
        raise TypeError("the space is split along dense columns: pass a dense array")
    return np.asarray(X, dtype=np.float64)


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
    """Rows that were drawn from all with equal chances, in their order, how many there are, and their classes."""

    X: Array
    y: Any
    n: int
    values: Any
    """The distinct targets, where they were asked for."""


def sampled(data: SourceTraining, size: int, rng: np.random.Generator, classes: bool) -> Sample:
    """Draw rows without replacement in one pass: those with the smallest of random numbers, one for each row.

    Parameters
    ----------
    data : SourceTraining
    size : int
    rng : Generator
    classes : bool
        Whether all distinct targets are wanted.

    Returns
    -------
    Sample
    """
    X: Any = None
    y: Any = None
    keys, n, values = np.empty(0), 0, None
    for rows, (targets, _) in data.blocks():
        n += len(targets)
        if classes:
            values = np.unique(targets if values is None else np.concatenate([values, targets]))
        both = np.concatenate([keys, rng.random(len(targets))])
        X = dense(rows) if X is None else np.concatenate([X, dense(rows)])
        y = targets if y is None else np.concatenate([y, targets])
        kept = np.sort(np.argsort(both, kind="stable")[:size])
        keys, X, y = both[kept], X[kept], y[kept]
    return Sample(X, y, n, values)


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


def rows_of(data: SourceTraining, tree: SplitTree, leaves: IntArray) -> list[ArrayTraining]:
    """Return the rows in which some leaves have a share, in one pass over all rows.

    Parameters
    ----------
    data : SourceTraining
    tree : SplitTree
    leaves : array of int

    Returns
    -------
    list of ArrayTraining
    """
    found: list[list[tuple[Array, Any]]] = [[] for _ in leaves]
    for rows, (y, _) in data.blocks():
        X = dense(rows)
        shares = tree.shares(X)
        for place, leaf in enumerate(leaves):
            some = np.sort(shares[leaf][0])
            if len(some):
                found[place].append((X[some], y[some]))
    return [
        ArrayTraining(np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts]))
        for parts in found
    ]
