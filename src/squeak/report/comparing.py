"""A page about two models on the same rows: which one is better, by how much, and whether that may be chance."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from squeak.core.outputs import check_place, replacing
from squeak.core.types import Array
from squeak.data import Block, RowSource
from squeak.report.charts import cloud, histogram
from squeak.report.given import Given, dictionary_of, has_targets, read_given
from squeak.report.learners import first_output
from squeak.report.plot import some
from squeak.report.shell import Page, Panel, Tab, number, percent, table, tag
from squeak.samplers.record import given_parameters

DEVIATIONS = 1.96
"""Standard errors on either side of a 95% interval."""


def write_comparison(
    models: Sequence[Any],
    path: str | os.PathLike[str],
    X: Any,
    y: Any = None,
    *,
    names: Sequence[str] = ("first", "second"),
) -> Path:
    """Write one HTML page that compares two models on the same rows.

    With the losses l₁ and l₂ of every row (squared errors, or 1 for a wrong class), the page gives the mean of
    l₁ − l₂ and its 95% interval, mean ± 1.96·√(variance/n). If 0 is inside the interval, the difference may be
    chance. The interval is about more rows of the same kind; rows that a model was fitted on favour it.

    Parameters
    ----------
    models : pair of regressors or pair of classifiers
        Both are fitted, and may take other columns of the rows.
    path : path
        The HTML page to write. The folder must exist, and an older file of that name is replaced.
    X : rows, or a pair of row sources
        The rows as the user has them; or one row source with targets for each model, over the same rows.
    y : array, optional
        The targets of the rows. They are left out for row sources.
    names : pair of str
        What the page calls the two models.

    Returns
    -------
    Path
        The page.

    References
    ----------
    Student's paired comparison, with the normal approximation for many rows.

    Examples
    --------
    >>> import numpy as np, squeak, tempfile
    >>> X = np.random.default_rng(0).random((600, 2))
    >>> y = np.sin(6 * X[:, 0])
    >>> models = [squeak.KernelRidge(max_atoms=m, random_state=0).fit(X, y) for m in (5, 50)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = squeak.report.write_comparison(models, folder + "/two.html", X, y).read_text()
    >>> "second has the smaller error" in page
    True
    """
    if len(models) != 2 or len(names) != 2:
        raise ValueError(f"two models with two names are compared, not {len(models)} with {len(names)}")
    for model in models:
        if not has_targets(model):
            raise TypeError(f"a {type(model).__name__} predicts no targets: compare two fitted models that do")
    classes = [hasattr(model, "classes_") for model in models]
    if classes[0] != classes[1]:
        raise ValueError("one model predicts classes and the other numbers: they cannot be compared")
    target = Path(path)
    check_place(target)
    content = _page(models, [str(name) for name in names], _both(models, X, y), classes[0]).html()
    with replacing(target) as stream:
        stream.write(content.encode("utf-8", errors="replace"))
    return target


def _both(models: Sequence[Any], X: Any, y: Any) -> list[Given]:
    """Return the same rows as each model takes them."""
    sources = isinstance(X, list | tuple) and any(isinstance(part, RowSource) for part in X)
    given = [read_given(model, X[place] if sources else X, y) for place, model in enumerate(models)]
    found = [rows for rows in given if rows is not None and rows.y is not None]
    if len(found) < 2:
        raise ValueError("a comparison needs rows and their targets")
    if found[0].n != found[1].n or not np.array_equal(np.asarray(found[0].y), np.asarray(found[1].y)):
        raise ValueError("the two models do not get the same rows: their targets differ")
    return found


def _page(models: Sequence[Any], names: list[str], given: list[Given], classes: bool) -> Page:
    guesses = [np.asarray(model.predict(Block(rows.X))) for model, rows in zip(models, given, strict=True)]
    truth = np.asarray(given[0].y)
    if not classes:
        guesses = [first_output(guess) for guess in guesses]
        truth = first_output(truth)
    losses = [_losses(guess, truth, classes) for guess in guesses]
    scores = [_scores(loss, guess, truth, classes) for loss, guess in zip(losses, guesses, strict=True)]
    tab = Tab("Comparison")
    tab.add(Panel("Which model is better?", tag("p", verdict(losses, names, classes)), _words(classes), wide=True))
    rows = [[name, scores[0][name], scores[1][name]] for name in scores[0]]
    rows.append(["atoms", *(_atoms(model) for model in models)])
    tab.add(Panel("Scores", table(["", *names], rows), "On the rows given."))
    tab.add(_classes_panel(guesses, truth, names) if classes else _cloud_panel(guesses, truth, names))
    if not classes:
        shift = np.abs(guesses[0] - truth) - np.abs(guesses[1] - truth)
        words = f"Right of 0, {names[1]} is nearer to the truth. The outermost hundredth is left out."
        low, high = np.quantile(shift, [0.005, 0.995])
        inside = shift[(shift >= low) & (shift <= high)]
        title = f"error of {names[0]} − error of {names[1]}"
        tab.add(Panel("Row by row", histogram(inside, title, "differences", of="rows", marks=[(0.0, "")]), words))
    tab.add(_settings_panel(models, names))
    first = "Accuracy" if classes else "Root mean squared error"
    facts = [(f"{first}, {name}", str(score[first.lower()])) for name, score in zip(names, scores, strict=True)]
    return Page("Two models", " and ".join(names), [*facts, ("Rows", f"{given[0].n:,}")], [tab])


def _losses(guess: Array, truth: Array, classes: bool) -> Array:
    wrong = guess.astype(str) != truth.astype(str) if classes else (guess - truth) ** 2
    return np.asarray(wrong, dtype=np.float64)


def _scores(loss: Array, guess: Array, truth: Array, classes: bool) -> dict[str, str]:
    if classes:
        return {"accuracy": percent(1.0 - float(loss.mean()))}
    spread = float(np.mean((truth - truth.mean()) ** 2))
    return {
        "root mean squared error": number(float(np.sqrt(loss.mean()))),
        "mean absolute error": number(float(np.abs(guess - truth).mean())),
        "R²": number(1.0 - float(loss.mean()) / spread) if spread > 0 else "–",
    }


def verdict(losses: Sequence[Array], names: Sequence[str], classes: bool) -> str:
    """Return in a sentence which of two models has the smaller mean loss, and whether that may be chance."""
    difference = losses[0] - losses[1]
    mean = float(difference.mean())
    half = DEVIATIONS * float(np.sqrt(difference.var() / len(difference)))
    what = "part of wrong classes" if classes else "mean squared error"
    interval = f"{number(mean - half, 3)} to {number(mean + half, 3)}"
    facts = f"The {what} of {names[0]} less that of {names[1]} is {number(mean, 3)} (95% interval: {interval})."
    if abs(mean) <= half or mean == 0.0:
        return f"The two models cannot be told apart on these rows. {facts} The difference may be chance."
    better = names[1] if mean > 0 else names[0]
    return f"{better} has the smaller error. {facts} The difference is larger than chance explains."


def _words(classes: bool) -> str:
    unit = "1 for a wrong class" if classes else "its squared error"
    return (
        f"For every row, the loss of one model ({unit}) is compared with that of the other. The interval is about "
        "more rows of the same kind. If a model was fitted on these rows, they favour it."
    )


def _atoms(model: Any) -> str:
    d = dictionary_of(model)
    return "–" if d is None else f"{len(d):,}"


def _cloud_panel(guesses: Sequence[Array], truth: Array, names: Sequence[str]) -> Panel:
    which = some(len(truth))
    one, other = (guess[which] for guess in guesses)
    tips = [
        f"{names[0]} {number(a)}, {names[1]} {number(b)}, true {number(c)}"
        for a, b, c in zip(one, other, truth[which], strict=True)
    ]
    chart = cloud(one, other, tips, names[0], names[1], "predictions of the two models", diagonal=True)
    return Panel("Predictions of both", chart, "On the dashed line the two models predict the same.")


def _classes_panel(guesses: Sequence[Array], truth: Array, names: Sequence[str]) -> Panel:
    right = [guess.astype(str) == truth.astype(str) for guess in guesses]
    rows = [
        ["both are right", percent(float(np.mean(right[0] & right[1])))],
        [f"only {names[0]} is right", percent(float(np.mean(right[0] & ~right[1])))],
        [f"only {names[1]} is right", percent(float(np.mean(~right[0] & right[1])))],
        ["both are wrong", percent(float(np.mean(~right[0] & ~right[1])))],
    ]
    return Panel("Right and wrong", table(["", "rows"], rows))


def _settings_panel(models: Sequence[Any], names: Sequence[str]) -> Panel:
    found = [{"class": type(model).__name__, **given_parameters(model)} for model in models]
    rows = [[key, *(part.get(key, "default") for part in found)] for key in dict.fromkeys([*found[0], *found[1]])]
    return Panel("Settings", table(["", *names], rows, "wrapped"), "Parameters that were given.", wide=True)
