"""SQUEAK and KORS with thousands of atoms: time, processor time and memory, and the ratio to one full scoring pass.

The streams are those of ``growth`` (200,000 rows × 8 of a mixture of 30 Gaussians, ``max_atoms``), each in a
process of its own; the ratios are those of ``limit`` (100,000 Gaussian rows × 8, ridge 1), with a scoring pass over
a fifth of the rows for the whole of them. ``python -m benchmarks.many 10000`` takes fewer rows, and stores nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np

from benchmarks.common import save
from squeak import Kors, Squeak
from squeak.kernels import RBF

STREAMS = (2_000, 5_000)
SETTINGS = {
    "Squeak, oversampling 4": (Squeak, RBF(3.0), 4.0),
    "Squeak, oversampling 10": (Squeak, RBF(3.5), 10.0),
    "Kors, oversampling 5": (Kors, RBF(3.5), 5.0),
}


def run(n: int = 100_000, d: int = 8, rows: int = 200_000) -> None:
    streams = {}
    for atoms in STREAMS:
        command = [sys.executable, "-m", "benchmarks.growth", "Squeak", str(rows), "8", str(atoms)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        streams[atoms] = json.loads(done.stdout)
        shown = ", ".join(f"{key} {value:.1f}" for key, value in streams[atoms].items())
        print(f"  Squeak, max_atoms={atoms:,}: {shown}", flush=True)
    X = np.random.default_rng(0).standard_normal((n, d))
    few = X[::5]
    found = {}
    for name, (cls, kernel, oversampling) in SETTINGS.items():
        sampler = cls(kernel=kernel, ridge=1.0, oversampling=oversampling, random_state=0)
        start = time.perf_counter()
        dictionary = sampler.fit(X).dictionary_
        seconds, factor = time.perf_counter() - start, dictionary.factor
        start = time.perf_counter()
        factor.residuals(few)
        limit = (time.perf_counter() - start) * n / len(few)
        atoms, ratio = len(dictionary), seconds / limit
        found[name] = {"atoms": atoms, "seconds": seconds, "limit_seconds": limit, "ratio": ratio}
        print(f"  {name:26s} {atoms:5d} atoms  {seconds:.1f} s, limit {limit:.1f} s: {ratio:.2f}", flush=True)
    if (n, rows) == (100_000, 200_000):
        save("many", {"streams": streams, "limit": found})


if __name__ == "__main__":
    asked = int(sys.argv[1]) if sys.argv[1:] else 200_000
    run(n=asked // 2, rows=asked)
