"""Classes that join on the way, and labels that come later than their rows."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError

import squeak
from squeak.kernels import RBF
from squeak.online import (
    ConKonsClassifier,
    ConKonsRegressor,
    FOGDClassifier,
    MixedKonsClassifier,
    MixedKonsRegressor,
    ProsNKonsClassifier,
)


def corners(n=450, late=150):
    """Return rows around four corners, the last two of which come up late."""
    rng = np.random.default_rng(0)
    corner = rng.integers(0, 2, n)
    corner[late:] = rng.integers(0, 3, n - late)
    corner[2 * late :] = rng.integers(0, 4, n - 2 * late)
    X = np.array([[0, 0], [2, 0], [0, 2], [2, 2]])[corner] + 0.2 * rng.standard_normal((n, 2))
    return X, np.array(["m", "z", "aa", "q"])[corner]


@pytest.mark.parametrize(
    ("maker", "scale"), [(ConKonsClassifier, "auto"), (MixedKonsClassifier, "auto"), (ProsNKonsClassifier, None)]
)
def test_classes_join_row_by_row_as_in_blocks_and_saved(maker, scale, tmp_path):
    X, y = corners()
    options = {"max_atoms": 15, "scale": scale, "random_state": 0}
    options |= {"kernel": RBF(1.0)} if scale is None else {}
    options |= {"widths": (0.5, 1.0)} if maker is MixedKonsClassifier else {}  # a wide kernel amplifies rounding
    whole, singly, cut = (maker(**options) for _ in range(3))
    said = np.concatenate([whole.test_then_train(X[:50], y[:50]), whole.test_then_train(X[50:], y[50:])])
    assert whole.classes_.tolist() == ["aa", "m", "q", "z"]
    new = [int(np.argmax(y == label)) for label in ("aa", "q")]
    assert min(new) >= 150
    for label, first in zip(("aa", "q"), new, strict=True):
        assert label not in said[: first + 1]  # nobody names a class that has not been
    assert np.mean(said[350:] != y[350:]) < (0.5 if maker is ProsNKonsClassifier else 0.1)
    singly.partial_fit(X[:50], y[:50])
    quick = [singly.test_then_train_one(x, label) for x, label in zip(X[50:], y[50:], strict=True)]
    assert np.mean(np.array(quick) != said[50:]) < 0.01
    np.testing.assert_allclose(singly.decision_function(X[:50]), whole.decision_function(X[:50]), atol=1e-6)
    cut.partial_fit(X[:50], y[:50]).partial_fit(X[50:300], y[50:300])
    cut.save(tmp_path / "m.sqk")
    again = squeak.load(tmp_path / "m.sqk")
    rest = again.test_then_train(X[300:], y[300:])
    assert rest.tolist() == said[300:].tolist()


def test_the_very_first_rows_may_have_one_class(tmp_path):
    X, y = corners()
    for first, second in (("m", "z"), ("z", "m")):
        model = MixedKonsClassifier(max_atoms=10, random_state=0)
        assert model.predict_one(X[0], id=0) is None
        model.learn_one(id=0, y=first)
        assert model.predict_one(X[1]) == first
        model.partial_fit(X[1:3], [first, first])
        model.save(tmp_path / "m.sqk")
        assert squeak.load(tmp_path / "m.sqk").predict(X[:2]).tolist() == [first, first]
        assert model.test_then_train_one(X[3], second) == first
        assert model.classes_.tolist() == ["m", "z"]
        named = y[:150]
        model.partial_fit(X[:150], named)
        assert model.score(X[:150], named) > 0.95


def test_two_heads_of_opposite_sign_say_what_one_said():
    """Where a third class joins, the scores of the first two are those of before."""
    X, y = corners()
    model = ConKonsClassifier(RBF(1.0), random_state=0).fit(X[:100], y[:100])
    before = model.decision_function(X[:100])
    model._stream.rearrange([None, (0, -1.0), (0, 1.0)])
    after = model._stream.scores(X[:100])
    np.testing.assert_allclose(after[:, 2], before, atol=1e-12)
    np.testing.assert_allclose(after[:, 1], -before, atol=1e-12)
    assert np.mean(after[:, 0] < -0.5) > 0.9  # no atom is of the new class


def test_outputs_change_places_and_signs_for_every_half_life():
    """Heads are those of all outputs for one half-life, then for the next; a new output says no to every atom."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (80, 2))
    y = np.array(["a", "b", "c"])[(X[:, 0] > 0.3) + (X[:, 1] > 0.3).astype(int)]
    model = MixedKonsClassifier(RBF(0.7), widths=(1.0,), half_lives=(15.0, None), previous=False, scale=None)
    learner = model.set_params(random_state=0).fit(X, y).learner_.learners[0]
    before = learner.scores(X).reshape(80, 2, 3)
    after = learner.with_outputs([(2, 1.0), None, (0, -1.0), (1, 1.0)]).scores(X).reshape(80, 2, 4)
    np.testing.assert_array_equal(after[:, :, [0, 2, 3]], before[:, :, [2, 0, 1]] * [1.0, -1.0, 1.0])
    new = learner.with_outputs([(0, 1.0), None]).scores(learner.space.scorer.atoms).reshape(-1, 2, 2)[:, :, 1]
    assert new.mean() < -0.5


