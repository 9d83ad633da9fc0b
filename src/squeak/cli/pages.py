"""A page of text about a saved object, for the terminal."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from squeak.core import storage
from squeak.core.text import for_terminal
from squeak.data import Preprocessing
from squeak.online.base import OnlineEstimator
from squeak.report.columns import atom_columns, place_of
from squeak.samplers.dictionary import Dictionary

BARS = 24
COLUMNS = 8


def page(obj: Any, path: Path, atoms: int) -> str:
    """Return the page for a dictionary, a sampler or checkpoint, a model on a dictionary, or a preprocessing."""
    head = f"{for_terminal(path)} ({path.stat().st_size / 1e3:,.0f} kB)"
    if isinstance(obj, Preprocessing):
        return "\n".join([f"{head}: preprocessing", *preprocessing(obj)])
    if isinstance(obj, OnlineEstimator):
        return "\n".join([f"{head}: {type(obj).__name__}, {obj.n_seen_:,} rows learned so far", *_online(obj)])
    lines = []
    if not isinstance(obj, Dictionary):
        found = getattr(obj, "dictionary_", None)
        if not isinstance(found, Dictionary):
            return "\n".join([f"{head}: {type(obj).__name__}", *_chosen(obj), MORE])
        seen = getattr(obj, "n_seen_", None)
        lines.append(f"{head}: {type(obj).__name__}" + ("" if seen is None else f", {seen:,} rows read so far"))
        names = {"alpha_": "alpha", "solver_": "solver", "classes_": "classes"}
        known = {words: getattr(obj, name) for name, words in names.items() if hasattr(obj, name)}
        if "classes" in known:
            known["classes"] = _names(known["classes"].tolist())
        lines += [f"  {words:<20} {value}" for words, value in known.items()]
        obj = found
    else:
        lines.append(f"{head}: dictionary")
    lines += [*_facts(obj), "", *_spectrum(obj)]
    if obj.preprocessing is not None:
        lines += ["", *preprocessing(obj.preprocessing)]
    return "\n".join([*lines, "", *_atoms(obj, atoms)])


MORE = "`squeak report` writes a page that says more"


def searched(learner: Any) -> list[str]:
    """Return lines about what an automatic learner tried, and about what limits it."""
    tried = [f"    {stage['error']:.4f}  {stage['model']}{_part(stage)}" for stage in learner.search_]
    head = "  error on held-out rows, divided by the error of a constant prediction:"
    return [head, *tried, *(f"  {limit}" for limit in learner.limits_)]


def _part(stage: dict[str, Any]) -> str:
    """Return what a model that was tried is to the model that was learned."""
    if stage["stage"] == "all rows":
        return f", on all rows: {stage['weight']:.0%} of the model"
    if stage["stage"] == "fold":
        return f", {stage['weight']:.0%} of the model"
    return ": the model" if stage["stage"] == "mixture" else ""


def _chosen(model: Any) -> list[str]:
    """Return what an automatic model knows of itself; nothing for others."""
    lines = [f"  classes: {_names(model.classes_.tolist())}"] if hasattr(model, "classes_") else []
    if hasattr(model, "knows_errors_"):
        lines += _parts(model)
    if hasattr(model, "search_"):
        lines += searched(model)
    known = getattr(model, "preprocessing_", None)
    return lines if known is None else [*lines, "", *preprocessing(known), ""]


def _parts(model: Any) -> list[str]:
    """Return what there is to say of local experts."""
    atoms = [sum(map(len, expert)) for expert in model.experts_]
    classes = hasattr(model, "classes_")
    known = hasattr(model, "predict_proba") if classes else model.knows_errors_
    each = f"{min(atoms):,}" if min(atoms) == max(atoms) else f"{min(atoms):,} to {max(atoms):,}"
    return [
        f"  {'parts':<20} {len(atoms):,}, each with a model of its own",
        f"  {'atoms':<20} {sum(atoms):,}, of which every part has {each}",
        f"  {'kernel':<20} {model.kernel_!r} (that of the first part)",
        f"  {'probabilities' if classes else 'intervals':<20} {'yes' if known else 'no'}",
    ]


def page_of_fit(path: Path, content: dict[str, Any]) -> str:
    """Return the page for the checkpoint of a fit."""
    run, size = content["run"], f"{path.stat().st_size / 1e3:,.0f} kB"
    part, _, rows, _ = run["cursor"]
    read = f"{rows:,} rows" if rows or not part else f"{part:,} parts"  # workers read parts and count no rows
    state = "has ended" if run["finished"] else f"has read {read} of its pass at hand"
    stage = "the dictionary is being learned" if "stream" in content else "there is a dictionary"
    return (
        f"{for_terminal(path)} ({size}): checkpoint of a {for_terminal(content['sampler'])}, which {state}; "
        f"{stage}, {content['done']} sums over the rows are done"
    )


def _online(model: Any) -> list[str]:
    facts = {"kernel": repr(model.kernel_), "atoms": f"{model.n_atoms_:,}", "loss": model.loss}
    if hasattr(model, "classes_"):
        facts["classes"] = _names(model.classes_.tolist())
    lines = [f"  {name:<20} {value}" for name, value in facts.items()]
    return lines if model.preprocessing_ is None else [*lines, "", *preprocessing(model.preprocessing_)]


def page_without_kernel(path: Path) -> str:
    """Return the page for an object whose kernel is code: what the file says, and nothing that needs the kernel."""
    kind, arrays, content = storage.read(path)
    size = f"{path.stat().st_size / 1e3:,.0f} kB"
    lines = [f"{for_terminal(path)} ({size}): {for_terminal(kind)}; its kernel is code, which files never hold"]
    names = ("kernel_repr", "n_seen", "ridge", "oversampling", "copies", "sources")
    lines += [f"  {name:<20} {for_terminal(content[name])}" for name in names if name in content]
    atoms = len(arrays.get("indices", arrays.get("atom_weights", [])))
    return "\n".join([*lines, f"  {'atoms':<20} {atoms:,}"])


HEADINGS = {
    "sampler": "sampler",
    "oversampling": "q",
    "atoms": "atoms",
    "seconds": "seconds",
    "passes": "passes",
    "kernel_evaluations": "k(x, z)",
    "accuracy_high": "ε̂",
    "ratio_mean": "τ̃/τ",
    "ratio_5%": "5%",
    "ratio_95%": "95%",
    "trace_error": "trace",
    "risk_factor": "risk",
}


def comparison(table: Any) -> str:
    """Return the table of :func:`squeak.samplers.compare` for the terminal."""
    records = table.to_dict("records") if hasattr(table, "to_dict") else table
    lines = [list(HEADINGS.values())]
    for record in records:
        cells = [record[name] for name in HEADINGS]
        lines.append(
            [cell if isinstance(cell, str) else "–" if np.isnan(cell) else f"{cell:.3g}" for cell in cells]
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    return "\n".join(
        "  ".join([f"{line[0]:<{widths[0]}}", *(f"{c:>{w}}" for c, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    )


def _facts(d: Dictionary) -> list[str]:
    weights = d.weights
    facts = {
        "atoms": f"{len(d):,} for {d.n_seen:,} rows, one in {d.n_seen / len(d):,.0f}",
        "kernel": for_terminal(d.kernel),
        "ridge": f"{d.ridge:.6g}",
        "sampling": f"oversampling {'–' if d.oversampling is None else f'{d.oversampling:g}'}, copies {d.copies}",
        "weights": f"{weights.min():.3g} to {weights.max():.3g}, median {np.median(weights):.3g}",
        "sources": ", ".join(f"{for_terminal(name)} ({n:,})" for name, n in d.sources[:4])
        + (", …" if len(d.sources) > 4 else ""),
    }
    if d.calibrated:
        facts["effective dimension"] = f"about {d.effective_dimension():.1f}"
    return [f"  {name:<20} {value}" for name, value in facts.items()]


def _spectrum(d: Dictionary) -> list[str]:
    """Return bars for the largest estimated eigenvalues of K, on a logarithmic scale down to the ridge."""
    if not d.calibrated:
        return []
    values = d.eigenvalues()
    places = np.unique(np.geomspace(1, len(values), 12).astype(int)) - 1
    shown = [(place, float(values[place])) for place in places if values[place] > d.ridge / 10]
    if not shown:
        return ["  no eigenvalue of K above a tenth of the ridge"]
    low, high = np.log(d.ridge / 10), np.log(shown[0][1])
    lines = ["  eigenvalues of K, estimated (the bar ends at a tenth of the ridge)"]
    for place, value in shown:
        length = max(1, round(BARS * (np.log(value) - low) / max(high - low, 1e-9)))
        mark = "█" if value > d.ridge else "░"
        lines.append(f"  {place + 1:>6}  {value:>10.4g}  {mark * length}")
    return lines


CODES = {"onehot": "one number for each of", "codes": "the place among", "target": "the mean target of each of"}
"""How a text becomes numbers, before the number of its values."""


def preprocessing(p: Preprocessing) -> list[str]:
    """Return lines that tell how each column becomes numbers."""
    lines = [f"  {len(p.columns)} columns become {p.n_features} numbers"]
    for column, span in islice(p.spans(), 30):
        words = column.code
        values = getattr(column, "values", ())
        if values:
            words = f"{CODES.get(words, words)} {len(values):,} values: {_names(values)}"
        if p.scale is not None and not values:
            words += f", {p.formula(span.start)}"
        if p.fill is not None and not np.isnan(p.fill[span.start]):
            words += ", missing → (other)" if values else f", missing → {p.fill[span.start]:.6g}"
        lines.append(f"    {_cell(column.name, 20):<20} {words}")
    return [*lines, *(["    …"] if len(p.columns) > 30 else [])]


def _atoms(d: Dictionary, count: int) -> list[str]:
    """Return the atoms with the largest scores, each with the rows' own columns."""
    if count < 1:
        return []
    scores = d.factor.scores(d.atoms) if d.calibrated else np.ones(len(d))
    top = np.argsort(-scores, kind="stable")[:count]
    table = atom_columns(d, top)
    names = list(table)[:COLUMNS]
    title = "atoms that resemble other rows least" if d.calibrated else "atoms"
    header = ["row", "weight", "score", *names]
    lines = []
    for line, number in enumerate(top):
        cells = [place_of(d, int(number)), f"{d.weights[number]:.3g}", f"{scores[number]:.3g}"]
        lines.append([*cells, *(_value(table[name][line]) for name in names)])
    widths = [min(24, max(len(for_terminal(row[i])) for row in [header, *lines])) for i in range(len(header))]
    printed = [
        "  " + "  ".join(f"{_cell(str(cell), w):>{w}}" for cell, w in zip(row, widths, strict=True))
        for row in [header, *lines]
    ]
    more = " (first columns only)" if len(table) > COLUMNS else ""
    return [f"  {title}{more}", *printed]


