"""Accuracy is the dense norm, weights are unbiased, components stay whole.

Family of the statistical tests: 6 settings × (90 edges and their total) at 5.5 standard errors (two-sided 4e-8:
family-wise about 2e-5) and 1,200 chances of drawing by node (5e-5), plus an allowance for outcomes too rare to be
seen (see tests/samplers/test_unbiased.py).
"""

import subprocess
import sys
import tracemalloc
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

import squeak
from squeak.core import storage
from squeak.graphs import (
    DistributedSparsifier,
    HarmonicClassifier,
    OnlineSparsifier,
    StreamSparsifier,
    edge_leverage,
    knn_graph,
    sparsifier_report,
    sparsify,
    spectral_accuracy,
)
from squeak.graphs import accuracy as accuracy_room
from squeak.graphs import sample as thinning_room
from squeak.graphs import state as state_room
from squeak.graphs.base import Sparsifier, make_plan
from squeak.graphs.edges import best_forest, check_edges, merged, spanned_alike
from squeak.graphs.sample import EdgeSample
from squeak.graphs.sparsifying import sample_edges
from tests.graphs.oracles import COMPLETE, dense_accuracy, dense_laplacian, random_graph

RUNS = 500
ERRORS = 5.5
UNSEEN = 20

CLIQUES = merged(
    check_edges(
        np.concatenate([np.triu_indices(10, 1)[0] + 10 * c for c in range(2)] + [[3]]),
        np.concatenate([np.triu_indices(10, 1)[1] + 10 * c for c in range(2)] + [[14]]),
        np.concatenate([np.linspace(0.5, 2, 45), np.linspace(2, 0.1, 45), [0.2]]),
    )
)
"""Two cliques of unequal weights, joined by one weak edge."""


@pytest.fixture
def small(monkeypatch):
    """Score samples from 25 edges on, so that 91 edges pass several scorings."""
    monkeypatch.setattr(state_room, "FIRST", 25)
    monkeypatch.setattr(state_room.StreamState, "_first_size", lambda self, nodes: 25)


def shuffled(graph, seed=0):
    return graph.take(np.random.default_rng(seed).permutation(len(graph)))


def weights_of(sample, m):
    weights = np.zeros(m)
    np.add.at(weights, sample.indices, sample.weights)
    return weights


def stream(edges, seed, cls=StreamSparsifier, **params):
    settings = {"oversampling": 2.0, "n_nodes": 20, "random_state": seed} | params
    return cls(**settings).fit(edges).sample_


def biased(make, edges, runs=RUNS):
    weights = np.array([weights_of(make(edges, seed), len(edges)) / edges.weights for seed in range(runs)])
    assert (weights > 0).mean() < 0.9  # edges are dropped at all
    mean, error = weights.mean(axis=0), weights.std(axis=0) / np.sqrt(runs)
    totals = weights.sum(axis=1)
    total = abs(totals.mean() - len(edges)) > ERRORS * totals.std() / np.sqrt(runs)
    return np.append(np.abs(mean - 1) > ERRORS * error + UNSEEN / runs, total)


SETTINGS = {
    "one coin": {},
    "copies": {"copies": 4, "oversampling": 4.0},
    "ridge": {"ridge": 2.0, "oversampling": 3.0},
    "online": {"cls": OnlineSparsifier},
    "online, copies": {"cls": OnlineSparsifier, "copies": 3},
}


SLOW = ("copies", "ridge", "online, copies")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in SETTINGS]
)
def test_weights_are_unbiased_for_every_edge(name, small):
    """So E[L_H] = L, for L is linear in the weights."""
    edges = shuffled(CLIQUES)
    assert not biased(lambda e, seed: stream(e, seed, **SETTINGS[name]), edges).any()


