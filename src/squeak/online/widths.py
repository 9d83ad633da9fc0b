"""Kernels whose widths are learned from rows."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from squeak.core.kernels import Kernel


def needs_rows(kernel: Any) -> bool:
    """Tell whether a width of the kernel is to be learned from rows."""
    return isinstance(kernel, Kernel) and any(isinstance(value, str) for value in kernel.get_params().values())


def with_width_one(kernel: Any) -> Any:
    """Return a kernel with 1 for every width that is to be learned from rows."""
    widths = {name: 1.0 for name, value in kernel.get_params().items() if isinstance(value, str)}
    return clone(kernel, safe=False).set_params(**widths)
