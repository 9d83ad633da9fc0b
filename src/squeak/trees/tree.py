"""Merge trees: which dictionaries meet which, decided before any row is read, and by where rows lie."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from squeak.core.checks import check_whole
from squeak.core.rows import n_rows
from squeak.data import Preprocessing, RowSource
from squeak.data.dask_parts import partitions
from squeak.trees.parts import ArrayPart, DelayedPart, LoadedPart, Part, SourcePart


class Tree:
    """A merge tree, a value: every leaf once, every other node a merge of two or more.

    The proofs ask for a tree that is fixed before the data is seen; when its nodes are computed, and where,
    does not matter. Nodes have numbers: leaves 0 to n_leaves − 1, then the merges, each after its children;
    the last is the root.

    Parameters
    ----------
    nested : int, or nested tuples of ints
        ``((0, 1), 2)`` merges leaves 0 and 1, and then the result with leaf 2. Leaves are 0, 1, …, in any
        order.

    Attributes
    ----------
    n_leaves : int
    merges : tuple of tuples of int
        The children of node n_leaves + i, for every merge i.

    References
    ----------
    Thesis, section 3.3.2; the theory page.

    Examples
    --------
    >>> from squeak.samplers import Tree
    >>> tree = Tree(((0, 1), (2, 3)))
    >>> tree == Tree.balanced(4), tree.n_leaves, tree.height
    (True, 4, 2)
    >>> print(tree)
    ─┬─┬─ 0
     │ └─ 1
     └─┬─ 2
       └─ 3
    """

    n_leaves: int
    merges: tuple[tuple[int, ...], ...]

    def __init__(self, nested: Any) -> None:
        leaves, merges = _flattened(nested)
        if sorted(leaves) != list(range(len(leaves))):
            raise ValueError(f"the leaves of a tree are 0, 1, …, each once; these are {sorted(leaves)[:12]}")
        self._set(len(leaves), merges)

    def _set(self, n_leaves: int, merges: Iterable[Sequence[int]]) -> None:
        self.n_leaves = n_leaves
        self.merges = tuple(tuple(children) for children in merges)

    @classmethod
    def _from_merges(cls, n_leaves: int, merges: Iterable[Sequence[int]]) -> Tree:
        tree = cls.__new__(cls)
        tree._set(n_leaves, merges)
        return tree

    @classmethod
    def balanced(cls, n_leaves: int, arity: int = 2) -> Tree:
        """Return the tree of least height, ``arity`` children a node.

        Returns
        -------
        Tree
        """
        check_whole("n_leaves", n_leaves)
        check_whole("arity", arity, 2)
        return cls._from_merges(n_leaves, _halving(list(range(n_leaves)), n_leaves, arity))

    @classmethod
    def sequential(cls, n_leaves: int) -> Tree:
        """Return the tree that takes in one leaf after the other: what a single machine does.

        Returns
        -------
        Tree
        """
        check_whole("n_leaves", n_leaves)
        first = [] if n_leaves == 1 else [(0, 1)]
        return cls._from_merges(n_leaves, first + [(n_leaves + i - 2, i) for i in range(2, n_leaves)])

    @classmethod
    def by_locality(cls, hosts: Sequence[Any]) -> Tree:
        """Return the tree that merges on each host first, and then across hosts.

        Parameters
        ----------
        hosts : sequence
            Where each leaf's rows lie, one name a leaf.

        Returns
        -------
        Tree

        Examples
        --------
        >>> from squeak.samplers import Tree
        >>> Tree.by_locality(["a", "b", "a", "b"]) == Tree(((0, 2), (1, 3)))
        True
        """
        if len(hosts) == 0:
            raise ValueError("by_locality needs a host for every leaf; there are none")
        groups: dict[Any, list[int]] = {}
        for leaf, host in enumerate(hosts):
            groups.setdefault(host, []).append(leaf)
        merges: list[tuple[int, ...]] = []
        tops = []
        for leaves in groups.values():
            merges += _halving(leaves, len(hosts) + len(merges), 2)
            tops.append(len(hosts) + len(merges) - 1 if len(leaves) > 1 else leaves[0])
        return cls._from_merges(len(hosts), merges + _halving(tops, len(hosts) + len(merges), 2))

    @property
    def root(self) -> int:
        """The number of the root."""
        return self.n_leaves + len(self.merges) - 1

    def children(self, node: int) -> tuple[int, ...]:
        """Return the children of a node; none for a leaf.

        Returns
        -------
        tuple of int
        """
        return () if node < self.n_leaves else self.merges[node - self.n_leaves]

    def fold(self, leaf: Callable[[int], Any], merge: Callable[[list[Any]], Any]) -> list[Any]:
        """Return a value for every node, from those of its children.

        Returns
        -------
        list
            By the numbers of the nodes; the last is that of the root.
        """
        values = [leaf(number) for number in range(self.n_leaves)]
        for children in self.merges:
            values.append(merge([values[child] for child in children]))
        return values

    @property
    def height(self) -> int:
        """The number of merges on the longest way from a leaf to the root."""
        return int(self.fold(lambda _: 0, lambda below: 1 + max(below))[-1])

    def work(self, leaf: float = 1.0, merge: float | Callable[[int], float] = 1.0) -> float:
        """Return the cost of all nodes together, from that of a leaf and of a merge (of so many children).

        Returns
        -------
        float
        """
        return leaf * self.n_leaves + sum(_price(merge, len(children)) for children in self.merges)

    def span(self, leaf: float = 1.0, merge: float | Callable[[int], float] = 1.0) -> float:
        """Return the cost of the dearest way from a leaf to the root: the time on endlessly many machines.

        Returns
        -------
        float
        """
        return float(self.fold(lambda _: leaf, lambda below: max(below) + _price(merge, len(below)))[-1])

    def __eq__(self, other: object) -> bool:
        """Two trees are equal when the same leaves meet in the same order, whatever their nodes' numbers."""
        return isinstance(other, Tree) and self.n_leaves == other.n_leaves and self._shape() == other._shape()

    def _shape(self) -> set[tuple[tuple[int, ...], ...]]:
        """Return every merge as the leaves of its children, which together say all about the tree."""
        leaves = self.fold(lambda number: (number,), lambda below: tuple(leaf for part in below for leaf in part))
        return {tuple(leaves[child] for child in children) for children in self.merges}

    def __hash__(self) -> int:
        return hash((self.n_leaves, len(self.merges)))

    def __repr__(self) -> str:
        if self.n_leaves > 12:
            return f"Tree({self.n_leaves} leaves, height {self.height})"
        nested = self.fold(str, lambda below: "(" + ", ".join(below) + ")")[-1]
        return f"Tree({nested})"

    def __str__(self) -> str:
        if self.n_leaves > 200:
            return repr(self)
        return "\n".join(self.fold(lambda number: [f"─ {number}"], _joined)[-1])


