"""Kernels of the inner product of two rows: Polynomial, Linear."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from squeak.core.kernels.base import Kernel
from squeak.core.kernels.width import checked_width, scaled
from squeak.core.types import Array, Rows


class Polynomial(Kernel):
    """Polynomial kernel.

    k(x, y) = (⟨x, y⟩/length_scale² + offset)^degree.

    Parameters
    ----------
    degree : int
    length_scale : float or array of shape (d,)
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

    def __init__(self, degree: int = 3, length_scale: float | Array = 1.0, offset: float = 1.0) -> None:
        self.degree = degree
        self.length_scale = length_scale
        self.offset = offset

    def _check(self) -> None:
        if not (self.degree >= 1 and int(self.degree) == self.degree):
            raise ValueError(f"degree must be a whole number from 1 on; it is {self.degree!r}")
        if not self.offset >= 0:
            raise ValueError(f"offset must not be negative (the kernel would not be PSD): {self.offset!r}")

    def _raise_to_degree(self, products: Array) -> Array:
        products += self.offset
        if self.degree != 1:
            np.power(products, int(self.degree), out=products)
        return products

    def _block(self, X: Rows, Y: Rows) -> Array:
        self._check()
        width = checked_width(self, X.shape[1])
        X, Y = scaled(X, width), scaled(Y, width)
        if sp.issparse(X) or sp.issparse(Y):
            return self._raise_to_degree(np.asarray((sp.csr_array(X) @ sp.csr_array(Y).T).toarray()))
        return self._raise_to_degree(X @ Y.T)

    def _diag(self, X: Rows) -> Array:
        self._check()
        X = scaled(X, checked_width(self, X.shape[1]))
        if sp.issparse(X):
            return self._raise_to_degree(np.asarray(X.power(2).sum(axis=1)).ravel())
        return self._raise_to_degree(np.einsum("ij,ij->i", X, X))


class Linear(Polynomial):
    """Linear kernel.

    k(x, y) = ⟨x, y⟩/length_scale² + offset.

    Parameters
    ----------
    length_scale : float or array of shape (d,)
    offset : float

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import Linear
    >>> Linear()(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[11.]])
    """

    degree = 1

    def __init__(self, length_scale: float | Array = 1.0, offset: float = 0.0) -> None:
        self.length_scale = length_scale
        self.offset = offset
