"""The listing of the stream sparsifier against a dense transcription of it, and its unbiasedness.

One setting × 92 comparisons at 5.5 standard errors (see test_sparsify).
"""

import numpy as np
import pytest

from squeak.core.seeds import SHRINK, draw_seed, generator_at
from squeak.graphs import KelnerLevin, StreamSparsifier
from squeak.graphs import sample as thinning_room
from squeak.graphs.edges import Edges
from squeak.graphs.oracle import Scoring
from squeak.samplers import squeak_oversampling
from tests.graphs.oracles import dense_laplacian, random_graph
from tests.graphs.test_sparsify import CLIQUES, biased, shuffled


def dense_listing(edges, size, copies, eps, seed):
    """Algorithm 11 over vectors of all edges: H + G_s, a·r by the pseudo-inverse, min, binomial."""
    m = len(edges)
    p, q = np.ones(m), np.zeros(m, dtype=int)
    for start in range(0, m, size):
        seen = min(start + size, m)
        q[start:seen] = copies
        stored = np.flatnonzero(q)
        H = Edges(edges.n_nodes, edges.u[stored], edges.v[stored], (edges.weights * q / (copies * p))[stored])
        P = np.linalg.pinv(dense_laplacian(H), hermitian=True)
        u, v = H.u, H.v
        tau = (1 - eps) * edges.weights[stored] * (P[u, u] + P[v, v] - 2 * P[u, v])
        new = np.minimum(p[stored], tau)
        q[stored] = generator_at(draw_seed(seed), SHRINK, seen).binomial(q[stored], new / p[stored])
        p[stored] = new
    return p, q


@pytest.mark.parametrize("size", [7, 40, 1000])
def test_it_is_the_listing(size):
    edges = shuffled(random_graph(20, 150, 0), 1)
    for seed in range(4):
        sample = KelnerLevin(5, eps=0.3, block_edges=size, random_state=seed).fit(edges).sample_
        p, q = dense_listing(edges, size, 5, 0.3, seed)
        assert np.array_equal(sample.indices, np.flatnonzero(q))
        assert np.array_equal(sample.counts, q[sample.indices])
        np.testing.assert_allclose(sample.probabilities, p[sample.indices], rtol=1e-7)


def test_blocks_handed_over_are_the_blocks_of_fit():
    edges = shuffled(random_graph(20, 150, 0), 1)
    at_once = KelnerLevin(5, block_edges=40, random_state=0).fit(edges)
    by_hand = KelnerLevin(5, random_state=0)
    for start in range(0, len(edges), 40):
        by_hand.partial_fit(edges.take(slice(start, start + 40)))
    assert by_hand.sample_ == at_once.sample_


def literal(edges, seed):
    return KelnerLevin(2, eps=0.1, block_edges=50, random_state=seed).fit(edges).sample_


def test_weights_are_unbiased_and_a_wrong_one_is_caught(monkeypatch):
    edges = shuffled(CLIQUES)
    assert not biased(literal, edges, 120).any()
    monkeypatch.setattr(
        thinning_room, "thin", lambda p, q, scores, rng: (p, rng.binomial(q, np.minimum(1.0, scores / p)))
    )
    assert biased(literal, edges, 120).any()


def test_the_theorems_number_pays_for_the_error_of_the_scores():
    theory = StreamSparsifier("theory", eps=0.5, delta=0.1, n=1000)
    theory.fit(CLIQUES)
    asked, error = squeak_oversampling(0.5, 0.1, 1000), Scoring(0.0).error
    assert theory.sample_.oversampling == pytest.approx((1 + error) / (1 - error) * asked)
    assert KelnerLevin.from_paper(0.5, 0.1, 1000, error=0.0).copies == asked
    assert KelnerLevin.from_paper(0.5, 0.1, 1000, "listing", error=0.0).copies == -(-40 * asked // 26)
    assert KelnerLevin.from_paper(0.5, 0.1, 1000).copies == int(np.ceil(1.1 / 0.9 * asked))


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"eps": 1.0}, "eps must lie below 1"),
        ({"error": 2.0}, "error must"),
        ({"block_edges": 0}, "block_edges must be a whole number"),
    ],
)
def test_bad_parameters_get_one_clear_error(params, words):
    with pytest.raises(ValueError, match=words):
        KelnerLevin(**params).fit(CLIQUES)
    with pytest.raises(ValueError, match="constant must be one of theorem, listing"):
        KelnerLevin.from_paper(0.5, 0.1, 10, "guess")
