"""The tab of explanations: which columns matter, and how predictions depend on the first of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.report.charts import named_bars
from squeak.report.dependence import MOST_SHOWN, Dependence, partial_dependence
from squeak.report.given import MOST_NAMED, Given, has_targets
from squeak.report.importance import Importance, permutation_importance, relevance, spans_of
from squeak.report.plot import Plot, Scale
from squeak.report.shell import Panel, Safe, Tab, number

OPERATIONS = 1e11
"""About so many multiplications may the permutations take; rows are left out until they do."""

FEWEST, MOST, REPEATS = 100, 1_000, 3


def explanations_tab(model: Any, given: Given | None) -> Tab:
    """Return the tab: relevance by the gradient, what permuting a column costs, dependence on the first columns."""
    tab = Tab("Explanations")
    if not has_targets(model):
        return tab
    try:
        shares = relevance(model)
    except (AttributeError, TypeError):  # a kernel without a gradient, CSR rows, or no atoms
        shares = {}
    if shares and all(np.isfinite(value) for value in shares.values()):
        words = (
            "The share of each column in how far predictions move where the atoms are: the mean of the squared "
            "slope along it, times its variance. It needs no rows. Of columns that move together, any may be shown."
        )
        bars = named_bars(list(shares), np.array(list(shares.values())), "relevance of columns")
        tab.add(Panel("Relevance", bars, words))
    if given is None or isinstance(given.X, list) or given.X.shape[1] > MOST_NAMED or given.n < 2:
        return tab
    rows = _affordable(model, given)
    first = list(shares)
    if given.y is not None:
        found = permutation_importance(model, given, repeats=REPEATS, max_rows=rows, random_state=0)
        tab.add(_importance_panel(found, min(rows, given.n)))
        first = list(found.names)
    columns = first[:MOST_SHOWN] or None
    for one in partial_dependence(model, given, columns, max_rows=min(rows, 300), random_state=0):
        tab.add(_dependence_panel(one))
    return tab


def _affordable(model: Any, given: Given) -> int:
    """Return how many rows can be permuted, column by column, within reasonable time."""
    atoms = len(getattr(model, "dictionary_", ())) or int(np.size(getattr(model, "coef_", 1_000)))
    width = int(given.X.shape[1])
    columns = len(spans_of(model, given))
    return int(np.clip(OPERATIONS / (REPEATS * columns * atoms * width), FEWEST, MOST))


def _importance_panel(found: Importance, rows: int) -> Panel:
    tips = [
        f"{name}: {found.metric} falls by {number(mean, 3)} ± {number(error, 2)}"
        for name, mean, error in zip(found.names, found.means, found.errors, strict=True)
    ]
    words = (
        f"How much {found.metric} ({number(found.score, 3)} on {rows:,} of the rows given) falls when a column's "
        f"values are exchanged between rows: the mean of {found.drops.shape[1]} permutations, with its "
        f"standard error in the tooltips. {found.caveat}"
    )
    bars = named_bars(found.names, np.maximum(found.means, 0.0), "importance of columns", tips)
    return Panel("Permutation importance", bars, words)


def _dependence_panel(found: Dependence) -> Panel:
    output = int(np.argmax(np.ptp(found.means, axis=0)))
    of = found.outputs[output]
    numeric = all(isinstance(value, float | int) for value in found.values)
    words = "The mean prediction when all rows take this value, and where the middle four fifths of them lie."
    words += f" Of {of!r}, which changes most." if len(found.outputs) > 1 else f" Of {of!r}." if of else ""
    words += "" if numeric else f" From left to right: {_listed(found.values)}."
    chart = _dependence_chart(found, output, numeric)
    return Panel(f"Dependence on {found.name}", chart, words)


def _dependence_chart(found: Dependence, output: int, numeric: bool) -> Safe:
    means, low, high = (part[:, output] for part in (found.means, found.low, found.high))
    xs = np.array(found.values, dtype=np.float64) if numeric else np.arange(len(means), dtype=np.float64)
    plot = Plot(
        Scale(xs, pad=0.03),
        Scale([*low, *high], pad=0.05),
        found.name if numeric else f"{found.name}, in order",
        "prediction",
        f"partial dependence on {found.name}",
    )
    plot.band(xs, low, high)
    tips = [
        f"{value if not numeric else number(value)}: {number(m)}, four fifths from {number(a)} to {number(b)}"
        for value, m, a, b in zip(found.values, means, low, high, strict=True)
    ]
    plot.line(xs, means, "c1", tips)
    return plot.svg()


def _listed(values: Any, most: int = 12) -> str:
    return ", ".join(map(str, values[:most])) + (", …" if len(values) > most else "")
