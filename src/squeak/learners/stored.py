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


def learner_to_parts(
    model: Any, arrays: dict[str, Any], content: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a learner's arrays and description with those of its dictionary, and its parameters that are data."""
    inner, described = model.dictionary_.to_parts()
    arrays = {**arrays, **{DICTIONARY + name: array for name, array in inner.items()}}
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
    own = {name: array for name, array in arrays.items() if not name.startswith(DICTIONARY)}
    return model, own, content
