"""What would improve a model most: more rows, more atoms or another kernel, from learning curves on the rows given.

Small models are fitted to a quarter, a half and all of some rows, with a quarter, a half and all of some atoms, and
with other kernels, and their errors on held-out rows are compared. What a further doubling would gain is carried
on from the last two: if the last gained r times what the one before did, the next gains r times as much again.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from squeak.core.kernels import RBF, Laplacian, Matern
from squeak.core.seeds import generator_at
from squeak.core.types import Array
from squeak.report.charts import curves
from squeak.report.given import Given, has_targets, kernel_of
from squeak.report.shell import Panel, percent

ROWS, ATOMS, FEWEST = 4_000, 400, 200
"""Rows and atoms of the small models at most, and the rows that it takes to say anything."""

PARTS = (0.25, 0.5, 1.0)
SPLITS = 2
BACK = 0.25
"""The part of the rows that is held out from the small models."""

HARDLY = 0.01
"""A gain below this part of the error is none."""


@dataclass(frozen=True)
class Curves:
    """Errors on held-out rows, relative to the targets' deviation, and what would lower them."""

    rows: Array
    atoms: Array
    others: dict[str, float]
    n: int
    m: int

    def gains(self, n_seen: int, n_atoms: int) -> dict[str, float]:
        """Return the part of the error that each change would take away, for a model of so many rows and atoms."""
        now, kernel = float(self.rows[-1]), min(self.others, key=self.others.__getitem__, default="")
        found = {
            "twice the rows": _next(self.rows, math.log2(max(1.0, n_seen / self.n))) / now,
            "twice the atoms": _next(self.atoms, math.log2(max(1.0, n_atoms / self.m))) / now,
        }
        return found | ({kernel: (now - self.others[kernel]) / now} if kernel else {})


def _next(errors: Array, doublings: float) -> float:
    """Return what the doubling after so many more would gain, from the last two; none where errors rise."""
    before, last = errors[0] - errors[1], errors[1] - errors[2]
    if last <= 0.0:
        return 0.0
    ratio = float(np.clip(last / before, 0.25, 0.9)) if before > 0.0 else 0.9
    return float(last * ratio ** (1.0 + doublings))


def improvement_panel(model: Any, given: Given | None) -> Panel | None:
    """Return the panel about what would help most; None where the rows are too few or are no vectors."""
    kernel = kernel_of(model) if kernel_of(model) is not None else _first_kernel(model)
    vectors = given is not None and isinstance(given.X, np.ndarray) and given.y is not None
    if given is None or not vectors or kernel is None or not has_targets(model) or given.n < FEWEST:
        return None
    if not getattr(kernel, "requires_vector_input", True):
        return None
    some = given.sample(round(ROWS / (1.0 - BACK)))
    targets = _targets(model, some.y)
    spread = float(np.sqrt(np.square(targets - targets.mean(axis=0)).sum(axis=1).mean()))
    if not spread > 0.0:
        return None
    d = getattr(model, "dictionary_", None)
    n_seen, n_atoms = (d.n_seen, len(d)) if d is not None else (given.n, _most_atoms(model))
    found = learning_curves(np.asarray(some.X, dtype=np.float64), targets / spread, kernel, n_atoms)
    chart = curves(
        [("part of the rows", PARTS, found.rows), ("part of the atoms", PARTS, found.atoms)],
        "part",
        "error",
        "errors of small models on held-out rows",
        log_x=True,
    )
    words = (
        f"{_verdict(found.gains(n_seen, n_atoms))} The curves are those of small models ({found.n:,} rows and "
        f"{found.m:,} atoms at most) on held-out rows, relative to the standard deviation of the targets. They are "
        "carried on to the size of this model, so take them for a hint."
    )
    return Panel("What would help most", chart, words)


