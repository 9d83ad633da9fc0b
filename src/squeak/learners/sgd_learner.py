"""What regression and classification by stochastic gradient descent share: passes, batches and the validation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin

from squeak.core import engine, state
from squeak.core.checks import check_between, check_positive, check_whole
from squeak.core.constructors import parameters
from squeak.core.fourier import FourierFeatures
from squeak.core.kernels import resolve
from squeak.core.rows import n_rows, take
from squeak.core.saved import Layout
from squeak.core.seeds import draw_seed
from squeak.core.types import Array, Rows
from squeak.learners.data import ArrayTraining
from squeak.learners.formula import Function
from squeak.learners.random_features import FourierLearner, default_features
from squeak.learners.rows import all_or_nothing
from squeak.learners.sgd import Descent, Loss, Squared, Survey, safe_step

DIVERGED = 1e3
"""An error of so many times that of a constant comes from steps that are too long."""


@parameters
class SgdLearner(FourierLearner):
    """Base of the two learners: the loop over passes, batches and the validation."""

    _state: ClassVar[Layout] = {
        "_coef": state.numbers("features", "outputs"),
        "_descent.last": state.numbers("features", "outputs"),
        "_descent.intercept": state.numbers("outputs"),
        "_descent.batch": state.whole(low=1),
        "_descent.step_length": state.number(low=0.0),
        "_descent.steps": state.whole(),
        "_descent.passes": state.whole(),
    }

    batch_size: int | None = None
    step: float | str = "auto"
    decay: float = 0.0
    max_iter: int = 20
    validation_fraction: float = 0.1
    patience: int = 2
    tol: float = 1e-3
    tail: float = 0.0
    shuffle: bool = True
    replacement: bool = False

    coef_: Array = field(init=False)
    intercept_: Any = field(init=False)
    _descent: Descent = field(init=False)

    def _check_sgd(self) -> None:
        self._check_fourier()
        if self.batch_size is not None:
            check_whole("batch_size", self.batch_size)
        check_whole("max_iter", self.max_iter)
        check_whole("patience", self.patience)
        if self.step != "auto":
            check_positive("step", self.step, " or 'auto'")
        for name, most in (("decay", 1.0), ("validation_fraction", 0.9), ("tail", 1.0), ("tol", np.inf)):
            check_between(name, getattr(self, name), 0.0, most)

    def _loss(self) -> Loss:
        return Squared()

    def _encode(self, y: Any) -> Array:
        """Return targets as numbers, shape (n, outputs)."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def _forget(self) -> None:
        """Forget all targets that were looked at."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def _look(self, y: Any, weight: Any) -> None:
        """Take note of the targets of a block, in the look at all rows before the fit."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def _intercept(self) -> Array:
        """Return the constant that the features are added to, from what was looked at."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def _begin(self, survey: Survey) -> Descent:
        """Draw the features and fix batch and step, for so many rows and this sample of them."""
        kernel = resolve(self._own_kernel(), survey.sample)
        n_features = default_features(survey.n) if self.n_features is None else int(self.n_features)
        batch = math.ceil(math.sqrt(survey.n)) if self.batch_size is None else int(self.batch_size)
        batch = min(batch, max(1, survey.n_training))
        features = FourierFeatures.draw(kernel, survey.sample.shape[1], n_features, survey.seed)
        step = safe_step(features, survey.sample, batch) if isinstance(self.step, str) else float(self.step)
        return Descent(features, self._loss(), self._intercept(), batch, step, float(self.decay))

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from all rows.

        Parameters
        ----------
        X : array, CSR, table, or row source
            A row source carries its targets and is read block by block, once more than there are passes.
        y : array of shape (n,) or, for a regression, (n, outputs)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        self._check_sgd()
        data = self._training(X, y, sample_weight, numeric=not isinstance(self, ClassifierMixin))
        self._forget()
        if not data.repeatable:
            raise ValueError("these rows can be read only once: give them to partial_fit, block by block")
        survey = Survey.of(data.blocks(), draw_seed(self.random_state), float(self.validation_fraction), self._look)
        descent = self._begin(survey)
        scale = 1.0 if data.weight is None else 1.0 / float(np.mean(data.weight))
        best, waited, errors, number = descent.last.copy(), 0, [], 0
        constant = np.inf if survey.held is None else descent.error(best, survey.held, self._encode)
        least = constant
        with engine.single_blas():
            for number in range(1, int(self.max_iter) + 1):
                descent.begin(survey.n_training, float(self.tail))
                mixed = bool(self.shuffle), bool(self.replacement)
                for rows, y, weight, order in survey.passes(data.blocks(), number, *mixed):
                    descent.feed(rows, self._encode, y, None if weight is None else weight * scale, order)
                coef = descent.end()
                self._check_finite(coef, descent.step_length)
                if survey.held is None:
                    best = coef
                    continue
                errors.append(descent.error(coef, survey.held, self._encode))
                if errors[-1] > DIVERGED * constant and not isinstance(self.step, str):  # "auto" is a safe step
                    self._check_finite(np.array(np.inf), descent.step_length)
                waited = 0 if errors[-1] < (1.0 - self.tol) * least else waited + 1
                if errors[-1] < least:
                    best, least = coef, errors[-1]
                if waited >= self.patience:
                    break
        self.validation_errors_ = np.array(errors)
        self._keep_preprocessing(X)
        self._keep(descent, best, number)
        return self

    @staticmethod
    def _check_finite(coef: Array, step: float) -> None:
        if not np.isfinite(coef).all():
            raise ValueError(f"the steps diverge: step {step:.3g} is too long, use 'auto', or 1")

    def _partial_fit(self, data: ArrayTraining) -> None:
        """Learn from one block, once through; the first one fixes features, batch, step and intercept."""
        seed = draw_seed(self.random_state) if not hasattr(self, "_descent") else 0
        if hasattr(self, "_descent"):
            descent, order = self._descent.copy(), np.arange(n_rows(data.X))
        else:
            survey = Survey.of(data.blocks(), seed, 0.0, self._look)
            descent, order = self._begin(survey), np.arange(survey.n)
            self._preprocessing = None
        with engine.single_blas():
            descent.begin(len(order), float(self.tail))
            descent.feed(data.X, self._encode, data.y, data.weight, order)
            coef = descent.end()
        self._check_finite(coef, descent.step_length)
        self._keep(descent, coef, getattr(self, "n_passes_", 0) + 1)

    def _keep(self, descent: Descent, coef: Array, passes: int) -> None:
        self._descent = descent
        self.features_, self.step_, self.batch_size_ = descent.features, descent.step_length, descent.batch
        self.n_passes_ = self.n_iter_ = descent.passes = passes
        self.n_steps_ = descent.steps
        self._coef = coef
        self.coef_, self.intercept_ = coef, descent.intercept

    def _values(self, X: Rows) -> Array:
        """Return f(x) for checked rows, shape (n, outputs)."""
        out = np.empty((n_rows(X), self._coef.shape[1]))

        def fill(tile: slice) -> None:
            out[tile] = self.features_.block(take(X, tile)) @ self._coef + self._descent.intercept

        engine.map_ordered(fill, self.features_.tiles(n_rows(X)))
        return out

    def _functions(self) -> Sequence[Function]:
        return [self._cosines(self._coef, self._descent.intercept)]

    def _restore(self, found: dict[str, Any]) -> None:
        super()._restore(found)
        self._check_sgd()
        if not self.features_.bound > 0.0:
            raise ValueError("its features are zero, so no step on them has a length")
        intercept, batch, step = (found[f"_descent.{name}"] for name in ("intercept", "batch", "step_length"))
        descent = Descent(self.features_, self._loss(), intercept, batch, step, float(self.decay))
        descent.last, descent.steps = found["_descent.last"].copy(), found["_descent.steps"]
        self._keep(descent, self._coef, found["_descent.passes"])
