"""The oversampling that the theorems ask for. Large on purpose of proof: measure ε̂ and use less."""

from __future__ import annotations

import math


def _check(eps: float, delta: float, n: int) -> None:
    if not 0 < eps < 1:
        raise ValueError(f"eps must lie strictly between 0 and 1; it is {eps!r}")
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1; it is {delta!r}")
    if not n >= 1:
        raise ValueError(f"n, the number of rows, must be at least 1; it is {n!r}")


def squeak_oversampling(eps: float, delta: float, n: int) -> int:
    """Return q̄ = ⌈26·ρ·log(3n/δ)/ε²⌉ with ρ = (1 + 3ε)/(1 − ε): every dictionary of SQUEAK is (ε, γ)-accurate.

    Returns
    -------
    int

    References
    ----------
    Thesis, theorem 3.16; the theory page.

    Examples
    --------
    >>> from squeak.samplers import squeak_oversampling
    >>> squeak_oversampling(0.5, 0.1, 1000)
    5361
    """
    _check(eps, delta, n)
    rho = (1 + 3 * eps) / (1 - eps)
    return math.ceil(26 * rho * math.log(3 * n / delta) / eps**2)


def squeak_oversampling_aistats(eps: float, delta: float, n: int, distributed: bool = False) -> int:
    """Return q̄ = ⌈39·α·log(2n/δ)/ε²⌉, the conference's constant beside that of :func:`squeak_oversampling`.

    α = (1 + ε)/(1 − ε) for SQUEAK, row after row, and (1 + 3ε)/(1 − ε) for DISQUEAK's trees; its proof is for a
    ridge above 1 and a unit diagonal.

    Parameters
    ----------
    eps, delta : float
    n : int
        The number of rows.
    distributed : bool
        Whether dictionaries meet in a tree.

    Returns
    -------
    int

    References
    ----------
    Calandriello, Lazaric, Valko, AISTATS 2017, theorems 1 and 2; the theory page.

    Examples
    --------
    >>> from squeak.samplers import squeak_oversampling_aistats
    >>> squeak_oversampling_aistats(0.5, 0.1, 1000), squeak_oversampling_aistats(0.5, 0.1, 1000, distributed=True)
    (4635, 7725)
    """
    _check(eps, delta, n)
    alpha = (1 + (3 if distributed else 1) * eps) / (1 - eps)
    return math.ceil(39 * alpha * math.log(2 * n / delta) / eps**2)


def kors_oversampling(eps: float, delta: float, n: int) -> int:
    """Return q̄ = ⌈(16/3)·ρ·log(2n/δ)/ε²⌉ with ρ = (1 + ε)/(1 − ε), for KORS.

    The thesis prints 4·log(2n/δ)/ε²: its own variance bound carries ρ, and with the printed value errors above
    1 were measured at ε = 0.9.

    Returns
    -------
    int

    References
    ----------
    Thesis, theorem 3.11, corrected; the theory page.

    Examples
    --------
    >>> from squeak.samplers import kors_oversampling
    >>> kors_oversampling(0.5, 0.1, 1000)
    634
    """
    _check(eps, delta, n)
    rho = (1 + eps) / (1 - eps)
    return math.ceil(16 / 3 * rho * math.log(2 * n / delta) / eps**2)


def oracle_oversampling(eps: float, delta: float, n: int) -> int:
    """Return q̄ = ⌈4·log(4n/δ)/ε²⌉, for sampling with the exact scores.

    Returns
    -------
    int

    References
    ----------
    Thesis, section 2.2.2; the theory page (the rank, unknown, is replaced by n).

    Examples
    --------
    >>> from squeak.samplers import oracle_oversampling
    >>> oracle_oversampling(0.5, 0.1, 1000)
    170
    """
    _check(eps, delta, n)
    return math.ceil(4 * math.log(4 * n / delta) / eps**2)


