"""Weights are unbiased for every row, and their tails are those of a martingale.

Family of tests: 11 settings × (28 rows and their total). A row's mean weight over RUNS runs is compared with 1 at
5.5 standard errors (two-sided normal tail 4e-8, so family-wise about 2e-5), plus an allowance for outcomes too rare
to have been seen: a row that is kept in nearly every run has a weight just above 1 until the run that drops it.
The mean of the total weight is compared with the number of rows likewise. The mutated twins are at the end.
"""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from squeak import Dictionary, Kors, Squeak, merge
from squeak.core import screening as screening_room
from squeak.kernels import RBF
from squeak.samplers import shrinking as shrink_room
from squeak.samplers import squeak as squeak_room
from squeak.samplers import stream as stream_room
from squeak.samplers import stream_state as state_room

RUNS = 2000
ERRORS = 5.5
UNSEEN = 20
"""An outcome of probability UNSEEN/runs stays unseen in all runs with probability e⁻²⁰: its absence is no alarm."""


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(7)
    centres = 2 * rng.standard_normal((4, 2))
    rows = centres[rng.choice(4, 28, p=[0.6, 0.25, 0.1, 0.05])] + 0.4 * rng.standard_normal((28, 2))
    rows[19] = [9.0, -9.0]
    return rows


@pytest.fixture(autouse=True)
def small_shrinks(monkeypatch):
    """Shrink from 8 atoms on and screen in stages from 2 on, so that 28 rows pass several of both."""
    monkeypatch.setattr(squeak_room, "SMALLEST", 8)
    monkeypatch.setattr(screening_room, "FIRST_STAGE", 2)


def mean_weights(make, X, runs=RUNS):
    """Return each row's mean weight and its standard error over runs with seeds 0, 1, 2, …"""
    weights = np.zeros((runs, len(X)))
    for seed in range(runs):
        d = make(X, seed)
        weights[seed, d.positions] = d.weights
    return weights.mean(axis=0), weights.std(axis=0) / np.sqrt(runs), weights


def biased(make, X, runs=RUNS):
    mean, error, weights = mean_weights(make, X, runs)
    assert (weights > 0).mean() < 0.85  # rows are dropped at all
    totals = weights.sum(axis=1)
    total = abs(totals.mean() - len(X)) > ERRORS * totals.std() / np.sqrt(runs)
    return np.append(np.abs(mean - 1) > ERRORS * error + UNSEEN / runs, total)


def stream(X, seed, cls=Squeak, **params):
    settings = {"kernel": RBF(1.0), "ridge": 0.5, "oversampling": 3.0, "random_state": seed} | params
    return cls(**settings).fit(X).dictionary_


def growing(n):
    return 0.3 + 0.02 * n


SETTINGS = {
    "one coin": {},
    "copies": {"copies": 3},
    "growing ridge": {"ridge": growing},
    "growing ridge, copies": {"ridge": growing, "copies": 3},
    "max_atoms": {"max_atoms": 10, "ridge": 0.1, "oversampling": 4.0},
    "max_atoms, copies": {"max_atoms": 10, "ridge": 0.1, "copies": 4, "oversampling": 4.0},
    "kors": {"cls": Kors},
    "kors, copies": {"cls": Kors, "copies": 3},
}


SLOW = ("growing ridge", "growing ridge, copies", "max_atoms, copies")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in SETTINGS]
)
def test_weights_are_unbiased_for_every_row(name, X):
    assert not biased(partial(stream, **SETTINGS[name]), X).any()


