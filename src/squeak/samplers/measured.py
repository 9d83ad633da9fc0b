"""How accurate a dictionary is: ε̂ = ‖P − P̃‖, exactly for small data, bracketed by one pass for large."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, eigvalsh

from squeak.core import engine
from squeak.core.kernels import gram
from squeak.core.leverage import check_resolved, check_ridge
from squeak.core.nystrom import EigenFeatures, Features
from squeak.core.rows import n_rows, same_rows, take
from squeak.core.seeds import PROBE, RandomState, draw_seed, generator_at
from squeak.core.types import Array, Rows
from squeak.samplers.dictionary import Dictionary, needs_weights

TILE = 2048
ROUNDING = 1e-8
"""Taken off the lower bound, so that it is one in floating point too."""

GROUP = 4
"""Tiles summed at a time: memory is GROUP matrices of m × m, whatever the number of rows."""


def accuracy_meter(K: Array, ridge: float) -> Callable[[Array], float]:
    """Return the function that measures ‖P − P̃‖ of weights, one a row and 0 for rows left out.

    P = K(K + ridge·I)⁻¹ = C Cᵀ and P̃ = C diag(w) Cᵀ; the error is two-sided, both ends count. The eigenvectors of
    K are found once, so that many dictionaries of the same rows are measured cheaply.

    Source: Thesis, definition 2.1; the theory page.
    """
    eigenvalues, vectors = eigh(K, check_finite=False)
    check_resolved(eigenvalues, ridge)
    keep = eigenvalues > len(eigenvalues) * np.finfo(np.float64).eps * eigenvalues[-1]
    eigenvalues, vectors = eigenvalues[keep], vectors[:, keep]
    B = vectors * np.sqrt(eigenvalues / (eigenvalues + ridge))

    def measure(weights: Array) -> float:
        ends = eigvalsh(B.T @ ((1.0 - weights)[:, None] * B), check_finite=False)
        return float(max(-ends[0], ends[-1]))

    return measure


def accuracy(dictionary: Dictionary, X: Rows, ridge: float | None = None) -> float:
    """Measure ε̂ = ‖P − P̃‖ of a dictionary exactly, on the rows that it was learned from.

    P = K(K + ridge·I)⁻¹ and P̃ = C S Sᵀ Cᵀ, with C = P^(1/2) and S² the weights. Every guarantee has the form
    "given an (ε, ridge)-accurate dictionary". If ε̂ < 1, they hold with this number and without any probability: (1
    − ε̂)ΦΦᵀ − ε̂·ridge·Π ⪯ ΦSSᵀΦᵀ ⪯ (1 + ε̂)ΦΦᵀ + ε̂·ridge·Π. At 1 or above nothing is guaranteed. It takes a time
    of order n³ and a memory of order n², so use it for a few thousand rows.

    Parameters
    ----------
    dictionary : Dictionary
        A dictionary with weights.
    X : rows
        All the rows, in order; those of a merged dictionary source after source.
    ridge : float, optional
        The ridge. The default is that of the dictionary.

    Returns
    -------
    float

    References
    ----------
    Thesis, definition 2.1; the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import Squeak
    >>> from squeak.kernels import RBF
    >>> from squeak.leverage import accuracy
    >>> X = np.random.default_rng(0).standard_normal((1000, 2))
    >>> d = Squeak(kernel=RBF(2.0), ridge=1.0, oversampling=40, random_state=0).fit(X).dictionary_
    >>> accuracy(d, X) < 0.5
    True
    """
    X = _rows_of(dictionary, X)
    weights = np.zeros(dictionary.n_seen)
    weights[dictionary.positions] = dictionary.weights
    ridge = dictionary.ridge if ridge is None else check_ridge(ridge)
    return accuracy_meter(gram(dictionary.kernel, X), ridge)(weights)


def _rows_of(dictionary: Dictionary, X: Rows) -> Rows:
    """Check that X are the rows that the dictionary was learned from."""
    needs_weights(dictionary, "accuracy")
    X = dictionary.check_rows(X)
    if n_rows(X) != dictionary.n_seen:
        raise ValueError(f"the dictionary was learned from {dictionary.n_seen:,} rows, X has {n_rows(X):,}")
    if not same_rows(take(X, dictionary.positions), dictionary.atoms):
        raise ValueError("X are not the rows the dictionary was learned from: its atoms are not where they were")
    return X


@dataclass(frozen=True)
class AccuracyBounds:
    """What :func:`estimate_accuracy` found: lower ≤ ε̂ always, and ε̂ ≤ upper if ``residual`` is no underestimate."""

    lower: float
    upper: float
    residual: float
    """Estimate of ‖K − K̃‖, the largest eigenvalue of what the atoms do not span."""


def estimate_accuracy(
    dictionary: Dictionary, X: Rows, ridge: float | None = None, n_probe: int = 1000, random_state: RandomState = 0
) -> AccuracyBounds:
    """Bracket ε̂ = ‖P − P̃‖ by one pass over the rows, in memory that does not grow with them.

    With z(x) the coordinates of a row in the span of the atoms, the pass sums G = Σ z zᵀ; G̃ = Σ w z zᵀ over the
    atoms is known. ε̂ is the largest ``|xᵀ(Σ − Σ̃)x| / xᵀ(Σ + ridge)x`` over all directions x, Σ = ΦΦᵀ:

    * ``lower``: the largest over directions in the span of the atoms, exactly. Always ≤ ε̂.
    * ``upper``: the smallest ε for which both inequalities of the definition follow from G, G̃ and
      r ≥ ‖K − K̃‖, the part of the data outside that span. Always ≥ ε̂ for such an r. r is estimated
      from ``n_probe`` uniformly drawn rows J as the largest eigenvalue of ``(n/|J|)·(K − K̃)_JJ``, whose
      expectation is at least the true value. With ``n_probe`` ≥ n it is exact.

    Parameters
    ----------
    dictionary : Dictionary
    X : rows
        All the rows the dictionary was learned from.
    ridge : float, optional
        The dictionary's own when left out.
    n_probe : int
    random_state : None, int, RandomState or Generator
        Draws the probe rows.

    Returns
    -------
    AccuracyBounds

    References
    ----------
    Definition: thesis, 2.1. The two bounds are derived in docs/accuracy.md.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import Squeak
    >>> from squeak.kernels import RBF
    >>> from squeak.leverage import accuracy, estimate_accuracy
    >>> X = np.random.default_rng(0).standard_normal((1000, 2))
    >>> d = Squeak(kernel=RBF(2.0), ridge=1.0, oversampling=40, random_state=0).fit(X).dictionary_
    >>> found = estimate_accuracy(d, X)
    >>> found.lower <= accuracy(d, X) <= found.upper
    True
    """
    X = _rows_of(dictionary, X)
    n = n_rows(X)
    if n_probe < 1:
        raise ValueError(f"n_probe must be at least 1; it is {n_probe}")
    ridge = dictionary.ridge if ridge is None else check_ridge(ridge)
    features = EigenFeatures(dictionary.kernel, dictionary.atoms)
    with engine.single_blas():
        G = second_moment(features, X)
        atoms = features.block(dictionary.atoms)
        G_tilde = atoms.T @ (dictionary.weights[:, None] * atoms)
        rng = generator_at(draw_seed(random_state), PROBE)
        probe = take(X, np.sort(rng.choice(n, min(n, n_probe), replace=False)))
        z = features.block(probe)
        outside = gram(dictionary.kernel, probe) - z @ z.T
        residual = max(0.0, float(eigvalsh(outside)[-1]) * n / n_rows(probe))
        ends = eigvalsh(G - G_tilde, G + ridge * np.eye(len(G)))
        lower = max(float(max(-ends[0], ends[-1])) - ROUNDING, 0.0)
        upper = _smallest_accuracy(G, G_tilde, ridge, residual, lower)
    return AccuracyBounds(lower, upper, residual)


def second_moment(features: Features, X: Rows, size: int = TILE) -> Array:
    """Return Σ z zᵀ over all rows, summed in a fixed order, tiles of some size at a time."""

    def part(tile: slice) -> Array:
        z = features.block(take(X, tile))
        return np.asarray(z.T @ z)

    total = np.zeros((features.rank, features.rank))
    tiles = engine.tiles(n_rows(X), size)
    for group in engine.tiles(len(tiles), GROUP):
        for term in engine.map_ordered(part, tiles[group]):
            total += term
    return total


def _smallest_accuracy(G: Array, G_tilde: Array, ridge: float, residual: float, lower: float) -> float:
    """Return the smallest ε for which G, G̃ and a residual ≤ r imply (ε, ridge)-accuracy; docs/accuracy.md."""
    identity = np.eye(len(G))

    def implied(eps: float) -> bool:
        slack = eps * ridge - (1.0 - eps) * residual
        if eps < 1.0 and slack <= 0:
            return False
        stretch = 1.0 + max(0.0, (1.0 - eps) * residual / slack) if eps < 1.0 else 1.0
        above = G_tilde + eps * ridge * identity - max(0.0, 1.0 - eps) * stretch * G
        shift = eps * ridge / (1.0 + eps)
        shrunk = (1.0 + eps) * (1.0 if residual == 0 else shift / (residual + shift))
        below = shrunk * G + eps * ridge * identity - G_tilde
        return _is_psd(above) and _is_psd(below)

    low = lower
    high = max(lower, residual / (residual + ridge), 1e-12)
    while not implied(high):
        low, high = high, 2.0 * high
        if high > 1e6:
            return float("inf")
    while high - low > 1e-3 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if implied(middle) else (middle, high)
    return float(high)


def _is_psd(A: Array) -> bool:
    try:
        np.linalg.cholesky(A + 1e-12 * np.abs(A).max() * np.eye(len(A)))
    except np.linalg.LinAlgError:
        return False
    return True
