"""How time and memory grow with rows, columns and atoms: learning a dictionary, and a ridge regression on it.

Every point is a process of its own, so that its memory is its own; sizes are measured in turn, three times.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import numpy as np

from benchmarks.common import PeakMemory, save

REPEATS = 2
BASE = {"rows": 200_000, "columns": 8, "atoms": 300}
SIZES = {
    "rows": (20_000, 60_000, 200_000, 600_000, 2_000_000),
    "columns": (4, 16, 64, 256),
    "atoms": (100, 300, 1_000, 2_000),
}
RUNS = ("Squeak", "KernelRidge")


def one(run: str, rows: int, columns: int, atoms: int) -> None:
    """Run in a fresh process and print seconds and peak memory beyond the rows themselves."""
    from squeak import KernelRidge, Squeak
    from squeak.kernels import RBF

    rng = np.random.default_rng(0)
    centres = 3 * rng.standard_normal((30, columns))
    X = centres[rng.integers(0, 30, rows)] + rng.standard_normal((rows, columns))
    y = np.sin(X[:, 0])
    width = RBF(2.5 * np.sqrt(columns / 4))
    makers: dict[str, Any] = {
        "Squeak": lambda: Squeak(width, max_atoms=atoms, random_state=0).fit(X),
        "KernelRidge": lambda: KernelRidge(width, alpha=1.0, max_atoms=atoms, random_state=0).fit(X, y),
    }
    with PeakMemory() as memory:
        start, processor = time.perf_counter(), time.process_time()
        makers[run]()
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
    print(json.dumps({"seconds": seconds, "processor_seconds": processor, "peak_mb": memory.peak / 1e6}))


def run() -> None:
    curves: dict[str, Any] = {name: [] for name in SIZES}
    found: dict[tuple[str, int, str], list[dict[str, float]]] = {}
    for _ in range(REPEATS):
        for name, sizes in SIZES.items():
            for size in sizes:
                for what in RUNS:
                    setting = BASE | {name: size}
                    command = [sys.executable, "-m", "benchmarks.growth", what, *map(str, setting.values())]
                    done = subprocess.run(command, capture_output=True, text=True, check=True)
                    found.setdefault((name, size, what), []).append(json.loads(done.stdout))
    for name, sizes in SIZES.items():
        for size in sizes:
            runs = {}
            for what in RUNS:
                runs[what] = {}
                for key in ("seconds", "peak_mb"):
                    values = [entry[key] for entry in found[name, size, what]]
                    runs[what][key] = {"median": float(np.median(values)), "min": min(values), "max": max(values)}
            curves[name].append({"size": size, "runs": runs})
            shown = ", ".join(
                f"{what} {r['seconds']['median']:.2f} s {r['peak_mb']['median']:.0f} MB" for what, r in runs.items()
            )
            print(f"  {name} {size:>9,}: {shown}", flush=True)
    save("growth", {"base": BASE, "repeats": REPEATS, "curves": curves})


if __name__ == "__main__":
    if len(sys.argv) == 5:
        one(sys.argv[1], *(int(value) for value in sys.argv[2:]))
    else:
        run()
