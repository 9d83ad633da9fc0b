"""The points of a box and what was told of them: values, constraints, failures, and what is pending."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from squeak.bandits.fronts import non_dominated
from squeak.bandits.space import Space
from squeak.core.checks import check_whole
from squeak.core.types import Array, BoolArray, IntArray


class PointsTold:
    """What a box knows: points told with their values, points that failed, points under way.

    Between calls: row i of ``_rows``, ``_values`` and ``_extra`` is the i-th point of ``_pulls``, for i below
    ``n_told_``; further rows are room.
    """

    space: Space
    objectives: int
    n_initial: int
    n_told_: Any
    """The number of points told."""
    tell: Any

    def _begin(self) -> None:
        """Know nothing."""
        self._rows: Array = np.zeros((64, self.space.width))
        self._values: Array = np.zeros(64)
        self._extra: Array = np.zeros((64, self.objectives - 1))  # further objectives, then constraints
        self._tried: list[Array] = []  # every point told or failed, from the first failure on
        self._failed: list[float] = []  # 1 where it failed, else −1
        self._pulls: list[Any] = []
        self._pending: list[Array] = []
        self._asked = 0

    def _keep(self, points: list[Any], values: list[Any], limits: list[Any]) -> int:
        """Take points with their values and constraints; return how many constraints there are, if that is new.

        A point one of whose numbers is not finite has failed.
        """
        told = [
            (self.space.encode(point), *self._checked(point, value, numbers))
            for point, value, numbers in zip(points, values, limits, strict=True)
        ]
        sizes = {len(extra) for _, reward, extra in told if np.isfinite([reward, *extra]).all()}
        new = 0
        if sizes and sizes != {self._extra.shape[1]}:
            if self.n_told_ or len(sizes) > 1:
                raise ValueError("tell the same number of constraints at every point")
            self._extra = np.zeros((len(self._values), *sizes))
            new = sizes.pop() + 1 - self.objectives
        self._drop(points)
        for point, (row, reward, extra) in zip(points, told, strict=True):
            n = self.n_told_
            if not np.isfinite([reward, *extra]).all():
                if not self._failed:
                    self._tried, self._failed = list(self._rows[:n]), [-1.0] * n
                self._try(row, 1.0)
                continue
            if n == len(self._values):
                for name in ("_rows", "_values", "_extra"):
                    array = getattr(self, name)
                    setattr(self, name, np.concatenate([array, np.zeros_like(array)]))
            self._rows[n], self._values[n], self._extra[n] = row, reward, extra
            self._pulls.append(np.array(point, dtype=np.float64) if self.space.is_real else list(point))
            if self._failed:
                self._try(row, -1.0)
        return new

    def _try(self, row: Array, label: float) -> None:
        self._tried.append(row)
        self._failed.append(label)

    def _reward(self, point: Any, value: Any) -> float:
        """Return a value as a number, or raise; one that is not finite says that the trial failed."""
        if isinstance(value, bool | str | None):
            raise ValueError(f"the value at {point!r} is {value!r}: tell a number, or NaN where the trial failed")
        if 1e150 <= abs(float(value)) < np.inf:
            raise ValueError(
                f"the value {value!r} is too large for float64: scale it, or tell NaN where the trial failed"
            )
        return float(value)

    def _checked(self, point: Any, value: Any, constraints: Any) -> tuple[float, list[float]]:
        """Return the first objective, and the others with the constraints."""
        if self.objectives > 1 and (isinstance(value, str) or len(np.atleast_1d(value)) != self.objectives):
            raise ValueError(f"the value at {point!r} is {value!r}: tell {self.objectives} numbers")
        first, *others = [value] if self.objectives == 1 else list(value)
        return self._reward(point, first), [self._reward(point, number) for number in [*others, *constraints]]

    def fail(self, point: Any) -> None:
        """Tell that a point has no value because its trial failed; the search then avoids what is like it.

        Parameters
        ----------
        point : sequence of values
        """
        self.tell(point, np.nan if self.objectives == 1 else [np.nan] * self.objectives)

    def skip_to(self, n_steps: int) -> None:
        """Count so many points as asked for, by this box or by others that share its seed and its search.

        What is drawn for the next point depends on this number and the seed, so that two boxes draw differently.

        Parameters
        ----------
        n_steps : int
        """
        self._asked = check_whole("n_steps", n_steps, 0)

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

    @property
    def n_constraints_(self) -> int | None:
        """How many constraints are told at each point; None before the first."""
        return self._extra.shape[1] + 1 - self.objectives if self.n_told_ else None

    @property
    def _allowed(self) -> BoolArray:
        """Which of the points told satisfy every constraint."""
        return np.asarray((self._extra[: self.n_told_, self.objectives - 1 :] <= 0).all(axis=1))

    @property
    def front_(self) -> IntArray:
        """The numbers of the points told that satisfy the constraints and that no other such point dominates."""
        points = np.flatnonzero(self._allowed)
        return points[non_dominated(self.rewards_.reshape(self.n_told_, -1)[points])]

    @property
    def pulls_(self) -> list[Any]:
        """The points told, in order."""
        return [copy(point) for point in self._pulls]

    @property
    def failed_(self) -> list[Any]:
        """The points that failed, in order."""
        return [self.space.decode(row) for row, label in zip(self._tried, self._failed, strict=True) if label > 0]

    @property
    def n_failed_(self) -> int:
        """The number of points that failed."""
        return self._failed.count(1.0)

    @property
    def n_first_(self) -> int:
        """How many values the first fit waits for: ``n_initial``, less one for every two points that failed."""
        return max(self.n_initial - self.n_failed_ // 2, min(self.n_initial, 2))

    @property
    def rewards_(self) -> Array:
        """The values told, in order; of several objectives one column for each."""
        n, extra = self.n_told_, self._extra[: self.n_told_, : self.objectives - 1]
        return self._values[:n].copy() if self.objectives == 1 else np.column_stack([self._values[:n], extra])

    @property
    def pending_(self) -> list[Any]:
        """The points asked and not told yet, in the order they were asked."""
        return [self.space.decode(row) for row in self._pending]

    @property
    def told_(self) -> tuple[list[Any], Array]:
        """The points told, in order, and their values."""
        return self.pulls_, self.rewards_
