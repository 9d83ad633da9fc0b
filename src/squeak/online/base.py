"""What all online estimators share: rows and targets checked where they enter, one stream behind, files."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from squeak.core import storage
from squeak.core.rows import check_rows, check_same_kind, copy_rows, n_rows, take
from squeak.core.seeds import draw_seed
from squeak.core.sources import RowSource
from squeak.core.types import Array, Rows
from squeak.online.losses import Loss, loss_named
from squeak.online.stream import Learner, Stream
from squeak.samplers.base import own_kernel

LARGEST_TARGET = 1e150
"""A larger target's square is not a number that float64 has."""


@storage.register
class OnlineEstimator(BaseEstimator):
    """Base of the online estimators: predict each row, then learn from it, once.

    A subclass gives ``_build``, which makes the learner, and is a regressor or a classifier.
    """

    kind: ClassVar[str] = "online"
    kernel: Any
    random_state: Any
    loss: str
    bound: float | None

    _stream: Stream
    _head: Rows

    def _build(self, kernel: Any, rows: Rows, n_outputs: int, seed: int) -> Learner:
        raise TypeError(f"{type(self).__name__} is abstract: use ConKonsRegressor or another of squeak.online")

    def _check_parameters(self) -> None:
        """Raise one clear error for a parameter that makes no sense."""
        self._loss()
        if self.bound is not None and not (_is_number(self.bound) and 0 < self.bound < LARGEST_TARGET):
            raise ValueError(f"bound must be a positive number or None; it is {self.bound!r}")

    def _loss(self) -> Loss:
        return loss_named(self.loss, labels=isinstance(self, OnlineClassifier))

    def fit(self, X: Any, y: Any = None) -> Any:
        """Forget everything, then predict and learn from each row of ``X`` once, in order.

        Parameters
        ----------
        X : rows of shape (n, d), or a row source with a target
            Dense, CSR, objects for a PairwiseKernel, or what :func:`squeak.rows` returns.
        y : array of shape (n,)
            Left out for a row source.
        """
        before = {name: self.__dict__.pop(name, None) for name in self._state_names()}
        try:
            return self._read(X, y)
        except BaseException:
            for name, value in before.items():
                self.__dict__.pop(name, None)
                if value is not None:
                    setattr(self, name, value)
            raise

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        """Predict and learn from some more rows, one or many; the result does not depend on how they are cut.

        Parameters
        ----------
        X : rows of shape (n, d), or a row source with a target
        y : array of shape (n,)
        """
        return self._read(X, y)

    def test_then_train(self, X: Any, y: Any) -> Any:
        """Predict each row before learning from it; returns the predictions, shape (n,).

        The same state as :meth:`partial_fit`, and the predictions that an honest test of the stream needs.

        Parameters
        ----------
        X : rows of shape (n, d)
        y : array of shape (n,)
        """
        rows, targets = self._check_block(X, y)
        return self._answers(self._feed(rows, targets))

    def predict(self, X: Any) -> Any:
        """Return the predictions of rows; what the next round would predict for each of them.

        Parameters
        ----------
        X : rows of shape (n, d)
        """
        self._needs_rows()
        return self._answers(self._stream.scores(self._check_new(X)))

    def learn_one(self, x: Any, y: Any) -> Any:
        """Predict one row, then learn from it; returns the prediction. The fast path, with a light check.

        Parameters
        ----------
        x : array of shape (d,)
        y : number or label
        """
        stream = getattr(self, "_stream", None)
        if stream is None or stream.n_seen == 0:
            return self.test_then_train(np.asarray(x).reshape(1, -1), np.asarray([y]))[0]
        row = self._light(x)
        return self._answer(stream.learn_row(row, self._target_of(y)))

    def predict_one(self, x: Any) -> Any:
        """Return the prediction of one row; 0, or the first class, before any row was learned.

        Parameters
        ----------
        x : array of shape (d,)
        """
        if not hasattr(self, "_stream"):
            return self._first_answer()
        return self._answer(self._stream.score_row(self._light(x)))

    def _read(self, X: Any, y: Any) -> Any:
        for block, targets in self._blocks(X, y):
            rows, encoded = self._check_block(block, targets, prepared=isinstance(X, RowSource))
            self._feed(rows, encoded)
        return self

    def _blocks(self, X: Any, y: Any) -> Iterator[tuple[Any, Any]]:
        if not isinstance(X, RowSource):
            yield X, y
            return
        if y is not None or X.target is None:
            raise ValueError("a row source brings its own target: pass squeak.rows(..., target=...) and no y")
        known = getattr(self, "_stream", None)
        if known is not None and known.preprocessing != X.preprocessing:
            raise ValueError(
                "these rows are preprocessed in another way than those before: make them with "
                "squeak.rows(..., preprocessing=model.preprocessing_)"
            )
        self._coming = X.preprocessing
        try:
            for block in X.blocks():
                yield block.X, block.y
        finally:
            self.__dict__.pop("_coming", None)

    def _check_block(self, X: Any, y: Any, *, prepared: bool = False) -> tuple[Rows, Array]:
        """Return checked rows and their targets, one column an output; begins the stream with the first."""
        first = not hasattr(self, "_stream")
        if first:
            self._check_parameters()
        kernel = own_kernel(self.kernel) if first else self._stream.kernel
        if not first and self._stream.preprocessing is not None and not prepared:
            X = self._stream.preprocessing.encode(X)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if not getattr(kernel, "requires_vector_input", True) and not isinstance(X, np.ndarray):
            rows = check_rows(X, kernel)
            targets = np.asarray(y)
            if targets.shape != (n_rows(rows),):
                raise ValueError(f"y has shape {targets.shape}; there are {n_rows(rows)} rows")
        else:
            rows, targets = validate_data(
                self,
                X,
                y,
                reset=first,
                accept_sparse="csr" if getattr(kernel, "accepts_sparse", False) else False,
                dtype=(np.float64, np.float32),
                order="C",
                y_numeric=isinstance(self, RegressorMixin),
            )
            if not isinstance(rows, np.ndarray):
                rows = check_rows(rows, kernel)
        if not first:
            check_same_kind(self._head, rows)
        encoded = self._encode(targets, first)
        if first:
            stream = Stream(
                self._build,
                kernel,
                encoded.shape[1],
                draw_seed(self.random_state),
                getattr(self, "_coming", None),
            )
            self._head, self._stream = copy_rows(take(rows, slice(0, 1))), stream
        return rows, encoded

    def _feed(self, rows: Rows, targets: Array) -> Array:
        """Learn from checked rows; a stream whose very first rows fail is taken back."""
        try:
            return self._stream.learn(rows, targets)
        except BaseException:
            if self._stream.n_seen == 0:
                for name in self._state_names():
                    self.__dict__.pop(name, None)
            raise

    def _check_new(self, X: Any) -> Rows:
        if isinstance(X, RowSource):
            X = X.collect()[0]
        elif self._stream.preprocessing is not None:
            X = self._stream.preprocessing.encode(X)
        kernel = self._stream.kernel
        if isinstance(self._head, list):
            return check_rows(X, kernel)
        rows = validate_data(
            self,
            X,
            reset=False,
            accept_sparse="csr" if getattr(kernel, "accepts_sparse", False) else False,
            dtype=(np.float64, np.float32),
            order="C",
        )
        return rows if isinstance(rows, np.ndarray) else check_rows(rows, kernel)

    def _light(self, x: Any) -> Rows:
        """Return one row as a table of one, checked in O(d)."""
        if isinstance(self._head, list):
            return [x]
        row = x if isinstance(x, np.ndarray) and x.dtype == np.float64 else np.asarray(x, dtype=np.float64)
        if row.shape != (self.n_features_in_,):
            raise ValueError(f"a row has shape ({self.n_features_in_},); this has shape {row.shape}")
        if not np.isfinite(row).all():
            column = int(np.argmin(np.isfinite(row)))
            raise ValueError(f"column {column} is {row[column]}: drop or impute missing and infinite values first")
        return row.reshape(1, -1)

    @staticmethod
    def _state_names() -> tuple[str, ...]:
        return ("_stream", "_head", "n_features_in_", "feature_names_in_", "classes_")

    def _encode(self, y: Any, first: bool) -> Array:
        raise NotImplementedError

    def _target_of(self, y: Any) -> list[float]:
        raise NotImplementedError

    def _answers(self, scores: Array) -> Any:
        raise NotImplementedError

    def _answer(self, scores: list[float]) -> Any:
        raise NotImplementedError

    def _first_answer(self) -> Any:
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_stream") and self._stream.n_seen > 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel is None or bool(getattr(self.kernel, "accepts_sparse", False))
        tags.target_tags.required = True
        return tags

    def _needs_rows(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} has seen no rows yet: call fit or partial_fit")

    @property
    def n_seen_(self) -> int:
        """How many rows have been learned."""
        return self._stream.n_seen if hasattr(self, "_stream") else 0

    @property
    def kernel_(self) -> Any:
        """The kernel with every width a number; None until two different rows were seen."""
        self._needs_rows()
        return self._stream.resolved

    @property
    def preprocessing_(self) -> Any:
        """What turns the user's columns into rows, where a row source brought it; else None."""
        self._needs_rows()
        return self._stream.preprocessing

    @property
    def n_atoms_(self) -> int:
        """How many rows are kept."""
        return self._fact("atoms")

    def _fact(self, name: str) -> int:
        self._needs_rows()
        return 0 if self._stream.learner is None else self._stream.learner.facts[name]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimator to a ``.sqk`` file: data only; after :meth:`load` it goes on in the same bits.

        Parameters
        ----------
        path : path
        """
        storage.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], kernel: Any = None) -> Any:
        """Read an estimator that was saved at any point of its stream.

        Parameters
        ----------
        path : path
        kernel : kernel, optional
            Needed only for a kernel that is code.
        """
        found = storage.load(path, kernel=kernel, kind=OnlineEstimator.kind)
        if not isinstance(found, cls):
            raise TypeError(f"{os.fspath(path)} holds a {type(found).__name__}, not a {cls.__name__}")
        return found

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arrays and the rest as JSON data, for :func:`squeak.save`."""
        from squeak.online.files import parts_of

        self._needs_rows()
        return parts_of(self)

    @classmethod
    def from_parts(cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> Any:
        """Return the estimator that :meth:`to_parts` took apart, ready for more rows."""
        from squeak.online.files import estimator_from

        return estimator_from(arrays, content, kernel)


class OnlineRegressor(RegressorMixin, OnlineEstimator):
    """The face of an online regressor; targets are numbers, within ``bound`` where one is given."""

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
        target = float(y)
        if not abs(target) <= (LARGEST_TARGET if self.bound is None else self.bound):
            raise self._beyond(target)
        return [target]

    def _answers(self, scores: Array) -> Any:
        return scores[:, 0]

    def _answer(self, scores: list[float]) -> float:
        return scores[0]

    def _first_answer(self) -> float:
        return 0.0


class OnlineClassifier(ClassifierMixin, OnlineEstimator):
    """The face of an online classifier: ±1 for two classes, one against the rest for more."""

    classes_: Any

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Any:
        """Predict and learn from some more rows, one or many; the result does not depend on how they are cut.

        Parameters
        ----------
        X : rows of shape (n, d), or a row source with a target
        y : array of labels, shape (n,)
        classes : array of labels, optional
            All labels that may come; needed with the first rows unless these hold them all.
        """
        if classes is not None:
            self._take_classes(classes)
        return self._read(X, y)

    def learn_one(self, x: Any, y: Any, classes: Any = None) -> Any:
        """Predict one row, then learn from it; returns the predicted label. The fast path, with a light check.

        Parameters
        ----------
        x : array of shape (d,)
        y : label
        classes : array of labels, optional
            All labels that may come; needed with the first row.
        """
        if classes is not None:
            self._take_classes(classes)
        return super().learn_one(x, y)

    def decision_function(self, X: Any) -> Array:
        """Return the scores: shape (n,) for two classes, the second's side positive; (n, classes) for more.

        Parameters
        ----------
        X : rows of shape (n, d)
        """
        self._needs_rows()
        scores = self._stream.scores(self._check_new(X))
        return scores[:, 0] if scores.shape[1] == 1 else scores

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
        label = y.item() if isinstance(y, np.generic) else y
        if label not in known:
            raise self._unknown(label)
        if len(known) == 2:
            return [1.0 if label == known[1] else -1.0]
        return [1.0 if label == other else -1.0 for other in known]

    def _answers(self, scores: Array) -> Any:
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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def check_positive(name: str, value: Any) -> float:
    """Return a parameter as a float, or raise: it must be a positive, finite number."""
    if not _is_number(value) or not 0 < value < math.inf:
        raise ValueError(f"{name} must be a positive, finite number; it is {value!r}")
    return float(value)
