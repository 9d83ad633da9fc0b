"""A Cholesky factor that is written over its matrix, a panel of columns at a time, by matrix products.

LAPACK's own functions hold the interpreter lock, so that two threads with a matrix each take turns; matrix products
let both work. The factor may be of float32, and a solution of one column takes two passes over it.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import get_lapack_funcs

from squeak.core import engine
from squeak.core.cholesky import NotPositiveDefiniteError
from squeak.core.types import Array, Floats

PANEL = 192
"""Columns of a panel. A symmetric matrix is held by tiles of so many rows, each up to its last place on the
diagonal; what lies beyond is never read."""


class PanelFactor:
    """L with L Lᵀ = A, written over the lower triangle of A.

    Parameters
    ----------
    A : array of shape (n, n)
        Float32 or float64. Overwritten; above the tiles of its diagonal it is not read.

    Raises
    ------
    NotPositiveDefiniteError
        A has no such factor in its precision.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.core.panels import PanelFactor
    >>> A = np.array([[4.0, 2.0], [2.0, 5.0]])
    >>> PanelFactor(A.copy()).solve(np.array([[8.0], [12.0]])).ravel()
    array([1., 2.])
    """

    def __init__(self, A: Floats) -> None:
        potrf, trtri = get_lapack_funcs(("potrf", "trtri"), dtype=A.dtype)
        n = len(A)
        self.lower = A
        self._panels = engine.tiles(n, PANEL)
        self._corners: list[Floats] = []  # the inverses of the diagonal blocks of L
        room = np.empty((n, min(n, PANEL)), dtype=A.dtype)
        with engine.single_blas():
            for panel in self._panels:
                start, stop = panel.start, panel.stop
                if start:
                    product = room[start:, : stop - start]
                    np.matmul(A[start:, :start], A[panel, :start].T, out=product)
                    A[start:, panel] -= product
                corner, info = potrf(A[panel, panel], lower=1, clean=1)
                if info != 0:
                    raise NotPositiveDefiniteError(f"leading minor {start + info} is not positive")
                A[panel, panel] = corner
                inverse, _ = trtri(corner, lower=1, overwrite_c=1)
                self._corners.append(np.ascontiguousarray(inverse))
                if stop < n:
                    product = room[stop:, : stop - start]
                    np.matmul(A[stop:, panel], self._corners[-1].T, out=product)
                    A[stop:, panel] = product

    def forward(self, b: Floats) -> Floats:
        """Return L⁻¹ b for b of shape (n, columns), in the precision of the factor."""
        out: Floats = np.array(b, dtype=self.lower.dtype)
        with engine.single_blas():
            for panel, corner in zip(self._panels, self._corners, strict=True):
                out[panel] = corner @ (out[panel] - self.lower[panel, : panel.start] @ out[: panel.start])
        return out

    def solve(self, b: Floats) -> Floats:
        """Return A⁻¹ b for b of shape (n, columns), in the precision of the factor."""
        out = self.forward(b)
        with engine.single_blas():
            for panel, corner in zip(self._panels[::-1], self._corners[::-1], strict=True):
                out[panel] = corner.T @ (out[panel] - self.lower[panel.stop :, panel].T @ out[panel.stop :])
        return out


def symmetric_times(K: Floats, c: Array) -> Array:
    """Return K c in float64 for a symmetric K that is held by its tiles up to the diagonal.

    Parameters
    ----------
    K : array of shape (n, n)
        Float32 or float64. Rows of a tile of :data:`PANEL` are read up to the tile's last column.
    c : array of shape (n, columns)

    Returns
    -------
    array of shape (n, columns)

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.core.panels import symmetric_times
    >>> symmetric_times(np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[1.0], [0.0]])).ravel()
    array([1., 2.])
    """
    out = np.zeros(c.shape)
    with engine.single_blas():
        for tile in engine.tiles(len(K), PANEL):
            rows = K[tile, : tile.stop].astype(np.float64, copy=False)
            out[tile] += rows @ c[: tile.stop]
            out[: tile.start] += rows[:, : tile.start].T @ c[tile]
    return out
