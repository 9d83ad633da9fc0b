"""The HTML report: one page for any object that squeak saves, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from squeak.core.outputs import check_place, replacing
from squeak.core.progress import progress
from squeak.data import Preprocessing
from squeak.report.certificate import Penalty
from squeak.report.dependence import explanations_tab
from squeak.report.dictionary import Look, atoms_tab, dictionary_tabs, facts_of
from squeak.report.given import Given, column_names, dictionary_of, kernel_of, read_given
from squeak.report.learners import coefficients_of, learner_tab, scores_function
from squeak.report.others import bandit_facts, bandit_tab, box_tab, dpp_tab, edges_tab, features_tab, online_tab
from squeak.report.settings import choice_tab, parts_of, settings_tab
from squeak.report.shell import Page, Tab, number
from squeak.samplers.dictionary import Dictionary

UNNAMED = "object.sqk"
"""The file that lines to paste load, where the page does not know its name."""

Content = tuple[list[Tab], list[tuple[str, str]]]
"""Tabs, and facts for the head of the page."""


def write(
    obj: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    y: Any = None,
    *,
    name: str | None = None,
    verbose: int = 0,
) -> Path:
    """Write one HTML page about a dictionary, a sampler, a learner, or anything else that is saved.

    The page needs no network and no library. Without JavaScript it is one long page, and with it the page has tabs
    and tooltips. The file is written completely or not at all.

    Parameters
    ----------
    obj : Dictionary, sampler, learner, online learner, bandit, DPP, EdgeSample or Preprocessing
        What the page is about.
    path : path
        The HTML page to write. The folder must exist, and an older file of that name is replaced.
    X : rows or row source, optional
        Rows as the user has them. Those that a dictionary was learned from give its measured accuracy. Any rows
        give the columns of the data beside those of the atoms.
    y : array, optional
        Targets of the rows: predictions are shown beside them.
    name : str, optional
        What the page calls the object: the name of its file.
    verbose : int
        1 shows a progress bar.

    Returns
    -------
    Path
        The page.

    Examples
    --------
    >>> import numpy as np, squeak, tempfile
    >>> X = np.random.default_rng(0).random((500, 2))
    >>> d = squeak.Squeak(ridge=1.0, random_state=0).fit(X).dictionary_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = squeak.report.write(d, folder + "/report.html", X).read_text()
    >>> page[:15], "Spectrum" in page
    ('<!doctype html>', True)
    """
    family = family_of(obj)
    target = Path(path)
    check_place(target)
    page = _page(obj, family, X, y, name, verbose)
    content = page.html().encode("utf-8", errors="replace")
    with replacing(target) as stream:
        stream.write(content)
    return target


def family_of(obj: Any) -> str:
    """Return which page an object gets, or raise."""
    from squeak.online.base import OnlineEstimator

    kind = str(getattr(obj, "kind", "")) if not isinstance(obj, type) else ""
    room, has_dictionary = type(obj).__module__.split(".")[:2], dictionary_of(obj) is not None
    families = {
        "dictionary": isinstance(obj, Dictionary),
        "preprocessing": isinstance(obj, Preprocessing),
        "online": isinstance(obj, OnlineEstimator),
        "edges": kind in ("edges", "edge-stream"),
        "dpp": kind == "dpp",
        "bandit": room == ["squeak", "bandits"] and hasattr(obj, "arms_"),
        "box": room == ["squeak", "bandits"] and hasattr(obj, "told_"),
        "features": hasattr(obj, "features_") and hasattr(obj, "preprocessing_"),
        "sampler": room == ["squeak", "samplers"] and has_dictionary,
        "learner": room == ["squeak", "learners"] and has_dictionary,
        "composed": room == ["squeak", "learners"] and (hasattr(obj, "experts_") or hasattr(obj, "expansions_")),
    }
    for family, fits in families.items():
        if fits:
            return family
    fitted = " that was fitted" if hasattr(obj, "fit") else ""
    raise TypeError(
        f"there is no report of a {type(obj).__name__}: give a dictionary, or a sampler, learner, bandit, DPP or "
        f"graph sample of squeak{fitted}"
    )


def _page(obj: Any, family: str, X: Any, y: Any, name: str | None, verbose: int) -> Page:
    with progress("report", "parts", 6, verbose, leave=False) as bar:

        def step(words: str) -> None:
            bar.set_postfix_str(words)
            bar.update(1)

        step("rows")
        given = read_given(obj, X, y)
        tabs, facts = _tabs(obj, family, given, name or UNNAMED, step)
        step("settings")
        tabs.append(settings_tab(obj, name or UNNAMED))
    title = {"dictionary": "Dictionary", "preprocessing": "Columns"}.get(family, type(obj).__name__)
    if given is not None:
        facts.append(("Rows given" if given.whole else "Rows given, the first", f"{given.n:,}"))
        facts += [("Rows skipped", f"{given.skipped:,}")] if given.skipped else []
    kernel = None if family == "composed" else kernel_of(obj)
    return Page(title, " · ".join(str(one) for one in (name, kernel) if one is not None), facts, tabs)


def _tabs(obj: Any, family: str, given: Given | None, name: str, step: Callable[[str], None]) -> Content:
    """Return the tabs of an object and the facts at its head; ``step`` is told what comes next."""
    if family == "preprocessing":
        return [], [("Columns", f"{len(obj.columns):,}"), ("Numbers", f"{obj.n_features:,}")]
    if family == "edges":
        obj = getattr(obj, "sample_", obj)
        facts = [("Edges kept", f"{len(obj):,}"), ("Edges seen", f"{obj.n_seen:,}"), ("Nodes", f"{obj.n_nodes:,}")]
        return [edges_tab(obj)], [*facts, ("Oversampling", number(obj.oversampling)), ("Ridge", number(obj.ridge))]
    if family == "bandit":
        return [bandit_tab(obj)], bandit_facts(obj)
    if family == "box":
        return [box_tab(obj)], [("Values told", f"{obj.n_told_:,}")]
    if family == "features":
        facts = [("Features", f"{obj.features_.frequencies.shape[1]:,}")]
        if not hasattr(obj, "predict"):
            return [features_tab(obj)], facts
        model, scores = learner_tab(obj, given)
        return [model, explanations_tab(obj, given), features_tab(obj)], scores + facts
    if family == "online":
        facts = [("Rows learned", f"{obj.n_seen_:,}"), ("Atoms", f"{obj.n_atoms_:,}")]
        model, scores = learner_tab(obj, given)
        return [model, explanations_tab(obj, given), online_tab(obj)], scores + facts
    if family == "composed":
        model, scores = learner_tab(obj, given)
        step("explanations")
        choice = choice_tab(obj)
        return [model, explanations_tab(obj, given), *([] if choice is None else [choice])], scores + parts_of(obj)
    return _dictionary_pages(obj, family, given, name, step)


def _dictionary_pages(
    obj: Any, family: str, given: Given | None, name: str, step: Callable[[str], None]
) -> Content:
    d = dictionary_of(obj)
    assert d is not None
    alpha = getattr(obj, "alpha_", None)
    look = Look(d, given, column_names(obj, given), Penalty.of(obj))
    step("scores and spectrum")
    facts = facts_of(look)
    if alpha is not None:
        facts.append(("Alpha", number(float(alpha))))
    if hasattr(obj, "solver_"):
        facts.append(("Solver", str(obj.solver_)))
    first = [dpp_tab(obj)] if family == "dpp" else []
    if family == "learner":
        model_tab, scores = learner_tab(obj, given)
        step("explanations")
        first, facts = [model_tab, explanations_tab(obj, given)], scores + facts
    step("dictionary")
    dictionary = dictionary_tabs(look, name, getattr(obj, "history_", None))
    step("columns and atoms")
    learner = family == "learner"
    sizes, model = (coefficients_of(obj), scores_function(obj)) if learner else (None, None)
    atoms = atoms_tab(look, model, {} if sizes is None else {"coefficient": sizes})
    second = getattr(obj, "dictionary_y_", None)
    if isinstance(second, Dictionary):
        dictionary += dictionary_tabs(Look(second), name, title="Second view")
    return [*first, dictionary[0], atoms, *dictionary[1:]], facts
