"""``RBF("auto")`` and ``alpha="auto"`` beside a 5 × 5 grid search by three folds, at the same number of atoms.

Test errors on rows that neither saw; up to 20,000 training rows of each data set, so that the grid ends in minutes.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.common import DATA, save
from benchmarks.learners import load

NAMES = ("cadata", "cpusmall", "nycflights", "susy_30k", "higgs_18k", "casp", "kin40k", "elevators", "covtype")
ROWS, ATOMS = 20_000, 400


def one(name: str) -> dict[str, Any]:
    from sklearn.model_selection import GridSearchCV

    from squeak import KernelRidge
    from squeak.kernels import RBF

    X, y, X_test, y_test = load(name)
    X, y, X_test, y_test = X[:ROWS], y[:ROWS], X_test[:ROWS], y_test[:ROWS]
    start = time.perf_counter()
    auto = KernelRidge(RBF("auto"), alpha="auto", max_atoms=ATOMS, random_state=0).fit(X, y)
    taken = time.perf_counter() - start
    median = RBF("median").resolve(X[:1000]).length_scale
    grid = {
        "kernel": [RBF(factor * median) for factor in (0.125, 0.25, 0.5, 1.0, 2.0)],
        "alpha": [0.01, 0.1, 1.0, 10.0, 100.0],
    }
    start = time.perf_counter()
    search = GridSearchCV(
        KernelRidge(max_atoms=ATOMS, random_state=0), grid, cv=3, scoring="neg_mean_squared_error"
    ).fit(X, y)
    searched = time.perf_counter() - start
    errors = [float(np.mean((model.predict(X_test) - y_test) ** 2)) for model in (auto, search)]
    print(f"  {name}: auto {errors[0]:.4f} in {taken:.1f} s, grid {errors[1]:.4f} in {searched:.1f} s", flush=True)
    return {
        "data": name,
        "rows": len(X),
        "auto": errors[0],
        "grid": errors[1],
        "ratio": errors[0] / errors[1],
        "seconds": [taken, searched],
        "width_over_median": float(auto.kernel_.length_scale / median),
        "alpha": auto.alpha_,
    }


def run() -> None:
    names = [name for name in NAMES if (DATA / f"{name}.npz").exists()]
    if not names:
        print("  skipped: the data sets are not here; SQUEAK_DATA names their folder")
        return
    records = []
    for name in names:
        records.append(one(name))
        save("automatic", {"records": records, "atoms": ATOMS})  # what is measured is kept
    print(f"  error over the grid's, at worst: {max(record['ratio'] for record in records):.3f}; target 1.1")
