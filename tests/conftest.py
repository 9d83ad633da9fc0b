"""Shared data and helpers. Real data sets are looked for beside the repository and skipped where absent."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run, no time limit on a busy machine, and no files left behind.
settings.register_profile(
    "squeak", derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("squeak")

DATA = Path(os.environ.get("SQUEAK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def real_rows(name: str, n: int | None = None) -> np.ndarray:
    """Return the rows of a real data set, standardised, constant columns left out; skip where absent."""
    path = DATA / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"data set {name} is not at hand (looked in SQUEAK_DATA and beside the repository)")
    with np.load(path) as file:
        X = file["X"][:n].astype(float)
    X = X[:, X.std(axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261116)


@pytest.fixture
def clusters(rng: np.random.Generator) -> np.ndarray:
    """Return 300 rows in 3 columns: six clusters of unequal size and a few strays."""
    centres = 3 * rng.standard_normal((6, 3))
    sizes = [150, 80, 40, 20, 7, 1]
    parts = [c + 0.3 * rng.standard_normal((s, 3)) for c, s in zip(centres, sizes, strict=True)]
    strays = 5 * rng.standard_normal((2, 3))
    return rng.permutation(np.vstack([*parts, strays]))
