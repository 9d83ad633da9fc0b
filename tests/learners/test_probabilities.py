"""Probabilities after the squared loss, and what a classifier chooses and weighs by itself."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss

import squeak
from squeak import KernelClassifier
from squeak.kernels import RBF
from squeak.learners.calibration import calibrated, smoothed, stacked
from tests.oracles import DenseNystrom, dense_scores_left_out


def made(n, seed=0, classes=2):
    """Rows, classes, and the probabilities that these were drawn with."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    logits = np.column_stack([np.zeros(n), 2 * np.sin(2 * X[:, 0]) + X[:, 1], X[:, 1] ** 2 - 1, X[:, 0]])[
        :, :classes
    ]
    p = softmax(logits, axis=1)
    return X, (rng.random(n)[:, None] > np.cumsum(p, axis=1)).sum(axis=1), p


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_slope_and_offsets_minimise_the_log_loss_of_platts_targets(classes, weighted):
    rng = np.random.default_rng(0)
    places = rng.integers(0, classes, 300)
    values = rng.standard_normal((300, 1 if classes == 2 else classes))
    values += 0.7 * (places[:, None] - 0.5 if classes == 2 else np.eye(classes)[places])
    w = rng.exponential(size=300) if weighted else np.ones(300)
    w /= w.mean()
    slope, offsets = calibrated(values, places, classes, w if weighted else None)
    targets = smoothed(places, classes, w)
    F = np.hstack([np.zeros_like(values), values]) if classes == 2 else values

    def loss(theta):
        b = np.concatenate([[0.0], theta[1:]])
        return -(w @ (targets * log_softmax(theta[0] * F + b, axis=1)).sum(axis=1))

    best = minimize(loss, np.concatenate([[1.0], np.zeros(classes - 1)]), tol=1e-12)
    shift = offsets if classes == 2 else offsets[1:] - offsets[0]
    np.testing.assert_allclose(np.concatenate([[slope], shift]), best.x, atol=2e-3)


def _members(classes, n=500):
    """Return classes and four models of them: two that tell much, one that tells little, one that lies."""
    rng = np.random.default_rng(3)
    places = rng.integers(0, classes, n)
    truth = places[:, None] - 0.5 if classes == 2 else np.eye(classes)[places]
    draw = lambda slope: slope * truth + rng.standard_normal((n, truth.shape[1]))  # noqa: E731
    return places, [draw(1.5), 40.0 * draw(1.0), draw(0.2), draw(-0.4)]


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_slopes_of_several_models_minimise_the_log_loss_and_are_not_negative(classes, weighted):
    """The wrong twins: slopes that may be negative have a lower loss, and equal slopes a higher one."""
    places, members = _members(classes)
    w = np.random.default_rng(1).exponential(size=500) if weighted else np.ones(500)
    w /= w.mean()
    targets = smoothed(places, classes, w)
    full = [np.hstack([np.zeros_like(f), f]) if classes == 2 else f for f in members]

    def loss(theta):
        logits = sum(a * f for a, f in zip(theta, full, strict=False)) + np.append(0.0, theta[4:])
        return -(w @ (targets * log_softmax(logits, axis=1)).sum(axis=1))

    slopes, offsets = stacked(members, places, classes, w if weighted else None)
    found = loss(np.append(slopes, offsets if classes == 2 else offsets[1:] - offsets[0]))
    start = np.append([1.0, 0.03, 0.0, 0.0], np.zeros(classes - 1))
    bounds = [(0.0, None)] * 4 + [(None, None)] * (classes - 1)
    best = minimize(loss, start, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-9})
    assert (slopes >= 0.0).all()
    assert slopes[3] == 0.0
    assert found == pytest.approx(best.fun, rel=1e-7)
    assert minimize(loss, best.x).fun < found - 1e-2
    assert loss(np.append(np.full(4, slopes[0]), best.x[4:])) > found + 1.0


