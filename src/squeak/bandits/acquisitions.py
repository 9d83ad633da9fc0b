"""Acquisitions: how much each arm promises, from the mean and the standard deviation of f there."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from squeak.core.types import Array, BoolArray


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
