"""DISQUEAK: dictionaries learned where the rows lie, merged up a tree; only atoms travel."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import clone

from squeak.core.dictionary import Dictionary
from squeak.core.rows import check_rows, label_of, n_rows, width_of
from squeak.core.seeds import RandomState, draw_seed
from squeak.core.sources import Preprocessing, RowSource
from squeak.samplers.base import DEFAULT_OVERSAMPLING, Plan, Schedule, ScoreSampler, own_kernel
from squeak.samplers.kept_nodes import Keep
from squeak.samplers.kors import Kors
from squeak.samplers.merge import merge
from squeak.samplers.parts import ArrayPart, DelayedPart, LoadedPart, Part, SamePart, SourcePart
from squeak.samplers.squeak import Squeak
from squeak.samplers.stream import StreamSampler
from squeak.samplers.theory import squeak_oversampling
from squeak.samplers.tree import Tree
from squeak.samplers.tree_run import (
    NodeFacts,
    TreeRun,
    check_retries,
    check_start,
    node_seed,
    numbered_through,
    read_part,
)

LEAF_ROWS = 65_536
"""Rows of a leaf where their number is not given; so the leaves depend on the rows alone, never on the workers."""

LARGEST_TREE = 64
"""Leaves at most, where their number is not given."""


class Disqueak(ScoreSampler):
    """Learn a dictionary from parts of the data, merged up a tree: distributed SQUEAK.

    Each leaf learns a dictionary of its own part; each other node unites those of its children, scores every
    atom within the union, τ̃ = (1 − ε)·φᵀ(ΦSSᵀΦᵀ + (1 + (j − 1)ε)·ridge·Π)⁻¹φ with j inexact children, and
    thins to it. The result depends on the rows, the tree and the seed, and on nothing else: randomness is
    keyed by the node, so that one thread or many, a retry, or a restart from finished subtrees all give the
    same bits.

    Parameters
    ----------
    kernel, ridge, oversampling, copies, max_atoms, eps, delta, n, source, random_state
        As in :class:`Squeak`; ``max_atoms`` holds at every node. A width or a ridge that is to be learned is
        learned once, from the first rows of the first part. A schedule gives the ridge of a node from its
        number of rows.
    tree : "balanced", "sequential", Tree or nested tuples
    n_leaves : int, optional
        How many parts the rows are cut into; one for every 65,536 rows by default, 64 at most.
    leaf : Squeak, Kors or "exact"
        What learns a leaf's dictionary; "exact" keeps all its rows, for small leaves.
    retries : int
        How often a leaf that fails is tried again, before its error is raised.
    verbose : int
        1 shows a progress bar over the nodes.

    Attributes
    ----------
    dictionary_ : Dictionary
        Of all rows; ``indices`` number them through, part after part.
    nodes_ : list of NodeFacts
        For every node: rows, atoms, effective dimension, ridge, seconds, bytes moved to its parent.
    tree_ : Tree

    Notes
    -----
    With probability 1 − δ the dictionary of every node is (ε, ridge)-accurate with at most 3·q̄·d_eff atoms,
    in the papers' form (:meth:`from_paper`).

    References
    ----------
    Calandriello, Lazaric, Valko, "Distributed Adaptive Sampling for Kernel Matrix Approximation", AISTATS
    2017; thesis, section 3.3.2 and theorem 3.16; spec 5.2.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import Disqueak
    >>> from squeak.kernels import RBF
    >>> X = np.random.default_rng(0).standard_normal((4000, 2))
    >>> s = Disqueak(kernel=RBF(2.0), ridge=1.0, n_leaves=4, random_state=0).fit(X)
    >>> s.dictionary_.n_seen, [node.rows for node in s.nodes_]
    (4000, [1000, 1000, 1000, 1000, 2000, 2000, 4000])
    """

    nodes_: list[NodeFacts]
    tree_: Tree

    _theory = staticmethod(squeak_oversampling)
    _takes_schedule = True

    def __init__(
        self,
        kernel: Any = None,
        ridge: float | Schedule | None = None,
        oversampling: float | str = DEFAULT_OVERSAMPLING,
        copies: int = 1,
        max_atoms: int | None = None,
        tree: str | Tree | Any = "balanced",
        n_leaves: int | None = None,
        leaf: StreamSampler | str | None = None,
        retries: int = 3,
        eps: float | None = None,
        delta: float | None = None,
        n: int | None = None,
        source: str | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.ridge = ridge
        self.oversampling = oversampling
        self.copies = copies
        self.max_atoms = max_atoms
        self.tree = tree
        self.n_leaves = n_leaves
        self.leaf = leaf
        self.retries = retries
        self.eps = eps
        self.delta = delta
        self.n = n
        self.source = source
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        start: Dictionary | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Disqueak:
        """Learn the dictionary of the rows of ``X``.

        Parameters
        ----------
        X : array, CSR, row source, or list of functions that return rows
            An array is cut into parts; of a row source each part is some of its row groups, files or
            stretches; a function is called for the rows of its part, again at every retry.
        y : ignored
        start : Dictionary, optional
            One learned before from other rows, which are not needed again: the new parts are merged into it.
        checkpoint : folder, optional
            Keep the dictionaries of finished nodes here: the same call goes on with what is left to do.
        """
        parts, preprocessing = self._parts(X)
        tree = self._tree_of(len(parts))
        retries = check_retries(self.retries)
        kernel = own_kernel(start.kernel if start is not None and self.kernel is None else self.kernel)
        head = read_part(parts[0], lambda block: check_rows(block, kernel), retries)
        plan = self._make_plan(head, kernel)
        leaf = self._leaf_sampler(plan)
        parts[0] = SamePart(parts[0], label_of(head), kernel)
        label = label_of(head) if self.source is None else str(self.source)
        if start is not None:
            check_start(start, plan, preprocessing, label, width_of(head))
        keep = Keep.open(checkpoint, self._description(plan, tree, parts, label), draw_seed(self.random_state))
        run = TreeRun(tree, parts, leaf, plan, keep, retries, self.verbose)
        root, nodes = run.result()
        found = numbered_through(root, run.rows_of_leaves(), label, preprocessing)
        if start is not None:
            seed = node_seed(keep.seed, tree.root + 1)
            found = merge(start, found, random_state=seed, max_atoms=plan.max_atoms)
        self._dictionary, self.nodes_, self.tree_ = found, nodes, tree
        return self

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
        if isinstance(self.n_leaves, bool) or not isinstance(self.n_leaves, int | np.integer) or self.n_leaves < 1:
            raise ValueError(f"n_leaves must be a whole number from 1 on; it is {self.n_leaves!r}")
        if self.n_leaves > most:
            raise ValueError(f"n_leaves is {self.n_leaves}, but there are only {most} to share out")
        return int(self.n_leaves)

    def _parts(self, X: Any) -> tuple[list[Part], Preprocessing | None]:
        """Return the parts that leaves read, and how their rows were preprocessed."""
        if isinstance(X, RowSource):
            if not X.repeatable:
                raise ValueError("DISQUEAK reads each part apart from the others: an iterator cannot be read so")
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
        rows = check_rows(X, own_kernel(self.kernel))
        n = n_rows(rows)
        count = self._leaves_asked_for(int(np.clip(n // LEAF_ROWS, 1, LARGEST_TREE)), n)
        cuts = np.linspace(0, n, count + 1).round().astype(int).tolist()
        return [ArrayPart(rows, a, b) for a, b in pairwise(cuts)], None

    def _leaf_sampler(self, plan: Plan) -> StreamSampler | None:
        """Return what learns a leaf, ready but for its seed and name; None for all rows of a leaf."""
        if isinstance(self.leaf, str):
            if self.leaf != "exact":
                raise ValueError(f"leaf must be a Squeak, a Kors or 'exact'; it is {self.leaf!r}")
            return None
        sampler = Squeak() if self.leaf is None else clone(self.leaf)
        if not isinstance(sampler, Squeak | Kors):
            raise TypeError(f"leaf must be a Squeak, a Kors or 'exact'; it is a {type(sampler).__name__}")
        given: dict[str, Any] = {"kernel": plan.kernel, "copies": plan.copies, "verbose": 0}
        given["ridge"] = plan.ridge if plan.schedule is None else plan.schedule
        if isinstance(sampler, Kors):
            if plan.max_atoms is not None or plan.schedule is not None or plan.eps:
                raise ValueError("a Kors leaf takes neither max_atoms, nor a schedule, nor 'theory': use Squeak()")
        else:
            given["max_atoms"] = plan.max_atoms
        if plan.eps:
            given |= {"oversampling": "theory", "eps": self.eps, "delta": self.delta, "n": self.n}
        else:
            given["oversampling"] = plan.oversampling
        ready: StreamSampler = sampler.set_params(**given)
        return ready

    def _description(self, plan: Plan, tree: Tree, parts: list[Part], label: str) -> dict[str, Any]:
        """Return what a checkpoint must agree on, as JSON data."""
        leaf = "exact" if isinstance(self.leaf, str) else type(self.leaf or Squeak()).__name__
        return {
            "kernel": repr(plan.kernel),
            "ridge": plan.ridge if plan.schedule is None else "schedule",
            "oversampling": plan.oversampling,
            "copies": plan.copies,
            "eps": plan.eps,
            "max_atoms": plan.max_atoms,
            "leaf": leaf,
            "tree": [list(children) for children in tree.merges],
            "parts": [part.fingerprint() for part in parts],
            "source": label,
            "random_state": self.random_state if isinstance(self.random_state, int) else None,
        }

    @property
    def dictionary_(self) -> Dictionary:
        """The dictionary of all rows given to fit."""
        return self._dictionary if hasattr(self, "_dictionary") else super().dictionary_


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