def test_the_unit_of_the_weights_does_not_matter():
    """Platt's targets count rows: weights that add up to 1 would be less than one row, and the targets near 1/2."""
    places, members = _members(2)
    w = np.random.default_rng(1).exponential(size=500)
    one, other = (stacked(members, places, 2, unit * w) for unit in (1.0, 2.0**-20))
    np.testing.assert_array_equal(np.append(*one), np.append(*other))


def test_a_model_with_a_small_part_is_left_out_and_none_is_where_nothing_is_told():
    places, members = _members(2)
    every, _ = stacked(members[:3], places, 2)
    some, _ = stacked(members[:3], places, 2, least=0.1)
    parts = every * [np.sqrt(np.mean(f**2)) for f in members[:3]]
    assert 0.0 < parts[2] < 0.1 * parts.sum()
    assert some[2] == 0.0
    assert np.array_equal(some[:2], stacked(members[:2], places, 2)[0])
    slopes, offsets = stacked([-members[0], members[3]], places, 2)
    assert not slopes.any()
    frequency = np.mean(places == 1)
    assert expit(offsets[0]) == pytest.approx(frequency, abs=2e-3)


@pytest.mark.parametrize("classes", [2, 3])
def test_they_are_calibrated_on_scores_of_fits_without_the_row(classes):
    X, y, _ = made(60, classes=classes)
    model = KernelClassifier(RBF(1.0), alpha=0.3, dictionary=X[:15], random_state=0).fit(X, y)
    codes = np.where(np.arange(classes) == y[:, None], 1.0, -1.0)
    codes = codes[:, 1:] if classes == 2 else codes

    def without(i):
        return DenseNystrom(RBF(1.0), np.delete(X[:15], i, axis=0) if i < 15 else X[:15])

    _, values = dense_scores_left_out(without, X, codes, np.ones(60), 0.3, True)
    slope, offsets = calibrated(values, y, classes)
    f = model.decision_function(X).reshape(60, -1)
    logits = slope * f + offsets
    expected = softmax(np.hstack([0 * logits, logits]) if classes == 2 else logits, axis=1)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-6)


@pytest.mark.parametrize("classes", [2, 4])
def test_they_are_as_good_as_scikit_learns_and_near_the_truth(classes):
    """Ten bins lie within six deviations of a binomial, and 3% for the model; the twin is raw scores."""
    X, y, p = made(6_000, seed=1, classes=classes)
    half = slice(0, 2_000), slice(2_000, None)
    settings = {"kernel": RBF(0.7), "alpha": 0.5, "max_atoms": 100, "random_state": 0}
    model = KernelClassifier(**settings).fit(X[half[0]], y[half[0]])
    theirs = CalibratedClassifierCV(KernelClassifier(**settings), ensemble=False).fit(X[half[0]], y[half[0]])
    found = model.predict_proba(X[half[1]])
    assert log_loss(y[half[1]], found) < 1.01 * log_loss(y[half[1]], theirs.predict_proba(X[half[1]]))
    assert log_loss(y[half[1]], found) < 1.05 * log_loss(y[half[1]], p[half[1]])

    def reliable(chance):
        real, order = y[half[1]] == 1, np.argsort(chance)
        gaps = [
            abs(real[part].mean() - chance[part].mean()) - 6 * np.sqrt(0.25 / len(part))
            for part in np.array_split(order, 10)
        ]
        return max(gaps) < 0.03

    assert reliable(found[:, 1])
    raw = model.decision_function(X[half[1]])
    assert not reliable(expit(raw if classes == 2 else raw[:, 1]))


def test_separable_and_tiny_classes_have_finite_probabilities():
    X = np.concatenate([np.linspace(-3, -1, 40), np.linspace(1, 3, 40), [10.0]])[:, None]
    y = np.concatenate([np.zeros(40), np.ones(40), [2.0]])
    for rows, labels in ((X[:80], y[:80]), (X, y), (X[[0, 79]], y[[0, 79]])):
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            p = KernelClassifier(RBF(1.0), alpha=1e-6, random_state=0).fit(rows, labels).predict_proba(rows)
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert (p < 1.0).all()


