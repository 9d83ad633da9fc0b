"""Many right-hand sides with one Laplacian: conjugate gradients on a block of columns, preconditioned.

The system is solved in the normalised form ℒ = I − D^(-1/2) A D^(-1/2), D = degrees + shift: diagonal scaling
is then the preconditioner at no cost. Where that converges slowly (road maps, grids, long chains) the
iteration goes on with a sparse factor or, with pyamg at hand, with algebraic multigrid.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from squeak.core import engine
from squeak.core.types import Array
from squeak.graphs.edges import Edges

PATIENCE = 120
"""Iterations with diagonal scaling, before a stronger preconditioner is built."""

MOST_ITERATIONS = 20_000
THIN = 3.0
"""Up to so many edges a node a sparse factor is tried: such graphs have little fill."""

FEW = 3
"""Columns up to which products are taken one by one."""

TILE = 65_536
"""Entries of the matrix that are scaled at a time: what is between fits the processor's cache."""

SHIFT = 1e-10
"""Added to the unit diagonal of a singular system before it is factored; the iteration makes up for it."""

LARGEST_FACTOR, SMALLEST_FACTOR = 1e14, 1e-8
"""Of the Laplacian beside a diagonal of ones: beyond, the ones or the Laplacian are lost."""


class SolverError(RuntimeError):
    """The iteration did not reach its tolerance."""


def scaled_weights(edges: Edges, factor: float, name: str) -> Array:
    """Return factor·weights for a system whose other part is 1, or raise where that would be lost beside them.

    Weights so small that no residual tells of them are raised: in the limit the solution does not depend on them.
    """
    largest = float(edges.weights.max(initial=0.0))
    if factor * largest > LARGEST_FACTOR:
        raise ValueError(
            f"{name} is too large for these weights: {factor:g}·{largest:g}; beyond {LARGEST_FACTOR:g} "
            "a solution is lost in rounding"
        )
    if 0.0 < factor * largest < SMALLEST_FACTOR:
        return np.asarray(edges.weights / largest * SMALLEST_FACTOR)
    return np.asarray(factor * edges.weights)


