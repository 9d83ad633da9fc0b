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


LONG = (
    "core/test_fuzz.py::test_the_largest_meta_costs_no_more_than_stated[empty",
    "core/test_fuzz.py::test_the_largest_meta_costs_no_more_than_stated[small",
    "dpp/test_exactness.py::test_rounding_the_poisson_rate_is_caught",
    "dpp/test_exactness.py::test_samples_are_exact_whatever_the_dictionary",
    "graphs/test_distributed.py::test_a_killed_worker_does_not_change_the_bits",
    "graphs/test_distributed.py::test_weights_are_unbiased_through_two_levels",
    "report/test_write.py::test_five_thousand_atoms_make_a_small_page_soon",
    "samplers/test_accuracy_law.py",
    "samplers/test_batch.py::test_accelerated_pivots_follow_the_sequential_law_exactly",
    "samplers/test_batch.py::test_bless_reaches_the_acceptance_numbers",
    "samplers/test_checkpoint.py::test_sixty_kills_end_in_the_same_bits",
    "samplers/test_cluster.py::test_a_killed_worker_changes_no_bit",
    "samplers/test_disqueak.py::test_a_merge_that_draws_anew_is_caught",
    "samplers/test_disqueak.py::test_weights_are_unbiased_over_trees",
    "samplers/test_unbiased.py::test_redrawing_to_keep_the_limit_is_caught",
    "samplers/test_unbiased.py::test_screening_that_gives_up_too_many_rows_is_caught",
    "samplers/test_unbiased.py::test_tails_are_those_of_a_martingale",
    "samplers/test_unbiased.py::test_weights_are_unbiased_for_every_row[copies",
    "samplers/test_unbiased.py::test_weights_are_unbiased_for_every_row[kors",
    "samplers/test_unbiased.py::test_weights_are_unbiased_for_every_row[max_atoms",
)
"""Tests that take more than their share: `make test-slow` runs them, whole."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.removeprefix("tests/").startswith(LONG):
            item.add_marker(pytest.mark.slow)


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
