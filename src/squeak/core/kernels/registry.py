"""Kernels as plain data: a name from a fixed list and its numbers. Nothing is ever imported by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core.kernels.algebra import Constant, Product, Scaled, Sum
from squeak.core.kernels.base import Kernel, block, diagonal
from squeak.core.kernels.inner import Linear, Polynomial
from squeak.core.kernels.metric import Metric
from squeak.core.kernels.pairwise import PairwiseKernel
from squeak.core.kernels.radial import RBF, Laplacian, Matern
from squeak.core.rows import take
from squeak.core.types import Rows

OURS: dict[str, type[Kernel]] = {
    cls.__name__: cls
    for cls in (RBF, Laplacian, Matern, Polynomial, Linear, Sum, Product, Scaled, Constant, Metric)
}
THEIRS = (
    "RBF",
    "Matern",
    "RationalQuadratic",
    "ExpSineSquared",
    "DotProduct",
    "ConstantKernel",
    "WhiteKernel",
    "Sum",
    "Product",
    "Exponentiation",
)


def kernel_to_data(kernel: Any) -> dict[str, Any] | None:
    """Return the kernel as JSON data, or None for one that is code (PairwiseKernel, unknown classes)."""
    name = type(kernel).__name__
    if isinstance(kernel, PairwiseKernel):
        return None
    if isinstance(kernel, Kernel):
        known = OURS.get(name) is type(kernel)
        origin = "squeak"
    else:
        known = type(kernel).__module__ == "sklearn.gaussian_process.kernels" and name in THEIRS
        origin = "scikit-learn"
    if not known:
        return None
    params = {key: _value_to_data(value) for key, value in kernel.get_params(deep=False).items()}
    if any(value is _CODE for value in params.values()):
        return None
    return {"origin": origin, "name": name, "params": params}


_CODE: Any = object()


def _value_to_data(value: Any) -> Any:
    if isinstance(value, np.number):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return {"number": repr(value)}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, list):
        return [_value_to_data(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_value_to_data(item) for item in value]}
    inner = kernel_to_data(value) if hasattr(value, "get_params") else None
    return _CODE if inner is None else {"kernel": inner}


def kernel_from_data(data: Any, depth: int = 0) -> Any:
    """Return the kernel that :func:`kernel_to_data` described; anything unexpected is a ValueError."""
    if depth > 20 or not isinstance(data, dict) or set(data) != {"origin", "name", "params"}:
        raise ValueError("the kernel's description is damaged")
    origin, name, params = data["origin"], data["name"], data["params"]
    cls: Any
    if origin == "squeak" and name in OURS:
        cls = OURS[name]
    elif origin == "scikit-learn" and name in THEIRS:
        import sklearn.gaussian_process.kernels as theirs

        cls = getattr(theirs, name)
    else:
        raise ValueError(f"no kernel is known by the name {name!r} of {origin!r}")
    if not isinstance(params, dict):
        raise ValueError("the kernel's parameters are damaged")
    try:
        return cls(**{key: _value_from_data(value, depth) for key, value in params.items()})
    except TypeError as error:
        raise ValueError(f"the kernel's parameters are damaged: {error}") from None


def check_stored(kernel: Any, rows: Rows) -> Any:
    """Return a kernel from a file if it gives finite values on a few of its rows; else raise what it raises.

    A kernel checks its parameters when it is called, so this is where those of a file are checked.
    """
    few = take(rows, slice(0, 2))
    if not isinstance(few, list) and not (
        np.isfinite(diagonal(kernel, few)).all() and np.isfinite(block(kernel, few, few)).all()
    ):
        raise ValueError(f"{kernel!r} gives values that are not finite")
    return kernel


def _value_from_data(value: Any, depth: int) -> Any:
    if isinstance(value, dict):
        if set(value) == {"array"}:
            return np.asarray(value["array"], dtype=np.float64)
        if set(value) == {"tuple"} and isinstance(value["tuple"], list):
            return tuple(_value_from_data(item, depth + 1) for item in value["tuple"])
        if set(value) == {"number"} and value["number"] in ("inf", "-inf"):
            return float(value["number"])
        if set(value) == {"kernel"}:
            return kernel_from_data(value["kernel"], depth + 1)
        raise ValueError("the kernel's parameters are damaged")
    if isinstance(value, list):
        return [_value_from_data(item, depth + 1) for item in value]
    return value
