"""What bandits over arms and over boxes share: a best arm, runs, checks of what is told, regret."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from squeak.core.checks import check_number, check_whole
from squeak.core.progress import progress
from squeak.core.rows import refuse_hidden
from squeak.core.types import Array, IntArray

R = TypeVar("R", bound="Runs")


@dataclass(frozen=True)
class Best:
    """The arm to recommend, or the point of a box; also a pair, ``point, value = best``.

    ``index`` is the arm's number (of a point, its place among those told) and ``arm`` its row (the point itself);
    ``mean`` and ``std`` are what the posterior says of f there (of a point, ``mean`` is the largest value told).
    """

    index: int
    arm: Any
    mean: float
    std: float

    def __iter__(self) -> Iterator[Any]:
        return iter((self.arm, self.mean))

    def __getitem__(self, place: int) -> Any:
        return (self.arm, self.mean)[place]


def show_best(bar: Any, bandit: Any) -> None:
    """Write the best arm so far beside a bar, where there is one."""
    with suppress(ValueError):
        best = bandit.best_
        bar.set_postfix({"best": f"{best.mean:.4g} (arm {best.index})"}, refresh=False)


class Runs:
    """What can be run. Arms are numbers, or the points of a box."""

    verbose: int = 0
    _pulls: list[Any]
    """The arms told, in order."""
    _next_arms: Any
    """Takes a limit; returns the arms to pull next, at most so many, which are pending from then on."""
    _reward: Any
    """Takes an arm and what the user's function gave; returns a float, not finite where it failed, or raises."""
    _tell: Any
    """Takes arms and their rewards, of which some may not be finite."""
    _drop: Any
    """Takes arms; gives up the pulls of them that are pending."""

    @property
    def n_told_(self) -> int:
        """The number of rewards told."""
        return len(self._pulls)

    @property
    def best_(self) -> Best:
        """The arm to recommend."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def run(
        self: R,
        f: Callable[[Any], float],
        n_steps: int,
        *,
        callback: Callable[[Any, float], bool | None] | None = None,
        one_by_one: bool = False,
    ) -> R:
        """Ask, call ``f(arm)`` and tell, ``n_steps`` times.

        If ``f`` returns NaN or an infinite number, this trial failed: the run goes on, an arm that failed is not
        asked for again, and a box learns to avoid points like it. If ``f`` raises, or the user interrupts, the
        rewards before it are told and the other pulls forgotten.

        Parameters
        ----------
        f : callable
            Takes the number of an arm, or a point of a box; returns its reward.
        n_steps : int
        callback : callable, optional
            Called with each arm and its reward (not finite where it failed) once they are told; a true answer
            ends the run.
        one_by_one : bool
            Tell each reward of a batch as it comes, and not all together: where rewards are dear, a callback can
            then save each of them.

        Returns
        -------
        self
        """
        steps = check_whole("n_steps", n_steps)
        with progress(type(self).__name__, "pulls", steps, self.verbose) as bar:
            while steps > 0:
                left = self._next_arms(steps)
                steps -= len(left)
                try:
                    while left:
                        now, left = (left[:1], left[1:]) if one_by_one else (left, [])
                        rewards = self._pull(now, f)
                        if not bar.disable:
                            show_best(bar, self)
                        bar.update(len(now))
                        answers = [callback(*pull) for pull in zip(now, rewards, strict=True)] if callback else []
                        if any(answers):
                            return self
                finally:
                    self._drop(left)
        return self

    def _pull(self, arms: list[Any], f: Callable[[Any], float]) -> list[float]:
        """Return the rewards of pending arms, which are told; on an error those that came before it are."""
        rewards: list[float] = []
        try:
            for arm in arms:
                rewards.append(self._reward(arm, f(arm)))  # noqa: PERF401
        finally:
            self._drop(arms[len(rewards) :])
            if rewards:
                try:
                    self._tell(arms[: len(rewards)], rewards)
                except (TypeError, ValueError):
                    self._drop(arms[: len(rewards)])
                    raise
        return rewards


def check_indices(indices: Any, n_arms: int) -> IntArray:
    """Return arms' numbers as a flat int64 array, or raise: each from 0 to n_arms - 1."""
    refuse_hidden(indices, "indices")
    array = np.atleast_1d(np.asarray(indices))
    if array.size == 0:
        raise ValueError("no arm was named")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"arms are named by their numbers, one or a flat list of them; these are {indices!r}")
    wrong = (array < 0) | (array >= n_arms)
    if wrong.any():
        raise ValueError(f"arm {array[wrong][0]} is unknown: there are {n_arms:,} arms, numbered from 0")
    return array.astype(np.int64)


def check_factor(value: Any) -> float:
    """Return how far variances may fall within a batch: a number above 1."""
    factor = check_number("batch_factor", value)
    if factor <= 1:
        raise ValueError(f"batch_factor must be above 1; it is {value!r}")
    return factor


def check_rewards(rewards: Any, indices: IntArray, centre: float) -> Array:
    """Return one finite reward for each arm named, or raise; its squared distance from the centre is finite too."""
    refuse_hidden(rewards, "rewards")
    array = np.atleast_1d(np.asarray(rewards))
    if array.dtype.kind not in "fiub":
        raise TypeError(f"rewards must be numbers; these are {rewards!r}")
    array = array.astype(np.float64)
    if array.shape != indices.shape:
        raise ValueError(f"{indices.size} arms were pulled, but the rewards have shape {array.shape}")
    bad = ~np.isfinite(array)
    if bad.any():
        place = int(np.argmax(bad))
        raise ValueError(
            f"the reward of arm {indices[place]} is {array[place]}: tell finite rewards only; "
            "for an experiment that failed, call fail(arm), or forget(arm) to try it again"
        )
    with np.errstate(over="ignore"):
        squares = float(((array - centre) ** 2).sum())
    if not np.isfinite(squares):
        raise ValueError(f"the rewards are too large for float64: up to {np.abs(array).max():.3g}; scale them")
    return array


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
