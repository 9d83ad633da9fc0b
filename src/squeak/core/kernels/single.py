"""Kernel values in float32, for those that are kept by the billion: distance and exponent of a tile in its cache.

A float32 product loses what the rows have in common, and so rows are centred on the atoms' mean in float64 first,
and divided by the width; the squared norms are those of the rounded rows, added up in float64. What is left is an
error of about 1e-7 times half the squared distance from that centre, in widths, in the exponent: rows farther than
:data:`FAR` are computed in float64 and rounded at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from squeak.core.types import Array, Rows

FAR = 32.0
"""Half the squared distance from the centre, in widths, from which float32 is not good enough for an exponent."""

LEAST = -60.0
"""Exponents are no less: products of smaller values would be denormal numbers, a hundred times as slow."""

SMALLEST = np.exp(LEAST)


def rounded(values: Array, out: Any = None) -> Any:
    """Return float64 values in float32, in an array where one is given."""
    if out is None:
        return values.astype(np.float32)
    out[:] = values
    return out


class GaussianValues:
    """exp(−‖x − y‖²/(2·width²)) in float32, for dense rows against fixed ones.

    Parameters
    ----------
    Y : array of shape (m, d)
    width : array of shape () or (d,)
    against : function
        Given rows Y, the function X ↦ k(X, Y) in float64: for rows that are too far from the centre.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.core.kernels import against
    >>> from squeak.core.kernels.single import GaussianValues
    >>> from squeak.kernels import RBF
    >>> X = np.random.default_rng(0).random((20, 3)) + 1e6
    >>> found = GaussianValues(X[:5], np.asarray(0.5), lambda rows: against(RBF(0.5), rows))(X)
    >>> found.dtype.name, bool(np.abs(found - RBF(0.5)(X, X[:5])).max() < 1e-6)
    ('float32', True)
    """

    def __init__(self, Y: Array, width: Array, against: Callable[[Rows], Callable[[Rows], Array]]) -> None:
        self.centre, self.width = np.asarray(Y, dtype=np.float64).mean(axis=0), width
        rows, half = self._centred(Y)
        self.far = np.flatnonzero(~(half <= FAR))
        rows[self.far], half[self.far] = 0.0, 0.0
        d = Y.shape[1]
        self.side = np.empty((d + 2, len(Y)), dtype=np.float32)
        self.side[:d], self.side[d], self.side[d + 1] = rows.T, 1.0, -half
        self.farthest = float(half.max())
        self.exact = against(Y)
        self.to_far = against(Y[self.far]) if len(self.far) else None

    def __call__(self, X: Rows, out: Any = None) -> Any:
        """Return the values of some rows, shape (n, m), in an array where one is given; none is below exp(−60)."""
        if not isinstance(X, np.ndarray):
            return rounded(self.exact(X), out)
        rows, half = self._centred(X)
        near = half <= FAR
        if not near.any():
            return rounded(np.maximum(self.exact(X), SMALLEST), out)
        if not near.all():
            out = np.empty((len(X), self.side.shape[1]), dtype=np.float32) if out is None else out
            out[near] = self(X[near])
            out[~near] = np.maximum(self.exact(X[~near]), SMALLEST)
            return out
        left = np.empty((len(X), len(self.side)), dtype=np.float32)
        left[:, :-2], left[:, -2], left[:, -1] = rows, -half, 1.0
        values = np.matmul(left, self.side, out=out)
        if 2.0 * (float(half.max()) + self.farthest) > -LEAST:
            np.maximum(values, np.float32(LEAST), out=values)
        np.exp(values, out=values)
        if self.to_far is not None:
            values[:, self.far] = np.maximum(self.to_far(X), SMALLEST)
        return values

    def _centred(self, X: Array) -> tuple[Any, Array]:
        """Return rows less the centre over the width, rounded to float32, and half the squared norms of these."""
        with np.errstate(over="ignore", invalid="ignore"):
            rows = ((X - self.centre) / self.width).astype(np.float32)
            return rows, 0.5 * np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
