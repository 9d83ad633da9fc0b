"""Trials after an alarm: the better one of two streams goes on, row by row, in blocks and from files."""

from contextlib import suppress
from copy import deepcopy

import numpy as np
import pytest

import squeak
from squeak.kernels import RBF
from squeak.online import ConKonsClassifier, ConKonsRegressor, MixedKonsRegressor, trial
from tests.test_state_machines import interrupted

FIRST, ALL = 512, 1400


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(trial, "ROUNDS", 256)


def changed(how):
    """A sine that turns its sign, or in which noise sets in: a new learner is better in the first case alone."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (ALL, 2))
    y = np.sin(3 * X[:, 0])
    if how == "turned":
        y[FIRST:] *= -1
    else:
        y[FIRST:] += rng.standard_normal(ALL - FIRST)
    return X, y


def model(scale="auto", **options):
    kernel = RBF(1.0) if scale is None else None
    return ConKonsRegressor(kernel, max_atoms=15, scale=scale, alarm_rate=0.01, random_state=0, **options)


def alarms(of):
    return [entry for entry in of.history_ if "after" in entry]


@pytest.mark.parametrize("scale", ["auto", None])
@pytest.mark.parametrize("how", ["turned", "noisy"])
def test_the_better_one_goes_on_row_by_row_in_blocks_and_from_a_file(how, scale, tmp_path):
    X, y = changed(how)
    whole, singly, cut = (model(scale) for _ in range(3))
    said = whole.test_then_train(X, y)
    assert [entry["stayed"] for entry in alarms(whole)] == [how == "noisy"]
    quick = [singly.test_then_train_one(x, target) for x, target in zip(X, y, strict=True)]
    np.testing.assert_allclose(quick, said, atol=1e-6)
    stop = alarms(whole)[0]["rows"] + 70
    cut.partial_fit(X[:stop], y[:stop])
    assert "stayed" not in alarms(cut)[0]
    cut.save(tmp_path / "m.sqk")
    again = squeak.load(tmp_path / "m.sqk")
    np.testing.assert_array_equal(again.predict(X), cut.predict(X))
    assert again.predict_one(X[0]) == pytest.approx(cut.predict(X[:1])[0])
    np.testing.assert_array_equal(
        again.test_then_train(X[stop:], y[stop:]), cut.test_then_train(X[stop:], y[stop:])
    )
    np.testing.assert_allclose(again.predict(X), whole.predict(X), atol=1e-6)
    assert whole.history_ == singly.history_ == again.history_
    assert whole.n_seen_ == again.n_seen_ == ALL


def test_an_alarm_does_no_harm_where_only_noise_sets_in(monkeypatch):
    """After the trial the learner is what it would have been; the twin begins anew at every alarm."""
    X, y = changed("noisy")
    truth, steady = np.sin(3 * X[:, 0]), ConKonsRegressor(max_atoms=15, random_state=0).test_then_train(X, y)
    one = model()
    said = one.test_then_train(X, y)
    rest = slice(alarms(one)[0]["rows"] + trial.ROUNDS, ALL)
    np.testing.assert_allclose(said[rest], steady[rest], atol=1e-7)
    monkeypatch.setattr(trial, "STAYS", 2.0)
    anew = model().test_then_train(X, y)
    errors = [np.mean((found - truth)[FIRST + 64 :] ** 2) for found in (said, anew)]
    assert errors[0] < errors[1]


def test_a_further_alarm_ends_a_trial():
    X, y = changed("turned")
    y[700:] = 10 * np.cos(5 * X[700:, 1])
    one = model().fit(X, y)
    rows = [entry["rows"] for entry in alarms(one)]
    assert rows[1] - rows[0] < trial.ROUNDS
    assert all("stayed" in entry for entry in alarms(one))


def test_a_trial_costs_no_more_than_its_bound():
    """Against the learner that goes on as it was, on a stream on which that is better."""
    X, y = changed("noisy")
    y = np.clip(y, -2.0, 2.0)
    options = {"bound": 2.0, "max_atoms": 10, "half_lives": (None,), "linear": False, "random_state": 0}
    mixed, plain = (MixedKonsRegressor(RBF(1.0), alarm_rate=rate, **options) for rate in (0.01, None))
    lost, alone = (np.sum((one.test_then_train(X, y) - y) ** 2) for one in (mixed, plain))
    more = 8.0 * 2.0**2 * (np.log(2.0) + 0.5) * len(alarms(mixed))
    assert more > 0.0
    assert lost <= alone + more
    assert mixed.switching_bound() == pytest.approx(plain.switching_bound() + more)


def test_classes_join_in_a_trial(tmp_path):
    X, y = changed("turned")
    labels, first = np.where(y > 0, "up", "down"), slice(0, FIRST + 200)
    one = ConKonsClassifier(
        curvature="adaptive", loss="squared", bound=1.0, max_atoms=15, alarm_rate=0.05, random_state=0
    )
    one.fit(X[first], labels[first])
    assert "stayed" not in alarms(one)[0]
    one.learn_one(X[0], "level")
    one.save(tmp_path / "m.sqk")
    again, more = squeak.load(tmp_path / "m.sqk"), slice(FIRST + 200, ALL)
    said = one.test_then_train(X[more], labels[more])
    np.testing.assert_array_equal(said, again.test_then_train(X[more], labels[more]))
    assert one.classes_.tolist() == ["down", "level", "up"]
    assert "stayed" in alarms(one)[0]


def assert_goes_on(one, X, y, end, folder):
    """Check that a learner and what its file holds learn the rows up to ``end`` alike."""
    one.save(folder / "m.sqk")
    again = squeak.load(folder / "m.sqk")
    for each in (one, again):
        each.partial_fit(X[each.n_seen_ : end], y[each.n_seen_ : end])
    assert one.n_seen_ == end
    np.testing.assert_array_equal(one.predict(X[:9]), again.predict(X[:9]))


@pytest.mark.parametrize("scale", ["auto", None])
@pytest.mark.parametrize("maker", [ConKonsRegressor, MixedKonsRegressor])
def test_an_interrupt_of_a_single_row_in_a_trial_leaves_a_learner_that_is_saved_and_goes_on(maker, scale, tmp_path):
    """Either side of the trial may have learned the row, and the other one not: then the trial ends."""
    X, y = changed("turned")
    options = {"half_lives": (None,), "linear": False} if maker is MixedKonsRegressor else {}
    started = maker(RBF(1.0) if scale is None else None, max_atoms=8, scale=scale, random_state=0, **options)
    started, at = started.set_params(alarm_rate=0.01), FIRST
    started.partial_fit(X[:at], y[:at])
    while not alarms(started):
        started.learn_one(X[at], y[at])
        at += 1
    ended, after = [], 0
    while True:
        one = deepcopy(started)
        try:
            with interrupted(after):
                one.learn_one(X[at], y[at])
            break
        except KeyboardInterrupt:
            ended.append("stayed" in alarms(one)[0])
        assert one.n_seen_ in (at, at + 1)
        assert_goes_on(one, X, y, at + 60, tmp_path)
        after += 1
    assert set(ended) == {False, True}


@pytest.mark.parametrize("scale", ["auto", None])
def test_an_interrupt_where_a_single_row_raises_an_alarm_or_ends_a_trial_leaves_a_learner_that_goes_on(
    scale, tmp_path
):
    X, y = changed("turned")
    started, at, seen = model(scale), 0, 0
    while at < ALL and seen < 2:
        before = deepcopy(started)
        started.learn_one(X[at], y[at])
        at += 1
        if at < 2 or alarms(started) == alarms(before):
            continue
        seen += 1
        for after in range(9):
            one = deepcopy(before)
            with suppress(KeyboardInterrupt), interrupted(after):
                one.learn_one(X[at - 1], y[at - 1])
            assert_goes_on(one, X, y, at + 20, tmp_path)
    assert seen == 2


def test_a_mixture_in_a_trial_is_saved_as_it_is_and_older_files_are_read(tmp_path):
    """The weights of the trial are not those of a mixture; in older files they had the name of these."""
    X, y = changed("turned")
    mixture = MixedKonsRegressor(max_atoms=8, half_lives=(None,), linear=False, random_state=0)
    for one in (mixture, model()):
        one.set_params(alarm_rate=0.01).partial_fit(X[:700], y[:700])
        assert "stayed" not in alarms(one)[0]
        one.save(tmp_path / "m.sqk")
        np.testing.assert_array_equal(squeak.load(tmp_path / "m.sqk").predict(X), one.predict(X))
    arrays, content = one.to_parts()
    arrays["before_weights"] = arrays.pop("trial_weights")
    np.testing.assert_array_equal(type(one).from_parts(arrays, content).predict(X), one.predict(X))


def test_a_trial_that_does_not_fit_is_refused(tmp_path):
    X, y = changed("turned")
    one = model().partial_fit(X[:700], y[:700])
    arrays, content = one.to_parts()
    for name, value in (("n_seen", 10**6), ("before", {**content["stream"]["trial"]["before"], "n_seen": 3})):
        other = {**content, "stream": {**content["stream"], "trial": {**content["stream"]["trial"], name: value}}}
        with pytest.raises(ValueError, match="fit"):
            type(one).from_parts(arrays, other)
