"""The accuracy measure, exact and bracketed."""

import numpy as np
import pytest

from squeak import Squeak
from squeak.core.kernels import gram
from squeak.kernels import RBF, Laplacian
from squeak.leverage import accuracy, estimate_accuracy
from squeak.samplers import ExactRLS, Uniform, merge
from squeak.samplers.measured import accuracy_meter
from tests.conftest import real_rows
from tests.oracles import dense_accuracy


@pytest.fixture
def K(clusters):
    return gram(RBF(1.0), clusters)


def random_weights(rng, n):
    return np.where(rng.random(n) < 0.5, rng.uniform(0.5, 3.5, n), 0.0)


def test_all_rows_are_exact_and_none_miss_the_largest_eigenvalue(K):
    n, top = len(K), np.linalg.eigvalsh(K)[-1]
    assert accuracy_meter(K, 2.0)(np.ones(n)) == pytest.approx(0, abs=1e-12)
    assert accuracy_meter(K, 2.0)(np.zeros(n)) == pytest.approx(top / (top + 2.0), rel=1e-10)


@pytest.mark.parametrize("ridge", [0.01, 1.0, 10.0])
def test_it_is_the_norm_of_p_minus_p_tilde(K, ridge, rng):
    weights = random_weights(rng, len(K))
    assert accuracy_meter(K, ridge)(weights) == pytest.approx(dense_accuracy(K, weights, ridge), rel=1e-9)
    light = 0.05 * weights  # too little weight: the error sits at the other end
    assert accuracy_meter(K, ridge)(light) == pytest.approx(dense_accuracy(K, light, ridge), rel=1e-9)


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_the_loewner_form_holds_at_the_accuracy_and_fails_just_below(K, scale, rng):
    weights, ridge = scale * random_weights(rng, len(K)), 1.0
    eps = accuracy_meter(K, ridge)(weights)
    eigenvalues, U = np.linalg.eigh(K)
    phi = (U * np.sqrt(np.maximum(eigenvalues, 0))) @ U.T
    full, part = phi @ phi.T, (phi * weights) @ phi.T
    span = U[:, eigenvalues > 1e-10 * eigenvalues[-1]]

    def holds(e):
        low = part - (1 - e) * full + e * ridge * np.eye(len(K))
        high = (1 + e) * full + e * ridge * np.eye(len(K)) - part
        return min(np.linalg.eigvalsh(span.T @ side @ span)[0] for side in (low, high)) >= -1e-9

    assert holds(eps)
    assert not holds(0.99 * eps)


def test_it_never_grows_with_the_ridge(K, rng):
    weights = random_weights(rng, len(K))
    values = [accuracy_meter(K, ridge)(weights) for ridge in (0.1, 0.5, 1, 5, 50)]
    assert np.all(np.diff(values) <= 1e-12)


def test_accuracy_of_a_dictionary_and_of_a_merged_one(rng):
    parts = [rng.standard_normal((200, 2)) for _ in range(2)]
    learn = Squeak(kernel=RBF(1.0), ridge=1.0, oversampling=20, random_state=0)
    d1, d2 = (learn.fit(part).dictionary_ for part in parts)
    merged = merge(d1, d2, random_state=3)
    weights = np.zeros(400)
    weights[merged.positions] = merged.weights
    K = gram(RBF(1.0), np.vstack(parts))
    assert accuracy(merged, np.vstack(parts)) == pytest.approx(dense_accuracy(K, weights, 1.0), rel=1e-9)
    assert accuracy(d1, parts[0], ridge=3.0) < accuracy(d1, parts[0])


def test_other_rows_are_refused(rng):
    X = rng.standard_normal((200, 2))
    d = Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0).fit(X).dictionary_
    for measure in (accuracy, estimate_accuracy):
        with pytest.raises(ValueError, match="learned from 200 rows, X has 199"):
            measure(d, X[1:])
        with pytest.raises(ValueError, match="not the rows the dictionary was learned from"):
            measure(d, X[::-1])
    with pytest.raises(ValueError, match="n_probe"):
        estimate_accuracy(d, X, n_probe=0)


CASES = [
    (kernel, sampler, seed)
    for kernel in (RBF(0.7), Laplacian(2.0))
    for sampler in ("squeak", "exact", "uniform")
    for seed in range(2)
]


@pytest.mark.parametrize(("kernel", "sampler", "seed"), CASES)
def test_one_pass_brackets_the_accuracy(kernel, sampler, seed):
    X = np.random.default_rng(seed).standard_normal((500, 2))
    if sampler == "uniform":
        d = Uniform(kernel=kernel, max_atoms=150, ridge=1.0, random_state=seed).fit(X).dictionary_
    else:
        cls = {"squeak": Squeak, "exact": ExactRLS}[sampler]
        d = cls(kernel=kernel, ridge=1.0, oversampling=8, random_state=seed).fit(X).dictionary_
    exact = accuracy(d, X)
    full = estimate_accuracy(d, X, n_probe=500)  # the residual's norm is exact then: bounds are certain
    assert full.lower <= exact <= full.upper
    probed = estimate_accuracy(d, X, n_probe=200, random_state=seed)
    assert probed.lower == pytest.approx(full.lower)
    if sampler != "uniform":
        assert full.lower >= 0.8 * exact  # the Laplacian kernel is the hard one: a long flat spectrum
        assert full.upper <= 2.2 * exact


def test_the_probed_residual_is_no_underestimate_in_expectation(rng):
    """E[λ_max of the scaled sample] ≥ λ_max (Jensen); the mean of 40 probes, less 4 standard errors at most."""
    X = rng.standard_normal((600, 2))
    d = Uniform(kernel=RBF(0.7), max_atoms=60, ridge=1.0, random_state=0).fit(X).dictionary_
    full = estimate_accuracy(d, X, n_probe=600).residual
    probes = np.array([estimate_accuracy(d, X, n_probe=150, random_state=seed).residual for seed in range(40)])
    assert probes.mean() + 4 * probes.std() / np.sqrt(40) >= full > 0.1


def test_the_bracket_is_tight_on_real_rows():
    X = real_rows("cadata", 1200)
    d = Squeak(kernel=RBF(2.0), ridge=1.0, oversampling=10, random_state=0).fit(X).dictionary_
    found, exact = estimate_accuracy(d, X), accuracy(d, X)
    assert 0.95 * exact <= found.lower <= exact <= found.upper <= 1.3 * exact


def test_a_dictionary_that_misses_an_outlier_is_seen_to(rng):
    X = np.vstack([0.1 * rng.standard_normal((500, 2)), [[50.0, 50.0]]])
    inside = Uniform(kernel=RBF(1.0), max_atoms=100, ridge=0.1, random_state=0).fit(X).dictionary_
    assert 500 not in inside.indices
    found = estimate_accuracy(inside, X, n_probe=501)
    assert accuracy(inside, X) >= 1 / 1.1 - 1e-9  # λ/(λ + ridge) of the direction that is not there
    assert found.lower <= accuracy(inside, X) <= found.upper
