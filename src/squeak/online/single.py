"""Rows that come to an online estimator one at a time: arrays or dictionaries, and targets that come later."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from squeak.core.saved import Parts
from squeak.core.state import ANY, checked, numbers, plain
from squeak.core.types import Array, Rows
from squeak.online.checking import ChecksRows
from squeak.online.records import RecordColumns, check_names


class SingleRows(ChecksRows):
    """What learns single rows, turns dictionaries into rows, and keeps rows by name until their targets are known.

    Between calls: ``_records`` has the columns of features, where rows came as dictionaries and no row source or
    table had named them; ``_pending`` has the rows that wait, as they were given, the oldest first.
    """

    _most_pending: ClassVar[int] = 10_000
    _records: RecordColumns
    _pending: dict[str | int, Any]

    def learn_one(self, x: Any = None, y: Any = None, *, id: str | int | None = None) -> None:  # noqa: A002
        """Learn from one row; as river's, it returns nothing: see :meth:`test_then_train_one` for the prediction.

        Parameters
        ----------
        x : array of shape (d,), or a dictionary
            A dictionary has a value for each feature: a number, a text, which is a category, or None for a gap.
            Features and categories that are new get columns of their own, as long as there are spare ones.
        y : number or label
        id : str or int, optional
            Instead of x: the row that was given to :meth:`predict_one` under this name, whose target is known now.

        Examples
        --------
        >>> from squeak.online import ConKonsRegressor
        >>> model = ConKonsRegressor(random_state=0)
        >>> model.learn_one({"km": 3.0, "to": "LIL"}, 12.0)
        >>> said = model.predict_one({"km": 4.0, "to": "AMS"}, id="ride 7")
        >>> model.learn_one(id="ride 7", y=15.0)
        >>> model.n_seen_, model.n_pending_
        (2, 0)
        """
        self._learn_pending(x, id, lambda row: self.test_then_train_one(row, y))

    def test_then_train_one(self, x: Any, y: Any) -> Any:
        """Predict one row, then learn from it: the fast path for rows that come singly, with a light check.

        Parameters
        ----------
        x : array of shape (d,), or a dictionary
            See :meth:`learn_one`.
        y : number or label

        Returns
        -------
        number or label
            The prediction from before the row was learned; it costs no more than learning alone.
        """
        if isinstance(x, dict):
            columns = self._columns_for(x)
            said = self.test_then_train_one(self._record(x, columns), y)
            if columns is not None:
                columns.keep(x)
                self._records = columns
            return said
        stream = getattr(self, "_stream", None)
        if stream is None or stream.n_seen == 0:
            return self.test_then_train(self._table_of(x), np.asarray([y]))[0]
        row, targets = self._light(x), self._target_of(y)
        if targets is None:
            self._n_known(np.asarray([y]))  # raises where no class may join
            return self._meet(row, np.asarray([y]))[0][0]
        return self._answer(stream.learn_row(row, targets))

    def predict_one(self, x: Any, id: str | int | None = None) -> Any:  # noqa: A002
        """Return the prediction of one row; before any row was learned 0, or the first class, or None.

        Parameters
        ----------
        x : array of shape (d,), or a dictionary
            See :meth:`learn_one`.
        id : str or int, optional
            Keep the row under this name, until :meth:`learn_one` brings its target. The last 10,000 rows are kept,
            and saved with the model.

        Returns
        -------
        number or label
        """
        if not hasattr(self, "_stream"):
            said = self._first_answer()
        else:
            row = self._record(x, self._columns_for(x)) if isinstance(x, dict) else x
            said = self._answer(self._stream.score_row(self._light(row)))
        if id is not None:
            self._keep_pending(x, id)
        return said

    def test_then_train(self, X: Any, y: Any = None) -> Any:
        """Predict each row before learning from it; returns the predictions."""
        raise self._abstract()

    def _meet(self, row: Rows, label: Array) -> tuple[Array, Array, Array]:
        """Predict a row that brings a new class, let the class join, and learn the row.

        Returns the answer from before, its scores with a column for the new class, and the target.
        """
        raise self._abstract()

    def _target_of(self, y: Any) -> list[float] | None:
        """Return the targets of one row; None where its label is new."""
        raise self._abstract()

    def _answer(self, scores: list[float]) -> Any:
        """Return what users are told of the scores of one row."""
        raise self._abstract()

    def _first_answer(self) -> Any:
        """Return the prediction before any row was learned."""
        raise self._abstract()

    @property
    def n_pending_(self) -> int:
        """How many rows wait for their targets."""
        return len(self._waiting)

    @property
    def _waiting(self) -> dict[str | int, Any]:
        if not hasattr(self, "_pending"):
            self._pending = {}
        return self._pending

    def _columns_for(self, x: dict[Any, Any]) -> RecordColumns | None:
        """Return the columns of features, those of a first row where there are none yet; None: they have names."""
        if hasattr(self, "_stream") and not hasattr(self, "_records"):
            if self._stream.preprocessing is None and not hasattr(self, "feature_names_in_"):
                raise TypeError("this row is a dictionary; the columns before had no names: pass an array")
            return None
        return self._records if hasattr(self, "_records") else RecordColumns.of(x)

    def _record(self, x: dict[Any, Any], columns: RecordColumns | None) -> Array:
        """Return a dictionary as a row of numbers; changes nothing."""
        if columns is not None:
            return columns.row(x)
        if self._stream.preprocessing is not None:
            import pyarrow as pa

            names = {str(name): value for name, value in x.items()}
            rows: Array = np.asarray(self._stream.preprocessing.encode(pa.Table.from_pylist([names])))
            return np.ravel(rows)
        missing = [name for name in self.feature_names_in_ if name not in x]
        if missing:
            raise ValueError(f"the row has no value for {missing[0]!r}")
        return self._numbers([x[name] for name in self.feature_names_in_])

    def _keep_pending(self, x: Any, name: str | int) -> None:
        """Keep a row by a name; beyond the limit the oldest is forgotten."""
        if sp.issparse(x) or not (isinstance(x, dict) or np.ndim(x) == 1):
            raise TypeError("only dense rows and dictionaries can wait for their targets")
        row = RecordColumns.storable(x) if isinstance(x, dict) else np.array(x, dtype=np.float64)
        for column, value in row.items() if isinstance(row, dict) else enumerate(row.tolist()):
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"column {column!r} of the row is {value}")
        waiting, name = self._waiting, _checked_id(name)
        waiting.pop(name, None)
        waiting[name] = row
        while len(waiting) > self._most_pending:
            del waiting[next(iter(waiting))]

    def _learn_pending(self, x: Any, name: str | int | None, learn: Callable[[Any], Any]) -> None:
        """Learn a row, or the one that waits under a name."""
        if name is None:
            learn(x)
            return
        if x is not None:
            raise TypeError("pass a row, or the id of one that was predicted, not both")
        name = _checked_id(name)
        if name not in self._waiting:
            kept = f"the last {self._most_pending:,} are kept until their targets come"
            raise ValueError(f"no row waits under the id {name!r}: {kept}, and each is learned once")
        learn(self._waiting[name])
        del self._waiting[name]

    def to_parts(self) -> Parts:
        """Return the parts for a file; see :meth:`squeak.Dictionary.to_parts`."""
        arrays, content = super().to_parts()
        if hasattr(self, "_records"):
            content["records"] = self._records.to_content()
        if self._waiting:
            rows = [row for row in self._waiting.values() if not isinstance(row, dict)]
            check_names(name for row in self._waiting.values() if isinstance(row, dict) for name in row)
            arrays["pending_rows"] = np.array(rows).reshape(len(rows), -1 if rows else 0)
            content["pending"] = [
                [name, list(row.items()) if isinstance(row, dict) else None] for name, row in self._waiting.items()
            ]
        return arrays, content

    def _take_parts(self, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        if content.get("records") is not None:
            self._records = RecordColumns.from_content(content["records"], self.n_features_in_)
        waiting = content.get("pending", [])
        if waiting:
            layout = {"pending_rows": numbers("n", "d", low=-ANY, high=ANY)}
            rows = iter(checked(layout, arrays, {})["pending_rows"])
            for name, row in waiting:
                if type(name) not in (str, int) or not isinstance(row, dict | list | None):
                    raise ValueError("the rows that wait for their targets are damaged")
                # older versions wrote dictionaries, whose names had all become texts
                self._waiting[name] = np.array(next(rows)) if row is None else dict(row)
            if next(rows, None) is not None or len(self._waiting) != len(waiting):
                raise ValueError("the rows that wait for their targets do not fit")


def _checked_id(name: Any) -> str | int:
    """Return the name of a row that waits, or raise."""
    found = plain(name)
    if type(found) not in (str, int):
        raise TypeError(f"id must be a text or a whole number; it is {name!r}")
    return found  # type: ignore[no-any-return]
