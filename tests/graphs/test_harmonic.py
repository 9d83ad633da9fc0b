"""Harmonic functions are the dense solutions, also on sparsifiers; unlabelled components."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from squeak.graphs import (
    EigenFunctions,
    HarmonicClassifier,
    HarmonicRegressor,
    LaplacianSmoother,
    NearestLabel,
    SimpleHarmonic,
    StreamSparsifier,
    SubSampling,
    knn_graph,
    laplacian_eigenmaps,
    sparsify,
    spectral_accuracy,
    spectral_clustering,
)
from squeak.graphs import spectral as spectral_room
from squeak.graphs.edges import check_edges, merged
from squeak.graphs.harmonic import solve_harmonic
from squeak.graphs.sources import write_edges
from tests.graphs.oracles import COMPLETE, dense_laplacian, random_graph, two_cliques

GRAPH = merged(
    check_edges(
        np.concatenate([random_graph(60, 400, 0).u, np.arange(59)]),
        np.concatenate([random_graph(60, 400, 0).v, np.arange(1, 60)]),
        None,
    )
)


@pytest.fixture
def labels():
    rng = np.random.default_rng(1)
    y = np.full(60, np.nan)
    y[rng.choice(60, 9, replace=False)] = rng.standard_normal(9)
    return y


def dense(graph, y, alpha, centred):
    """The definition, by pseudo-inverses: (Π Q Π)⁺ỹ for f ⊥ 1."""
    known = ~np.isnan(y)
    Q = alpha * dense_laplacian(graph) + np.diag(known.astype(float))
    n = len(y)
    if not centred:
        return np.linalg.solve(Q, np.where(known, y, 0.0))
    right = np.where(known, y - y[known].mean(), 0.0)
    flat = np.eye(n) - np.ones((n, n)) / n
    return np.linalg.pinv(flat @ Q @ flat, hermitian=True) @ right + y[known].mean()


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("centred", [True, False])
def test_the_solution_is_the_dense_one(labels, alpha, centred):
    found = HarmonicRegressor(alpha, centred=centred).fit(GRAPH, labels).transduction_
    np.testing.assert_allclose(found, dense(GRAPH, labels, alpha, centred), atol=1e-4)
    if centred:
        assert abs((found - labels[~np.isnan(labels)].mean()).sum()) < 1e-4


def test_the_literal_formula_of_the_thesis_is_another_function(labels):
    """(ΠQ)⁺ỹ is not the solution with Σf = 0: the trap of spec A, section 8."""
    known = ~np.isnan(labels)
    Q = 0.01 * dense_laplacian(GRAPH) + np.diag(known.astype(float))
    flat = np.eye(60) - np.ones((60, 60)) / 60
    literal = np.linalg.pinv(flat @ Q) @ np.where(known, labels - labels[known].mean(), 0.0)
    assert np.abs(literal + labels[known].mean() - dense(GRAPH, labels, 0.01, True)).max() > 1e-3


def test_several_classes_are_one_column_each():
    rng = np.random.default_rng(0)
    y = np.full(60, -1)
    y[rng.choice(60, 12, replace=False)] = rng.integers(3, size=12) + 5
    s = HarmonicClassifier(0.5).fit(GRAPH, y)
    for number, name in enumerate(s.classes_):
        one = np.where(y == -1, np.nan, (y == name).astype(float))
        centre = np.nanmean(one)
        np.testing.assert_allclose(s.scores_[:, number], dense(GRAPH, one, 0.5, True) - centre, atol=1e-4)
        plain = dense(GRAPH, one, 0.5, False)
        np.testing.assert_allclose(s.label_distributions_[:, number], plain, atol=1e-4)
    np.testing.assert_allclose(s.label_distributions_.sum(axis=1), 1.0, atol=1e-4)
    assert set(s.transduction_) <= {5, 6, 7}


def test_a_sparsifier_that_is_the_graph_changes_nothing(labels):
    one = HarmonicRegressor().fit(GRAPH, labels).transduction_
    two = HarmonicRegressor(sparsifier=1e6, random_state=0).fit(GRAPH, labels).transduction_
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("seed", range(5))
def test_the_deterministic_bound_on_a_sparsifier(seed, labels):
    """‖f̃ − f̂‖ ≤ ε̂·‖ỹ‖/((1 − ε̂)·alpha·λ₂) with the measured ε̂ (spec A, section 8; alpha = lη)."""
    graph = random_graph(60, 3000, seed, weighted=False)
    known = ~np.isnan(labels)
    size = np.linalg.norm(labels[known] - labels[known].mean())
    gap = np.linalg.eigvalsh(dense_laplacian(graph))[1]
    for alpha in (0.01, 1.0):
        H = sparsify(graph, oversampling=8, random_state=seed)
        eps = spectral_accuracy(graph, H)
        f = HarmonicRegressor(alpha).fit(graph, labels).transduction_
        g = HarmonicRegressor(alpha).fit(H, labels).transduction_
        assert 0 < np.linalg.norm(f - g) <= eps * size / ((1 - eps) * alpha * gap)


def test_a_large_penalty_flattens_and_a_small_one_interpolates(labels):
    known = ~np.isnan(labels)
    mean = labels[known].mean()
    far = HarmonicRegressor(1e6).fit(GRAPH, labels).transduction_
    np.testing.assert_allclose(far, mean, atol=1e-3)
    near = HarmonicRegressor(1e-7, centred=False).fit(GRAPH, labels).transduction_
    np.testing.assert_allclose(near[known], labels[known], atol=1e-4)


def test_components_without_a_label_do_not_explode():
    two = nx.disjoint_union(nx.complete_graph(6), nx.complete_graph(5))
    y = np.full(11, -1)
    y[[0, 1, 2]] = [3, 4, 4]
    s = HarmonicClassifier().fit(two, y)
    assert s.n_unreached_ == 5
    assert (s.transduction_[6:] == 4).all()
    np.testing.assert_allclose(s.scores_[6:], 0.0)
    np.testing.assert_allclose(s.label_distributions_[6:], [[1 / 3, 2 / 3]] * 5)
    assert np.abs(s.scores_).max() < 2
    r = HarmonicRegressor().fit(two, np.where(y == -1, np.nan, y))
    np.testing.assert_allclose(r.transduction_[6:], 11 / 3)


def test_adding_the_mean_back_is_not_done():
    """With 1 label of class 0 and 9 of class 1 far off, the neighbours of the one label get its class."""
    G = nx.disjoint_union(nx.complete_graph(20), nx.complete_graph(20))
    G.add_edge(0, 20)
    y = np.full(40, -1)
    y[5], y[25:34] = 0, 1
    s = HarmonicClassifier().fit(G, y)
    assert (s.transduction_[:20] == 0).mean() > 0.9
    assert (s.transduction_[20:] == 1).all()


def test_rows_become_a_graph_and_new_rows_are_labelled():
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=300)
    X = rng.standard_normal((300, 2)) + 6 * np.column_stack([truth == 1, truth == 2])
    y = np.where(np.arange(300) < 15, truth, -1)
    s = HarmonicClassifier(n_neighbors=10).fit(X, y)
    assert (s.transduction_ == truth).mean() > 0.95
    assert (s.predict(X + 0.01) == truth).mean() > 0.95
    np.testing.assert_allclose(s.predict_proba(X).sum(axis=1), 1.0, atol=1e-4)
    with pytest.raises(ValueError, match="transduction_"):
        HarmonicClassifier().fit(knn_graph(X), y).predict(X)


def test_text_labels_and_sparsifiers_of_every_kind():
    G = nx.gnp_random_graph(80, 0.5, seed=0)
    y = np.array(["-1"] * 80, dtype=object)
    y[:6] = ["a", "b"] * 3
    plain = HarmonicClassifier().fit(G, y)
    for sparsifier in (5.0, StreamSparsifier(5.0), lambda edges: sparsify(edges, oversampling=5, random_state=0)):
        s = HarmonicClassifier(sparsifier=sparsifier, random_state=0).fit(G, y)
        assert len(s.graph_) <= len(plain.graph_)
        assert set(s.transduction_) <= {"a", "b"}


BAD = [
    ({}, sp.csr_matrix((5, 5)), [-1] * 5, "no labels"),
    ({}, sp.csr_matrix((5, 5)), [1, -1], "5 nodes, y has 2"),
    ({"alpha": 0}, sp.csr_matrix((2, 2)), [1, -1], "alpha must be positive"),
    ({"kind": "tree"}, np.ones((2, 2)), [1, -1], "kind must be"),
    ({}, np.ones((3, 2)), [1, -1, 2], "n_neighbors is 10"),
    ({}, np.ones((2, 2)), [[1], [2]], "one-dimensional"),
]


@pytest.mark.parametrize(("params", "X", "y", "message"), BAD)
def test_bad_input_gets_one_clear_error(params, X, y, message):
    with pytest.raises(ValueError, match=message):
        HarmonicClassifier(**params).fit(X, y)


def test_each_undirected_pair_is_one_edge():
    X = np.random.default_rng(0).standard_normal((50, 3))
    A = knn_graph(X, 5, "none")
    assert (A != A.T).nnz == 0
    assert A.max() == 1
    B = knn_graph(X, 5, "global", scale=2.0)
    i, j = B.nonzero()
    np.testing.assert_allclose(
        np.asarray(B[i, j]).ravel(), np.exp(-((X[i] - X[j]) ** 2).sum(axis=1) / 8), rtol=1e-10
    )
    apart = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    own = np.sort(apart, axis=1)[:, 7]
    C = knn_graph(X, 9)
    i, j = C.nonzero()
    np.testing.assert_allclose(
        np.asarray(C[i, j]).ravel(), np.exp(-(apart[i, j] ** 2) / (own[i] * own[j])), rtol=1e-9
    )


def test_equal_rows_have_finite_weights():
    A = knn_graph(np.ones((20, 2)), 5)
    assert np.isfinite(A.data).all()
    assert (A.data > 0).all()


def test_smoothing_is_the_dense_solution():
    y = np.random.default_rng(0).standard_normal((60, 2))
    found = LaplacianSmoother(0.3).fit(GRAPH).transform(y)
    np.testing.assert_allclose(found, np.linalg.solve(np.eye(60) + 0.3 * dense_laplacian(GRAPH), y), atol=1e-5)


@pytest.mark.parametrize("normalised", [True, False])
def test_eigenmaps_are_eigenvectors(normalised, monkeypatch):
    graph = random_graph(150, 2000, 1)
    L = dense_laplacian(graph)
    D = np.diag(graph.degrees()) if normalised else np.eye(150)
    exact = laplacian_eigenmaps(graph, 3, normalised=normalised)
    for k in range(3):
        value = exact[:, k] @ L @ exact[:, k] / (exact[:, k] @ D @ exact[:, k])
        np.testing.assert_allclose(L @ exact[:, k], value * D @ exact[:, k], atol=1e-8)
    monkeypatch.setattr(spectral_room, "DENSE", 10)
    large = laplacian_eigenmaps(graph, 3, normalised=normalised)
    for k in range(3):
        assert abs(exact[:, k] @ large[:, k]) / np.linalg.norm(exact[:, k]) / np.linalg.norm(large[:, k]) > 0.999


def test_clusters_of_a_sparsifier_are_those_of_the_graph():
    G = nx.planted_partition_graph(3, 60, 0.5, 0.02, seed=0)
    for sparsifier in (None, 8.0):
        labels = spectral_clustering(G, 3, sparsifier=sparsifier, random_state=0).reshape(3, 60)
        assert all((row == np.bincount(row).argmax()).mean() > 0.95 for row in labels)
        assert len({int(np.bincount(row).argmax()) for row in labels}) == 3


def test_one_solve_serves_all_classes(monkeypatch):
    from squeak.graphs.solver import NormalisedSystem

    calls = []
    real = NormalisedSystem.solve
    monkeypatch.setattr(NormalisedSystem, "solve", lambda self, y, t: calls.append(y.shape) or real(self, y, t))
    solve_harmonic(GRAPH, np.array([0, 5, 9]), np.eye(3), 1.0, centred=True)
    assert calls == [(60, 4)]


def test_a_group_that_hangs_on_rounding_is_not_reached():
    """Two cliques joined by an edge of weight 1e-17: no label comes across, and nothing explodes or stalls."""
    n = 30
    A = np.zeros((2 * n, 2 * n))
    A[:n, :n] = A[n:, n:] = 1.0 - np.eye(n)
    A[0, n] = A[n, 0] = 1e-17
    y = np.full(2 * n, -1)
    y[:4] = [0, 1, 0, 0]
    model = HarmonicClassifier().fit(sp.csr_matrix(A), y)
    assert model.n_unreached_ == n
    assert np.abs(model.label_distributions_).max() <= 1 + 1e-9
    assert (model.transduction_[n:] == 0).all()  # the most frequent class


def rows():
    X = np.random.default_rng(0).standard_normal((60, 3))
    return X, np.concatenate([[0, 1, 0, 1], np.full(56, -1)])


BASELINES = (SimpleHarmonic(3), EigenFunctions(5), SubSampling(20, random_state=0), NearestLabel())


@pytest.mark.parametrize("scale", [1e-308, 1e-300, 1e-30])
def test_tiny_weights_are_harmonic_too(scale):
    graph, _ = two_cliques(6, 2, 1.0)
    y = np.full(12, -1)
    y[[0, 8]] = 0, 1
    small = HarmonicClassifier().fit(graph.with_weights(scale * graph.weights), y)
    limit = HarmonicClassifier(1e-8).fit(graph, y)
    np.testing.assert_allclose(small.label_distributions_, limit.label_distributions_, atol=1e-4)
    np.testing.assert_array_equal(small.transduction_, limit.transduction_)


@pytest.mark.parametrize("scale", [1e20, 1e299])
def test_a_penalty_that_drowns_the_labels_is_refused_at_once(scale):
    graph = COMPLETE.with_weights(scale * COMPLETE.weights)
    with pytest.raises(ValueError, match="alpha is too large"):
        HarmonicClassifier().fit(graph, [0, 1, *[-1] * 10])
    with pytest.raises(ValueError, match="smoothing is too large"):
        LaplacianSmoother().fit(graph)


@pytest.mark.parametrize("call", ["predict", "predict_proba"])
def test_a_classifier_that_was_not_fitted_says_so(call):
    with pytest.raises(NotFittedError):
        getattr(HarmonicClassifier(), call)([[0.0]])


def test_a_matrix_that_is_symmetric_but_for_rounding_is_a_graph():
    X, y = rows()
    A = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    expected = HarmonicClassifier().fit(A, y)
    A[0, 1] *= 1 + 1e-15
    np.testing.assert_allclose(HarmonicClassifier().fit(A, y).scores_, expected.scores_, atol=1e-6)


@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_files_and_edges_whose_last_nodes_have_none_are_graphs(kind, tmp_path):
    write_edges(COMPLETE, tmp_path / "e.txt")
    y = [0, 1, *[-1] * 11]
    one = HarmonicClassifier().fit(kind(tmp_path / "e.txt"), y)
    two = HarmonicClassifier().fit((COMPLETE.u, COMPLETE.v), y)
    assert one.n_unreached_ == two.n_unreached_ == 1
    np.testing.assert_array_equal(one.scores_, two.scores_)


@pytest.mark.parametrize("scaling", ["local", "global", "none"])
def test_sparse_rows_are_predicted_as_dense_ones(scaling):
    X, y = rows()
    dense = HarmonicClassifier(scaling=scaling).fit(X, y).predict_proba(X)
    sparse = HarmonicClassifier(scaling=scaling).fit(sp.csr_matrix(X), y).predict_proba(sp.csr_matrix(X))
    np.testing.assert_allclose(dense, sparse, atol=1e-6)


def test_new_rows_are_weighted_as_the_edges_are():
    X, _ = rows()
    y = np.where(np.arange(60) < 10, X[:, 0], np.nan)
    s = HarmonicRegressor(n_neighbors=5, scaling="global").fit(X, y)
    apart = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    sigma = np.median(np.sort(apart, axis=1)[:, 5])
    x = X[:7] + 0.1
    distance = np.sqrt(((x[:, None] - X) ** 2).sum(axis=2))
    near = np.argsort(distance, axis=1)[:, :5]
    w = np.exp(-(np.take_along_axis(distance, near, 1) ** 2) / (2 * sigma**2))
    np.testing.assert_allclose(s.predict(x), (w * s.transduction_[near]).sum(axis=1) / w.sum(axis=1))


@pytest.mark.parametrize("baseline", BASELINES, ids=lambda one: type(one).__name__)
def test_baselines_read_labels_as_the_classifier_does(baseline):
    X, y = rows()
    given = knn_graph(X) if isinstance(baseline, SimpleHarmonic) else X
    text = np.where(y == -1, "-1", np.where(y == 0, "a", "b"))
    expected = np.where(baseline.fit(given, y).transduction_ == 0, "a", "b")
    assert baseline.fit(given, text).transduction_.tolist() == expected.tolist()
    for bad, message in (
        (np.append(y, 0), "61 values"),
        (y[:-1], "59 values"),
        (y[:, None], "one-dimensional"),
        (np.where(y == 0, np.inf, 1.0), "infinite"),
        (np.full(60, -1), "no labels"),
    ):
        with pytest.raises(ValueError, match=message):
            baseline.fit(given, bad)


@pytest.mark.parametrize("baseline", BASELINES[1:], ids=lambda one: type(one).__name__)
def test_baselines_take_sparse_rows_and_a_single_one(baseline):
    X, y = rows()
    dense = baseline.fit(X, y).transduction_
    np.testing.assert_array_equal(baseline.fit(sp.csr_matrix(X), y).transduction_, dense)
    assert baseline.fit(X[:1], [4]).transduction_.tolist() == [4]


def test_one_bin_is_no_histogram():
    X, y = rows()
    with pytest.raises(ValueError, match="n_bins"):
        EigenFunctions(n_bins=1).fit(X, y)


def test_a_smoother_takes_every_sparsifier_that_a_classifier_takes():
    graph = merged(check_edges(*np.triu_indices(80, 1)))
    one, two = (LaplacianSmoother(sparsifier=StreamSparsifier(1.0), random_state=0).fit(graph) for _ in range(2))
    np.testing.assert_array_equal(one.graph_.weights, two.graph_.weights)
    assert len(LaplacianSmoother(sparsifier=lambda edges: edges).fit(graph).graph_) == len(graph)
    alone = LaplacianSmoother(sparsifier=StreamSparsifier()).fit(sp.csr_matrix((3, 3)))
    assert alone.transform([1.0, 2.0, 3.0]).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="each of the 3 nodes"):
        alone.transform(2.0)


def test_many_eigenmaps_of_a_graph_are_found(monkeypatch):
    monkeypatch.setattr(spectral_room, "DENSE", 10)
    graph = random_graph(60, 400, 0)
    expected = np.linalg.eigvalsh(graph.laplacian().toarray())[1:41]
    maps = laplacian_eigenmaps(graph, 40, normalised=False)
    np.testing.assert_allclose(np.einsum("ij,ij->j", maps, graph.laplacian() @ maps), expected, atol=1e-6)


@pytest.mark.parametrize(("n", "weight"), [(8, 1e-7), (30, 1e-5), (30, 1e-8), (300, 1e-4), (300, 1e-6)])
def test_labels_cross_a_weak_link(n, weight):
    """Behind one weak edge the harmonic function is that of the edge's end: the residual must be fine enough."""
    a, b = np.triu_indices(n, 1)
    graph = (np.r_[a, a + n, 0], np.r_[b, b + n, n], np.r_[np.ones(2 * len(a)), weight])
    y = np.full(2 * n, np.nan)
    y[:3] = [0, 1, 1]
    model = HarmonicRegressor(0.01, centred=False).fit(graph, y)
    assert model.n_unreached_ == 0
    np.testing.assert_allclose(model.transduction_[n:], model.transduction_[0], atol=2e-3)


@pytest.mark.parametrize("learner", [HarmonicClassifier, HarmonicRegressor])
def test_a_labelled_node_without_edges_changes_nothing_for_the_others(learner):
    rng = np.random.default_rng(3)
    A = np.zeros((14, 14))
    A[:12, :12] = np.triu(rng.random((12, 12)) < 0.4, 1)
    A += A.T
    y = np.full(14, np.nan)
    y[[0, 5, 9]] = 0, 1, 1
    alone = learner().fit(sp.csr_matrix(A), y)
    y[12] = 0
    beside = learner().fit(sp.csr_matrix(A), y)
    np.testing.assert_allclose(beside.transduction_[:12], alone.transduction_[:12], atol=1e-7)
    assert beside.transduction_[12] == 0
    assert beside.n_unreached_ == 1
    if learner is HarmonicClassifier:
        np.testing.assert_allclose(beside.scores_[:12], alone.scores_[:12], atol=1e-7)
        return
    assert beside.transduction_[13] == 0.5  # the mean of all labels, for they are all that is known of it
