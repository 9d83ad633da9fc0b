"""Kernels of the distance between two rows: RBF, Laplacian, Matern."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from scipy.linalg import get_blas_funcs
from scipy.spatial.distance import cdist, pdist

from squeak.core.kernels.base import Kernel
from squeak.core.kernels.width import checked_width, scaled
from squeak.core.rows import n_rows, take
from squeak.core.types import Array, Rows

_dot = get_blas_funcs("dot", dtype=np.float64)

MEDIAN_ROWS = 1000
"""At most this many rows, evenly spaced, enter the median distance."""


LARGE = 1e300
"""A squared norm from which no quick sum is tried."""

FAR = 1e5
"""Half the squared distance from the centre, in widths, from which differences are taken before squares."""


class _Radial(Kernel):
    """A kernel of ‖(x − y)/length_scale‖; holds the width and its median rule."""

    _metric = "euclidean"

    def __init__(self, length_scale: float | Array | str = 1.0) -> None:
        self.length_scale = length_scale

    def resolve(self, X: Rows) -> Kernel:
        """Return the kernel with ``"median"`` replaced by the median distance between rows of ``X``.

        So is ``"auto"`` here; learners that know targets search around it.

        The median is over the pairs of at most 1,000 evenly spaced rows, pairs of equal rows left out.
        """
        if not isinstance(self.length_scale, str):
            checked_width(self)
            return self
        if self.length_scale not in ("median", "auto"):
            raise ValueError(
                f"length_scale must be a number, a vector, 'median' or 'auto'; it is {self.length_scale!r}"
            )
        n = n_rows(X)
        sample = take(X, np.unique(np.linspace(0, n - 1, min(n, MEDIAN_ROWS)).astype(np.int64)))
        dense = sample.toarray() if sp.issparse(sample) else np.asarray(sample)
        distances = pdist(dense.astype(np.float64), metric=self._metric)
        distances = distances[distances > 0]
        if distances.size == 0:
            alike = "this is one sample" if n == 1 else f"all {n:,} are alike"
            raise ValueError(
                f"length_scale='median' needs two different rows in the first block, and {alike}; "
                "pass more rows at first, or give a number"
            )
        params = self.get_params(deep=False)
        params["length_scale"] = float(np.median(distances))
        return type(self)(**params)

    def is_stationary(self) -> bool:
        """Return True."""
        return True

    def _diag(self, X: Rows) -> Array:
        return np.ones(n_rows(X))


def _half_squared_distances(X: Rows, Y: Rows, width: Array) -> Array:
    """Return −‖x − y‖²/(2·width²), shape (len(X), len(Y)), never positive.

    Dense rows are centred first, for the expansion of the square loses what the rows have in common; the
    two squared norms ride along as two more columns, so that one matrix product does all the work.
    """
    if sp.issparse(X) or sp.issparse(Y):
        X, Y = sp.csr_array(scaled(X, width)), sp.csr_array(scaled(Y, width))
        values = np.asarray((X @ Y.T).toarray(), dtype=np.float64)
        values -= 0.5 * np.asarray(X.power(2).sum(axis=1)).reshape(-1, 1)
        values -= 0.5 * np.asarray(Y.power(2).sum(axis=1)).reshape(1, -1)
        return np.minimum(values, 0.0, out=values)
    return _to_fixed_rows(X, _FixedRows(Y, width))


class _FixedRows:
    """Dense rows as the right side of squared distances: centred, scaled, and with their squared norms."""

    def __init__(self, Y: Array, width: Array) -> None:
        d = Y.shape[1]
        # any row near the others will do as a centre; if it is not, the rows are found to be far
        self.centre = Y[len(Y) // 2].astype(np.float64)
        self.rows, self.width = Y, width
        right = np.empty((len(Y), d + 2))
        np.subtract(Y, self.centre, out=right[:, :d])
        right[:, :d] /= width
        with np.errstate(over="ignore", invalid="ignore"):
            right[:, d + 1] = -0.5 * np.einsum("ij,ij->i", right[:, :d], right[:, :d])
        right[:, d] = 1.0
        self.side = right.T
        self.scaled, self.half = right[:, :d], right[:, d + 1].copy()
        self.near = bool(right[:, d + 1].min() > -FAR)


def _to_fixed_rows(X: Array, fixed: _FixedRows) -> Array:
    """Return −‖x − y‖²/(2·width²) for dense rows against fixed ones."""
    d = X.shape[1]
    if len(X) == 1 and fixed.near:  # a stream of single rows: the same sums with fewer calls
        x = X[0] - fixed.centre
        norm = _dot(x, x)  # numpy's own would warn where the square overflows
        if norm < LARGE:
            x /= fixed.width
            norm = 0.5 * _dot(x, x)
        if norm < FAR:
            row: Array = fixed.scaled.dot(x)
            row += fixed.half
            row -= norm
            return np.minimum(row, 0.0, out=row)[None]
    left = np.empty((len(X), d + 2))
    scaled_rows = left[:, :d]
    with np.errstate(over="ignore", invalid="ignore"):
        np.subtract(X, fixed.centre, out=scaled_rows)
        scaled_rows /= fixed.width
        np.multiply(-0.5, np.einsum("ij,ij->i", scaled_rows, scaled_rows), out=left[:, d])
        left[:, d + 1] = 1.0
        if fixed.near and left[:, d].min() > -FAR:
            values: Array = left @ fixed.side
        else:  # squares would cancel or overflow: differences first, an overflow is then an infinite distance
            values = _no_overflow(-0.5 * cdist(X / fixed.width, fixed.rows / fixed.width, "sqeuclidean"))
    return np.asarray(np.minimum(values, 0.0, out=values))


def _no_overflow(values: Array) -> Array:
    if np.isnan(values).any():
        raise ValueError("rows divided by length_scale overflow float64: scale the columns first")
    return values


def _distances(X: Rows, Y: Rows, width: Array, metric: str) -> Array:
    """Return the distances of scaled rows, from differences: exact for rows that nearly coincide."""
    X, Y = scaled(X, width), scaled(Y, width)
    if sp.issparse(X) or sp.issparse(Y):
        from sklearn.metrics.pairwise import euclidean_distances, manhattan_distances

        far = manhattan_distances if metric == "cityblock" else euclidean_distances
        return np.asarray(far(sp.csr_matrix(X), sp.csr_matrix(Y)), dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.asarray(cdist(X, Y, metric), dtype=np.float64)
    return _no_overflow(values)


class RBF(_Radial):
    """Gaussian kernel.

    k(x, y) = exp(−‖x − y‖² / (2·length_scale²)), the square of each column divided by its own width when
    ``length_scale`` is a vector.

    Parameters
    ----------
    length_scale : float, array of shape (d,), "median" or "auto"
        "median" is learned from the first rows: the median distance between two of them. "auto" is the same, but
        a learner that knows targets takes the multiple of it with the least leave-one-out error.

    References
    ----------
    Thesis, section 2.2 (kernels with k(x, x) = 1).

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> RBF(2.0)(np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.607],
           [0.607, 1.   ]])
    """

    def _block(self, X: Rows, Y: Rows) -> Array:
        values = _half_squared_distances(X, Y, checked_width(self, X.shape[1]))
        return np.exp(values, out=values)

    def _against(self, Y: Rows) -> Callable[[Rows], Array]:
        if not isinstance(Y, np.ndarray):
            return super()._against(Y)
        fixed = _FixedRows(Y, checked_width(self, Y.shape[1]))

        def values_of(X: Rows) -> Array:
            if not isinstance(X, np.ndarray):
                return self._block(X, Y)
            values = _to_fixed_rows(X, fixed)
            return np.exp(values, out=values)

        return values_of


class Laplacian(_Radial):
    """Laplacian kernel, of the L1 distance as in scikit-learn.

    k(x, y) = exp(−‖x − y‖₁ / length_scale).

    Parameters
    ----------
    length_scale : float, array of shape (d,), or "median"
        scikit-learn's ``gamma`` is 1/length_scale. "median" is the median L1 distance.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import Laplacian
    >>> Laplacian(2.0)(np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]])).round(3)
    array([[0.368]])
    """

    _metric = "cityblock"

    def _block(self, X: Rows, Y: Rows) -> Array:
        values = _distances(X, Y, checked_width(self, X.shape[1]), "cityblock")
        np.negative(values, out=values)
        return np.exp(values, out=values)


class Matern(_Radial):
    """Matérn kernel with half-integer smoothness.

    With r = ‖x − y‖/length_scale: exp(−r) for nu = 1/2, (1 + √3·r)·exp(−√3·r) for 3/2, and
    (1 + √5·r + 5r²/3)·exp(−√5·r) for 5/2.

    Parameters
    ----------
    length_scale : float, array of shape (d,), or "median"
    nu : {0.5, 1.5, 2.5}

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import Matern
    >>> Matern(1.0, nu=1.5)(np.array([[0.0], [1.0]])).round(3)
    array([[1.   , 0.483],
           [0.483, 1.   ]])
    """

    def __init__(self, length_scale: float | Array | str = 1.0, nu: float = 1.5) -> None:
        super().__init__(length_scale)
        self.nu = nu

    def _block(self, X: Rows, Y: Rows) -> Array:
        width = checked_width(self, X.shape[1])
        if self.nu == 0.5:  # not smooth at r = 0: an error of 1e-8 in r would be one in the value
            values = _distances(X, Y, width, "euclidean")
            np.negative(values, out=values)
            return np.exp(values, out=values)
        if self.nu not in (1.5, 2.5):
            raise ValueError(f"nu must be 0.5, 1.5 or 2.5; it is {self.nu!r}")
        values = _half_squared_distances(X, Y, width)
        values *= -4.0 * self.nu
        r = np.sqrt(values, out=values)  # √(2·nu)·r
        polynomial = 1.0 + r
        if self.nu == 2.5:
            polynomial += r * r / 3.0
        np.negative(r, out=r)
        decay = np.exp(r, out=r)
        with np.errstate(invalid="ignore"):
            decay *= polynomial
        return np.nan_to_num(decay, copy=False, nan=0.0)  # an infinite distance: 0·∞
