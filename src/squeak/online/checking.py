"""Rows and targets checked where they enter an online estimator: whole blocks, and single rows in O(d)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg import get_blas_funcs
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from squeak.core.advice import Advice, InputError
from squeak.core.rows import check_rows, check_same_kind, copy_rows, n_rows, refuse_hidden, take, width_of
from squeak.core.seeds import draw_seed
from squeak.core.types import Array, Rows
from squeak.data import Block
from squeak.online.files import InFiles
from squeak.online.scaling import ScaledStream
from squeak.online.stream import Stream
from squeak.online.widths import needs_rows

_dot = get_blas_funcs("dot", dtype=np.float64)

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


class ChecksRows(InFiles):
    """The doors of an online estimator; the first block that comes through begins the stream."""

    _labels: ClassVar[bool]
    random_state: Any
    scale: str | None
    n_features_in_: int

    @property
    def n_seen_(self) -> int:
        """How many rows have been learned."""
        return self._stream.n_seen if hasattr(self, "_stream") else 0

    def _needs_rows(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} has seen no rows yet: call fit or partial_fit")

    def _check_block(self, X: Any, y: Any, *, prepared: bool = False) -> tuple[Rows, Array]:
        """Return checked rows and their targets, one column an output; begins the stream with the first.

        There are targets only up to the first row that brings a new class.
        """
        first = not hasattr(self, "_stream")
        if first:
            self._check_parameters()
        kernel = self._own_kernel() if first else self._stream.kernel
        if not first and self._stream.preprocessing is not None and not prepared:
            X = self._stream.preprocessing.encode(X)
        refuse_hidden(X, first_row=self.n_seen_)
        refuse_hidden(y, "y")
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if not self._labels and isinstance(next(iter(np.asarray(y).flat), None), str):
            words = Advice("use {}", "task", "classification", python="use a classifier")
            raise InputError(f"the target is text ({np.asarray(y).flat[0]!r})", words)
        if not getattr(kernel, "requires_vector_input", True) and not isinstance(X, np.ndarray):
            rows = check_rows(X, kernel)
            targets = np.asarray(y)
            if targets.shape != (n_rows(rows),):
                raise ValueError(f"y has shape {targets.shape}; there are {n_rows(rows)} rows")
        else:
            rows, targets = self._validated(X, kernel, y=y, reset=first, y_numeric=not self._labels)
        if not first:
            check_same_kind(self._head, rows)
        encoded = self._encode(targets[: self._n_known(targets)], first)
        if first:
            coming = getattr(self, "_coming", None)
            kind = ScaledStream if self._scales(kernel, rows, coming) else Stream
            seed = draw_seed(self.random_state)
            stream = kind(self._build, kernel, encoded.shape[1], seed, coming, self._watch())
            self._head, self._stream = copy_rows(take(rows, slice(0, 1))), stream
        return rows, encoded

    def _scales(self, kernel: Any, rows: Rows, coming: Any) -> bool:
        """Tell whether the scales of columns are learned on the way; ``coming``: the rows' preprocessing."""
        if self.scale == "robust" and not isinstance(rows, np.ndarray):
            raise ValueError("scale='robust' is for dense rows: pass scale=None")
        scaled = coming is not None and coming.scale is not None
        wanted = self.scale == "auto" and needs_rows(kernel) and not scaled
        return isinstance(rows, np.ndarray) and (wanted or self.scale == "robust")

    def _check_new(self, X: Any) -> Rows:
        if isinstance(X, Block):
            return check_rows(X.X, self._stream.kernel, width=width_of(self._head))
        if self._stream.preprocessing is not None:
            X = self._stream.preprocessing.encode(X)
        kernel = self._stream.kernel
        refuse_hidden(X)
        if isinstance(self._head, list):
            return check_rows(X, kernel)
        return self._validated(X, kernel, reset=False)

    def _validated(self, X: Any, kernel: Any, **options: Any) -> Any:
        """Return rows, and targets where there are any, as scikit-learn checks them."""
        accepted = "csr" if getattr(kernel, "accepts_sparse", False) else False
        found = validate_data(self, X, accept_sparse=accepted, dtype=(np.float64, np.float32), order="C", **options)
        rows, *targets = found if isinstance(found, tuple) else (found,)
        rows = rows if isinstance(rows, np.ndarray) else check_rows(rows, kernel)
        return (rows, *targets) if targets else rows

    def _n_known(self, y: Array) -> int:
        """Return how many rows come before the first that brings a new class."""
        return len(y)

    def _encode(self, y: Any, first: bool) -> Array:
        """Return the targets of rows, one column an output."""
        raise self._abstract()

    def _table_of(self, x: Any) -> Any:
        """Return the very first row as a table of one, for the whole check."""
        if not getattr(self._own_kernel(), "requires_vector_input", True) and not isinstance(x, np.ndarray):
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