def test_storing_the_acceptance_ratio_is_caught(small, monkeypatch):
    def confused(p, q, scores, rng):
        lowered = np.minimum(p, scores)
        return lowered / p, rng.binomial(q, lowered / p)

    monkeypatch.setattr(thinning_room, "thin", confused)
    assert biased(lambda e, seed: stream(e, seed, copies=2), shuffled(CLIQUES), 300).any()


def test_nodes_that_begin_their_draws_at_one_place_are_caught(small, monkeypatch):
    """The twin: without a random start, edges of small chances are never under a mark."""
    real = thinning_room.drawn_by_node

    class Fixed:
        def __init__(self, rng):
            self.uniform, self.permutation = rng.uniform, rng.permutation

        def random(self, n):
            return np.full(n, 0.5)

    monkeypatch.setattr(thinning_room, "drawn_by_node", lambda e, chances, rng: real(e, chances, Fixed(rng)))
    assert biased(stream, shuffled(CLIQUES), 300).any()


def test_a_node_keeps_as_many_of_its_edges_as_it_should():
    """Exactly so where one end owns them all; every edge as often as its chance says."""
    pairs = check_edges(np.repeat(np.arange(100), 12), np.tile(np.arange(100, 112), 100))
    chances = np.random.default_rng(0).uniform(0.0, 0.4, size=len(pairs))
    owned = np.bincount(pairs.u, chances)
    times = np.zeros(len(pairs))
    for seed in range(2000):
        kept = thinning_room.drawn_by_node(pairs, chances, np.random.default_rng(seed))
        times += kept
        assert np.abs(np.bincount(pairs.u[kept], minlength=100) - owned).max() < 1
    error = np.sqrt(2000 * chances * (1 - chances))
    assert (np.abs(times - 2000 * chances) <= 5.5 * error + UNSEEN).all()


def test_certain_edges_stay_and_impossible_ones_go():
    pairs = random_graph(50, 600, 0)
    chances = np.random.default_rng(0).choice([0.0, 0.3, 1.0], size=len(pairs))
    for seed in range(50):
        kept = thinning_room.drawn_by_node(pairs, chances, np.random.default_rng(seed))
        assert kept[chances == 1.0].all()
        assert not kept[chances == 0.0].any()


def test_drawing_by_node_is_more_accurate_than_coins_of_their_own():
    graph = random_graph(300, 20_000, 0)
    plan = make_plan(Sparsifier(10.0, connected=True))
    scores = edge_leverage(graph)
    found = {
        independent: np.mean(
            [
                spectral_accuracy(
                    graph, sample_edges(graph, scores, replace(plan, independent=independent), s).graph
                )
                for s in range(8)
            ]
        )
        for independent in (False, True)
    }
    assert found[False] < 0.92 * found[True]
    theory = {"oversampling": "theory", "eps": 0.9, "delta": 0.5, "n": len(graph)}
    assert make_plan(StreamSparsifier(**theory)).independent  # the theorem's coins are independent
    assert not make_plan(StreamSparsifier()).independent


def test_repairing_the_forest_after_the_draw_is_caught(small, monkeypatch):
    """The twin: put the forest back with its old probability when the coins have dropped it."""
    real = thinning_room.thinned

    def repaired(sample, scores, seed, *place, connected, independent):
        left = real(sample, scores, seed, *place, connected=False)
        forest = best_forest(sample.atoms, scores)
        missing = np.flatnonzero(forest & ~np.isin(sample.indices, left.indices))
        p = np.minimum(sample.probabilities, thinning_room.keep_probability(scores, sample.oversampling, 1))
        both = np.concatenate([np.searchsorted(sample.indices, left.indices), missing])
        order = np.argsort(both)
        return sample.take(both[order], p[both][order], np.ones(len(both), dtype=np.int64))

    monkeypatch.setattr(thinning_room, "thinned", repaired)
    monkeypatch.setattr(state_room, "shrink", thinning_room.shrink)
    assert biased(stream, shuffled(CLIQUES), 400).any()


