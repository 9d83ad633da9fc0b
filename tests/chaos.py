"""Faults that are put into runs on workers, by a seed: each run must end in the same bits or in one clear error.

Only processes that were started here are stopped or killed, by their ids.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import count
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak import Disqueak, KernelClassifier, KernelKMeans, KernelPCA, KernelRidge, LocalExperts
from squeak.core.places import cluster, place
from squeak.graphs import DistributedSparsifier
from squeak.kernels import RBF
from squeak.learners import leaf_passes, regions
from squeak.learners.data import SourceTraining
from squeak.places import ClusterError, Processes
from squeak.trees.parts import PartError
from tests import scarce
from tests.engines import executor_workers

LIMIT = 120.0
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


def experts(folder):
    """Fit experts in regions of the space, each of which a worker reads, as if memory did not hold the rows."""
    expert = KernelRidge(RBF(1.0), 1e-3, max_atoms=20)
    model = LocalExperts(expert, leaf_rows=400, split_kernel=RBF(1.0), random_state=0)
    with patch.object(leaf_passes, "SAMPLE_ROWS", 500), patch.object(regions, "REGIONS", 4):
        return model.fit(squeak.rows(folder / "rows", "y", drop=["kind"])).predict(X[:50])


def predictions(folder):
    """Predict on the workers, partition by partition or file by file."""
    model = fitted()
    if cluster() is not None:
        import dask.dataframe as dd

        frame = dd.read_parquet(folder / "rows", split_row_groups=1)
        return frame.map_partitions(predicted, model, meta=("y", float)).compute().to_numpy()
    frames = [pd.read_parquet(path) for path in sorted((folder / "rows").iterdir())]
    with place() as here:
        return np.concatenate(here.map_ordered(partial(predicted, model=model), frames * 4))


@cache
def fitted():
    return KernelRidge(RBF(1.0), alpha=1.0, dictionary=X[:400], random_state=0).fit(X, Y)


def predicted(frame, model):
    return pd.Series(model.predict(frame[["a", "b"]].to_numpy()))


JOBS = {
    "dictionary": dictionary,
    "sparsifier": sparsifier,
    "ridge": ridge,
    "falkon": partial(ridge, solver="falkon", max_iter=6),
    "classes": classes,
    "k-means": centres,
    "PCA": components,
    "experts": experts,
    "predictions": predictions,
}


def write_rows(folder):
    """Write the files that workers read."""
    (folder / "rows").mkdir(exist_ok=True)
    for number, rows in enumerate(np.array_split(np.arange(len(X)), 2)):
        frame = pd.DataFrame(X[rows], columns=list("ab")).assign(y=Y[rows], kind=np.where(Y[rows] > 0, "up", "no"))
        frame.to_parquet(folder / "rows" / f"{number}.parquet", row_group_size=500)


def write_csv(path, rows):
    """Write rows such that as many of them take as many bytes."""
    np.savetxt(path, rows, "%+.9e", ",", header="a,b,y", comments="")


class HangError(AssertionError):
    """A run has not ended within the time that is stated for it."""


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
    if not found:
        raise HangError(f"the run has not ended after {seconds:g} seconds")
    return found


def bounded(run: Callable[[], object], seconds: float = LIMIT):
    """Return the result of a run that must end well, within the limit."""
    found, error = ended(run, seconds)
    if error is not None:
        raise error
    return found


class Log:
    """How runs with faults ended, one line for each: kept here, and appended to a file where one is named."""

    def __init__(self, path: str | Path | None = None):
        self.path, self.lines = path, []

    def count(self):
        """Return the number of faults."""
        return sum(line["faults"] for line in self.lines)

    def note(self, kind, faults, end, seconds, **more):
        self.lines.append({"kind": kind, "faults": faults, "end": end, "seconds": round(seconds, 3), **more})
        if self.path:
            with open(self.path, "a") as stream:
                stream.write(json.dumps(self.lines[-1]) + "\n")

    def judged(self, kind, run, expected, error=(), words="", faults=lambda: 1, **more):
        """Run what has faults in it; it must end in what is expected, or with the error and words, and is noted.

        ``more``: what the log tells beside: the job, and when the fault came as a part of its time.
        """
        start = time.monotonic()
        try:
            found, raised = ended(run)
        except HangError:
            self.note(kind, faults(), "hang", time.monotonic() - start, **more)
            raise
        end = "other bits"
        if raised is None and expected is not None and np.array_equal(found, expected):
            end = "same bits"
        elif raised is not None:
            clear = isinstance(raised, error) and words in str(raised)
            end = "clear error" if clear else f"{type(raised).__name__}: {raised}"
        if faults():
            self.note(kind, faults(), end, time.monotonic() - start, **more)
        assert end in ("same bits", "clear error"), f"{kind} ended with {end}"
        return end


class World:
    """Workers, what jobs give on them when nothing is done to them, and how long they take."""

    def __init__(self, workers, folder, log, jobs=tuple(JOBS)):
        self.workers, self.folder, self.log = workers, folder, log
        self.where = "processes" if workers.client is None else "Dask"
        write_rows(folder)
        self.calm, self.seconds, self.calm_parts, self.turns = {}, {}, None, 0
        for name in jobs:
            bounded(partial(JOBS[name], folder), 4.0 * LIMIT)  # workers import what it takes
            start = time.monotonic()
            self.calm[name] = bounded(partial(JOBS[name], folder))
            self.seconds[name] = time.monotonic() - start

    def disturbed(self, kind, name, moment, disturb, after=lambda: None):
        """Run a job, and disturb it after a part of the time that it takes; tell whether that fell into the run."""
        done, hit = threading.Event(), []

        def disturber():
            if not done.wait(moment * self.seconds[name]):
                faults = disturb()
                if not done.is_set():
                    hit.append(faults)
                after()

        def run():
            try:
                return JOBS[name](self.folder)
            finally:
                done.set()
                thread.join()

        thread = threading.Thread(target=disturber)
        thread.start()
        more = {"job": name, "moment": round(moment, 3)}
        self.log.judged(kind, run, self.calm[name], faults=lambda: sum(hit), **more)
        return bool(hit)

    def turn(self):
        """Return the name of the next job, one after the other: every kind of fault falls into all of them."""
        self.turns += 1
        return list(self.calm)[self.turns % len(self.calm)]

    def some(self, rng, victims):
        """Return the ids of some workers, once all are there."""
        if self.workers.client is not None:
            self.workers.client.wait_for_workers(2, timeout=LIMIT)
        return [int(pid) for pid in rng.permutation(self.workers.pids())[:victims]]

    def killed(self, rng, victims):
        """Kill workers during a job."""
        name, targets = self.turn(), self.some(rng, victims)
        if len(targets) < victims:  # a pool that is not yet there again
            assert np.array_equal(bounded(partial(JOBS[name], self.folder)), self.calm[name])
            return False

        def kill():
            killed = 0
            for pid in targets:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
            return killed

        kind = f"{('one', 'both')[victims - 1]} killed, {self.where}"
        return self.disturbed(kind, name, rng.uniform(0.0, 0.9), kill)

    def stopped(self, rng):
        """Stop a worker during a job, and let it go on after a while: mostly soon, now and then after seconds."""
        name, [pid] = self.turn(), self.some(rng, 1)

        def stop():
            os.kill(pid, signal.SIGSTOP)
            return 1

        def go_on():
            time.sleep(pause)
            os.kill(pid, signal.SIGCONT)

        moment, pause = rng.uniform(0.0, 0.5), float(np.exp(rng.uniform(np.log(0.1), np.log(8.0))))
        return self.disturbed("stopped and continued", name, moment, stop, go_on)

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
        self.log.judged(
            kind,
            lambda: learner(n_leaves=None, **changes).fit(parts).dictionary_.weights,
            None if times is None else self.calm_parts,
            error if times is None else (),
            words,
            lambda: len(list(folder.iterdir())),
        )

    def full_disk(self, rng, times, folder):
        """Let the reading of a part write what it reads to a disk that is really full."""
        number = int(rng.integers(1, len(PARTS)))
        with scarce.disk(folder.with_name(f"{folder.name}-disk")) as disk:
            if not disk.mounted:
                pytest.skip("no disk may be mounted here")
            disk.fill()
            fault = partial(scarce.write_there, disk.path)
            words = f"part {number}: [Errno 28] No space left on device"
            self.misread("full disk of a worker", number, times, fault, PartError, words, folder, retries=3)

    def short_memory(self, rng, times, folder):
        """Let the reading of a part ask for more memory than the process of its worker may have."""
        number = int(rng.integers(1, len(PARTS)))
        kind, words = f"memory limited, {self.where}", f"part {number}: Unable to allocate"
        self.misread(kind, number, times, scarce.ask_for_too_much, PartError, words, folder, retries=3)

    def out_of_memory(self, rng, times, folder, words="died of it", fault=None):
        """Let a worker be ended that reads a part: as the system does where memory is short, or by its nanny."""
        number = int(rng.integers(1, len(PARTS)))
        kind = f"{'out of memory' if fault is None else 'ended by its nanny'}, {self.where}"
        self.misread(kind, number, times, fault or end_worker, ClusterError, words, folder)

    def file_changed(self, rng, folder, given=False):
        """Write a file anew, in as many bytes as before, between the first pass of a fit and the second.

        ``given``: the dictionary is, and the file changes between two passes of the solver.
        """
        folder.mkdir()
        halves = np.array_split(np.column_stack([X, Y]), 2)
        for number, half in enumerate(halves):
            write_csv(folder / f"{number}.csv", half)
        number = int(rng.integers(2))
        path = folder / f"{number}.csv"
        source, size = squeak.rows(folder, "y"), path.stat().st_size
        atoms = {"dictionary": X[:40], "solver": "falkon", "max_iter": 6} if given else {"max_atoms": 30}
        model, passes, summed = KernelRidge(RBF(1.0), 1.0, random_state=0, **atoms), count(), SourceTraining.sum

        def changing(data, term):
            if next(passes) == int(given):  # the dictionary took a pass if it was not given
                write_csv(path, halves[number][::-1])
            return summed(data, term)

        words = f"{path.name} was changed or replaced after it was opened"
        with patch.object(SourceTraining, "sum", changing):
            self.log.judged(f"file changed, {self.where}", lambda: model.fit(source), None, ValueError, words)
        assert not hasattr(model, "dual_coef_")
        assert next(passes) > int(given), "the file was not changed"
        assert path.stat().st_size == size

    def client_dies(self, rng, folder):
        """Kill the client of a run with a checkpoint twice, and run it again until it ends."""
        folder.mkdir()
        self.turns += 1
        name = list(KEPT)[self.turns % len(KEPT)]
        start = time.monotonic()
        expected = bounded(partial(KEPT[name], folder / "calm"))
        moments, kills = list(rng.uniform(0.0, 0.7 * (time.monotonic() - start), 2)), []
        code = CLIENT.format(address=self.workers.client.scheduler.address, folder=str(folder), name=name)

        def run():
            while not (folder / "found.npy").exists():
                (folder / "begun").unlink(missing_ok=True)
                with processes(("-c", code)) as [process]:
                    wait_for(lambda: (folder / "begun").exists() or process.poll() is not None, LIMIT)
                    if moments:
                        time.sleep(moments.pop())
                        kills.extend([1] if process.poll() is None else [])
                    else:
                        assert process.wait(LIMIT) == 0, "the client that was left alone has failed"
            return np.load(folder / "found.npy")

        self.log.judged("client killed", run, expected, faults=lambda: sum(kills), job=name)


CLIENT = """
from distributed import Client
from pathlib import Path
import numpy as np
from tests import chaos
folder = Path({folder!r})
with Client({address!r}):
    (folder / "begun").touch()
    np.save(folder / "found.npy", chaos.KEPT[{name!r}](folder / "run"))
