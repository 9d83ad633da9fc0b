"""The posterior over a box: exact on the points told while they are few, then on a dictionary of them.

On the dictionary a new point costs O(m²) and a prediction O(m²), whatever the number of points told: only V and
Σ y z are kept. Now and then, when the variances of the points told since add up to the batch factor, the
dictionary is drawn anew from all points, in O(t·m²).
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from squeak.bandits.exact import ExactPosterior
from squeak.bandits.growth import two_terms
from squeak.core import engine
from squeak.core.cholesky import NotPositiveDefiniteError, inverse_factor
from squeak.core.kernels import block, diagonal
from squeak.core.nystrom import IN_SPAN, TILE, FixedFeatures, spanning_features
from squeak.core.state import checked, numbers, parts
from squeak.core.types import Array, IntArray

SHARE = 50
"""A new dictionary is drawn once a 50th of all points has come since the last: its cost per step is then flat."""


class BoxDictionary:
    """DTC posterior of points told, on some of them; predictions anywhere.

    Between calls: ``solver`` is V⁻¹ and ``weights`` V⁻¹Σ y z for all points taken in; formulas in
    :mod:`squeak.bandits.sparse`.
    """

    def __init__(self, kernel: Any, ridge: float, X: Array, y: Array, members: IntArray) -> None:
        self.ridge, self.features = ridge, spanning_features(kernel, X[members], IN_SPAN)[0]
        V, target = ridge * np.eye(self.features.rank), np.zeros(self.features.rank)
        for tile in engine.tiles(len(X), TILE):
            z = self.features.block(X[tile])
            V += z.T @ z
            target += z.T @ y[tile]
        whitener = inverse_factor(V)
        self.solver = whitener.T @ whitener
        self.weights = self.solver @ target

    def to_arrays(self) -> dict[str, Any]:
        """Return the posterior as arrays."""
        known = {"atoms": self.features.atoms, "factor": self.features.mixing.T}
        return parts(STATE, known | {"solver": self.solver, "weights": self.weights})[0]

    @classmethod
    def from_arrays(cls, kernel: Any, ridge: float, arrays: dict[str, Any], width: int) -> BoxDictionary:
        """Return the posterior that :meth:`to_arrays` gave; anything that does not fit raises."""
        found, made = checked(STATE, arrays, {}, width=width), cls.__new__(cls)
        made.ridge, made.features = ridge, FixedFeatures(kernel, found["atoms"].copy(), found["factor"].copy().T)
        made.solver, made.weights = found["solver"].copy(), found["weights"].copy()
        return made

    def copy(self) -> BoxDictionary:
        """Return a posterior of its own in the same state; arrays are shared, for none is changed in place."""
        return copy(self)

    def observe(self, x: Array, y: float) -> float:
        """Take in one point; return its variance before, over λ."""
        z = self.features.block(x[None, :])[0]
        residual = max(float(diagonal(self.features.kernel, x[None, :])[0]) - float(z @ z), 0.0) / self.ridge
        h = self.solver @ z
        here = float(z @ h)
        self.weights = self.weights + h * ((y - float(z @ self.weights)) / (1.0 + here))
        self.solver = self.solver - np.multiply.outer(h, h) / (1.0 + here)
        return residual + here

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Return mean and variance of f."""
        z = self.features.block(X)
        residual, signal = two_terms(z, diagonal(self.features.kernel, X), self.solver)
        return z @ self.weights, residual + self.ridge * signal

    def moved(self, Y: Array) -> Array:
        """Return (λV⁻¹ − I)z(y)ᵀ, a column for each row: with it z(x) gives what the points changed of k(x, y)."""
        return np.asarray((self.ridge * self.solver - np.eye(len(self.solver))) @ self.features.block(Y).T)

    def covariance_between(self, X: Array, Y: Array, moved: Array | None = None) -> Array:
        """Return the posterior covariance of f at some rows with f at others, whose :meth:`moved` may be given."""
        moved = self.moved(Y) if moved is None else moved
        return np.asarray(block(self.features.kernel, X, Y) + self.features.block(X) @ moved)


STATE = {
    "atoms": numbers("m", "width"),
    "factor": numbers("m", "m"),
    "solver": numbers("m", "m"),
    "weights": numbers("m"),
}


