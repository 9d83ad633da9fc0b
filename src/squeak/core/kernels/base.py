"""What every kernel of ours shares, and the three doors by which the library calls any kernel."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from squeak.core import engine
from squeak.core.kernels.single import rounded
from squeak.core.rows import check_rows, n_rows, take, width_of
from squeak.core.types import Array, Rows

if TYPE_CHECKING:
    from squeak.core.kernels.algebra import Product, Scaled, Sum

TILE = 1024
"""Rows of X evaluated at a time; fixed, so that values do not depend on the number of threads."""


LONG_NUMBER = re.compile(r"(?<![\w.])\d+\.\d{4,}(?:e[+-]?\d+)?")


class Kernel:
    """A positive semi-definite kernel on rows, in scikit-learn's Gaussian-process protocol.

    ``k(X, Y)`` is the matrix of values, ``k.diag(X)`` the diagonal of ``k(X, X)``. Kernels are values: they
    compare equal when their class and parameters do, and can be added, multiplied and scaled. A subclass
    gives ``_block`` and ``_diag`` in float64; blocks, threads and dtypes are handled here.
    """

    accepts_sparse: bool = True
    requires_vector_input: bool = True
    fast_float32: bool = False
    """Whether values in float32 take less time than in float64."""

    def _block(self, X: Rows, Y: Rows) -> Array:
        raise TypeError(f"{type(self).__name__} is abstract: use RBF, Matern, Linear, …")

    def _against(self, Y: Rows) -> Callable[[Rows], Array]:
        """Return the function X ↦ k(X, Y) for fixed rows Y; a kernel may prepare Y once."""
        return lambda X: self._block(X, Y)

    def against32(self, Y: Rows) -> Callable[..., Any]:
        """Return the function (X, out) ↦ k(X, Y) in float32; a kernel may compute so where that is exact enough.

        Parameters
        ----------
        Y : rows

        Returns
        -------
        function
            ``out``, an array that is filled, may be left out.
        """
        exact = self._against(Y)
        return lambda X, out=None: rounded(exact(X), out)

    def _diag(self, X: Rows) -> Array:
        raise TypeError(f"{type(self).__name__} is abstract: use RBF, Matern, Linear, …")

    def _gram(self, X: Rows) -> Array:
        """Return k(X, X), exactly symmetric and with the exact diagonal."""
        values = self._block(X, X)
        for tile in engine.tiles(len(values), TILE):  # what is below the diagonal also counts above it
            corner = np.tril(values[tile, tile])
            values[tile, tile] = corner + np.tril(corner, -1).T
            values[: tile.start, tile] = values[tile, : tile.start].T
        np.fill_diagonal(values, self._diag(X))
        return values

    def _gradients(self, X: Array, Y: Array, coef: Array) -> Array:
        """Return ∇ₓ Σ_j coef_j k(x, y_j) for every row and output, shape (n, d, outputs)."""
        raise TypeError(
            f"the gradient of {self!r} is not known: use RBF, Laplacian, Matern, or Metric with one of them"
        )

    def __call__(self, X: Rows, Y: Rows | None = None) -> Any:
        """Return the values ``k(x, y)``, shape (len(X), len(Y)); Y is X when left out.

        float32 rows give float32 values (products are still accumulated in float64); everything
        else gives float64.
        """
        X = check_rows(X, self)
        Y = X if Y is None else check_rows(Y, self, width=width_of(X))
        out = np.empty((n_rows(X), n_rows(Y)), dtype=_value_dtype(X, Y))

        def fill(tile: slice) -> None:
            out[tile] = self._block(take(X, tile), Y)

        engine.map_ordered(fill, engine.tiles(n_rows(X), TILE))
        if X is Y:
            np.fill_diagonal(out, self._diag(X))
        return out

    def diag(self, X: Rows) -> Any:
        """Return ``k(x, x)`` for every row, shape (len(X),).

        Returns
        -------
        array of shape (n,)
        """
        X = check_rows(X, self)
        return self._diag(X).astype(_value_dtype(X, X), copy=False)

    def resolve(self, X: Rows) -> Kernel:
        """Return this kernel with every width that is to be learned from data replaced by its value.

        Returns
        -------
        kernel
        """
        return self

    def is_stationary(self) -> bool:
        """Tell whether values depend on x − y only.

        Returns
        -------
        bool
        """
        return False

    @classmethod
    def _names(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, those of inner kernels as ``outer__inner`` when ``deep``.

        Returns
        -------
        dict
        """
        params: dict[str, Any] = {}
        for name in self._names():
            value = getattr(self, name)
            params[name] = value
            if deep and isinstance(value, Kernel):
                params.update({f"{name}__{key}": inner for key, inner in value.get_params().items()})
        return params

    def set_params(self, **params: Any) -> Kernel:
        """Set parameters by name and return self; an unknown name changes nothing and is an error.

        Returns
        -------
        kernel
            This object.
        """
        known = self.get_params()
        for name in params:
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {sorted(known)}")
        for name, value in params.items():
            outer, _, inner = name.partition("__")
            if inner:
                getattr(self, outer).set_params(**{inner: value})
            else:
                setattr(self, outer, value)
        return self

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, Kernel):
            return False
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        return all(_equal(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        return hash((type(self), tuple(self._names())))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={_show(value)}" for name, value in self.get_params(deep=False).items())
        return f"{type(self).__name__}({inside})"

    def __str__(self) -> str:
        """Return the same with numbers of five digits, for people."""
        return LONG_NUMBER.sub(lambda found: f"{float(found.group()):.5g}", repr(self))

    def __add__(self, other: Any) -> Sum:
        from squeak.core.kernels.algebra import Constant, Sum

        return Sum(self, Constant(float(other)) if isinstance(other, int | float | np.number) else other)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Product | Scaled:
        from squeak.core.kernels.algebra import Product, Scaled

        if isinstance(other, int | float | np.number):
            return Scaled(self, float(other))
        return Product(self, other)

    __rmul__ = __mul__


def _value_dtype(X: Rows, Y: Rows) -> Any:
    both = all(getattr(rows, "dtype", None) == np.float32 for rows in (X, Y))
    return np.float32 if both else np.float64


def _equal(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, str) or isinstance(theirs, str) or callable(mine) or callable(theirs):
        return bool(mine == theirs)
    return np.shape(mine) == np.shape(theirs) and bool(np.all(np.asarray(mine) == np.asarray(theirs)))


def _show(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.ndim > 1:
        return f"<array of shape {value.shape}>"
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=4, separator=", ", threshold=8)
    return getattr(value, "__name__", None) or repr(value)


def block(kernel: Any, X: Rows, Y: Rows) -> Array:
    """Return ``k(X, Y)`` in float64 on this thread, for rows that were checked already.

    The one door by which samplers and learners evaluate a kernel, ours or scikit-learn's.
    """
    if isinstance(kernel, Kernel):
        return kernel._block(X, Y)
    return np.asarray(kernel(X, Y), dtype=np.float64)


def against(kernel: Any, Y: Rows) -> Callable[[Rows], Array]:
    """Return the function X ↦ ``block(kernel, X, Y)``, with what depends on Y alone done once.

    For callers that meet the same atoms again and again, a row or a block at a time.
    """
    if isinstance(kernel, Kernel):
        return kernel._against(Y)
    return lambda X: block(kernel, X, Y)


def against32(kernel: Any, Y: Rows) -> Callable[..., Any]:
    """Return the function (X, out) ↦ k(X, Y) in float32, off by some parts in 10⁷: for values kept by the billion.

    ``out`` may be left out, or an array that is filled.
    """
    if isinstance(kernel, Kernel):
        return kernel.against32(Y)
    return lambda X, out=None: rounded(block(kernel, X, Y), out)


def gram(kernel: Any, X: Rows) -> Array:
    """Return the symmetric ``k(X, X)`` in float64; refuses a kernel that is not symmetric."""
    if isinstance(kernel, Kernel):
        return kernel._gram(X)
    values = np.array(kernel(X), dtype=np.float64)
    gap = np.abs(values - values.T).max(initial=0.0)
    if gap > 1e-6 * np.abs(values).max(initial=0.0):
        raise ValueError(f"{kernel!r} is not symmetric: k(x, y) and k(y, x) differ by {gap:.3g}")
    values = (values + values.T) / 2
    np.fill_diagonal(values, diagonal(kernel, X))
    return values


def diagonal(kernel: Any, X: Rows) -> Array:
    """Return ``k(x, x)`` for every row in float64; refuses negative and non-finite values."""
    values = kernel._diag(X) if isinstance(kernel, Kernel) else np.asarray(kernel.diag(X), dtype=np.float64)
    if not np.all(values >= 0) or not np.all(np.isfinite(values)):
        row = int(np.argmin(np.where(np.isfinite(values), values, -np.inf)))
        raise ValueError(
            f"{kernel!r} gives k(x, x) = {values[row]:.6g} for row {row} of the block: "
            "a kernel's diagonal must be finite and not negative"
        )
    return values


def gradients(kernel: Any, X: Rows, Y: Rows, coef: Array) -> Array:
    """Return ∇ₓ Σ_j coef_j k(x, y_j), shape (n, d, outputs), for dense rows that were checked already."""
    if not isinstance(kernel, Kernel):
        raise TypeError(f"the gradient of {kernel!r} is not known: use squeak's own RBF, Laplacian or Matern")
    return kernel._gradients(np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64), coef)


def resolve(kernel: Any, X: Rows) -> Any:
    """Return the kernel with its data-dependent widths fixed, checked on a few rows.

    A kernel with noise on its diagonal (scikit-learn's WhiteKernel) is refused: whether two rows are the same
    row, which its noise asks, cannot be told from their values.
    """
    kernel = kernel.resolve(X) if isinstance(kernel, Kernel) else kernel
    few = take(X, slice(0, 8))
    diag = diagonal(kernel, few)
    apart = block(kernel, few, few).diagonal()
    if not np.allclose(diag, apart, rtol=1e-6, atol=1e-6 * float(diag.max(initial=0.0))):
        raise ValueError(
            f"{kernel!r} gives a row with itself another value ({diag[0]:.6g}) than with an equal row "
            f"({apart[0]:.6g}): leave out noise such as WhiteKernel, and add its level to the ridge instead"
        )
    return kernel
