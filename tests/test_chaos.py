"""Faults in runs on workers, by a seed: none changes a bit, none hangs, and what cannot go on says so.

``make test-slow`` puts more than 200 faults into runs and counts them; SQUEAK_CHAOS_LOG names a file for that.
"""

import os
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from tests import chaos
from tests.engines import Workers, cluster_of, dask_workers

pytest.importorskip("distributed")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.xdist_group("cluster")]


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setenv("SQUEAK_WORKER_WAIT", "60")


def until(times, attempt, most=6):
    """Make attempts until so many of them have hit a run."""
    hits = 0
    for _ in range(most * times):
        hits += bool(attempt())
        if hits == times:
            return
    raise AssertionError(f"only {hits} of {most * times} faults fell into a run; {times} were to")


def test_a_few_faults_change_no_bit(tmp_path):
    """A worker is stopped, both are killed, a disk is full for a while, a file changes."""
    log, rng = chaos.Log(), np.random.default_rng(0)
    with dask_workers() as workers:
        world = chaos.World(workers, tmp_path, log, ["dictionary", "falkon"])
        until(1, lambda: world.stopped(rng))
        world.full_disk(rng, 2, tmp_path / "disk")
        world.file_changed(rng, tmp_path / "changed")
        until(1, lambda: world.killed(rng, 2))
    assert sum(log.faults.values()) >= 6


def test_a_pool_whose_processes_die_of_a_task_ends_with_a_clear_error(tmp_path):
    log, rng = chaos.Log(), np.random.default_rng(0)
    with chaos.pool(attempts=2) as workers:
        world = chaos.World(workers, tmp_path, log, ())
        world.out_of_memory(rng, 1, tmp_path / "once")
        world.out_of_memory(rng, None, tmp_path / "always", words="workers were lost 2 times")
    assert log.faults["out of memory"] == 3


@pytest.mark.slow
def test_two_hundred_faults_are_counted_and_none_is_lost(tmp_path):
    log, rng, number = chaos.Log(), np.random.default_rng(1), count()

    def folder():
        return tmp_path / f"folder-{next(number)}"

    with dask_workers() as workers:
        world = chaos.World(workers, tmp_path, log)
        until(60, lambda: world.stopped(rng))
        for times in (1, 2, 3) * 7 + (None,) * 3:
            world.full_disk(rng, times, folder())
        for _ in range(10):
            world.file_changed(rng, folder())
        for _ in range(5):
            world.client_dies(rng, folder())
        for times in (1, 2) * 3:
            world.out_of_memory(rng, times, folder())
    rounds = 0
    while rounds < 10:  # a nanny may fail to bring its worker back after some kills; then a new cluster takes over
        with dask_workers() as workers:
            world = chaos.World(workers, tmp_path, log)
            for _ in range(2):
                until(2, lambda world=world: world.killed(rng, 1))
                until(1, lambda world=world: world.killed(rng, 2))
        rounds += 2
    with chaos.pool() as workers:
        world = chaos.World(workers, tmp_path, log)
        until(15, lambda: world.killed(rng, 1))
        until(5, lambda: world.killed(rng, 2))
        for times in (1, 2, 3):
            world.out_of_memory(rng, times, folder())
    expected = chaos.dictionary(tmp_path)
    until(4, lambda: chaos.scheduler_killed(rng, folder(), log, expected))
    asked = os.environ.get("SQUEAK_CHAOS_LOG")
    log.write(Path(asked) if asked else tmp_path / "chaos.json")
    assert sum(log.faults.values()) >= 200, log.as_data()


@pytest.mark.slow
def test_a_task_that_ends_every_worker_ends_with_a_clear_error(tmp_path):
    log, rng = chaos.Log(), np.random.default_rng(0)
    with cluster_of(2, failures=2) as client:
        world = chaos.World(Workers(None, list, client), tmp_path, log, ())
        world.out_of_memory(rng, None, tmp_path / "always")
    assert log.faults["out of memory"] == 3
