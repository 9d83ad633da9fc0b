"""Several outputs in units of their own, so that none is lost beside one of larger numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from squeak.core.types import Array
from squeak.learners.expansion import Expansion
from squeak.learners.tiles import power_of_two

USUAL = (1e-30, 1e30)
"""A single output whose deviation lies between these needs no unit: its squares are good numbers, and trees, which
take the gradients of their errors in float32, can learn it."""

LARGEST = 1e300
"""Sums of functions of larger targets would overflow."""


def as_columns(y: Any) -> Array:
    """Return targets with a column for each output."""
    return np.asarray(y).reshape(len(y), -1)


@dataclass(frozen=True)
class Units:
    """A power of two for every output, near its standard deviation: dividing by it rounds nothing."""

    unit: Array

    @classmethod
    def of(cls, y: Array, weight: Array | None) -> Units | None:
        """Return the units of targets of shape (n, outputs); None for one output of a usual size.

        Examples
        --------
        >>> import numpy as np
        >>> from squeak.learners.units import Units
        >>> y = np.random.default_rng(0).standard_normal((1000, 2)) * [1.0, 1e6]
        >>> Units.of(y, None).unit.tolist()
        [2.0, 1048576.0]
        >>> Units.of(y[:, :1], None)
        """
        if y.size and not np.abs(y).max() <= LARGEST:
            raise ValueError(f"targets beyond {LARGEST:g} leave float64 when they are predicted: scale them first")
        peak = power_of_two(y)
        small = y / peak
        deviation = np.sqrt(
            np.average(np.square(small - np.average(small, axis=0, weights=weight)), axis=0, weights=weight)
        )
        unit = np.where(np.ptp(small, axis=0) > 0.0, peak * power_of_two(deviation[None]), 1.0)
        if len(unit) == 1 and (USUAL[0] < unit[0] < USUAL[1]):
            return None
        return cls(unit)

    def __call__(self, y: Any) -> Array:
        """Return targets in their units, a column for each output."""
        return np.asarray(as_columns(y) / self.unit)

    def back(self, functions: Iterable[Expansion]) -> list[Expansion]:
        """Return functions of targets in these units in those of the targets."""
        return [one.times(self.unit) for one in functions]
