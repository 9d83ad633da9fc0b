"""A tree that splits the space of the rows along directions, with margins in which both sides have a share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from squeak.core import engine, state
from squeak.core.saved import Layout, Saved
from squeak.core.types import Array, IntArray

LARGEST_SIDE = 0.8
"""A split that leaves more of the rows than this on one side is no split."""

Directions = Callable[[IntArray, tuple[int, ...]], Array]
"""Given the numbers of some rows and the turns that led to them, directions to try, one in a row of a matrix."""

Split = tuple[Array, float, float]
"""A direction, and the places along it between which both sides have a share."""


@dataclass(frozen=True)
class SplitTree(Saved):
    """Splits of the space, each along a direction v: the left side has the share 1 − w(x) and the right w(x).

    w(x) = min(1, max(0, (v·x − low)/(high − low))), so that what is blended by the shares is continuous.

    Parameters
    ----------
    directions : array of shape (splits, d)
    low, high : arrays of shape (splits,)
        Where the right side's share begins, and where it is all.
    children : array of shape (splits, 2)
        The left and the right side of a split: the number of a later split, or −1 − leaf.
    columns : int
        d.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.learners.splits import SplitTree
    >>> tree = SplitTree(np.array([[1.0]]), np.array([0.4]), np.array([0.6]), np.array([[-1, -2]]), 1)
    >>> [(rows.tolist(), share.round(2).tolist()) for rows, share in tree.shares(np.array([[0.0], [0.45], [1.0]]))]
    [([0, 1], [1.0, 0.75]), ([1, 2], [0.25, 1.0])]
    """

    _state: ClassVar[Layout] = {
        "directions": state.numbers("splits", "columns"),
        "low": state.numbers("splits"),
        "high": state.numbers("splits"),
        "children": state.wholes("splits", 2, low=-(2**31), high=2**31),
        "columns": state.whole(low=1),
    }

    directions: Array
    low: Array
    high: Array
    children: IntArray
    columns: int

    def __post_init__(self) -> None:
        splits = len(self.low)
        if not (self.high > self.low).all() or self.directions.shape != (splits, self.columns):
            raise ValueError("the tree's margins are damaged")
        inner, leaves = self.children[self.children >= 0], -1 - self.children[self.children < 0]
        if splits and not (
            np.array_equal(np.sort(inner), np.arange(1, splits))
            and np.array_equal(np.sort(leaves), np.arange(splits + 1))
            and (self.children.max(axis=1) < splits).all()
            and all((child < 0) | (child > place) for place, pair in enumerate(self.children) for child in pair)
        ):
            raise ValueError("the tree's splits are damaged")

    @classmethod
    def single(cls, columns: int) -> SplitTree:
        """Return the tree without a split: one leaf for all rows.

        Parameters
        ----------
        columns : int

        Returns
        -------
        SplitTree
        """
        return cls(np.zeros((0, columns)), np.zeros(0), np.zeros(0), np.zeros((0, 2), dtype=np.int64), columns)

    @property
    def n_leaves(self) -> int:
        """The number of leaves: one more than there are splits."""
        return len(self.low) + 1

    def shares(self, X: Array) -> list[tuple[IntArray, Array]]:
        """Return for every leaf the rows in which it has a share, and the shares; those of a row add up to 1.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        list of (array of int, array)
        """
        found: list[tuple[IntArray, Array]] = [(np.arange(0), np.zeros(0))] * self.n_leaves
        if not len(self.low):
            return [(np.arange(len(X)), np.ones(len(X)))]
        waiting = [(0, np.arange(len(X)), np.ones(len(X)))]
        while waiting:
            place, rows, share = waiting.pop()
            right = _right(X[rows] @ self.directions[place], self.low[place], self.high[place])
            for child, part in zip(self.children[place].tolist(), (1.0 - right, right), strict=True):
                some = part > 0.0
                if child < 0:
                    found[-1 - child] = (rows[some], share[some] * part[some])
                else:
                    waiting.append((child, rows[some], share[some] * part[some]))
        return found


def _right(along: Array, low: float, high: float) -> Array:
    """Return the share of the right side."""
    return np.asarray(np.clip((along - low) / (high - low), 0.0, 1.0))


def margin_at_middle(along: Array, margin: float) -> tuple[float, float] | None:
    """Return the two ends of the margin about the median of some values; None where they do not divide.

    Of values that are few the gap that divides them most evenly is the margin.

    Parameters
    ----------
    along : array of shape (n,)
    margin : float
        The part of the values that lies in the margin.

    Returns
    -------
    low, high : float, float
        Or None.
    """
    low, high = np.quantile(along, [0.5 - margin / 2.0, 0.5 + margin / 2.0])
    if not high > low:
        values, counts = np.unique(along, return_counts=True)
        if len(values) < 2:
            return None
        cut = int(np.argmin(np.abs(np.cumsum(counts)[:-1] - len(along) / 2.0)))
        low, high = values[cut], values[cut + 1]
    sides = np.count_nonzero(along < high), np.count_nonzero(along > low)
    if not high > low or max(sides) > LARGEST_SIDE * len(along):
        return None
    return float(low), float(high)


def grown(X: Array, directions_at: Directions, leaf_rows: int, margin: float) -> tuple[SplitTree, list[IntArray]]:
    """Split rows at the middle along a direction until no leaf has more than ``leaf_rows`` of them.

    Parameters
    ----------
    X : array of shape (n, d)
    directions_at : function
        Gives the directions to try at a node, the best first.
    leaf_rows : int
    margin : float
        The part of a node's rows that both of its sides get.

    Returns
    -------
    tree : SplitTree
    leaves : list of arrays of int
        The rows of every leaf. Rows that no direction divides stay in one leaf, however many they are.
    """
    splits_at = _by_levels(X, directions_at, leaf_rows, margin)
    found: list[Split] = []
    children: list[list[int]] = []
    leaves: list[IntArray] = []
    waiting: list[tuple[IntArray, tuple[int, ...], int, int]] = [(np.arange(len(X)), (), -1, 0)]
    while waiting:
        rows, turns, parent, side = waiting.pop()
        split = splits_at.get(turns)
        if parent >= 0:
            children[parent][side] = -1 - len(leaves) if split is None else len(found)
        if split is None:
            leaves.append(rows)
            continue
        place = len(found)
        found.append(split)
        children.append([0, 0])
        first, second = _sides(X, rows, split)
        waiting.append((second, (*turns, 1), place, 1))
        waiting.append((first, (*turns, 0), place, 0))
    splits, d = len(found), X.shape[1]
    tree = SplitTree(
        np.array([v for v, _, _ in found]).reshape(splits, d),
        np.array([low for _, low, _ in found]),
        np.array([high for _, _, high in found]),
        np.array(children, dtype=np.int64).reshape(splits, 2),
        d,
    )
    return tree, leaves


def _by_levels(X: Array, directions_at: Directions, leaf_rows: int, margin: float) -> dict[tuple[int, ...], Split]:
    """Return the splits of all nodes by the turns that lead to them; of a level on all threads."""
    found: dict[tuple[int, ...], Split] = {}
    level: list[tuple[IntArray, tuple[int, ...]]] = [(np.arange(len(X)), ())]
    while level:
        level = [(rows, turns) for rows, turns in level if len(rows) > leaf_rows]
        splits = engine.map_ordered(lambda node: _best_split(X, *node, directions_at, margin), level)
        below: list[tuple[IntArray, tuple[int, ...]]] = []
        for (rows, turns), split in zip(level, splits, strict=True):
            if split is not None:
                found[turns] = split
                below += [(some, (*turns, side)) for side, some in enumerate(_sides(X, rows, split))]
        level = below
    return found


def _sides(X: Array, rows: IntArray, split: Split) -> tuple[IntArray, IntArray]:
    """Return the rows of a node that go to its first and to its second side; those in the margin go to both."""
    v, low, high = split
    along = X[rows] @ v
    return rows[along < high], rows[along > low]


def _best_split(
    X: Array, rows: IntArray, turns: tuple[int, ...], directions_at: Directions, margin: float
) -> Split | None:
    for v in directions_at(rows, turns):
        ends = margin_at_middle(X[rows] @ v, margin)
        if ends is not None:
            return v, *ends
    return None
