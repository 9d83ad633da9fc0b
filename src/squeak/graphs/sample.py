"""A sample of edges: what the sparsifiers keep, as a value; its graph, its file, and how it is thinned to scores.

With independent coins the error of a sparsifier is mostly that of degrees: a node that should keep eight edges
keeps five or eleven. So a node draws for its edges together, :func:`drawn_by_node`: each stays with the same chance
as before, but their number is the expected one, rounded up or down. ε is smaller by a tenth to a third for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from squeak.core import state
from squeak.core.saved import Layout, Saved, SourcesPiece
from squeak.core.seeds import SHRINK, generator_at
from squeak.core.thinning import keep_probability, thin
from squeak.core.types import Array, IntArray
from squeak.graphs.edges import LARGEST_NODE, Edges, check_graph_ridge, forest_beyond, merged, stable_order
from squeak.graphs.oracle import Oracle, leverage_of


@dataclass(frozen=True, eq=False)
class EdgeSample(Saved):
    """Edges kept of a graph or a stream, each with the probability of its coins and how many of them are left.

    The weight of a kept edge is a_e·counts/(copies·p): its expectation is a_e, whatever the scores were. The
    order is that of the stream.

    Parameters
    ----------
    n_nodes : int
    u, v : array of int
    original : array
        The edges' own weights a_e.
    probabilities, counts : array
    copies : int
    oversampling : float
    ridge : float
    n_seen : int
        Edges that the sample stands for.
    indices : array of int
        The number of each edge in its source, loops and edges of weight 0 not counted.
    sources : tuple of (name, edges)
    source_numbers : array of int

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.graphs import StreamSparsifier
    >>> sample = StreamSparsifier(random_state=0).fit(np.ones((5, 5)) - np.eye(5)).sample_
    >>> sample
    EdgeSample(10 of 10 edges, 5 nodes, oversampling 30)
    """

    kind: ClassVar[str] = "edges"
    _state: ClassVar[Layout] = {
        "sources": SourcesPiece(),
        "n_nodes": state.whole(high=LARGEST_NODE + 1),
        "copies": state.whole(low=1),
        "oversampling": state.number(low=state.LEAST),
        "ridge": state.number(low=0.0),
        "n_seen": state.whole(),
        "u": state.wholes("m"),
        "v": state.wholes("m"),
        "original": state.numbers("m", low=state.LEAST),
        "probabilities": state.numbers("m", low=state.LEAST, high=1.0),
        "counts": state.wholes("m", low=1, high="copies"),
        "indices": state.wholes("m"),
        "source_numbers": state.wholes("m"),
    }

    n_nodes: int
    u: IntArray
    v: IntArray
    original: Array
    probabilities: Array
    counts: IntArray
    copies: int
    oversampling: float
    ridge: float
    n_seen: int
    indices: IntArray
    sources: tuple[tuple[str, int], ...] = (("edges", 0),)
    source_numbers: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        if len(self.source_numbers) != len(self.u):
            object.__setattr__(self, "source_numbers", np.zeros(len(self.u), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.u)

    def __repr__(self) -> str:
        return (
            f"EdgeSample({len(self):,} of {self.n_seen:,} edges, {self.n_nodes:,} nodes, "
            f"oversampling {self.oversampling:g})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EdgeSample):
            return NotImplemented
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in self._state)

    __hash__ = None  # type: ignore[assignment]

    @property
    def exact(self) -> bool:
        """Whether every edge seen is there with its own weight."""
        return len(self) == self.n_seen and bool((self.probabilities == 1.0).all())

    @property
    def weights(self) -> Array:
        """The new weight of each kept edge, a_e·counts/(copies·p)."""
        return np.asarray(self.original * (self.counts / (self.copies * self.probabilities)))

    @property
    def atoms(self) -> Edges:
        """The kept edges with their new weights, one by one: equal pairs are not added up."""
        return Edges(self.n_nodes, self.u, self.v, self.weights)

    @property
    def graph(self) -> Edges:
        """The sparsifier as a graph: equal pairs added up, sorted."""
        return merged(self.atoms)

    def take(self, which: Any, probabilities: Array, counts: IntArray) -> EdgeSample:
        """Return some of the edges with a new state.

        Parameters
        ----------
        which : array of int or bool
        probabilities, counts : array
            Those of the edges taken.

        Returns
        -------
        EdgeSample
        """
        names = ("u", "v", "original", "indices", "source_numbers")
        taken = {name: getattr(self, name)[which] for name in names}
        return replace(self, probabilities=probabilities, counts=counts, **taken)

    @property
    def n_components(self) -> int:
        """Components of the sparsifier; nodes without edges count as one each, and cost nothing."""
        graph = self.graph.without_lone_nodes()
        return self.n_nodes - graph.n_nodes + graph.components()[0]

    def effective_dimension(self) -> float:
        """Return Tr L(L + ridge·I)⁻¹ of the sparsifier: without a ridge, nodes less components.

        Returns
        -------
        float
        """
        if self.ridge == 0:
            return float(self.n_nodes - self.n_components)
        return float(leverage_of(self.graph.without_lone_nodes(), ridge=self.ridge).sum())

    @classmethod
    def from_parts(cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> EdgeSample:
        """Return the sample that a file holds; whatever does not fit together raises."""
        found: EdgeSample = super().from_parts(arrays, content)
        check_graph_ridge(found.ridge)
        if (
            np.any(found.u >= found.v)
            or np.any(found.v >= found.n_nodes)
            or np.any(found.source_numbers >= len(found.sources))
        ):
            raise ValueError("its edges are not those of a sample")
        if len(found) > found.n_seen:
            raise ValueError("it holds more edges than were seen")
        return found


def joined(
    samples: Sequence[EdgeSample], n_nodes: int, sources: tuple[tuple[str, int], ...] | None = None
) -> EdgeSample:
    """Return samples of disjoint edges as one; with their sources, or as parts of the one source given."""
    first = samples[0]
    names = ("u", "v", "original", "probabilities", "counts", "indices")
    arrays = {name: np.concatenate([getattr(sample, name) for sample in samples]) for name in names}
    offsets = np.cumsum([0] + [len(sample.sources) for sample in samples[:-1]])
    numbers = [sample.source_numbers + offset for sample, offset in zip(samples, offsets, strict=True)]
    return EdgeSample(
        n_nodes=n_nodes,
        copies=first.copies,
        oversampling=first.oversampling,
        ridge=max(sample.ridge for sample in samples),
        n_seen=sum(sample.n_seen for sample in samples) if sources is None else sources[0][1],
        sources=tuple(source for sample in samples for source in sample.sources) if sources is None else sources,
        source_numbers=np.concatenate(numbers) if sources is None else np.zeros(len(arrays["u"]), dtype=np.int64),
        **arrays,
    )


ALIKE = 1.25
"""Two nodes whose expected numbers of edges differ by less than this factor may both own the edge between them."""


def thinned(
    sample: EdgeSample, scores: Array, seed: int, *place: int, connected: bool, independent: bool = False
) -> EdgeSample:
    """Return the sample thinned to its scores: p' = min(p, (oversampling/copies)·score).

    With ``connected`` the edges of the best scores that hold the components together keep theirs, so that each
    component stays whole. What is kept so is decided before the draw, so weights stay unbiased.
    Copies are thinned by coins of their own; single edges too where ``independent`` asks for it.
    """
    chances = keep_probability(scores, sample.oversampling, sample.copies)
    atoms, rng = sample.atoms, generator_at(seed, SHRINK, *place)
    if connected:
        sure = chances >= sample.probabilities
        chances[forest_beyond(atoms, sure, scores)] = 1.0
    if independent or sample.copies > 1:
        probabilities, counts = thin(sample.probabilities, sample.counts, chances, rng)
    else:
        probabilities = np.minimum(sample.probabilities, chances)
        counts = drawn_by_node(atoms, probabilities / sample.probabilities, rng).astype(np.int64)
    alive = np.flatnonzero(counts > 0)
    return sample.take(alive, probabilities[alive], counts[alive])


def drawn_by_node(edges: Edges, chances: Array, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw edges with the given chances, so that each node keeps as many of those it owns as it should, or one off.

    An edge belongs to the end that is to keep fewer edges, by lot where the two are alike. A node puts its edges in
    random order side by side, each as long as its chance, and takes those under the marks 1 apart that begin at a
    random place. Every edge is kept with its chance; the nodes draw independently of each other.

    ``chances``: from 0 to 1.
    """
    order, owners = _in_turns(edges, chances, rng)
    lengths = chances[order]
    ends = np.cumsum(lengths)
    first = np.flatnonzero(np.concatenate([[True], owners[1:] != owners[:-1]]))
    begin = np.concatenate([[0.0], ends[first[1:] - 1]])
    ends += np.repeat(rng.random(len(first)) - begin, np.diff(first, append=len(order)))
    kept = np.empty(len(edges), dtype=bool)
    kept[order] = np.floor(ends) > np.floor(ends - lengths)
    return kept


def _in_turns(edges: Edges, chances: Array, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return the edges in the order of their owners, each owner's at random, and the owners in that order."""
    u, v, n = edges.u, edges.v, edges.n_nodes
    expected = np.bincount(u, chances, minlength=n) + np.bincount(v, chances, minlength=n)
    owners = np.where(expected[u] * rng.uniform(1.0 / ALIKE, ALIKE, size=len(u)) <= expected[v], u, v)
    mixed = rng.permutation(len(u))
    order = mixed[stable_order(owners[mixed], n)]
    return order, owners[order]


def shrink(
    sample: EdgeSample, oracle: Oracle, seed: int, *place: int, connected: bool, independent: bool = False
) -> EdgeSample:
    """Return the sample thinned to the scores of its edges within itself."""
    scores = oracle.own_scores(sample.original)
    return thinned(sample, scores, seed, *place, connected=connected, independent=independent)
