"""Searches of a box against other optimisers: simple regret after each trial, ranks and time a step, one thread.

``python -m benchmarks searches --help`` tells the options. Defaults of squeak's search were chosen on the functions of
``TUNED`` alone, with seeds below ``FIRST_SEED``; those of ``UNSEEN`` played no part in any choice of this version, and are run
once, at the end. (Hartmann-6 was looked at when the first version of ``minimize`` was written.) Peers run with their
own defaults, and those that are not installed are left out: GPSampler and BoTorch need torch, CMA-ES the package cmaes.

Every search is kept as a line of ``results/searches.jsonl``, and what is there is not run again unless ``--again`` is
given: a run that was stopped continues, and may be done by several processes, each with methods of its own. Methods are
ranked on the functions and seeds that all of them have been run on.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, anonymous_bytes, save
from benchmarks.searches_functions import ALL, FIRST_SEED, PARTS, TUNED, WIDE, Problem
from benchmarks.searches_methods import METHODS, versions
from benchmarks.searches_page import Records, summary
from squeak.bandits import BoxUCB
from squeak.bandits.fronts import non_dominated

LINES = RESULTS / "searches.jsonl"
LONG, LONG_BOX = RESULTS / "long.tmp", RESULTS / "long_box.tmp"


def search(method: str, problem: Problem, seed: int, trials: int) -> tuple[list[float], float]:
    """Return the regret of the best value seen after each trial, without its noise, and the seconds a step."""
    clock, f = time.process_time(), problem.f
    ask, tell = METHODS[method][0](problem, seed, trials)
    spent = time.process_time() - clock
    noise = problem.noise * np.random.default_rng(seed).standard_normal(trials)
    curve, best = [], np.inf
    warnings.simplefilter("ignore")  # a learner that does not converge is a value like any other
    for t in range(trials):
        clock = time.process_time()
        point = ask()
        spent += time.process_time() - clock
        exact = f(point)
        if exact + noise[t] < best:
            best, incumbent = exact + noise[t], exact
        curve.append(incumbent - problem.least)
        clock = time.process_time()
        tell(point, exact + noise[t])
        spent += time.process_time() - clock
    return curve, spent / trials


def volume(values: np.ndarray, reference: np.ndarray) -> float:
    """Return the area that points dominate below a reference, for two objectives that are minimised."""
    values = values[(values < reference).all(axis=1)]
    if not len(values):
        return 0.0
    front = values[non_dominated(-values)]
    front = front[np.argsort(front[:, 0])]
    ends = np.append(front[1:, 0], reference[0])
    return float(((ends - front[:, 0]) * (reference[1] - front[:, 1])).sum())


def zdt(number: int, point: Any) -> tuple[float, float]:
    """Return the first or second function of Zitzler, Deb and Thiele; a front that is convex, or that is not."""
    x = np.asarray(point)
    g = 1 + 9 * x[1:].mean()
    share = x[0] / g
    return float(x[0]), float(g * (1 - (np.sqrt(share) if number == 1 else share**2)))


def fronts(seeds: int, trials: int) -> dict[str, Any]:
    """Measure the area that the front of a search with two objectives dominates; the largest is 3.667 or 3.333 less."""
    import optuna

    from squeak.adapters.optuna import SqueakSampler

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    makers = {"squeak": SqueakSampler, "NSGA-II": optuna.samplers.NSGAIISampler, "TPE": optuna.samplers.TPESampler}
    result: dict[str, Any] = {}
    for number in (1, 2):
        for name, make in makers.items():
            found = []
            for seed in range(FIRST_SEED, FIRST_SEED + seeds):
                study = optuna.create_study(directions=["minimize"] * 2, sampler=make(seed=seed))
                study.optimize(
                    lambda t: zdt(number, [t.suggest_float(f"x{i}", 0, 1) for i in range(6)]), n_trials=trials
                )
                found.append(volume(np.array([trial.values for trial in study.trials]), np.array([1.1, 6.0])))
            result[f"ZDT{number}, {name}"] = found
            print(f"  ZDT{number} {name}: area {np.mean(found):.3f} on average", flush=True)
    return result


def long(evaluations: int, workers: int = 16) -> dict[str, Any]:
    """Search Ackley-5 with so many points pending at any time; the cost of a step and the memory, by tenths.

    A step tells the value of one of the pending points, drawn at random, and asks for another. After each tenth the
    search is saved; a run that was stopped continues from there.
    """
    problem, start = TUNED["Ackley-5"](0), anonymous_bytes()
    found: dict[str, Any] = {"evaluations": evaluations, "workers": workers, "ms": [], "mb": [], "regret": []}
    if LONG.exists():
        found, box = json.loads(LONG.read_text()), BoxUCB.load(LONG_BOX)
    else:
        box = BoxUCB(problem.sides, random_state=0)
        for _ in range(workers):
            box.ask()
    for i, tenth in enumerate(np.array_split(np.arange(found["evaluations"]), 10)):
        if i < len(found["ms"]):
            continue
        clock, rng = time.process_time(), np.random.default_rng(i)
        for _ in tenth:
            point = box.pending_[int(rng.integers(len(box.pending_)))]
            box.tell(point, -problem.f(point))
            box.ask()
        found["ms"].append(1e3 * (time.process_time() - clock) / len(tenth))
        found["mb"].append((anonymous_bytes() - start) / 1e6)
        found["regret"].append(-box.best_.mean)
        box.save(LONG_BOX)
        LONG.write_text(json.dumps(found))
        print(f"  {box.n_told_:,} told: {found['ms'][-1]:.1f} ms a step, {found['mb'][-1]:.0f} MB", flush=True)
    LONG.unlink()
    LONG_BOX.unlink()
    return found


def installed() -> Iterator[str]:
    for name in METHODS:
        try:
            versions(name)
        except importlib.metadata.PackageNotFoundError as problem:
            print(f"  {name} is left out: {problem.name} is not installed")
        else:
            yield name


def recorded() -> Records:
    """Return the searches that are kept, by function, method, seed and trials; of several with one key the last one."""
    lines = LINES.read_text().splitlines() if LINES.exists() else []
    return {(r["function"], r["method"], r["seed"], r["trials"]): r for r in map(json.loads, lines)}


def run(options: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks searches")
    parser.add_argument("--seeds", type=int, default=10, help=f"so many from {FIRST_SEED} on")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument(
        "--methods", nargs="*", choices=list(METHODS), help="those that are installed when left out"
    )
    parser.add_argument("--functions", nargs="*", choices=list(ALL), help="all when left out")
    parser.add_argument("--only", choices=[*PARTS, "wide", "fronts", "long"])
    parser.add_argument("--evaluations", type=int, default=10_000, help="of the long search")
    parser.add_argument("--again", action="store_true", help="search again where a line is kept")
    given = parser.parse_args(options or [])
    os.environ["SQUEAK_NUM_THREADS"] = "1"
    methods = given.methods or list(installed())
    parts = {"fronts": {}, "long": {}, "wide": WIDE, **PARTS}.get(given.only or "", ALL)
    for seed in range(FIRST_SEED, FIRST_SEED + given.seeds):
        for name in given.functions or parts:
            for method in methods:
                if given.again or (name, method, seed, given.trials) not in recorded():
                    keep(name, method, seed, given.trials)
    found = summary(recorded(), given.trials)
    path = RESULTS / "searches.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    more = {name: before[name] for name in ("fronts", "long") if name in before}
    if given.only in (None, "fronts"):
        more["fronts"] = fronts(given.seeds, given.trials)
    if given.only in (None, "long"):
        more["long"] = long(given.evaluations)
    for part in PARTS:
        print(f"  mean ranks, {part}: {found['ranks'][part]}")
    save("searches", found | more)


def keep(name: str, method: str, seed: int, trials: int) -> None:
    """Search once, and add the line."""
    try:
        regret, seconds = search(method, ALL[name](seed), seed, trials)
    except Exception as problem:  # one method that fails must not end hours of others
        print(f"  {name}, {method}, seed {seed}: failed, {type(problem).__name__}: {problem}", flush=True)
        return
    steps = [(t, float(f"{v:.4g}")) for t, v in enumerate(regret) if t == 0 or v != regret[t - 1]]
    key = {"function": name, "method": method, "seed": seed, "trials": trials}
    line = key | {"ms": round(1e3 * seconds, 2), "with": versions(method), "regret": steps}
    RESULTS.mkdir(exist_ok=True)
    with LINES.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(f"  {name:28s} {method:10s} seed {seed}: {regret[-1]:.2e}, {1e3 * seconds:.0f} ms a step", flush=True)
