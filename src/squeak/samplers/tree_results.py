"""The two ends of a tree of dictionaries: one to go on from, and the root with its rows numbered through."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from squeak.core.dictionary import Dictionary
from squeak.core.rows import take, width_of
from squeak.core.sources import Preprocessing
from squeak.samplers.base import Plan


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
