"""The two faces of an online learner: a regressor and a classifier."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError

from squeak.core.checks import check_labels, is_missing, refuse_mixed
from squeak.core.state import plain
from squeak.core.types import Array, Rows
from squeak.data import DecidesBlocks, by_blocks
from squeak.online.base import LARGEST_TARGET, OnlineEstimator
from squeak.online.stored import Columns, rearranged


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

    classes_join: ClassVar[bool] = False
    """Whether classes that were not named may join on the way."""

    classes_: Any
    _named: bool

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

    def learn_one(
        self,
        x: Any = None,
        y: Any = None,
        classes: Any = None,
        *,
        id: str | int | None = None,  # noqa: A002
    ) -> None:
        """Learn from one row; see :meth:`test_then_train_one`, whose prediction it does not return.

        Parameters
        ----------
        x : array of shape (d,), or a dictionary
            A dictionary has a value for each feature: a number, a text, which is a category, or None for a gap.
            Features and categories that are new get columns of their own, as long as there are spare ones.
        y : label
        classes : array of labels, optional
            All labels that may come.
        id : str or int, optional
            Instead of x: the row that was given to ``predict_one`` under this name, whose label is known now.
        """
        self._learn_pending(x, id, lambda row: self.test_then_train_one(row, y, classes))

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
                for name in ("classes_", "_named"):
                    self.__dict__.pop(name, None)
            raise

    def _take_classes(self, classes: Any) -> None:
        refuse_mixed(classes)
        found = np.unique(np.asarray(classes))
        if hasattr(self, "classes_") and not np.array_equal(self.classes_, found):
            raise ValueError(f"classes is {found.tolist()}; the first call had {self.classes_.tolist()}")
        if len(found) < 2:
            raise ValueError(f"there is only one class, {found.tolist()}: at least two classes are needed")
        self.classes_, self._named = found, True

    def _n_known(self, y: Array) -> int:
        labels = np.asarray(y)
        if not hasattr(self, "classes_"):
            check_labels(labels)
            found = np.unique(labels)
            if len(found) < 2 and not self.classes_join:
                raise ValueError(
                    f"the first rows hold only one class, {found.tolist()}: "
                    "pass all classes to partial_fit or learn_one by classes="
                )
            self.classes_, self._named = found, False
        if len(labels) == 1:
            known = [plain(labels[0]) in self.classes_.tolist()]
        else:
            known = np.isin(labels, self.classes_).tolist()
        if all(known):
            return len(labels)
        row = known.index(False)
        label = plain(labels[row])
        gap = is_missing(label)
        texts = {isinstance(plain(one), str) for one in (label, self.classes_[0])}
        if gap or self._named or not self.classes_join or len(texts) > 1:
            where = f" of row {self.n_seen_ + row}" if len(labels) > 1 else ""
            words = f"the label{where} is {label!r}; the classes are {self.classes_.tolist()}"
            raise ValueError(f"{words}: {'leave out rows without one' if gap else 'name all of them at first'}")
        check_labels(labels[row : row + 1])
        return row

    def _encode(self, y: Any, first: bool) -> Array:
        labels = np.asarray(y)
        check_labels(labels)
        if self._n_known(labels) < len(labels):
            raise ValueError(f"some of the labels are not among the classes {self.classes_.tolist()}")
        place = np.searchsorted(self.classes_, labels)
        if len(self.classes_) <= 2:
            return np.where(place == 1, 1.0, -1.0).reshape(-1, 1)
        return np.where(place[:, None] == np.arange(len(self.classes_)), 1.0, -1.0)

    def _meet(self, row: Rows, label: Array) -> tuple[Array, Array, Array]:
        scores, old = self._stream.scores(row), self.classes_
        answers, stream = self.answers(scores), self._stream.copy()
        classes = np.unique(np.append(old, label))
        came = [int(np.flatnonzero(old == one)[0]) if one in old else None for one in classes]
        if len(classes) == 2:
            columns: Columns = [(0, 1.0 if came[0] == 0 else -1.0)]
        elif len(old) == 2:
            columns = [None if one is None else (0, 2.0 * one - 1.0) for one in came]
        else:
            columns = [None if one is None else (one, 1.0) for one in came]
        stream.rearrange(columns)
        target = np.where(classes == label[0], 1.0, -1.0)
        target = target[1:] if len(classes) == 2 else target
        stream.learn(row, target[None])
        self._stream, self.classes_ = stream, classes
        return answers, rearranged(scores, columns), target[None]

    def _target_of(self, y: Any) -> list[float] | None:
        known, label = self.classes_.tolist(), plain(y)
        if label not in known:
            return None
        if len(known) <= 2:
            return [1.0 if label == known[-1] and len(known) == 2 else -1.0]
        return [1.0 if label == other else -1.0 for other in known]

    def answers(self, scores: Array) -> Any:
        """Return what scores of the learner stand for: labels.

        Returns
        -------
        array of shape (n,)
        """
        place = (scores[:, 0] >= 0).astype(np.int64) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return self.classes_[place * (len(self.classes_) > 1)]

    def _answer(self, scores: list[float]) -> Any:
        if len(scores) == 1:
            return self.classes_[1 if scores[0] >= 0 and len(self.classes_) > 1 else 0]
        return self.classes_[scores.index(max(scores))]

    def _first_answer(self) -> Any:
        if hasattr(self, "classes_"):
            return self.classes_[0]
        if self.classes_join:
            return None
        raise NotFittedError(f"this {type(self).__name__} knows no classes yet: call learn_one with classes=")
