"""Constructors that only store, as scikit-learn asks for: each parameter is named once, with type and default."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

Class = TypeVar("Class", bound=type[Any])


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def parameters(cls: Class) -> Class:
    """Make a constructor of the annotated names of a class and its bases, in scikit-learn's form.

    Parameters are given by name; ``field(default=..., kw_only=False)`` marks the first, which may be given without.
    A subclass lists what it adds and what has another default there. ``field(init=False)`` marks attributes that
    ``fit`` sets. Comparison, ``repr`` and ``get_params`` stay scikit-learn's, which reads the constructor.

    Parameters
    ----------
    cls : class

    Returns
    -------
    class
        The same class.

    Examples
    --------
    >>> from dataclasses import field
    >>> from sklearn.base import BaseEstimator
    >>> from squeak.core.constructors import parameters
    >>> @parameters
    ... class Model(BaseEstimator):
    ...     kernel: str | None = field(default=None, kw_only=False)
    ...     alpha: float = 1.0
    >>> Model("rbf", alpha=2.0).get_params()
    {'alpha': 2.0, 'kernel': 'rbf'}
    """
    dataclass(eq=False, repr=False, kw_only=True)(cls)  # it adds the constructor to the class itself
    return cls