def _price(merge: float | Callable[[int], float], children: int) -> float:
    return float(merge(children) if callable(merge) else merge)


def _halving(level: list[int], next_number: int, arity: int) -> list[tuple[int, ...]]:
    """Return the merges that bring some nodes together, level by level; new nodes are numbered on."""
    merges: list[tuple[int, ...]] = []
    while len(level) > 1:
        upper = []
        for start in range(0, len(level), arity):
            group = level[start : start + arity]
            if len(group) > 1:
                merges.append(tuple(group))
                group = [next_number + len(merges) - 1]
            upper += group
        level = upper
    return merges


def _flattened(nested: Any) -> tuple[list[int], list[list[int]]]:
    """Return the leaves of nested tuples, and their merges, children first; without recursion."""
    leaves: list[int] = []
    raw: list[list[tuple[str, int]]] = []
    stack: list[tuple[Any, bool]] = [(nested, False)]
    done: list[tuple[str, int]] = []
    while stack:
        top, ready = stack.pop()
        if isinstance(top, int) and not isinstance(top, bool):
            leaves.append(top)
            done.append(("leaf", top))
        elif not isinstance(top, list | tuple):
            raise TypeError(f"a tree is a leaf's number or a tuple of trees, not {top!r}")
        elif len(top) < 2:
            raise ValueError(f"a node of a tree has two children or more; this one has {len(top)}")
        elif ready:
            raw.append(done[-len(top) :])
            done[-len(top) :] = [("merge", len(raw) - 1)]
        else:
            stack.append((top, True))
            stack.extend((child, False) for child in reversed(top))
    return leaves, [[n if kind == "leaf" else len(leaves) + n for kind, n in children] for children in raw]


def _joined(below: list[list[str]]) -> list[str]:
    """Return the lines of a node from those of its children."""
    lines: list[str] = []
    for number, child in enumerate(below):
        last = number == len(below) - 1
        first = "─┬" if number == 0 else " └" if last else " ├"
        lines += [(first if line == 0 else "  " if last else " │") + text for line, text in enumerate(child)]
    return lines


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
            preprocessing, data = X.preprocessing, X.fingerprint
            return [SourcePart(X, a, b, data) for a, b in pairwise(cuts)], preprocessing
        if isinstance(X, list | tuple) and X and all(callable(part) for part in X):
            if self.n_leaves not in (None, len(X)):
                raise ValueError(f"there are {len(X)} parts, so n_leaves is {len(X)}; it is {self.n_leaves}")
            return [LoadedPart(number, part) for number, part in enumerate(X)], None
        if hasattr(X, "__dask_graph__"):
            chunks = partitions(X)
            if self.n_leaves not in (None, len(chunks)):
                raise ValueError(f"the collection has {len(chunks)} parts; rechunk it for n_leaves={self.n_leaves}")
            return [DelayedPart(number, chunk) for number, chunk in enumerate(chunks)], None
        rows = self._checked(X)
        n = n_rows(rows)
        count = self._leaves_asked_for(int(np.clip(n // LEAF_ROWS, 1, LARGEST_TREE)), n)
        cuts = np.linspace(0, n, count + 1).round().astype(int).tolist()
        return [ArrayPart(rows, a, b) for a, b in pairwise(cuts)], None
