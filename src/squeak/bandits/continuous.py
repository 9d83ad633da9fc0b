"""Boxes instead of arms: the next point of a continuous or mixed space."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.stats import qmc

from squeak.bandits.box_model import BoxModel
from squeak.bandits.box_points import PointsTold
from squeak.bandits.fronts import Direction, non_dominated
from squeak.bandits.posterior import improvement, upper_bound
from squeak.bandits.runs import Best, Runs, check_factor
from squeak.bandits.searching import SOBOL, candidates, due, nearby, refined, trusted
from squeak.bandits.space import Space
from squeak.bandits.state import SavedBox
from squeak.bandits.surface import Surface
from squeak.core import engine
from squeak.core.checks import check_positive, check_whole
from squeak.core.seeds import PROBE, SAMPLE, RandomState, draw_seed, generator_at
from squeak.core.types import Array, IntArray
from squeak.samplers.base import own_kernel

LITTLE = 3e-3
"""An expected improvement below this part of the better half's spread is little: the search here is done."""

STILL = 10
"""So many trials without a notable rise of the best value make every second of the others look elsewhere."""

LIKE = 0.5
"""Elsewhere is where the prior's correlation with the best point is below this."""

FAINT = 7.0
"""Elsewhere must promise at least exp(−7) of what is promised here."""

LOCALLY = 3
"""Every third trial looks in the region of trust around the best point, and nowhere else."""

CAUTION = 6.0
"""The power of the chance that a trial does not fail: a border between labels looks like noise, and too likely."""


