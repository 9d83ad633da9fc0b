"""The parts that samples are made of, each against its formula: nothing here is drawn."""

import math
from itertools import combinations

import numpy as np
import pytest

import squeak
from squeak.core.seeds import generator_at
from squeak.dpp import DPP, ExactDPP, preparing, proposals
from squeak.dpp.preparing import Prepared, default_sampler, guessed_scale
from squeak.dpp.proposals import MOST_REFUSED, Proposer, best_draws, lost_by
from squeak.dpp.store import MemoryRows, SourceRows
from squeak.dpp.surrogate import (
    Surrogate,
    check_k,
    check_size,
    expected_size,
    log_symmetric_sums,
    solve_scale,
    starting_scale,
    unexplained,
)
from squeak.kernels import RBF, Linear, PairwiseKernel
from squeak.samplers import Kors, Squeak, Uniform

SPECTRUM = np.array([0.0, 0.1, 0.5, 2.0, 30.0])


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).standard_normal((60, 2))


@pytest.mark.parametrize(("size", "residual"), [(0.01, 0.0), (2.0, 0.0), (3.9, 0.0), (3.9, 0.7), (9.0, 0.7)])
def test_a_scale_solves_its_equation(size, residual):
    scale = solve_scale(size, SPECTRUM, residual)
    assert expected_size(SPECTRUM, scale) + scale * residual == pytest.approx(size, rel=1e-9)


@pytest.mark.parametrize(
    ("size", "spectrum", "words"),
    [(4.0, SPECTRUM, "rank 4"), (0.5, np.zeros(3), "rank 0"), (3.9999999, [1e-290, 1.0, 1.0, 1.0], "too small a")],
)
def test_a_size_out_of_reach_is_refused(size, spectrum, words):
    with pytest.raises(ValueError, match=words):
        solve_scale(size, np.asarray(spectrum))


def test_a_kernel_of_zeros_has_no_scale_even_with_a_residual_of_nothing():
    with pytest.raises(ValueError, match="rank 0"):
        solve_scale(1.0, np.zeros(3), 0.0)
    assert solve_scale(1.0, np.zeros(3), 0.5) == pytest.approx(2.0)


def test_symmetric_sums_are_those_over_all_sets():
    table = np.exp(log_symmetric_sums(SPECTRUM, 3))
    for j in range(6):
        for size in range(4):
            every = sum(math.prod(s) for s in combinations(SPECTRUM[:j].tolist(), size))
            assert table[j, size] == pytest.approx(every, rel=1e-12)


def test_sizes_lie_between_nothing_and_the_number_of_rows():
    assert (check_size(1e-9, 1), check_size(4, 5), check_k(1, 5), check_k(5, 5)) == (1e-9, 4.0, 1, 5)
    for size in (0, 5, -1.0):
        with pytest.raises(ValueError, match="must lie between 0"):
            check_size(size, 5)
    for k in (0, 6):
        with pytest.raises(ValueError, match="k must"):
            check_k(k, 5)


@pytest.mark.parametrize("scale", [0.2, 1.0, 5.0])
def test_a_surrogate_is_its_dense_matrices(scale, X):
    """A = Σ w φφᵀ in the features of a kernel of rank 2, where φ(x) = x: all is dense linear algebra."""
    atoms, weights = X[:9], np.linspace(0.5, 4.0, 9)
    found = Surrogate.weighted(Linear(), atoms, weights)
    A = (atoms * weights[:, None]).T @ atoms
    inverse = np.linalg.inv(np.eye(2) + scale * A)
    np.testing.assert_allclose(found.scores(X, scale), scale * np.einsum("ij,jk,ik->i", X, inverse, X), rtol=1e-9)
    assert found.log_det(scale) == pytest.approx(np.linalg.slogdet(np.eye(2) + scale * A)[1])
    assert found.trace(scale) == found.total(scale) == pytest.approx(np.trace(scale * A @ inverse))
    with_rest = Surrogate(found.features, found.spectrum, 3.0)
    assert with_rest.total(scale) == pytest.approx(found.trace(scale) + 3.0 * scale)
    assert with_rest.size(scale) == pytest.approx(found.trace(scale) + 1.5 * scale)
    assert with_rest.size(with_rest.scale_for(2.5)) == pytest.approx(2.5)


