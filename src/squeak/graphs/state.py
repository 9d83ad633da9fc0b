"""The state of a stream of edges: a sample, the oracle of its resistances, and where the next scoring is due."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from squeak.core.dictionary import preprocessing_from_parts, preprocessing_parts
from squeak.core.seeds import coins
from squeak.core.sources import Preprocessing
from squeak.core.thinning import any_survives, count_from_uniform, keep_probability
from squeak.graphs.edges import Edges, check_edges
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
    """A sample that takes in edges by their score within it; :meth:`after` leaves the one before as it was.

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
        self._made: Oracle | None = None
        self._scored_graph: Edges | None = None
        """What the oracle is made of where it comes from a file: when it is needed, not before."""
        self._scored_at = -1
        self._result: tuple[tuple[int, int], EdgeSample] | None = None
        self.head: Any = None
        """The first row of the source, to know it by."""
        self.preprocessing: Preprocessing | None = None

    def after(self, block: Edges) -> StreamState:
        """Return the state after one more block."""
        state = copy.copy(self)
        state._parts = list(self._parts)
        state.read(block)
        return state

    @property
    def _oracle(self) -> Oracle | None:
        if self._made is None and self._scored_graph is not None:
            self._made = Oracle(self._scored_graph, self.plan.scoring, self.seed, self._scored_at)
        return self._made

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arrays and the rest as JSON data; of the oracle, the graph that it is made of."""
        arrays, sample = self._whole(self.n_nodes).to_parts()
        encoding, described = preprocessing_parts(self.preprocessing)
        arrays |= encoding
        if self.head is not None:
            arrays["head"] = self.head
        content = {
            "sample": sample,
            "seed": self.seed,
            "nodes_seen": self._nodes_seen,
            "scored": self._scored,
            "scored_at": self._scored_at,
            "scored_nodes": None,
            "preprocessing": described,
        }
        graph = self._scored_graph
        if graph is not None:
            arrays |= {"scored_u": graph.u, "scored_v": graph.v, "scored_weights": graph.weights}
            content["scored_nodes"] = graph.n_nodes
        return arrays, content

    @classmethod
    def from_parts(
        cls, plan: GraphPlan, arrays: dict[str, Any], content: dict[str, Any], *, drops: bool
    ) -> StreamState:
        """Return the state that a file holds; whatever does not fit together raises."""
        state = cls(plan, int(content["seed"]), drops=drops)
        sample = EdgeSample.from_parts(arrays, content["sample"])
        nodes, scored, at = (int(content[name]) for name in ("nodes_seen", "scored", "scored_at"))
        fits = (
            (sample.copies, sample.oversampling, sample.ridge)
            == (plan.copies, plan.oversampling, plan.scoring.ridge)
            and sample.sources == ((plan.source, sample.n_seen),)
            and 0 <= state.seed < 2**128
            and int(sample.v.max(initial=-1)) < nodes <= sample.n_nodes
            and plan.n_nodes <= nodes
            and 0 <= scored <= sample.n_seen
            and -1 <= at <= sample.n_seen
            and sample.n_seen >= 1
            and (content["scored_nodes"] is None) == (at < 0)
        )
        if not fits:
            raise ValueError("its numbers are not those of a stream of edges")
        state.n_seen, state.n_nodes, state._nodes_seen, state._size = (
            sample.n_seen,
            sample.n_nodes,
            nodes,
            len(sample),
        )
        state._parts, state._scored, state._scored_at = [sample], scored, at
        if at >= 0:
            graph = check_edges(
                arrays["scored_u"], arrays["scored_v"], arrays["scored_weights"], int(content["scored_nodes"])
            )
            if graph.n_nodes > nodes or len(graph) != len(arrays["scored_u"]) or not len(graph):
                raise ValueError("its numbers are not those of a stream of edges")
            state._scored_graph = graph
        state.head = np.array(arrays["head"]) if "head" in arrays else None
        state.preprocessing = preprocessing_from_parts(arrays, content)
        return state

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
        oracle = self._oracle
        if oracle is not None:
            scores = oracle.new_scores(piece.u, piece.v, piece.weights)
            p = keep_probability(scores, plan.oversampling, plan.copies)
            if plan.connected:
                p[oracle.joins(piece.u, piece.v)] = 1.0
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
        oracle = Oracle(sample.atoms, self.plan.scoring, self.seed, self.n_seen)
        self._made, self._scored_graph = oracle, oracle.graph
        if self.drops:
            sample = self._shrunk(sample, oracle)
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
