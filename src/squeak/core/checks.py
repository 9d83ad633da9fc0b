"""The checks of parameters: one clear sentence that names the parameter, what it must be and what it is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from squeak.core.advice import Advice, InputError, InputTypeError


def check_whole(name: str, value: Any, low: int = 1) -> int:
    """Return a whole number as an int.

    Parameters
    ----------
    name : str
        What the parameter is called.
    value : object
    low : int
        The least number that is allowed.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        It is no whole number, or it is smaller.

    Examples
    --------
    >>> from squeak.core.checks import check_whole
    >>> check_whole("copies", 3)
    3
    >>> check_whole("copies", 0)
    Traceback (most recent call last):
    ...
    squeak.core.advice.InputError: copies must be a whole number from 1 on; it is 0
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
        raise InputError(Advice(f"{{name}} must be a whole number from {low} on; it is {value!r}", name, value))
    return int(value)


def check_number(name: str, value: Any, otherwise: str = "") -> float:
    """Return a finite number as a float.

    Parameters
    ----------
    name : str
        What the parameter is called.
    value : object
    otherwise : str
        What else the parameter may be, for the message: " or 'auto'".

    Returns
    -------
    float

    Raises
    ------
    TypeError
        It is no number.
    ValueError
        It is not finite.

    Examples
    --------
    >>> from squeak.core.checks import check_number
    >>> check_number("mean", 1)
    1.0
    """
    if not is_number(value):
        raise InputTypeError(Advice(f"{{name}} must be a number{otherwise}; it is {value!r}", name, value))
    if not math.isfinite(value):
        raise InputError(Advice(f"{{name}} must be finite; it is {value!r}", name, value))
    return float(value)


def check_positive(name: str, value: Any, otherwise: str = "") -> float:
    """Return a positive, finite number as a float.

    Parameters
    ----------
    name : str
        What the parameter is called.
    value : object
    otherwise : str
        What else the parameter may be, for the message: " or 'auto'".

    Returns
    -------
    float

    Raises
    ------
    TypeError
        It is no number.
    ValueError
        It is not positive and finite.

    Examples
    --------
    >>> from squeak.core.checks import check_positive
    >>> check_positive("ridge", -1)
    Traceback (most recent call last):
    ...
    squeak.core.advice.InputError: ridge must be positive and finite; it is -1
    """
    if not is_number(value):
        raise InputTypeError(Advice(f"{{name}} must be a positive number{otherwise}; it is {value!r}", name, value))
    if not 0 < value < math.inf:
        raise InputError(Advice(f"{{name}} must be positive and finite; it is {value!r}", name, value))
    return float(value)


def check_between(name: str, value: Any, low: float, high: float) -> float:
    """Return a number from low to high, both of which are allowed, as a float.

    Parameters
    ----------
    name : str
        What the parameter is called.
    value : object
    low, high : float

    Returns
    -------
    float

    Raises
    ------
    TypeError
        It is no number.
    ValueError
        It lies outside.

    Examples
    --------
    >>> from squeak.core.checks import check_between
    >>> check_between("tail", 0.5, 0, 1)
    0.5
    """
    if not is_number(value):
        raise InputTypeError(Advice(f"{{name}} must be a number; it is {value!r}", name, value))
    if not low <= value <= high:
        raise InputError(Advice(f"{{name}} must lie between {low:g} and {high:g}; it is {value!r}", name, value))
    return float(value)


def check_choice(name: str, value: Any, *choices: str) -> str:
    """Return one of some words.

    Parameters
    ----------
    name : str
        What the parameter is called.
    value : object
    *choices : str
        Two words or more.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        It is none of them.

    Examples
    --------
    >>> from squeak.core.checks import check_choice
    >>> check_choice("loss", "hinge", "squared", "logistic")
    Traceback (most recent call last):
    ...
    squeak.core.advice.InputError: loss must be 'squared' or 'logistic'; it is 'hinge'
    """
    if not isinstance(value, str) or value not in choices:
        words = f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"
        raise InputError(Advice(f"{{name}} must be {words}; it is {value!r}", name, value))
    return value


def is_number(value: Any) -> bool:
    """Tell whether a value is a real number; True and False are none.

    Parameters
    ----------
    value : object

    Returns
    -------
    bool

    Examples
    --------
    >>> from squeak.core.checks import is_number
    >>> is_number(2), is_number(True)
    (True, False)
    """
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
