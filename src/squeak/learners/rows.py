"""What all learners share: how rows, targets and weights are checked, and that a failed fit changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from squeak.core.constructors import parameters
from squeak.core.places import elsewhere
from squeak.core.rows import check_rows, n_rows, refuse_hidden, take
from squeak.core.seeds import RandomState
from squeak.core.types import Array, Rows
from squeak.data import Block, RowSource, TransformsBlocks
from squeak.learners.data import ArrayTraining, SourceTraining, Training, as_numbers, check_finite
from squeak.learners.formula import Answers, Features
from squeak.learners.stored import StoredLearner
from squeak.samplers.base import own_kernel

Method = TypeVar("Method", bound=Callable[..., Any])


@parameters
class RowLearner(StoredLearner):
    """Base of all learners: rows and targets are checked before anything is learned."""

    _for_text: ClassVar[str] = "squeak.rows(X, y) makes numbers of columns of text"
    """What to do about text in rows that are to be numbers."""

    random_state: RandomState = None

    def _own_kernel(self) -> Any:
        """Return the kernel that rows must suit: any of vectors, where a learner chooses its own."""
        return own_kernel(None)

    def _given_encoding(self) -> Any:
        """Return the preprocessing of a dictionary that was given, which rows have to go through."""
        return None

    def _check_encoding(self, source: RowSource) -> None:
        """Refuse rows that went through another preprocessing than the dictionary that was given."""

    def _vectors(self) -> bool:
        """Tell whether rows are vectors, so that scikit-learn's checks apply."""
        return bool(getattr(self._own_kernel(), "requires_vector_input", True))

    def _forms(self) -> dict[str, Any]:
        """Return which forms of rows scikit-learn's checks let pass: CSR, if the learner's tags say so."""
        sparse = self.__sklearn_tags__().input_tags.sparse
        return {"accept_sparse": "csr" if sparse else False, "dtype": [np.float64, np.float32]}

    def _validated(self, X: Any, y: Any, **checks: Any) -> Any:
        """Return rows and targets in memory as scikit-learn checks them."""
        try:
            return validate_data(self, X, y, **self._forms(), **checks)
        except ValueError as error:
            if not str(error).startswith("could not convert string"):
                raise
            raise ValueError(f"{error}; {self._for_text}") from None

    def _array(self, X: Any, y: Any, weight: Any, targets: bool = True, **checks: Any) -> ArrayTraining:
        """Check rows, targets and weights in memory, in scikit-learn's way; ``targets`` False: there are none."""
        encoding = self._given_encoding()
        if encoding is not None:
            X = encoding.encode(X)
        for values, name in ((X, "rows"), (y, "y"), (weight, "sample_weight")):
            refuse_hidden(values, name)
        if checks.get("y_numeric") and y is not None and np.asarray(y).dtype.kind in "OUS":
            y = as_numbers(y)
        if targets:
            check_finite(y, "y")
        if self._vectors():
            checks["ensure_all_finite"] = False  # check_rows below names the row
            found = self._validated(X, y if targets else "no_validation", **checks)
            X, y = found if targets else (found, None)
        if encoding is not None:
            self._set_columns(encoding)
        rows = check_rows(X, self._own_kernel())
        if not self._vectors() and targets:
            y = np.asarray(y)
            if y.shape[:1] != (n_rows(rows),):
                raise ValueError(f"there are {n_rows(rows):,} rows, and y has the shape {y.shape}")
        if targets and checks.get("y_numeric"):
            y = np.asarray(y, dtype=np.float64)
        if weight is not None:
            check_finite(weight, "sample_weight")
            weight = _check_sample_weight(weight, X, dtype=np.float64, ensure_non_negative=True)
            if not weight.sum() > 0:
                raise ValueError("sample_weight is zero for every row")
            if not weight.all():  # a row of no weight is no row: it shall not be an atom either
                some = np.flatnonzero(weight)
                rows, weight, y = take(rows, some), weight[some], y[some] if targets else None
        return ArrayTraining(rows, y if targets else None, weight)

    def _source(
        self, X: RowSource, y: Any, weight: Any, target: bool = True, numeric: bool = False, run: Any = None
    ) -> SourceTraining:
        """Check that a source can be learned from; ``numeric``: targets are numbers; ``run``: of a checkpoint."""
        if y is not None:
            raise ValueError("a row source carries its targets: squeak.rows(..., target=...), and no y")
        if weight is not None:
            raise ValueError("sample_weight goes with arrays; a row source has no place for it")
        if target and X.target is None:
            raise ValueError("the row source has no targets: squeak.rows(..., target='column')")
        self._check_encoding(X)
        client = elsewhere()
        if client is not None and not X.repeatable:
            client = None
        self._set_columns(X.preprocessing, X.column_names)
        encode = as_numbers if numeric else None
        if run is None:
            return SourceTraining(X, encode, client)
        from squeak.learners.checkpoint import KeptTraining

        return KeptTraining(X, encode, client, run=run)

    def _training(
        self, X: Any, y: Any, weight: Any, *, targets: bool = True, numeric: bool = False, run: Any = None
    ) -> Training:
        """Return the rows of a fit, checked, from a source or in memory; see :meth:`_source` and :meth:`_array`."""
        if isinstance(X, RowSource):
            return self._source(X, y, weight, targets, numeric, run)
        checks = {"multi_output": True, "y_numeric": True} if numeric else {}
        return self._array(X, y, weight, targets, **checks)

    def _set_columns(self, made: Any, names: Sequence[Any] = ()) -> None:
        """Set how many columns rows have and their names, where they have any: those that predictions ask for.

        ``made``: the preprocessing. ``names``: of the columns where there is none.
        """
        if made is not None:
            names = made.column_names if made.width is None else range(made.width)
        self.n_features_in_ = len(names)
        self.__dict__.pop("feature_names_in_", None)
        if names and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)

    def _rows_for(self, X: Any) -> Rows:
        """Return rows to predict, as the kernel takes them."""
        check_is_fitted(self)
        if isinstance(X, Block):
            X = X.X
        elif self.preprocessing_ is not None:
            X = self.preprocessing_.encode(X)
        else:
            refuse_hidden(X)
            if self._vectors():
                X = validate_data(self, X, reset=False, ensure_all_finite=False, **self._forms())
        return check_rows(X, self.kernel_, width=self._width())

    def _values(self, X: Rows) -> Array:
        """Return f(x) for checked rows, shape (n, outputs)."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "dictionary_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@parameters
class KernelLearner(RowLearner):
    """Base of the learners with one kernel."""

    kernel: Any = field(default=None, kw_only=False)

    def _own_kernel(self) -> Any:
        return own_kernel(self.kernel)


class Transformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TransformsBlocks):
    """Base of the learners that transform rows into ``n_components_`` numbers."""

    n_components_: int

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def _answers(self) -> Answers:
        return Features()


def all_or_nothing(method: Method) -> Method:
    """Make a method of a learner leave the learner as it was if it fails or is interrupted.

    The method may set and drop attributes as it likes; what they hold it must replace and never change in place.
    It has failed too if files that workers read on the way were changed since they were opened.
    """

    @wraps(method)
    def tried(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(self.__dict__)
        try:
            found = method(self, *args, **kwargs)
            if elsewhere() is not None:
                for source in (given for given in (*args, *kwargs.values()) if isinstance(given, RowSource)):
                    source.check_unchanged()
            return found
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    return cast(Method, tried)
