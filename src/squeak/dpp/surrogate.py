"""A stand-in for all rows, small enough to be decomposed: A = Σ g_j e_j e_jᵀ in the span of a dictionary's atoms.

Whatever A is, the scores l_i = αφ_iᵀ(I + αA)⁻¹φ_i make proposals from which exact samples come; how near A is to
C = Σ φ_i φ_iᵀ over all rows decides how many proposals are refused. Two forms: the projected one, A = P C P with P
the projection on the span of the atoms, takes a sum over all rows; the weighted one, A = Σ w_j φ_j φ_jᵀ over the
atoms, takes none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from squeak.core import engine
from squeak.core.checks import check_number, check_whole
from squeak.core.kernels import diagonal, gram
from squeak.core.leverage import INDEFINITE, weighted_spectrum
from squeak.core.nystrom import EigenFeatures
from squeak.core.rows import n_rows, take
from squeak.core.seeds import SAMPLE, RandomState, draw_seed, generator_at
from squeak.core.types import Array, Rows
from squeak.data import gather
from squeak.samplers.base import own_kernel
from squeak.samplers.bless import distinct

LARGEST_SPECTRUM = 2_000
"""With more rows than this, a scale is sought from a uniform sample of so many."""


def expected_size(eigenvalues: Array, scale: float = 1.0) -> float:
    """Return Σ αλ/(1 + αλ), the expected size of a sample from DPP(αL)."""
    return float((scale * eigenvalues / (1.0 + scale * eigenvalues)).sum())


def solve_scale(size: float, eigenvalues: Array, residual: float = 0.0) -> float:
    """Return the α at which Σ αλ/(1 + αλ) + α·residual = size; the left side only grows with α.

    ``size``: positive, and below the number of positive eigenvalues unless there is a residual. ``residual``: the
    part of the trace that the eigenvalues leave out, in directions that are all small.
    """
    positive = eigenvalues[eigenvalues > 0]
    if not size < len(positive) and residual <= 0:
        raise ValueError(f"a size of {size:g} is out of reach: the kernel's matrix has rank {len(positive)}")
    total = float(positive.sum()) + residual
    if total <= 0:
        raise ValueError("the kernel is zero on all rows: every sample is empty")

    def reached(log_scale: float) -> bool:
        scale = math.exp(log_scale)
        return expected_size(positive, scale) + scale * residual >= size

    low = math.log(size / total)  # Σ αλ/(1 + αλ) ≤ α·total: the size is not reached before
    high = low + 1.0
    while not reached(high):
        high += 2.0 * (high - low)
        if high > low + 600:
            raise ValueError(f"a size of {size:g} is out of reach: the kernel's matrix has too small a rank")
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return math.exp(high)


def scale_for_size(X: Any, kernel: Any, size: float, random_state: RandomState = None) -> float:
    """Return the factor α at which samples of DPP(α·L) have the expected size asked for.

    Solves Σ αλ/(1 + αλ) = size over the eigenvalues λ of the kernel's matrix. Above 2,000 rows the eigenvalues
    are those of a uniform sample of 2,000 rows, times n/2,000; :class:`DPP` with ``expected_size`` starts from
    there and corrects it from all rows.

    Parameters
    ----------
    X : rows, or a row source (read into memory)
    kernel : kernel
    size : float
        Positive, less than the rank of the kernel's matrix.
    random_state : None, int, RandomState or Generator
        Chooses the sample of rows, where one is needed.

    Returns
    -------
    float

    References
    ----------
    Calandriello, Dereziński, Valko, "Sampling from a k-DPP without looking at all items", NeurIPS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.dpp import ExactDPP, scale_for_size
    >>> from squeak.kernels import RBF
    >>> X = np.random.default_rng(0).standard_normal((300, 2))
    >>> alpha = scale_for_size(X, RBF(1.0), 20)
    >>> round(ExactDPP(alpha * RBF(1.0)).fit(X).expected_size_, 6)
    20.0
    """
    kernel = own_kernel(kernel)
    X, _ = gather(X, kernel)
    kernel = kernel.resolve(X) if hasattr(kernel, "resolve") else kernel
    check_size(size, n_rows(X))
    n, factor = n_rows(X), 1.0
    if n > LARGEST_SPECTRUM:
        rng = generator_at(draw_seed(random_state), SAMPLE)
        X, factor = take(X, np.sort(distinct(n, LARGEST_SPECTRUM, rng))), n / LARGEST_SPECTRUM
    eigenvalues = np.maximum(weighted_spectrum(gram(kernel, X), np.full(n_rows(X), factor))[0], 0.0)
    return solve_scale(float(size), eigenvalues[eigenvalues > 1e-13 * eigenvalues[-1]])


def check_size(size: Any, n: int) -> float:
    """Return an expected size as a float, or raise: positive, and below the number of rows."""
    if not 0 < check_number("the expected size", size) < n:
        raise ValueError(f"the expected size must lie between 0 and the number of rows, {n:,}; it is {size!r}")
    return float(size)


def check_k(k: Any, n: int) -> int:
    """Return the size of a k-DPP's samples as an int, or raise."""
    if check_whole("k", k) > n:
        raise ValueError(f"k must lie between 1 and the number of rows, {n:,}; it is {k}")
    return int(k)


