"""How the dictionary grew: along the stream, and up the merge tree."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.report.charts import curves
from squeak.report.scales import short
from squeak.report.shell import Panel
from squeak.report.tags import Safe, fixed, number, svg, table, tag
from squeak.report.tree import places
from squeak.samplers.dictionary import Dictionary
from squeak.samplers.record import HISTORY, Record

MOST_LISTED = 63
"""Nodes listed in the table beside the tree."""


def growth_panel(d: Dictionary, dimension: float | None, history: Any = None) -> Panel | None:
    """Return size and effective dimension against rows, from the record or a sampler's own history."""
    points = _points(d.record, history)
    if len(points) == 0:
        return None
    now = [d.n_seen, len(d), np.nan if dimension is None else dimension, d.ridge]
    points = np.vstack([points[(points[:, 0] < d.n_seen) & (points[:, 1] > 0)], now])
    rows = points[:, 0]
    known = np.isfinite(points[:, 2])
    lines = [("atoms", rows, points[:, 1])]
    if known.any():
        lines.append(("effective dimension", rows[known], points[known, 2]))
    chart = curves(
        lines, "rows seen", "", "dictionary size and effective dimension against rows", log_x=True, log_y=True
    )
    words = "A flat end means that new rows resemble old ones: the dictionary has seen what there is to see."
    raised = points[-1, 3] / points[0, 3]
    if raised > 1.001:
        words += f" The ridge was raised from {number(points[0, 3])} to {number(points[-1, 3])} to keep the limit."
    return Panel("Growth along the stream", chart, words)


def _points(record: Record | None, history: Any) -> Any:
    if history:
        return np.array([[entry.get(name, np.nan) for name in HISTORY] for entry in history], dtype=np.float64)
    return np.zeros((0, len(HISTORY))) if record is None else record.history


def tree_panels(record: Record | None) -> list[Panel]:
    """Return the merge tree with sizes and times, and its nodes as a table."""
    if record is None or not record.merges:
        return []
    timed = np.isfinite(record.nodes[:, 4])
    words = "Leaves at the bottom, each merge above its children; a node's area follows its atoms. "
    if timed.any():
        total, longest = float(record.nodes[timed, 4].sum()), _longest_way(record)
        words += (
            f"All nodes took {number(total, 3)} s of work; the longest way from a leaf to the root "
            f"{number(longest, 3)} s, which is the least time on any number of machines."
        )
    panels = [Panel("Merge tree", _tree(record), words, wide=True)]
    listed = []
    for node, facts in list(enumerate(record.nodes.tolist()))[-MOST_LISTED:]:
        kind = "leaf" if node < len(record.nodes) - len(record.merges) else "merge"
        listed.append([node, kind, *facts[:3], facts[3], facts[4], facts[5] / 1e3])
    headings = ["node", "", "rows", "atoms", "d_eff", "ridge", "seconds", "kB"]
    left = len(record.nodes) - len(listed)
    note = f"The last {len(listed)} of {len(record.nodes)} nodes." if left else None
    panels.append(Panel("Nodes", table(headings, listed[::-1], "numbers"), note, wide=True))
    return panels


def _longest_way(record: Record) -> float:
    seconds = np.nan_to_num(record.nodes[:, 4])
    ends = list(seconds[: len(seconds) - len(record.merges)])
    for children in record.merges:
        ends.append(seconds[len(ends)] + max(ends[child] for child in children))
    return float(ends[-1])


def _tree(record: Record) -> Safe:
    """Return the drawing: a node stands above the middle of its children."""
    n_leaves = len(record.nodes) - len(record.merges)
    across, level = places(n_leaves, record.merges)
    step = max(13.0, min(84.0, 960.0 / max(n_leaves, 1)))
    width, rise = 72.0 + step * max(n_leaves - 1, 1), 54.0
    height = 60.0 + rise * max(level)
    x = [28.0 + step * place for place in across]
    y = [height - 42.0 - rise * floor for floor in level]
    parts: list[Safe] = []
    for node, children in enumerate(record.merges, n_leaves):
        for child in children:
            path = f"M{fixed(x[child])} {fixed(y[child])}C{fixed(x[child])} {fixed(y[child] - rise / 2)} "
            path += f"{fixed(x[node])} {fixed(y[node] + rise / 2)} {fixed(x[node])} {fixed(y[node])}"
            parts.append(tag("path", d=path, class_="twig"))
    most = np.nanmax(record.nodes[:, 1]) if np.isfinite(record.nodes[:, 1]).any() else 1.0
    roomy = step >= 30
    for node, (rows, atoms, dimension, ridge, seconds, _) in enumerate(record.nodes.tolist()):
        tip = f"node {node}: {number(rows)} rows, {number(atoms)} atoms, d_eff {number(dimension, 3)}"
        tip += f", ridge {number(ridge)}"
        tip += f", {number(seconds, 3)} s" if np.isfinite(seconds) else ""
        radius = 3.0 + 7.0 * float(np.sqrt(np.nan_to_num(atoms) / most))
        parts.append(tag("circle", tag("title", tip), cx=x[node], cy=y[node], r=radius, class_="node"))
        leaf = node < n_leaves
        if np.isfinite(atoms) and (roomy or not leaf):  # beside a merge, below a leaf: no twig passes there
            right, down, anchor = (0.0, radius + 12, "middle") if leaf else (radius + 5, 4, "start")
            at = {"x": x[node] + right, "y": y[node] + down}
            parts.append(tag("text", short(atoms), text_anchor=anchor, class_="tick", **at))
    picture = svg(parts, width, height, "merge tree", top=-12)
    return tag("div", picture, class_="scroll tree", tabindex="0", style=f"--least:{fixed(width)}px")
