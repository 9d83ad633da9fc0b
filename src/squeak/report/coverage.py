"""How many of the targets given lie within a model's intervals."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core.types import Array
from squeak.data import Block
from squeak.report.given import Given
from squeak.report.plot import Plot
from squeak.report.scales import Scale
from squeak.report.shell import Panel
from squeak.report.tags import Safe, join, number, percent, table

LEVELS = (0.5, 0.8, 0.9, 0.95)


def coverage_panel(model: Any, given: Given | None) -> Panel | None:
    """Return the part of targets within intervals of several coverages; None for a model without intervals."""
    if given is None or given.y is None or not hasattr(model, "predict_interval"):
        return None
    truth = np.asarray(given.y, dtype=np.float64).reshape(given.n, -1)[:, 0]
    lines, found = [], []
    for level in LEVELS:
        low, high = (_first(end) for end in model.predict_interval(Block(given.X), coverage=level))
        inside = float(np.mean((low <= truth) & (truth <= high)))
        wide = high - low
        finite = wide[np.isfinite(wide)]
        found.append(inside)
        middle = number(float(np.median(finite)), 3) if len(finite) else "–"
        lines.append([percent(level), percent(inside), middle])
    chart = _chart(np.array(found))
    words = (
        "Intervals that were asked to hold a part of the targets, and the part that they hold. On the dashed line "
        "they are as promised; above it they are wider than they need be. Rows of the fit flatter them."
    )
    body = join(chart, table(["asked", "held", "median width"], lines))
    return Panel("Coverage of the intervals", body, words)


def _first(values: Any) -> Array:
    values = np.asarray(values, dtype=np.float64)
    return np.asarray(values.reshape(len(values), -1)[:, 0])


def _chart(found: Array) -> Safe:
    asked = np.array(LEVELS)
    ends = [*asked, *found, 1.0]
    plot = Plot(Scale(ends), Scale(ends), "asked", "held", "coverage of intervals", height=200.0)
    plot.diagonal()
    tips = [f"asked {percent(a)}: {percent(b)}" for a, b in zip(asked, found, strict=True)]
    plot.line(asked, found, "c1", tips)
    return plot.svg()
