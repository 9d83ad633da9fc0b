"""Probabilities of local experts: by hand, across margins, of classes that a part does not have, and from files."""

import numpy as np
import pytest
from scipy.special import softmax

import squeak
from squeak import KernelClassifier, LocalExperts
from squeak.core import storage
from squeak.kernels import RBF
from squeak.learners import KernelGradientDescent, leaf_passes, leaves, regions
from tests.learners.test_experts import BLEND, QUICK, RIDGE, in_blocks
from tests.learners.test_splits import share_of

NAMES = np.array(["a", "b", "c", "d"])


def expert(loss="squared", **params):
    return KernelClassifier(RBF(0.7), 1e-2, loss=loss, max_atoms=30, **params)


def table_of(rng, n_classes, n=400):
    """Return rows whose classes lie beside each other, with blurred borders, so that most parts lack some."""
    X = rng.uniform(0, n_classes, (n, 2))
    places = np.floor(X[:, 0] + 0.2 * rng.standard_normal(n)).clip(0, n_classes - 1).astype(int)
    return X, NAMES[places]


def by_hand(model, X, y, new):
    """Return softmax(Σ share·log odds), of a classifier refitted to the rows of each leaf on the same atoms."""
    known, out = model.classes_, []
    parts = []
    for leaf, [one] in enumerate(model.experts_):
        rows = np.array([share_of(model.tree_, x, leaf) > 0 for x in X])
        there = np.unique(y[rows])
        fit = None
        if len(there) > 1:
            fit = (
                expert(model.estimator.loss).set_params(dictionary=one.atoms, max_atoms=None).fit(X[rows], y[rows])
            )
        parts.append((there, np.count_nonzero(rows), fit))
    for x in new:
        logits = np.zeros(len(known))
        for leaf, (there, n, fit) in enumerate(parts):
            own = np.isin(known, there)
            if fit is None:
                odds = np.where(own, 0.5, -0.5) * np.log(n + 1)
            else:
                odds = np.full(len(known), -np.log(n + 1))
                logs = np.log(fit.predict_proba(x[None])[0])
                plain = fit.loss == "logistic" and len(there) > 2  # its scores are log odds, whatever their mean
                odds[own] = fit.decision_function(x[None])[0] if plain else logs - logs.mean()
            logits += share_of(model.tree_, x, leaf) * odds
        out.append(softmax(logits))
    return np.array(out)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_probabilities_are_those_of_the_experts_blended_by_their_shares(rng, loss, n_classes):
    X, y = table_of(rng, n_classes)
    model = LocalExperts(expert(loss), **{**QUICK, "margin": 0.3}).fit(X, y)
    kinds = {len(np.unique(y[rows])) for rows, _ in model.tree_.shares(X)}
    assert n_classes == 2 or len(kinds) > 1
    new = rng.uniform(0, n_classes, (40, 2))
    crowded = sum(share_of(model.tree_, x, leaf) > 0 for x in new for leaf in range(model.tree_.n_leaves))
    assert crowded > 50  # many of the rows lie in margins
    # the sums of scores of several classes are 2 − k but for rounding
    np.testing.assert_allclose(model.predict_proba(new), by_hand(model, X, y, new), atol=2e-3)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_they_are_continuous_across_margins_and_add_up_to_one(rng, loss):
    X, y = table_of(rng, 4)
    model = LocalExperts(expert(loss), **QUICK).fit(X, y)
    line = np.linspace(0, 4, 40_001)[:, None] * np.array([1.0, 0.5])
    assert len({rows.tobytes() for rows, _ in model.tree_.shares(line)}) > 2  # the line goes through several parts
    chances = model.predict_proba(line)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert np.abs(np.diff(chances, axis=0)).max() < 0.02
    halved = model.predict_proba(line[:20_001] / 2)  # half as far apart, half the largest step: a slope, no jump
    finer = np.abs(np.diff(halved, axis=0)).max()
    coarse = np.abs(np.diff(chances[:10_001], axis=0)).max()
    assert finer < 0.6 * coarse


def test_a_class_that_a_part_never_saw_is_improbable_there_and_not_impossible(rng):
    X, y = table_of(rng, 4)
    model = LocalExperts(expert(), **QUICK).fit(X, y)
    looked = 0
    for rows, share in model.tree_.shares(X):
        inner, missing = rows[share == 1], ~np.isin(NAMES, y[rows])
        chances = model.predict_proba(X[inner])[:, missing]
        looked += chances.size
        assert (chances > 0).all()
        assert (chances < 2 / len(rows)).all()
    assert looked > 200


def test_they_are_as_often_right_as_they_say(rng):
    """Of 4,000 new rows, groups by probability: shares of the class are within 0.08 of the mean probability.

    A group of 200 rows or more has a standard deviation of at most 0.036 in its share; the twin, whose log odds are
    three times as large, is caught.
    """
    X = rng.uniform(-2, 2, (6000, 2))
    odds = 3 * np.sin(2 * X[:, 0]) * X[:, 1]
    y = rng.random(6000) < 1 / (1 + np.exp(-odds))
    model = LocalExperts(expert(), **{**QUICK, "leaf_rows": 600}).fit(X[:2000], y[:2000])

    def worst(p):
        groups = np.digitize(p, np.linspace(0, 1, 9)[1:-1])
        return max(
            abs(np.mean(y[2000:][groups == g]) - np.mean(p[groups == g]))
            for g in range(8)
            if np.count_nonzero(groups == g) >= 200
        )

    p = model.predict_proba(X[2000:])[:, 1]
    assert worst(p) < 0.08
    assert worst(1 / (1 + (1 / p - 1) ** 3)) > 0.08


