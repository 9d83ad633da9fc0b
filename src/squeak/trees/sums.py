"""Sums over rows, part by part and added in a fixed order: what learners need of all the rows at once.

A sum is a function of a block of rows (and targets) that returns arrays. Blocks are summed within a part in
the order of the rows, parts in the order of their numbers, sixteen at first, then sixteen such sums, and so on:
one thread or many, here or on a cluster, in one go or from a checkpoint on, the bits are the same. Few sums wait at
a time, and a part that is late keeps few others waiting. Where workers keep results, they add them too, and only
the whole sum comes here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from squeak.core.tasks import Place, by_itself
from squeak.core.types import Rows

Arrays: TypeAlias = tuple[Any, ...]
Block: TypeAlias = tuple[Rows, Any]

GROUP = 16
"""Sums of parts that are added to one, and so many of these again."""


@dataclass(frozen=True)
class PartSums:
    """The sum of parts up to a place in one of them; never changed, only replaced."""

    waiting: tuple[Arrays | None, ...] = ()
    """The sums of fewer than GROUP parts, of fewer than GROUP sums of GROUP parts, …; None where no row is."""
    part: int = 0
    here: Arrays | None = None
    """The sum of the part at hand."""

    def at(self, part: int) -> PartSums:
        """Return the sum at the beginning of a later part, or where it is in this one."""
        found = self
        while found.part < part:
            found = found.ended(found.here)
        return found

    def plus(self, arrays: Arrays) -> PartSums:
        """Return the sum with another block of the part at hand."""
        return replace(self, here=_plus(self.here, arrays))

    def ended(self, here: Arrays | None) -> PartSums:
        """Return the sum where the part at hand has ended with a sum of its own."""
        waiting, number = list(self.waiting), self.part + 1
        for level in count():
            if level == len(waiting):
                waiting.append(None)
            here = waiting[level] = _plus(waiting[level], here)
            if number % GROUP:
                break
            waiting[level], number = None, number // GROUP
        return PartSums(tuple(waiting), self.part + 1)

    def total(self) -> Arrays:
        """Return the sum of all parts."""
        found = reduce(lambda right, left: _plus(left, right), self.waiting, self.here)
        if found is None:
            raise ValueError("there are no rows to sum over")
        return found


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
    cluster: Place,
) -> Arrays:
    """Return the sum of ``term(X, y)`` over all blocks of all parts.

    Each part is summed by itself, where the place's tasks run;
    the sums of the parts are then added in the order of the parts, whatever the order in which they are
    ready (:func:`added`).

    ``parts``: each returns an iterator of (rows, targets); for a cluster they must be picklable. ``term``: given
    rows and targets, a tuple of arrays.

    Source: The guide to clusters, docs/disqueak.md.
    """
    one = partial(_sum_part, term)
    if not cluster.keeps:
        return added(cluster.map_ordered(one, list(parts)))
    there = cluster.submit(same, one, name="term")  # it has the size of the atoms squared: it travels once
    return added([cluster.submit(by_itself, there, part) for part in parts], cluster)


def added(sums: list[Any], cluster: Place | None = None) -> Arrays:
    """Return the sum of the parts' sums, in the order of :class:`PartSums`; of tasks, on the workers."""
    if cluster is None:
        return reduce(PartSums.ended, sums, PartSums()).total()
    return PartSums(here=joined_there(sums, _plus, cluster)).total()


def joined_there(results: list[Any], join: Callable[[Any, Any], Any], cluster: Place) -> Any:
    """Return the results of tasks joined two by two in their order by the workers; only the last comes here.

    The list is emptied on the way: workers let go of a result once it is joined and nobody here stands for it.
    """

    def joined(group: list[Any]) -> Any:
        return reduce(lambda one, two: cluster.submit(join, one, two, name="add"), group)

    while len(results) > 1:
        results[:] = [joined(results[first : first + GROUP]) for first in range(0, len(results), GROUP)]
    return cluster.gathered(results)[0]


def _plus(one: Arrays | None, two: Arrays | None) -> Arrays | None:
    """Return the sum of two sums; those over no rows are None."""
    if one is None or two is None:
        there = two if one is None else one
        return None if there is None else tuple(np.asarray(array, dtype=np.float64) for array in there)
    return tuple(np.asarray(a + b) for a, b in zip(one, two, strict=True))


def same(value: Any) -> Any:
    """Return what is given: as a task, what many others need travels once, and is not lost with a worker."""
    return value


def _sum_part(term: Callable[[Rows, Any], Arrays], part: Callable[[], Iterator[Block]]) -> Arrays | None:
    return sum_blocks(part(), term)
