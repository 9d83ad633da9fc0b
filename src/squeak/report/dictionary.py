"""The pages of a dictionary: scores, weights, spectrum, accuracy, columns, atoms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from squeak.core.kernels import gram
from squeak.core.leverage import WeightedFactor
from squeak.core.types import Array, IntArray
from squeak.report.atoms import atoms_panel, tips_of
from squeak.report.certificate import Penalty, accuracy_panel
from squeak.report.charts import cloud, histogram, legend
from squeak.report.columns import column_panels
from squeak.report.given import Given
from squeak.report.growth import growth_panel, tree_panels
from squeak.report.plot import half_of, some
from squeak.report.shell import Panel, Tab
from squeak.report.spectrum import spectrum_of, spectrum_panels
from squeak.report.tags import join, number, percent, table
from squeak.samplers.dictionary import Dictionary


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
