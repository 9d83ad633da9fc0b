"""The table of samplers: every figure in it is the dense formula, every count is what was computed."""

import builtins

import numpy as np
import pandas as pd
import pytest

from squeak.core.kernels import gram
from squeak.kernels import RBF, Linear, PairwiseKernel
from squeak.leverage import accuracy
from squeak.report import draw_comparison
from squeak.samplers import BlessR, ExactRLS, GreedyCholesky, Kors, RPCholesky, Squeak, Uniform, compare
from squeak.samplers.quality import CountingKernel, Judge, Tally
from tests.oracles import dense_accuracy, dense_estimate, dense_scores

KERNEL, RIDGE = RBF(1.2), 1.0


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).standard_normal((250, 2)) * [1.0, 2.0]


def dense_risk(K, K_hat, ridge):
    """R = λ²Tr[(K̂ + λ)⁻¹K(K̂ + λ)⁻¹] + λTr[K̂²(K̂ + λ)⁻²], λ = ridge: spec 6.2, mean over f* ~ N(0, K), σ² = λ."""
    M = np.linalg.inv(K_hat + ridge * np.eye(len(K)))
    return ridge**2 * np.trace(M @ K @ M) + ridge * np.trace(K_hat @ K_hat @ M @ M)


@pytest.mark.parametrize(
    "sampler", [Squeak(KERNEL, RIDGE, oversampling=3), Uniform(KERNEL, 30), RPCholesky(KERNEL, 25)]
)
def test_every_measure_is_the_dense_formula(sampler, X):
    d = sampler.set_params(random_state=0).fit(X).dictionary_
    K = gram(KERNEL, X)
    found = Judge(X, KERNEL, RIDGE, exact=True).judge(d)
    C = K[:, d.indices]
    K_hat = C @ np.linalg.pinv(K[np.ix_(d.indices, d.indices)], rcond=1e-13) @ C.T
    assert found["trace_error"] == pytest.approx(1 - np.trace(K_hat) / np.trace(K), abs=1e-9)
    exact = dense_risk(K, K, RIDGE)
    assert exact == pytest.approx(RIDGE * dense_scores(K, RIDGE).sum())
    assert found["risk_factor"] == pytest.approx(dense_risk(K, K_hat, RIDGE) / exact, rel=1e-6)
    assert found["risk_factor"] >= 1 - 1e-9
    if not d.calibrated:
        assert np.isnan(found["accuracy_low"])
        return
    weights = np.zeros(250)
    weights[d.indices] = d.weights
    assert (
        found["accuracy_low"]
        == found["accuracy_high"]
        == pytest.approx(dense_accuracy(K, weights, RIDGE), rel=1e-6)
    )
    ratios = dense_estimate(K, weights, RIDGE) / dense_scores(K, RIDGE)
    assert found["ratio_mean"] == pytest.approx(ratios.mean(), rel=1e-6)
    assert found["ratio_95%"] == pytest.approx(np.quantile(ratios, 0.95), rel=1e-6)


def test_many_rows_get_a_bracket_and_the_same_trace_error(X):
    d = Squeak(KERNEL, RIDGE, oversampling=6, random_state=0).fit(X).dictionary_
    exact, rough = (Judge(X, KERNEL, RIDGE, exact=flag).judge(d) for flag in (True, False))
    assert rough["accuracy_low"] <= accuracy(d, X) <= rough["accuracy_high"]
    assert rough["trace_error"] == pytest.approx(exact["trace_error"], abs=1e-9)
    assert np.isnan(rough["risk_factor"])


def test_kernel_values_are_counted_as_they_are_computed(X):
    """By a kernel that counts its own calls, one value at a time."""
    calls = []

    def value(a, b):
        calls.append(1)
        return float(np.exp(-np.sum((a - b) ** 2)))

    few = X[:40]
    tally = Tally()
    counting = CountingKernel(PairwiseKernel(value), tally)
    assert counting(few, few[:7]).shape == (40, 7)
    assert tally.total == 280
    for sampler in (Squeak(ridge=0.5), Kors(ridge=0.5), BlessR(ridge=0.5), RPCholesky(max_atoms=5)):
        tally.total = 0
        calls.clear()
        sampler.set_params(kernel=counting, random_state=0).fit(few)
        # resolving the inner kernel is not counted; a Gram matrix is counted whole and computed by half
        assert len(calls) - 8 * 9 <= tally.total <= 2 * len(calls) + 200
        assert tally.total > 100


