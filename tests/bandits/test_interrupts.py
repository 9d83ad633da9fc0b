"""An interrupt at any line of a call leaves a bandit that knows a reward or does not, and goes on."""

import sys
from copy import deepcopy

import numpy as np
import pytest

from squeak import bandits
from squeak.kernels import RBF

ARMS = np.random.default_rng(0).random((25, 2))
F = np.sin(5 * ARMS[:, 0]) + ARMS[:, 1]
NAMES = ("GPUCB", "BKB", "BatchBKB", "AutoUCB", "GPBUCB", "SorUCB", "DictionaryThompson", "UniformArms")
CALLS = {
    "tell": lambda bandit: bandit.tell([bandit.pending_[0], 3], [0.5, F[3]]),
    "ask": lambda bandit: bandit.ask(),
    "posterior": lambda bandit: bandit.posterior(),
    "add_arms": lambda bandit: bandit.add_arms(ARMS[:2] + 1.0),
}


def stopped_at(line, call):
    """Call a function, press Ctrl-C before this line of bandits that it runs, and tell whether it came so far."""
    left = line

    def at_line(frame, event, arg):
        nonlocal left
        left -= event == "line"
        if left < 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return at_line

    before = sys.gettrace()
    sys.settrace(lambda frame, event, arg: at_line if "squeak/bandits" in frame.f_code.co_filename else None)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def told(name, **params):
    bandit = getattr(bandits, name)(ARMS, RBF(0.3), random_state=0, **params)
    for arm in (0, 4, 4, 7, 9, 12):
        bandit.tell([arm], [F[arm]])
    bandit.ask()
    return bandit


def check_whole(bandit):
    """Counts, sums, rewards and arms are those of one history, and the posterior is theirs."""
    assert bandit.counts_.sum() == len(bandit.rewards_) == bandit.n_told_
    assert bandit.sums_.sum() == pytest.approx(bandit.rewards_.sum())
    assert len(bandit.counts_) == len(bandit.sums_) == len(bandit.active_) == bandit.n_arms
    mean = bandit.posterior()[0]
    assert len(mean) == bandit.n_arms
    if isinstance(bandit, bandits.GPUCB | bandits.GPBUCB):
        given = {"noise": bandit.noise_, "prior_mean": bandit.prior_mean_}
        fresh = type(bandit)(bandit.arms_, bandit.kernel_, random_state=0, **given)
        fresh.tell(bandit.pulls_, bandit.rewards_)
        np.testing.assert_allclose(mean, fresh.posterior()[0], atol=1e-6)
    asked = np.atleast_1d(bandit.ask())
    bandit.tell(asked, np.zeros(len(asked)))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", NAMES)
def test_an_interrupt_at_any_line_leaves_a_whole_bandit(name, call):
    line, step = NAMES.index(name) % 5, 5  # some of the lines each
    while True:
        bandit = told(name)
        pending, before, arms = bandit.pending_.tolist(), bandit.n_told_, bandit.n_arms
        if not stopped_at(line, lambda bandit=bandit: CALLS[call](bandit)):
            break
        assert (bandit.n_told_, bandit.n_arms) in ((before, arms), (before + 2, arms), (before, arms + 2))
        if call == "tell":
            left = [arm for arm in pending[1:] if arm != 3]
            assert bandit.pending_.tolist() == (pending if bandit.n_told_ == before else left)
        check_whole(bandit)
        line += step
    assert line > 10


@pytest.mark.parametrize("saved", [False, True])
def test_a_refit_that_was_interrupted_is_made_up_for(saved, tmp_path):
    bandit = told("GPUCB", refit=[8])
    kernel = bandit.kernel_
    line = 0
    while bandit.n_told_ == 6:  # the first line at which the rewards are told
        assert stopped_at(line, lambda bandit=bandit: CALLS["tell"](bandit))
        line += 1
    assert bandit.kernel_ == kernel
    if saved:
        bandit.save(tmp_path / "b.sqk")
        bandit = bandits.GPUCB.load(tmp_path / "b.sqk")
    bandit.tell([5], [F[5]])
    assert bandit.kernel_ != kernel
    kernel = bandit.kernel_
    bandit.tell([6], [F[6]])
    assert bandit.kernel_ == kernel  # once is enough


@pytest.mark.parametrize("crossover", [50, 8])
def test_an_interrupt_at_any_line_leaves_a_box_that_knows_all_or_nothing(crossover):
    """Either way it goes on in the bits of a box that was never interrupted."""
    started = bandits.BoxUCB([(0.0, 1.0)] * 2, n_initial=4, crossover=crossover, max_atoms=6, random_state=0)
    for point in ARMS[:12]:
        started.tell(point, F[len(started.pulls_)], constraints=[point[0] - 0.8])
    started.fail(ARMS[12])
    started.ask()

    def tell(box):
        box.tell_many(ARMS[13:15], [np.nan, F[14]], [(), [0.1]])

    whole, line = deepcopy(started), 0
    tell(whole)
    expected = whole.ask()
    while True:
        box = deepcopy(started)
        if not stopped_at(line, lambda box=box: tell(box)):
            break
        if box.n_told_ == 12:
            assert box.n_failed_ == 1
            tell(box)
        assert (box.n_told_, box.n_failed_, len(box.pending_)) == (13, 2, 1)
        np.testing.assert_array_equal(box.ask(), expected)
        line += 1 + line // 5
    assert line > 100