"""


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
    """Start Python with some words, each a process; they are killed at the end, if they are still there."""
    started = []
    try:
        for command in commands:
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            line = [sys.executable, *command]
            started.append(subprocess.Popen(line, env=environment(), cwd=ROOT, **quiet))
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


@contextmanager
def own_cluster(port):
    """Have a scheduler at a port and two workers as processes, and a client; give the process of the scheduler."""
    import dask
    import distributed

    address, here = f"tcp://127.0.0.1:{port}", ("--host", "127.0.0.1")
    scheduler = ("-m", "distributed.cli.dask_scheduler", *here, "--port", str(port), "--no-dashboard")
    worker = (
        "-m",
        "distributed.cli.dask_worker",
        address,
        *here,
        "--no-nanny",
        "--nthreads",
        "1",
        "--no-dashboard",
    )
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "20s"}),
        processes(scheduler, worker, worker) as (first, *_),
        distributed.Client(address, timeout="60s") as client,
    ):
        client.wait_for_workers(2, timeout=LIMIT)
        yield first


def kept_dictionary(path):
    return learner().fit(X, checkpoint=path).dictionary_.weights


def made(rng, n):
    rows = rng.standard_normal((n, 2))
    return rows, np.sin(rows[:, 0])


def kept_fit(path, **changes):
    """Fit in passes over rows that workers make, in three groups of parts."""
    source = squeak.rows(squeak.GeneratedRows(made, 40 * 65_536, random_state=0), target=True)
    model = KernelRidge(RBF(1.0), alpha=1.0, dictionary=X[:10], random_state=0, **changes)
    return model.fit(source, checkpoint=path, every=0).dual_coef_


KEPT = {
    "dictionary": kept_dictionary,
    "ridge": kept_fit,
    "falkon": partial(kept_fit, solver="falkon", max_iter=6, tol=1e-12),
}
"""Runs with a checkpoint."""


def scheduler_killed(scheduler, name, path, writes, log, expected):
    """Kill the scheduler of a run when its checkpoint has been written more often than some times."""
    found: list = []
    over, seen = threading.Event(), set()

    def enough():
        if path.is_dir():
            seen.update(path.glob("node-*.sqk"))
        elif path.exists():
            seen.add(path.stat().st_mtime_ns)
        return len(seen) > writes or over.is_set()

    def kill():
        wait_for(enough, LIMIT)
        scheduler.kill()

    def run():
        killer = threading.Thread(target=kill)
        killer.start()
        try:
            found.append(KEPT[name](path))
        finally:
            over.set()
            killer.join()
        return found[0]

    faults = {"faults": lambda: int(not found), "job": name}
    log.judged("scheduler killed", run, expected, ClusterError, "scheduler", **faults)


def schedulers_killed(rng, folder, log, times, name):
    """Kill schedulers during runs with checkpoints; another at the same address must end each in the same bits."""
    port, path, expected = free_port(), None, None
    for number in range(6 * times):
        with own_cluster(port) as scheduler:
            if expected is None:
                expected = bounded(partial(KEPT[name], folder / "calm"))
            if path is not None:
                again = bounded(partial(KEPT[name], path))
                assert np.array_equal(again, expected), "other bits after a scheduler's death"
            if log.count() >= times:
                return
            path = folder / f"run-{number}"
            scheduler_killed(scheduler, name, path, int(rng.integers(0, 3)), log, expected)


@contextmanager
def pool(attempts=100, workers=2):
    """Have processes without a cluster."""
    with executor_workers(Processes(workers, attempts=attempts)) as workers:
        yield workers
