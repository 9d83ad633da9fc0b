"""The pages of learners: predictions against the truth, the solver's way, components, clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from squeak.core.rows import take
from squeak.core.types import Array
from squeak.data import Block
from squeak.report.charts import cloud, curves, histogram, named_bars
from squeak.report.given import Given, has_targets
from squeak.report.improving import improvement_panel
from squeak.report.plot import MOST_POINTS, Plot, Scale, half_of, some
from squeak.report.shell import Panel, Safe, Tab, join, number, percent, table, tag

LEVELS = (0.5, 0.8, 0.9, 0.95)


def coverage_panel(model: Any, given: Given | None) -> Panel | None:
    """Return the part of targets within intervals of several coverages; None where a model does not know them."""
    if given is None or given.y is None or not hasattr(model, "predict_interval"):
        return None
    truth = np.asarray(given.y, dtype=np.float64).reshape(given.n, -1)[:, 0]
    rows, lines, found = Block(given.X), [], []
    try:
        ends = [model.predict_interval(rows, coverage=level) for level in LEVELS]
    except ValueError:  # experts of which nobody knows how far off they are
        return None
    for level, both in zip(LEVELS, ends, strict=True):
        low, high = map(first_output, both)
        inside = float(np.mean((low <= truth) & (truth <= high)))
        wide = high - low
        finite = wide[np.isfinite(wide)]
        found.append(inside)
        middle = number(float(np.median(finite)), 3) if len(finite) else "–"
        lines.append([percent(level), percent(inside), middle])
    chart = _chart(np.array(found))
    words = (
        "Which part of the targets the intervals were asked to hold, and which part they do hold. On the dashed "
        "line the two are equal. Above it, the intervals are wider than they need to be. On rows of the fit, "
        "intervals look better than on new rows."
    )
    body = join(chart, table(["asked", "held", "median width"], lines))
    return Panel("Coverage of the intervals", body, words)


def first_output(values: Any) -> Array:
    """Return the first output of each row as a number."""
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


Facts = list[tuple[str, str]]
"""Tiles at the head of a page: what, and how much."""

MOST_CLASSES = 20
MOST_PREDICTED = 50_000
"""Rows predicted for the report, evenly spread over those given."""

SLOWEST = "The relative residual of the slowest output after each pass over the rows."
HELD_OUT = "The error on rows that were held out, after each pass. The best pass was kept."
CURVES = (
    ("residuals_", "Convergence", "residual", SLOWEST),
    ("validation_errors_", "Validation", "error", HELD_OUT),
)
FLATTERY = "On the rows given. If the model was fitted on them too, expect larger errors on new rows."


def scores_function(model: Any) -> Callable[[Any], Array] | None:
    """Return the function from encoded rows to a model's numbers: decisions of a classifier, else predictions."""
    method = "predict"
    if not has_targets(model):
        method = "transform" if hasattr(model, "dual_coef_") else ""
    elif hasattr(model, "classes_"):
        method = "decision_function"
    answer = getattr(model, method, None)
    return None if answer is None else lambda X: answer(Block(X))


def learner_tab(model: Any, given: Given | None) -> tuple[Tab, Facts]:
    """Return what there is to say of any learner, and its scores on the rows given."""
    tab, facts = Tab("Model"), Facts()
    if has_targets(model):
        panels, facts = _prediction_panels(model, given)
        tab.add(*panels)
    tab.add(*_curve_panels(model), *_component_panels(model), _cluster_panel(model), _views_panel(model))
    tab.add(_coefficients_panel(model))
    return tab, facts


def _prediction_panels(model: Any, given: Given | None) -> tuple[list[Panel], Facts]:
    if given is None:
        words = "Give rows and their targets to see predictions against the truth: --data DATA --target COLUMN."
        return [Panel("Predictions", tag("p", "No rows were given."), words)], []
    given = given.sample(MOST_PREDICTED)
    guess = np.asarray(model.predict(Block(given.X)))
    if given.y is None:
        if hasattr(model, "classes_"):
            return [_class_counts(guess)], []
        words = f"{len(guess):,} rows; without targets there is nothing to compare them with."
        return [
            Panel("Predictions", histogram(first_output(guess), "prediction", "predictions", of="rows"), words)
        ], []
    if hasattr(model, "classes_"):
        panels, facts = _classes(np.asarray(model.classes_), guess, given.y)
        loss = _log_loss(model, given)
        facts = facts if loss is None else [*facts, ("Log loss", number(loss))]
    else:
        panels, facts = _regression(first_output(guess), first_output(np.asarray(given.y, dtype=np.float64)))
    more = (None if hasattr(model, "classes_") else coverage_panel(model, given), improvement_panel(model, given))
    return [*panels, *(panel for panel in more if panel is not None)], facts


