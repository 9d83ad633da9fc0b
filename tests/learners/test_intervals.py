"""Deviations and intervals in units of the target: against refits without a row, and as often right as they say."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import binom

import squeak
from squeak import KernelRidge, KernelRidgeCV
from squeak.kernels import RBF
from squeak.learners import drawn, intervals
from tests.conftest import DATA
from tests.oracles import DenseNystrom, dense_deviation, dense_ridge, dense_scores_left_out

N, ATOMS = 40, 12


def small(outputs=1, weighted=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 2))
    Y = (
        5.0
        + 20.0 * np.column_stack([np.sin(2 * X[:, 0]), X[:, 1]])[:, :outputs]
        + rng.standard_normal((N, outputs))
    )
    return X, Y, rng.exponential(size=N) + 0.1 if weighted else None


def scores_of(model):
    return model._left_out.scores


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("solver", ["exact", "direct", "falkon", "blocks", "cv", "regularised"])
def test_scores_and_deviations_are_those_of_refits_without_the_row(solver, intercept, weighted, outputs):
    X, Y, w = small(outputs, weighted)
    given = {"dictionary": X if solver == "exact" else X[:ATOMS], "fit_intercept": intercept, "random_state": 0}
    if solver == "cv":
        model = KernelRidgeCV(RBF(1.0), alphas=[0.3], **given)
    else:
        how = {"solver": solver, "max_iter": 300, "tol": 1e-12} if solver in ("direct", "falkon") else {}
        model = KernelRidge(RBF(1.0), alpha=0.3, regularised=solver == "regularised", **how, **given)
    targets = Y[:, 0] if outputs == 1 else Y
    if solver == "blocks":
        for part in (slice(0, 15), slice(15, N)):
            model.partial_fit(X[part], targets[part], None if w is None else w[part])
    else:
        model.fit(X, targets, w)
    d = model.dictionary_
    weights, ridge = (d.weights, d.ridge) if solver == "regularised" else (np.ones(len(d)), 0.0)
    K = DenseNystrom(RBF(1.0), d.atoms, weights, ridge)

    def without(i):
        others = ~(d.atoms == X[i]).all(axis=1)
        return DenseNystrom(RBF(1.0), d.atoms[others], weights[others], ridge)

    ones, T = np.ones(N) if w is None else w, X[:5] + 0.1
    expected, values = dense_scores_left_out(without, X, Y, ones, 0.3, intercept)
    np.testing.assert_allclose(model._left_out.values, values, rtol=1e-5, atol=1e-5)
    found = scores_of(model)
    np.testing.assert_allclose(found, expected if weighted else np.sort(expected, axis=0), rtol=1e-5, atol=1e-6)
    _, std, _ = dense_ridge(K, X, Y, ones, 0.3, T, intercept)
    deviation = dense_deviation(K, X, Y, ones, 0.3, model.rank_, std, intercept)
    mean, said = model.predict(T, return_std=True)
    assert said.shape == mean.shape
    np.testing.assert_allclose(said.reshape(deviation.shape), deviation, rtol=1e-6)
    low, high = model.predict_interval(T, 0.8)
    assert low.shape == high.shape == mean.shape
    weights = np.ones(N) if w is None else w
    for output in range(outputs):
        size = np.abs(found[:, output])
        order = np.argsort(size)
        share = np.cumsum(weights[order]) / (weights.sum() + weights.mean())
        q = size[order][np.flatnonzero(share >= 0.8 - 1e-12)[0]]
        middle, ends = mean.reshape(5, -1)[:, output], (high - low).reshape(5, -1)[:, output]
        np.testing.assert_allclose(ends, 2 * q * np.sqrt(1 + std**2 / 0.3), rtol=1e-6)
        np.testing.assert_allclose((high + low).reshape(5, -1)[:, output] / 2, middle, rtol=1e-6)


def test_a_wrong_twin_without_leaving_out_is_not_the_refit():
    """The residuals of the fit itself are smaller: the test above would see it if rows were not left out."""
    X, Y, _ = small()
    model = KernelRidge(RBF(1.0), alpha=0.3, dictionary=X[:ATOMS]).fit(X, Y[:, 0])
    K = DenseNystrom(RBF(1.0), X[:ATOMS])
    expected, _ = dense_scores_left_out(lambda i: K, X, Y, np.ones(N), 0.3, False)
    spread = model._left_out.spread(X)
    twin = np.sort((Y[:, 0] - model.predict(X)) / spread)
    assert np.abs(twin - np.sort(expected[:, 0])).max() > 0.1


def uneven(n, seed):
    """Rows with noise that grows along the first column, and a skewed part."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    noise = 0.2 * np.exp(0.7 * X[:, 0]) * (rng.standard_normal(n) + rng.exponential(size=n) - 1.0)
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + noise


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9])
def test_intervals_cover_as_often_as_they_say(coverage):
    """Over 20 fits of 600 rows and 1,000 new rows each; the twin takes residuals of the fit on many atoms.

    Coverage given the scores varies by √(c(1 − c)/600) from fit to fit and by √(c(1 − c)/1,000) by the new rows;
    the mean over 20 fits, with half a percent for choosing ends and for the jackknife, is passed by six deviations:
    a false alarm in less than 1e-6.
    """
    shares, twins = [], []
    for seed in range(20):
        X, y = uneven(1600, seed)
        model = KernelRidge(RBF(0.5), alpha=0.002, max_atoms=150, random_state=seed).fit(X[:600], y[:600])
        low, high = model.predict_interval(X[600:], coverage)
        shares.append(np.mean((low <= y[600:]) & (y[600:] <= high)))
        own = (y[:600] - model.predict(X[:600])) / model._left_out.spread(X[:600])
        low, high = intervals.interval(model.predict(X[600:]), model._left_out.spread(X[600:]), own, coverage)
        twins.append(np.mean((low <= y[600:]) & (y[600:] <= high)))
    room = 6 * np.sqrt(coverage * (1 - coverage) * (1 / 600 + 1 / 1000) / 20) + 0.005
    assert abs(np.mean(shares) - coverage) < room
    assert np.mean(twins) < coverage - room