@pytest.mark.parametrize("cls", [StreamSparsifier, OnlineSparsifier])
@pytest.mark.parametrize("copies", [1, 3])
def test_one_edge_at_a_time_is_many_at_once(cls, copies, small):
    edges = shuffled(random_graph(30, 300, 1))
    many = cls(oversampling=3, copies=copies, random_state=5).fit(edges).sample_
    for cuts in (range(1, len(edges)), [7, 100, 101]):
        one = cls(oversampling=3, copies=copies, random_state=5)
        for part in np.split(np.arange(len(edges)), cuts):
            block = edges.take(part)
            one.partial_fit((block.u, block.v, block.weights))
        assert np.array_equal(one.sample_.indices, many.indices)
        assert np.array_equal(one.sample_.counts, many.counts)
        np.testing.assert_allclose(one.sample_.weights, many.weights, rtol=1e-10)


def test_looking_at_the_result_changes_nothing(small):
    edges = shuffled(random_graph(30, 400, 1))
    s = StreamSparsifier(oversampling=3, random_state=0)
    for part in np.array_split(np.arange(len(edges)), 9):
        block = edges.take(part)
        s.partial_fit((block.u, block.v, block.weights))
        _ = s.sparsifier_
    assert s.sample_ == StreamSparsifier(oversampling=3, random_state=0).fit(edges).sample_


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["tree", "pieces", "cliques"])
@pytest.mark.parametrize("oversampling", [0.1, 3.0])
def test_components_stay_whole_and_trees_keep_their_edges(kind, oversampling, seed, small):
    graph = {
        "tree": merged(check_edges(np.arange(1, 200), np.arange(1, 200) // 3, np.linspace(1e-3, 1e3, 199))),
        "pieces": random_graph(200, 260, seed),
        "cliques": CLIQUES,
    }[kind]
    for cls in (StreamSparsifier, OnlineSparsifier):
        s = cls(oversampling=oversampling, n_nodes=graph.n_nodes, random_state=seed).fit(shuffled(graph, seed))
        assert spanned_alike(graph, s.sample_.graph)
        assert s.n_components_ == graph.components()[0]
    H = sparsify(graph, oversampling=oversampling, copies=3, random_state=seed)
    assert spanned_alike(graph, H)
    if kind == "tree":
        np.testing.assert_allclose(H.weights, graph.weights)


def test_without_the_forest_a_cut_is_reported(small):
    cut = [sparsify(CLIQUES, oversampling=0.3, connected=False, random_state=seed) for seed in range(5)]
    reports = [sparsifier_report(CLIQUES, H) for H in cut]
    assert any(not report.same_components for report in reports)
    assert all(report.accuracy >= 1 - 1e-9 for report in reports if not report.same_components)


@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(4))
def test_accuracy_is_the_dense_norm_both_ways(seed, ridge, monkeypatch):
    graph = random_graph(70, 400, seed)
    H = sparsify(graph, oversampling=3, random_state=seed)
    exact = dense_accuracy(graph, H, ridge)
    assert spectral_accuracy(graph, H, ridge) == pytest.approx(exact, rel=1e-7)
    monkeypatch.setattr(accuracy_room, "DENSE", 1)
    assert spectral_accuracy(graph, H, ridge, tol=1e-6) == pytest.approx(exact, rel=1e-3)


def test_the_sandwich_holds_at_the_measured_accuracy_and_not_below(monkeypatch):
    graph = random_graph(60, 500, 3)
    H = sparsify(graph, oversampling=4, random_state=0)
    L, M = dense_laplacian(graph), dense_laplacian(H)
    eps = spectral_accuracy(graph, H)

    def holds(e):
        return min(np.linalg.eigvalsh(M - (1 - e) * L)[0], np.linalg.eigvalsh((1 + e) * L - M)[0]) > -1e-9

    assert holds(1.0001 * eps)
    assert not holds(0.99 * eps)


def test_accuracy_of_the_graph_itself_is_zero_and_joining_components_is_infinite():
    graph = random_graph(40, 30, 0)
    assert spectral_accuracy(graph, graph) < 1e-10
    joined = check_edges(np.append(graph.u, 0), np.append(graph.v, 39), np.append(graph.weights, 1.0), 40)
    if graph.components()[1][0] != graph.components()[1][39]:
        assert spectral_accuracy(graph, joined) == np.inf
    assert spectral_accuracy(graph, joined, ridge=1.0) < 10


def test_one_coin_is_more_accurate_than_copies_at_equal_size():
    graph = random_graph(300, 20_000, 0)
    coin, copies = [], []
    for seed in range(5):
        H = sparsify(graph, oversampling=10, random_state=seed)
        coin.append(spectral_accuracy(graph, H) * np.sqrt(len(H)))
        H = sparsify(graph, oversampling=10, copies=10, random_state=seed)
        copies.append(spectral_accuracy(graph, H) * np.sqrt(len(H)))
    assert np.mean(coin) < 0.97 * np.mean(copies)


def test_an_eps_that_is_asked_for_is_nearly_met():
    graph = random_graph(300, 20_000, 0)
    for eps in (0.3, 0.6):
        H = sparsify(graph, eps=eps, random_state=0)
        assert 0.5 * eps < spectral_accuracy(graph, H) < 1.1 * eps


def test_streams_are_as_accurate_as_batches():
    graph = shuffled(random_graph(300, 40_000, 0))
    batch = sparsify(graph, oversampling=20, random_state=0)
    for cls, most in ((StreamSparsifier, 1.3), (OnlineSparsifier, 3.0)):
        H = cls(oversampling=20, n_nodes=300, random_state=0).fit(graph).sample_.graph
        assert len(H) < most * len(batch)
        assert spectral_accuracy(graph, H) < 1.5 * spectral_accuracy(graph, batch)


def test_smoothing_on_a_sparsifier_keeps_the_bound():
    """‖f̃ − f̂‖² ≤ ε²/(1 − ε)·yᵀf̂ with the measured ε at ridge 1/λ (spec B, section 8)."""
    graph = random_graph(100, 2000, 0)
    y = np.random.default_rng(0).standard_normal(100)
    for smoothing in (0.01, 0.3):
        H = sparsify(graph, oversampling=8, ridge=1 / smoothing, random_state=0)
        eps = spectral_accuracy(graph, H, ridge=1 / smoothing)
        f = np.linalg.solve(np.eye(100) + smoothing * dense_laplacian(graph), y)
        g = np.linalg.solve(np.eye(100) + smoothing * dense_laplacian(H), y)
        assert 0 < ((f - g) ** 2).sum() <= eps**2 / (1 - eps) * (y @ f)


def test_a_ridge_leaves_fewer_edges():
    graph = random_graph(200, 8000, 0)
    sizes = [len(sparsify(graph, oversampling=5, ridge=ridge, random_state=0)) for ridge in (0.0, 100.0, 1000.0)]
    assert sizes[0] > 1.2 * sizes[1] > 1.5 * sizes[2]


def test_a_sample_is_saved_and_loaded(small, tmp_path):
    sample = stream(shuffled(CLIQUES), 0, copies=2)
    sample.save(tmp_path / "h.sqk")
    assert EdgeSample.load(tmp_path / "h.sqk") == sample
    assert isinstance(squeak.load(tmp_path / "h.sqk"), EdgeSample)


@pytest.mark.slow
def test_a_new_process_loads_a_sample(small, tmp_path):
    stream(shuffled(CLIQUES), 0).save(tmp_path / "h.sqk")
    code = f"import squeak; print(type(squeak.load(r'{tmp_path / 'h.sqk'}')).__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "EdgeSample"


@pytest.mark.parametrize("name", ["u", "probabilities", "counts", "original"])
def test_a_damaged_sample_is_refused(name, small, tmp_path):
    arrays, content = stream(shuffled(CLIQUES), 0).to_parts()
    arrays[name] = arrays[name].copy()
    arrays[name][0] = -5
    storage.write(tmp_path / "bad.sqk", "edges", arrays, content)
    with pytest.raises(storage.StorageError, match="content is damaged"):
        EdgeSample.load(tmp_path / "bad.sqk")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"oversampling": 0}, "oversampling must be positive"),
        ({"oversampling": "much"}, "'theory' with eps"),
        ({"ridge": -1}, "ridge must lie between 0"),
        ({"copies": 0}, "copies must be"),
        ({"n_nodes": 0}, "n_nodes must be"),
        ({"random_state": "x"}, "random_state"),
    ],
)
def test_bad_parameters_get_one_clear_error(params, message):
    with pytest.raises((ValueError, TypeError), match=message):
        StreamSparsifier(**params).fit(CLIQUES)
    with pytest.raises(ValueError, match="eps must lie"):
        sparsify(CLIQUES, eps=2.0)


