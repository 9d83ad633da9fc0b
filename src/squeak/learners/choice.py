"""Which solver takes the least time: predicted from sizes alone, so that the same fit is solved in the same way.

The constants are nanoseconds of one core, measured once on an x86 processor with AVX2 (benchmarks/falkon). Only
their ratios decide, and those differ little from machine to machine: products in float64 run at half the speed of
float32, and a pass over kept values is bound by the memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from squeak.core.kernels import Kernel
from squeak.core.rows import n_rows, width_of
from squeak.core.types import Rows
from squeak.learners.cached import reckoned_budget
from squeak.learners.sampled import (
    FLOP,
    PRODUCT,
    READ,
    TIMES_ATOMS,
    computes_in_float32,
    passes_with,
    sample_size,
    value_cost,
)

DIRECT_UP_TO = 4000
"""Atoms up to which the normal equations beat the iterations in float64 (one product of n·m² at full speed)."""

FACTOR = 0.2
"""Factors of K_MM and of the system, for m³."""

SMALL = 5e10
"""Below so many products, n·m², the normal equations take a second or two: nothing is to be gained."""

CLEARLY = 1.3
"""The iterations are chosen where they take this much less."""


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
        direct = values * (value_cost(columns, False) + 1.2 * m * FLOP) + cube * (FACTOR + 4 * FLOP)
        first = value_cost(columns, single)
        anew = (1.0 - min(1.0, budget / (4.0 * n * m))) * first
        times = min(max(sample_size(n, m, anew) / m, TIMES_ATOMS[0]), TIMES_ATOMS[-1])
        a_pass = READ + anew
        return cls(direct, values * (first + passes_with(times) * a_pass) + cube * (FACTOR + times * PRODUCT))


def faster_solver(X: Rows, m: int, kernel: Any, budget: float | None) -> tuple[str, str]:
    """Return "direct" or "kept" for rows in memory, and why; for kernels of unknown cost what reads values once."""
    n = n_rows(X)
    if not isinstance(kernel, Kernel) or not kernel.requires_vector_input:
        chosen = "direct" if m <= DIRECT_UP_TO else "falkon"
        return chosen, f"nobody knows what values of this kernel cost: one pass up to {DIRECT_UP_TO:,} atoms"
    if float(n) * m**2 <= SMALL:
        return "direct", "the normal equations take a second or two"
    costs = Costs.of(n, m, width_of(X) or 1, computes_in_float32(kernel, X), reckoned_budget(budget))
    chosen = "kept" if costs.kept * CLEARLY < costs.direct else "direct"
    return chosen, f"predicted {costs.kept:.2g} s of a core by iterations in float32, {costs.direct:.2g} s directly"
