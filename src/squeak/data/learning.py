"""Learn a preprocessing from the first rows: kinds of columns, categories, fills and scales."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core.advice import Advice, InputError
from squeak.core.checks import check_whole, is_number
from squeak.core.types import Array
from squeak.data.columns import DateColumn, NumberColumn, canonical, category_codes, kind_of, text_of, texts
from squeak.data.pieces import Piece
from squeak.data.preprocessing import Preprocessing, missing_column
from squeak.data.scaling import learn_scale
from squeak.data.target_columns import Column, TargetColumn, category_column, folds_of
from squeak.data.targets import targets_as_numbers

SCALES = (None, "standard", "robust")
A_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]|$)")
CATEGORIES = (None, "onehot", "codes", "target", "auto")
FILLS = (None, "mean", "median")

FEW = 20
"""``categories="auto"`` makes 0/1 numbers of categories with so many values, and mean targets of larger ones."""


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
            if not _is_pair(value) and not _is_word(value, SCALES):
                raise _refused("scale", "'standard', 'robust', None or (centre, scale)", value)
            if _is_pair(value) and not (np.isfinite(value[0]) and 0 < value[1] < np.inf):
                raise _refused("scale", "(centre, scale) with a positive scale, where it is given", value)
        for value in _choices(self.categories):
            listed = isinstance(value, list | tuple) and len(value) > 0
            if not listed and not _is_word(value, CATEGORIES):
                raise _refused("categories", "'onehot', 'codes', 'target', 'auto', None or a list of values", value)
        for value in _choices(self.missing):
            if not (is_number(value) and np.isfinite(value)) and not _is_word(value, FILLS):
                raise _refused("missing", "'mean', 'median', a number or None", value)
        check_whole("max_categories", self.max_categories)
        check_whole("learn_rows", self.learn_rows)

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


def _is_word(value: Any, words: tuple[str | None, ...]) -> bool:
    return isinstance(value, str | None) and value in words


def _refused(name: str, expected: str, value: Any) -> InputError:
    return InputError(Advice(f"{{name}} must be {expected}; it is {value!r}", name, value))


def _leave_out(name: Any) -> Advice:
    return Advice("leave it out with {}", "drop", [name], python="leave it out: squeak.rows(..., {})")


def _choices(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, Mapping) else [value]


def _is_pair(value: Any) -> bool:
    numbers = isinstance(value, list | tuple) and len(value) == 2
    return numbers and all(is_number(part) for part in value)


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

    ``names``: the columns to use, as the request knows them. ``positions``: where they stand in an array.
    ``float32``: whether all of them are float32 in every file.
    """
    first = pieces[0]
    if first.is_table:
        tables = [dict(zip(piece.data.column_names, piece.data.columns, strict=True)) for piece in pieces]
        as_text = request.as_text()
        columns = tuple(
            _column(name, [table[name] for table in tables], pieces, request, name in as_text) for name in names
        )
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


def _column(name: str, columns: list[Any], pieces: list[Piece], request: Request, as_text: bool) -> Column:
    """Decide a column's encoding from its type, where it first has values, and the first rows.

    ``as_text``: whether it holds categories whatever its values look like.
    """
    where = pieces[0]
    kinds = [(kind_of(column.type), column.type) for column in columns]
    kind, arrow_type = next((found for found in kinds if found[0] != "empty"), kinds[0])
    if kind == "number" and not as_text:
        return NumberColumn(name)
    if kind == "other":
        fact = f"column {name!r} has type {arrow_type}, of which no number can be made"
        raise InputError(where.words(fact), _leave_out(name))
    if kind == "empty":
        raise InputError(where.words(f"column {name!r} has no values at all in the first rows"), _leave_out(name))
    if kind in ("date", "time", "duration") and not as_text:
        return DateColumn(name, kind)
    how = _choice(request.categories, name)
    if how is None:
        ways = (Advice(words, "categories", way) for words, way in (("choose {}", "onehot"), ("{}", "codes")))
        raise InputError(where.words(f"column {name!r} is text"), *ways, _leave_out(name))
    if isinstance(how, str):
        found = _values(name, columns, where)
        if not as_text and len(found) > FEW and all(A_DATE.match(value) for value in found):
            warnings.warn(
                where.words(
                    f"column {name!r} holds dates as text, and is learned as {len(found):,} categories: make dates "
                    "of them first, by a cast in the query or by pandas.to_datetime"
                ),
                stacklevel=2,
            )
        if how == "auto":
            how = "target" if len(found) > FEW and where.target is not None else "onehot"
        if how == "target":
            return _target_column(name, found, columns, pieces)
        _check_few(name, found, where, request)
        return category_column(name, how, found)
    values = tuple(str(text_of(value)) for value in how)
    if not any((category_codes(column, name, values)[0] < len(values)).any() for column in columns):
        raise ValueError(where.words(f"column {name!r} has none of the categories listed in the first rows"))
    return category_column(name, "onehot", values)


