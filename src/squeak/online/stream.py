"""A stream of rows with targets: the kernel's width from the first rows, then a learner that goes on for ever."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from squeak.core.kernels import resolve
from squeak.core.rows import check_same_kind, copy_rows, join, n_rows, same_rows, take, width_of
from squeak.core.saved import Layout, Parts, RowsPiece
from squeak.core.state import flag, numbers, seed, whole
from squeak.core.types import Array, Rows
from squeak.data import Cursor, Preprocessing
from squeak.online.drift import LossWatch
from squeak.online.losses import Loss
from squeak.online.stored import Columns, Stored, checked_history, rearranged
from squeak.online.trial import Trial
from squeak.online.widths import needs_rows, with_width_one

WARM_UP = (2, 8, 32, 128)
"""Where a width is to be learned from data.

After so many rows it is learned anew, and the rows so far again with it.
"""


WATCHED = 2048
"""Rows learned at once where losses are watched."""


class Learner(Protocol):
    """What predicts rows and learns from them; targets and predictions have one column for each output."""

    n_seen: int

    @property
    def facts(self) -> dict[str, int]:
        """Atoms, coordinates, growths."""

    def scores(self, X: Rows) -> Array:
        """Return the predictions of rows, shape (n, outputs)."""

    def score_row(self, x: Rows) -> list[float]:
        """Return the predictions of one row."""

    def learn(self, X: Rows, targets: Array) -> Array:
        """Predict each row, then learn from it; returns the predictions."""

    def learn_row(self, x: Rows, targets: list[float]) -> list[float]:
        """Predict one row, then learn from it."""

    def copy(self) -> Any:
        """Return a learner in the same state that :meth:`learn` of this one leaves as it is."""

    def to_parts(self, prefix: str = "") -> Parts:
        """Return the arrays and the rest as JSON data."""

    def set_parts(self, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        """Take over a state, or raise what does not fit."""


Build = Callable[[Any, Rows, int, int], Learner]
"""(kernel, first rows, outputs, seed) ↦ a learner in its first state."""


@dataclass(frozen=True)
class Tested:
    """Some rows of a stream, each predicted before it was learned from.

    ``y``: the targets, or labels. ``scores``, ``targets``: both as the learner has them: labels are ±1. ``loss``:
    the learner's own. ``facts``: atoms, coordinates and growths after these rows. ``seconds``: what checking,
    predicting and learning took. ``cursor``: where the next block of a row source begins, with the last rows of a
    block.
    """

    y: Any
    predictions: Any
    scores: Array
    targets: Array
    loss: Loss
    facts: dict[str, int]
    seconds: float
    cursor: Cursor | None = None

    @property
    def surrogate(self) -> Array:
        """The learner's own loss of every row, summed over its outputs."""
        return np.asarray(self.loss.value(self.targets, self.scores).sum(axis=1))

    @property
    def errors(self) -> Array:
        """Of labels: 1 for a wrong one, 0 for a right one."""
        return np.asarray((self.predictions != self.y).astype(float))


