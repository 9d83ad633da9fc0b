"""Sums over rows, part by part and added in a fixed order: what learners need of all the rows at once.

A sum is a function of a block of rows (and targets) that returns arrays. Blocks are summed within a part in
the order of the rows, parts in the order of their numbers: one thread or many, here or on a cluster, the bits
are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from squeak.core import engine
from squeak.core.tasks import Place
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
    ready.

    ``parts``: each returns an iterator of (rows, targets); for a cluster they must be picklable. ``term``: given
    rows and targets, a tuple of arrays.

    Source: The guide to clusters, docs/disqueak.md.
    """
    run = engine.map_ordered if cluster is None else cluster.map_ordered
    found = run(partial(_sum_part, term), list(parts))
    total: Arrays | None = None
    for arrays in found:
        if arrays is None:
            continue
        total = arrays if total is None else tuple(np.asarray(a + b) for a, b in zip(total, arrays, strict=True))
    if total is None:
        raise ValueError("there are no rows to sum over")
    return total


def _sum_part(term: Callable[[Rows, Any], Arrays], part: Callable[[], Iterator[Block]]) -> Arrays | None:
    return sum_blocks(part(), term)
