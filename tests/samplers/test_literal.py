"""Samplers by the letter: given probabilities, and SQUEAK's listing against a dense transcription of it.

Unbiasedness: 4 settings × 29 comparisons at 5.5 standard errors, family-wise below 1e-4 (see test_unbiased).
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from squeak.core.kernels import gram
from squeak.core.seeds import SAMPLE, draw_seed, generator_at
from squeak.kernels import RBF, Linear
from squeak.leverage import accuracy, exact_leverage_scores
from squeak.samplers import BinomialNystrom, Bless, LiteralSqueak, Tree, squeak_oversampling
from squeak.samplers import literal as literal_room
from tests.oracles import dense_estimate, dense_scores
from tests.samplers.test_unbiased import biased

KERNEL = RBF(1.0)


@pytest.fixture(scope="module")
def few():
    rng = np.random.default_rng(7)
    centres = 2 * rng.standard_normal((4, 2))
    rows = centres[rng.choice(4, 28, p=[0.6, 0.25, 0.1, 0.05])] + 0.4 * rng.standard_normal((28, 2))
    rows[19] = [9.0, -9.0]
    return rows


def learn(make, X, seed):
    return make(random_state=seed).fit(X).dictionary_


CHANCES = np.linspace(0.05, 0.9, 28)
UNBIASED = {
    "given probabilities": partial(BinomialNystrom, KERNEL, 3, probabilities=CHANCES),
    "exact scores": partial(BinomialNystrom, KERNEL, 3, probabilities=lambda X: dense_scores(KERNEL(X), 0.5)),
    "literal": partial(LiteralSqueak, KERNEL, 0.5, copies=2, eps=0.2, leaf_rows=10),
    "literal, over": partial(
        LiteralSqueak, KERNEL, 0.5, copies=2, eps=0.1, leaf_rows=10, tree="balanced", estimates="over", clip=True
    ),
}


@pytest.mark.parametrize("name", UNBIASED)
def test_weights_are_unbiased(name, few):
    assert not biased(partial(learn, UNBIASED[name]), few, 250).any()


def test_counts_are_binomial_with_the_probabilities_given(few):
    counts = np.zeros(28)
    for seed in range(300):
        d = learn(UNBIASED["given probabilities"], few, seed)
        assert np.array_equal(d.probabilities, CHANCES[d.indices])
        counts[d.indices] += d.counts
    error = np.sqrt(3 * CHANCES * (1 - CHANCES) / 300)
    assert (np.abs(counts / 300 - 3 * CHANCES) < 5 * error).all()


def test_weights_with_another_probability_are_caught(few):
    def learn_wrong(X, seed):
        d = learn(UNBIASED["given probabilities"], X, seed)
        return replace(d, probabilities=np.minimum(1.0, 1.2 * d.probabilities))

    assert biased(learn_wrong, few, 250).any()


def test_a_probability_that_is_not_lowered_is_caught(few, monkeypatch):
    """The twin: coins are thinned by p'/p, and p stays as it was."""
    monkeypatch.setattr(
        literal_room, "thin", lambda p, counts, scores, rng: (p, rng.binomial(counts, np.minimum(1.0, scores / p)))
    )
    assert biased(partial(learn, UNBIASED["literal"]), few, 250).any()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.ones(3), "28 numbers above 0"),
        (np.zeros(28), "above 0"),
        (np.full(28, 1.5), "at most 1"),
        (np.full(28, np.nan), "above 0"),
        ("diagonal", "must be numbers"),
    ],
)
def test_probabilities_that_are_none_are_refused(few, given, words):
    with pytest.raises((ValueError, TypeError), match=words):
        BinomialNystrom(KERNEL, 3, probabilities=given).fit(few)


def dense_listing(K, leaves, merges, copies, eps, ridge, seed, *, update=False, over=False, clip=False):
    """Algorithm 10 over n-vectors: p = 1 and q = q̄ at leaves; at every merge equation 3.5, minimum, binomial."""
    n = len(K)
    nodes = []
    for rows in leaves:
        p, q = np.ones(n), np.zeros(n, dtype=int)
        q[rows] = copies
        nodes.append((p, q, np.isin(np.arange(n), rows)))
    for number, children in enumerate(merges, start=len(leaves)):
        p, q, seen = np.ones(n), np.zeros(n, dtype=int), np.zeros(n, dtype=bool)
        for child in children:  # EXPAND: the children share no row
            cp, cq, cs = nodes[child]
            p, q, seen = np.where(cs, cp, p), q + cq, seen | cs
        j = 1 if update else 2
        tau = dense_estimate(K, q / (copies * p), (1 + (j - 1) * eps) * ridge, 1 - eps)
        if over:
            tau = (1 + (2 * j - 1) * eps) / (1 - eps) * tau
        if clip:
            tau = np.maximum(tau, np.diag(K) / (np.diag(K)[seen].sum() + ridge))
        new = np.minimum(np.minimum(tau, 1.0), p)
        stored = np.flatnonzero(q)
        rng = generator_at(draw_seed(seed), SAMPLE, number)
        q = q.copy()
        q[stored] = rng.binomial(q[stored], new[stored] / p[stored])  # SHRINK
        p[stored] = new[stored]
        nodes.append((p, q, seen))
    return nodes[-1][:2]