def test_named_classes_are_all_that_there_are_and_other_learners_need_them():
    X, y = corners()
    model = ConKonsClassifier(random_state=0).partial_fit(X[:100], y[:100], classes=["m", "z"])
    state = model.n_seen_
    with pytest.raises(ValueError, match=r"row 10\d.*'aa'.*name all of them"):
        model.partial_fit(X[200:220], np.array(["m"] * 5 + ["aa"] * 15))
    with pytest.raises(ValueError, match="'aa'"):
        model.learn_one(X[0], "aa")
    assert model.n_seen_ == state
    with pytest.raises(ValueError, match="only one class"):
        FOGDClassifier().partial_fit(X[:5], ["m"] * 5)
    free = ConKonsClassifier(random_state=0).fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="name all of them"):
        free.learn_one(X[0], 3)


@pytest.mark.parametrize(
    ("label", "words"),
    [(float("nan"), "leave out rows without one"), (None, "leave out rows without one"), (0.5, "continuous")],
)
def test_a_late_label_that_is_no_class_is_refused(label, words, tmp_path):
    X, y = corners(60, 20)
    model = ConKonsClassifier(random_state=0).fit(X[:50], (y == "m").astype(float)[:50])
    with pytest.raises(ValueError, match=words):
        model.learn_one(X[50], label)
    with pytest.raises(ValueError):
        model.partial_fit(X[50:53], [0.0, label, 1.0])
    assert model.n_seen_ == 50
    model.learn_one(X[50], 2)  # a class that is new
    assert model.classes_.tolist() == [0.0, 1.0, 2.0]
    model.save(tmp_path / "m.sqk")
    assert squeak.load(tmp_path / "m.sqk").classes_.tolist() == [0.0, 1.0, 2.0]


def test_labels_may_come_later_than_their_rows(tmp_path):
    """Each target comes five rows late: the learner learns what it would have learned from the rows in order."""
    X, y = corners(120, 40)
    model, plain = (ConKonsClassifier(RBF(1.0), max_atoms=10, random_state=0) for _ in range(2))
    for late in (model, plain):
        late.partial_fit(X[:10], y[:10], classes=np.unique(y))
    said = []
    for t in range(10, 125):
        if t < 120:
            said.append(model.predict_one(X[t], id=t))
            assert plain.predict_one(X[t]) == said[-1]
        if t - 5 >= 10:
            model.learn_one(id=t - 5, y=y[t - 5])
            plain.learn_one(X[t - 5], y[t - 5])
        if t == 60:
            model.save(tmp_path / "m.sqk")
            model = squeak.load(tmp_path / "m.sqk")
            assert model.n_pending_ == 5
    assert model.n_pending_ == 0
    np.testing.assert_array_equal(model.decision_function(X), plain.decision_function(X))


