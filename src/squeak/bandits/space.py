"""Boxes with real, whole-number and categorical sides, as points of the unit cube."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from squeak.core.checks import as_float, is_number
from squeak.core.types import Array, BoolArray, IntArray


class Side:
    """One side of a box: values on one hand, columns of the unit cube on the other."""

    _encode: Any
    _decode: Any
    _snap: Any
    _spread: Any
    """What a kind of side gives, for the four methods below."""

    def encode(self, value: Any) -> list[float]:
        """Return the place of a value in the cube.

        Parameters
        ----------
        value : number, or one of the values of a category

        Returns
        -------
        list of float
            One for each column; of a category √½ in the value's column and 0 in the others.
        """
        place: list[float] = self._encode(value)
        return place

    def decode(self, place: Any) -> Any:
        """Return the value at a place, the nearest where not every place stands for one.

        Parameters
        ----------
        place : sequence of float

        Returns
        -------
        float, int, or one of the values of a category
        """
        return self._decode(place)

    def snap(self, columns: Array) -> Array:
        """Return columns of the cube moved to the nearest places that stand for a value.

        Parameters
        ----------
        columns : array of shape (n, width)

        Returns
        -------
        array of shape (n, width)
        """
        return np.asarray(self._snap(columns))

    def spread(self, columns: Array) -> Array:
        """Return the places that stand for numbers from 0 to 1, so that even numbers make even values.

        Each value of a category, and each whole number, takes an equal part of the interval, the first and the
        last one too. With ``log`` the part of a whole number is as wide as that of the logarithms rounded to it.

        Parameters
        ----------
        columns : array of shape (n, 1)

        Returns
        -------
        array of shape (n, width)
        """
        return np.asarray(self._spread(columns))


@dataclass(frozen=True)
class Real(Side):
    """A real number from low to high; ``log``: what counts is its logarithm.

    Examples
    --------
    >>> from squeak.bandits import Real
    >>> round(Real(1e-4, 1.0, log=True).decode([0.5]), 6)
    0.01
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        _check_ends(self.low, self.high, self.log)

    @property
    def width(self) -> int:
        """Columns of the unit cube that it takes."""
        return 1

    def _inner(self, value: Any) -> Any:
        return np.log(np.asarray(value, dtype=np.float64)) if self.log else value

    def _encode(self, value: Any) -> list[float]:
        number = float(value)
        if not self.low <= number <= self.high:
            raise ValueError(f"{value!r} lies outside [{self.low}, {self.high}]")
        low, high = self._inner(self.low), self._inner(self.high)
        return [float((self._inner(number) - low) / (high - low))]

    def _decode(self, place: Any) -> Any:
        low, high = self._inner(self.low), self._inner(self.high)
        value = low + min(max(float(place[0]), 0.0), 1.0) * (high - low)
        return min(max(float(np.exp(value)) if self.log else float(value), self.low), self.high)

    def _snap(self, columns: Array) -> Array:
        return np.clip(columns, 0.0, 1.0)

    def _spread(self, columns: Array) -> Array:
        return self._snap(columns)


@dataclass(frozen=True)
class Integer(Real):
    """A whole number from low to high, both included; ``log``: what counts is its logarithm.

    Points that are spread over a box try all of them equally often. With ``log`` the share of k is proportional
    to log((k + ½)/(k − ½)), which is the width of what is rounded to k, as in Optuna.

    Examples
    --------
    >>> from squeak.bandits import Integer
    >>> Integer(1, 5).decode([0.49])
    3
    """

    def __post_init__(self) -> None:
        _check_ends(self.low, self.high, self.log)
        if self.low != int(self.low) or self.high != int(self.high):
            raise ValueError(f"the ends of a whole number must be whole; they are {self.low} and {self.high}")

    def _encode(self, value: Any) -> list[float]:
        if np.isfinite(float(value)) and float(value) != int(value):
            raise ValueError(f"{value!r} is no whole number")
        return super()._encode(value)

    def _decode(self, place: Any) -> Any:
        return int(min(max(round(super()._decode(place)), self.low), self.high))

    def _snap(self, columns: Array) -> Array:
        return self._rounded(columns, 0.0)

    def _spread(self, columns: Array) -> Array:
        return self._rounded(columns, 0.5)

    def _rounded(self, parts: Array, beyond: float) -> Array:
        """Return the places of the whole numbers nearest to these parts of the side, made longer at both ends."""
        first, last = float(self._inner(self.low - beyond)), float(self._inner(self.high + beyond))
        inner = first + np.clip(parts, 0.0, 1.0) * (last - first)
        whole = np.clip(np.rint(np.exp(inner) if self.log else inner), float(self.low), float(self.high))
        low, high = float(self._inner(self.low)), float(self._inner(self.high))
        return np.asarray((self._inner(whole) - low) / (high - low))