SHAPES = {
    "row by row": ({"leaf_rows": 1}, {}),
    "blocks": ({"leaf_rows": 5}, {}),
    "balanced": ({"leaf_rows": 4, "tree": "balanced"}, {}),
    "a tree": ({"leaf_rows": 10, "tree": ((2, 0), (1, 3))}, {}),
    "over-estimates": ({"leaf_rows": 4, "estimates": "over"}, {"over": True}),
    "clipped": ({"leaf_rows": 4, "clip": True}, {"clip": True}),
    "the conference's": ({"leaf_rows": 3, "paper": "aistats"}, {"update": True}),
    "the conference's, over": (
        {"leaf_rows": 3, "paper": "aistats", "estimates": "over"},
        {"update": True, "over": True},
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_it_is_the_listing(name):
    X = np.random.default_rng(3).standard_normal((40, 2)) * [1.0, 2.0]
    params, form = SHAPES[name]
    kernel = Linear() * RBF(2.0)  # its diagonal is not constant
    for seed in range(6):
        s = LiteralSqueak(kernel, 0.5, copies=4, eps=0.3, random_state=seed, **params).fit(X)
        size = params["leaf_rows"]
        leaves = [np.arange(start, min(start + size, 40)) for start in range(0, 40, size)]
        k, merges = len(leaves), s.tree_.merges
        if form.get("update"):
            merges = [(0,), *((k + i - 1, i) for i in range(1, k))]
        p, q = dense_listing(gram(kernel, X), leaves, merges, 4, 0.3, 0.5, seed, **form)
        d = s.dictionary_
        assert np.array_equal(d.indices, np.flatnonzero(q))
        assert np.array_equal(d.counts, q[d.indices])
        np.testing.assert_allclose(d.probabilities, p[d.indices], rtol=1e-7)


def test_over_estimates_lie_above_the_scores_at_the_measured_accuracy():
    """Section 3.3.4: at the last merge τ ≤ ρ·τ̃, with the measured accuracy for ε; under-estimates lie below."""
    X = np.random.default_rng(0).standard_normal((200, 2))
    exact = exact_leverage_scores(X, KERNEL, 1.0)
    found = {}
    for estimates in ("under", "over"):
        make = partial(LiteralSqueak, KERNEL, 1.0, copies=250, eps=0.4, leaf_rows=40, estimates=estimates)
        d = found[estimates] = learn(make, X, 0)
        assert accuracy(d, X) < 0.4
    assert (found["under"].probabilities <= exact[found["under"].indices]).all()
    assert (found["over"].probabilities >= np.minimum(exact, 1)[found["over"].indices] * (1 - 1e-9)).all()


def test_one_leaf_is_all_rows_and_the_constants_are_the_papers():
    X = np.random.default_rng(0).standard_normal((12, 2))
    assert len(LiteralSqueak(KERNEL, 1.0, leaf_rows=12, random_state=0).fit(X).dictionary_) == 12
    assert LiteralSqueak.from_paper(0.5, 0.1, 1000).copies == squeak_oversampling(0.5, 0.1, 1000) == 5361
    assert LiteralSqueak.from_paper(0.5, 0.1, 1000, paper="aistats").copies == 4635
    assert LiteralSqueak.from_paper(0.5, 0.1, 1000, paper="aistats", tree="balanced").copies == 7725


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"eps": 1.0}, "eps must lie below 1"),
        ({"eps": -0.1}, "eps must"),
        ({"leaf_rows": 0}, "leaf_rows must be a whole number"),
        ({"paper": "icml"}, "paper must be one of thesis, aistats"),
        ({"estimates": "both"}, "estimates must be one of under, over"),
        ({"tree": "random"}, "tree must be"),
        ({"tree": Tree((0, 1))}, "2 leaves, the data 28 parts"),
    ],
)
def test_bad_parameters_get_one_clear_error(few, params, words):
    with pytest.raises(ValueError, match=words):
        LiteralSqueak(KERNEL, 1.0, **params).fit(few)


def test_bless_looks_at_as_many_candidates_as_its_theorem_asks_for():
    """q₁ ≥ 5·q₂/(q(1 + t)), which is more than q₂ for small t and q; R = q₁·n·κ²/γ at the first ridge."""
    X = np.random.default_rng(0).standard_normal((3000, 2))
    for eps, factor in ((0.25, 2.0), (0.9, 5 / 3.8)):
        s = Bless(RBF(1.0), 3000.0 / 2, oversampling="theory", eps=eps, delta=0.1, n=3000, random_state=0)
        asked = s._asked(replace(s._make_plan(X, RBF(1.0)), oversampling=100.0))
        assert asked == pytest.approx(100 * factor)
    assert (
        Bless(RBF(1.0), 10.0, oversampling=7.0)._asked(replace(s._make_plan(X, RBF(1.0)), oversampling=7.0)) == 7.0
    )
