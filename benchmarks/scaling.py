"""Rows without end: time a row and peak memory from 10⁵ to 10⁷ rows of a memory-mapped file, max_atoms = 500.

Each length runs in a process of its own, so that memory is that of one run; the lengths are repeated in turn.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.common import PeakMemory, save

LENGTHS = (100_000, 1_000_000, 10_000_000)


def make_rows(path: Path, n: int, d: int = 8) -> None:
    """Write n rows to an ``.npy`` file, block by block: a mixture of 30 clusters."""
    rng = np.random.default_rng(0)
    centres = 3 * rng.standard_normal((30, d))
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n, d))
    for start in range(0, n, 100_000):
        size = min(100_000, n - start)
        out[start : start + size] = centres[rng.integers(0, 30, size)] + rng.standard_normal((size, d))
    out.flush()


def one(path: str, n: int) -> None:
    """Run in a fresh process: fit the first n rows and print what was measured."""
    from squeak import Squeak
    from squeak.kernels import RBF

    Squeak(kernel=RBF(5.0), max_atoms=50, random_state=0).fit(np.zeros((2000, 8)) + np.arange(2000)[:, None])
    rows = np.load(path, mmap_mode="r")[:n]
    sampler = Squeak(kernel=RBF(5.0), max_atoms=500, random_state=0)
    with PeakMemory() as memory:
        start = time.perf_counter()
        dictionary = sampler.fit(rows).dictionary_
        seconds = time.perf_counter() - start
    facts = {
        "rows": n,
        "seconds": seconds,
        "microseconds_a_row": 1e6 * seconds / n,
        "peak_mb": memory.peak / 1e6,
        "atoms": len(dictionary),
        "ridge": dictionary.ridge,
    }
    print(json.dumps(facts))


def run(repeats: int = 3) -> None:
    measured: dict[int, list[dict[str, float]]] = {n: [] for n in LENGTHS}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        make_rows(path, max(LENGTHS))
        for _ in range(repeats):
            for n in LENGTHS:
                command = [sys.executable, "-m", "benchmarks.scaling", str(path), str(n)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                measured[n].append(json.loads(done.stdout))
    table = {}
    print("max_atoms = 500; targets: time a row grows at most 15%, peak at most 100 MB")
    for n, runs in measured.items():
        each = [entry["microseconds_a_row"] for entry in runs]
        table[str(n)] = {
            "microseconds_a_row": float(np.median(each)),
            "spread": [min(each), max(each)],
            "peak_mb": max(entry["peak_mb"] for entry in runs),
            "atoms": runs[0]["atoms"],
        }
        print(
            f"  {n:>11,} rows  {np.median(each):6.2f} µs a row ({min(each):.2f} to {max(each):.2f})  "
            f"peak {table[str(n)]['peak_mb']:.0f} MB  {runs[0]['atoms']} atoms"
        )
    first, last = table[str(LENGTHS[0])], table[str(LENGTHS[-1])]
    growth = last["microseconds_a_row"] / first["microseconds_a_row"]
    print(f"  time a row at 10⁷ is {growth:.2f} × that at 10⁵")
    save("scaling", {"max_atoms": 500, "lengths": table, "growth": growth})


if __name__ == "__main__":
    if len(sys.argv) == 3:
        one(sys.argv[1], int(sys.argv[2]))
    else:
        run()
