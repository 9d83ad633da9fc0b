"""The contract of every public estimator of graphs: cloning, seeds, purity, pickling, not fitted."""

import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from squeak import graphs
from squeak.graphs import (
    DistributedSparsifier,
    EigenFunctions,
    HarmonicClassifier,
    HarmonicRegressor,
    LaplacianSmoother,
    NearestLabel,
    OnlineHarmonic,
    OnlineSparsifier,
    SimpleHarmonic,
    StreamSparsifier,
    SubSampling,
)
from tests.graphs.oracles import random_graph

GRAPH = random_graph(1200, 60_000, 0)
"""Large enough for projections, small enough for a second."""

SPARSIFIERS = {
    "StreamSparsifier": StreamSparsifier(8.0, random_state=0),
    "StreamSparsifier, ridge": StreamSparsifier(8.0, ridge=50.0, copies=4, random_state=0),
    "OnlineSparsifier": OnlineSparsifier(3.0, random_state=0),
    "DistributedSparsifier": DistributedSparsifier(8.0, n_leaves=3, random_state=0),
}
LEARNERS = {
    "HarmonicClassifier": HarmonicClassifier(sparsifier=10, random_state=0),
    "SimpleHarmonic": SimpleHarmonic(5),
    "EigenFunctions": EigenFunctions(5),
    "SubSampling": SubSampling(100, random_state=0),
    "NearestLabel": NearestLabel(),
    "OnlineHarmonic": OnlineHarmonic(20),
}
OTHERS = {"HarmonicRegressor": HarmonicRegressor(), "LaplacianSmoother": LaplacianSmoother()}


def test_every_public_estimator_is_in_this_suite():
    public = {m for m in vars(graphs).values() if isinstance(m, type) and issubclass(m, BaseEstimator)}
    assert public == {type(one) for one in [*SPARSIFIERS.values(), *LEARNERS.values(), *OTHERS.values()]}


@pytest.fixture(params=SPARSIFIERS)
def sparsifier(request):
    return clone(SPARSIFIERS[request.param])


def test_sparsifiers_keep_the_contract(sparsifier):
    with pytest.raises(NotFittedError):
        _ = sparsifier.sample_
    before = {name: repr(value) for name, value in sparsifier.get_params().items()}
    given = np.column_stack([GRAPH.u, GRAPH.v, GRAPH.weights])
    kept = given.copy()
    first = sparsifier.fit(given).sample_
    assert np.array_equal(given, kept)
    assert {name: repr(value) for name, value in sparsifier.get_params().items()} == before
    assert sparsifier.fit(given).sample_ == first
    assert clone(sparsifier).set_params(random_state=1).fit(given).sample_ != first
    for make in (np.random.default_rng, np.random.RandomState):
        one, two = (clone(sparsifier).set_params(random_state=make(5)).fit(given).sample_ for _ in range(2))
        assert one == two
    given[:] = 0
    assert sparsifier.sample_ == first
    again = pickle.loads(pickle.dumps(sparsifier))
    assert again.sample_ == first
    assert len(first) < 0.6 * len(GRAPH)
    A = sparsifier.sparsifier_
    assert A.shape == (1200, 1200)
    assert abs(A - A.T).max() == 0
    if hasattr(sparsifier, "partial_fit"):
        block = np.array([[0, 1, 2.0], [5, 1100, 0.5]])
        assert sparsifier.partial_fit(block).sample_ == again.partial_fit(block).sample_


def rows():
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=200)
    X = rng.standard_normal((200, 2)) + 5 * truth[:, None]
    return X, np.where(np.arange(200) < 10, truth, -1), truth


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_keep_the_contract(name):
    learner = clone(LEARNERS[name])
    X, y, truth = rows()
    given = graphs.knn_graph(X, 8) if name == "SimpleHarmonic" else X
    before = X.copy(), y.copy()
    learner.fit(given, y)
    found = learner.predict(X) if name == "OnlineHarmonic" else learner.transduction_
    assert (found == truth).mean() > 0.9
    assert np.array_equal(X, before[0])
    assert np.array_equal(y, before[1])
    again = clone(learner).fit(given, y)
    repeated = again.predict(X) if name == "OnlineHarmonic" else again.transduction_
    assert np.array_equal(found, repeated)
    with pytest.raises(ValueError, match=r"y has|y must|labels"):
        clone(learner).fit(given, y[:50])


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
