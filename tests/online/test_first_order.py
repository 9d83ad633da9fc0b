"""First-order learners against loops that write their definitions out: NORMA, FOGD, NOGD, DUAL-SGD."""

import numpy as np
import pytest

from squeak.core.fourier import FourierFeatures
from squeak.core.seeds import FEATURES, draw_seed, generator_at
from squeak.kernels import RBF
from squeak.online import DualSGDRegressor, FOGDRegressor, KernelOGDRegressor, NOGDRegressor
from squeak.online.first_order import GradientRule
from squeak.online.losses import SquaredLoss

N, STEP = 80, 0.3


@pytest.fixture
def stream(rng):
    X = rng.standard_normal((N, 2))
    return X, np.sin(X[:, 0]) * np.cos(X[:, 1])


def said(model, stream):
    X, y = stream
    return model.set_params(bound=50.0, step=STEP, random_state=0).test_then_train(X, y)


def moves(y, predict, learn):
    """Return the predictions of a loop: predict(t), then learn(t, −η·ġ) with η = step/√t and ġ = 2(ŷ − y)."""
    out = []
    for t in range(len(y)):
        out.append(predict(t))
        learn(t, -STEP / np.sqrt(t + 1) * 2 * (out[-1] - y[t]))
    return np.array(out)


@pytest.mark.parametrize("penalty", [0.0, 0.2])
def test_norma_is_its_loop(stream, penalty):
    X, y = stream
    K, a = RBF(1.0)(X), np.zeros(N)

    def learn(t, move):
        a[:] *= 1 - STEP / np.sqrt(t + 1) * penalty
        a[t] = move

    found = moves(y, lambda t: K[t] @ a, learn)
    np.testing.assert_allclose(said(KernelOGDRegressor(RBF(1.0), penalty=penalty), stream), found, atol=1e-10)


def fourier(X, size):
    """Return [cos(Wᵀx), sin(Wᵀx)]/√D of all rows, W as the learners draw it."""
    W = FourierFeatures.pairs(RBF(1.0), 2, size // 2, generator_at(draw_seed(0), FEATURES)).frequencies
    angles = X @ W[:, : size // 2]
    return np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(size // 2)


def test_fogd_is_its_loop(stream):
    X, y = stream
    Z, w = fourier(X, 30), np.zeros(30)

    def learn(t, move):
        w[:] += move * Z[t]

    found = moves(y, lambda t: Z[t] @ w, learn)
    np.testing.assert_allclose(said(FOGDRegressor(RBF(1.0), n_features=30), stream), found, atol=1e-10)


def test_nogd_is_its_loop(stream):
    """Kernel steps up to B rows, then z(x) = Λ_r^(−1/2)V_rᵀk_B(x), with w = M⁻ᵀa carried over."""
    X, y = stream
    B, r = 20, 6
    K, a = RBF(1.0)(X), np.zeros(B)
    values, V = np.linalg.eigh(K[:B, :B])
    M = V[:, -r:].T / np.sqrt(values[-r:])[:, None]
    w = {}

    def learn(t, move):
        if t < B:
            a[t] = move
        if t == B - 1:
            w["now"] = M @ K[:B, :B] @ a
        if t >= B:
            w["now"] = w["now"] + move * M @ K[:B, t]

    found = moves(y, lambda t: w["now"] @ M @ K[:B, t] if w else K[t, :B] @ a, learn)
    np.testing.assert_allclose(said(NOGDRegressor(RBF(1.0), max_atoms=B, rank=r), stream), found, atol=1e-8)


def test_dual_sgd_is_its_loop(stream):
    """Over the budget the row with the smallest coefficient is moved: w̃ += a·z(x)."""
    X, y = stream
    K, Z, a, w = RBF(1.0)(X), fourier(X, 40), np.zeros(N), np.zeros(40)
    kept = []

    def learn(t, move):
        a[t] = move
        kept.append(t)
        if len(kept) > 15:
            least = min(kept, key=lambda i: abs(a[i]))
            w[:] += a[least] * Z[least]
            kept.remove(least)

    found = moves(y, lambda t: K[t, kept] @ a[kept] + Z[t] @ w, learn)
    model = DualSGDRegressor(RBF(1.0), n_features=40, max_atoms=15)
    np.testing.assert_allclose(said(model, stream), found, atol=1e-10)


@pytest.mark.parametrize("cls", [KernelOGDRegressor, FOGDRegressor, NOGDRegressor, DualSGDRegressor])
def test_a_learner_that_is_saved_on_the_way_goes_on_in_the_same_bits(cls, stream, tmp_path):
    """Before and after the budget is full, for those that have one."""
    X, y = stream
    options = {name: value for name, value in {"max_atoms": 20, "rank": 6}.items() if name in cls().get_params()}
    for cut in (1, 10, 50):
        begun = cls(RBF(1.0), random_state=0, **options)
        begun.partial_fit(X[:cut], y[:cut]).save(tmp_path / "m.sqk")
        again = cls.load(tmp_path / "m.sqk")
        assert np.array_equal(again.test_then_train(X[cut:], y[cut:]), begun.test_then_train(X[cut:], y[cut:]))
        assert np.array_equal(again.predict(X), begun.predict(X))


def test_within_the_tube_no_step_is_taken():
    rule = GradientRule(SquaredLoss(), 0.5, "constant", 2.0, 0.1)
    assert rule(1.0, 0.95) == (0.95, 0.0)
    assert rule(1.0, 0.8) == (0.8, pytest.approx(0.5 * 2 * (0.8 - 1.0)))
    assert GradientRule(SquaredLoss(), 0.5, "sqrt", 2.0, 0.0)(1.0, 0.95)[1] == pytest.approx(-0.05)
    assert rule(1.0, 7.0) == (2.0, pytest.approx(1.0))  # clipped, and the slope there
