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
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bandits import ackley5, branin, hartmann6, levy4, rosenbrock4
from benchmarks.common import DATA, RESULTS, save
from squeak import __version__
from squeak.bandits import BoxUCB, Categorical, Integer, Real
from squeak.bandits.fronts import non_dominated

LINES = RESULTS / "searches.jsonl"

FIRST_SEED = 2000
"""Smaller ones were looked at while the defaults were chosen."""


@dataclass
class Problem:
    """A function to minimise over a box; ``f`` is without noise, and ``least`` its minimum, where it is known."""

    f: Callable[[list[Any]], float]
    sides: list[Any]
    least: float
    noise: float = 0.0


def michalewicz(x: Any) -> float:
    x = np.asarray(x)
    return -float((np.sin(x) * np.sin(np.arange(1, len(x) + 1) * x * x / np.pi) ** 20).sum())


def bumps(seed: int) -> Problem:
    """Return three numbers and a category; each category has a bump of its own, the highest is 1."""
    centres = np.random.default_rng(500 + seed).random((3, 3))
    heights = dict(zip("abc", (0.85, 1.0, 0.7), strict=True))

    def f(point: list[Any]) -> float:
        gap = np.array(point[:3]) - centres["abc".index(point[3])]
        return -heights[point[3]] * float(np.exp(-gap @ gap / 0.25))

    return Problem(f, [Real(0.0, 1.0)] * 3 + [Categorical(list("abc"))], -1.0, 0.05)


def mixed(seed: int) -> Problem:
    """Return two categories, a whole number and two numbers of which one is logarithmic, with noise."""
    rng = np.random.default_rng(700 + seed)
    offset, centre = rng.random((4, 3)), rng.random((4, 2))
    offset.flat[rng.integers(12)] = -0.2
    low = offset.min()

    def f(point: list[Any]) -> float:
        first, second, whole, rate, x = point
        i, j = "pqrs".index(first), "uvw".index(second)
        gap = (
            (np.log10(rate) / -4.0 - centre[i, 0]) ** 2 + (x - centre[i, 1]) ** 2 + ((whole - 3 - 2 * j) / 12) ** 2
        )
        return float(offset[i, j] - low + 2.0 * gap)

    sides = [
        Categorical(list("pqrs")),
        Categorical(list("uvw")),
        Integer(1, 12),
        Real(1e-4, 1.0, log=True),
        Real(0.0, 1.0),
    ]
    return Problem(f, sides, 0.0, 0.1)


@cache
def rows(name: str) -> tuple[np.ndarray, ...]:
    """Return rows and targets to learn from and to be judged by."""
    with np.load(DATA / f"{name}.npz") as file:
        X, y = file["X"].astype(float), file["y"].astype(float)
    some = np.random.default_rng(0).permutation(len(X))[:1600]
    X, y = X[some], y[some]
    X, y = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-12), (y - y.mean()) / y.std()
    return X[:800], y[:800], X[800:], y[800:]


def support_vectors(seed: int) -> Problem:
    """Return the error of support vector regression on cadata, by its four parameters."""
    from sklearn.svm import SVR

    def f(point: list[Any]) -> float:
        C, gamma, epsilon, kernel = point
        X, y, T, t = rows("cadata")
        model = SVR(C=C, gamma=gamma, epsilon=epsilon, kernel=kernel, max_iter=20_000).fit(X, y)
        return float(np.mean((model.predict(T) - t) ** 2))

    logs = [Real(1e-3, 1e3, log=True), Real(1e-4, 10.0, log=True), Real(1e-4, 1.0, log=True)]
    return Problem(f, [*logs, Categorical(["rbf", "sigmoid", "linear"])], 0.0)


def boosting(seed: int) -> Problem:
    """Return the error of boosted trees on cpusmall, by five of their parameters."""
    from sklearn.ensemble import GradientBoostingRegressor

    def f(point: list[Any]) -> float:
        rate, depth, leaf, share, loss = point
        X, y, T, t = rows("cpusmall")
        model = GradientBoostingRegressor(
            learning_rate=rate,
            max_depth=depth,
            min_samples_leaf=leaf,
            subsample=share,
            loss=loss,
            n_estimators=40,
            random_state=0,
        ).fit(X, y)
        return float(np.mean((model.predict(T) - t) ** 2))

    sides = [Real(1e-3, 1.0, log=True), Integer(1, 8), Integer(1, 60, log=True), Real(0.2, 1.0)]
    return Problem(f, [*sides, Categorical(["squared_error", "absolute_error", "huber"])], 0.0)


