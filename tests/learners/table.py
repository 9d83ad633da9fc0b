"""The table of the oracle tests: options that change a problem, options that change its data, and a case's rows.

Every combination of the first appears with some data, and every kind of data with some combination of the first;
both walk through the other's list with a stride, so that values meet in ever new pairs. Nothing is random.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import squeak
from squeak.kernels import RBF, Laplacian, Linear, Matern, Polynomial

N, ATOMS, TESTS, COLUMNS = 60, 18, 12, 3

KERNELS = {
    "rbf": lambda s: RBF(0.9 * s),
    "rbf-vector": lambda s: RBF(np.array([0.7, 1.1, 1.6]) * s),
    "laplacian": lambda s: Laplacian(2.3 * s),
    "matern-1/2": lambda s: Matern(1.3 * s, nu=0.5),
    "matern-3/2": lambda s: Matern(1.3 * s, nu=1.5),
    "matern-5/2": lambda s: Matern(np.array([0.7, 1.1, 1.6]) * s, nu=2.5),
    "linear": lambda s: Linear(1.1 * s, offset=0.3),
    "polynomial": lambda s: Polynomial(2, length_scale=1.1 * s, offset=1.0),
    "tiny": lambda s: 1e-8 * RBF(0.9 * s),
    "huge": lambda s: 1e8 * Matern(1.3 * s, nu=1.5),
}
INNER = ("linear", "polynomial")

DATA: dict[str, tuple[Any, ...]] = {
    "kernel": tuple(KERNELS),
    "form": ("dense", "csr"),
    "dtype": ("float64", "float32"),
    "offset": (0.0, 1e6, 1.7e9),
    "scale": (1.0, 1e-6, 1e6),
    "size": (1.0, 1e-9, 1e9),
}


def pruned_data(case: dict[str, Any]) -> bool:
    """Tell whether a kind of data makes sense: an offset swallows small rows, and inner products keep it."""
    if case["offset"] and (case["scale"] != 1.0 or case["kernel"] in INNER):
        return False
    return not (case["offset"] and case["dtype"] == "float32" and case["offset"] > 1e6)


@dataclass(frozen=True)
class Rows:
    """Rows of a case: as the learner gets them, and as the oracle does."""

    X: Any
    T: Any
    dense: np.ndarray
    tests: np.ndarray
    kernel: Any
    unit: float
    """The kernel's diagonal, about: alphas are given in it."""


def rows_of(case: dict[str, Any], seed: int = 0) -> Rows:
    """Return the rows of a case."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (N + TESTS, COLUMNS))
    X[rng.random(X.shape) < 0.15] = 0.0
    X *= case["scale"]
    X[:, 1] += case["offset"]
    X = X.astype(case["dtype"])
    given = sp.csr_array(X) if case["form"] == "csr" else X
    kernel = KERNELS[case["kernel"]](case["scale"])
    unit = {"tiny": 1e-8, "huge": 1e8}.get(case["kernel"], 1.0)
    dense = X.astype(np.float64)
    return Rows(given[:N], given[N:], dense[:N], dense[N:], kernel, unit)


def targets_of(case: dict[str, Any], rows: Rows, outputs: int, seed: int = 1) -> np.ndarray:
    """Return targets of shape (N, outputs) that depend on the rows, with a mean that is not small."""
    rng = np.random.default_rng(seed)
    spread = rows.dense / case["scale"]
    spread = spread - spread.mean(axis=0)
    Y = np.column_stack([np.sin(2 * spread[:, 0]) + 3.0, spread[:, 1] * spread[:, 2] - 1.0])[:, :outputs]
    return case["size"] * (Y + 0.1 * rng.standard_normal(Y.shape))


def weights_of(kind: str | None, seed: int = 2) -> np.ndarray | None:
    """Return sample weights: none, around one, or over six orders of magnitude."""
    rng = np.random.default_rng(seed)
    if kind is None:
        return None
    return rng.uniform(0.3, 3.0, N) if kind == "even" else 10.0 ** rng.uniform(-3, 3, N)


def table(
    problem: dict[str, tuple[Any, ...]], possible: Any = None, data: dict[str, Any] | None = None
) -> list[Any]:
    """Return the cases: every possible combination of the problem's options, and every kind of data."""
    data = DATA if data is None else data
    kinds = [dict(zip(data, values, strict=True)) for values in product(*data.values())]
    kinds = [kind for kind in kinds if pruned_data({**{name: v[0] for name, v in DATA.items()}, **kind})]
    options = [dict(zip(problem, values, strict=True)) for values in product(*problem.values())]
    options = [option for option in options if possible is None or possible(option)]
    cases = [{**option, **kinds[(37 * i) % len(kinds)]} for i, option in enumerate(options)]
    cases += [{**options[(53 * i + 11) % len(options)], **kind} for i, kind in enumerate(kinds)]
    base = {name: values[0] for name, values in DATA.items()}
    cases = [{**base, **case} for case in cases]
    unique = {tuple(sorted((k, str(v)) for k, v in case.items())): case for case in cases}
    return [case for case in unique.values() if possible is None or possible(case)]


def name_of(case: dict[str, Any]) -> str:
    """Return a short name of a case."""
    return "-".join(str(value) for value in case.values())


def through_a_file(model: Any, saved: bool) -> Any:
    """Return the model, saved and loaded where asked for."""
    if not saved:
        return model
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.sqk"
        model.save(path)
        return squeak.load(path)


def close(found: Any, expected: Any, rtol: float, floor: float = 0.0) -> None:
    """Assert that two arrays agree to a part of the largest expected value."""
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    assert found.shape == expected.shape
    size = max(float(np.abs(expected).max(initial=0.0)), floor)
    gap = float(np.abs(found - expected).max(initial=0.0))
    assert gap <= rtol * size, f"off by {gap / size if size else gap:.2g} of {size:.3g}"
