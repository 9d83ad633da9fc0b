"""A sum of trees as arrays: the same answers whatever grew them, saved as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from squeak.core import engine, state
from squeak.core.saved import Layout, Saved
from squeak.core.types import Array, IntArray

DEEPEST = 64
"""No tree of a file is deeper: a damaged one must not keep us busy."""

PAIRS = 2**18
"""Pairs of a row and a tree that are looked at together: their numbers fit into the cache."""


@dataclass(frozen=True)
class Trees(Saved):
    """A sum of trees: f(x) = scale·(baseline + Σ_t value of the leaf of tree t that x falls into).

    Trees of classes add up to the logits of their probabilities: one for two classes, else one for each.

    Parameters
    ----------
    feature, threshold : arrays of shape (nodes,)
        A row goes to the first child of a node where its column ``feature`` is at most ``threshold``.
    children : array of int of shape (nodes, 2)
        Later nodes; those of a leaf are the leaf itself.
    value : array of shape (nodes,)
        Of leaves; 0 elsewhere.
    roots, output : arrays of int of shape (trees,)
        The first node of every tree, and the output that it adds to.
    baseline, scale : arrays of shape (outputs,)
    columns : int
        Numbers of a row.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.learners.grown import Trees
    >>> zero, one = np.zeros(3, dtype=np.int64), np.ones(1)
    >>> children = np.array([[1, 2], [1, 1], [2, 2]])
    >>> value = np.array([0.0, -1.0, 1.0])
    >>> tree = Trees(zero, np.array([0.5, 0, 0]), children, value, zero[:1], zero[:1], 0 * one, one, 1)
    >>> tree.values(np.array([[0.5], [0.6]])).tolist()
    [[-1.0], [1.0]]
    """

    _state: ClassVar[Layout] = {
        "feature": state.wholes("nodes"),
        "threshold": state.numbers("nodes"),
        "children": state.wholes("nodes", 2),
        "value": state.numbers("nodes"),
        "roots": state.wholes("trees"),
        "output": state.wholes("trees"),
        "baseline": state.numbers("outputs"),
        "scale": state.numbers("outputs"),
        "columns": state.whole(low=1),
    }

    feature: IntArray
    threshold: Array
    children: IntArray
    value: Array
    roots: IntArray
    output: IntArray
    baseline: Array
    scale: Array
    columns: int

    def __post_init__(self) -> None:
        places = np.arange(len(self.feature))
        ordered = (self.children > places[:, None]).all(axis=1) | (self.children == places[:, None]).all(axis=1)
        within = self._below(self.children, len(places)) and self._below(self.roots, len(places))
        if not (within and ordered.all() and self._below(self.feature, self.columns)):
            raise ValueError("the nodes of its trees are damaged")
        sorted_outputs = (np.diff(self.output) >= 0).all() and self._below(self.output, len(self.baseline))
        if not sorted_outputs or len(self.output) != len(self.roots) or self.depth > DEEPEST:
            raise ValueError("its trees are damaged")

    @staticmethod
    def _below(numbers: IntArray, end: int) -> bool:
        return not numbers.size or int(numbers.max()) < end

    @cached_property
    def depth(self) -> int:
        """The splits on the longest way from a root to a leaf; counted up to one more than is allowed."""
        level = np.unique(self.roots)
        for found in range(DEEPEST + 1):
            level = level[self.children[level, 0] != level]
            if not len(level):
                return found
            level = np.unique(self.children[level])
        return DEEPEST + 1

    @cached_property
    def _starts(self) -> IntArray:
        """The first tree of every output that has one: trees of one output are beside each other."""
        return np.append(0, np.flatnonzero(np.diff(self.output)) + 1)

    def values(self, X: Array) -> Array:
        """Return f(x) for every row, shape (n, outputs)."""
        X = np.ascontiguousarray(X, dtype=np.float64)
        size = max(1, PAIRS // max(1, len(self.roots)))
        children, starts = self.children.ravel(), self._starts

        def part(rows: slice) -> Array:
            block = X[rows]
            begin = np.arange(len(block))[:, None] * self.columns
            node = np.repeat(self.roots[None], len(block), axis=0)
            for _ in range(self.depth):
                right = block.ravel().take(self.feature.take(node) + begin) > self.threshold.take(node)
                node = children.take(2 * node + right)
            out = np.repeat(self.baseline[None], len(block), axis=0)
            if len(self.roots):
                out[:, self.output[starts]] += np.add.reduceat(self.value.take(node), starts, axis=1)
            return out

        raw = np.concatenate(
            [np.zeros((0, len(self.scale))), *engine.map_ordered(part, engine.tiles(len(X), size))]
        )
        return np.asarray(self.scale * raw)

    def times(self, factor: float | Array) -> Trees:
        """Return the function times a number, or each of its outputs times a number of its own."""
        return replace(self, scale=self.scale * factor)

    @classmethod
    def total(cls, parts: Sequence[Trees]) -> Trees:
        """Return the sum of some functions of the same columns and outputs; that of several has a scale of 1.

        Parameters
        ----------
        parts : sequence of Trees
            Each as it was grown: the nodes of a tree follow its root.

        Returns
        -------
        Trees
        """
        if len(parts) == 1:
            return parts[0]
        values = []
        for one in parts:
            order = np.argsort(one.roots)
            tree = np.searchsorted(one.roots[order], np.arange(len(one.value)), side="right") - 1
            values.append(one.value * one.scale[one.output[order]][tree])
        sizes = [len(one.value) for one in parts]
        first = np.cumsum(sizes) - sizes
        output = np.concatenate([one.output for one in parts])
        roots = np.concatenate([one.roots + start for one, start in zip(parts, first, strict=True)])
        order = np.argsort(output, kind="stable")  # trees of one output are beside each other
        return replace(
            parts[0],
            feature=np.concatenate([one.feature for one in parts]),
            threshold=np.concatenate([one.threshold for one in parts]),
            children=np.concatenate([one.children + start for one, start in zip(parts, first, strict=True)]),
            value=np.concatenate(values),
            roots=roots[order],
            output=output[order],
            baseline=np.sum([one.scale * one.baseline for one in parts], axis=0),
            scale=np.ones_like(parts[0].scale),
        )
