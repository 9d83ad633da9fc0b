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
from squeak.core.kernels import against, diagonal
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
    Thesis, algorithms 8 and 14; spec 3.1 and 3.2.
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

    @classmethod
    def empty(cls, kernel: Any, rows: Rows, ridge: float, oversampling: float, max_atoms: int | None) -> Space:
        """Return the space of no atoms, for rows of the kind given."""
        scorer = WeightedFactor.empty(kernel, copy_rows(take(rows, slice(0, 1))), ridge)
        return cls(scorer, GrowingCholesky(), np.zeros(0, dtype=np.int64), oversampling, max_atoms)

    @classmethod
    def of_rows(cls, kernel: Any, rows: Rows, ridge: float) -> Space:
        """Return the frozen span of all the rows given, each with weight 1."""
        space = cls.empty(kernel, rows, ridge, 1.0, n_rows(rows))
        for i in range(n_rows(rows)):
            row = take(rows, slice(i, i + 1))
            projected = space.scorer.project(row)
            schur = diagonal(kernel, row).reshape(1, 1) - projected @ projected.T + ridge
            space = space._with_atom(row, np.ones(1), projected, schur)
        return replace(space, max_atoms=space.size)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("mixing", "columns")}

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

    def enter(self, X: Rows, uniforms: Array) -> list[tuple[int, Space]]:
        """Return, for every row that becomes an atom, its number and the space after it; in order."""
        steps: list[tuple[int, Space]] = []
        space = self
        if space.frozen:
            return steps
        candidates = screen(self.scorer, X, uniforms, oversampling=self.oversampling, copies=1)
        for chunk in engine.tiles(len(candidates), CHUNK):
            numbers = candidates[chunk]
            rows = take(X, numbers)
            entered = decide(space.scorer, rows, uniforms[numbers], oversampling=self.oversampling, copies=1)
            for i, row in enumerate(entered.rows):
                # the leading part of what `decide` found is what it would have found up to this row
                one, before = slice(i, i + 1), slice(0, i)
                inverse = space.scorer.factor.inverse[space.n_atoms - i :, space.n_atoms - i :]
                inner = entered.schur[one, before] @ inverse.T
                projected = np.hstack([entered.projected[one], inner])
                schur = entered.schur[one, one] - inner @ inner.T
                space = space._with_atom(take(rows, entered.rows[one]), entered.weights[one], projected, schur)
                steps.append((int(numbers[row]), space))
                if space.frozen:
                    return steps
        return steps

    def enter_row(self, x: Rows, columns: Array, uniform: float) -> Space:
        """Return the space after one row, whose k(x, atoms) is known: itself, or with one more atom."""
        projected = self.scorer.factor.inverse @ columns
        diag = diagonal(self.scorer.kernel, x)
        left = float(diag[0] - projected @ projected)
        if left < 0:
            left = float(positive_residuals(np.array([left]), diag, self.scorer)[0])
        p = min(1.0, self.oversampling * entry_score(left, self.scorer.ridge))
        if count_from_uniform(uniform, p, 1) == 0:
            return self
        weight = np.array([1.0 / float(keep_probability(p, 1.0, 1))])
        schur = np.array([[left + self.scorer.ridge / weight[0]]])
        return self._with_atom(copy_rows(x), weight, projected.reshape(1, -1), schur)

    def _with_atom(self, row: Rows, weight: Array, projected: Array, schur: Array) -> Space:
        """Return the space with one more atom, and one more coordinate unless the atom lies in the span."""
        diag = float(diagonal(self.scorer.kernel, row)[0])
        columns = self.columns(row) if self.n_atoms else np.zeros((1, 0))
        coordinates = self.factor.project(columns[:, self.members])
        residual = diag - float(np.sum(coordinates**2))
        scorer = self.scorer.grow(row, weight, projected, schur)
        if residual <= IN_SPAN * diag:
            return replace(self, scorer=scorer)
        factor = self.factor.append(coordinates, np.array([[residual]]))
        return replace(self, scorer=scorer, factor=factor, members=np.append(self.members, self.n_atoms))


def _no_columns(X: Rows) -> Array:
    return np.zeros((n_rows(X), 0))
