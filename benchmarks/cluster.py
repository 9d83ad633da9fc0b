"""DISQUEAK, ridge and automatic fits on worker processes of this machine: speed-up, engine's share, tree, memory.

The cluster is started before the clock. Two cores: two workers at most are of use. ``--parts`` measures some of it and
keeps what was measured before of the others; ``--rows`` and ``--fit-rows`` take fewer rows.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, save
from benchmarks.scaling import make_rows

ROWS, LEAVES, FIT_ROWS, AUTO_ROWS = 2_000_000, 8, 5_000_000, 200_000
PARTS = ("speed", "fit", "one_file", "overhead", "tree", "memory", "auto")


def learner(**changes: Any) -> Any:
    from squeak import Disqueak
    from squeak.kernels import RBF

    return Disqueak(**{"kernel": RBF(5.0), "max_atoms": 500, "n_leaves": LEAVES, "random_state": 0, **changes})


def leaves_alone(path: str, rows: int, which: list[int], begin: Any, done: Any) -> None:
    """Learn some leaves one after the other, in a process of its own, without any engine."""
    from squeak import Squeak
    from squeak.core import engine
    from squeak.kernels import RBF

    X = np.load(path, mmap_mode="r")[:rows]
    cuts = np.linspace(0, rows, LEAVES + 1).astype(int)
    begin.wait()
    start = time.perf_counter()
    with engine.serial():
        for leaf in which:
            sampler = Squeak(kernel=RBF(5.0), max_atoms=500, random_state=leaf)
            sampler.fit(X[cuts[leaf] : cuts[leaf + 1]])
    done.put(time.perf_counter() - start)


def fit_alone(path: str, rows: int, which: list[int], begin: Any, done: Any) -> None:
    """Sum the features of some eighths of the rows, in a process of its own, without any engine: the second pass."""
    import squeak
    from squeak import KernelRidge
    from squeak.core import engine

    X = np.load(path, mmap_mode="r")[:rows]
    cuts = np.linspace(0, rows, LEAVES + 1).astype(int)
    model = ridge(dictionary=np.array(X[:500]), max_atoms=None)
    begin.wait()
    start = time.perf_counter()
    with engine.serial():
        for part in which:
            some = X[cuts[part] : cuts[part + 1]]
            model.fit(squeak.rows(some, target_of(some)))
    assert isinstance(model, KernelRidge)
    done.put(time.perf_counter() - start)


def independent(path: Path, rows: int, processes: int, work: Any = leaves_alone) -> float:
    """Return the seconds that so many processes take for all parts, each its share, all at once."""
    context = multiprocessing.get_context("spawn")
    begin, done = context.Event(), context.Queue()
    shares = [list(range(first, LEAVES, processes)) for first in range(processes)]
    children = [context.Process(target=work, args=(str(path), rows, share, begin, done)) for share in shares]
    for child in children:
        child.start()
    time.sleep(4.0)  # imports are over
    begin.set()
    seconds = [done.get() for _ in children]
    for child in children:
        child.join()
    return max(seconds)


def processor_seconds(pids: list[int]) -> float:
    """Return the processor seconds that some processes have taken so far."""
    ticks = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13] for pid in pids]
    return sum(int(tick) for both in ticks for tick in both) / os.sysconf("SC_CLK_TCK")


class Watch:
    """The anonymous memory of the largest of some processes, looked at every 50 ms."""

    def __init__(self, pids: list[int]) -> None:
        self.pids, self.looks = pids, [(0.0, 0)]

    @property
    def peak(self) -> int:
        return max(size for _, size in self.looks)

    def __enter__(self) -> Watch:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            texts = [Path(f"/proc/{pid}/status").read_text() for pid in self.pids]
            sizes = [int(line.split()[1]) for text in texts for line in text.splitlines() if "RssAnon" in line]
            self.looks.append((time.perf_counter(), 1024 * max(sizes)))

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


@contextmanager
def workers_of(count: int) -> Iterator[list[int]]:
    """Start so many workers that have imported squeak, and give their process ids."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=count, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1"
        ) as cluster,
        Client(cluster) as client,
    ):
        learner(n_leaves=2).fit(np.random.default_rng(0).standard_normal((2_000, 8)))
        yield list(client.run(os.getpid).values())


