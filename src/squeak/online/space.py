"""The space in which an online learner works: the span of atoms chosen by KORS, with coordinates that nest.

KORS never sees a target, so which rows of a block become atoms can be decided before any of them is learned from.
A row's coordinates are φ̃(x) = L⁻¹ k(atoms, x) with L Lᵀ = K of the atoms: a new atom appends one coordinate and
leaves the others as they were. An atom that lies in the span already (a repeated row) appends none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.cholesky import GrowingCholesky
from squeak.core.kernels import against, diagonal, gram
from squeak.core.leverage import WeightedFactor, positive_residuals
from squeak.core.rows import copy_rows, n_rows, take
from squeak.core.screening import decide, entry_score, screen
from squeak.core.thinning import count_from_uniform, keep_probability
from squeak.core.types import Array, IntArray, Rows

IN_SPAN = 1e-10
"""An atom whose distance² from the span is below this part of k(x, x) adds no coordinate."""

CHUNK = 64


@dataclass(frozen=True)
class Space:
    """The span of the atoms, as a value.

    Between calls: ``factor`` is the inverse factor of K over ``members``, the atoms that have a coordinate;
    ``scorer`` holds all atoms with their weights. Once ``max_atoms`` coordinates are there, the space is frozen.

    References
    ----------
    Thesis, algorithms 8 and 14; the theory page, "Online learning".
    """

    scorer: WeightedFactor
    factor: GrowingCholesky
    members: IntArray
    oversampling: float
    max_atoms: int | None

    @cached_property
    def mixing(self) -> Array:
        """Shape (coordinates, atoms), in Fortran order: φ̃(x) = mixing · k(atoms, x)."""
        mixing = np.zeros((self.size, self.n_atoms), order="F")
        mixing[:, self.members] = self.factor.inverse
        return mixing

    @cached_property
    def columns(self) -> Callable[[Rows], Array]:
        """X ↦ k(X, atoms), with what depends on the atoms done once."""
        return against(self.scorer.kernel, self.scorer.atoms) if self.n_atoms else _no_columns

    @cached_property
    def level(self) -> float | None:
        """k(x, x) where it is the same for every x, else None."""
        kernel = self.scorer.kernel
        if not self.n_atoms or not kernel.is_stationary():
            return None
        return float(diagonal(kernel, take(self.scorer.atoms, slice(0, 1)))[0])

    @classmethod
    def empty(cls, kernel: Any, rows: Rows, ridge: float, oversampling: float, max_atoms: int | None) -> Space:
        """Return the space of no atoms, for rows of the kind given."""
        scorer = WeightedFactor.empty(kernel, copy_rows(take(rows, slice(0, 1))), ridge)
        return cls(scorer, GrowingCholesky(), np.zeros(0, dtype=np.int64), oversampling, max_atoms)

    @classmethod
    def of_rows(cls, kernel: Any, rows: Rows, ridge: float) -> Space:
        """Return the frozen span of all the rows given, each with weight 1."""
        n = n_rows(rows)
        space = cls.empty(kernel, rows, ridge, 1.0, n)
        schur = gram(kernel, rows)
        schur[np.diag_indices(n)] += ridge
        space = space._with_atoms(rows, np.ones(n), np.zeros((n, 0)), schur)[0]
        return replace(space, max_atoms=space.size)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("mixing", "columns", "level")}

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.factor.size

    @property
    def n_atoms(self) -> int:
        """The number of atoms, those without a coordinate among them."""
        return self.scorer.factor.size

    @property
    def frozen(self) -> bool:
        """Whether the limit is reached: coordinates count, for a repeated row may be sampled again."""
        return self.max_atoms is not None and self.size >= self.max_atoms

    def features(self, X: Rows) -> Array:
        """Return φ̃ of every row, shape (len(X), coordinates), on this thread."""
        return np.asarray(self.columns(X) @ self.mixing.T)

    def enter(self, X: Rows, uniforms: Array) -> tuple[Space, list[int]]:
        """Return the space after some rows, and the numbers of the rows that added a coordinate, in order.

        Coordinates nest: those before row t are the leading ones of the space returned.
        """
        space, growths = self, list[int]()
        candidates = screen(self.scorer, X, uniforms, oversampling=self.oversampling, copies=1)
        for chunk in engine.tiles(len(candidates), CHUNK):
            numbers = candidates[chunk]
            rows = take(X, numbers)
            entered = decide(space.scorer, rows, uniforms[numbers], oversampling=self.oversampling, copies=1)
            if not entered.rows.size:
                continue
            atoms = take(rows, entered.rows)
            space, added = space._with_atoms(atoms, entered.weights, entered.projected, entered.schur)
            growths += numbers[entered.rows[added]].tolist()
            if space.frozen:
                break
        return space, growths

    def enter_row(self, x: Rows, columns: Array, uniform: float) -> Space:
        """Return the space after one row, whose k(x, atoms) is known: itself, or with one more atom."""
        projected = self.scorer.factor.inverse @ columns
        level = float(diagonal(self.scorer.kernel, x)[0]) if self.level is None else self.level
        left = level - float(projected @ projected)
        if left < 0:
            left = float(positive_residuals(np.array([left]), np.array([level]), self.scorer)[0])
        p = min(1.0, self.oversampling * entry_score(left, self.scorer.ridge))
        if count_from_uniform(uniform, p, 1) == 0:
            return self
        weight = np.array([1.0 / float(keep_probability(p, 1.0, 1))])
        schur = np.array([[left + self.scorer.ridge / weight[0]]])
        return self._with_atoms(copy_rows(x), weight, projected.reshape(1, -1), schur)[0]

    def _with_atoms(self, rows: Rows, weights: Array, projected: Array, schur: Array) -> tuple[Space, IntArray]:
        """Return the space with more atoms, and which of them added a coordinate.

        Those that lie in the span add none, and those after the one that reaches the limit are left out.
        ``projected`` and ``schur`` are what :meth:`WeightedFactor.grow` takes.
        """
        room = n_rows(rows) if self.max_atoms is None else self.max_atoms - self.size
        coordinates = self.factor.project(self.columns(rows)[:, self.members])
        residual = gram(self.scorer.kernel, rows) - coordinates @ coordinates.T
        added, end = _pivots(residual, IN_SPAN * diagonal(self.scorer.kernel, rows), room)
        scorer = self.scorer.grow(take(rows, slice(0, end)), weights[:end], projected[:end], schur[:end, :end])
        if not added.size:
            return replace(self, scorer=scorer), added
        factor = self.factor.append(coordinates[added], residual[np.ix_(added, added)])
        members = np.concatenate([self.members, self.n_atoms + added])
        return replace(self, scorer=scorer, factor=factor, members=members), added


def _pivots(residual: Array, smallest: Array, room: int) -> tuple[IntArray, int]:
    """Return the rows of a Cholesky factorisation whose pivots are large enough, and how many rows were tried.

    It ends with the row that takes the last place.
    """
    running, added = residual.copy(), list[int]()
    for t in range(len(running)):
        pivot = float(running[t, t])
        if pivot <= smallest[t]:
            continue
        added.append(t)
        if len(added) == room:
            return np.array(added, dtype=np.int64), t + 1
        column = running[t + 1 :, t]
        running[t + 1 :, t + 1 :] -= np.outer(column, column / pivot)
    return np.array(added, dtype=np.int64), len(running)


def _no_columns(X: Rows) -> Array:
    return np.zeros((n_rows(X), 0))