def test_scores_in_tiles_are_those_at_once(X, monkeypatch):
    found = Surrogate.weighted(RBF(1.0), X[:20], np.full(20, 3.0))
    at_once = found.scores(X, 0.7)
    monkeypatch.setattr("squeak.dpp.surrogate.TILE", 7)
    np.testing.assert_allclose(found.scores(X, 0.7), at_once, rtol=1e-12)


def test_what_a_span_leaves_is_not_below_zero_but_for_rounding():
    diag = np.array([1.0, 100.0])
    assert unexplained(diag, np.array([0.25, 100.0 + 1e-8]), None).tolist() == [0.75, 0.0]
    with pytest.raises(ValueError, match=r"squared distance -0\.5 < 0"):
        unexplained(diag, np.array([0.25, 100.5]), None)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        unexplained(diag, np.array([np.nan, 1.0]), None)
    assert unexplained(diag[:0], diag[:0], None).size == 0


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_an_indefinite_matrix_is_refused_at_any_size(size):
    K = size * np.array([[1.0, 1.1], [1.1, 1.0]])
    with pytest.raises(ValueError, match="not positive semi-definite"):
        ExactDPP(PairwiseKernel(lambda i, j: K[i, j])).fit([0, 1])


def test_the_search_starts_where_samples_have_the_size(X):
    full = Surrogate(None, np.array([1e-15, 1.0, 2.0, 3.0]))
    assert expected_size(full.spectrum[1:], starting_scale(full, 2)) == pytest.approx(2.0)
    assert expected_size(full.spectrum[1:], starting_scale(full, 3)) == pytest.approx(2.75)  # the rank less ¼
    with pytest.raises(ValueError, match="rank 3: no 4 rows"):
        starting_scale(full, 4)
    part = Surrogate(None, full.spectrum, 1.0)
    assert part.size(starting_scale(part, 5)) == pytest.approx(5.0)


def test_what_r_costs_is_what_is_printed():
    for total, draws in ((7.0, 0.5), (7.0, 20.0), (0.3, 1.0)):
        assert lost_by(total, draws) == pytest.approx(draws * total * (math.exp(1 / draws) - 1) - total)
    assert lost_by(5.0, 1e4) == pytest.approx(5.0 / 2e4, rel=1e-3)  # about s/(2r)


def test_the_best_r_is_allowed_and_a_sixth_of_large_sizes():
    for total in (1e-3, 0.5, 4.0, 60.0, 2000.0):
        assert lost_by(total, best_draws(total, 10**6)) <= MOST_REFUSED
    assert best_draws(3000.0, 10**12) == pytest.approx(500.0, rel=0.1)
    assert best_draws(60.0, 10**12) > 10.0  # a proposal is cheap beside its fixed costs: fewer are refused


def test_bounds_serve_smaller_scales_as_they_are_and_larger_ones_stretched(X):
    prepared = DPP(RBF(1.0), random_state=0).fit(X)._fitted.prepared
    assert (prepared.stretch(0.5), prepared.stretch(1.0), prepared.stretch(3.0)) == (1.0, 1.0, 3.0)
    found = prepared.surrogate
    for scale in (0.3, 3.0):
        assert np.all(found.scores(X, scale) <= prepared.stretch(scale) * prepared.bounds * (1 + 1e-12))


def test_proposals_that_do_not_fit_into_memory_are_refused(X, monkeypatch):
    fitted = DPP(RBF(1.0), random_state=0).fit(X)._fitted
    known = fitted.prepared
    r = fitted.proposer.draws
    total = known.surrogate.total(1.0)
    assert fitted.proposer.rate == pytest.approx(r * math.exp(1 / r) * total)
    huge = Prepared(known.surrogate, 1.0, 1e9 * known.bounds, True, known.dictionary)
    with pytest.raises(ValueError, match="do not fit into memory"):
        Proposer(huge, 1.0)
    expected = 60 * -math.expm1(-fitted.proposer.rate / 60)
    monkeypatch.setattr(proposals, "LARGEST", math.floor(expected))
    with pytest.raises(ValueError, match=f"proposals of {expected:.0f}: ask for fewer"):
        Proposer(known, 1.0)
    monkeypatch.setattr(proposals, "LARGEST", math.ceil(expected))
    Proposer(known, 1.0)


