"""What a second reader found: rewards lost, states torn, spaces read wrongly."""

import sys

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak.bandits import (
    BKB,
    GPBUCB,
    GPUCB,
    AutoUCB,
    BatchBKB,
    BoxUCB,
    Categorical,
    ExpectedImprovement,
    Integer,
    UniformArms,
    minimize,
)
from squeak.bandits.baselines import improvement
from squeak.bandits.space import Space
from squeak.core.storage import NotStoredError, StorageError
from squeak.kernels import RBF, Linear, PairwiseKernel
from tests.test_cli import command


@pytest.fixture
def arms():
    return np.random.default_rng(0).random((40, 2))


@pytest.mark.parametrize("cls", [GPUCB, BKB, BatchBKB, AutoUCB, UniformArms])
def test_a_fit_that_is_due_waits_for_a_second_arm_and_loses_no_reward(arms, cls):
    """It used to raise out of tell, the reward counted and the posterior without it."""
    planned, plain = (cls(arms, RBF(0.3), refit=refit, random_state=0) for refit in ([2, 9], None))
    for bandit in (planned, plain):
        bandit.tell([7, 7, 7], [1.0, 1.2, 0.8])
    assert planned.kernel_ == plain.kernel_
    np.testing.assert_allclose(planned.posterior()[0], plain.posterior()[0])
    planned.tell(np.arange(6), np.sin(np.arange(6)))  # the ninth
    assert planned.kernel_ != plain.kernel_
    one = cls(arms[:1], RBF(0.3), refit=[3], random_state=0).run(lambda arm: 1.0, 6)
    assert (one.n_told_, one.best_.index) == (6, 0)


@pytest.mark.parametrize(
    "make", [lambda X: BatchBKB(X, RBF(0.3), batch_factor=50.0), lambda X: GPBUCB(X, RBF(0.3))]
)
@pytest.mark.parametrize("bad", [np.nan, None, "x", 1e300, [1.0, 2.0]], ids=str)
def test_one_bad_reward_in_a_batch_does_not_take_the_good_ones_with_it(arms, make, bad):
    bandit = make(arms)
    bandit.tell(np.arange(40), np.zeros(40))
    calls = []

    def reward(arm):
        calls.append(arm)
        return bad if len(calls) == 5 else 0.5

    with pytest.raises((TypeError, ValueError)):
        bandit.run(reward, 20)
    assert bandit.n_told_ == 44
    assert bandit.pulls_[40:].tolist() == calls[:4]
    assert len(bandit.pending_) == 0


@pytest.mark.parametrize(
    ("params", "error", "words"),
    [({"noise": 1e200}, ValueError, "noise"), ({"refit": 5}, TypeError, "refit must be None")],
)
def test_parameters_out_of_range_get_a_clear_error(arms, params, error, words):
    with pytest.raises(error, match=words):
        GPUCB(arms, RBF(0.3), **params)


def test_an_arm_without_variance_far_below_the_best_is_no_improvement(arms):
    assert improvement(np.array([-1e10, 0.0, 1e10]), np.zeros(3), 0.0) == pytest.approx([0.0, 0.0, 1e10])
    bandit = ExpectedImprovement(np.vstack([np.zeros((1, 2)), arms]), Linear(), random_state=0)
    bandit.run(lambda arm: 1e9 if arm else 0.0, 10)
    assert 0 not in bandit.pulls_[1:]


@pytest.mark.parametrize("cls", [BKB, BatchBKB])
def test_a_dictionary_without_a_coordinate_is_silent(cls, capfd):
    """The kernel is zero at every arm: LAPACK used to complain on the standard error stream."""
    bandit = cls(np.zeros((3, 2)), Linear(), random_state=0).run(float, 5)
    assert bandit.n_told_ == 5
    assert capfd.readouterr() == ("", "")


def test_words_and_truths_are_values_and_never_the_ends_of_an_interval():
    space = Space([[True, False], ("a", "b"), ("1", "2"), (0, 1), [0.0, 1.0]])
    assert [type(side).__name__ for side in space.sides] == ["Categorical"] * 3 + ["Real"] * 2
    assert space.decode(space.encode([False, "b", "2", 0.5, 1.0])) == [False, "b", "2", 0.5, 1.0]


def test_a_whole_number_is_whole():
    with pytest.raises(ValueError, match="finite"):
        Integer(0, np.inf)
    box = BoxUCB([Integer(1, 5)], random_state=0)
    with pytest.raises(ValueError, match=r"2\.5 is no whole number"):
        box.tell([2.5], 1.0)
    assert box.n_told_ == 0


@pytest.mark.parametrize("bounds", [[(1e9, 1e9 + 1)], [(-1e-300, 1e-300)], [Integer(10**12, 10**12 + 7)]], ids=str)
def test_what_is_told_is_no_longer_pending_whatever_the_ends(bounds):
    box = BoxUCB(bounds, n_initial=3, random_state=0)
    for i in range(8):
        box.tell(box.ask(), float(np.sin(i)))
    assert box._pending == []


def test_a_single_category_is_a_space():
    found = minimize(lambda point: float(len(point[0])), [["only"]], 8, n_initial=3, random_state=0)
    assert found.x == ["only"]
    mixed = minimize(lambda p: (p[1] - 0.4) ** 2, [Categorical(["only"]), (0.0, 1.0)], 20, random_state=0)
    assert mixed.fun < 1e-2


