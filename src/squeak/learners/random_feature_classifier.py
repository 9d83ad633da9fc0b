"""Classification by stochastic gradient descent on random features."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from squeak.core.checks import check_choice, check_labels
from squeak.core.constructors import parameters
from squeak.core.saved import LabelsPiece, Layout
from squeak.core.state import plain
from squeak.core.types import Array
from squeak.learners.classes import Classifier
from squeak.learners.rows import all_or_nothing
from squeak.learners.sgd import Logistic, Loss, Squared
from squeak.learners.sgd_learner import SgdLearner


@parameters
class RandomFeatureClassifier(Classifier, SgdLearner):
    """Classification on random Fourier features, by mini-batch gradient steps.

    One function of :class:`RandomFeatureRegressor` for two classes, one a class for more: of the squared loss on
    codes ±1, or of the logistic one (multinomial for more than two classes), which knows probabilities.

    Parameters
    ----------
    kernel : RBF, Laplacian or Matern, or a multiple of one, optional
    loss : "squared" or "logistic"
    n_features, batch_size, step, decay, max_iter, validation_fraction, patience, tol, tail, shuffle, replacement
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
    _state: ClassVar[Layout] = {**SgdLearner._state, "classes_": LabelsPiece("class_type")}

    loss: str = "squared"
    _seen: dict[Any, float] = field(init=False)

    @all_or_nothing
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> RandomFeatureClassifier:
        """Learn from more rows, once through and in their order.

        Parameters
        ----------
        X : array, CSR or table
        y : array of shape (n,)
        classes : array
            All classes, which the first call must name.
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        self._check_sgd()
        first = not hasattr(self, "_descent")
        if first and classes is None:
            raise ValueError("the first call of partial_fit must name all classes: classes=[...]")
        data = self._array(X, y, sample_weight, reset=first)
        check_labels(data.y)
        known = np.unique(classes) if first else self.classes_
        if not np.isin(data.y, known).all():
            raise ValueError(f"y has classes that were not named: {np.setdiff1d(data.y, known).tolist()[:5]}")
        if first:
            self._seen = dict.fromkeys(known.tolist(), 0.0)
        self._partial_fit(data)
        return self

    def _check_sgd(self) -> None:
        super()._check_sgd()
        check_choice("loss", self.loss, "squared", "logistic")

    def _loss(self) -> Loss:
        return Logistic() if self.loss == "logistic" else Squared()

    def _forget(self) -> None:
        self._seen = {}

    def _look(self, y: Any, weight: Any) -> None:
        check_labels(y)
        found, place = np.unique(y, return_inverse=True)
        for name, count in zip(found.tolist(), np.bincount(place, weight, len(found)), strict=True):
            self._seen[name] = self._seen.get(name, 0.0) + float(count)
        self._kind = found.dtype

    def _intercept(self) -> Array:
        names = sorted(self._seen)
        if len(names) < 2:
            raise ValueError(f"there is only one class in y, {plain(names[0])!r}: at least two are needed")
        self.classes_ = np.array(names, dtype=None if self._kind.kind == "U" else self._kind)
        counts = np.array([self._seen[name] for name in names])
        part = (counts + 1e-3 * counts.sum()) / (counts.sum() * (1 + 1e-3 * len(counts)))
        if self.loss == "logistic":
            return np.log(part) if len(part) > 2 else np.array([math.log(part[1] / part[0])])
        return np.asarray(2.0 * (part if len(part) > 2 else part[1:]) - 1.0)
