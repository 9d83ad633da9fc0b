"""What a search tells: everything that was tried, and words about what limits the result."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from squeak.core.kernels import Metric
from squeak.core.types import Array
from squeak.learners.metric import Trial

BOOSTED = "rounds of boosted trees"
"""How the model of trees is called."""


@dataclass(frozen=True)
class Stage:
    """A line of the table that tells what was tried."""

    stage: str
    model: str
    rows: int
    atoms: int
    alpha: float
    error: float
    """Root of the mean squared error on the held-out rows, in units of the targets' deviation."""
    seconds: float
    weight: float = 0.0


@dataclass
class Search:
    """What was tried, what it cost, and what limits the result."""

    budget: float | None = None
    stages: list[Stage] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def spent(self) -> float:
        """Return the seconds since it began."""
        return time.monotonic() - self.began

    def left(self) -> float:
        """Return the seconds that are left."""
        return np.inf if self.budget is None else self.budget - self.spent()

    def part(self) -> Search:
        """Return a search of its own for a fold, which has the time that is left."""
        return Search(self.budget, began=self.began)

    def gather(self, parts: Sequence[Search]) -> None:
        """Take over what folds have tried, each model a part of theirs, and the limits that half of them see."""
        for part in parts:
            self.stages += [replace(stage, weight=stage.weight / len(parts)) for stage in part.stages]
        said = [words for part in parts for words in part.limits]
        self.limits += [words for words in dict.fromkeys(said) if 2 * said.count(words) >= len(parts)]


def words_of(kernels: list[Any]) -> str:
    """Return short words for kernels and their metrics."""
    names = []
    for kernel in kernels:
        inner = kernel.kernel if isinstance(kernel, Metric) else kernel
        nu = f" {inner.nu:g}" if hasattr(inner, "nu") else ""
        names.append(
            f"{type(inner).__name__}{nu}, {'a linear map' if isinstance(kernel, Metric) else 'widths by column'}"
        )
    return " + ".join(names)


def say_limits(search: Search, found: list[Trial], shares: Array) -> None:
    """Add what limits the result to what a search tells: its best kernels, and the shares, the mean's the last."""
    best = found[0]
    if best.at_edge and best.alpha < 1e-6 and shares[-1] <= 0.5:
        search.limits.append(
            "the penalty is at the lower end of its range: there is hardly any noise, so more rows, or more atoms "
            "where max_atoms limits them, would help more"
        )
    elif best.at_edge and best.alpha >= 1e-6:
        search.limits.append(
            "the penalty is at the upper end of its range: the columns tell little of the target, so other columns "
            "would help more"
        )
    if shares[-1] > 0.5:
        search.limits.append("the mean is more than half of the model: the columns tell little of the target")
