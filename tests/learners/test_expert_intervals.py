"""Intervals of local experts: against refits without a row, how often they cover, and wherever rows lie."""

from dataclasses import replace

import numpy as np
import pytest

import squeak
from squeak import KernelBlend, KernelClassifier, KernelRidge, LocalExperts
from squeak.kernels import RBF
from squeak.learners import KernelGradientDescent, leaf_passes, leaves, regions
from squeak.learners.told import TOLD
from squeak.places import use
from tests.learners.test_worker_files import PARTS, ROWS, Workers, collection, hidden, made

RIDGE = KernelRidge(RBF(0.5), alpha=0.5, max_atoms=40)
BLEND = KernelBlend([RBF("learned")], max_atoms=40, rounds=1, search_atoms=40)
QUICK = {"leaf_rows": 900, "split_kernel": RBF(1.0), "random_state": 0}


def rows_of(rng, n):
    """Return rows whose targets have a noise that grows by seven times from one side to the other."""
    X = rng.uniform(-3, 3, (n, 2))
    noise = 0.1 + 0.1 * (X[:, 0] + 3)
    return X, np.sin(3 * X[:, 0]) + 0.5 * X[:, 1] + noise * rng.standard_normal(n), noise


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr(leaves, "SPLIT_ATOMS", 60)


@pytest.fixture(scope="module")
def table():
    return rows_of(np.random.default_rng(0), 4_000)[:2]


@pytest.fixture(scope="module")
def new():
    return rows_of(np.random.default_rng(1), 20_000)


def covered(model, X, y, coverage=0.9):
    low, high = model.predict_interval(X, coverage)
    return (low <= y) & (y <= high)


def test_what_is_said_without_a_row_is_what_refits_without_it_say(table):
    """With atoms that are no rows; rows in a margin are left out by both of the experts that have a share."""
    X, y = (part[:400] for part in table)
    atoms = np.random.default_rng(2).uniform(-3, 3, (12, 2))
    expert = KernelRidge(RBF(1.0), alpha=0.3, dictionary=atoms)
    model = LocalExperts(expert, **{**QUICK, "leaf_rows": 150, "margin": 0.3}).fit(X, y)
    told = model._told
    np.testing.assert_array_equal(told.X, X)
    shares = np.zeros((len(X), model.tree_.n_leaves))
    for leaf, (rows, share) in enumerate(model.tree_.shares(X)):
        shares[rows, leaf] = share
    crowded = np.flatnonzero((shares > 0).sum(axis=1) > 1)
    assert len(crowded) > 50
    for row in [*crowded[:6], 0, 1]:
        slow = 0.0
        for leaf in np.flatnonzero(shares[row]):
            rest = np.setdiff1d(np.flatnonzero(shares[:, leaf]), row)
            slow += shares[row, leaf] * expert.fit(X[rest], y[rest]).predict(X[[row]])[0]
        np.testing.assert_allclose(told.values[row, 0], slow, rtol=1e-8)


@pytest.mark.parametrize("estimator", [RIDGE, KernelRidge(RBF("median"), "auto", max_atoms=100), BLEND])
def test_intervals_cover_as_often_as_they_say_where_noise_differs(estimator, table, new):
    """Of 20,000 new rows 88 to 92% are covered, and on either side 86 to 94%; a constant width would miss that."""
    X, y, noise = new
    model = LocalExperts(estimator, **QUICK).fit(*table)
    inside, left = covered(model, X, y), X[:, 0] < 0
    assert 0.88 < inside.mean() < 0.92
    assert 0.86 < inside[left].mean() < 0.94
    assert 0.86 < inside[~left].mean() < 0.94
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, model.predict(X))
    assert 0.8 < np.median(std / noise) < 1.25
    constant = np.quantile(np.abs(y - mean), 0.9)
    assert np.mean(np.abs(y - mean)[left] <= constant) > 0.96  # the twin


