"""DISQUEAK on worker processes of this machine: speed-up, overhead of the engine, work of the tree, memory of a worker.

The cluster is started before the clock. Two cores: two workers at most are of use.
"""

from __future__ import annotations

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

from benchmarks.common import save
from benchmarks.scaling import make_rows

ROWS, LEAVES, FIT_ROWS = 2_000_000, 8, 5_000_000


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


def independent(path: Path, rows: int, processes: int) -> float:
    """Return the seconds that so many processes take for all leaves, each its share, all at once."""
    context = multiprocessing.get_context("spawn")
    begin, done = context.Event(), context.Queue()
    shares = [list(range(first, LEAVES, processes)) for first in range(processes)]
    children = [
        context.Process(target=leaves_alone, args=(str(path), rows, share, begin, done)) for share in shares
    ]
    for child in children:
        child.start()
    time.sleep(4.0)  # imports are over
    begin.set()
    seconds = [done.get() for _ in children]
    for child in children:
        child.join()
    return max(seconds)


class Watch:
    """The largest anonymous memory of any of some processes, sampled every 20 ms."""

    def __init__(self, pids: list[int]) -> None:
        self.pids, self.peak = pids, 0

    def __enter__(self) -> Watch:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            for pid in self.pids:
                for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                    if line.startswith("RssAnon"):
                        self.peak = max(self.peak, int(line.split()[1]) * 1024)

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


def fit_on_workers(source: Any, workers: int) -> dict[str, float]:
    """Return the seconds of a ridge fit, dictionary and sums, on so many workers, and the largest memory of one."""
    from squeak import KernelRidge
    from squeak.kernels import RBF

    with workers_of(workers) as pids, Watch(pids) as watch:
        start = time.perf_counter()
        KernelRidge(RBF(5.0), alpha=1.0, max_atoms=500, random_state=0).fit(source)
        return {"seconds": time.perf_counter() - start, "peak_mb": watch.peak / 1e6}


def run() -> None:
    import squeak

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "rows.npy"
        make_rows(path, 10_000_000)
        X = np.load(path, mmap_mode="r")
        part = Path(name) / "part.npy"
        np.save(part, X[:ROWS])
        source = squeak.rows(part)
        alone = {processes: independent(path, ROWS, processes) for processes in (1, 2)}
        spread = {workers: on_workers(source, workers) for workers in (1, 2)}
        ideal, ours = alone[1] / alone[2], spread[1]["seconds"] / spread[2]["seconds"]
        print(
            f"  two independent processes: {ideal:.2f} times faster; two workers: {ours:.2f}; {ours / ideal:.2f} of it, target 0.9"
        )

        np.save(part, X[:FIT_ROWS])
        targets = np.sin(X[:FIT_ROWS, 0]) * X[:FIT_ROWS, 1]
        fits = {workers: fit_on_workers(squeak.rows(part, targets), workers) for workers in (1, 2)}
        gain = fits[1]["seconds"] / fits[2]["seconds"]
        print(f"  ridge fit of {FIT_ROWS:,} rows: two workers {gain:.2f} times faster than one; target 1.7")

        np.save(part, X[:1_000_000])
        source = squeak.rows(part)
        one = on_workers(source, 1, repeats=3)
        overhead = 1.0 - one["inside"] / one["seconds"]
        print(f"  engine at 1,000,000 rows, one worker: {100 * overhead:.1f}% of {one['seconds']:.2f} s; target 5%")

        work = {}
        for tree in ("balanced", "sequential"):
            fitted = learner(tree=tree).fit(source)
            work[tree] = sum(node.seconds for node in fitted.nodes_)
        print(f"  total work, balanced over sequential: {work['balanced'] / work['sequential']:.2f}; target 2.2")

        memory = {}
        for rows in (1_000_000, 10_000_000):
            np.save(part, X[:rows])
            memory[rows] = on_workers(squeak.rows(part), 2, n_leaves=None)
            print(
                f"  {rows:,} rows: {memory[rows]['seconds']:.1f} s, a worker's peak {memory[rows]['peak_mb']:.0f} MB",
                flush=True,
            )
    save(
        "cluster",
        {
            "rows": ROWS,
            "independent_seconds": [alone[1], alone[2]],
            "workers_seconds": [spread[1]["seconds"], spread[2]["seconds"]],
            "speed_up": {"independent": ideal, "workers": ours, "ratio": ours / ideal},
            "fit": {"rows": FIT_ROWS, "speed_up": gain, "workers": {str(count): fits[count] for count in fits}},
            "overhead": overhead,
            "work_ratio": work["balanced"] / work["sequential"],
            "memory": {str(rows): facts for rows, facts in memory.items()},
        },
    )