class Stream(Stored):
    """All that an online estimator remembers.

    Rows that came before the width is final are held, 128 at most, and learned again when it changes; so the
    result does not depend on how the stream was cut. Between calls: ``learner`` has seen every row, once there is
    one.

    ``build``: makes a learner. ``kernel``: as the user gave it. ``preprocessing``: what turned the user's columns
    into rows. ``watch``: of its losses; where it raises an alarm, a new learner begins.
    """

    _state: ClassVar[Layout] = {
        "held": RowsPiece("held_", size="held", optional=True),
        "held_targets": numbers("held", "outputs", optional=True),
        "seed": seed(),
        "n_seen": whole(),
        "warming": flag(),
        "forgotten": whole(optional=True),
    }

    def __init__(
        self,
        build: Build,
        kernel: Any,
        n_outputs: int,
        seed: int,
        preprocessing: Preprocessing | None = None,
        watch: LossWatch | None = None,
    ) -> None:
        self.build, self.kernel, self.n_outputs, self.seed = build, kernel, n_outputs, seed
        self.preprocessing, self.watch = preprocessing, watch
        self.forgotten = 0
        """Rows that were seen and that the learner knows nothing of."""
        self.warming = needs_rows(kernel)
        self.resolved: Any = None
        self.learner: Learner | None = None
        self.held: Rows = None
        self.held_targets: Array | None = None
        self.scale: Any = None
        """How columns are scaled, where that is learned on the way."""
        self.history: list[dict[str, Any]] = []
        """The times at which the learner began anew, and why."""
        self.trial: Trial | None = None
        """The stream as it was before an alarm, until it is known whether that was better."""

    @property
    def n_seen(self) -> int:
        """How many rows have been learned."""
        if self.warming:
            return 0 if self.held_targets is None else len(self.held_targets)
        return 0 if self.learner is None else self.forgotten + self.learner.n_seen

    def copy(self) -> Stream:
        """Return a stream in the same state that learning from more rows by this one leaves as it is."""
        other = copy(self)
        other.learner = None if self.learner is None else self.learner.copy()
        other.watch, other.history = None if self.watch is None else self.watch.copy(), list(self.history)
        other.trial = None if self.trial is None else self.trial.copy()
        return other

    def rearrange(self, columns: Columns) -> None:
        """Take other outputs, for a class has joined."""
        learner: Any = self.learner
        held = None if self.held_targets is None else rearranged(self.held_targets, columns)
        self.learner = None if learner is None else learner.with_outputs(columns)
        self.held_targets, self.n_outputs = held, len(columns)
        if self.trial is not None:
            self.trial.take_outputs(columns)

    def as_seen(self, X: Rows) -> Rows:
        """Return rows as the kernel sees them."""
        return X

    @property
    def facts(self) -> dict[str, int]:
        """What the learner tells of itself, with that of the stream before an alarm."""
        found = {"atoms": 0, "coordinates": 0, "growths": 0} if self.learner is None else self.learner.facts
        if self.trial is None:
            return found
        return {name: count + self.trial.before.facts[name] for name, count in found.items()}

    def scores(self, X: Rows) -> Array:
        """Return the predictions of rows, shape (n, outputs); 0 before anything is known."""
        if self.learner is None:
            return np.zeros((n_rows(X), self.n_outputs))
        said = self.learner.scores(self.as_seen(X))
        return said if self.trial is None else self.trial.scores(X, said)

    def score_row(self, x: Rows) -> list[float]:
        """Return the predictions of one row."""
        if self.learner is None or self.trial is not None:
            return [float(value) for value in self.scores(x)[0]]
        return self.learner.score_row(self.as_seen(x))

    def learn(self, X: Rows, targets: Array) -> Array:
        """Predict each row, then learn from it; returns the predictions."""
        if self.learner is None and not self.warming:
            self._begin(resolve(self.kernel, X), X)
        if n_rows(X) == 1 and not self.warming:
            return np.array([self.learn_row(X, targets[0].tolist())])
        n, at, predictions = n_rows(X), 0, np.zeros(targets.shape)
        while self.warming and at < n:
            stop = min(n, at + min(count for count in WARM_UP if count > self.n_seen) - self.n_seen)
            here, after = slice(at, stop), copy(self)
            after.learner = deepcopy(self.learner)  # of few rows
            predictions[here], doubt = after._learn_held(take(X, here), targets[here])
            self.__dict__.update(after.__dict__)  # at once: an interrupt leaves all of these rows learned or none
            at = stop
            if doubt:  # said last, for a warning may be an error
                warnings.warn(f"{doubt}: the kernel's width is set to 1", stacklevel=2)
        while at < n and self.learner is not None:
            part = slice(at, n if self.watch is None else min(n, at + WATCHED))
            after = self if self.watch is None else self.copy()
            said = after._learn_watched(take(X, part), targets[part])
            after._heed_alarm(X)
            predictions[at : at + len(said)] = said
            self.__dict__.update(after.__dict__)  # at once: an interrupt leaves the part learned or not
            at += len(said)
        return predictions

    def _learn_watched(self, X: Rows, targets: Array) -> Array:
        """Predict and learn rows up to an alarm; returns the predictions of those."""
        assert self.learner is not None
        if self.watch is None:
            return self.learner.learn(self.as_seen(X), targets)
        watch, left = self.watch.copy(), len(targets) if self.trial is None else self.trial.left
        said, after = self._learned(take(X, slice(0, left)), targets[:left])
        seen = watch.see(said, targets[:left])
        if seen < len(said):
            said, after = self._learned(take(X, slice(0, seen)), targets[:seen])
        self.__dict__.update(after, watch=watch)
        return said

    def _learned(self, X: Rows, targets: Array) -> tuple[Array, dict[str, Any]]:
        """Return the predictions of rows, and what learner and trial become by learning them."""
        assert self.learner is not None
        learner, trial = self.learner.copy(), None if self.trial is None else self.trial.copy()
        said: Array = learner.learn(self.as_seen(X), targets)
        return said if trial is None else trial.learn(X, targets, said), {"learner": learner, "trial": trial}

    @property
    def _is_alarmed(self) -> bool:
        """Whether the watch has just raised an alarm, or a trial has come to its end."""
        over = self.trial is not None and self.trial.left <= 0
        return self.watch is not None and (self.watch.alarm is not None or over)

    def _heed_alarm(self, X: Rows) -> None:
        """Where the watch has just raised an alarm, begin anew beside what was; ``X``: some rows.

        Where a trial has come to its end, the better one of the two goes on.
        """
        watch = self.watch
        if watch is None or not self._is_alarmed:
            return
        if self.trial is not None:
            self._settle(self.trial)
        if watch.alarm is None:
            watch.restart()
            return
        self.history = [*self.history, {"rows": self.n_seen, **watch.alarm}]
        before = self.copy()
        before.watch, self.trial = None, Trial(before, watch.bound)
        self._begin_anew(X, watch.alarm["after"])
        watch.alarm = None

    def _settle(self, trial: Trial) -> None:
        """End a trial: go on as before the alarm unless that is clearly worse, and take note of it."""
        watch = self.watch
        if trial.stays:
            self.__dict__.update(trial.before.__dict__)
        self.watch, self.trial = watch, None
        last = max(i for i, entry in enumerate(self.history) if "after" in entry)
        told = {**self.history[last], "stayed": trial.stays}
        self.history = [*self.history[:last], told, *self.history[last + 1 :]]

    def _begin_anew(self, X: Rows, n_last: int) -> None:
        """Begin with a new learner of which the last so many rows may be learned again."""
        seen = self.n_seen
        self._begin(self.resolved, X)
        self.forgotten = seen

    def learn_row(self, x: Rows, targets: list[float]) -> list[float]:
        """Predict one row, then learn from it."""
        if self.warming or self.learner is None:
            return [float(value) for value in self.learn(x, np.array([targets]))[0]]
        try:
            said = self._learn_row_watched(x, targets)
            self._remember(x, targets)
            if self._is_alarmed:
                after = self.copy()
                after._heed_alarm(x)
                self.__dict__.update(after.__dict__)  # at once: an interrupt leaves all of it done or nothing
        except BaseException:
            self._straighten(x, targets)
            raise
        return said

    def _remember(self, x: Rows, targets: list[float]) -> None:
        """Take note of a single row that was learned."""

    def _straighten(self, x: Rows, targets: list[float]) -> None:
        """End a trial one side of which has not learned the last row, for an error or an interrupt came between."""
        trial = self.trial
        if trial is not None and (trial.left <= 0 or trial.before.n_seen != self.n_seen):
            self._settle(trial)

    def _learn_row_watched(self, x: Rows, targets: list[float]) -> list[float]:
        """Predict and learn one row."""
        assert self.learner is not None
        said = self.learner.learn_row(self.as_seen(x), targets)
        if self.trial is not None:
            said = self.trial.learn_row(x, targets, said)
        if self.watch is not None:
            self.watch.see_row(said, targets)
        return said

    def _learn_held(self, X: Rows, targets: Array) -> tuple[Array, str]:
        """Learn from some of the first rows; returns the predictions, and why no width can be learned."""
        held, held_targets = copy_rows(X), targets.copy()
        if self.held_targets is not None:
            held, held_targets = join(self.held, X), np.concatenate([self.held_targets, targets])
        if self.learner is None:
            said = np.zeros(targets.shape)
        elif len(targets) == 1:
            said = np.array([self.learner.learn_row(X, targets[0].tolist())])
        else:
            said = self.learner.learn(X, targets)
        self.held, self.held_targets, doubt = held, held_targets, ""
        if self.n_seen in WARM_UP:
            last = self.n_seen == WARM_UP[-1]
            kernel = self._width_of(held)
            if kernel is None and not last:
                return said, doubt
            self._begin(with_width_one(self.kernel) if kernel is None else kernel, held)
            if self.learner is not None:
                self.learner.learn(held, held_targets)
            if last:
                self.warming, self.held, self.held_targets = False, None, None
                if kernel is None:
                    alike = same_rows(held, take(held, np.zeros(n_rows(held), dtype=np.int64)))
                    doubt = "the first rows are all equal"
                    doubt = doubt if alike else "distances of the first rows overflow or vanish"
        return said, doubt

    def _width_of(self, rows: Rows) -> Any:
        """Return the kernel with its width learned from rows, or None where they do not tell one."""
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                return resolve(self.kernel, rows)
        except ValueError:
            return None

    def _begin(self, kernel: Any, rows: Rows) -> None:
        self.learner = self.build(kernel, rows, self.n_outputs, self.seed)
        self.resolved = kernel

    def to_parts(self, prefix: str = "") -> Parts:
        """Return the arrays and the rest as JSON data; kernel and preprocessing are the owner's."""
        arrays, content = super().to_parts(prefix)
        some, described = ({}, None) if self.learner is None else self.learner.to_parts()
        watched, losses = ({}, None) if self.watch is None else self.watch.to_parts("watch_")
        content |= {"learner": described, "watch": losses, "history": self.history}
        if self.trial is not None:
            tried, content["trial"] = self.trial.parts_beside(self.resolved)
            watched |= tried
        return {**arrays, **some, **watched}, content

    def restore(self, arrays: dict[str, Any], content: dict[str, Any], resolved: Any, head: Rows) -> None:
        """Take over the state that :meth:`to_parts` took apart, or raise what does not fit."""
        self.set_parts(arrays, content, outputs=self.n_outputs)
        self.history = checked_history(content.get("history", []), content["n_seen"], width_of(head) or 0)
        if self.watch is not None:
            self.watch.set_parts(arrays, content["watch"], "watch_")
        described, n_seen = content["learner"], content["n_seen"]
        if self.warming and (not needs_rows(self.kernel) or n_seen >= WARM_UP[-1]):
            raise ValueError("the stream cannot be one that waits for its first rows")
        if described is not None:
            if resolved is None:
                raise ValueError("the learner has no kernel")
            self._begin(resolved, self.as_seen(head))
            if self.learner is not None:
                self.learner.set_parts(arrays, described)
                if self.forgotten + self.learner.n_seen != n_seen:
                    raise ValueError("the learner has seen other rows than the stream")
        if self.warming and n_seen:
            check_same_kind(self.held, head)
            if self.held_targets is None or width_of(self.held) != width_of(head):
                raise ValueError("the held rows do not fit")
        if self.n_seen != n_seen:
            raise ValueError("the rows seen do not fit")
        if content.get("trial") is not None:
            self.trial = Trial.restored(self, arrays, content["trial"], resolved, head)

    def _take(self, found: dict[str, Any]) -> None:
        if (found.get("held") is None) != (found.get("held_targets") is None):
            raise ValueError("the held rows do not fit")
        found["forgotten"] = found["forgotten"] or 0
        super()._take({name: value for name, value in found.items() if name != "n_seen"})