def test_the_default_sampler_oversamples_more_where_scores_are_tiny(X):
    rows = MemoryRows(X)
    for weighted, cls, usual in ((False, Squeak, 4.0), (True, Kors, 16.0)):
        found = [default_sampler(rows, RBF(1.0), scale, weighted=weighted) for scale in (1.0, 1e-3)]
        assert [type(s) for s in found] == [cls, cls]
        assert [s.oversampling for s in found] == pytest.approx([usual, 30.0 / 60e-3])


def test_a_guessed_scale_is_that_of_all_rows_where_they_are_few(X):
    scale = guessed_scale(MemoryRows(X), RBF(1.0), 9.0, 0)
    assert ExactDPP(scale * RBF(1.0)).fit(X).expected_size_ == pytest.approx(9.0, rel=1e-6)
    with pytest.raises(ValueError, match="rank about 2: no sample has 2 rows"):
        guessed_scale(MemoryRows(X), Linear(), 2.0, 0)


def test_a_dictionary_is_enlarged_until_few_proposals_are_lost_on_it(X, monkeypatch):
    asked = []
    real = preparing.lost

    def watched(dictionary, few, scale):
        asked.append((len(dictionary), scale))
        return real(dictionary, few, scale)

    monkeypatch.setattr(preparing, "lost", watched)
    monkeypatch.setattr(preparing, "PROBE", 200)
    wide = np.random.default_rng(1).standard_normal((800, 3))
    sampler = Squeak(RBF(1.5), 1.0, oversampling=0.25, random_state=0)
    found = preparing.enlarged(MemoryRows(wide), sampler, 1.0, 0)
    few = MemoryRows(wide).few(preparing.PROBE, generator_at(0, preparing.PROBE_ROWS))
    assert real(found.dictionary_, few, 800 / 200) <= preparing.LOST
    assert found.oversampling == 0.25 * 2 ** (len(asked) - 1) > 0.25
    assert {scale for _, scale in asked} == {800 / 200}


def test_rows_of_a_source_are_fetched_by_number_and_a_changed_source_is_noticed(X):
    parts = [X[:7], X[7:30], X[30:]]
    rows = SourceRows(squeak.rows(lambda: iter(parts)), RBF(1.0))
    assert rows.n == 60
    for numbers in ([0, 6, 7, 29, 30, 59], [8], [45, 46], []):
        assert np.array_equal(rows.fetch(np.array(numbers, dtype=np.int64)), X[numbers])
    with pytest.raises(ValueError, match="61 rows before and 60 now"):
        list(SourceRows(squeak.rows(lambda: iter(parts)), RBF(1.0), 61).blocks())


def test_probabilities_of_all_sets_add_up_to_one():
    X = np.random.default_rng(0).standard_normal((5, 2))
    exact = ExactDPP(2.0 * RBF(1.0)).fit(X)
    every = [s for size in range(6) for s in combinations(range(5), size)]
    assert sum(math.exp(exact.log_probability(list(s))) for s in every) == pytest.approx(1.0)


def test_a_weighted_dictionary_that_is_given_has_its_exact_scores(X):
    dpp = DPP(0.3 * RBF(1.0), Uniform(max_atoms=30), weighted=True, random_state=0, verbose=1).fit(X)
    prepared = dpp._fitted.prepared
    assert (prepared.scale, prepared.exact) == (1.0, True)
    np.testing.assert_allclose(prepared.bounds, prepared.surrogate.scores(X, 1.0), rtol=1e-12)
    assert len(dpp.sample(k=3)) == 3


def test_larger_samples_are_prepared_for_at_once_at_the_scale_that_they_need(X):
    dpp = DPP(1e-3 * RBF(1.0), random_state=0).fit(X)
    found, level = dpp._search(20)
    assert sorted(dpp._fitted.levels) == [0, level]
    assert level >= 3
    assert 3.0 ** (level - 1) < found.scale <= 3.0 ** (level + 1)
    assert dpp._search(1)[1] <= level


def test_as_many_proposals_are_drawn_ahead_as_will_be_needed(X):
    dpp = DPP(0.3 * RBF(1.0), random_state=0).fit(X)
    assert dpp._ahead(10) == math.ceil(1.2 * 10 / 0.25) + 8  # nothing is known yet
    dpp._fitted.attempts, dpp._fitted.accepted = 20, 10
    assert dpp._ahead(10) == 24 + 8
    dpp._fitted.attempts, dpp._fitted.accepted = 10**6, 1
    assert dpp._ahead(1) == 1200 + 8
