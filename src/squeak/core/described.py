"""Kernels and the parameters of estimators as JSON data."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core import state, storage
from squeak.core.kernels.registry import kernel_from_data, kernel_to_data


def stored_kernel(kernel: Any) -> dict[str, Any]:
    """Return a kernel for a file: its data, or None where it is code, and its words."""
    return {"kernel": kernel_to_data(kernel), "kernel_repr": repr(kernel)}


def restored_kernel(content: dict[str, Any], given: Any) -> Any:
    """Return the kernel from a file, or the one given where the file's was code."""
    if content["kernel"] is None:
        if given is None:
            raise storage.NotStoredError(
                f"its kernel {content.get('kernel_repr')} is code and is not stored; pass it: kernel=..."
            )
        return given
    stored = kernel_from_data(content["kernel"])
    if given is not None and stored != given:
        raise storage.NotStoredError(f"it was learned with {stored!r}, not with {given!r}")
    return stored


def params_to_data(estimator: Any) -> dict[str, Any]:
    """Return an estimator's parameters as JSON data; a random state that is no int is left out, for it was used."""
    params: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        if name == "kernel":
            params[name] = None if value is None else stored_kernel(value)
        elif name == "random_state":
            params[name] = int(value) if isinstance(value, int | np.integer) else None
        elif callable(value):
            raise TypeError(f"{name} is code, which is never stored: a run with a schedule can have no checkpoint")
        else:  # JSON has no tuples, and what is read again must be equal
            params[name] = [state.plain(one) for one in value] if isinstance(value, tuple) else state.plain(value)
    return params


def estimator_from(cls: Any, params: dict[str, Any], kernel: Any = None) -> Any:
    """Return an unfitted estimator with the parameters that :func:`params_to_data` gave.

    ``kernel``: needed where its kernel is code.
    """
    params = dict(params)
    own = params.pop("kernel")
    if own is not None:
        own = restored_kernel(own, kernel if own["kernel"] is None else None)
    return cls(kernel=own, **state.parameters(cls, params))
