"""Any function of two objects as a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from squeak.core.kernels.base import Kernel
from squeak.core.rows import n_rows
from squeak.core.types import Array, Rows


class PairwiseKernel(Kernel):
    """A kernel from a function of two objects: strings, graphs, or rows.

    k(x, y) = function(x, y). Rows may be any sequence. The function is called once a pair, in Python, so
    this is for objects that no array can hold. It must be symmetric and positive semi-definite; where
    it is found not to be, the sampler says so.

    Parameters
    ----------
    function : callable
        Takes two objects and returns a number.

    Notes
    -----
    A function is code and is never stored in a file: loading a dictionary that was learned with one asks
    for it again, ``Dictionary.load(path, kernel=PairwiseKernel(f))``.

    Examples
    --------
    >>> from squeak.kernels import PairwiseKernel
    >>> def shared_letters(a, b):
    ...     return len(set(a) & set(b))
    >>> PairwiseKernel(shared_letters)(["squeak", "quack"])
    array([[6., 4.],
           [4., 5.]])
    """

    accepts_sparse = False
    requires_vector_input = False

    def __init__(self, function: Callable[[Any, Any], float]) -> None:
        self.function = function

    def __sklearn_clone__(self) -> PairwiseKernel:
        return PairwiseKernel(self.function)  # the function itself: a copy would not compare equal

    def _block(self, X: Rows, Y: Rows) -> Array:
        values = np.empty((n_rows(X), n_rows(Y)))
        for i, x in enumerate(X):
            for j, y in enumerate(Y):
                values[i, j] = self.function(x, y)
        if not np.isfinite(values).all():
            raise ValueError(f"{self!r} returned a value that is not finite")
        return values

    def _diag(self, X: Rows) -> Array:
        return np.array([self.function(x, x) for x in X], dtype=np.float64)

    def _gram(self, X: Rows) -> Array:
        values = self._block(X, X)
        gap = np.abs(values - values.T).max()
        if gap > 1e-9 * np.abs(values).max():
            raise ValueError(f"{self!r} is not symmetric: k(x, y) and k(y, x) differ by {gap:.3g}")
        return (values + values.T) / 2
