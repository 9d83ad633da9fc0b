"""How a column of numbers is scaled: its centre and spread, and the soft clip that bounds long tails."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core.advice import Advice, InputError
from squeak.core.types import Array

CLIP = 3.0
"""The bound of a robustly scaled number."""


def soft_clip(X: Array, bound: Array) -> Array:
    """Return z/√(1 + (z/c)²) for numbers z and their bounds c: near z where z is small, and never beyond ±c.

    It grows with z, so that values keep their order, and two values far out in a tail are near each other.

    ``X``: numbers z. ``bound``: the bound c of each column; 0 where a column is to stay as it is.

    Source: Holzmüller, Grinsztajn, Steinwart (2024): "Better by default: strong pre-tuned MLPs and boosted trees on
    tabular data", section 3 (RealMLP), where the bound is 3.
    """
    bent = bound > 0
    found = X.copy()
    found[:, bent] = X[:, bent] / np.hypot(1.0, X[:, bent] / bound[bent])
    return found


def soft_unclip(X: Array, bound: Array, precision: Any = np.float64) -> Array:
    """Return z with z/√(1 + (z/c)²) = x: the inverse of :func:`soft_clip`, x/√(1 − (x/c)²).

    Numbers at ±c or beyond have no such z. They come back as the largest one below c does.

    ``X``: numbers x. ``bound``: the bound c of each column; 0 where a column stays as it is. ``precision``: in
    which the numbers were kept, which decides how near they can come to c.
    """
    bent = bound > 0
    found = X.copy()
    with np.errstate(over="ignore"):
        part = np.clip(X[:, bent] / bound[bent], *(np.array([-1.0, 1.0]) * (1 - np.finfo(precision).epsneg)))
    found[:, bent] = bound[bent] * part / np.sqrt((1 - part) * (1 + part))
    return found


def _deviation(values: Array) -> float:
    """Return the standard deviation, also of values whose squares are lost below or above float64."""
    apart = values - values.mean()
    largest = float(np.abs(apart).max())
    return largest * float(np.sqrt(np.square(apart / largest).mean())) if largest > 0 else 0.0


MEAN_DISTANCES = 1.5
"""How many mean distances from the median stand for the inter-quartile range."""


def robust_scale(values: Array) -> tuple[float, float]:
    """Return the median of values, and their inter-quartile range, or what stands for it.

    Where half of the values are equal the range is 0, and 1.5 times the mean distance from the median takes its
    place; where all are equal, 1. A distance below 1e-12 of the median is rounding, and counts as 0.
    """
    low, centre, high = (float(value) for value in np.percentile(values, [25, 50, 75]))
    mean = MEAN_DISTANCES * float(np.abs(values - centre).mean())
    return centre, next((spread for spread in (high - low, mean) if spread > 1e-12 * abs(centre)), 1.0)


def learn_scale(wanted: Any, values: Array, label: str, leave_out: Advice, n: int) -> tuple[float, float, float]:
    """Return the centre, the spread and the bound of the soft clip (0 for none) of one column.

    ``values``: the column's finite values in the first rows. ``label``: words for the column, in messages.
    ``leave_out``: how to do without it. ``n``: the number of first rows.
    """
    if not isinstance(wanted, str):
        return float(wanted[0]), float(wanted[1]), 0.0
    if values.size == 0:
        raise InputError(f"{label} has no values in the first {n:,} rows to learn a scale from", leave_out)
    if wanted == "robust":
        centre, scale, clip = *robust_scale(values), CLIP
    else:
        centre, scale, clip = float(values.mean()), _deviation(values), 0.0
    if not np.isfinite([centre, scale]).all():
        raise ValueError(f"{label} is too large to be scaled in float64")
    if clip:
        return centre, scale, clip
    if values.min() == values.max():
        raise InputError(
            f"{label} is constant ({values[0]:g}) in the first {n:,} rows, so it has no scale",
            leave_out,
            Advice("read the data with {} if it is sorted by it", "shuffle", True),
            Advice("raise {name}", "learn_rows"),
            Advice("", "scale", python="give the column's scale"),
        )
    if scale <= 1e-12 * abs(centre):
        raise ValueError(f"{label} has no {wanted} scale, for it hardly varies")
    return centre, scale, clip
