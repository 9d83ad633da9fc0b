"""One chart as inline SVG: scales, axes, lines, points, bars; what is hovered over says its numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from squeak.core.types import Array, IntArray
from squeak.report.shell import Safe, fixed, join, svg, tag

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


WIDTH = 360.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 12.0, 22.0, 38.0
MOST_POINTS = 600
"""Points drawn of one set: more make the page heavy and tell the eye nothing."""


class Plot:
    """A chart of fixed size in its own units; the page scales it. Colours are classes c1 to c4 of the page.

    Without JavaScript a browser shows each mark's ``<title>`` on hovering; the page's script makes them tooltips.

    ``label``: what the chart shows, for readers who cannot see it.
    """

    def __init__(self, x: Scale, y: Scale, x_label: str, y_label: str, label: str, height: float = 240.0) -> None:
        self.x, self.y, self.width, self.height = x, y, WIDTH, height
        self.x_label, self.y_label, self.label = x_label, y_label, label
        self._marks: list[Safe] = []

    def across(self, value: Any) -> Any:
        """Return the horizontal place of a number."""
        return LEFT + self.x.place(value) * (self.width - LEFT - RIGHT)

    def up(self, value: Any) -> Any:
        """Return the vertical place of a number."""
        return self.height - BOTTOM - self.y.place(value) * (self.height - TOP - BOTTOM)

    def line(
        self, xs: Any, ys: Any, colour: str = "c1", tips: Sequence[str] | None = None, dashed: bool = False
    ) -> None:
        """Draw a line; each tip is shown near its point."""
        places = list(zip(np.atleast_1d(self.across(xs)), np.atleast_1d(self.up(ys)), strict=True))
        path = "M" + "L".join(f"{fixed(a)} {fixed(b)}" for a, b in places)
        self._marks.append(tag("path", d=path, class_=f"line {colour}" + (" dashed" if dashed else "")))
        for (a, b), tip in zip(places, tips or (), strict=False):
            dot = tag("circle", cx=a, cy=b, r="2", class_=f"dot {colour}")
            target = tag("circle", cx=a, cy=b, r="7", class_="hit")
            self._marks.append(tag("g", tag("title", tip), dot, target, class_="mark"))

    def band(self, xs: Any, low: Any, high: Any, colour: str = "c1") -> None:
        """Fill the strip between two lines."""
        over = np.atleast_1d(self.across(xs))
        there = [f"{fixed(a)} {fixed(b)}" for a, b in zip(over, np.atleast_1d(self.up(high)), strict=True)]
        back = [f"{fixed(a)} {fixed(b)}" for a, b in zip(over, np.atleast_1d(self.up(low)), strict=True)]
        self._marks.append(tag("path", d=f"M{'L'.join([*there, *reversed(back)])}Z", class_=f"band {colour}"))

    def points(self, xs: Any, ys: Any, tips: Sequence[str], radius: Any = 2.2) -> None:
        """Draw points, each with its tip; radius may be one number a point."""
        sizes = np.broadcast_to(np.asarray(radius, dtype=np.float64), (len(xs),))
        for a, b, r, tip in zip(self.across(xs), self.up(ys), sizes, tips, strict=True):
            self._marks.append(tag("circle", tag("title", tip), cx=a, cy=b, r=r, class_="point c1"))

    def bars(self, edges: Any, heights: Any, tips: Sequence[str]) -> None:
        """Draw bars between edges from the scale's foot, each with its tip."""
        edges, foot = self.across(np.asarray(edges, dtype=np.float64)), self.height - BOTTOM
        for place, top in enumerate(self.up(heights)):
            if heights[place]:
                left, right, tall = edges[place] + 0.5, edges[place + 1] - 0.5, max(foot - top, 1.0)
                size = {"x": left, "y": foot - tall, "width": max(right - left, 0.8), "height": tall}
                self._marks.append(tag("rect", tag("title", tips[place]), **size, class_="bar c1"))

    def mark_x(self, value: float, words: str, colour: str = "c2") -> None:
        """Draw an upright line at a number, with words at its top."""
        at = float(self.across(value))
        left = at < self.width / 2
        place = {"x": at + (4 if left else -4), "y": TOP + 9, "text_anchor": "start" if left else "end"}
        self._marks.append(tag("line", x1=at, x2=at, y1=TOP, y2=self.height - BOTTOM, class_=f"rule {colour}"))
        self._marks.append(tag("text", words, class_=f"note {colour}", **place))

    def mark_y(self, value: float, words: str, colour: str = "c2") -> None:
        """Draw a level line at a number, with words above its right end."""
        at = float(self.up(value))
        above = at > TOP + 16
        self._marks.append(tag("line", x1=LEFT, x2=self.width - RIGHT, y1=at, y2=at, class_=f"rule {colour}"))
        place = {"x": self.width - RIGHT, "y": at - 4 if above else at + 12, "text_anchor": "end"}
        self._marks.append(tag("text", words, class_=f"note {colour}", **place))

    def diagonal(self) -> None:
        """Draw the line y = x."""
        low, high = max(self.x.low, self.y.low), min(self.x.high, self.y.high)
        self.line([low, high], [low, high], "muted", dashed=True)

    def svg(self) -> Safe:
        """Return the chart."""
        return svg([self._axes(), self._marks], self.width, self.height, self.label)

    def _axes(self) -> Safe:
        foot, right = self.height - BOTTOM, self.width - RIGHT
        parts = [tag("line", x1=LEFT, x2=right, y1=foot, y2=foot, class_="axis")]
        for tick in self.y.ticks(4):
            at = float(self.up(tick))
            parts.append(tag("line", x1=LEFT, x2=right, y1=at, y2=at, class_="grid"))
            parts.append(tag("text", short(tick), x=LEFT - 5, y=at + 3.5, text_anchor="end", class_="tick"))
        for tick in self.x.ticks(5):
            at = float(self.across(tick))
            parts.append(tag("line", x1=at, x2=at, y1=foot, y2=foot + 3, class_="axis"))
            parts.append(tag("text", short(tick), x=at, y=foot + 14, text_anchor="middle", class_="tick"))
        middle = LEFT + (right - LEFT) / 2
        parts.append(
            tag("text", self.x_label, x=middle, y=self.height - 6, text_anchor="middle", class_="axis-label")
        )
        if self.y_label:
            parts.append(tag("text", self.y_label, x=2.0, y=10.0, class_="axis-label"))
        return join(parts)


def half_of(values: Array) -> int:
    """Return how many of the largest values make up half of their sum."""
    heavy = np.sort(values)[::-1]
    return int(np.searchsorted(np.cumsum(heavy), 0.5 * heavy.sum())) + 1


def some(n: int, most: int = MOST_POINTS) -> IntArray:
    """Return at most so many of n places, evenly spread; first and last among them."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))
