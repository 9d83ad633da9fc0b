"""KernelRidge beside scikit-learn's Nystroem + Ridge and beside its own floor, one kernel pass and one product.

Same split, same width, same number of landmarks (uniform ones for both); then landmarks of our own. Real data is
looked for in ``SQUEAK_DATA``; skipped, and said so, where that is absent. Times are medians of runs in turn, or of
one run where a run takes minutes.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.common import DATA, save

REPEATS = 2


def load(name: str) -> tuple[Any, Any, Any, Any]:
    """Return train and test rows, z-scored by the training rows, and targets of unit variance."""
    with np.load(DATA / f"{name}.npz") as file:
        X, y = np.ascontiguousarray(file["X"], dtype=np.float64), file["y"].astype(np.float64)
    if name == "covtype":
        y = np.where(y == 2, 1.0, -1.0)
    order = np.random.default_rng(0).permutation(len(X))
    cut = int(0.8 * len(X))
    train, test = order[:cut], order[cut:]
    centre, scale = X[train].mean(axis=0), X[train].std(axis=0)
    X = (X - centre) / np.where(scale > 0, scale, 1.0)
    y = (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[test], y[test]


def floor(X: Any, atoms: Any, width: float) -> float:
    """Return the seconds of one kernel pass and one symmetric product, on all cores, and nothing else."""
    from squeak.core import engine
    from squeak.core.kernels import block
    from squeak.kernels import RBF

    kernel, m = RBF(width), len(atoms)
    threads = engine.thread_count()
    tiles = engine.tiles(len(X), 4096)

    def lane(number: int) -> None:
        G = np.zeros((m, m))
        for tile in tiles[number::threads]:
            values = block(kernel, X[tile], atoms)
            G += values.T @ values

    start = time.perf_counter()
    engine.map_ordered(lane, range(threads))
    return time.perf_counter() - start


def timed(do: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    found = do()
    return time.perf_counter() - start, found


def one_size(name: str, data: Any, m: int, repeats: int = REPEATS) -> dict[str, Any]:
    """Return seconds and test errors of both, and the floor, for one data set and one number of landmarks."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    from squeak import KernelRidge
    from squeak.kernels import RBF
    from squeak.samplers import BlessR, Uniform

    X, y, X_test, y_test = data
    width = float(np.sqrt(X.shape[1]))
    times: dict[str, list[float]] = {}
    errors: dict[str, float] = {}

    def note(key: str, seconds: float) -> None:
        times.setdefault(key, []).append(seconds)

    models = {
        "theirs": lambda: make_pipeline(
            Nystroem(gamma=1 / (2 * width**2), n_components=m, random_state=0),
            Ridge(alpha=1.0, fit_intercept=False),
        ),
        "ours": lambda: KernelRidge(RBF(width), alpha=1.0, sampler=Uniform(max_atoms=m, random_state=0)),
        "ours, BLESS-R": lambda: KernelRidge(RBF(width), alpha=1.0, sampler=BlessR(max_atoms=m, random_state=0)),
        "ours, BLESS-R, half": lambda: KernelRidge(
            RBF(width), alpha=1.0, sampler=BlessR(max_atoms=m // 2, random_state=0)
        ),
    }
    for repeat in range(repeats):
        for key, make in models.items():
            if repeat and key == "theirs" and name == "covtype":
                continue  # once is enough: minutes
            seconds, model = timed(lambda make=make: make().fit(X, y))
            note(f"{key} fit", seconds)
            seconds, predicted = timed(lambda model=model: model.predict(X_test))
            note(f"{key} predict", seconds)
            errors[key] = float(np.mean((predicted - y_test) ** 2))
        note("floor", floor(X, X[:m].copy(), width))
    found = {key: float(np.median(values)) for key, values in times.items()}
    speed = {
        "fit": found["theirs fit"] / found["ours fit"],
        "predict": found["theirs predict"] / found["ours predict"],
        "over_floor": found["ours fit"] / found["floor"],
    }
    print(
        f"  {name}, {len(X):,} × {X.shape[1]}, {m} landmarks: fit {found['ours fit']:.2f} s, "
        f"{speed['fit']:.1f}× faster, "
        f"{speed['over_floor']:.2f} of the floor; predict {speed['predict']:.1f}×; errors {errors}",
        flush=True,
    )
    return {
        "data": name,
        "rows": len(X),
        "columns": X.shape[1],
        "landmarks": m,
        "seconds": found,
        "errors": errors,
    } | {"speed": speed}


def run() -> None:
    if not DATA.is_dir():
        print("  skipped: the data sets are not here; SQUEAK_DATA names their folder")
        return
    flights = load("nycflights")
    records = [one_size("nycflights", flights, 1000), one_size("nycflights", flights, 2000, repeats=1)]
    records.append(one_size("covtype", load("covtype"), 1000, repeats=1))
    save("learners", {"records": records})
