"""The pages of a dictionary: growth, scores, weights, spectrum, accuracy, columns, atoms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh

from squeak.core.kernels import gram
from squeak.core.leverage import WeightedFactor, weighted_gram
from squeak.core.types import Array, IntArray
from squeak.report.certificate import Penalty, accuracy_panel
from squeak.report.charts import cloud, curves, histogram, legend
from squeak.report.columns import atoms_panel, column_panels, tips_of
from squeak.report.figures import places
from squeak.report.given import Given
from squeak.report.plot import half_of, short, some
from squeak.report.shell import Panel, Safe, Tab, fixed, join, number, percent, svg, table, tag
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


ALL_UP_TO = 2000
"""Atoms up to which every eigenvalue is computed; beyond, the largest by subspace iteration."""

LARGEST = 500
EXTRA, PASSES = 100, 3


def spectrum_of(K: Array, weights: Array) -> Array:
    """Return the eigenvalues of S K S, S² the weights, largest first: all of them, or the largest 500.

    The latter are Ritz values of a random subspace of 600 dimensions after three products with the matrix:
    never above the true ones.
    """
    W = weighted_gram(K, weights)
    if len(W) <= ALL_UP_TO:
        return np.asarray(np.maximum(eigvalsh(W, check_finite=False)[::-1], 0.0))
    basis = np.random.default_rng(0).standard_normal((len(W), LARGEST + EXTRA))
    for _ in range(PASSES):
        basis = np.linalg.qr(W @ basis)[0]
    found = eigvalsh(basis.T @ (W @ basis), check_finite=False)[::-1]
    return np.asarray(np.maximum(found[:LARGEST], 0.0))


def spectrum_panels(d: Dictionary, values: Array) -> list[Panel]:
    """Return the spectrum with the ridge marked, and the effective dimension against the ridge."""
    whole = len(values) == len(d)
    shown = values[values > max(1e-6 * d.ridge, 1e-12 * values[0])]
    above = int(np.sum(values > d.ridge))
    places = np.arange(1, len(shown) + 1)
    chart = curves(
        [("eigenvalue", places, shown)],
        "place",
        "eigenvalue",
        "eigenvalues of the kernel matrix with the ridge marked",
        log_x=True,
        log_y=True,
        level=(d.ridge, f"ridge {number(d.ridge)}"),
    )
    more = "" if whole else f" The largest {len(values)} of {len(d):,} are shown."
    words = (
        f"Estimated eigenvalues of K over all {d.n_seen:,} rows. {above:,} stand above the ridge: the directions "
        f"that the dictionary keeps. What lies below is smoothed away.{more}"
    )
    panels = [Panel("Spectrum", chart, words)]
    if whole:
        low, high = max(d.ridge / 100, 1e-9 * values[0]), max(values[0], d.ridge * 10)
        ridges = np.geomspace(low, high, 60)
        dimensions = (values[None, :] / (values[None, :] + ridges[:, None])).sum(axis=1)
        curve = curves(
            [("effective dimension", ridges, dimensions)],
            "ridge",
            "effective dimension",
            "effective dimension against the ridge",
            log_x=True,
            log_y=True,
            upright=(d.ridge, f"ridge {number(d.ridge)}"),
        )
        words = (
            "What another ridge would ask for: a dictionary has about oversampling times this many atoms. "
            "Left of the mark the curve is a lower estimate, since atoms were chosen for the ridge at the mark."
        )
        panels.append(Panel("Effective dimension", curve, words))
    return panels


@dataclass(frozen=True)
class Look:
    """A dictionary with what is computed from it once: scores of atoms, spectrum, effective dimension."""

    d: Dictionary
    given: Given | None = None
    names: list[str] | None = None
    penalty: Penalty | None = None
    """That of the ridge regression that stands on the dictionary."""

    @cached_property
    def gram(self) -> Array:
        """The kernel matrix of the atoms."""
        return gram(self.d.kernel, self.d.atoms)

    @cached_property
    def factor(self) -> tuple[WeightedFactor, IntArray]:
        """The factor that gives scores, and the order in which it holds the atoms."""
        return WeightedFactor.build(self.d.kernel, self.d.atoms, self.d.weights, self.d.ridge, self.gram)

    @cached_property
    def scores(self) -> Array | None:
        """The leverage scores of the atoms, in their order."""
        if not self.d.calibrated:
            return None
        factor, order = self.factor
        found = np.empty(len(self.d))
        found[order] = factor.atom_scores()
        return found

    @cached_property
    def dimension(self) -> float | None:
        """The effective dimension: Σ weight·score."""
        return None if self.scores is None else float(self.d.weights @ self.scores)

    @cached_property
    def spectrum(self) -> Array | None:
        """The eigenvalues of the weighted kernel matrix."""
        return spectrum_of(self.gram, self.d.weights) if self.d.calibrated else None


def facts_of(look: Look) -> list[tuple[str, str]]:
    """Return the few numbers at the head of the page."""
    d = look.d
    facts = [("Atoms", f"{len(d):,}"), ("Rows seen", f"{d.n_seen:,}")]
    if not d.calibrated:
        return [("Landmarks", f"{len(d):,}")]
    if look.dimension is not None:
        facts.append(("Effective dimension", number(look.dimension, 4)))
    return [*facts, ("Ridge", number(d.ridge))]


def dictionary_tabs(look: Look, name: str, history: Any = None, title: str = "Dictionary") -> list[Tab]:
    """Return the tabs of a dictionary: itself, its accuracy, its merge tree."""
    d = look.d
    tab = Tab(title)
    tab.add(growth_panel(d, look.dimension, history))
    if look.scores is not None and look.spectrum is not None:
        tab.add(_scores_panel(look), *spectrum_panels(d, look.spectrum), _weights_panel(look))
    tab.add(_sources_panel(d))
    if d.calibrated or look.given is not None:
        tab.panels.insert(0, accuracy_panel(d, look.given, look.penalty, name, look.dimension or 0.0))
    tree = Tab("Merge tree", tree_panels(d.record))
    return [tab, tree]


def atoms_tab(look: Look, model: Any, extra: dict[str, Array]) -> Tab:
    """Return the tab of columns and atoms."""
    tab = Tab("Columns and atoms", column_panels(look.d, look.given, look.names, model))
    tab.add(atoms_panel(look.d, look.scores, look.names, extra))
    return tab


def _scores_panel(look: Look) -> Panel:
    d, scores = look.d, look.scores
    assert scores is not None
    other = None
    if look.given is not None:
        other = look.factor[0].scores(look.given.sample(2000).X, 1.0 - d.eps)
        other = np.maximum(other, float(scores.min()) * 1e-2)
    chart = histogram(scores, "leverage score", "histogram of the atoms' leverage scores", log=True, other=other)
    keys = legend(["atoms", "rows given"]) if other is not None else None
    rare = percent(float(np.mean(scores > 0.5)))
    words = (
        f"A score near 1 is a row that no other row resembles; {rare} of the atoms score above 0.5. Scores of all "
        f"rows add up to the effective dimension, {number(look.dimension or 0.0, 4)}."
    )
    return Panel("Leverage scores", join(chart, keys), words)


def _weights_panel(look: Look) -> Panel:
    d, scores = look.d, look.scores
    assert scores is not None
    weights = d.weights
    which = np.sort(np.argsort(-weights, kind="stable")[some(len(d))])
    tips, label = tips_of(d, which, scores), "weights of atoms against their scores"
    chart = cloud(scores[which], weights[which], tips, "leverage score", "weight", label, log=True)
    words = (
        f"Atoms of low score stand for many rows. {half_of(weights):,} of {len(d):,} atoms carry half of the "
        f"weight; all weights add up to {number(round(weights.sum()))}, an estimate of the {d.n_seen:,} rows."
    )
    return Panel("Who carries weight", chart, words)


def _sources_panel(d: Dictionary) -> Panel | None:
    if len(d.sources) < 2:
        return None
    atoms = np.bincount(d.source_numbers, minlength=len(d.sources))
    held = np.bincount(d.source_numbers, weights=d.weights, minlength=len(d.sources))
    lines = [
        [name, size, int(atoms[place]), float(f"{held[place]:.4g}")] for place, (name, size) in enumerate(d.sources)
    ]
    words = None if len(lines) <= 40 else f"The first 40 of {len(lines):,} parts."
    return Panel("Parts of the data", table(["source", "rows", "atoms", "weight"], lines[:40]), words)
