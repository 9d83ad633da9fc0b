"""Faults in runs on workers, by a seed: none changes a bit, none hangs, and what cannot go on says so.

``make test-slow`` puts more than 200 faults into runs, kind by kind. Where SQUEAK_CHAOS_LOG names a file, a line
for each run, with its faults and its end, is appended to it: the table of docs/scale.md is made of such a file.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count

import numpy as np
import pytest

import squeak
from squeak import KernelRidge
from squeak.kernels import RBF
from squeak.places import ClusterError, Executors, use
from tests import chaos, full_disk, scarce
from tests.engines import Workers, cluster_of, dask_workers

pytest.importorskip("distributed")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.xdist_group("cluster")]


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setenv("SQUEAK_WORKER_WAIT", "60")


@pytest.fixture
def log():
    return chaos.Log(os.environ.get("SQUEAK_CHAOS_LOG"))


@pytest.fixture
def folder(tmp_path):
    """Return a function that gives a new name of a folder at each call."""
    number = count()
    return lambda: tmp_path / f"folder-{next(number)}"


def until(times, log, attempt, most=6):
    """Make attempts until so many faults are counted."""
    for _ in range(most * times):
        attempt()
        if log.count() >= times:
            return
    raise AssertionError(f"only {log.count()} faults of {most * times} tries fell into a run; {times} were to")


@pytest.mark.parametrize("name", full_disk.WRITERS)
def test_a_disk_that_becomes_full_leaves_whole_files_that_runs_go_on_with(name, tmp_path, log):
    full_disk.disk_full(np.random.default_rng(0), name, tmp_path, log)
    assert log.count() == 1


def test_without_a_disk_of_its_own_a_limit_on_files_is_a_full_one(tmp_path, log, monkeypatch):
    monkeypatch.setattr(scarce, "MOUNT", ("false",))
    full_disk.disk_full(np.random.default_rng(0), "model", tmp_path, log)
    assert log.count() == 1


@pytest.mark.parametrize("first_pass", ["dictionary", "given"])
def test_a_file_that_changes_between_two_passes_is_named(first_pass, tmp_path, log, folder):
    """On threads that stand for workers: what travels to these is pickled, and knows the sizes of files alone."""
    with use(Executors(lambda: ThreadPoolExecutor(2))) as place:
        world = chaos.World(Workers(place, list), tmp_path, log, ())
        world.file_changed(np.random.default_rng(0), folder(), given=first_pass == "given")
    assert log.count() == 1


def test_a_worker_whose_memory_is_limited_tells_so(tmp_path, log, folder):
    """In a process that may really have no more memory, in the leaves of a tree and in the sums of a learner."""
    rng, mine = np.random.default_rng(0), os.getpid()

    def make(rng, n):
        if os.getpid() != mine:
            scarce.ask_for_too_much()
        X = rng.standard_normal((n, 2))
        return X, X[:, 0]

    with chaos.pool(workers=1) as workers:
        world = chaos.World(workers, tmp_path, log, ())
        world.short_memory(rng, 2, folder())
        world.short_memory(rng, None, folder())
        model = KernelRidge(RBF(1.0), alpha=1.0, dictionary=chaos.X[:40])
        with pytest.raises(
            ClusterError, match=r"a task needs more memory than its worker has \(Unable to allocate"
        ):
            model.fit(squeak.rows(squeak.GeneratedRows(make, 500, random_state=0), target=True))
    assert log.count() == 6


def test_a_few_faults_change_no_bit(tmp_path, log, folder):
    """A worker is stopped, both are killed, a disk is full for a while, a file changes."""
    rng = np.random.default_rng(0)
    with dask_workers() as workers:
        world = chaos.World(workers, tmp_path, log, ["dictionary", "falkon"])
        until(1, log, lambda: world.stopped(rng))
        world.full_disk(rng, 2, folder())
        world.file_changed(rng, folder())
        until(6, log, lambda: world.killed(rng, 2))


def test_a_pool_whose_processes_die_of_a_task_ends_with_a_clear_error(tmp_path, log, folder):
    rng = np.random.default_rng(0)
    with chaos.pool(attempts=2) as workers:
        world = chaos.World(workers, tmp_path, log, ())
        world.out_of_memory(rng, 1, folder())
        world.out_of_memory(rng, None, folder(), words="workers were lost 2 times")
    assert log.count() == 3


def some(rng, most):
    return int(rng.integers(1, most + 1))


def on_full_disk(world, rng, path):
    full_disk.disk_full(rng, str(rng.choice(list(full_disk.WRITERS))), path, world.log)


dask = partial(dask_workers, connect="10s")
ALL, NONE = tuple(chaos.JOBS), ()
FAULTS = {
    "full disk": (40, dask, NONE, lambda world, rng, path: world.full_disk(rng, some(rng, 3), path)),
    "full disk for ever": (12, dask, NONE, lambda world, rng, path: world.full_disk(rng, None, path)),
    "file changed": (10, dask, NONE, lambda world, rng, path: world.file_changed(rng, path)),
    "file of a pool": (6, chaos.pool, NONE, lambda world, rng, path: world.file_changed(rng, path, given=True)),
    "memory limited": (12, dask, NONE, lambda world, rng, path: world.short_memory(rng, some(rng, 3), path)),
    "memory limited for ever": (12, dask, NONE, lambda world, rng, path: world.short_memory(rng, None, path)),
    "memory of a pool limited": (
        8,
        chaos.pool,
        NONE,
        lambda world, rng, path: world.short_memory(rng, some(rng, 3), path),
    ),
    "written to a full disk": (24, dask, NONE, lambda world, rng, path: on_full_disk(world, rng, path)),
    "client killed": (12, dask, NONE, lambda world, rng, path: world.client_dies(rng, path)),
    "out of memory": (8, dask, NONE, lambda world, rng, path: world.out_of_memory(rng, some(rng, 2), path)),
    "stopped": (60, dask, ALL, lambda world, rng, path: world.stopped(rng)),
    "one killed": (20, dask, ALL, lambda world, rng, path: world.killed(rng, 1)),
    "both killed": (20, dask, ALL, lambda world, rng, path: world.killed(rng, 2)),
    "one of a pool": (15, chaos.pool, ALL, lambda world, rng, path: world.killed(rng, 1)),
    "both of a pool": (10, chaos.pool, ALL, lambda world, rng, path: world.killed(rng, 2)),
    "memory of a pool": (
        6,
        chaos.pool,
        NONE,
        lambda world, rng, path: world.out_of_memory(rng, some(rng, 2), path),
    ),
}
"""For every kind: how many, on which workers, in which jobs, and how a run is made in which there may be some."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAULTS)
def test_faults_of_a_kind_are_counted_and_none_is_lost(kind, tmp_path, log, folder):
    times, engine, jobs, attempt = FAULTS[kind]
    rng = np.random.default_rng(list(FAULTS).index(kind))
    with engine() as workers:
        world = chaos.World(workers, tmp_path, log, jobs)
        until(times, log, lambda: attempt(world, rng, folder()))


@pytest.mark.slow
@pytest.mark.parametrize("name", chaos.KEPT)
def test_killed_schedulers_are_counted_and_runs_go_on(name, tmp_path, log):
    chaos.schedulers_killed(np.random.default_rng(0), tmp_path, log, 4, name)
    assert log.count() == 4


@pytest.mark.slow
def test_a_task_that_ends_every_worker_ends_with_a_clear_error(tmp_path, log, folder):
    with cluster_of(2, failures=2) as client:
        world = chaos.World(Workers(None, list, client), tmp_path, log, ())
        world.out_of_memory(np.random.default_rng(0), None, folder())
    assert log.count() == 3


@pytest.mark.slow
def test_workers_that_take_more_memory_than_their_nannies_allow(tmp_path, log, folder):
    rng = np.random.default_rng(0)
    with cluster_of(2, failures=2, memory="800MiB") as client:
        world = chaos.World(Workers(None, list, client), tmp_path, log, ())
        world.out_of_memory(rng, 2, folder(), fault=scarce.take_too_much)
        world.out_of_memory(rng, None, folder(), fault=scarce.take_too_much)
    assert log.count() == 5