def real(
    f: Callable[[Any], float], low: float, high: float, sides: int, least: float = 0.0
) -> Callable[[int], Problem]:
    return lambda seed: Problem(f, [Real(low, high)] * sides, least)


TUNED: dict[str, Callable[[int], Problem]] = {
    "Branin": lambda seed: Problem(branin, [Real(-5.0, 10.0), Real(0.0, 15.0)], 0.39788735772973816),
    "Ackley-5": real(ackley5, -32.768, 32.768, 5),
    "Levy-4": real(levy4, -10.0, 10.0, 4),
    "Rosenbrock-4": real(rosenbrock4, -5.0, 10.0, 4),
    "bumps and a category, noisy": bumps,
    "support vectors on cadata": support_vectors,
}
UNSEEN: dict[str, Callable[[int], Problem]] = {
    "Hartmann-6": real(hartmann6, 0.0, 1.0, 6, -3.322368011391339),
    "Ackley-20": real(ackley5, -32.768, 32.768, 20),
    "Levy-10": real(levy4, -10.0, 10.0, 10),
    "Michalewicz-10": real(michalewicz, 0.0, np.pi, 10, -9.6601517),
    "two categories, noisy": mixed,
    "boosted trees on cpusmall": boosting,
}

Ask = tuple[Callable[[], list[Any]], Callable[[list[Any], float], None]]


def squeak(problem: Problem, seed: int, trials: int) -> Ask:
    box = BoxUCB(problem.sides, random_state=seed)
    return box.ask, lambda point, value: box.tell(point, -value)


def of_optuna(name: str) -> Callable[[Problem, int, int], Ask]:
    """Return one of Optuna's samplers, by ask and tell."""

    def make(problem: Problem, seed: int, trials: int) -> Ask:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(sampler=getattr(optuna.samplers, name)(seed=seed))
        asked: list[Any] = []

        def ask() -> list[Any]:
            asked.append(study.ask())
            return [suggested(asked[-1], f"x{i:02d}", side) for i, side in enumerate(problem.sides)]

        return ask, lambda point, value: study.tell(asked[-1], value)

    return make


def suggested(trial: Any, name: str, side: Any) -> Any:
    if isinstance(side, Categorical):
        return trial.suggest_categorical(name, list(side.choices))
    suggest = trial.suggest_int if isinstance(side, Integer) else trial.suggest_float
    return suggest(name, side.low, side.high, log=side.log)


def bayes_opt(problem: Problem, seed: int, trials: int) -> Ask:
    """Return bayes_opt on numbers; categories and whole numbers as its documentation has them for numbers: rounded."""
    from bayes_opt import BayesianOptimization

    names = [f"x{i:02d}" for i in range(len(problem.sides))]
    box = dict.fromkeys(names, (0.0, 1.0))
    optimizer = BayesianOptimization(None, box, random_state=seed, verbose=0, allow_duplicate_points=True)
    rng, last = np.random.default_rng(seed), [None]

    def ask() -> list[Any]:
        n = len(optimizer.space)
        last[0] = dict(zip(names, rng.random(len(names)), strict=True)) if n < 5 else optimizer.suggest()
        return from_unit(problem.sides, [last[0][name] for name in names])

    return ask, lambda point, value: optimizer.register(last[0], -value)


def from_unit(sides: list[Any], units: Any) -> list[Any]:
    """Return the point of one number from 0 to 1 for each side."""
    return [
        side.choices[min(int(u * len(side.choices)), len(side.choices) - 1)]
        if isinstance(side, Categorical)
        else side.decode([u])
        for side, u in zip(sides, units, strict=True)
    ]


def botorch(problem: Problem, seed: int, trials: int) -> Ask:
    """Return BoTorch's single-task model with its log expected improvement, and its mixed form with categories."""
    import torch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Standardize
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    sides = problem.sides
    sobol = torch.quasirandom.SobolEngine(len(sides), scramble=True, seed=seed)
    X: list[Any] = []
    y: list[float] = []

    def ask() -> list[Any]:
        if len(y) < min(2 * len(sides) + 2, 12):
            X.append(sobol.draw(1, dtype=torch.float64)[0])
        else:
            target = torch.tensor(y, dtype=torch.float64)[:, None]
            model = SingleTaskGP(torch.stack(X), target, outcome_transform=Standardize(1))
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            bounds = torch.stack([torch.zeros(len(sides)), torch.ones(len(sides))]).double()
            gain = LogExpectedImprovement(model, best_f=target.max())
            X.append(optimize_acqf(gain, bounds, q=1, num_restarts=5, raw_samples=256)[0][0].detach())
        return from_unit(sides, X[-1].tolist())

    return ask, lambda point, value: y.append(-value)


