"""What eigenvalues say of a determinantal point process: expected sizes, and sums over all sets of k of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from squeak.core.checks import check_number, check_whole
from squeak.core.kernels import gram
from squeak.core.leverage import weighted_spectrum
from squeak.core.rows import n_rows, take
from squeak.core.seeds import SAMPLE, RandomState, draw_seed, generator_at
from squeak.core.types import Array
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
