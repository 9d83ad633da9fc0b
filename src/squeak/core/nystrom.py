"""Nyström features: rows as vectors whose inner products approximate the kernel, from a dictionary.

Several forms, one protocol: ``features.transform(X)`` has shape (n, rank), and its inner products are near k(X, Y).
:class:`EigenFeatures` are uncorrelated over the atoms and sorted; :class:`TriangularFeatures` cost half as
much and nest: the first j columns belong to the first j atoms; :class:`GrowingFeatures` take in more atoms.
Plain features project on the span of the atoms, and weights drop out; regularised ones (``ridge`` > 0) use them:

    plain:        K̃ = K_nI K_II⁺ K_In,            0 ⪯ K − K̃ ⪯ (ε·γ/(1 − ε))·I
    regularised:  K̃ = C (S K_II S + ridge·I)⁻¹ Cᵀ,   C = K_nI S,  S = diag(√w)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import eigh

from squeak.core import engine
from squeak.core.cholesky import GrowingCholesky, eliminate, pivoted_inverse_factor
from squeak.core.kernels import against, block, diagonal, gram
from squeak.core.leverage import weighted_gram
from squeak.core.rows import n_rows, take
from squeak.core.types import Array, IntArray, Rows

TILE = 1024
RANK_TOLERANCE = 1e-12
"""Directions with less than this part of the largest eigenvalue or pivot are left out."""

IN_SPAN = 1e-10
"""Where features grow, an atom whose distance² from the span is below this part of k(x, x) adds none."""


class Features:
    """A linear map of kernel columns: transform(X) = k(X, atoms) · mixing, rows in tiles on the threads."""

    kernel: Any
    atoms: Rows
    mixing: Array
    """Shape (m, rank)."""

    @property
    def rank(self) -> int:
        """The number of features."""
        return int(self.mixing.shape[1])

    def block(self, X: Rows) -> Array:
        """Return the features of a block, on this thread."""
        return block(self.kernel, X, self.atoms) @ self.mixing

    def transform(self, X: Rows) -> Array:
        """Return the features of checked rows, shape (len(X), rank)."""
        out = np.empty((n_rows(X), self.rank))

        def fill(tile: slice) -> None:
            out[tile] = self.block(take(X, tile))

        engine.map_ordered(fill, engine.tiles(n_rows(X), TILE))
        return out


def _weighted_gram(kernel: Any, atoms: Rows, weights: Array | None, ridge: float) -> tuple[Array, Array]:
    """Return S K_II S + ridge·I and the diagonal of S; S is the identity for plain features."""
    if ridge < 0:
        raise ValueError(f"ridge must not be negative; it is {ridge!r}")
    if weights is None or ridge == 0:
        weights = np.ones(n_rows(atoms))
    return weighted_gram(gram(kernel, atoms), weights, ridge), np.sqrt(weights)


class EigenFeatures(Features):
    """Features from the eigenvectors: Z = C U Λ^(−1/2), S K_II S + ridge·I = U Λ Uᵀ, largest first.

    Parameters
    ----------
    kernel : kernel
    atoms : rows
    weights : array of shape (m,), optional
        Used by the regularised form only.
    ridge : float
        0: plain.

    References
    ----------
    Thesis, section 4.1.1; the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.core.nystrom import EigenFeatures
    >>> from squeak.kernels import RBF
    >>> X = np.random.default_rng(0).standard_normal((50, 2))
    >>> Z = EigenFeatures(RBF(1.0), X).transform(X)
    >>> bool(np.allclose(Z @ Z.T, RBF(1.0)(X)))
    True
    """

    def __init__(self, kernel: Any, atoms: Rows, weights: Array | None = None, ridge: float = 0.0) -> None:
        self.kernel, self.atoms = kernel, atoms
        with engine.single_blas():
            A, root = _weighted_gram(kernel, atoms, weights, ridge)
            eigenvalues, vectors = eigh(A, overwrite_a=True, check_finite=False)
        keep = eigenvalues > RANK_TOLERANCE * max(eigenvalues[-1], 0.0)
        eigenvalues, vectors = eigenvalues[keep][::-1], vectors[:, keep][:, ::-1]
        self.mixing = np.ascontiguousarray(root[:, None] * vectors / np.sqrt(eigenvalues))


class TriangularFeatures(Features):
    """Features from the Cholesky factor: Z = C L⁻ᵀ, S K_II S + ridge·I = L Lᵀ, pivoted where it is singular.

    Parameters
    ----------
    kernel : kernel
    atoms : rows
    weights : array of shape (m,), optional
        Used by the regularised form only.
    ridge : float
        0: plain.

    References
    ----------
    Thesis, section 4.1.1; the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.core.nystrom import TriangularFeatures
    >>> from squeak.kernels import RBF
    >>> X = np.random.default_rng(0).standard_normal((50, 2))
    >>> X = np.vstack([X, X])                                    # every row twice: rank 50
    >>> features = TriangularFeatures(RBF(1.0), X)
    >>> Z = features.transform(X)
    >>> features.rank <= 50, bool(np.allclose(Z @ Z.T, RBF(1.0)(X)))
    (True, True)
    """

    def __init__(self, kernel: Any, atoms: Rows, weights: Array | None = None, ridge: float = 0.0) -> None:
        self.kernel, self.atoms = kernel, atoms
        with engine.single_blas():
            A, root = _weighted_gram(kernel, atoms, weights, ridge)
            inverse, order = pivoted_inverse_factor(A, RANK_TOLERANCE)
        self.mixing = np.zeros((n_rows(atoms), len(order)))
        self.mixing[order] = root[order, None] * inverse.T


class FixedFeatures(Features):
    """Features whose mixing is known already, as from a file: a second factor could differ in its last bits.

    Parameters
    ----------
    kernel : kernel
    atoms : rows
    mixing : array of shape (m, rank)

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.core.nystrom import FixedFeatures, TriangularFeatures
    >>> from squeak.kernels import RBF
    >>> X = np.random.default_rng(0).standard_normal((50, 2))
    >>> features = TriangularFeatures(RBF(1.0), X)
    >>> again = FixedFeatures(RBF(1.0), X, features.mixing)
    >>> bool((again.transform(X) == features.transform(X)).all())
    True
    """

    def __init__(self, kernel: Any, atoms: Rows, mixing: Array) -> None:
        if mixing.ndim != 2 or len(mixing) != n_rows(atoms):
            raise ValueError("the features do not fit the atoms")
        self.kernel, self.atoms, self.mixing = kernel, atoms, mixing


class GrowingFeatures(Features):
    """Plain triangular features that take in more atoms, as a value: φ(x) = L⁻¹ k(members, x), L Lᵀ = K of members.

    A new atom appends one feature and leaves the others as they were; one that lies in the span already (a repeated
    row) appends none. What depends on the atoms alone is done once, for rows that come singly.

    Parameters
    ----------
    kernel : kernel
    atoms : rows
    factor : GrowingCholesky
        Of K over the members.
    members : array of ints
        The numbers of the atoms that have a feature, ascending.

    References
    ----------
    Thesis, algorithm 14; the theory page, "Online learning".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.core.nystrom import GrowingFeatures
    >>> from squeak.kernels import Linear
    >>> atoms = np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0]])
    >>> features = GrowingFeatures.none(Linear(), atoms)
    >>> added, tried = features.news(atoms, room=2)
    >>> features = features.grown(atoms, *added)
    >>> features.members, tried, features.block(np.array([[1.0, 1.0]]))
    (array([0, 2]), 3, array([[1., 1.]]))
    """

    _last: tuple[bytes | None, Array, Array] = (None, np.zeros(0), np.zeros(0))

    def __init__(self, kernel: Any, atoms: Rows, factor: GrowingCholesky, members: IntArray) -> None:
        self.kernel, self.atoms, self.factor, self.members = kernel, atoms, factor, members

    @classmethod
    def none(cls, kernel: Any, rows: Rows) -> GrowingFeatures:
        """Return the features of no atoms, for rows of the kind given."""
        return cls(kernel, take(rows, slice(0, 0)), GrowingCholesky(), np.zeros(0, dtype=np.int64))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("mixing", "columns", "_last")}

    @property
    def rank(self) -> int:
        """The number of features."""
        return self.factor.size

    @cached_property
    def mixing(self) -> Array:  # type: ignore[override]
        """Shape (m, rank); atoms without a feature have zeros."""
        mixing = np.zeros((n_rows(self.atoms), self.rank))
        mixing[self.members] = self.factor.inverse.T
        return mixing

    @cached_property
    def columns(self) -> Callable[[Rows], Array]:
        """X ↦ k(X, atoms), with what depends on the atoms done once."""
        if n_rows(self.atoms):
            return against(self.kernel, self.atoms)
        return lambda X: np.zeros((n_rows(X), 0))

    def block(self, X: Rows) -> Array:
        """Return the features of a block, on this thread."""
        return np.asarray(self.columns(X) @ self.mixing)

    def single(self, x: Rows) -> tuple[Array, Array]:
        """Return k(x, atoms) and the features of one row, shapes (m,) and (rank,); not to be written to.

        Those of the last dense row are kept, for rows that are predicted first and learned then.
        """
        last, key = self._last, x.tobytes() if isinstance(x, np.ndarray) else None
        if key is None or key != last[0]:
            columns = self.columns(x)[0]
            self._last = last = (key, columns, self.mixing.T.dot(columns))
        return last[1:]

    def news(self, rows: Rows, room: int | None) -> tuple[tuple[IntArray, Array, Array], int]:
        """Return which rows would add a feature, with what :meth:`grown` needs, and how many rows were tried.

        It ends with the row that takes the last of ``room`` places.
        """
        projected = self.factor.project(self.columns(rows)[:, self.members])
        residual = gram(self.kernel, rows) - projected @ projected.T
        smallest = IN_SPAN * diagonal(self.kernel, rows)
        running, found, tried = residual.copy(), list[int](), 0
        while tried < len(running) and len(found) != room:
            pivot = float(running[tried, tried])
            if pivot > smallest[tried]:
                found.append(tried)
                eliminate(running, tried, pivot)
            tried += 1
        added = np.array(found, dtype=np.int64)
        return (added, projected[added], residual[np.ix_(added, added)]), tried

    def grown(self, atoms: Rows, added: IntArray, projected: Array, schur: Array) -> GrowingFeatures:
        """Return the features of these atoms, the present ones and more, of which those in ``added`` add one."""
        factor = self.factor.append(projected, schur) if added.size else self.factor
        return GrowingFeatures(self.kernel, atoms, factor, np.append(self.members, n_rows(self.atoms) + added))


def spanning_features(kernel: Any, atoms: Rows, tolerance: float) -> tuple[FixedFeatures, IntArray]:
    """Return plain triangular features of the atoms that span all of them, and the numbers of those atoms.

    Parameters
    ----------
    kernel : kernel
    atoms : rows
    tolerance : float
        An atom whose residual is below this part of the largest k(x, x) adds no feature.

    Returns
    -------
    features : FixedFeatures
        Its atoms are those that add a feature, in the order of their pivots.
    order : array of ints
        Their numbers among the atoms given.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.core.nystrom import spanning_features
    >>> from squeak.kernels import Linear
    >>> features, order = spanning_features(Linear(), np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0]]), 1e-10)
    >>> order, features.block(np.array([[1.0, 1.0]]))
    (array([1, 2]), array([[1., 1.]]))
    """
    inverse, order = pivoted_inverse_factor(gram(kernel, atoms), tolerance)
    return FixedFeatures(kernel, take(atoms, order), inverse.T), order
