"""What bandits over arms and over boxes share: a best arm, and runs that ask, call the user's function and tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from squeak.core.checks import check_whole

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


def progress(words: str, unit: str, total: int, verbose: int, done: int = 0) -> Any:
    """Return a bar over the steps of a run, to be entered; silent unless ``verbose``."""
    from tqdm.auto import tqdm

    return tqdm(total=total, initial=done, desc=words, unit=f" {unit}", disable=not verbose)


def show_best(bar: Any, best: Best) -> None:
    """Write the best arm so far beside a bar."""
    bar.set_postfix({"best": f"{best.mean:.4g} (arm {best.index})"}, refresh=False)


class Runs:
    """What can be run. Arms are numbers, or the points of a box."""

    verbose: int = 0
    _pulls: list[Any]
    """The arms told, in order."""
    _next_arms: Any
    """Takes a limit; returns the arms to pull next, at most so many, which are pending from then on."""
    _reward: Any
    """Takes an arm and what the user's function gave; returns it as a float, or raises."""
    _tell: Any
    """Takes arms and their rewards."""
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
        """Ask, call ``f(arm)`` and tell, until ``n_steps`` more rewards are told.

        If ``f`` raises or gives no finite number, or the user interrupts, the rewards before it are told and the
        other pulls forgotten.

        Parameters
        ----------
        f : callable
            Takes the number of an arm, or a point of a box; returns its reward.
        n_steps : int
        callback : callable, optional
            Called with each arm and its reward once they are told; a true answer ends the run.
        one_by_one : bool
            Tell each reward of a batch as it comes, and not all together: where rewards are dear, a callback can
            then save each of them.

        Returns
        -------
        self
        """
        end = self.n_told_ + check_whole("n_steps", n_steps)
        with progress(type(self).__name__, "pulls", n_steps, self.verbose) as bar:
            while self.n_told_ < end:
                left = self._next_arms(end - self.n_told_)
                try:
                    while left:
                        now, left = (left[:1], left[1:]) if one_by_one else (left, [])
                        rewards = self._pull(now, f)
                        if not bar.disable:
                            show_best(bar, self.best_)
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
