"""Screening gives up early exactly the rows that the full score would give up."""

import numpy as np
import pytest

from squeak.core import screening
from squeak.core.kernels import gram
from squeak.core.leverage import WeightedFactor
from squeak.core.screening import Chance, decide, entry, entry_score, screen, stages
from squeak.core.thinning import any_survives, count_from_uniform, keep_probability
from squeak.kernels import RBF
from tests.oracles import dense_estimate


@pytest.fixture
def scorer(rng):
    atoms = rng.standard_normal((200, 3))
    return WeightedFactor.build(RBF(1.0), atoms, rng.uniform(1, 30, 200), 0.5)[0]


def test_stages_double_and_cover():
    for m in (0, 1, 31, 32, 33, 500, 513):
        cut = stages(m)
        assert [i for s in cut for i in range(s.start, s.stop)] == list(range(m))


@pytest.mark.parametrize("copies", [1, 12])
@pytest.mark.parametrize("oversampling", [1.0, 12.0])
def test_screening_is_the_full_decision(scorer, copies, oversampling, rng):
    X, u = 1.5 * rng.standard_normal((5000, 3)), rng.random(5000)
    p = keep_probability(entry_score(scorer.residuals(X), scorer.ridge), oversampling, copies)
    full = np.flatnonzero(u < any_survives(p, copies))
    found = screen(scorer, X, u, Chance(oversampling, copies))
    assert np.array_equal(found, full)
    assert 0 < len(full) < 5000


@pytest.mark.parametrize("oversampling", [0.2, 2.0])
def test_screening_that_leaves_out_stages_gives_up_no_row_that_would_enter(scorer, oversampling, rng, monkeypatch):
    """With many atoms late stages are left to the decision; the twin gives up a row more than it may."""
    X, u = 1.5 * rng.standard_normal((5000, 3)), rng.random(5000)
    p = keep_probability(entry_score(scorer.residuals(X), scorer.ridge), oversampling, 1)
    full = np.flatnonzero(u < p)
    monkeypatch.setattr(screening, "MANY", 100)
    found = screen(scorer, X, u, Chance(oversampling))
    assert np.isin(full, found).all()
    assert len(full) < len(found) < 5000
    first = decide(scorer, X[found[:200]], u[found[:200]], Chance(oversampling))
    alone = decide(scorer, X[: found[199] + 1], u[: found[199] + 1], Chance(oversampling))
    assert np.array_equal(found[first.rows], alone.rows)
    np.testing.assert_allclose(first.probabilities, alone.probabilities, rtol=1e-9)
    monkeypatch.setattr(screening, "SLACK", -0.02)
    assert not np.isin(full, screen(scorer, X, u, Chance(oversampling))).all()


def test_most_rows_are_given_up_after_few_kernel_evaluations(scorer, rng, monkeypatch):
    X, u = rng.standard_normal((4000, 3)), rng.random(4000)
    evaluated = []
    real = screening.block
    monkeypatch.setattr(screening, "block", lambda k, A, B: evaluated.append(len(A) * len(B)) or real(k, A, B))
    screen(scorer, X, u, Chance(2.0))
    assert sum(evaluated) < 0.5 * 4000 * 200


def test_late_in_a_stream_hardly_any_row_meets_an_atom(rng, monkeypatch):
    """Where the ridge is large, even a row that resembles no atom has a chance below most uniform numbers."""
    late = WeightedFactor.build(RBF(1.0), rng.standard_normal((100, 3)), rng.uniform(1e3, 3e3, 100), 1e3)[0]
    X, u = rng.standard_normal((20_000, 3)), rng.random(20_000)
    evaluated = []
    real = screening.block
    monkeypatch.setattr(screening, "block", lambda k, A, B: evaluated.append(len(A) * len(B)) or real(k, A, B))
    found = screen(late, X, u, Chance(10.0))
    p = keep_probability(entry_score(late.residuals(X), late.ridge), 10.0, 1)
    assert np.array_equal(found, np.flatnonzero(u < p))
    assert 0 < sum(evaluated) < 0.02 * 20_000 * 100
    assert screen(late, X, np.ones(20_000), Chance(10.0)).tolist() == []