def log_symmetric_sums(eigenvalues: Array, k: int) -> Array:
    """Return the logarithms of e_l(λ_1, …, λ_j), the sums over all sets of l of the first j eigenvalues.

    Shape (n + 1, k + 1), row j for the first j; e_l(j) = e_l(j − 1) + λ_j·e_{l−1}(j − 1).
    """
    with np.errstate(divide="ignore"):
        logs = np.log(eigenvalues)
    table = np.full((len(eigenvalues) + 1, k + 1), -np.inf)
    table[:, 0] = 0.0
    for j, log_value in enumerate(logs.tolist(), start=1):
        table[j, 1:] = np.logaddexp(table[j - 1, 1:], log_value + table[j - 1, :-1])
    return table


TILE = 1024
SMALLEST_PART = 1e-8
"""Directions in which the atoms have less than this part of their largest eigenvalue are left out of the span."""


def span_of(kernel: Any, atoms: Rows) -> EigenFeatures:
    """Return coordinates in the span of the atoms: z(x) with ⟨z(x), z(y)⟩ = ⟨Pφ(x), Pφ(y)⟩.

    Left out are directions so small that rounding would bend the basis.
    """
    features = EigenFeatures(kernel, atoms)
    eigenvalues = np.square(features.transform(atoms)).sum(axis=0)
    features.mixing = features.mixing[:, eigenvalues > SMALLEST_PART * eigenvalues.max(initial=0.0)]
    return features


@dataclass(frozen=True)
class Surrogate:
    """A = Σ g_j e_j e_jᵀ: coordinates of rows along the e_j, and the g_j.

    Source: Dereziński, Calandriello, Valko, NeurIPS 2019, and the same authors, NeurIPS 2020: l_i, z and log det of
    DPP-VFX (projected) and of α-DPP (weighted).

    ``features``: coordinates along e_1, e_2, …, orthonormal. ``spectrum``: the g_j. ``residual``: Σ k(x, x) −
    ‖z(x)‖² over all rows, where it is known; else 0.
    """

    features: EigenFeatures
    spectrum: Array
    residual: float = 0.0

    @classmethod
    def rotated(cls, span: EigenFeatures, moment: Array, residual: float = 0.0) -> Surrogate:
        """Return the surrogate of A given as a matrix in the coordinates of the span, whose basis is turned."""
        with engine.single_blas():
            spectrum, turn = eigh(moment, check_finite=False)
            span.mixing = np.ascontiguousarray(span.mixing @ turn)
        return cls(span, np.maximum(spectrum, 0.0), residual)

    @classmethod
    def weighted(cls, kernel: Any, atoms: Rows, weights: Array) -> Surrogate:
        """Return the surrogate A = Σ w_j φ_j φ_jᵀ of a weighted dictionary."""
        span = span_of(kernel, atoms)
        Z = span.transform(atoms)
        return cls.rotated(span, (Z * weights[:, None]).T @ Z)

    def scores(self, X: Rows, scale: float) -> Array:
        """Return αφᵀ(I + αA)⁻¹φ = α(k(x, x) − ‖z‖²) + Σ_j αz_j²/(1 + αg_j) for checked rows, in tiles."""
        shares = 1.0 / (1.0 + scale * self.spectrum)

        def tile_scores(tile: slice) -> Array:
            part = take(X, tile)
            squares = np.square(self.features.block(part))
            diag = diagonal(self.features.kernel, part)
            left = unexplained(diag, squares.sum(axis=1), self.features.kernel)
            return np.asarray(scale * (left + squares @ shares))

        if n_rows(X) <= TILE:
            return tile_scores(slice(None))
        return np.concatenate(engine.map_ordered(tile_scores, engine.tiles(n_rows(X), TILE)))

    def trace(self, scale: float) -> float:
        """Return Tr αA(I + αA)⁻¹."""
        return expected_size(self.spectrum, scale)

    def log_det(self, scale: float) -> float:
        """Return log det(I + αA)."""
        return float(np.log1p(scale * self.spectrum).sum())

    def total(self, scale: float) -> float:
        """Return the sum of all rows' scores (projected form; the trace in the weighted one, as its estimate)."""
        return self.trace(scale) + scale * self.residual

    def size(self, scale: float) -> float:
        """Return the expected size of a sample of DPP(αL), half-way between two bounds.

        With f(C) = Tr αC(I + αC)⁻¹: f(PCP) ≤ f(C) as eigenvalues of PCP are no larger than those of C, and
        f(C) ≤ f(PCP) + α·residual as f is concave. In the weighted form the trace is an estimate, not a bound.
        """
        return self.trace(scale) + scale * self.residual / 2

    def scale_for(self, size: float) -> float:
        """Return the scale at which :meth:`size` is the one asked for."""
        return solve_scale(size, self.spectrum, self.residual / 2)


