"""Boxes: encoding, minimisation, pending points, the move to a dictionary."""

import numpy as np
import pytest

from squeak.bandits import BoxUCB, Categorical, Integer, Real, minimize
from squeak.bandits.box_model import BoxDictionary, BoxModel
from squeak.bandits.space import Space
from squeak.kernels import RBF, Matern
from tests.bandits.oracles import dense_dtc, dense_posterior

MIXED = [(-2.0, 3.0), Real(1e-4, 1.0, log=True), Integer(1, 64, log=True), ["a", "b", "c"]]


def branin(x):
    a, b = x
    return (b - 5.1 / (4 * np.pi**2) * a * a + 5 / np.pi * a - 6) ** 2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10


def test_encoding_and_decoding_are_inverse_and_snapping_keeps_points(rng):
    space = Space(MIXED)
    rows = space.snap(rng.random((200, space.width)))
    for row in rows:
        point = space.decode(row)
        assert -2 <= point[0] <= 3
        assert 1e-4 <= point[1] <= 1
        assert point[2] in range(1, 65)
        assert point[3] in "abc"
        np.testing.assert_allclose(space.encode(point), row, atol=1e-9)
    np.testing.assert_allclose(space.snap(rows), rows, atol=1e-12)


def test_categories_lie_at_distance_one():
    space = Space([["a", "b", "c"]])
    assert np.linalg.norm(space.encode(["a"]) - space.encode(["c"])) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("bounds", "error"),
    [
        ([(1.0, 0.0)], ValueError),
        ([(0.0, np.inf)], ValueError),
        ([Categorical], TypeError),
        ([], TypeError),
        ("ab", TypeError),
        ([3], TypeError),
    ],
)
def test_bad_bounds_are_refused(bounds, error):
    with pytest.raises(error):
        BoxUCB(bounds)


@pytest.mark.parametrize(
    "make", [lambda: Real(-1, 1, log=True), lambda: Integer(0.5, 3), lambda: Categorical(["a", "a"])]
)
def test_bad_sides_are_refused(make):
    with pytest.raises(ValueError):
        make()


def test_bad_values_change_nothing():
    box = BoxUCB([(0.0, 1.0)] * 2, random_state=0)
    for point, value in (
        ([0.5, 0.5], np.nan),
        ([0.5, 0.5], "x"),
        ([0.5], 1.0),
        ([0.5, 2.0], 1.0),
        ([0.1, 0.1], 1e200),
    ):
        with pytest.raises(ValueError):
            box.tell(point, value)
    assert box.n_told_ == 0
    with pytest.raises(ValueError, match="no value"):
        _ = box.best_


def test_branin_is_minimised_and_random_points_do_worse():
    found = minimize(branin, [(-5.0, 10.0), (0.0, 15.0)], 50, random_state=0)
    rng = np.random.default_rng(0)
    random = min(branin(rng.random(2) * 15 - [5, 0]) for _ in range(50))
    assert found.fun - 0.397887 < 1e-2 < random - 0.397887
    assert found.fun == branin(found.x)
    assert len(found.points) == 50


def test_mixed_sides_are_minimised():
    def f(point):
        x, rate, n, letter = point
        return (
            (x - 1) ** 2
            + (np.log10(rate) + 2) ** 2
            + (np.log2(n) - 3) ** 2 / 4
            + {"a": 1.0, "b": 0.0, "c": 2.0}[letter]
        )

    found = minimize(f, MIXED, 60, random_state=0)
    assert found.fun < 0.2
    assert found.x[3] == "b"


def test_the_same_seed_gives_the_same_points():
    runs = [minimize(branin, [(-5.0, 10.0), (0.0, 15.0)], 25, random_state=3).values for _ in range(2)]
    assert np.array_equal(*runs)


