"""Kernels of the distance between two rows: RBF, Laplacian, Matern."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import get_blas_funcs
from scipy.spatial.distance import cdist, pdist

from squeak.core import engine
from squeak.core.kernels.base import Kernel
from squeak.core.kernels.single import GaussianValues
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

COLUMNS = 256
"""Columns of CSR rows that are made dense at a time."""

NEAR = 1e-7
"""Squared distances below this part of the squared norms have lost half their digits."""

PAIRS = 16_384
"""Pairs of CSR rows whose difference is taken at a time."""


class _Radial(Kernel):
    """A kernel of ‖(x − y)/length_scale‖; holds the width and its median rule."""

    _metric = "euclidean"

    def __init__(self, length_scale: float | Array | str = 1.0) -> None:
        self.length_scale = length_scale

    def resolve(self, X: Rows) -> Kernel:
        """Return the kernel with ``"median"`` replaced by the median distance between rows of ``X``.

        So are ``"auto"`` and ``"learned"`` here; learners that know targets begin there.

        The median is over the pairs of at most 1,000 evenly spaced rows, pairs of equal rows left out.

        Returns
        -------
        kernel
        """
        if not isinstance(self.length_scale, str):
            checked_width(self)
            return self
        if self.length_scale not in ("median", "auto", "learned"):
            raise ValueError(
                "length_scale must be a number, a vector, 'median', 'auto' or 'learned'; "
                f"it is {self.length_scale!r}"
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
        """Return True.

        Returns
        -------
        bool
        """
        return True

    def _diag(self, X: Rows) -> Array:
        return np.ones(n_rows(X))

    def _slopes(self, X: Array, Y: Array) -> Array:
        """Return s(x, y) with ∇ₓ k(x, y) = s(x, y)·(x − y)/length_scale²."""
        raise TypeError(f"{type(self).__name__} has no gradient of this form")

    def _gradients(self, X: Array, Y: Array, coef: Array) -> Array:
        width = checked_width(self, X.shape[1])
        centre = Y.mean(axis=0)  # slopes times differences would cancel beside a large offset
        left, right = (X - centre) / width, (Y - centre) / width
        m, d, outputs = len(Y), X.shape[1], coef.shape[1]
        # Σ_j c_j s_ij (x_i − z_j) = (Σ_j s_ij c_j)·x_i − Σ_j s_ij c_j z_j: one product for all outputs
        sides = np.empty((m, d + 1, outputs))
        np.multiply(right[:, :, None], coef[:, None, :], out=sides[:, :d])
        sides[:, d] = coef
        sums = (self._slopes(X, Y) @ sides.reshape(m, -1)).reshape(len(X), d + 1, outputs)
        gradients = left[:, :, None] * sums[:, d:]
        gradients -= sums[:, :d]
        gradients /= width.reshape(-1, 1) if width.ndim else width
        return np.asarray(gradients)


def _half_squared_distances(X: Rows, Y: Rows, width: Array) -> Array:
    """Return −‖x − y‖²/(2·width²), shape (len(X), len(Y)), never positive.

    Dense rows are centred first, for the expansion of the square loses what the rows have in common; the
    two squared norms ride along as two more columns, so that one matrix product does all the work. Centred CSR rows
    would not be sparse: of those, only the columns with large numbers are made dense.
    """
    if not (sp.issparse(X) or sp.issparse(Y)):
        return _to_fixed_rows(X, _FixedRows(Y, width))
    small_X, small_Y, large = _apart(X, Y, width)
    values = np.asarray((small_X @ small_Y.T).toarray(), dtype=np.float64)
    values -= 0.5 * np.asarray(small_X.power(2).sum(axis=1)).reshape(-1, 1)
    values -= 0.5 * np.asarray(small_Y.power(2).sum(axis=1)).reshape(1, -1)
    for some_X, some_Y, widths in large:
        values += _to_fixed_rows(some_X, _FixedRows(some_Y, widths))
    return np.minimum(values, 0.0, out=values)


def _apart(X: Rows, Y: Rows, width: Array) -> tuple[Any, Any, Iterator[tuple[Array, Array, Array]]]:
    """Return CSR rows over the width without the columns that hold large numbers, and those columns, dense.

    Large is what keeps some row from lying near zero, as :data:`FAR` says: an offset, a date. Often nothing is.
    """
    X, Y = sp.csr_array(X), sp.csr_array(Y)
    small = [scaled(rows, width) for rows in (X, Y)]
    with np.errstate(over="ignore"):
        half = 0.5 * max(float(rows.power(2).sum(axis=1).max(initial=0.0)) for rows in small)
    if half < FAR:
        return small[0], small[1], iter(())
    most = max(int(np.diff(rows.indptr).max(initial=0)) for rows in small)
    limit = np.sqrt(2.0 * FAR / most)
    large = np.unique(np.concatenate([rows.indices[np.abs(rows.data) > limit] for rows in small]))
    left = np.setdiff1d(np.arange(X.shape[1]), large)
    widths = np.broadcast_to(width, (X.shape[1],))
    parts = (large[few] for few in engine.tiles(large.size, COLUMNS))
    dense = ((X[:, some].toarray(), Y[:, some].toarray(), widths[some]) for some in parts)
    return small[0][:, left], small[1][:, left], dense


def _sparse_distances(X: Rows, Y: Rows, width: Array) -> Array:
    """Return Euclidean distances of CSR rows over the width; of rows that nearly coincide, from differences."""
    values = _half_squared_distances(X, Y, width)
    values *= -2.0
    X, Y = sp.csr_array(X, dtype=np.float64), sp.csr_array(Y, dtype=np.float64)
    with np.errstate(over="ignore"):
        largest = max(float(scaled(rows, width).power(2).sum(axis=1).max(initial=0.0)) for rows in (X, Y))
    i, j = np.nonzero(values < NEAR * min(largest, FAR))
    for few in engine.tiles(len(i), PAIRS):
        difference = scaled(X[i[few]] - Y[j[few]], width)
        values[i[few], j[few]] = np.asarray(difference.power(2).sum(axis=1)).ravel()
    return np.sqrt(values, out=values)


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
        self.scaled, self.half = right[:, :d].copy(), right[:, d + 1].copy()
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
            row: Array = fixed.scaled.dot(x) + fixed.half
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
            values = -0.5 * _from_differences(X, fixed.rows, fixed.width, "sqeuclidean")
    return np.asarray(np.minimum(values, 0.0, out=values))


def _from_differences(X: Array, Y: Array, width: Array, metric: str) -> Array:
    """Return distances of dense rows over the width, from differences: exact for rows that nearly coincide.

    Before the difference rows are divided by a power of two, which rounds nothing; by the rest of the width after.
    """
    power = np.exp2(np.floor(np.log2(width)))
    rest = 1.0 / (width / power) ** (1 if metric == "cityblock" else 2)
    weights = None if rest.ndim == 0 else rest
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.asarray(cdist(X / power, Y / power, metric, w=weights), dtype=np.float64)
    if np.isnan(values).any():
        raise ValueError("rows divided by length_scale overflow float64: scale the columns first")
    if weights is None:
        values *= np.sqrt(rest) if metric == "euclidean" else rest
    return values


def _distances(X: Rows, Y: Rows, width: Array, metric: str) -> Array:
    """Return the distances of rows over the width, from differences: exact for rows that nearly coincide."""
    if not (sp.issparse(X) or sp.issparse(Y)):
        return _from_differences(X, Y, width, metric)
    if metric == "euclidean":
        return _sparse_distances(X, Y, width)
    from sklearn.metrics.pairwise import manhattan_distances

    small_X, small_Y, large = _apart(X, Y, width)
    values = np.asarray(manhattan_distances(_narrow(small_X), _narrow(small_Y)), dtype=np.float64)
    for some_X, some_Y, widths in large:
        values += _from_differences(some_X, some_Y, widths, metric)
    return values


def _narrow(rows: Any) -> Any:
    """Return CSR rows as scikit-learn's loop over them takes them: places in 32 bits, as files do not have them."""
    places = rows.indices.astype(np.int32, copy=False), rows.indptr.astype(np.int32, copy=False)
    return sp.csr_matrix((rows.data, *places), shape=rows.shape)


