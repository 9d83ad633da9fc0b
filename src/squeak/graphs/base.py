"""What all sparsifiers share: their parameters, those parameters as numbers, and what they give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from squeak.core.checks import check_positive, check_whole
from squeak.core.constructors import parameters
from squeak.core.estimator import Estimator
from squeak.core.seeds import RandomState
from squeak.core.types import Array, IntArray
from squeak.graphs.edges import Edges, check_graph_ridge
from squeak.graphs.names import Names, as_array, named
from squeak.graphs.oracle import Scoring
from squeak.graphs.sample import EdgeSample
from squeak.samplers.theory import squeak_oversampling

DEFAULT_OVERSAMPLING = 30.0


@parameters
class Sparsifier(Estimator):
    """The parameters of :class:`StreamSparsifier`, and the sparsifier from the sample of edges that was kept."""

    oversampling: float | str = field(default=DEFAULT_OVERSAMPLING, kw_only=False)
    ridge: float = 0.0
    copies: int = 1
    connected: bool | None = None
    n_nodes: int | None = None
    eps: float | None = None
    delta: float | None = None
    n: int | None = None
    source: str | None = None
    random_state: RandomState = None

    _sample: EdgeSample = field(init=False)
    _names: Names = field(init=False)

    def _known(self) -> Names:
        """Return the names of the nodes, with their numbers; none where nodes are numbers."""
        return getattr(self, "_names", {})

    @property
    def node_names_(self) -> Any:
        """The names of the nodes, in the order of their numbers; the numbers where they have no names."""
        n = self.sample_.n_nodes
        return as_array(list(self._known())[:n]) if self._known() else np.arange(n)

    @property
    def edges_(self) -> tuple[Any, Any, Array]:
        """The edges of the sparsifier, (u, v, weights): their ends by name, where nodes have names."""
        graph, nodes = self.sample_.graph, self.node_names_ if self._known() else None
        return named(nodes, graph.u), named(nodes, graph.v), graph.weights

    @property
    def sample_(self) -> EdgeSample:
        """The edges kept, with their state."""
        if not hasattr(self, "_sample"):
            raise NotFittedError(f"this {type(self).__name__} has seen no edges yet: call fit")
        return self._sample

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_sample")

    @property
    def sparsifier_(self) -> Any:
        """The sparsifier of the edges seen so far, as a symmetric CSR matrix; usable after every block."""
        return self.sample_.graph.adjacency()

    @property
    def n_components_(self) -> int:
        """Components of the sparsifier; nodes without edges count as one each."""
        return self.sample_.n_components


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

    def sample_of(self, edges: Edges, probabilities: Array, counts: IntArray, indices: IntArray) -> EdgeSample:
        """Return edges with the state that they come in with, as the sample of themselves."""
        return EdgeSample(
            n_nodes=edges.n_nodes,
            u=edges.u,
            v=edges.v,
            original=edges.weights,
            probabilities=probabilities,
            counts=counts,
            copies=self.copies,
            oversampling=self.oversampling,
            ridge=self.scoring.ridge,
            n_seen=len(edges),
            indices=indices,
            sources=((self.source, len(edges)),),
        )


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
        error = Scoring(ridge).error
        oversampling = (1.0 + error) / (1.0 - error) * squeak_oversampling(params.eps, params.delta, params.n)
    return GraphPlan(
        oversampling=check_positive("oversampling", oversampling, " or 'theory'"),
        copies=check_whole("copies", params.copies),
        scoring=Scoring(ridge),
        connected=ridge == 0 if params.connected is None else bool(params.connected),
        n_nodes=0 if params.n_nodes is None else check_whole("n_nodes", params.n_nodes),
        source="edges" if params.source is None else str(params.source),
        independent=theory,
    )
