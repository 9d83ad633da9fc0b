"""SGD with random features (Carratino's figures 3.1 and 3.2, and the four regimes of its table), in small.

Published as curves only: SUSY and HIGGS with 200,000 rows for training and 100,000 for tests, features cos(w·x + b) with
w ~ N(0, I), 10 repetitions. Here: the rows at hand, four fifths of them for training, columns standardised.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from benchmarks.common import DATA

from reproduce.figures import figure
from squeak import RandomFeatureRegressor
from squeak.kernels import RBF

WIDTHS = {"susy_30k": 4.0, "higgs_18k": 5.0}
REPEATS, PASSES, SMALL = 3, 5, 2_500
FEATURES = (5, 10, 25, 50, 100, 200, 400, 800, 1_600)
STEPS = (0.01, 0.1, 1.0, 10.0)


def halves(name: str, seed: int, n: int | None = None) -> tuple[np.ndarray, ...] | None:
    """Return rows and targets ±1 for training (n of them at most) and for tests; None where the set is absent."""
    path = DATA / f"{name}.npz"
    if not path.exists():
        return None
    with np.load(path) as file:
        X, y = file["X"].astype(np.float64), np.where(file["y"] > 0, 1.0, -1.0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    order = np.random.default_rng(seed).permutation(len(X))
    cut = int(0.8 * len(X))
    train, test = order[:cut][:n], order[cut:]
    return X[train], y[train], X[test], y[test]


def error(data: tuple[np.ndarray, ...], seed: int, **options: Any) -> float:
    """Return the classification error on the test rows; NaN where the steps were too long."""
    X, y, T, t = data
    options = {"validation_fraction": 0.0, "replacement": True, "random_state": seed} | options
    try:
        model = RandomFeatureRegressor(**options).fit(X, y)
        return float(np.mean(np.sign(model.predict(T)) != t))
    except (ValueError, FloatingPointError):
        return float("nan")


def averaged(name: str, repeats: int, n: int | None = None, **options: Any) -> list[float]:
    """Return mean and spread of the error over splits and draws of the features."""
    errors = [error(halves(name, seed, n), seed, kernel=RBF(WIDTHS[name]), **options) for seed in range(repeats)]
    return [float(np.mean(errors)), float(np.std(errors))]


def run() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in WIDTHS:
        data = halves(name, 0)
        if data is None:
            print(f"  {name} is not at hand: set SQUEAK_DATA")
            continue
        n = len(data[1])
        root = math.isqrt(n)
        facts: dict[str, Any] = {"rows": n, "root": root, "features": [], "batches": [], "regimes": []}
        for m in FEATURES:
            facts["features"].append(
                [m, *averaged(name, REPEATS, n_features=m, batch_size=root, step=1.0, max_iter=PASSES)]
            )
            print(f"  {name}, {m} features: {facts['features'][-1][1]:.4f}", flush=True)
        for b in (10, root, 10 * root, n):
            for step in STEPS:
                entry = averaged(name, 1, n_features=root, batch_size=b, step=step, max_iter=1)
                facts["batches"].append([b, step, entry[0]])
            print(f"  {name}, batches of {b}: {facts['batches'][-len(STEPS) :]}", flush=True)
        root = math.isqrt(SMALL)
        regimes = {"1": (1, 1 / SMALL, root), "2": (1, 1 / root, 1), "3": (root, 1.0, 1), "4": (SMALL, 1.0, root)}
        for label, (b, step, passes) in regimes.items():
            options = {"batch_size": b, "step": step, "max_iter": passes, "n_features": 400}
            facts["regimes"].append(
                [label, b, step, passes, *averaged(name, 1 if label == "1" else 3, SMALL, **options)]
            )
            print(f"  {name}, regime {label}: {facts['regimes'][-1]}", flush=True)
        found[name] = facts
    if found:
        draw(found)
    return found


def draw(found: dict[str, Any]) -> None:
    with figure("random_features", 2) as axes:
        for ax, (name, facts) in zip(axes, found.items(), strict=False):
            m, mean, spread = np.array(facts["features"]).T
            ax.errorbar(m, mean, spread, fmt="o-", capsize=2, ms=4)
            ax.axvline(facts["root"], color="grey", ls=":", label="√n")
            ax.set(xscale="log", xlabel="random features", ylabel="classification error", title=name)
            ax.legend()


def page(found: dict[str, Any]) -> str:
    text = [
        "## SGD with random features (Carratino's thesis, figures 3.1 and 3.2)",
        "",
        "Classification error of least squares on random Fourier features by mini-batch steps, rows drawn with replacement. The thesis has curves only, on 200,000 rows of SUSY and HIGGS "
        "(width not given); here the samples at hand with the widths 4 and 5 on standardised columns. Steps are in units of 1/κ², as the thesis' are.",
        "",
        f"**Error against the number of features** after {PASSES} passes, batches of √n, step 1; {REPEATS} splits. Published: flat beyond a threshold of the order of √n ≈ 447.",
        "",
    ]
    names = list(found)
    text += [
        "| features | " + " | ".join(f"{n}, √n = {found[n]['root']}" for n in names) + " |",
        "|---|" + "---|" * len(names),
    ]
    for place, m in enumerate(FEATURES):
        cells = [found[n]["features"][place] for n in names]
        text.append(f"| {m:,} | " + " | ".join(f"{c[1]:.4f} ± {c[2]:.4f}" for c in cells) + " |")
    text += ["", "![random features](images/random_features.png)", ""]
    text += [
        "**Error against batch and step** after one pass, √n features. Published: the best step grows with the batch, and batches larger than √n cannot reach the best error in one pass.",
        "",
        "| data | batch | " + " | ".join(f"step {s:g}" for s in STEPS) + " |",
        "|---|---|" + "---|" * len(STEPS),
    ]
    for n in names:
        for place in range(0, len(found[n]["batches"]), len(STEPS)):
            row = found[n]["batches"][place : place + len(STEPS)]
            best = min((r[2] for r in row if r[2] == r[2]), default=float("nan"))
            cells = [
                "diverges" if r[2] != r[2] else f"**{r[2]:.4f}**" if r[2] == best else f"{r[2]:.4f}" for r in row
            ]
            text.append(f"| {n} | {row[0][0]:,} | " + " | ".join(cells) + " |")
    text += [
        "",
        f"**The four regimes** of the theory have the same product of step and number of steps, √n; {SMALL:,} rows, 400 features, three splits (the first regime one split). Published: all four are optimal.",
        "",
        "| data | "
        + " | ".join(
            f"{w}"
            for w in (
                "1 row, 1/n, √n passes",
                "1 row, 1/√n, 1 pass",
                "√n rows, 1, 1 pass",
                "all rows, 1, √n passes",
            )
        )
        + " |",
        "|---|---|---|---|---|",
    ]
    for n in names:
        text.append(f"| {n} | " + " | ".join(f"{r[4]:.4f} ± {r[5]:.4f}" for r in found[n]["regimes"]) + " |")
    text += ["", *verdict(found)]
    return "\n".join(text) + "\n"


def verdict(found: dict[str, Any]) -> list[str]:
    """Return what the tables say beside what the thesis says."""
    lines = []
    for name, facts in found.items():
        m, mean, spread = np.array(facts["features"]).T
        enough = int(m[np.flatnonzero(mean <= mean.min() + spread[mean.argmin()])[0]])
        best = {b: min(e for c, _, e in facts["batches"] if c == b and e == e) for b, _, _ in facts["batches"]}
        small = min(error for b, error in best.items() if b <= facts["root"])
        large = min(error for b, error in best.items() if b > facts["root"])
        means = [r[4] for r in facts["regimes"]]
        lines.append(
            f"- {name}: from {enough:,} features on ({enough / facts['root']:.1f}·√n) the error is within its spread of the least; one pass reaches {small:.4f} with batches of at most √n rows "
            f"and {large:.4f} with larger ones; the four regimes lie within {max(means) - min(means):.4f} of each other."
        )
    return lines
