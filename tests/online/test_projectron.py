"""The Projectron against its definition, with explicit inverses."""

import numpy as np
import pytest

from squeak.kernels import RBF, Linear
from squeak.online import KernelOGDRegressor, ProjectronClassifier, ProjectronRegressor


def dense_projectron(K, y, tol, slope, step, most=None):
    """Return predictions and rows kept: the projection K_SS⁻¹k where ‖δ‖² ≤ tol·k(x, x), else one more row."""
    kept, a, said = [], np.zeros(0), []
    for t in range(len(y)):
        k = K[kept, t]
        said.append(float(k @ a))
        move = -step(t + 1) * slope(y[t], said[-1])
        if not move:
            continue
        d = np.linalg.solve(K[np.ix_(kept, kept)], k) if kept else k
        if kept and (len(kept) == most or K[t, t] - k @ d <= tol * K[t, t]):
            a = a + move * d
        else:
            kept, a = [*kept, t], np.append(a, move)
    return np.array(said), kept


@pytest.fixture
def stream(rng):
    X = rng.standard_normal((150, 2))
    return X, np.sin(X[:, 0]) * np.cos(X[:, 1])


@pytest.mark.parametrize(("tol", "most"), [(0.05, None), (0.3, None), (0.01, 12)])
def test_regression_is_the_definition(stream, tol, most):
    X, y = stream
    model = ProjectronRegressor(RBF(1.0), tol=tol, max_atoms=most, step=0.4, bound=5.0).fit(X, y)
    found = ProjectronRegressor(RBF(1.0), tol=tol, max_atoms=most, step=0.4, bound=5.0)
    said = np.concatenate([found.test_then_train(X[i : i + 30], y[i : i + 30]) for i in range(0, 150, 30)])
    expected, kept = dense_projectron(
        RBF(1.0)(X), y, tol, lambda y, z: 2 * (z - y), lambda t: 0.4 / np.sqrt(t), most
    )
    np.testing.assert_allclose(said, expected, atol=1e-9)
    assert model.n_atoms_ == len(kept) < 100


def test_classification_is_the_perceptron_with_projections(stream):
    X, y = stream
    labels = np.where(y > 0, 1.0, -1.0)
    model = ProjectronClassifier(RBF(1.0), tol=0.1).fit(X, labels)
    slope = lambda y, z: -y if y * z <= 0 else 0.0  # noqa: E731
    _, kept = dense_projectron(RBF(1.0)(X), labels, 0.1, slope, lambda t: 1.0)
    assert model.n_atoms_ == len(kept)
    _, all_kept = dense_projectron(RBF(1.0)(X), labels, 1e-9, slope, lambda t: 1.0)
    assert len(kept) < len(all_kept)


def test_without_a_tolerance_it_is_kernel_gradient_descent(stream):
    X, y = stream
    plain = KernelOGDRegressor(RBF(1.0), step=0.4, bound=5.0).fit(X, y)
    model = ProjectronRegressor(RBF(1.0), tol=0.0, step=0.4, bound=5.0).fit(X, y)
    np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=1e-6)
    lines = ProjectronRegressor(Linear(), tol=0.0, step=0.1, bound=5.0).fit(X, y)
    assert lines.n_atoms_ == 2  # the rank of the rows