MOST_NAMES, MOST_LETTERS = 6, 24


def _names(names: Any) -> str:
    """Return the first names of many, as a terminal may show them."""
    return ", ".join(_cell(name, MOST_LETTERS) for name in names[:MOST_NAMES]) + ", …" * (len(names) > MOST_NAMES)


def _value(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float | np.floating) else str(value)


def _cell(text: object, width: int) -> str:
    shown = for_terminal(text)
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def prediction(found: Any, known: Any) -> str:
    """Return what :func:`squeak.samplers.planning.plan` predicts, as text."""
    lines = [
        f"{found.rows:,.0f} rows × {found.dim:,}, {found.atoms:,} atoms, {found.workers:,} workers, "
        f"{found.leaves:,} leaves",
        f"  time               {duration(found.seconds)}   "
        f"(leaves {duration(found.leaf_seconds)}, merges {duration(found.merge_seconds)})",
        f"  work in all        {duration(found.work_seconds)}   "
        f"({100 * found.efficiency:.0f}% of the workers' time)",
        f"  memory per worker  {quantity(found.memory)}",
        f"  moved, at most     {quantity(found.bytes_moved)}",
        f"measured here in {known.seconds:.0f} s on one core: {known.row * 1e6:.2f} µs a row, "
        f"{known.growth:.2f} s for each doubling of a leaf, {known.merge:.2f} s a merge",
    ]
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    for limit, unit, name in ((90.0, 1.0, "s"), (5400.0, 60.0, "min"), (172_800.0, 3600.0, "h")):
        if seconds < limit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 86_400.0:,.3g} days" if seconds < 8.64e6 else f"{seconds / 86_400.0:,.0f} days"


