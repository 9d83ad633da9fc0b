"""Faults that are put into runs on workers, by a seed: each run must end in the same bits or in one clear error.

Only processes that were started here are stopped or killed, by their ids.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

import squeak
from squeak import Disqueak, KernelClassifier, KernelKMeans, KernelPCA, KernelRidge
from squeak.graphs import DistributedSparsifier
from squeak.kernels import RBF
from squeak.places import ClusterError, Processes
from squeak.trees.parts import PartError
from tests.engines import executor_workers

LIMIT = 240.0
"""Seconds within which every run must have ended, on a busy machine too."""

ROOT = Path(__file__).parents[1]
X = np.random.default_rng(0).standard_normal((3_000, 2))
Y = np.sin(X[:, 0])
PARTS = np.array_split(X, 6)


def learner(**changes):
    return Disqueak(**{"kernel": RBF(1.0), "ridge": 20.0, "n_leaves": 6, "random_state": 0, **changes})


def dictionary(folder):
    return learner().fit(X).dictionary_.weights


def sparsifier(folder):
    u, v = np.triu_indices(60, 1)
    edges = np.random.default_rng(0).permutation(np.column_stack([u, v]))
    return DistributedSparsifier(4.0, n_leaves=4, random_state=0).fit(edges).sample_.weights


def ridge(folder, **changes):
    model = KernelRidge(RBF(1.0), alpha=1.0, dictionary=X[:40], random_state=0, **changes)
    return model.fit(squeak.rows(folder / "rows", "y", drop=["kind"])).dual_coef_


def classes(folder):
    model = KernelClassifier(RBF(1.0), alpha=1.0, dictionary=X[:40], loss="logistic", tol=1e-2, random_state=0)
    return model.fit(squeak.rows(folder / "rows", "kind", drop=["y"])).dual_coef_


def centres(folder):
    rows = squeak.rows(folder / "rows", drop=["y", "kind"])
    model = KernelKMeans(3, kernel=RBF(1.0), dictionary=X[:40], max_iter=3, tol=1e-12, n_init=2, random_state=0)
    return model.fit(rows).transform(X[:50])


def components(folder):
    rows = squeak.rows(folder / "rows", drop=["y", "kind"])
    return KernelPCA(3, kernel=RBF(1.0), dictionary=X[:40]).fit(rows).transform(X[:50])


JOBS = {
    "dictionary": dictionary,
    "sparsifier": sparsifier,
    "ridge": ridge,
    "falkon": partial(ridge, solver="falkon", max_iter=6),
    "classes": classes,
    "k-means": centres,
    "PCA": components,
}


def write_rows(folder):
    """Write the files that workers read."""
    (folder / "rows").mkdir(exist_ok=True)
    for number, rows in enumerate(np.array_split(np.arange(len(X)), 2)):
        frame = pd.DataFrame(X[rows], columns=list("ab")).assign(y=Y[rows], kind=np.where(Y[rows] > 0, "up", "no"))
        frame.to_parquet(folder / "rows" / f"{number}.parquet", row_group_size=500)


def ended(run: Callable[[], object], seconds: float = LIMIT):
    """Return the result of a run and its error, one of them None; the run must end within the limit."""
    found: list = []

    def call():
        try:
            found.extend([run(), None])
        except BaseException as error:
            found.extend([None, error])

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    assert found, f"the run has not ended after {seconds:g} seconds"
    return found


def bounded(run: Callable[[], object], seconds: float = LIMIT):
    """Return the result of a run that must end well, within the limit."""
    found, error = ended(run, seconds)
    if error is not None:
        raise error
    return found


class Log:
    """What was done and how it ended, counted; and the longest that a run took."""

    def __init__(self):
        self.faults: Counter = Counter()
        self.ends: Counter = Counter()
        self.slowest = 0.0

    def note(self, kind, faults, end, seconds):
        self.faults[kind] += faults
        self.ends[f"{kind}: {end}"] += 1
        self.slowest = max(self.slowest, seconds)

    def as_data(self):
        counts = {"faults": sum(self.faults.values()), "runs": sum(self.ends.values())}
        return {**counts, "by_kind": dict(self.faults), "ends": dict(self.ends), "slowest_seconds": self.slowest}

    def write(self, path):
        path.write_text(json.dumps(self.as_data(), indent=1) + "\n")


class World:
    """Workers, what jobs give on them when nothing is done to them, and how long they take."""

    def __init__(self, workers, folder, log, jobs=tuple(JOBS)):
        self.workers, self.folder, self.log = workers, folder, log
        write_rows(folder)
        self.calm, self.seconds, self.calm_parts = {}, {}, None
        for name in jobs:
            bounded(partial(JOBS[name], folder))  # workers import what it takes
            start = time.monotonic()
            self.calm[name] = bounded(partial(JOBS[name], folder))
            self.seconds[name] = time.monotonic() - start

    def disturbed(self, kind, name, moment, disturb):
        """Run a job, and disturb it after a part of the time that it takes; tell whether that fell into the run."""
        done, hit = threading.Event(), []

        def disturber():
            if not done.wait(moment * self.seconds[name]):
                faults = disturb()
                if not done.is_set():
                    hit.append(faults)

        thread = threading.Thread(target=disturber)
        thread.start()
        start = time.monotonic()
        try:
            found = bounded(partial(JOBS[name], self.folder))
        finally:
            done.set()
            thread.join()
        assert np.array_equal(found, self.calm[name]), f"{kind}: {name} gives other bits"
        if hit:
            self.log.note(kind, hit[0], "the same bits", time.monotonic() - start)
        return bool(hit)

    def some(self, rng, victims):
        """Return the ids of some workers, once all are there."""
        if self.workers.client is not None:
            self.workers.client.wait_for_workers(2, timeout=LIMIT)
        return [int(pid) for pid in rng.permutation(self.workers.pids())[:victims]]

    def killed(self, rng, victims):
        """Kill workers during a random job."""
        name = str(rng.choice(list(self.calm)))
        targets = self.some(rng, victims)
        if len(targets) < victims:  # a pool that is not yet there again
            bounded(partial(JOBS[name], self.folder))
            return False

        def kill():
            for pid in targets:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return len(targets)

        return self.disturbed(f"{victims} killed at once", name, rng.uniform(0.0, 0.9), kill)

    def stopped(self, rng):
        """Stop a worker during a random job, and let it go on after a while."""
        name = str(rng.choice(list(self.calm)))
        [pid] = self.some(rng, 1)

        def stop():
            os.kill(pid, signal.SIGSTOP)
            try:
                time.sleep(rng.uniform(0.1, 0.5))
            finally:
                os.kill(pid, signal.SIGCONT)
            return 1

        return self.disturbed("stopped and continued", name, rng.uniform(0.0, 0.5), stop)

    def misread(self, kind, number, times, fault, error, words, folder, **changes):
        """Learn from parts of which one fails some times; or always, and then the error must say so."""
        folder.mkdir()
        parts = [partial(np.asarray, part) for part in PARTS]
        mine, limit = os.getpid(), np.inf if times is None else times

        def load():
            seen = len(list(folder.iterdir()))
            if os.getpid() != mine and seen < limit:
                (folder / str(seen)).touch()
                fault()
            return PARTS[number]

        if self.calm_parts is None:
            self.calm_parts = bounded(lambda: learner(n_leaves=None).fit(parts).dictionary_.weights)
        parts[number] = load
        start = time.monotonic()
        found, raised = ended(lambda: learner(n_leaves=None, **changes).fit(parts).dictionary_.weights)
        if times is None:
            assert isinstance(raised, error), f"{kind}: {raised!r}"
            assert words in str(raised), str(raised)
        else:
            assert raised is None, f"{kind}: {raised!r}"
            assert np.array_equal(found, self.calm_parts), f"{kind}: other bits"
        end = "one clear error" if times is None else "the same bits"
        faults = len(list(folder.iterdir()))
        self.log.note(kind, faults, end, time.monotonic() - start)
        return faults

    def full_disk(self, rng, times, folder):
        """Let a part's reading fail as on a full disk."""
        number = int(rng.integers(1, len(PARTS)))
        words = f"part {number}: [Errno 28] No space left on device"
        return self.misread("full disk", number, times, no_space, PartError, words, folder, retries=3)

    def out_of_memory(self, rng, times, folder, words="died of it"):
        """Let the system end the worker that reads a part, as it does where memory is short."""
        number = int(rng.integers(1, len(PARTS)))
        return self.misread("out of memory", number, times, end_worker, ClusterError, words, folder)

    def file_changed(self, rng, folder):
        """Write a file anew after it was opened, before or in a fit of several passes."""
        folder.mkdir()
        write_rows(folder)
        source = squeak.rows(folder / "rows", "y", drop=["kind"])
        model = KernelRidge(RBF(1.0), alpha=1.0, dictionary=X[:40], solver="falkon", max_iter=6)
        path = folder / "rows" / f"{rng.integers(2)}.parquet"
        assert source.preprocessing is not None
        pd.read_parquet(path).iloc[::-1].to_parquet(path, row_group_size=500)
        start = time.monotonic()
        _, error = ended(lambda: model.fit(source))
        assert isinstance(error, ValueError), f"a file that was written anew: {error!r}"
        assert "changed" in str(error), str(error)
        self.log.note("file changed", 1, "one clear error", time.monotonic() - start)

    def client_dies(self, rng, folder):
        """Kill the client of a run with a checkpoint, and run it again until it ends."""
        folder.mkdir()
        expected = self.calm["dictionary"]
        start, kills = time.monotonic(), 0
        address = self.workers.client.scheduler.address
        while True:
            code = CLIENT.format(address=address, folder=str(folder))
            process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment())
            try:
                wait_for(lambda run=process: (folder / "begun").exists() or run.poll() is not None, LIMIT)
                (folder / "begun").unlink(missing_ok=True)
                if kills < 2:
                    time.sleep(rng.uniform(0.0, 0.5 * self.seconds["dictionary"]))
                    kills += process.poll() is None
                    process.kill()
                process.wait(LIMIT)
            finally:
                process.kill()
                process.wait()
            if (folder / "d.sqk").exists():
                break
        assert np.array_equal(squeak.load(folder / "d.sqk").weights, expected)
        if kills:
            self.log.note("client killed", kills, "the same bits", time.monotonic() - start)
        return kills