def test_theory_keeps_everything_of_a_small_graph():
    s = StreamSparsifier(oversampling="theory", eps=0.5, delta=0.1, n=91, random_state=0).fit(CLIQUES)
    assert s.sample_.exact
    assert (
        sparsify(CLIQUES, eps=0.5, oversampling="theory", random_state=0).weights.tolist()
        == CLIQUES.weights.tolist()
    )


def test_a_row_far_from_all_others_can_be_in_a_graph():
    X = np.vstack([np.random.default_rng(0).standard_normal((200, 2)), [[1000.0, 1000.0]]])
    s = StreamSparsifier(2.0, random_state=0).fit(knn_graph(X, 40, "global"))
    assert s.n_components_ == 1


def test_weights_that_would_overflow_are_refused():
    with pytest.raises(ValueError, match="edge 0 has weight 1e\\+308"):
        sparsify(([0], [1], [1e308]))


def test_a_result_at_a_scoring_is_not_thinned_with_the_same_coins(monkeypatch):
    """Each look after one more edge: where the sample was thinned at that edge, it is the result."""
    monkeypatch.setattr(state_room, "FIRST", 25)
    monkeypatch.setattr(state_room.StreamState, "_first_size", lambda self, nodes: 25)
    graph = random_graph(30, 400, 1)
    plan = make_plan(StreamSparsifier(3.0))
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


