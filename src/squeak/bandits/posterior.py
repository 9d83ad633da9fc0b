"""What every posterior over arms offers, in units of rewards, and acquisitions: how much each arm promises."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy.special import ndtr

from squeak.core.kernels import block
from squeak.core.rows import take
from squeak.core.state import Table, checked
from squeak.core.types import Array, BoolArray, IntArray, Rows


def upper_bound(mean: Array, std: Array, beta: float) -> Array:
    """Return the upper confidence bound μ + β·s."""
    return np.asarray(mean + beta * std)


def improvement(mean: Array, std: Array, incumbent: float) -> Array:
    """Return the expected improvement s·(z·Φ(z) + φ(z)), z = (mean − incumbent)/s; where z > 40 it is the gap."""
    std, gap = np.maximum(std, 1e-300), mean - incumbent
    with np.errstate(over="ignore"):
        z = np.clip(gap / std, -40.0, 40.0)  # beyond them nothing is left of one of the two terms
    return np.where(gap > 40.0 * std, gap, std * (z * ndtr(z) + np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)))


def chance_of_improvement(mean: Array, std: Array, incumbent: float, least: float) -> Array:
    """Return (mean − incumbent)/s, which orders arms as its Φ does but has no flat ends; s is ``least`` or more."""
    return np.asarray((mean - incumbent) / np.maximum(std, least))


def highest(scores: Array, active: BoolArray) -> int:
    """Return the active arm with the highest score, the first of equals."""
    return int(np.argmax(np.where(active, scores, -np.inf)))


class Posterior(Protocol):
    """The Gaussian process given the pulls so far, exact or approximate.

    Rewards come less the prior mean, and so does ``mean``. Variances are those of f itself: not over λ, and without
    the noise of a reward.
    """

    @property
    def mean(self) -> Array:
        """μ at every arm."""

    @property
    def variance(self) -> Array:
        """s² at every arm."""

    def variance_with(self, pending: list[int]) -> Array:
        """Return s² at every arm once the pending pulls are told; it does not depend on their rewards."""

    def best(self, width: float, active: BoolArray, pending: list[int]) -> int:
        """Return the active arm with the largest μ + β·s/√λ, where s knows of the pending pulls; β is ``width``."""

    def variance_sum(self, counts: IntArray) -> float:
        """Return Σ_i n_i·s_i² over the arms, pulled ``counts`` times each."""

    def predict(self, X: Rows) -> tuple[Array, Array]:
        """Return μ and s² at any rows."""

    def add(self, rows: Rows) -> None:
        """Add arms; their mean and variance follow from the pulls so far."""

    def to_arrays(self) -> dict[str, Any]:
        """Return everything that the next pull depends on, but arms and kernel."""

    def restore(self, arrays: dict[str, Any]) -> None:
        """Take the state that :meth:`to_arrays` gave; anything that does not fit raises."""


def kernel_row(kernel: Any, arms: Rows, diag: Array, arm: int, others: IntArray | None = None) -> Array:
    """Return k(arm, others), or k(arm, all arms); k(arm, arm) is that of ``diag`` to the bit."""
    values = block(kernel, take(arms, slice(arm, arm + 1)), arms if others is None else take(arms, others))[0]
    values[arm if others is None else others == arm] = diag[arm]
    return np.asarray(values)


def copies(
    table: Table, arrays: dict[str, Any], prefix: str, n_arms: int, named: tuple[str, ...], **sizes: int
) -> dict[str, Any]:
    """Return the parts of a file as arrays of their own; those ``named`` hold numbers of arms, each once."""
    found = checked(table, arrays, {}, prefix, arms=n_arms, **sizes)
    for numbers in (found[name] for name in named):
        if np.any(numbers >= n_arms) or len(np.unique(numbers)) != len(numbers):
            raise ValueError("the model's arms do not fit")
    return {name: array.copy() for name, array in found.items()}
