"""Bandits on real tables: regret and time a step, one thread; the width's effect; against bayes_opt on test functions.

``python -m benchmarks.bandits tables|widths|flat|bayes_opt|new_arms [seeds]`` runs one part; results of the parts are kept in one file.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.common import DATA, RESULTS, save
from squeak.bandits import BKB, GPUCB, AutoUCB, BatchBKB, fit_hyperparameters, minimize, regret
from squeak.bandits.exact import ExactPosterior
from squeak.core import engine
from squeak.kernels import RBF

TABLES = {"abalone": "y", "cadata": "y", "bandit_hpobench": "val_acc__car"}
NOISE = 0.1


def table(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the arms, standardised, and the noise-free values, standardised."""
    path = DATA / f"{name}.npz"
    if not path.exists():
        return None
    with np.load(path) as file:
        X, y = file["X"].astype(float), file[TABLES[name]].astype(float)
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def hyperparameters(X: np.ndarray, y: np.ndarray) -> Any:
    """Fit length scale and noise to 1,000 noisy rows by marginal likelihood."""
    rng = np.random.default_rng(0)
    rows = rng.choice(len(X), 1000, replace=False)
    values = y[rows] + NOISE * rng.standard_normal(1000)
    start = (X[rows], np.ones(1000), values, float(values @ values), RBF(2.0), 0.5)
    return fit_hyperparameters(*start, fit_mean=False, landmarks=np.arange(0, 1000, 2))


class PlainCounts(GPUCB):
    """Exact GP-UCB on counts with every arm brought up to date after every pull."""

    _posterior = ExactPosterior


class PlainBatch(BatchBKB):
    """Batched BKB as one would write it first: after each arm of a batch V is solved anew for every arm."""

    def _choose(self, limit: int | None) -> list[int]:
        beta, model = self._width(), self._now()
        Z, total, chosen = model.features, 1.0, []
        at_feedback = model.leverage
        V = np.linalg.inv(model.solver)
        while total <= self.batch_factor and len(chosen) < (limit or 2**62):
            variance = model.residual + np.einsum("ij,ij->j", Z, np.linalg.solve(V, Z))
            arm = int(np.argmax(model.mean + beta * np.sqrt(variance)))
            chosen.append(arm)
            total += at_feedback[arm]
            V = V + np.multiply.outer(Z[:, arm], Z[:, arm])
        self.n_batches_ += 1
        return chosen


def pull(make: Callable[[int], Any], y: np.ndarray, steps: int, seeds: int) -> dict[str, Any]:
    """Run a bandit with several seeds; the processor's time counts, for the machine is shared."""
    found: dict[str, list[float]] = {
        "regret": [],
        "ms": [],
        "wall_ms": [],
        "distinct": [],
        "atoms": [],
        "batches": [],
    }
    for seed in range(seeds):
        bandit = make(seed)
        noise = NOISE * np.random.default_rng(100 + seed).standard_normal(steps)
        clock, wall = time.process_time(), time.perf_counter()
        draws = iter(noise)
        bandit.run(lambda arm, draws=draws: y[arm] + next(draws), steps)
        found["ms"].append(1e3 * (time.process_time() - clock) / steps)
        found["wall_ms"].append(1e3 * (time.perf_counter() - wall) / steps)
        found["regret"].append(regret(y, bandit.pulls_).relative)
        found["distinct"].append(len(np.unique(bandit.pulls_)))
        found["atoms"].append(len(getattr(bandit, "dictionary_", [])))
        found["batches"].append(getattr(bandit, "n_batches_", steps))
    return {name: float(np.median(values)) for name, values in found.items()}


def show(name: str, entry: dict[str, Any]) -> None:
    print(
        f"  {name:44s} R/R_uniform {entry['regret']:.3f}, {entry['ms']:.3f} ms a step ({entry['wall_ms']:.3f} of wall time), "
        f"{entry['distinct']:.0f} arms, {entry['atoms']:.0f} atoms, {entry['batches']:.0f} batches",
        flush=True,
    )


