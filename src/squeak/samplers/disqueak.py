"""DISQUEAK: dictionaries learned where the rows lie, merged up a tree; only atoms travel."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from squeak.core.checks import check_whole
from squeak.core.constructors import parameters
from squeak.core.leverage import check_ridge
from squeak.core.rows import check_rows, join, label_of, n_rows, take, width_of
from squeak.core.seeds import draw_seed
from squeak.core.types import Rows
from squeak.data import Preprocessing, RowSource
from squeak.samplers.base import Coins, Plan, ScoreSampler, own_kernel
from squeak.samplers.dictionary import Dictionary
from squeak.samplers.kors import Kors
from squeak.samplers.merging import merge, merge_and_measure
from squeak.samplers.record import Record
from squeak.samplers.squeak import Squeak
from squeak.samplers.stream import StreamSampler
from squeak.samplers.theory import squeak_oversampling
from squeak.trees.parts import Part, SamePart
from squeak.trees.run import Keep, NodeFacts, NoRows, TreeRun, first_rows, node_seed, numbered, tried
from squeak.trees.tree import Tree, TreeShaped


def check_start(
    start: Dictionary, plan: Plan, preprocessing: Preprocessing | None, label: str, width: int | None
) -> None:
    """Refuse to go on from a dictionary that the new one could not be merged with, before any row is read."""
    for name, mine in (("kernel", plan.kernel), ("copies", plan.copies), ("oversampling", plan.oversampling)):
        if getattr(start, name) != mine:
            raise ValueError(f"start was learned with {name} {getattr(start, name)!r}, this is {mine!r}")
    if start.preprocessing != preprocessing:
        raise ValueError("start's rows were preprocessed in another way: squeak.rows(..., preprocessing=...)")
    if width_of(start.atoms) != width:
        raise ValueError(f"start's rows have {width_of(start.atoms)} columns, these {width}")
    if label in [name for name, _ in start.sources]:
        raise ValueError(f"the source {label!r} is in start already: merged data must be disjoint; give source=")


def numbered_through(d: Dictionary, rows: list[int], label: str, preprocessing: Preprocessing | None) -> Dictionary:
    """Return the dictionary with its rows numbered through all leaves, as one source."""
    order, indices = numbered(d, rows)
    return replace(
        d,
        atoms=take(d.atoms, order),
        indices=indices,
        probabilities=d.probabilities[order],
        counts=d.counts[order],
        sources=((label, d.n_seen),),
        source_numbers=np.zeros(len(d), dtype=np.int64),
        preprocessing=preprocessing,
        record=None,
    )


def run_leaf(
    part: Part, number: int, sampler: StreamSampler | None, plan: Plan, seed: int, retries: int
) -> tuple[Dictionary | NoRows, float]:
    """Return the dictionary of a part and its effective dimension: a function of its arguments alone."""

    def learn() -> tuple[Dictionary | NoRows, float]:
        if sampler is None:
            every = _exact(part, number, plan)
            return nothing if every is None else (every, every.effective_dimension())
        fresh: StreamSampler = clone(sampler).set_params(random_state=seed, source=str(number))
        for block in part.blocks():
            fresh.partial_fit(block)
        return (fresh.dictionary_, fresh.effective_dimension_) if fresh.n_seen_ else nothing

    nothing = NoRows(((str(number), 0),)), 0.0
    found: tuple[Dictionary | NoRows, float] = tried(part, learn, retries)
    return found


def _exact(part: Part, number: int, plan: Plan) -> Dictionary | None:
    rows: Rows | None = None
    for block in part.blocks():
        rows = block if rows is None else join(rows, block)
    if rows is None or n_rows(rows) == 0:
        return None
    n = n_rows(rows)
    return Dictionary(
        kernel=plan.kernel,
        atoms=rows,
        indices=np.arange(n),
        probabilities=np.ones(n),
        counts=np.full(n, plan.copies),
        copies=plan.copies,
        oversampling=plan.oversampling,
        ridge=_ridge_due(plan, plan.ridge, n),
        n_seen=n,
        sources=((str(number), n),),
        eps=plan.eps,
    )


def _ridge_due(plan: Plan, so_far: float, rows: int) -> float:
    """Return the ridge of a node with so many rows; it never falls on the way up."""
    return so_far if plan.schedule is None else max(so_far, check_ridge(plan.schedule(rows)))


def run_merge(children: list[Dictionary], plan: Plan, seed: int) -> tuple[Dictionary, float]:
    """Return the merge of the children and its effective dimension: a function of its arguments alone."""
    ridge = _ridge_due(plan, max(d.ridge for d in children), sum(d.n_seen for d in children))
    return merge_and_measure(children, seed, plan.max_atoms, ridge)


@dataclass(frozen=True)
class DictionaryWork:
    """DISQUEAK: leaves learn dictionaries, merges are DICT-MERGE."""

    sampler: StreamSampler | None
    plan: Plan
    name: str = "Disqueak"

    def leaf(self, part: Part, number: int, seed: int, retries: int) -> tuple[Dictionary | NoRows, float]:
        """Return the dictionary of a part and its effective dimension."""
        return run_leaf(part, number, self.sampler, self.plan, seed, retries)

    def merge(self, children: list[Dictionary], seed: int) -> tuple[Dictionary, float]:
        """Return the merged dictionary and its effective dimension."""
        return run_merge(children, self.plan, seed)

    def load(self, path: Path) -> Dictionary:
        """Return a kept dictionary."""
        return Dictionary.load(path, kernel=self.plan.kernel)


@parameters
class Disqueak(TreeShaped, Coins, ScoreSampler):
    """Choose a dictionary from many parts of the data, merged up a tree: distributed SQUEAK.

    Each leaf learns a dictionary of its own part. Each other node takes the atoms of its children, scores every
    atom within the union, τ̃ = (1 − ε)·φᵀ(ΦSSᵀΦᵀ + (1 + (j − 1)ε)·ridge·Π)⁻¹φ with j inexact children, and thins
    the union accordingly. The result depends on the rows, the tree and the seed, and on nothing else. Random
    numbers belong to nodes, so one thread or many, a retry, or a restart from finished subtrees all give the same
    bits.

    Parameters
    ----------
    kernel, ridge, oversampling, copies, max_atoms, eps, delta, n, source, random_state
        As in :class:`Squeak`; ``max_atoms`` holds at every node. A width or a ridge that has to be learned is
        learned once, from the first rows of the first part that has some. A schedule gives the ridge of a node
        from its number of rows.
    tree : "balanced", "sequential", Tree or nested tuples
        The order in which dictionaries are merged.
    n_leaves : int, optional
        The number of parts that the rows are cut into. By default there is one for every 65,536 rows, and 64 at
        most.
    leaf : Squeak, Kors or "exact"
        What learns the dictionary of a leaf; "exact" keeps all its rows, which is for small leaves.
    retries : int
        How often a leaf that fails is tried again before its error is raised.
    verbose : int
        1 shows a progress bar over the nodes.

    Attributes
    ----------
    dictionary_ : Dictionary
        The dictionary of all rows; its ``indices`` count them through, part after part.
    nodes_ : list of NodeFacts
        Rows, atoms, effective dimension, ridge, seconds, and bytes moved to the parent, for every node.
    tree_ : Tree
        The tree that was used.

    Notes
    -----
    With probability 1 − δ the dictionary of every node is (ε, ridge)-accurate with at most 3·q̄·d_eff atoms,
    in the papers' form (:meth:`from_paper`).

    References
    ----------
    Calandriello, Lazaric, Valko, "Distributed Adaptive Sampling for Kernel Matrix Approximation", AISTATS
    2017; thesis, section 3.3.2 and theorem 3.16; the theory page.

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

    nodes_: list[NodeFacts] = field(init=False)
    tree_: Tree = field(init=False)

    _theory = staticmethod(squeak_oversampling)
    _takes_schedule = True

    max_atoms: int | None = None
    tree: str | Tree | Any = "balanced"
    n_leaves: int | None = None
    leaf: StreamSampler | str | None = None
    retries: int = 3
    verbose: int = 0

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

        Returns
        -------
        self
        """
        parts, preprocessing = self._parts(X)
        tree = self._tree_of(len(parts))
        retries = check_whole("retries", self.retries, 0)
        kernel = own_kernel(start.kernel if start is not None and self.kernel is None else self.kernel)
        first, head = first_rows(parts, lambda block: check_rows(block, kernel), retries)
        plan = self._make_plan(head, kernel)
        leaf = self._leaf_sampler(plan)
        parts[first] = SamePart(parts[first], label_of(head), kernel)
        label = label_of(head) if self.source is None else str(self.source)
        if start is not None:
            check_start(start, plan, preprocessing, label, width_of(head))
        keep = Keep.open(checkpoint, self._description(plan, tree, parts, label), draw_seed(self.random_state))
        run = TreeRun(tree, parts, DictionaryWork(leaf, plan), keep, retries, self.verbose)
        root, nodes = run.result()
        if isinstance(X, RowSource):
            X.check_unchanged()
        found = numbered_through(root, run.rows_of_leaves(), label, preprocessing)
        record = Record.of(self, merges=tree.merges, nodes=nodes)
        if start is not None:
            seed = node_seed(keep.seed, tree.root + 1)
            found = merge(start, found, random_state=seed, max_atoms=plan.max_atoms)
        self._dictionary, self.nodes_, self.tree_ = replace(found, record=record), nodes, tree
        return self

    def _checked(self, X: Any) -> Any:
        return check_rows(X, own_kernel(self.kernel))

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
