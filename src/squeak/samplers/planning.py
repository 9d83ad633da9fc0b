"""What a DISQUEAK run will cost, before it is begun: a small model, calibrated on this machine in seconds.

A leaf of n rows, with at most m atoms, costs

    leaf(n) = start + growth·log₂(n/m) + row·n :

each doubling of the rows raises the ridge about as often (a few factors of size m, O(m³)), and every row is
screened against the dictionary. The price of a row and of a merge are timed for what they are; the other two are
fitted to the time marks of real SQUEAK runs on made rows of the dimension asked for. All are measured with up to
``LARGEST_RUN`` atoms and carried to larger sizes by the exponents seen between half of it and all of it.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from squeak.core import engine
from squeak.core.checks import check_whole
from squeak.core.kernels import RBF
from squeak.core.leverage import WeightedFactor
from squeak.core.rows import check_rows
from squeak.core.screening import Chance, screen
from squeak.core.seeds import RandomState, coins, draw_seed
from squeak.core.types import Array
from squeak.samplers.dictionary import Dictionary
from squeak.samplers.merging import merge
from squeak.samplers.squeak import Squeak
from squeak.trees.tree import Tree

SMALLEST_RUN = 16
"""Runs with fewer atoms cost what this one costs, and may keep none of the few rows that are measured."""

LARGEST_RUN = 1000
"""Atoms of the largest run that a calibration makes itself."""

DOUBLINGS = 7
"""A calibration reads m·2⁷ rows."""

LATE = 16.0
"""The price of a row is taken where a stream is so many times as long as the calibration's."""

SCREENED = 32_768
"""Rows that are screened to learn it."""

BLOCK = 65_536
"""Rows that a leaf holds at once."""

BASE_MEMORY = 120e6
"""Bytes of a worker that has imported squeak and has no work (anonymous memory of a Dask worker, measured)."""

MATRICES = 6.0
"""Square matrices of float64 that are alive at once at the height of a merge, of the order of the united atoms."""


@dataclass(frozen=True)
class Calibration:
    """Seconds of one leaf and of one merge on one core, as functions of rows, atoms and dimension."""

    dim: int
    atoms: int
    start: float
    growth: float
    row: float
    merge: float
    seconds: float
    """What the calibration itself took."""

    def leaf(self, rows: float) -> float:
        """Return the seconds of a leaf of so many rows."""
        if rows <= self.atoms:
            return self.start * rows / self.atoms
        return self.start + self.growth * math.log2(rows / self.atoms) + self.row * rows


@dataclass(frozen=True)
class Prediction:
    """What a run up a tree is expected to take."""

    rows: float
    dim: int
    atoms: int
    workers: int
    leaves: int
    seconds: float
    leaf_seconds: float
    merge_seconds: float
    work_seconds: float
    memory: float
    bytes_moved: float

    @property
    def efficiency(self) -> float:
        """The part of the workers' time that is work."""
        return self.work_seconds / (self.workers * self.seconds) if self.seconds else 1.0