def on_workers(source: Any, workers: int, repeats: int = 1, **changes: Any) -> dict[str, float]:
    """Return the seconds of a run on so many workers, those spent in nodes, and the largest memory of a worker."""
    with workers_of(workers) as pids:
        times, inside = [], []
        with Watch(pids) as watch:
            for _ in range(repeats):
                start = time.perf_counter()
                fitted = learner(**changes).fit(source)
                times.append(time.perf_counter() - start)
                inside.append(sum(node.seconds for node in fitted.nodes_))
    return {"seconds": float(np.median(times)), "inside": float(np.median(inside)), "peak_mb": watch.peak / 1e6}


def ridge(**changes: Any) -> Any:
    from squeak import KernelRidge
    from squeak.kernels import RBF

    return KernelRidge(**{"kernel": RBF(5.0), "alpha": 1.0, "max_atoms": 500, "random_state": 0, **changes})


def target_of(X: np.ndarray) -> np.ndarray:
    return np.asarray(np.sin(X[:, 0]) * X[:, 1])


def fit_on_workers(source: Any, workers: int) -> dict[str, Any]:
    """Return the seconds of a ridge fit, dictionary and sums, on so many workers, and what they were spent on.

    ``inside``: seconds that workers computed, by the kind of task. ``workers_cpu``, ``client_cpu``: processor seconds
    of the workers, and of this process, in which the scheduler is too. ``memory_mb``: the largest memory of any
    worker in each twentieth of the time.
    """
    from distributed import get_client, get_task_stream

    with workers_of(workers) as pids, Watch(pids) as watch:
        with get_task_stream(get_client()) as tasks:
            spent, own = processor_seconds(pids), time.process_time()
            start = time.perf_counter()
            ridge().fit(source)
            seconds = time.perf_counter() - start
            spent, own = processor_seconds(pids) - spent, time.process_time() - own
        inside: dict[str, float] = {}
        for task in tasks.data:
            at_work = sum(one["stop"] - one["start"] for one in task["startstops"] if one["action"] == "compute")
            kind = str(task["key"]).split("-")[1]
            inside[kind] = inside.get(kind, 0.0) + at_work
        looks = [size for moment, size in watch.looks if moment >= start]
        spans = [span.max() / 1e6 for span in np.array_split(np.array(looks), 20) if len(span)]
        return {
            "seconds": seconds,
            "inside": inside,
            "outside": 1.0 - sum(inside.values()) / (workers * seconds),
            "workers_cpu": spent,
            "client_cpu": own,
            "peak_mb": max(looks) / 1e6,
            "memory_mb": spans,
        }


def speed(path: Path, rows: int) -> dict[str, Any]:
    """Compare two workers with one, beside two processes without any engine."""
    import squeak

    alone = {processes: independent(path, rows, processes) for processes in (1, 2)}
    spread = {workers: on_workers(squeak.rows(part_of(path, rows)), workers) for workers in (1, 2)}
    ideal, ours = alone[1] / alone[2], spread[1]["seconds"] / spread[2]["seconds"]
    print(
        f"  two independent processes: {ideal:.2f} times faster; two workers: {ours:.2f}; {ours / ideal:.2f} of it, target 0.9"
    )
    return {
        "rows": rows,
        "independent_seconds": [alone[1], alone[2]],
        "workers_seconds": [spread[1]["seconds"], spread[2]["seconds"]],
        "speed_up": {"independent": ideal, "workers": ours, "ratio": ours / ideal},
    }


def fit(path: Path, rows: int) -> dict[str, Any]:
    """Fit a ridge on one worker and on two, and sum features in one process and in two without any engine."""
    import squeak

    source = squeak.rows(part_of(path, rows), target_of(np.load(path, mmap_mode="r")[:rows]))
    fits = {workers: fit_on_workers(source, workers) for workers in (2, 1)}
    alone = {processes: independent(path, rows, processes, fit_alone) for processes in (2, 1)}
    gain, ideal = fits[1]["seconds"] / fits[2]["seconds"], alone[1] / alone[2]
    print(
        f"  ridge fit of {rows:,} rows: two workers {gain:.2f} times faster than one, target 1.7; two processes that "
        f"sum features without an engine {ideal:.2f}; not in tasks: {100 * fits[1]['outside']:.1f}% of one worker's "
        f"time, {100 * fits[2]['outside']:.1f}% of two workers'; target 5%"
    )
    found = {
        "rows": rows,
        "speed_up": gain,
        "load": os.getloadavg()[0],
        "independent": ideal,
        "independent_seconds": [alone[1], alone[2]],
        "workers": {str(count): fits[count] for count in (1, 2)},
    }
    return {"fit": found}


