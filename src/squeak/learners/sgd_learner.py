"""What regression and classification by stochastic gradient descent share: passes, batches and the validation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from squeak.core import engine, state
from squeak.core.fourier import FourierFeatures
from squeak.core.kernels import resolve
from squeak.core.rows import n_rows, take
from squeak.core.seeds import draw_seed
from squeak.core.types import Array
from squeak.learners.data import ArrayTraining, Training
from squeak.learners.random_features import FourierLearner, check_whole, default_features
from squeak.learners.sgd import Descent, Loss, Squared, Survey, safe_step

DIVERGED = 1e3
"""An error of so many times that of a constant comes from steps that are too long."""


class SgdLearner(FourierLearner):
    """Base of the two learners: the loop over passes, batches and the validation."""

    batch_size: int | None
    step: float | str
    decay: float
    max_passes: int
    validation_fraction: float
    patience: int
    tol: float
    tail: float
    shuffle: bool

    coef_: Array
    intercept_: Any
    _descent: Descent

    def _check_sgd(self) -> None:
        self._check_fourier()
        check_whole("batch_size", self.batch_size, optional=True)
        check_whole("max_passes", self.max_passes)
        check_whole("patience", self.patience)
        if isinstance(self.step, str):
            if self.step != "auto":
                raise ValueError(f"step must be a positive number or 'auto'; it is {self.step!r}")
        elif not (self.step > 0 and np.isfinite(self.step)):
            raise ValueError(f"step must be a positive number or 'auto'; it is {self.step!r}")
        for name, most in (("decay", 1.0), ("validation_fraction", 0.9), ("tail", 1.0)):
            value = getattr(self, name)
            if not 0 <= value <= most:
                raise ValueError(f"{name} must lie between 0 and {most:g}; it is {value!r}")

    def _loss(self) -> Loss:
        return Squared()

    def _encode(self, y: Any) -> Array:
        """Return targets as numbers, shape (n, outputs)."""
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

    def _fit(self, X: Any, data: Training) -> None:
        """Learn from rows that can be read again and again."""
        if not data.repeatable:
            raise ValueError("these rows can be read only once: give them to partial_fit, block by block")
        survey = Survey.of(data.blocks(), draw_seed(self.random_state), float(self.validation_fraction), self._look)
        descent = self._begin(survey)
        scale = 1.0 if data.weight is None else 1.0 / float(np.mean(data.weight))
        best, waited, errors, number = descent.coef.copy(), 0, [], 0
        constant = np.inf if survey.held is None else descent.error(best, survey.held, self._encode)
        least = constant
        with engine.single_blas():
            for number in range(1, int(self.max_passes) + 1):
                descent.begin(survey.n_training, float(self.tail))
                for rows, y, weight, order in survey.passes(data.blocks(), number, bool(self.shuffle)):
                    descent.feed(rows, self._encode, y, None if weight is None else weight * scale, order)
                coef = descent.end()
                self._check_finite(coef, descent.step)
                if survey.held is None:
                    best = coef
                    continue
                errors.append(descent.error(coef, survey.held, self._encode))
                if errors[-1] > DIVERGED * constant and not isinstance(self.step, str):  # "auto" is a safe step
                    self._check_finite(np.array(np.inf), descent.step)
                waited = 0 if errors[-1] < (1.0 - self.tol) * least else waited + 1
                if errors[-1] < least:
                    best, least = coef, errors[-1]
                if waited >= self.patience:
                    break
        self.validation_errors_ = np.array(errors)
        self._keep_preprocessing(X)
        self._keep(descent, best, number)

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
            self.preprocessing_ = None
        with engine.single_blas():
            descent.begin(len(order), float(self.tail))
            descent.feed(data.X, self._encode, data.y, data.weight, order)
            coef = descent.end()
        self._check_finite(coef, descent.step)
        self._keep(descent, coef, getattr(self, "n_passes_", 0) + 1)

    def _keep(self, descent: Descent, coef: Array, passes: int) -> None:
        self._descent = descent
        self.features_, self.step_, self.batch_size_ = descent.features, descent.step, descent.batch
        self.n_passes_ = self.n_iter_ = passes
        self.n_steps_ = descent.t
        self._coef = coef
        self.coef_, self.intercept_ = coef, descent.intercept

    def _values(self, X: Any) -> Array:
        """Return f(x) for every row, shape (n, outputs)."""
        rows = self._rows_for(X)
        out = np.empty((n_rows(rows), self._coef.shape[1]))

        def fill(tile: slice) -> None:
            out[tile] = self.features_.block(take(rows, tile)) @ self._coef + self._descent.intercept

        engine.map_ordered(fill, self.features_.tiles(n_rows(rows)))
        return out

    def _sgd_parts(self, content: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        descent = self._descent
        values = {
            "coef": self._coef,
            "last": descent.coef,
            "intercept": descent.intercept,
            "batch": descent.batch,
            "step_length": descent.step,
            "steps": descent.t,
            "passes": self.n_passes_,
        }
        arrays, facts = state.parts(DESCENT, values, features=self.features_.rank)
        return self._parts(arrays, {**content, **facts})

    def _restore(self, arrays: dict[str, Any], content: dict[str, Any], outputs: int | None = None) -> None:
        self._check_sgd()
        if not self.features_.bound > 0.0:
            raise ValueError("its features are zero, so no step on them has a length")
        found = state.checked(DESCENT, arrays, content, features=self.features_.rank)
        if outputs not in (None, len(found["intercept"])):
            raise ValueError("the coefficients do not fit the classes")
        descent = Descent(
            self.features_,
            self._loss(),
            found["intercept"],
            found["batch"],
            found["step_length"],
            float(self.decay),
        )
        descent.coef, descent.t = found["last"].copy(), found["steps"]
        self._keep(descent, found["coef"], found["passes"])


DESCENT = {
    "coef": state.numbers("features", "outputs"),
    "last": state.numbers("features", "outputs"),
    "intercept": state.numbers("outputs"),
    "batch": state.whole(low=1),
    "step_length": state.number(low=0.0),
    "steps": state.whole(),
    "passes": state.whole(),
}
