"""``squeak fit --dry-run``: what was recognised in the data, what a fit would do, and about what it costs."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from squeak.cli.pages import duration, preprocessing, quantity

WINDOW = 5
"""Classes that are named."""


def in_memory(source: Any, classes: bool, time_budget: float | None) -> str:
    """Return the page of a fit that chooses everything by itself."""
    rows, width = source.n_rows, len(source.feature_names)
    name = "AutoClassifier" if classes else "AutoRegressor"
    held = "" if rows is None else f": {quantity(8.0 * rows * width)} as numbers, and several times that in all"
    limit = (
        "--time-budget ends it earlier" if time_budget is None else f"nothing new is tried after {time_budget:g} s"
    )
    return "\n".join(
        [
            *_recognised(source, classes),
            f"would do   {name}: kernels, metrics, penalties and local experts are tried on rows kept back",
            f"memory     all rows{held}",
            f"time       is not predicted: seconds for a thousand rows, many minutes for a million; {limit}",
            "nothing was learned",
        ]
    )


def in_passes(source: Any, learner: Any, workers: bool) -> str:
    """Return the page of a fit that reads the rows in passes."""
    from squeak.learners.choice import DIRECT_UP_TO

    classes = hasattr(learner, "class_weight")
    given = learner.dictionary
    atoms, kernel = (learner.max_atoms, learner.kernel) if given is None else (len(given), given.kernel)
    sampler = "DISQUEAK on the workers" if workers else "SQUEAK"
    first = f"{sampler}, a dictionary of at most {atoms:,} atoms, in one pass"
    first = first if given is None else f"the dictionary given, {atoms:,} atoms"
    passes = 1 if atoms <= DIRECT_UP_TO or learner.alpha == "auto" else learner.max_iter
    solved = "one pass" if passes == 1 else f"up to {passes} passes"
    lines = [
        *_recognised(source, classes),
        f"would do   {first}; {kernel}",
        f"           {type(learner).__name__} on it, alpha {learner.alpha}, in {solved} more",
        f"memory     about {quantity(_memory(atoms, len(source.feature_names)))}, whatever the number of rows",
        *_time(source, atoms, passes, given is None, workers),
        "nothing was learned",
    ]
    return "\n".join(lines)


def _recognised(source: Any, classes: bool) -> list[str]:
    rows = "not counted yet" if source.n_rows is None else f"{source.n_rows:,}"
    parts = "1 part" if source.n_parts == 1 else f"{source.n_parts:,} parts"
    known = source.preprocessing
    width = len(source.feature_names)
    numbers = "1 number" if width == 1 else f"{width:,} numbers"
    return [
        f"rows       {rows}, in {parts}; {numbers} per row",
        *([f"columns    {len(source.column_names):,}, as they are"] if known is None else preprocessing(known)),
        f"target     {source.target}: {_target(next(iter(source.blocks())).y, classes)}",
    ]


def _target(y: Any, classes: bool) -> str:
    """Return words for the targets of the first block."""
    if not classes:
        return f"numbers from {y.min():.4g} to {y.max():.4g} in the first rows, learned as regression"
    values, counts = np.unique(y.astype(str), return_counts=True)
    order = np.argsort(-counts)[:WINDOW]
    some = ", ".join(f"{values[place]} {counts[place] / len(y):.0%}" for place in order)
    more = f" and {len(values) - WINDOW:,} more" if len(values) > WINDOW else ""
    return f"{len(values):,} classes in the first rows ({some}{more}), learned as classification"


BASE_MEMORY = 240e6
"""Bytes of the process before it learns: the libraries, and what Arrow holds."""

TILE_ROWS = 16_384
"""Rows of kernel values that every core has in memory (fitted to the peaks of fits with 300 and 1,000 atoms)."""


def _memory(atoms: int, width: int) -> float:
    """Return the bytes of a few blocks, of their kernel values, and of square matrices of the atoms."""
    from squeak.data import block_rows

    values = 4 * block_rows(width) * width + 6 * atoms**2 + TILE_ROWS * atoms * (os.cpu_count() or 1)
    return BASE_MEMORY + 8.0 * values


def _time(source: Any, atoms: int, passes: int, learns: bool, workers: bool) -> list[str]:
    """Return what a fit would take here: reading, as measured on the first block, and arithmetic, as reckoned."""
    from squeak.learners.choice import Costs
    from squeak.learners.sampled import FLOP, value_cost

    begin = time.perf_counter()
    block = next(iter(source.blocks()))
    reading = (time.perf_counter() - begin) / len(block.X)
    rows, width = source.n_rows or 1_000_000, len(source.feature_names)
    screening = 1e-9 * rows * atoms * (value_cost(width, False) + 2 * atoms * FLOP) if learns else 0.0
    solving = passes * Costs.of(rows, atoms, width, single=False, budget=0.0).direct
    read, cores = (passes + learns) * rows * reading, os.cpu_count() or 1
    each = "" if source.n_rows is not None else " for every million rows"
    lines = [
        f"time       about {duration(read + (screening + solving) / cores)}{each}, give or take a factor of three:",
        f"           {duration(read)} to read; of a core {duration(screening)} for the dictionary "
        f"and {duration(solving)} to solve",
    ]
    if workers:
        lines.append("           here, without workers; squeak plan predicts a dictionary's run on them")
    return lines
