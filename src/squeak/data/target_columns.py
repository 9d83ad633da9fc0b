"""A category as the mean target of its rows: learned in folds, so that no row of a fit sees its own target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from squeak.core.types import Array, IntArray
from squeak.data.columns import CodeColumn, DateColumn, NumberColumn, OneHotColumn, category_codes

FOLDS = 5
"""Into how many folds the rows of a fit fall; the statistics of a row leave out those of its own fold."""

PRIOR = 10.0
"""How many rows of the overall mean every category is given."""

LARGEST_SUM = 1e150
"""No sum of targets in a file is larger."""


def folds_of(numbers: IntArray) -> IntArray:
    """Return the fold of each row by its number: the same for a row however often and in what blocks it is read.

    The numbers are mixed (by the finaliser of SplitMix64), so that a table in which categories come in turns does
    not put all rows of one of them into one fold.

    ``numbers``: the rows' numbers in their file or table.

    Source: Steele, Lea, Flood (2014): "Fast splittable pseudorandom number generators", OOPSLA.
    """
    mixed = (np.asarray(numbers).astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(FOLDS)).astype(np.int64)


@dataclass(frozen=True)
class TargetColumn:
    """A category becomes the mean target of its rows, drawn towards the mean of all: (Σy + a·ȳ)/(n + a), a = 10.

    Σy, n and ȳ are over the first rows of the data. For a row of a fit they leave out the fold of the row, so that
    it does not see its own target; for any other row they are over all folds. A value that was not there has n = 0.
    For classes there is one number for each class, the share of its rows; for two, one number, for the second.

    Parameters
    ----------
    name : str
    values : tuple of str, length v
    outputs : tuple of str, length k
        The names of the classes or outputs; one empty name where there is one number.
    counts : tuple of int, length folds·v
        How many rows each value has in each fold.
    sums : tuple of float, length folds·v·k
        The sums of their targets.

    References
    ----------
    Micci-Barreca (2001): "A preprocessing scheme for high-cardinality categorical attributes in classification and
    prediction problems", SIGKDD Explorations 3(1), for the formula. Prokhorenkova, Gusev, Vorobev, Dorogush, Gulin
    (2018): "CatBoost: unbiased boosting with categorical features", NeurIPS, section 3, for why a row must not see
    its own target. They order the rows; here they fall into folds, so that no row has less to go by than others.

    Examples
    --------
    >>> import pandas as pd, squeak
    >>> frame = pd.DataFrame({"zip": ["1050", "59000"] * 100, "late": [4.0, 10.0] * 100})
    >>> source = squeak.rows(frame, target="late", categories="target")
    >>> source.preprocessing.encode(pd.DataFrame({"zip": ["1050", "59000", "75001"]})).round(3).ravel().tolist()
    [4.273, 9.727, 7.0]
    """

    code: ClassVar[str] = "target"
    name: str
    values: tuple[str, ...]
    outputs: tuple[str, ...]
    counts: tuple[int, ...]
    sums: tuple[float, ...]

    def __post_init__(self) -> None:
        cells = FOLDS * len(self.values)
        whole = len(self.counts) == cells and all(0 <= count < 2**53 for count in self.counts)
        if not whole or not self.outputs or not any(self.counts) or len(self.sums) != cells * len(self.outputs):
            raise ValueError(f"the statistics of column {self.name!r} do not fit its values")
        if not all(-LARGEST_SUM <= total <= LARGEST_SUM for total in self.sums):
            raise ValueError(f"the statistics of column {self.name!r} are too large, or not finite")

    @classmethod
    def learn(
        cls,
        name: str,
        values: tuple[str, ...],
        outputs: tuple[str, ...],
        codes: IntArray,
        Y: Array,
        folds: IntArray,
    ) -> TargetColumn:
        """Return the encoding learned from rows.

        ``name``, ``values``, ``outputs``: as the class has them. ``codes``: each row's place among the values;
        negative, or beyond them, for rows to leave out. ``Y``: the targets; NaN for rows to leave out.
        """
        known = (codes >= 0) & (codes < len(values)) & np.isfinite(Y).all(axis=1)
        cells, length = folds[known] * len(values) + codes[known], FOLDS * len(values)
        counts = np.bincount(cells, minlength=length)
        sums = np.column_stack([np.bincount(cells, column, minlength=length) for column in Y[known].T])
        return cls(name, values, outputs, tuple(counts.tolist()), tuple(sums.ravel().tolist()))

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the numbers this column becomes."""
        return tuple(f"{self.name}: {output}" if output else self.name for output in self.outputs)

    @cached_property
    def statistics(self) -> Array:
        """The numbers of each value without each fold, then with all; shape (folds + 1, values + 1, outputs)."""
        counts = np.array(self.counts, dtype=np.float64).reshape(FOLDS, -1, 1)
        sums = np.array(self.sums).reshape(FOLDS, len(self.values), -1)
        found = np.empty((FOLDS + 1, len(self.values) + 1, len(self.outputs)))
        mean = sums.sum(axis=(0, 1)) / counts.sum()
        for fold in range(FOLDS + 1):  # added up anew: what is taken away again leaves its rounding
            kept = np.arange(FOLDS) != fold
            n, total = counts[kept].sum(axis=0), sums[kept].sum(axis=0)
            middle = total.sum(axis=0) / n.sum() if n.any() else mean
            found[fold] = np.vstack([(total + PRIOR * middle) / (n + PRIOR), middle])
        return found

    @property
    def prior(self) -> Array:
        """The numbers of a value that is not known: the overall mean; shape (outputs,)."""
        return np.asarray(self.statistics[FOLDS, -1])

    def encode(self, column: Any, out: Array, folds: IntArray | None = None) -> None:
        """Write an Arrow column into ``out`` of shape (n, outputs), NaN where missing.

        ``folds``: the folds to leave out, for rows of a fit.
        """
        codes, missing = category_codes(column, self.name, self.values)
        out[:] = self.statistics[FOLDS if folds is None else folds, codes]
        out[missing] = np.nan

    def decode(self, features: Array) -> list[Any]:
        """Return for each row the value whose numbers are nearest: several values may have nearly the same."""
        known = self.statistics[FOLDS, :-1]
        return [self.values[int(np.argmin(np.square(known - row).sum(axis=1)))] for row in features]

    def to_data(self) -> dict[str, Any]:
        """Return what is saved beside the name and the values, as JSON data."""
        return {"outputs": list(self.outputs), "counts": list(self.counts), "sums": list(self.sums)}

    @classmethod
    def from_data(cls, name: str, values: Sequence[str], data: dict[str, Any]) -> TargetColumn:
        """Return the encoding of :meth:`to_data`; anything unexpected is a ValueError."""
        for part, kind in (("outputs", str), ("counts", int), ("sums", float)):
            given = data.get(part)
            if not isinstance(given, list) or not all(type(value) is kind for value in given):
                raise ValueError(f"the {part} of column {name!r} are damaged")
        return cls(name, tuple(values), tuple(data["outputs"]), tuple(data["counts"]), tuple(data["sums"]))