def test_points_from_before_and_a_callback_that_stops():
    found = minimize(
        branin,
        [(-5.0, 10.0), (0.0, 15.0)],
        30,
        points=[[np.pi, 2.275]],
        values=[branin([np.pi, 2.275])],
        callback=lambda x, value: len(x) == 2,
        random_state=0,
    )
    assert len(found.values) == 2
    assert found.fun == pytest.approx(0.397887, abs=1e-4)


def test_constant_values_do_no_harm():
    found = minimize(lambda x: 1.0, [(0.0, 1.0)] * 2, 30, random_state=0)
    assert len(np.unique([tuple(p) for p in found.points], axis=0)) == 30


@pytest.mark.parametrize("crossover", [100, 10])
def test_pending_points_lower_the_variance_as_if_they_were_told(rng, crossover):
    """Exact: the dense posterior with the pending points; on a dictionary of all points it is the same."""
    X, pending, places = rng.random((30, 2)), rng.random((3, 2)), rng.random((20, 2))
    model = BoxModel(crossover, 100, 1e6, 2.0)
    model.refit(X, np.sin(X).sum(axis=1), RBF(0.4), 0.1, 0.0, rng)
    every = np.vstack([X, pending, places])
    variance = dense_posterior(RBF(0.4)(every), np.arange(33), np.zeros(33), 0.01)[1]
    np.testing.assert_allclose(model.shrunk(places, pending)[1], variance[33:], atol=1e-5)
    assert (model.predict(places)[1] > variance[33:] + 1e-6).any()


def test_asked_points_are_pending_until_told_or_forgotten():
    box = BoxUCB([(0.0, 1.0)] * 2, random_state=0)
    asked = [box.ask() for _ in range(4)]
    box.tell(asked[2], 1.0)
    box.forget(asked[0])
    np.testing.assert_allclose(box.pending_, [asked[1], asked[3]])
    with pytest.raises(ValueError, match="is not pending; 2 others are"):
        box.forget(asked[0])
    box.set_pending([[0.5, 0.25]])
    np.testing.assert_allclose(box.pending_, [[0.5, 0.25]])


def test_the_dictionary_of_a_box_is_the_dense_posterior(rng):
    X, y = rng.random((80, 2)), rng.standard_normal(80)
    members = np.arange(0, 60, 5)
    model = BoxDictionary(RBF(0.4), 0.1, X[:60], y[:60], members)
    for i in range(60, 80):
        model.observe(X[i], y[i])
    mean, residual, signal = dense_dtc(RBF(0.4)(X), members, np.arange(80), y, 0.1)
    got = model.predict(X)
    np.testing.assert_allclose(got[0], mean, atol=1e-7)
    np.testing.assert_allclose(got[1], 0.1 * (residual + signal), atol=1e-8)


def test_past_the_crossover_the_dictionary_is_limited_and_the_search_goes_on():
    box = BoxUCB([(-5.0, 10.0), (0.0, 15.0)], crossover=40, max_atoms=25, random_state=0)
    for _ in range(110):
        x = box.ask()
        box.tell(x, -branin(x))
    assert isinstance(box._model.posterior, BoxDictionary)
    assert box._model.posterior.features.rank <= 50
    assert -box.best_[1] - 0.397887 < 0.1


def test_a_box_has_the_face_of_a_bandit():
    box = BoxUCB([(0.0, 1.0), ["a", "b"]], n_initial=4, random_state=0)
    for i in range(10):
        assert np.isnan(box.best_.std) if 0 < i < 4 else True
        box.tell(box.ask(), float(np.cos(i)))
    best = box.best_
    point, value = best
    assert (best.index, best.mean, best.arm) == (0, 1.0, box.pulls_[0])
    assert (point, value) == (best[0], best[1]) == (best.arm, best.mean)
    assert 0.0 < best.std < 1.0
    assert box.told_[0] == box.pulls_
    np.testing.assert_array_equal(box.rewards_, np.cos(np.arange(10)))


def test_a_kernel_of_ones_own_is_taken():
    assert minimize(branin, [(-5.0, 10.0), (0.0, 15.0)], 25, kernel=Matern(0.4, nu=1.5), random_state=0).fun < 10
