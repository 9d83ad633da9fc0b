"""Optimisers of a box by ask and tell, for the benchmark ``searches``: squeak's, and peers with their own defaults."""

from __future__ import annotations

import importlib.metadata
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.searches_functions import Problem
from squeak import __version__
from squeak.bandits import BoxUCB, Categorical, Integer

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
    """Return BoTorch's single-task model with its log expected improvement; categories are rounded numbers."""
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


def hebo(problem: Problem, seed: int, trials: int) -> Ask:
    """Return HEBO, a Gaussian process over warped inputs and outputs whose next point is of three acquisitions."""
    import torch
    from hebo.design_space.design_space import DesignSpace
    from hebo.optimizers.hebo import HEBO

    torch.set_num_threads(1)
    np.random.seed(seed)  # noqa: NPY002 - its inner search has no seed of its own
    names = [f"x{i:02d}" for i in range(len(problem.sides))]
    space = DesignSpace().parse([hebo_side(name, side) for name, side in zip(names, problem.sides, strict=True)])
    optimizer = HEBO(space, scramble_seed=seed)
    asked: list[Any] = []

    def ask() -> list[Any]:
        asked.append(optimizer.suggest(n_suggestions=1))
        found = asked[-1].iloc[0]
        return [found[name] for name in names]

    return ask, lambda point, value: optimizer.observe(asked[-1], np.array([[value]]))


def hebo_side(name: str, side: Any) -> dict[str, Any]:
    if isinstance(side, Categorical):
        return {"name": name, "type": "cat", "categories": list(side.choices)}
    kinds = ("pow_int", "int") if isinstance(side, Integer) else ("pow", "num")
    return {"name": name, "type": kinds[0 if side.log else 1], "lb": side.low, "ub": side.high}


METHODS: dict[str, tuple[Callable[[Problem, int, int], Ask], tuple[str, ...]]] = {
    "squeak": (squeak, ("squeak-learn",)),
    "random": (of_optuna("RandomSampler"), ("optuna",)),
    "TPE": (of_optuna("TPESampler"), ("optuna",)),
    "GPSampler": (of_optuna("GPSampler"), ("optuna", "torch")),
    "CMA-ES": (of_optuna("CmaEsSampler"), ("optuna", "cmaes")),
    "bayes_opt": (bayes_opt, ("bayesian-optimization",)),
    "BoTorch": (botorch, ("botorch", "torch")),
    "SMAC3": (smac, ("smac",)),
    "HEBO": (hebo, ("HEBO", "numpy", "pymoo", "torch")),
}
"""How each method begins, and the packages that it needs."""


def versions(method: str) -> str:
    """Return the packages of a method with their versions; PackageNotFoundError where one is missing."""
    known = {"squeak-learn": __version__}
    return ", ".join(f"{name} {known.get(name) or importlib.metadata.version(name)}" for name in METHODS[method][1])
