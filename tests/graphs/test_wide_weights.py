"""Graphs whose weights lie up to 300 powers of ten apart, against elimination with fractions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigvalsh

from squeak.graphs import (
    HarmonicClassifier,
    HarmonicRegressor,
    OnlineSparsifier,
    StreamSparsifier,
    edge_leverage,
    effective_resistances,
    sparsifier_report,
    sparsify,
    spectral_accuracy,
)
from squeak.graphs.accuracy import by_tree, grounded
from squeak.graphs.edges import bridges, check_edges, merged
from tests.graphs.oracles import dense_accuracy, exact_harmonic, exact_leverage, random_graph

QUICK, FULL = 40, 3000


@st.composite
def pairs(draw):
    """Draw the edges of a path, a tree, a clique, a cycle, some of all, or two of them with or without a bridge."""
    kind = draw(st.sampled_from(("path", "tree", "clique", "cycle", "any", "two", "bridge")))
    n = draw(st.integers(2, 6))
    every = [(i, j) for i in range(n) for j in range(i + 1, n)]
    if kind == "path":
        return n, [(i, i + 1) for i in range(n - 1)]
    if kind == "tree":
        return n, [(draw(st.integers(0, i - 1)), i) for i in range(1, n)]
    if kind == "clique":
        return n, every
    if kind == "cycle":
        return n, sorted({(min(i, (i + 1) % n), max(i, (i + 1) % n)) for i in range(n)})
    if kind == "any":
        return n, draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    both = every + [(i + n, j + n) for i, j in every]
    return 2 * n, both if kind == "two" else [*both, (n - 1, n)]


@st.composite
def wide_graphs(draw):
    """Draw a small graph with weights from 1e-150 to 1e150: all over the range, or of two sizes far apart."""
    n, ends = draw(pairs())
    exponents = st.floats(-150, 150)
    if draw(st.booleans()):
        exponents = st.sampled_from((draw(st.integers(-150, 150)), draw(st.integers(-150, 150))))
    weights = [10.0 ** draw(exponents) * draw(st.floats(0.5, 2.0)) for _ in ends]
    numbers = draw(st.permutations(range(n)))  # an order of elimination is as good as any other
    u, v = ([numbers[end[side]] for end in ends] for side in (0, 1))
    return merged(check_edges(u, v, weights, n))


def check_leverage(graph, ridge=0.0):
    expected = exact_leverage(graph, ridge)
    for method in ("exact", "factor"):
        found = edge_leverage(graph, method, ridge=ridge)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9, err_msg=method)
        assert (found >= 0).all()
        assert (found <= 1).all()
        resistances = effective_resistances(graph, method, ridge=ridge)
        assert np.array_equal(resistances, found / graph.weights)
        if ridge == 0:
            assert found.sum() == pytest.approx(graph.n_nodes - graph.components()[0], abs=2e-8)  # LOST, twice
            assert (found > 0).all()
            assert (found[bridges(graph)] == 1).all()
    assert np.array_equal(edge_leverage(graph), edge_leverage(graph, "exact"))


def check_projections(graph):
    expected = exact_leverage(graph)
    found = edge_leverage(graph, "projections", n_projections=512, random_state=0)
    np.testing.assert_allclose(found, expected, atol=0.25)
    assert (found > 0).all()
    assert (found <= 1).all()
    assert (found[bridges(graph)] == 1).all()
    assert found.sum() == pytest.approx(graph.n_nodes - graph.components()[0], abs=0.05 * graph.n_nodes)


def check_sparsifiers(graph):
    """Nothing is dropped of so small a graph unless it has next to no leverage; what is kept is the graph."""
    kept = exact_leverage(graph) > 1e-3
    sparsifiers = StreamSparsifier(1e4, random_state=0), OnlineSparsifier(1e4, random_state=0)
    for H in (
        sparsify(graph, oversampling=1e4, random_state=0),
        *(s.fit(graph).sample_.graph for s in sparsifiers),
    ):
        assert H.components()[0] == graph.components()[0]
        found = dict(zip(zip(H.u, H.v, strict=True), H.weights, strict=True))
        for u, v, w in zip(graph.u[kept], graph.v[kept], graph.weights[kept], strict=True):
            assert found[u, v] == pytest.approx(w)
        assert 0 <= spectral_accuracy(graph, H) < 1.0
    report = sparsifier_report(graph, graph)
    assert report.same_components
    assert report.accuracy < 1e-6


def check_accuracy(graph):
    for factor in (0.75, 1.5):
        changed = graph.with_weights(factor * graph.weights)
        assert spectral_accuracy(graph, changed) == pytest.approx(abs(factor - 1), rel=1e-6)


def check_labels(graph):
    """Two nodes have labels; the solution is the exact one where weights are not too far apart for a solver."""
    known, top = [0, graph.n_nodes - 1], float(graph.weights.max())
    y = np.full(graph.n_nodes, -1)
    y[known] = 0, 1
    columns = (graph.u, graph.v, graph.weights)
    learner = HarmonicClassifier(alpha=1.0 / top, centred=False).fit(columns, y)
    assert np.isfinite(learner.label_distributions_).all()
    assert np.array_equal(learner.transduction_[known], [0, 1])
    values = (
        HarmonicRegressor(alpha=1.0 / top, centred=False).fit(columns, np.where(y < 0, np.nan, y)).transduction_
    )
    assert (values >= -1e-4).all()
    assert (values <= 1 + 1e-4).all()
    reached = np.isin(graph.components()[1], graph.components()[1][known]).all()
    if reached and graph.weights.min() > 1e-8 * top:
        np.testing.assert_allclose(values, exact_harmonic(graph, known, [0, 1], 1.0 / top), atol=1e-4)


CHECKS = {
    "leverage": check_leverage,
    "leverage with a ridge": lambda graph: check_leverage(graph, float(np.median(graph.weights))),
    "leverage with a small ridge": lambda graph: check_leverage(graph, 1e-3 * float(graph.weights.min())),
    "projections": check_projections,
    "sparsifiers": check_sparsifiers,
    "accuracy": check_accuracy,
    "labels": check_labels,
}


@pytest.mark.parametrize("what", CHECKS)
def test_weights_of_any_size(what):
    @settings(max_examples=QUICK)
    @given(wide_graphs())
    def run(graph):
        CHECKS[what](graph)

    run()


@pytest.mark.slow
@pytest.mark.parametrize("what", CHECKS)
def test_weights_of_any_size_in_full(what):
    @settings(max_examples=FULL)
    @given(wide_graphs())
    def run(graph):
        CHECKS[what](graph)

    run()


def test_a_factor_that_overflows_is_replaced_without_a_warning():
    """Two cliques of five with a bridge, 271 powers of ten apart: what a sparse factor solves for is infinite."""
    powers = [-29, 0, 0, -66, 80, 83, -52, 0, 107, 57, -150, 0, 0, 37, 0, 121, 39, -50, 0, -35, -87]
    u, v = np.triu_indices(5, 1)
    ends = np.concatenate([u, [4], u + 5]), np.concatenate([v, [5], v + 5])
    check_leverage(merged(check_edges(*ends, [10.0**power for power in powers], 10)))


@pytest.mark.parametrize("method", ["exact", "factor", "projections"])
def test_a_triangle_with_weights_nineteen_powers_of_ten_apart(method):
    for weights in ((1.0, 1.0, 1e19), (1.0, 1e19, 1.0), (1e19, 1.0, 1.0), (1.0, 1e19, 1e-19), (1e-19, 1.0, 1e19)):
        found = edge_leverage(([0, 1, 0], [1, 2, 2], weights), method, n_projections=512, random_state=0)
        assert found.sum() == pytest.approx(2.0, abs=0.1 if method == "projections" else 1e-9)
        expected = exact_leverage(merged(check_edges([0, 1, 0], [1, 2, 2], weights)))
        np.testing.assert_allclose(found, expected, atol=0.1 if method == "projections" else 1e-9)


@pytest.mark.parametrize("apart", [1e8, 1e10, 1e13, 1e100])
@pytest.mark.parametrize("ridge", [0.0, 1e-3])
def test_accuracy_tells_of_a_change_among_light_edges(apart, ridge):
    """Two triangles, one with far lighter edges, joined by a light edge: half of the light ones is taken away."""
    u, v = [0, 0, 1, 3, 3, 4, 2], [1, 2, 2, 4, 5, 5, 3]
    weights = np.array([apart, apart, apart, 1.0, 1.0, 1.0, 1.0])
    changed = np.where(weights > 1, weights, 0.5)
    found = spectral_accuracy((u, v, weights), (u, v, changed), ridge)
    light = np.array([[1.0, -1, 0, 0], [-1, 3, -1, -1], [0, -1, 2, -1], [0, -1, -1, 2]])  # the heavy nodes as one
    grounded_light = light + ridge * np.diag([3.0, 1, 1, 1])
    expected = 0.5 if ridge == 0 else eigvalsh(0.5 * light, grounded_light)[-1]
    assert found == pytest.approx(expected, abs=1e-7)


def test_the_coordinates_of_a_tree_give_the_accuracy_of_any_graph():
    rng = np.random.default_rng(0)
    for seed in range(5):
        graph = random_graph(20, 50, seed)
        other = graph.take(rng.random(len(graph)) < 0.9)
        other = other.with_weights(other.weights * rng.uniform(0.5, 2.0, len(other)))
        for ridge in (0.0, 0.3):
            found = by_tree(grounded(graph, ridge), grounded(other, ridge))
            assert found == pytest.approx(dense_accuracy(graph, other, ridge), rel=1e-9)


@pytest.mark.parametrize("heavy", [1e6, 1e12, 5e14, 1e15])
def test_projections_know_the_leverage_of_an_edge_far_heavier_than_all_others(heavy):
    """Its part from its own two ends alone was a difference of two numbers near 1, over another."""
    found = edge_leverage(
        ([0, 0, 1], [1, 2, 2], [1.0, 1.0, heavy]), "projections", n_projections=512, random_state=0
    )
    np.testing.assert_allclose(found, [0.5, 0.5, 1.0], atol=1e-5)
