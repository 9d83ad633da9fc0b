"""The exact sampler for a few thousand rows: one eigendecomposition, then every question has an answer."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.exceptions import NotFittedError

from squeak.core import engine
from squeak.core.checks import check_whole
from squeak.core.constructors import parameters
from squeak.core.estimator import Estimator
from squeak.core.kernels import gram, resolve
from squeak.core.leverage import INDEFINITE
from squeak.core.rows import n_rows
from squeak.core.seeds import SAMPLE, RandomState, draw_seed, generator_at
from squeak.core.types import Array, IntArray
from squeak.data import gather
from squeak.dpp.surrogate import check_k, expected_size, log_symmetric_sums
from squeak.samplers.base import own_kernel

LARGEST = 10_000
"""More rows than this are refused: their matrix alone takes 800 MB, its eigenvectors as much again."""


@parameters
class ExactDPP(Estimator):
    """Samples from DPP(L), P(S) = det(L_S)/det(I + L), by the eigenvectors of the kernel's matrix L.

    ``fit`` costs O(n³) time and O(n²) memory once; a sample then costs O(n·k²) for k rows. Each eigenvector is
    chosen by a coin of λ/(1 + λ), or, for samples of exactly k rows, k of them by elementary symmetric
    polynomials; then rows are drawn one by one from the space that the chosen ones span. For a few thousand
    rows; :class:`DPP` draws from the same distribution for any number of rows.

    Parameters
    ----------
    kernel : kernel, optional
        ``RBF("median")`` by default. The larger its values, the larger the samples: ``2.0 * RBF(1.0)``.
    random_state : None, int, RandomState or Generator

    Attributes
    ----------
    eigenvalues_ : array of shape (n,)
        Of L, ascending.
    expected_size_ : float
        Σ λ/(1 + λ).
    kernel_ : kernel

    References
    ----------
    Hough, Krishnapur, Peres, Virág, "Determinantal processes and independence", 2006; Kulesza, Taskar,
    "Determinantal point processes for machine learning", 2012, algorithms 1, 7 and 8.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.dpp import ExactDPP
    >>> from squeak.kernels import RBF
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> dpp = ExactDPP(RBF(1.0), random_state=0).fit(X)
    >>> round(dpp.expected_size_, 2), len(dpp.sample(k=5))
    (16.02, 5)
    >>> bool(np.isclose(dpp.marginals().sum(), dpp.expected_size_))
    True
    """

    kernel: Any = field(default=None, kw_only=False)
    random_state: RandomState = None

    def fit(self, X: Any, y: Any = None) -> ExactDPP:
        """Decompose the kernel's matrix of the rows of ``X``.

        Parameters
        ----------
        X : rows, or a row source (read into memory)
        y : ignored

        Returns
        -------
        self
        """
        kernel = own_kernel(self.kernel)
        X, _ = gather(X, kernel)
        if n_rows(X) > LARGEST:
            raise ValueError(
                f"{n_rows(X):,} rows are too many for an eigendecomposition (at most {LARGEST:,}): use DPP"
            )
        kernel = resolve(kernel, X)
        seed = draw_seed(self.random_state)
        eigenvalues, vectors = eigh(gram(kernel, X), overwrite_a=True, check_finite=False)
        if eigenvalues[0] < -INDEFINITE * max(eigenvalues[-1], 0.0) or not np.isfinite(eigenvalues).all():
            raise ValueError(
                f"{kernel!r} is not positive semi-definite: its matrix on {n_rows(X)} rows has eigenvalue "
                f"{eigenvalues[0]:.3g}; use a PSD kernel"
            )
        rounding = 10 * len(eigenvalues) * np.finfo(np.float64).eps * eigenvalues[-1]
        self.eigenvalues_ = np.where(eigenvalues > rounding, eigenvalues, 0.0)
        self._vectors, self.kernel_ = vectors, kernel
        self._seed, self._calls = seed, 0
        self._sums: tuple[int, Array] = (0, np.zeros((0, 0)))
        return self

    def sample(self, n_samples: int | None = None, k: int | None = None) -> Any:
        """Draw one subset, or several, and return the numbers of its rows in ascending order.

        Parameters
        ----------
        n_samples : int, optional
            How many independent subsets to draw; they are returned as a list. By default one subset is drawn, and
            returned as an array. To choose how many rows a subset has, give ``k``.
        k : int, optional
            Draw subsets of exactly k rows, with probability proportional to det(L_S) among those.

        Returns
        -------
        array of int, or list of such
        """
        self._needs_fit()
        count = 1 if n_samples is None else check_whole("n_samples", n_samples)
        size = None if k is None else check_k(k, len(self.eigenvalues_))
        if size is not None and size > np.count_nonzero(self.eigenvalues_):
            rank = np.count_nonzero(self.eigenvalues_)
            raise ValueError(f"the kernel's matrix has rank {rank}: no {size} rows have a positive determinant")
        rng = generator_at(self._seed, SAMPLE, self._calls)
        with engine.single_blas():
            found = [self._one(size, rng) for _ in range(count)]
        self._calls += 1
        return found[0] if n_samples is None else found

    def _one(self, k: int | None, rng: np.random.Generator) -> IntArray:
        values = self.eigenvalues_
        which = np.flatnonzero(rng.random(len(values)) * (1 + values) < values) if k is None else self._k_of(k, rng)
        return np.sort(sample_projection(self._vectors[:, which], rng))

    def _k_of(self, k: int, rng: np.random.Generator) -> IntArray:
        """Return k eigenvectors, a set J with probability Π_J λ / e_k, by a coin each from the last on."""
        if self._sums[0] != k:
            self._sums = (k, log_symmetric_sums(self.eigenvalues_, k))
        table, chosen = self._sums[1], []
        uniforms = rng.random(len(self.eigenvalues_))
        left = k
        for j in range(len(self.eigenvalues_), 0, -1):
            if left == 0:
                break
            if self.eigenvalues_[j - 1] <= 0:
                continue
            chance = np.log(self.eigenvalues_[j - 1]) + table[j - 1, left - 1] - table[j, left]
            if np.log(uniforms[j - 1]) < chance or left == j:
                chosen.append(j - 1)
                left -= 1
        return np.array(chosen, dtype=np.int64)

    @property
    def expected_size_(self) -> float:
        """Σ λ/(1 + λ)."""
        self._needs_fit()
        return expected_size(self.eigenvalues_)

    def marginal_kernel(self) -> Array:
        """Return L(I + L)⁻¹: P(A ⊆ S) is the determinant of its part A.

        Returns
        -------
        array, shape (n, n)
        """
        self._needs_fit()
        shares = self.eigenvalues_ / (1 + self.eigenvalues_)
        return np.asarray((self._vectors * shares) @ self._vectors.T)

    def marginals(self) -> Array:
        """Return P(i ∈ S) for every row: Σ_j U_ij² λ_j/(1 + λ_j), the ridge leverage scores at ridge 1.

        Returns
        -------
        array, shape (n,)
        """
        self._needs_fit()
        return np.asarray(np.square(self._vectors) @ (self.eigenvalues_ / (1 + self.eigenvalues_)))

    def log_probability(self, subset: Any) -> float:
        """Return log P(S) = log det(L_S) − log det(I + L) of a set of row numbers.

        Parameters
        ----------
        subset : list of int

        Returns
        -------
        float
            −inf where it cannot occur.
        """
        self._needs_fit()
        given = np.asarray(subset)
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise TypeError(f"a subset is a flat list of row numbers; this is {subset!r}")
        rows = np.unique(given.astype(np.int64))
        if rows.size and not 0 <= rows[0] <= rows[-1] < len(self.eigenvalues_):
            raise ValueError(f"row numbers lie between 0 and {len(self.eigenvalues_) - 1:,}")
        part = self._vectors[rows]
        sign, log_det = np.linalg.slogdet((part * self.eigenvalues_) @ part.T)
        return float((log_det if sign > 0 else -np.inf) - np.log1p(self.eigenvalues_).sum())

    def _needs_fit(self) -> None:
        if not hasattr(self, "_vectors"):
            raise NotFittedError("this ExactDPP has seen no rows yet: call fit")


def sample_projection(V: Array, rng: np.random.Generator) -> IntArray:
    """Return rows of the projection DPP with kernel V Vᵀ, in the order drawn; V has k orthonormal columns.

    Each row is drawn in proportion to the squared length of what the rows before it leave of its part of V:
    O(n·k²).

    Source: Kulesza, Taskar 2012, algorithm 1, with the update of a Cholesky factor in place of a new basis each
    time.
    """
    n, k = V.shape
    left = np.einsum("ij,ij->i", V, V)
    spanned = np.zeros((k, n))
    rows = np.empty(k, dtype=np.int64)
    uniforms = rng.random((k,))
    for step in range(k):
        heights: Array = np.cumsum(left)
        row = min(int(np.searchsorted(heights, float(uniforms[step] * heights[-1]), side="right")), n - 1)
        rows[step] = row
        new = V @ V[row] - spanned[:step].T @ spanned[:step, row]
        new /= np.sqrt(left[row])
        spanned[step] = new
        left = np.maximum(left - new * new, 0.0)
        left[rows[: step + 1]] = 0.0
    return rows
