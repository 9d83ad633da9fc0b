"""What every bandit over arms shares: ask and tell, counts, pending pulls, new and retired arms, files."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, ClassVar

import numpy as np

from squeak.bandits.evidence import fit_hyperparameters, refit_steps
from squeak.bandits.pending import PendingPulls
from squeak.bandits.posterior import Posterior
from squeak.bandits.runs import Best, Runs, check_indices, check_rewards
from squeak.bandits.state import SavedBandit
from squeak.bandits.units import FIRST, InUnits
from squeak.bandits.widths import Constant, Evidence, WidthLike, make_width
from squeak.core import engine
from squeak.core.checks import check_choice, check_number, check_positive
from squeak.core.kernels import Scaled, diagonal, resolve
from squeak.core.rows import check_rows, check_same_kind, copy_rows, join, n_rows, take, width_of
from squeak.core.seeds import SAMPLE, RandomState, draw_seed, generator_at
from squeak.core.types import Array, IntArray, Rows
from squeak.samplers.base import check_ridge_beside, own_kernel

KNOWN = (
    "counts_",
    "sums_",
    "_square_sum",
    "_pulls",
    "_rewards",
    "_pending",
    "_log_sum",
    "_draws",
    "kernel_",
    "noise_",
    "prior_mean_",
    "_largest",
    "unit_",
)
"""What telling rewards changes, besides the posterior."""

FAR = 3.0
"""Rewards whose mean is farther from the prior mean than so many times the bound on f are in other units."""


class Bandit(SavedBandit, InUnits, PendingPulls, Runs):
    """Base of the bandits over arms: ``ask`` which arm to pull, ``tell`` what it gave.

    Between calls: ``counts_`` and ``sums_`` hold every reward told, ``pending_`` every pull asked and not told yet.
    """

    def __init__(
        self,
        arms: Any,
        kernel: Any = None,
        *,
        noise: float | None = None,
        norm: float | None = None,
        delta: float = 0.1,
        beta: WidthLike = 2.0,
        prior_mean: float | None = None,
        refit: str | Iterable[int] | None = None,
        scale: str | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        kernel = own_kernel(kernel)
        rows = copy_rows(check_rows(arms, kernel))
        self.kernel_ = resolve(kernel, rows)
        in_units = [value for value in (noise, norm, prior_mean) if value is not None]
        self.noise_ = check_positive("noise", 0.1 if noise is None else noise)
        if not np.isfinite(self.noise_ * self.noise_):
            raise ValueError(f"noise is too large for float64, its square is infinite: {noise!r}")
        check_ridge_beside(self.noise_**2, self.kernel_, rows)
        self.norm = check_positive("norm", 1.0 if norm is None else norm)
        self.delta = check_positive("delta", delta)
        if self.delta >= 1:
            raise ValueError(f"delta must be below 1; it is {delta!r}")
        self.beta = make_width(beta)
        self.prior_mean_ = check_number("prior_mean", 0.0 if prior_mean is None else prior_mean)
        self.refit = refit_steps(refit)
        if scale is None and not (in_units or isinstance(kernel, Scaled)) and isinstance(self.beta, Constant):
            scale = "auto"  # nothing was said about the units of rewards
        self.scale = None if scale is None else check_choice("scale", scale, "auto")
        self.unit_ = 1.0
        self.verbose = int(verbose)
        self._seed = draw_seed(random_state)
        n = n_rows(rows)
        self.arms_: Rows = rows
        self.counts_: IntArray = np.zeros(n, dtype=np.int64)
        self.sums_: Array = np.zeros(n)
        self.active_ = np.ones(n, dtype=bool)
        self._pending: list[int] = []
        self._pulls: list[int] = []
        self._rewards: list[float] = []
        self._square_sum = 0.0
        self._log_sum = 0.0
        self._draws = 0
        self._largest = float(diagonal(self.kernel_, rows).max())
        self._start()

    # what a subclass gives

    OPTIONS: ClassVar[tuple[str, ...]] = ()
    """A subclass's own parameters, by the constructor's names."""

    _refitted = 0
    """The number of rewards up to which every refit that is due was made."""

    _model: Any
    """The :class:`~squeak.bandits.posterior.Posterior`; which one, the subclass says."""

    def _start(self) -> None:
        """Make the model anew from kernel, noise and the counts so far."""
        raise TypeError(f"{type(self).__name__} is abstract: use GPUCB, BKB, BatchBKB or AutoUCB")

    def _learn(self, arms: IntArray, totals: Array, times: IntArray) -> None:
        """Take in rewards that ``counts_`` and ``sums_`` already hold; arms are distinct, totals centred."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def _choose(self, limit: int | None) -> list[int]:
        """Return the arms to pull next, at least one and at most ``limit``: here the highest upper bound."""
        return [self._now().best(self._width(), self.active_, self._pending)]

    def _now(self) -> Posterior:
        """Return the posterior given all rewards."""
        model: Posterior = self._model
        return model

    def _grow(self, rows: Rows) -> None:
        """Let the model know of more arms."""
        self._model.add(rows)

    # the interface

    @property
    def n_arms(self) -> int:
        """The number of arms, retired ones included."""
        return n_rows(self.arms_)

    @property
    def pending_(self) -> IntArray:
        """The arms asked and not told yet, in the order they were asked."""
        return np.array(self._pending, dtype=np.int64)

    @property
    def pulls_(self) -> IntArray:
        """The arms told, in order."""
        return np.array(self._pulls, dtype=np.int64)

    @property
    def rewards_(self) -> Array:
        """The rewards told, in order."""
        return np.array(self._rewards)

    @property
    def ridge_(self) -> float:
        """λ = noise²."""
        return self.noise_**2

    @property
    def beta_(self) -> float:
        """The width now, in posterior standard deviations: the upper bound is mean + ``beta_``·std."""
        return self._width() / self.noise_

    def _width(self) -> float:
        """Return β in ridge-leverage units."""
        known = {"ridge": self.ridge_, "noise": self.noise_, "norm": self.norm, "delta": self.delta}
        variance_sum = self._now().variance_sum(self.counts_) / self.ridge_
        seen = Evidence(
            **known, largest=self._largest, pulls=self.n_told_, log_sum=self._log_sum, variance_sum=variance_sum
        )
        return self.beta(seen)

    def ask(self) -> Any:
        """Return the number of the arm to pull next.

        It may be asked again before the reward is told: pulls that are pending count as pulls whose reward is the
        mean.

        Returns
        -------
        int, or an array of ints where the bandit works in batches
        """
        return self._next_arms(1)[0]

    @contextmanager
    def _whole(self, known: dict[str, Any] | None = None) -> Iterator[None]:
        """Make the posterior anew from the rewards told where an error or an interrupt stops what is done to it.

        After an error, but not an interrupt, the attributes ``known`` are as they were.
        """
        with engine.single_blas():
            try:
                yield
            except BaseException as error:
                if isinstance(error, Exception):
                    self.__dict__.update(known or {})
                self._start()
                raise

    def _next_arms(self, limit: int | None) -> list[int]:
        if not self.active_.any():
            raise ValueError("every arm is retired or has failed: add arms before asking")
        with self._whole():
            known = len(self._pulls) + len(self._pending)
            chosen = [self._first()] if known < (FIRST if self.scale else 1) else self._choose(limit)
        self._pending += chosen
        return chosen

    def _generator(self) -> np.random.Generator:
        """Return the generator of the next draw."""
        self._draws += 1
        return generator_at(self._seed, SAMPLE, self._draws)

    def _first(self) -> int:
        """Return a uniform arm: nothing is known yet."""
        return int(self._generator().choice(np.flatnonzero(self.active_)))

    def tell(self, indices: Any, rewards: Any) -> None:
        """Tell the rewards of some pulls: in any order, also of arms that were never asked for.

        Parameters
        ----------
        indices : int or array of ints
            The arms pulled; an arm may come more than once.
        rewards : float or array of floats
            One for each.
        """
        arms = check_indices(indices, self.n_arms)
        values = check_rewards(rewards, arms, self.prior_mean_)
        distinct, inverse, times = np.unique(arms, return_inverse=True, return_counts=True)
        totals = np.bincount(inverse, weights=values - self.prior_mean_).astype(np.float64)
        told = {
            "counts_": self.counts_ + np.bincount(arms, minlength=self.n_arms),
            "sums_": self.sums_.copy(),
            "_square_sum": self._square_sum + float((values**2).sum()),
            "_pulls": self._pulls + arms.tolist(),
            "_rewards": self._rewards + values.tolist(),
            "_pending": self._pending_without(arms.tolist()),
        }
        np.add.at(told["sums_"], arms, values)
        with self._whole({name: copy(getattr(self, name)) for name in KNOWN}):
            self.__dict__.update(told)  # at once, so that rewards are known or not
            scaled = self.scale is not None and self._is_due(FIRST * 2**i for i in range(40))
            if scaled:
                self._take_units()
            if self._is_due(self.refit) and np.count_nonzero(self.counts_) > 1:
                self.fit_hyperparameters()
            elif scaled:
                self._start()
            else:
                self._learn(distinct, totals, times)
        looked_at = self.scale is None and not self.refit and self._is_due((FIRST,))
        self._refitted = self.n_told_
        if looked_at:  # last, for a warning may be an error
            self._warn_of_units()

    def _warn_of_units(self) -> None:
        """Warn where the first rewards are so far from the prior mean that ``norm`` cannot hold."""
        mean = float(np.mean(self._rewards))
        if abs(mean - self.prior_mean_) <= FAR * self.norm * math.sqrt(self._largest):
            return
        told = f"the first rewards are {mean:.3g} in the mean, and prior_mean is {self.prior_mean_:.3g}"
        known = "all arms that were tried look better, or worse, than the others"
        advice = "give scale='auto', or rewards with mean 0 and a spread of about 1"
        warnings.warn(f"{told}: {known}; {advice}", stacklevel=3)

    def _is_due(self, steps: Iterable[int]) -> bool:
        """Tell whether the rewards just told reach one of some numbers."""
        return any(self._refitted < step <= self.n_told_ for step in steps)

    def _reward(self, arm: int, value: Any) -> float:
        number = np.asarray(value)
        if number.dtype.kind == "f" and number.size == 1 and not np.isfinite(number).all():
            return np.nan  # the experiment failed
        return float(check_rewards(value, np.array([arm]), self.prior_mean_)[0])

    def posterior(self, X: Any = None) -> tuple[Array, Array]:
        """Return mean and standard deviation of f at every arm, or at the rows given.

        Parameters
        ----------
        X : rows, optional

        Returns
        -------
        mean, std : arrays of shape (n,)
            In the units of the rewards: f ± ``beta_``·std is the confidence interval.
        """
        rows = None if X is None else check_rows(X, self.kernel_, width=width_of(self.arms_))
        with self._whole():
            model = self._now()
            mean, variance = (model.mean, model.variance) if rows is None else model.predict(rows)
        return mean + self.prior_mean_, np.sqrt(variance)

    @property
    def best_(self) -> Best:
        """The arm to recommend: of those pulled and not retired, the one with the highest posterior mean."""
        seen = np.flatnonzero((self.counts_ > 0) & self.active_)
        if len(seen) == 0:
            raise ValueError("no reward has been told of an arm that is not retired")
        mean, std = self.posterior()
        index = int(seen[np.argmax(mean[seen])])
        return Best(index, take(self.arms_, slice(index, index + 1))[0], float(mean[index]), float(std[index]))

    def add_arms(self, arms: Any) -> IntArray:
        """Add arms on the way.

        Parameters
        ----------
        arms : rows

        Returns
        -------
        array of ints
            Their numbers.
        """
        rows = check_rows(arms, self.kernel_, width=width_of(self.arms_))
        check_same_kind(self.arms_, rows)
        diag = diagonal(self.kernel_, rows)
        start, new = self.n_arms, n_rows(rows)
        grown = {
            "arms_": join(self.arms_, rows),
            "counts_": np.concatenate([self.counts_, np.zeros(new, dtype=np.int64)]),
            "sums_": np.concatenate([self.sums_, np.zeros(new)]),
            "active_": np.concatenate([self.active_, np.ones(new, dtype=bool)]),
            "_largest": max(self._largest, float(diag.max())),
        }
        with self._whole():
            self._grow(copy_rows(rows))
            self.__dict__.update(grown)
        return np.arange(start, start + new)

    def fit_hyperparameters(self) -> None:
        """Fit the kernel's length scale, the noise and the prior mean to all rewards by marginal likelihood.

        Then the posterior is made anew. The theorem needs a kernel that was chosen before the data: after
        a fit its intervals are only as good as the fit.
        """
        pulled = np.flatnonzero(self.counts_)
        if len(pulled) < 2:
            raise ValueError("fitting needs the rewards of two different arms at least")
        with self._whole():
            found = fit_hyperparameters(
                take(self.arms_, pulled),
                self.counts_[pulled].astype(np.float64),
                self.sums_[pulled],
                self._square_sum,
                self.kernel_,
                self.noise_,
                self.prior_mean_,
                landmarks=self._landmarks(pulled),
            )
            check_ridge_beside(found.noise**2, found.kernel, self.arms_)
            largest = float(diagonal(found.kernel, self.arms_).max())
            fitted = {"kernel_": found.kernel, "noise_": found.noise, "prior_mean_": found.mean}
            self.__dict__.update(fitted | {"_largest": largest})
            self._start()

    def _landmarks(self, pulled: IntArray) -> IntArray | None:
        """Return which of the pulled arms carry the likelihood; None: all of them."""
        return None

    def _counted(self) -> tuple[IntArray, Array, Array]:
        """Return the arms pulled, how often, and the sums of their rewards less the prior mean."""
        pulled = np.flatnonzero(self.counts_)
        counts = self.counts_[pulled]
        return pulled, counts.astype(np.float64), self.sums_[pulled] - counts * self.prior_mean_
