"""The data's columns: what the kernel sees of each, and where the atoms stand in it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core.checks import is_number
from squeak.core.kernels import block, diagonal
from squeak.core.rows import take
from squeak.core.types import Array, IntArray, Rows
from squeak.report.charts import histogram, legend, named_bars
from squeak.report.given import MOST_NAMED, Given
from squeak.report.importance import moving_together
from squeak.report.plot import some
from squeak.report.shell import Panel, Safe, join, number, percent, table
from squeak.samplers.dictionary import Dictionary

MOST_IN_TABLE = 8
LISTED = 25


def atom_columns(d: Dictionary, which: Any, names: list[str] | None = None) -> dict[str, list[Any]]:
    """Return some atoms as columns of the user's own, where it is known what they were."""
    atoms: Rows = d.atoms
    if isinstance(atoms, list):
        return {"object": [atoms[number_] for number_ in which]}
    chosen = atoms[which]
    if d.preprocessing is not None:
        return d.preprocessing.decode(chosen)
    if sp.issparse(chosen):
        return {"largest entries": [_largest(chosen[[line]]) for line in range(chosen.shape[0])]}
    return {title: list(chosen[:, column]) for column, title in enumerate(titles_of(chosen, names))}


def titles_of(rows: Any, names: list[str] | None) -> list[str]:
    """Return a title for every column: its name where all are known, else its number."""
    width = rows.shape[1]
    return names if names is not None and len(names) == width else [str(column) for column in range(width)]


def _largest(row: Any) -> str:
    order = np.argsort(-np.abs(row.data))[:3]
    return " ".join(f"{row.indices[place]}:{row.data[place]:.3g}" for place in order)


def place_of(d: Dictionary, atom: int) -> str:
    """Return where an atom's row stands: its source, where there are several, and its number there."""
    source = f"{d.sources[d.source_numbers[atom]][0]}:" if len(d.sources) > 1 else ""
    return f"{source}{d.indices[atom]}"


def atoms_panel(d: Dictionary, scores: Array | None, names: list[str] | None, extra: dict[str, Array]) -> Panel:
    """Return the atoms with the largest of ``extra`` (the last of them), else the largest scores, as a table."""
    measure = list(extra.values())[-1] if extra else scores
    order = np.argsort(-np.abs(measure), kind="stable")[:LISTED] if measure is not None else some(len(d), LISTED)
    columns = atom_columns(d, order, names)
    shown = list(columns)[:MOST_IN_TABLE]
    lines: list[list[Any]] = []
    weights = d.weights
    for line, atom in enumerate(order):
        cells: list[Any] = [place_of(d, int(atom)), float(weights[atom])]
        cells += [] if scores is None else [float(scores[atom])]
        cells += [float(values[atom]) for values in extra.values()]
        lines.append([*cells, *(_value(columns[name][line]) for name in shown)])
    headings = ["row", "weight", *([] if scores is None else ["score"]), *extra, *shown]
    by = list(extra)[-1] if extra else "leverage score"
    left = len(columns) - len(shown)
    words = f"{len(order)} of {len(d):,} atoms{'' if measure is None else f', largest {by} first'}."
    words += f" {left:,} more columns are not shown." if left > 0 else ""
    words += " A weight of w stands for about w rows of the data." if d.calibrated else ""
    return Panel("Atoms that say most", table(headings, lines), words, wide=True)


def _value(value: Any) -> Any:
    return float(value) if is_number(value) else str(value)


def tips_of(d: Dictionary, which: Any, scores: Array | None) -> list[str]:
    """Return words for atoms: where they come from, their weight and score."""
    weights, found = d.weights, []
    for atom in which:
        score = "" if scores is None else f", score {number(scores[atom], 3)}"
        found.append(f"row {place_of(d, int(atom))}: weight {number(weights[atom], 3)}{score}")
    return found


MOST_COLUMNS = 24
"""Columns with a picture of their own: those that matter most."""

PERIODS = (("D", 1), ("M", 1), ("Y", 1), ("Y", 10), ("Y", 1000))
"""Stretches of a timeline: a day, a month, a year, a decade, a millennium."""

MOST_PERIODS = 24

PROBE = 400
"""Atoms whose columns are exchanged to see what that changes."""


