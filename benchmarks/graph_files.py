"""Edges in Parquet files: a stream of ten million in little memory, and DISRE on one and on two worker processes.

Files of 50,000 nodes; clusters are started before the clock, and the two are measured in turn.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

EDGES, NODES, REPEATS = 1_000_000, 50_000, 3
STREAM_FILES, WORKER_FILES = 10, 8

STREAM = """
import sys, time
from squeak.graphs import StreamSparsifier
def resident(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) / 1e3
before, start, used = resident("VmRSS"), time.perf_counter(), time.process_time()
s = StreamSparsifier(oversampling=20, random_state=0).fit(sys.argv[1:])
sample = s.sample_
print(resident("VmHWM"), time.perf_counter() - start, time.process_time() - used, s.n_seen_, len(sample), s.n_components_, before)
"""


def write_files(folder: Path, count: int) -> list[str]:
    import pyarrow as pa
    from pyarrow import parquet

    rng, paths = np.random.default_rng(0), []
    for number in range(count):
        place = rng.integers(NODES, size=EDGES)
        other = (place + rng.integers(1, 400, size=EDGES) ** 2 // 400 * 10 + 1) % NODES
        paths.append(str(folder / f"{number}.parquet"))
        parquet.write_table(pa.table({"u": place.astype(np.int32), "v": other.astype(np.int32)}), paths[-1])
    return paths


def stream() -> dict[str, Any]:
    """Ten million edges from Parquet, in a process of its own: resident memory, libraries and all."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", STREAM, *write_files(Path(folder), STREAM_FILES)]
        env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "SQUEAK_NUM_THREADS": "1"}
        out = subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout.split()
    names = ("peak_mb", "seconds", "processor_seconds", "edges", "kept", "components", "start_mb")
    found = {"nodes": NODES} | dict(zip(names, map(float, out), strict=True))
    print("  stream", found, flush=True)
    return found


def workers() -> dict[str, Any]:
    """Return the seconds with one and with two workers, and their ratio."""
    import dask
    from distributed import Client, LocalCluster

    from squeak.graphs import DistributedSparsifier

    seconds: dict[int, list[float]] = {1: [], 2: []}
    samples: list[Any] = []
    with tempfile.TemporaryDirectory() as folder, dask.config.set({"distributed.comm.timeouts.connect": "60s"}):
        paths = write_files(Path(folder), WORKER_FILES)
        for _ in range(REPEATS):
            for count in seconds:
                with (
                    LocalCluster(
                        n_workers=count, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1"
                    ) as cluster,
                    Client(cluster) as client,
                ):
                    client.run(lambda: __import__("squeak.graphs"))
                    start = time.perf_counter()
                    made = DistributedSparsifier(10.0, n_leaves=WORKER_FILES, n_nodes=NODES, random_state=0).fit(
                        paths
                    )
                    seconds[count].append(time.perf_counter() - start)
                    samples.append(made.sample_)
    ratios = np.array(seconds[1]) / np.array(seconds[2])
    found = {
        "edges": WORKER_FILES * EDGES,
        "seconds": {str(count): float(np.median(each)) for count, each in seconds.items()},
        "ratio": {"median": float(np.median(ratios)), "min": float(ratios.min()), "max": float(ratios.max())},
        "same_bits": all(sample == samples[0] for sample in samples),
    }
    print("  workers", found, flush=True)
    return found
