"""Fixed cases whose results must stay as they are: a table of functions, and the data that they share.

A case takes an empty folder and returns named values. It uses public names only, so that it still runs after
everything behind them has moved. Learners are given a dictionary or a ridge, not a number of atoms, so that a
change of the default size shows in the few cases that are about it (their names say ``max_atoms`` or ``default``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Function = Callable[[Path], dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """A function, and how closely its numbers must agree with those stored."""

    run: Function
    rtol: float


CASES: dict[str, Case] = {}
RTOL = 1e-10
SINGLE = 2e-4
"""For results that pass through float32, whose last digits depend on the BLAS."""


def case(name: str, rtol: float = RTOL) -> Callable[[Function], Function]:
    """Add a function to the table, under a name such as ``"samplers: Squeak in blocks"``."""

    def add(function: Function) -> Function:
        if name in CASES:
            raise ValueError(f"two cases are called {name!r}")
        CASES[name] = Case(function, rtol)
        return function

    return add


def points(n: int = 400, d: int = 3, seed: int = 7) -> Any:
    """Return rows of a normal distribution."""
    return np.random.default_rng(seed).standard_normal((n, d))


def targets(X: Any, seed: int = 8) -> Any:
    """Return a smooth function of the rows with a little noise."""
    return np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * np.random.default_rng(seed).standard_normal(len(X))


def classes(X: Any, names: tuple[str, ...] = ("in", "out")) -> Any:
    """Return classes by distance from the centre, of about equal size."""
    radius = np.linalg.norm(X, axis=1)
    edges = np.quantile(radius, np.arange(1, len(names)) / len(names))
    return np.array(names)[np.searchsorted(edges, radius)]


def of_dictionary(d: Any) -> dict[str, Any]:
    """Return what a dictionary is."""
    return {
        "indices": d.indices,
        "counts": d.counts,
        "probabilities": d.probabilities,
        "weights": d.weights,
        "ridge": d.ridge,
        "n_seen": d.n_seen,
        "sources": [f"{name} {n}" for name, n in d.sources] if len(d.sources) > 1 else len(d.sources),
    }
