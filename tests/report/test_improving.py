"""What would help most: what a made problem lacks is what the report names."""

import numpy as np
import pytest

import squeak
from squeak import KernelClassifier, KernelRidge
from squeak.kernels import RBF
from squeak.report.given import Given
from squeak.report.improving import Curves, _next, improvement_panel, learning_curves


def rows(n, d=2, seed=0):
    return np.random.default_rng(seed).uniform(-3, 3, (n, d))


def test_gains_are_carried_on_from_the_last_two():
    assert _next(np.array([4.0, 2.0, 1.0]), 0.0) == pytest.approx(0.5)
    assert _next(np.array([4.0, 2.0, 1.0]), 2.0) == pytest.approx(0.125)
    assert _next(np.array([1.0, 1.0, 1.2]), 0.0) == 0.0
    found = Curves(np.array([4.0, 2.0, 1.0]), np.array([1.1, 1.05, 1.0]), {"a Matern kernel": 0.9}, 1000, 100)
    gains = found.gains(1000, 100)
    assert max(gains, key=gains.get) == "twice the rows"
    assert gains["a Matern kernel"] == pytest.approx(0.1)
    assert found.gains(1_000_000, 100)["twice the rows"] < gains["twice the rows"] / 100


def test_what_a_problem_lacks_is_found():
    X = rows(1200)
    wavy = np.sin(3 * X[:, :1]) * np.cos(3 * X[:, 1:])
    few = learning_curves(X, wavy, RBF(0.7), 60).gains(900, 60)
    assert max(few, key=few.get) == "twice the atoms"
    wide = learning_curves(X, wavy, RBF(30.0), 300).gains(900, 300)
    assert max(wide, key=wide.get) in ("a width half as large", "a Matern kernel")
    noise = np.random.default_rng(1).standard_normal((1200, 1))
    assert max(learning_curves(X, noise, RBF(1.0), 100).gains(900, 100).values()) < 0.05


def test_the_report_has_the_line(tmp_path):
    X = rows(600)
    y = np.sin(3 * X[:, 0]) * np.cos(3 * X[:, 1])
    model = KernelRidge(RBF(0.7), max_atoms=40, random_state=0).fit(X, y)
    page = squeak.report.write(model, tmp_path / "r.html", X, y).read_text()
    assert "What would help most" in page
    assert "Twice the atoms would lower the error most" in page
    labels = np.where(y > 0, "a", "b")
    classes = KernelClassifier(RBF(0.7), max_atoms=40, random_state=0).fit(X, labels)
    assert improvement_panel(classes, Given(X, labels, True, 0)).title == "What would help most"


def test_nothing_is_said_where_nothing_can_be():
    X = rows(600)
    model = KernelRidge(RBF(0.7), max_atoms=40, random_state=0).fit(X, X[:, 0])
    assert improvement_panel(model, None) is None
    assert improvement_panel(model, Given(X, None, True, 0)) is None
    assert improvement_panel(model, Given(X[:100], X[:100, 0], True, 0)) is None
    assert improvement_panel(model, Given(X, np.ones(600), True, 0)) is None
