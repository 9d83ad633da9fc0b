"""Ridge regression in one pass: the dictionary and the sums are learned together.

When the dictionary changes, rows that are gone are replaced by their projection on the new atoms.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.dictionary import Dictionary
from squeak.core.kernels import gram
from squeak.core.nystrom import Features, TriangularFeatures
from squeak.core.rows import n_rows, same_rows, take
from squeak.core.sources import Preprocessing
from squeak.core.types import Rows
from squeak.learners.normal import NormalEquations, NormalTerm

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
        begun = cls(model._stream_sampler(float(model.alpha) if hasattr(model, "alpha") else None), None, None)
        begun.fit_intercept = getattr(model, "fit_intercept", False)
        return begun

    @classmethod
    def after_fit(cls, model: Any) -> OnePass:
        """Return the state that goes on from a fit of ridge regression: its atoms and its intercept stay.

        The right sides of the normal equations are those that its solution solves, Σ w z yᵀ = (Σ w z zᵀ +
        alpha·I)β. With features Mᵀ(K + ridge·S⁻²)M = I, ridge 0 unless they are regularised, the coefficients M β
        of the atoms give β = Mᵀ(K + ridge·S⁻²)·coef.
        """
        if not hasattr(model, "_gram") or model.solver_ == "falkon":
            raise ValueError(
                f"this {type(model).__name__} was fitted by FALKON and holds no sums that rows could be added to: "
                "fit it with solver='direct', or give all rows to partial_fit"
            )
        d, features = model.dictionary_, model._feature_map
        coef = model.dual_coef_.reshape(len(d), -1)
        turned = gram(d.kernel, d.atoms) @ coef
        if model.regularised:
            turned += d.ridge * coef / d.weights[:, None]
        beta = features.mixing.T @ turned
        begun = cls(None, features, d)
        begun.intercept, begun.dimensions = model.intercept_, model.dual_coef_.ndim
        outputs = np.zeros(coef.shape[1])
        begun.equations = NormalEquations(
            features, model._gram, model._gram @ beta + model.alpha_ * beta, outputs, 0.0, 0
        )
        return begun

    @property
    def dictionary(self) -> Dictionary:
        """The dictionary so far, with the preprocessing of the rows where there is one."""
        d: Dictionary = self.given if self.given is not None else self.sampler.dictionary_
        return d if self.preprocessing is None else replace(d, preprocessing=self.preprocessing)

    def copy(self) -> OnePass:
        """Return a state of its own; what it holds is replaced and never changed in place."""
        other = copy(self)
        other.sampler = copy(self.sampler)
        return other

    def add(self, X: Rows, y: Any, weight: Any) -> None:
        """Take in a block of rows; if this fails, the state is to be thrown away.

        With an intercept, targets are summed less the mean of the first block, so that a large mean does not
        cancel; the sums hold what is left of the mean of all.
        """
        y = np.asarray(y, dtype=np.float64)
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