@dataclass(frozen=True)
class Categorical(Side):
    """One of some values without an order; two different ones lie at distance 1.

    Examples
    --------
    >>> from squeak.bandits import Categorical
    >>> Categorical(["relu", "tanh"]).decode([0.1, 0.6])
    'tanh'
    """

    choices: Sequence[Any]

    def __post_init__(self) -> None:
        if isinstance(self.choices, str) or len(self.choices) < 1:
            raise ValueError(f"a category needs a list of values; it has {self.choices!r}")
        if not _all_different(self.choices):
            raise ValueError(f"a category's values must differ: {list(self.choices)[:20]!r}")

    @property
    def width(self) -> int:
        """Columns of the unit cube that it takes: one for each value."""
        return len(self.choices)

    def _encode(self, value: Any) -> list[float]:
        for i, choice in enumerate(self.choices):
            if choice is value or choice == value:
                return [math.sqrt(0.5) if j == i else 0.0 for j in range(self.width)]
        raise ValueError(f"{value!r} is none of {list(self.choices)!r}")

    def _decode(self, place: Any) -> Any:
        return self.choices[int(np.argmax(place))]

    def _snap(self, columns: Array) -> Array:
        out = np.zeros_like(columns)
        out[np.arange(len(columns)), np.argmax(columns, axis=1)] = math.sqrt(0.5)
        return out

    def _spread(self, columns: Array) -> Array:
        value = np.minimum((columns * self.width).astype(np.int64), self.width - 1)
        return np.asarray(math.sqrt(0.5) * (value == np.arange(self.width)))


def _all_different(values: Sequence[Any]) -> bool:
    """Tell whether no two values are equal; in time that grows with their number, where they can be hashed."""
    try:
        return len(set(values)) == len(values)
    except TypeError:
        return not any(a is b or a == b for i, a in enumerate(values) for b in values[:i])


def _check_ends(low: float, high: float, log: bool) -> None:
    if not (np.isfinite([as_float(low), as_float(high)]).all() and low < high):
        raise ValueError(f"bounds must be finite and low < high; they are {low!r} and {high!r}")
    if log and low <= 0:
        raise ValueError(f"a logarithmic side must begin above 0; it begins at {low!r}")