def _log_loss(model: Any, given: Given) -> float | None:
    """Return −mean log p(true class), where the model has probabilities; a class that it does not know has 0."""
    if not hasattr(model, "predict_proba"):
        return None
    chances = np.asarray(model.predict_proba(Block(given.X)))
    places = {str(name): place for place, name in enumerate(model.classes_)}
    which = np.array([places.get(str(name), -1) for name in np.asarray(given.y)])
    right = np.where(which >= 0, chances[np.arange(len(which)), which], 0.0)
    return float(-np.log(np.maximum(right, 1e-15)).mean())


def _regression(guess: Array, truth: Array) -> tuple[list[Panel], Facts]:
    error = guess - truth
    spread = float(np.mean((truth - truth.mean()) ** 2))
    rmse, mean_error = float(np.sqrt(np.mean(error**2))), float(np.mean(np.abs(error)))
    explained = 1.0 - rmse**2 / spread if spread > 0 else float("nan")
    which = some(len(guess))
    tips = [f"predicted {number(guess[p])}, true {number(truth[p])}" for p in which]
    chart = cloud(
        guess[which], truth[which], tips, "predicted", "true", "true values against predicted ones", diagonal=True
    )
    facts = [["root mean squared error", rmse], ["the same, if the mean is predicted", float(np.sqrt(spread))]]
    facts += [["mean absolute error", mean_error], ["R²", explained], ["rows", len(guess)]]
    shown = f" {len(which):,} of {len(guess):,} rows are drawn." if len(which) < len(guess) else ""
    low, high = np.quantile(error, [0.005, 0.995])
    words = (
        f"Half of the errors lie between {number(np.quantile(error, 0.25), 3)} and "
        f"{number(np.quantile(error, 0.75), 3)}; the outermost hundredth is left out of the picture."
    )
    groups = (
        "Rows are sorted by their prediction and cut into 20 equal groups. The line is the median true value of "
        "each group, and the band holds the middle half of the true values."
    )
    inside = error[(error >= low) & (error <= high)]
    return [
        Panel("True against predicted", chart, f"Rows on the dashed line are predicted exactly.{shown}"),
        Panel("Binned", _binned(guess, truth), groups),
        Panel("Errors", histogram(inside, "predicted − true", "errors", of="rows", marks=[(0.0, "")]), words),
        Panel("Scores", table([], facts), FLATTERY),
    ], [("Root mean squared error", number(rmse)), ("R²", number(explained))]


def _binned(guess: Array, truth: Array, count: int = 20) -> Safe:
    groups = [group for group in np.array_split(np.argsort(guess, kind="stable"), count) if len(group)]
    middle = np.array([guess[group].mean() for group in groups])
    low, half, high = (np.array([np.quantile(truth[g], q) for g in groups]) for q in (0.25, 0.5, 0.75))
    plot = Plot(
        Scale(middle, pad=0.03),
        Scale([*low, *high, middle[0], middle[-1]], pad=0.05),
        "predicted",
        "true",
        "median and middle half of true values against predictions",
    )
    plot.diagonal()
    plot.band(middle, low, high)
    tips = [
        f"predicted about {number(m)}: median {number(h)}, half of them from {number(a)} to {number(b)}"
        for m, a, h, b in zip(middle, low, half, high, strict=True)
    ]
    plot.line(middle, half, "c1", tips)
    return plot.svg()


def _class_counts(guess: Array) -> Panel:
    names, counts = np.unique(guess.astype(str), return_counts=True)
    bars = named_bars(names.tolist(), counts, "rows of each predicted class", unit=" rows")
    return Panel("Predicted classes", bars)


