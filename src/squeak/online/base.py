"""What all online estimators share: rows and targets checked where they enter, one stream behind, files."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg import get_blas_funcs
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from squeak.core import storage
from squeak.core.rows import check_rows, check_same_kind, copy_rows, n_rows, refuse_hidden, take
from squeak.core.seeds import draw_seed
from squeak.core.sources import Cursor, RowSource
from squeak.core.types import Array, Rows
from squeak.online.losses import Loss, loss_named
from squeak.online.stream import Learner, Stream
from squeak.samplers.base import own_kernel

_dot = get_blas_funcs("dot", dtype=np.float64)

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))

LARGEST_TARGET = 1e150
"""A larger target's square is not a number that float64 has."""


@storage.register
class OnlineEstimator(BaseEstimator):
    """Base of the online estimators: predict each row, then learn from it, once.

    A subclass gives ``_build``, which makes the learner, and is a regressor or a classifier.
    """

    kind: ClassVar[str] = "online"
    _labels: ClassVar[bool]
    _poor_on_few_rows: ClassVar[bool] = False
    """Told to scikit-learn: after the 200 rows of its checks, a learner that restarts has learned little."""
    kernel: Any
    random_state: Any
    loss: str
    bound: float | None

    _stream: Stream
    _head: Rows

    def _build(self, kernel: Any, rows: Rows, n_outputs: int, seed: int) -> Learner:
        raise self._abstract()

    def _check_parameters(self) -> None:
        """Raise one clear error for a parameter that makes no sense."""
        self._loss()
        if self.bound is not None and not (_is_number(self.bound) and 0 < self.bound < LARGEST_TARGET):
            raise ValueError(f"bound must be a positive number or None; it is {self.bound!r}")

    def _loss(self) -> Loss:
        return loss_named(self.loss, labels=self._labels)

    def fit(self, X: Any, y: Any = None) -> Any:
        """Forget everything, then predict and learn from each row of ``X`` once, in order.

        Parameters
        ----------
        X : rows of shape (n, d), or a row source with a target
            Dense, CSR, objects for a PairwiseKernel, or what :func:`squeak.rows` returns.
        y : array of shape (n,)
            Left out for a row source.
        """
        before = dict(self.__dict__)
        for name in self._state_names():
            self.__dict__.pop(name, None)
        try:
            return self._read(X, y)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
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
        with self._all_or_nothing():
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
            return self.test_then_train(self._table_of(x), np.asarray([y]))[0]
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
        with self._all_or_nothing():
            for block, targets, _ in self._blocks(X, y):
                rows, encoded = self._check_block(block, targets, prepared=isinstance(X, RowSource))
                self._feed(rows, encoded)
        return self

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Undo what was learned if there is an error; after an interrupt it stays, and ``n_seen_`` counts it."""
        before, stream = dict(self.__dict__), getattr(self, "_stream", None)
        state = None if stream is None else stream.copy()
        try:
            yield
        except BaseException as error:
            refused = isinstance(error, Exception) and not isinstance(error, Warning)
            if refused or self.n_seen_ == 0:
                self.__dict__.clear()
                self.__dict__.update(before)
                if state is not None:
                    self._stream = state
            raise

    def _blocks(self, X: Any, y: Any, start: Cursor | None = None) -> Iterator[tuple[Any, Any, Cursor | None]]:
        """Yield rows, targets and, of a row source from a place on, where the next block begins."""
        if not isinstance(X, RowSource):
            yield X, y, None
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
            for block in X.blocks(start):
                yield block.X, block.y, block.cursor
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
        refuse_hidden(X, first_row=self.n_seen_)
        refuse_hidden(y, "y")
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if not self._labels and isinstance(next(iter(np.asarray(y).flat), None), str):
            raise ValueError(f"the target is text ({np.asarray(y).flat[0]!r}): use a classifier")
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
                y_numeric=not self._labels,
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
        refuse_hidden(X)
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

    def _table_of(self, x: Any) -> Any:
        """Return the very first row as a table of one, for the whole check."""
        if not getattr(own_kernel(self.kernel), "requires_vector_input", True) and not isinstance(x, np.ndarray):
            return [x]
        return x if sp.issparse(x) else np.asanyarray(x).reshape(1, -1)

    def _light(self, x: Any) -> Rows:
        """Return one row as a table of one, of the kind that the rows before had, checked in O(d)."""
        if isinstance(self._head, list):
            return [x]
        if sp.issparse(x) or sp.issparse(self._head):
            return self._light_sparse(x)
        row = x if type(x) is np.ndarray and x.dtype in FLOATS else self._numbers(x)
        if row.shape != (self.n_features_in_,):
            raise ValueError(f"a row has shape ({self.n_features_in_},); this has shape {row.shape}")
        if not math.isfinite(_dot(row, row)) and not np.isfinite(row).all():  # the product is fast; it may overflow
            column = int(np.argmin(np.isfinite(row)))
            raise ValueError(f"column {column} is {row[column]}: drop or impute missing and infinite values first")
        return row.reshape(1, -1)

    @staticmethod
    def _numbers(x: Any) -> Array:
        refuse_hidden(x)
        return np.asarray(x, dtype=np.float64)

    def _light_sparse(self, x: Any) -> Rows:
        if not sp.issparse(self._head):
            raise TypeError("this row is sparse; the rows before were dense: pass x.toarray()[0]")
        row = x if sp.issparse(x) else self._numbers(x)
        if row.shape not in ((self.n_features_in_,), (1, self.n_features_in_)):
            raise ValueError(f"a row has shape ({self.n_features_in_},); this has shape {row.shape}")
        return check_rows(sp.csr_array(row.reshape(1, -1)), self._stream.kernel)

    @staticmethod
    def _state_names() -> tuple[str, ...]:
        return ("_stream", "_head", "n_features_in_", "feature_names_in_", "classes_")

    def _encode(self, y: Any, first: bool) -> Array:
        """Return the targets of rows, one column an output."""
        raise self._abstract()

    def _target_of(self, y: Any) -> list[float]:
        """Return the targets of one row."""
        raise self._abstract()

    def _answers(self, scores: Array) -> Any:
        """Return what users are told of the scores of rows."""
        raise self._abstract()

    def _answer(self, scores: list[float]) -> Any:
        """Return what users are told of the scores of one row."""
        raise self._abstract()

    def _first_answer(self) -> Any:
        """Return the prediction before any row was learned."""
        raise self._abstract()

    def _abstract(self) -> TypeError:
        return TypeError(f"{type(self).__name__} is abstract: use ConKonsRegressor or another of squeak.online")

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

    def _check_stored(self, arrays: dict[str, Any], n_outputs: int) -> None:
        """Refuse the arrays of a file that belong to a model of another size, before one of that size is made."""

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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def check_positive(name: str, value: Any) -> float:
    """Return a parameter as a float, or raise: it must be a positive, finite number."""
    if not _is_number(value) or not 0 < value < math.inf:
        raise ValueError(f"{name} must be a positive, finite number; it is {value!r}")
    return float(value)
