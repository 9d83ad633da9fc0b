"""Scales of columns that are learned on the way: a stream that begins its space anew when a scale has moved much.

Column j of a row x is seen by the kernel as z/√(1 + (z/3)²), z = rate_j·(x_j − centre_j), where the centre is the
median and 1/rate the inter-quartile range of a uniform sample of the rows so far: the robust scale of row sources,
with the same fallbacks. A column that has been constant has rate 0, and is not seen until it varies.

Between two looks at the sample the scale stays as it is, so that the kernel, and with it the space, is fixed. Looks
come after 2, 8, 32, 128 rows and then whenever the number of rows has doubled. If a rate is then off by more than a
factor of two, or a centre by more than two spreads, the new scales are taken, the width is learned anew, and a new
learner learns what is remembered of the rows: the sample and the latest ones. There are at most log₂(T/128) such
restarts in T rows, whatever the stream does.

Where the kernel's width is "learned", the model so far tells at each look from 1,024 rows on how much a column
matters: r_j = √(mean of (∂f/∂z_j)² over the sample and the outputs), as a part of the largest, and no less than a
twentieth. Columns are multiplied by r_j. The learner begins anew where r_j of a column that matters is off by a
factor of two.

Where the losses are watched and have risen, another stream begins beside this one (:mod:`squeak.online.trial`), as
if the rows since the change, as far as they are remembered, were its first ones: scales, width and relevance are
learned anew, and looks come after 2, 8, 32, 128 such rows and then whenever their number has doubled.
"""

from __future__ import annotations

from collections import deque
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import get_blas_funcs

from squeak.core.kernels import Kernel
from squeak.core.rows import n_rows, take, width_of
from squeak.core.saved import Layout, Parts
from squeak.core.seeds import SAMPLE, coin, coins
from squeak.core.state import ANY, LARGEST, checked, numbers, parts, seed, whole, wholes
from squeak.core.types import Array, Rows
from squeak.data.scaling import CLIP, robust_scale
from squeak.online.stored import Columns, rearranged
from squeak.online.stream import WARM_UP, Build, Stream
from squeak.online.widths import needs_rows, with_width_one

REMEMBERED = 256
"""Rows of the uniform sample, and latest rows, that are kept."""

MOVED = 2.0
"""A rate that is off by this factor, or a centre that is off by so many spreads, has moved."""

MATTERS, LEAST_RELEVANCE = 0.15, 0.05
"""Columns whose relevance is above the first part of the largest matter; none is below the second."""

RELEVANCE_ROWS = 1024
"""From so many rows on, the relevance of columns is learned."""

PART = 2048
"""Rows learned at once; an interrupt leaves a part learned or not."""

STEEPEST = 1e150
"""Rates, and numbers before the clip, are no larger, so that no product overflows."""

USUAL = 1e70
"""Products of two smaller numbers are below the limits of the clips."""

_dot = get_blas_funcs("dot", dtype=np.float64)