def _classes(classes: Array, guess: Array, truth: Array) -> tuple[list[Panel], Facts]:
    names, real, said = [str(name) for name in classes], truth.astype(str), guess.astype(str)
    right = float(np.mean(real == said))
    commonest = max(float(np.mean(real == name)) for name in names)
    facts = table(
        [], [["accuracy", percent(right)], ["the commonest class alone", percent(commonest)], ["rows", len(real)]]
    )
    shown = names[:MOST_CLASSES]
    lines = []
    for name in shown:
        of_class = real == name
        parts = [float(np.mean(said[of_class] == other)) if of_class.any() else 0.0 for other in shown]
        cells = [tag("th", name, scope="row")]
        for part, other in zip(parts, shown, strict=True):
            look = {"style": f"--part:{60 * part:.0f}%", "data_tip": f"{name} taken for {other}: {percent(part)}"}
            cells.append(tag("td", percent(part), class_="heat", **look))
        lines.append(tag("tr", cells, tag("td", f"{int(of_class.sum()):,}", class_="n")))
    head = tag("tr", tag("th", "true ↓  predicted →"), [tag("th", name) for name in shown], tag("th", "rows"))
    grid = tag("div", tag("table", tag("thead", head), tag("tbody", lines)), class_="scroll", tabindex="0")
    words = "A row is a true class; its cells say what was predicted for it."
    words += f" The first {MOST_CLASSES} of {len(names):,} classes." if len(names) > MOST_CLASSES else ""
    return [Panel("Scores", facts, FLATTERY), Panel("Taken for", grid, words, wide=len(shown) > 2)], [
        ("Accuracy", percent(right))
    ]


def _curve_panels(model: Any) -> list[Panel]:
    panels = []
    for name, title, axis, words in CURVES:
        values = np.asarray(getattr(model, name, ()), dtype=np.float64).ravel()
        values = values[np.isfinite(values)]
        if len(values) > 1:
            chart = curves([(axis, np.arange(1, len(values) + 1), values)], "passes", axis, title, log_y=True)
            panels.append(Panel(title, chart, words))
    return panels


def _component_panels(model: Any) -> list[Panel]:
    ratio = getattr(model, "explained_variance_ratio_", None)
    if ratio is None:
        return []
    k = len(ratio)
    chart = curves(
        [("each", np.arange(1, k + 1), ratio), ("all up to it", np.arange(1, k + 1), np.cumsum(ratio))],
        "component",
        "part of the variance",
        "explained variance of components",
    )
    panels = [Panel("Explained variance", chart, f"{k} components explain {percent(float(np.sum(ratio)))}.")]
    d = model.dictionary_
    which = some(len(d), MOST_POINTS)
    scores = model.transform(Block(take(d.atoms, which)))
    if scores.shape[1] > 1:
        sizes = 1.5 + 3.5 * np.sqrt(d.weights[which] / d.weights.max())
        tips = [
            f"row {d.indices[atom]}: ({number(s[0], 3)}, {number(s[1], 3)})"
            for atom, s in zip(which, scores, strict=True)
        ]
        picture = cloud(
            scores[:, 0], scores[:, 1], tips, "component 1", "component 2", "atoms on two components", radius=sizes
        )
        panels.append(Panel("Atoms on two components", picture, "A dot's area follows the atom's weight."))
    return panels


def _cluster_panel(model: Any) -> Panel | None:
    sizes = getattr(model, "cluster_weights_", None)
    if sizes is None:
        return None
    names = [f"cluster {place}" for place in range(len(sizes))]
    words = f"Rows in each cluster. Inertia {number(model.inertia_)} after {number(model.n_iter_)} passes."
    return Panel("Clusters", named_bars(names, sizes, "rows of each cluster", unit=" rows"), words)


def _views_panel(model: Any) -> Panel | None:
    found = getattr(model, "correlations_", None)
    if found is None:
        return None
    names = [f"pair {place + 1}" for place in range(len(found))]
    tips = [f"{name}: {number(value)}" for name, value in zip(names, found, strict=True)]
    words = "Correlation of each pair of functions on the rows of the fit; new rows correlate less."
    return Panel("Correlations", named_bars(names, np.abs(found), "correlations", tips), words)


def coefficients_of(model: Any) -> Array | None:
    """Return one number for each atom: the size of its coefficients, over all outputs."""
    d, coef = getattr(model, "dictionary_", None), getattr(model, "dual_coef_", None)
    if d is None or coef is None or len(coef) != len(d):
        return None
    return np.asarray(np.sqrt((np.asarray(coef).reshape(len(d), -1) ** 2).sum(axis=1)))


def _coefficients_panel(model: Any) -> Panel | None:
    sizes, of = coefficients_of(model), "atoms"
    if sizes is None and hasattr(model, "coef_"):
        sizes, of = np.abs(np.ravel(model.coef_)), "features"
    if sizes is None or not (sizes > 0).any():
        return None
    chart = histogram(sizes[sizes > 0], "size of the coefficient", f"coefficients of {of}", log=True, of=of)
    words = f"{half_of(sizes**2):,} of {len(sizes):,} {of} hold half of the squared coefficients."
    return Panel("Coefficients", chart, words)
