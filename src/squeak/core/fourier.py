"""Random Fourier features: rows as vectors whose inner products are the kernel's on average, for any data.

By Bochner's theorem a kernel of x − y is k(x, y) = E cos(ω·(x − y)), with ω from the kernel's spectral density.
With ω_j from it and b_j uniform on [0, 2π],

    φ(x) = √(2/M)·(cos(ω_j·x + b_j))_j,    E φ(x)·φ(y) = k(x, y),    |φ(x)·φ(y) − k(x, y)| = O(M^(−1/2)).

The source's first example prints the variance σ² for ω, where 1/σ² is right, and leaves out the √2: without it
the features belong to k/2. Its equations 3.3 to 3.5 leave out the 1/√M.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.checks import check_positive
from squeak.core.kernels import RBF, Laplacian, Matern, Scaled
from squeak.core.kernels.width import checked_width
from squeak.core.rows import n_rows, take
from squeak.core.seeds import SAMPLE, generator_at
from squeak.core.types import Array, Rows

TILE_BYTES = 2**19

PIECE = 8192
"""Numbers that are worked on at a time, so that they stay in the cache."""

FEW = 1024
"""Up to so many numbers, as a single row has, numpy's own cosine is faster than the many steps of ours."""


@cache
def _sine_series() -> Array:
    """Return the coefficients of sin(2π·q)/q in q², for |q| ≤ ¼: interpolated in Chebyshev's points."""
    from numpy.polynomial import Chebyshev, Polynomial

    def ratio(s: Array) -> Array:
        return 2.0 * np.pi * np.sinc(2.0 * np.sqrt(s))

    return np.asarray(Chebyshev.interpolate(ratio, 7, domain=[0.0, 1.0 / 16.0]).convert(kind=Polynomial).coef)


@dataclass(frozen=True)
class FourierFeatures:
    """Features φ(x) = height·cos(x·frequencies + offsets), drawn once.

    Source: Rahimi, Recht, "Random features for large-scale kernel machines", NIPS 2007.

    ``kernel``: its widths are numbers. ``height``: √(2·k(x, x)/M).
    """

    kernel: Any
    frequencies: Array
    offsets: Array
    height: float

    @classmethod
    def draw(cls, kernel: Any, columns: int, n_features: int, seed: int) -> FourierFeatures:
        """Return features of a kernel with numbers for widths, for rows of so many columns."""
        inner, factor = _parts(kernel)
        rng = generator_at(seed, SAMPLE)
        draws = _frequencies(inner, columns, n_features, rng)
        offsets = rng.uniform(0.0, 2.0 * np.pi, n_features)
        return cls(kernel, draws, offsets, float(np.sqrt(2.0 * factor / n_features)))

    @classmethod
    def pairs(cls, kernel: Any, columns: int, n_frequencies: int, rng: np.random.Generator) -> FourierFeatures:
        """Return the cosines and then the sines of so many frequencies: φ(x)·φ(x) is k(x, x) exactly.

        With offsets b of 0 and −π/2 and √(1/D) for height, D the number of frequencies.
        """
        inner, factor = _parts(kernel)
        draws = _frequencies(inner, columns, n_frequencies, rng)
        offsets = np.repeat([0.0, -0.5 * np.pi], n_frequencies)
        return cls(kernel, np.hstack([draws, draws]), offsets, float(np.sqrt(factor / n_frequencies)))

    @property
    def rank(self) -> int:
        """The number of features."""
        return int(self.frequencies.shape[1])

    @property
    def bound(self) -> float:
        """κ², what ‖φ(x)‖² can reach at most: 2·k(x, x)."""
        return self.height**2 * self.rank

    def block(self, X: Rows) -> Array:
        """Return the features of a block, on this thread; refuses rows whose phases overflow."""
        turns = X.astype(np.float64) / (2.0 * np.pi)  # float32 would lose the phase
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.ascontiguousarray(turns @ self.frequencies)
            values += self.offsets / (2.0 * np.pi)
            cosine_of_turns(values)
        if np.isnan(values.sum()):
            raise ValueError("rows divided by length_scale overflow float64: scale the columns first")
        values *= self.height
        return values

    def tiles(self, n: int) -> list[slice]:
        """Return the tiles in which so many rows are worked on."""
        return engine.tiles(n, int(np.clip(TILE_BYTES // (8 * self.rank), 16, 4096)))

    def transform(self, X: Rows) -> Array:
        """Return the features of checked rows, shape (len(X), M)."""
        out = np.empty((n_rows(X), self.rank))

        def fill(tile: slice) -> None:
            out[tile] = self.block(take(X, tile))

        engine.map_ordered(fill, self.tiles(n_rows(X)))
        return out


def cosine_of_turns(values: Array) -> None:
    """Replace every value u by cos(2π·u), in place, to 1e-15: four times as fast as numpy's own for many values.

    With r = u − round(u) and q = ¼ − |r| it is sin(2π·q), |q| ≤ ¼: an odd polynomial, evaluated in pieces that
    stay in the cache.
    """
    flat, sine = values.reshape(-1), _sine_series()
    if flat.size <= FEW:
        flat -= np.rint(flat)
        flat *= 2.0 * np.pi
        np.cos(flat, out=flat)
        return
    square, series = np.empty(PIECE), np.empty(PIECE)
    for start in range(0, flat.size, PIECE):
        q = flat[start : start + PIECE]
        b, s = square[: q.size], series[: q.size]
        np.rint(q, out=b)
        np.subtract(q, b, out=q)
        np.abs(q, out=q)
        np.subtract(0.25, q, out=q)
        np.multiply(q, q, out=b)
        np.multiply(b, sine[-1], out=s)
        for coefficient in sine[-2:0:-1]:
            s += coefficient
            s *= b
        s += sine[0]
        q *= s


def has_fourier_features(kernel: Any) -> bool:
    """Tell whether the spectral density of a kernel is known here."""
    while isinstance(kernel, Scaled):
        kernel = kernel.kernel
    return isinstance(kernel, RBF | Laplacian | Matern)


def _parts(kernel: Any) -> tuple[Any, float]:
    """Return the kernel inside all multiples, and the product of their factors."""
    factor = 1.0
    while isinstance(kernel, Scaled):
        kernel, factor = kernel.kernel, factor * check_positive("factor", kernel.factor)
    return kernel, factor


def _frequencies(kernel: Any, columns: int, n: int, rng: np.random.Generator) -> Array:
    """Return n frequencies from a kernel's spectral density, shape (columns, n)."""
    draws = _spectral_draws(kernel, columns, n, rng)
    draws /= np.broadcast_to(checked_width(kernel, columns), (columns,))[:, None]
    return draws


def _spectral_draws(kernel: Any, d: int, n: int, rng: np.random.Generator) -> Array:
    """Return n draws from the spectral density of a kernel of width 1, shape (d, n).

    RBF: normal. Laplacian (of the L1 distance): Cauchy in every column by itself. Matérn: Student's t with 2·nu
    degrees of freedom, one denominator for all columns of a draw.
    """
    if isinstance(kernel, RBF):
        return rng.standard_normal((d, n))
    if isinstance(kernel, Laplacian):
        return rng.standard_cauchy((d, n))
    if isinstance(kernel, Matern):
        if kernel.nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"nu must be 0.5, 1.5 or 2.5; it is {kernel.nu!r}")
        normal = rng.standard_normal((d, n))
        return normal / np.sqrt(rng.chisquare(2.0 * kernel.nu, n) / (2.0 * kernel.nu))
    raise TypeError(f"random features are known for RBF, Laplacian, Matern and their multiples, not for {kernel!r}")
