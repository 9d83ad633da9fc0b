"""A sample of edges and what is computed from it: properties, joining, owners, files that do not fit together."""

from dataclasses import replace

import numpy as np
import pytest

from squeak.core import storage
from squeak.graphs import OnlineSparsifier, StreamSparsifier
from squeak.graphs import sample as room
from squeak.graphs.edges import check_edges
from squeak.graphs.sample import EdgeSample, joined
from tests.graphs.oracles import dense_laplacian, random_graph

GRAPH = random_graph(20, 150, 0)


@pytest.fixture
def sample():
    """100 edges of two coins each, some of them with one coin left and p = ½ or ¼."""
    rng = np.random.default_rng(0)
    return EdgeSample(
        20,
        GRAPH.u,
        GRAPH.v,
        GRAPH.weights,
        rng.choice([0.25, 0.5, 1.0], size=len(GRAPH)),
        rng.integers(1, 3, size=len(GRAPH)),
        copies=2,
        oversampling=3.0,
        ridge=0.5,
        n_seen=len(GRAPH),
        indices=np.arange(len(GRAPH)),
    )


def test_weights_and_dimension_are_the_formulas(sample):
    expected = sample.original * sample.counts / (2 * sample.probabilities)
    np.testing.assert_allclose(sample.weights, expected, rtol=1e-14)
    L = dense_laplacian(sample.graph)
    d_eff = np.trace(np.linalg.solve(L + 0.5 * np.eye(20), L))
    assert sample.effective_dimension() == pytest.approx(d_eff, rel=1e-9)
    assert replace(sample, ridge=0.0).effective_dimension() == 19.0
    assert np.array_equal(sample.source_numbers, np.zeros(len(sample)))


def test_a_sample_is_exact_where_every_edge_is_there_with_its_weight(sample):
    whole = replace(sample, probabilities=np.ones(len(sample)))
    assert whole.exact
    assert not sample.exact
    assert not replace(whole, n_seen=len(sample) + 1).exact


def test_samples_are_equal_in_everything_or_not(sample):
    assert sample == replace(sample)
    for change in ({"n_seen": 999}, {"counts": 3 - sample.counts}, {"sources": (("other", 0),)}, {"ridge": 1.0}):
        assert sample != replace(sample, **change)
    assert sample != "sample"


def test_samples_are_joined_with_their_sources_or_as_parts_of_one(sample):
    parts = [
        replace(sample, sources=(("a", 60), ("b", 40)), source_numbers=np.arange(100) % 2, ridge=0.25),
        replace(sample, sources=(("c", 100),), n_seen=120),
    ]
    found = joined(parts, 25)
    assert (found.n_nodes, found.n_seen, found.ridge) == (25, 220, 0.5)
    assert found.sources == (("a", 60), ("b", 40), ("c", 100))
    assert np.array_equal(found.source_numbers, np.append(np.arange(100) % 2, np.full(100, 2)))
    for name in ("u", "v", "original", "probabilities", "counts", "indices"):
        assert np.array_equal(getattr(found, name), np.tile(getattr(sample, name), 2))
    one = joined(parts, 25, (("all", 400),))
    assert (one.sources, one.n_seen) == ((("all", 400),), 400)
    assert not one.source_numbers.any()


def test_an_edge_belongs_to_the_end_that_keeps_fewer_and_by_lot_where_they_are_alike():
    star = check_edges(np.zeros(9, dtype=int), np.arange(1, 10))
    order, owners = room._in_turns(star, np.full(9, 0.5), np.random.default_rng(0))
    assert np.array_equal(owners, star.v[order])
    assert np.array_equal(np.sort(order), np.arange(9))
    pairs = check_edges(np.arange(0, 400, 2), np.arange(1, 400, 2))  # both ends of each keep one edge
    order, owners = room._in_turns(pairs, np.full(200, 0.5), np.random.default_rng(0))
    assert 60 < np.count_nonzero(owners == pairs.u[order]) < 140  # outside by chance: less than 1e-7
    chances = np.where(np.arange(3) == 0, 0.1, 0.5)  # node 1 expects .6 edges, node 2 expects 1: not alike
    path = check_edges([0, 1, 2], [1, 2, 3])
    for seed in range(20):
        order, owners = room._in_turns(path, chances, np.random.default_rng(seed))
        assert owners[order == 1].item() == 1


DAMAGES = {
    "an edge backwards": lambda a: a["u"].__setitem__(0, a["v"][0]),
    "a node too many": lambda a: a["v"].__setitem__(0, 20),
    "a source that is not there": lambda a: a["source_numbers"].__setitem__(0, 1),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_one_edge_that_does_not_fit_is_refused(damage, sample, tmp_path):
    arrays, content = sample.to_parts()
    arrays = {name: array.copy() for name, array in arrays.items()}
    storage.write(tmp_path / "good.sqk", "edges", arrays, content)
    assert EdgeSample.load(tmp_path / "good.sqk") == sample
    DAMAGES[damage](arrays)
    storage.write(tmp_path / "bad.sqk", "edges", arrays, content)
    with pytest.raises(storage.StorageError, match="its edges are not those of a sample"):
        EdgeSample.load(tmp_path / "bad.sqk")


def test_more_edges_than_were_seen_are_refused(sample, tmp_path):
    arrays, content = sample.to_parts()
    storage.write(tmp_path / "bad.sqk", "edges", arrays, {**content, "n_seen": 99})
    with pytest.raises(storage.StorageError, match="more edges than were seen"):
        EdgeSample.load(tmp_path / "bad.sqk")


@pytest.mark.parametrize("cls", [StreamSparsifier, OnlineSparsifier])
def test_a_stream_returns_itself_counts_its_edges_and_forgets_at_fit(cls):
    s = cls(4.0, random_state=0)
    assert s.fit(GRAPH) is s
    assert s.n_seen_ == len(GRAPH)
    assert s.partial_fit(GRAPH.take(slice(0, 10))) is s
    assert s.n_seen_ == len(GRAPH) + 10
    first = s.fit(GRAPH).sample_
    assert s.n_seen_ == len(GRAPH)
    again = type(s).from_parts(*s.to_parts())
    assert type(again) is cls
    assert again.sample_ == first
    with pytest.raises(ValueError, match="there are no edges"):
        s.fit(iter([]))
    assert s.sample_ == first


def test_only_the_stream_that_drops_scores_its_edges_again():
    complete = check_edges(*np.triu_indices(60, 1))
    dropping, online = (cls(2.0, random_state=0).fit(complete) for cls in (StreamSparsifier, OnlineSparsifier))
    assert len(dropping.sample_) < 0.8 * len(online.sample_)