class BoxUCB(SavedBox, PointsTold, Runs):
    """Choose the next point of a box by a Gaussian process, with ask and tell. Values are maximised.

    Use it if each evaluation is expensive: ``ask`` gives the point to evaluate next, and ``tell`` takes its value.
    The process learns from all values so far where the function may be large, and a step goes where a rise is most
    to be expected.

    Each step looks at Sobol points over the box, moved by a random shift, and at points around the best one so far,
    and refines the most promising. Values are centred and scaled. Widths and noise are fitted by marginal
    likelihood whenever the number of points has grown by a sixth. Up to ``crossover`` points the posterior is
    exact. Then it is computed on a dictionary of at most ``max_atoms`` of them, and the cost of a step grows little
    with their number. Every third step looks only in a region of trust around the best point. Its sides are
    proportional to the fitted widths; they double when the best value rises three times in a row, halve after
    max(4, sides) trials without a rise, and begin anew after six halvings. When little is left to gain around the
    best point, every second of the other steps looks elsewhere.

    Parameters
    ----------
    bounds : sequence
        The sides of the box: for each a pair (low, high), a list of values, or :class:`Real`, :class:`Integer`,
        :class:`Categorical`.
    kernel : kernel, optional
        The kernel on the unit cube. The default is Matern with one width for each side, and with nu=1.5 or 2.5,
        whichever each fit finds more likely.
    beta : "ei" or float
        How many standard deviations the bound adds to the mean. "ei" takes the largest augmented expected
        improvement instead, which is the expected improvement times 1 − σ/√(s² + σ²) for values with noise σ.
    conditions : mapping, optional
        ``{side: (parent, values)}``: a side, by its number, is there only where the categorical side ``parent`` has
        one of these values. Points have None where a side is not there.
    objectives : int
        How many values are told of each point; all are maximised.
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

    Constraints and failures have a Gaussian process each, and the improvement is multiplied by the chance that all
    constraints hold. Of several objectives y each step draws a direction λ and improves min_i max(y_i − r_i, 0)/λ_i
    to the power of their number; r is a little below the worst values of the front. The mean over all directions
    of the largest such number is the volume that the front dominates, up to a constant.

    References
    ----------
    Huang, Allen, Notz and Zeng (2006), Global optimization of stochastic black-box systems via sequential kriging
    meta-models, equation 10, for the augmented expected improvement. Golovin and Zhang (2020), Random hypervolume
    scalarizations for provable multi-objective black box optimization. Gardner et al. (2014), Bayesian optimization
    with inequality constraints. Eriksson et al. (2019), Scalable global optimization via local Bayesian
    optimization, for the region of trust.

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
        conditions: Mapping[int, tuple[int, Any]] | None = None,
        objectives: int = 1,
        n_initial: int | None = None,
        crossover: int = 300,
        max_atoms: int = 200,
        oversampling: float = 5.0,
        batch_factor: float = 2.0,
        random_state: RandomState = None,
    ) -> None:
        self.space = Space(bounds, conditions)
        self.kernel = None if kernel is None else own_kernel(kernel)
        if isinstance(beta, str) and beta != "ei":
            raise ValueError(f"beta must be a number or 'ei'; it is {beta!r}")
        self.beta = beta if isinstance(beta, str) else check_positive("beta", beta)
        self.objectives = check_whole("objectives", objectives)
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
        self._begin()
        self._surface = Surface(self._model, self.kernel, self.space)
        self._goals = [self._surface, *(self._more() for _ in range(1, self.objectives))]
        self._limits: list[Surface] = []  # constraints
        self._failures = self._more(level=True)

    def _more(self, *, level: bool = False) -> Surface:
        """Return the surface of another function over the box."""
        like = self._model
        model = BoxModel(like.crossover, like.max_atoms, like.oversampling, like.batch_factor)
        return Surface(model, self.kernel, self.space, level=level)

    @property
    def _surfaces(self) -> list[Surface]:
        """The surfaces of objectives, constraints and, where there are any, failures."""
        return [*self._goals, *self._limits, *([self._failures] if self._failed else [])]

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
        rng = generator_at(self._seed, SAMPLE, self._asked)
        with engine.single_blas():
            if any(goal.fitted_at for goal in self._goals):
                row = self._next(rng)
            elif self._is_flat:
                row = self._likely(rng)
            else:
                row = self.space.spread(self._sobol[(self._asked - 1) % SOBOL][None, :])[0]
        point = self.space.decode(row)
        self._pending.append(self.space.encode(point))  # to the bit what tell will see
        return point

    def tell(self, point: Any, value: Any, constraints: Sequence[float] = ()) -> None:
        """Tell the value at a point: asked for or not, in any order.

        A value that is not finite says that the trial failed, as :meth:`fail` does.

        Parameters
        ----------
        point : sequence of values
        value : float
            Larger is better. With several objectives a sequence, one for each.
        constraints : sequence of float
            What was seen of the constraints there: each holds where its number is at most 0. Give as many at
            every point.
        """
        self.tell_many([point], [value], [constraints])

    def tell_many(self, points: Any, values: Any, constraints: Any = None) -> None:
        """Tell the values at several points together, which is faster than one by one.

        Parameters
        ----------
        points : sequence of points
        values : sequence
            One for each point, as in :meth:`tell`.
        constraints : sequence of sequences, optional
        """
        points, values = list(points), list(values)
        limits = [()] * len(points) if constraints is None else list(constraints)
        if not len(points) == len(values) == len(limits):
            raise ValueError(
                f"{len(points)} points have {len(values)} values and {len(limits)} sets of constraints"
            )
        after = self._copied()
        after._take(points, values, limits)
        self.__dict__.update(after.__dict__)  # at once: an error or an interrupt leaves all of them told or none

    def _take(self, points: list[Any], values: list[Any], limits: list[Any]) -> None:
        before = self.n_told_
        constraints = self._keep(points, values, limits)
        if constraints:
            self._limits = [self._more(level=True) for _ in range(constraints)]
        with engine.single_blas():
            if self.n_told_ > before:
                self._learn(self.n_told_ - before)
            if points and self._failed:
                self._learn_failures(len(points))

    def _copied(self) -> BoxUCB:
        """Return a box in the same state that telling this one more leaves as it is."""
        other = copy(self)
        for name in ("_pulls", "_pending", "_tried", "_failed"):
            setattr(other, name, list(getattr(self, name)))
        other._goals, other._limits = [one.copy() for one in self._goals], [one.copy() for one in self._limits]
        other._surface, other._failures = other._goals[0], self._failures.copy()
        other._model = other._surface.model
        return other

    def _next_arms(self, limit: int | None) -> list[Any]:
        return [self.ask()]

    def _tell(self, points: list[Any], values: list[float]) -> None:
        self.tell_many(points, values)

    def _learn(self, new: int) -> None:
        n = self.n_told_
        X, columns = self._rows[:n], [self._values[:n], *self._extra[:n].T]
        for number, (surface, y) in enumerate(zip([*self._goals, *self._limits], columns, strict=True)):
            rng = generator_at(self._seed, SAMPLE, 0, n, *([number] if number else []))
            surface.learn(X, y, rng, first=self.n_first_, new=new)

    def _learn_failures(self, new: int) -> None:
        labels = np.array(self._failed)
        rng = generator_at(self._seed, SAMPLE, 1, len(labels))
        self._failures.learn(np.array(self._tried), labels, rng, first=self.n_initial, new=new)

    def _scores(self, X: Array, pending: Array) -> Array:
        """Return the logarithm of what rows promise: improvement times the chance that all constraints hold."""
        total = self._promised(X, pending) if self._leading else np.zeros(len(X))
        return self._with_chances(total, X, pending)

    def _with_chances(self, total: Array, X: Array, pending: Array) -> Array:
        """Add the logarithm of the chance that all constraints hold, as far as anything is known of them."""
        for limit, power in [*((limit, 1.0) for limit in self._limits), (self._failures, CAUTION)]:
            if limit.fitted_at:
                total = total + power * limit.log_chance(X, pending)
        return total

    def _promised(self, X: Array, pending: Array) -> Array:
        goals = [goal for goal in self._goals if goal.fitted_at]  # the values of others have all been equal
        means, variances = zip(*(goal.model.shrunk(X, pending) for goal in goals), strict=True)
        if self.objectives > 1:
            gain = self._direction.improvement(means, variances, self._incumbent)
        elif isinstance(self.beta, str):
            gain = improvement(means[0], np.sqrt(variances[0]), self._incumbent) * self._surface.news(variances[0])
        else:
            return upper_bound(means[0], np.sqrt(variances[0]), self.beta)
        return np.asarray(np.log(np.maximum(gain, 1e-300)))

    def _aim(self, rng: np.random.Generator) -> Direction:
        """Return a direction in which several objectives are to improve."""
        allowed, values = self._allowed, self.rewards_
        pairs = zip(self._goals, values.T, strict=True)
        warped = [s.warped(y) - s.model.centre for s, y in pairs if s.fitted_at]
        front = non_dominated(np.where((allowed | (not allowed.any()))[:, None], values, -np.inf))
        return Direction(np.column_stack(warped), front, rng)

    def _leaders(self, rng: np.random.Generator) -> IntArray:
        """Return the four best points, of those which satisfy the constraints where there are any."""
        allowed, values = self._allowed, self._values[: self.n_told_]
        self._leading = bool(allowed.any())
        if self.objectives > 1:
            self._direction = self._aim(rng)
            values = self._direction.reached
        if not self._leading:  # the nearest to satisfying them
            limits = zip(self._limits, self._extra[: self.n_told_, self.objectives - 1 :].T, strict=True)
            values = -sum((np.maximum(limit.warped(c), 0.0) for limit, c in limits), np.zeros(len(values)))
        which = np.flatnonzero(allowed | (not self._leading))
        return which[np.argsort(-values[which], kind="stable")[:4]]

    def _next(self, rng: np.random.Generator) -> Array:
        """Return the row with the largest score; now and then near the best point only, or far from it."""
        X = self._rows[: self.n_told_]
        pending = np.array(self._pending).reshape(-1, self.space.width)
        leaders = X[self._leaders(rng)]
        if self.objectives > 1:
            reached = self._direction.reached
            self._incumbent = max(float(reached[self._allowed].max()), 0.0) if self._leading else 0.0
        else:
            self._incumbent = float(self._model.predict(leaders)[0].max())
        if self._asked % LOCALLY == 0 and self._leading and self.objectives == 1 and isinstance(self.beta, str):
            return self._near(leaders[0], pending, rng)
        tried = np.vstack([self._tried if self._failed else X, pending])
        rows = due(self.space, candidates(self.space, self._sobol, leaders, rng), tried)
        scores = self._scores(rows, pending)

        def elsewhere(rows: Array, scores: Array) -> Array:
            return np.where(self._surface.likeness(rows, leaders[:1]) < LIKE, scores, -np.inf)

        if self._asked % 2 == 0 and self._is_done(float(scores.max())):
            apart = elsewhere(rows, scores)
            if apart.max() > scores.max() - FAINT:
                return refined(
                    self.space, rows, apart, lambda tries: elsewhere(tries, self._scores(tries, pending)), rng
                )
        return refined(self.space, rows, scores, lambda tries: self._scores(tries, pending), rng)

    @property
    def _is_flat(self) -> bool:
        """Whether values are enough and all equal, while something is known of constraints or failures."""
        known = any(limit.fitted_at for limit in (*self._limits, self._failures))
        return known and self.n_told_ >= self.n_first_ and not np.ptp(self.rewards_, axis=0).any()

    def _likely(self, rng: np.random.Generator) -> Array:
        """Return a row drawn by its chance that all constraints hold: values that are all equal tell nothing."""
        pending = np.array(self._pending).reshape(-1, self.space.width)
        rows = self.space.spread((self._sobol + rng.random(len(self.space.sides))) % 1.0)
        scores = self._with_chances(np.zeros(len(rows)), rows, pending)
        chances = np.exp(scores - scores.max())
        return np.asarray(rows[rng.choice(len(rows), p=chances / chances.sum())])

    def _near(self, best: Array, pending: Array, rng: np.random.Generator) -> Array:
        """Return the row with the largest score in the region of trust around the best point."""
        values = np.where(self._allowed, self._values[: self.n_told_], -np.inf)
        length = trusted(values, self.n_initial, self._notable, len(self.space.sides))
        half = 0.5 * length * self._surface.widths
        rows = nearby(self.space, self._sobol, best, half, rng)
        scores, within = self._scores(rows, pending), (best - half, best + half)
        return refined(
            self.space, rows, scores, lambda tries: self._scores(tries, pending), rng, 0.2 * length, within
        )

    @property
    def _notable(self) -> float:
        """The least rise of the best value that counts."""
        return self._surface.spread * (1e-3 + self._surface.noise)

    def _is_done(self, promised: float) -> bool:
        """Tell whether little is promised around the best point, and its value has not risen of late."""
        if self.objectives > 1 or not isinstance(self.beta, str) or not promised < math.log(LITTLE):
            return False
        top = np.maximum.accumulate(self._values[: self.n_told_])
        return int(np.count_nonzero(top >= top[-1] - self._notable)) >= STILL

    @property
    def best_(self) -> Best:
        """The point with the largest value told, which is its ``mean``; ``std`` is NaN before the first fit.

        Where constraints are told, it is the best of the points that satisfy them, if there is one.
        """
        if self.n_told_ == 0:
            raise ValueError(
                "no value has been told yet" + f"; {self.n_failed_} trials failed" * bool(self._failed)
            )
        if self.objectives > 1:
            raise ValueError("several objectives have no best point: see front_")
        allowed = self._allowed
        i = int(np.argmax(np.where(allowed | (not allowed.any()), self.rewards_, -np.inf)))
        fitted, surface = self._surface.fitted_at, self._surface
        variance = float(self._model.predict(self._rows[i : i + 1])[1][0]) if fitted else np.nan
        return Best(i, copy(self._pulls[i]), float(self._values[i]), surface.spread * math.sqrt(variance))
