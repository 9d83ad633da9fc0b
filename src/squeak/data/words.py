"""Text that stands for numbers, dates or times but for a few words, which then stand for missing values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from squeak.core.types import IntArray
from squeak.data.columns import kind_of

FEW_WORDS, FEW_SHARE = 5, 0.1
"""A column is numbers but for a few words if no more than this share of its values are words; or no more than this
many different words, a quarter of the different numbers, and half of the values."""

MOST_WORDS = 1000
"""More different words than this are not a few."""

LOOKED_AT = 200
"""So many different values tell text from the rest without a look at all of them."""


@dataclass(frozen=True)
class Read:
    """Text read as values of a type; ``words`` are those that are none, by the row that each first stands in."""

    values: Any
    words: dict[str, int]
    rows: IntArray
    """The rows that hold them."""


def types_of(kind: str | None) -> Iterator[Any]:
    """Yield the types that text of a kind may be read as; of every kind for None."""
    import pyarrow as pa

    if kind in (None, "number"):
        yield from (pa.float64(), pa.bool_())
    if kind in (None, "date"):
        yield from (pa.timestamp("us"), pa.timestamp("us", tz="UTC"))
    if kind in (None, "time"):
        yield pa.time64("us")


def read_words(text: Any, wanted: Any, most: int | None = None) -> Read | None:
    """Return text as values of a type, null where it is missing or a word; None for more than ``most`` words."""
    import pyarrow as pa

    try:
        return Read(_convert(text, wanted), {}, np.zeros(0, dtype=np.int64))
    except pa.ArrowInvalid:
        pass
    coded = text.dictionary_encode()
    bad = _bad_places(coded.dictionary, wanted, len(text) if most is None else most)
    if bad is None:
        return None
    good = np.ones(len(coded.dictionary), dtype=bool)
    good[bad] = False
    values = _convert(coded.dictionary.filter(pa.array(good)), wanted)
    places = pa.array(np.cumsum(good) - 1, mask=~good)
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero((codes >= 0) & ~good[codes])
    _, first = np.unique(codes[rows], return_index=True)
    words = {coded.dictionary[int(codes[row])].as_py(): int(row) for row in rows[np.sort(first)]}
    return Read(values.take(places.take(coded.indices)), words, rows)


def read_but_for_few(text: Any, kind: str | None, least: int = 0) -> tuple[Any, Read] | None:
    """Return the type that text is but for a few words, and how it reads; None for what is just text.

    ``kind``: the kind that is expected; half of the values may then be words. ``least``: more different values than
    this must be of the type.
    """
    import pyarrow as pa

    present = len(text) - text.null_count
    different = text.drop_null().unique()
    if not present:
        return None
    for wanted in types_of(kind):
        some = different.slice(0, LOOKED_AT)
        if _bad_places(some, wanted, len(some) // 2) is None:
            continue
        read = read_words(text, wanted, MOST_WORDS)
        if read is None or len(different) - len(read.words) <= least:
            continue
        share = len(read.rows) / present
        few = len(read.words) <= min(FEW_WORDS, (len(different) - len(read.words)) / 4)
        if share <= FEW_SHARE or (share <= 0.5 and (few or kind is not None)):
            return pa.bool_() if pa.types.is_boolean(wanted) else wanted, read
    return None


def _convert(text: Any, wanted: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pc.utf8_trim_whitespace(text)
    if kind_of(wanted) not in ("date", "time"):
        return text.cast(wanted)
    text = pc.replace_substring_regex(text, r"(\.\d{6})\d+", r"\1")  # what is finer than a microsecond
    if kind_of(wanted) == "date":
        return text.cast(wanted)
    day = pa.scalar("1970-01-01")  # Arrow reads no times of day by themselves
    return pc.binary_join_element_wise(day, text, " ").cast(pa.timestamp("us")).cast(wanted)


def _bad_places(words: Any, wanted: Any, most: int) -> list[int] | None:
    """Return where the words stand that are no values of a type, by halving; None for more than ``most``."""
    import pyarrow as pa

    bad: list[int] = []
    waiting = [(0, len(words))]
    while waiting:
        low, high = waiting.pop()
        try:
            _convert(words.slice(low, high - low), wanted)
        except pa.ArrowInvalid:
            if high - low > 1:
                middle = (low + high) // 2
                waiting += [(middle, high), (low, middle)]
                continue
            bad.append(low)
            if len(bad) > most:
                return None
    return bad
