"""Half the landmarks: test error of ridge regression with M uniform rows, and with M/2 atoms of leverage scores.

It does on cpusmall, whose target depends on rows unlike the others; where it depends on the bulk, atoms far out are
of little use to the mean error. Columns and target standardised, 80% of the rows to learn from, RBF of the median
width, alpha = 1e-3, five draws.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from benchmarks.common import DATA, save
from squeak import KernelRidge
from squeak.kernels import RBF
from squeak.leverage import exact_leverage_scores
from squeak.samplers import Uniform

SETS = ("cpusmall", "cadata", "casp", "elevators")
SIZES = (200, 400, 800)
SEEDS = 5


def load(name: str) -> tuple[np.ndarray, ...] | None:
    path = DATA / f"{name}.npz"
    if not path.exists():
        return None
    with np.load(path) as file:
        X, y = file["X"].astype(np.float64), file["y"].astype(np.float64)
    X = X[:, X.std(axis=0) > 0]
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    order = np.random.default_rng(0).permutation(len(y))[:30_000]
    cut = int(0.8 * len(order))
    return X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]]


def run() -> None:
    table: dict[str, Any] = {}
    for name in SETS:
        data = load(name)
        if data is None:
            print(f"  {name}: not at hand, left out")
            continue
        X, y = data[:2]
        kernel = RBF(float(np.median(pdist(X[:1000]))))
        scores = exact_leverage_scores(X[:2000], kernel, ridge=1.0)

        def error(model: Any, data: tuple[np.ndarray, ...] = data) -> float:
            X, y, X_test, y_test = data
            return float(np.mean((model.fit(X, y).predict(X_test) - y_test) ** 2))

        entry: dict[str, Any] = {
            "rows": len(y),
            "columns": X.shape[1],
            "coherence": float(scores.max() * len(scores) / scores.sum()),
            "sizes": {},
        }
        for size in SIZES:
            found: dict[str, list[float]] = {"uniform": [], "uniform, half": [], "leverage, half": []}
            for seed in range(SEEDS):
                for words, rows in (("uniform", size), ("uniform, half", size // 2)):
                    sampler = Uniform(max_atoms=rows, random_state=seed)
                    found[words].append(error(KernelRidge(kernel, alpha=1e-3, sampler=sampler)))
                half = KernelRidge(kernel, alpha=1e-3, max_atoms=size // 2, random_state=seed)
                found["leverage, half"].append(error(half))
            entry["sizes"][str(size)] = {w: [float(np.mean(e)), float(np.std(e))] for w, e in found.items()}
            shown = ", ".join(f"{w} {np.mean(e):.4f} ± {np.std(e):.4f}" for w, e in found.items())
            print(f"  {name}, M = {size}: {shown}", flush=True)
        table[name] = entry
    save("half", {"table": table, "seeds": SEEDS})


if __name__ == "__main__":
    run()