def test_weights_are_unbiased_in_a_few_runs(X):
    """The same for `make test`; `make test-slow` has all settings and ten times the runs."""
    assert not biased(stream, X, RUNS // 10).any()


def tree_of(X, seed, shape):
    """Return the root of a merge tree over 5 leaves that keep all their rows."""
    rng = np.random.default_rng(seed)
    nodes = [exact_leaf(X, i, part) for i, part in enumerate(np.array_split(np.arange(len(X)), 5))]
    while len(nodes) > 1:
        if shape == "sequential":
            pick = [0, 1]
        elif shape == "balanced":
            pick = [0, 1] if len(nodes) != 3 else [1, 2]
        else:
            pick = sorted(rng.choice(len(nodes), size=min(len(nodes), int(rng.integers(2, 4))), replace=False))
        merged = merge(*[nodes[i] for i in pick], random_state=int(rng.integers(2**32)))
        nodes = [node for i, node in enumerate(nodes) if i not in pick]
        nodes = [merged, *nodes] if shape == "sequential" else [*nodes, merged]
    return nodes[0]


def exact_leaf(X, number, rows):
    n = len(rows)
    return Dictionary(
        RBF(1.0), X[rows], np.arange(n), np.ones(n), np.ones(n, int), 1, 3.0, 0.5, n, ((f"leaf {number}", n),)
    )


@pytest.mark.parametrize(
    "shape", [pytest.param(s, marks=pytest.mark.slow) for s in ("random", "balanced", "sequential")]
)
def test_weights_are_unbiased_over_trees(shape, X):
    def make(X, seed):
        d = tree_of(X, seed, shape)
        starts = {f"leaf {i}": part[0] for i, part in enumerate(np.array_split(np.arange(len(X)), 5))}
        at = np.array([starts[d.sources[s][0]] for s in d.source_numbers]) + d.indices

        class Placed:
            positions, weights = at, d.weights

        return Placed

    assert not biased(make, X).any()


# The mutated twins: each is a mistake that somebody could make.


def test_storing_the_acceptance_ratio_is_caught(X, monkeypatch):
    """The coin's p'/p stored in place of the inclusion probability p'."""

    def confused(p, q, scores, rng):
        lowered = np.minimum(p, scores)
        return lowered / p, rng.binomial(q, lowered / p)

    monkeypatch.setattr(shrink_room, "thin", confused)
    assert biased(stream, X, 600).any()


def test_screening_that_gives_up_too_many_rows_is_caught(X, monkeypatch):
    real = stream_room.screen

    def hasty(scorer, rows, uniforms, chance):
        found = real(scorer, rows, uniforms, chance)
        return found[np.asarray(uniforms)[found] < 0.85]

    monkeypatch.setattr(stream_room, "screen", hasty)
    assert biased(stream, X, 600).any()


def test_redrawing_to_keep_the_limit_is_caught(X, monkeypatch):
    """Throw the result away and draw again until it fits, in place of raising the ridge and thinning on."""
    real = shrink_room.shrink

    def redraw(*args, rng, max_atoms=None, **kwargs):
        for _ in range(15):
            left = real(*args, rng=rng, max_atoms=None, **kwargs)
            if len(left.kept) <= max_atoms:
                return left
        return real(*args, rng=rng, max_atoms=max_atoms, **kwargs)

    monkeypatch.setattr(state_room, "shrink", redraw)
    assert biased(partial(stream, max_atoms=10, ridge=1.0, oversampling=4.0), X, 300).any()


class Watched(Squeak):
    """Keeps every state that the stream passed through."""

    def _commit(self, state, **how):
        super()._commit(state, **how)
        self.__dict__.setdefault("passed", []).append(state)


def passed_states(X, seed, **params):
    settings = {"kernel": RBF(1.0), "ridge": 0.5, "oversampling": 2.0, "random_state": seed} | params
    return Watched(**settings).fit(X).passed


@pytest.mark.parametrize("copies", [1, 3])
def test_tails_are_those_of_a_martingale(copies, X, monkeypatch):
    """P(1/p ever reaches a while a copy is alive) ≤ 1/a for every copy of every row.

    Counted over all copies and rows together in 200 runs; the count may exceed its bound by 5 deviations of a sum
    of independent rows (false alarm < 1e-6 a level, 4 levels). The twin stores p² in place of p.
    """

    X = np.vstack([X, X + 0.05, X - 0.05])

    def excess(runs=200):
        totals = dict.fromkeys((2, 4, 8, 16), 0)
        for seed in range(runs):
            most = {a: np.zeros(len(X), dtype=int) for a in totals}
            for state in passed_states(X, seed, copies=copies, oversampling=2.0 * copies):
                for a, hits in most.items():
                    far = 1 / state.probabilities >= a
                    hits[state.indices[far]] = np.maximum(hits[state.indices[far]], state.counts[far])
            for a, hits in most.items():
                totals[a] += hits.sum()
        trials = runs * len(X) * copies
        return max((total - trials / a) / np.sqrt(copies * trials / a) for a, total in totals.items())

    assert excess() < 5
    real = shrink_room.thin

    def squared(p, q, scores, rng):
        lowered, left = real(p, q, scores, rng)
        return np.where(lowered < p, lowered**2, lowered), left

    monkeypatch.setattr(shrink_room, "thin", squared)
    assert excess() > 5


def broken_paths(X, seed, **params):
    """Return whether along the stream a probability or a count rose, or a dropped row came back."""
    states = passed_states(X, seed, **params)
    for before, after in pairwise(states):
        known = {i: (p, q) for i, p, q in zip(before.indices, before.probabilities, before.counts, strict=True)}
        for i, p, q in zip(after.indices, after.probabilities, after.counts, strict=True):
            if i >= before.n_seen:
                continue
            if i not in known or p > known[i][0] * (1 + 1e-12) or q > known[i][1]:
                return True
    return False


@pytest.mark.parametrize("params", [{}, {"copies": 4}, {"max_atoms": 12}], ids=str)
def test_probabilities_and_counts_never_rise_and_dropped_rows_stay_away(params, X):
    assert not any(broken_paths(X, seed, **params) for seed in range(20))


def test_a_forgotten_minimum_is_caught(X, monkeypatch):
    """The twin: p' = score without min(p, score), so that probabilities rise again."""

    def forgetful(p, q, scores, rng):
        return scores, rng.binomial(q, np.minimum(1.0, scores / p))

    monkeypatch.setattr(shrink_room, "thin", forgetful)
    assert any(broken_paths(X, seed) for seed in range(20))
