"""Boosted trees within a blend: arrays that say what scikit-learn's trees say, rounds chosen by held-out rows."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

import squeak
from squeak.learners import boosting, grown
from squeak.learners.boosting import Boosted
from squeak.learners.grown import Trees


@pytest.fixture(autouse=True)
def _one_thread():
    """Hold scikit-learn to one thread: two of them crawl where other tests use the cores."""
    with threadpool_limits(1, user_api="openmp"):
        yield


def dense(trees, X):
    """Return f(x) by walking down one tree after the other, a row at a time."""
    out = np.tile(trees.baseline, (len(X), 1))
    for row, x in enumerate(X):
        for root, output in zip(trees.roots, trees.output, strict=True):
            node = root
            while trees.children[node, 0] != node:
                node = trees.children[node, int(x[trees.feature[node]] > trees.threshold[node])]
            out[row, output] += trees.value[node]
    return out * trees.scale


def steps(n=400, seed=0):
    """Return rows and targets with jumps, which kernels smooth out."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    return X, np.floor(4 * X[:, 0]) + 2.0 * (X[:, 1] > 0.3) + 0.1 * rng.standard_normal(n)


X, Y = steps()
BACK = np.arange(400) % 5 == 0
TARGETS = {
    "one output": (Y[:, None], False),
    "two outputs": (np.c_[Y, -Y - (X[:, 1] > 0)], False),
    "two classes": (np.where(Y > 0, 1.0, -1.0)[:, None], True),
    "three classes": (np.where(np.arange(3) == np.digitize(Y, [-1, 1])[:, None], 1.0, -1.0), True),
}


def search(kind, **changes):
    y, classes = TARGETS[kind]
    given = {"X": X, "y": y, "weight": None, "back": BACK, "classes": classes, "seed": 3} | changes
    return Boosted.search(**given)


@cache
def plain(kind):
    return search(kind)


@pytest.mark.parametrize("kind", TARGETS)
def test_values_are_those_of_a_walk_down_every_tree(kind):
    found = plain(kind)
    scaled = found.trees.times(np.linspace(0.5, 2.0, len(found.trees.scale)))
    np.testing.assert_allclose(scaled.values(X[:60]), dense(scaled, X[:60]), rtol=1e-12, atol=1e-14)
    assert found.trees.values(X[:0]).shape == (0, TARGETS[kind][0].shape[1])


@pytest.mark.parametrize(("kind", "weighted"), [*((kind, False) for kind in TARGETS), ("two classes", True)])
def test_trees_are_scikit_learns_of_all_rows(kind, weighted):
    y, classes = TARGETS[kind]
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 400) if weighted else None
    found = search(kind, weight=weight) if weighted else plain(kind)
    same = {
        "learning_rate": boosting.FAST_RATE,
        "max_depth": boosting.DEPTH,
        "max_leaf_nodes": boosting.LEAVES,
        "max_features": boosting.COLUMNS,
        "early_stopping": False,
        "random_state": 3,
    }
    for place, rounds in enumerate(found.steps):
        if classes:
            model = HistGradientBoostingClassifier(max_iter=rounds, **same)
            labels = y[:, 0] > 0 if y.shape[1] == 1 else y.argmax(axis=1)
            said = model.fit(X, labels, sample_weight=weight).decision_function(X).reshape(y.shape)
            np.testing.assert_allclose(found.trees.values(X), said, rtol=1e-9, atol=1e-12)
        else:
            model = HistGradientBoostingRegressor(max_iter=rounds, **same)
            said = model.fit(X, y[:, place], sample_weight=weight).predict(X)
            np.testing.assert_allclose(found.trees.values(X)[:, place], said, rtol=1e-9, atol=1e-12)


def test_what_is_said_of_held_out_rows_does_not_know_their_targets():
    """The wrong twin, trees of all rows, has seen them: its error there is that of the noise, or less."""
    found = plain("one output")
    others = np.where(BACK, 100.0, Y)[:, None]
    changed = search("one output", y=others)
    model = boosting._model(Y[:, None], 3, False, 3).set_params(max_iter=found.steps[0])
    np.testing.assert_allclose(model.fit(X[~BACK], Y[~BACK]).predict(X[BACK]), found.back_values[:, 0])
    # the targets of the held-out rows choose the number of rounds and nothing else
    model = boosting._model(Y[:, None], 3, False, 3).set_params(max_iter=changed.steps[0])
    np.testing.assert_allclose(model.fit(X[~BACK], Y[~BACK]).predict(X[BACK]), changed.back_values[:, 0])
    seen = found.trees.values(X[BACK])
    assert np.mean((seen - Y[BACK, None]) ** 2) < 0.8 * np.mean((found.back_values - Y[BACK, None]) ** 2)


