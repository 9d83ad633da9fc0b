"""An interrupted stream goes on from ``n_seen_`` and ends where one that was never interrupted ends."""

import warnings

import numpy as np
import pytest

from squeak.kernels import RBF
from squeak.online import (
    ConKonsClassifier,
    ConKonsRegressor,
    DualSGDRegressor,
    FOGDRegressor,
    KernelOGDRegressor,
    KonsRegressor,
    NOGDRegressor,
    ProsNKonsRegressor,
)
from tests.test_state_machines import interrupted

ESTIMATORS = {
    "ConKons": ConKonsRegressor(random_state=0),
    "ProsNKons": ProsNKonsRegressor(random_state=0),
    "Kons": KonsRegressor(),
    "KernelOGD": KernelOGDRegressor(penalty=0.01),
    "FOGD": FOGDRegressor(n_features=20, random_state=0),
    "DualSGD": DualSGDRegressor(n_features=20, max_atoms=20, random_state=0),
    "NOGD": NOGDRegressor(max_atoms=40, rank=10),
}


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(0).uniform(-2, 2, (200, 2))
    return X, np.sin(2 * X[:, 0]) * X[:, 1]


@pytest.mark.parametrize("kernel", [None, RBF(1.0)])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_interrupted_stream_ends_where_another_does(name, kernel, data):
    X, y = data
    make = lambda: type(ESTIMATORS[name])(**{**ESTIMATORS[name].get_params(), "kernel": kernel})  # noqa: E731
    right = make().partial_fit(X, y).predict(X)
    stopped = []
    for after in (0, 4, 20, 130, 260):
        model = make()
        try:
            with interrupted(after):
                model.partial_fit(X, y)
        except KeyboardInterrupt:
            stopped.append(model.n_seen_)
        if model.n_seen_ < len(X):
            model.partial_fit(X[model.n_seen_ :], y[model.n_seen_ :])
        assert model.n_seen_ == len(X)
        np.testing.assert_allclose(model.predict(X), right, rtol=1e-8, atol=1e-10)
    assert name == "FOGD" or stopped  # whose rows need no kernel value


def test_an_error_in_the_middle_of_a_block_undoes_the_block(data):
    X, y = data
    model = FOGDRegressor(RBF(1e-3), n_features=20, random_state=0).partial_fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="overflow"):
        model.partial_fit(np.vstack([X, [[1e306, 1e306]]]), np.append(y, 0.0))
    assert model.n_seen_ == len(X)
    assert np.array_equal(model.predict(X), before)


def test_classes_of_a_first_call_that_failed_are_forgotten(data):
    X, y = data
    for call in (
        lambda model: model.partial_fit(X * np.nan, y > 0, classes=[0, 1]),
        lambda model: model.learn_one(X[0] * np.nan, 0, classes=[0, 1]),
    ):
        model = ConKonsClassifier(random_state=0)
        with pytest.raises(ValueError, match="NaN"):
            call(model)
        assert model.predict_one(X[0]) is None
        assert model.partial_fit(X, np.where(y > 0, "a", "b"), classes=["a", "b"]).classes_.tolist() == ["a", "b"]
        with pytest.raises(ValueError, match="NaN"):
            model.partial_fit(X * np.nan, np.where(y > 0, "a", "b"), classes=["a", "b"])
        assert model.classes_.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((200, 2)), "rows are all equal"),
        (1e300 * np.random.default_rng(0).standard_normal((200, 2)), "overflow or vanish"),
        (1e-300 * np.random.default_rng(0).standard_normal((200, 2)), "overflow or vanish"),
    ],
)
def test_rows_that_tell_no_width_are_named_and_leave_a_learner_that_goes_on(X, message):
    model = ConKonsRegressor(scale=None, random_state=0)
    y = np.ones(200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match=message):
            model.partial_fit(X[:128], y[:128])
    assert model.partial_fit(X[128:], y[128:]).n_seen_ == 200
    assert np.isfinite(model.predict(X)).all()
