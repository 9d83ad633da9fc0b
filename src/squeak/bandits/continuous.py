"""Boxes instead of arms: the next point of a continuous or mixed space, and ``minimize``."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy.stats import qmc

from squeak.bandits.acquisitions import improvement, upper_bound
from squeak.bandits.base import Best
from squeak.bandits.box_model import BoxModel
from squeak.bandits.box_state import SavedBox
from squeak.bandits.checks import check_count, check_positive
from squeak.bandits.evidence import fit_hyperparameters
from squeak.bandits.progress import progress
from squeak.bandits.space import Space
from squeak.core import engine, storage
from squeak.core.kernels import RBF, Matern
from squeak.core.seeds import PROBE, SAMPLE, RandomState, draw_seed, generator_at
from squeak.core.types import Array
from squeak.samplers.base import own_kernel

SOBOL = 1024
"""Points over the whole box that are looked at in each step."""

LOCAL = 256
"""Points around the best ones so far."""

ROUNDS = 8
"""Rounds of refinement, each half as wide as the one before."""


@storage.register
class BoxUCB(SavedBox):
    """Choose the next point of a box by a Gaussian process; ask and tell, values are maximised.

    Each step looks at Sobol points over the box, moved by a random shift, and at points around the best so far, and
    refines the most promising. Values are centred and scaled, widths and noise fitted by marginal likelihood
    whenever the number of points has grown by a sixth. Up to ``crossover`` points the posterior is exact; then it
    lives on a dictionary of at most ``max_atoms`` of them, and the cost of a step grows little with their number.

    Parameters
    ----------
    bounds : sequence
        For each side a pair (low, high), a list of values, or :class:`Real`, :class:`Integer`,
        :class:`Categorical`.
    kernel : kernel, optional
        On the unit cube; Matern(nu=2.5), its width a number for each side, when left out.
    beta : "ei" or float
        How many standard deviations the bound adds to the mean; "ei": the largest expected improvement instead.
    n_initial : int, optional
        Sobol points before the first fit; 2·sides + 2, at most 12, when left out.
    crossover, max_atoms : int
        Points with the exact posterior; atoms of the dictionary after that.
    oversampling, batch_factor : float
        Of the dictionary, as in :class:`BatchBKB`.
    random_state : None, int, RandomState or Generator

    Notes
    -----
    The kernel is fitted to the data and candidates are a sample of the box, so the regret bound for a fixed kernel
    and finite arms holds for what was looked at and for a well fitted kernel only.

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
        self.beta = beta if isinstance(beta, str) else check_positive(beta, "beta")
        default = min(2 * len(self.space.sides) + 2, 12)
        self.n_initial = default if n_initial is None else check_count(n_initial, "n_initial")
        check_positive(batch_factor - 1, "batch_factor - 1")
        self._model = BoxModel(
            check_count(crossover, "crossover"),
            check_count(max_atoms, "max_atoms"),
            check_positive(oversampling, "oversampling"),
            float(batch_factor),
        )
        if self.space.width > qmc.Sobol.MAXDIM:
            raise ValueError(f"the box has {self.space.width:,} columns; {qmc.Sobol.MAXDIM:,} are the most")
        self._seed = draw_seed(random_state)
        self._rows: Array = np.empty((64, self.space.width))
        self._values: Array = np.empty(64)
        self._points: list[Any] = []
        self.n_told_ = 0
        self._asked = 0
        self._pending: list[Array] = []
        self._fitted_at = 0
        self._median, self._spread, self._incumbent = 0.0, 1.0, 0.0

    @cached_property
    def _sobol(self) -> Array:
        """Points spread over the cube; made when they are first needed, for they take 8 kB for each column."""
        scramble = generator_at(self._seed, PROBE)
        return np.asarray(qmc.Sobol(self.space.width, scramble=True, rng=scramble).random(SOBOL))

    def ask(self) -> Any:
        """Return the next point; it may be asked again before the value is told.

        Returns
        -------
        array where every side is real, else a list of values
        """
        self._asked += 1
        with engine.single_blas():
            if self._fitted_at == 0:
                row = self.space.snap(self._sobol[(self._asked - 1) % SOBOL][None, :])[0]
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
        row = self.space.encode(point)
        if isinstance(value, bool | str | None) or not np.isfinite(float(value)):
            raise ValueError(f"the value at {point!r} is {value!r}: tell finite numbers only")
        if not abs(float(value)) < 1e150:
            raise ValueError(f"the value {value!r} is too large for float64: scale it")
        if self.n_told_ == len(self._values):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
            self._values = np.concatenate([self._values, np.empty_like(self._values)])
        self._drop(row)
        self._rows[self.n_told_], self._values[self.n_told_] = row, float(value)
        self._points.append(np.array(point, dtype=np.float64) if self.space.is_real else list(point))
        self.n_told_ += 1
        with engine.single_blas():
            self._learn()

    def forget(self, point: Any) -> None:
        """Give up a point that was asked for and will not be told.

        Parameters
        ----------
        point : sequence of values
        """
        if not self._drop(self.space.encode(point)):
            raise ValueError(f"the point {point!r} is not pending; {len(self._pending)} others are")

    def _drop(self, row: Array) -> bool:
        """Give up a pending row; tell whether there was one."""
        for i, other in enumerate(self._pending):
            if np.abs(other - row).max() < 1e-9:
                del self._pending[i]
                return True
        return False

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
        self._median = float(np.median(y))
        self._spread = float((np.sort(y)[len(y) // 2 :] - self._median).mean()) or float(y.std()) or 1.0
        values = self._warped(y)
        use = np.arange(len(X)) if len(X) <= 400 else np.sort(rng.choice(len(X), 400, replace=False))
        ours = isinstance(self.kernel, Matern | RBF)
        start = self._model.kernel if self._fitted_at else self.kernel
        found = fit_hyperparameters(
            X[use],
            np.ones(len(use)),
            values[use],
            float(values[use] @ values[use]),
            start,
            self._model.noise if self._fitted_at else 0.05,
            fit_amplitude=True,
            separate=ours and self.space.width > 1 and len(X) >= 4 * self.space.width,
            least_noise=3e-4,
            iterations=10,
            prior=self.kernel if ours else None,
            restart=False,
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
            return np.log(np.maximum(improvement(mean, std, self._incumbent), 1e-300))
        return upper_bound(mean, std, self.beta)

    def _next(self, rng: np.random.Generator) -> Array:
        """Return the row with the largest score: Sobol points, points around the best, then refinement."""
        n, width = self.n_told_, self.space.width
        X = self._rows[:n]
        pending = np.array(self._pending).reshape(-1, width)
        order = np.argsort(-self._values[:n], kind="stable")[:4]
        self._incumbent = float(self._model.predict(X[order])[0].max())
        shifted = (self._sobol + rng.random(width)) % 1.0
        scales = np.array([0.2, 0.05, 0.0125, 0.003])[rng.integers(0, 4, LOCAL)]
        steps = scales[:, None] * rng.standard_normal((LOCAL, width))
        steps *= rng.random((LOCAL, width)) < max(0.5, 2.0 / width)
        around = X[order[rng.integers(0, len(order), LOCAL)]] + steps
        rows = self.space.snap(np.vstack([shifted, around]))
        scores = self._scores(rows, pending)
        best = np.argsort(-scores, kind="stable")[:4]
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

    @property
    def best_(self) -> Best:
        """The point with the largest value told, which is its ``mean``; ``std`` is NaN before the first fit."""
        if self.n_told_ == 0:
            raise ValueError("no value has been told yet")
        i = int(np.argmax(self.rewards_))
        variance = float(self._model.predict(self._rows[i : i + 1])[1][0]) if self._fitted_at else np.nan
        return Best(i, copy(self._points[i]), float(self._values[i]), self._spread * math.sqrt(variance))

    @property
    def pulls_(self) -> list[Any]:
        """The points told, in order."""
        return [copy(point) for point in self._points]

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


@dataclass(frozen=True)
class MinimizeResult:
    """What :func:`minimize` found."""

    x: Any
    fun: float
    points: list[Any]
    values: Array


def minimize(
    f: Callable[[Any], float],
    bounds: Any,
    n_steps: int = 100,
    *,
    points: Any = None,
    values: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    verbose: int = 0,
    callback: Callable[[Any, float], bool | None] | None = None,
    **params: Any,
) -> MinimizeResult:
    """Minimise an expensive function over a box with a Gaussian process.

    Parameters
    ----------
    f : callable
        Takes a point (an array where every side is real, else a list of values), returns a number.
    bounds : sequence
        As in :class:`BoxUCB`.
    n_steps : int
        How often f is called.
    points, values : sequences, optional
        Points whose values are known from before.
    checkpoint : path, optional
        A ``.sqk`` file that is replaced after each call of f. If it is there, the run goes on from it and ends in
        the same bits as one that never stopped; ``n_steps`` counts the calls before as well.
    verbose : int
        1: a progress bar.
    callback : callable, optional
        Called with each point and value; a true answer ends the run.
    **params
        Parameters of :class:`BoxUCB`.

    Returns
    -------
    MinimizeResult
        The best point ``x``, its value ``fun``, and all ``points`` and ``values`` in order.

    References
    ----------
    The theory page, "Bandits" on a set of candidates that is refreshed at each step.

    Examples
    --------
    >>> from squeak.bandits import minimize
    >>> found = minimize(lambda x: (x[0] - 0.3) ** 2 + (x[1] + 0.5) ** 2, [(-1, 1), (-1, 1)], 30, random_state=0)
    >>> found.fun < 1e-2
    True
    """
    check_count(n_steps, "n_steps")
    known = _known(points, values)
    box = BoxUCB(bounds, **params)
    if checkpoint is not None and Path(checkpoint).exists():
        box = _resumed(checkpoint, box, seeded=params.get("random_state") is not None)
    for point, value in known[box.n_told_ :]:
        box.tell(point, -value)
    left = n_steps + len(known) - box.n_told_
    with progress("minimize", "calls", n_steps, verbose, done=max(n_steps - left, 0)) as bar:
        for _ in range(left):
            x = box.ask()
            value = float(f(copy(x)))
            box.tell(x, -value)
            if checkpoint is not None:
                box.save(checkpoint)
            bar.update()
            if callback is not None and callback(x, value):
                break
    best, found = box.best_, -box.rewards_
    return MinimizeResult(best.arm, float(found[best.index]), box.pulls_, found)


def _known(points: Any, values: Any) -> list[tuple[Any, float]]:
    """Return pairs of points and values known from before."""
    points, values = ([] if given is None else list(given) for given in (points, values))
    if len(points) != len(values):
        raise ValueError(f"give as many values as points: there are {len(points)} points and {len(values)} values")
    return list(zip(points, values, strict=True))


def _resumed(path: str | os.PathLike[str], fresh: BoxUCB, *, seeded: bool) -> BoxUCB:
    """Return the box in a file, which must have been made as the fresh one was."""
    box = BoxUCB.load(path)
    if box.settings(seeded=seeded) != fresh.settings(seeded=seeded):
        raise ValueError(f"{path} belongs to a run with other bounds or parameters")
    return box