class RBF(_Radial):
    """Gaussian kernel: two rows are similar if their distance is small compared with the width.

    k(x, y) = exp(−‖x − y‖² / (2·length_scale²)). If ``length_scale`` is a vector, the difference in each column is
    divided by its own width.

    Parameters
    ----------
    length_scale : float, array of shape (d,), "median", "auto" or "learned"
        The width. "median" is the median distance between two of the first rows. "auto" is the same, but a learner
        that knows targets takes the multiple of it with the least leave-one-out error. "learned" gives each column
        a width of its own, from how much a model of the targets changes along it.

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

    fast_float32 = True

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

    def against32(self, Y: Rows) -> Callable[..., Any]:
        """Return the function (X, out) ↦ k(X, Y) in float32.

        Returns
        -------
        function
        """
        dense = isinstance(Y, np.ndarray)
        return GaussianValues(Y, checked_width(self, Y.shape[1]), self._against) if dense else super().against32(Y)

    def _slopes(self, X: Array, Y: Array) -> Array:
        values = self._block(X, Y)
        return np.negative(values, out=values)


class Laplacian(_Radial):
    """Laplacian kernel, of the L1 distance as in scikit-learn.

    k(x, y) = exp(−‖x − y‖₁ / length_scale).

    Parameters
    ----------
    length_scale : float, array of shape (d,), "median", "auto" or "learned"
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

    def _gradients(self, X: Array, Y: Array, coef: Array) -> Array:
        values = self._block(X, Y)
        width = np.broadcast_to(checked_width(self, X.shape[1]), (X.shape[1],))
        gradients = np.empty((len(X), X.shape[1], coef.shape[1]))
        for column in range(X.shape[1]):  # ∂k/∂x_j = −sign(x_j − z_j)·k/length_scale_j, 0 where they are equal
            signs = np.sign(Y[:, column] - X[:, [column]])
            signs *= values
            gradients[:, column] = signs @ coef / width[column]
        return gradients


class Matern(_Radial):
    """Matérn kernel with half-integer smoothness.

    With r = ‖x − y‖/length_scale: exp(−r) for nu = 1/2, (1 + √3·r)·exp(−√3·r) for 3/2, and
    (1 + √5·r + 5r²/3)·exp(−√5·r) for 5/2.

    Parameters
    ----------
    length_scale : float, array of shape (d,), "median", "auto" or "learned"
        As for :class:`RBF`.
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

    def _slopes(self, X: Array, Y: Array) -> Array:
        width = checked_width(self, X.shape[1])
        r = _distances(X, Y, width, "euclidean") * np.sqrt(2.0 * self.nu)
        decay = np.exp(-r)
        if self.nu == 0.5:  # −exp(−r)/r; the kernel has no gradient at r = 0, its mean over directions is 0
            return np.asarray(-np.divide(decay, r, out=np.zeros_like(r), where=r > 0))
        return np.asarray(-3.0 * decay if self.nu == 1.5 else -5.0 / 3.0 * (1.0 + r) * decay)
