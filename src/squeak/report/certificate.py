"""How accurate the dictionary is, measured where its rows are given, and what that means in words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from squeak.core.rows import n_rows, same_rows, take
from squeak.report.charts import gauge
from squeak.report.given import Given
from squeak.report.shell import Panel, Safe, join, number, paragraphs, tag
from squeak.samplers.dictionary import Dictionary
from squeak.samplers.measured import accuracy, estimate_accuracy

EXACT_UP_TO = 2500
"""Rows up to which ε̂ is measured exactly, O(n³); beyond, one pass brackets it."""

MOST_WORK = 2e12
"""n·m² beyond which the pass over the rows would take minutes: the report says how to measure instead."""


@dataclass(frozen=True)
class Penalty:
    """The penalty of a ridge regression on the dictionary, and whether its features are regularised too."""

    alpha: float
    regularised: bool = False

    @classmethod
    def of(cls, model: Any) -> Penalty | None:
        """Return that of a model which the risk bound speaks of: kernel ridge regression; else None."""
        if not hasattr(model, "alpha_") or hasattr(model, "classes_") or not hasattr(model, "predict"):
            return None
        return cls(float(model.alpha_), bool(getattr(model, "regularised", False)))


def accuracy_panel(
    d: Dictionary, given: Given | None, penalty: Penalty | None, name: str, dimension: float = 0.0
) -> Panel:
    """Return the panel on accuracy: the number, what it promises, or why there is none.

    Reconstruction: 0 ⪯ K − K̃ ⪯ (ε·ridge/(1 − ε))·I (thesis, lemma 4.3). Risk: (1 + (ridge/alpha)·ε/(1 − ε))², with
    1/(1 − ε) in place of ε/(1 − ε) for regularised features (corollary 4.4, corrected). PCA: the theory page.
    """
    title = "Accuracy of the dictionary"
    found = None if given is None else _measured(d, given)
    if found is None or isinstance(found, str):
        return Panel(title, _without(d, name), found, wide=True)
    low, high, how = found
    body = join(gauge(low, high, "accuracy"), _promises(d, high, penalty, dimension))
    return Panel(title, body, how, wide=True)


def _measured(d: Dictionary, given: Given) -> tuple[float, float, Safe] | str:
    if not d.calibrated:
        return "These landmarks carry no weights, so there is no ε̂ to measure."
    X, bare = given.X, replace(d, preprocessing=None)
    if not given.whole:
        return "The data are larger than a report reads, so ε̂ was not measured."
    if n_rows(X) != d.n_seen or not same_rows(take(X, d.positions), d.atoms):
        return (
            f"The rows given ({n_rows(X):,}) are not the {d.n_seen:,} that the dictionary was learned from, so its "
            "accuracy cannot be measured on them; the other panels use them."
        )
    if n_rows(X) <= EXACT_UP_TO:
        eps = accuracy(bare, X)
        how = f"Measured exactly on all {d.n_seen:,} rows: ε̂ = ‖P − P̃‖, P = K(K + ridge·I)⁻¹ (definition 2.1)."
        return eps, eps, tag("p", how)
    if float(n_rows(X)) * len(d) ** 2 > MOST_WORK:
        return "Measuring ε̂ would take minutes here: call squeak.leverage.estimate_accuracy(dictionary, rows)."
    bounds = estimate_accuracy(bare, X)
    how = (
        f"Bracketed by one pass over all {d.n_seen:,} rows. The lower end always holds; the upper one rests on an "
        f"estimate, {bounds.residual:.3g}, of ‖K − K̃‖ from 1,000 rows (docs/accuracy.md)."
    )
    return bounds.lower, bounds.upper, tag("p", how)


def _promises(d: Dictionary, eps: float, penalty: Penalty | None, dimension: float) -> Safe:
    if eps >= 1:
        return paragraphs(
            "At 1 or above nothing is guaranteed; the dictionary may still serve well. More oversampling, or a "
            "larger ridge, brings ε̂ down."
        )
    lost = eps / (1.0 - eps)
    used = penalty or Penalty(d.ridge)
    factor = (1.0 + d.ridge / used.alpha * (1.0 / (1.0 - eps) if used.regularised else lost)) ** 2
    whose = f"this model's alpha = {number(used.alpha)}" if penalty else f"alpha = ridge = {number(d.ridge)}"
    trace = d.ridge / (1.0 - eps) * dimension
    promises = (
        (
            "Kernel matrix",
            f"K − K̃ is at most ridge·ε/(1 − ε) = {number(lost * d.ridge)} in every direction, and in every entry.",
            "thesis, lemma 4.3",
        ),
        (
            "Ridge regression",
            f"The expected error at the rows is at most {number(factor)} times that of all rows, with {whose}.",
            "thesis, corollary 4.4, as corrected",
        ),
        (
            "Eigenvalues",
            f"The spectrum's are within {number(100 * eps, 3)}% of the true ones, ± {number(eps * d.ridge)}.",
            "from definition 2.1",
        ),
        (
            "Projection",
            f"Projected on the atoms, all rows lose at most ridge·d_eff/(1 − ε) of Tr K, about {number(trace)}.",
            "thesis, theorem 4.6",
        ),
    )
    items = [
        tag("div", tag("dt", what), tag("dd", words, " ", tag("cite", f"({where})")))
        for what, words, where in promises
    ]
    return join(tag("p", f"With ε = {number(eps, 3)} these hold:"), tag("dl", items, class_="promises"))


def _without(d: Dictionary, name: str) -> Safe:
    if not d.calibrated:
        return paragraphs("Not measured.")
    usual = (
        None
        if d.oversampling is None
        else f"As a rule of thumb, not a bound, ε̂ is about 2/√oversampling = {2 / d.oversampling**0.5:.2f}."
    )
    return paragraphs(
        "Not measured: that takes the rows the dictionary was learned from.",
        usual,
        join("Measure it with ", tag("code", f"squeak report {name} --data DATA"), "."),
    )
