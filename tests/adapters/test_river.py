"""river's own checks of the adapters, and what they make of features that come and go."""

import numpy as np
import pytest

river = pytest.importorskip(
    "river", reason="river needs numpy 2.2.5, newer than the lowest version that we promise"
)

from river import checks, datasets, evaluate, metrics, preprocessing  # noqa: E402

from squeak.adapters.river import RiverClassifier, RiverRegressor  # noqa: E402
from squeak.kernels import RBF  # noqa: E402
from squeak.online import (  # noqa: E402
    ConKonsClassifier,
    ConKonsRegressor,
    FOGDRegressor,
    KernelOGDClassifier,
    KernelOGDRegressor,
    MixedKonsClassifier,
)

MODELS = {
    "regressor": RiverRegressor(),
    "FOGD": RiverRegressor(FOGDRegressor(RBF(3.0))),
    "OGD": RiverRegressor(KernelOGDRegressor(RBF(3.0))),
    "classifier": RiverClassifier(),
    "OGD, labels": RiverClassifier(KernelOGDClassifier(RBF(3.0))),
    "probabilities": RiverClassifier(ConKonsClassifier(RBF(3.0), loss="logistic")),
}
CHECKS = [
    pytest.param(name, check, id=f"{name}, {check.__name__}, {i}")
    for name, model in MODELS.items()
    for i, check in enumerate(checks.yield_checks(model))
]


@pytest.mark.parametrize(("name", "check"), CHECKS)
def test_rivers_own_checks_pass(name, check):
    check(MODELS[name].clone())


def rows(n=60, d=3):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, np.sin(X[:, 0])


def test_predictions_are_those_of_the_learner_on_arrays():
    X, y = rows()
    plain, model = (
        ConKonsRegressor(RBF(1.0), random_state=3),
        RiverRegressor(ConKonsRegressor(RBF(1.0)), spare=0, seed=3),
    )
    for row, target in zip(X, y, strict=True):
        x = dict(zip("abc", row.tolist(), strict=True))
        assert model.predict_one(x) == plain.predict_one(row)
        plain.learn_one(row, target)
        model.learn_one(x, target)


def test_a_feature_that_comes_up_late_is_one_that_was_zero():
    X, y = rows()
    X[:20, 2] = 0.0
    late, there = (RiverRegressor(ConKonsRegressor(RBF(1.0)), spare=2, seed=0) for _ in range(2))
    for i, (row, target) in enumerate(zip(X, y, strict=True)):
        full = dict(zip("abc", row.tolist(), strict=True))
        part = {name: value for name, value in full.items() if name != "c" or i >= 20}
        assert late.predict_one(part) == pytest.approx(there.predict_one(full), abs=1e-12)
        late.learn_one(part, target)
        there.learn_one(full, target)
    with pytest.raises(ValueError, match=r"'g' is one too many.*let the first row name all"):
        late.predict_one(dict.fromkeys("abcdefg", 1.0))


def test_a_bad_row_is_one_clear_error_and_changes_nothing():
    model = RiverRegressor(ConKonsRegressor(RBF(1.0)), seed=0)
    for x, y, words in (
        ({"a": [1.0]}, 1.0, "neither a number nor a text"),
        ({"a": np.inf}, 1.0, "(?i)inf"),
        ({"a": 1.0}, np.nan, "(?i)nan"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            model.learn_one(x, y)
    assert model._model is None
    model.learn_one({"a": 1.0}, 1.0)
    with pytest.raises(TypeError, match="neither a number nor a text"):
        model.learn_one({"b": ["red"]}, 1.0)
    assert model._columns.places({}) == {"a": 0}
    with pytest.raises(ValueError, match="spare"):
        RiverRegressor(spare=-1)
    with pytest.raises(NotImplementedError, match="logistic"):
        RiverClassifier().predict_proba_one({})


def test_texts_and_gaps_are_columns_of_their_own():
    """As the same numbers in an array: a column for each value, in the order in which it came up."""
    X, y = rows()
    kinds = np.array(["red", "blue", "green"])[np.arange(60) // 20]
    y = y + 2.0 * (kinds == "blue")
    plain = ConKonsRegressor(RBF(1.0), random_state=0)
    model = RiverRegressor(ConKonsRegressor(RBF(1.0)), spare=2, seed=0)
    known: list[float] = []
    for i, (row, target) in enumerate(zip(X, y, strict=True)):
        gap = i % 9 == 5
        number = np.mean(known) if gap else row[0]
        # the columns: a, kind=red, a is missing, kind=blue; no column is left for green
        expected = np.array([number, kinds[i] == "red", gap, kinds[i] == "blue"], dtype=float)
        x = {"a": None if gap else row[0], "kind": str(kinds[i])}
        assert model.predict_one(x) == pytest.approx(plain.predict_one(expected), abs=1e-9)
        model.learn_one(x, target)
        plain.learn_one(expected, target)
        known += [] if gap else [row[0]]
    assert model.predict_one({"a": float("nan"), "kind": "red"}) == model.predict_one({"a": None, "kind": "red"})


def test_many_classes_in_a_pipeline_are_learned():
    labels = tuple(sorted({y for _, y in datasets.ImageSegments().take(500)}))
    learner = ConKonsClassifier(RBF(3.0), loss="logistic")
    model = preprocessing.StandardScaler() | RiverClassifier(learner, labels, seed=0)
    stream = datasets.ImageSegments().take(500)
    assert (
        evaluate.progressive_val_score(stream, model, metrics.Accuracy()).get() > 0.5
    )  # 7 classes: chance is 0.14
    chances = model.predict_proba_one(next(iter(datasets.ImageSegments()))[0])
    assert set(chances) == set(labels)
    assert sum(chances.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_a_mixture_tells_probabilities_of_its_own(loss):
    """Its scores are means of labels, between −1 and 1, and no logarithms of odds."""
    X, y = rows(300)
    model = RiverClassifier(MixedKonsClassifier(max_atoms=20, loss=loss), seed=0)
    told, wrong = [], []
    for row, target in zip(X, y, strict=True):
        x = dict(zip("abc", row.tolist(), strict=True))
        told.append(model.predict_proba_one(x))
        wrong.append((told[-1].get(True, 0.5) - (target > 0)) ** 2)
        model.learn_one(x, bool(target > 0))
    assert all(sum(chances.values()) == pytest.approx(1.0) for chances in told[10:])
    assert max(chances[True] for chances in told[100:]) > 0.95
    assert min(chances[True] for chances in told[100:]) < 0.05
    assert np.mean(wrong[100:]) < 0.07
