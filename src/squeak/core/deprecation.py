"""Names that will go: one way to say so, and one rule for when they do.

A public name that is renamed or given up works for two more minor versions. Every use of it warns, with the version
in which it was given up, the one in which it goes, and what to use instead.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

LASTS = 2
"""Minor versions for which a deprecated name still works."""


def warn_deprecated(old: str, new: str, since: str, *, stacklevel: int = 3) -> None:
    """Warn that a name is deprecated.

    Parameters
    ----------
    old, new : str
        The name as users write it, and what to write instead.
    since : str
        The version in which it was given up, such as "0.2".
    stacklevel : int
        How far up the caller stands to whom the warning is addressed; 3 is the caller of the caller.

    Examples
    --------
    >>> import warnings
    >>> from squeak.core.deprecation import warn_deprecated
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_deprecated("the parameter eta", "step", "0.2")
    >>> print(caught[0].message)
    the parameter eta is deprecated since squeak 0.2 and will be gone in 0.4: use step
    """
    major, minor = map(int, since.split("."))
    gone = f"{major}.{minor + LASTS}"
    words = f"{old} is deprecated since squeak {since} and will be gone in {gone}: use {new}"
    warnings.warn(words, FutureWarning, stacklevel=stacklevel)


def renamed(function: Callable[P, R], old: str, since: str) -> Callable[P, R]:
    """Return a function under its old name: it warns, and does what the function does.

    Parameters
    ----------
    function : callable
    old : str
        The name that is deprecated.
    since : str

    Returns
    -------
    callable

    Examples
    --------
    >>> from squeak.core.deprecation import renamed
    >>> renamed(abs, "absolute", "0.2").__name__
    'absolute'
    """

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        warn_deprecated(f"{old}()", f"{function.__name__}()", since)
        return function(*args, **kwargs)

    called.__name__ = old
    return called
