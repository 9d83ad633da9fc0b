"""Ridge regression in one pass: the dictionary and the sums are learned together.

When the dictionary has changed much, rows that are gone are replaced by their projection on the new atoms. Every
such move loses a part of them, so there are no more than new atoms ask for: none where old ones only went.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from squeak.core.nystrom import Features, TriangularFeatures
from squeak.core.rows import n_rows
from squeak.core.types import Array, Rows
from squeak.data import Preprocessing
from squeak.learners.drawn import Drawn
from squeak.learners.normal import UNKNOWN, NormalEquations, NormalTerm, leading_directions
from squeak.samplers.dictionary import Dictionary

NEW = 0.05
"""The part of the sampler's atoms that may be newer than the dictionary that rows are summed on."""

LARGE = 4
"""Rows of a block, in multiples of the atoms, from which on the cheapest way to sum is looked for."""


@dataclass
class OnePass:
    """A stream's sampler, and the normal equations in the coordinates of its dictionary so far.

    Without a sampler the dictionary is given, and stays.
    """

    sampler: Any = None
    features: Features | None = None
    given: Dictionary | None = None
    """The dictionary of the features: one that was given, or the sampler's when it was last gone over to."""
    fit_intercept: bool = False
    alpha: float | None = None
    """Beside which rounding must not be seen; None: features are formed for every row."""
    equations: NormalEquations | None = None
    intercept: Array = field(default_factory=lambda: np.zeros(1))
    dimensions: int = 0
    """Of the targets: 1, or 2 for several outputs."""
    preprocessing: Preprocessing | None = None
    drawn: Drawn | None = None
    """Some of the rows, with their targets as they came."""
    term: NormalTerm | None = None
    """The sums over large blocks, once one has come."""

    @property
    def dictionary(self) -> Dictionary:
        """The dictionary so far, with the preprocessing of the rows where there is one."""
        d: Dictionary = self.given if self.given is not None else self.sampler.dictionary_
        return d if self.preprocessing is None else replace(d, preprocessing=self.preprocessing)

    def copy(self) -> OnePass:
        """Return a state of its own; what it holds is replaced and never changed in place."""
        return replace(self, sampler=copy(self.sampler))

    def add(self, X: Rows, y: Any, weight: Any) -> None:
        """Take in a block of rows; if this fails, the state is to be thrown away.

        With an intercept, targets are summed less the mean of the first block, so that a large mean does not
        cancel; the sums hold what is left of the mean of all.
        """
        y = np.asarray(y, dtype=np.float64)
        if self.drawn is not None:
            self.drawn = self.drawn.plus(X, y, weight)
        if self.equations is None and self.fit_intercept:
            self.intercept = np.atleast_1d(np.average(y, axis=0, weights=weight))
        y = y - (self.intercept if y.ndim > 1 else self.intercept[0])
        if self.sampler is not None:
            self.sampler.partial_fit(X)
            self._follow(self.sampler.dictionary_)
        term = self._term(n_rows(X))
        fresh = NormalEquations.of(term, term(X, (y, weight)))
        self.equations = fresh if self.equations is None else self.equations.plus(fresh)
        self.dimensions = y.ndim

    def _term(self, n: int) -> NormalTerm:
        """Return the sums over a block of n rows, in the cheapest way that is safe beside alpha for any number."""
        assert self.features is not None
        if self.alpha is None or n <= LARGE * len(self.features.mixing):
            return NormalTerm(self.features)
        if self.term is None:
            self.term = NormalTerm(self.features, leading_directions(self.features, UNKNOWN, self.alpha))
        return self.term

    def _follow(self, d: Dictionary) -> None:
        """Go over to the sampler's dictionary if many of its atoms are newer than the one at hand."""
        if self.given is not None and np.mean(d.indices >= self.given.n_seen) <= NEW:
            return
        self.given, self.features, self.term = d, TriangularFeatures(d.kernel, d.atoms), None
        if self.equations is not None:
            self.equations = self.equations.moved_to(self.features)

    def summed(self) -> NormalEquations:
        """Return the equations of all rows so far, of which there must be some."""
        if self.equations is None:
            raise ValueError("there are no rows")
        return self.equations
