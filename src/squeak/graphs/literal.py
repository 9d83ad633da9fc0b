"""Kelner and Levin's stream sparsifier as it is printed: a block joins, then every edge is scored and thinned."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field
from typing import Any

import numpy as np

from squeak.core.checks import check_between, check_whole
from squeak.core.constructors import parameters
from squeak.core.seeds import draw_seed
from squeak.graphs.base import GraphPlan, Sparsifier
from squeak.graphs.edges import Edges
from squeak.graphs.names import Names
from squeak.graphs.oracle import Oracle, Scoring
from squeak.graphs.sample import EdgeSample, joined, thinned
from squeak.graphs.sources import edge_blocks
from squeak.samplers.theory import squeak_oversampling

CONSTANTS = {"theorem": 26.0, "listing": 40.0}


@parameters
class KelnerLevin(Sparsifier):
    """The stream sparsifier by the letter of its listing; for work take :class:`StreamSparsifier`.

    A block of edges joins the sparsifier with p = 1 and ``copies`` coins an edge. Then every edge is scored within
    the union, τ̃ = (1 − ε)/(1 + η)·a_e·r̃_e, a_e its original weight and r̃_e its resistance there, known to a factor
    1 ± η, and thinned: p' = min(p, τ̃), counts' ~ Binomial(counts, p'/p). Its weight is a_e·counts/(copies·p).
    Nothing keeps components whole: a bridge has p = 1 − ε.

    Parameters
    ----------
    copies : int
        q̄.
    eps : float
        ε of the estimator, from 0 up to but not including 1.
    error : float
        η of the resistances, used above 1,000 nodes, where they come from projections. There it is the standard
        error of 95% of the edges and no bound; below that resistances are exact, and η is 0.
    block_edges : int, optional
        Edges of a block in :meth:`fit`; copies·nodes when left out, for the listing's ``copies`` edges would cost
        O(m·n·log n) in time. Each call of :meth:`partial_fit` is a block.
    n_nodes : int, optional
        The largest node number seen and one more, where left out.
    source : str, optional
    random_state : None, int, RandomState or Generator

    Attributes
    ----------
    sparsifier_ : CSR adjacency matrix
    sample_ : EdgeSample
    n_components_ : int

    References
    ----------
    Thesis, algorithm 11 and theorem 4.7; Kelner, Levin, "Spectral sparsification in the semi-streaming setting",
    2013; the theory page, "Graphs".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.graphs import KelnerLevin
    >>> u, v = np.triu_indices(60, 1)
    >>> s = KelnerLevin(8, eps=0.3, block_edges=600, random_state=0).fit((u, v))
    >>> len(u), len(s.sample_) < 500
    (1770, True)
    """

    oversampling: float | str = field(default=1.0, init=False)
    ridge: float = field(default=0.0, init=False)
    connected: bool | None = field(default=False, init=False)
    delta: float | None = field(default=None, init=False)
    n: int | None = field(default=None, init=False)
    copies: int = field(default=20, kw_only=False)
    eps: float = 0.5
    error: float = 0.1
    block_edges: int | None = None

    @classmethod
    def from_paper(
        cls, eps: float, delta: float, n: int, constant: str = "theorem", *, error: float = 0.1, **params: Any
    ) -> KelnerLevin:
        """Return the sparsifier with the papers' number of copies: every sparsifier has accuracy ``eps``.

        Parameters
        ----------
        eps, delta : float
            Accuracy and probability of failure.
        n : int
            The number of edges to come.
        constant : {"theorem", "listing"}
            q̄ = 26·ρ·log(3m/δ)/ε², as theorem 4.7 proves, or 40·ρ·…, as algorithm 11 prints;
            ρ = (1 + 3ε)/(1 − ε), times (1 + η)/(1 − η).
        error : float
            η; 0 where the graph has at most 1,000 nodes.
        **params
            The other parameters.

        Returns
        -------
        KelnerLevin
        """
        if constant not in CONSTANTS:
            raise ValueError(f"constant must be one of {', '.join(CONSTANTS)}; it is {constant!r}")
        known = CONSTANTS[constant] / CONSTANTS["theorem"] * squeak_oversampling(eps, delta, n)
        factor = (1.0 + error) / (1.0 - error)
        return cls(math.ceil(factor * known), eps=eps, error=error if error > 0 else 0.1, **params)

    def fit(self, graph: Any, y: Any = None) -> KelnerLevin:
        """Forget what was seen, and read the edges of a graph block by block, in the order given.

        Parameters
        ----------
        graph : see :func:`squeak.graphs.edge_blocks`
        y : ignored

        Returns
        -------
        KelnerLevin
            This object.
        """
        size = None if self.block_edges is None else check_whole("block_edges", self.block_edges)

        names: Names = {}

        def cut() -> Iterator[Edges]:
            for edges in edge_blocks(graph, self.n_nodes, names=names):
                length = int(self.copies) * edges.n_nodes if size is None else size
                yield from (edges.take(slice(at, at + length)) for at in range(0, len(edges), length))

        return self._read(cut(), None, self._plan(), draw_seed(self.random_state), names)

    def partial_fit(self, edges: Any, y: Any = None) -> KelnerLevin:
        """Take in one block of edges, G_s of the listing.

        Parameters
        ----------
        edges : see :func:`squeak.graphs.edge_blocks`
        y : ignored

        Returns
        -------
        KelnerLevin
            This object.
        """
        sample = getattr(self, "_sample", None)
        names = dict(self._names) if sample is not None else {}
        blocks = edge_blocks(edges, self.n_nodes, first=0 if sample is None else sample.n_seen, names=names)
        seed = self._seed if sample is not None else draw_seed(self.random_state)
        return self._read(blocks, sample, self._plan(), seed, names)

    def _read(
        self, blocks: Iterator[Edges], sample: EdgeSample | None, plan: GraphPlan, seed: int, names: Names
    ) -> KelnerLevin:
        for block in blocks:
            sample = self._after(sample, block, plan, seed) if len(block) else sample
        if sample is None:
            raise ValueError("there are no edges")
        self._sample, self._seed, self._names = sample, seed, names
        return self

    def _plan(self) -> GraphPlan:
        if check_between("eps", self.eps, 0.0, 1.0) == 1.0:
            raise ValueError("eps must lie below 1: the estimator's factor 1 − eps would be 0")
        copies = check_whole("copies", self.copies)
        return GraphPlan(
            oversampling=float(copies),
            copies=copies,
            scoring=Scoring(0.0, error=self.error),
            connected=False,
            n_nodes=0 if self.n_nodes is None else check_whole("n_nodes", self.n_nodes),
            source="edges" if self.source is None else str(self.source),
            independent=True,
        )

    def _after(self, sample: EdgeSample | None, block: Edges, plan: GraphPlan, seed: int) -> EdgeSample:
        """Return the sparsifier with one more block: EXPAND, then SHRINK."""
        seen = 0 if sample is None else sample.n_seen
        n = max(block.n_nodes, plan.n_nodes, 0 if sample is None else sample.n_nodes)
        m, edges = len(block), block.on_nodes(n)
        fresh = plan.sample_of(edges, np.ones(m), np.full(m, plan.copies), seen + np.arange(m))
        parts = [fresh] if sample is None else [sample, fresh]
        union = joined(parts, n, ((plan.source, seen + m),))
        oracle = Oracle(union.atoms, plan.scoring, seed, seen + m)
        eta = plan.scoring.error if plan.scoring.method_for(oracle.graph) == "projections" else 0.0
        scores = (1.0 - float(self.eps)) / (1.0 + eta) * oracle.own_scores(union.original)
        return thinned(union, scores, seed, seen + m, connected=False, independent=True)
