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
from squeak.core.kernels import diagonal
from squeak.core.leverage import INDEFINITE
from squeak.core.nystrom import EigenFeatures
from squeak.core.rows import n_rows, take
from squeak.core.types import Array, Rows
from squeak.dpp.spectrum import expected_size, solve_scale

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