def test_a_function_that_spoils_its_argument_does_no_harm():
    def spoils(x):
        value = float((x[0] - 0.3) ** 2)
        x[:] = 7.0
        return value

    clean = minimize(lambda x: float((x[0] - 0.3) ** 2), [(0.0, 1.0)], 12, random_state=0)
    np.testing.assert_array_equal(minimize(spoils, [(0.0, 1.0)], 12, random_state=0).values, clean.values)


@pytest.mark.parametrize(
    "known", [{"points": [[0.5]]}, {"values": [1.0]}, {"points": [[0.5]], "values": [1.0, 2.0]}]
)
def test_points_and_values_from_before_belong_together(known):
    with pytest.raises(ValueError, match="as many values as points"):
        minimize(lambda x: 0.0, [(0.0, 1.0)], 3, **known)


def test_the_command_gets_the_columns_as_they_stand_in_the_table(tmp_path):
    """Not the standardised and encoded numbers that rows are compared by."""
    frame = pd.DataFrame({"a": np.arange(30) * 100.0, "kind": ["x", "y", "z"] * 10, "note": ["n"] * 30})
    frame.to_csv(tmp_path / "t.csv", index=False)
    script = tmp_path / "reward.py"
    script.write_text(
        "import sys\n"
        "row, a, kind = sys.argv[1:]\n"
        "assert float(a) == 100.0 * int(row) and kind == 'xyz'[int(row) % 3]\n"
        "print(float(a))"
    )
    run = ["optimize", tmp_path / "t.csv", "--drop", "note", "--steps", 5, "-q"]
    done = command(*run, "--command", f"{sys.executable} {script}")
    assert done.returncode == 0, done.stderr


MIXED = [(-2.0, 3.0), Integer(1, 64, log=True), ["a", None, 3, True]]


def bowl(point):
    return (point[0] - 1.0) ** 2 + (np.log2(point[1]) - 3) ** 2 / 4 + (point[2] is not None)


@pytest.mark.parametrize("told", [0, 3, 15, 40], ids=["new", "before the first fit", "exact", "dictionary"])
@pytest.mark.parametrize("bounds", [MIXED, [(0.0, 1.0), (1e6, 1e6 + 3)]], ids=["mixed", "real"])
def test_a_saved_box_goes_on_in_the_same_bits(bounds, told, tmp_path):
    def value(point):
        return -bowl(point) if len(point) == 3 else float(np.sin(9 * point[0]) + np.cos(point[1]))

    box = BoxUCB(bounds, n_initial=5, crossover=25, max_atoms=12, random_state=0)
    for _ in range(told):
        point = box.ask()
        box.tell(point, value(point))
    waiting = [box.ask(), box.ask()]
    squeak.save(box, tmp_path / "b.sqk")
    again = squeak.load(tmp_path / "b.sqk")
    for one in (box, again):
        one.tell(waiting[1], 0.5)
    for _ in range(8):
        point, other = box.ask(), again.ask()
        assert list(point) == list(other)
        box.tell(point, value(point))
        again.tell(other, value(other))
    assert list(again.best_[0]) == list(box.best_[0])
    assert len(again._pending) == len(box._pending) == 1


def test_what_cannot_be_stored_of_a_box_is_refused(tmp_path):
    for box in (
        BoxUCB([[("a", "tuple"), "b"]]),
        BoxUCB([(0.0, 1.0)], PairwiseKernel(lambda a, b: float(np.exp(-np.abs(a - b).sum())))),
    ):
        with pytest.raises(NotStoredError):
            box.save(tmp_path / "b.sqk")
    box = BoxUCB([(0.0, 1.0)], n_initial=3, random_state=0)
    for i in range(5):
        box.tell(box.ask(), float(i))
    arrays, content = box.to_parts()
    for name in ("rows", "values", "points", "box_arms", "model_inverse"):
        squeak.core.storage.write(tmp_path / "c.sqk", box.kind, arrays | {name: arrays[name][:-1]}, content)
        with pytest.raises(StorageError):
            BoxUCB.load(tmp_path / "c.sqk")


def test_a_minimisation_that_failed_goes_on_from_its_checkpoint_in_the_same_bits(tmp_path):
    def fails(point):
        calls.append(point)
        if len(calls) == 14:
            raise OSError("the machine is gone")
        return np.nan if len(calls) == 20 else bowl(point)

    calls = []
    run = {"random_state": 3, "points": [[0.0, 8, None]], "values": [1.0]}
    whole = minimize(bowl, MIXED, 24, **run)
    for error in (OSError, ValueError):
        with pytest.raises(error):
            minimize(fails, MIXED, 24, checkpoint=tmp_path / "m.sqk", **run)
    found = minimize(fails, MIXED, 24, checkpoint=tmp_path / "m.sqk", **run)
    assert found.values.tolist() == whole.values.tolist()
    assert found.points == whole.points
    assert len(calls) == 24 + 2  # the two that failed were asked again
    done = minimize(fails, MIXED, 24, checkpoint=tmp_path / "m.sqk", **run)
    assert done.x == found.x
    assert len(calls) == 26
    for other in ({"bounds": MIXED[:2]}, {"random_state": 4}, {"crossover": 7}):
        with pytest.raises(ValueError, match="other bounds or parameters"):
            minimize(bowl, **({"bounds": MIXED, "n_steps": 30, "checkpoint": tmp_path / "m.sqk"} | run | other))