Column = NumberColumn | DateColumn | OneHotColumn | CodeColumn | TargetColumn


def category_column(name: str, how: str, values: tuple[str, ...]) -> Column:
    """Return the encoding of a category: as 0/1 numbers (``"onehot"``) or as codes."""
    return OneHotColumn(name, values) if how == "onehot" else CodeColumn(name, values)


def column_to_data(column: Column) -> dict[str, Any]:
    """Return a column's encoding as JSON data."""
    data: dict[str, Any] = {"code": column.code, "name": column.name}
    if isinstance(column, DateColumn):
        data["kind"] = column.kind
    elif not isinstance(column, NumberColumn):
        data["values"] = list(column.values)
    return data | column.to_data() if isinstance(column, TargetColumn) else data


def column_from_data(data: Any) -> Column:
    """Return the encoding that :func:`column_to_data` described; anything unexpected is a ValueError."""
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        raise ValueError("the description of a column is damaged")
    code, name = data.get("code"), data["name"]
    if code == NumberColumn.code:
        return NumberColumn(name)
    if code == DateColumn.code and data.get("kind") in ("date", "time", "duration"):
        return DateColumn(name, data["kind"])
    values = data.get("values")
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"the description of column {name!r} is damaged")
    if code == OneHotColumn.code:
        return OneHotColumn(name, tuple(values))
    if code == CodeColumn.code:
        return CodeColumn(name, tuple(values))
    if code == TargetColumn.code:
        return TargetColumn.from_data(name, values, data)
    raise ValueError(f"no column encoding is known by the name {code!r}")
