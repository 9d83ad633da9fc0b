"""How predictions depend on one column, all else as it is, and the tab of explanations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from squeak.core.checks import check_whole
from squeak.core.progress import progress
from squeak.core.seeds import RandomState
from squeak.core.types import Array
from squeak.report.charts import named_bars
from squeak.report.given import MOST_NAMED, Given, has_targets, preprocessing_of
from squeak.report.importance import (
    Importance,
    answers_of,
    dense,
    looked_at,
    permutation_importance,
    relevance,
    replaced,
    spans_of,
)
from squeak.report.plot import Plot, Scale
from squeak.report.shell import Panel, Safe, Tab, number

ENDS = 0.05, 0.95
"""The quantiles between which a column is looked at: beyond them there are few rows to learn from."""

BAND = 0.1, 0.9
"""The quantiles of the predictions that a band shows."""

MOST_SHOWN = 6
"""Columns that are looked at where none are named."""


@dataclass(frozen=True)
class Dependence:
    """How predictions depend on one column, all else as it is: what :func:`partial_dependence` found.

    Examples
    --------
    >>> import numpy as np, squeak
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> model = squeak.KernelRidge(max_atoms=50, random_state=0).fit(X, X[:, 1])
    >>> found = squeak.report.partial_dependence(model, X, ["column 1"], random_state=0)[0]
    >>> found.name, bool(found.means[-1, 0] > found.means[0, 0])
    ('column 1', True)
    """

    name: str
    values: tuple[Any, ...]
    """Values of the column, in the user's own units: numbers, dates as text, or categories."""
    outputs: tuple[str, ...]
    """The classes, or outputs, that the columns of the arrays below stand for; one empty name for a single one."""
    means: Array
    """The mean prediction at each value; shape (values, outputs)."""
    low: Array
    high: Array
    """What a tenth of the rows lies below, and above."""


def partial_dependence(
    model: Any,
    X: Any,
    columns: Sequence[Any] | None = None,
    *,
    n_points: int = 20,
    max_rows: int = 500,
    random_state: RandomState = None,
    verbose: int = 0,
) -> list[Dependence]:
    """Return how predictions depend on some columns: their mean, and a band, when all rows take the same value.

    Parameters
    ----------
    model : fitted regressor or classifier
    X : array, CSR, table, or row source
        Rows as the user has them.
    columns : sequence of str or int, optional
        The columns by name or place; without it the six that are most relevant, or the first six where the model
        has no ``relevance_``.
    n_points : int
        Values of each column: quantiles from 5% to 95% of its values, or its commonest categories.
    max_rows : int
        How many rows are looked at, drawn by ``random_state`` where there are more.
    random_state : None, int, RandomState or Generator
    verbose : int
        1 shows a progress bar.

    Returns
    -------
    list of Dependence

    Notes
    -----
    f̄_j(v) = (1/n) Σ_i f(x_i with column j set to v), and between which numbers the middle four fifths of the
    f(x_i with column j set to v) lie. Where the band is far wider than the curve is high, other columns decide. Of
    a classifier f are probabilities where it has them, else decisions. Where columns move together, rows with one
    of them set to v may never occur.

    References
    ----------
    Friedman (2001): "Greedy function approximation: a gradient boosting machine", Annals of Statistics 29, section
    8.2. Goldstein, Kapelner, Bleich, Pitkin (2015): "Peeking inside the black box", JCGS 24, for the single rows.

    Examples
    --------
    >>> import numpy as np, squeak
    >>> X = np.random.default_rng(0).uniform(-1, 1, (800, 2))
    >>> model = squeak.KernelRidge(alpha=0.1, max_atoms=60, random_state=0).fit(X, 1 + X[:, 0] ** 2)
    >>> (found,) = squeak.report.partial_dependence(model, X, [0], n_points=3, random_state=0)
    >>> found.name, found.means[:, 0].round(1).tolist()
    ('column 0', [1.8, 1.0, 1.8])
    """
    check_whole("n_points", n_points)
    given, _ = looked_at(model, X, None, max_rows, random_state)
    answer, outputs = answers_of(model)
    spans = spans_of(model, given)
    chosen = _chosen(model, spans, columns)
    found = []
    with progress("dependence", "columns", len(chosen), verbose) as bar:
        for place in chosen:
            name, span = spans[place]
            grid = _grid(dense(given.X[:, span]), n_points)
            answers = [answer(replaced(given.X, span, np.tile(value, (given.n, 1)))) for value in grid]
            low, high = (np.array([np.quantile(part, end, axis=0) for part in answers]) for end in BAND)
            means = np.array([part.mean(axis=0) for part in answers])
            names = outputs or (tuple(map(str, range(means.shape[1]))) if means.shape[1] > 1 else ("",))
            found.append(Dependence(name, _in_own_units(model, given, place, span, grid), names, means, low, high))
            bar.update(1)
    return found


def _grid(values: Array, n_points: int) -> Array:
    """Return values of a column to look at, shape (points, numbers): quantiles of a number, else the commonest."""
    distinct, counts = np.unique(values, axis=0, return_counts=True)
    if len(distinct) <= n_points:
        return np.asarray(distinct)
    if values.shape[1] > 1:
        return np.asarray(distinct[np.sort(np.argsort(-counts, kind="stable")[:n_points])])
    return np.unique(np.quantile(values, np.linspace(*ENDS, n_points), axis=0), axis=0)


def _in_own_units(model: Any, given: Given, place: int, span: slice, grid: Array) -> tuple[Any, ...]:
    encoding = preprocessing_of(model)
    if encoding is None:
        return tuple(float(value) for value in grid[:, 0])
    rows = np.zeros((len(grid), given.X.shape[1]))
    rows[:, span] = grid
    return tuple(encoding.columns[place].decode(encoding.unscaled(rows)[:, span]))


def _chosen(model: Any, spans: Sequence[tuple[str, slice]], columns: Sequence[Any] | None) -> list[int]:
    names = [name for name, _ in spans]
    if columns is None:
        try:
            shares = np.asarray(model.relevance_)
            return [int(place) for place in np.argsort(-shares, kind="stable")[:MOST_SHOWN]]
        except (AttributeError, TypeError):
            return list(range(min(MOST_SHOWN, len(names))))
    places = []
    for column in columns:
        if isinstance(column, int | np.integer) and 0 <= column < len(names):
            places.append(int(column))
        elif column in names:
            places.append(names.index(column))
        else:
            raise ValueError(f"there is no column {column!r}; there are {', '.join(map(repr, names[:12]))}")
    return places


OPERATIONS = 1e11
"""About so many multiplications may the permutations take; rows are left out until they do."""

FEWEST, MOST, REPEATS = 100, 1_000, 3
MOST_VALUES = 12


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
    if not numeric:
        listed = [*map(str, found.values[:MOST_VALUES]), *(["…"] if len(found.values) > MOST_VALUES else [])]
        words += f" From left to right: {', '.join(listed)}."
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