def test_parameters_that_would_be_ignored_are_refused():
    K5 = nx.complete_graph(5)
    with pytest.raises(TypeError, match="sparsifier must be None, an oversampling"):
        HarmonicClassifier(sparsifier=True).fit(K5, [0, 1, -1, -1, -1])
    with pytest.raises(ValueError, match="give eps or oversampling, not both"):
        sparsify(K5, eps=0.05, oversampling=5)
    with pytest.raises(ValueError, match="eps goes with oversampling='theory'"):
        StreamSparsifier(eps=0.05).fit(K5)


def test_a_sample_of_impossibly_many_nodes_is_refused(tmp_path):
    arrays, content = StreamSparsifier(random_state=0).fit(COMPLETE).sample_.to_parts()
    storage.write(tmp_path / "bad.sqk", "edges", arrays, {**content, "n_nodes": 10**15})
    with pytest.raises(storage.StorageError, match="content is damaged"):
        EdgeSample.load(tmp_path / "bad.sqk")


@pytest.mark.parametrize("ridge", [0.0, 2.0])
def test_nodes_without_edges_cost_nothing(ridge, tmp_path):
    sample = StreamSparsifier(ridge=ridge, random_state=0).fit(COMPLETE).sample_
    replace(sample, n_nodes=sample.n_nodes + 2 * 10**9).save(tmp_path / "wide.sqk")
    tracemalloc.start()
    try:
        wide = EdgeSample.load(tmp_path / "wide.sqk")
        assert wide.effective_dimension() == pytest.approx(sample.effective_dimension(), rel=1e-12)
        assert wide.n_components == sample.graph.components()[0] + 2 * 10**9
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()
