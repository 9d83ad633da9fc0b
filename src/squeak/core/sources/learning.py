"""Learn a preprocessing from the first rows: kinds of columns, categories, fills and scales."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core.sources.columns import (
    Column,
    DateColumn,
    NumberColumn,
    canonical,
    category_codes,
    category_column,
    kind_of,
    text_of,
    texts,
)
from squeak.core.sources.pieces import Piece
from squeak.core.sources.preprocessing import Preprocessing, missing_column
from squeak.core.types import Array

SCALES = (None, "standard", "robust")
CATEGORIES = (None, "onehot", "codes")
FILLS = (None, "mean", "median")


@dataclass(frozen=True)
class Request:
    """What the user asked of the preprocessing, checked where that needs no data."""

    columns: tuple[Any, ...] | None = None
    drop: tuple[Any, ...] = ()
    scale: Any = None
    categories: Any = "onehot"
    missing: Any = None
    max_categories: int = 100
    learn_rows: int = 20_000

    def __post_init__(self) -> None:
        for value in _choices(self.scale):
            if not _is_pair(value) and not (isinstance(value, str | None) and value in SCALES):
                raise ValueError(f"scale must be 'standard', 'robust', None or (centre, scale); it is {value!r}")
            if _is_pair(value) and not (np.isfinite(value[0]) and 0 < value[1] < np.inf):
                raise ValueError(f"a given scale is (centre, scale) with a positive scale; it is {value!r}")
        for value in _choices(self.categories):
            listed = isinstance(value, list | tuple) and len(value) > 0
            if not listed and not (isinstance(value, str | None) and value in CATEGORIES):
                raise ValueError(f"categories must be 'onehot', 'codes', None or a list of values; it is {value!r}")
        for value in _choices(self.missing):
            if not (_is_number(value) and np.isfinite(value)) and not (
                isinstance(value, str | None) and value in FILLS
            ):
                raise ValueError(f"missing must be 'mean', 'median', a number or None; it is {value!r}")
        for name in ("max_categories", "learn_rows"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name} must be a whole number from 1 on; it is {value!r}")

    def named(self, translate: Callable[[Any], Any]) -> Request:
        """Return the request with every column's name put through ``translate``."""

        def keys(option: Any) -> Any:
            if not isinstance(option, Mapping):
                return option
            return {name if name == "*" else translate(name): value for name, value in option.items()}

        return replace(
            self,
            columns=None if self.columns is None else tuple(translate(name) for name in self.columns),
            drop=tuple(translate(name) for name in self.drop),
            scale=keys(self.scale),
            categories=keys(self.categories),
            missing=keys(self.missing),
        )

    def as_text(self) -> set[Any]:
        """Return the columns that are categories by name, whatever their values look like."""
        if not isinstance(self.categories, Mapping):
            return set()
        return {name for name, how in self.categories.items() if name != "*" and how is not None}

    @property
    def is_plain(self) -> bool:
        """Whether rows of an array may pass as they are."""
        return self.columns is None and not self.drop and self.scale is None and self.missing is None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _choices(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, Mapping) else [value]


def _is_pair(value: Any) -> bool:
    numbers = isinstance(value, list | tuple) and len(value) == 2
    return numbers and all(_is_number(part) for part in value)


def _choice(asked: Any, name: Any) -> Any:
    """Return what was asked for a column: its own entry, else the entry ``"*"``, else nothing."""
    return asked.get(name, asked.get("*")) if isinstance(asked, Mapping) else asked


def select(names: Sequence[Any], request: Request) -> list[Any]:
    """Return the columns to use, in order: those asked for, or all but the dropped ones."""
    known = set(names)
    asked = [*(request.columns or ()), *request.drop]
    for option in (request.scale, request.categories, request.missing):
        if isinstance(option, Mapping):
            asked += [name for name in option if name != "*"]
    for name in asked:
        if name not in known:
            raise ValueError(missing_column(str(name), names))
    left = set(request.drop)
    chosen = [name for name in (names if request.columns is None else request.columns) if name not in left]
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"column {next(name for name in chosen if chosen.count(name) > 1)!r} is asked for twice")
    if not chosen:
        raise ValueError("no column is left to make rows of")
    return chosen


def learn(
    pieces: list[Piece], names: Sequence[Any], positions: Sequence[int], request: Request, *, float32: bool
) -> Preprocessing | None:
    """Return the preprocessing learned from the first pieces; None where an array passes as it is.

    Parameters
    ----------
    names : sequence
        The columns to use, as the request knows them.
    positions : sequence of int
        Where they stand in an array.
    float32 : bool
        Whether all of them are float32 in every file.
    """
    first = pieces[0]
    if first.is_table:
        tables = [dict(zip(piece.data.column_names, piece.data.columns, strict=True)) for piece in pieces]
        columns = tuple(_column(name, [table[name] for table in tables], first, request) for name in names)
        numeric = all(isinstance(column, NumberColumn) for column in columns)
        plain = Preprocessing(columns, dtype="float32" if numeric and float32 else "float64")
    elif request.is_plain:
        return None
    else:
        if sp.issparse(first.data) and (request.scale is not None or request.missing is not None):
            raise ValueError(
                "sparse rows cannot be centred or filled without becoming dense; scale them beforehand"
            )
        numbers = tuple(NumberColumn(str(position)) for position in positions)
        dtype = "float32" if first.data.dtype == np.float32 else "float64"
        plain = Preprocessing(numbers, width=int(first.data.shape[1]), dtype=dtype)
    return _with_scales(plain, names, pieces, request)


