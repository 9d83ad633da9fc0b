"""The marginal likelihood on counts is that of all rewards; fits find what made the data."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import kernels as theirs

from squeak.bandits import fit_hyperparameters, log_evidence
from squeak.bandits.widths import Evidence, make_width, width_from_data, width_to_data
from squeak.kernels import RBF


@pytest.fixture
def data(rng):
    X = rng.random((60, 2))
    pulls = np.concatenate([np.arange(60), rng.integers(0, 60, 90)])
    y = 0.7 + np.sin(5 * X[pulls, 0]) + 0.2 * rng.standard_normal(150)
    return X, pulls, y, np.bincount(pulls).astype(float), np.bincount(pulls, weights=y)


def test_counts_give_the_density_of_all_rewards(data):
    X, pulls, y, counts, sums = data
    kernel, noise, mean = 1.7 * RBF(0.4), 0.3, 0.5
    K = kernel(X)[np.ix_(pulls, pulls)] + noise**2 * np.eye(150)
    dense = multivariate_normal(np.full(150, mean), K).logpdf(y)
    assert log_evidence(X, counts, sums, float(y @ y), kernel, noise, mean) == pytest.approx(dense, rel=1e-10)


def test_landmarks_give_titsias_bound_which_is_exact_when_they_are_all(data):
    X, pulls, y, counts, sums = data
    kernel, noise, mean, marks = RBF(0.4), 0.3, 0.5, np.arange(0, 60, 6)
    args = (X, counts, sums, float(y @ y), kernel, noise, mean)
    exact = log_evidence(*args)
    assert log_evidence(*args, landmarks=np.arange(60)) == pytest.approx(exact, abs=1e-5)
    K = kernel(X)
    Q = K[:, marks] @ np.linalg.solve(K[np.ix_(marks, marks)], K[marks])
    left = (K - Q).diagonal()[pulls].sum()
    density = multivariate_normal(np.full(150, mean), Q[np.ix_(pulls, pulls)] + noise**2 * np.eye(150)).logpdf(y)
    bound = log_evidence(*args, landmarks=marks)
    assert bound == pytest.approx(density - left / (2 * noise**2), rel=1e-6)
    assert bound <= exact


@pytest.mark.parametrize("landmarks", [None, np.arange(0, 60, 2)])
def test_a_fit_raises_the_likelihood_and_finds_the_noise(data, landmarks):
    X, _, y, counts, sums = data
    found = fit_hyperparameters(
        X, counts, sums, float(y @ y), RBF(3.0), 1.0, landmarks=landmarks, fit_amplitude=True
    )
    args = (X, counts, sums, float(y @ y))
    assert found.log_likelihood == pytest.approx(
        log_evidence(*args, found.kernel, found.noise, found.mean, landmarks)
    )
    assert found.log_likelihood > log_evidence(*args, RBF(3.0), 1.0, 0.0, landmarks) + 20
    assert 0.15 < found.noise < 0.25


def test_a_width_for_each_column_finds_the_column_that_matters(data):
    X, _, y, counts, sums = data
    found = fit_hyperparameters(X, counts, sums, float(y @ y), RBF(0.5), 0.3, groups=np.arange(2))
    assert found.kernel.length_scale[1] > 3 * found.kernel.length_scale[0]


def test_kernels_of_scikit_learn_are_fitted_by_their_theta(data):
    X, _, y, counts, sums = data
    found = fit_hyperparameters(X, counts, sums, float(y @ y), theirs.RBF(3.0), 1.0)
    assert 0.1 < found.kernel.length_scale < 2.0


def test_widths_are_their_formulas():
    seen = Evidence(
        ridge=0.04, noise=0.2, norm=3.0, delta=0.05, largest=2.0, pulls=50, log_sum=7.0, variance_sum=5.0
    )
    logdet = 0.2 * 3 + 0.2 * np.sqrt(7 + 2 * np.log(20))
    theory = (1 + np.sqrt(2)) * 0.2 * 3 + 0.2 * np.sqrt(2 * (7 + np.log(20)))
    by_sum = (1 + np.sqrt(2)) * 0.6 + 0.2 * np.sqrt(2 * (3 * (1 + np.log(1 + 2 * 50 / 0.04)) * 5 + np.log(20)))
    public = 0.6 + np.sqrt(0.04 * (5 * np.log(50) + np.log(20)))
    for name, value in (
        ("logdet", logdet),
        ("theory", theory),
        ("theory-sum", by_sum),
        ("public", public),
        (2.5, 0.5),
    ):
        width = make_width(name)
        assert width(seen) == pytest.approx(value)
        assert width_from_data(width_to_data(width)) == width
    assert make_width("theory").inflation == 3.0
    assert make_width("theory").in_batch(1.0, 4.0) == 2.0
    assert make_width("logdet").in_batch(1.0, 4.0) == 1.0


def test_a_width_for_each_column_may_be_given_as_a_list(data):
    X, _, y, counts, sums = data
    as_list, as_array = (
        fit_hyperparameters(X, counts, sums, float(y @ y), RBF(width), 0.3, groups=np.arange(2)).kernel
        for width in ([0.5, 0.5], np.array([0.5, 0.5]))
    )
    assert np.array_equal(as_list.length_scale, as_array.length_scale)
