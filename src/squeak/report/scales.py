"""From numbers to places on the page, and the ticks beside them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from squeak.core.types import Array

PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
MOST_WHOLE = 40
"""Whole numbers that get a bin each."""

SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


class Scale:
    """A straight or logarithmic scale from ``low`` to ``high``, with a few round ticks."""

    def __init__(self, values: Iterable[float], log: bool = False, zero: bool = False, pad: float = 0.0) -> None:
        found = np.asarray(list(values), dtype=np.float64)
        found = found[np.isfinite(found) & ((found > 0) if log else True)]
        low, high = (float(found.min()), float(found.max())) if found.size else (1.0, 1.0)
        self.log = log
        if log:
            if high / low < 1.5:
                low, high = low / 2, high * 2
            grow = (high / low) ** pad
            self.low, self.high = low / grow, high * grow
            return
        low = min(low, 0.0) if zero else low
        if high - low <= 1e-12 * max(abs(high), abs(low), 1e-300):
            low, high = low - (abs(low) or 1.0) * 0.5, high + (abs(high) or 1.0) * 0.5
        self.low = low - (0 if zero and low == 0 else pad * (high - low))
        self.high = high + pad * (high - low)

    def place(self, value: Any) -> Any:
        """Return where a number stands between the scale's ends, from 0 to 1; clipped."""
        value = np.asarray(value, dtype=np.float64)
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            with np.errstate(divide="ignore", invalid="ignore"):
                value = np.where(value > 0, np.log(np.maximum(value, 1e-300)), low)
        else:
            low, high = self.low, self.high
        return np.clip((value - low) / (high - low), 0.0, 1.0)

    def ticks(self, count: int = 5) -> list[float]:
        """Return round numbers within the scale, about ``count`` of them."""
        if not self.log:
            step = _round_step((self.high - self.low) / count)
            first = math.ceil(self.low / step - 1e-9)
            last = math.floor(self.high / step + 1e-9)
            return [tick * step for tick in range(first, last + 1)]
        low, high = math.log10(self.low), math.log10(self.high)
        whole = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
        if len(whole) >= 2:
            every = max(1, math.ceil(len(whole) / (count + 1)))
            return [10.0**power for power in whole if power % every == 0]
        finer = [
            digit * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for digit in (1, 2, 5)
        ]
        found = [tick for tick in finer if self.low <= tick <= self.high]
        return found or [float(f"{math.sqrt(self.low * self.high):.2g}")]


def _round_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(digit * power for digit in (1.0, 2.0, 2.5, 5.0, 10.0) if digit * power >= step * 0.999)


def short(value: float) -> str:
    """Return a tick's label: 1,500 as 1.5k, a power of ten as one where it is small."""
    size = abs(value)
    if size >= 1e15 or 0 < size < 1e-3:
        power = math.floor(math.log10(size) + 1e-9)
        digit = f"{value / 10.0**power:.3g}"
        front = {"1": "", "-1": "−"}.get(digit, digit.replace("-", "−") + "·")
        return f"{front}10{str(power).translate(SUPERSCRIPTS)}"
    for unit, name in PREFIXES:
        if size >= unit * 0.99999:
            return f"{value / unit:.4g}{name}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−")


def bins(values: Array, count: int, log: bool) -> Array:
    """Return the edges of bins over the values, equal in width or in ratio; a bin each for few whole numbers."""
    low, high = float(values.min()), float(values.max())
    if not log and 1 <= high - low <= MOST_WHOLE and bool((values == np.round(values)).all()):
        return np.arange(low - 0.5, high + 1.0)
    scale = Scale(values.tolist(), log=log)
    return np.geomspace(scale.low, scale.high, count + 1) if log else np.linspace(scale.low, scale.high, count + 1)
