"""The space in which an online learner works: the span of atoms chosen by KORS, with coordinates that nest.

KORS never sees a target, so which rows of a block become atoms can be decided before any of them is learned from.
A row's coordinates are the growing features of the atoms: a new atom appends one and leaves the others as they
were, and an atom that lies in the span already (a repeated row) appends none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs

from squeak.core import engine
from squeak.core.kernels import diagonal
from squeak.core.leverage import WeightedFactor
from squeak.core.nystrom import GrowingFeatures
from squeak.core.rows import copy_rows, take
from squeak.core.screening import Chance, decide, entry, screen
from squeak.core.types import Array, Rows

CHUNK = 64

_dot = get_blas_funcs("dot", dtype=np.float64)


@dataclass(frozen=True)
class Space:
    """The span of the atoms, as a value.

    Between calls: ``features`` and ``scorer`` have the same atoms; the scorer holds their weights. Once
    ``max_atoms`` coordinates are there, the space is frozen.

    Source: Thesis, algorithms 8 and 14; the theory page, "Online learning".
    """

    scorer: WeightedFactor
    features: GrowingFeatures
    oversampling: float
    max_atoms: int | None

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
        return cls(scorer, GrowingFeatures.none(kernel, scorer.atoms), oversampling, max_atoms)

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.features.rank

    @property
    def n_atoms(self) -> int:
        """The number of atoms, those without a coordinate among them."""
        return self.scorer.factor.size

    @property
    def frozen(self) -> bool:
        """Whether the limit is reached: coordinates count, for a repeated row may be sampled again."""
        return self.max_atoms is not None and self.size >= self.max_atoms

    def enter(self, X: Rows, uniforms: Array) -> tuple[Space, list[int]]:
        """Return the space after some rows, and the numbers of the rows that added a coordinate, in order.

        Coordinates nest: those before row t are the leading ones of the space returned.
        """
        space, growths = self, list[int]()
        chance = Chance(self.oversampling)
        candidates = screen(self.scorer, X, uniforms, chance)
        for chunk in engine.tiles(len(candidates), CHUNK):
            numbers = candidates[chunk]
            rows = take(X, numbers)
            entered = decide(space.scorer, rows, uniforms[numbers], chance)
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
        scorer = self.scorer
        projected = scorer.factor.inverse @ columns
        level = float(diagonal(scorer.kernel, x)[0]) if self.level is None else self.level
        left = level - _dot(projected, projected) if len(projected) else level  # BLAS refuses an empty vector
        left, p, count = entry(left, level, uniform, scorer, self.oversampling, 1, 1.0)
        if count == 0:
            return self
        weight = np.array([1.0 / p])
        schur = np.array([[left + scorer.ridge / weight[0]]])
        return self._with_atoms(copy_rows(x), weight, projected.reshape(1, -1), schur)[0]

    def _with_atoms(self, rows: Rows, weights: Array, projected: Array, schur: Array) -> tuple[Space, Any]:
        """Return the space with more atoms, and which of them added a coordinate.

        Those that lie in the span add none, and those after the one that reaches the limit are left out.
        ``projected`` and ``schur`` are what :meth:`WeightedFactor.grow` takes.
        """
        news, end = self.features.news(rows, None if self.max_atoms is None else self.max_atoms - self.size)
        scorer = self.scorer.grow(take(rows, slice(0, end)), weights[:end], projected[:end], schur[:end, :end])
        return replace(self, scorer=scorer, features=self.features.grown(scorer.atoms, *news)), news[0]
