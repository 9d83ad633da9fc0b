"""Widths β of the confidence intervals |f − μ| ≤ β·σ: what an upper confidence bound adds to the mean.

Variances here are in ridge-leverage units, σ² = s²/λ with s the posterior's standard deviation and λ = noise²; a
width for s itself is β/√λ. With F a bound on ‖f‖ in the kernel's space, ξ the noise, a = (1 + ε)/(1 − ε):

    logdet       β = √λ·F + ξ·√(Σ_s log(1 + σ²_{s−1}(x_s)) + 2·log(1/δ))
    theory       β = (1 + 1/√(1−ε))·√λ·F + ξ·√(2·(Σ_s log(1 + a·σ̃²_{s−1}(x_s)) + log(1/δ)))
    theory-sum   β = (1 + 1/√(1−ε))·√λ·F + ξ·√(2·(a·(1 + log(1 + κ²t/λ))·Σ_i n_i·σ̃_i² + log(1/δ)))
    public       β = √λ·F + ξ·√(log(t)·Σ_i n_i·σ̃_i² + log(1/δ))

For the exact posterior Σ_s log(1 + σ²_{s−1}(x_s)) = logdet(I + K_t/λ), and ``logdet`` is the self-normalised bound
itself: it holds for all arms and all steps with probability 1 − δ (the theory page, "Bandits"; equation 7.5 of
Carratino's thesis is the same with a looser constant). For a dictionary the two ``theory`` forms hold at the
papers' oversampling (theorem 21 of the thesis, corrected), and ``logdet`` is the practical one. ``public`` is the
form of the authors' code; no theorem is known for it, nor for a constant, such as the default of 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

from squeak.core.checks import check_positive

WidthLike: TypeAlias = "str | float | Width"


@dataclass(frozen=True)
class Evidence:
    """What a width may depend on: all known before the next arm is chosen."""

    ridge: float
    noise: float
    norm: float
    delta: float
    largest: float
    """κ², the largest k(x, x) over the arms."""
    pulls: int
    log_sum: float
    """Σ_s log(1 + inflation·σ²_{s−1}(x_s)) over the pulls."""
    variance_sum: float
    """Σ_i n_i·σ_i² over the arms."""


@dataclass(frozen=True)
class Width:
    """A width β in ridge-leverage units, ``width(evidence)``; derive from it for a form of your own."""

    @property
    def inflation(self) -> float:
        """The factor a on the variances inside the running log-determinant."""
        return 1.0

    def __call__(self, seen: Evidence) -> float:
        """Return β."""
        raise TypeError("Width is abstract: use 'logdet', 'theory', 'theory-sum', 'public' or a number")

    def in_batch(self, beta: float, factor: float) -> float:
        """Return the width to use inside a batch of that factor."""
        return beta


@dataclass(frozen=True)
class LogDet(Width):
    """The self-normalised bound."""

    def __call__(self, seen: Evidence) -> float:
        """Return β."""
        return math.sqrt(seen.ridge) * seen.norm + seen.noise * math.sqrt(seen.log_sum - 2.0 * math.log(seen.delta))


@dataclass(frozen=True)
class Theory(Width):
    """The tighter valid form for BKB: the log-determinant from inflated estimates, computed as it goes."""

    eps: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.eps < 1:
            raise ValueError(f"eps must lie between 0 and 1; it is {self.eps!r}")

    @property
    def inflation(self) -> float:
        """The factor a = (1 + ε)/(1 − ε)."""
        return (1.0 + self.eps) / (1.0 - self.eps)

    def _information(self, seen: Evidence) -> float:
        return seen.log_sum

    def __call__(self, seen: Evidence) -> float:
        """Return β."""
        bias = (1.0 + 1.0 / math.sqrt(1.0 - self.eps)) * math.sqrt(seen.ridge) * seen.norm
        return bias + seen.noise * math.sqrt(2.0 * (self._information(seen) - math.log(seen.delta)))

    def in_batch(self, beta: float, factor: float) -> float:
        """Return √factor·β, for variances shrink by at most that factor while the mean waits."""
        return math.sqrt(factor) * beta


@dataclass(frozen=True)
class TheorySum(Theory):
    """The valid form for BKB from the sum of variances."""

    def _information(self, seen: Evidence) -> float:
        return self.inflation * (1.0 + math.log1p(seen.largest * seen.pulls / seen.ridge)) * seen.variance_sum


@dataclass(frozen=True)
class Public(Width):
    """The form of the authors' public code."""

    def __call__(self, seen: Evidence) -> float:
        """Return β."""
        information = seen.variance_sum * math.log(max(seen.pulls, 1)) - math.log(seen.delta)
        return math.sqrt(seen.ridge) * seen.norm + seen.noise * math.sqrt(information)


@dataclass(frozen=True)
class Constant(Width):
    """So many posterior standard deviations, whatever was seen: μ + c·s."""

    deviations: float = 2.0

    def __post_init__(self) -> None:
        check_positive("beta", self.deviations)

    def __call__(self, seen: Evidence) -> float:
        """Return β."""
        return self.deviations * math.sqrt(seen.ridge)


NAMES: dict[str, type[Width]] = {"logdet": LogDet, "theory": Theory, "theory-sum": TheorySum, "public": Public}
STORED = NAMES | {"constant": Constant}


def make_width(beta: WidthLike) -> Width:
    """Return the width that the user named: a word, a number of standard deviations, or a :class:`Width`."""
    if isinstance(beta, Width):
        return beta
    if not isinstance(beta, str):
        return Constant(check_positive("beta", beta))
    if beta not in NAMES:
        raise ValueError(f"beta must be a number or one of {', '.join(NAMES)}; it is {beta!r}")
    return NAMES[beta]()


def width_to_data(width: Width) -> dict[str, Any]:
    """Return the width as JSON data."""
    for name, cls in STORED.items():
        if type(width) is cls:
            return {"name": name} | dict(vars(width))
    raise TypeError(f"{width!r} is code, which is never stored")


def width_from_data(data: dict[str, Any]) -> Width:
    """Return the width that :func:`width_to_data` described."""
    return STORED[data["name"]](**{key: float(value) for key, value in data.items() if key != "name"})
