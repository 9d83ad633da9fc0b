"""Trials of a box that fail: values that are not finite."""

import numpy as np
import pytest

from squeak.bandits import BoxUCB, minimize

SQUARE = [(0.0, 1.0)] * 2


def bowl(x):
    return float((x[0] - 0.4) ** 2 + (x[1] - 0.6) ** 2)


def half(x):
    """Fail on more than half of the square; the least value that is left is at its border, (0.3, 0.5)."""
    return np.nan if x[0] + x[1] > 0.8 else bowl(x)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, np.float32("nan")])
def test_a_value_that_is_not_finite_is_a_failure(value):
    told, failed = (BoxUCB(SQUARE, n_initial=4, random_state=0) for _ in range(2))
    for i in range(14):
        points = told.ask(), failed.ask()
        np.testing.assert_array_equal(*points)
        if i % 3 == 1:
            told.tell(points[0], value)
            failed.fail(points[1])
        else:
            for box, point in zip((told, failed), points, strict=True):
                box.tell(point, -bowl(point))
    assert (told.n_told_, told.n_failed_, told.pending_) == (9, 5, [])
    np.testing.assert_allclose(told.failed_, failed.failed_)


def test_values_told_together_may_be_failures_and_keep_their_order():
    points = np.random.default_rng(0).random((8, 2))
    values = [0.1, np.nan, 0.3, 0.2, -np.inf, 0.5, 0.4, np.nan]
    box = BoxUCB(SQUARE, n_initial=4, random_state=0)
    box.tell_many(points, values)
    np.testing.assert_array_equal(box.rewards_, [0.1, 0.3, 0.2, 0.5, 0.4])
    np.testing.assert_allclose(box.failed_, points[[1, 4, 7]])
    np.testing.assert_array_equal(box._failed, np.where(np.isfinite(values), -1.0, 1.0))
    np.testing.assert_allclose(box._tried, points)
    assert box._failures.fitted_at == 8


@pytest.mark.parametrize(
    ("params", "value", "constraints"),
    [({"objectives": 2}, [1.0, np.nan], ()), ({}, 1.0, [np.nan]), ({}, np.nan, ())],
)
def test_one_number_that_is_not_finite_is_enough(params, value, constraints):
    box = BoxUCB(SQUARE, random_state=0, **params)
    box.tell([0.5, 0.5], value, constraints)
    assert (box.n_told_, box.n_failed_, box.n_constraints_) == (0, 1, None)
    good = [1.0, 2.0] if params else 1.0
    box.tell([0.2, 0.5], good, [0.5, -1.0])  # how many constraints there are, a failure does not say
    box.tell([0.3, 0.5], value, constraints)
    assert (box.n_told_, box.n_failed_, box.n_constraints_) == (1, 2, 2)


def test_a_minimisation_goes_on_past_failures_and_learns_to_avoid_them():
    seen = []
    found = minimize(half, SQUARE, 40, random_state=0, callback=lambda x, value: seen.append(value))
    assert found.fun == pytest.approx(0.02, abs=2e-3)
    assert found.x.sum() <= 0.8
    assert len(found.values) + len(found.failed) == len(seen) == 40  # each of them is a call
    assert np.isfinite(found.values).all()
    assert all(x.sum() > 0.8 for x in found.failed)
    inside = minimize(lambda x: np.nan if x.sum() > 0.8 else bowl(x + 0.2), SQUARE, 40, random_state=0)
    assert inside.fun < 1e-4
    assert len(inside.failed) < 14  # 27 of 40 points at random


def test_the_first_fit_does_not_wait_for_ever_where_most_trials_fail():
    """Only a twentieth of the box has values: twelve of them at random would take 240 trials."""
    box = BoxUCB([(0.0, 1.0)] * 6, random_state=0)

    def f(x):
        return -float(((x - 0.15) ** 2).sum()) if x[0] < 0.25 and x[3] < 0.2 else np.nan

    box.run(f, 60)
    assert box.n_told_ > 8  # three of 60 at random
    assert box.best_.mean > -0.1


def test_where_all_values_are_equal_failures_and_constraints_are_learned():
    """Of points that are spread evenly, three of five would fail, or would not satisfy the constraint."""
    failing, bound = (BoxUCB(SQUARE, n_initial=6, random_state=0) for _ in range(2))
    failing.run(lambda x: np.nan if x[0] < 0.6 else 1.0, 40)
    assert failing.n_failed_ < 16
    for _ in range(40):
        x = bound.ask()
        bound.tell(x, 1.0, constraints=[0.6 - x[0]])
    assert sum(x[0] >= 0.6 for x in bound.pulls_) > 24
    assert len(np.unique(bound.pulls_, axis=0)) == 40


def test_an_objective_that_never_varies_leaves_the_search_to_the_others():
    box = BoxUCB(SQUARE, objectives=2, n_initial=6, random_state=0)
    for _ in range(30):
        x = box.ask()
        box.tell(x, [1.0, -bowl(x)])
    assert box.rewards_[:, 1].max() > -1e-3


def test_a_category_that_always_fails_is_not_tried_for_ever():
    """Failures count as trials where every value of a category gets its share of them."""
    box = BoxUCB([(0.0, 1.0), ["good", "bad"]], random_state=0)
    box.run(lambda point: np.nan if point[1] == "bad" else -((point[0] - 0.3) ** 2), 60)
    assert box.n_failed_ <= 3 * np.sqrt(60) / 2 + 2
    assert box.best_.mean > -1e-3


def test_a_minimisation_with_failures_goes_on_from_its_checkpoint_in_the_same_bits(tmp_path):
    def stops(x):
        calls.append(x)
        if len(calls) == 9:
            raise OSError("the machine is gone")
        return half(x)

    calls, run = [], {"random_state": 3, "points": [[0.9, 0.9], [0.1, 0.1]], "values": [np.nan, 0.34]}
    whole = minimize(half, SQUARE, 20, **run)
    with pytest.raises(OSError, match="gone"):
        minimize(stops, SQUARE, 20, checkpoint=tmp_path / "m.sqk", **run)
    found = minimize(stops, SQUARE, 20, checkpoint=tmp_path / "m.sqk", **run)
    np.testing.assert_array_equal(found.values, whole.values)
    np.testing.assert_array_equal(found.failed, whole.failed)
    assert len(calls) == 21
    assert len(found.values) + len(found.failed) == 22
    np.testing.assert_allclose(found.failed[0], [0.9, 0.9])


def test_where_every_trial_failed_the_error_says_so_and_the_state_is_kept(tmp_path):
    for n in (3, 5):
        with pytest.raises(ValueError, match=f"all {n} trials failed.* first time at"):
            minimize(lambda x: np.inf, SQUARE, n, checkpoint=tmp_path / "m.sqk", random_state=0)
    box = BoxUCB.load(tmp_path / "m.sqk")
    assert (box.n_told_, box.n_failed_) == (0, 5)
    with pytest.raises(ValueError, match="no value has been told yet; 5 trials failed"):
        _ = box.best_