def test_the_entry_score_is_that_of_the_row_added_at_weight_one(scorer, rng):
    x = rng.standard_normal((1, 3))
    rows = np.vstack([scorer.atoms, x])
    dense = dense_estimate(gram(RBF(1.0), rows), np.append(scorer.weights, 1.0), 0.5)[-1]
    assert entry_score(scorer.residuals(x), 0.5)[0] == pytest.approx(dense, rel=1e-9)


def test_decide_stops_at_the_limit_and_its_factor_is_the_fresh_one(scorer, rng):
    X, u = 3 * rng.standard_normal((40, 3)), np.zeros(40)
    entries = decide(scorer, X, u, Chance(1.0), limit=205)
    assert entries.rows.tolist() == [0, 1, 2, 3, 4]
    assert entries.decided == 5
    entries = decide(scorer, X, u, Chance(1.0))
    grown = scorer.grow(X[entries.rows], entries.weights, entries.projected, entries.schur)
    A = gram(RBF(1.0), grown.atoms) + np.diag(0.5 / grown.weights)
    np.testing.assert_allclose(grown.factor.inverse @ A @ grown.factor.inverse.T, np.eye(240), atol=1e-9)


@pytest.mark.parametrize("limit", [None, 230])
def test_decisions_that_give_rows_up_on_the_way_are_those_from_all_atoms(scorer, limit, rng, monkeypatch):
    """With many atoms rows are given up after a part of them; the twin gives up rows that would enter."""
    X, u = 1.5 * rng.standard_normal((400, 3)), rng.random(400)
    full = decide(scorer, X, u, Chance(2.0), limit)
    monkeypatch.setattr(screening, "MANY", 100)
    found = decide(scorer, X, u, Chance(2.0), limit)
    assert (found.decided == 400) == (limit is None)
    assert found.decided == full.decided
    assert np.array_equal(found.rows, full.rows)
    assert np.array_equal(found.counts, full.counts)
    for name in ("probabilities", "weights", "projected", "schur"):
        np.testing.assert_allclose(getattr(found, name), getattr(full, name), rtol=1e-9, atol=1e-12)
    monkeypatch.setattr(screening, "SLACK", -0.1)
    assert not np.array_equal(decide(scorer, X, u, Chance(2.0), limit).rows, full.rows)


@pytest.mark.parametrize(("copies", "shrink"), [(1, 1.0), (3, 0.8)])
def test_decide_is_the_row_by_row_algorithm_in_dense_matrices(scorer, copies, shrink, rng):
    """Every row is scored by the dense formula beside the atoms and the rows that entered with their weights."""
    X, u = 2 * rng.standard_normal((30, 3)), rng.random(30)
    rows, weights, found = scorer.atoms, scorer.weights, []
    for t in range(30):
        K = gram(RBF(1.0), np.vstack([rows, X[t : t + 1]]))
        p = keep_probability(shrink * dense_estimate(K, np.append(weights, 1.0), 0.5)[-1:], 4.0, copies)[0]
        count = count_from_uniform(u[t], p, copies)
        if count:
            found.append((t, p, count, count / (copies * p)))
            rows, weights = np.vstack([rows, X[t : t + 1]]), np.append(weights, found[-1][-1])
    entries = decide(scorer, X, u, Chance(4.0, copies, shrink))
    assert 5 < len(found) < 30
    assert entries.rows.tolist() == [f[0] for f in found]
    assert entries.counts.tolist() == [f[2] for f in found]
    np.testing.assert_allclose(entries.probabilities, [f[1] for f in found], rtol=1e-9)
    np.testing.assert_allclose(entries.weights, [f[3] for f in found], rtol=1e-9)


@pytest.mark.parametrize("diag", [1e-3, 1e3])
def test_a_residual_below_zero_is_rounding_or_a_kernel_that_is_not_psd_beside_its_diagonal(scorer, diag):
    left, p, count = entry(-0.5e-6 * diag, diag, 0.5, scorer, 3.0, 1, 1.0)
    assert (left, p, count) == (0.0, 0.0, 0)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        entry(-2e-6 * diag, diag, 0.5, scorer, 3.0, 1, 1.0)
    left, p, count = entry(0.25, 1.0, 0.5, scorer, 3.0, 2, 0.8)
    assert p == pytest.approx(3.0 / 2 * 0.8 * (0.5 / 1.5))  # s = 0.25/ridge, score s/(1 + s)
    assert left == 0.25