@dataclass(frozen=True)
class Scale:
    """Centre and rate of every column; the rate of a column that is constant is 0.

    ``centre``, ``rate``: arrays of shape (d,). ``relevance``: how much each column matters, where that was learned.
    """

    centre: Array
    rate: Array
    relevance: Array | None = None

    @classmethod
    def of(cls, rows: Array) -> Scale:
        """Return the robust scale of some rows: medians, and one over the inter-quartile ranges."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.array([robust_scale(column) for column in rows.T], dtype=np.float64).reshape(-1, 2)
            spread = np.where(rows.min(axis=0) == rows.max(axis=0), np.inf, found[:, 1])
            rate = np.minimum(1.0 / np.where(np.isnan(spread), np.inf, spread), STEEPEST)
        return cls(np.nan_to_num(found[:, 0]), rate)  # a mean of two huge numbers overflows

    @property
    def spread(self) -> Array:
        """One over the rate; infinite for a column that is constant."""
        with np.errstate(divide="ignore"):
            return 1.0 / self.rate

    @cached_property
    def _plain(self) -> bool:
        """Whether centres and rates are so small that no product with a row below :data:`USUAL` is clipped."""
        return bool(max(np.abs(self.centre).max(), self.rate.max()) < USUAL)

    def __call__(self, X: Array) -> Array:
        """Return rows as the kernel sees them, in their own precision."""
        if len(X) == 1 and self._plain and _dot(X[0], X[0]) < USUAL:  # a single row: the same with fewer calls
            z = X - self.centre
            z *= self.rate
        else:
            with np.errstate(over="ignore"):
                z = np.clip(X - self.centre, -LARGEST, LARGEST)
                z *= self.rate
            np.clip(z, -STEEPEST, STEEPEST, out=z)
        z /= np.hypot(1.0, z / CLIP)
        if self.relevance is not None:
            z *= self.relevance
        return z.astype(X.dtype, copy=False)

    def moved(self, other: Scale) -> list[int]:
        """Return the columns whose scale is far from that of another: by twice the rate, or two spreads."""
        low, high = np.minimum(self.rate, other.rate), np.maximum(self.rate, other.rate)
        with np.errstate(over="ignore"):
            shift = np.clip(np.abs(other.centre - self.centre), 0.0, LARGEST) * low
        return [int(j) for j in np.flatnonzero((high > MOVED * low) | (shift > MOVED))]

    def matters_otherwise(self, relevance: Array) -> bool:
        """Tell whether a column that matters does so by twice or half as much as is known."""
        known = np.ones(len(relevance)) if self.relevance is None else self.relevance
        low, high = np.minimum(known, relevance), np.maximum(known, relevance)
        return bool(np.any((high > MOVED * low) & (high > MATTERS)))


class Memory:
    """What is remembered of a stream: a uniform sample of its rows, and the latest ones, with their targets.

    Row t takes place ⌊u·(t − start + 1)⌋ of the sample where that is one, u being the uniform number of row t:
    reservoir sampling (Vitter's algorithm R), which does not depend on how the stream was cut. ``start`` is the
    number of the first row that counts, 0 or the first one after a drift.
    """

    def __init__(self, seed: int) -> None:
        self.seed, self.n_seen, self.start = seed, 0, 0
        self.sample: list[tuple[int, Array, Array]] = []
        self.latest: deque[tuple[int, Array, Array]] = deque(maxlen=REMEMBERED)

    def copy(self) -> Memory:
        """Return a memory of its own in the same state; rows are shared, for none is changed."""
        other = copy(self)
        other.sample, other.latest = list(self.sample), self.latest.copy()
        return other

    def add(self, X: Array, targets: Array) -> None:
        """Take note of some rows, shape (n, d), and their targets, shape (n, outputs)."""
        first, n = self.n_seen, len(X)
        self.n_seen += n
        for i in range(max(0, n - REMEMBERED), n):
            self.latest.append((first + i, X[i].copy(), targets[i].copy()))
        ages = np.arange(first, first + n) - self.start
        places = np.floor(coins(self.seed, first, n, SAMPLE) * (ages + 1)).astype(np.int64)
        for i in np.flatnonzero((places < REMEMBERED) | (ages < REMEMBERED)).tolist():
            self._place((first + i, X[i].copy(), targets[i].copy()), int(ages[i]), int(places[i]))

    def add_row(self, x: Array, target: Array) -> None:
        """Take note of one row, shape (1, d), and its target, shape (outputs,)."""
        number, age = self.n_seen, self.n_seen - self.start
        self.n_seen += 1
        kept = (number, x[0].copy(), target)
        self.latest.append(kept)
        place = int(coin(self.seed, number, SAMPLE) * (age + 1))
        if place < REMEMBERED or age < REMEMBERED:
            self._place(kept, age, place)

    def _place(self, kept: tuple[int, Array, Array], age: int, place: int) -> None:
        """Put a row into the sample: at its end, or once that is full in a place."""
        if age < REMEMBERED:
            self.sample.append(kept)
        else:
            self.sample[place] = kept

    def forget(self, n_last: int) -> None:
        """Forget all but the last so many rows, as far as they are remembered; the sample begins anew with them."""
        self.sample = list(self.latest)[-n_last:]
        self.latest = deque(self.sample, maxlen=REMEMBERED)
        self.start = self.n_seen - len(self.sample)

    @property
    def next_look(self) -> int:
        """After how many rows the scales are looked at next."""
        return self.start + next_look(self.n_seen - self.start)

    def rearrange(self, columns: Columns) -> None:
        """Let targets have other outputs."""
        for kept in (self.sample, self.latest):
            for i, (number, x, y) in enumerate(kept):
                kept[i] = (number, x, rearranged(y[None], columns)[0])

    def rows(self) -> Array:
        """Return the sample, shape (rows, d)."""
        return np.array([x for _, x, _ in self.sample])

    def replay(self) -> tuple[Array, Array]:
        """Return all rows that are remembered and their targets, in the order in which they came."""
        known = {number: (x, y) for number, x, y in (*self.sample, *self.latest)}
        ordered = [known[number] for number in sorted(known)]
        return np.array([x for x, _ in ordered]), np.array([y for _, y in ordered])


REMEMBERED_PARTS = {
    "memory_start": whole(optional=True),
    "scale_centre": numbers("d", low=-ANY, high=ANY, optional=True),
    "scale_rate": numbers("d", low=0.0, high=STEEPEST, optional=True),
    "scale_relevance": numbers("d", low=LEAST_RELEVANCE, high=1.0, optional=True),
    "sample_numbers": wholes("sample"),
    "sample_rows": numbers("sample", "d", low=-ANY, high=ANY),
    "sample_targets": numbers("sample", "outputs"),
    "latest_rows": numbers("latest", "d", low=-ANY, high=ANY),
    "latest_targets": numbers("latest", "outputs"),
}


class ScaledStream(Stream):
    """A stream whose rows are scaled by what was seen of their columns; see the module.

    Between calls: ``learner`` has learned what was remembered at the last restart, and every row since.

    ``build``, ``kernel``, ``n_outputs``, ``seed``, ``preprocessing``: as those of :class:`Stream`.
    """

    _state: ClassVar[Layout] = {"seed": seed(), "n_seen": whole(), "forgotten": whole()}

    def __init__(
        self, build: Build, kernel: Any, n_outputs: int, seed: int, preprocessing: Any = None, watch: Any = None
    ) -> None:
        super().__init__(build, kernel, n_outputs, seed, preprocessing, watch)
        self.warming = False
        self.memory = Memory(seed)

    @property
    def n_seen(self) -> int:
        """How many rows have been learned, whether or not they were forgotten since."""
        return self.memory.n_seen if self.learner is None else self.forgotten + self.learner.n_seen

    def copy(self) -> ScaledStream:
        """Return a stream in the same state that learning from more rows by this one leaves as it is."""
        other: Any = super().copy()
        other.memory = self.memory.copy()
        return other  # type: ignore[no-any-return]

    def rearrange(self, columns: Columns) -> None:
        """Take other outputs, for a class has joined."""
        super().rearrange(columns)
        self.memory.rearrange(columns)

    def as_seen(self, X: Rows) -> Rows:
        """Return rows as the kernel sees them."""
        return X if self.scale is None else self.scale(X)

    def learn(self, X: Rows, targets: Array) -> Array:
        """Predict each row, then learn from it; returns the predictions."""
        n, at, predictions = n_rows(X), 0, np.zeros(targets.shape)
        while at < n:
            after, memory = self.copy(), self.memory
            part = slice(at, min(n, at + PART, at + memory.next_look - memory.n_seen))
            said = after._learn_part(take(X, part), targets[part])
            predictions[at : at + len(said)] = said
            self.__dict__.update(after.__dict__)  # at once: an interrupt leaves the part learned or not
            at += len(said)
        return predictions

    def learn_row(self, x: Rows, targets: list[float]) -> list[float]:
        """Predict one row, then learn from it."""
        if self.learner is None or self.memory.n_seen + 1 == self.memory.next_look:
            return [float(value) for value in self.learn(x, np.array([targets]))[0]]
        return super().learn_row(x, targets)

    def _remember(self, x: Rows, targets: list[float]) -> None:
        self.memory.add_row(x, np.array(targets))

    def _straighten(self, x: Rows, targets: list[float]) -> None:
        if self.memory.n_seen < self.n_seen:  # the learner has learned the row
            self._remember(x, targets)
        super()._straighten(x, targets)

    def _learn_part(self, X: Rows, targets: Array) -> Array:
        """Predict and learn rows up to a look at the scales or an alarm, and look where it is time.

        Returns the predictions of those that were learned.
        """
        said, look, alarms = np.zeros(targets.shape), self.memory.next_look, len(self.history)
        if self.learner is not None and len(targets) == 1:
            said = np.array([self._learn_row_watched(X, targets[0].tolist())])
        elif self.learner is not None:
            said = self._learn_watched(X, targets)
        memory = self.memory
        memory.add(X[: len(said)], targets[: len(said)])
        self._heed_alarm(X)
        if self.memory is memory and memory.n_seen == look and len(self.history) == alarms:
            self._look()
        return said

    def _begin_anew(self, X: Rows, n_last: int) -> None:
        """Begin as if the last so many rows, as far as they are remembered, were the first ones of the stream."""
        self.memory.forget(n_last)
        self._adopt(Scale.of(self.memory.rows()))

    def _look(self) -> None:
        """Take the scales anew, where they have moved or rows are few, and learn again what is remembered."""
        scale, relevance = Scale.of(self.memory.rows()), self._relevance()
        moved = list(range(len(scale.rate))) if self.scale is None else self.scale.moved(scale)
        if self.memory.n_seen - self.memory.start > WARM_UP[-1]:
            turned = relevance is not None and self.scale.matters_otherwise(relevance)
            if not moved and not turned:
                return
            told = {} if relevance is None else {"relevance": [round(float(one), 6) for one in relevance]}
            self.history.append({"rows": self.memory.n_seen, "columns": moved, **told})
        if self.watch is not None:
            self.watch.restart()
        self._adopt(replace(scale, relevance=relevance))

    def _adopt(self, scale: Scale) -> None:
        """Begin with a new learner in new scales, and learn again what is remembered."""
        rows, targets = self.memory.replay()
        self.scale, rows = scale, scale(rows)
        kernel = self._width_of(scale(self.memory.rows())) if needs_rows(self.kernel) else self.kernel
        self._begin(with_width_one(self.kernel) if kernel is None else kernel, rows)
        self.forgotten = self.memory.n_seen - len(rows)
        if self.learner is not None:
            self.learner.learn(rows, targets)

    def _relevance(self) -> Array | None:
        """Return how much each column matters to the model, as a part of the largest; None where none asked."""
        learner: Any = self.learner
        asked = isinstance(self.kernel, Kernel) and "learned" in map(str, self.kernel.get_params().values())
        if learner is None or not asked or not hasattr(learner, "gradient_squares"):
            return None
        known: Array | None = self.scale.relevance
        if self.memory.n_seen - self.memory.start < RELEVANCE_ROWS:
            return known
        slopes = np.sqrt(learner.gradient_squares(self.scale(self.memory.rows())))
        slopes *= (1.0 if known is None else known) * (self.scale.rate > 0.0)
        largest = float(slopes.max(initial=0.0))
        return np.maximum(slopes / largest, LEAST_RELEVANCE) if 0.0 < largest < np.inf else known

    def to_parts(self, prefix: str = "") -> Parts:
        """Return the arrays and the rest as JSON data; kernel and preprocessing are the owner's."""
        arrays, content = super().to_parts(prefix)
        memory, scale = self.memory, self.scale
        kept = {
            "memory_start": memory.start,
            "scale_centre": None if scale is None else scale.centre,
            "scale_rate": None if scale is None else scale.rate,
            "scale_relevance": None if scale is None else scale.relevance,
            "sample_numbers": np.array([number for number, _, _ in memory.sample], dtype=np.int64),
            "sample_rows": memory.rows(),
            "sample_targets": np.array([y for _, _, y in memory.sample]),
            "latest_rows": np.array([x for _, x, _ in memory.latest]),
            "latest_targets": np.array([y for _, _, y in memory.latest]),
        }
        some, told = parts(REMEMBERED_PARTS, kept, prefix)
        return {**arrays, **some}, {**content, **told, "scaled": True}

    def restore(self, arrays: dict[str, Any], content: dict[str, Any], resolved: Any, head: Rows) -> None:
        """Take over the state that :meth:`to_parts` took apart, or raise what does not fit."""
        width, n = width_of(head) or 0, checked({"n_seen": whole(low=1)}, {}, content)["n_seen"]
        found = checked(REMEMBERED_PARTS, arrays, content, d=width, outputs=self.n_outputs)
        start = found["memory_start"] or 0
        numbers, expected = found["sample_numbers"], min(REMEMBERED, n - start)
        if {len(numbers), len(found["latest_rows"])} != {expected} or len(np.unique(numbers)) < expected:
            raise ValueError("the remembered rows do not fit")
        if (
            np.any(numbers >= n)
            or np.any(numbers < start)
            or (found["scale_rate"] is None) != (content["learner"] is None)
        ):
            raise ValueError("the remembered rows do not fit")
        rows = found["sample_rows"], found["sample_targets"]
        self.memory.sample = [(int(t), x.copy(), y.copy()) for t, x, y in zip(numbers, *rows, strict=True)]
        latest = zip(range(n - expected, n), found["latest_rows"], found["latest_targets"], strict=True)
        self.memory.latest.extend((t, x.copy(), y.copy()) for t, x, y in latest)
        self.memory.n_seen, self.memory.start = n, start
        if found["scale_rate"] is not None:
            relevance = found["scale_relevance"]
            relevance = None if relevance is None else relevance.copy()
            self.scale = Scale(found["scale_centre"].copy(), found["scale_rate"].copy(), relevance)
        super().restore(arrays, content, resolved, head)
        self.memory.seed = self.seed


def next_look(n_seen: int) -> int:
    """Return after how many rows the scales are looked at next, where ``n_seen`` have been seen."""
    for count in WARM_UP:
        if n_seen < count:
            return count
    return 1 << n_seen.bit_length()
