"""What a run will take, from a short measurement on its own rows: time by stages, memory and passes.

A small part of the rows goes through the very run that is asked for, at three sizes. A pass over n rows takes a +
b·n seconds; a dictionary of m atoms start + growth·log₂(n/m) + row·n, with the mean price of a row of a stream so
long (see :mod:`squeak.samplers.planning`). Reading is timed by itself. Processes that share cores take turns.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from squeak.cli.pages import duration, quantity
from squeak.core import engine
from squeak.core.progress import Job
from squeak.core.rows import n_rows, take

MEASURED, ROWS_OF_AN_ATOM = 16_384, 12
"""Rows that are measured at least, and for every atom."""

SOME = 3
"""Blocks that are read, after the first, to learn what reading takes."""

FEW = 300
"""Rows of a first run, which loads what a command loads."""

BASE_MEMORY, COPIES, SQUARES, SQUARES_OF_EXPERTS = 240e6, 5.0, 3.2, 5.5
"""Of a fit in memory at its height: bytes without any rows, copies of the rows, and matrices of its atoms.

Fitted to the peaks of whole fits of tables with 1,400 to 20,640 rows.
"""

TALK = 1e8
"""Bytes a second between two workers."""

SAMPLE_BYTES = 1 << 20


@dataclass(frozen=True)
class Forecast:
    """What a run will take."""

    stages: dict[str, float]
    rows: int
    counted: bool
    passes: int
    memory: float
    workers: int | None
    measured: float

    @property
    def seconds(self) -> float:
        """The time of the whole run."""
        return sum(self.stages.values())

    def lines(self) -> list[str]:
        """Return the lines of a page."""
        about = "" if self.counted else "about "
        parts = ", ".join(f"{stage} {duration(seconds)}" for stage, seconds in self.stages.items())
        where = "in this process" if self.workers is None else f"on {self.workers:,} workers"
        per = "" if self.workers is None else " for each process"
        return [
            f"time       {duration(self.seconds)} {where}, for {about}{self.rows:,} rows: {parts}",
            *([f"memory     about {quantity(self.memory)}{per}"] if self.memory else []),
            f"passes     {self.passes:,} over the rows",
            f"measured   on some of the rows, in {self.measured:.0f} s",
        ]


def weighed_rows(source: Any) -> int | None:
    """Return the rows of a source as far as that takes no reading: text files are weighed by their first lines."""
    if source.n_rows is not None:
        return int(source.n_rows)
    paths = {source.reader.part_path(part) for part in range(source.n_parts)}
    if not all(isinstance(path, Path) and path.suffix in (".csv", ".tsv", ".jsonl") for path in paths):
        return None
    total = 0.0
    for path in paths:
        with path.open("rb") as file:
            sample = file.read(SAMPLE_BYTES)
        size = path.stat().st_size
        lines = max(1, sample.count(b"\n") + (len(sample) == size and not sample.endswith(b"\n")))
        total += lines * size / len(sample)
        if path.suffix != ".jsonl" and (source.recipe or {}).get("form", {}).get("header") is not False:
            total -= 1.0  # the names of the columns
    return max(1, round(total))


def count_rows(source: Any) -> tuple[int, bool]:
    """Return how many rows a source has, and whether that is exact; what cannot be weighed is read."""
    found = weighed_rows(source)
    if found is not None:
        return found, source.n_rows is not None
    return sum(block.X.shape[0] for block in source.blocks()), True


@dataclass(frozen=True)
class Head:
    """The first rows of a source, and what reading takes for each."""

    X: Any
    y: Any
    reading: float
    ahead: bool = False
    """Whether blocks are read on a thread of its own, while the block before is learned from."""

    @classmethod
    def of(cls, source: Any, rows: int) -> Head:
        """Read so many rows, or all; the first block pays for opening and is read again where there is no other.

        Some blocks more tell what reading takes where a file is read in larger stretches.
        """
        blocks, marks, begin = [], [], time.perf_counter()
        for block in source.blocks():
            blocks.append(block)
            marks.append(time.perf_counter() - begin)
            if len(blocks) > SOME and sum(one.X.shape[0] for one in blocks) >= rows:
                break
        sizes = [one.X.shape[0] for one in blocks]
        if len(blocks) > 1:
            price = (marks[-1] - marks[0]) / sum(sizes[1:])
        else:
            begin, again = time.perf_counter(), source.blocks()
            next(again)
            price = (time.perf_counter() - begin) / sizes[0]
            again.close()  # which waits for the block that is read ahead
        X = np.concatenate([one.X if isinstance(one.X, np.ndarray) else one.X.toarray() for one in blocks])[:rows]
        y = None if blocks[0].y is None else np.concatenate([one.y for one in blocks])[:rows]
        return cls(X, y, price, source.reader.ahead)

    def beside(self, work: float, rows: int) -> float:
        """Return the seconds of some work with the reading of its rows.

        Reading takes a core from the work where the work has threads for all cores, and no time where one is idle.
        """
        reading, threads = self.reading * rows, engine.thread_count()
        if not self.ahead:
            return work + reading
        return max(reading, work if threads < _cores() else work + reading / threads)

    def source(self, rows: int) -> Any:
        """Return the first of the rows as a source."""
        from squeak.data import rows as open_rows

        y = None if self.y is None else self.y[:rows]
        return open_rows(self.X[:rows], target=y)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _imported(first: Callable[[], Any]) -> float:
    """Return the seconds in which a command has loaded everything: this one so far, and what a first run adds."""
    before, times = time.process_time(), []
    for _ in range(2):
        since = time.process_time()
        first()
        times.append(time.process_time() - since)
    return before + max(0.0, times[0] - times[1])


def _sizes(total: int, atoms: int) -> list[int]:
    """Return the numbers of rows that are measured, ascending."""
    most = min(total, max(MEASURED, ROWS_OF_AN_ATOM * atoms))
    return [most // 4, most // 2, most] if most >= 8 * atoms or most < total else [most]


def _line(sizes: list[int], seconds: list[float]) -> tuple[float, float]:
    """Return the seconds that do not depend on the rows, and those for each row; none is negative."""
    if len(sizes) == 1:
        return 0.0, seconds[0] / sizes[0]
    slope = max(0.0, float(np.polyfit(sizes, seconds, 1)[0]))
    first = seconds[-1] - slope * sizes[-1]
    return (first, slope) if first >= 0 else (0.0, seconds[-1] / sizes[-1])


def _grown(sizes: list[int], seconds: list[float], d: Any, X: Any, rows: int) -> float:
    """Return the seconds of a dictionary of so many rows, from those of fewer."""
    from squeak.samplers.planning import Calibration, fitted_growth, mean_price

    atoms = max(2, len(d))
    if len(sizes) == 1 or d.oversampling is None:
        return seconds[-1] * rows / sizes[-1]
    price = mean_price(d, X, rows)
    marks = [(n, s) for n, s in zip(sizes, seconds, strict=True) if n > atoms]
    start, growth = fitted_growth(np.array(marks, dtype=np.float64), atoms, price)
    return Calibration(X.shape[1], atoms, start, growth, price, 0.0, 0.0).leaf(rows)


def _price_of_sums(d: Any, alpha: float, X: Any, rows: int) -> float | None:
    """Return the seconds of a row in the sums of so many, if they are formed in another way than those of few."""
    from squeak.core.nystrom import TriangularFeatures
    from squeak.learners.normal import NormalTerm, leading_directions
    from squeak.learners.tiles import tile_rows

    features = TriangularFeatures(d.kernel, d.atoms)
    leading = leading_directions(features, rows, alpha)
    if leading is None:
        return None
    whole = 2 * engine.thread_count() * tile_rows(len(d))  # tiles that all threads have alike, as in a large block
    X, term, times = take(X, np.arange(whole) % n_rows(X)), NormalTerm(features, leading), []
    for _ in range(5):  # memory that is new at first is dear
        since = time.perf_counter()
        term(X, (np.zeros(whole), None))
        times.append(time.perf_counter() - since)
    return min(times) / whole


def of_fit(source: Any, learner: Any, workers: int | None, memory: float) -> Forecast:
    """Measure a fit in passes on some of its rows, and predict that of all."""
    begin = time.perf_counter()
    rows, exact = count_rows(source)
    given = learner.dictionary
    atoms = learner.max_atoms if given is None else len(given)
    sizes = _sizes(rows, atoms)
    head = Head.of(source, sizes[-1])
    sizes = [min(size, len(head.X)) for size in sizes]
    times: list[dict[str, float]] = []
    mini = clone(learner).set_params(verbose=1)
    if given is not None:
        mini.set_params(dictionary=replace(given, preprocessing=None))
    stages = {"start": _imported(lambda: clone(mini).set_params(verbose=0).fit(head.source(FEW)))}
    for size in sizes[::-1]:
        with Job("", True, shown=False) as job:
            mini.fit(head.source(size))
        times.insert(0, job.times)
        if given is None:  # what is searched for once is known
            mini.set_params(kernel=mini.dictionary_.kernel)
    d = mini.dictionary_
    if "kernel width" in times[-1]:
        stages["kernel width"] = times[-1]["kernel width"]
    passes = [name for name in times[-1] if name.startswith("pass") or name == "solving"]
    if given is None:
        spent = [one.get("dictionary", 0.0) for one in times]
        stages["dictionary"] = head.beside(_grown(sizes, spent, d, head.X, rows), rows)
        if workers is not None:
            stages["dictionary"] = _on_workers(source, head, d, rows, workers)
    if workers is not None:
        stages["start"] += _started(workers)
    for name in passes:
        first, each = _line(sizes, [one.get(name, 0.0) for one in times])
        if mini.solver_ == "direct":
            each = _price_of_sums(d, mini.alpha_, head.X, rows) or each
        if workers is None:
            stages[name] = head.beside(first + each * rows, rows)
        else:  # each part by one worker, that reads it too
            threads, parts = engine.thread_count(), source.n_parts
            turns = math.ceil(parts / min(workers, threads))
            stages[name] = first + (each * threads + head.reading) * rows / parts * turns
    count = len(passes) + (given is None)
    return Forecast(stages, rows, exact, count, memory, workers, time.perf_counter() - begin)


AUTO_ROWS = 10_000
"""Rows with which a fit that chooses everything is measured, a third of all at most: its search uses no more."""


def of_auto(source: Any, learner: Any) -> Forecast:
    """Measure a fit that chooses everything on some of its rows, and predict that of all.

    The search takes a bounded number of rows, the one model so many as its atoms are worth, and the experts all.
    """
    from squeak.learners.blend import atoms_for
    from squeak.learners.boosting import MOST_ROWS
    from squeak.learners.choice import Costs
    from squeak.learners.fold import ROWS_OF_A_SEARCH, WHOLE, folds_of, leaf_of
    from squeak.learners.leaf_passes import enough_rows
    from squeak.learners.tried import BOOSTED

    begin = time.perf_counter()
    rows, exact = count_rows(source)
    head = Head.of(source, min(AUTO_ROWS, max(200, rows // 3)))
    few, width = len(head.X), head.X.shape[1]
    quick = clone(learner).set_params(verbose=0, time_budget=0.01)
    start = _imported(lambda: quick.fit(head.X[:FEW], head.y[:FEW]))
    with Job("", True, shown=False) as job:
        tried = clone(learner).set_params(verbose=0, time_budget=None, folds=1).fit(head.X, head.y).search_
    growing = sum(one["seconds"] for one in tried if one["model"].endswith(BOOSTED))
    searching = sum(one["seconds"] for one in tried if one["stage"] == "search") or 1.0
    more = min(rows, MOST_ROWS) / min(few, MOST_ROWS)

    def one_model(n: int) -> float:
        atoms = atoms_for(n, learner.max_atoms)
        return Costs.of(min(n, enough_rows(atoms)), atoms, width, False, 0.0).direct

    grow = {
        "kernels and metrics": (searching * min(rows, AUTO_ROWS) / min(few, AUTO_ROWS) + growing * more)
        / (searching + growing),
        "one model": one_model(rows) / one_model(few),
        "local experts": rows / few,
    }
    stages = {"start": start, "reading": head.reading * rows}
    stages |= {name: spent * grow[name] for name, spent in job.times.items() if name in grow}
    if "local experts" not in stages and rows > WHOLE * leaf_of(rows, learner.leaf_rows):
        stages["local experts"] = stages.get("kernels and metrics", 0.0) * rows / ROWS_OF_A_SEARCH
    fold, limit = sum(stages.get(name, 0.0) for name in grow), learner.time_budget or math.inf
    folds = min(folds_of(rows, leaf_of(rows, learner.leaf_rows), learner.folds), max(1.0, limit / fold))
    stages |= {name: folds * stages[name] for name in grow if name in stages}
    if fold > limit:  # trees and one model take what they take
        stages["kernels and metrics"] = min(stages["kernels and metrics"], max(limit, growing * more))
        stages.pop("local experts", None)
    return Forecast(stages, rows, exact, 1, memory_of_auto(rows, width, learner), None, time.perf_counter() - begin)


def memory_of_auto(rows: int, width: int, learner: Any) -> float:
    """Return the bytes of a fit that chooses everything: rows, square matrices, and kernel values of one model.

    The matrices are those of the atoms of one model or, where there are local experts, of the rows of a part.
    """
    from squeak.learners.blend import atoms_for
    from squeak.learners.fold import WHOLE, leaf_of
    from squeak.learners.leaf_passes import MOST_BYTES, enough_rows

    max_atoms, leaf_rows = learner.max_atoms, leaf_of(rows, learner.leaf_rows)
    atoms = min(rows, atoms_for(rows, max_atoms))
    squares = SQUARES * atoms**2
    kept = 0 if atoms == rows else min(rows, enough_rows(atoms)) * atoms
    if rows > WHOLE * leaf_rows:
        part = math.ceil(rows / 2 ** math.ceil(math.log2(rows / leaf_rows)))
        squares = max(squares, SQUARES_OF_EXPERTS * min(part, atoms_for(part, max_atoms)) ** 2)
    held = min(8.0 * rows * width, MOST_BYTES)  # more rows are read in passes
    return BASE_MEMORY + COPIES * held + 8.0 * squares + 4.0 * kept


def of_dictionary(source: Any, sampler: Any, workers: int | None, memory: float) -> Forecast:
    """Measure a sampler of a stream on some of its rows, and predict a run over all of them."""
    from squeak.samplers import Squeak

    begin = time.perf_counter()
    rows, exact = count_rows(source)
    sizes = _sizes(rows, sampler.max_atoms if getattr(sampler, "max_atoms", None) else 500)
    head = Head.of(source, sizes[-1])
    sizes = [min(size, len(head.X)) for size in sizes]
    known = {name: value for name, value in sampler.get_params(deep=False).items() if name in Squeak().get_params()}
    mini, spent = Squeak(**known) if workers is not None else clone(sampler), []
    mini.set_params(verbose=0)
    start = _imported(lambda: clone(mini).fit(head.X[:FEW]))
    for size in sizes:
        since = time.perf_counter()
        mini.fit(head.X[:size])
        spent.append(time.perf_counter() - since)
    d = mini.dictionary_
    stages = {"start": start, "dictionary": head.beside(_grown(sizes, spent, d, head.X, rows), rows)}
    if workers is not None:
        stages["start"] += _started(workers)
        stages["dictionary"] = _on_workers(source, head, d, rows, workers, getattr(sampler, "n_leaves", None))
    return Forecast(stages, rows, exact, 1, memory, workers, time.perf_counter() - begin)


def _started(workers: int) -> float:
    """Return the seconds of a cluster of one's own whose workers learn next to nothing, from start to end."""
    from squeak.cli.clusters import Cluster
    from squeak.core.kernels import RBF
    from squeak.samplers import Disqueak

    rows, since = np.random.default_rng(0).standard_normal((100 * workers, 2)), time.perf_counter()
    with Cluster(workers=workers).client():
        Disqueak(RBF(1.0), ridge=10.0, n_leaves=2 * workers, random_state=0).fit(rows)
    return time.perf_counter() - since