def _target_column(name: str, values: tuple[str, ...], columns: list[Any], pieces: list[Piece]) -> Column:
    """Learn the mean target of every value from the first rows, fold by fold."""
    if pieces[0].target is None:
        raise InputError(
            pieces[0].words(f"column {name!r} cannot become its mean target, for the rows have none"),
            Advice("name one with {}", "target", "…"),
            Advice("choose {}", "categories", "onehot"),
        )
    Y, outputs = targets_as_numbers(pieces)
    coded = [category_codes(column, name, values) for column in columns]
    codes = np.concatenate([np.where(missing, -1, codes) for codes, missing in coded])
    numbers = np.concatenate([np.arange(piece.first, piece.first + piece.n) for piece in pieces])
    if not ((codes >= 0) & np.isfinite(Y).all(axis=1)).any():
        fact = f"column {name!r} has no value with a target in the first rows"
        raise InputError(pieces[0].words(fact), _leave_out(name))
    return TargetColumn.learn(name, values, outputs, codes, Y, folds_of(numbers))


def _check_few(name: str, found: Sequence[str], where: Piece, request: Request) -> None:
    if len(found) > request.max_categories:
        fact = f"column {name!r} has {len(found):,} different values in the first rows, more than {{}}"
        raise InputError(
            Advice(where.words(fact), "max_categories", request.max_categories),
            _leave_out(name),
            Advice("", "categories", python="list the values that matter"),
            Advice("choose {}", "categories", "target"),
            Advice("raise {name}", "max_categories"),
        )


def _values(name: str, columns: list[Any], where: Piece) -> tuple[str, ...]:
    """Return the different values of the first rows, each by its one text where all of them have one."""
    found: set[str] = set()
    for column in columns:
        found.update(value for value in texts(column).unique().to_pylist() if value is not None)
    if not found:
        raise InputError(where.words(f"column {name!r} has no values at all in the first rows"), _leave_out(name))
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
    raw = np.vstack([plain.raw(piece, own=True) for piece in pieces]).astype(np.float64, copy=False)
    fill = np.full(plain.n_features, np.nan)
    centre, scale, clip = np.zeros(plain.n_features), np.ones(plain.n_features), np.zeros(plain.n_features)
    for name, (column, span) in zip(names, plain.spans(), strict=True):
        values = raw[:, span]
        how = _choice(request.missing, name)
        if how is not None:
            fill[span] = _fill(how, column, values, pieces[0].words(plain.label(column, pieces[0])), name)
        wanted = _choice(request.scale, name)
        if wanted is None or not isinstance(column, NumberColumn | DateColumn | TargetColumn):
            continue
        for place in range(span.start, span.stop):
            finite = raw[np.isfinite(raw[:, place]), place]
            label = pieces[0].words(plain.label(column, pieces[0]))
            if isinstance(column, TargetColumn) and isinstance(wanted, str) and np.ptp(finite) == 0:
                centre[place] = finite[0]  # all targets are equal, which is no fault of the column
                continue
            learned = learn_scale(wanted, finite, label, _leave_out(name), len(raw))
            centre[place], scale[place], clip[place] = learned
    return Preprocessing(
        plain.columns,
        plain.width,
        None if request.missing is None else fill,
        None if request.scale is None else centre,
        None if request.scale is None else scale,
        plain.dtype,
        clip if clip.any() else None,
    )


def _fill(how: Any, column: Column, values: Array, label: str, name: Any) -> Any:
    if isinstance(column, TargetColumn):
        return column.prior
    if not isinstance(column, NumberColumn | DateColumn):
        place = np.zeros(values.shape[1])  # a missing category goes to the place for others
        place[-1] = 1.0 if len(place) > 1 else len(getattr(column, "values", ()))
        return place
    if not isinstance(how, str):
        return float(how)
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        raise InputError(f"{label} has no values in the first rows to fill missing ones with", _leave_out(name))
    return finite.mean() if how == "mean" else np.median(finite)
