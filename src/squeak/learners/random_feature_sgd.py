"""Regression and classification by stochastic gradient descent on random features: rows stream by, batch by batch."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from squeak.core import engine, storage
from squeak.core.fourier import FourierFeatures
from squeak.core.kernels import resolve
from squeak.core.rows import n_rows, take
from squeak.core.seeds import RandomState, draw_seed
from squeak.core.sources import RowSource
from squeak.core.types import Array
from squeak.learners.data import ArrayTraining, Training
from squeak.learners.random_features import FourierLearner, check_whole, default_features
from squeak.learners.sgd import Descent, Logistic, Loss, Squared, Survey, safe_step

PARAMETERS = """
    kernel : RBF, Laplacian or Matern, or a multiple of one, optional
        RBF of the median width by default.
    n_features : int, optional
        Random features M; ⌈√n·log n⌉ by default.
    batch_size : int, optional
        Rows b of a step; ⌈√n⌉ by default, beyond which larger batches only waste passes.
"""


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
        raise NotImplementedError

    def _look(self, y: Any, weight: Any) -> None:
        """Take note of the targets of a block, in the look at all rows before the fit."""
        raise NotImplementedError

    def _intercept(self) -> Array:
        """Return the constant that the features are added to, from what was looked at."""
        raise NotImplementedError

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
        best, least, waited, errors, number = descent.coef, np.inf, 0, [], 0
        with engine.single_blas():
            for number in range(1, int(self.max_passes) + 1):  # noqa: B007
                descent.begin(survey.n_training, float(self.tail))
                for rows, y, weight, order in survey.passes(data.blocks(), number, bool(self.shuffle)):
                    descent.feed(rows, self._encode, y, None if weight is None else weight * scale, order)
                coef = descent.end()
                if not np.isfinite(coef).all():
                    raise ValueError(f"the steps diverge: step {descent.step:.3g} is too long, use step=1")
                if survey.held is None:
                    best = coef
                    continue
                errors.append(descent.error(coef, survey.held, self._encode))
                waited = 0 if errors[-1] < (1.0 - self.tol) * least else waited + 1
                if errors[-1] < least:
                    best, least = coef, errors[-1]
                if waited >= self.patience:
                    break
        self.validation_errors_ = np.array(errors)
        self._keep_preprocessing(X)
        self._keep(descent, best, number)

    def _partial_fit(self, data: ArrayTraining) -> None:
        """Learn from one block, once through; the first one fixes features, batch, step and intercept."""
        seed = draw_seed(self.random_state) if not hasattr(self, "_descent") else 0
        if hasattr(self, "_descent"):
            descent, order = self._descent, np.arange(n_rows(data.X))
        else:
            survey = Survey.of(data.blocks(), seed, 0.0, self._look)
            descent, order = self._begin(survey), np.arange(survey.n)
            self.preprocessing_ = None
        with engine.single_blas():
            descent.begin(len(order), float(self.tail))
            descent.feed(data.X, self._encode, data.y, data.weight, order)
            coef = descent.end()
        if not np.isfinite(coef).all():
            raise ValueError(f"the steps diverge: step {descent.step:.3g} is too long, use step=1")
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
        content = {
            **content,
            "batch": descent.batch,
            "step_length": descent.step,
            "steps": descent.t,
            "passes": self.n_passes_,
        }
        return self._parts({"coef": self._coef, "last": descent.coef, "intercept": descent.intercept}, content)

    def _restore(self, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        batch, step = int(content["batch"]), float(content["step_length"])
        descent = Descent(self.features_, self._loss(), arrays["intercept"], batch, step, float(self.decay))
        if arrays["coef"].shape != descent.coef.shape or arrays["last"].shape != descent.coef.shape:
            raise ValueError("the coefficients do not fit the features")
        descent.coef, descent.t = arrays["last"].copy(), int(content["steps"])
        self._keep(descent, arrays["coef"], int(content["passes"]))


@storage.register
class RandomFeatureRegressor(MultiOutputMixin, RegressorMixin, SgdLearner):  # type: ignore[misc]
    """Least squares on random Fourier features, by mini-batch gradient steps: f(x) = mean(y) + w·φ(x).

    w ← w − step/(κ²·b)·t^(−decay)·Σ_batch φ(x)(f(x) − y), from 0; time O(rows·M·passes), memory O(b·M), and rows from
    any source, read in their order. No penalty: stopping early is what regularises.

    Parameters
    ----------
    kernel : RBF, Laplacian or Matern, or a multiple of one, optional
        RBF of the median width by default.
    n_features : int, optional
        Random features M; ⌈√n·log n⌉ by default.
    batch_size : int, optional
        Rows b of a step; ⌈√n⌉ by default, beyond which larger batches only waste passes.
    step : float or "auto"
        In units of 1/κ² (κ² = 2·k(x, x)): 1 is the theory's. "auto" is the longest safe one for the batch,
        κ²·b/(κ² + (b − 1)·λ) with the largest eigenvalue λ of the features' covariance.
    decay : float
        The step falls like t^(−decay); 0 is best in practice.
    max_passes : int
        Passes over the rows at most.
    validation_fraction : float
        Part of the rows (10,000 of them at most) that are held out to stop early; 0 for none.
    patience, tol : int, float
        Stop after so many passes whose error is not lower by this part than the least before.
    tail : float
        Average the iterates of this last part of every pass's steps; 0 for the last iterate.
    shuffle : bool
        Use the rows in a random order: all of them where they are in memory, block by block (65,536 rows at most)
        where they come from a source. A source that is sorted wants ``squeak.rows(..., shuffle=...)`` as well.
        False: the order they have.
    random_state : None, int, RandomState or Generator

    Attributes
    ----------
    coef_ : array of shape (M,) or (M, outputs)
    intercept_ : float or array of shape (outputs,)
    features_, kernel_
    step_, batch_size_, n_passes_, n_steps_
    validation_errors_ : array
        Mean ½(f − y)² over the rows held out, after every pass.

    Notes
    -----
    The thesis draws every batch with replacement; here a pass uses every row once, which does no worse.

    References
    ----------
    Spec, falkon-bless-random-features, section 2. Carratino, Rudi, Rosasco, "Learning with SGD and random features",
    NeurIPS 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import RandomFeatureRegressor
    >>> from squeak.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (5000, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(5000)
    >>> model = RandomFeatureRegressor(RBF(0.5), max_passes=20, random_state=0).fit(X, y)
    >>> model.coef_.shape, bool(model.score(X, y) > 0.97)
    ((603,), True)
    """

    kind: ClassVar[str] = "random-feature-regressor"

    def __init__(
        self,
        kernel: Any = None,
        n_features: int | None = None,
        batch_size: int | None = None,
        step: float | str = "auto",
        decay: float = 0.0,
        max_passes: int = 20,
        validation_fraction: float = 0.1,
        patience: int = 2,
        tol: float = 1e-3,
        tail: float = 0.0,
        shuffle: bool = True,
        random_state: RandomState = None,
    ) -> None:
        self.kernel = kernel
        self.n_features = n_features
        self.batch_size = batch_size
        self.step = step
        self.decay = decay
        self.max_passes = max_passes
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.tol = tol
        self.tail = tail
        self.shuffle = shuffle
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> RandomFeatureRegressor:
        """Learn from all rows.

        Parameters
        ----------
        X : array, CSR, table, or row source
            A row source carries its targets and is read block by block, once more than there are passes.
        y : array of shape (n,) or (n, outputs)
        sample_weight : array of shape (n,), optional
        """
        self._check_sgd()
        if isinstance(X, RowSource):
            data: Training = self._source(X, y, sample_weight)
        else:
            data = self._array(X, y, sample_weight, multi_output=True, y_numeric=True)
        self._forget()
        self._fit(X, data)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> RandomFeatureRegressor:
        """Learn from more rows, once through and in their order; the first block fixes what ``fit`` learns first."""
        self._check_sgd()
        first = not hasattr(self, "_descent")
        data = self._array(X, y, sample_weight, multi_output=True, y_numeric=True, reset=first)
        if first:
            self._forget()
        elif self._columns(data.y) != len(self._descent.intercept):
            raise ValueError(f"y has {self._columns(data.y)} outputs; it had {len(self._descent.intercept)} before")
        self._partial_fit(data)
        return self

    @staticmethod
    def _columns(y: Any) -> int:
        return 1 if y.ndim == 1 else int(y.shape[1])

    def _forget(self) -> None:
        self._total, self._weight, self._single = 0.0, 0.0, True

    def _look(self, y: Any, weight: Any) -> None:
        y = np.asarray(y, dtype=np.float64)
        self._single = y.ndim == 1
        self._total = self._total + (y.sum(axis=0) if weight is None else weight @ y)
        self._weight += len(y) if weight is None else float(weight.sum())

    def _intercept(self) -> Array:
        return np.atleast_1d(self._total / self._weight)

    def _encode(self, y: Any) -> Array:
        return np.asarray(y, dtype=np.float64).reshape(len(y), -1)

    def _keep(self, descent: Descent, coef: Array, passes: int) -> None:
        super()._keep(descent, coef, passes)
        if self._single:
            self.coef_, self.intercept_ = coef[:, 0], float(descent.intercept[0])

    def predict(self, X: Any) -> Array:
        """Return f(x) for every row."""
        values = self._values(X)
        return values[:, 0] if self._single else values

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the fitted model's arrays and the rest as JSON data; more rows can be taken in after loading."""
        return self._sgd_parts({"single": self._single})

    @classmethod
    def from_parts(
        cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None
    ) -> RandomFeatureRegressor:
        """Return the model that was stored."""
        model: RandomFeatureRegressor = cls._from_parts(arrays, content, kernel)
        model._single = bool(content["single"])
        model._restore(arrays, content)
        return model


def _has_probabilities(model: Any) -> bool:
    if model.loss != "logistic":
        raise AttributeError("predict_proba needs loss='logistic'")
    return True


@storage.register
class RandomFeatureClassifier(ClassifierMixin, SgdLearner):  # type: ignore[misc]
    """Classification on random Fourier features, by mini-batch gradient steps.

    One function of :class:`RandomFeatureRegressor` for two classes, one a class for more: of the squared loss on
    codes ±1, or of the logistic one (multinomial for more than two classes), which knows probabilities.

    Parameters
    ----------
    kernel : RBF, Laplacian or Matern, or a multiple of one, optional
    loss : "squared" or "logistic"
    n_features, batch_size, step, decay, max_passes, validation_fraction, patience, tol, tail, shuffle, random_state
        As in :class:`RandomFeatureRegressor`.

    Attributes
    ----------
    classes_ : array
    coef_ : array of shape (M, 1) or (M, classes)
    intercept_ : array
        From how frequent the classes are.
    features_, kernel_
    step_, batch_size_, n_passes_, n_steps_, validation_errors_

    References
    ----------
    Spec, falkon-bless-random-features, section 2 and 6.1 (the logistic loss).

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import RandomFeatureClassifier
    >>> from squeak.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (4000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = RandomFeatureClassifier(RBF(1.0), loss="logistic", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95), model.predict_proba(X[:3]).shape
    (True, (3, 2))
    """

    kind: ClassVar[str] = "random-feature-classifier"

    def __init__(
        self,
        kernel: Any = None,
        loss: str = "squared",
        n_features: int | None = None,
        batch_size: int | None = None,
        step: float | str = "auto",
        decay: float = 0.0,
        max_passes: int = 20,
        validation_fraction: float = 0.1,
        patience: int = 2,
        tol: float = 1e-3,
        tail: float = 0.0,
        shuffle: bool = True,
        random_state: RandomState = None,
    ) -> None:
        self.kernel = kernel
        self.loss = loss
        self.n_features = n_features
        self.batch_size = batch_size
        self.step = step
        self.decay = decay
        self.max_passes = max_passes
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.tol = tol
        self.tail = tail
        self.shuffle = shuffle
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> RandomFeatureClassifier:
        """Learn from all rows.

        Parameters
        ----------
        X : array, CSR, table, or row source
            A row source carries its classes and is read block by block, once more than there are passes.
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
        """
        self._check_classifier()
        if isinstance(X, RowSource):
            data: Training = self._source(X, y, sample_weight)
        else:
            data = self._array(X, y, sample_weight)
            check_classification_targets(data.y)
        self._seen: dict[Any, float] = {}
        self._fit(X, data)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> RandomFeatureClassifier:
        """Learn from more rows, once through and in their order; the first call must name all ``classes``."""
        self._check_classifier()
        first = not hasattr(self, "_descent")
        if first and classes is None:
            raise ValueError("the first call of partial_fit must name all classes: classes=[...]")
        data = self._array(X, y, sample_weight, reset=first)
        check_classification_targets(data.y)
        known = np.unique(classes) if first else self.classes_
        if not np.isin(data.y, known).all():
            raise ValueError(f"y has classes that were not named: {np.setdiff1d(data.y, known).tolist()[:5]}")
        if first:
            self._seen = dict.fromkeys(known.tolist(), 0.0)
        self._partial_fit(data)
        return self

    def _check_classifier(self) -> None:
        self._check_sgd()
        if self.loss not in ("squared", "logistic"):
            raise ValueError(f"loss must be 'squared' or 'logistic'; it is {self.loss!r}")

    def _loss(self) -> Loss:
        return Logistic() if self.loss == "logistic" else Squared()

    def _look(self, y: Any, weight: Any) -> None:
        found, place = np.unique(y, return_inverse=True)
        for name, count in zip(found.tolist(), np.bincount(place, weight, len(found)), strict=True):
            self._seen[name] = self._seen.get(name, 0.0) + float(count)
        self._kind = found.dtype

    def _intercept(self) -> Array:
        names = sorted(self._seen)
        if len(names) < 2:
            raise ValueError(f"there is only one class in y, {names[0]!r}: at least two are needed")
        self.classes_ = np.array(names, dtype=None if self._kind.kind == "U" else self._kind)
        counts = np.array([self._seen[name] for name in names])
        part = (counts + 1e-3 * counts.sum()) / (counts.sum() * (1 + 1e-3 * len(counts)))
        if self.loss == "logistic":
            return np.log(part) if len(part) > 2 else np.array([math.log(part[1] / part[0])])
        return 2.0 * (part if len(part) > 2 else part[1:]) - 1.0

    def _encode(self, y: Any) -> Array:
        place = np.searchsorted(self.classes_, y)
        codes = np.zeros((len(place), len(self.classes_)))
        codes[np.arange(len(place)), place] = 1.0
        codes = codes[:, 1:] if len(self.classes_) == 2 else codes
        return codes if self.loss == "logistic" else 2.0 * codes - 1.0

    def decision_function(self, X: Any) -> Array:
        """Return f(x): shape (n,) for two classes, (n, classes) for more."""
        values = self._values(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Any) -> Any:
        """Return the class of every row."""
        values = self.decision_function(X)
        return self.classes_[(values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)]

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of every class, shape (n, classes); for the logistic loss."""
        values = self._values(X)
        if values.shape[1] > 1:
            return np.asarray(softmax(values, axis=1))
        return np.hstack([expit(-values), expit(values)])

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the fitted model's arrays and the rest as JSON data; more rows can be taken in after loading."""
        return self._sgd_parts({"classes": self.classes_.tolist(), "class_type": self.classes_.dtype.str})

    @classmethod
    def from_parts(
        cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None
    ) -> RandomFeatureClassifier:
        """Return the model that was stored."""
        model: RandomFeatureClassifier = cls._from_parts(arrays, content, kernel)
        model.classes_ = np.array(content["classes"], dtype=np.dtype(str(content["class_type"])))
        model._restore(arrays, content)
        return model
