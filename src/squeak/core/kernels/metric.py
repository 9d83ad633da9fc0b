"""A kernel of rows that pass through a linear map first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from squeak.core.kernels.base import Kernel, against, against32, block, diagonal, gradients, resolve
from squeak.core.types import Array, Rows


class Metric(Kernel):
    """A kernel in another metric: k(x, y) = kernel(T·x, T·y) for a linear map T.

    With a radial kernel the distance becomes ‖x − y‖_M with M = TᵀT, so directions that do not matter to a target
    are made short and those that do are made long. A diagonal T is one width for each column, which
    ``length_scale`` can hold as well; a full T also turns the axes.

    Parameters
    ----------
    kernel : kernel
        A kernel of vectors, such as ``RBF(1.0)``.
    T : array of shape (r, d), optional
        Rows of d columns become rows of r columns. None, with ``length_scale="learned"`` in the kernel: a learner
        that knows targets learns the map from how its model changes; elsewhere it is the identity.

    References
    ----------
    Radhakrishnan, Beaglehole, Pandit and Belkin, "Mechanism for feature learning in neural networks and
    backpropagation-free machine learning models", Science 383 (2024): the matrix M of recursive feature machines.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF, Metric
    >>> X = np.array([[0.0, 5.0], [1.0, -3.0]])
    >>> only_the_first_column = Metric(RBF(1.0), np.array([[1.0, 0.0]]))
    >>> np.allclose(only_the_first_column(X), RBF(1.0)(X[:, :1]))
    True
    """

    def __init__(self, kernel: Any, T: Any = None) -> None:
        self.kernel = kernel
        self.T = T

    @property
    def fast_float32(self) -> bool:  # type: ignore[override]
        """Whether values in float32 take less time than in float64."""
        return bool(getattr(self.kernel, "fast_float32", False))

    def _map(self, columns: int) -> Array:
        if self.T is None:
            raise ValueError("this Metric has no map yet: fit a learner, which learns it, or give T")
        T = np.asarray(self.T, dtype=np.float64)
        if T.ndim != 2 or T.size == 0 or not np.isfinite(T).all():
            raise ValueError(f"T must be a matrix of finite numbers; its shape is {T.shape}")
        if T.shape[1] != columns:
            raise ValueError(f"T maps rows of {T.shape[1]} columns, and these rows have {columns}")
        return T

    def mapped(self, X: Rows) -> Array:
        """Return the rows T·x in float64.

        Parameters
        ----------
        X : array or CSR of shape (n, d)

        Returns
        -------
        array of shape (n, r)
        """
        T = self._map(X.shape[1])
        return np.asarray(sp.csr_array(X) @ T.T if sp.issparse(X) else np.asarray(X, dtype=np.float64) @ T.T)

    def resolve(self, X: Rows) -> Kernel:
        """Return the kernel with a width that is to be learned fixed on the mapped rows.

        Parameters
        ----------
        X : rows

        Returns
        -------
        kernel
        """
        if self.T is None:
            return cast(Kernel, resolve(self.kernel, X))
        return Metric(resolve(self.kernel, self.mapped(X)), self.T)

    def is_stationary(self) -> bool:
        """Tell whether values depend on x − y only.

        Returns
        -------
        bool
        """
        return bool(self.kernel.is_stationary())

    def _block(self, X: Rows, Y: Rows) -> Array:
        return block(self.kernel, self.mapped(X), self.mapped(Y))

    def _against(self, Y: Rows) -> Callable[[Rows], Array]:
        inner = against(self.kernel, self.mapped(Y))
        return lambda X: inner(self.mapped(X))

    def against32(self, Y: Rows) -> Callable[..., Any]:
        """Return the function (X, out) ↦ k(X, Y) in float32.

        Parameters
        ----------
        Y : rows

        Returns
        -------
        function
        """
        inner = against32(self.kernel, self.mapped(Y))
        return lambda X, out=None: inner(self.mapped(X), out)

    def _diag(self, X: Rows) -> Array:
        return diagonal(self.kernel, self.mapped(X))

    def _gradients(self, X: Array, Y: Array, coef: Array) -> Array:
        inner = gradients(self.kernel, self.mapped(X), self.mapped(Y), coef)
        return np.asarray(np.einsum("nrq,rd->ndq", inner, self._map(X.shape[1]), optimize=True))
