"""A Cholesky factor that grows by rows, kept as its inverse.

For A = L Lᵀ it keeps T = L⁻¹. A triangular solve becomes a matrix product, which runs at BLAS-3 speed, frees
the interpreter lock and can be cut into tiles; the leading rows of T belong to the leading part of A,
so a bound from few atoms is a part of the result from all of them.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import get_lapack_funcs

from squeak.core import engine
from squeak.core.types import Array, IntArray

PANEL = 256
"""Rows or columns of a triangular matrix taken at a time, so that products skip its zeros and go to the threads.

Of more than 8 panels two are taken at a time: larger products are faster, and skip hardly fewer zeros.
"""

LARGE = 4 * PANEL
"""A matrix of more rows is factored in halves on the threads."""

_potrf, _pstrf, _trtri = get_lapack_funcs(("potrf", "pstrf", "trtri"), dtype=np.float64)


class NotPositiveDefiniteError(np.linalg.LinAlgError):
    """The matrix has no Cholesky factor in float64."""


def inverse_factor(A: Array, overwrite: bool = False) -> Array:
    """Return L⁻¹ for A = L Lᵀ, lower triangular with zeros above the diagonal; a large A may become it."""
    if len(A) == 0:  # LAPACK would complain on the standard streams
        return np.zeros((0, 0))
    if len(A) > LARGE:
        return _in_place(A if overwrite else np.array(A))
    lower, info = _potrf(np.asfortranarray(A), lower=1, clean=1)
    if info != 0:
        raise NotPositiveDefiniteError(f"leading minor {info} is not positive")
    inverse, _ = _trtri(lower, lower=1, overwrite_c=1)
    return np.ascontiguousarray(inverse)


def _in_place(A: Array) -> Array:
    """Write L⁻¹ over A = L Lᵀ, on the threads: of each half of A, and between them −L₂₂⁻¹·L₂₁·L₁₁⁻¹.

    Only the lower triangle of A is read. LAPACK's own functions would hold the interpreter lock, and the bits of
    BLAS's threads depend on their number.
    """
    m = len(A)
    if m <= 2 * PANEL:
        A[:] = inverse_factor(A)
        return A
    half = -(-m // (2 * PANEL)) * PANEL
    first, cross, last = A[:half, :half], A[half:, :half], A[half:, half:]
    _in_place(first)
    L = times_transposed(cross, first)

    def update(rows: slice) -> None:
        last[rows, : rows.stop] -= L[rows] @ L[: rows.stop].T

    engine.map_ordered(update, engine.tiles(m - half, PANEL)[::-1])  # the largest first
    _in_place(last)
    L = times(L, first)

    def fill(rows: slice) -> None:
        cross[rows] = -last[rows, : rows.stop] @ L[: rows.stop]

    engine.map_ordered(fill, engine.tiles(m - half, PANEL)[::-1])
    A[:half, half:] = 0.0
    return A


def pivoted_inverse_factor(A: Array, tolerance: float | None = None) -> tuple[Array, IntArray]:
    """Return L⁻¹ and the order for A[order][:, order] = L Lᵀ, at each step the largest remaining pivot.

    The order puts first what explains most of A's trace: bounds from the leading rows are then tight early. Of a
    large matrix only the first :data:`PANEL` pivots are chosen so; the others follow by what those leave.
    With a ``tolerance`` it ends at the first pivot below that part of the largest, and ``order`` has as many
    entries as there are pivots; without, every pivot must be positive.
    """
    if len(A) == 0:
        return np.zeros((0, 0)), np.zeros(0, dtype=np.int64)
    if tolerance is None and len(A) > LARGE:
        order = _first_pivots(A, PANEL)
        return _in_place(A[np.ix_(order, order)]), order
    smallest = 0.0 if tolerance is None else tolerance * float(A.diagonal().max())
    factor, pivots, rank, _ = _pstrf(np.asfortranarray(A), lower=1, tol=smallest)
    if tolerance is None and rank < len(A):
        raise NotPositiveDefiniteError(f"only {rank} of {len(A)} pivots are positive")
    if rank == 0:
        return np.zeros((0, 0)), np.zeros(0, dtype=np.int64)
    inverse, _ = _trtri(np.tril(factor[:rank, :rank]), lower=1, overwrite_c=1)
    return np.ascontiguousarray(inverse), pivots[:rank].astype(np.int64) - 1


def _first_pivots(A: Array, count: int) -> IntArray:
    """Return an order of the rows of A: the first ``count`` pivots, then the others by what those leave of them."""
    left = A.diagonal().copy()
    rows, chosen = np.empty((count, len(A))), np.empty(count, dtype=np.int64)
    for step in range(count):
        pivot = int(np.argmax(left))
        if not left[pivot] > 0.0:
            raise NotPositiveDefiniteError(f"only {step} of {len(A)} pivots are positive")
        rows[step] = A[pivot] - rows[:step, pivot] @ rows[:step]
        rows[step] /= np.sqrt(left[pivot])
        left -= rows[step] ** 2
        left[pivot] = -np.inf
        chosen[step] = pivot
    order = np.argsort(-left, kind="stable")[: len(A) - count]
    return np.concatenate([chosen, order])


def _panels(m: int) -> list[slice]:
    return engine.tiles(m, PANEL if m <= 8 * PANEL else 2 * PANEL)


def times_transposed(columns: Array, lower: Array) -> Array:
    """Return columns·lowerᵀ for a lower triangular matrix, or its last rows, in panels on the threads."""
    m, above = len(lower), lower.shape[1] - len(lower)
    if m <= 2 * PANEL:
        return np.asarray(columns @ lower.T)
    out = np.empty((len(columns), m))

    def fill(panel: slice) -> None:
        out[:, panel] = columns[:, : above + panel.stop] @ lower[panel, : above + panel.stop].T

    engine.map_ordered(fill, _panels(m)[::-1])  # the largest first
    return out


def times(columns: Array, lower: Array) -> Array:
    """Return columns·lower for a lower triangular matrix, in panels on the threads."""
    m = len(lower)
    if m <= 2 * PANEL:
        return np.asarray(columns @ lower)
    out = np.empty((len(columns), m))

    def fill(panel: slice) -> None:
        out[:, panel] = columns[:, panel.start :] @ lower[panel.start :, panel]

    engine.map_ordered(fill, _panels(m))
    return out


def eliminate(running: Array, t: int, pivot: float) -> None:
    """Take row t out of the rows after it, in place: R_jk ← R_jk − R_jt R_tk/pivot for j, k > t."""
    column = running[t + 1 :, t]
    running[t + 1 :, t + 1 :] -= np.outer(column, column / pivot)


class GrowingCholesky:
    """T = L⁻¹ of a matrix A = L Lᵀ that grows by rows and columns; a value.

    ``append`` returns the grown factor and leaves this one as it was: both look into one buffer, the new rows
    lie beyond the old ones. A second child of the same factor gets a buffer of its own.

    Parameters
    ----------
    inverse : array of shape (m, m), optional
        T itself; empty when left out.
    room : int, optional
        How large it will become, where that is known: it then grows in place.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.core.cholesky import GrowingCholesky
    >>> A = np.array([[4.0, 2.0], [2.0, 5.0]])
    >>> factor = GrowingCholesky().append_rows(A[:1, :0], A[:1, :1]).append_rows(A[1:, :1], A[1:, 1:])
    >>> np.linalg.inv(factor.inverse)
    array([[2., 0.],
           [1., 2.]])
    """

    def __init__(self, inverse: Array | None = None, room: int = 0) -> None:
        start = np.zeros((0, 0)) if inverse is None else inverse
        self._buffer: Array = start
        if room > len(start):
            self._buffer = np.zeros((room, room))
            self._buffer[: len(start), : len(start)] = start
        self._used = [len(start)]  # rows of the buffer that some factor holds; shared with the children
        self.size = len(start)

    def __len__(self) -> int:
        return self.size

    @property
    def inverse(self) -> Array:
        """T, a view of shape (m, m); not to be written to."""
        return self._buffer[: self.size, : self.size]

    def project(self, columns: Array) -> Array:
        """Return L⁻¹ b for every row b of ``columns``: shape (r, m) in, (r, m) out."""
        return times_transposed(columns, self.inverse)

    def diagonal_of_inverse(self) -> Array:
        """Return diag(A⁻¹) = Σ_j T_ji²."""
        return np.asarray(np.einsum("ij,ij->j", self.inverse, self.inverse))

    def append(self, projected: Array, schur: Array) -> GrowingCholesky:
        """Return the factor of A grown by r rows, in O(r·m²).

        Parameters
        ----------
        projected : array of shape (r, m)
            L⁻¹ times the new columns, a row each: the new rows of L.
        schur : array of shape (r, r)
            The new corner less projected·projectedᵀ; must be positive definite.
        """
        m, r = self.size, len(schur)
        corner = inverse_factor(schur)
        grown = GrowingCholesky.__new__(GrowingCholesky)
        grown.size = m + r
        grown._buffer, grown._used = self._buffer, self._used
        room = len(self._buffer)
        if grown.size > room or self._used[0] != m:
            capacity = max(64, grown.size, room + room // 2 if grown.size > room else room)
            grown._buffer, grown._used = np.zeros((capacity, capacity)), [m]
            grown._buffer[:m, :m] = self.inverse
        grown._used[0] = grown.size
        grown._buffer[m : m + r, :m] = -corner @ times(projected, self.inverse)
        grown._buffer[m : m + r, m : m + r] = corner
        return grown

    def append_rows(self, cross: Array, corner: Array) -> GrowingCholesky:
        """Return the factor grown by the rows [cross, corner] of A itself, (r, m) and (r, r)."""
        projected = self.project(cross)
        return self.append(projected, corner - projected @ projected.T)
