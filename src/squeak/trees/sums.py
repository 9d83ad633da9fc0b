"""Sums over rows, part by part and added in a fixed order: what learners need of all the rows at once.

A sum is a function of a block of rows (and targets) that returns arrays. Blocks are summed within a part in
the order of the rows, parts in the order of their numbers, sixteen at first, then sixteen such sums, and so on:
one thread or many, here or on a cluster, in one go or from a checkpoint on, the bits are the same. Few sums wait at
a time, and a part that is late keeps few others waiting. Where workers keep results, they add them too, and only
the whole sum comes here.
"""

from __future__ import annotations

from collections import deque
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

MANY = 32
"""From so many groups on, a task sums all parts of one: fewer sums move between workers, who still have enough."""

FEWEST_AHEAD, AHEAD_BYTES = 64, 2**30
"""Parts that are summed ahead of the one that is added next, where all sums come here: so many, or as many as have
so many bytes."""


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

    def ended(self, here: Arrays | None, first: int = 0) -> PartSums:
        """Return the sum where the part at hand has ended with a sum of its own.

        ``first``: 1 where it is the sum of a whole group of parts, and the part at hand begins a group.
        """
        waiting, number = [*self.waiting, *[None] * (first - len(self.waiting))], self.part // GROUP**first + 1
        for level in count(first):
            if level == len(waiting):
                waiting.append(None)
            here = waiting[level] = _plus(waiting[level], here)
            if number % GROUP:
                break
            waiting[level], number = None, number // GROUP
        return PartSums(tuple(waiting), self.part + GROUP**first)

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
    start: PartSums | None = None,
    keep: Callable[[PartSums], None] | None = None,
) -> Arrays:
    """Return the sum of ``term(X, y)`` over all blocks of all parts.

    Each part is summed by itself, where the place's tasks run;
    the sums of the parts are then added in the order of the parts, whatever the order in which they are
    ready (:func:`added`).

    ``parts``: each returns an iterator of (rows, targets); for a cluster they must be picklable. ``term``: given
    rows and targets, a tuple of arrays. ``start``: the sum of the first parts, whole groups of them, where a run
    before has kept it. ``keep``: is told of the sum whenever a group of parts has been added; sums of groups
    then come here, which otherwise stay where they are.

    Source: The guide to clusters, docs/disqueak.md.
    """
    one, total = partial(_sum_part, term), start or PartSums()
    if not cluster.keeps:
        for found in _in_turn(one, parts[total.part :], cluster):
            total = total.ended(found)
            if keep is not None and total.part % GROUP == 0:
                keep(total)
        return total.total()
    there = cluster.submit(same, one, name="term")  # it has the size of the atoms squared: it travels once
    groups = [parts[first : first + GROUP] for first in range(total.part, len(parts), GROUP)]
    if len(groups) < MANY:
        each = ([cluster.submit(by_itself, there, part) for part in group] for group in groups)
        sums = [_joined(group, _plus, cluster) for group in each]
    else:
        sums = [cluster.submit(by_itself, there, _Group(group)) for group in groups]
    if keep is None:
        return PartSums(here=joined_there(sums, _plus, cluster)).total()
    sums.reverse()
    while sums:  # in their order; what was added is let go
        total = total.ended(cluster.gathered([sums.pop()])[0], first=1)
        keep(total)
    return total.total()


def _in_turn(function: Callable[[Any], Any], items: Sequence[Any], cluster: Place) -> Iterator[Any]:
    """Yield the results in the order of the items, with a bounded number of tasks that wait to be asked for."""
    waiting, most = deque[Any](), FEWEST_AHEAD
    try:
        for item in items:
            waiting.append(cluster.submit(by_itself, function, item))
            if len(waiting) >= most:
                found = cluster.gathered([waiting.popleft()])[0]
                size = 0 if found is None else sum(np.asarray(array).nbytes for array in found)
                most = max(FEWEST_AHEAD, AHEAD_BYTES // max(size, 1))
                yield found
        while waiting:
            yield cluster.gathered([waiting.popleft()])[0]
    except BaseException:
        cluster.cancel(list(waiting))
        raise


def added(sums: list[Any], cluster: Place | None = None) -> Arrays:
    """Return the sum of the parts' sums, in the order of :class:`PartSums`; of tasks, on the workers."""
    if cluster is None:
        return reduce(PartSums.ended, sums, PartSums()).total()
    return PartSums(here=joined_there(sums, _plus, cluster)).total()


def joined_there(results: list[Any], join: Callable[[Any, Any], Any], cluster: Place) -> Any:
    """Return the results of tasks joined two by two in their order by the workers; only the last comes here.

    The list is emptied on the way: workers let go of a result once it is joined and nobody here stands for it.
    """
    while len(results) > 1:
        firsts = range(0, len(results), GROUP)
        results[:] = [_joined(results[first : first + GROUP], join, cluster) for first in firsts]
    return cluster.gathered(results)[0]


def _joined(group: list[Any], join: Callable[[Any, Any], Any], cluster: Place) -> Any:
    return reduce(lambda one, two: cluster.submit(join, one, two, name="add"), group)


def _plus(one: Arrays | None, two: Arrays | None) -> Arrays | None:
    """Return the sum of two sums; those over no rows are None."""
    if one is None or two is None:
        there = two if one is None else one
        return None if there is None else tuple(np.asarray(array, dtype=np.float64) for array in there)
    return tuple(np.asarray(a + b) for a, b in zip(one, two, strict=True))


def same(value: Any) -> Any:
    """Return what is given: as a task, what many others need travels once, and is not lost with a worker."""
    return value


def _sum_part(term: Callable[[Rows, Any], Arrays], part: Any) -> Arrays | None:
    if isinstance(part, _Group):
        return reduce(_plus, (sum_blocks(one(), term) for one in part.parts), None)
    return sum_blocks(part(), term)


@dataclass(frozen=True)
class _Group:
    """Parts whose sums one task adds up."""

    parts: Sequence[Callable[[], Iterator[Block]]]
