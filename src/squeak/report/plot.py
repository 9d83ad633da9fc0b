"""One chart as inline SVG: axes, lines, points, bars; what is hovered over says its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from squeak.core.types import Array, IntArray
from squeak.report.scales import Scale, short
from squeak.report.tags import Safe, fixed, join, svg, tag

WIDTH = 360.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 12.0, 22.0, 38.0
MOST_POINTS = 600
"""Points drawn of one set: more make the page heavy and tell the eye nothing."""


class Plot:
    """A chart of fixed size in its own units; the page scales it. Colours are classes c1 to c4 of the page.

    Without JavaScript a browser shows each mark's ``<title>`` on hovering; the page's script makes them tooltips.

    Parameters
    ----------
    x, y : Scale
    x_label, y_label : str
    label : str
        What the chart shows, for readers who cannot see it.
    height : float
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