def two_step_oversampling(eps: float, delta: float, n: int) -> int:
    """Return q̄ = ⌈ρ·4·log(8n/δ)/ε²⌉ with ρ = (1 + ε)/(1 − ε), for the second step of :class:`TwoStep` (δ/2 each).

    Returns
    -------
    int

    References
    ----------
    Thesis, corollary 3.4, corrected; the theory page.

    Examples
    --------
    >>> from squeak.samplers import two_step_oversampling
    >>> two_step_oversampling(0.5, 0.1, 1000)
    542
    """
    _check(eps, delta, n)
    return math.ceil((1 + eps) / (1 - eps) * 4 * math.log(8 * n / delta) / eps**2)


def many_step_oversampling(eps: float, delta: float, n: int) -> int:
    """Return q̄ = ⌈ρ·4·log(4n·T/δ)/ε²⌉ with ρ = (1 + 3ε)/(1 − ε) and T = ⌈log₂ n⌉ + 1 levels.

    Returns
    -------
    int

    References
    ----------
    Thesis, algorithm 5; the theory page (T for a ridge of at least 1 and a unit diagonal).

    Examples
    --------
    >>> from squeak.samplers import many_step_oversampling
    >>> many_step_oversampling(0.5, 0.1, 1000)
    1040
    """
    _check(eps, delta, n)
    levels = math.ceil(math.log2(n)) + 1
    return math.ceil((1 + 3 * eps) / (1 - eps) * 4 * math.log(4 * n * levels / delta) / eps**2)


def recursive_oversampling(eps: float, delta: float, n: int) -> int:
    """Return q̄ = ⌈16·(3/2)·log(n/δ)⌉, for :class:`Recursive`; its guarantee is for ε = 1/2 (``eps`` at least).

    The estimator's factor 3/2 (it must overestimate) and its log Σ τ̃ ≤ log n are both in the number.

    Returns
    -------
    int

    References
    ----------
    Thesis, proposition 3.7; the theory page.

    Examples
    --------
    >>> from squeak.samplers import recursive_oversampling
    >>> recursive_oversampling(0.5, 0.1, 1000)
    222
    """
    _check(eps, delta, n)
    if eps < 0.5:
        raise ValueError(f"the theorem of recursive sampling is for eps = 1/2 and above; it is {eps}")
    return math.ceil(24 * math.log(n / delta))


def online_oracle_oversampling(eps: float, delta: float, n: int) -> int:
    """Return q̄ = ⌈(16/3)·log(2n/δ)/ε²⌉, for the sequential oracles.

    Returns
    -------
    int

    References
    ----------
    Thesis, section 3.2.1, with the constant of the theory page.

    Examples
    --------
    >>> from squeak.samplers import online_oracle_oversampling
    >>> online_oracle_oversampling(0.5, 0.1, 1000)
    212
    """
    _check(eps, delta, n)
    return math.ceil(16 / 3 * math.log(2 * n / delta) / eps**2)


def bless_oversampling(eps: float, delta: float, n: int, ratio: float = 2.0) -> int:
    """Return q₂ = ⌈12·q·((2t + 1)/t)²·(1 + t)·log(12·H·n/δ)⌉, t = ``eps``, q = ``ratio``, H = ⌈log_q n⌉, for BLESS.

    With probability 1 − δ, at every ridge on the way, τ/(1 + t) ≤ τ̃ ≤ (1 + min(t, 1))·τ for all rows.

    Returns
    -------
    int

    References
    ----------
    Carratino's thesis, theorem 14; the theory page (H for a ridge of at least κ²).

    Examples
    --------
    >>> from squeak.samplers import bless_oversampling
    >>> bless_oversampling(0.5, 0.1, 1000)
    8063
    """
    _check(eps, delta, n)
    levels = max(1, math.ceil(math.log(n) / math.log(ratio)))
    return math.ceil(12 * ratio * ((2 * eps + 1) / eps) ** 2 * (1 + eps) * math.log(12 * levels * n / delta))
