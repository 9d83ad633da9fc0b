"""Weights of any size: sparsifiers and scores keep their digits. The contract is in tests/test_contract.py."""

import numpy as np
import pytest

from squeak import graphs
from squeak.graphs.edges import check_edges
from tests.graphs.oracles import exact_leverage, random_graph

GRAPH = random_graph(1200, 60_000, 0)
"""Large enough for projections, small enough for a second."""


@pytest.mark.parametrize("scale", [1e-120, 1e120])
def test_huge_and_tiny_weights(scale):
    graph = GRAPH.with_weights(scale * GRAPH.weights)
    H = graphs.sparsify(graph, oversampling=8, random_state=0)
    expected = graphs.sparsify(GRAPH, oversampling=8, random_state=0)
    assert np.array_equal(H.u, expected.u)
    np.testing.assert_allclose(H.weights / scale, expected.weights, rtol=1e-6)
    assert graphs.spectral_accuracy(graph, H) == pytest.approx(graphs.spectral_accuracy(GRAPH, expected), rel=0.02)


def test_weights_of_many_sizes_in_one_graph():
    rng = np.random.default_rng(0)
    graph = GRAPH.with_weights(10.0 ** rng.uniform(-12, 12, len(GRAPH)))
    scores = graphs.edge_leverage(graph, "projections", n_projections=64, random_state=0)
    exact = graphs.edge_leverage(graph, "exact")
    assert np.isfinite(scores).all()
    big = exact > 1e-3
    assert np.median(np.abs(scores[big] / exact[big] - 1)) < 0.1
    assert graphs.sparsify(graph, oversampling=4, random_state=0).components()[0] == graph.components()[0]


def test_a_ridge_whose_inverse_overflows_is_refused():
    edges = np.array([[0, 1], [1, 2], [0, 2]])
    with pytest.raises(ValueError, match="ridge must be 0, or at least 1e-300"):
        graphs.StreamSparsifier(8.0, ridge=1e-320, random_state=0).fit(edges)


@pytest.mark.parametrize("ridge", [1e-9, 1e-3, 1.0])
def test_a_ridge_that_is_lost_in_a_degree_is_noticed(ridge):
    """Two heavy edges, light ones between them: a sparse factor sees neither these nor the ridge."""
    graph = check_edges([0, 0, 1, 2], [1, 3, 2, 3], [1.0, 1e16, 1e16, 1.0], 4)
    expected = exact_leverage(graph, ridge)
    np.testing.assert_allclose(graphs.edge_leverage(graph, "factor", ridge=ridge), expected, rtol=1e-9)