def unexplained(diag: Array, explained: Array, kernel: Any) -> Array:
    """Return k(x, x) − ‖z(x)‖², rounding below zero clipped; refuse what rounding cannot explain."""
    left = diag - explained
    worst = float(np.min(left + INDEFINITE * diag, initial=np.inf))
    if worst < 0 or np.isnan(worst):
        raise ValueError(
            f"{kernel!r} is not positive semi-definite: a row lies at squared distance {np.min(left):.3g} < 0 from "
            "the span of the dictionary; use a PSD kernel"
        )
    return np.maximum(left, 0.0)


WIDEST = 4.0
"""The search for a scale goes no further than this factor from where it began, on either side."""


def starting_scale(surrogate: Surrogate, k: int) -> float:
    """Return the α at which samples have k rows on average; where k is all the kernel's rank gives, a little less.

    Raises where no k rows can have a positive determinant.
    """
    spectrum, residual = surrogate.spectrum, surrogate.residual
    largest = float(spectrum.max(initial=0.0))
    rank = int((spectrum > 1e-12 * largest).sum())
    if residual <= 1e-9 * float(spectrum.sum()):  # the span of the atoms holds everything
        if k > rank:
            raise ValueError(f"the kernel's matrix has rank {rank}: no {k} rows have a positive determinant")
        return solve_scale(min(float(k), rank - 0.25), spectrum[spectrum > 1e-12 * largest])
    return surrogate.scale_for(float(k))


class ScaleSearch:
    """The scale for samples of size k, moved by the sizes seen alone; so every sample of size k is exact.

    After every ⌈√k⌉ + 3 sizes without enough hits: if more were too small than too large, this scale becomes the
    lower end of a bracket, else the upper end; the next scale is the geometric mean. It ends at a ratio of
    1 + 1/(k + 3)², or where two of the sizes were hits.

    Source: Calandriello, Dereziński, Valko, "Sampling from a k-DPP without looking at all items", NeurIPS 2020.
    """

    def __init__(self, k: int, scale: float) -> None:
        self.k, self.scale = k, scale
        self._low, self._high = scale / WIDEST, scale * WIDEST
        self._window = math.ceil(math.sqrt(k)) + 3
        self._seen = self._hits = self._balance = 0
        self._settled = False

    def record(self, size: int) -> bool:
        """Take note of a sample's size; return whether the scale has changed."""
        self._seen += 1
        self._hits += size == self.k
        self._balance += (size > self.k) - (size < self.k)
        if self._settled or self._seen < self._window:
            return False
        balance, hits = self._balance, self._hits
        self._seen = self._hits = self._balance = 0
        if hits >= 2 or self._high / self._low <= 1 + 1 / (self.k + 3) ** 2:
            self._settled = True
            return False
        if balance == 0:
            return False
        if balance < 0:
            self._low = self.scale
        else:
            self._high = self.scale
        self.scale = math.sqrt(self._low * self._high)
        return True