def test_one_part_has_the_probabilities_of_its_estimator(rng):
    X, y = table_of(rng, 3)
    model = LocalExperts(expert(), leaf_rows=1000, random_state=0).fit(X, y)
    [[one]] = model.experts_
    plain = expert().set_params(dictionary=one.atoms, max_atoms=None).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-5)
    assert plain.calibration_.slope > 0


def test_the_class_goes_by_the_scores_and_nearly_always_has_the_largest_probability(rng):
    X, y = table_of(rng, 3)
    new = rng.uniform(0, 3, (2000, 2))
    for loss, least in (("squared", 0.97), ("logistic", 1.0)):
        model = LocalExperts(expert(loss), **QUICK).fit(X, y)
        said = model.predict(new)
        np.testing.assert_array_equal(said, model.classes_[model.decision_function(new).argmax(axis=1)])
        assert np.mean(said == model.classes_[model.predict_proba(new).argmax(axis=1)]) >= least


def test_some_rows_of_a_part_tell_of_its_probabilities(rng, monkeypatch):
    """Also of a sorted table, whose first rows are all alike."""
    X = np.sort(rng.uniform(0, 2, (600, 2)), axis=0)
    y = rng.random(600) < np.where(X[:, 0] < 1, 0.02, 0.5)
    whole = LocalExperts(expert(), leaf_rows=1000, random_state=0).fit(X, y)
    monkeypatch.setattr(leaves, "ODDS_ROWS", 200)
    some = LocalExperts(expert(), leaf_rows=1000, random_state=0).fit(X, y)
    np.testing.assert_array_equal(some.decision_function(X), whole.decision_function(X))
    gap = np.abs(some.predict_proba(X) - whole.predict_proba(X)).max()
    assert 0 < gap < 0.15


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_sources_have_the_probabilities_of_their_rows(rng, loss):
    X, y = table_of(rng, 3)
    model = LocalExperts(expert(loss), **QUICK).fit(X, y)
    chances = model.predict_proba(X)
    source = in_blocks(X, y, 70)
    np.testing.assert_allclose(model.predict_proba(source), chances, atol=1e-12)
    np.testing.assert_allclose(np.concatenate(list(model.predict_proba_blocks(source))), chances, atol=1e-12)


def test_they_are_learned_in_passes_too(rng, monkeypatch):
    X, y = table_of(rng, 3)
    source = in_blocks(X, y, 70)
    monkeypatch.setattr(leaf_passes, "MOST_BYTES", X.nbytes // 2)  # the sample has half of the rows
    monkeypatch.setattr(regions, "REGIONS", 4)
    model = LocalExperts(expert(), **QUICK).fit(source)
    right = model.predict_proba(X)[np.arange(400), np.searchsorted(model.classes_, y)]
    assert -np.mean(np.log(right)) < 0.5
    np.testing.assert_allclose(model.predict_proba(X), by_hand(model, X, y, X), atol=2e-3)


def test_they_are_the_same_on_one_thread_and_on_two(rng, monkeypatch):
    X, y = table_of(rng, 3)
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("SQUEAK_NUM_THREADS", threads)
        found.append(LocalExperts(expert(), **QUICK).fit(X, y).predict_proba(X))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("estimator", [None, RIDGE, BLEND, KernelGradientDescent()])
def test_regressions_have_none(rng, estimator):
    assert not hasattr(LocalExperts(estimator), "predict_proba")
    assert hasattr(LocalExperts(expert()), "predict_proba")


def test_files_of_before_say_what_they_lack(rng, tmp_path):
    X, y = table_of(rng, 3)
    model = LocalExperts(expert(), **QUICK).fit(X, y)
    model._odds = None  # as files were written before
    model.save(tmp_path / "m.sqk")
    again = squeak.load(tmp_path / "m.sqk")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert not hasattr(again, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba") as found:
        again.predict_proba(X)
    assert "fit them anew" in str(found.value.__cause__)


def test_damaged_log_odds_are_refused(rng, tmp_path):
    X, y = table_of(rng, 3)
    model = LocalExperts(expert(), **QUICK).fit(X, y)
    odds = model._odds
    model._odds = type(odds)(odds.slopes[:-1], odds.offsets[:-1])
    model.save(tmp_path / "m.sqk")
    with pytest.raises(storage.StorageError, match="log odds do not fit"):
        squeak.load(tmp_path / "m.sqk")
    regression = LocalExperts(RIDGE, **QUICK).fit(X, X[:, 0])
    regression._odds = odds
    regression.save(tmp_path / "m.sqk")
    with pytest.raises(storage.StorageError, match="log odds do not fit"):
        squeak.load(tmp_path / "m.sqk")


def test_the_logistic_loss_has_nothing_to_calibrate(rng):
    X, y = table_of(rng, 2)
    with pytest.raises(AttributeError, match="nothing to calibrate"):
        expert("logistic").fit(X, y).calibration_  # noqa: B018
