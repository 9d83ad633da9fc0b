"""The state of what learns, by tables: one walker takes it apart for a file and puts it back."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from squeak.core.cholesky import GrowingCholesky
from squeak.core.saved import Given, Layout, Parts, put_together, take_apart
from squeak.core.state import checked, numbers
from squeak.core.types import Array

Columns = list[tuple[int, float] | None]
"""Where outputs come from when classes join: an earlier output and its sign, or None for a new one."""


def rearranged(values: Array, columns: Columns) -> Array:
    """Return targets, shape (n, outputs), with other outputs; of a new class, no row has been."""
    new = np.full(len(values), -1.0)
    return np.column_stack([new if came is None else came[1] * values[:, came[0]] for came in columns])


class Stored:
    """What a file holds of a learner: its table, and those of the parts within it.

    A learner is made from the parameters of its estimator, and takes its state from the file after that.
    ``_inner`` names the list of its parts that have tables of their own, such as a head for every output, and what
    the names of their arrays begin with.
    """

    _state: ClassVar[Layout] = {}
    _inner: ClassVar[tuple[str, str]] = ("", "")

    def to_parts(self, prefix: str = "") -> Parts:
        """Return the arrays, their names beginning with ``prefix``, and the rest as JSON data."""
        arrays, content = take_apart(self._source(), self._state, prefix)
        name, start = self._inner
        if name:
            content[name] = []
            for i, part in enumerate(getattr(self, name)):
                some, described = part.to_parts(prefix + start.format(i))
                arrays |= some
                content[name].append(described)
        return arrays, content

    def set_parts(self, arrays: dict[str, Any], content: dict[str, Any], prefix: str = "", **sizes: int) -> None:
        """Take over the state that :meth:`to_parts` took apart, or raise what does not fit."""
        found = put_together(self._state, arrays, content, None, prefix, **(self._sizes() | sizes))
        self._take(
            {path: value.copy() if isinstance(value, np.ndarray) else value for path, value in found.items()}
        )
        name, start = self._inner
        if name:
            owned, described = getattr(self, name), content[name]
            if not isinstance(described, list) or len(described) != len(owned):
                raise ValueError("the learner's outputs do not fit")
            for i, part in enumerate(owned):
                part.set_parts(arrays, described[i], prefix + start.format(i), **(sizes | self._inner_sizes()))

    def _source(self) -> Any:
        """Return what has the attributes of the table."""
        return self

    def _sizes(self) -> dict[str, int]:
        """Return the lengths that are known before the file is read."""
        return {}

    def _inner_sizes(self) -> dict[str, int]:
        """Return the lengths that the parts within must have."""
        return {}

    def _take(self, found: dict[str, Any]) -> None:
        """Set the attributes of the table, or raise what does not fit."""
        for path, value in found.items():
            owner, _, name = path.rpartition(".")
            setattr(attrgetter(owner)(self) if owner else self, name, value)


@dataclass(frozen=True)
class FactorPiece:
    """A growing Cholesky factor, by its inverse.

    ``size``: the name by which shapes refer to its length.
    """

    size: str
    optional: bool = False

    def take(self, name: str, value: Any) -> Parts:
        """Return the factor as an array."""
        return ({} if value is None else {name: value.inverse}), {}

    def give(self, name: str, given: Given) -> Any:
        """Return the factor."""
        array = checked({name: numbers("m", "m", optional=self.optional)}, given.arrays, {})[name]
        return None if array is None else GrowingCholesky(array.copy())


def checked_history(history: Any, n_seen: int, width: int) -> list[dict[str, Any]]:
    """Return the record of a file, or raise where it is none."""
    if not isinstance(history, list):
        raise ValueError("its record of restarts is damaged")
    for entry in history:
        moved = isinstance(entry, dict) and entry.keys() - {"relevance"} == {"rows", "columns"}
        drift = isinstance(entry, dict) and entry.keys() - {"stayed"} == {"rows", "after", "losses"}
        told = entry["columns" if moved else "losses"] if moved or drift else None
        if not isinstance(told, list) or type(entry["rows"]) is not int or not 0 < entry["rows"] <= n_seen:
            raise ValueError("its record of restarts is damaged")
        kind, high = (int, width - 1) if moved else (float, 1.0)
        known = all(type(one) is kind and 0 <= one <= high for one in told)
        known = known and type(entry.get("stayed", True)) is bool
        if not known or (drift and (len(told) != 2 or type(entry["after"]) is not int or entry["after"] < 1)):
            raise ValueError("its record of restarts is damaged")
        parts = entry.get("relevance", [0.0] * width)
        if not isinstance(parts, list) or len(parts) != width or not all(isinstance(one, float) for one in parts):
            raise ValueError("its record of restarts is damaged")
    return history
