"""From the user's columns to rows of numbers: learned once from the first rows, then frozen and stored."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from squeak.core.rows import refuse_masked
from squeak.core.state import checked, numbers, parts, text, whole
from squeak.core.types import Array, IntArray, Rows
from squeak.data.columns import OTHER, CodeColumn, ColumnError, NumberColumn, OneHotColumn, texts
from squeak.data.pieces import Piece, as_table, finite_rows, finite_sparse
from squeak.data.scaling import soft_clip, soft_unclip
from squeak.data.target_columns import Column, TargetColumn, column_from_data, column_to_data, folds_of

FLOAT = np.finfo(np.float64)

OTHER_SHARE, OTHER_LEAST = 0.1, 5
"""A warning names a category of which more than this share of the rows, and this many, is of no known value."""

MANY_COLUMNS = 10_000
"""From more columns on, a file holds of those that are numbers only the name."""


PARTS = {
    "width": whole(low=1, optional=True),
    "centre": numbers("d", low=-FLOAT.max, high=FLOAT.max, optional=True),
    "scale": numbers("d", low=FLOAT.smallest_subnormal, high=FLOAT.max, optional=True),
    "dtype": text("float64", "float32"),
    "clip": numbers("d", low=0.0, optional=True),
}
"""What is saved of a preprocessing, beside its columns and the values that fill holes (which may be NaN)."""


@dataclass(frozen=True, eq=False, repr=False)
class Preprocessing:
    """How columns become numbers: an immutable value, stored with the dictionary or model learned through it.

    x = (encode(columns), with missing values filled in, − centre) / scale: numbers as they are, dates in days since
    1970, categories as 0/1 numbers or codes with one more place for values never seen before, or as the mean target
    of their rows. Where a feature has
    a bound c (``scale="robust"``), x becomes x/√(1 + (x/c)²).

    Made by :func:`squeak.rows` from the first rows of the data; then the same for every later row.

    Parameters
    ----------
    columns : tuple of column encodings
    width : int or None
        The number of columns of an array; None where columns are known by name.
    fill : array of shape (d,) or None
        What takes the place of a missing value; NaN where nothing does.
    centre, scale : arrays of shape (d,) or None
    dtype : str
        float64, or float32 where every column is.
    clip : array of shape (d,) or None
        The bound c of the soft clip of every scaled feature; 0 where there is none.

    References
    ----------
    The guide to row sources, docs/rows.md.

    Examples
    --------
    >>> import pandas as pd, squeak
    >>> frame = pd.DataFrame({"km": [1.0, 3.0, 5.0, 7.0], "to": ["AMS", "LIL", "AMS", "LIL"]})
    >>> p = squeak.rows(frame, scale="standard").preprocessing
    >>> p.feature_names
    ('km', 'to=AMS', 'to=LIL', 'to=(other)')
    >>> p.encode(pd.DataFrame({"to": ["CDG"], "km": [4.0]}))
    array([[0., 0., 0., 1.]])
    >>> p.decode(p.encode(frame.iloc[:1]))
    {'km': [1.0], 'to': ['AMS']}
    """

    kind: ClassVar[str] = "preprocessing"

    columns: tuple[Column, ...]
    width: int | None = None
    fill: Array | None = None
    centre: Array | None = None
    scale: Array | None = None
    dtype: str = "float64"
    clip: Array | None = None

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("no column is left to make rows of")
        scaled = self.scale is not None
        if self.dtype not in ("float64", "float32") or (self.centre is not None) != scaled:
            raise ValueError("the preprocessing's scale is damaged")
        if self.clip is not None and not scaled:
            raise ValueError("the preprocessing's scale is damaged")
        for name in ("fill", "centre", "scale", "clip"):
            values = getattr(self, name)
            if values is None:
                continue
            values = np.array(values, dtype=np.float64)
            bad = not np.isfinite(values).all() if name != "fill" else np.isinf(values).any()
            bad |= (name == "scale" and np.any(values <= 0)) or (name == "clip" and np.any(values < 0))
            if values.shape != (len(self.feature_names),) or bad:
                raise ValueError(f"the preprocessing's {name} does not fit its {len(self.feature_names)} features")
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        if self.width is not None and any(
            not isinstance(column, NumberColumn) or not 0 <= int(column.name) < self.width
            for column in self.columns
        ):
            raise ValueError("the preprocessing's columns do not fit an array")

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """A name for every number of a row."""
        return tuple(name for column in self.columns for name in column.features)

    @property
    def n_features(self) -> int:
        """The number of numbers in a row."""
        return len(self.feature_names)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns that are needed, or their numbers as text where columns have none."""
        return tuple(column.name for column in self.columns)

    def spans(self) -> Iterator[tuple[Column, slice]]:
        """Yield every column with the places of its numbers in a row."""
        ends = np.cumsum([len(column.features) for column in self.columns]).tolist()
        return zip(self.columns, map(slice, [0, *ends[:-1]], ends), strict=True)

    def label(self, column: Column, piece: Piece) -> str:
        """Return words for a column: its name, or its number in the user's array."""
        if self.width is None:
            return f"column {column.name!r}"
        return f"column {piece.column_number(int(column.name))}"

    def encode(self, X: Any) -> Rows:
        """Return rows of numbers for a table (pandas, polars, Arrow) or an array of the same columns."""
        table = as_table(X)
        if table is not None and self.width is not None:
            table, X = None, np.asarray(X, dtype=np.float64)
        if table is None and not sp.issparse(X):
            refuse_masked(X)
            X = np.asarray(X)
            if X.dtype.kind not in "fbui":
                raise TypeError("rows must be a table with named columns, or an array of numbers")
        strange = Strange()
        rows, _ = self.apply(Piece(X if table is None else table), skip=False, strange=strange)
        strange.warn()
        return rows

    def apply(
        self, piece: Piece, *, skip: bool, strange: Strange | None = None, own: bool = False
    ) -> tuple[Rows, IntArray | None]:
        """Return the rows of a piece and the numbers of those kept (None for all); count values never seen.

        ``own`` says that the piece is of the source that the preprocessing was learned from; see :meth:`raw`.
        """
        if sp.issparse(piece.data):
            return self._apply_sparse(piece, skip)
        raw = self.raw(piece, own=own)
        if strange is not None:
            strange.count(self, piece, raw)
        X = raw
        if self.fill is not None:
            holes = np.isnan(X)
            if holes.any():
                X = np.where(holes, self.fill, X)
        if self.centre is not None and self.scale is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                X = X - self.centre
                X /= self.scale
                if self.clip is not None:
                    X = soft_clip(X, self.clip)
        with np.errstate(over="ignore", invalid="ignore"):
            rows = X.astype(self.dtype, copy=False)

        def label_at(place: int) -> str:
            return self.label(next(column for column, span in self.spans() if place < span.stop), piece)

        return finite_rows(rows, raw, piece, skip, label_at)

    def raw(self, piece: Piece, *, own: bool = False) -> Array:
        """Return the numbers before filling and scaling, NaN where missing.

        A category that becomes its mean target leaves out the fold of each row where the rows are the ``own`` ones
        of the source that it was learned from.
        """
        exact = np.float32 if self.dtype == "float32" else np.float64
        if not piece.is_table:
            return self._raw_matrix(piece, exact)
        names = piece.data.column_names
        present = dict(zip(names, piece.data.columns, strict=True))
        for column in self.columns:
            if column.name not in present:
                raise ValueError(piece.words(missing_column(column.name, names)))
        if len(present) < len(names):
            needed = {column.name for column in self.columns}
            check_names([name for name in names if name in needed], piece.place)
        X = np.empty((piece.n, self.n_features), dtype=exact)
        for column, span in self.spans():
            try:
                if own and isinstance(column, TargetColumn):
                    numbers = np.arange(piece.first, piece.first + piece.n)
                    column.encode(present[column.name], X[:, span], folds_of(numbers))
                else:
                    column.encode(present[column.name], X[:, span])
            except ColumnError as error:
                raise ValueError(piece.words(str(error))) from None
        return X

    def _raw_matrix(self, piece: Piece, exact: Any) -> Array:
        expected = self.width if self.width is not None else len(self.columns)
        if piece.data.ndim != 2 or piece.data.shape[1] != expected:
            raise ValueError(
                piece.words(
                    f"rows have shape {piece.data.shape}; {expected} columns are expected, before preprocessing"
                )
            )
        if self.width is None:
            coded = [column.name for column in self.columns if not isinstance(column, NumberColumn)]
            if coded:
                raise TypeError(
                    piece.words(
                        f"column {coded[0]!r} is not a number: pass a table with named columns, not an array"
                    )
                )
            return np.asarray(piece.data, dtype=exact)
        wanted = [int(column.name) for column in self.columns]
        data = piece.data if wanted == list(range(self.width)) else piece.data[:, wanted]
        return np.asarray(data, dtype=exact)

    def _apply_sparse(self, piece: Piece, skip: bool) -> tuple[Rows, IntArray | None]:
        if self.width is None or self.scale is not None or self.fill is not None:
            raise TypeError(
                piece.words("sparse rows cannot take this preprocessing: pass a dense array or a table")
            )
        wanted = [int(column.name) for column in self.columns]
        if piece.data.shape[1] != self.width:
            raise ValueError(piece.words(f"rows have {piece.data.shape[1]} columns; {self.width} are expected"))
        X = piece.data if wanted == list(range(self.width)) else piece.data[:, wanted]
        return finite_sparse(X, piece, skip)

    def decode(self, rows: Rows) -> dict[str, list[Any]]:
        """Return rows of numbers as columns of the user's own: unscaled, categories and dates by name."""
        X = self.unscaled(rows)
        return {column.name: column.decode(X[:, span]) for column, span in self.spans()}

    def unscaled(self, rows: Rows) -> Array:
        """Return rows of numbers as they were before scaling."""
        X = rows.toarray() if sp.issparse(rows) else np.asarray(rows)
        X = X.astype(np.float64)
        if self.clip is not None:
            X = soft_unclip(X, self.clip, self.dtype)
        if self.centre is not None and self.scale is not None:
            X = X * self.scale + self.centre
        return X

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Preprocessing):
            return False
        numbers = ((getattr(self, name), getattr(other, name)) for name in ("fill", "centre", "scale", "clip"))
        return (self.columns, self.width, self.dtype) == (other.columns, other.width, other.dtype) and all(
            (a is None and b is None) or (a is not None and b is not None and np.array_equal(a, b, equal_nan=True))
            for a, b in numbers
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        kinds = [column.code for column in self.columns]
        words = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        scaled = ", scaled" if self.scale is not None else ""
        clipped = f", {np.count_nonzero(self.clip)} clipped" if self.clip is not None else ""
        return f"Preprocessing({words}{scaled}{clipped}: {self.n_features} features)"

    def formula(self, place: int) -> str:
        """Return words for how the feature at a place is scaled; empty where it is not."""
        if self.centre is None or self.scale is None:
            return ""
        clipped = f", kept within ±{self.clip[place]:g}" if self.clip is not None and self.clip[place] else ""
        centre = float(self.centre[place])
        return f"(x {'+' if centre < 0 else '−'} {abs(centre):.6g}) / {self.scale[place]:.6g}{clipped}"

    def to_parts(self, prefix: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the numbers as arrays, their names beginning with ``prefix``, and the rest as JSON data."""
        arrays, content = parts(PARTS, vars(self), prefix, d=self.n_features)
        if self.fill is not None:
            arrays[f"{prefix}fill"] = self.fill
        columns: list[Any] = [column_to_data(column) for column in self.columns]
        if self.width is not None:
            columns = [int(column.name) for column in self.columns]
        elif len(columns) > MANY_COLUMNS:
            columns = [data["name"] if data["code"] == NumberColumn.code else data for data in columns]
        return arrays, {"columns": columns, **content}

    @classmethod
    def from_parts(
        cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None, prefix: str = ""
    ) -> Preprocessing:
        """Return the preprocessing that :meth:`to_parts` took apart; anything unexpected is an error."""
        found, columns = checked(PARTS, arrays, content, prefix), content.get("columns")
        if not isinstance(columns, list):
            raise ValueError("the description of the preprocessing is damaged")
        if found["width"] is None:
            encodings = tuple(NumberColumn(c) if isinstance(c, str) else column_from_data(c) for c in columns)
        else:
            encodings = tuple(NumberColumn(str(int(position))) for position in columns)
        return cls(encodings, fill=arrays.get(f"{prefix}fill"), **found)


class Strange:
    """Counts, over the rows of one pass, the categories that were not there when the encoding was learned."""

    def __init__(self) -> None:
        self._rows, self._place = 0, ""
        self._found: dict[str, int] = {}
        self._words: dict[str, str] = {}

    def count(self, preprocessing: Preprocessing, piece: Piece, raw: Array) -> None:
        """Add the rows of a piece, given also as numbers before filling and scaling."""
        self._rows, self._place = self._rows + piece.n, piece.place
        for column, span in preprocessing.spans():
            if isinstance(column, OneHotColumn | CodeColumn):
                last = raw[:, span.stop - 1] == (1 if isinstance(column, OneHotColumn) else len(column.values))
                if last.any():
                    self._found[column.name] = self._found.get(column.name, 0) + int(np.count_nonzero(last))
                    word = texts(piece.data.column(column.name).slice(int(np.argmax(last)), 1))[0].as_py()
                    known = ", ".join(repr(value) for value in column.values[:3])
                    self._words.setdefault(column.name, f"such as {word!r}; known are {known}, …")

    def warn(self) -> None:
        """Say of which columns more than the stated share is of no known value."""
        for name, found in self._found.items():
            if found >= OTHER_LEAST and found > OTHER_SHARE * self._rows:
                where = f"{self._place}: " if self._place else ""
                warnings.warn(
                    f"{where}column {name!r}: {found:,} of {self._rows:,} rows have values that were not there "
                    f"when the encoding was learned ({self._words[name]}); all of them count as {OTHER!r}",
                    stacklevel=2,
                )


def check_names(names: Any, place: str) -> None:
    """Refuse a table in which two columns have the same name."""
    if len(set(names)) != len(names):
        twice = next(name for name, times in Counter(names).items() if times > 1)
        raise ValueError(f"{place + ': ' if place else ''}two columns are called {twice!r}; give each its own name")


def missing_column(name: str, there: Any) -> str:
    """Return words for a column that is not there, with the nearest names that are."""
    import difflib

    names = [str(other) for other in there]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(map(repr, names[:12]))}"
    return f"there is no column {name!r}{hint}{', …' if not near and len(names) > 12 else ''}"