def smac(problem: Problem, seed: int, trials: int) -> Ask:
    """Return SMAC3's search of hyper-parameters, whose model is a random forest."""
    import ConfigSpace
    from smac import HyperparameterOptimizationFacade, Scenario
    from smac.runhistory.dataclasses import TrialValue

    names = [f"x{i:02d}" for i in range(len(problem.sides))]
    space = ConfigSpace.ConfigurationSpace(seed=seed)
    space.add([config_side(name, side) for name, side in zip(names, problem.sides, strict=True)])
    folder = tempfile.TemporaryDirectory()
    scenario = Scenario(space, output_directory=Path(folder.name), deterministic=True, n_trials=trials, seed=seed)
    facade = HyperparameterOptimizationFacade(
        scenario, lambda config, seed=0: 0.0, logging_level=False, overwrite=True
    )
    asked: list[Any] = [folder]  # which is removed when nobody refers to it any more

    def ask() -> list[Any]:
        asked.append(facade.ask())
        return [asked[-1].config[name] for name in names]

    return ask, lambda point, value: facade.tell(asked[-1], TrialValue(cost=value))


def config_side(name: str, side: Any) -> Any:
    import ConfigSpace

    if isinstance(side, Categorical):
        return ConfigSpace.Categorical(name, list(side.choices))
    kind = ConfigSpace.Integer if isinstance(side, Integer) else ConfigSpace.Float
    return kind(name, (side.low, side.high), log=side.log)


METHODS: dict[str, tuple[Callable[[Problem, int, int], Ask], str]] = {
    "squeak": (squeak, "squeak-learn"),
    "random": (of_optuna("RandomSampler"), "optuna"),
    "TPE": (of_optuna("TPESampler"), "optuna"),
    "GPSampler": (of_optuna("GPSampler"), "torch"),
    "CMA-ES": (of_optuna("CmaEsSampler"), "cmaes"),
    "bayes_opt": (bayes_opt, "bayesian-optimization"),
    "BoTorch": (botorch, "botorch"),
    "SMAC3": (smac, "smac"),
}


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


def version(package: str) -> str:
    return __version__ if package == "squeak-learn" else importlib.metadata.version(package)


def installed() -> Iterator[str]:
    for name, (_, package) in METHODS.items():
        try:
            version(package)
        except importlib.metadata.PackageNotFoundError:
            print(f"  {name} is left out: {package} is not installed")
        else:
            yield name


Records = dict[tuple[str, str, int, int], dict[str, Any]]


def recorded() -> Records:
    """Return the searches that are kept, by function, method, seed and trials; of several with one key the last one."""
    lines = LINES.read_text().splitlines() if LINES.exists() else []
    return {(r["function"], r["method"], r["seed"], r["trials"]): r for r in map(json.loads, lines)}


def curve(record: dict[str, Any]) -> np.ndarray:
    """Return the regret after each trial; the line holds the trials at which it changed."""
    at, values = zip(*record["regret"], strict=True)
    return np.repeat(values, np.diff([*at, record["trials"]]))


def shared(found: Records, methods: Iterable[str], names: Iterable[str], trials: int) -> list[tuple[str, int]]:
    """Return the functions and seeds on which all of the methods have been run."""
    seeds = sorted({seed for _, _, seed, _ in found})
    methods = list(methods)
    return [(n, s) for n in names for s in seeds if all((n, m, s, trials) in found for m in methods)]


def ranks(found: Records, methods: list[str], names: Iterable[str], trials: int) -> dict[str, Any]:
    """Return the mean rank of each method by the last regret, on what they share; equal ones share a rank."""
    places = shared(found, methods, names, trials)
    last = np.array([[found[n, m, s, trials]["regret"][-1][1] for n, s in places] for m in methods])
    less = (last[None] < last[:, None]).sum(axis=1)
    same = (last[None] == last[:, None]).sum(axis=1)
    mean = (less + (same + 1) / 2).mean(axis=1) if places else []
    return {"searches": len(places), "mean": dict(zip(methods, map(float, mean), strict=False))}