def tables(seeds: int = 3) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, steps in (("abalone", 1000), ("abalone", 3000), ("cadata", 1000), ("bandit_hpobench", 1000)):
        data = table(name)
        if data is None:
            continue
        X, y = data
        fitted = hyperparameters(X, y)
        for label, noise in (("likelihood", fitted.noise), ("0.1", NOISE)):
            shared = {"noise": noise, "kernel": fitted.kernel}
            makers: dict[str, Callable[[int], Any]] = {
                "GPUCB": lambda seed, X=X, shared=shared: GPUCB(X, random_state=seed, **shared),
                "BatchBKB": lambda seed, X=X, shared=shared: BatchBKB(X, random_state=seed, **shared),
            }
            if name == "abalone" and steps == 1000:
                makers["BKB"] = lambda seed, X=X, shared=shared: BKB(X, random_state=seed, **shared)
            makers["plain counts"] = lambda seed, X=X, shared=shared: PlainCounts(X, random_state=seed, **shared)
            if name == "abalone":
                makers["plain batches"] = lambda seed, X=X, shared=shared: PlainBatch(
                    X, random_state=seed, **shared
                )
            for kind, make in makers.items():
                few = 1 if kind.startswith("plain") else seeds
                entry = pull(make, y, steps, few)
                key = f"{name}, T = {steps}, noise {label}, {kind}"
                result[key] = entry | {"length_scale": float(fitted.kernel.length_scale), "noise": float(noise)}
                show(key, entry)
    return result


def widths(seeds: int = 3) -> dict[str, Any]:
    data = table("abalone")
    if data is None:
        return {}
    X, y = data
    fitted = hyperparameters(X, y)
    result = {}
    for label, noise in (("likelihood", fitted.noise), ("0.1", NOISE)):
        for beta in (1.0, 2.0, 3.0, "logdet", "public", "theory", "theory-sum"):
            for cls in (GPUCB, BatchBKB):
                if cls is GPUCB and isinstance(beta, str) and beta.startswith("theory"):
                    continue

                def make(seed: int, cls: Any = cls, beta: Any = beta, noise: float = noise) -> Any:
                    return cls(X, fitted.kernel, noise=noise, beta=beta, random_state=seed)

                key = f"noise {label}, beta {beta}, {cls.__name__}"
                result[key] = pull(make, y, 1000, seeds)
                show(key, result[key])
    return result


def branin(x: Any) -> float:
    a, b = x
    inside = b - 5.1 / (4 * np.pi**2) * a * a + 5 / np.pi * a - 6
    return float(inside**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10)


_A = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def hartmann6(x: Any) -> float:
    return -float(np.array([1, 1.2, 3, 3.2]) @ np.exp(-(_A * (np.asarray(x) - _P) ** 2).sum(axis=1)))


def ackley5(x: Any) -> float:
    x = np.asarray(x)
    return float(-20 * np.exp(-0.2 * np.sqrt((x**2).mean())) - np.exp(np.cos(2 * np.pi * x).mean()) + 20 + np.e)


def levy4(x: Any) -> float:
    w = 1 + (np.asarray(x) - 1) / 4
    middle = ((w[:-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:-1] + 1) ** 2)).sum()
    return float(np.sin(np.pi * w[0]) ** 2 + middle + (w[-1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[-1]) ** 2))


def rosenbrock4(x: Any) -> float:
    x = np.asarray(x)
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


FUNCTIONS = {
    "branin": (branin, [(-5.0, 10.0), (0.0, 15.0)], 0.39788735772973816),
    "hartmann6": (hartmann6, [(0.0, 1.0)] * 6, -3.322368011391339),
    "ackley5": (ackley5, [(-32.768, 32.768)] * 5, 0.0),
    "levy4": (levy4, [(-10.0, 10.0)] * 4, 0.0),
    "rosenbrock4": (rosenbrock4, [(-5.0, 10.0)] * 4, 0.0),
}
UNSEEN = ("levy4", "rosenbrock4")
"""Functions that played no part in the choice of minimize's defaults; half as many seeds."""

FIRST_SEED = 1000
"""Smaller ones were looked at while the defaults were chosen."""