def test_several_outputs_and_weights_have_their_own(table, new):
    X, y, _ = new
    rows, target = table
    weight = np.where(rows[:, 0] < 0, 1.0, 3.0)
    model = LocalExperts(RIDGE, **QUICK).fit(rows, np.c_[target, 10 * target], weight)
    low, high = model.predict_interval(X)
    assert low.shape == high.shape == (len(X), 2)
    assert 0.87 < np.mean((low[:, 1] <= 10 * y) & (10 * y <= high[:, 1])) < 0.93
    np.testing.assert_allclose((high - low)[:, 1], 10 * (high - low)[:, 0], rtol=0.2)
    assert model._errors.weight is not None


def test_saved_and_loaded_they_are_the_same_bits(table, new, tmp_path):
    X = new[0][:500]
    for name, estimator in (("ridge", RIDGE), ("blend", BLEND)):
        model = LocalExperts(estimator, **QUICK).fit(*table)
        model.save(tmp_path / name)
        again = squeak.load(tmp_path / name)
        for one, two in zip(again.predict_interval(X), model.predict_interval(X), strict=True):
            np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(again.predict(X, return_std=True)[1], model.predict(X, return_std=True)[1])


def test_a_file_without_errors_predicts_and_says_why_it_has_no_intervals(table):
    model = LocalExperts(RIDGE, **QUICK).fit(*table)
    arrays, content = model.to_parts()
    content.pop("errors")
    old = LocalExperts.from_parts({name: a for name, a in arrays.items() if not name.startswith("errors")}, content)
    np.testing.assert_array_equal(old.predict(table[0]), model.predict(table[0]))
    with pytest.raises(ValueError, match=r"not known how far off .* older version"):
        old.predict_interval(table[0])


def test_errors_of_another_shape_are_refused(table):
    model = LocalExperts(RIDGE, **QUICK).fit(*table)
    model._told = replace(model._errors, scores=np.ones((9, 2)))
    with pytest.raises(ValueError, match="do not fit"):
        LocalExperts.from_parts(*model.to_parts())


def test_threads_change_no_bit(table, new, monkeypatch, two_blas_threads):
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("SQUEAK_NUM_THREADS", threads)
        found.append(LocalExperts(RIDGE, **QUICK).fit(*table).predict_interval(new[0][:500]))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("estimator", [KernelRidge(RBF(1.0), 0.1, max_atoms=20), BLEND])
def test_rows_that_memory_does_not_hold_and_those_of_workers_give_the_same(estimator, monkeypatch):
    monkeypatch.setattr(leaf_passes, "SAMPLE_ROWS", 3_000)
    monkeypatch.setattr(leaf_passes, "MOST_BYTES", 8 * 3 * PARTS * ROWS // 2)
    monkeypatch.setattr(regions, "REGIONS", 5)
    test = made(99)
    model = LocalExperts(estimator, **QUICK)
    here = model.fit(collection(made, "y", "frame")).predict_interval(test[["a", "b", "c"]])
    assert 200 < len(model._told.X) <= 3_000 < PARTS * ROWS
    assert 0.85 < np.mean((here[0] <= test["y"]) & (test["y"] <= here[1])) < 0.95
    with use(Workers()):
        there = model.fit(collection(hidden, "y", "frame")).predict_interval(test[["a", "b", "c"]])
    np.testing.assert_array_equal(here, there)


def test_no_more_rows_are_told_of_than_are_needed():
    X, y, _ = rows_of(np.random.default_rng(3), TOLD + 500)
    model = LocalExperts(RIDGE, **{**QUICK, "leaf_rows": 3_000}).fit(X, y)
    assert len(model._told.X) == TOLD


def test_classes_have_none_and_experts_that_leave_nothing_out_say_so(table):
    X, y = (part[:600] for part in table)
    classes = LocalExperts(KernelClassifier(RBF(1.0), max_atoms=20), **QUICK).fit(X, y > 0)
    assert not hasattr(classes, "predict_interval")
    assert classes._errors is None
    with pytest.raises(ValueError, match="return_std is for regression"):
        classes.predict(X, return_std=True)
    descent = LocalExperts(KernelGradientDescent(RBF(1.0)), **QUICK).fit(X, y)
    with pytest.raises(ValueError, match="use experts of KernelRidge or KernelBlend"):
        descent.predict(X, return_std=True)
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        descent.predict_interval(X, 1.0)