def test_rounds_are_those_of_the_least_error_on_held_out_rows():
    found = plain("one output")
    model = boosting._model(Y[:, None], 3, False, 3).fit(X[~BACK], Y[~BACK])
    errors = [np.mean((said - Y[BACK]) ** 2) for said in model.staged_predict(X[BACK])]
    tried = errors[: int(found.steps[0] / boosting.LAST) + 1]
    assert found.steps[0] == np.argmin(tried) + 1
    assert found.steps[0] < len(errors)  # noise: not all rounds are good


def test_too_few_rows_or_a_class_without_any_give_none():
    assert Boosted.search(X[:100], Y[:100, None], None, BACK[:100], False, 0) is None
    one = np.where(BACK & (np.arange(400) < 10), 1.0, -1.0)[:, None]
    assert search("two classes", y=one) is None
    assert search("two classes", y=-one) is None
    rare = TARGETS["three classes"][0].copy()
    rare[~BACK & (rare[:, 2] > 0)] = [1.0, -1.0, -1.0]
    assert search("three classes", y=rare) is None


def test_trees_that_nobody_wants_any_more_are_given_up():
    assert search("one output", ended=lambda: True) is None


def test_wide_tables_of_many_classes_have_fewer_rounds():
    """A round looks at rows times columns times classes numbers; fewer rounds are faster ones."""
    rounds = {
        (400, 3, 1): (240, 0.1),
        (2_000, 3, 1): (960, 0.05),
        (50_000, 40, 1): (960, 0.05),
        (7_400, 256, 10): (105, 0.1),
        (16_000, 16, 26): (115, 0.1),
        (1_000_000, 100, 10): (60, 0.1),
    }
    for (n, columns, classes), (steps, rate) in rounds.items():
        y = np.broadcast_to(1.0, (n, classes))
        model = boosting._model(y, columns, True, 0)
        assert (model.max_iter, model.learning_rate) == (steps, rate)
    for classes, steps in ((50, 60), (500, 6), (5_000, 1)):  # no more trees than for fifty classes
        assert boosting._model(np.broadcast_to(1.0, (4000, classes)), 3, True, 0).max_iter == steps
    assert boosting._model(np.broadcast_to(1.0, (4000, 50)), 3, False, 0).max_iter == 60  # for each output


def test_of_very_many_rows_some_are_drawn(monkeypatch):
    monkeypatch.setattr(boosting, "MOST_ROWS", 150)
    few = search("one output")
    assert np.array_equal(few.back_values, search("one output").back_values)
    assert not np.array_equal(few.back_values, search("one output", seed=4).back_values)
    monkeypatch.undo()
    every = plain("one output")
    assert not np.array_equal(every.back_values, few.back_values)
    assert every.trees.value.size > few.trees.value.size  # more rows, more leaves


@pytest.mark.parametrize("kind", ["two classes", "three classes"])
def test_no_class_is_lost_where_rows_are_drawn(kind, monkeypatch):
    monkeypatch.setattr(boosting, "MOST_ROWS", 120)
    rare = np.full((400, 1), -1.0)
    if kind == "three classes":
        rare = np.where(np.arange(3) == (Y > 0)[:, None], 1.0, -1.0)
    for row in (1, 2, 3, 4):
        y = rare.copy()
        y[row] = -1.0
        y[row, -1] = 1.0
        found = search(kind, y=y)
        assert found.back_values.shape == (80, y.shape[1])
        assert found.rows in (200, 201)


def test_parts_of_a_file_that_do_not_fit_are_refused():
    trees = plain("two outputs").trees
    back = Trees.from_parts(*trees.to_parts())
    assert np.array_equal(back.values(X), trees.values(X))
    split = int(np.flatnonzero(trees.children[:, 0] != np.arange(len(trees.feature)))[0])

    def wrong(name, place, value):
        array = getattr(trees, name).copy()
        array[place] = value
        return {name: array}

    nodes = len(trees.feature)
    for change in (
        wrong("children", (split, 0), split),  # a circle of one
        wrong("children", (nodes - 1, 0), 0),  # back to the beginning
        wrong("children", (split, 1), nodes),
        wrong("feature", split, 3),
        wrong("roots", 0, nodes),
        wrong("output", 0, 2),
        wrong("output", 0, 1),  # trees of an output are beside each other
    ):
        with pytest.raises(ValueError, match="damaged"):
            replace(trees, **change)
    chain = np.minimum(np.arange(200)[:, None] + 1, 199).repeat(2, axis=1)
    zero = np.zeros(200)
    with pytest.raises(ValueError, match="damaged"):  # a way that is too long to walk
        replace(trees, feature=zero.astype(int), threshold=zero, children=chain, value=zero, roots=np.array([0]))


