"""How data is cut into the leaves of a tree: shared by all that runs up one."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from squeak.core.checks import check_whole
from squeak.core.rows import n_rows
from squeak.data import Preprocessing, RowSource
from squeak.trees.parts import ArrayPart, DelayedPart, LoadedPart, Part, SourcePart
from squeak.trees.tree import Tree

LEAF_ROWS = 65_536
"""Rows of a leaf where their number is not given; so the leaves depend on the rows alone, never on the workers."""

LARGEST_TREE = 64
"""Leaves at most, where their number is not given."""


class TreeShaped:
    """Has ``tree`` and ``n_leaves``, and cuts what it is given into as many parts as the tree has leaves."""

    tree: Any
    n_leaves: int | None

    def _checked(self, X: Any) -> Any:
        """Return an array of rows, or raise."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def _tree_of(self, n_parts: int) -> Tree:
        """Return the tree, with as many leaves as there are parts."""
        if isinstance(self.tree, str):
            if self.tree not in ("balanced", "sequential"):
                raise ValueError(f"tree must be 'balanced', 'sequential' or a Tree; it is {self.tree!r}")
            return Tree.balanced(n_parts) if self.tree == "balanced" else Tree.sequential(n_parts)
        tree = self.tree if isinstance(self.tree, Tree) else Tree(self.tree)
        if tree.n_leaves != n_parts:
            raise ValueError(f"the tree has {tree.n_leaves} leaves, the data {n_parts} parts")
        return tree

    def _leaves_asked_for(self, default: int, most: int) -> int:
        if self.n_leaves is None:
            fixed = None if isinstance(self.tree, str) else self.tree
            if fixed is not None:
                return fixed.n_leaves if isinstance(fixed, Tree) else Tree(fixed).n_leaves
            return default
        if check_whole("n_leaves", self.n_leaves) > most:
            raise ValueError(f"n_leaves is {self.n_leaves}, but there are only {most} to share out")
        return int(self.n_leaves)

    def _parts(self, X: Any) -> tuple[list[Part], Preprocessing | None]:
        """Return the parts that leaves read, and how their rows were preprocessed."""
        if isinstance(X, RowSource):
            if not X.repeatable:
                raise ValueError("each part is read apart from the others: an iterator cannot be read so")
            count = self._leaves_asked_for(min(X.n_parts, LARGEST_TREE), X.n_parts)
            cuts = np.linspace(0, X.n_parts, count + 1).round().astype(int).tolist()
            preprocessing = X.preprocessing
            return [SourcePart(X, a, b) for a, b in pairwise(cuts)], preprocessing
        if isinstance(X, list | tuple) and X and all(callable(part) for part in X):
            if self.n_leaves not in (None, len(X)):
                raise ValueError(f"there are {len(X)} parts, so n_leaves is {len(X)}; it is {self.n_leaves}")
            return [LoadedPart(number, part) for number, part in enumerate(X)], None
        if hasattr(X, "__dask_graph__"):
            chunks = delayed_parts(X)
            if self.n_leaves not in (None, len(chunks)):
                raise ValueError(f"the collection has {len(chunks)} parts; rechunk it for n_leaves={self.n_leaves}")
            return [DelayedPart(number, chunk) for number, chunk in enumerate(chunks)], None
        rows = self._checked(X)
        n = n_rows(rows)
        count = self._leaves_asked_for(int(np.clip(n // LEAF_ROWS, 1, LARGEST_TREE)), n)
        cuts = np.linspace(0, n, count + 1).round().astype(int).tolist()
        return [ArrayPart(rows, a, b) for a, b in pairwise(cuts)], None


def delayed_parts(X: Any) -> list[Any]:
    """Return the chunks of rows of a dask array, or the partitions of a dask dataframe, as delayed objects."""
    if hasattr(X, "numblocks"):
        if X.ndim != 2 or X.numblocks[1] != 1:
            raise ValueError(
                "a dask array must have two dimensions and all columns in one chunk: X.rechunk({1: -1})"
            )
        return [chunk for line in X.to_delayed().tolist() for chunk in line]
    if hasattr(X, "npartitions") and hasattr(X, "to_delayed"):
        return list(X.to_delayed())
    raise TypeError(f"rows cannot be read from a {type(X).__name__}: pass a dask array or dataframe")
