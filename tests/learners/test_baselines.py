"""Divide-and-conquer ridge and NYTRO against dense solutions, and scikit-learn's checks of both."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from squeak import KernelRidge
from squeak.core.seeds import SAMPLE, draw_seed, generator_at
from squeak.kernels import RBF, Linear
from squeak.learners import DivideAndConquerRidge, NytroRegressor

WEIGHTS = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)


def expected_failures(estimator):
    """A row that is repeated is in several parts, or held as several rows in the choice of atoms."""
    return dict.fromkeys(WEIGHTS, "rows are drawn by their number, not by their weight")


@parametrize_with_checks(
    [DivideAndConquerRidge(n_parts=2), NytroRegressor(max_iter=400)], expected_failed_checks=expected_failures
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


def test_bad_parameters_get_one_clear_error(data):
    X, Y, _, _ = data
    for model, words in (
        (NytroRegressor(step=1.5), "step must lie in"),
        (NytroRegressor(max_iter=0), "max_iter must be a whole number"),
        (NytroRegressor(Linear(), dictionary=np.zeros((2, 3))), "zero for all rows"),
        (DivideAndConquerRidge(alpha=0.0), "alpha must be positive"),
        (DivideAndConquerRidge(n_parts=0), "n_parts must be a whole number"),
    ):
        with pytest.raises(ValueError, match=words):
            model.fit(X, Y)
