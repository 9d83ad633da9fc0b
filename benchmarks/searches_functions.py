"""Functions to minimise over a box, for the benchmark ``searches``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.bandits import ackley5, branin, hartmann6, levy4, rosenbrock4
from benchmarks.common import DATA
from squeak.bandits import Categorical, Integer, Real

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


def among(
    f: Callable[[Any], float], few: int, many: int, low: float, high: float, least: float = 0.0
) -> Callable[[int], Problem]:
    """Return a function of few sides in a box of many, of which the others do not matter; the seed says which do."""

    def make(seed: int) -> Problem:
        places = np.random.default_rng(900 + seed).choice(many, few, replace=False)
        return Problem(lambda point: f(np.asarray(point)[places]), [Real(low, high)] * many, least)

    return make


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
WIDE: dict[str, Callable[[int], Problem]] = {
    "Hartmann-6 among 50": among(hartmann6, 6, 50, 0.0, 1.0, -3.322368011391339),
    "Levy-4 among 100": among(levy4, 4, 100, -10.0, 10.0),
}
"""Few sides of many matter; these played no part in any choice either."""

PARTS = {"tuned": TUNED, "unseen": UNSEEN}
ALL = TUNED | UNSEEN | WIDE