def test_rows_that_wait_are_bounded_and_named(monkeypatch):
    X, y = corners(60, 20)
    model = ConKonsClassifier(max_atoms=5, random_state=0).fit(X, y)
    monkeypatch.setattr(ConKonsClassifier, "_most_pending", 3)
    for t in range(5):
        model.predict_one(X[t], id=f"row {t}")
    assert model.n_pending_ == 3
    with pytest.raises(ValueError, match="no row waits under the id 'row 1'"):
        model.learn_one(id="row 1", y="m")
    model.learn_one(id="row 2", y="m")
    with pytest.raises(ValueError, match="learned once"):
        model.learn_one(id="row 2", y="m")
    with pytest.raises(TypeError, match="not both"):
        model.learn_one(X[0], "m", id="row 3")
    with pytest.raises(TypeError, match="text or a whole number"):
        model.predict_one(X[0], id=1.5)
    assert model.n_pending_ == 2
    assert model.fit(X, y).n_pending_ == 0


def test_dictionaries_that_wait_are_saved(tmp_path):
    model = ConKonsClassifier(random_state=0)
    for t in range(4):
        model.learn_one({"km": float(t), "to": "LIL"}, "ab"[t % 2])
    model.predict_one({"km": 2.5, "to": "AMS"}, id="ride 7")
    model.save(tmp_path / "m.sqk")
    again = squeak.load(tmp_path / "m.sqk")
    for one in (model, again):
        with pytest.raises(ValueError, match=r"the label is None.*leave out rows without one"):
            one.learn_one(id="ride 7", y=None)
        one.learn_one(id="ride 7", y="a")
    assert model.n_pending_ == again.n_pending_ == 0
    row = np.zeros((1, model.n_features_in_))
    assert model.decision_function(row) == again.decision_function(row)


def test_values_of_any_kind_wait_and_are_saved(tmp_path):
    """Numbers of numpy, gaps, huge numbers and names that are whole numbers come back from a file as they were."""
    model = ConKonsRegressor(random_state=0)
    for t in range(5):
        model.learn_one({0: float(t), "to": "LIL", "km": 1e160}, 1.0 + t)
    given = [float("nan"), None, pd.NA, np.float32(2), np.int64(2), np.bool_(True), 1e308, "text"]
    for number, value in enumerate(given):
        model.predict_one({0: value, "to": None, "km": -1e308}, id=np.int64(number))
    model.save(tmp_path / "m.sqk")
    again = squeak.load(tmp_path / "m.sqk")
    for number in range(len(given)):
        for one in (model, again):
            one.learn_one(id=number, y=2.0)
    probe = {0: 2.0, "to": "LIL", "km": 3.0}
    assert model.predict_one(probe) == again.predict_one(probe)
    with pytest.raises(ValueError, match="column 0 of the row is inf"):
        ConKonsRegressor().predict_one({0: float("inf")}, id="a")
    with pytest.raises(TypeError, match="text or a whole number"):
        model.learn_one(id=[1], y=1.0)


def test_rows_of_any_size_are_saved(tmp_path):
    X = np.random.default_rng(0).random((300, 2))
    X[0], X[150] = 1e300, -1e308
    for maker in (ConKonsRegressor, MixedKonsRegressor):
        model = maker(random_state=0).partial_fit(X, X[:, 0].clip(0, 1))
        model.predict_one([1e300, 1.0], id=1)
        model.save(tmp_path / "m.sqk")
        again = squeak.load(tmp_path / "m.sqk")
        for one in (model, again):
            one.learn_one(id=1, y=0.5)
        np.testing.assert_array_equal(model.predict(X), again.predict(X))
        with pytest.raises(NotFittedError, match="nothing to save"):
            maker().save(tmp_path / "none.sqk")


def test_a_gap_is_a_gap_however_it_is_written():
    said = []
    for gap in (None, float("nan"), np.float64("nan"), pd.NA, pd.NaT):
        model = ConKonsRegressor(random_state=0)
        for t in range(20):
            model.learn_one({"km": gap if t % 5 == 3 else float(t), "to": "LIL"}, float(t))
        said.append((model.predict_one({"km": gap, "to": "AMS"}), model.predict_one({"km": 2.0, "to": gap})))
    assert set(said) == {said[0]}