class NormalisedSystem:
    """(L + diag(shift))·x = y in the normalised form; of a singular L a solution in the range of ℒ is found.

    ``shift``: added to the diagonal: a ridge, or the labelled nodes of a harmonic system. ``single``: work in
    float32: for tolerances from 1e-4 on.
    """

    def __init__(self, edges: Edges, shift: float | Array = 0.0, *, single: bool = False) -> None:
        A = edges.matrix
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self.diagonal = np.asarray(A.sum(axis=1)).ravel() + shift
        self.diagonal[self.diagonal == 0] = 1.0  # nodes without edges: 0 = 0
        self.scale = 1.0 / np.sqrt(self.diagonal)
        rows, data = np.repeat(self.scale, np.diff(A.indptr)), np.empty(A.nnz, dtype=self.dtype)
        for here in engine.tiles(A.nnz, TILE):
            rows[here] *= self.scale.take(A.indices[here])
            np.multiply(A.data[here], rows[here], out=data[here], casting="same_kind")
        self.N = sp.csr_matrix((data, A.indices, A.indptr), shape=A.shape)
        self._by_column = self.N.T  # the same matrix, for it is symmetric
        self.n_edges = len(edges)
        self.singular = bool(np.max(shift) <= 0) or self._some_component_is_singular(A, shift)
        self.iterations = 0
        self._strong: Callable[[Any], Any] | None = None

    def _some_component_is_singular(self, A: Any, shift: float | Array) -> bool:
        if np.ndim(shift) == 0:
            return False
        count, labels = sp.csgraph.connected_components(A, directed=False)
        return bool((np.bincount(labels, np.asarray(shift), minlength=count) <= 0).any())

    def product(self, block: Any) -> Any:
        """Return N times a block; a few columns go one by one, more by columns of N: the faster ways in scipy."""
        return self._by_column @ block if block.shape[1] > FEW else one_by_one(self.N, block)

    def solve(self, y: Any, tolerance: float) -> Any:
        """Return x with (L + diag(shift))·x = y to a relative residual in the normalised form."""
        right = y * self.scale[:, None]
        z, _ = self.solve_normalised(right, tolerance)
        # one sweep: nodes of so small a degree that no residual tells of them get the mean of their neighbours
        return (right + self.product(z)) * self.scale[:, None]

    def solve_normalised(self, y: Any, tolerance: Any) -> tuple[Any, Any]:
        """Return z and the residual of ℒz = y for a block of columns; y must lie in the range of ℒ.

        The tolerance is a number, or one for every column.
        """
        z, residual, done = self.attempt(y, tolerance, PATIENCE)
        if not done:
            y = np.ascontiguousarray(y, dtype=self.dtype)
            scale = np.sqrt(np.einsum("ij,ij->j", y, y, dtype=np.float64))
            residual[:] = y - (z - self.product(z))
            done = self._iterate(z, residual, tolerance, scale, self._stronger(), MOST_ITERATIONS)
        if not done:
            raise SolverError(f"the solver stopped after {MOST_ITERATIONS} iterations; loosen the tolerance")
        return z, residual

    def attempt(self, y: Any, tolerance: Any, limit: int, *, within: bool = False) -> tuple[Any, Any, bool]:
        """Return z, the residual and whether all columns reached their tolerance, by diagonal scaling alone.

        ``within``: it is enough that some vector of the Krylov space has so small a residual: the least has the
        square 1/Σ 1/ρᵢ², ρᵢ the residuals on the way.
        """
        y = np.asarray(y, dtype=self.dtype, order="F" if y.shape[1] <= FEW else "C")
        scale = np.sqrt(np.einsum("ij,ij->j", y, y, dtype=np.float64))
        z, residual = np.zeros_like(y), y.copy(order="K")
        done = not scale.any() or self._iterate(z, residual, tolerance, scale, None, limit, within)
        return np.ascontiguousarray(z), np.ascontiguousarray(residual), done

    @np.errstate(over="ignore", invalid="ignore")
    def _iterate(
        self,
        z: Any,
        residual: Any,
        tolerance: Any,
        scale: Array,
        precondition: Any,
        limit: int,
        within: bool = False,
    ) -> bool:
        """Run conjugate gradients from z on, in place; tell whether every column reached the tolerance.

        A column that has reached it stays as it is: residuals may rise again where a small eigenvalue is met.
        """
        goal = (tolerance * scale) ** 2
        done = scale == 0
        w = residual if precondition is None else precondition(residual)
        p = w.copy(order="K")
        change = np.empty_like(p)
        rho, least = _dots(residual, w), scale**2
        for _ in range(limit):
            q = self.product(p)
            np.subtract(p, q, out=q)
            curvature = _dots(p, q)
            step = np.where(done, 0.0, _ratio(rho, curvature)).astype(self.dtype)
            z += np.multiply(step, p, out=change)
            residual -= np.multiply(step, q, out=q)
            size = _dots(residual, residual)
            self.iterations += 1
            if not np.isfinite(size).all():  # an eigenvalue beyond what the type resolves
                z[:] = 0.0
                return False
            least = least * _ratio(size, size + least) if within else size
            done |= least <= goal
            if done.all():
                return True
            w = residual if precondition is None else precondition(residual)
            new = size if precondition is None else _dots(residual, w)
            p *= np.where(done, 0.0, _ratio(new, rho)).astype(self.dtype)
            p += w
            rho = new
        return False

    def _stronger(self) -> Callable[[Any], Any] | None:
        """Return a better preconditioner: a sparse factor of thin graphs, multigrid where pyamg is at hand."""
        if self._strong is None:
            n = self.N.shape[0]
            M = sp.identity(n, format="csr") * (1.0 + SHIFT) - self.N.astype(np.float64)
            if self.n_edges <= THIN * n:
                self._strong = _factored(M, self.dtype)
            else:
                self._strong = _multigrid(M, self.dtype, self.scale if self.singular else None)
        return self._strong


def one_by_one(matrix: Any, block: Any) -> Any:
    """Return the product of a sparse matrix with each column of a block, in columns."""
    out = np.empty((matrix.shape[0], block.shape[1]), dtype=block.dtype, order="F")
    for column in range(block.shape[1]):
        out[:, column] = matrix @ np.ascontiguousarray(block[:, column])
    return out


def _dots(a: Any, b: Any) -> Array:
    if a.shape[1] <= FEW:  # columns that lie in one piece
        return np.array([np.dot(a[:, column], b[:, column]) for column in range(a.shape[1])], dtype=np.float64)
    return np.asarray(np.einsum("ij,ij->j", a, b), dtype=np.float64)


def _ratio(top: Array, bottom: Array) -> Array:
    """Return top/bottom; 0 where a column has converged to the last bit."""
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)


def _factored(M: Any, dtype: Any) -> Callable[[Any], Any]:
    factor = splu(M.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})

    def apply(residual: Any) -> Any:
        return factor.solve(np.ascontiguousarray(residual, dtype=np.float64)).astype(dtype)

    return apply


def _multigrid(M: Any, dtype: Any, scale: Array | None) -> Callable[[Any], Any] | None:
    """Return one V-cycle of smoothed aggregation as a preconditioner; None without pyamg."""
    try:
        from pyamg import smoothed_aggregation_solver
    except ImportError:
        return None
    flat = None if scale is None else (1.0 / scale)[:, None]  # ℒ·D^(1/2)·1 = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np_state = np.random.get_state()  # noqa: NPY002  (pyamg draws from the global generator: leave it as it was)
        np.random.seed(0)  # noqa: NPY002
        try:
            levels = smoothed_aggregation_solver(M, B=flat, max_coarse=200)
        finally:
            np.random.set_state(np_state)  # noqa: NPY002
    cycle = levels.aspreconditioner()

    def apply(residual: Any) -> Any:
        columns = [cycle @ np.asarray(column, dtype=np.float64) for column in residual.T]
        return np.ascontiguousarray(np.column_stack(columns).astype(dtype))

    return apply
