"""``squeak fit --dry-run``: what was recognised in the data, what a fit would do, and about what it costs."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from squeak.cli.pages import duration, preprocessing, quantity
from squeak.core.progress import Job

WINDOW = 5
"""Classes that are named."""


def in_memory(source: Any, learner: Any, *, measure: bool = False) -> str:
    """Return the page of a fit that chooses everything by itself; ``measure``: with times that are measured."""
    from squeak.cli.forecast import memory_of_auto, of_auto, weighed_rows

    name, time_budget = type(learner).__name__, learner.time_budget
    classes = name == "AutoClassifier"
    rows, width = weighed_rows(source), len(source.feature_names)
    unknown = f"all rows are held in memory, with {8 * width:,} bytes each"
    held = unknown if rows is None else f"about {quantity(memory_of_auto(rows, width, learner))}"
    limit = "--time-budget limits the search" if time_budget is None else f"the search ends after {time_budget:g} s"
    lines = [
        *_recognised(source, classes),
        f"would do   {name}: kernels, metrics, penalties and local experts are compared on held-out rows",
    ]
    if measure:
        lines += of_auto(source, learner).lines()
    else:
        lines += [
            f"memory     {held}",
            f"time       seconds for a thousand rows, many minutes for a million; {limit}",
            "           (squeak plan fit measures some of the rows and predicts it)",
        ]
    return _page(lines)


def in_passes(source: Any, learner: Any, workers: int | None, *, measure: bool = False) -> str:
    """Return the page of a fit that reads the rows in passes; ``measure``: with times that are measured."""
    from squeak.learners.choice import DIRECT_UP_TO

    classes = hasattr(learner, "class_weight")
    given = learner.dictionary
    atoms, kernel = (learner.max_atoms, learner.kernel) if given is None else (len(given), given.kernel)
    sampler = "SQUEAK" if workers is None else "DISQUEAK on the workers"
    first = f"{sampler}, a dictionary of at most {atoms:,} atoms, in one pass"
    first = first if given is None else f"the dictionary given, {atoms:,} atoms"
    memory = _memory(atoms, len(source.feature_names))
    passes = 1 if atoms <= DIRECT_UP_TO or learner.alpha == "auto" else learner.max_iter
    solved = "one pass" if passes == 1 else f"up to {passes} passes"
    lines = [
        *_recognised(source, classes),
        f"would do   {first}; {kernel}",
        f"           {type(learner).__name__} on it, alpha {learner.alpha}, in {solved} more",
    ]
    if measure:
        from squeak.cli.forecast import of_fit

        return _page(lines, of_fit(source, learner, workers, memory).lines())
    return _page(lines, _guess(memory, _time(source, atoms, passes, given is None, workers is not None)))


def a_dictionary(source: Any, sampler: Any, workers: int | None, *, measure: bool) -> str:
    """Return the page of a dictionary that is learned in one pass."""
    from squeak.cli.forecast import of_dictionary

    atoms = getattr(sampler, "max_atoms", None)
    memory = _memory(atoms or 1000, len(source.feature_names))
    limit = f"at most {atoms:,} atoms" if atoms else f"the atoms that ridge {sampler.ridge:g} asks for"
    lines = [
        *_recognised(source, False),
        f"would do   {type(sampler).__name__}, {limit}, in one pass; {sampler.kernel}",
    ]
    if measure:
        return _page(lines, of_dictionary(source, sampler, workers, memory).lines())
    return _page(lines, _guess(memory, _time(source, atoms or 1000, 0, True, workers is not None)))


def a_stream(source: Any, model: Any) -> str:
    """Return the page of a pass of an online learner over a file, with its measured time; the learner changes."""
    from squeak.cli.forecast_answers import of_stream

    classes = hasattr(model, "decision_function")
    lines = [*_recognised(source, classes), f"would do   {type(model).__name__}, in one pass; {model.kernel}"]
    return _page(lines, of_stream(source, model).lines())


def _guess(memory: float, time: list[str]) -> list[str]:
    return [f"memory     about {quantity(memory)}, whatever the number of rows", *time]


def _page(lines: list[str], costs: list[str] | None = None) -> str:
    return "\n".join([*lines, *(costs or []), "nothing was learned"])


def _recognised(source: Any, classes: bool) -> list[str]:
    from squeak.cli.forecast import weighed_rows

    about = weighed_rows(source)
    rows = "not counted yet" if about is None else f"{'' if source.n_rows is not None else 'about '}{about:,}"
    parts = "1 part" if source.n_parts == 1 else f"{source.n_parts:,} parts"
    known = source.preprocessing
    width = len(source.feature_names)
    numbers = "1 number" if width == 1 else f"{width:,} numbers"
    return [
        f"rows       {rows}, in {parts}; {numbers} per row",
        *([f"columns    {len(source.column_names):,}, as they are"] if known is None else preprocessing(known)),
        *(
            []
            if source.target is None
            else [f"target     {source.target}: {_target(next(iter(source.blocks())).y, classes)}"]
        ),
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


def expected_stages(source: Any, learner: Any) -> dict[str, float]:
    """Return the stages of a fit in passes with about the seconds of each; none where the rows are not counted."""
    from squeak.cli.forecast import weighed_rows
    from squeak.learners.choice import Costs
    from squeak.learners.sampled import FLOP, value_cost
    from squeak.learners.tuning import SEARCH_ATOMS, SEARCH_ROWS, WIDTHS, wants_search

    Job.current().rows = rows = weighed_rows(source)
    width, cores = len(source.feature_names), os.cpu_count() or 1
    if rows is None:
        return {}
    given = learner.dictionary
    atoms = learner.max_atoms if given is None else len(given)
    value = 1e-9 * value_cost(width, False)
    found: dict[str, float] = {"reading": 1.0}
    if given is None and wants_search(learner.kernel):
        trial = min(rows, SEARCH_ROWS) * SEARCH_ATOMS * (2 * value + 6e-9 * SEARCH_ATOMS * FLOP)
        found["kernel width"] = (len(WIDTHS) + 2) * trial / cores
    if given is None:
        found["dictionary"] = rows * atoms * (value + 2e-9 * atoms * FLOP) / cores
    return found | {"pass 2": Costs.of(rows, atoms, width, single=False, budget=0.0).direct / cores}


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
