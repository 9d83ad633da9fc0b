"""One function over a box, an objective or a constraint: its values in units of their own, and its posterior."""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from squeak.bandits.box_model import BoxModel
from squeak.bandits.evidence import fit_hyperparameters
from squeak.bandits.space import Space
from squeak.core.kernels import RBF, Matern, Scaled, block, diagonal
from squeak.core.types import Array

LEAST_NOISE = 3e-4
"""The noise is never taken for less than this part of the kernel's standard deviation."""

SMOOTHNESS = (1.5, 2.5)
"""The Matérn kernels of which each fit takes the more likely one, where the user names no kernel."""

LEARNED = 400
"""Widths are fitted to so many points at most."""


class Surface:
    """Values of one function, centred and scaled, with the posterior that is fitted to them.

    Widths and noise are fitted by marginal likelihood whenever the number of points has grown by a sixth.
    Between calls: ``model`` is the posterior of all points told since the first fit, and ``fitted_at`` the number
    of points at the last fit, 0 before the first.

    ``kernel``: None chooses the smoothness of a Matérn kernel by likelihood. ``level``: the sign of the values is
    what matters, as of a constraint: they are scaled, but neither centred nor squeezed.
    """

    def __init__(self, model: BoxModel, kernel: Any, space: Space, *, level: bool = False) -> None:
        self.model, self.kernel, self.space, self.level = model, kernel, space, level
        self.fitted_at, self.median, self.spread = 0, 0.0, 1.0

    def copy(self) -> Surface:
        """Return a surface in the same state that learning by this one leaves as it is."""
        other = copy(self)
        other.model = self.model.copy()
        return other

    def learn(self, X: Array, y: Array, rng: np.random.Generator, *, first: int, new: int = 1) -> None:
        """Take in the last ``new`` points of all; the first fit is at ``first`` points that are not all alike."""
        if self.fitted_at:
            due = new > 1 or len(X) >= self.fitted_at + max(2, self.fitted_at // 6)
        else:
            due = len(X) >= first and bool(np.ptp(y) > 0)
        if due:
            self._fit(X, y, rng)
        elif self.fitted_at:
            self.model.observe(X, self.warped(y), rng)

    def _fit(self, X: Array, y: Array, rng: np.random.Generator) -> None:
        """Fit widths, noise and amplitude to the values in their units."""
        if self.level:
            self.spread = float(np.sqrt((y * y).mean())) or 1.0
        else:
            median = float(np.median(y))
            spread = float((np.sort(y)[len(y) // 2 :] - median).mean()) or float(y.std()) or 1.0
            noise = self.model.noise * self.spread if self.fitted_at else 0.0
            if spread > 4.0 * noise:  # else the better half differs by noise alone, which is no unit to zoom into
                self.median, self.spread = median, spread
        values = self.warped(y)
        use = np.arange(len(X)) if len(X) <= LEARNED else np.sort(rng.choice(len(X), LEARNED, replace=False))
        found = max((self._likely(X[use], values[use], *pair) for pair in self._kernels()), key=_likelihood)
        self.model.refit(X, values, found.kernel, found.noise, found.mean, rng)
        self.fitted_at = len(X)

    def _kernels(self) -> list[tuple[Any, Any]]:
        """Return pairs of a prior kernel and one to begin the fit from."""
        if self.kernel is not None:
            return [(self.kernel, self.model.kernel if self.fitted_at else self.kernel)]
        width = 0.25 * math.sqrt(max(len(self.space.sides), 4))  # distances grow with the number of sides
        begin: Any = Matern(width, nu=2.5) * 1.0 if self.model.kernel is None else self.model.kernel
        return [
            (Matern(width, nu=nu), Scaled(Matern(begin.kernel.length_scale, nu=nu), begin.factor))
            for nu in SMOOTHNESS
        ]

    def _likely(self, X: Array, values: Array, prior: Any, begin: Any) -> Any:
        ours, sides = isinstance(prior, Matern | RBF), len(self.space.sides)
        return fit_hyperparameters(
            X,
            np.ones(len(X)),
            values,
            float(values @ values),
            begin,
            self.model.noise if self.fitted_at else 0.05,
            fit_amplitude=True,
            groups=self.space.side_of_column if ours and sides > 1 and len(X) >= min(4 * sides, 20) else None,
            least_noise=LEAST_NOISE,
            iterations=10,
            prior=prior if ours else None,
        )

    def warped(self, y: Array) -> Array:
        """Return the values in units of the better half's spread; the worse half matters little and is squeezed."""
        scaled = (y - self.median) / self.spread
        if self.level:
            return np.asarray(np.clip(scaled, -3.0, 3.0))
        return np.asarray(np.where(scaled >= 0, scaled, -np.log1p(np.maximum(-scaled, 0.0))))

    @property
    def noise(self) -> float:
        """The noise in these units; 0 where it cannot be told from the least that a fit may say."""
        floor = 9.0 * LEAST_NOISE**2 * float(diagonal(self.model.kernel, np.zeros((1, self.space.width)))[0])
        return math.sqrt(max(self.model.noise**2 - floor, 0.0))

    def news(self, variance: Array) -> Array:
        """Return 1 − σ/√(s² + σ²), the part of s that one more value with noise σ would take away.

        Values without noise, which a fit calls noise of at least ``LEAST_NOISE``, always tell all.
        """
        noise = self.noise**2
        return np.asarray(1.0 - np.sqrt(noise / (variance + noise))) if noise > 0 else np.ones_like(variance)

    @property
    def widths(self) -> Array:
        """The width of each column over their geometric mean, from 0.1 to 10; 1 where the kernel has none."""
        inner = getattr(self.model.kernel, "kernel", self.model.kernel)
        logs = np.log(np.asarray(getattr(inner, "length_scale", 1.0), dtype=np.float64))
        ratio = np.exp(np.broadcast_to(logs - logs.mean(), (self.space.width,)))
        return np.asarray(np.clip(ratio, 0.1, 10.0))

    def log_chance(self, X: Array, pending: Array) -> Array:
        """Return log P(value ≤ 0), the chance that a constraint holds."""
        mean, variance = self.model.shrunk(X, pending)
        return np.asarray(log_ndtr(-(mean + self.model.centre) / np.sqrt(variance + self.noise**2 + 1e-12)))

    def likeness(self, X: Array, place: Array) -> Array:
        """Return the prior's correlation of rows with one row."""
        return np.asarray(block(self.model.kernel, X, place)[:, 0] / diagonal(self.model.kernel, place)[0])


def _likelihood(found: Any) -> float:
    return float(found.log_likelihood)
