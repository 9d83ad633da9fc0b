"""Ridge regression in one pass: the dictionary and the sums are learned together.

When the dictionary changes, rows that are gone are replaced by their projection on the new atoms.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.nystrom import Features, TriangularFeatures
from squeak.core.rows import n_rows, same_rows, take
from squeak.core.types import Array, Rows
from squeak.data import Preprocessing
from squeak.learners.drawn import Drawn
from squeak.learners.normal import NormalEquations, NormalTerm
from squeak.samplers.dictionary import Dictionary

CHUNK = 4
"""Rows that are added between two looks at the dictionary, in multiples of its size."""


@dataclass
class OnePass:
    """A stream's sampler, and the normal equations in the coordinates of its dictionary so far.

    Either there is a sampler, or a dictionary that is given, and its features.
    """

    sampler: Any = None
    features: Features | None = None
    given: Dictionary | None = None
    fit_intercept: bool = False
    equations: NormalEquations | None = None
    intercept: Array = field(default_factory=lambda: np.zeros(1))
    dimensions: int = 0
    """Of the targets: 1, or 2 for several outputs."""
    preprocessing: Preprocessing | None = None
    drawn: Drawn | None = None
    """Some of the rows, with their targets as they came."""

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
        size = max(1024, CHUNK * (len(self.features.mixing) if self.features is not None else 256))
        for tile in engine.tiles(n_rows(X), size):
            self._add(take(X, tile), y[tile], None if weight is None else weight[tile])
        self.dimensions = y.ndim

    def _add(self, X: Rows, y: Any, weight: Any) -> None:
        if self.sampler is not None:
            self.sampler.partial_fit(X)
            d = self.sampler.dictionary_
            if self.features is None or not same_rows(d.atoms, self.features.atoms):
                self.features = TriangularFeatures(d.kernel, d.atoms)
                if self.equations is not None:
                    self.equations = self.equations.moved_to(self.features)
        assert self.features is not None
        term = NormalTerm(self.features)
        fresh = NormalEquations.of(term, term(X, (y, weight)))
        self.equations = fresh if self.equations is None else self.equations.plus(fresh)

    def summed(self) -> NormalEquations:
        """Return the equations of all rows so far, of which there must be some."""
        if self.equations is None:
            raise ValueError("there are no rows")
        return self.equations
