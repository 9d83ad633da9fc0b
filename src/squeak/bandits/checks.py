"""Checks of what enters a bandit: arms' numbers, rewards, the factor of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core.checks import check_number
from squeak.core.rows import refuse_hidden
from squeak.core.types import Array, IntArray


def check_indices(indices: Any, n_arms: int) -> IntArray:
    """Return arms' numbers as a flat int64 array, or raise: each from 0 to n_arms - 1."""
    refuse_hidden(indices, "indices")
    array = np.atleast_1d(np.asarray(indices))
    if array.size == 0:
        raise ValueError("no arm was named")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"arms are named by their numbers, one or a flat list of them; these are {indices!r}")
    wrong = (array < 0) | (array >= n_arms)
    if wrong.any():
        raise ValueError(f"arm {array[wrong][0]} is unknown: there are {n_arms:,} arms, numbered from 0")
    return array.astype(np.int64)


def check_factor(value: Any) -> float:
    """Return how far variances may fall within a batch: a number above 1."""
    factor = check_number("batch_factor", value)
    if factor <= 1:
        raise ValueError(f"batch_factor must be above 1; it is {value!r}")
    return factor


def check_rewards(rewards: Any, indices: IntArray, centre: float) -> Array:
    """Return one finite reward for each arm named, or raise; its squared distance from the centre is finite too."""
    refuse_hidden(rewards, "rewards")
    array = np.atleast_1d(np.asarray(rewards))
    if array.dtype.kind not in "fiub":
        raise TypeError(f"rewards must be numbers; these are {rewards!r}")
    array = array.astype(np.float64)
    if array.shape != indices.shape:
        raise ValueError(f"{indices.size} arms were pulled, but the rewards have shape {array.shape}")
    bad = ~np.isfinite(array)
    if bad.any():
        place = int(np.argmax(bad))
        raise ValueError(
            f"the reward of arm {indices[place]} is {array[place]}: tell finite rewards only; "
            "for an experiment that failed, call forget(arm)"
        )
    with np.errstate(over="ignore"):
        squares = float(((array - centre) ** 2).sum())
    if not np.isfinite(squares):
        raise ValueError(f"the rewards are too large for float64: up to {np.abs(array).max():.3g}; scale them")
    return array
