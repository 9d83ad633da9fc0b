"""Sparsify a graph in memory: Spielman and Srivastava's sampling by effective resistances."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from squeak.core.seeds import RandomState, draw_seed
from squeak.core.types import Array
from squeak.graphs.accuracy import spectral_accuracy
from squeak.graphs.base import DEFAULT_OVERSAMPLING, GraphPlan, Sparsifier, make_plan
from squeak.graphs.edges import Edges, spanned_alike
from squeak.graphs.forms import read_both, read_graph
from squeak.graphs.oracle import Oracle
from squeak.graphs.sample import EdgeSample, thinned

LAW = 2.0
"""ε·√(kept/n) is about this on irregular graphs, measured: the first guess where an ε is asked for."""

SLACK = 1.25
"""How much smaller the variance is made than the pilot says: the error of a draw varies by about a tenth."""


def sparsify(
    graph: Any,
    eps: float | None = None,
    oversampling: float | str | None = None,
    ridge: float = 0.0,
    *,
    copies: int = 1,
    connected: bool | None = None,
    delta: float = 0.1,
    n_nodes: int | None = None,
    random_state: RandomState = None,
) -> Any:
    """Return a graph with far fewer edges and nearly the same Laplacian: (1 − ε)L ⪯ L_H ⪯ (1 + ε)L.

    Each edge stays with probability p = min(1, oversampling·a_e·r_e), where r_e is its effective resistance, and
    gets the weight a_e/p. About oversampling·(n − 1) edges are left, and fewer where edges are certain to stay.
    Every component stays whole: bridges and the spanning forest of the best scores are always kept. A node draws
    for its edges together, so that their number is the expected one, which lowers ε by a tenth to a third at equal
    size. With oversampling="theory", and with copies, every coin is independent, as in the theorem.

    Parameters
    ----------
    graph : scipy.sparse or dense adjacency matrix, networkx graph, table, edges or path
        A symmetric adjacency matrix; a networkx graph (attribute ``weight``); edges as an array (m, 2), or (m, 3)
        with weights, or as (u, v) or (u, v, weights), or as a table of pandas, polars or pyarrow; or a file of
        edges. Nodes are whole numbers from 0 on, or have names, which are text. Weights are similarities. Loops are
        dropped, and parallel edges are added up. Directed graphs, and negative and infinite weights, are refused.
    eps : float, optional
        The accuracy you want, in place of ``oversampling``. A first sparsifier is drawn and measured, and
        ``oversampling`` is set so that the second should have this accuracy; measure it with
        :func:`spectral_accuracy`. With oversampling="theory" it is the ε of the theorem.
    oversampling : float or "theory", optional
        The factor in the probability above. It is 30 if neither this nor ``eps`` is given.
    ridge : float
        A positive number gives an (ε, ridge)-sparsifier with oversampling·Tr L(L + ridge·I)⁻¹ edges.
    copies, connected
        As in :class:`StreamSparsifier`.
    delta : float
        The probability of failure, for "theory".
    n_nodes : int, optional
        The number of nodes, for edges, if the last nodes have none.
    random_state : None, int, RandomState or Generator
        The seed. The same seed gives the same result, on any number of threads.

    Returns
    -------
    graph of the kind given
        Edges from a file come back as an Edges value, or as (u, v, weights) if the nodes have names.

    References
    ----------
    Spielman, Srivastava, "Graph sparsification by effective resistances"; the theory page, "Graphs".

    Examples
    --------
    >>> import networkx as nx
    >>> from squeak.graphs import sparsify, spectral_accuracy
    >>> G = nx.gnp_random_graph(300, 0.5, seed=0)
    >>> H = sparsify(G, oversampling=20, random_state=0)
    >>> nx.is_connected(H), H.number_of_edges() / G.number_of_edges() < 0.35
    (True, True)
    >>> spectral_accuracy(G, H) < 0.7
    True
    """
    form = read_graph(graph, n_nodes)
    if len(form.edges) == 0:
        return form.back(form.edges)
    seed = draw_seed(random_state)
    if eps is not None and not 0 < eps < 1:
        raise ValueError(f"eps must lie strictly between 0 and 1; it is {eps!r}")
    if eps is not None and oversampling is not None and not isinstance(oversampling, str):
        raise ValueError("give eps or oversampling, not both; eps goes with oversampling='theory'")
    sampling: Any = DEFAULT_OVERSAMPLING if oversampling is None else oversampling
    wanted = eps if oversampling is None else None
    if wanted is not None:
        sampling = (LAW / wanted) ** 2
    theory: dict[str, Any] = {"eps": eps, "delta": delta, "n": len(form.edges)} if isinstance(sampling, str) else {}
    plan = make_plan(Sparsifier(sampling, ridge=ridge, copies=copies, connected=connected, **theory))
    scores = Oracle(form.edges, plan.scoring, seed).own_scores(form.edges.weights)
    if wanted is not None:
        plan = replace(plan, oversampling=_sampling_for(form.edges, scores, plan, wanted, seed))
    return form.back(sample_edges(form.edges, scores, plan, seed).graph)


def sparser(graph: Edges, sparsifier: Any, random_state: RandomState, ridge: float = 0.0) -> Edges:
    """Return what a learner's parameter ``sparsifier`` makes of its graph.

    None: the graph. A number: the oversampling of :func:`sparsify`. A sparsifier is cloned and fitted; one without
    a seed takes the learner's. A function is given the edges and returns a graph.
    """
    if isinstance(sparsifier, bool | str):
        raise TypeError(f"sparsifier must be None, an oversampling, a sparsifier or a function, not {sparsifier!r}")
    if sparsifier is None or len(graph) == 0:
        return graph
    if isinstance(sparsifier, int | float | np.number):
        found: Edges = sparsify(graph, oversampling=float(sparsifier), ridge=ridge, random_state=random_state)
        return found
    if hasattr(sparsifier, "fit"):
        fresh = clone(sparsifier)
        if fresh.random_state is None:
            fresh.set_params(random_state=random_state)
        sample: Edges = fresh.set_params(n_nodes=graph.n_nodes).fit(graph).sample_.graph
        return sample
    return read_graph(sparsifier(graph), graph.n_nodes).edges.on_nodes(graph.n_nodes)


def _sampling_for(edges: Edges, scores: Array, plan: GraphPlan, eps: float, seed: int) -> float:
    """Return the oversampling for a wanted accuracy, from one draw that is measured and thrown away.

    The error grows with the root of v(q) = Σ τ·max(0, 1/q − τ)/Σ τ, the variance of the draw in a mean
    direction, so v is lowered or raised by the square of (wanted ε)/(measured ε).
    """
    pilot = sample_edges(edges, scores, plan, seed, 1)
    if pilot.exact:
        return plan.oversampling
    measured = spectral_accuracy(edges, pilot.graph, plan.scoring.ridge, tol=0.02)

    def variance(q: float) -> float:
        return float((scores * np.maximum(0.0, 1.0 / q - scores)).sum() / scores.sum())

    goal = variance(plan.oversampling) * (eps / max(measured, 1e-9)) ** 2 / SLACK
    low, high = 1e-3 * plan.oversampling, 1e3 * plan.oversampling
    while high > 1.01 * low:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if variance(middle) > goal else (low, middle)
    return high


def sample_edges(edges: Edges, scores: Array, plan: GraphPlan, seed: int, *place: int) -> EdgeSample:
    """Return one draw from a graph by the leverage of its edges."""
    m = len(edges)
    whole = plan.sample_of(edges, np.ones(m), np.full(m, plan.copies), np.arange(m))
    return thinned(whole, scores, seed, *place, connected=plan.connected, independent=plan.independent)


@dataclass(frozen=True)
class SparsifierReport:
    """What became of a graph: sizes, whether its components stayed whole, the measured accuracy, weights."""

    n_nodes: int
    edges: int
    kept: int
    components: int
    sparsifier_components: int
    same_components: bool
    accuracy: float
    law: float
    """ε·√(kept/n): about 2 with one coin on irregular graphs."""
    total_weight: tuple[float, float]
    largest_weight: tuple[float, float]


def sparsifier_report(
    graph: Any, sparsifier: Any, ridge: float = 0.0, random_state: RandomState = 0
) -> SparsifierReport:
    """Compare a graph with its sparsifier: size, components, measured accuracy, weights.

    Parameters
    ----------
    graph, sparsifier, ridge, random_state
        See :func:`spectral_accuracy`.

    Returns
    -------
    SparsifierReport

    Examples
    --------
    >>> import networkx as nx
    >>> from squeak.graphs import sparsifier_report, sparsify
    >>> G = nx.gnp_random_graph(200, 0.5, seed=0)
    >>> report = sparsifier_report(G, sparsify(G, oversampling=10, random_state=0))
    >>> report.same_components, report.kept < report.edges
    (True, True)
    """
    one, other = read_both(graph, sparsifier)
    n = max(one.n_nodes, other.n_nodes)
    one, other = one.on_nodes(n), other.on_nodes(n)
    accuracy = spectral_accuracy(one, other, ridge, random_state=random_state)
    return SparsifierReport(
        n_nodes=n,
        edges=len(one),
        kept=len(other),
        components=one.components()[0],
        sparsifier_components=other.components()[0],
        same_components=spanned_alike(one, other),
        accuracy=accuracy,
        law=float(accuracy * np.sqrt(len(other) / max(n, 1))),
        total_weight=(float(one.weights.sum()), float(other.weights.sum())),
        largest_weight=(float(one.weights.max(initial=0.0)), float(other.weights.max(initial=0.0))),
    )
