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
    assert folds_of(n, 5_000, None) == folds


def test_local_experts_have_one_fold():
    assert folds_of(320, 200, None) == 4
    assert folds_of(321, 200, 4) == 1
    assert folds_of(7_000, 5_000, 6) == 6
    assert folds_of(12, 5_000, 6) == 4  # a fold holds out three rows or more


@pytest.mark.parametrize("asked", [None, 1, 10])
@pytest.mark.parametrize("n", [30, 50, 300, 3_000, 5_001, 8_000])
def test_no_row_is_held_out_twice(n, asked):
    X = np.arange(n, dtype=np.float64)[:, None]
    problem = problem_of(X=X, y=X)
    folds = asked or folds_of(n, 5_000, None)
    backs = np.array(_held_out(problem, folds, np.random.default_rng(0)))
    assert len(backs) == folds
    assert backs.sum(axis=0).max() == 1
    sizes = backs.sum(axis=1)
    assert (sizes == sizes[0]).all()
    assert min(0.15 * n - 0.5, n // folds) <= sizes[0] <= n / 3


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
    for fold in folds:  # logits are what the parts of a fold add up to
        mixed = sum(share * one for share, one in zip(fold.mixed.shares[:-1], fold.values, strict=True))
        if classes:
            np.testing.assert_allclose(fold.mixed.back_scores, mixed + fold.mixed.offsets, atol=1e-12)
    np.testing.assert_allclose(values(found, NEW), np.mean(said, axis=0), atol=1e-10)
    assert np.array_equal(found.back, np.concatenate([fold.back for fold in folds]))
    scores = [fold.mixed.back_scores for fold in folds]
    if classes:  # a fold's own mixture was chosen on these rows: those of the others were not
        for place, fold in enumerate(folds):
            others = [one.mixed for one in folds[:place] + folds[place + 1 :]]
            mixtures = [
                sum(share * one for share, one in zip(mixed.shares[:-1], fold.values, strict=True)) + mixed.offsets
                for mixed in others
            ]
            scores[place] = np.mean(mixtures, axis=0)
    np.testing.assert_allclose(found.back_scores, np.concatenate(scores), atol=1e-12)
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


def test_the_number_of_folds_is_taken_from_the_user():
    model = AutoRegressor(max_atoms=40, folds=2, random_state=0).fit(X, Y)
    assert [line["model"].split(":")[0] for line in model.search_ if line["stage"] == "fold"] == [
        "fold 1 of 2",
        "fold 2 of 2",
    ]
    once = AutoRegressor(max_atoms=40, folds=1, random_state=0).fit(X, Y)
    assert not [line for line in once.search_ if line["stage"] == "fold"]
    with pytest.raises(ValueError, match="folds"):
        AutoRegressor(folds=0).fit(X, Y)


def test_the_bar_knows_of_the_folds_to_come(monkeypatch):
    """While the first of four folds is under way, the stages of all of them are expected."""
    expected, begun = [], []
    monkeypatch.setattr(Job, "expect", lambda job, stages: expected.append(list(stages)))
    monkeypatch.setattr(Job, "begin", lambda job, stage: begun.append(stage))
    compose(problem_of(), 7, Search(), Job.current())
    stages = ["kernels and metrics", "one model"]
    assert expected[0] == [f"fold {number}: {stage}" for number in (1, 2, 3, 4) for stage in stages]
    assert expected[-1] == [f"fold 4: {stage}" for stage in stages]
    assert begun == expected[0]


def test_classes_that_nothing_tells_of_are_as_probable_as_they_are_frequent():
    """Twenty tables of noise, a tenth of class 1; no fold of theirs may say that it is more frequent than it is."""
    rng = np.random.default_rng(3)
    for seed in range(20):
        labels = rng.random(200) < 0.1
        model = AutoClassifier(max_atoms=30, trees=False, random_state=seed).fit(rng.normal(size=(200, 3)), labels)
        chances = model.predict_proba(rng.normal(size=(500, 3)))[:, 1]
        assert 0.5 * labels.mean() < chances.mean() < 2.0 * labels.mean()


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
