"""Kernels made of kernels: sums, products, scalings, and the constant."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core.kernels.base import Kernel, block, diagonal, gradients, resolve
from squeak.core.rows import n_rows
from squeak.core.types import Array, Rows


class _Pair(Kernel):
    """Two kernels under one sign; takes the rows that both of them take."""

    def __init__(self, first: Any, second: Any) -> None:
        self.first = first
        self.second = second

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        """Whether CSR rows are taken."""
        return all(getattr(k, "accepts_sparse", False) for k in (self.first, self.second))

    @property
    def requires_vector_input(self) -> bool:  # type: ignore[override]
        """Whether rows must be vectors."""
        return any(getattr(k, "requires_vector_input", True) for k in (self.first, self.second))

    def resolve(self, X: Rows) -> Kernel:
        """Return the pair with both widths learned from ``X``.

        Returns
        -------
        kernel
        """
        return type(self)(resolve(self.first, X), resolve(self.second, X))

    def is_stationary(self) -> bool:
        """Tell whether both kernels are.

        Returns
        -------
        bool
        """
        return bool(self.first.is_stationary() and self.second.is_stationary())


class Sum(_Pair):
    """Sum of two kernels: k(x, y) = first(x, y) + second(x, y).

    Parameters
    ----------
    first, second : kernel

    Examples
    --------
    >>> from squeak.kernels import RBF, Linear
    >>> RBF(1.0) + Linear()
    Sum(first=RBF(length_scale=1.0), second=Linear(length_scale=1.0, offset=0.0))
    """

    def _block(self, X: Rows, Y: Rows) -> Array:
        values = block(self.first, X, Y)
        values += block(self.second, X, Y)
        return values

    def _diag(self, X: Rows) -> Array:
        return diagonal(self.first, X) + diagonal(self.second, X)

    def _gradients(self, X: Array, Y: Array, coef: Array) -> Array:
        return gradients(self.first, X, Y, coef) + gradients(self.second, X, Y, coef)


class Product(_Pair):
    """Product of two kernels: k(x, y) = first(x, y) · second(x, y).

    Parameters
    ----------
    first, second : kernel

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import Linear
    >>> (Linear() * Linear(offset=1.0))(np.array([[2.0]]))
    array([[20.]])
    """

    def _block(self, X: Rows, Y: Rows) -> Array:
        values = block(self.first, X, Y)
        values *= block(self.second, X, Y)
        return values

    def _diag(self, X: Rows) -> Array:
        return diagonal(self.first, X) * diagonal(self.second, X)


class Scaled(Kernel):
    """A kernel times a positive number: k(x, y) = factor · kernel(x, y).

    Parameters
    ----------
    kernel : kernel
    factor : float

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> (3.0 * RBF(1.0)).diag(np.zeros((2, 1)))
    array([3., 3.])
    """

    def __init__(self, kernel: Any, factor: float = 1.0) -> None:
        self.kernel = kernel
        self.factor = factor

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        """Whether CSR rows are taken."""
        return bool(getattr(self.kernel, "accepts_sparse", False))

    @property
    def requires_vector_input(self) -> bool:  # type: ignore[override]
        """Whether rows must be vectors."""
        return bool(getattr(self.kernel, "requires_vector_input", True))

    def _positive(self) -> float:
        if not (self.factor > 0 and np.isfinite(self.factor)):
            raise ValueError(f"a kernel may be scaled by a positive number only, not by {self.factor!r}")
        return float(self.factor)

    def _block(self, X: Rows, Y: Rows) -> Array:
        values = block(self.kernel, X, Y)
        values *= self._positive()
        return values

    def _diag(self, X: Rows) -> Array:
        return diagonal(self.kernel, X) * self._positive()

    def _gradients(self, X: Array, Y: Array, coef: Array) -> Array:
        return gradients(self.kernel, X, Y, coef * self._positive())

    def resolve(self, X: Rows) -> Kernel:
        """Return the scaled kernel with its width learned from ``X``.

        Returns
        -------
        kernel
        """
        return Scaled(resolve(self.kernel, X), self.factor)

    def is_stationary(self) -> bool:
        """Tell whether the kernel inside is.

        Returns
        -------
        bool
        """
        return bool(self.kernel.is_stationary())


class Constant(Kernel):
    """The same value for every pair of rows: k(x, y) = value. A learner's intercept, in kernel form.

    Parameters
    ----------
    value : float

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import Linear
    >>> (Linear() + 1.0)(np.array([[2.0]]))
    array([[5.]])
    """

    requires_vector_input = False

    def __init__(self, value: float = 1.0) -> None:
        self.value = value

    def _filled(self, shape: tuple[int, ...]) -> Array:
        if not (self.value >= 0 and np.isfinite(self.value)):
            raise ValueError(f"a constant kernel must not be negative; it is {self.value!r}")
        return np.full(shape, float(self.value))

    def _block(self, X: Rows, Y: Rows) -> Array:
        return self._filled((n_rows(X), n_rows(Y)))

    def _diag(self, X: Rows) -> Array:
        return self._filled((n_rows(X),))

    def is_stationary(self) -> bool:
        """Return True.

        Returns
        -------
        bool
        """
        return True