def _on_workers(source: Any, head: Head, d: Any, rows: int, workers: int, asked: int | None = None) -> float:
    """Return the seconds of a dictionary on worker processes of this machine, which share its cores."""
    from squeak.samplers import Squeak, merge
    from squeak.samplers.planning import Calibration, fitted_growth, mean_price, plan
    from squeak.trees.tree import LARGEST_TREE

    cores, atoms = engine.thread_count(), max(2, len(d))
    leaves = asked or min(source.n_parts, LARGEST_TREE)
    half, made, marks = len(head.X) // 2, [], []
    with engine.serial():
        for part, X in enumerate((head.X[:half], head.X[half:])):
            stream = Squeak(d.kernel, max_atoms=atoms, random_state=part, source=str(part))
            spent, read = 0.0, 0
            for upto in (half // 4, half // 2, half):
                since = time.perf_counter()
                stream.partial_fit(X[read:upto])
                spent, read = spent + time.perf_counter() - since, upto
                if upto > atoms:
                    marks.append((upto, spent))
            made.append(stream.dictionary_)
        since = time.perf_counter()
        merge(*made, random_state=0, max_atoms=atoms)
        merging = time.perf_counter() - since
        price = mean_price(made[0], head.X, rows // leaves)
    start, growth = fitted_growth(np.array(marks, dtype=np.float64), atoms, price)
    known = Calibration(head.X.shape[1], atoms, start, growth, price + head.reading, merging, 0.0)
    found = plan(
        rows, head.X.shape[1], atoms, workers, leaves=leaves, cores=cores, bandwidth=TALK, calibration=known
    )
    return found.seconds