def quantity(size: float) -> str:
    """Return a number of bytes in the unit that suits it."""
    for limit, unit, name in ((1e6, 1e3, "kB"), (1e9, 1e6, "MB"), (1e12, 1e9, "GB")):
        if size < limit:
            return f"{size / unit:.3g} {name}"
    return f"{size / 1e12:.3g} TB"


def regression_scores(guess: Any, real: Any, mean: float) -> str:
    """Return errors of predictions, beside those of the training mean."""
    error, base = guess - real, mean - real
    spread = float(np.sum((real - real.mean()) ** 2))
    explained = 1.0 - float(np.sum(error**2)) / spread if spread > 0 else float("nan")
    return "\n".join(
        [
            f"{len(real):,} rows",
            f"  root mean squared error  {np.sqrt(np.mean(error**2)):.6g}   "
            f"(mean alone {np.sqrt(np.mean(base**2)):.6g})",
            f"  mean absolute error      {np.mean(np.abs(error)):.6g}   (mean alone {np.mean(np.abs(base)):.6g})",
            f"  R²                       {explained:.4f}",
        ]
    )


def classification_scores(guess: Any, real: Any, classes: Any, chances: Any = None) -> str:
    """Return the accuracy of predicted classes, beside that of the commonest; and the log loss of chances."""
    right = float(np.mean(guess == real))
    commonest = max(float(np.mean(real == name)) for name in classes)
    lines = [
        f"{len(real):,} rows",
        f"  accuracy  {100 * right:.2f}%   (predicting the most frequent class: {100 * commonest:.2f}%)",
    ]
    for name in classes.tolist():
        of_class = real == name
        if of_class.any():
            lines.append(
                f"    {for_terminal(name)}: {100 * np.mean(guess[of_class] == name):.2f}% of {of_class.sum():,}"
            )
    if chances is not None:
        known = np.isin(real, classes)
        p = chances[known, np.searchsorted(classes, real[known])]
        lines.append(f"  log loss  {-np.mean(np.log(np.maximum(p, 1e-15))):.4f}")
        if len(classes) == 2 and len(np.unique(real[known])) == 2:
            from sklearn.metrics import roc_auc_score

            lines.append(f"  ROC AUC   {roc_auc_score(real[known] == classes[1], chances[known, 1]):.4f}")
    return "\n".join(lines)
