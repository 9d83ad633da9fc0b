"""The few charts that pages are made of: histograms, curves, clouds of points, bars with names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from squeak.core.types import Array
from squeak.report.plot import Plot, Scale, bins, short, some
from squeak.report.shell import Safe, join, number, percent, svg, tag

BINS = 30


def histogram(
    values: Array,
    x_label: str,
    label: str,
    *,
    log: bool = False,
    of: str = "atoms",
    weights: Array | None = None,
    other: Array | None = None,
    marks: Sequence[tuple[float, str]] = (),
    height: float = 240.0,
    count: int = BINS,
) -> Safe:
    """Return a histogram; ``other`` is drawn as a line over it, both as parts of their own whole where it is there.

    ``weights`` say what each value stands for: the bars then show their sums.
    """
    values = np.asarray(values, dtype=np.float64)
    everything = values if other is None else np.concatenate([values, np.asarray(other, dtype=np.float64)])
    everything = np.concatenate([everything, [place for place, _ in marks]])
    log = log and bool((everything > 0).all())
    edges = bins(everything, count, log)
    counts = np.histogram(values, edges, weights=weights)[0].astype(np.float64)
    beside = None if other is None else np.histogram(other, edges)[0].astype(np.float64)
    shown, unit = counts, of
    if beside is not None:
        shown, unit = counts / max(counts.sum(), 1e-300), "part of all"
        beside = beside / max(beside.sum(), 1e-300)
    tallest = shown if beside is None else np.concatenate([shown, beside])
    plot = Plot(Scale(edges, log=log), Scale(tallest, zero=True, pad=0.06), x_label, unit, label, height=height)
    tips = []
    for place, size in enumerate(shown):
        amount = f"{number(round(size))} {of}" if beside is None else f"{percent(size)} of {of}"
        data = "" if beside is None else f", {percent(beside[place])} of the rows"
        tips.append(f"{number(edges[place])} to {number(edges[place + 1])}: {amount}{data}")
    plot.bars(edges, shown, tips)
    if beside is not None:
        plot.line(np.repeat(edges, 2)[1:-1], np.repeat(beside, 2), "c2")
    for at, words in marks:
        plot.mark_x(at, words)
    return plot.svg()


def curves(
    lines: Sequence[tuple[str, Any, Any]],
    x_label: str,
    y_label: str,
    label: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    level: tuple[float, str] | None = None,
    upright: tuple[float, str] | None = None,
) -> Safe:
    """Return lines (name, x, y) in one chart, with a legend where there are two or more."""
    xs = np.concatenate([np.asarray(x, dtype=np.float64) for _, x, _ in lines])
    ys = np.concatenate([np.asarray(y, dtype=np.float64) for _, _, y in lines])
    ends_x = [*xs, *([upright[0]] if upright else [])]
    ends_y = [*ys, *([level[0]] if level else [])]
    log_x, log_y = log_x and min(ends_x) > 0, log_y and min(ends_y) > 0
    plot = Plot(Scale(ends_x, log=log_x), Scale(ends_y, log=log_y, pad=0.06), x_label, y_label, label)
    if level is not None:
        plot.mark_y(*level, "c3")
    if upright is not None:
        plot.mark_x(*upright, "c3")
    for place, (name, x, y) in enumerate(lines):
        which = some(len(x), 200)
        x, y = np.asarray(x, dtype=np.float64)[which], np.asarray(y, dtype=np.float64)[which]
        tips = [f"{name}: {number(b)} at {number(a)} {x_label}" for a, b in zip(x, y, strict=True)]
        plot.line(x, y, f"c{place + 1}", tips)
    return join(plot.svg(), legend([name for name, _, _ in lines]) if len(lines) > 1 else None)


def cloud(
    xs: Any,
    ys: Any,
    tips: Sequence[str],
    x_label: str,
    y_label: str,
    label: str,
    *,
    log: bool = False,
    radius: Any = 2.2,
    diagonal: bool = False,
) -> Safe:
    """Return points with tips; with ``diagonal`` both axes are the same and y = x is drawn."""
    xs, ys = np.asarray(xs, dtype=np.float64), np.asarray(ys, dtype=np.float64)
    log_x, log_y = log and bool((xs > 0).all()), log and bool((ys > 0).all())
    x = Scale([*xs, *ys] if diagonal else xs, log=log_x, pad=0.04)
    y = x if diagonal else Scale(ys, log=log_y, pad=0.04)
    plot = Plot(x, y, x_label, y_label, label)
    if diagonal:
        plot.diagonal()
    plot.points(xs, ys, tips, radius)
    return plot.svg()


def named_bars(
    names: Sequence[str],
    values: Any,
    label: str,
    tips: Sequence[str] | None = None,
    *,
    other: Any = None,
    top: int = 20,
    unit: str = "",
) -> Safe:
    """Return bars that lie, one a name, longest first where there are more than ``top``; ``other`` beside them.

    Tips say the numbers, in their unit, unless others are given.
    """
    values = np.asarray(values, dtype=np.float64)
    tips = tips or [f"{name}: {number(value)}{unit}" for name, value in zip(names, values, strict=True)]
    order = np.argsort(-values, kind="stable")[:top] if len(values) > top else np.arange(len(values))
    most = max(float(np.max(bars, initial=0.0)) for bars in (values[order], () if other is None else other))
    lines = []
    for place in order:
        parts = [tag("span", class_="fill c1", style=_width(values[place], most))]
        if other is not None:
            parts.append(tag("span", class_="fill c2 thin", style=_width(other[place], most)))
        name = tag("span", names[place], class_="name")
        amount = tag("span", short(float(f"{values[place]:.3g}")), class_="amount")
        track, tip = tag("span", parts, class_="track"), tips[place]
        lines.append(tag("li", name, track, amount, data_tip=tip, title=tip))
    left = len(values) - len(order)
    more = tag("p", f"and {left:,} more", class_="quiet") if left else None
    return join(tag("ul", lines, class_="hbars", aria_label=label), more)


def _width(value: float, most: float) -> str:
    return f"width:{100 * max(float(value), 0.0) / most:.1f}%" if most > 0 else "width:0"


def gauge(low: float, high: float, label: str) -> Safe:
    """Return the line from 0 to 1.2 with an interval on it, and the mark at 1 above which nothing is promised."""
    width, height = 360.0, 74.0
    ends = Scale([0.0, 1.2])

    def across(value: float) -> float:
        return 14.0 + float(ends.place(value)) * (width - 28.0)

    def well(low: float, high: float, class_: str) -> Safe:
        return tag(
            "rect", x=across(low), y=30.0, width=across(high) - across(low), height=10.0, rx=5.0, class_=class_
        )

    parts = [well(0, 1, "well"), well(1, 1.2, "well bad")]
    parts += [
        tag("text", short(tick), x=across(tick), y=56.0, text_anchor="middle", class_="tick")
        for tick in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    parts.append(tag("line", x1=across(1), x2=across(1), y1=24.0, y2=46.0, class_="rule c3"))
    words = "nothing is guaranteed from here"
    parts.append(tag("text", words, x=width - 14, y=70.0, text_anchor="end", class_="note c3"))
    shown = f"ε̂ = {low:.3f}" if high - low < 1e-9 else f"{low:.2f} ≤ ε̂ ≤ {number(high, 3)}"
    bar = {"x": min(across(low), width - 19), "y": 27.0, "width": max(across(high) - across(low), 5.0)}
    parts.append(tag("rect", tag("title", shown), **bar, height=16.0, rx=3.0, class_="bar c1"))
    middle = (across(low) + min(across(high), width - 14)) / 2
    place = {"x": min(max(middle, 70.0), width - 70.0), "y": 18.0, "text_anchor": "middle"}
    parts.append(tag("text", shown, **place, class_="note c1 strong"))
    return svg(parts, width, height, label, "plot gauge")


def legend(names: Sequence[str]) -> Safe:
    """Return the names of the colours, in the order of their classes."""
    keys = [tag("span", tag("i", class_=f"key c{place + 1}"), name) for place, name in enumerate(names)]
    return tag("p", keys, class_="legend")