def theirs(f: Callable[[Any], float], bounds: list[Any], seed: int) -> float:
    from bayes_opt import BayesianOptimization

    names = [f"x{i:02d}" for i in range(len(bounds))]
    optimizer = BayesianOptimization(
        lambda **point: -f([point[name] for name in names]),
        dict(zip(names, bounds, strict=True)),
        random_state=seed,
        verbose=0,
        allow_duplicate_points=True,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer.maximize(init_points=5, n_iter=95)
    return -float(optimizer.max["target"])


def bayes_opt(seeds: int = 10) -> dict[str, Any]:
    """Run all functions with one seed after the other; what is measured is kept."""
    names = ("ours", "theirs", "our_seconds", "their_seconds")
    result: dict[str, Any] = {name: {key: [] for key in names} for name in FUNCTIONS}
    for number in range(seeds):
        for name, (f, bounds, least) in FUNCTIONS.items():
            if name in UNSEEN and number >= seeds // 2:
                continue
            both, seed = result[name], FIRST_SEED + number
            clock = time.process_time()
            both["ours"].append(minimize(f, bounds, 100, random_state=seed).fun - least)
            middle = time.process_time()
            with engine.single_blas():
                both["theirs"].append(theirs(f, bounds, seed) - least)
            both["our_seconds"].append((middle - clock) / 100)
            both["their_seconds"].append((time.process_time() - middle) / 100)
            each = np.array(both["their_seconds"]) / np.array(both["our_seconds"])
            both["speed"] = {"median": float(np.median(each)), "min": float(each.min()), "max": float(each.max())}
            print(
                f"  {name} {seed}: {both['ours'][-1]:.2e}, bayes_opt {both['theirs'][-1]:.2e}; "
                f"{1e3 * both['our_seconds'][-1]:.1f} ms a step, bayes_opt {1e3 * both['their_seconds'][-1]:.1f}",
                flush=True,
            )
        _keep("bayes_opt", {name: both for name, both in result.items() if both["ours"]})
    return result


def _keep(part: str, found: dict[str, Any]) -> None:
    """Put a part into the file of results."""
    path = RESULTS / "bandits.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    for name in ("measured_with", "note"):
        known.pop(name, None)
    save("bandits", known | {part: found})


def flat(steps: int = 5000) -> dict[str, Any]:
    """Run 5,000 steps of minimize; the cost of a step in each 500."""
    marks: list[float] = []

    def note(x: Any, value: float) -> None:
        marks.append(time.process_time())

    found = minimize(hartmann6, FUNCTIONS["hartmann6"][1], steps, random_state=0, callback=note)
    parts = [1e3 * (marks[i + 499] - marks[i]) / 499 for i in range(0, steps, 500)]
    print("  ms a step in each 500 of 5,000 steps: " + ", ".join(f"{part:.1f}" for part in parts), flush=True)
    return {"ms": parts, "simple_regret": found.fun - FUNCTIONS["hartmann6"][2]}


def new_arms(seeds: int = 3) -> dict[str, Any]:
    """Run bandits where most pulls are of new arms: a wavy function on a grid with a wide bound, and a large table."""
    side = np.linspace(0.0, 1.0, 25)
    grid = np.stack(np.meshgrid(side, side, side), axis=-1).reshape(-1, 3)
    rng = np.random.default_rng(0)
    waves = np.cos(grid @ rng.standard_normal((3, 2000)) / 0.2 + 2 * np.pi * rng.random(2000))
    problems = {"a made grid": (grid, waves @ rng.standard_normal(2000) / np.sqrt(1000), RBF(0.2), "logdet")}
    data = table("bandit_hpobench")
    if data is not None:
        problems["bandit_hpobench"] = (*data, hyperparameters(*data).kernel, 2.0)
    result = {}
    for name, (X, y, kernel, beta) in problems.items():
        for cls in (AutoUCB, BatchBKB):

            def make(seed: int, cls: Any = cls, X: Any = X, kernel: Any = kernel, beta: Any = beta) -> Any:
                return cls(X, kernel, noise=NOISE, beta=beta, random_state=seed)

            entry = pull(make, y, 400, seeds) | {"arms": len(X)}
            result[f"{name}, {cls.__name__}"] = entry
            show(f"{name}, {cls.__name__}", entry)
    return result


PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "new_arms": new_arms,
    "tables": tables,
    "widths": widths,
    "flat": flat,
    "bayes_opt": bayes_opt,
}


def run(parts: Any = tuple(PARTS), *numbers: int) -> None:
    os.environ["SQUEAK_NUM_THREADS"] = "1"
    for part in parts:
        _keep(part, PARTS[part](*numbers))


if __name__ == "__main__":
    run(sys.argv[1:2] or tuple(PARTS), *(int(value) for value in sys.argv[2:]))
