"""Binomial sampling, and that a chain of thinning steps is one binomial."""

import numpy as np
import pytest
from scipy import stats

from squeak.core.kernels import gram
from squeak.core.thinning import (
    any_survives,
    count_from_uniform,
    expected_survivors,
    keep_probability,
    thin,
    thin_to,
)
from squeak.kernels import RBF
from squeak.samplers import ExactRLS
from tests.oracles import binomial_from_uniform, dense_scores


def test_probabilities_never_rise(rng):
    p, q = rng.uniform(0.1, 1, 1000), rng.integers(1, 9, 1000)
    lowered, left = thin(p, q, rng.uniform(0, 1.5, 1000), rng)
    assert np.all(lowered <= p)
    assert np.all(left <= q)
    assert np.all(left[lowered == p] == q[lowered == p])


@pytest.mark.parametrize("copies", [1, 7])
def test_a_chain_of_exact_scores_ends_in_one_binomial(copies, clusters):
    """Oracle with removal (thesis algorithm 9): the final count is Binomial(copies, p_n) exactly.

    χ² over counts for each of the rows, 3000 chains at once; Bonferroni over 20 rows at 1e-4: family-wise < 1e-3.
    """
    X = clusters[:60]
    K, ridge, oversampling, runs = gram(RBF(1.0), X), 0.5, 0.6 * copies, 3000
    rng = np.random.default_rng(5)
    chance = np.ones((len(X), runs))
    count = np.zeros((len(X), runs), dtype=np.int64)
    for t in range(len(X)):
        count[t] = copies
        target = keep_probability(dense_scores(K[: t + 1, : t + 1], ridge), oversampling, copies)
        chance[: t + 1], count[: t + 1] = thin(
            chance[: t + 1], count[: t + 1], np.repeat(target[:, None], runs, axis=1), rng
        )
    final = keep_probability(dense_scores(K, ridge), oversampling, copies)

    def p_values(chances):
        found = []
        for i in range(0, 60, 3):
            expected = runs * stats.binom.pmf(np.arange(copies + 1), copies, chances[i])
            seen = np.bincount(count[i], minlength=copies + 1)
            rare = expected < 5  # cells too small for χ² go together
            expected = np.append(expected[~rare], expected[rare].sum())
            seen = np.append(seen[~rare], seen[rare].sum())
            usable = expected > 0
            found.append(
                stats.chisquare(seen[usable], expected[usable] * seen[usable].sum() / expected[usable].sum())
            )
        return np.array([result.pvalue for result in found if np.isfinite(result.pvalue)])

    assert p_values(final).min() > 1e-4 / 20
    assert p_values(0.8 * final).min() < 1e-4 / 20  # the mutated twin: probabilities that are a fifth off


def test_counts_from_uniform_numbers_are_binomial_and_monotone():
    uniforms = np.linspace(0.0005, 0.9995, 1000)
    for copies, p in ((1, 0.3), (5, 0.1), (5, 0.9), (40, 0.37)):
        counts = np.array([count_from_uniform(u, p, copies) for u in uniforms])
        assert np.array_equal(counts, [binomial_from_uniform(u, p, copies) for u in uniforms])
        assert np.all(np.diff(counts) <= 0)
        assert counts.mean() == pytest.approx(copies * p, abs=0.02 * copies)
        assert np.array_equal(counts > 0, uniforms < any_survives(np.array([p]), copies))
    assert count_from_uniform(0.999, 1.0, 4000) == 4000
    assert any_survives(np.array([1e-300]), 10)[0] == pytest.approx(1e-299)


def test_expected_survivors_is_the_mean_number_that_thinning_leaves(rng):
    p, q = rng.uniform(0.2, 1, 50), rng.integers(1, 6, 50)
    scores = rng.uniform(0, 1, 50)
    left = np.array([(thin(p, q, scores, rng)[1] > 0).sum() for _ in range(4000)])
    assert left.mean() == pytest.approx(expected_survivors(p, q, scores), abs=5 * left.std() / np.sqrt(4000))


@pytest.mark.parametrize(("copies", "runs"), [(1, 500), (1, 2000), (6, 2000)])
def test_sampling_by_exact_scores_has_mean_weight_one_and_the_promised_size(copies, runs, clusters):
    """Mean weight over all fits within 5 standard errors (known) for each of 40 rows: family-wise 5e-5."""
    X = clusters[:40]
    p = keep_probability(dense_scores(gram(RBF(1.0), X), 1.0), 3.0, copies)
    weights = np.zeros((runs, 40))
    for seed in range(runs):
        sampler = ExactRLS(kernel=RBF(1.0), ridge=1.0, oversampling=3, copies=copies, random_state=seed)
        d = sampler.fit(X).dictionary_
        weights[seed, d.indices] = d.weights
        assert d.counts.sum() <= 3 * copies * p.sum()
    np.testing.assert_allclose(d.probabilities, p[d.indices], rtol=1e-9)
    error = np.sqrt((1 - p) / (copies * p) / runs)
    assert np.all(np.abs(weights.mean(axis=0) - 1) <= 5 * error + 1e-12)
    assert np.any(np.abs(0.9 * weights.mean(axis=0) - 1) > 5 * error)  # the twin: weights a tenth too small


@pytest.mark.parametrize("copies", [1, 5])
def test_thinning_to_a_size_leaves_so_many_rows_each_with_its_binomial_count(copies):
    """Over 800 draws 12 means of counts and 12 chances to stay are within 5 standard errors: family-wise 3e-5."""
    rng = np.random.default_rng(0)
    n, size, draws = 12, 5, 800
    p, scores = rng.uniform(0.3, 1.0, n), np.append(rng.uniform(0.01, 0.5, n - 1), 40.0)  # the last one is sure
    counts = np.minimum(rng.integers(1, copies + 1, n), copies)
    found = []
    for _ in range(draws):
        lowered, left = thin_to(p, counts, scores, size, rng)
        assert np.count_nonzero(left) == size
        found.append(left)
    ratio = lowered / p
    assert np.all(lowered <= p)
    assert ratio[-1] == 1.0
    assert found[0][-1] == counts[-1]
    free = ratio < 1
    factor = lowered[free] / scores[free]
    np.testing.assert_allclose(factor, factor[0], rtol=1e-9)
    stay = 1 - (1 - ratio) ** counts
    assert stay.sum() == pytest.approx(size, abs=1e-9)
    for values, mean, variance in (
        (np.array(found), counts * ratio, counts * ratio * (1 - ratio)),
        (np.array(found) > 0, stay, stay * (1 - stay)),
    ):
        error = np.abs(np.mean(values, axis=0) - mean)
        assert np.all(error <= 5 * np.sqrt(variance / draws) + 1e-12)


def test_rows_without_a_score_go_first_and_nothing_is_drawn_where_few_are_left():
    p, counts, rng = np.full(6, 0.5), np.array([1, 2, 3, 1, 2, 3]), np.random.default_rng(0)
    lowered, left = thin_to(p, counts, np.array([0.0, 1.0, 0.0, 1.0, 1.0, 0.0]), 3, rng)
    assert left.tolist() == [0, 2, 0, 1, 2, 0]
    assert lowered.tolist() == p.tolist()
    assert rng.random() == np.random.default_rng(0).random(), "no number was drawn"
