"""Rows as JSON, and what a model says of them as JSON: the part of ``squeak serve`` that knows nothing of HTTP."""

from __future__ import annotations

import datetime
import json
import math
import warnings
from typing import Any

import numpy as np

from squeak._version import __version__
from squeak.core.advice import AdvisedError
from squeak.core.text import for_terminal
from squeak.data.columns import text_of
from squeak.data.preprocessing import missing_column
from squeak.learners.onnx_columns import input_columns

COVERAGE = 0.9
"""Of the intervals, where a request does not say."""

SHOWN = 40
"""Characters of a value that a message shows."""


def knows_errors(model: Any) -> bool:
    """Tell whether a model has intervals: a regression whose file holds how far off it is."""
    if hasattr(model, "classes_") or not hasattr(model, "predict_interval"):
        return False
    known = hasattr(model, "noise_") or type(model).__name__ == "AutoRegressor"
    return bool(getattr(model, "knows_errors_", known))


class RefusedError(Exception):
    """A request that cannot be answered: the status of the answer, and words for who asked."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


def parsed(body: bytes) -> Any:
    """Return what a body holds as JSON; NaN and infinities are not JSON."""
    try:
        return json.loads(body, parse_constant=_no_constant)
    except RecursionError:
        raise RefusedError(400, "the body is nested too deeply") from None
    except ValueError as error:
        raise RefusedError(400, f"the body is not JSON: {error}") from None


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number of JSON; write null for a gap")


class Answering:
    """A model that predicts, and the rows that it takes.

    ``model``: fitted. ``name``: of its file. ``most``: rows of a request at most.
    """

    def __init__(self, model: Any, name: str, most: int) -> None:
        self.model, self.name, self.most = model, name, most
        self.classes: Any = getattr(model, "classes_", None)
        self.columns = input_columns(model.preprocessing_, model.n_features_in_)
        self.named = self.columns[0]["kind"] != "numbers"
        if not self.named:  # an array, whose columns may have names all the same
            count = self.columns[0]["columns"]
            names = getattr(model, "feature_names_in_", [str(place) for place in range(count)])
            self.columns = [{"name": str(one), "kind": "number"} for one in names]
        self.columns = [{key: value for key, value in one.items() if key != "columns"} for one in self.columns]
        self.names = [one["name"] for one in self.columns]
        self.intervals = knows_errors(model)
        self.probabilities = self.classes is not None and hasattr(model, "predict_proba")

    def described(self) -> dict[str, Any]:
        """Return what the model is, which rows it takes, and what it answers."""
        made, typical = self.model.preprocessing_, {}
        if self.named and made.centre is not None:  # the middle of every column
            typical = {name: value for name, (value,) in made.decode(np.zeros((1, made.n_features))).items()}
        columns = [
            {key: value for key, value in {**one, "typical": typical.get(one["name"])}.items() if value is not None}
            for one in self.columns
        ]
        answers = ["predictions", *(["low", "high"] if self.intervals else [])]
        classes = {} if self.classes is None else {"classes": self.classes.tolist()}
        return {
            **{"model": type(self.model).__name__, "file": self.name, "squeak": __version__},
            **{"rows": "objects" if self.named else "lists", "columns": columns, **classes},
            **{"answers": [*answers, *(["probabilities"] if self.probabilities else [])], "most_rows": self.most},
        }

    def answer(self, asked: Any) -> dict[str, Any]:
        """Return the answer to a request: ``{"rows": [...], "coverage": 0.9}``."""
        if not isinstance(asked, dict) or not isinstance(asked.get("rows"), list):
            raise RefusedError(422, 'the body must be an object with a list of rows: {"rows": [...]}')
        rows, coverage = asked["rows"], asked.get("coverage", COVERAGE)
        if unknown := sorted(set(asked) - {"rows", "coverage"}):
            raise RefusedError(422, f"{_shown(unknown[0])} is not known here: a request has rows and coverage")
        if not rows:
            raise RefusedError(422, "there are no rows")
        if len(rows) > self.most:
            raise RefusedError(413, f"there are {len(rows):,} rows, and a request may have {self.most:,}")
        if coverage is not None and not (type(coverage) is float and 0.0 < coverage < 1.0):
            raise RefusedError(422, f"coverage must lie between 0 and 1, or be null; it is {_shown(coverage)}")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                found = self._predicted(self._table(rows), coverage)
            except AdvisedError as error:  # the fact alone: its advice is about parameters of Python
                fact = error.told(lambda advice: "")
                gap = ": this model takes no gaps, because it was fitted without filling them"
                raise RefusedError(422, fact + gap * fact.endswith(" is nan")) from None
            except (ValueError, TypeError) as error:
                raise RefusedError(422, " ".join(str(error).split())) from None
        words = [str(one.message) for one in said if "feature names" not in str(one.message)]
        return {**found, **({"warnings": words} if words else {})}

    def _predicted(self, X: Any, coverage: float | None) -> dict[str, Any]:
        found: dict[str, Any] = {"predictions": _listed(self.model.predict(X))}
        if self.probabilities:
            names = [text_of(one) for one in self.classes]
            chances = self.model.predict_proba(X).tolist()
            found["probabilities"] = [dict(zip(names, row, strict=True)) for row in chances]
        if self.intervals and coverage is not None:
            low, high = self.model.predict_interval(X, coverage)
            found |= {"low": _listed(low), "high": _listed(high), "coverage": coverage}
        return found

    def _table(self, rows: list[Any]) -> Any:
        """Return rows as the model takes them: a table of named columns, or an array."""
        by_name, names = isinstance(rows[0], dict), self.names
        if self.named and not by_name:
            raise RefusedError(
                422, f"a row is an object with the names of its columns: {{{_shown(names[0])}: ...}}"
            )
        for place, row in enumerate(rows):
            if by_name and not isinstance(row, dict):
                raise RefusedError(422, f"row {place} is not an object like the first")
            if not by_name and not (isinstance(row, list) and len(row) == len(names)):
                raise RefusedError(422, f"row {place} must be a list of {len(names)} numbers")
            if by_name and (lost := [name for name in names if name not in row]):
                raise RefusedError(422, f"row {place}: {missing_column(lost[0], row)}; write null for a gap")
        keys: list[Any] = names if by_name else list(range(len(names)))
        cells = {
            one["name"]: [_cell(row[key], one, place) for place, row in enumerate(rows)]
            for key, one in zip(keys, self.columns, strict=True)
        }
        if not self.named:
            return np.array(list(cells.values()), dtype=np.float64).T
        import pyarrow as pa

        types = {
            **{"number": pa.float64(), "category": pa.string(), "date": pa.timestamp("us")},
            **{"time": pa.time64("us"), "duration": pa.duration("us")},
        }
        arrays = [pa.array(cells[one["name"]], types[one["kind"]]) for one in self.columns]
        return pa.table(arrays, names=names)


def _cell(value: Any, column: dict[str, Any], place: int) -> Any:
    """Return a value as its column takes it, None for a gap."""
    kind = column["kind"]
    try:
        if value is None:
            return None
        if kind == "category" and not isinstance(value, list | dict):
            return text_of(value)
        if kind in ("number", "duration") and isinstance(value, int | float) and math.isfinite(float(value)):
            return float(value) if kind == "number" else datetime.timedelta(seconds=float(value))
        if kind == "time" and isinstance(value, str):
            return datetime.time.fromisoformat(value)
        if kind == "date" and isinstance(value, str):
            moment = datetime.datetime.fromisoformat(value)
            return moment.astimezone(datetime.UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except (ValueError, OverflowError):
        pass
    expected = {
        **{"number": "a number", "category": "text", "date": 'a date like "2024-01-31" or "2024-01-31T10:30:00"'},
        **{"time": 'a time of day like "10:30:00"', "duration": "a number of seconds"},
    }[kind]
    raise RefusedError(422, f"row {place}: the column {column['name']!r} takes {expected}, not {_shown(value)}")


def _shown(value: Any) -> str:
    text = for_terminal(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _listed(values: Any) -> list[Any]:
    """Return an array as lists; numbers that JSON does not have, such as ends of unbounded intervals, are null."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        values = np.where(np.isfinite(values), values, None)
    return list(values.tolist())