def _column(name: str, columns: list[Any], where: Piece, request: Request) -> Column:
    """Decide a column's encoding from its type, where it first has values, and the first rows."""
    types = [column.type for column in columns]
    arrow_type = next((found for found in types if kind_of(found) != "empty"), types[0])
    kind = kind_of(arrow_type)
    how = _choice(request.categories, name)
    if kind == "other":
        raise ValueError(
            where.words(f"column {name!r} has type {arrow_type}, of which no number can be made; drop it")
        )
    if kind == "empty":
        raise ValueError(where.words(f"column {name!r} has no values at all in the first rows; drop it"))
    if name not in request.as_text():
        if kind in ("date", "time", "duration"):
            return DateColumn(name, kind)
        if kind == "number":
            return NumberColumn(name)
    if how is None:
        raise ValueError(
            where.words(
                f"column {name!r} is text; choose categories='onehot' or 'codes', or leave it out with drop="
            )
        )
    if isinstance(how, str):
        return category_column(name, how, _values(name, columns, where, request))
    values = tuple(str(text_of(value)) for value in how)
    if not any((category_codes(column, name, values)[0] < len(values)).any() for column in columns):
        raise ValueError(where.words(f"column {name!r} has none of the categories listed in the first rows"))
    return category_column(name, "onehot", values)


def _values(name: str, columns: list[Any], where: Piece, request: Request) -> tuple[str, ...]:
    """Return the different values of the first rows, each by its one text where all of them have one."""
    found: set[str] = set()
    for column in columns:
        found.update(value for value in texts(column).unique().to_pylist() if value is not None)
    if len(found) > request.max_categories:
        raise ValueError(
            where.words(
                f"column {name!r} has {len(found):,} different values in the first rows, more than max_categories="
                f"{request.max_categories}; drop it, list the values that matter, or raise max_categories"
            )
        )
    if not found:
        raise ValueError(where.words(f"column {name!r} has no values at all in the first rows; drop it"))
    spelled: dict[str, str] = {}
    for value in sorted(found):
        one = canonical(value)
        if one is None:
            return tuple(sorted(found))
        if one in spelled:
            warnings.warn(
                where.words(
                    f"column {name!r} holds {spelled[one]!r} and {value!r}, one value written in two ways; "
                    "as categories they are kept apart: write them alike to make them one"
                ),
                stacklevel=2,
            )
            return tuple(sorted(found))
        spelled[one] = value
    return tuple(sorted(spelled))


def _with_scales(
    plain: Preprocessing, names: Sequence[Any], pieces: list[Piece], request: Request
) -> Preprocessing:
    """Add fills and scales, learned from the pieces."""
    if request.scale is None and request.missing is None:
        return plain
    raw = np.vstack([plain.raw(piece) for piece in pieces]).astype(np.float64, copy=False)
    fill = np.full(plain.n_features, np.nan)
    centre, scale = np.zeros(plain.n_features), np.ones(plain.n_features)
    at = 0
    for name, column in zip(names, plain.columns, strict=True):
        span = slice(at, at + len(column.features))
        at = span.stop
        values = raw[:, span]
        how = _choice(request.missing, name)
        if how is not None:
            fill[span] = _fill(how, column, values, plain.label(column, pieces[0]), pieces[0])
        wanted = _choice(request.scale, name)
        if wanted is not None and isinstance(column, NumberColumn | DateColumn):
            finite = values[np.isfinite(values)]
            centre[span], scale[span] = _scale(wanted, finite, plain.label(column, pieces[0]), pieces[0], len(raw))
    return Preprocessing(
        plain.columns,
        plain.width,
        None if request.missing is None else fill,
        None if request.scale is None else centre,
        None if request.scale is None else scale,
        plain.dtype,
    )


def _fill(how: Any, column: Column, values: Array, label: str, where: Piece) -> Any:
    if not isinstance(column, NumberColumn | DateColumn):
        place = np.zeros(values.shape[1])  # a missing category goes to the place for others
        place[-1] = 1.0 if len(place) > 1 else len(getattr(column, "values", ()))
        return place
    if not isinstance(how, str):
        return float(how)
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        raise ValueError(where.words(f"{label} has no values in the first rows to fill missing ones with; drop it"))
    return finite.mean() if how == "mean" else np.median(finite)


def _deviation(values: Array) -> float:
    """Return the standard deviation, also of values whose squares are lost below or above float64."""
    apart = values - values.mean()
    largest = float(np.abs(apart).max())
    return largest * float(np.sqrt(np.square(apart / largest).mean())) if largest > 0 else 0.0


def _scale(wanted: Any, values: Array, label: str, where: Piece, n: int) -> tuple[float, float]:
    if not isinstance(wanted, str):
        return float(wanted[0]), float(wanted[1])
    if values.size == 0:
        raise ValueError(
            where.words(f"{label} has no values in the first {n:,} rows to learn a scale from; drop it")
        )
    if wanted == "standard":
        centre, scale = float(values.mean()), _deviation(values)
    else:
        low, centre, high = (float(value) for value in np.percentile(values, [25, 50, 75]))
        scale = high - low
    if not np.isfinite([centre, scale]).all():
        raise ValueError(where.words(f"{label} is too large to be scaled in float64"))
    if values.min() == values.max():
        raise ValueError(
            where.words(
                f"{label} is constant ({values[0]:g}) in the first {n:,} rows, so it has no scale: drop it; or, if "
                "the data is sorted by it, read it with shuffle=True, raise learn_rows, or give the column's scale"
            )
        )
    if scale <= 1e-12 * abs(centre):
        reason = "half its values are equal: use 'standard' for it" if wanted == "robust" else "it hardly varies"
        raise ValueError(where.words(f"{label} has no {wanted} scale, for {reason}"))
    return centre, scale
