"""Samples of exactly k rows: the scale at which they come up most often, and how it is corrected on the way."""

from __future__ import annotations

import math

from squeak.dpp.spectrum import solve_scale
from squeak.dpp.surrogate import Surrogate

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
