"""What the benchmarks share: interleaved timing, memory of this process, real data, results as JSON."""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from squeak import __version__

RESULTS = Path(__file__).parent / "results"
DATA = Path(os.environ.get("SQUEAK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def interleaved(candidates: dict[str, Callable[[], Any]], repeats: int = 5) -> dict[str, list[float]]:
    """Time each candidate in turn, round after round: a noisy minute hits all of them alike."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for name, run in candidates.items():
        run()  # warm up: pages, threads, imports
        del name
    for _ in range(repeats):
        for name, run in candidates.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def ratio(seconds: dict[str, list[float]], ours: str, other: str) -> dict[str, float]:
    """Return the median of the rounds' ratios, with the smallest and largest."""
    each = np.array(seconds[ours]) / np.array(seconds[other])
    return {"median": float(np.median(each)), "min": float(each.min()), "max": float(each.max())}


def anonymous_bytes() -> int:
    """Return the anonymous resident memory of this process; file pages of a mapped array do not count."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


class PeakMemory:
    """Samples the anonymous memory every 5 ms; ``peak`` is the largest above that at the start."""

    def __enter__(self) -> PeakMemory:
        self._start = anonymous_bytes()
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self.peak = max(self.peak, anonymous_bytes() - self._start)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.peak = max(self.peak, anonymous_bytes() - self._start)


def real_rows(name: str) -> np.ndarray | None:
    """Return a real data set's rows, standardised, constant columns left out; None where it is absent."""
    path = DATA / f"{name}.npz"
    if not path.exists():
        return None
    with np.load(path) as file:
        X = file["X"].astype(np.float64)
    X = X[:, X.std(axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0)


def versions() -> dict[str, Any]:
    """Return what figures are measured with."""
    return {
        "squeak": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
    }


def save(name: str, result: dict[str, Any]) -> None:
    """Write a result beside the versions that it was measured with."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps({"measured_with": versions()} | result, indent=1) + "\n")