@dataclass
class BoxModel:
    """Points and values told so far, and their posterior; exact up to ``crossover`` points.

    Between calls: the posterior is that of all points told, with values centred as at the last :meth:`refit`.
    """

    crossover: int
    max_atoms: int
    oversampling: float
    batch_factor: float
    posterior: ExactPosterior | BoxDictionary | None = None
    kernel: Any = None
    noise: float = 1.0
    centre: float = 0.0
    recent: list[Array] = field(default_factory=list)
    """The points told since the last dictionary, which may not see them."""
    recent_sum: float = 0.0
    """The sum of their variances over λ."""
    _kept: tuple[Array, tuple[Array, Array, Array]] | None = None

    def copy(self) -> BoxModel:
        """Return a model of its own in the same state."""
        posterior = None if self.posterior is None else self.posterior.copy()
        return replace(self, posterior=posterior, recent=list(self.recent))

    def refit(self, X: Array, y: Array, kernel: Any, noise: float, centre: float, rng: np.random.Generator) -> None:
        """Take new hyper-parameters and all points."""
        self.kernel, self.noise, self.centre, self.posterior, self._kept = kernel, noise, centre, None, None
        if len(X) > self.crossover:
            self._draw(X, y, rng)
            return
        first, inverse = _distinct(X)
        self.posterior = ExactPosterior(kernel, X[first], noise**2)
        counts = np.bincount(inverse).astype(np.float64)
        sums = np.bincount(inverse, weights=y - centre).astype(np.float64)
        self.posterior.rebuild(np.arange(len(first)), counts, sums)

    def _draw(self, X: Array, y: Array, rng: np.random.Generator) -> None:
        """Draw a dictionary of the points from their variances so far; from uniform ones at first."""
        if self.posterior is None:
            members = np.sort(rng.choice(len(X), min(self.max_atoms, len(X)), replace=False))
            self.posterior = BoxDictionary(self.kernel, self.noise**2, X, y - self.centre, members)
        variance = np.concatenate([self.posterior.predict(X[tile])[1] for tile in engine.tiles(len(X), TILE)])
        chance = variance / self.noise**2
        oversampling = self.oversampling
        if np.minimum(1.0, oversampling * chance).sum() > self.max_atoms:  # a hard limit: fewer of all
            oversampling = _limited(chance, self.max_atoms)
        stays = rng.random(len(X)) < np.minimum(1.0, oversampling * chance)
        if not stays.any():
            stays[int(np.argmax(chance))] = True
        self.posterior = BoxDictionary(self.kernel, self.noise**2, X, y - self.centre, np.flatnonzero(stays))
        self.recent, self.recent_sum = [], 0.0

    def observe(self, X: Array, y: Array, rng: np.random.Generator) -> None:
        """Take in the last point of ``X``."""
        model, value, self._kept = self.posterior, float(y[-1]) - self.centre, None
        if isinstance(model, BoxDictionary):
            self.recent_sum += model.observe(X[-1], value)
            self.recent.append(X[-1].copy())
            grown = self.recent_sum > self.batch_factor - 1.0 and len(self.recent) * SHARE > len(X)
            if grown or len(self.recent) >= self.max_atoms:  # their covariance is factored in each step
                self._draw(X, y, rng)
        elif model is None or len(X) > self.crossover:
            self._draw(X, y, rng)
        else:
            same = np.flatnonzero((model.arms == X[-1]).all(axis=1))
            if len(same) == 0:
                model.add(X[-1:])
            model.observe(int(same[0]) if len(same) else len(model.diag) - 1, value)
            # points crowd at an optimum: no rounding may add up
            model.rebuild(model.pulled, model.counts, model.sums)

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Return mean and variance, of values less the centre."""
        assert self.posterior is not None
        return self.posterior.predict(X)

    def shrunk(self, X: Array, pending: Array) -> tuple[Array, Array]:
        """Return mean and variance, the variance as if the pending points were told."""
        mean, variance = self.predict(X)
        rows, factor, moved = self._expected(pending)
        if len(rows) == 0:
            return mean, variance
        assert self.posterior is not None
        more = (moved,) if isinstance(self.posterior, BoxDictionary) else ()
        whitened = self.posterior.covariance_between(X, rows, *more) @ factor.T
        return mean, np.maximum(variance - np.einsum("ij,ij->i", whitened, whitened), 0.0)

    def _expected(self, pending: Array) -> tuple[Array, Array, Array]:
        """Return points that must lower the variance, L⁻¹ of their covariance, and what the dictionary moved there.

        They are kept until the model changes or another array is given.
        """
        if self._kept is None or self._kept[0] is not pending:
            model, rows, factor, moved = self.posterior, pending, np.zeros((0, 0)), np.zeros((0, 0))
            if isinstance(model, BoxDictionary):  # what came since must lower it, in the atoms' span or not
                rows = np.vstack([pending, *self.recent])
            if len(rows):
                assert model is not None
                moved = model.moved(rows) if isinstance(model, BoxDictionary) else moved
                among = model.covariance_between(rows, rows)
                factor = _lifted_factor(among + (self.noise**2 + 1e-8) * np.eye(len(rows)))
            self._kept = (pending, (rows, factor, moved))
        return self._kept[1]


def _lifted_factor(covariance: Array) -> Array:
    """Return L⁻¹ of a covariance, lifted where points crowd so much that only rounding is left of it."""
    try:
        return inverse_factor(covariance)
    except NotPositiveDefiniteError:
        least = float(np.linalg.eigvalsh(covariance)[0])
        lift = 2.0 * abs(least) + 1e-12 * float(np.trace(np.abs(covariance)))
        return inverse_factor(covariance + lift * np.eye(len(covariance)))


def _distinct(X: Array) -> tuple[IntArray, IntArray]:
    """Return where each distinct row comes first, in order, and the number of each row among them."""
    _, first, inverse = np.unique(X, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[inverse.reshape(-1)]


def _limited(chance: Array, limit: int) -> float:
    """Return the oversampling at which the expected number of members is ``limit``."""
    low, high = 0.0, limit / max(float(chance.max()), 1e-300) + limit / max(float(chance.sum()), 1e-300)
    for _ in range(60):
        middle = (low + high) / 2
        if np.minimum(1.0, middle * chance).sum() > limit:
            high = middle
        else:
            low = middle
    return low