def column_panels(d: Dictionary, given: Given | None, names: list[str] | None, model: Any) -> list[Panel]:
    """Return the influence of every column, and a picture for each of the strongest."""
    if isinstance(d.atoms, list) or d.atoms.shape[1] > MOST_NAMED:
        return []
    groups = _groups(d, names)
    influence = _influence(d, model, groups)
    titles = sorted(groups, key=lambda name: -influence[name])
    values = np.array([influence[name] for name in titles])
    of_model = model is not None
    what = "predictions move" if of_model else "the kernel falls"
    tips = [f"{name}: {number(value, 3)}" for name, value in zip(titles, values, strict=True)]
    words = (
        f"How far {what} when a row takes this column's value from another row, all else equal"
        + (
            ": root mean square, over the predictions' own spread. "
            if of_model
            else ": mean of 1 − k(x, x′)/√(k k′). "
        )
        + f"Measured on {min(len(d), PROBE):,} atoms, by their weights. A column with 0 does not matter."
        + _caveat(d, groups)
    )
    panels = [Panel("Influence of the columns", named_bars(titles, values, "influence of columns", tips), words)]
    atoms = atom_columns(d, np.arange(len(d)), names)
    data = None if given is None else _given_columns(d, given, names)
    shown = [name for name in groups if name in titles[:MOST_COLUMNS] and name in atoms]
    return panels + [_column(d, name, atoms[name], None if data is None else data[name]) for name in shown]


def _caveat(d: Dictionary, groups: dict[str, IntArray]) -> str:
    """Return a sentence on columns that move together, whose influences cannot be told apart; "" if none do."""
    rows = take(d.atoms, some(len(d), PROBE))
    spans = [slice(int(places[0]), int(places[-1]) + 1) for places in groups.values()]
    names = list(groups)
    together = [" and ".join(names[place] for place in group) for group, _ in moving_together(rows, spans)]
    if not together:
        return ""
    return (
        f" These columns move together, so their influences cannot be told apart: {'; '.join(together)}. "
        "Exchanging one of them alone makes rows that do not occur."
    )


def _groups(d: Dictionary, names: list[str] | None) -> dict[str, IntArray]:
    """Return the features that each of the user's columns became."""
    if d.preprocessing is None:
        return {name: np.array([place]) for place, name in enumerate(titles_of(d.atoms, names))}
    found, at = {}, 0
    for column in d.preprocessing.columns:
        found[column.name] = np.arange(at, at + len(column.features))
        at += len(column.features)
    return found


def _influence(d: Dictionary, model: Any, groups: dict[str, IntArray]) -> dict[str, float]:
    """Return, for every column, what changes when its values are exchanged between atoms of random pairs."""
    places = some(len(d), PROBE)
    rows = take(d.atoms, places)
    rows = np.asarray(rows.toarray() if sp.issparse(rows) else rows)
    weights = d.weights[places] / d.weights[places].sum()
    other = np.random.default_rng(0).permutation(len(rows))
    change = _change_of_kernel if model is None else _change_of_model
    found = {}
    for name, features in groups.items():
        moved = rows.copy()
        moved[:, features] = rows[np.ix_(other, features)]
        found[name] = change(d, model, rows, moved, weights)
    return found


def _change_of_kernel(d: Dictionary, model: Any, rows: Array, moved: Array, weights: Array) -> float:
    change = 0.0
    for part in range(0, len(rows), 100):  # a block's diagonal: small blocks waste little
        here = slice(part, part + 100)
        values = np.diagonal(block(d.kernel, rows[here], moved[here]))
        sizes = np.sqrt(diagonal(d.kernel, rows[here]) * diagonal(d.kernel, moved[here]))
        same = np.divide(values, sizes, out=np.ones(len(values)), where=sizes > 0)
        change += float(weights[here] @ (1.0 - same))
    return max(change, 0.0)


def _change_of_model(d: Dictionary, model: Any, rows: Array, moved: Array, weights: Array) -> float:
    before, after = (np.asarray(model(part), dtype=np.float64).reshape(len(rows), -1) for part in (rows, moved))
    spread = float(np.sqrt(weights @ ((before - weights @ before) ** 2).sum(axis=1)))
    moved_by = float(np.sqrt(weights @ ((after - before) ** 2).sum(axis=1)))
    return moved_by / spread if spread > 0 else 0.0