@pytest.mark.parametrize("name", ["cadata", "cpusmall", "elevators", "kin40k"])
def test_nine_in_ten_targets_of_a_table_lie_in_their_interval(name):
    """Between 88 and 92%: with 4,000 scores and 4,000 new rows a deviation is 0.7%. The seed is fixed."""
    path = DATA / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    with np.load(path) as table:
        X, y = table["X"].astype(float), table["y"].astype(float)
    order = np.random.default_rng(0).permutation(len(X))[:12_000]
    X, y = (X[order] - X.mean(axis=0)) / X.std(axis=0), y[order]
    half = len(X) // 2
    model = KernelRidge(RBF("median"), alpha="auto", max_atoms=150, fit_intercept=True, random_state=0)
    low, high = model.fit(X[:half], y[:half]).predict_interval(X[half:])
    assert 0.88 < np.mean((low <= y[half:]) & (y[half:] <= high)) < 0.92


def test_a_share_of_exchangeable_scores_is_met_exactly():
    """Of k + 1 scores without ties, the one left out lies within its interval ⌈(k + 1)·c⌉ times."""
    rng = np.random.default_rng(0)
    for k, coverage in ((9, 0.9), (19, 0.9), (30, 0.5), (99, 0.95)):
        values = rng.standard_normal(k + 1)
        inside = 0
        for i in range(k + 1):
            low, high = intervals.conformal_quantiles(np.delete(values, i), coverage)
            inside += low <= values[i] <= high
        assert inside == int(np.ceil((k + 1) * coverage - 1e-9))


