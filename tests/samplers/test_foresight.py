"""The ridge of a stream with ``max_atoms`` is raised ahead of time, and weights stay unbiased.

Family of statistical tests: 1 setting × (28 rows and their total), as in test_unbiased, whose bounds it takes; the
false-alarm rate is below 1e-5. Its mutated twin is caught.
"""

from functools import partial

import numpy as np
import pytest

from squeak import Kors, Squeak
from squeak.core import cholesky as cholesky_room
from squeak.core import screening as screening_room
from squeak.core.kernels import gram
from squeak.core.thinning import expected_survivors, thin_to
from squeak.kernels import RBF
from squeak.samplers import shrinking as shrink_room
from squeak.samplers import squeak as squeak_room
from tests.oracles import dense_estimate
from tests.samplers.test_unbiased import X, biased, small_shrinks, stream  # noqa: F401  (fixtures among them)


@pytest.fixture(scope="module")
def mixture():
    rng = np.random.default_rng(0)
    centres = 3 * rng.standard_normal((10, 3))
    return centres[rng.integers(0, 10, 12_000)] + rng.standard_normal((12_000, 3))


def shrinks_of(mixture, monkeypatch, **params):
    """Return for each shrink to the limit: rows, ridge before and after, atoms expected, atoms in a trial."""
    found, tried = [], [0]
    real, scores = squeak_room.Squeak._thinned, shrink_room.dictionary_scores

    def watched(self, state, rng, *grown):
        tried[0] = 0
        after = real(self, state, rng, *grown)
        chances = np.minimum(1.0, state.plan.oversampling * state.scorer.atom_scores())
        expected = expected_survivors(state.probabilities, state.counts, chances)
        if state.plan.max_atoms is not None and state.size > state.plan.max_atoms:
            found.append((state.n_seen, state.scorer.ridge, after.scorer.ridge, expected, tried[0]))
        return after

    def counted(K, *args):
        tried[0] = max(tried[0], len(K))
        return scores(K, *args)

    monkeypatch.setattr(squeak_room.Squeak, "_thinned", watched)
    monkeypatch.setattr(shrink_room, "dictionary_scores", counted)
    Squeak(RBF(2.0), max_atoms=100, random_state=0, **params).fit(mixture)
    return np.array(found)


def test_known_scores_serve_every_shrink_but_the_first_ones(mixture, monkeypatch):
    """At the time of a shrink the ridge is the one that is needed; no trial is made with all 151 atoms."""
    monkeypatch.setattr(shrink_room, "SMALLEST_MANY", 16)
    seen, before, after, expected, tried = shrinks_of(mixture, monkeypatch).T
    assert len(seen) > 5
    assert np.all(tried[2:] < 50)
    assert np.all(np.abs(expected[2:] / 100 - 1) < 0.2)
    assert np.all(after > before)
    growth = np.log(after[-1] / after[1]) / np.log(seen[-1] / seen[1])  # the ridge follows the rows
    assert 0.8 < growth < 1.2


def test_a_ridge_that_does_not_look_ahead_needs_more_shrinks(mixture, monkeypatch):
    ahead = shrinks_of(mixture, monkeypatch)
    monkeypatch.undo()
    monkeypatch.setattr(shrink_room, "lead", lambda slope, grown: 1.0)
    behind = shrinks_of(mixture, monkeypatch)
    assert len(behind) > 1.15 * len(ahead)


@pytest.mark.parametrize("slope", [0.1, 0.45, 1.0])
@pytest.mark.parametrize("grown", [1.2, 1.5])
def test_the_ridge_ahead_is_the_one_needed_when_the_dictionary_is_full(slope, grown):
    """Step through a stream whose size follows (n/ridge)^slope, row by row, until as many atoms came in."""
    ridge = shrink_room.lead(slope, grown)
    n, came = 1.0, 0.0
    while came < grown - 1.0:
        came += 1e-4 * (n / ridge) ** slope
        n *= 1 + 1e-4
    assert ridge == pytest.approx(n, rel=0.01)


def test_few_atoms_stand_for_all(mixture, monkeypatch):
    monkeypatch.setattr(shrink_room, "SMALLEST_MANY", 16)
    rng = np.random.default_rng(1)
    p = rng.uniform(0.2, 1.0, 120)
    atoms = shrink_room._Atoms(RBF(2.0), mixture[:120], p, np.ones(120, int), 3.0, 1, 1.0, 1.0)
    few = atoms.few()
    some, times = slice(0, None, shrink_room.FEW), shrink_room.FEW
    dense = dense_estimate(gram(RBF(2.0), mixture[:120][some]), times / p[some], 0.7)
    np.testing.assert_allclose(few.chances_at(0.7), np.minimum(1.0, 3.0 * dense), rtol=1e-9)


@pytest.mark.parametrize("sampler", [Squeak(RBF(2.0), max_atoms=150), Kors(RBF(2.0), ridge=3.0)], ids=str)
def test_the_ways_of_many_atoms_draw_the_same(sampler, mixture, monkeypatch):
    """Panels on threads and stages left out, as from 1,024 atoms on: same atoms, same bits on 1 and 2 threads."""
    sampler.random_state = 0
    plain = sampler.fit(mixture[:4000]).dictionary_
    monkeypatch.setattr(cholesky_room, "PANEL", 16)
    monkeypatch.setattr(cholesky_room, "LARGE", 40)
    monkeypatch.setattr(screening_room, "MANY", 20)
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("SQUEAK_NUM_THREADS", threads)
        found.append(sampler.fit(mixture[:4000]).dictionary_)
    assert np.array_equal(found[0].probabilities, found[1].probabilities)
    assert np.array_equal(found[0].indices, plain.indices)
    np.testing.assert_allclose(found[0].probabilities, plain.probabilities, rtol=1e-9)


limited = partial(stream, max_atoms=10, ridge=0.1, oversampling=4.0)


@pytest.mark.parametrize("runs", [100, pytest.param(300, marks=pytest.mark.slow)])
def test_weights_are_unbiased_where_few_atoms_are_asked(runs, X, monkeypatch):  # noqa: F811
    monkeypatch.setattr(shrink_room, "SMALLEST_MANY", 4)
    assert not biased(limited, X, runs).any()


def test_taking_chances_at_the_ridge_ahead_for_those_of_the_draw_is_caught(X, monkeypatch):  # noqa: F811
    """The twin draws by the scores at the present ridge and keeps the probabilities of the raised one."""
    told, real = [], shrink_room._ridge_ahead

    def telling(ridge, chances, atoms, *limits):
        ahead, chances = real(ridge, chances, atoms, *limits)
        told.append(atoms.chances_at(ahead))
        return ahead, chances

    def confused(p, counts, scores, size, rng):
        _, left = thin_to(p, counts, scores, size, rng)
        return np.minimum(p, told.pop() if told else scores), left

    monkeypatch.setattr(shrink_room, "_ridge_ahead", telling)
    monkeypatch.setattr(shrink_room, "thin_to", confused)
    assert biased(limited, X, 150).any()
