"""Boxes instead of arms: the next point of a continuous or mixed space."""

from __future__ import annotations

import math
from copy import copy
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.stats import qmc

from squeak.bandits.box_model import BoxModel
from squeak.bandits.evidence import fit_hyperparameters
from squeak.bandits.posterior import improvement, upper_bound
from squeak.bandits.runs import Best, Runs, check_factor
from squeak.bandits.space import Space
from squeak.bandits.state import SavedBox
from squeak.core import engine
from squeak.core.checks import check_positive, check_whole
from squeak.core.kernels import RBF, Matern, diagonal
from squeak.core.seeds import PROBE, SAMPLE, RandomState, draw_seed, generator_at
from squeak.core.types import Array, IntArray
from squeak.samplers.base import own_kernel

SOBOL = 1024
"""Points over the whole box that are looked at in each step."""

LOCAL = 256
"""Points around the best ones so far."""

ROUNDS = 8
"""Rounds of refinement, each half as wide as the one before."""

LEAST_NOISE = 3e-4
"""The noise is never taken for less than this part of the kernel's standard deviation."""

JUMP = 0.3
"""The chance that a point around the best ones has another value of a category."""

STARTS = 32
"""The most points that are refined in a step: the four best, and the best one of each value of a category."""


class BoxUCB(SavedBox, Runs):
    """Choose the next point of a box by a Gaussian process, with ask and tell. Values are maximised.

    Each step looks at Sobol points over the box, moved by a random shift, and at points around the best one so far,
    and refines the most promising. Values are centred and scaled. Widths and noise are fitted by marginal
    likelihood whenever the number of points has grown by a sixth. Up to ``crossover`` points the posterior is
    exact. Then it is computed on a dictionary of at most ``max_atoms`` of them, and the cost of a step grows little
    with their number.

    Parameters
    ----------
    bounds : sequence
        The sides of the box: for each a pair (low, high), a list of values, or :class:`Real`, :class:`Integer`,
        :class:`Categorical`.
    kernel : kernel, optional
        The kernel on the unit cube. The default is Matern(nu=2.5) with one width for each side.
    beta : "ei" or float
        How many standard deviations the bound adds to the mean. "ei" takes the largest augmented expected
        improvement instead, which is the expected improvement times 1 − σ/√(s² + σ²) for values with noise σ.
    n_initial : int, optional
        The number of Sobol points before the first fit. The default is 2·sides + 2, and 12 at most.
    crossover, max_atoms : int
        The number of points up to which the posterior is exact, and the number of atoms after that.
    oversampling, batch_factor : float
        Parameters of the dictionary, as in :class:`BatchBKB`.
    random_state : None, int, RandomState or Generator
        The seed. The same seed and the same values give the same points.

    Notes
    -----
    The kernel is fitted to the data and candidates are a sample of the box, so the regret bound for a fixed kernel
    and finite arms holds for what was looked at and for a well fitted kernel only. Each of the k values of a
    category gets at least about 3·√t/k of t trials.

    References
    ----------
    Huang, Allen, Notz and Zeng (2006), Global optimization of stochastic black-box systems via sequential kriging
    meta-models, equation 10, for the augmented expected improvement.

    Examples
    --------
    >>> from squeak.bandits import BoxUCB
    >>> box = BoxUCB([(-1.0, 1.0), (0.0, 2.0)], random_state=0)
    >>> for _ in range(25):
    ...     x = box.ask()
    ...     box.tell(x, -((x[0] - 0.3) ** 2) - (x[1] - 1.0) ** 2)
    >>> bool(abs(box.best_[0][0] - 0.3) < 0.05)
    True
    """

    kind: ClassVar[str] = "box_ucb"

    def __init__(
        self,
        bounds: Any,
        kernel: Any = None,
        *,
        beta: str | float = "ei",
        n_initial: int | None = None,
        crossover: int = 300,
        max_atoms: int = 200,
        oversampling: float = 5.0,
        batch_factor: float = 2.0,
        random_state: RandomState = None,
    ) -> None:
        self.space = Space(bounds)
        self.kernel = Matern(0.5, nu=2.5) if kernel is None else own_kernel(kernel)
        if isinstance(beta, str) and beta != "ei":
            raise ValueError(f"beta must be a number or 'ei'; it is {beta!r}")
        self.beta = beta if isinstance(beta, str) else check_positive("beta", beta)
        default = min(2 * len(self.space.sides) + 2, 12)
        self.n_initial = default if n_initial is None else check_whole("n_initial", n_initial)
        self._model = BoxModel(
            check_whole("crossover", crossover),
            check_whole("max_atoms", max_atoms),
            check_positive("oversampling", oversampling),
            check_factor(batch_factor),
        )
        if self.space.width > qmc.Sobol.MAXDIM:
            raise ValueError(f"the box has {self.space.width:,} columns; {qmc.Sobol.MAXDIM:,} are the most")
        self._seed = draw_seed(random_state)
        self._rows: Array = np.zeros((64, self.space.width))
        self._values: Array = np.zeros(64)
        self._pulls: list[Any] = []
        self._asked = 0
        self._pending: list[Array] = []
        self._fitted_at = 0
        self._median, self._spread, self._incumbent = 0.0, 1.0, 0.0

    @cached_property
    def _sobol(self) -> Array:
        """Points spread over the cube; made when they are first needed, for they take 8 kB for each column."""
        scramble = generator_at(self._seed, PROBE)  # called ``seed`` because SciPy before 1.15 knows no ``rng``
        return np.asarray(qmc.Sobol(len(self.space.sides), scramble=True, seed=scramble).random(SOBOL))

    def ask(self) -> Any:
        """Return the next point; it may be asked again before the value is told.

        Returns
        -------
        array where every side is real, else a list of values
        """
        self._asked += 1
        with engine.single_blas():
            if self._fitted_at == 0:
                row = self.space.spread(self._sobol[(self._asked - 1) % SOBOL][None, :])[0]
            else:
                row = self._next(generator_at(self._seed, SAMPLE, self._asked))
        point = self.space.decode(row)
        self._pending.append(self.space.encode(point))  # to the bit what tell will see
        return point

    def tell(self, point: Any, value: float) -> None:
        """Tell the value at a point: asked for or not, in any order.

        Parameters
        ----------
        point : sequence of values
        value : float
            Larger is better.
        """
        row, reward, n = self.space.encode(point), self._reward(point, value), self.n_told_
        if n == len(self._values):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
            self._values = np.concatenate([self._values, np.zeros_like(self._values)])
        self._drop([point])
        self._rows[n], self._values[n] = row, reward
        self._pulls.append(np.array(point, dtype=np.float64) if self.space.is_real else list(point))
        with engine.single_blas():
            self._learn()

    def _next_arms(self, limit: int | None) -> list[Any]:
        return [self.ask()]

    def _reward(self, point: Any, value: Any) -> float:
        if isinstance(value, bool | str | None) or not np.isfinite(float(value)):
            raise ValueError(f"the value at {point!r} is {value!r}: tell finite numbers only")
        if not abs(float(value)) < 1e150:
            raise ValueError(f"the value {value!r} is too large for float64: scale it")
        return float(value)

    def _tell(self, points: list[Any], values: list[float]) -> None:
        for point, value in zip(points, values, strict=True):
            self.tell(point, value)

    def forget(self, point: Any) -> None:
        """Give up a point that was asked for and will not be told.

        Parameters
        ----------
        point : sequence of values
        """
        if not self._drop([point]):
            raise ValueError(f"the point {point!r} is not pending; {len(self._pending)} others are")

    def _drop(self, points: list[Any]) -> int:
        """Give up pending points; return how many of them there were."""
        before = len(self._pending)
        for row in map(self.space.encode, points):
            there = [i for i, other in enumerate(self._pending) if np.abs(other - row).max() < 1e-9]
            if there:
                del self._pending[there[0]]
        return before - len(self._pending)

    def set_pending(self, points: Any) -> None:
        """Say which points are on their way, whoever asked for them; those asked before are forgotten.

        Parameters
        ----------
        points : sequence of points
        """
        self._pending = [self.space.encode(point) for point in points]

    def _learn(self) -> None:
        n = self.n_told_
        X, y = self._rows[:n], self._values[:n]
        if self._fitted_at:
            due = n >= self._fitted_at + max(2, self._fitted_at // 6)
        else:
            due = n >= self.n_initial and bool(np.ptp(y) > 0)
        rng = generator_at(self._seed, SAMPLE, 0, n)
        if due:
            self._fit(X, y, rng)
        elif self._fitted_at:
            self._model.observe(X, self._warped(y), rng)

    def _fit(self, X: Array, y: Array, rng: np.random.Generator) -> None:
        """Fit widths, noise and amplitude to the values, centred and scaled."""
        median = float(np.median(y))
        spread = float((np.sort(y)[len(y) // 2 :] - median).mean()) or float(y.std()) or 1.0
        noise = self._model.noise * self._spread if self._fitted_at else 0.0
        if spread > 4.0 * noise:  # else the better half differs by noise alone, which is no unit to zoom into
            self._median, self._spread = median, spread
        values = self._warped(y)
        use = np.arange(len(X)) if len(X) <= 400 else np.sort(rng.choice(len(X), 400, replace=False))
        ours, sides = isinstance(self.kernel, Matern | RBF), len(self.space.sides)
        start = self._model.kernel if self._fitted_at else self.kernel
        found = fit_hyperparameters(
            X[use],
            np.ones(len(use)),
            values[use],
            float(values[use] @ values[use]),
            start,
            self._model.noise if self._fitted_at else 0.05,
            fit_amplitude=True,
            groups=self.space.side_of_column if ours and 1 < sides <= len(X) // 4 else None,
            least_noise=LEAST_NOISE,
            iterations=10,
            prior=self.kernel if ours else None,
        )
        self._model.refit(X, values, found.kernel, found.noise, found.mean, rng)
        self._fitted_at = len(X)

    def _warped(self, y: Array) -> Array:
        """Return the values in units of the better half's spread; the worse half matters little and is squeezed."""
        scaled = (y - self._median) / self._spread
        return np.asarray(np.where(scaled >= 0, scaled, -np.log1p(np.maximum(-scaled, 0.0))))

    def _scores(self, X: Array, pending: Array) -> Array:
        mean, variance = self._model.shrunk(X, pending)
        std = np.sqrt(variance)
        if isinstance(self.beta, str):
            gain = improvement(mean, std, self._incumbent) * self._news(variance)
            return np.log(np.maximum(gain, 1e-300))
        return upper_bound(mean, std, self.beta)

    def _news(self, variance: Array) -> Array:
        """Return 1 − σ/√(s² + σ²), the part of s that one more value with noise σ would take away.

        Values without noise, which a fit calls noise of at least ``LEAST_NOISE``, always tell all.
        """
        floor = 9.0 * LEAST_NOISE**2 * float(diagonal(self._model.kernel, self._rows[:1])[0])
        noise = max(self._model.noise**2 - floor, 0.0)
        return np.asarray(1.0 - np.sqrt(noise / (variance + noise))) if noise > 0 else np.ones_like(variance)

    def _next(self, rng: np.random.Generator) -> Array:
        """Return the row with the largest score: Sobol points, points around the best, then refinement."""
        n, width = self.n_told_, self.space.width
        X = self._rows[:n]
        pending = np.array(self._pending).reshape(-1, width)
        order = np.argsort(-self._values[:n], kind="stable")[:4]
        self._incumbent = float(self._model.predict(X[order])[0].max())
        shifted = self.space.spread((self._sobol + rng.random(len(self.space.sides))) % 1.0)
        scales = np.array([0.2, 0.05, 0.0125, 0.003])[rng.integers(0, 4, LOCAL)]
        steps = scales[:, None] * rng.standard_normal((LOCAL, width))
        steps *= rng.random((LOCAL, width)) < max(0.5, 2.0 / width)
        around = self.space.jumped(X[order[rng.integers(0, len(order), LOCAL)]] + steps, JUMP, rng)
        rows = self._due(np.vstack([shifted, self.space.snap(around)]), np.vstack([X, pending]))
        scores = self._scores(rows, pending)
        best = self._starts(rows, scores)
        rows, scores = rows[best], scores[best]
        reach = 0.1
        for _ in range(ROUNDS):
            moves = reach * rng.standard_normal((len(rows), 24, width))
            tries = self.space.snap((rows[:, None, :] + moves).reshape(-1, width))
            found = self._scores(tries, pending).reshape(len(rows), 24)
            pick = found.argmax(axis=1)
            better = found[np.arange(len(rows)), pick] > scores
            rows = np.where(better[:, None], tries.reshape(len(rows), 24, width)[np.arange(len(rows)), pick], rows)
            scores = np.maximum(scores, found[np.arange(len(rows)), pick])
            reach *= 0.5
        return np.asarray(rows[int(np.argmax(scores))])

    def _due(self, rows: Array, tried: Array) -> Array:
        """Return the rows with a category's value tried fewer than 3·√t/k times in t trials, else all rows.

        k is how many values the category has, so that this takes at most about 3·√t of the trials. A Gaussian
        process judges point by point, and gives a value that was unlucky in its first trials no other chance.
        """
        for part in self.space.categories:
            counts = (tried[:, part] > 0).sum(axis=0)
            least, asked = int(np.argmin(counts)), 3.0 * math.sqrt(len(tried)) / len(counts)
            if counts[least] < math.floor(asked):
                rows = rows[rows[:, part.start + least] > 0]
                break
        return rows

    def _starts(self, rows: Array, scores: Array) -> IntArray:
        """Return the rows to refine: the four best, and the best one of each value of a category.

        Refinement moves by small steps and never leaves a category, so every category must be looked at.
        """
        order = np.argsort(-scores, kind="stable")
        firsts = [order[np.argmax(rows[order][:, part] > 0, axis=0)] for part in self.space.categories]
        found = np.unique(np.concatenate([order[:4], *firsts]))
        return found[np.argsort(-scores[found], kind="stable")][:STARTS]

    @property
    def best_(self) -> Best:
        """The point with the largest value told, which is its ``mean``; ``std`` is NaN before the first fit."""
        if self.n_told_ == 0:
            raise ValueError("no value has been told yet")
        i = int(np.argmax(self.rewards_))
        variance = float(self._model.predict(self._rows[i : i + 1])[1][0]) if self._fitted_at else np.nan
        return Best(i, copy(self._pulls[i]), float(self._values[i]), self._spread * math.sqrt(variance))

    @property
    def pulls_(self) -> list[Any]:
        """The points told, in order."""
        return [copy(point) for point in self._pulls]

    @property
    def rewards_(self) -> Array:
        """The values told, in order."""
        return self._values[: self.n_told_].copy()

    @property
    def pending_(self) -> list[Any]:
        """The points asked and not told yet, in the order they were asked."""
        return [self.space.decode(row) for row in self._pending]

    @property
    def told_(self) -> tuple[list[Any], Array]:
        """The points told, in order, and their values."""
        return self.pulls_, self.rewards_
