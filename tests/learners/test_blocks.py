"""Answers to a row source block by block: those for all rows at once, with few rows in memory."""

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import squeak
from squeak import learners, online
from squeak.kernels import RBF

METHODS = ("predict", "predict_proba", "decision_function", "transform")
ROWS = 700
BLOCKS = [256, 256, 188]
OPTIONS = {"KernelClassifier": {"loss": "logistic"}, "RandomFeatureClassifier": {"loss": "logistic"}}


def models():
    for room in (learners, online):
        for name in room.__all__:
            cls = getattr(room, name)
            if inspect.isclass(cls) and hasattr(cls, "fit") and any(hasattr(cls, f"{m}_blocks") for m in METHODS):
                known = inspect.signature(cls).parameters
                small = {"max_atoms": 20, "n_features": 32, "kernel": RBF(1.0), "kernel_y": RBF(1.0)}
                given = {key: value for key, value in small.items() if key in known}
                yield name, cls(random_state=0, **given, **OPTIONS.get(name, {}))


MODELS = dict(models())
ARRAYS_ALONE = ("BasicFalkon", "DivideAndConquerRidge", "KernelGradientDescent", "NytroRegressor")


def answers_rows(cls):
    return inspect.isclass(cls) and hasattr(cls, "fit") and any(hasattr(cls, method) for method in METHODS)


def test_every_class_that_answers_rows_answers_blocks():
    answering = {name for room in (learners, online) for name in room.__all__ if answers_rows(getattr(room, name))}
    assert answering - {"Batch"} == set(MODELS)  # Batch wraps a model that does
    for model in MODELS.values():
        cls = type(model)
        missing = [method for method in METHODS if hasattr(cls, method) and not hasattr(cls, f"{method}_blocks")]
        assert not missing, (cls, missing)


@pytest.fixture
def short_blocks(monkeypatch):
    monkeypatch.setattr("squeak.data.blocks.LARGEST_BLOCK", 256)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"a": rng.normal(5, 3, ROWS), "b": rng.choice(["x", "y", "z"], ROWS), "c": rng.random(ROWS)}
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_the_blocks_put_together_are_the_answers_for_all_rows(name, frame, short_blocks):
    """The fit is on a source with scales and categories: what comes from a source is not scaled twice."""
    model = clone(MODELS[name])
    y = np.digitize(frame.c, [0.3, 0.6]) if "Classifier" in name else frame.c.to_numpy()
    if name in ARRAYS_ALONE:
        X = frame[["a", "c"]].to_numpy()
        model.fit(X, y)
    else:
        X = frame[["a", "b"]]
        model.fit(squeak.rows(X, y, scale="standard"))
    fresh = squeak.rows(X, preprocessing=model.preprocessing_)
    tried = 0
    for method in METHODS:
        if hasattr(model, method):
            parts = list(getattr(model, f"{method}_blocks")(fresh))
            whole = getattr(model, method)(X)
            assert [len(part) for part in parts] == BLOCKS
            assert np.array_equal(np.concatenate(parts), getattr(model, method)(fresh))
            np.testing.assert_array_equal(np.shape(whole), np.shape(np.concatenate(parts)))
            if whole.dtype.kind == "f":
                np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-9, atol=1e-9)
            else:
                assert np.mean(np.concatenate(parts) == whole) > 0.99
            tried += 1
    assert tried


def test_deviations_come_with_the_blocks(frame, short_blocks):
    X = frame[["a", "c"]].to_numpy()
    model = squeak.KernelRidge(RBF(1.0), max_atoms=20, random_state=0).fit(X, X[:, 0])
    found = list(model.predict_blocks(squeak.rows(X), return_std=True))
    assert [len(mean) for mean, _ in found] == [len(std) for _, std in found] == BLOCKS
    mean, std = model.predict(squeak.rows(X), return_std=True)
    np.testing.assert_allclose(std, model.predict(X, return_std=True)[1], rtol=1e-9)
    assert np.array_equal(mean, np.concatenate([part for part, _ in found]))


def test_rows_are_read_as_answers_are_taken(short_blocks):
    read = []

    def endless():
        while True:
            read.append(1)
            yield np.random.default_rng(len(read)).random((256, 2))

    X = np.random.default_rng(0).random((300, 2))
    model = squeak.Nystroem(RBF(1.0), max_atoms=10, random_state=0).fit(X)
    answers = model.transform_blocks(squeak.rows(endless()))
    for count in range(1, 5):
        assert next(answers).shape == (256, model.n_components_)
        assert len(read) <= count + 90  # scales and categories are learned from the first 20,000 rows


def test_what_cannot_be_answered_is_refused_before_any_row_is_read(frame):
    X = frame[["a", "c"]].to_numpy()
    model = squeak.KernelRidge(RBF(1.0), max_atoms=20, random_state=0)
    with pytest.raises(NotFittedError):
        model.predict_blocks(squeak.rows(X))
    model.fit(X, X[:, 0])
    with pytest.raises(TypeError, match="predict_blocks takes a row source"):
        model.predict_blocks(X)
    with pytest.raises(ValueError, match="preprocessed in another way"):
        model.predict_blocks(squeak.rows(X, scale="standard"))
    with pytest.raises(ValueError, match="preprocessed in another way"):
        model.predict(squeak.rows(X, scale="standard"))
    assert not hasattr(squeak.learners.RandomFeatureClassifier(loss="squared"), "predict_proba_blocks")
    assert hasattr(squeak.KernelClassifier(loss="logistic"), "predict_proba_blocks")
