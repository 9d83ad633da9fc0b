"""Declared state: tables that say what every array and number of a saved object must be, and one walker for them.

A class that is read from a file has a table, from the name of each part to what it must be: an array with a shape,
a type and a range, or a plain value. :func:`checked` walks the table and hands back the parts, or says which of
them does not fit. Shapes may name their lengths: the first array that has a name fixes it, and the others must
agree. A last length that ends in a question mark may be missing, and is then 1.

    PARTS = {"mixing": numbers("m", "r"), "spectrum": numbers("r", low=0.0), "n": whole(low=1)}
    found = checked(PARTS, arrays, content, m=len(dictionary))
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

LARGEST = 1e150
"""No number of a state is larger: squares must not overflow."""

HUGE = 1e300
"""No number that is only added up is larger."""

ANY = 1.7976931348623157e308
"""The largest finite number: for rows as they came, before anything was multiplied."""

LEAST = 1e-100
"""No positive number of a state is lower: others are divided by it and by its square root."""

TINY = 1e-300
"""No penalty is lower."""

BELOW_ONE = 1.0 - 2.0**-53
"""The largest number below 1, for parts of which something must be left."""

MOST = 2**62
"""No whole number of a state is larger: sums must not overflow."""

LABELS_COST = 2**26
"""Bytes that the labels of a classifier may take."""

Bound = float | str
Length = int | str


@dataclass(frozen=True)
class Part:
    """What one part of a state must be.

    ``kind``: ``"number"``, ``"whole"``, ``"flag"`` or ``"text"``. ``shape``: of an array, its lengths or their
    names; None for a plain value. ``low``, ``high``: the range of its values, both ends included, or the name of an
    earlier part that bounds it. ``optional``: whether it may be missing or None. ``words``: of a text, what it may
    be; any text where this is empty.
    """

    kind: str
    shape: tuple[Length, ...] | None = None
    low: Bound = -LARGEST
    high: Bound = LARGEST
    optional: bool = False
    words: tuple[str, ...] = ()


Table = Mapping[str, Part]


def numbers(*shape: Length, low: Bound = -LARGEST, high: Bound = LARGEST, optional: bool = False) -> Part:
    """Declare an array of finite float64 numbers."""
    return Part("number", shape, low, high, optional)


def wholes(*shape: Length, low: Bound = 0, high: Bound = MOST, optional: bool = False) -> Part:
    """Declare an array of whole numbers, from 0 on unless it says otherwise."""
    return Part("whole", shape, low, high, optional)


def flags(*shape: Length, optional: bool = False) -> Part:
    """Declare an array of truth values."""
    return Part("flag", shape, optional=optional)


def number(low: Bound = -LARGEST, high: Bound = LARGEST, optional: bool = False) -> Part:
    """Declare a finite number."""
    return Part("number", None, low, high, optional)


def whole(low: Bound = 0, high: Bound = MOST, optional: bool = False) -> Part:
    """Declare a whole number, from 0 on unless it says otherwise."""
    return Part("whole", None, low, high, optional)


def seed() -> Part:
    """Declare a seed of 128 bits."""
    return Part("whole", None, 0, 2**128)


def flag(optional: bool = False) -> Part:
    """Declare a truth value."""
    return Part("flag", optional=optional)


def text(*words: str, optional: bool = False) -> Part:
    """Declare a text: any, or one of some words."""
    return Part("text", None, optional=optional, words=words)


def checked(
    table: Table, arrays: Mapping[str, Any], content: Any, prefix: str = "", **sizes: int
) -> dict[str, Any]:
    """Return the parts of a table, each as it was declared, or raise a ValueError that names the one that is not.

    Parameters
    ----------
    table : mapping of str to Part
    arrays : mapping of str to array
        As read from the file: they come back as they are, read-only.
    content : dict
        The plain values.
    prefix : str
        What the names of the arrays begin with.
    **sizes : int
        Lengths that are known already, by the names that shapes use.

    Returns
    -------
    dict of str to array or value
        Optional parts that are missing are None.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.core.state import checked, numbers, whole
    >>> table = {"n": whole(low=1), "scores": numbers("n", low=0.0), "bounds": numbers("n")}
    >>> checked(table, {"scores": np.ones(2), "bounds": np.ones(3)}, {"n": 5})
    Traceback (most recent call last):
        ...
    ValueError: 'bounds' has the shape (3,); it should be (2,)
    """
    if not isinstance(content, dict):
        raise ValueError("its description is damaged")
    found: dict[str, Any] = {}
    for name, part in table.items():
        value = content.get(name) if part.shape is None else arrays.get(prefix + name)
        if value is None:
            if not part.optional:
                raise ValueError(f"{name!r} is missing")
        elif part.shape is None:
            value = _value(name, part, value)
        else:
            _check_array(name, part, value, sizes)
            value = value.astype(np.int64, copy=False) if part.kind == "whole" else value
        if value is not None and part.kind in ("number", "whole"):
            _check_range(
                name, value, *(found[end] if isinstance(end, str) else end for end in (part.low, part.high))
            )
        found[name] = value
    return found


def parts(
    table: Table, values: Mapping[str, Any], prefix: str = "", **sizes: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parts of an object for a file, arrays and plain values apart; what could not be read back raises.

    ``values``: by the names of the table; optional ones may be missing or None. ``prefix``: what the names of the
    arrays shall begin with. ``**sizes``: lengths that are known already.
    """
    arrays = {prefix + name: values.get(name) for name, part in table.items() if part.shape is not None}
    arrays = {name: np.asarray(array) for name, array in arrays.items() if array is not None}
    content = {name: plain(values.get(name)) for name, part in table.items() if part.shape is None}
    checked(table, arrays, content, prefix, **sizes)
    return arrays, content


