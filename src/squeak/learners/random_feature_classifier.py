"""Classification by stochastic gradient descent on random features."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from squeak.core import storage
from squeak.core.seeds import RandomState
from squeak.core.sources import RowSource
from squeak.core.state import labels
from squeak.core.types import Array
from squeak.learners.base import all_or_nothing
from squeak.learners.data import Training
from squeak.learners.sgd import Logistic, Loss, Squared
from squeak.learners.sgd_learner import SgdLearner


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
    n_features, batch_size, step, decay, max_passes, validation_fraction, patience, tol, tail, shuffle
        As in :class:`RandomFeatureRegressor`.
    random_state : None, int, RandomState or Generator

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
    Carratino, Rudi, Rosasco, "Learning with SGD and random features", NeurIPS 2018; the theory page.

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

    @all_or_nothing
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

    @all_or_nothing
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
        return np.asarray(2.0 * (part if len(part) > 2 else part[1:]) - 1.0)

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

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
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
        model.classes_ = labels(content["classes"], content["class_type"])
        model._restore(arrays, content, 1 if len(model.classes_) == 2 else len(model.classes_))
        return model
