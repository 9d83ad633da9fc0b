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

    References
    ----------
    Thesis, theorem 3.16; spec 5.2.

    Examples
    --------
    >>> from squeak.samplers import squeak_oversampling
    >>> squeak_oversampling(0.5, 0.1, 1000)
    5361
    """
    _check(eps, delta, n)
    rho = (1 + 3 * eps) / (1 - eps)
    return math.ceil(26 * rho * math.log(3 * n / delta) / eps**2)


def kors_oversampling(eps: float, delta: float, n: int) -> int:
    """Return q̄ = ⌈(16/3)·ρ·log(2n/δ)/ε²⌉ with ρ = (1 + ε)/(1 − ε), for KORS.

    The thesis prints 4·log(2n/δ)/ε²: its own variance bound carries ρ, and with the printed value errors above
    1 were measured at ε = 0.9.

    References
    ----------
    Thesis, theorem 3.11, corrected; spec 4.2.

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

    References
    ----------
    Thesis, section 2.2.2; spec 2.2 (the rank, unknown, is replaced by n).

    Examples
    --------
    >>> from squeak.samplers import oracle_oversampling
    >>> oracle_oversampling(0.5, 0.1, 1000)
    170
    """
    _check(eps, delta, n)
    return math.ceil(4 * math.log(4 * n / delta) / eps**2)