def one_file(path: Path, rows: int) -> dict[str, Any]:
    """Fit a ridge on one worker with the target in the file: no task is sent targets."""
    import squeak

    found = fit_on_workers(squeak.rows(part_of(path, rows), target=7), 1)
    spans = found["memory_mb"]
    print(
        f"  target in the file, {rows:,} rows, one worker: memory {spans[0]:.0f} MB at first, {spans[-1]:.0f} at last"
    )
    return {"one_file": {"rows": rows, **found}}


def auto(path: Path, rows: int) -> dict[str, Any]:
    """Fit an automatic model on two workers, and count what comes to the program."""
    import pickle
    from unittest.mock import patch

    import squeak
    from squeak.core.dask_cluster import Cluster

    came: list[int] = []
    gathered = Cluster.gathered

    def counted(self: Any, tasks: Any) -> Any:
        found = gathered(self, tasks)
        came.extend(len(pickle.dumps(one)) for one in found)
        return found

    source = squeak.rows(part_of(path, rows), target=7)
    with workers_of(2), patch.object(Cluster, "gathered", counted):
        came.clear()
        start = time.perf_counter()
        model = squeak.AutoRegressor(max_atoms=50, random_state=0).fit(source)
        seconds = time.perf_counter() - start
    experts = model.tree_.n_leaves
    print(
        f"  automatic model of {rows:,} rows ({64e-6 * rows:.0f} MB), two workers: {seconds:.0f} s, {experts} experts; "
        f"{sum(came) / 1e6:.1f} MB came to the program, {max(came) / 1e6:.1f} MB at once at most"
    )
    facts = {"rows": rows, "seconds": seconds, "experts": experts, "came_mb": sum(came) / 1e6}
    return {"auto": facts | {"largest_mb": max(came) / 1e6, "load": os.getloadavg()[0]}}


def overhead(path: Path, rows: int) -> dict[str, Any]:
    """Measure what the engine takes beside the nodes, on one worker."""
    import squeak

    one = on_workers(squeak.rows(part_of(path, rows)), 1, repeats=3)
    share = 1.0 - one["inside"] / one["seconds"]
    print(f"  engine at {rows:,} rows, one worker: {100 * share:.1f}% of {one['seconds']:.2f} s; target 5%")
    return {"overhead": share}


def trees(path: Path, rows: int) -> dict[str, Any]:
    """Compare the work of a balanced tree with that of a sequential one."""
    import squeak

    source, work = squeak.rows(part_of(path, rows)), {}
    for tree in ("balanced", "sequential"):
        work[tree] = sum(node.seconds for node in learner(tree=tree).fit(source).nodes_)
    ratio = work["balanced"] / work["sequential"]
    print(f"  total work, balanced over sequential: {ratio:.2f}; target 2.2")
    return {"work_ratio": ratio}


def memory(path: Path, rows: int) -> dict[str, Any]:
    """Measure the largest memory of a worker, for so many rows and for a tenth."""
    import squeak

    found = {}
    for count in (rows // 10, rows):
        found[str(count)] = facts = on_workers(squeak.rows(part_of(path, count)), 2, n_leaves=None)
        print(f"  {count:,} rows: {facts['seconds']:.1f} s, a worker's peak {facts['peak_mb']:.0f} MB", flush=True)
    return {"memory": found}


def part_of(path: Path, rows: int) -> Path:
    """Return a file of the first rows of a file."""
    part = path.with_name("part.npy")
    np.save(part, np.load(path, mmap_mode="r")[:rows])
    return part


def run(options: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks cluster", description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument(
        "--rows", type=float, default=ROWS, help="of the dictionaries; five times so many for memory"
    )
    parser.add_argument("--fit-rows", type=float, default=FIT_ROWS)
    given = parser.parse_args(options or [])
    asked, rows, fit_rows = given.parts.split(","), int(given.rows), int(given.fit_rows)
    steps = dict(zip(PARTS, (speed, fit, one_file, overhead, trees, memory, auto), strict=True))
    sizes = (rows, fit_rows, fit_rows, rows // 2, rows // 2, 5 * rows, AUTO_ROWS)
    counts = dict(zip(PARTS, sizes, strict=True))
    if set(asked) - set(PARTS):
        parser.error(f"--parts are some of {', '.join(PARTS)}")
    file = RESULTS / "cluster.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    known.pop("measured_with", None)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "rows.npy"
        make_rows(path, max(counts[part] for part in asked))
        for part in asked:
            known |= steps[part](path, counts[part])
            save("cluster", known)
