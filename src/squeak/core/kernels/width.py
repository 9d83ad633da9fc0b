"""A kernel's width: a number, or one a column."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core.types import Array, Rows


def checked_width(kernel: Any, columns: int | None = None) -> Array:
    """Return the checked width: a positive scalar, or one positive number a column."""
    if isinstance(kernel.length_scale, str):
        raise ValueError(f"{kernel!r} has no width yet: it is learned from rows by kernel.resolve(X), or at fit")
    try:
        width = np.asarray(kernel.length_scale, dtype=np.float64)
    except OverflowError:  # a whole number beyond all floats
        width = np.asarray(np.inf)
    if width.ndim > 1 or not np.all(width > 0) or not np.all(np.isfinite(width)):
        raise ValueError(f"length_scale must be positive and finite; it is {kernel.length_scale!r}")
    if width.ndim == 1 and columns is not None and width.size != columns:
        raise ValueError(f"length_scale has {width.size} numbers for rows of {columns} columns")
    return width


def scaled(X: Rows, width: Array) -> Rows:
    """Return the rows in float64, divided by the width."""
    if sp.issparse(X):
        scale = np.broadcast_to(1.0 / width, (X.shape[1],))
        return sp.csr_array((X.data * scale[X.indices], X.indices, X.indptr), shape=X.shape)
    return np.asarray(X, dtype=np.float64) / width
