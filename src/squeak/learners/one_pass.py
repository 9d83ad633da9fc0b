"""Ridge regression in one pass: the dictionary and the sums are learned together.

When the dictionary changes, rows that are gone are replaced by their projection on the new atoms.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from squeak.core import engine
from squeak.core.dictionary import Dictionary
from squeak.core.nystrom import Features, TriangularFeatures
from squeak.core.rows import n_rows, same_rows, take
from squeak.core.sources import Preprocessing
from squeak.core.types import Rows
from squeak.learners.normal import NormalEquations, NormalTerm
from squeak.samplers import Squeak

DEFAULT_ATOMS = 1000
"""Atoms of a stream where nobody says how many."""

CHUNK = 4
"""Rows that are added between two looks at the dictionary, in multiples of its size."""


class OnePass:
    """A stream's sampler, and the normal equations in the coordinates of its dictionary so far."""

    def __init__(self, sampler: Any, features: Features | None, given: Dictionary | None) -> None:
        self.sampler, self.features, self.given = sampler, features, given
        self.equations: NormalEquations | None = None
        self.fit_intercept, self.intercept = False, np.zeros(1)
        self.dimensions = 0
        self.preprocessing: Preprocessing | None = None

    @classmethod
    def begin(cls, model: Any) -> OnePass:
        """Return the state before the first row of a model's stream."""
        given = model._given_dictionary()
        if given is not None:
            begun = cls(None, model._features(given), given)
            begun.fit_intercept = getattr(model, "fit_intercept", False)
            return begun
        if getattr(model, "regularised", False):
            raise ValueError("regularised features change with the dictionary: give one, or use fit")
        if model.sampler is not None:
            if not hasattr(model.sampler, "partial_fit"):
                raise ValueError(f"{type(model.sampler).__name__} needs all rows at once: use Squeak() or Kors()")
            sampler = clone(model.sampler)
            mine = {"kernel": model.kernel, "random_state": model.random_state}
            params = sampler.get_params(deep=False)
            if params.get("max_atoms") is None and hasattr(model, "alpha"):
                mine["ridge"] = float(model.alpha)
            sampler.set_params(**{name: value for name, value in mine.items() if params.get(name) is None})
        else:
            atoms = DEFAULT_ATOMS if model.max_atoms is None else model.max_atoms
            sampler = Squeak(kernel=model.kernel, max_atoms=atoms, random_state=model.random_state)
        begun = cls(sampler, None, None)
        begun.fit_intercept = getattr(model, "fit_intercept", False)
        return begun

    @property
    def dictionary(self) -> Dictionary:
        """The dictionary so far, with the preprocessing of the rows where there is one."""
        d: Dictionary = self.given if self.given is not None else self.sampler.dictionary_
        return d if self.preprocessing is None else replace(d, preprocessing=self.preprocessing)

    def add(self, X: Rows, y: Any, weight: Any) -> None:
        """Take in a block of rows; if anything fails nothing has changed.

        With an intercept, targets are summed less the mean of the first block, so that a large mean does not
        cancel; the sums hold what is left of the mean of all.
        """
        y = np.asarray(y, dtype=np.float64)
        if self.equations is None and self.fit_intercept:
            self.intercept = np.atleast_1d(np.average(y, axis=0, weights=weight))
        y = y - (self.intercept if y.ndim > 1 else self.intercept[0])
        before = (None if self.sampler is None else dict(self.sampler.__dict__), self.features, self.equations)
        try:
            size = max(1024, CHUNK * (len(self.features.mixing) if self.features is not None else 256))
            for tile in engine.tiles(n_rows(X), size):
                self._add(take(X, tile), y[tile], None if weight is None else weight[tile])
        except BaseException:
            state, self.features, self.equations = before
            if state is not None:
                self.sampler.__dict__.clear()
                self.sampler.__dict__.update(state)
            raise
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

    def into(self, model: Any) -> None:
        """Solve, and leave the result in the model."""
        assert self.equations is not None
        assert self.features is not None
        model.solver_, model.rank_, model._feature_map = "direct", self.features.rank, self.features
        model.n_iter_, model.condition_ = 1, None
        equations, mean = self.equations.centred() if self.fit_intercept else (self.equations, 0.0)
        model._gram, model.alpha_, model.intercept_ = equations.gram, float(model.alpha), self.intercept + mean
        coef = self.features.mixing @ equations.solve(float(model.alpha))
        model._keep(self.dictionary, coef, single=self.dimensions == 1)
