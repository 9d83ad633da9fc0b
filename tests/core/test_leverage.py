"""The four formulas, the bounds, monotony, and the estimator's sandwich."""

import numpy as np
import pytest

from squeak import Squeak
from squeak.core.kernels import gram
from squeak.core.leverage import WeightedFactor, check_resolved, dictionary_scores, scores_at, weighted_spectrum
from squeak.kernels import RBF, Laplacian, Linear, PairwiseKernel, Polynomial
from squeak.leverage import accuracy, effective_dimension, exact_leverage_scores
from squeak.samplers import ExactRLS, merge
from tests.oracles import dense_accuracy, dense_estimate, dense_scores

KERNELS = [RBF(1.0), Laplacian(2.0), Polynomial(2), Linear(), 3.0 * RBF(0.5)]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("ridge", [1e-2, 1.0, 30.0])
def test_four_formulas_agree(kernel, ridge, clusters):
    K = gram(kernel, clusters)
    n, ridge = len(K), ridge * np.diag(K).mean()
    inverse = np.linalg.inv(K + ridge * np.eye(n))
    eigenvalues, U = np.linalg.eigh(K)
    by_definition = dense_scores(K, ridge)
    by_variance = (np.diag(K) - np.einsum("ij,jk,ki->i", K, inverse, K)) / ridge
    by_inverse = 1 - ridge * np.diag(inverse)
    by_spectrum = (U**2) @ (np.maximum(eigenvalues, 0) / (np.maximum(eigenvalues, 0) + ridge))
    ours = exact_leverage_scores(clusters, kernel, ridge)
    for other in (by_definition, by_variance, by_inverse, by_spectrum):
        np.testing.assert_allclose(ours, other, atol=1e-8)
    d_eff = effective_dimension(clusters, kernel, ridge)
    assert d_eff == pytest.approx(ours.sum(), rel=1e-12)
    assert d_eff <= min(np.linalg.matrix_rank(K), np.trace(K) / ridge) + 1e-8


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_scores_obey_their_bounds(kernel, clusters):
    ridge, K = 0.7, gram(kernel, clusters)
    scores = exact_leverage_scores(clusters, kernel, ridge)
    diag = np.diag(K)
    assert np.all(scores <= diag / (diag + ridge) + 1e-12)
    assert np.all(scores >= diag / (np.linalg.eigvalsh(K)[-1] + ridge) - 1e-12)