def test_ends_of_skewed_scores_are_narrower_and_cover():
    """Exponential scores: 90% lie in [0, 2.3], and ± q takes 2.6. 2,000 of 4,000: nine deviations of room."""
    rng = np.random.default_rng(1)
    scores, new = rng.exponential(size=4_000) - 1.0, rng.exponential(size=100_000) - 1.0
    low, high = intervals.conformal_quantiles(scores, 0.9)
    assert high - low < 0.95 * 2 * np.quantile(np.abs(scores), 0.9)
    assert abs(np.mean((low <= new) & (new <= high)) - 0.9) < 9 * np.sqrt(0.09 / 4_000)
    twin = np.mean((low <= new) & (new <= high - 0.7))
    assert abs(twin - 0.9) > 9 * np.sqrt(0.09 / 4_000)
    weight = np.where(scores > 1.0, 2.0, 1.0)
    doubled = np.concatenate([scores, scores[scores > 1.0]])
    np.testing.assert_allclose(
        intervals.conformal_quantiles(scores, 0.9, weight), intervals.conformal_quantiles(doubled, 0.9), atol=0.02
    )


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.5, 90, float("nan"), float("inf")])
def test_coverage_outside_of_0_and_1_is_one_clear_error(coverage):
    X, Y, _ = small()
    model = KernelRidge(RBF(1.0), dictionary=X[:5]).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match=r"coverage must (lie strictly between 0 and 1|be finite)"):
        model.predict_interval(X, coverage)
    with pytest.raises(TypeError, match="coverage must be a number"):
        model.predict_interval(X, "much")


def test_few_rows_and_equal_targets_and_ties():
    X = np.array([[0.0], [1.0]])
    two = KernelRidge(RBF(1.0), alpha=0.1).fit(X, [1.0, 2.0])
    low, high = two.predict_interval(X)
    assert np.isneginf(low).all()
    assert np.isposinf(high).all()
    low, high = two.predict_interval(X, 0.5)
    assert np.isfinite([low, high]).all()
    assert (low < high).all()
    assert np.isfinite(two.predict(X, return_std=True)[1]).all()
    rows = np.repeat(np.linspace(0, 1, 30), 3)[:, None]
    for targets in (np.zeros(90), np.full(90, 7.0)):
        model = KernelRidge(RBF(1.0), alpha=1e-3, fit_intercept=True, max_atoms=10, random_state=0).fit(
            rows, targets
        )
        low, high = model.predict_interval(rows)
        std = model.predict(rows, return_std=True)[1]
        assert np.allclose(low, targets)
        assert np.allclose(high, targets)
        assert np.allclose(std, 0.0)
    steps = KernelRidge(RBF(1.0), alpha=1e-3, max_atoms=10, random_state=0).fit(rows, np.round(3 * rows[:, 0]))
    low, high = steps.predict_interval(rows)
    assert np.mean((low <= np.round(3 * rows[:, 0])) & (np.round(3 * rows[:, 0]) <= high)) >= 0.85


def test_wherever_the_rows_lie_the_same_are_drawn(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9_000, 3))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(9_000)
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y)
    for part in range(3):
        frame[part * 3000 : (part + 1) * 3000].to_parquet(tmp_path / f"{part}.parquet", row_group_size=700)
    settings = {"alpha": 0.5, "dictionary": X[:40], "fit_intercept": True, "random_state": 3}
    model = KernelRidge(RBF(1.0), **settings).fit(X, y)
    T = X[:7] + 0.1
    expected = np.array([*model.predict(T, return_std=True), *model.predict_interval(T)])
    source = squeak.rows(str(tmp_path / "*.parquet"), "y", scale=None, categories=None)
    csr = KernelRidge(RBF(1.0), **settings).fit(sp.csr_array(X), y)
    once = KernelRidge(RBF(1.0), **settings).fit(
        squeak.rows(((X[at : at + 999], y[at : at + 999]) for at in range(0, 9_000, 999)), True)
    )
    blocks = KernelRidge(RBF(1.0), **settings)
    for at in range(0, 9_000, 2_500):
        blocks.partial_fit(X[at : at + 2_500], y[at : at + 2_500])
    from_files = KernelRidge(RBF(1.0), **settings).fit(source)
    assert len(scores_of(model)) == drawn.MOST_ROWS
    for other in (from_files, csr, once, blocks):
        rows = frame[list("abc")][:7] + 0.1 if other is from_files else sp.csr_array(T) if other is csr else T
        found = np.array([*other.predict(rows, return_std=True), *other.predict_interval(rows)])
        np.testing.assert_allclose(found, expected, rtol=1e-7)
    by_blocks = from_files.predict_interval(
        squeak.rows(frame[list("abc")], preprocessing=from_files.preprocessing_)
    )
    assert np.allclose(by_blocks[0][:3], from_files.predict_interval(frame[list("abc")][:3])[0])


