"""The two faces of an online learner: a regressor and a classifier."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.multiclass import check_classification_targets

from squeak.core.state import plain
from squeak.core.types import Array
from squeak.data import DecidesBlocks, by_blocks
from squeak.online.base import LARGEST_TARGET, OnlineEstimator


class OnlineRegressor(RegressorMixin, OnlineEstimator):
    """The face of an online regressor; targets are numbers, within ``bound`` where one is given."""

    _labels: ClassVar[bool] = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = self._poor_on_few_rows
        return tags

    def _encode(self, y: Any, first: bool) -> Array:
        targets = np.asarray(y, dtype=np.float64)
        largest = LARGEST_TARGET if self.bound is None else float(self.bound)
        if not np.all(np.abs(targets) <= largest):
            row = int(np.argmin(np.abs(targets) <= largest))
            raise self._beyond(float(targets[row]), f" of row {self.n_seen_ + row}")
        return targets.reshape(-1, 1)

    def _beyond(self, target: float, where: str = "") -> ValueError:
        if not math.isfinite(target):
            return ValueError(f"the target{where} is {target}: drop the row")
        if self.bound is None:
            return ValueError(f"the target{where} is {target:g}: its square overflows; scale the target")
        return ValueError(f"the target{where} is {target:g}, beyond bound = {self.bound:g}: raise it, or scale")

    def _target_of(self, y: Any) -> list[float]:
        if y is None or isinstance(y, str):
            raise ValueError(f"the target is {y!r}: it must be a number")
        target = float(y)
        if not abs(target) <= (LARGEST_TARGET if self.bound is None else self.bound):
            raise self._beyond(target)
        return [target]

    def answers(self, scores: Array) -> Array:
        """Return what scores of the learner stand for: the predictions themselves.

        Returns
        -------
        array of shape (n,)
        """
        return scores[:, 0]

    def _answer(self, scores: list[float]) -> float:
        return scores[0]

    def _first_answer(self) -> float:
        return 0.0


class OnlineClassifier(ClassifierMixin, DecidesBlocks, OnlineEstimator):
    """The face of an online classifier: ±1 for two classes, one against the rest for more."""

    _labels: ClassVar[bool] = True

    classes_: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self._poor_on_few_rows
        return tags

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Any:
        """Predict and learn from some more rows, one or many; the result does not depend on how they are cut.

        Parameters
        ----------
        X : rows of shape (n, d), or a row source with a target
        y : array of labels, shape (n,)
        classes : array of labels, optional
            All labels that may come; needed with the first rows unless these hold them all.

        Returns
        -------
        self
        """
        with self.taking(classes):
            return self._read(X, y)

    def learn_one(self, x: Any, y: Any, classes: Any = None) -> None:
        """Learn from one row; see :meth:`test_then_train_one`, whose prediction it does not return."""
        self.test_then_train_one(x, y, classes)

    def test_then_train_one(self, x: Any, y: Any, classes: Any = None) -> Any:
        """Predict one row, then learn from it: the fast path for rows that come singly, with a light check.

        Parameters
        ----------
        x : array of shape (d,)
        y : label
        classes : array of labels, optional
            All labels that may come; needed with the first row.

        Returns
        -------
        label
            The prediction from before the row was learned.
        """
        if classes is None:
            return super().test_then_train_one(x, y)
        with self.taking(classes):
            return super().test_then_train_one(x, y)

    @by_blocks
    def decision_function(self, X: Any) -> Array:
        """Return the scores: shape (n,) for two classes, the second's side positive; (n, classes) for more.

        Parameters
        ----------
        X : rows of shape (n, d)

        Returns
        -------
        array of shape (n,) or (n, classes)
        """
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @contextmanager
    def taking(self, classes: Any) -> Iterator[None]:
        """Take the classes over; where the very first rows then fail, take them back.

        Parameters
        ----------
        classes : array of labels or None
            All labels that may come.

        Returns
        -------
        context manager
            Within which the first rows are learned.
        """
        if classes is not None:
            self._take_classes(classes)
        try:
            yield
        except BaseException:
            if not hasattr(self, "_stream"):
                self.__dict__.pop("classes_", None)
            raise

    def _take_classes(self, classes: Any) -> None:
        found = np.unique(np.asarray(classes))
        if hasattr(self, "classes_") and not np.array_equal(self.classes_, found):
            raise ValueError(f"classes is {found.tolist()}; the first call had {self.classes_.tolist()}")
        if len(found) < 2:
            raise ValueError(f"there is only one class, {found.tolist()}: at least two classes are needed")
        self.classes_ = found

    def _encode(self, y: Any, first: bool) -> Array:
        labels = np.asarray(y)
        check_classification_targets(labels)
        if not hasattr(self, "classes_"):
            found = np.unique(labels)
            if len(found) < 2:
                raise ValueError(
                    f"the first rows hold only one class, {found.tolist()}: "
                    "pass all classes to partial_fit or learn_one by classes="
                )
            self.classes_ = found
        place = np.searchsorted(self.classes_, labels)
        place = np.minimum(place, len(self.classes_) - 1)
        known = self.classes_[place] == labels
        if not np.all(known):
            row = int(np.argmin(known))
            raise self._unknown(labels[row], f" of row {self.n_seen_ + row}")
        if len(self.classes_) == 2:
            return np.where(place == 1, 1.0, -1.0).reshape(-1, 1)
        return np.where(place[:, None] == np.arange(len(self.classes_)), 1.0, -1.0)

    def _unknown(self, label: Any, where: str = "") -> ValueError:
        return ValueError(
            f"the label{where} is {label!r}; the classes are {self.classes_.tolist()}: name all of them at first"
        )

    def _target_of(self, y: Any) -> list[float]:
        known = self.classes_.tolist()
        label = plain(y)
        if label not in known:
            raise self._unknown(label)
        if len(known) == 2:
            return [1.0 if label == known[1] else -1.0]
        return [1.0 if label == other else -1.0 for other in known]

    def answers(self, scores: Array) -> Any:
        """Return what scores of the learner stand for: labels.

        Returns
        -------
        array of shape (n,)
        """
        place = (scores[:, 0] >= 0).astype(np.int64) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return self.classes_[place]

    def _answer(self, scores: list[float]) -> Any:
        if len(scores) == 1:
            return self.classes_[1 if scores[0] >= 0 else 0]
        return self.classes_[scores.index(max(scores))]

    def _first_answer(self) -> Any:
        if not hasattr(self, "classes_"):
            raise NotFittedError(f"this {type(self).__name__} knows no classes yet: call learn_one with classes=")
        return self.classes_[0]