def _given_columns(d: Dictionary, given: Given, names: list[str] | None) -> dict[str, list[Any]]:
    rows = given.sample(20_000).X
    if d.preprocessing is not None:
        return d.preprocessing.decode(rows)
    dense = rows.toarray() if sp.issparse(rows) else np.asarray(rows)
    return {name: list(dense[:, features[0]]) for name, features in _groups(d, names).items()}


def _column(d: Dictionary, name: str, atoms: list[Any], data: list[Any] | None) -> Panel:
    numeric = all(isinstance(value, int | float | np.number) for value in atoms[:50])
    dates = d.preprocessing is not None and any(
        column.name == name and getattr(column, "kind", "") == "date" for column in d.preprocessing.columns
    )
    body, words = (_numbers if numeric else _timeline if dates else _values)(d, name, atoms, data)
    return Panel(name, body, words)


def _timeline(d: Dictionary, name: str, atoms: list[Any], data: list[Any] | None) -> tuple[Safe, str]:
    """Return bars in the order of time: one per day, month, year or decade, whichever gives at most 24 of them."""
    everything = [str(value) for value in (*atoms, *(data or ()))]
    try:
        moments = np.array(everything, dtype="datetime64[s]")
    except ValueError:  # years beyond the calendar are decoded as a number of days
        return _values(d, name, atoms, data)
    for unit, width in PERIODS:
        periods = moments.astype(f"datetime64[{unit}]").astype(np.int64) // width
        first, count = int(periods.min()), int(np.ptp(periods)) + 1
        if count <= MOST_PERIODS:
            break
    places = periods - first
    held = np.bincount(places[: len(atoms)], d.weights, minlength=count)
    parts = held / held.sum()
    other = None if data is None else np.bincount(places[len(atoms) :], minlength=count) / len(data)
    titles = np.datetime_as_string((width * np.arange(first, first + count)).astype(f"datetime64[{unit}]")).tolist()
    tips = [
        f"from {title}: {percent(part)} of the atoms' weight"
        + ("" if other is None else f", {percent(other[place])} of rows")
        for place, (title, part) in enumerate(zip(titles, parts, strict=True))
    ]
    bars = named_bars(titles, parts, f"values of {name} in the order of time", tips, other=other, top=count)
    keys = None if data is None else legend(["atoms by weight", "rows given"])
    days = moments[: len(atoms)].astype("datetime64[D]")
    return join(bars, keys), f"Atoms from {days.min()} to {days.max()}."


def _numbers(d: Dictionary, name: str, atoms: list[Any], data: list[Any] | None) -> tuple[Safe, str]:
    values = np.asarray(atoms, dtype=np.float64)
    other = None if data is None else np.asarray(data, dtype=np.float64)
    keys = None if data is None else legend(["atoms by weight", "rows given"])
    chart = histogram(
        values,
        "",
        f"values of {name}",
        weights=d.weights,
        of="rows" if other is None else "the atoms' weight",
        other=other,
        height=160.0,
        count=24,
    )
    words = f"Atoms from {number(values.min())} to {number(values.max())}"
    if other is not None:
        words += f", {len(other):,} of the rows from {number(other.min())} to {number(other.max())}"
    return join(chart, keys), f"{words}."


def _values(d: Dictionary, name: str, atoms: list[Any], data: list[Any] | None) -> tuple[Safe, str]:
    held: Counter[str] = Counter()
    for value, weight in zip(atoms, d.weights, strict=True):
        held[str(value)] += weight
    seen = Counter(str(value) for value in data or ())
    titles = list(dict.fromkeys([*held, *seen]))
    total, rows = sum(held.values()), max(sum(seen.values()), 1)
    parts = np.array([held[title] / total for title in titles])
    other = np.array([seen[title] / rows for title in titles]) if data is not None else None
    order = np.argsort(-parts, kind="stable")
    tips = [
        f"{title}: {percent(part)} of the atoms' weight"
        + ("" if other is None else f", {percent(other[place])} of rows")
        for place, (title, part) in enumerate(zip(titles, parts, strict=True))
    ]
    bars = named_bars(
        [titles[place] for place in order],
        parts[order],
        f"values of {name}",
        [tips[place] for place in order],
        other=None if other is None else other[order],
        top=12,
    )
    keys = None if data is None else legend(["atoms by weight", "rows given"])
    return join(bars, keys), f"{len(held):,} values among the atoms."
