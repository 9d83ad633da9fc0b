"""The atoms in the user's own columns: names, values, and which of them say most."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core.checks import is_number
from squeak.core.types import Array, Rows
from squeak.report.plot import some
from squeak.report.shell import Panel
from squeak.report.tags import number, table
from squeak.samplers.dictionary import Dictionary

MOST_COLUMNS = 8
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
    shown = list(columns)[:MOST_COLUMNS]
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