def test_files_csr_and_sources_give_the_same(tmp_path):
    X, y, _ = made(5_000, classes=3)
    names = np.array(["x", "y", "z"])[y]
    settings = {"kernel": RBF(0.7), "alpha": 0.5, "dictionary": X[:60], "random_state": 0}
    model = KernelClassifier(**settings).fit(X, names)
    expected = model.predict_proba(X[:50])
    model.save(tmp_path / "m.sqk")
    again = squeak.load(tmp_path / "m.sqk")
    np.testing.assert_array_equal(again.predict_proba(X[:50]), expected)
    csr = KernelClassifier(**settings).fit(sp.csr_array(X), names)
    np.testing.assert_allclose(csr.predict_proba(sp.csr_array(X[:50])), expected, rtol=1e-6)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(c=names)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=700)
    source = squeak.rows(tmp_path / "rows.parquet", "c", scale=None)
    from_file = KernelClassifier(**settings).fit(source)
    np.testing.assert_allclose(from_file.predict_proba(frame[["a", "b"]][:50]), expected, rtol=1e-6)


def test_a_file_of_an_older_version_has_none_and_says_why():
    folder = Path(__file__).parents[1] / "data" / "v0.1"
    model = squeak.load(folder / "kernel-classifier.sqk")
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError) as error:
        _ = model.predict_proba
    assert "fit it anew" in str(error.value.__cause__)


@pytest.mark.parametrize("weights", ["balanced", {"no": 1.0, "yes": 7.0}])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_class_weights_of_a_file_are_those_of_an_array(weights, loss, tmp_path):
    X, y, _ = made(1_200)
    names = np.where((y == 1) & (X[:, 0] > 0.5), "yes", "no")
    pd.DataFrame(X, columns=["a", "b"]).assign(c=names).to_parquet(tmp_path / "r.parquet", row_group_size=500)
    settings = {"kernel": RBF(0.7), "alpha": 0.5, "dictionary": X[:20], "random_state": 0, "loss": loss}
    model = KernelClassifier(**settings, class_weight=weights)
    expected = model.fit(X, names).decision_function(X[:50])
    chances = model.predict_proba(X[:50])
    model.fit(squeak.rows(tmp_path / "r.parquet", "c", scale=None))
    rows = pd.DataFrame(X[:50], columns=["a", "b"])
    np.testing.assert_allclose(model.decision_function(rows), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(rows), chances, rtol=1e-4, atol=1e-6)
    plain = KernelClassifier(**settings).fit(X, names)
    assert not np.allclose(plain.decision_function(X[:50]), expected, atol=0.05)
    if loss == "squared":  # decisions change, and how often a class is met does not
        assert np.mean(plain.predict(X) == "yes") < np.mean(
            model.predict(pd.DataFrame(X, columns=["a", "b"])) == "yes"
        )
        assert abs(model.predict_proba(rows)[:, 1].mean() - plain.predict_proba(X[:50])[:, 1].mean()) < 0.05


def test_the_logistic_loss_finds_its_own_alpha():
    X, y, _ = made(3_000, seed=2)
    settings = {"kernel": RBF(0.7), "max_atoms": 80, "random_state": 0, "loss": "logistic"}
    model = KernelClassifier(**settings, alpha="auto").fit(X[:1_500], y[:1_500])
    best = min(
        log_loss(
            y[1_500:], KernelClassifier(**settings, alpha=a).fit(X[:1_500], y[:1_500]).predict_proba(X[1_500:])
        )
        for a in (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)
    )
    assert log_loss(y[1_500:], model.predict_proba(X[1_500:])) < best + 0.01
    again = KernelClassifier(**settings, alpha="auto").fit(squeak.rows(X[:1_500], y[:1_500]))
    assert again.alpha_ > 0
    with pytest.raises(ValueError, match="keeps rows back"):
        KernelClassifier(RBF(1.0), alpha="auto", loss="logistic").fit(X[:3], [0, 1, 0])
