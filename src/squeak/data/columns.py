"""One column of a table as numbers: how it is encoded, and how an atom's numbers are read back.

A column's encoding is fixed once and then applied to every block, also when a model predicts. Missing values become
NaN, whatever the column; what happens to them is decided for the whole row, elsewhere.
"""

from __future__ import annotations

import datetime
import decimal
import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from squeak.core.types import Array

OTHER = "(other)"
"""The name of the place for categories that were not there when the encoding was learned."""

SECONDS_A_DAY = 86_400


class ColumnError(ValueError):
    """A column does not hold what it should; the message names the column, the caller adds the file."""


def kind_of(arrow_type: Any) -> str:
    """Return what an Arrow type is to us: number, text, date, time, duration, empty or other."""
    kind = _kinds.get(arrow_type.id)
    if kind is None:
        import pyarrow.types as at

        if at.is_dictionary(arrow_type):
            return kind_of(arrow_type.value_type)
        kind = _kinds[arrow_type.id] = _kind_of(arrow_type)
    return kind


_kinds: dict[int, str] = {}
"""What the types of each number of Arrow's are: there may be many thousand columns, of few types."""


def _kind_of(arrow_type: Any) -> str:
    import pyarrow.types as at

    if at.is_integer(arrow_type) or at.is_floating(arrow_type) or at.is_decimal(arrow_type):
        return "number"
    if at.is_boolean(arrow_type):
        return "number"
    if at.is_string(arrow_type) or at.is_large_string(arrow_type) or str(arrow_type) == "string_view":
        return "text"
    if at.is_timestamp(arrow_type) or at.is_date(arrow_type):
        return "date"
    if at.is_time(arrow_type):
        return "time"
    if at.is_duration(arrow_type):
        return "duration"
    return "empty" if at.is_null(arrow_type) else "other"


def _plain(column: Any) -> Any:
    """Return an Arrow column in one piece and without dictionary encoding."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # an empty column stays chunked in some versions of Arrow
        column = pa.array([], type=column.type)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


PARTS_A_DAY = {"s": 86_400, "ms": 86_400e3}
"""Of the units coarser than a microsecond: they reach further than an integer of microseconds does."""


def numbers(column: Any, name: str) -> Array:
    """Return an Arrow column as floats, NaN where missing.

    Dates are in days since 1970, times of day in hours, durations in seconds.
    float32 stays float32; all else becomes float64.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _plain(column)
    kind = kind_of(column.type)
    if kind == "empty":
        return np.full(len(column), np.nan)
    if kind in ("date", "duration"):
        if pa.types.is_date(column.type):
            column = column.cast(pa.timestamp("s" if pa.types.is_date32(column.type) else "ms"))
        scale = 1 if kind == "date" else SECONDS_A_DAY
        if column.type.unit in PARTS_A_DAY:
            return numbers(column.cast(pa.int64()), name) / (PARTS_A_DAY[column.type.unit] / scale)
        if column.type.unit == "ns":
            zone = {"tz": column.type.tz} if kind == "date" else {}
            column = column.cast((pa.timestamp if kind == "date" else pa.duration)("us", **zone), safe=False)
        return numbers(column.cast(pa.int64()), name) / (1e6 * SECONDS_A_DAY / scale)
    if kind == "time":
        return numbers(column.cast(pa.time64("us"), safe=False).cast(pa.int64()), name) / 3.6e9
    if kind != "number":
        raise ColumnError(f"column {name!r} is {_word(kind)}, not a number")
    if pa.types.is_boolean(column.type) or pa.types.is_float16(column.type):
        column = pc.cast(column, pa.float32()) if pa.types.is_float16(column.type) else column.cast(pa.uint8())
    elif pa.types.is_decimal(column.type):
        column = column.cast(pa.string()).cast(pa.float64())  # Arrow's own cast is a rounding off
    values: Array = column.to_numpy(zero_copy_only=False)
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def texts(column: Any) -> Any:
    """Return an Arrow column of categories as text, null where missing.

    Text stays as it is. A value of another type has one text, whatever its type: 7, 7.0 and decimal 7 are "7", and
    midnight is its date.
    """
    import pyarrow as pa

    column = _plain(column)
    kind = kind_of(column.type)
    if kind == "text":
        return column if pa.types.is_string(column.type) else column.cast(pa.string())
    coded = column.dictionary_encode()
    values = coded.dictionary
    if kind in ("date", "time"):
        if getattr(values.type, "tz", None) is not None:
            values = values.cast(pa.timestamp(values.type.unit, tz="UTC"))
        words = [canonical(text) or text for text in values.cast(pa.string()).to_pylist()]
    elif kind == "duration":
        words = [text_of(value) for value in values.cast(pa.duration("us"), safe=False).to_pylist()]
    elif pa.types.is_floating(values.type) and values.type.bit_width < 64:
        words = [text_of(value) for value in values.to_numpy(zero_copy_only=False)]
    else:
        words = [text_of(value) for value in values.to_pylist()]
    return pa.array(words, type=pa.string()).take(coded.indices)


