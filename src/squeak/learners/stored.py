"""Fitted learners as arrays and JSON data: the dictionary, what was solved for, and the plain parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core.dictionary import Dictionary

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
    for name in CURVES:
        if f"curve_{name}" in arrays:
            setattr(model, name, arrays[f"curve_{name}"])


def learner_to_parts(
    model: Any, arrays: dict[str, Any], content: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a learner's arrays and description with those of its dictionary, and its parameters that are data."""
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
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return the learner with its dictionary and parameters, and the arrays and content that are its own."""
    inner = {name[len(DICTIONARY) :]: array for name, array in arrays.items() if name.startswith(DICTIONARY)}
    d = Dictionary.from_parts(inner, content["dictionary"], kernel)
    known = cls._get_param_names()
    model = cls(**{name: value for name, value in content["parameters"].items() if name in known})
    if "dictionary" in known:
        model.set_params(kernel=d.kernel)
    model.dictionary_ = d
    if content["n_features"] is not None:
        model.n_features_in_ = int(content["n_features"])
    if content["feature_names"] is not None:
        model.feature_names_in_ = np.array([str(name) for name in content["feature_names"]], dtype=object)
    restore_curves(model, arrays)
    own = {name: array for name, array in arrays.items() if not name.startswith(DICTIONARY)}
    return model, own, content