def calibrate(dim: int, atoms: int, random_state: RandomState = 0) -> Calibration:
    """Measure what leaves and merges cost here, on one core.

    Parameters
    ----------
    dim : int
        Columns of the rows.
    atoms : int
        The limit ``max_atoms`` of the run to come.
    random_state : None, int, RandomState or Generator

    Returns
    -------
    Calibration

    References
    ----------
    Thesis, section 3.3.2 (the cost of a tree).

    Examples
    --------
    >>> from squeak.samplers.planning import calibrate
    >>> found = calibrate(dim=3, atoms=50)
    >>> found.leaf(2e6) > found.leaf(1e6) > 0
    True
    """
    _check(dim=dim, atoms=atoms)
    begin = time.perf_counter()
    seed = draw_seed(random_state)
    size = min(max(atoms, SMALLEST_RUN), LARGEST_RUN)
    found = _measured(dim, size, seed)
    if atoms > size:
        half = _measured(dim, size // 2, seed)
        found = tuple(
            large * (atoms / size) ** float(np.clip(math.log2(max(large, 1e-12) / max(small, 1e-12)), 1.0, 3.0))
            for large, small in zip(found, half, strict=True)
        )
    start, growth, row, merging = found
    return Calibration(dim, atoms, start, growth, row, merging, time.perf_counter() - begin)


def _measured(dim: int, atoms: int, seed: int) -> tuple[float, ...]:
    """Return start, growth and row of a leaf and the seconds of a merge, with so many atoms."""
    total = atoms * 2**DOUBLINGS
    rng = np.random.default_rng(seed)
    centres = 3.0 * rng.standard_normal((30, dim))
    rows = centres[rng.integers(0, 30, 2 * total)] + rng.standard_normal((2 * total, dim))
    kernel = RBF(1.5 * math.sqrt(2.0 * dim))
    dictionaries: list[Dictionary] = []
    marks: list[tuple[int, float]] = []
    with engine.serial():
        for half in range(2):
            s = Squeak(kernel=kernel, max_atoms=atoms, random_state=seed + half, source=str(half))
            spent, read = 0.0, 0
            for upto in [atoms * 2**step for step in range(1, DOUBLINGS + 1)]:
                block = rows[half * total + read : half * total + upto]
                begin = time.perf_counter()
                s.partial_fit(block)
                spent += time.perf_counter() - begin
                read = upto
                marks.append((upto, spent))
            dictionaries.append(s.dictionary_)
        merge(*dictionaries, random_state=seed, max_atoms=atoms)
        begin = time.perf_counter()
        merge(*dictionaries, random_state=seed, max_atoms=atoms)
        merging = time.perf_counter() - begin
        row = price_of_a_row(dictionaries[0], rows[:SCREENED])
    return (*fitted_growth(np.array(marks, dtype=np.float64), atoms, row), row, merging)


def price_of_a_row(d: Dictionary, rows: Array, late: float = LATE) -> float:
    """Return the seconds that a row takes late in a stream: to be checked, to get its coin, and to be screened.

    The dictionary of f times as many rows has f times the ridge and the weights: its factor is the same. ``late``
    is f.
    """
    scorer, _ = WeightedFactor.build(d.kernel, d.atoms, late * d.weights, late * d.ridge)
    assert d.oversampling is not None
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        checked = check_rows(rows, d.kernel)
        screen(scorer, checked, coins(0, 0, len(rows)), Chance(d.oversampling, d.copies))
        times.append(time.perf_counter() - begin)
    return sorted(times)[1] / len(rows)


def mean_price(d: Dictionary, rows: Array, n: int) -> float:
    """Return the mean seconds of a row in a stream of n rows, from a dictionary of some of them.

    The later a row, the larger the ridge, and the sooner it is given up; each doubling has a price of its own.
    """
    seen, total = d.n_seen, min(n, d.n_seen) * price_of_a_row(d, rows, 1.0)
    while seen < n:
        upto = min(2 * seen, n)
        total += (upto - seen) * price_of_a_row(d, rows, (seen + upto) / (2.0 * d.n_seen))
        seen = upto
    return total / n


def fitted_growth(marks: Array, atoms: int, row: float) -> tuple[float, float]:
    """Return the non-negative start and growth that come nearest to the time marks, relative to each."""
    from scipy.optimize import nnls

    n, seconds = marks.T
    columns = np.column_stack([np.ones_like(n), np.log2(n / atoms)])
    scale = 1.0 / np.sqrt(seconds)
    found, _ = nnls(columns * scale[:, None], np.maximum(seconds - row * n, 0.0) * scale)
    return float(found[0]), float(found[1])


def plan(
    rows: float,
    dim: int,
    atoms: int,
    workers: int,
    *,
    leaves: int | None = None,
    cores: int | None = None,
    bandwidth: float = 1e8,
    calibration: Calibration | None = None,
    random_state: RandomState = 0,
) -> Prediction:
    """Predict time, memory per worker and bytes moved of a DISQUEAK run on a balanced tree.

    leaves are spread over the workers, ⌈k/W⌉·leaf(n/k) seconds; then the levels of the tree, ⌈merges/W⌉·(merge +
    bytes/bandwidth) each. Reading the rows from a disk is not in it.

    Parameters
    ----------
    rows : float
    dim, atoms, workers : int
        Columns, ``max_atoms``, and processes with a core each.
    leaves : int, optional
        Parts; one for 65,536 rows, 64 at most, but two for every worker, unless given.
    cores : int, optional
        Cores that the workers share where there are fewer of them.
    bandwidth : float
        Bytes a second between two workers.
    calibration : Calibration, optional
        One made before; else :func:`calibrate` runs.

    Returns
    -------
    Prediction

    References
    ----------
    Thesis, section 3.3.2: time of a tree is its height times a merge, work its nodes times a merge.

    Examples
    --------
    >>> from squeak.samplers.planning import Calibration, plan
    >>> known = Calibration(dim=50, atoms=2000, start=8.0, growth=4.0, row=2e-5, merge=10.0, seconds=0.0)
    >>> p = plan(1e9, 50, 2000, 200, calibration=known)
    >>> p.leaves, round(p.seconds), round(p.memory / 1e6)
    (400, 288, 967)
    """
    from squeak.trees.tree import LARGEST_TREE, LEAF_ROWS

    _check(workers=workers, dim=dim, atoms=atoms)
    if not (rows >= 1 and math.isfinite(rows)):
        raise ValueError(f"rows must be a number from 1 on; it is {rows!r}")
    if leaves is None:
        leaves = int(max(1, min(rows // LEAF_ROWS, max(LARGEST_TREE, 2 * workers))))
    _check(leaves=leaves)
    if calibration is None:
        calibration = calibrate(dim, atoms, random_state)
    if (calibration.dim, calibration.atoms) != (dim, atoms):
        raise ValueError(
            f"the calibration is for {calibration.dim} columns and {calibration.atoms} atoms, not {dim} and {atoms}"
        )
    at_once = workers if cores is None else min(workers, cores)
    size = atoms * (8.0 * dim + 40.0)
    one_leaf = calibration.leaf(rows / leaves)
    one_merge = calibration.merge + size / bandwidth
    merging = sum(math.ceil(width / at_once) for width in _levels(leaves)) * one_merge
    merges = len(Tree.balanced(leaves).merges) if leaves > 1 else 0
    leaf_seconds = math.ceil(leaves / at_once) * one_leaf
    block = min(BLOCK, rows) * dim * 8.0
    return Prediction(
        rows=rows,
        dim=dim,
        atoms=atoms,
        workers=workers,
        leaves=leaves,
        seconds=leaf_seconds + merging,
        leaf_seconds=leaf_seconds,
        merge_seconds=merging,
        work_seconds=leaves * one_leaf + merges * calibration.merge,
        memory=BASE_MEMORY + 3.0 * block + MATRICES * 8.0 * (2 * atoms if leaves > 1 else 1.5 * atoms) ** 2,
        bytes_moved=size * (2 * merges + 1),
    )


def _levels(leaves: int) -> list[int]:
    """Return how many merges each level of a balanced tree has."""
    levels = []
    while leaves > 1:
        levels.append(leaves // 2)
        leaves = (leaves + 1) // 2
    return levels


def _check(**counts: int) -> None:
    for name, value in counts.items():
        check_whole(name, value)
