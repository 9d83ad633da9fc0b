"""2,000,000 rows and 2,000 atoms: direct and FALKON within a memory of 1 GB, and FALKON's passes to direct's error.

Each runs in a process of its own; memory is the peak of anonymous memory above that after import.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import PeakMemory, save

ROWS, DIM, ATOMS, ALPHA = 2_000_000, 10, 2_000, 20.0


def truth(X: np.ndarray) -> np.ndarray:
    return np.sin(X[:, 0]) * X[:, 1] + np.tanh(X[:, 2:5].sum(axis=1))


def make(folder: Path) -> None:
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(folder / "X.npy", mode="w+", dtype=np.float32, shape=(ROWS, DIM))
    y = np.empty(ROWS)
    centres = 2.0 * rng.standard_normal((40, DIM))
    weights = rng.dirichlet(np.full(40, 0.3))  # some clusters are rare: the data is coherent
    for start in range(0, ROWS, 100_000):
        part = centres[rng.choice(40, 100_000, p=weights)] + rng.standard_normal((100_000, DIM))
        X[start : start + 100_000] = part
        y[start : start + 100_000] = truth(part) + 0.3 * rng.standard_normal(100_000)
    np.save(folder / "y.npy", y)


def one(folder: str, how: str) -> None:
    """Fit in this fresh process, and print seconds, memory and errors after each pass."""
    from squeak import KernelRidge
    from squeak.kernels import RBF
    from squeak.samplers import BlessR, Uniform

    rng = np.random.default_rng(1)
    X, y = np.load(f"{folder}/X.npy", mmap_mode="r"), np.load(f"{folder}/y.npy")
    rows = np.sort(rng.choice(ROWS, 20_000, replace=False))
    test = np.asarray(X[rows], dtype=np.float64)
    real, kernel = truth(test), RBF(3.0)
    sampler = (Uniform if how == "falkon, uniform" else BlessR)(max_atoms=ATOMS, random_state=0)
    curve: list[float] = []
    model = KernelRidge(kernel, alpha=ALPHA, sampler=sampler, solver="direct" if how == "direct" else "falkon")
    model.set_params(tol=1e-4, max_iter=10, random_state=0)
    if how != "direct":
        atoms = sampler.set_params(kernel=kernel, ridge=None).fit(X).dictionary_
        model.set_params(sampler=None, dictionary=atoms, kernel=None)
        values = kernel(test, np.asarray(atoms.atoms, dtype=np.float64))
        model.set_params(
            callback=lambda step, coef: curve.append(float(np.mean((values @ coef[:, 0] - real) ** 2))) and None
        )
    with PeakMemory() as memory:
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
    error = float(np.mean((model.predict(test) - real) ** 2))
    found = {"seconds": seconds, "peak_mb": memory.peak / 1e6, "error": error, "curve": curve}
    print(json.dumps(found | {"passes": model.n_iter_, "condition": model.condition_}))


def run() -> None:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        for how in ("direct", "falkon", "falkon, uniform"):
            code = f"from benchmarks.large import one; one({folder!r}, {how!r})"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(done.stderr)
            found[how] = json.loads(done.stdout.splitlines()[-1])
            shown = {key: value for key, value in found[how].items() if key != "curve"}
            print(f"  {how}: {shown}", flush=True)
            passes = passes_needed(found)
            save("large", {"rows": ROWS, "atoms": ATOMS, "runs": found, "passes": passes})
    print(f"  passes to 1.01 of direct's error: {passes}; target 10 with BLESS weights")


def passes_needed(found: dict[str, Any]) -> dict[str, int | None]:
    """Return how many passes FALKON took to come within 1% of direct's error."""
    goal = 1.01 * found["direct"]["error"]
    return {
        how: next((step + 1 for step, error in enumerate(run["curve"]) if error <= goal), None)
        for how, run in found.items()
        if how != "direct"
    }
