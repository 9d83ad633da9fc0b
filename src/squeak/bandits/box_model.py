"""The posterior over a box: exact on the points told while they are few, then on a dictionary of them.

On the dictionary a new point costs O(m²) and a prediction O(m²), whatever the number of points told: only V and
Σ y z are kept. Now and then, when the variances of the points told since add up to the batch factor, the
dictionary is drawn anew from all points, in O(t·m²).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.bandits.exact import ExactPosterior
from squeak.core.cholesky import GrowingCholesky, inverse_factor, pivoted_inverse_factor
from squeak.core.kernels import block, diagonal, gram
from squeak.core.rows import take
from squeak.core.types import Array, IntArray

IN_SPAN = 1e-10
TILE = 1024

SHARE = 50
"""A new dictionary is drawn once a 50th of all points has come since the last: its cost a step is then flat."""


class BoxDictionary:
    """DTC posterior of points told, on some of them; predictions anywhere.

    Between calls: ``solver`` is V⁻¹ and ``weights`` V⁻¹Σ y z for all points taken in; formulas in
    :mod:`squeak.bandits.sparse`.
    """

    def __init__(self, kernel: Any, ridge: float, X: Array, y: Array, members: IntArray) -> None:
        self.kernel, self.ridge = kernel, ridge
        inverse, order = pivoted_inverse_factor(gram(kernel, X[members]), IN_SPAN)
        self.atoms = X[members[order]]
        self._factor = GrowingCholesky(inverse)
        V, target = self.ridge * np.eye(len(order)), np.zeros(len(order))
        for start in range(0, len(X), TILE):
            z = self._features(X[start : start + TILE])
            V += z.T @ z
            target += z.T @ y[start : start + TILE]
        whitener = inverse_factor(V)
        self.solver = whitener.T @ whitener
        self.weights = self.solver @ target

    def to_arrays(self) -> dict[str, Any]:
        """Return the posterior as arrays."""
        return {
            "atoms": self.atoms,
            "factor": self._factor.inverse,
            "solver": self.solver,
            "weights": self.weights,
        }

    @classmethod
    def from_arrays(cls, kernel: Any, ridge: float, arrays: dict[str, Any]) -> BoxDictionary:
        """Return the posterior that :meth:`to_arrays` gave; anything that does not fit raises."""
        made = cls.__new__(cls)
        made.kernel, made.ridge = kernel, ridge
        made.atoms, made.solver, made.weights = (np.array(arrays[name]) for name in ("atoms", "solver", "weights"))
        m = len(made.atoms)
        if made.solver.shape != (m, m) or arrays["factor"].shape != (m, m) or made.weights.shape != (m,):
            raise ValueError("the model's arrays do not fit")
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("the model's arrays are not finite")
        made._factor = GrowingCholesky(np.array(arrays["factor"]))
        return made

    def _features(self, X: Array) -> Array:
        return self._factor.project(block(self.kernel, X, self.atoms))

    def observe(self, x: Array, y: float) -> float:
        """Take in one point; returns its variance before, in ridge-leverage units."""
        z = self._features(x[None, :])[0]
        residual = max(float(diagonal(self.kernel, x[None, :])[0]) - float(z @ z), 0.0) / self.ridge
        h = self.solver @ z
        here = float(z @ h)
        self.weights = self.weights + h * ((y - float(z @ self.weights)) / (1.0 + here))
        self.solver -= np.multiply.outer(h, h) / (1.0 + here)
        return residual + here

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Return mean and variance of f."""
        z = self._features(X)
        residual = np.maximum(diagonal(self.kernel, X) - np.einsum("ij,ij->i", z, z), 0.0)
        signal = np.maximum(np.einsum("ij,ij->i", z @ self.solver, z), 0.0)
        return z @ self.weights, residual + self.ridge * signal


