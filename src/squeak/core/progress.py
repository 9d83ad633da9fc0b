"""Bars that tell how far a run has come: one for a loop, or one for a whole job of several stages.

While a job is under way, the bars of what it calls are stages of its one bar. tqdm is imported for them alone.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])

STAGES = {"length_scale": "kernel width", "Squeak": "dictionary", "Disqueak": "dictionary", "FALKON": "solving"}
"""What the stages of a job are called, by the words of their own bars."""

TICK, SELDOM = 0.5, 10.0
"""Seconds between two drawings of a bar, on a terminal and in a file."""

FAR_ENOUGH = 0.1
"""From this part of a stage on, the time that it took tells how long the rest takes."""


class Job:
    """One bar for a whole job, to be entered: its stage, the time since it began and about how much is left.

    ``expected``: the stages to come with about the seconds of each, where they are known. ``shown``: False keeps
    the times of stages and shows nothing. A job inside another one is part of it. The bar is drawn anew by a
    thread, so that time goes on where nothing else is told.
    """

    now: Job | None = None
    """The job that is under way in this process."""

    def __init__(
        self, words: str, verbose: Any, expected: Mapping[str, float] | None = None, *, shown: bool = True
    ) -> None:
        self._words, self._verbose, self._outer, self._visible = words, verbose, Job.now, shown
        self._expected, self._stage, self._part = dict(expected or {}), "reading", 0.0
        self._spent: dict[str, float] = {}
        self._since = self._began = time.monotonic()
        self._passes, self._shown, self._over = 0, 0.0, threading.Event()
        self.rows: int | None = None
        """About how many rows a pass has, where the source does not count them."""

    def __enter__(self) -> Job:
        if self._outer is not None or not self._verbose:
            return self._outer or self
        Job.now = self
        if not self._visible:
            return self
        from tqdm.auto import tqdm

        form = "{desc} {percentage:3.0f}%|{bar}| {elapsed}{postfix}"
        self._bar = tqdm(total=100, bar_format=form, desc=f"{self._words}: {self._stage}", mininterval=0)
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._ticker.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if Job.now is not self:
            return
        Job.now = None
        self.begin("")
        if not self._visible:
            return
        self._over.set()
        self._ticker.join()
        if kind is None:
            self._bar.set_description_str(f"{self._words}: done", refresh=False)
            self._bar.set_postfix_str("", refresh=False)
            self._bar.n = 100
        self._bar.close()

    @property
    def times(self) -> dict[str, float]:
        """The seconds of the stages that are over."""
        return dict(self._spent)

    def expect(self, seconds: Mapping[str, float]) -> None:
        """Take note of stages to come, with about the seconds of each, in place of what was expected before."""
        self._expected = dict(seconds)

    def begin(self, stage: str) -> None:
        """Begin a stage, which ends the one before."""
        if stage != self._stage:
            now = time.monotonic()
            self._spent[self._stage] = self._spent.get(self._stage, 0.0) + now - self._since
            self._stage, self._since = stage, now
        self._part = 0.0

    def reach(self, part: float) -> None:
        """Say which part of the stage is done, from 0 to 1."""
        self._part = min(1.0, part)

    @classmethod
    def current(cls) -> Job:
        """Return the job that is under way, or one that shows nothing."""
        return cls.now or cls("", False)

    @property
    def counts_passes(self) -> bool:
        """Whether the stage is itself made of passes over the rows."""
        return self._stage in ("solving", "kernel width")

    def next_pass(self) -> str:
        """Return the name of the next pass over the rows."""
        self._passes += 1
        return f"pass {self._passes + 1}"

    def left(self) -> float | None:
        """Return about how many seconds are left; None where nothing is known yet.

        What is expected is corrected by how long the stages before took, or the first one by its own pace; the
        further a stage has come, the more its own pace counts.
        """
        here, stages, part = time.monotonic() - self._since, list(self._expected), self._part
        done = [stage for stage in self._spent if stage in self._expected]
        ratio = sum(self._spent[s] for s in done) / max(sum(self._expected[s] for s in done), 1e-9) if done else 1.0
        pace = here / part * (1.0 - part) if part > FAR_ENOUGH else None
        if self._stage not in stages:
            return pace
        expected = self._expected[self._stage]
        if not done and pace is not None:
            ratio = (here + pace) / max(expected, 1e-9)
        own = max(ratio * expected - here, 0.0)
        own = own if pace is None else (1.0 - part) * own + part * pace
        after = stages[stages.index(self._stage) + 1 :]
        return own + ratio * sum(self._expected[stage] for stage in after)

    def _tick(self) -> None:
        while not self._over.wait(TICK if sys.stderr.isatty() else SELDOM):
            self._draw()

    def _draw(self) -> None:
        spent, left = time.monotonic() - self._began, self.left()
        if left is not None:
            self._shown = max(self._shown, min(99.0, 100.0 * spent / max(spent + left, 1e-9)))
        self._bar.n = self._shown
        stages = list(self._expected)
        place = f" ({stages.index(self._stage) + 1} of {len(stages)})" if self._stage in stages else ""
        self._bar.set_description_str(f"{self._words}: {self._stage}{place}", refresh=False)
        words = "" if left is None else f", about {_clock(left)} left"
        self._bar.set_postfix_str(words.removeprefix(", "), refresh=False)
        self._bar.refresh()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes:02d}:{rest:02d}"


def one_bar(method: Method) -> Method:
    """Make a method of an estimator with ``verbose`` one job, which has one bar."""

    @wraps(method)
    def shown(self: Any, *args: Any, **kwargs: Any) -> Any:
        with Job(type(self).__name__, self.verbose):
            return method(self, *args, **kwargs)

    return cast(Method, shown)


class Stage:
    """A stage of the job that is under way, with what users of a bar call."""

    def __init__(self, job: Job, name: str, total: float | None, done: float = 0) -> None:
        self._job, self._name, self._total, self.n = job, name, total, done

    def __enter__(self) -> Stage:
        self._job.begin(self._name)
        return self

    def __exit__(self, *error: object) -> None:
        self._job.reach(1.0)

    def update(self, steps: float = 1) -> None:
        """Move on by some steps."""
        self.n += steps
        if self._total:
            self._job.reach(self.n / self._total)

    def set_postfix(self, *facts: Any, **more: Any) -> None:
        """Take no note of what a bar of its own would show beside."""

    def close(self) -> None:
        """End the stage."""
        self._job.reach(1.0)


def progress(words: str, unit: str, total: int | None, verbose: Any, done: int = 0, **options: Any) -> Any:
    """Return a bar over the steps of a run, to be entered; silent unless ``verbose``; options are those of tqdm.

    Inside a job it is a stage of that.
    """
    if Job.now is not None and verbose:
        total = Job.now.rows if total is None and unit == "rows" else total
        return Stage(Job.now, STAGES.get(words, words), total, done)
    from tqdm.auto import tqdm

    return tqdm(total=total, initial=done, desc=words, unit=f" {unit}", disable=not verbose, **options)


class Pass:
    """A pass over rows that begins, as a stage of the job that is under way, if any.

    ``done``: rows of it that a run before has read.
    """

    def __init__(self, total: int | None, done: int = 0) -> None:
        self._stage: Stage | None = None
        if Job.now is not None and not Job.now.counts_passes:
            self._stage = Stage(Job.now, Job.now.next_pass(), total or Job.now.rows, done).__enter__()

    def update(self, rows: int) -> None:
        """Move on by some rows."""
        if self._stage is not None:
            self._stage.update(rows)