def test_no_threshold_lies_on_a_value():
    """With ties in a long column scikit-learn's own thresholds do, and the last digit of a number decides."""
    rng = np.random.default_rng(0)
    rows = np.round(rng.exponential(100, (1500, 1)))
    y = np.sin(rows / 40)
    back = np.arange(1500) % 5 == 0
    trees = Boosted.search(rows, y, None, back, False, 0).trees
    split = trees.children[:, 0] != np.arange(len(trees.feature))
    assert np.abs(trees.threshold[split] - rows).min() > 0.4
    for digit in (1 - 1e-12, 1 + 1e-12):
        assert np.array_equal(trees.values(rows * digit), trees.values(rows))
    raw = boosting._arrays([boosting._model(y, 1, False, 0).set_params(max_iter=60).fit(rows, y[:, 0])], rows[:1])
    on = np.isin(raw.threshold[raw.children[:, 0] != np.arange(len(raw.feature))], rows)
    assert on.any()  # the wrong twin


def test_trees_that_are_read_wrongly_are_noticed():
    trees = plain("one output").trees
    model = boosting._model(Y[:, None], 3, False, 3).set_params(max_iter=5).fit(X, Y)
    with pytest.raises(RuntimeError, match="scikit-learn"):
        boosting._check(trees, [model], X[:20])


@pytest.mark.parametrize("kind", ["numbers", "outputs", "two classes", "four classes"])
def test_an_automatic_model_takes_trees_where_targets_jump(kind, tmp_path):
    new, truth = steps(800, seed=1)
    targets = {
        "numbers": (Y, truth),
        "outputs": (np.c_[Y, 1e6 * Y], np.c_[truth, 1e6 * truth]),
        "two classes": (Y > 0, truth > 0),
        "four classes": (np.digitize(Y, [-2, 0, 2]), np.digitize(truth, [-2, 0, 2])),
    }
    y, unseen = targets[kind]
    learner = squeak.AutoClassifier if "classes" in kind else squeak.AutoRegressor
    model = learner(max_atoms=60, random_state=0).fit(X, y)
    assert model.trees_ is not None
    weights = {one["model"]: one["weight"] for one in model.search_ if one["stage"] == "all rows"}
    assert sum(weight for name, weight in weights.items() if name.endswith("boosted trees")) > 0.0
    without = learner(max_atoms=60, random_state=0, trees=False).fit(X, y)
    assert without.trees_ is None
    assert model.score(new, unseen) > without.score(new, unseen) - 0.01 * ("classes" in kind)
    model.save(tmp_path / "model.sqk")
    back = squeak.load(tmp_path / "model.sqk")
    assert np.array_equal(back.predict(new), model.predict(new))
    squeak.report.write(model, tmp_path / "report.html")
    assert "Boosted trees" in (tmp_path / "report.html").read_text(encoding="utf8")


def test_trees_alone_are_a_model():
    """Where kernels see nothing, all of the weight may go to the trees."""
    rng = np.random.default_rng(0)
    noise = rng.uniform(-1, 1, (600, 6))
    y = np.sign(noise[:, 0]) * np.sign(noise[:, 1])
    model = squeak.AutoRegressor(max_atoms=2, random_state=0).fit(noise[:500], y[:500])
    weights = {stage["model"]: stage["weight"] for stage in model.search_ if stage["stage"] == "all rows"}
    assert max(weights, key=weights.get).endswith("boosted trees")
    assert model.score(noise[500:], y[500:]) > 0.5
    assert model.kernel_ is not None


def test_threads_do_not_change_trees(monkeypatch):
    y = np.where(np.arange(3) == np.digitize(Y, [-1, 1])[:, None], 1.0, -1.0)
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("SQUEAK_NUM_THREADS", threads)
        monkeypatch.setattr(grown, "PAIRS", 5_000)
        made = search("three classes", y=y)
        found.append((made.back_values, made.trees.values(X)))
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


def test_trees_is_a_truth_value():
    with pytest.raises(TypeError, match="trees must be True or False"):
        squeak.AutoRegressor(trees="yes").fit(X, Y)
