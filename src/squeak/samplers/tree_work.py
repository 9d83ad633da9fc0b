"""A tree of dictionaries: its leaves and merges, one to go on from, and the root with its rows numbered through."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sklearn.base import clone

from squeak.core.leverage import check_ridge
from squeak.core.rows import join, n_rows, take, width_of
from squeak.core.types import Rows
from squeak.data import Preprocessing
from squeak.samplers.base import Plan
from squeak.samplers.dictionary import Dictionary
from squeak.samplers.merging import merge_and_measure
from squeak.samplers.stream import StreamSampler
from squeak.trees.parts import Part, PartError
from squeak.trees.run import tried


def check_start(
    start: Dictionary, plan: Plan, preprocessing: Preprocessing | None, label: str, width: int | None
) -> None:
    """Refuse to go on from a dictionary that the new one could not be merged with, before any row is read."""
    for name, mine in (("kernel", plan.kernel), ("copies", plan.copies), ("oversampling", plan.oversampling)):
        if getattr(start, name) != mine:
            raise ValueError(f"start was learned with {name} {getattr(start, name)!r}, this is {mine!r}")
    if start.preprocessing != preprocessing:
        raise ValueError("start's rows were preprocessed in another way: squeak.rows(..., preprocessing=...)")
    if width_of(start.atoms) != width:
        raise ValueError(f"start's rows have {width_of(start.atoms)} columns, these {width}")
    if label in [name for name, _ in start.sources]:
        raise ValueError(f"the source {label!r} is in start already: merged data must be disjoint; give source=")


def numbered_through(d: Dictionary, rows: list[int], label: str, preprocessing: Preprocessing | None) -> Dictionary:
    """Return the dictionary with its rows numbered through all leaves, as one source."""
    leaves = np.array([int(name) for name, _ in d.sources])[d.source_numbers]
    begin = np.concatenate([[0], np.cumsum(rows)])
    indices = begin[leaves] + d.indices
    order = np.argsort(indices)
    return replace(
        d,
        atoms=take(d.atoms, order),
        indices=indices[order],
        probabilities=d.probabilities[order],
        counts=d.counts[order],
        sources=((label, d.n_seen),),
        source_numbers=np.zeros(len(d), dtype=np.int64),
        preprocessing=preprocessing,
        record=None,
    )


def run_leaf(
    part: Part, number: int, sampler: StreamSampler | None, plan: Plan, seed: int, retries: int
) -> tuple[Dictionary, float]:
    """Return the dictionary of a part and its effective dimension: a function of its arguments alone."""

    def learn() -> tuple[Dictionary, float]:
        if sampler is None:
            every = _exact(part, number, plan)
            return every, every.effective_dimension()
        fresh: StreamSampler = clone(sampler).set_params(random_state=seed, source=str(number))
        for block in part.blocks():
            fresh.partial_fit(block)
        if fresh.n_seen_ == 0:
            raise PartError("there are no rows")
        return fresh.dictionary_, fresh.effective_dimension_

    found: tuple[Dictionary, float] = tried(part, learn, retries)
    return found


def _exact(part: Part, number: int, plan: Plan) -> Dictionary:
    rows: Rows | None = None
    for block in part.blocks():
        rows = block if rows is None else join(rows, block)
    if rows is None or n_rows(rows) == 0:
        raise PartError("there are no rows")
    n = n_rows(rows)
    return Dictionary(
        kernel=plan.kernel,
        atoms=rows,
        indices=np.arange(n),
        probabilities=np.ones(n),
        counts=np.full(n, plan.copies),
        copies=plan.copies,
        oversampling=plan.oversampling,
        ridge=_ridge_due(plan, plan.ridge, n),
        n_seen=n,
        sources=((str(number), n),),
        eps=plan.eps,
    )


def _ridge_due(plan: Plan, so_far: float, rows: int) -> float:
    """Return the ridge of a node with so many rows; it never falls on the way up."""
    return so_far if plan.schedule is None else max(so_far, check_ridge(plan.schedule(rows)))


def run_merge(children: list[Dictionary], plan: Plan, seed: int) -> tuple[Dictionary, float]:
    """Return the merge of the children and its effective dimension: a function of its arguments alone."""
    ridge = _ridge_due(plan, max(d.ridge for d in children), sum(d.n_seen for d in children))
    return merge_and_measure(children, seed, plan.max_atoms, ridge)


@dataclass(frozen=True)
class DictionaryWork:
    """DISQUEAK: leaves learn dictionaries, merges are DICT-MERGE."""

    sampler: StreamSampler | None
    plan: Plan
    name: str = "Disqueak"

    def leaf(self, part: Part, number: int, seed: int, retries: int) -> tuple[Dictionary, float]:
        """Return the dictionary of a part and its effective dimension."""
        return run_leaf(part, number, self.sampler, self.plan, seed, retries)

    def merge(self, children: list[Dictionary], seed: int) -> tuple[Dictionary, float]:
        """Return the merged dictionary and its effective dimension."""
        return run_merge(children, self.plan, seed)

    def load(self, path: Path) -> Dictionary:
        """Return a kept dictionary."""
        return Dictionary.load(path, kernel=self.plan.kernel)
