"""Regret: what was lost by not pulling the best arm, from the noise-free values of the arms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from squeak.bandits.checks import check_indices
from squeak.core.types import Array


@dataclass(frozen=True)
class Regret:
    """The regret of a run, pull by pull."""

    cumulative: Array
    """R_t = Σ_{s ≤ t} f* − f(x_s)."""
    simple: Array
    """f* − max_{s ≤ t} f(x_s)."""
    uniform: float
    """What one uniform pull loses on average: f* − mean f."""

    @property
    def average(self) -> Array:
        """R_t/t."""
        return self.cumulative / np.arange(1, len(self.cumulative) + 1)

    @property
    def relative(self) -> float:
        """R_T over the regret that T uniform pulls have in expectation."""
        return float(self.cumulative[-1]) / (len(self.cumulative) * self.uniform) if self.uniform > 0 else 0.0


def regret(values: Any, pulls: Any) -> Regret:
    """Return the regret of a sequence of pulls.

    Parameters
    ----------
    values : array of shape (A,)
        f at every arm, without noise.
    pulls : array of ints
        The arms pulled, in order: ``bandit.pulls_``.

    Returns
    -------
    Regret
        With ``cumulative``, ``simple`` and ``average`` regret at every pull, and ``relative`` in all.

    References
    ----------
    The theory page, "Bandits".

    Examples
    --------
    >>> from squeak.bandits import regret
    >>> r = regret([0.0, 1.0, 3.0], [0, 1, 2, 2])
    >>> r.cumulative, r.simple, round(r.relative, 2)
    (array([3., 5., 5., 5.]), array([3., 2., 0., 0.]), 0.75)
    """
    f = np.asarray(values, dtype=np.float64)
    if f.ndim != 1 or not np.isfinite(f).all():
        raise ValueError("values must be one finite number for each arm")
    lost = f.max() - f[check_indices(pulls, len(f))]
    return Regret(np.cumsum(lost), np.minimum.accumulate(lost), float(f.max() - f.mean()))
