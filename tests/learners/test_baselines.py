"""Divide-and-conquer ridge, NYTRO and basic FALKON against dense solutions, and scikit-learn's checks of them."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from squeak import KernelRidge
from squeak.core.seeds import SAMPLE, draw_seed, generator_at
from squeak.kernels import RBF, Linear
from squeak.learners import BasicFalkon, DivideAndConquerRidge, NytroRegressor
from squeak.samplers import BlessR, Uniform

WEIGHTS = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)


def expected_failures(estimator):
    """A row that is repeated is in several parts, or held as several rows in the choice of atoms."""
    return dict.fromkeys(WEIGHTS, "rows are drawn by their number, not by their weight")


@parametrize_with_checks(
    [DivideAndConquerRidge(n_parts=2), NytroRegressor(max_iter=400), BasicFalkon()],
    expected_failed_checks=expected_failures,
)
def test_scikit_learns_contract(estimator, check):
    check(estimator)


@pytest.fixture
def data(rng):
    X = rng.standard_normal((90, 3))
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]]) + 0.1 * rng.standard_normal((90, 2))
    return X, Y, rng.standard_normal((20, 3)), rng.uniform(0.5, 2.0, 90)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_parts_are_dense_ridge_regressions_and_f_their_mean(data, weighted):
    X, Y, T, w = data
    weight = w if weighted else None
    model = DivideAndConquerRidge(RBF(1.5), 0.6, n_parts=4, random_state=0).fit(X, Y, weight)
    found = np.zeros((20, 2))
    for some in np.array_split(generator_at(draw_seed(0), SAMPLE).permutation(90), 4):
        noise = 0.6 / 4 / (w[some] if weighted else np.ones(len(some)))
        c = np.linalg.solve(RBF(1.5)(X[some]) + np.diag(noise), Y[some])
        found += RBF(1.5)(T, X[some]) @ c / 4
    np.testing.assert_allclose(model.predict(T), found, atol=1e-9)
    whole = DivideAndConquerRidge(RBF(1.5), 0.6, n_parts=1).fit(X, Y).predict(T)
    np.testing.assert_allclose(whole, KernelRidge(RBF(1.5), 0.6, dictionary=X).fit(X, Y).predict(T), atol=1e-7)
    assert np.abs(whole - found).max() > 1e-3


def test_nytro_is_its_spectral_filter_on_the_nystrom_kernel(data):
    """After t steps predictions on the rows are (I − (I − ηK̃)^t)y, K̃ = K_nm K_mm⁻¹ K_mn and η = step/(κ²n)."""
    X, Y, T, _ = data
    atoms = X[:15]
    model = NytroRegressor(RBF(1.5), dictionary=atoms, step=0.7, max_iter=30).fit(X, Y)
    B = RBF(1.5)(X, atoms) @ np.linalg.inv(np.linalg.cholesky(RBF(1.5)(atoms))).T
    values, U = np.linalg.eigh(B @ B.T)
    rate = 0.7 / ((B**2).sum(axis=1).max() * 90)
    expected = (U * (1 - (1 - rate * values) ** 30)) @ U.T @ Y
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-9)
    assert model.dual_coef_.shape == (15, 2)
    assert model.n_iter_ == 30
    assert NytroRegressor(RBF(1.5), max_atoms=15, random_state=0).fit(X, Y[:, 0]).predict(T).shape == (20,)


def test_nytro_keeps_the_step_that_rows_held_out_like_best(data):
    X, Y, _, w = data
    params = {"max_atoms": 40, "max_iter": 3000, "validation_fraction": 0.3, "random_state": 0}
    noisy = Y + 0.5 * np.random.default_rng(0).standard_normal(Y.shape)
    model = NytroRegressor(RBF(0.5), **params).fit(X, noisy, w)
    assert model.n_iter_ == 1 + np.argmin(model.validation_errors_) < 3000
    short = NytroRegressor(RBF(0.5), **(params | {"max_iter": model.n_iter_})).fit(X, noisy, w)
    np.testing.assert_allclose(model.dual_coef_, short.dual_coef_)


def literal_descent(K, C, Y, w, weights, alpha, step, steps):
    """Return c_t of (4.8) and (4.9), with B·Bᵀ of (4.7) in full; ``weights`` are n/M there, and ``step`` is γ/n."""
    B = np.linalg.cholesky(np.linalg.inv(K * weights @ K + alpha * K))
    beta = np.zeros((len(K), Y.shape[1]))
    for _ in range(steps):
        c = B @ beta
        beta = beta - step * B.T @ (C.T @ (w[:, None] * (C @ c - Y)) + alpha * K @ c)
    return B @ beta


@pytest.mark.parametrize("sampler", [Uniform(max_atoms=15, random_state=0), BlessR(max_atoms=15, random_state=0)])
@pytest.mark.parametrize("weighted", [False, True])
def test_basic_falkon_is_the_printed_descent(data, sampler, weighted):
    X, Y, T, w = data
    w = w if weighted else np.ones(len(X))
    kernel = RBF(1.5)
    d = sampler.set_params(kernel=kernel, ridge=None if "Bless" in repr(sampler) else 1.0).fit(X).dictionary_
    model = BasicFalkon(alpha=0.6, dictionary=d, step=0.5, max_iter=7, tol=0.0)
    model.fit(X, Y, w if weighted else None)
    C = kernel(X, d.atoms)
    expected = literal_descent(kernel(d.atoms), C, Y, w, d.weights * w.mean(), 0.6, 0.5, 7)
    np.testing.assert_allclose(model.predict(T), kernel(T, d.atoms) @ expected, atol=1e-7)
    assert model.n_iter_ == 7 == len(model.residuals_) - 1
    if "Uniform" in repr(sampler) and not weighted:
        np.testing.assert_allclose(d.weights, 90 / 15)  # as the thesis prints it
    wrong = literal_descent(kernel(d.atoms), C, Y, w, np.ones(len(d)), 0.6, 0.5, 7)
    assert np.abs(kernel(T, d.atoms) @ (wrong - expected)).max() > 1e-3


def test_basic_falkon_ends_in_the_ridge_regression_at_the_rate_of_its_step(data):
    X, Y, T, _ = data
    d = BlessR(RBF(1.5), max_atoms=25, random_state=0).fit(X).dictionary_
    model = BasicFalkon(alpha=0.6, dictionary=d, max_iter=2000, tol=1e-10, random_state=0).fit(X, Y)
    ridge = KernelRidge(alpha=0.6, dictionary=d, solver="direct", fit_intercept=False).fit(X, Y)
    np.testing.assert_allclose(model.predict(T), ridge.predict(T), atol=1e-7)
    K, C = RBF(1.5)(d.atoms), RBF(1.5)(X, d.atoms)
    B = np.linalg.cholesky(np.linalg.inv(K * d.weights @ K + 0.6 * K))
    values = np.linalg.eigvalsh(B.T @ (C.T @ C + 0.6 * K) @ B)
    assert 1 / (1.1 * values[-1]) <= model.step_ * (1 + 1e-9) < 1.1 / values[-1]
    rate = 1 - model.step_ * values[0]
    assert all(r <= rate**t * (1 + 1e-6) + 1e-9 for t, r in enumerate(model.residuals_))
    conjugate = KernelRidge(alpha=0.6, dictionary=d, solver="falkon", fit_intercept=False, tol=1e-10).fit(X, Y)
    assert conjugate.n_iter_ < model.n_iter_ / 2


def test_a_step_that_is_too_long_is_refused(data):
    X, Y, _, _ = data
    with pytest.raises(ValueError, match="the descent diverges"):
        BasicFalkon(RBF(1.5), max_atoms=20, step=50.0, random_state=0).fit(X, Y)


def test_bad_parameters_get_one_clear_error(data):
    X, Y, _, _ = data
    for model, words in (
        (NytroRegressor(step=1.5), "step must lie in"),
        (NytroRegressor(max_iter=0), "max_iter must be a whole number"),
        (NytroRegressor(Linear(), dictionary=np.zeros((2, 3))), "zero for all rows"),
        (BasicFalkon(alpha=-1.0), "alpha must be positive"),
        (BasicFalkon(step=0.0), "step must be positive"),
        (BasicFalkon(max_iter=0), "max_iter must be a whole number"),
        (DivideAndConquerRidge(alpha=0.0), "alpha must be positive"),
        (DivideAndConquerRidge(n_parts=0), "n_parts must be a whole number"),
    ):
        with pytest.raises(ValueError, match=words):
            model.fit(X, Y)
