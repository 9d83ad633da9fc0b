"""How often f lies within the intervals of the bandits: on functions that were made, and on real tables.

``python -m benchmarks.coverage`` measures it and keeps it beside the other results of the bandits.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.bandits import NOISE, TABLES, hyperparameters, table
from benchmarks.common import RESULTS, save, versions
from benchmarks.coverage_page import lines
from squeak.bandits import BKB, GPUCB, AutoUCB, BatchBKB
from squeak.bandits.units import FIRST
from squeak.kernels import RBF

STEPS = 200
CLASSES = (GPUCB, BKB, BatchBKB, AutoUCB)
LEARNED: dict[str, dict[str, Any]] = {
    "width fitted": {"scale": "auto", "refit": "doubling"},
    "nothing given": {"scale": "auto"},
}
"""What a bandit is told that knows neither kernel nor noise: to fit them, or nothing, as by default."""

MADE, REAL = 40, 4
"""How many runs the made functions have, each of its own, and how many each table has."""

WIDTHS: dict[str, dict[str, Any]] = {"2": {}, '"logdet"': {"beta": "logdet"}}


@dataclass
class Problem:
    """A function on some arms, and what a bandit that knows the prior is told; ``norm``: that of f, if known."""

    arms: np.ndarray
    f: np.ndarray
    known: dict[str, Any]
    norm: float | None = None


def drawn(seed: int) -> Problem:
    """Return a draw of a Gaussian process on 400 points of the square, and its norm on these arms."""
    rng = np.random.default_rng(seed)
    arms, kernel = rng.random((400, 2)), RBF(0.2)
    values, vectors = np.linalg.eigh(kernel(arms))
    there = values > 1e-10 * values[-1]
    weights = rng.standard_normal(int(there.sum()))
    f = vectors[:, there] @ (np.sqrt(values[there]) * weights)
    return Problem(arms, f, {"kernel": kernel, "noise": NOISE}, float(np.linalg.norm(weights)))


def bounded(seed: int) -> Problem:
    """Return a function of norm 2 in the kernel's space: what the theorem assumes."""
    rng = np.random.default_rng(seed)
    arms, kernel = rng.random((400, 2)), RBF(0.2)
    weights = rng.standard_normal(400)
    f = kernel(arms) @ weights
    return Problem(arms, 2.0 * f / np.sqrt(weights @ f), {"kernel": kernel, "noise": NOISE}, 2.0)


def of_table(name: str) -> Problem | None:
    """Return a table as a bandit, with kernel and noise by likelihood of 1,000 rows; None where it is absent."""
    data = table(name)
    if data is None:
        return None
    fitted = hyperparameters(*data)
    return Problem(*data, {"kernel": fitted.kernel, "noise": fitted.noise})


def covered(bandit: Any, f: np.ndarray, seed: int) -> dict[str, float]:
    """Run a bandit; return how often f lay within its intervals whenever it was to choose by them.

    ``share``: of arms and rounds. ``next``: of the arms chosen. ``lowest``: of the arms in the worst round.
    ``whole``: 1 if in every round all arms were covered.
    """
    rng = np.random.default_rng(100 + seed)
    shares, chosen, widths = [], [], []
    while bandit.n_told_ < STEPS:
        inside = None
        if bandit.n_told_ >= (FIRST if bandit.scale else 1):
            mean, std = bandit.posterior()
            widths.append(bandit.beta_)
            inside = np.abs(f - mean) <= bandit.beta_ * std + 1e-9
            shares.append(inside.mean())
        arms = np.ravel(bandit.ask())
        chosen += [] if inside is None else inside[arms].tolist()
        bandit.tell(arms, f[arms] + NOISE * rng.standard_normal(len(arms)))
    return {
        "share": float(np.mean(shares)),
        "next": float(np.mean(chosen)),
        "lowest": float(min(shares)),
        "whole": float(min(shares) == 1.0),
        "beta": float(np.mean(widths)),
    }


def settings(problem: Problem) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield what a bandit is told and its width, in words and as parameters."""
    for told, given in {"kernel and noise": problem.known, **LEARNED}.items():
        for width, beta in WIDTHS.items():
            yield told, width, given | beta
    if problem.norm is not None:
        yield "kernel, noise and norm", '"logdet"', problem.known | {"beta": "logdet", "norm": problem.norm}


def measured(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """Return one entry for each setting, with the means of every class over the runs, one on each problem."""
    runs: dict[tuple[str, str], dict[str, list[dict[str, float]]]] = {}
    for seed, problem in enumerate(problems):
        for told, width, given in settings(problem):
            for kind in CLASSES:
                clock = time.process_time()
                facts = covered(kind(problem.arms, random_state=seed, **given), problem.f, seed)
                facts["seconds"] = time.process_time() - clock
                runs.setdefault((told, width), {}).setdefault(kind.__name__, []).append(facts)
    return [
        {"told": told, "beta": width, "runs": len(found["GPUCB"])}
        | {
            kind: {key: float(np.mean([run[key] for run in each])) for key in each[0]}
            for kind, each in found.items()
        }
        for (told, width), found in runs.items()
    ]


def run() -> None:
    """Measure all problems, and add what was found to the results of the bandits."""
    os.environ["SQUEAK_NUM_THREADS"] = "1"
    problems = {name: [make(seed) for seed in range(MADE)] for name, make in (("draw", drawn), ("norm 2", bounded))}
    for name in TABLES:
        found = of_table(name)
        if found is not None:
            problems[name] = [found] * REAL
    result: dict[str, Any] = {"measured_with": versions(), "steps": STEPS, "noise": NOISE, "problems": {}}
    for name, each in problems.items():
        result["problems"][name] = {"arms": len(each[0].f), "settings": measured(each)}
        print("\n".join(lines(name, result["problems"][name])), flush=True)
    save("bandits", json.loads((RESULTS / "bandits.json").read_text()) | {"coverage": result})


if __name__ == "__main__":
    run()
