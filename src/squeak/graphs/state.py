"""The state of a stream of edges: a sample, the oracle of its resistances, and where the next scoring is due."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from squeak.core.seeds import coins
from squeak.core.thinning import any_survives, count_from_uniform, keep_probability
from squeak.graphs.edges import Edges
from squeak.graphs.oracle import Oracle, Scoring
from squeak.graphs.resistance import check_graph_ridge
from squeak.graphs.sample import EdgeSample, joined
from squeak.graphs.thinning import shrink
from squeak.samplers.theory import squeak_oversampling

DEFAULT_OVERSAMPLING = 30.0
GROWTH = 1.5
"""The sample is scored anew when it has grown by this factor."""

FIRST = 1000
"""No sample smaller than this is thinned."""

TILE = 65_536
"""Edges that are scored at once."""


@dataclass(frozen=True)
class GraphPlan:
    """The parameters of a sparsifier, checked and in numbers."""

    oversampling: float
    copies: int
    scoring: Scoring
    connected: bool
    n_nodes: int
    source: str
    independent: bool = False
    """Whether every edge has a coin of its own: what the theorem is proved for."""


def make_plan(params: Any) -> GraphPlan:
    """Return the checked parameters of a sparsifier."""
    ridge = check_graph_ridge(params.ridge)
    oversampling = params.oversampling
    theory = isinstance(oversampling, str)
    if not theory and params.eps is not None:
        raise ValueError("eps goes with oversampling='theory'; with a number it would be ignored")
    if theory:
        if oversampling != "theory" or None in (params.eps, params.delta, params.n):
            raise ValueError("oversampling must be a number, or 'theory' with eps, delta and n (edges)")
        oversampling = float(squeak_oversampling(params.eps, params.delta, params.n))
    if isinstance(oversampling, bool) or not isinstance(oversampling, int | float | np.number):
        raise TypeError(f"oversampling must be a number or 'theory'; it is {oversampling!r}")
    if not 0 < oversampling < math.inf:
        raise ValueError(f"oversampling must be positive and finite; it is {oversampling!r}")
    copies, nodes = params.copies, params.n_nodes
    if isinstance(copies, bool) or not isinstance(copies, int | np.integer) or copies < 1:
        raise ValueError(f"copies must be a whole number from 1 on; it is {copies!r}")
    if nodes is not None and (isinstance(nodes, bool) or not isinstance(nodes, int | np.integer) or nodes < 1):
        raise ValueError(f"n_nodes must be a whole number from 1 on; it is {nodes!r}")
    connected = ridge == 0 if params.connected is None else bool(params.connected)
    source = "edges" if params.source is None else str(params.source)
    return GraphPlan(float(oversampling), int(copies), Scoring(ridge), connected, int(nodes or 0), source, theory)


class StreamState:
    """A sample that takes in edges by their score within it; every call leaves it whole.

    Parameters
    ----------
    plan : GraphPlan
    seed : int
    drops : bool
        Whether the sample is thinned where it is scored, or only ever grows.
    """

    def __init__(self, plan: GraphPlan, seed: int, *, drops: bool) -> None:
        self.plan, self.seed, self.drops = plan, seed, drops
        self.n_seen, self.n_nodes, self._nodes_seen, self._size, self._scored = 0, plan.n_nodes, plan.n_nodes, 0, 0
        self._parts: list[EdgeSample] = []
        self._oracle: Oracle | None = None
        self._scored_at = -1
        self._result: tuple[tuple[int, int], EdgeSample] | None = None

    def read(self, block: Edges) -> None:
        """Take in a block, in pieces that end where a scoring is due: how the stream is cut does not matter."""
        self.n_nodes = max(self.n_nodes, block.n_nodes)
        start = 0
        while start < len(block):
            start += self._read_piece(block.take(slice(start, start + TILE)))

    def _read_piece(self, piece: Edges) -> int:
        """Take in edges up to the next scoring; return how many."""
        plan = self.plan
        uniforms = coins(self.seed, self.n_seen, len(piece))
        p = np.ones(len(piece))
        if self._oracle is not None:
            scores = self._oracle.new_scores(piece.u, piece.v, piece.weights)
            p = keep_probability(scores, plan.oversampling, plan.copies)
            if plan.connected:
                p[self._oracle.joins(piece.u, piece.v)] = 1.0
        kept = np.flatnonzero(uniforms < any_survives(p, plan.copies))
        nodes = np.maximum(np.maximum.accumulate(piece.v[kept] + 1), self._nodes_seen)
        limit = np.maximum(GROWTH * self._scored, np.maximum(FIRST, self._first_size(nodes)))
        due = np.flatnonzero(self._size + np.arange(1, len(kept) + 1) >= limit)
        taken = len(piece)
        if len(due):
            kept = kept[: due[0] + 1]
            taken = int(kept[-1]) + 1
        if len(kept):
            self._add(piece.take(kept), p[kept], uniforms[kept], self.n_seen + kept)
        self.n_seen += taken
        if len(due):
            self._score()
        return taken

    def _first_size(self, nodes: Any) -> Any:
        """Return the size that a sample of so many nodes may have before it is scored at all."""
        return nodes * (self.plan.oversampling if self.drops else 1.0)

    def _add(self, edges: Edges, p: Any, uniforms: Any, indices: Any) -> None:
        copies = self.plan.copies
        counts = np.ones(len(edges), dtype=np.int64)
        if copies > 1:
            drawn = [count_from_uniform(x, chance, copies) for x, chance in zip(uniforms, p, strict=True)]
            counts = np.array(drawn, dtype=np.int64)
        self._nodes_seen = max(self._nodes_seen, int(edges.v.max()) + 1)
        self._size += len(edges)
        part = EdgeSample(
            n_nodes=self._nodes_seen,
            u=edges.u,
            v=edges.v,
            original=edges.weights,
            probabilities=p,
            counts=counts,
            copies=copies,
            oversampling=self.plan.oversampling,
            ridge=self.plan.scoring.ridge,
            n_seen=len(edges),
            indices=indices,
        )
        self._parts.append(part)

    def _whole(self, n_nodes: int) -> EdgeSample:
        """Return the sample with all that came in since it was scored."""
        self._parts = [joined(self._parts, n_nodes, ((self.plan.source, self.n_seen),))]
        return self._parts[0]

    def _score(self) -> None:
        """Compute the resistances within the sample and, where edges may be dropped, thin it to them."""
        sample = self._whole(self._nodes_seen)
        self._oracle = Oracle(sample.atoms, self.plan.scoring, self.seed, self.n_seen)
        if self.drops:
            sample = self._shrunk(sample, self._oracle)
            self._parts = [sample]
        self._size = self._scored = len(sample)
        self._scored_at = self.n_seen

    def result(self) -> EdgeSample:
        """Return what the stream has come to: the sample, thinned once more where edges may be dropped.

        Not where it was thinned at this very edge: the coins of a place are tossed once.
        """
        sample = self._whole(self.n_nodes)
        if not self.drops or len(sample) < FIRST or self._scored_at == self.n_seen:
            return sample
        now = self.n_seen, self.n_nodes
        if self._result is None or self._result[0] != now:
            oracle = Oracle(sample.atoms, self.plan.scoring, self.seed, self.n_seen)
            self._result = (now, self._shrunk(sample, oracle))
        return self._result[1]

    def _shrunk(self, sample: EdgeSample, oracle: Oracle) -> EdgeSample:
        plan = self.plan
        place = self.seed, self.n_seen
        return shrink(sample, oracle, *place, connected=plan.connected, independent=plan.independent)
