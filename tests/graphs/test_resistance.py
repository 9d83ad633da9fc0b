"""Resistances by every method are the dense formula; bridges; projections within their error."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from squeak.core.seeds import draw_seed
from squeak.graphs import edge_leverage, effective_resistances, knn_graph, sparsify
from squeak.graphs import exact as exact_room
from squeak.graphs import oracle as oracle_room
from squeak.graphs import projections as projections_room
from squeak.graphs.edges import best_forest, bridges, check_edges, forest_beyond, merged
from squeak.graphs.oracle import Oracle, Scoring, leverage_of
from squeak.graphs.solver import NormalisedSystem
from tests.graphs.oracles import dense_laplacian, dense_leverage, is_bridge, random_graph, two_cliques

GRAPHS = {
    "random": random_graph(60, 300, 0),
    "thin": random_graph(60, 70, 1),
    "pieces": random_graph(80, 60, 2),
    "tree": merged(check_edges(np.arange(1, 40), np.arange(1, 40) // 2, np.linspace(0.1, 5, 39))),
    "path": merged(check_edges(np.arange(49), np.arange(1, 50))),
    "complete": merged(check_edges(*np.triu_indices(30, 1))),
    "one edge": check_edges([0], [3], [2.0], 5),
}


@pytest.fixture(params=GRAPHS)
def graph(request):
    return GRAPHS[request.param]


@pytest.mark.parametrize("ridge", [0.0, 0.7])
@pytest.mark.parametrize("method", ["exact", "factor", "auto"])
def test_leverage_is_the_dense_formula(graph, method, ridge):
    np.testing.assert_allclose(leverage_of(graph, method, ridge=ridge), dense_leverage(graph, ridge), atol=1e-9)


@pytest.mark.parametrize("method", ["exact", "factor"])
def test_leverages_sum_to_nodes_less_components(graph, method):
    assert leverage_of(graph, method).sum() == pytest.approx(graph.n_nodes - graph.components()[0])


def test_with_a_ridge_they_sum_to_the_effective_dimension(graph):
    values = np.linalg.eigvalsh(dense_laplacian(graph))
    assert leverage_of(graph, "exact", ridge=0.5).sum() == pytest.approx((values / (values + 0.5)).sum())


@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_projections_are_within_the_error_of_the_dense_formula(graph, ridge):
    """k = 24·log(n)/error² projections: an edge fails with probability below 2·n⁻⁴; 14 settings, fixed seeds."""
    error = 0.4
    k = int(np.ceil(24 * np.log(graph.n_nodes) / error**2))
    found = leverage_of(graph, "projections", ridge=ridge, n_projections=k, tol=1e-6, seed=3)
    assert np.abs(found / dense_leverage(graph, ridge) - 1).max() < error


def biased(graph, ridge, runs=400):
    """Compare the mean over runs of 8 projections at 5.5 standard errors an edge (300 edges: family-wise 1e-5)."""
    each = np.array([leverage_of(graph, "projections", ridge=ridge, n_projections=8, seed=s) for s in range(runs)])
    exact = dense_leverage(graph, ridge)
    inside = exact < 0.7  # leverages are cut off at 1
    gap = np.abs(each.mean(axis=0) - exact) - 2e-3 * exact  # the solver's tolerance
    return (gap > 5.5 * each.std(axis=0) / np.sqrt(runs))[inside].any()


@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_projections_are_unbiased(ridge):
    assert not biased(GRAPHS["random"], ridge)


def test_a_wrong_local_part_is_caught(monkeypatch):
    """The twin: the neighbours' message without the edge's own share taken out."""
    real = projections_room._Local.add_squares

    def careless(self, z, t, total):
        self._factors[:, 1] = self._factors[:, 3] = 0.0
        real(self, z, t, total)

    monkeypatch.setattr(projections_room._Local, "add_squares", careless)
    assert biased(GRAPHS["random"], 0.0, 200)


def test_few_projections_already_know_what_the_neighbours_tell():
    """On a dense graph the plain estimate with 8 projections is off by √(2/8) = 50%; this one by far less."""
    graph = random_graph(200, 6000, 5)
    error = np.abs(leverage_of(graph, "projections", n_projections=8, seed=0) / dense_leverage(graph) - 1)
    assert np.median(error) < 0.03


def test_no_edge_scores_zero_and_none_above_one():
    for seed in range(20):
        scores = leverage_of(random_graph(40, 80, seed), "projections", n_projections=1, seed=seed)
        assert scores.min() > 0
        assert scores.max() <= 1


@pytest.mark.parametrize("seed", range(30))
def test_bridges_are_those_whose_removal_cuts(seed):
    graph = random_graph(40, int(20 + 2 * seed), seed)
    found = bridges(graph)
    assert found.tolist() == [is_bridge(graph, which) for which in range(len(graph))]
    np.testing.assert_allclose(leverage_of(graph, "projections", seed=seed)[found], 1.0)


def test_bridges_of_a_long_path_and_of_a_long_cycle():
    n = 20_000
    path = check_edges(np.arange(n - 1), np.arange(1, n))
    assert bridges(path).all()
    cycle = merged(check_edges(np.arange(n), (np.arange(n) + 1) % n))
    assert not bridges(cycle).any()


def test_forgetting_one_side_of_a_cycle_is_caught(monkeypatch):
    """The twin: subtree sums that stop at the children."""
    from squeak.graphs import edges as forest

    monkeypatch.setattr(forest, "_sums_below", lambda values, parents: values)
    graph = random_graph(40, 60, 3)
    assert bridges(graph).tolist() != [is_bridge(graph, which) for which in range(len(graph))]


def test_the_best_forest_is_a_spanning_forest_of_largest_score():
    graph = random_graph(50, 200, 4)
    scores = np.random.default_rng(0).random(len(graph))
    chosen = best_forest(graph, scores)
    assert chosen.sum() == graph.n_nodes - graph.components()[0]
    assert graph.take(chosen).components()[0] == graph.components()[0]
    G = nx.Graph()
    G.add_weighted_edges_from(zip(graph.u.tolist(), graph.v.tolist(), scores.tolist(), strict=True))
    best = nx.maximum_spanning_tree(G).size(weight="weight")
    assert scores[chosen].sum() == pytest.approx(best)


def test_with_the_sure_edges_the_forest_spans_every_component():
    for seed in range(10):
        graph = random_graph(60, 150, seed)
        rng = np.random.default_rng(seed)
        sure, scores = rng.random(len(graph)) < 0.2, rng.random(len(graph))
        chosen = forest_beyond(graph, sure, scores)
        assert not (chosen & sure).any()
        assert graph.take(chosen | sure).components()[0] == graph.components()[0]
        missing = graph.take(sure).components()[0] - graph.components()[0]
        assert chosen.sum() == missing  # not one more than needed


def test_parallel_edges_share_the_leverage_of_their_pair():
    graph = GRAPHS["random"]
    twice = check_edges(
        np.concatenate([graph.u, graph.u]),
        np.concatenate([graph.v, graph.v]),
        np.concatenate([0.25 * graph.weights, 0.75 * graph.weights]),
        graph.n_nodes,
    )
    exact = dense_leverage(graph)
    np.testing.assert_allclose(leverage_of(twice), np.concatenate([0.25 * exact, 0.75 * exact]), atol=1e-9)


@pytest.mark.parametrize("scale", [1e-150, 1e-5, 1e150])
@pytest.mark.parametrize("method", ["exact", "factor", "projections"])
def test_the_unit_of_the_weights_does_not_matter(scale, method):
    graph = GRAPHS["random"]
    found = leverage_of(graph.with_weights(scale * graph.weights), method, seed=1)
    np.testing.assert_allclose(found, leverage_of(graph, method, seed=1), rtol=1e-5)


def test_resistances_come_in_the_order_of_triu():
    graph = GRAPHS["random"]
    A = graph.adjacency()
    u, v = sp.triu(A).nonzero()
    P = np.linalg.pinv(dense_laplacian(graph), hermitian=True)
    np.testing.assert_allclose(effective_resistances(A), P[u, u] + P[v, v] - 2 * P[u, v], atol=1e-9)
    np.testing.assert_allclose(edge_leverage(A), effective_resistances(A) * np.asarray(A[u, v]).ravel())


@pytest.mark.parametrize("strong", ["factor", "multigrid"])
def test_slow_systems_go_on_with_a_stronger_preconditioner(strong, monkeypatch):
    from squeak.graphs import solver

    if strong == "multigrid":
        pytest.importorskip("pyamg")
        monkeypatch.setattr(solver, "THIN", 0.0)
    k = 60
    grid = nx.grid_2d_graph(k, k)
    number = {node: i for i, node in enumerate(grid)}
    u, v = zip(*[(number[a], number[b]) for a, b in grid.edges], strict=True)
    edges = merged(check_edges(u, v))
    system = NormalisedSystem(edges)
    y = np.random.default_rng(0).standard_normal((k * k, 3))
    y -= y.mean(axis=0)
    x = system.solve(y, 1e-9)
    assert solver.PATIENCE < system.iterations < solver.PATIENCE + 60
    np.testing.assert_allclose(edges.laplacian() @ x, y, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "guess"}, "method must be one of"),
        ({"ridge": -1.0}, "ridge must lie between 0"),
        ({"error": 0.0}, "error must be positive"),
        ({"tol": 0.1}, "at most 0.001"),
        ({"n_projections": 0}, "n_projections"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        effective_resistances(np.ones((3, 3)), **options)


@pytest.mark.parametrize(("joins", "weight"), [(2, 1.0), (8, 1.0), (8, 1e-3), (3, 1e-7)])
@pytest.mark.parametrize("ridge", [0.0, 1e-9])
def test_projections_see_what_holds_two_parts_together(joins, weight, ridge):
    """A residual of 1e-3 does not see the one direction between the parts: scores were 150 times too small."""
    graph, across = two_cliques(60, joins, weight)
    found = edge_leverage(graph, "projections", ridge=ridge, random_state=0)[across]
    np.testing.assert_allclose(found, edge_leverage(graph, "exact", ridge=ridge)[across], rtol=0.15)


@pytest.mark.parametrize("ridge", [0.0, 0.7])
@pytest.mark.parametrize("small", [1000, 30], ids=["small", "large"])
def test_a_graph_has_one_score_whoever_asks(graph, ridge, small, monkeypatch):
    """What the sparsifiers score is what the user is told, for small, thin and large graphs and for pieces."""
    for room in (oracle_room, exact_room):
        monkeypatch.setattr(room, "SMALL", small)
    oracle = Oracle(graph, Scoring(ridge), 5)
    told = edge_leverage(graph, ridge=ridge, error=0.1, random_state=np.random.default_rng(3))
    asked = Oracle(graph, Scoring(ridge), draw_seed(np.random.default_rng(3))).own_scores(graph.weights)
    np.testing.assert_array_equal(told, asked)
    if graph.n_nodes <= small or len(graph) <= 2 * graph.n_nodes:  # by default too: these are exact
        np.testing.assert_array_equal(edge_leverage(graph, ridge=ridge, random_state=0), oracle.leverage)
        np.testing.assert_allclose(oracle.leverage, dense_leverage(graph, ridge), atol=1e-9)
    if graph.n_nodes <= small:
        parallel = oracle.new_scores(graph.u, graph.v, graph.weights)
        np.testing.assert_allclose(parallel, oracle.leverage / (1 + oracle.leverage), rtol=1e-6)


def test_the_oracle_of_a_stream_sees_it_too():
    graph, across = two_cliques(501, 6, 1.0)  # beyond 1,000 nodes: projections
    oracle = Oracle(graph, Scoring(0.0), 0)
    own = oracle.own_scores(graph.weights)[across]
    assert own.mean() == pytest.approx(1 / 6, rel=0.15)
    new = oracle.new_scores(np.array([0]), np.array([501]), np.ones(1))[0]
    assert new == pytest.approx(1 / 7, rel=0.2)


@pytest.mark.parametrize("weight", [1e-14, 1e-18, 1e-300, 1e300])
@pytest.mark.parametrize("method", ["exact", "factor", "projections"])
def test_weights_beyond_what_float64_resolves_do_not_stop_anything(weight, method):
    graph, _ = two_cliques(10, 2, weight)
    scores = edge_leverage(graph, method, random_state=0)
    assert np.isfinite(scores).all()
    assert scores.min() >= 0
    assert scores.max() <= 1
    single, bridge = two_cliques(10, 1, weight)
    assert edge_leverage(single, method, random_state=0)[bridge] == 1.0
    assert sparsify(graph, oversampling=1, random_state=0).components()[0] == 1


def test_leverage_of_two_cliques_is_the_dense_formula():
    graph, _ = two_cliques(20, 3, 1e-4)
    np.testing.assert_allclose(edge_leverage(graph), dense_leverage(graph), atol=1e-7)
    assert edge_leverage(graph).sum() == pytest.approx(39)


def test_light_edges_keep_their_leverage():
    """Beside weights 300 decades larger the dense inverse says 0; what an edge's own ends tell is a lower bound."""
    X = np.vstack([np.random.default_rng(0).standard_normal((200, 2)), [[1000.0, 1000.0]]])
    A = knn_graph(X, 40, "global")
    upper = sp.triu(A).tocoo()
    leverage = edge_leverage(A, "exact")
    assert leverage[upper.col == 200].sum() == pytest.approx(1.0, abs=1e-6)
    assert leverage.sum() == pytest.approx(200, rel=1e-5)