def test_counts_of_the_table_are_those_of_the_algorithms(X):
    samplers = [ExactRLS(), RPCholesky(max_atoms=31), GreedyCholesky(max_atoms=31), Uniform(max_atoms=31)]
    table = compare(X, KERNEL, RIDGE, samplers=samplers, repeats=1, random_state=0).set_index("sampler")
    n, resolving = 250, 8 * 8 + 8
    assert table.loc["ExactRLS", "kernel_evaluations"] == pytest.approx(n * n + n, abs=2 * resolving + n)
    assert table.loc["GreedyCholesky", "kernel_evaluations"] == pytest.approx(
        31 * (n + 1) + n, abs=2 * resolving + n
    )
    assert 31 * n <= table.loc["RPCholesky", "kernel_evaluations"] <= 31 * n + 10 * 50**2
    assert table.loc["Uniform", "kernel_evaluations"] <= 2 * resolving + n
    assert list(table["passes"]) == [1.0, table.loc["RPCholesky", "passes"], 31.0, 1.0]
    assert (table.loc[["RPCholesky", "GreedyCholesky", "Uniform"], "atoms"] == 31).all()


@pytest.fixture(scope="module")
def everything(X):
    return compare(X, RBF("median"), repeats=2, oversampling=[3, 6], random_state=0)


def test_all_samplers_are_in_the_default_table_at_equal_sizes(everything):
    table = everything
    assert isinstance(table, pd.DataFrame)
    assert len(table) == 22
    for _, part in table.groupby("oversampling"):
        sizes = part.set_index("sampler")["atoms"]
        assert sizes["Uniform"] == sizes["RPCholesky"] == pytest.approx(sizes["Squeak"], rel=0.2)
    figure = draw_comparison(table)
    assert len(figure.axes[0].lines) == 9  # those without weights have no ε̂
    assert len(figure.axes[1].lines) == 11


@pytest.mark.slow
def test_the_default_table_is_the_same_again(X, everything):
    again = compare(X, RBF("median"), repeats=2, oversampling=[3, 6], random_state=0)
    quality = [name for name in everything.columns if name != "seconds"]
    pd.testing.assert_frame_equal(everything[quality], again[quality])


def test_what_a_sampler_was_given_is_left_as_it_is(X):
    samplers = {"few": Squeak(oversampling=2.0), "small": Uniform(max_atoms=7), "own ridge": ExactRLS(ridge=5.0)}
    table = compare(X, KERNEL, RIDGE, samplers=samplers, repeats=1, random_state=0).set_index("sampler")
    assert table.loc["own ridge", "ridge"] == 5.0
    assert table.loc["small", "atoms"] == 7
    assert table.loc["few", "atoms"] < 60
    assert samplers["small"].kernel is None  # they were copied


def test_without_pandas_there_is_a_list(X, monkeypatch):
    real = builtins.__import__

    def no_pandas(name, *args, **kwargs):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_pandas)
    table = compare(X, KERNEL, RIDGE, samplers=[Uniform()], repeats=1, random_state=0)
    assert isinstance(table, list)
    assert table[0]["sampler"] == "Uniform"


def test_bad_requests_get_one_clear_error(X):
    for given, message in (
        ({"samplers": []}, "no samplers to compare"),
        ({"samplers": [RBF(1.0)]}, "RBF is a RBF, not a sampler"),
        ({"repeats": 0}, "repeats must be a whole number"),
        ({"ridge": -1.0}, "ridge must be positive"),
        ({"samplers": Squeak()}, r"pass \[sampler\] for one"),
        ({"samplers": [Squeak(RBF(3.0))]}, "has a kernel of its own"),
        ({"oversampling": "theory"}, "oversampling must be a positive number"),
        ({"oversampling": []}, "oversampling must be a positive number"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            compare(X, KERNEL, **given)


def test_dictionaries_of_other_ridges_are_judged_at_that_of_the_table(X):
    """Whatever ridge a sampler ended at: the same weights have the same ε̂ and ratios, exact or bracketed."""
    sampler = ExactRLS(ridge=20.0, oversampling=20.0)
    exact = compare(X, KERNEL, RIDGE, samplers=[sampler], repeats=1, random_state=0)
    rough = compare(X, KERNEL, RIDGE, samplers=[sampler], repeats=1, exact_rows=10, random_state=0)
    low, high = rough["accuracy_low"][0], rough["accuracy_high"][0]
    assert low <= exact["accuracy_high"][0] <= high
    d = ExactRLS(KERNEL, 20.0, oversampling=20.0, random_state=0).fit(X).dictionary_
    found = Judge(X, KERNEL, RIDGE, exact=True).judge(d)
    weights = np.zeros(250)
    weights[d.indices] = d.weights
    by_hand = dense_estimate(gram(KERNEL, X), weights, RIDGE) / dense_scores(gram(KERNEL, X), RIDGE)
    assert found["ratio_mean"] == pytest.approx(by_hand.mean(), rel=1e-6)


def test_all_rows_with_weight_one_have_no_error(X):
    table = compare(X, KERNEL, RIDGE, samplers=[Uniform(max_atoms=250)], repeats=1, random_state=0)
    assert table["accuracy_high"][0] == 0.0
    assert table["trace_error"][0] < 1e-9


def test_rows_of_zeros_have_no_ratio_and_do_no_harm(X):
    Z = np.vstack([X, np.zeros((10, 2))])
    table = compare(Z, Linear(), RIDGE, samplers=[Squeak(), Uniform()], repeats=1, random_state=0)
    assert np.isfinite(table["ratio_mean"]).all()