def learning_curves(X: Array, y: Array, kernel: Any, n_atoms: int) -> Curves:
    """Return the errors of small models, each the mean over a few splits of the rows."""
    from squeak.learners import KernelRidge

    m = max(4, min(ATOMS, n_atoms, len(X) // 4))
    kept = round(BACK * len(X))
    n = len(X) - kept
    others = {words: other for words, other in _others(kernel).items() if other is not None}
    rows, atoms, beside = np.zeros(3), np.zeros(3), dict.fromkeys(others, 0.0)

    def error(kernel: Any, train: Any, back: Any, m: int) -> float:
        model = KernelRidge(kernel, alpha="auto", dictionary=X[train[:m]], fit_intercept=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said = model.fit(X[train], y[train]).predict(X[back])
        return float(np.sqrt(np.square(said.reshape(len(back), -1) - y[back]).sum(axis=1).mean()))

    for split in range(SPLITS):
        order = generator_at(0, split).permutation(len(X))
        back, train = order[:kept], order[kept:]
        for place, part in enumerate(PARTS):
            rows[place] += error(kernel, train[: max(m, round(part * n))], back, m) / SPLITS
            if part < 1.0:
                atoms[place] += error(kernel, train, back, max(2, round(part * m))) / SPLITS
        for words, other in others.items():
            beside[words] += error(other, train, back, m) / SPLITS
    atoms[-1] = rows[-1]
    return Curves(rows, atoms, beside, n, m)


def _others(kernel: Any) -> dict[str, Any]:
    """Return other kernels of the same width, by name; none for a kernel that is composed or learned."""
    width = getattr(kernel, "length_scale", None)
    if type(kernel) not in (RBF, Laplacian, Matern) or width is None or isinstance(width, str):
        return {}
    wide = {"a width twice as large": 2.0 * np.asarray(width), "a width half as large": 0.5 * np.asarray(width)}
    found = {
        words: type(kernel)(**{**kernel.get_params(deep=False), "length_scale": one}) for words, one in wide.items()
    }
    if not isinstance(kernel, RBF):
        found["an RBF kernel"] = RBF(width)
    if not isinstance(kernel, Matern):
        found["a Matern kernel"] = Matern(width, nu=1.5)
    if not isinstance(kernel, Laplacian) and np.ndim(width) == 0:
        found["a Laplacian kernel"] = Laplacian(4.0 * float(width))
    return found


def _verdict(gains: dict[str, float]) -> str:
    """Return a sentence about what would lower the error most."""
    ranked = sorted(gains.items(), key=lambda one: -one[1])
    felt = [(words, gain) for words, gain in ranked if gain > HARDLY]
    if not felt:
        names = ", ".join(words for words, _ in ranked[:-1]) + f" nor {ranked[-1][0]}"
        return (
            f"Neither {names} would lower the error by more than {percent(HARDLY)}: other columns would help more."
        )
    words, gain = felt[0]
    rest = "; ".join(f"{other} would by about {percent(least)}" for other, least in felt[1:])
    more = f" ({rest})" if rest else ", and the others hardly"
    return f"{words[0].upper()}{words[1:]} would lower the error most, by about {percent(gain)} of it{more}."


def _targets(model: Any, y: Any) -> Array:
    """Return targets as columns of numbers: one for each class of a classifier."""
    if hasattr(model, "classes_"):
        names = np.asarray(model.classes_).astype(str)
        return np.asarray(np.asarray(y).astype(str)[:, None] == names, dtype=np.float64)
    values = np.asarray(y, dtype=np.float64)
    return values.reshape(len(values), -1)


def _expansions(model: Any) -> list[Any]:
    """Return the sums of kernel functions that a composed model is made of."""
    if hasattr(model, "everywhere_"):
        return [*model.everywhere_, *(one for expert in model.experts_ for one in expert)]
    return list(getattr(model, "expansions_", []))


def _first_kernel(model: Any) -> Any:
    """Return the kernel of the largest part of a composed model."""
    parts = _expansions(model)
    return max(parts, key=lambda one: len(one.atoms)).kernel if parts else None


def _most_atoms(model: Any) -> int:
    """Return the atoms of the largest part of a composed model."""
    return max((len(one.atoms) for one in _expansions(model)), default=ATOMS)