def plain(value: Any) -> Any:
    """Return a number of numpy as one of Python; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def _value(name: str, part: Part, value: Any) -> Any:
    kinds = {"number": (int, float), "whole": (int,), "flag": (bool,), "text": (str,)}[part.kind]
    if type(value) not in kinds or (part.words and value not in part.words):
        raise ValueError(f"{name!r} is {_short(value)}, which is no {part.kind} that it can be")
    if part.kind == "number":
        return float(value)
    return value


def _check_array(name: str, part: Part, array: Any, sizes: dict[str, int]) -> None:
    kinds = {"number": ("<f8",), "whole": ("<i8", "<i4"), "flag": ("|b1",)}[part.kind]
    if array.dtype.str not in kinds:
        raise ValueError(f"{name!r} is an array of type {array.dtype}, not of {part.kind}s")
    shape = part.shape or ()
    if shape and str(shape[-1]).endswith("?"):
        last = str(shape[-1]).removesuffix("?")
        if array.ndim == len(shape) - 1:
            sizes.setdefault(last, 1)
        shape = shape[: array.ndim] if array.ndim < len(shape) else (*shape[:-1], last)
    if len(shape) != array.ndim:
        raise ValueError(f"{name!r} has {array.ndim} dimensions")
    for length, there in zip(shape, array.shape, strict=True):
        if isinstance(length, str):
            sizes.setdefault(length, there)
    expected = tuple(sizes[length] if isinstance(length, str) else length for length in shape)
    if array.shape != expected:
        raise ValueError(f"{name!r} has the shape {array.shape}; it should be {expected}")


def _check_range(name: str, value: Any, low: float, high: float) -> None:
    least, most = (value.min(), value.max()) if np.size(value) > 1 else (value, value)
    if np.size(value) and not (low <= least and most <= high):  # what is not a number fails as well
        raise ValueError(f"{name!r} holds NaN, or lies outside of [{low:.4g}, {high:.4g}]")


def _short(value: Any) -> str:
    words = repr(value) if isinstance(value, bool | int | float | str | None) else f"a {type(value).__name__}"
    return words if len(words) <= 60 else f"{words[:60]}…"


def labels(values: Any, dtype: Any, least: int = 2) -> Any:
    """Return the labels of a classifier from a file, two or more unless it says otherwise, as the array they were.

    Only the letter of the type counts: an array of text is as wide as its longest label, whatever the file says.

    ``dtype``: the name of the array's type, or its letter.
    """
    if not isinstance(values, list) or len(values) < least or not isinstance(dtype, str):
        raise ValueError("its classes are damaged")
    known = re.fullmatch(r"[<|=]?(?:U\d*|(object|O)|(bool|b1?)|((?:u?int|float)\d+|[iuf][1248]?))", dtype)
    if known is None:
        raise ValueError(f"classes cannot be of the type {_short(dtype)}")
    if known[1] is None and known[2] is None and known[3] is None:
        whole_list = all(type(value) is str for value in values)
    elif known[1] is not None:
        whole_list = all(type(value) in (str, bool, int, float) for value in values)
    elif known[2] is not None:
        whole_list = all(type(value) is bool for value in values)
    else:
        whole_list = all(type(value) in (int, float) for value in values)
    if not whole_list or len(set(values)) != len(values):
        raise ValueError("its classes are damaged")
    if known[1] is not None:
        return np.array(values, dtype=object)
    if known[3] is not None:
        return np.array(values, dtype=np.dtype(known[3]) if len(known[3]) > 1 else None)
    if known[2] is None and 4 * len(values) * max(map(len, values)) > LABELS_COST:
        raise ValueError("its classes are too long")
    return np.array(values)


RENAMED: dict[str, tuple[str, int]] = {
    "tolerance": ("tol", 1),
    "max_passes": ("max_iter", 1),
    "eta": ("step", 1),
    "step": ("ratio", 1),
    "n_frequencies": ("n_features", 2),  # a frequency gave two features
}
"""Parameters of version 0.1 that have another name now, and what their values are multiplied by."""


def parameters(cls: type, given: Any) -> dict[str, Any]:
    """Return those of a file's parameters that a class has, each of a type that its constructor is declared with.

    Ranges are the class's own to check. Parameters that it does not have are left out: older versions had others.
    """
    if not isinstance(given, dict):
        raise ValueError("its parameters are damaged")
    hints: dict[str, str] = {}
    for base in cls.__mro__:
        init = vars(base).get("__init__")
        if inspect.isfunction(init):
            hints = {name: str(hint) for name, hint in init.__annotations__.items() if name != "return"} | hints
            if not init.__code__.co_flags & inspect.CO_VARKEYWORDS:  # it hands nothing on to the class above
                break
    for old, (new, times) in RENAMED.items():
        if old in given and old not in hints and new in hints and new not in given:
            value = given[old]
            given = {**given, new: value * times if isinstance(value, int) and times > 1 else value}
    for name in given.keys() & hints.keys():
        if not _fits(given[name], hints[name]):
            raise ValueError(f"its parameter {name} is {_short(given[name])}")
    return {name: value for name, value in given.items() if name in hints}


def _fits(value: Any, hint: str) -> bool:
    """Tell whether a value of JSON data has a type of a hint, as it is written in the source."""
    kinds = set(hint.replace("RandomState", "int | None").split(" | "))
    anything = any(kind not in PLAIN and "[" not in kind for kind in kinds)
    if value is None or isinstance(value, bool):
        return anything or ("None" if value is None else "bool") in kinds
    if isinstance(value, int):
        return abs(value) <= MOST and (anything or not kinds.isdisjoint(("int", "float")))
    if isinstance(value, float):
        return abs(value) <= LARGEST and (anything or "float" in kinds)
    if isinstance(value, str):
        return anything or "str" in kinds or "Literal[" in hint
    if not isinstance(value, list):
        return False
    given = [item for item in value if item is not None or "None, ...]" not in hint]
    numbers = all(type(item) in (int, float) for item in given)
    return numbers and (anything or "[" in hint) and all(abs(item) <= LARGEST for item in given)


PLAIN = ("bool", "int", "float", "str", "None")
"""The names of the types that JSON has; a name that is neither here nor has brackets stands for anything plain."""
