"""DISRE: sparsifiers of edge-disjoint parts, merged up a tree; only kept edges travel."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from squeak.core.checks import check_whole
from squeak.core.constructors import parameters
from squeak.core.seeds import draw_seed
from squeak.data import RowSource
from squeak.graphs.base import GraphPlan, Sparsifier, make_plan
from squeak.graphs.edges import Edges
from squeak.graphs.names import NamedTable, Names
from squeak.graphs.oracle import Oracle
from squeak.graphs.sample import EdgeSample, joined, shrink
from squeak.graphs.sources import edge_blocks, is_text, open_edges, text_blocks
from squeak.graphs.state import StreamState
from squeak.trees.parts import Part, PartError
from squeak.trees.run import Keep, NodeFacts, TreeRun, numbered, tried
from squeak.trees.tree import Tree, TreeShaped


@parameters
class DistributedSparsifier(TreeShaped, Sparsifier):
    """Sparsify a graph from edge-disjoint parts, merged up a tree: DISRE, distributed resistance estimates.

    A leaf sparsifies the stream of its own edges (:class:`StreamSparsifier`). Each other node unites the
    samples of its children, scores every edge within the union by a_e·r_e, a_e its original weight, and thins
    to it. Randomness is keyed by the node: threads or Dask workers, retries and restarts all give the same bits.

    Parameters
    ----------
    oversampling, ridge, copies, connected, n_nodes, eps, delta, n, random_state
        As in :class:`StreamSparsifier`.
    tree : "balanced", "sequential", Tree or nested tuples
    n_leaves : int, optional
        Parts of the edges; one for every 65,536 by default, 64 at most. Few large leaves are best: a leaf of fewer
        than oversampling·nodes edges has nothing to drop.
    retries : int
        How often a leaf that fails is tried again.
    verbose : int
        1 shows a progress bar over the nodes.

    Attributes
    ----------
    sample_ : EdgeSample
    sparsifier_ : CSR adjacency matrix
    nodes_ : list of NodeFacts
        For every node: edges seen, edges kept, effective dimension, seconds, bytes moved to its parent.
    tree_ : Tree

    Notes
    -----
    With probability 1 − δ every node is an (ε, ridge)-sparsifier of its edges with O(d_eff·log n) edges.
    Without a ridge a union of sparsifiers is as accurate as its parts, for any number of them.

    References
    ----------
    Calandriello, Koutis, Lazaric, Valko, "Improved large-scale graph learning through ridge spectral
    sparsification", ICML 2018; the theory page, "Graphs".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.graphs import DistributedSparsifier, spectral_accuracy
    >>> u, v = np.triu_indices(300, 1)
    >>> edges = np.random.default_rng(0).permutation(np.column_stack([u, v]))
    >>> s = DistributedSparsifier(oversampling=20, n_leaves=4, random_state=0).fit(edges)
    >>> s.sample_.n_seen, len(s.nodes_), spectral_accuracy((u, v), s.sparsifier_) < 0.7
    (44850, 7, True)
    """

    nodes_: list[NodeFacts] = field(init=False)
    tree_: Tree = field(init=False)

    tree: str | Tree | Any = "balanced"
    n_leaves: int | None = None
    retries: int = 3
    verbose: int = 0

    def fit(
        self, X: Any, y: Any = None, *, checkpoint: str | os.PathLike[str] | None = None
    ) -> DistributedSparsifier:
        """Sparsify the graph of all edges, on threads or, with a Dask client active, on its workers.

        Parameters
        ----------
        X : graph, edges, files, row source, or list of functions that return edges
            A graph or an array of edges is cut into parts. Of Parquet files each part is some row groups, of
            text files each file is a part. A function is called for the edges of its part, again at every retry.
        y : ignored
        checkpoint : folder, optional
            Keep finished nodes here: the same call goes on with what is left.

        Returns
        -------
        self
        """
        names: Names = {}
        plan, given = make_plan(self), _as_parts(X, self.n_nodes, names)
        if isinstance(given, Edges):  # the last nodes may have no edges
            plan = replace(plan, n_nodes=max(plan.n_nodes, given.n_nodes))
        parts, _ = self._parts(given)
        tree, retries = self._tree_of(len(parts)), check_whole("retries", self.retries, 0)
        description = {
            "sparsifier": [plan.oversampling, plan.copies, plan.scoring.ridge, plan.connected, plan.n_nodes],
            "independent": plan.independent,
            "tree": [list(children) for children in tree.merges],
            "parts": [part.fingerprint() for part in parts],
            "random_state": self.random_state if isinstance(self.random_state, int) else None,
        }
        keep = Keep.open(checkpoint, description, draw_seed(self.random_state))
        run = TreeRun(tree, parts, EdgeWork(plan), keep, retries, self.verbose)
        root, nodes = run.result()
        if isinstance(given, RowSource):
            given.check_unchanged()
        self._sample, self.nodes_, self.tree_ = _numbered(root, run.rows_of_leaves(), plan.source), nodes, tree
        self._names = names
        return self

    def _checked(self, X: Edges) -> Any:
        return np.column_stack([X.u, X.v, X.weights])


def _as_parts(X: Any, n_nodes: int | None, names: Names) -> Any:
    """Return what the tree cuts: edges, a row source, dask's chunks, or a function for every part.

    ``names``: gets the names of the nodes of a graph in memory. Parts that are read apart have numbers.
    """
    paths = [X] if isinstance(X, str | os.PathLike) else X
    if isinstance(paths, list) and paths and all(isinstance(one, str | os.PathLike) for one in paths):
        if all(is_text(Path(one)) for one in paths):
            return [partial(text_blocks, Path(one)) for one in paths]
        found = open_edges(X)
        if isinstance(found, NamedTable):
            raise ValueError(
                "the nodes of these files have names, and each part is read apart from the others: number them "
                "first, or sparsify the stream (StreamSparsifier)"
            )
        return found
    if isinstance(X, RowSource) or hasattr(X, "__dask_graph__"):
        return X
    if isinstance(X, list | tuple) and X and all(callable(part) for part in X):
        return X
    if hasattr(X, "__next__"):
        raise ValueError("each part is read apart from the others: an iterator cannot be read so")
    return next(edge_blocks(X, n_nodes, names=names))


@dataclass(frozen=True)
class EdgeWork:
    """The nodes of DISRE: leaves are streams of edges, merges unite and thin."""

    plan: GraphPlan
    name: str = "DistributedSparsifier"

    def leaf(self, part: Part, number: int, seed: int, retries: int) -> tuple[EdgeSample, float]:
        """Return the sample of a part and its effective dimension."""

        def learn() -> EdgeSample:
            stream = StreamState(replace(self.plan, source=str(number)), seed, drops=True)
            for rows in part.blocks():
                for block in edge_blocks(iter([rows]), self.plan.n_nodes or None, first=stream.n_seen):
                    stream.read(block)
            if stream.n_seen == 0:
                raise PartError("there are no edges")
            return stream.result()

        sample: EdgeSample = tried(part, learn, retries)
        return sample, sample.effective_dimension()

    def merge(self, children: list[EdgeSample], seed: int) -> tuple[EdgeSample, float]:
        """Return the union of the children, thinned to the scores within it, and its effective dimension."""
        union = joined(children, max(child.n_nodes for child in children))
        if len(union) == 0:
            return union, 0.0
        oracle = Oracle(union.atoms, self.plan.scoring, seed)
        plan = self.plan
        left = shrink(union, oracle, seed, connected=plan.connected, independent=plan.independent)
        return left, oracle.effective_dimension

    def load(self, path: Path) -> EdgeSample:
        """Return a kept sample."""
        return EdgeSample.load(path)


def _numbered(sample: EdgeSample, edges: list[int], source: str) -> EdgeSample:
    """Return the sample with its edges numbered through all leaves, as one source."""
    order, indices = numbered(sample, edges)
    found = sample.take(order, sample.probabilities[order], sample.counts[order])
    one_source = np.zeros(len(found), dtype=np.int64)
    return replace(found, indices=indices, sources=((source, sample.n_seen),), source_numbers=one_source)