def summary(found: Records, trials: int) -> dict[str, Any]:
    """Return mean ranks, median regrets on the seeds that all methods share, and the milliseconds of a step.

    A method that was not run on every function has no rank, and no part in what is shared.
    """
    ours = {key: r for key, r in found.items() if key[3] == trials}
    known = [m for m in METHODS if any(key[1] == m for key in ours)]
    methods = [m for m in known if {key[0] for key in ours if key[1] == m} == set(TUNED | UNSEEN)]
    seeds = {m: sum(key[1] == m for key in ours) for m in methods}
    often = [m for m in methods if seeds[m] == max(seeds.values())]
    result: dict[str, Any] = {
        "trials": trials,
        "versions": {m: next(r["with"] for key, r in reversed(ours.items()) if key[1] == m) for m in known},
        "ranks": {part: ranks(ours, methods, names, trials) for part, names in PARTS.items()},
        "ranks_on_more": {part: ranks(ours, often, names, trials) for part, names in PARTS.items()},
        "functions": {},
    }
    for name in TUNED | UNSEEN:
        same = [seed for _, seed in shared(ours, methods, [name], trials)]
        each = {m: [r for key, r in ours.items() if key[:2] == (name, m)] for m in known}
        result["functions"][name] = {
            m: {
                "seeds": len(records),
                "shared": float(np.median([r["regret"][-1][1] for r in records if r["seed"] in same] or [np.nan])),
                "median": float(np.median([r["regret"][-1][1] for r in records])),
                "worst": max(r["regret"][-1][1] for r in records),
                "ms": float(np.median([r["ms"] for r in records])),
                "curve": [float(f"{v:.4g}") for v in np.median([curve(r) for r in records], axis=0)],
            }
            for m, records in each.items()
            if records
        }
    return result


PARTS = {"tuned": TUNED, "unseen": UNSEEN}


def run(options: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks searches")
    parser.add_argument("--seeds", type=int, default=10, help=f"so many from {FIRST_SEED} on")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument(
        "--methods", nargs="*", choices=list(METHODS), help="those that are installed when left out"
    )
    parser.add_argument("--functions", nargs="*", choices=list(TUNED | UNSEEN), help="all when left out")
    parser.add_argument("--only", choices=[*PARTS, "fronts"])
    parser.add_argument("--again", action="store_true", help="search again where a line is kept")
    given = parser.parse_args(options or [])
    os.environ["SQUEAK_NUM_THREADS"] = "1"
    methods = given.methods or list(installed())
    parts = {"fronts": {}, **PARTS}.get(given.only or "", TUNED | UNSEEN)
    for seed in range(FIRST_SEED, FIRST_SEED + given.seeds):
        for name in given.functions or parts:
            for method in methods:
                if given.again or (name, method, seed, given.trials) not in recorded():
                    keep(name, method, seed, given.trials)
    found = summary(recorded(), given.trials)
    path = RESULTS / "searches.json"
    before = json.loads(path.read_text()).get("fronts", {}) if path.exists() else {}
    areas = fronts(given.seeds, given.trials) if given.only in (None, "fronts") else before
    for part in PARTS:
        print(f"  mean ranks, {part}: {found['ranks'][part]}")
    save("searches", found | {"fronts": areas})


def keep(name: str, method: str, seed: int, trials: int) -> None:
    """Search once, and add the line."""
    try:
        regret, seconds = search(method, (TUNED | UNSEEN)[name](seed), seed, trials)
    except Exception as problem:  # one method that fails must not end hours of others
        print(f"  {name}, {method}, seed {seed}: failed, {type(problem).__name__}: {problem}", flush=True)
        return
    steps = [(t, float(f"{v:.4g}")) for t, v in enumerate(regret) if t == 0 or v != regret[t - 1]]
    key = {"function": name, "method": method, "seed": seed, "trials": trials}
    line = key | {"ms": round(1e3 * seconds, 2), "with": version(METHODS[method][1]), "regret": steps}
    RESULTS.mkdir(exist_ok=True)
    with LINES.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(f"  {name:28s} {method:10s} seed {seed}: {regret[-1]:.2e}, {1e3 * seconds:.0f} ms a step", flush=True)
