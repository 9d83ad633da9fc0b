"""Fitted learners as arrays and JSON data: the dictionary, what was solved for, and the plain parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core import state
from squeak.core.dictionary import Dictionary
from squeak.core.rows import width_of

DICTIONARY = "dictionary_"
"""What the names of the dictionary's arrays begin with."""


STORED = (bool, int, float, str, list)


def _plain(value: Any) -> Any:
    """Return a number or a sequence of numbers as JSON has it, anything else as it is."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple | np.ndarray):
        numbers = np.asarray(value)
        return numbers.tolist() if numbers.ndim == 1 and numbers.dtype.kind in "iuf" else object()
    return value


CURVES = ("residuals_", "validation_errors_")
"""What a solver records of its way, kept for reports; the last values where there are very many."""

MOST_VALUES = 10_000


def curves_of(model: Any) -> dict[str, Any]:
    """Return the curves that a fit left, as arrays for a file."""
    found = {name: np.asarray(getattr(model, name, ()), dtype=np.float64).ravel() for name in CURVES}
    return {f"curve_{name}": values[-MOST_VALUES:] for name, values in found.items() if values.size}


def restore_curves(model: Any, arrays: dict[str, Any]) -> None:
    """Give a loaded model the curves that were stored with it."""
    stored = {f"curve_{name}": state.numbers(name, optional=True) for name in CURVES}
    for name, values in state.checked(stored, arrays, {}).items():
        if values is not None:
            setattr(model, name.removeprefix("curve_"), values)


def learner_to_parts(model: Any, **values: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a learner's state, as its table declares it, with its dictionary and its parameters that are data."""
    arrays, content = state.parts(model._state, values, m=len(model.dictionary_))
    inner, described = model.dictionary_.to_parts()
    arrays = {**arrays, **curves_of(model), **{DICTIONARY + name: array for name, array in inner.items()}}
    params = {name: _plain(value) for name, value in model.get_params(deep=False).items()}
    plain = {name: value for name, value in params.items() if value is None or isinstance(value, STORED)}
    names = getattr(model, "feature_names_in_", None)
    content = {
        **content,
        "dictionary": described,
        "parameters": plain,
        "n_features": getattr(model, "n_features_in_", None),
        "feature_names": None if names is None else [str(name) for name in names],
    }
    return arrays, content


def learner_from_parts(
    cls: Any, arrays: dict[str, Any], content: dict[str, Any], kernel: Any
) -> tuple[Any, dict[str, Any]]:
    """Return the learner with its dictionary and parameters, and its own state as its table declares it."""
    inner = {name[len(DICTIONARY) :]: array for name, array in arrays.items() if name.startswith(DICTIONARY)}
    d = Dictionary.from_parts(inner, content["dictionary"], kernel)
    given = state.parameters(cls, content["parameters"])
    model = cls(**given)
    if "dictionary" in cls._get_param_names():
        model.set_params(kernel=d.kernel)
    model.dictionary_ = d
    restore_columns(model, content["n_features"], content["feature_names"], _columns_of(d))
    restore_curves(model, arrays)
    return model, state.checked(cls._state, arrays, content, m=len(d))


def _columns_of(d: Dictionary) -> int | None:
    """Return how many columns the rows of a learner with this dictionary have; None where they have none."""
    return width_of(d.atoms) if d.preprocessing is None else d.preprocessing.n_features


def restore_columns(model: Any, count: Any, names: Any, expected: int | None) -> None:
    """Give a loaded model the number of its columns and their names, which must be as many as its rows have."""
    if count is not None:
        if type(count) is not int or count != expected:
            raise ValueError(f"it says {count!r} columns, and its rows have {expected}")
        model.n_features_in_ = count
    if names is not None:
        if not isinstance(names, list) or len(names) != count or not all(isinstance(name, str) for name in names):
            raise ValueError("the names of its columns do not fit")
        model.feature_names_in_ = np.array(names, dtype=object)