def text_of(value: Any) -> str | None:
    """Return the one text that a category is known by; None for a missing value."""
    if value is None or value != value:
        return None
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, np.float32 | np.float16):  # by the digits that its own type needs
        return canonical(str(value)) or str(value)
    if isinstance(value, float) and np.isinf(value):
        return repr(value)
    if isinstance(value, int | float | decimal.Decimal | np.number):
        return str(int(value)) if value == int(value) else repr(float(value))
    if isinstance(value, datetime.date | datetime.time | np.datetime64):
        return canonical(str(value)) or str(value)
    return str(value)


NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")
MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?)(?:\.(\d+))?)?(Z|[+-]\d\d:?\d\d)?")
CLOCK = re.compile(r"(\d\d:\d\d:\d\d)(?:\.(\d+))?")
TRUTH = {
    spelled: str(value)
    for value in (True, False)
    for spelled in (f"{value}", f"{value}".lower(), f"{value}".upper())
}


def canonical(text: str) -> str | None:
    """Return the text that a number, a truth value, a date or a time is known by, or None for other text.

    A file of text has many ways to write one value; this is the one that the value has in files with types. Numbers
    with leading zeros are names, not numbers.
    """
    if text in TRUTH:
        return TRUTH[text]
    if text in ("inf", "-inf"):
        return text
    if found := NUMBER.fullmatch(text):
        whole = not found[2] and not found[3] and len(text) < 400
        value = int(text) if whole else float(text)
        return text_of(value) if whole or np.isfinite(value) else text
    if found := CLOCK.fullmatch(text):
        fraction = (found[2] or "").rstrip("0")
        return f"{found[1]}.{fraction}" if fraction else found[1]
    if not (found := MOMENT.fullmatch(text)):
        return None
    day, clock, fraction, zone = found[1], found[2] or "00:00", (found[3] or "").rstrip("0"), found[4] or ""
    try:
        moment = datetime.datetime.fromisoformat(f"{day} {clock}{zone}")
        if zone:
            moment = moment.astimezone(datetime.UTC)
    except (ValueError, OverflowError):  # a day that no calendar has
        return None
    if not zone and not fraction and moment.time() == datetime.time():
        return day
    seconds = moment.time().isoformat() + (f".{fraction}" if fraction else "")
    return f"{moment.date().isoformat()} {seconds}{'+00:00' if zone else ''}"


def _word(kind: str) -> str:
    return {"text": "text", "other": "a nested or binary column", "empty": "empty"}.get(kind, f"a {kind}")


@dataclass(frozen=True)
class _OneNumber:
    """A column that becomes one number."""

    name: str
    code: ClassVar[str]
    kind: ClassVar[str]

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the numbers this column becomes."""
        return (self.name,)

    def encode(self, column: Any, out: Array) -> None:
        """Write an Arrow column into ``out`` of shape (n, 1)."""
        if kind_of(column.type) not in (self.kind, "empty"):
            raise ColumnError(f"column {self.name!r} is {_word(kind_of(column.type))}; a {self.kind} is expected")
        out[:, 0] = numbers(column, self.name)

    def decode(self, features: Array) -> list[Any]:
        """Return the column's values from ``features`` of shape (n, 1)."""
        return [float(value) for value in features[:, 0]]