@pytest.mark.parametrize("ridge", [0.05, 1.0])
def test_adding_a_row_lowers_scores_at_most_by_the_corrected_bound(ridge, clusters):
    K = gram(RBF(1.0), clusters)
    broken = 0
    for t in range(20, 60):
        before, after = dense_scores(K[:t, :t], ridge), dense_scores(K[: t + 1, : t + 1], ridge)
        s = (K[t, t] - K[t, :t] @ np.linalg.solve(K[:t, :t] + ridge * np.eye(t), K[:t, t])) / ridge
        assert np.all(after[:t] <= before + 1e-12)
        assert np.all(after[:t] >= before / (1 + s) - 1e-12)
        assert after.sum() >= before.sum() - 1e-12
        broken += np.any(after[:t] < before / (1 + before) - 1e-9)
    if ridge == 0.05:
        assert broken > 0  # the printed bound τ/(1 + τ) is false


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_estimator_is_the_dense_formula_in_and_out_of_the_dictionary(kernel, clusters, rng):
    K, ridge = gram(kernel, clusters), 0.8
    n = len(K)
    weights = np.where(rng.random(n) < 0.3, rng.uniform(0.5, 9, n), 0.0)
    kept = np.flatnonzero(weights)
    scorer, order = WeightedFactor.build(kernel, clusters[kept], weights[kept], ridge)
    dense = dense_estimate(K, weights, ridge, shrink=0.75)
    np.testing.assert_allclose(scorer.scores(clusters, 0.75), dense, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(scorer.atom_scores(0.75), dense[kept][order], rtol=1e-6, atol=1e-9)
    inside = dictionary_scores(K[np.ix_(kept, kept)], weights[kept], ridge, 0.75)
    np.testing.assert_allclose(inside, dense[kept], rtol=1e-6, atol=1e-9)
    spectrum = weighted_spectrum(K[np.ix_(kept, kept)], weights[kept])
    np.testing.assert_allclose(scores_at(*spectrum, weights[kept], ridge, 0.75), inside, rtol=1e-6, atol=1e-9)
    eigenvalues = spectrum[0]
    assert scorer.effective_dimension() == pytest.approx((eigenvalues / (eigenvalues + ridge)).sum(), rel=1e-8)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_estimates_lie_between_tau_over_rho_and_tau_at_the_measured_accuracy(parts, seed, rng):
    """Spec 3: from j dictionaries each (ε̂, γ)-accurate, τ̃ ∈ [τ/ρ_j, τ], ρ_j = (1 + (2j − 1)ε̂)/(1 − ε̂)."""
    X = np.random.default_rng(seed).standard_normal((120 * parts, 2))
    kernel, ridge = RBF(1.0), 1.0
    blocks = np.split(X, parts)
    dictionaries = [
        ExactRLS(kernel=kernel, ridge=ridge, oversampling=25, copies=25, random_state=seed).fit(b).dictionary_
        for b in blocks
    ]
    eps = max(accuracy(d, b) for d, b in zip(dictionaries, blocks, strict=True))
    assert eps < 1
    weights = np.zeros(len(X))
    for j, d in enumerate(dictionaries):
        weights[120 * j + d.indices] = d.weights
    K = gram(kernel, X)
    kept = np.flatnonzero(weights)
    scorer, _ = WeightedFactor.build(kernel, X[kept], weights[kept], (1 + (parts - 1) * eps) * ridge)
    estimate, tau = scorer.scores(X, 1 - eps), dense_scores(K, ridge)
    rho = (1 + (2 * parts - 1) * eps) / (1 - eps)
    assert np.all(estimate <= tau * (1 + 1e-9))
    assert np.all(estimate >= tau / rho * (1 - 1e-9))
    naive = WeightedFactor.build(kernel, X[kept], weights[kept], ridge)[0].scores(X)  # without factor and shift
    assert np.any(naive > tau)


def test_squeak_in_the_papers_form_keeps_its_estimates_within_the_sandwich(rng):
    X = rng.standard_normal((400, 1))
    sampler = Squeak.from_paper(eps=0.5, delta=0.1, n=400, kernel=RBF(0.7), ridge=1.0, random_state=0).fit(X)
    d = sampler.dictionary_
    eps = accuracy(d, X)
    assert eps <= 0.5
    assert d.eps == 0.5
    assert d.copies == d.oversampling == 4885
    tau = dense_scores(gram(RBF(0.7), X), 1.0)
    estimate = d.leverage_scores(X)
    assert np.all(estimate <= tau + 1e-12)
    assert np.all(estimate >= tau * (1 - 0.5) / (1 + 0.5) - 1e-12)
    assert np.all(estimate <= tau * (1 - 0.5) / (1 - eps) + 1e-12)
    assert np.all(estimate >= tau * (1 - 0.5) / (1 + eps) - 1e-12)


def test_a_union_of_two_accurate_dictionaries_is_only_accurate_at_twice_the_ridge():
    """Spec 1.4: two halves of identical unit vectors, ridge 5, each child at ε = .4."""
    K, ridge = np.ones((3, 3)), 5.0
    child = 0.4 * (3 + ridge) / 3  # a weight sum of 3(1 ± child) puts the child exactly at ε = .4
    weights = np.full(3, 1 - child)
    assert dense_accuracy(K, weights, ridge) == pytest.approx(0.4)
    both, w2 = np.ones((6, 6)), np.tile(weights, 2)
    assert dense_accuracy(both, w2, ridge) == pytest.approx(0.58, abs=0.005)
    assert dense_accuracy(both, w2, 2 * ridge) == pytest.approx(0.4)


def test_merge_uses_the_shift_for_its_inexact_parts(rng):
    parts = [rng.standard_normal((150, 2)) for _ in range(3)]
    paper = [
        Squeak.from_paper(eps=0.5, delta=0.1, n=450, kernel=RBF(1.0), ridge=0.01, random_state=i).fit(p).dictionary_
        for i, p in enumerate(parts)
    ]
    assert not any(d.exact for d in paper)
    merged = merge(*paper, random_state=0)
    union = np.vstack([d.atoms for d in paper])
    weights = np.concatenate([d.weights for d in paper])
    shifted = dictionary_scores(gram(RBF(1.0), union), weights, (1 + 2 * 0.5) * 0.01, 0.5)
    before = np.concatenate([d.probabilities for d in paper])
    expected = np.minimum(before, shifted)
    rows = {tuple(row): p for row, p in zip(union, expected, strict=True)}
    np.testing.assert_allclose(merged.probabilities, [rows[tuple(row)] for row in merged.atoms], rtol=1e-8)


def test_bad_ridge_is_refused(clusters):
    for ridge in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="ridge must be positive"):
            exact_leverage_scores(clusters, RBF(1.0), ridge)
    with pytest.raises(TypeError, match="ridge must be a positive number"):
        exact_leverage_scores(clusters, RBF(1.0), "1")


