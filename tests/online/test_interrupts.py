"""An interrupted stream goes on from ``n_seen_`` and ends where one that was never interrupted ends."""

import numpy as np
import pytest

from squeak.kernels import RBF
from squeak.online import (
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
    "FOGD": FOGDRegressor(n_frequencies=10, random_state=0),
    "DualSGD": DualSGDRegressor(n_frequencies=10, max_atoms=20, random_state=0),
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
    model = FOGDRegressor(RBF(1e-3), n_frequencies=10, random_state=0).partial_fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="overflow"):
        model.partial_fit(np.vstack([X, [[1e306, 1e306]]]), np.append(y, 0.0))
    assert model.n_seen_ == len(X)
    assert np.array_equal(model.predict(X), before)
