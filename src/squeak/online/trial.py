"""After an alarm: the stream as it was goes on beside the one that began anew, until losses tell which is better.

Both learn every row, and their predictions are mixed by the fixed-share rule (:mod:`squeak.online.mixture`) with
two experts and a share of 1/8192. After 8,192 rows the one that began anew goes on alone if the other's weight is
below a tenth. Otherwise the alarm was a false one, or what was learned before is still worth more, and the stream
goes on as it was. A further alarm ends the trial early, in the same way, and begins another.

In a trial, the loss of both together is at most that of either alone plus 8C²·(ln 2 + ½) for each output, where C
bounds targets and predictions: staying with one of two experts costs ln 2 + (T − 1)·ln(1/(1 − 1/(2T))) in T rounds
with a share of 1/T.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from squeak.core.described import restored_kernel, stored_kernel
from squeak.core.kernels.registry import check_stored
from squeak.core.saved import Parts
from squeak.core.types import Array, Rows
from squeak.online.stored import Columns
from squeak.online.weights import SharedWeights

if TYPE_CHECKING:
    from squeak.online.stream import Stream

ROUNDS = 8192
"""Rows of a trial at most."""

STAYS = 0.1
"""From this weight on, the stream as it was before the alarm stays."""


OWN, PREFIX = "trial_", "before_"
"""What the names of a trial's own arrays, and of those of the stream as it was, begin with in a file."""


class Trial(SharedWeights):
    """A stream as it was before an alarm, ``before``, and the weights of it and of the one that began anew.

    ``bound``: as that of a mixture.
    """

    def __init__(self, before: Stream, bound: float | None) -> None:
        super().__init__(2, before.n_outputs, 1.0 / ROUNDS, bound)
        self.before = before

    @property
    def left(self) -> int:
        """How many rows of the trial are to come."""
        return ROUNDS - self.n_seen

    @property
    def stays(self) -> bool:
        """Whether what was learned before the alarm is not clearly worse."""
        return bool(self.weights[0].mean() >= STAYS)

    def copy(self) -> Trial:
        """Return a trial of its own in the same state."""
        other = copy(self)
        other.before = self.before.copy()
        return other

    def take_outputs(self, columns: Columns) -> None:
        """Take other outputs, for a class has joined."""
        super().take_outputs(columns)
        self.before.rearrange(columns)

    def scores(self, X: Rows, said: Array) -> Array:
        """Return the predictions of rows; ``said``: those of the stream that began anew."""
        return self.weighed(np.stack([self.before.scores(X), said], axis=1))

    def learn(self, X: Rows, targets: Array, said: Array) -> Array:
        """Predict rows, shape (n, outputs), and let the stream as it was and the weights learn from them."""
        both = np.stack([self.before.learn(X, targets), said], axis=1)
        return self.learn_rounds(both, targets, self._clipped(both))

    def learn_row(self, x: Rows, targets: list[float], said: list[float]) -> list[float]:
        """Predict and learn one row."""
        both = np.array([self.before.learn_row(x, targets), said])
        return list(self.learn_round(both, np.array(targets), self._clipped(both)).tolist())

    def parts_beside(self, resolved: Any) -> Parts:
        """Return the trial for a file; ``resolved``: the kernel of the stream that began anew."""
        arrays, content = self.to_parts(OWN)
        earlier, content["before"] = self.before.to_parts()
        kernel = self.before.resolved
        content["resolved"] = None if kernel is resolved else stored_kernel(kernel)
        return arrays | {PREFIX + name: array for name, array in earlier.items()}, content

    @classmethod
    def restored(cls, stream: Stream, arrays: dict[str, Any], content: Any, resolved: Any, head: Rows) -> Trial:
        """Return the trial of a stream that :meth:`parts_beside` took apart, or raise what does not fit."""
        if stream.watch is None or stream.learner is None or not any("after" in one for one in stream.history):
            raise ValueError("there was no alarm that the stream could have begun anew after")
        before = type(stream)(stream.build, stream.kernel, stream.n_outputs, 0, stream.preprocessing)
        if content["resolved"] is not None:
            resolved = restored_kernel(content["resolved"], None)
            check_stored(resolved, head)
        known = {name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)}
        before.restore(known, content["before"], resolved, head)
        found = cls(before, stream.watch.bound)
        found.set_parts(arrays, content, OWN if f"{OWN}weights" in arrays else PREFIX)  # as older files have it
        if before.learner is None or before.trial is not None or before.n_seen != stream.n_seen or found.left < 1:
            raise ValueError("the stream as it was before the alarm does not fit")
        return found
