"""One bar for a whole job: stages, the part that is done, the time that is left."""

import io
import sys
import time

import numpy as np
import pytest

import squeak
from squeak import AutoRegressor, KernelRidge
from squeak.core import progress as room
from squeak.core.progress import Job, Pass, progress
from squeak.kernels import RBF


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that only moves when it is told to."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_time_left_follows_the_pace_of_stages(clock):
    with Job("fit", True, {"reading": 1.0, "dictionary": 10.0, "pass 2": 20.0}, shown=False) as job:
        assert job.left() == pytest.approx(31.0)
        clock[0] = 2.0  # twice as slow as expected
        job.begin("dictionary")
        assert job.left() == pytest.approx(2 * 30.0)
        clock[0] = 7.0
        job.reach(0.5)  # five seconds more by its own pace, fifteen by that of the stage before
        assert job.left() == pytest.approx(10.0 + 2 * 20.0)
        clock[0] = 12.0
        job.begin("pass 2")
        assert job.left() == pytest.approx(20.0 * 12.0 / 11.0)
        job.begin("something else")
        assert job.left() is None
    assert job.times == {"reading": 2.0, "dictionary": 10.0, "pass 2": 0.0, "something else": 0.0}
    assert Job.now is None


def test_bars_inside_a_job_are_its_stages(clock):
    with Job("fit", True, shown=False) as job:
        with progress("Squeak", "rows", 10, True) as bar:
            bar.update(5)
            bar.set_postfix({"atoms": 3})
            clock[0] = 4.0
            assert job.left() == pytest.approx(4.0)
            job.expect({"dictionary": 2.0, "pass 2": 3.0})
            assert job.left() == pytest.approx(4.0 + 4 * 3.0)
        with progress("quiet", "rows", 10, False) as bar:
            assert bar.disable
        with Job("inner", True) as inner:
            assert inner is job
        assert Job.now is job
        first, second = Pass(100), Pass(100)
        first.update(50)
        second.update(100)
    assert list(job.times) == ["reading", "dictionary", "pass 2", "pass 3"]


def test_a_job_ends_with_an_error_and_a_silent_one_shows_nothing(capsys):
    with pytest.raises(ValueError, match="stop"), Job("fit", True):
        raise ValueError("stop")
    assert Job.now is None
    capsys.readouterr()
    with Job("fit", False):
        Job.current().begin("nothing")
        assert Job.now is None
    assert capsys.readouterr().err == ""


def test_a_fit_shows_one_bar_with_its_stages(monkeypatch):
    monkeypatch.setattr(room, "SELDOM", 0.01)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 3))
    y = np.sin(X[:, 0])
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    with Job("fit", True, {"reading": 0.1, "dictionary": 0.1, "pass 2": 0.1}):
        KernelRidge(RBF("auto"), alpha=0.1, max_atoms=50, verbose=1, random_state=0).fit(squeak.rows(X, y))
        AutoRegressor(max_atoms=30, random_state=0, verbose=1).fit(X[:300], y[:300])
    text = said.getvalue()
    assert {part.split(":")[0].strip() for part in text.split("\r") if part.strip()} == {"fit"}
    assert "fit: done 100%" in text
    assert "of 3" in text


@pytest.mark.parametrize("verbose", [0, 1])
def test_the_bar_changes_no_bit(verbose, capsys):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    model = AutoRegressor(max_atoms=30, random_state=0, verbose=verbose).fit(X, np.sin(X[:, 0]))
    quiet = AutoRegressor(max_atoms=30, random_state=0).fit(X, np.sin(X[:, 0]))
    assert np.array_equal(model.predict(X), quiet.predict(X))
    assert ("AutoRegressor: " in capsys.readouterr().err) == bool(verbose)