class BoxModel:
    """Points and values told so far, and their posterior; exact up to ``crossover`` points.

    Between calls: the posterior is that of all points told, with values centred and scaled as at the last
    :meth:`refit`.
    """

    def __init__(self, crossover: int, max_atoms: int, oversampling: float, batch_factor: float) -> None:
        self._crossover, self._max_atoms = crossover, max_atoms
        self._oversampling, self._factor = oversampling, batch_factor
        self.exact: ExactPosterior | None = None
        self.dictionary: BoxDictionary | None = None
        self.kernel: Any = None
        self.noise, self.centre, self.scale = 1.0, 0.0, 1.0
        self._sum = 0.0
        self._recent: list[Array] = []  # told since the last dictionary, which may not see them

    def settings(self) -> dict[str, Any]:
        """Return what the model was made with, by the names of the constructor."""
        return {
            "crossover": self._crossover,
            "max_atoms": self._max_atoms,
            "oversampling": self._oversampling,
            "batch_factor": self._factor,
        }

    def refit(self, X: Array, y: Array, kernel: Any, noise: float, centre: float, scale: float, rng: Any) -> None:
        """Take new hyper-parameters and all points."""
        self.kernel, self.noise, self.centre, self.scale = kernel, noise, centre, scale
        values = (y - centre) / scale
        if len(X) <= self._crossover:
            distinct, first, inverse = _distinct(X)
            self.exact, self.dictionary = ExactPosterior(kernel, X[first], noise**2), None
            counts = np.bincount(inverse).astype(np.float64)
            self.exact.rebuild(
                np.arange(len(distinct)), counts, np.bincount(inverse, weights=values).astype(np.float64)
            )
        else:
            self.exact = self.dictionary = None  # their variances belong to another kernel
            self.draw(X, y, rng)

    def draw(self, X: Array, y: Array, rng: np.random.Generator) -> None:
        """Draw a dictionary of the points from their variances so far; from uniform ones at first."""
        if self.dictionary is None and self.exact is None:
            members = np.sort(rng.choice(len(X), min(self._max_atoms, len(X)), replace=False))
            self.dictionary = BoxDictionary(self.kernel, self.noise**2, X, (y - self.centre) / self.scale, members)
        variance = np.concatenate([self.predict(X[i : i + TILE])[1] for i in range(0, len(X), TILE)])
        chance = variance / self.noise**2
        oversampling = self._oversampling
        if np.minimum(1.0, oversampling * chance).sum() > self._max_atoms:  # a hard limit: fewer of all
            oversampling = _limited(chance, self._max_atoms)
        stays = rng.random(len(X)) < np.minimum(1.0, oversampling * chance)
        if not stays.any():
            stays[int(np.argmax(chance))] = True
        members = np.flatnonzero(stays)
        self.dictionary = BoxDictionary(self.kernel, self.noise**2, X, (y - self.centre) / self.scale, members)
        self.exact, self._sum, self._recent = None, 0.0, []

    def observe(self, X: Array, y: Array, rng: np.random.Generator) -> None:
        """Take in the last point of ``X``."""
        value = (float(y[-1]) - self.centre) / self.scale
        if self.exact is not None and len(X) <= self._crossover:
            model = self.exact
            same = np.flatnonzero((model.arms == X[-1]).all(axis=1))
            if len(same) == 0:
                model.add(X[-1:])
            model.observe(int(same[0]) if len(same) else len(model.diag) - 1, value)
            # points crowd at an optimum: no rounding may add up
            model.rebuild(model.pulled, model.counts, model.sums)
        elif self.dictionary is None:
            self.draw(X, y, rng)
        else:
            self._sum += self.dictionary.observe(X[-1], value)
            self._recent.append(X[-1].copy())
            if self._sum > self._factor - 1.0 and len(self._recent) * SHARE > len(X):
                self.draw(X, y, rng)

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Return mean and variance in scaled values."""
        model = self.exact if self.exact is not None else self.dictionary
        assert model is not None
        return model.predict(X)

    def shrunk(self, X: Array, pending: Array) -> tuple[Array, Array]:
        """Return mean and variance, the variance as if the pending points were told."""
        mean, variance = self.predict(X)
        if self.dictionary is not None and self._recent:
            pending = np.vstack(
                [pending, *self._recent]
            )  # their variance must fall, in the dictionary's span or not
        if len(pending) == 0:
            return mean, variance
        prior = block(self.kernel, pending, pending)
        if self.exact is not None:
            known = take(self.exact.arms, self.exact.pulled)
            left, right = block(self.kernel, pending, known), block(self.kernel, X, known)
            among = prior - left @ self.exact.inverse @ left.T
            across = block(self.kernel, X, pending) - right @ self.exact.inverse @ left.T
        else:
            model = self.dictionary
            assert model is not None
            left, right = model._features(pending), model._features(X)
            keep = self.noise**2 * model.solver - np.eye(len(model.solver))
            among, across = prior + left @ keep @ left.T, block(self.kernel, X, pending) + right @ keep @ left.T
        factor = inverse_factor(among + (self.noise**2 + 1e-8) * np.eye(len(pending)))
        whitened = across @ factor.T
        return mean, np.maximum(variance - np.einsum("ij,ij->i", whitened, whitened), 0.0)


def _distinct(X: Array) -> tuple[Array, IntArray, IntArray]:
    """Return the distinct rows in order of their first coming, where they came first, and each row's number."""
    rows, first, inverse = np.unique(X, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rows[order], first[order], rank[inverse.reshape(-1)]


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
