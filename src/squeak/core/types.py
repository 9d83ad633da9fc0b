"""Names for the shapes of data that travel between the rooms."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
"""A float64 array: every score, weight and factor."""

Floats: TypeAlias = NDArray[np.floating[Any]]
"""An array of float32 or float64: where half the digits will do."""

IntArray: TypeAlias = NDArray[np.int64]
"""Row numbers and counts."""

BoolArray: TypeAlias = NDArray[np.bool_]
"""Yes or no for each of some things."""

Rows: TypeAlias = Any
"""Rows as a kernel takes them: dense (n, d) float32 or float64, a CSR matrix, or a list of objects."""