CLIENT = """
from distributed import Client
from pathlib import Path
from tests import chaos
folder = Path({folder!r})
with Client({address!r}):
    (folder / "begun").touch()
    chaos.learner().fit(chaos.X, checkpoint=folder / "run").dictionary_.save(folder / "d.sqk")
"""


def no_space():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def end_worker():
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for(there, seconds):
    deadline = time.monotonic() + seconds
    while not there():
        if time.monotonic() > deadline:
            raise AssertionError(f"it was waited for longer than {seconds:g} seconds")
        time.sleep(0.01)


def environment():
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OPENBLAS_NUM_THREADS": "1"}


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def processes(*commands):
    """Start commands as processes; they are killed at the end, if they are still there."""
    started = []
    try:
        for command in commands:
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            started.append(subprocess.Popen([sys.executable, "-m", *command], env=environment(), cwd=ROOT, **quiet))
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def scheduler_killed(rng, folder, log, expected):
    """Kill the scheduler during a run with a checkpoint; start another at its address, and run again."""
    import dask
    import distributed

    address = f"tcp://127.0.0.1:{free_port()}"
    port = address.rpartition(":")[2]
    scheduler = ("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")
    worker = ("distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1", "--host", "127.0.0.1")
    start = time.monotonic()

    def fit():
        return learner().fit(X, checkpoint=folder).dictionary_.weights

    with dask.config.set({"distributed.comm.timeouts.connect": "20s"}):
        with (
            processes(scheduler, worker, worker) as (first, *_),
            distributed.Client(address, timeout="60s") as client,
        ):
            client.wait_for_workers(2, timeout=LIMIT)

            def kill():
                wait_for(lambda: len(list(folder.glob("node-*.sqk"))) > rng.integers(0, 4), LIMIT)
                first.kill()

            killer = threading.Thread(target=kill)
            killer.start()
            found, error = ended(fit)
            killer.join()
            assert error is None or isinstance(error, ClusterError), repr(error)
            assert error is not None or np.array_equal(found, expected)
        with processes(scheduler, worker, worker), distributed.Client(address, timeout="60s") as client:
            client.wait_for_workers(2, timeout=LIMIT)
            assert np.array_equal(bounded(fit), expected)
    if error is not None:
        log.note("scheduler killed", 1, "one clear error, then the same bits", time.monotonic() - start)
    return error is not None


@contextmanager
def pool(attempts=100):
    """Have two processes without a cluster."""
    with executor_workers(Processes(2, attempts=attempts)) as workers:
        yield workers