def test_a_draw_is_without_replacement_and_even():
    """Every row has the same chance, 0.4: counts over 200 seeds stay within what a binomial does."""
    X, counts = np.arange(10_000.0)[:, None], np.zeros(10_000)
    for seed in range(200):
        found = drawn.Drawn(seed).plus(X[:6_000], X[:6_000, 0]).plus(X[6_000:], X[6_000:, 0])
        assert len(np.unique(found.y)) == drawn.MOST_ROWS == len(found.y)
        counts[found.y.astype(int)] += 1
    low, high = binom.ppf([1e-10, 1 - 1e-10], 200, 0.4)
    assert counts.min() >= low
    assert counts.max() <= high
    halves = counts[:5_000].sum() - counts[5_000:].sum()
    assert abs(halves) < 6 * np.sqrt(200 * 4_000 * 0.6)
    twin = counts + np.where(np.arange(10_000) < 5_000, 5, -5)  # rows of the first half a little more often
    assert abs(twin[:5_000].sum() - twin[5_000:].sum()) > 6 * np.sqrt(200 * 4_000 * 0.6)


def test_a_file_holds_noise_and_scores_and_learns_on(tmp_path):
    X, Y, w = small(2, weighted=True)
    whole = KernelRidge(RBF(1.0), alpha=0.3, dictionary=X[:ATOMS], random_state=0).fit(X, Y, w)
    whole.save(tmp_path / "m.sqk")
    again = squeak.load(tmp_path / "m.sqk")
    for one, two in zip(again.predict_interval(X, 0.8), whole.predict_interval(X, 0.8), strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(again.predict(X, return_std=True)[1], whole.predict(X, return_std=True)[1])
    first = KernelRidge(RBF(1.0), alpha=0.3, dictionary=X[:ATOMS], random_state=0).fit(X[:25], Y[:25], w[:25])
    first.save(tmp_path / "m.sqk")
    for model in (first, squeak.load(tmp_path / "m.sqk")):
        model.partial_fit(X[25:], Y[25:], w[25:])
        np.testing.assert_allclose(model.noise_, whole.noise_, rtol=1e-8)
        assert len(scores_of(model)) == N
    np.testing.assert_allclose(scores_of(first), scores_of(whole), rtol=1e-8)


def test_a_file_of_an_older_version_says_that_it_knows_no_noise():
    path = Path(__file__).parents[1] / "data" / "v0.1" / "kernel-ridge.sqk"
    model = squeak.load(path)
    rows = np.zeros((2, model.dictionary_.atoms.shape[1]))
    assert np.isfinite(model.predict(rows)).all()
    with pytest.raises(ValueError, match="before models kept the noise"):
        model.predict(rows, return_std=True)
    with pytest.raises(ValueError, match="before models kept the noise"):
        model.predict_interval(rows)
    assert not hasattr(model, "noise_")
    model.partial_fit(rows, [0.0, 1.0])
    with pytest.raises(ValueError, match="before models kept the noise"):
        model.predict(rows, return_std=True)


def test_targets_whose_squares_are_no_numbers_still_fit():
    X, Y, _ = small()
    model = KernelRidge(RBF(1.0), dictionary=X[:5], solver="falkon", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, Y[:, 0] * 1e200)
    with pytest.raises(ValueError, match="too large"):
        model.predict(X, return_std=True)
