"""What a second reader found: bottlenecks, odd input, calls out of order, files that are not quite edge lists."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from squeak.cli.graphs import label
from squeak.core import storage
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
    edge_leverage,
    knn_graph,
    laplacian_eigenmaps,
    sparsify,
    spectral_accuracy,
)
from squeak.graphs import spectral as spectral_room
from squeak.graphs import state as state_room
from squeak.graphs.edges import check_edges, merged
from squeak.graphs.files import read_edges, write_edges
from squeak.graphs.forms import read_graph
from squeak.graphs.oracle import Oracle, Scoring
from squeak.graphs.sample import EdgeSample
from tests.graphs.oracles import dense_leverage, random_graph

COMPLETE = merged(check_edges(*np.triu_indices(12, 1)))


def two_cliques(n, joins, weight, seed=0):
    """Return two complete graphs of n nodes, joined by some edges, and which edges these are."""
    rng = np.random.default_rng(seed)
    u, v = np.triu_indices(n, 1)
    a, b = rng.choice(n, joins, replace=False), rng.choice(n, joins, replace=False) + n
    w = np.concatenate([np.ones(2 * len(u)), np.full(joins, weight)])
    graph = merged(check_edges(np.concatenate([u, u + n, a]), np.concatenate([v, v + n, b]), w))
    return graph, (graph.u < n) & (graph.v >= n)


@pytest.mark.parametrize(("joins", "weight"), [(2, 1.0), (8, 1.0), (8, 1e-3), (3, 1e-7)])
@pytest.mark.parametrize("ridge", [0.0, 1e-9])
def test_projections_see_what_holds_two_parts_together(joins, weight, ridge):
    """A residual of 1e-3 does not see the one direction between the parts: scores were 150 times too small."""
    graph, across = two_cliques(60, joins, weight)
    found = edge_leverage(graph, "projections", ridge=ridge, random_state=0)[across]
    np.testing.assert_allclose(found, edge_leverage(graph, "exact", ridge=ridge)[across], rtol=0.15)


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


def test_a_row_far_from_all_others_can_be_in_a_graph():
    X = np.vstack([np.random.default_rng(0).standard_normal((200, 2)), [[1000.0, 1000.0]]])
    s = StreamSparsifier(2.0, random_state=0).fit(knn_graph(X, 40, "global"))
    assert s.n_components_ == 1


def test_weights_that_would_overflow_are_refused():
    with pytest.raises(ValueError, match="edge 0 has weight 1e\\+308"):
        sparsify(([0], [1], [1e308]))


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


# what a graph is read from


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("cls", [StreamSparsifier, OnlineSparsifier, DistributedSparsifier])
def test_a_square_array_is_an_adjacency_matrix_of_any_size(cls, n):
    A = np.ones((n, n)) - np.eye(n)
    np.testing.assert_array_equal(cls(random_state=0).fit(A).sparsifier_.toarray(), A)


def test_a_block_of_two_or_three_edges_is_edges():
    s = StreamSparsifier(random_state=0).partial_fit(np.array([[0, 1], [1, 2]]))
    assert s.partial_fit([(0, 2, 5.0), (2, 3, 1.0), (3, 0, 1.0)]).n_seen_ == 5
    assert s.sparsifier_[0, 2] == 5.0
    assert StreamSparsifier(random_state=0).partial_fit(COMPLETE.adjacency()).n_seen_ == 66


def test_two_edges_are_not_taken_for_a_matrix():
    with pytest.raises(ValueError, match="may be two edges"):
        sparsify(np.array([[0, 1], [1, 2]]))


def test_a_small_entry_without_its_mirror_makes_a_graph_directed():
    A = sp.csr_matrix([[0, 1e12, 0], [1e12, 0, 1.0], [0, 5.0, 0]])
    with pytest.raises(ValueError, match="not symmetric"):
        read_graph(A)


def test_parallel_entries_are_added_up_before_they_overflow():
    entries = np.full(4, 100, dtype=np.int8)
    A = sp.coo_matrix((entries, ([0, 0, 1, 1], [1, 1, 0, 0])), (2, 2))
    assert read_graph(A).edges.weights.tolist() == [200.0]


def test_graphs_of_classes_derived_from_networkx_are_read():
    class Mine(nx.Graph):
        pass

    assert type(sparsify(Mine(nx.path_graph(4)), random_state=0)) is Mine


def test_a_matrix_of_too_many_nodes_is_refused():
    with pytest.raises(ValueError, match="12 nodes, n_nodes is 5"):
        StreamSparsifier(n_nodes=5).fit(COMPLETE.adjacency())


@pytest.mark.parametrize("text", ["0 1 1 7\n1 2 1 8\n2 3 1 9\n3 0 1 1\n", "0\n1\n", "5\n"])
def test_a_text_file_of_other_columns_is_refused(text, tmp_path):
    (tmp_path / "e.txt").write_text(text)
    with pytest.raises(ValueError, match=r"e\.txt has \d columns"):
        read_edges(tmp_path / "e.txt")


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "e.txt").write_bytes(b"\xff\xfe\x00\n")
    with pytest.raises(ValueError, match=r"e\.txt is not text"):
        read_edges(tmp_path / "e.txt")


def test_a_sample_of_impossibly_many_nodes_is_refused(tmp_path):
    arrays, content = StreamSparsifier(random_state=0).fit(COMPLETE).sample_.to_parts()
    storage.write(tmp_path / "bad.sqk", "edges", arrays, {**content, "n_nodes": 10**15})
    with pytest.raises(storage.StorageError, match="not those of a sample"):
        EdgeSample.load(tmp_path / "bad.sqk")


# streams


def test_a_result_at_a_scoring_is_not_thinned_with_the_same_coins(monkeypatch):
    """Each look after one more edge: where the sample was thinned at that edge, it is the result."""
    monkeypatch.setattr(state_room, "FIRST", 25)
    monkeypatch.setattr(state_room.StreamState, "_first_size", lambda self, nodes: 25)
    graph = random_graph(30, 400, 1)
    plan = state_room.make_plan(StreamSparsifier(3.0))
    stream = state_room.StreamState(plan, 5, drops=True)
    scorings = 0
    for place in np.random.default_rng(0).permutation(len(graph)):
        before = stream._scored
        stream.read(graph.take([place]))
        if stream._scored != before:
            scorings += 1
            assert stream.result() == stream._whole(stream.n_nodes)
    assert scorings > 3


def test_a_later_node_without_edges_is_in_the_result():
    s = StreamSparsifier(2.0, random_state=0).fit(merged(check_edges(*np.triu_indices(80, 1))))
    assert s.sparsifier_.shape == (80, 80)
    assert s.partial_fit([(90, 90)]).sparsifier_.shape == (91, 91)


@pytest.mark.parametrize("cls", [StreamSparsifier, OnlineSparsifier, DistributedSparsifier])
def test_components_stay_whole_with_a_ridge_where_that_is_asked_for(cls, monkeypatch):
    monkeypatch.setattr(state_room, "FIRST", 50)
    u, v = np.triu_indices(10, 1)
    cliques = np.repeat(np.arange(40) * 10, len(u))
    edges = check_edges(
        np.concatenate([np.tile(u, 40) + cliques, np.arange(39) * 10]),
        np.concatenate([np.tile(v, 40) + cliques, np.arange(1, 40) * 10]),
        np.concatenate([np.full(40 * len(u), 100.0), np.full(39, 1e-3)]),
    )
    s = cls(1.0, ridge=50.0, connected=True, random_state=0).fit(edges)
    assert s.n_components_ == 1


# learners


@pytest.mark.parametrize("call", ["predict", "predict_proba"])
def test_a_classifier_that_was_not_fitted_says_so(call):
    with pytest.raises(NotFittedError):
        getattr(HarmonicClassifier(), call)([[0.0]])


def rows():
    X = np.random.default_rng(0).standard_normal((60, 3))
    return X, np.concatenate([[0, 1, 0, 1], np.full(56, -1)])


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


BASELINES = (SimpleHarmonic(3), EigenFunctions(5), SubSampling(20, random_state=0), NearestLabel())


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
        (np.where(y == 0, np.nan, 1.0), "NaN"),
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


# the quantizer


def test_centres_far_from_the_origin_are_told_apart():
    """Squares of 1e8 hide differences of 1e-3; the radius was 0 and grew by factors for ever."""
    X = 1e8 + 1e-3 * np.arange(40.0)[:, None]
    s = OnlineHarmonic(5).fit(X, np.concatenate([[0, 1], np.full(38, -1)]))
    assert s.counts_.sum() == 38
    assert len(s.centres_) <= 5
    assert s.radius_ > 0


def test_rows_whose_squares_overflow_are_refused_and_change_nothing():
    s = OnlineHarmonic(np.int64(2)).fit([[0.0], [1.0]], [0, 1])
    for call in (s.fit, s.partial_fit):
        with pytest.raises(ValueError, match="row 1 has values beyond 1e\\+150"):
            call([[0.0], [1e300]], [-1, -1])
        with pytest.raises(ValueError, match="nan"):
            call([[np.nan]], [0])
        assert s.predict([[0.1], [0.9]]).tolist() == [0, 1]


# the command


@pytest.fixture
def folder(tmp_path):
    graph, _ = two_cliques(10, 1, 1.0)
    write_edges(graph, tmp_path / "e.txt")
    return tmp_path


def run_label(folder, table, **options):
    pd.DataFrame(table).to_csv(folder / "l.csv", index=False)
    settings = {"oversampling": None, "alpha": 1.0, "hold_out": 0.0, "seed": 0, "quiet": True} | options
    label([str(folder / "e.txt")], folder / "l.csv", folder / "out.csv", **settings)
    return pd.read_csv(folder / "out.csv")


def test_the_share_is_that_of_the_label_given(folder):
    """One label against nine: the label is not always that of the largest share."""
    table = {"node": [5, *range(11, 20)], "label": ["a", *["b"] * 9]}
    found = run_label(folder, table)
    y = np.full(20, -1)
    y[5], y[11:] = 0, 1
    s = HarmonicClassifier().fit(str(folder / "e.txt"), y)
    assert found["label"].tolist() == ["ab"[code] for code in s.transduction_]
    assert (s.transduction_ != s.label_distributions_.argmax(axis=1)).any()
    np.testing.assert_allclose(found["share"], s.label_distributions_[np.arange(20), s.transduction_], atol=1e-9)


def test_rows_without_a_label_are_not_a_class(folder):
    found = run_label(folder, {"node": [0, 1, 12], "label": ["a", None, "b"]})
    assert set(found["label"]) == {"a", "b"}
    numbers = run_label(folder, {"node": [0, 1, 12], "label": [7, None, 8]})
    assert set(numbers["label"].astype(float)) == {7.0, 8.0}


def test_two_labels_for_one_node_are_refused(folder):
    with pytest.raises(ValueError, match="node 3 has two labels, 'a' and 'b'"):
        run_label(folder, {"node": [3, 3], "label": ["a", "b"]})
    assert len(run_label(folder, {"node": [3, 3, 12], "label": ["a", "a", "b"]})) == 20


def test_holding_out_leaves_a_label(folder):
    assert set(run_label(folder, {"node": [3], "label": ["a"]}, hold_out=0.9)["label"]) == {"a"}


def test_leverage_of_two_cliques_is_the_dense_formula():
    graph, _ = two_cliques(20, 3, 1e-4)
    np.testing.assert_allclose(edge_leverage(graph), dense_leverage(graph), atol=1e-7)
    assert edge_leverage(graph).sum() == pytest.approx(39)


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


def test_a_tree_of_parts_reads_small_graphs_and_last_nodes_as_they_are():
    T = nx.Graph()
    T.add_weighted_edges_from([(0, 1, 1), (1, 2, 3), (1, 3, 5)])  # three edges are no matrix of three nodes
    for graph in (T, nx.to_scipy_sparse_array(T), nx.to_numpy_array(T)):
        found = DistributedSparsifier(random_state=0).fit(graph).sparsifier_
        np.testing.assert_array_equal(found.toarray(), nx.to_numpy_array(T))
    A = np.zeros((6, 6))
    A[0, 1] = A[1, 0] = A[1, 2] = A[2, 1] = 1
    for graph in (A, sp.csr_matrix(A)):
        assert DistributedSparsifier(random_state=0).fit(graph).sparsifier_.shape == (6, 6)
    with pytest.raises(ValueError, match="an iterator cannot be read so"):
        DistributedSparsifier().fit(iter([[(0, 1)]]))
    nothing = DistributedSparsifier(ridge=1e12, n_leaves=2, random_state=0)
    assert len(nothing.fit(np.column_stack(np.triu_indices(120, 1))).sample_) == 0


def test_accuracy_is_at_least_one_however_weak_what_was_cut():
    a, b = np.triu_indices(20, 1)
    u, v, w = np.r_[a, a + 20, 0], np.r_[b, b + 20, 20], np.r_[np.ones(380), 1e-12]
    assert spectral_accuracy((u, v, w), (u[:-1], v[:-1], w[:-1])) >= 1
    assert str(spectral_accuracy(nx.complete_graph(5), nx.complete_graph(5))) == "0.0"  # not −0


@pytest.mark.filterwarnings("error")
def test_weights_of_all_sizes_have_scores_and_chances():
    u, v = np.array([0, 0, 1, 3, 3, 4, 0]), np.array([1, 2, 2, 4, 5, 5, 3])
    w = np.array([1e-30] * 3 + [1e300] * 4)
    for copies in (1, 2):
        assert len(sparsify((u, v, w), copies=copies, random_state=0)[0]) == 7
    rng = np.random.default_rng(0)
    c = np.triu_indices(12, 1)
    H = sparsify((*c, 10.0 ** rng.uniform(-300, 300, len(c[0]))), oversampling=2, random_state=0)
    assert check_edges(*H).components()[0] == 1
    assert len(sparsify((*c, np.full(len(c[0]), 1e-300)), ridge=1e10, random_state=0)[0]) == 0


def test_light_edges_keep_their_leverage():
    """Beside weights 300 decades larger the dense inverse says 0; what an edge's own ends tell is a lower bound."""
    X = np.vstack([np.random.default_rng(0).standard_normal((200, 2)), [[1000.0, 1000.0]]])
    A = knn_graph(X, 40, "global")
    upper = sp.triu(A).tocoo()
    leverage = edge_leverage(A, "exact")
    assert leverage[upper.col == 200].sum() == pytest.approx(1.0, abs=1e-6)
    assert leverage.sum() == pytest.approx(200, rel=1e-5)


def test_parameters_that_would_be_ignored_are_refused():
    K5 = nx.complete_graph(5)
    with pytest.raises(TypeError, match="sparsifier must be None, an oversampling"):
        HarmonicClassifier(sparsifier=True).fit(K5, [0, 1, -1, -1, -1])
    with pytest.raises(ValueError, match="give eps or oversampling, not both"):
        sparsify(K5, eps=0.05, oversampling=5)
    with pytest.raises(ValueError, match="eps goes with oversampling='theory'"):
        StreamSparsifier(eps=0.05).fit(K5)
