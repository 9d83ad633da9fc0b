"""Kernels of the inner product of two rows: Polynomial, Linear."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from squeak.core.kernels.base import Kernel
from squeak.core.types import Array, Rows


class Polynomial(Kernel):
    """Polynomial kernel.

    k(x, y) = (⟨x, y⟩/length_scale² + offset)^degree.

    Parameters
    ----------
    degree : int
    length_scale : float
        scikit-learn's ``gamma`` is 1/length_scale².
    offset : float
        Not negative; scikit-learn's ``coef0``.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import Polynomial
    >>> Polynomial(degree=2)(np.array([[1.0], [2.0]]))
    array([[ 4.,  9.],
           [ 9., 25.]])
    """

    def __init__(self, degree: int = 3, length_scale: float = 1.0, offset: float = 1.0) -> None:
        self.degree = degree
        self.length_scale = length_scale
        self.offset = offset

    def _check(self) -> None:
        if int(self.degree) != self.degree or self.degree < 1:
            raise ValueError(f"degree must be a whole number from 1 on; it is {self.degree!r}")
        if not self.length_scale > 0:
            raise ValueError(f"length_scale must be positive; it is {self.length_scale!r}")
        if not self.offset >= 0:
            raise ValueError(f"offset must not be negative (the kernel would not be PSD): {self.offset!r}")

    def _raise_to_degree(self, products: Array) -> Array:
        products /= self.length_scale**2
        products += self.offset
        if self.degree != 1:
            np.power(products, int(self.degree), out=products)
        return products

    def _block(self, X: Rows, Y: Rows) -> Array:
        self._check()
        if sp.issparse(X) or sp.issparse(Y):
            product = sp.csr_array(X).astype(np.float64) @ sp.csr_array(Y).astype(np.float64).T
            return self._raise_to_degree(np.asarray(product.toarray()))
        return self._raise_to_degree(np.asarray(X, dtype=np.float64) @ np.asarray(Y, dtype=np.float64).T)

    def _diag(self, X: Rows) -> Array:
        self._check()
        if sp.issparse(X):
            squares = np.asarray(X.astype(np.float64).power(2).sum(axis=1)).ravel()
        else:
            wide = np.asarray(X, dtype=np.float64)
            squares = np.einsum("ij,ij->i", wide, wide)
        return self._raise_to_degree(squares)


class Linear(Polynomial):
    """Linear kernel.

    k(x, y) = ⟨x, y⟩/length_scale² + offset.

    Parameters
    ----------
    length_scale : float
    offset : float

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import Linear
    >>> Linear()(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[11.]])
    """

    degree = 1

    def __init__(self, length_scale: float = 1.0, offset: float = 0.0) -> None:
        self.length_scale = length_scale
        self.offset = offset
