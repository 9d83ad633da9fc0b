"""Dictionaries as rows of numbers: columns for features and for values of texts, also for those that come late."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from squeak.core.checks import is_missing
from squeak.core.state import ANY, checked, plain, whole
from squeak.core.types import Array

SPARE = 32
"""Columns for features and values that come up after the first row; a quarter of them is for numbers alone."""


class RecordColumns:
    """The columns that features have in rows of a fixed width; features that a row lacks are 0.

    A number has a column. A text has a column for each of its values, 1 where the row has that value; a missing
    number (None or NaN) has one that says so, and counts as the mean of those before it. Kernels see a column of
    zeros as no column at all, so what comes up late takes a spare one, as if it had been there, and 0, from the
    beginning. A value of a text for which no column is left is 0 in all of them, as the values that a row source
    does not know. The last ``kept`` columns that are left are for numbers alone, for a number cannot be left out.
    """

    def __init__(self, width: int, kept: int = 0) -> None:
        self.width, self.kept = width, kept
        self._places: dict[Any, int] = {}
        self._means: dict[Any, tuple[int, float]] = {}

    @classmethod
    def of(cls, x: dict[Any, Any], spare: int = SPARE) -> RecordColumns:
        """Return columns for a first row, with spare ones."""
        return cls(len(cls(0).numbers(x)) + spare, spare // 4)

    def numbers(self, x: dict[Any, Any]) -> dict[Any, float]:
        """Return the features as numbers, by the names of their columns."""
        found: dict[Any, float] = {}
        for name, value in x.items():
            if isinstance(value, str):
                found[Value(name, value)] = 1.0
                continue
            try:
                number = math.nan if is_missing(value) else float(value)
            except (TypeError, ValueError):
                raise TypeError(f"feature {name!r} is {value!r}, neither a number nor a text") from None
            if math.isnan(number):
                found[Value(name, None)] = 1.0
                number = self._means.get(name, (0, 0.0))[1]
            found[name] = number
        return found

    def places(self, numbers: dict[Any, float]) -> dict[Any, int]:
        """Return the column of every feature known or in ``numbers``; changes nothing."""
        new = sorted((name for name in numbers if name not in self._places), key=repr)  # whatever the order
        if not new:
            return self._places
        left = self.width - len(self._places)
        needed = [name for name in new if not isinstance(name, Value)]
        if len(needed) > left:
            words = f"feature {needed[-1]!r} is one too many: there are {self.width} columns for all of them"
            raise ValueError(f"{words}; let the first row name all features, with None for those that it lacks")
        values = [name for name in new if isinstance(name, Value)][: max(left - len(needed) - self.kept, 0)]
        return self._places | {name: len(self._places) + i for i, name in enumerate([*needed, *values])}

    def row(self, x: dict[Any, Any]) -> Array:
        """Return the features as a row."""
        numbers, row = self.numbers(x), np.zeros(self.width)
        places = self.places(numbers)
        for name, value in numbers.items():
            if name in places:
                row[places[name]] = value
        return row

    def keep(self, x: dict[Any, Any]) -> None:
        """Let the features of ``x`` have their columns from now on, and count its numbers."""
        numbers = self.numbers(x)
        self._places = self.places(numbers)
        for name, value in numbers.items():
            if not isinstance(name, Value) and not is_missing(x[name]):
                count, mean = self._means.get(name, (0, 0.0))
                self._means[name] = count + 1, mean + value / (count + 1) - mean / (count + 1)

    @staticmethod
    def storable(x: dict[Any, Any]) -> dict[Any, Any]:
        """Return a dictionary with plain values, and None for gaps."""
        return {name: None if is_missing(value) else plain(value) for name, value in x.items()}

    def to_content(self) -> dict[str, Any]:
        """Return the state as JSON data."""
        names = [[name.feature, True, name.value] if isinstance(name, Value) else [name] for name in self._places]
        check_names(name[0] for name in names)
        means = [[name, *found] for name, found in self._means.items()]
        return {"width": self.width, "kept": self.kept, "names": names, "means": means}

    @classmethod
    def from_content(cls, content: Any, width: int) -> RecordColumns:
        """Return the columns that :meth:`to_content` described, or raise what does not fit."""
        kept = checked({"kept": whole(high=width, optional=True)}, {}, content)["kept"]  # older files have none
        found = cls(width, kept or 0)
        names, means = content["names"], content["means"]
        if content["width"] != width or not isinstance(names, list) or len(names) > width:
            raise ValueError("the columns of its features do not fit")
        for name in names:
            known = isinstance(name, list) and len(name) in (1, 3) and type(name[0]) in (str, int)
            if not known or (len(name) == 3 and not (name[1] is True and type(name[2]) in (str, type(None)))):
                raise ValueError("the columns of its features are damaged")
            found._places[Value(name[0], name[2]) if len(name) == 3 else name[0]] = len(found._places)
        for name, count, mean in means:
            known = type(name) in (str, int) and type(count) is int and type(mean) is float
            if not known or count < 1 or not abs(mean) <= ANY:
                raise ValueError("the means of its features are damaged")
            found._means[name] = count, mean
        return found

    def copy(self) -> RecordColumns:
        """Return columns of their own in the same state."""
        other = RecordColumns(self.width, self.kept)
        other._places, other._means = dict(self._places), dict(self._means)
        return other


def check_names(names: Iterable[Any]) -> None:
    """Raise an error for the name of a feature that a file cannot hold."""
    if not all(type(name) in (str, int) for name in names):
        raise TypeError("only features whose names are text or whole numbers can be saved")


@dataclass(frozen=True)
class Value:
    """The name of a column that says which value a feature has; None: that it has none."""

    feature: Any
    value: str | None
