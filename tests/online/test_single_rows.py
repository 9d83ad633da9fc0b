"""Rows that come one by one: sparse ones, objects, and those that are refused."""

import numpy as np
import pytest
import scipy.sparse as sp

from squeak.kernels import RBF, PairwiseKernel
from squeak.online import ConKonsRegressor, KonsRegressor, MixedKonsClassifier
from squeak.online import learner as learner_room


@pytest.fixture
def data():
    X = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    return X, np.sin(2 * X[:, 0]) * X[:, 1]


@pytest.mark.parametrize("cls", [ConKonsRegressor, KonsRegressor])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("first", [0, 20])
def test_single_rows_of_a_sparse_stream(cls, kind, first, data):
    """A dense row that became an atom stopped halfway: the weights had learned it, the space had not."""
    X, y = data
    S = sp.csr_array(X)
    expected = cls(random_state=0).partial_fit(S, y).predict(S)
    model = cls(random_state=0)
    if first:
        model.partial_fit(S[:first], y[:first])
    for i in range(first, 200):
        model.learn_one(X[i] if kind == "dense" and i else S[i : i + 1], y[i])
    np.testing.assert_allclose(model.predict(S), expected, atol=1e-9)
    assert model.predict_one(X[0]) == pytest.approx(expected[0], abs=1e-9)
    with pytest.raises(ValueError, match=r"this has shape \(2,\)"):
        model.learn_one(X[0, :2], 0.0)
    with pytest.raises(ValueError, match="column 1 is nan"):
        model.learn_one(np.array([0.0, np.nan, 1.0]), 0.0)
    assert model.n_seen_ == 200


def test_a_sparse_row_of_a_dense_stream_is_refused(data):
    X, y = data
    model = ConKonsRegressor(random_state=0).fit(X, y)
    with pytest.raises(TypeError, match="the rows before were dense"):
        model.learn_one(sp.csr_array(X[:1]), y[0])
    assert model.n_seen_ == 200


def test_single_rows_of_float32_are_those_of_blocks(data):
    X, y = data[0].astype(np.float32), data[1]
    many, one = ConKonsRegressor(random_state=0).fit(X, y), ConKonsRegressor(random_state=0)
    for x, target in zip(X, y, strict=True):
        one.learn_one(x, target)
    assert one.atoms_.dtype == many.atoms_.dtype == np.float32
    np.testing.assert_allclose(one.predict(X), many.predict(X), atol=1e-9)


def test_the_first_object_of_a_stream_comes_singly():
    kernel = PairwiseKernel(lambda a, b: float(np.exp(-abs(len(a) - len(b)))))
    words = ["a" * (1 + i % 7) for i in range(40)]
    one, many = (ConKonsRegressor(kernel=kernel, random_state=0) for _ in range(2))
    for word in words:
        one.learn_one(word, float(len(word)))
    many.fit(words, [float(len(word)) for word in words])
    np.testing.assert_allclose(one.predict(words), many.predict(words), atol=1e-9)


@pytest.mark.parametrize("kind", ["regressor", "mixture"])
@pytest.mark.parametrize("first", [1, 150])
def test_predictions_between_the_rows_change_nothing(kind, first, data):
    """Features of the last row are kept: also where its array is filled anew, and where the space has grown."""
    X, y = data
    y = y if kind == "regressor" else np.where(y > 0.0, "up", "down")
    make = ConKonsRegressor if kind == "regressor" else MixedKonsClassifier
    quiet, asked = (make(random_state=0).fit(X[:first], y[:first]) for _ in range(2))
    row = np.empty(3)
    for i in range(first, 200):
        row[:] = X[i]
        said = asked.predict_one(row)
        if i % 3 == 0:
            asked.predict_one(X[i - 1])
        assert asked.test_then_train_one(row, y[i]) == quiet.test_then_train_one(X[i], y[i]) == said
    (arrays, told), (expected, words) = asked.to_parts(), quiet.to_parts()
    assert told == words
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array)
    for x, expected_one in zip(X, quiet.predict(X), strict=True):
        said = asked.predict_one(x)
        assert said == (expected_one if kind == "mixture" else pytest.approx(expected_one, abs=1e-9))


@pytest.mark.parametrize("target", [None, "3"])
def test_a_single_target_is_a_number(target, data):
    model = ConKonsRegressor(random_state=0).fit(*data)
    with pytest.raises(ValueError, match="must be a number"):
        model.learn_one(data[0][0], target)
    assert model.n_seen_ == 200


def test_a_single_row_that_is_refused_leaves_the_state(monkeypatch):
    """The guard against rows that do not resemble each other speaks before the row is learned."""
    monkeypatch.setattr(learner_room, "GUARD_ROWS", 50)
    X = 100.0 * np.random.default_rng(0).standard_normal((60, 3))
    model = ConKonsRegressor(kernel=RBF(1.0), max_atoms=None, random_state=0)
    for x in X[:49]:
        model.learn_one(x, 1.0)
    before = model.predict(X)
    with pytest.raises(ValueError, match="had to be kept"):
        model.learn_one(X[49], 1.0)
    assert model.n_seen_ == 49
    np.testing.assert_array_equal(model.predict(X), before)
