"""Small tables are learned in folds: other rows are held out by each, and the model is the mean of all."""

from dataclasses import replace

import numpy as np
import pytest

import squeak
from squeak import AutoClassifier, AutoRegressor
from squeak.core.progress import Job
from squeak.core.seeds import SAMPLE, generator_at
from squeak.learners.boosting import Boosted
from squeak.learners.composed import _held_out, compose, plus
from squeak.learners.expansion import total
from squeak.learners.fold import Problem, composed_on, folds_of
from squeak.learners.grown import Trees
from squeak.learners.tried import Search


def made(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, np.sin(2 * X[:, 0]) + 0.5 * np.sign(X[:, 1]) + 0.2 * rng.standard_normal(n)


X, Y = made()
NEW, TRUTH = made(500, seed=1)


def problem_of(classes=False, **changes):
    y = np.where(Y > 0, 1.0, -1.0) if classes else Y
    given = Problem(X, y[:, None], None, None, classes, True, 40, 5_000)
    return replace(given, **changes)


def values(model, rows):
    trees = 0.0 if model.trees is None else model.trees.values(rows)
    return total(model.everywhere, rows) + trees


@pytest.mark.parametrize(("n", "folds"), [(12, 4), (4_000, 4), (5_000, 3), (8_000, 2), (8_001, 1), (10**6, 1)])
def test_few_rows_have_more_folds(n, folds):
    assert folds_of(n, 5_000) == folds


def test_local_experts_have_one_fold():
    assert folds_of(320, 200) == 4
    assert folds_of(321, 200) == 1


@pytest.mark.parametrize("n", [12, 50, 300, 3_000, 5_001, 8_000])
def test_no_row_is_held_out_twice(n):
    X = np.arange(n, dtype=np.float64)[:, None]
    problem = problem_of(X=X, y=X)
    folds = folds_of(n, 5_000)
    backs = np.array(_held_out(problem, folds, np.random.default_rng(0)))
    assert len(backs) == folds
    assert backs.sum(axis=0).max() == 1
    sizes = backs.sum(axis=1)
    assert (sizes == sizes[0]).all()
    assert 0.15 * n - 0.5 <= sizes[0] <= n / 3


@pytest.mark.parametrize("classes", [False, True])
def test_the_model_is_the_mean_of_its_folds(classes):
    """Each fold composed by itself, as one that knows nothing of the others; of classes, with its offsets."""
    problem, seed, job = problem_of(classes), 7, Job.current()
    found = compose(problem, seed, Search(), job)
    rng = generator_at(seed, SAMPLE, 10)
    folds = []
    for number, back in enumerate(_held_out(problem, 4, rng)):
        own = int(generator_at(seed, SAMPLE, 13, number).integers(2**63)) if number else seed
        folds.append(composed_on(problem, back, rng, own, Search(), job))
    said = [values(fold, NEW) + fold.mixed.offsets for fold in folds]
    np.testing.assert_allclose(values(found, NEW), np.mean(said, axis=0), atol=1e-10)
    assert np.array_equal(found.back, np.concatenate([fold.back for fold in folds]))
    scores = [fold.mixed.back_scores + fold.mixed.offsets for fold in folds]
    np.testing.assert_array_equal(found.back_scores, np.concatenate(scores))
    assert len(found.scores) == 4 * 75
    off = np.square(np.array(said) - TRUTH[:, None]).mean(axis=(1, 2))
    if not classes:  # what the folds do not share cancels: the mean errs less than they do on average
        assert np.mean((values(found, NEW) - TRUTH[:, None]) ** 2) < 0.99 * off.mean()
    assert (problem.classes and np.abs(folds[0].mixed.offsets).max() > 0.0) or not problem.classes


def test_the_table_of_the_search_has_every_fold_and_their_mean():
    model = AutoRegressor(max_atoms=40, random_state=0).fit(X, Y)
    folds = [line for line in model.search_ if line["stage"] == "fold"]
    last = model.search_[-1]
    assert len(folds) == 4
    assert {line["weight"] for line in folds} == {0.25}
    assert (last["stage"], last["model"], last["weight"]) == ("mixture", "the mean of 4 folds", 1.0)
    assert last["error"] == pytest.approx(np.sqrt(np.mean([line["error"] ** 2 for line in folds])))
    shares = sum(line["weight"] for line in model.search_ if line["stage"] == "all rows")
    assert 0.9 < shares <= 1.0 + 1e-12


def test_a_time_budget_ends_the_folds():
    model = AutoRegressor(max_atoms=40, time_budget=1e-9, random_state=0).fit(X, Y)
    assert [line["stage"] for line in model.search_].count("fold") == 0
    assert "time_budget ended the search after 1 of 4 folds" in model.limits_
    assert len(model.scores_) == 75


def test_a_class_that_a_fold_holds_out_is_learned_by_the_others(tmp_path):
    labels = np.where(Y > 0, "up", "down").astype(object)
    labels[5] = "once"
    model = AutoClassifier(max_atoms=40, random_state=0).fit(X, labels)
    chances = model.predict_proba(X)
    assert model.classes_.tolist() == ["down", "once", "up"]
    assert chances[5, 1] > np.delete(chances[:, 1], 5).max()
    model.save(tmp_path / "m.sqk")
    assert np.array_equal(squeak.load(tmp_path / "m.sqk").predict_proba(X), chances)


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_sum_of_trees_says_the_sum(outputs):
    y = np.stack([Y, -np.abs(Y)], axis=1)[:, :outputs]
    back = np.arange(300) % 5 == 0
    grown = [Boosted.search(X, y, None, back, False, seed) for seed in (1, 2, 3)]
    parts = [one.trees.times(np.array([0.5, 3.0])[:outputs] * (1 + i)) for i, one in enumerate(grown)]
    whole = Trees.total(parts)
    np.testing.assert_allclose(whole.values(NEW), sum(one.values(NEW) for one in parts), atol=1e-12)
    assert len(whole.roots) == sum(len(one.roots) for one in parts)
    again = Trees.total([whole, parts[0]])  # a sum is a part like any other
    np.testing.assert_allclose(again.values(NEW), whole.values(NEW) + parts[0].values(NEW), atol=1e-12)


def test_a_constant_is_added_where_nothing_else_is():
    (only,) = plus([], np.array([2.0]), X)
    np.testing.assert_array_equal(only.values(NEW[:3]), np.full((3, 1), 2.0))
