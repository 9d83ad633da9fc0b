"""Losses against their definitions: derivatives by differences, curvature by a grid over the whole interval."""

import numpy as np
import pytest

from squeak.online.losses import LOSSES, clipped_part, loss_named

BOUNDS = (0.5, 1.0, 2.0, 5.0)


def targets(loss, bound):
    return (-1.0, 1.0) if loss.for_labels else np.linspace(-bound, bound, 9)


def curvature_on_grid(loss, y, u, bound, points=4001):
    """Return the largest σ with ℓ(w) ≥ ℓ(u) + ℓ'(u)(w − u) + (σ/2)ℓ'(u)²(w − u)² at every w of a grid."""
    w = np.linspace(-bound, bound, points)
    w = w[np.abs(w - u) > 1e-3 * bound]
    slope = loss.derivative(y, u)
    return float(np.min(2 * (loss.value(y, w) - loss.value(y, u) - slope * (w - u)) / (slope * (w - u)) ** 2))


@pytest.mark.parametrize("name", LOSSES)
def test_derivatives_are_those_of_the_value(name):
    loss = LOSSES[name]
    for y in targets(loss, 2.0):
        for z in np.linspace(-1.9, 1.9, 40):
            if abs(y * z - 1.0) < 1e-4:
                continue  # the hinge's corner
            numeric = (loss.value(y, z + 1e-6) - loss.value(y, z - 1e-6)) / 2e-6
            assert loss.derivative(y, z) == pytest.approx(numeric, abs=1e-6)
            second = (loss.derivative(y, z + 1e-6) - loss.derivative(y, z - 1e-6)) / 2e-6
            assert float(loss.second_derivative(y, z)) == pytest.approx(second, abs=1e-4)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("name", LOSSES)
def test_the_lipschitz_constant_is_the_largest_slope(name, bound):
    loss = LOSSES[name]
    grid = np.linspace(-bound, bound, 201)
    largest = max(abs(loss.derivative(y, z)) for y in targets(loss, bound) for z in grid)
    assert largest == pytest.approx(loss.lipschitz(bound), rel=1e-9)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("name", ["squared", "logistic", "squared_hinge"])
def test_curvature_is_the_largest_that_the_definition_allows(name, bound):
    loss = LOSSES[name]
    worst = np.inf
    for y in targets(loss, bound):
        for u in np.linspace(-bound, bound, 41):
            if abs(loss.derivative(y, u)) < 1e-3:
                continue
            grid = curvature_on_grid(loss, y, u, bound)
            step = loss.curvature(y, u, bound)
            assert step <= grid * (1 + 1e-6)
            assert step >= grid * (1 - 5e-3)  # the grid leaves out w = u itself
            worst = min(worst, step)
            assert 2 * step > grid * 1.5, "a curvature of half the size must be told apart"
    assert loss.worst_curvature(bound) <= worst * (1 + 1e-9)
    assert loss.worst_curvature(bound) >= worst * (1 - 2e-2)


def test_hinge_has_no_curvature():
    assert LOSSES["hinge"].worst_curvature(3.0) == 0.0
    assert curvature_on_grid(LOSSES["hinge"], 1.0, 0.0, 1.0) == pytest.approx(0.0, abs=1e-9)


def test_squared_hinge_within_bound_one_is_the_squared_loss_of_labels():
    hinge, squared = LOSSES["squared_hinge"], LOSSES["squared"]
    for z in np.linspace(-0.99, 0.99, 21):
        for y in (-1.0, 1.0):
            assert hinge.value(y, z) == pytest.approx(squared.value(y, z))
            assert hinge.curvature(y, z, 1.0) == pytest.approx(squared.curvature(y, z, 1.0))


@pytest.mark.parametrize("name", LOSSES)
def test_extreme_values_stay_finite(name):
    loss = LOSSES[name]
    for y, z in ((1.0, 700.0), (1.0, -700.0), (-1.0, 1e5)):
        assert np.isfinite(loss.value(y, z))
        assert np.isfinite(loss.derivative(y, z))
    if loss.worst_curvature(1.0) > 0:
        assert np.isfinite(loss.curvature(1.0, 1.0 - 1e-12, 1.0))
        assert np.isfinite(loss.curvature(1e-200, 0.0, 1e-200) if name == "squared" else 0.0)


def test_clipping_takes_away_what_lies_beyond():
    for z in np.linspace(-3, 3, 61):
        assert z - clipped_part(z, 1.0) == pytest.approx(np.clip(z, -1, 1))


def test_losses_are_named_and_regression_takes_the_squared_one_only():
    with pytest.raises(ValueError, match="must be one of squared; it is 'hinge'"):
        loss_named("hinge", labels=False)
    with pytest.raises(ValueError, match="must be one of squared, logistic"):
        loss_named(None, labels=True)