@dataclass(frozen=True)
class NumberColumn(_OneNumber):
    """A number stays as it is."""

    code: ClassVar[str] = "number"
    kind: ClassVar[str] = "number"


@dataclass(frozen=True)
class DateColumn(_OneNumber):
    """A date or timestamp becomes days since 1970-01-01; a time of day, hours; a duration, seconds."""

    code: ClassVar[str] = "date"
    kind: str = "date"  # type: ignore[misc]

    def decode(self, features: Array) -> list[Any]:
        """Return dates as ISO text, other kinds as numbers."""
        days = super().decode(features)
        return [_iso(value) for value in days] if self.kind == "date" else days


def _iso(days: float) -> str:
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=round(days * SECONDS_A_DAY))
    except OverflowError:
        return f"{days:g} days"
    return moment.date().isoformat() if moment.time() == datetime.time() else moment.isoformat(" ")


@dataclass(frozen=True)
class OneHotColumn:
    """A category becomes a 0/1 number for each known value, and one for all others."""

    code: ClassVar[str] = "onehot"
    name: str
    values: tuple[str, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the numbers this column becomes."""
        return tuple(f"{self.name}={value}" for value in (*self.values, OTHER))

    def encode(self, column: Any, out: Array) -> None:
        """Write an Arrow column into ``out`` of shape (n, values + 1); a missing value is NaN throughout."""
        codes, missing = category_codes(column, self.name, self.values)
        out[:] = codes[:, None] == np.arange(len(self.values) + 1)
        out[missing] = np.nan

    def decode(self, features: Array) -> list[Any]:
        """Return the category of each row."""
        return [(*self.values, OTHER)[place] for place in features.argmax(axis=1)]


@dataclass(frozen=True)
class CodeColumn(_OneNumber):
    """A category becomes its number in the list of known values; one more number stands for all others."""

    code: ClassVar[str] = "codes"
    values: tuple[str, ...]

    def encode(self, column: Any, out: Array) -> None:
        """Write an Arrow column into ``out`` of shape (n, 1)."""
        codes, missing = category_codes(column, self.name, self.values)
        out[:, 0] = codes
        out[missing, 0] = np.nan

    def decode(self, features: Array) -> list[Any]:
        """Return the category of each row."""
        names = (*self.values, OTHER)
        return [names[int(np.clip(round(float(value)), 0, len(names) - 1))] for value in features[:, 0]]


def category_codes(column: Any, name: str, values: tuple[str, ...]) -> tuple[Array, Array]:
    """Return each row's place among ``values`` (their number for a value not among them), and which are missing.

    A text that is a value is that value. Another is the value that it is another spelling of: "1.0" of "1".
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow.types import is_floating

    column = _plain(column)
    if kind_of(column.type) == "other":
        raise ColumnError(f"column {name!r} is {_word(kind_of(column.type))}; a category is expected")
    text = texts(column)
    found = pc.index_in(text, value_set=pa.array(values, type=pa.string()))
    codes = pc.fill_null(found, len(values)).to_numpy(zero_copy_only=False)
    missing = text.is_null().to_numpy(zero_copy_only=False)
    strange = (codes == len(values)) & ~missing
    if strange.any():
        spelled = {canonical(value) or value: place for place, value in reversed(list(enumerate(values)))}
        own: Any = {16: np.float16, 32: np.float32}.get(column.type.bit_width) if is_floating(column.type) else None
        coded = text.filter(pa.array(strange)).dictionary_encode()
        places = []
        for word in coded.dictionary.to_pylist():
            names: list[Any] = [canonical(word) or word]
            if own is not None:  # some files, and an earlier version, have the digits of a wider float
                names += [text_of(np.float32(own(word))), text_of(float(own(word)))]
            places.append(next((spelled[name] for name in names if name in spelled), len(values)))
        codes = codes.copy()
        codes[strange] = np.array(places)[coded.indices.to_numpy(zero_copy_only=False)]
    return codes, missing
