"""Which solver takes the least time: predicted from sizes alone, so that the same fit is solved in the same way.

The constants are nanoseconds of one core, measured once on an x86 processor with AVX2 (benchmarks/falkon). Only
their ratios decide, and those differ little from machine to machine: products in float64 run at half the speed of
float32, and a pass over kept values is bound by the memory.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from squeak.core.kernels import Kernel
from squeak.core.rows import n_rows, width_of
from squeak.core.types import Rows
from squeak.learners.cached import MOST_UNASKED
from squeak.learners.kept import PRODUCT, READ, TIMES_ATOMS, passes_with, sample_size

DIRECT_UP_TO = 4000
"""Atoms up to which the normal equations beat the iterations in float64 (one product of n·m² at full speed)."""

KERNEL, KERNEL_SINGLE = 6.0, 1.8
"""A kernel value in float64, and in float32 where the kernel has that."""

FLOP, FLOP_SINGLE = 1 / 24, 1 / 44
"""An operation of a matrix product."""

FACTOR = 0.2
"""Factors of K_MM and of the system, for m³."""

SMALL = 5e10
"""Below so many products, n·m², the normal equations take a second or two: nothing is to be gained."""

CLEARLY = 1.3
"""The iterations are chosen where they take this much less."""

SHARE_OF_ALL = 0.25
"""The part of the machine's memory that kernel values are reckoned with: what is free now must not decide."""


def reckoned_budget(asked: float | None) -> float:
    """Return the bytes of kernel values to reckon with: as asked, else a quarter of all memory, 4 GiB at most."""
    if asked is not None:
        return float(asked)
    try:
        return min(float(MOST_UNASKED), SHARE_OF_ALL * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float(MOST_UNASKED)


@dataclass(frozen=True)
class Costs:
    """Predicted seconds of one core for the normal equations and for the iterations on float32 values.

    Examples
    --------
    >>> from squeak.learners.choice import Costs
    >>> costs = Costs.of(250_000, 2_000, 7, single=True, budget=4e9)
    >>> 30 < costs.direct < 80, 5 < costs.kept < 20
    (True, True)
    """

    direct: float
    kept: float

    @classmethod
    def of(cls, n: int, m: int, columns: int, single: bool, budget: float) -> Costs:
        """Return the costs for n rows, m atoms and so many columns."""
        values, cube = 1e-9 * float(n) * m, 1e-9 * float(m) ** 3
        kernel = KERNEL + 2 * columns * FLOP
        direct = values * (kernel + 1.2 * m * FLOP) + cube * (FACTOR + 4 * FLOP)
        anew = KERNEL_SINGLE + 2 * columns * FLOP_SINGLE if single else kernel
        kept = min(1.0, budget / (4.0 * n * m))
        times = min(max(sample_size(n, m) / m, TIMES_ATOMS[0]), TIMES_ATOMS[-1])
        a_pass = READ + (1.0 - kept) * anew
        return cls(direct, values * (anew + passes_with(times) * a_pass) + cube * (FACTOR + times * PRODUCT))


def faster_solver(X: Rows, m: int, kernel: Any, budget: float | None) -> tuple[str, str]:
    """Return "direct" or "kept" for rows in memory, and why; for kernels of unknown cost what reads values once."""
    n = n_rows(X)
    if not isinstance(kernel, Kernel) or not kernel.requires_vector_input:
        chosen = "direct" if m <= DIRECT_UP_TO else "falkon"
        return chosen, f"nobody knows what values of this kernel cost: one pass up to {DIRECT_UP_TO:,} atoms"
    if float(n) * m**2 <= SMALL:
        return "direct", "the normal equations take a second or two"
    dense = hasattr(X, "dtype") and hasattr(X, "strides")
    single = dense and bool(getattr(kernel, "fast_float32", False))
    costs = Costs.of(n, m, width_of(X) or 1, single, reckoned_budget(budget))
    chosen = "kept" if costs.kept * CLEARLY < costs.direct else "direct"
    return chosen, f"predicted {costs.kept:.2g} s of a core by iterations in float32, {costs.direct:.2g} s directly"
