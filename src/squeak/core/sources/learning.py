"""Learn a preprocessing from the first rows: kinds of columns, categories, fills and scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core.sources.columns import Column, DateColumn, NumberColumn, category_column, kind_of, texts
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
            number = isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)
            if not number and not (isinstance(value, str | None) and value in FILLS):
                raise ValueError(f"missing must be 'mean', 'median', a number or None; it is {value!r}")
        for name in ("max_categories", "learn_rows"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number from 1 on; it is {value!r}")

    @property
    def is_plain(self) -> bool:
        """Whether rows of an array may pass as they are."""
        return self.columns is None and not self.drop and self.scale is None and self.missing is None


def _choices(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, Mapping) else [value]


def _is_pair(value: Any) -> bool:
    numbers = isinstance(value, list | tuple) and len(value) == 2
    return numbers and all(isinstance(part, int | float | np.number) for part in value)


def _choice(asked: Any, name: Any) -> Any:
    """Return what was asked for a column: its own entry, else the entry ``"*"``, else nothing."""
    return asked.get(name, asked.get("*")) if isinstance(asked, Mapping) else asked


def select(names: Sequence[Any], request: Request, target: Any) -> list[Any]:
    """Return the columns to use, in order: those asked for, or all but the target and the dropped ones."""
    known = set(names)
    asked = [*(request.columns or ()), *request.drop, *([] if target is None else [target])]
    for option in (request.scale, request.categories, request.missing):
        if isinstance(option, Mapping):
            asked += [name for name in option if name != "*"]
    for name in asked:
        if name not in known:
            raise ValueError(missing_column(str(name), names))
    out = {target, *request.drop}
    chosen = [name for name in (names if request.columns is None else request.columns) if name not in out]
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"column {next(name for name in chosen if chosen.count(name) > 1)!r} is asked for twice")
    if not chosen:
        raise ValueError("no column is left to make rows of")
    return chosen


def learn(pieces: list[Piece], names: Sequence[Any], request: Request) -> Preprocessing | None:
    """Return the preprocessing learned from the first pieces; None where an array passes as it is."""
    first = pieces[0]
    if not first.is_table:
        if request.is_plain:
            return None
        if sp.issparse(first.data) and (request.scale is not None or request.missing is not None):
            raise ValueError(
                "sparse rows cannot be centred or filled without becoming dense; scale them beforehand"
            )
        columns = [NumberColumn(str(name)) for name in names]
        plain = Preprocessing(tuple(columns), width=int(first.data.shape[1]), dtype=_float_type(first.data.dtype))
    else:
        columns_of_table = tuple(_column(name, pieces, request) for name in names)
        plain = Preprocessing(columns_of_table, dtype=_table_type(first.data, names))
    return _with_scales(plain, names, pieces, request)


def _float_type(dtype: Any) -> str:
    return "float32" if dtype == np.float32 else "float64"


def _table_type(table: Any, names: Sequence[str]) -> str:
    types = [str(table.schema.field(name).type) for name in names]
    return "float32" if all(kind in ("float", "halffloat") for kind in types) else "float64"


def _column(name: str, pieces: list[Piece], request: Request) -> Column:
    """Decide a column's encoding from its type and the first rows."""
    arrow_type = pieces[0].data.schema.field(name).type
    kind = kind_of(arrow_type)
    how = _choice(request.categories, name)
    chosen = isinstance(request.categories, Mapping) and name in request.categories and how is not None
    where = pieces[0]
    if kind == "other":
        raise ValueError(
            where.words(f"column {name!r} has type {arrow_type}, of which no number can be made; drop it")
        )
    if kind == "empty":
        raise ValueError(where.words(f"column {name!r} has no values at all in the first rows; drop it"))
    if kind in ("date", "time", "duration"):
        return DateColumn(name, kind)
    if kind == "number" and not chosen:
        return NumberColumn(name)
    if how is None:
        raise ValueError(
            where.words(
                f"column {name!r} is text; choose categories='onehot' or 'codes', or leave it out with drop="
            )
        )
    if not isinstance(how, str):
        return category_column(name, "onehot", tuple(str(value) for value in how))
    return category_column(name, how, _values(name, pieces, request))


def _values(name: str, pieces: list[Piece], request: Request) -> tuple[str, ...]:
    found: set[str] = set()
    for piece in pieces:
        found.update(value for value in texts(piece.data.column(name)).unique().to_pylist() if value is not None)
    if len(found) > request.max_categories:
        raise ValueError(
            pieces[0].words(
                f"column {name!r} has {len(found):,} different values in the first rows, more than max_categories="
                f"{request.max_categories}; drop it, list the values that matter, or raise max_categories"
            )
        )
    if not found:
        raise ValueError(pieces[0].words(f"column {name!r} has no values at all in the first rows; drop it"))
    return tuple(sorted(found))


def _with_scales(
    plain: Preprocessing, names: Sequence[Any], pieces: list[Piece], request: Request
) -> Preprocessing:
    """Add fills and scales, learned from the pieces."""
    if request.scale is None and request.missing is None:
        return plain
    raw = np.vstack([plain._raw(piece) for piece in pieces]).astype(np.float64)
    fill = np.full(plain.n_features, np.nan)
    centre, scale = np.zeros(plain.n_features), np.ones(plain.n_features)
    at = 0
    for name, column in zip(names, plain.columns, strict=True):
        span = slice(at, at + len(column.features))
        at = span.stop
        values = raw[:, span]
        how = _choice(request.missing, name)
        if how is not None:
            fill[span] = _fill(how, column, values, plain._label(column), pieces[0])
        wanted = _choice(request.scale, name)
        if wanted is not None and isinstance(column, NumberColumn | DateColumn):
            finite = values[np.isfinite(values)]
            centre[span], scale[span] = _scale(wanted, finite, plain._label(column), pieces[0], len(raw))
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


def _scale(wanted: Any, values: Array, label: str, where: Piece, n: int) -> tuple[float, float]:
    if not isinstance(wanted, str):
        return float(wanted[0]), float(wanted[1])
    if values.size == 0:
        raise ValueError(
            where.words(f"{label} has no values in the first {n:,} rows to learn a scale from; drop it")
        )
    if wanted == "standard":
        centre, scale = float(values.mean()), float(values.std())
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
