"""Local experts of rows that memory does not hold: regions of the space, each with a tree and experts of its own.

A sample of the rows splits the space into regions, and a region has as many rows as a worker's memory holds with
ease. Its rows are read by the task that splits the region further and fits its experts; only these come back. What
a task returns depends on the source and the tree of the regions alone: on threads, on workers and after the loss of
a worker it has the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from squeak.core.places import place
from squeak.core.progress import Job, progress
from squeak.core.tasks import by_itself
from squeak.core.types import Array, IntArray
from squeak.learners import leaf_passes
from squeak.learners.data import ArrayTraining, SourceTraining
from squeak.learners.expansion import Expansion
from squeak.learners.leaf_passes import LeafRows, groups_of, rows_of, stays
from squeak.learners.leaves import Odds, Slopes, Task, fitted, with_width
from squeak.learners.splits import SplitTree, grown
from squeak.learners.told import WHOLE, said
from squeak.trees.sums import same

REGION_BYTES, REGIONS, REGION_SAMPLE = 2**27, 16, 20
"""The rows of a region take so much memory at most, where they can be divided. There are so many regions, or more,
unless they have fewer rows than a leaf: so many workers have something to do. Each has so many of the sample."""


@dataclass(frozen=True)
class HeldOut:
    """Which rows of a source are held out: those whose random numbers, by their place in it, are small."""

    seed: int
    part: float | None
    """The part of all rows that is held out while kernels are chosen; None: every expert draws its own."""
    told: Array
    """The numbers of the rows, from small to large, of which it is told what the experts said."""

    def told_of(self, regions: Sequence[Region]) -> Array:
        """Return what the experts of all regions said of the rows told of, in the order of their numbers."""
        out = np.zeros((len(self.told), regions[0].values.shape[1]))
        for region in regions:
            np.add.at(out, np.searchsorted(self.told, region.numbers), region.values)
        return out


@dataclass(frozen=True)
class Region:
    """What comes back of a region."""

    tree: SplitTree
    experts: list[list[Expansion]]
    odds: list[Odds | None]
    numbers: Array
    """The random numbers of the rows that were held out and are told of, and ..."""
    values: Array
    """... what the experts said of them before they saw them, times the region's share."""


@dataclass(frozen=True)
class Regions:
    """The regions of a source and what is fitted in each: a function of a region's number, which workers call."""

    data: SourceTraining
    tree: SplitTree
    estimator: Any
    kernel: Any
    """Of the small models that tell where to split."""
    leaf_rows: int
    margin: float
    classes: Any
    seed: int
    beside: dict[str, Any]
    held: HeldOut | None

    def __call__(self, region: int) -> Region:
        """Read the rows of a region, and return what is learned from them."""
        [rows] = self.read(np.array([region]))
        return self.learned(region, rows)

    def read(self, some: IntArray) -> list[LeafRows]:
        """Return the rows of some regions."""
        return rows_of(self.data, self.tree, some, None if self.held is None else self.held.seed)

    def learned(self, region: int, rows: LeafRows) -> Region:
        """Split the region's rows until none of its parts has too many, and fit an expert to each part."""
        data = ArrayTraining(rows.X, rows.y)
        slopes = Slopes.of(data, self.classes, self.kernel, self.seed)
        tree, leaves = grown(
            rows.X,
            lambda some, turns: slopes.directions(some, (2, region, *turns)),  # no turn of a tree is a 2
            self.leaf_rows,
            self.margin,
        )
        held = self.held
        given = {} if held is None or held.part is None else {"back": rows.numbers <= held.part}
        told = None if held is None else rows.numbers <= held.told[-1]
        found = [
            fitted(
                Task(
                    with_width(self.estimator, rows.X, some),
                    data,
                    given,
                    self.beside,
                    some,
                    self.classes,
                    self.seed,
                    (region << 32) + leaf,
                    told,
                )
            )
            for leaf, some in enumerate(leaves)
        ]
        learned = [one.expert for one in found], [one.odds for one in found]
        if held is None or told is None:
            return Region(tree, *learned, np.empty(0), np.empty((0, 1)))
        values, shares = said(tree, rows.X, found, leaves)
        if held.part is None:
            values[shares < WHOLE] = np.nan
        return Region(tree, *learned, rows.numbers[told], values[told] * rows.share[told, None])

    def all(self, sizes: Array) -> list[Region]:
        """Return what is learned in every region; ``sizes``: the bytes of their rows, about."""
        with place() as here, progress("local experts", "regions", len(sizes), Job.now is not None) as bar:
            if stays(self.data):
                travels = replace(self, data=self.data.alone(0, self.data.source.n_parts))
                there = here.submit(same, travels, name="regions")  # once for all of its tasks
                tasks = [here.submit(by_itself, there, region, name="region") for region in range(len(sizes))]
                try:
                    return here.gathered(tasks)
                except BaseException:
                    here.cancel(tasks)
                    raise
            found: list[Region] = []
            for group in groups_of(sizes, leaf_passes.MOST_BYTES):
                task = _WithRows(replace(self, data=None))  # type: ignore[arg-type]
                found += here.map_ordered(task, list(zip(group.tolist(), self.read(group), strict=True)))
                bar.update(len(group))
            return found


@dataclass(frozen=True)
class _WithRows:
    """What is learned in a region from rows that this program has read."""

    regions: Regions

    def __call__(self, given: tuple[int, LeafRows]) -> Region:
        return self.regions.learned(*given)


def region_rows(n: int, columns: int, leaf_rows: int) -> int:
    """Return how many of n rows a region has at most."""
    return max(leaf_rows, min(REGION_BYTES // (8 * columns), -(-n // REGIONS)))


def grafted(top: SplitTree, below: Sequence[SplitTree]) -> SplitTree:
    """Return the tree whose leaves are split further, each by a tree of its own, whose leaves follow each other.

    Parameters
    ----------
    top : SplitTree
    below : sequence of SplitTree
        One for every leaf of ``top``.

    Returns
    -------
    SplitTree

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.learners.regions import grafted
    >>> from squeak.learners.splits import SplitTree
    >>> def split(at):
    ...     return SplitTree(np.ones((1, 1)), np.array([at - 0.1]), np.array([at + 0.1]), np.array([[-1, -2]]), 1)
    >>> tree = grafted(split(0.5), [SplitTree.single(1), split(0.7)])
    >>> tree.n_leaves, [rows.tolist() for rows, _ in tree.shares(np.array([[0.0], [0.65], [0.9]]))]
    (3, [[0], [1], [1, 2]])
    """
    splits = np.cumsum([len(top.low), *(len(tree.low) for tree in below)])
    leaves = np.cumsum([0, *(tree.n_leaves for tree in below)])
    roots = [splits[leaf] if len(tree.low) else -1 - leaves[leaf] for leaf, tree in enumerate(below)]
    children = [np.where(top.children < 0, np.array(roots)[-1 - top.children], top.children)]
    for leaf, tree in enumerate(below):
        moved = np.where(tree.children < 0, tree.children - leaves[leaf], tree.children + splits[leaf])
        children.append(moved)
    trees = [top, *below]
    return SplitTree(
        np.concatenate([tree.directions for tree in trees]),
        np.concatenate([tree.low for tree in trees]),
        np.concatenate([tree.high for tree in trees]),
        np.concatenate(children).astype(np.int64),
        top.columns,
    )