def ring_of_cliques(count, size, weight):
    """Return cliques in a ring, each joined to the next by one edge of a small weight, and which edges join."""
    a, b = np.triu_indices(size, 1)
    first = size * np.arange(count)
    u = np.concatenate([(a + first[:, None]).ravel(), first])
    v = np.concatenate([(b + first[:, None]).ravel(), np.roll(first, -1) + 1])
    weights = np.concatenate([np.ones(count * len(a)), np.full(count, weight)])
    graph = merged(check_edges(u, v, weights))
    return graph, graph.weights < 0.5


def test_more_than_58_slow_directions_are_found():
    graph, joins = ring_of_cliques(90, 6, 1e-6)
    found = edge_leverage(graph, "projections", random_state=0)
    np.testing.assert_allclose(found[joins], 1 - 1 / 90, atol=1e-3)
    assert found.sum() == pytest.approx(graph.n_nodes - 1, rel=1e-3)


def test_slow_directions_that_may_be_missed_are_told(monkeypatch):
    monkeypatch.setattr(projections_room, "NUMBERS", 0)
    monkeypatch.setattr(projections_room, "SLOWEST", 20)
    graph, joins = ring_of_cliques(90, 6, 1e-6)
    with pytest.warns(UserWarning, match="parts that hang together by next to nothing"):
        found = edge_leverage(graph, "projections", random_state=0)
    assert found[joins].min() < 0.9