def test_a_text_of_many_values_leaves_columns_for_numbers(tmp_path):
    """As a name of its own in every row; eight of the 32 spare columns are for numbers alone, also from a file."""
    model = ConKonsRegressor(max_atoms=10, random_state=0)
    for t in range(40):
        model.learn_one({"km": float(t % 7), "ride": f"number {t}"}, float(t % 7))
    model.save(tmp_path / "m.sqk")
    model = squeak.load(tmp_path / "m.sqk")
    x = {"km": 3.0, "ride": "one more"}
    for late in range(8):
        x[f"late {late}"] = 1.0
        model.predict_one(x, id=late)
        model.learn_one(id=late, y=3.0)
    with pytest.raises(ValueError, match=r"'late 8' is one too many.*let the first row name all"):
        model.predict_one({**x, "late 8": 1.0})


def test_a_name_that_no_file_can_hold_waits_but_is_not_saved(tmp_path):
    model = ConKonsRegressor(random_state=0)
    for t in range(4):
        model.learn_one({"km": float(t)}, float(t))
    model.predict_one({"km": 1.0, ("to", 2): 3.0}, id=1)
    with pytest.raises(TypeError, match="text or whole numbers can be saved"):
        model.save(tmp_path / "m.sqk")
    model.learn_one(id=1, y=1.0)
    assert model.n_seen_ == 5


def rides(n=400):
    rng = np.random.default_rng(0)
    km, to = rng.uniform(1, 9, n), rng.choice(["AMS", "LIL"], n)
    to[n // 2 :] = rng.choice(["AMS", "LIL", "BRU"], n - n // 2)
    fare = 2 * km + np.select([to == "AMS", to == "LIL"], [0.0, 10.0], 20.0)
    found = [{"km": float(a), "to": str(b)} for a, b in zip(km, to, strict=True)]
    for t in range(30, n, 9):
        found[t]["km"] = None
    for t in range(100, n):
        found[t]["day"] = float(rng.integers(7))
    return found, fare


def test_dictionaries_with_categories_gaps_and_news_are_learned_and_saved(tmp_path):
    rows, fare = rides()
    model = ConKonsRegressor(random_state=0)
    said = []
    for t, (x, y) in enumerate(zip(rows, fare, strict=True)):
        said.append(model.predict_one(x, id=t))
        model.learn_one(id=t, y=y)
        if t == 250:
            model.save(tmp_path / "m.sqk")
            other, model = model, squeak.load(tmp_path / "m.sqk")
            assert model.predict_one(rows[0]) == other.predict_one(rows[0])
    full = np.array([x["km"] is not None for x in rows])
    late = (np.arange(len(rows)) > 300) & full
    assert np.mean((np.array(said) - fare)[late] ** 2) < 0.1 * fare.var()
    assert model.n_features_in_ == 2 + 32


def test_dictionaries_follow_the_names_of_a_table_or_a_row_source():
    rows, fare = rides(120)
    columns = {"km": [x["km"] or 0.0 for x in rows], "to": [x["to"] for x in rows]}
    source = squeak.rows(pa.table({**columns, "fare": fare}), "fare")
    model = ConKonsRegressor(random_state=0).fit(source)
    table = pa.table({"km": [3.0], "to": ["LIL"]})
    assert model.predict_one({"km": 3.0, "to": "LIL"}) == pytest.approx(float(model.predict(table)[0]))
    model.learn_one({"to": "AMS", "km": 2.0}, 4.0)
    assert model.n_seen_ == 121
    plain = ConKonsRegressor(random_state=0).fit(np.ones((5, 2)) * np.arange(5)[:, None], np.arange(5.0))
    with pytest.raises(TypeError, match="had no names"):
        plain.learn_one({"a": 1.0, "b": 2.0}, 1.0)
    with pytest.raises(TypeError, match="neither a number nor a text"):
        ConKonsRegressor().learn_one({"a": [1.0]}, 1.0)
