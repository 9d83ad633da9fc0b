"""Regret of exact GP-UCB, BKB and batched BKB on abalone's 4,177 rows as arms.

The papers on BKB show such curves on Abalone and Cadata; the documents at hand print no numbers of them. Reward: rings, standardised, plus noise of
standard deviation 0.1; length scale by marginal likelihood on 400 rows; mean of three runs.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from benchmarks.common import DATA

from reproduce.figures import figure
from squeak.bandits import BKB, GPUCB, BatchBKB, UniformArms, fit_hyperparameters, regret
from squeak.kernels import RBF

STEPS, SEEDS, NOISE = 1_000, 3, 0.1
MAKERS = {
    "uniform": lambda arms, kernel, seed: UniformArms(arms, kernel, random_state=seed),
    "exact GP-UCB": lambda arms, kernel, seed: GPUCB(arms, kernel, noise=NOISE, random_state=seed),
    "BKB": lambda arms, kernel, seed: BKB(arms, kernel, noise=NOISE, oversampling=5, random_state=seed),
    "batched BKB": lambda arms, kernel, seed: BatchBKB(
        arms, kernel, noise=NOISE, oversampling=5, batch_factor=2, random_state=seed
    ),
}


def run() -> dict[str, Any]:
    path = DATA / "abalone.npz"
    if not path.exists():
        print("  abalone is not at hand: set SQUEAK_DATA")
        return {}
    with np.load(path) as file:
        arms, y = file["X"].astype(np.float64), file["y"].astype(np.float64)
    arms = (arms - arms.mean(axis=0)) / arms.std(axis=0)
    truth = (y - y.mean()) / y.std()
    arms, first = np.unique(arms, axis=0, return_index=True)
    truth = truth[first]
    part = np.random.default_rng(0).choice(len(arms), 400, replace=False)
    some = truth[part]
    found = fit_hyperparameters(arms[part], np.ones(len(part)), some, float(some @ some), RBF(1.0), 1.0)
    kernel = found.kernel
    table: dict[str, Any] = {}
    curves: dict[str, np.ndarray] = {}
    for name, make in MAKERS.items():
        runs, seconds = [], []
        for seed in range(SEEDS):
            rng = np.random.default_rng(100 + seed)
            bandit = make(arms, kernel, seed)
            start = time.perf_counter()
            bandit.run(lambda i, rng=rng: truth[i] + NOISE * rng.standard_normal(), STEPS)
            seconds.append((time.perf_counter() - start) / STEPS * 1e3)
            runs.append(regret(truth, bandit.pulls_).cumulative)
        curves[name] = np.mean(runs, axis=0)
        ends = np.array([run[-1] for run in runs])
        table[name] = {"regret": float(ends.mean()), "spread": float(ends.std()), "ms": float(np.median(seconds))}
        print(f"  {name:<13} {ends.mean():8.1f} ± {ends.std():.1f}, {np.median(seconds):.2f} ms a step", flush=True)
    with figure("regret", 1) as axis:
        for name, curve in curves.items():
            axis.plot(np.arange(1, len(curve) + 1), curve, label=name)
        axis.set(xlabel="pulls", ylabel="regret", title=f"abalone, {len(arms):,} arms")
        axis.legend()
    return {"arms": len(arms), "kernel": repr(kernel), "table": table}


def page(found: dict[str, Any]) -> str:
    if not found:
        return ""
    uniform = found["table"]["uniform"]["regret"]
    text = [
        "## Regret curves",
        "",
        f"abalone, {found['arms']:,} different rows as arms, {STEPS:,} pulls, noise {NOISE:g}, {found['kernel']}, mean of {SEEDS} runs. The documents at hand print no "
        "numbers for these curves.",
        "",
        "| | regret | of uniform's | ms a step |",
        "|---|---|---|---|",
    ]
    for name, row in found["table"].items():
        text.append(
            f"| {name} | {row['regret']:.0f} ± {row['spread']:.0f} | {row['regret'] / uniform:.3f} | {row['ms']:.2f} |"
        )
    return "\n".join([*text, "", "![regret](images/regret.png)"]) + "\n"