def test_scores_stay_positive_at_a_huge_ridge(rng):
    scorer, _ = WeightedFactor.build(RBF(1.0), rng.standard_normal((50, 2)), np.ones(50), 1e16)
    assert np.all(scorer.atom_scores() > 0)


def test_exact_measures_refuse_what_they_cannot_resolve(rng):
    X = rng.standard_normal((100, 2)) + 1e6
    with pytest.raises(ValueError, match="lost in rounding"):
        exact_leverage_scores(X, Linear(), 1.0)
    from squeak.samplers.measured import accuracy_meter

    with pytest.raises(ValueError, match="lost in rounding"):
        accuracy_meter(gram(Linear(), X), 1.0)
    for sampler in (Squeak(kernel=RBF(1.0), ridge=1e-12), Squeak(kernel=Linear(), ridge=1.0)):
        with pytest.raises(ValueError, match="lost in rounding"):
            sampler.fit(X)


def test_a_ridge_lost_in_rounding_is_named(rng):
    X = np.repeat(rng.standard_normal((3, 2)), 60, axis=0)
    with pytest.raises(ValueError, match="lost in rounding"):
        WeightedFactor.build(RBF(1.0), X, np.full(180, 1e9), 1e-12)


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_a_factor_that_fails_says_whether_kernel_or_ridge_is_to_blame_at_any_size(size):
    K = size * np.array([[1.0, 1.1], [1.1, 1.0]])  # no PSD matrix
    kernel = PairwiseKernel(lambda i, j: K[i, j])
    with pytest.raises(ValueError, match="not positive semi-definite"):
        WeightedFactor.build(kernel, [0, 1], np.ones(2), 1e-3 * size)
    flat = PairwiseKernel(lambda i, j: size)
    with pytest.raises(ValueError, match="is lost in rounding"):
        WeightedFactor.build(flat, [0, 1], np.ones(2), 1e-18 * size)


def test_a_small_spectrum_is_resolved_at_a_small_ridge():
    """What rounding loses is measured beside the largest eigenvalue, however small that is."""
    check_resolved(np.array([0.0, 1e-3]), 1e-15)
    with pytest.raises(ValueError, match=r"ridge 1e-20 is lost in rounding beside values of 0\.001"):
        check_resolved(np.array([0.0, 1e-3]), 1e-20)
    with pytest.raises(ValueError, match=r"eigenvalue -0\.1 beside 0\.001"):
        check_resolved(np.array([-0.1, 1e-3]), 1.0)
