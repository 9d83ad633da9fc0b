"""Sums over rows, part by part and added in a fixed order: what learners need of all the rows at once.

A sum is a function of a block of rows (and targets) that returns arrays. Blocks are summed within a part in
the order of the rows, parts two by two in the order of their numbers: one thread or many, here or on a cluster, the
bits are the same. Where workers keep results, they add them too, and only the whole sum comes here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from squeak.core import engine
from squeak.core.tasks import Place, by_itself
from squeak.core.types import Rows

Arrays: TypeAlias = tuple[Any, ...]
Block: TypeAlias = tuple[Rows, Any]


def sum_blocks(blocks: Iterator[Block], term: Callable[[Rows, Any], Arrays]) -> Arrays | None:
    """Return the sum of ``term(X, y)`` over blocks, in their order; None where there are none."""
    total: list[Any] | None = None
    for X, y in blocks:
        arrays = term(X, y)
        if total is None:
            total = [np.array(array, dtype=np.float64) for array in arrays]
        else:
            for kept, array in zip(total, arrays, strict=True):
                kept += array
    return None if total is None else tuple(total)


def sum_parts(
    parts: Sequence[Callable[[], Iterator[Block]]],
    term: Callable[[Rows, Any], Arrays],
    cluster: Place | None = None,
) -> Arrays:
    """Return the sum of ``term(X, y)`` over all blocks of all parts.

    Each part is summed by itself, on the threads of this process or on the workers of a cluster;
    the sums of the parts are then added in the order of the parts, whatever the order in which they are
    ready (:func:`added`).

    ``parts``: each returns an iterator of (rows, targets); for a cluster they must be picklable. ``term``: given
    rows and targets, a tuple of arrays.

    Source: The guide to clusters, docs/disqueak.md.
    """
    one = partial(_sum_part, term)
    if cluster is None:
        return added(engine.map_ordered(one, list(parts)))
    if not cluster.keeps:
        return added(cluster.map_ordered(one, list(parts)))
    return added([cluster.submit(by_itself, one, part) for part in parts], cluster)


def added(sums: list[Any], cluster: Place | None = None) -> Arrays:
    """Return the sum of sums, neighbours first, ((0 + 1) + (2 + 3)) + …; of tasks, on the workers."""
    while len(sums) > 1:
        pairs = [sums[i : i + 2] for i in range(0, len(sums), 2)]
        if cluster is None:
            sums = [_plus(pair) for pair in pairs]
        else:
            sums = [pair[0] if len(pair) == 1 else cluster.submit(_plus, pair, name="add") for pair in pairs]
    [total] = sums if cluster is None else cluster.gathered(sums)
    if total is None:
        raise ValueError("there are no rows to sum over")
    return tuple(total)


def _plus(pair: list[Arrays | None]) -> Arrays | None:
    """Return the sum of one or two sums; those over no rows are None."""
    there = [arrays for arrays in pair if arrays is not None]
    if len(there) < 2:
        return there[0] if there else None
    return tuple(np.asarray(a + b) for a, b in zip(*there, strict=True))


def _sum_part(term: Callable[[Rows, Any], Arrays], part: Callable[[], Iterator[Block]]) -> Arrays | None:
    return sum_blocks(part(), term)