class Space:
    """A product of sides; rows of the unit cube on one side, lists of values on the other.

    Parameters
    ----------
    bounds : sequence
        For each side a pair (low, high), a list of values, or a :class:`Real`, :class:`Integer` or
        :class:`Categorical`.
    conditions : mapping, optional
        ``{side: (parent, values)}``: a side, by its number, is there only where the categorical side ``parent`` has
        one of these values. A point has None where a side is not there. With a mapping, even an empty one, None
        may stand in any point.

    Examples
    --------
    >>> from squeak.bandits.space import Integer, Space
    >>> space = Space([(-1.0, 1.0), Integer(1, 3), ["a", "b"]])
    >>> space.decode(space.encode([0.5, 2, "b"]))
    [0.5, 2, 'b']
    >>> space = Space([["tree", "line"], Integer(1, 9)], {1: (0, ["tree"])})
    >>> space.decode(space.encode(["line", None]))
    ['line', None]
    """

    def __init__(self, bounds: Any, conditions: Mapping[int, tuple[int, Any]] | None = None) -> None:
        if isinstance(bounds, str) or not isinstance(bounds, Sequence | np.ndarray) or len(bounds) == 0:
            raise TypeError("bounds must be a list with a pair (low, high) or a list of values for each side")
        self.sides = [_side(side, i) for i, side in enumerate(bounds)]
        ends = np.cumsum([side.width for side in self.sides])
        self._parts = [slice(int(e) - s.width, int(e)) for s, e in zip(self.sides, ends, strict=True)]
        self.width = int(ends[-1])
        self.is_real = conditions is None and all(type(side) is Real for side in self.sides)
        self.has_gaps = conditions is not None
        self._conditions = _conditions(self.sides, conditions or {})

    def encode(self, point: Any) -> Array:
        """Return a point's row of the unit cube."""
        if isinstance(point, str) or len(point) != len(self.sides):
            raise ValueError(f"a point has {len(self.sides)} values; this is {point!r}")
        places = [self._place(side, value) for side, value in zip(self.sides, point, strict=True)]
        return self._without(np.array([[c for place in places for c in place]])).reshape(-1)

    def _place(self, side: Any, value: Any) -> list[float]:
        """Return the columns of a value: of one that is not there the middle, or no value of the category."""
        if value is None and self.has_gaps and not (isinstance(side, Categorical) and None in side.choices):
            return _nowhere(side)
        place: list[float] = side.encode(value)
        return place

    def _without(self, rows: Array) -> Array:
        """Put sides that are not there to their place; the rows are changed."""
        for child, there in self._there(rows):
            rows[~there, self._parts[child]] = _nowhere(self.sides[child])
        return rows

    def _there(self, rows: Array) -> Iterator[tuple[int, BoolArray]]:
        """Yield each side with a condition, parents first, and in which rows it is there."""
        for child, parent, allowed in self._conditions:
            yield child, np.asarray(((rows[:, self._parts[parent]] > 0) & allowed).any(axis=1))

    def decode(self, row: Array) -> Any:
        """Return the point of a row: an array where every side is real, else a list."""
        values = [side.decode(row[part]) for side, part in zip(self.sides, self._parts, strict=True)]
        for child, there in self._there(row[None, :]):
            values[child] = values[child] if there[0] else None
        return np.array(values) if self.is_real else values

    @property
    def conditions(self) -> list[list[Any]] | None:
        """Each side that is there only sometimes, its parent, and the numbers of the parent's values it needs."""
        found = [[child, parent, np.flatnonzero(allowed).tolist()] for child, parent, allowed in self._conditions]
        return sorted(found) if self.has_gaps else None

    @property
    def side_of_column(self) -> IntArray:
        """The number of the side that each column of the cube belongs to."""
        return np.repeat(np.arange(len(self.sides)), [side.width for side in self.sides])

    @property
    def categories(self) -> list[slice]:
        """The columns of each categorical side with at least two values."""
        sides = zip(self.sides, self._parts, strict=True)
        return [part for side, part in sides if isinstance(side, Categorical) and side.width > 1]

    def spread(self, units: Array) -> Array:
        """Return the rows that stand for points of the unit cube with one column for each side.

        Points that are spread evenly over the cube are spread evenly over the values, as each side has it.
        """
        if self.is_real:
            return self.snap(units)
        rows = [side.spread(units[:, [i]]) for i, side in enumerate(self.sides)]
        return self._without(np.hstack(rows))

    def jumped(self, rows: Array, chance: float, rng: np.random.Generator) -> Array:
        """Return the rows, each categorical side of each row moved to a random value with this chance."""
        rows = rows.copy()
        for part in self.categories:
            moves = np.flatnonzero(rng.random(len(rows)) < chance)
            rows[moves, part] = 0.0
            rows[moves, part.start + rng.integers(0, part.stop - part.start, len(moves))] = 1.0
        return rows

    def snap(self, rows: Array) -> Array:
        """Return rows of the cube moved to the nearest rows that stand for a point."""
        if self.is_real:
            return np.clip(rows, 0.0, 1.0)
        snapped = [side.snap(rows[:, part]) for side, part in zip(self.sides, self._parts, strict=True)]
        return self._without(np.hstack(snapped))


def _nowhere(side: Any) -> list[float]:
    """Return the columns of a side that is not there: the same for all points, so that they do not differ by it."""
    return [0.0] * side.width if isinstance(side, Categorical) else [0.5]


def _conditions(sides: list[Any], given: Mapping[int, tuple[int, Any]]) -> list[tuple[int, int, BoolArray]]:
    """Return child, parent, and which of the parent's values the child needs; parents come first."""
    left, known = dict(given), []
    while left:
        free = [child for child, (parent, _) in left.items() if parent not in left]
        if not free:
            raise ValueError(f"conditions go in a circle: {sorted(left)}")
        for child in free:
            parent, values = left.pop(child)
            numbers = (child, parent)
            if not all(isinstance(i, int) and 0 <= i < len(sides) for i in numbers):
                raise ValueError(
                    f"conditions name sides by their numbers, 0 to {len(sides) - 1}; these are {numbers}"
                )
            if not isinstance(sides[parent], Categorical):
                raise ValueError(f"side {child} depends on side {parent}, which must be a category and is none")
            wanted = {int(np.argmax(sides[parent].encode(value))) for value in values}
            known.append((child, parent, np.array([i in wanted for i in range(sides[parent].width)])))
    return known


def _side(side: Any, number: int) -> Any:
    if isinstance(side, Real | Categorical):
        return side
    try:
        if isinstance(side, tuple | list | np.ndarray) and len(side) == 2 and all(map(is_number, side)):
            return Real(float(side[0]), float(side[1]))
        if isinstance(side, list | tuple):
            return Categorical(list(side))
    except ValueError as error:
        raise ValueError(f"side {number}: {error}") from None
    raise TypeError(f"side {number} must be a pair (low, high) or a list of values; it is {side!r}")
