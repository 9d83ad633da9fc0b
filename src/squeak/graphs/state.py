"""The state of a stream of edges: a sample, the oracle of its resistances, and where the next scoring is due."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from squeak.core.saved import Given, Layout, NestedPiece, Parts, fill, put_together, take_apart, within
from squeak.core.seeds import coins
from squeak.core.state import checked, numbers, plain, seed, whole, wholes
from squeak.core.thinning import any_survives, count_from_uniform, keep_probability
from squeak.data import Preprocessing
from squeak.graphs.base import GraphPlan
from squeak.graphs.edges import LARGEST_WEIGHT, Edges, check_edges
from squeak.graphs.names import Names
from squeak.graphs.oracle import Oracle
from squeak.graphs.sample import EdgeSample, joined, shrink

GROWTH = 1.5
"""The sample is scored anew when it has grown by this factor."""

FIRST = 1000
"""No sample smaller than this is thinned."""

TILE = 65_536
"""Edges that are scored at once."""


@dataclass(frozen=True)
class EdgesPiece:
    """A graph, or none: the numbers of its nodes and its weights as arrays."""

    prefix: str

    def take(self, name: str, value: Edges | None) -> Parts:
        """Return the edges as arrays, and the number of nodes."""
        if value is None:
            return {}, {f"{self.prefix}nodes": None}
        arrays = {f"{self.prefix}{column}": getattr(value, column) for column in ("u", "v", "weights")}
        return arrays, {f"{self.prefix}nodes": value.n_nodes}

    def give(self, name: str, given: Given) -> Edges | None:
        """Return the graph."""
        if given.content[f"{self.prefix}nodes"] is None:
            return None
        table = {"nodes": whole(), "u": wholes("m"), "v": wholes("m"), "weights": numbers("m", high=LARGEST_WEIGHT)}
        arrays = within(given.arrays, self.prefix)
        found = checked(table, arrays, {"nodes": given.content[f"{self.prefix}nodes"]})
        graph = check_edges(found["u"], found["v"], found["weights"], found["nodes"])
        if len(graph) != len(found["u"]) or not len(graph):
            raise ValueError("its graph is damaged")
        return graph


@dataclass(frozen=True)
class NamesPiece:
    """The names of nodes in the order of their numbers; older files have none."""

    def take(self, name: str, value: Names) -> Parts:
        """Return the names as JSON data."""
        if not all(isinstance(one, str | int) for one in value):
            raise TypeError("only nodes whose names are text or whole numbers can be saved")
        return {}, {name: [plain(one) for one in value]}

    def give(self, name: str, given: Given) -> Names:
        """Return the names with their numbers."""
        values = given.content.get(name, [])
        if not isinstance(values, list) or not all(type(one) in (str, int) for one in values):
            raise ValueError("the names of its nodes are damaged")
        found = {one: place for place, one in enumerate(values)}
        if len(found) != len(values):
            raise ValueError("two of its nodes have one name")
        return found


STATE: Layout = {
    "names": NamesPiece(),
    "_scored_graph": EdgesPiece("scored_"),
    "preprocessing": NestedPiece(Preprocessing, optional=True),
    "seed": seed(),
    "_nodes_seen": whole(),
    "_scored": whole(),
    "_scored_at": whole(low=-1),
    "head": numbers(1, "columns", optional=True),
}


class StreamState:
    """A sample that takes in edges by their score within it; :meth:`after` leaves the one before as it was.

    ``drops``: whether the sample is thinned where it is scored, or only ever grows.
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
        self.names: Names = {}
        """Of the nodes; shared by all states of a stream, of which each has as many as it has nodes."""

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
        trimmed_state = copy.copy(self)
        trimmed_state.names = dict(islice(self.names.items(), self.n_nodes))
        own, content = take_apart(trimmed_state, STATE)
        return arrays | own, {"sample": sample, **content}

    @classmethod
    def from_parts(
        cls, plan: GraphPlan, arrays: dict[str, Any], content: dict[str, Any], *, drops: bool
    ) -> StreamState:
        """Return the state that a file holds; whatever does not fit together raises."""
        found = put_together(STATE, arrays, content)
        sample = EdgeSample.from_parts(arrays, content["sample"])
        nodes, graph = found["_nodes_seen"], found["_scored_graph"]
        fits = (
            (sample.copies, sample.oversampling, sample.ridge)
            == (plan.copies, plan.oversampling, plan.scoring.ridge)
            and sample.sources == ((plan.source, sample.n_seen),)
            and int(sample.v.max(initial=-1)) < nodes <= sample.n_nodes
            and plan.n_nodes <= nodes
            and max(found["_scored"], found["_scored_at"], 1) <= sample.n_seen
            and (graph is None) == (found["_scored_at"] < 0)
            and (graph is None or graph.n_nodes <= nodes)
            and len(found["names"]) in (0, sample.n_nodes)
        )
        if not fits:
            raise ValueError("its numbers are not those of a stream of edges")
        state = fill(cls(plan, found["seed"], drops=drops), found)
        state.n_seen, state.n_nodes, state._size = sample.n_seen, sample.n_nodes, len(sample)
        state._parts = [sample]
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
        self._parts.append(self.plan.sample_of(edges.on_nodes(self._nodes_seen), p, counts, indices))

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
