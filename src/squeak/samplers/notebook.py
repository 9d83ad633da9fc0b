"""A dictionary at a glance, as notebooks show it: a few numbers and a tiny histogram of its weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core.text import for_page
from squeak.core.types import Array

BARS, WIDTH, HEIGHT = 20, 120, 28
STYLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"


def dictionary_html(d: Any) -> str:
    """Return a small table: atoms, rows seen, ridge, effective dimension, kernel, weights.

    Colours are the page's own, so that it reads in the dark too; texts are escaped.
    """
    facts = {"atoms": f"{len(d):,}", "rows seen": f"{d.n_seen:,}", "kernel": str(d.kernel)}
    if d.calibrated:
        facts["ridge"] = f"{d.ridge:.4g}"
        facts["effective dimension"] = f"about {d.effective_dimension():.3g}"
    if d.record is not None:
        facts["learned by"] = d.record.call
    weights = d.weights
    shown = {for_page(name): for_page(value) for name, value in facts.items()}
    shown["weights"] = f"{_bars(weights)} {weights.min():.3g} to {weights.max():.3g}"
    left = 'style="text-align:left"'
    lines = [f"<tr><th {left}>{name}</th><td {left}>{value}</td></tr>" for name, value in shown.items()]
    caption = '<caption style="text-align:left"><b>Dictionary</b></caption>'
    return f'<table style="{STYLE}">{caption}{"".join(lines)}</table>'


def _bars(values: Array) -> str:
    """Return a histogram on a logarithmic axis as inline SVG."""
    low, high = float(values.min()), float(values.max())
    spread = high > 1.001 * low
    edges = np.geomspace(low, high, BARS + 1) if spread else np.linspace(0.5 * low, 1.5 * high, BARS + 1)
    counts = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0]
    step, tallest = WIDTH / BARS, max(int(counts.max()), 1)
    bars = "".join(
        f'<rect x="{place * step:.1f}" y="{HEIGHT - HEIGHT * count / tallest:.1f}" width="{step - 1:.1f}" '
        f'height="{HEIGHT * count / tallest:.1f}"/>'
        for place, count in enumerate(counts)
        if count
    )
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" fill="currentColor" opacity="0.7" '
        f'role="img" aria-label="histogram of weights" style="vertical-align:middle">{bars}</svg>'
    )
