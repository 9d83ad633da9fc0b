"""What a stream remembers between two blocks: one value, replaced whole, and the table of its parts in a file."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.advice import unlike_rows
from squeak.core.cholesky import GrowingCholesky
from squeak.core.kernels.base import diagonal
from squeak.core.leverage import WeightedFactor
from squeak.core.rows import label_of, n_rows, take, width_of
from squeak.core.saved import KernelPiece, Layout, NestedPiece, Parts, RowsPiece, put_together, take_apart
from squeak.core.screening import MANY as MANY_ATOMS
from squeak.core.seeds import FADE, generator_at
from squeak.core.state import BELOW_ONE, LEAST, checked, number, numbers, parts, seed, whole, wholes
from squeak.core.types import Array, IntArray, Rows
from squeak.data import Preprocessing
from squeak.samplers.base import Plan
from squeak.samplers.dictionary import Dictionary, faded
from squeak.samplers.record import Record
from squeak.samplers.shrinking import shrink

CHUNK, LARGEST_CHUNK = 64, 256
"""Rows decided together, and with many atoms, where larger products are faster; a matter of speed only."""

FADES = 8
"""So often in a half-life atoms are thinned by age."""

GUARD_ROWS = 10_000
EARLY_GUARD_ROWS, MANY = 2_000, 10
"""So early, and where more than one row in so many was kept, rows are looked at for any likeness at all."""


@dataclass(frozen=True)
class State:
    """All that a stream remembers, replaced whole: an interrupt leaves the old one or the new one.

    Between calls: ``scorer`` holds the atoms in the factor's order, and the three arrays follow it.
    """

    plan: Plan
    seed: int
    scorer: WeightedFactor
    indices: IntArray
    probabilities: Array
    counts: IntArray
    n_seen: int
    head: Rows
    shrink_at: int | None
    """The size at which the dictionary is shrunk next; None for a sampler that never shrinks."""
    preprocessing: Preprocessing | None = None

    def fading(self, order: IntArray) -> Array | None:
        """Return how much the rows of atoms still count, in an order; None where rows do not fade."""
        half_life = self.plan.half_life
        return None if half_life is None else faded(self.indices[order], self.n_seen, half_life)

    def rows_to_fade(self) -> int:
        """Return after how many rows atoms are thinned by age next; never where rows do not fade."""
        if self.plan.half_life is None:
            return sys.maxsize
        spell = max(1, round(self.plan.half_life / FADES))
        return spell - self.n_seen % spell

    def faded(self) -> State:
        """Return the state with atoms thinned by what their rows still count, their weights faded."""
        if not self.size:
            return self
        return self.thinned(generator_at(self.seed, FADE, self.n_seen), self.scorer.ridge)

    def thinned(self, rng: np.random.Generator, ridge: float, **options: Any) -> State:
        """Return the state with atoms scored again and thinned; ``options`` as those of :func:`shrink`."""
        plan, order = self.plan, np.argsort(self.indices)  # not the factor's order, which rounding may turn
        with engine.single_blas():
            left = shrink(
                plan.kernel,
                take(self.scorer.atoms, order),
                self.probabilities[order],
                self.counts[order],
                ridge=ridge,
                oversampling=plan.oversampling,
                copies=plan.copies,
                factor=plan.shrink,
                rng=rng,
                fading=self.fading(order),
                **options,
            )
        kept, p, counts = order[left.kept], left.probabilities, left.counts
        return replace(self, scorer=left.scorer, indices=self.indices[kept], probabilities=p, counts=counts)

    @property
    def size(self) -> int:
        """The number of atoms."""
        return int(self.indices.size)

    def rows_to_shrink(self) -> int:
        """Return about how many rows will come before the next shrink, if atoms enter at the rate so far."""
        if self.shrink_at is None or not self.size:
            return self.n_seen
        return (self.shrink_at - self.size) * self.n_seen // self.size

    def rows_together(self) -> int:
        """Return how many rows are decided together: with many atoms as many as may enter before a shrink."""
        if self.size <= MANY_ATOMS:
            return CHUNK
        left = LARGEST_CHUNK if self.shrink_at is None else self.shrink_at - self.size
        return min(max(CHUNK, left), LARGEST_CHUNK)

    def facts(self) -> dict[str, float]:
        """Return what the history records of a state."""
        return {
            "rows": self.n_seen,
            "atoms": self.size,
            "effective_dimension": self.scorer.effective_dimension(),
            "ridge": self.scorer.ridge,
        }

    def guard(self) -> None:
        """Stop where rows hardly resemble each other, before the dictionary eats the memory."""
        if self.plan.max_atoms is None and self.n_seen >= GUARD_ROWS and 2 * self.size > self.n_seen:
            raise self._unlike()

    def guard_early(self, effective_dimension: float) -> None:
        """Stop sooner where the kernel matrix is nearly diagonal; a limit or a growing ridge may yet cure it.

        The effective dimension is then Σ κ/(κ + ridge) over the kernel's diagonal, as large as it can be, and
        its estimate from a sample a few percent below.
        """
        cured = self.plan.max_atoms is not None or self.plan.schedule is not None
        if cured or self.n_seen < EARLY_GUARD_ROWS or MANY * self.size <= self.n_seen:
            return
        own = diagonal(self.plan.kernel, self.scorer.atoms)
        if effective_dimension > 0.85 * self.n_seen * float((own / (own + self.scorer.ridge)).mean()):
            raise self._unlike()

    def _unlike(self) -> ValueError:
        return unlike_rows(self.size, self.n_seen, self.plan.kernel, self.scorer.ridge)

    def dictionary(self, source: str | None, record: Record) -> Dictionary:
        """Return the dictionary of the rows seen, under the name of a source or of its first row."""
        if self.size == 0:
            raise ValueError(
                f"none of the {self.n_seen:,} rows was kept: their scores times oversampling "
                f"{self.plan.oversampling:g} are too small; raise oversampling or max_atoms, or lower the ridge"
            )
        order = np.argsort(self.indices)
        label = label_of(self.head) if source is None else str(source)
        return Dictionary(
            kernel=self.plan.kernel,
            atoms=take(self.scorer.atoms, order),
            indices=self.indices[order],
            probabilities=self.probabilities[order],
            counts=self.counts[order],
            copies=self.plan.copies,
            oversampling=self.plan.oversampling,
            ridge=self.scorer.ridge,
            n_seen=self.n_seen,
            sources=((label, self.n_seen),),
            eps=self.plan.eps,
            preprocessing=self.preprocessing,
            record=record,
            half_life=self.plan.half_life,
        )

    def to_parts(self) -> Parts:
        """Return the arrays and the rest as JSON data."""
        own = {name: getattr(self.scorer, name) for name in ("atoms", "weights", "ridge")}
        values = {**vars(self), **own, "factor": self.scorer.factor.inverse, "kernel": self.plan.kernel}
        arrays, content = take_apart(SimpleNamespace(**values), STATE)
        return arrays, {**content, "plan": parts(PLAN, vars(self.plan))[1]}

    @classmethod
    def from_parts(cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> State:
        """Return the state that :meth:`to_parts` took apart, or raise what does not fit."""
        found = put_together(STATE, arrays, content, kernel if content["kernel"] is None else None)
        resolved, atoms, head = (found.pop(name) for name in ("kernel", "atoms", "head"))
        plan = Plan(resolved, **checked(PLAN, {}, content["plan"]))
        if np.any(found["counts"] > plan.copies):
            raise ValueError("'counts' exceed the copies")
        indices = found["indices"]
        if n_rows(head) != 1 or width_of(head) != width_of(atoms) or np.any(indices >= found["n_seen"]):
            raise ValueError("its arrays do not fit each other")
        if len(np.unique(indices)) != n_rows(atoms):
            raise ValueError("two atoms are the same row")
        found = {name: np.array(part) if isinstance(part, np.ndarray) else part for name, part in found.items()}
        weights, ridge, factor = (found.pop(name) for name in ("weights", "ridge", "factor"))
        scorer = WeightedFactor(resolved, atoms, weights, ridge, GrowingCholesky(factor))
        return cls(plan, scorer=scorer, head=head, **found)


PLAN = {
    "ridge": number(low=LEAST),
    "oversampling": number(low=LEAST),
    "copies": whole(low=1),
    "eps": number(low=0.0, high=BELOW_ONE),
    "max_atoms": whole(low=1, optional=True),
    "half_life": number(low=LEAST, optional=True),
}
STATE: Layout = {
    "head": RowsPiece("head_"),
    "atoms": RowsPiece(size="m"),
    "kernel": KernelPiece("head"),
    "preprocessing": NestedPiece(Preprocessing, optional=True),
    "seed": seed(),
    "ridge": number(low=LEAST),
    "n_seen": whole(low=1),
    "shrink_at": whole(low=1, optional=True),
    "indices": wholes("m"),
    "probabilities": numbers("m", low=LEAST, high=1.0),
    "counts": wholes("m", low=1),
    "weights": numbers("m", low=LEAST),
    "factor": numbers("m", "m"),
}
HISTORY = {"rows": whole(), "atoms": whole(), "effective_dimension": number(), "ridge": number()}
