"""The checks of parameters: one clear sentence that names the parameter, what it must be and what it is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from squeak.core.advice import Advice, InputError, InputTypeError


def check_whole(name: str, value: Any, low: int = 1) -> int:
    """Return a whole number as an int.

    ``low``: the least number that is allowed.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
        raise InputError(Advice(f"{{name}} must be a whole number from {low} on; it is {value!r}", name, value))
    return int(value)


def check_number(name: str, value: Any, otherwise: str = "") -> float:
    """Return a finite number as a float.

    ``otherwise``: what else the parameter may be, for the message: " or 'auto'".
    """
    if not is_number(value):
        raise InputTypeError(Advice(f"{{name}} must be a number{otherwise}; it is {value!r}", name, value))
    number = as_float(value)
    if not math.isfinite(number):
        raise InputError(Advice(f"{{name}} must be finite; it is {value!r}", name, value))
    return number


def check_positive(name: str, value: Any, otherwise: str = "") -> float:
    """Return a positive, finite number as a float.

    ``otherwise``: what else the parameter may be, for the message: " or 'auto'".
    """
    if not is_number(value):
        raise InputTypeError(Advice(f"{{name}} must be a positive number{otherwise}; it is {value!r}", name, value))
    number = as_float(value)
    if not 0 < number < math.inf:
        raise InputError(Advice(f"{{name}} must be positive and finite; it is {value!r}", name, value))
    return number


def check_flag(name: str, value: Any) -> None:
    """Raise an error unless the value is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; it is {value!r}")


def check_between(name: str, value: Any, low: float, high: float) -> float:
    """Return a number from low to high, both of which are allowed, as a float."""
    if not is_number(value):
        raise InputTypeError(Advice(f"{{name}} must be a number; it is {value!r}", name, value))
    number = as_float(value)
    if not low <= number <= high:
        raise InputError(Advice(f"{{name}} must lie between {low:g} and {high:g}; it is {value!r}", name, value))
    return number


def check_choice(name: str, value: Any, *choices: str) -> str:
    """Return one of some words."""
    if not isinstance(value, str) or value not in choices:
        words = f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"
        raise InputError(Advice(f"{{name}} must be {words}; it is {value!r}", name, value))
    return value


def as_float(value: Any) -> float:
    """Return a number as a float; whole numbers beyond all floats are infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def is_number(value: Any) -> bool:
    """Tell whether a value is a real number; True and False are none."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def refuse_mixed(labels: Any) -> None:
    """Refuse classes of which some are text and others are not: they have no order, and nobody means two kinds."""
    values = labels if hasattr(labels, "dtype") else np.asarray(labels, dtype=object)
    if getattr(values.dtype, "kind", "") != "O":
        return
    text = other = None
    for label in np.asarray(values, dtype=object).ravel().tolist():
        if isinstance(label, str):
            text = label
        elif not is_missing(label):
            other = label
        if text is not None and other is not None:
            raise InputError(
                f"the classes are of two types: {text!r} is text, and {other!r} is not",
                "make all of them text, or all of them numbers",
            )


def is_missing(value: Any) -> bool:
    """Tell whether a value among objects is missing: None, NaN, NaT, or pandas' NA, which is not even unequal."""
    unlike = value != value
    known = isinstance(unlike, bool | np.bool_) and bool(unlike)
    return known or value is None or type(value).__name__ == "NAType"


def check_labels(labels: Any) -> None:
    """Refuse labels that are no classes: of two types, or numbers that are not whole."""
    refuse_mixed(labels)
    check_classification_targets(labels)
