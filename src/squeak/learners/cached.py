"""Kernel values kept in memory between passes, as far as the caller's budget goes; the rest is computed each time.

A pass reads each tile of values from memory once and does all that it does with it in the cache; a tile that is
not kept is computed in its place, to the same bits. Tiles are large where all values are to be kept, so that
products are most of the work, and small where they are computed in every pass. Memory that happens to be free
decides neither.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from squeak.core import engine
from squeak.core.kernels import Kernel, against, against32
from squeak.core.memory import free_memory, limit_of_worker
from squeak.core.nystrom import Features
from squeak.core.rows import n_rows, take
from squeak.core.types import Array, Rows
from squeak.learners.data import ArrayTraining, PersistedTraining, SourceTraining
from squeak.learners.tiles import tile_rows
from squeak.trees.sums import Block

TILE_BYTES = 8 * 2**20
"""Bytes of a tile of values that are all kept."""

COMPUTED_BYTES = 2 * 2**20
"""Bytes of a tile where some are computed in every pass."""

MOST_UNASKED = 4 * 2**30
"""Bytes that kernel values take at most where nobody says."""

SHARE_OF_FREE = 0.5
"""The part of the free memory that they take at most where nobody says."""


SHARE_OF_ALL = 0.25
"""The part of the machine's memory that kernel values are reckoned with: what is free now must not decide."""

SHARE_OF_ROWS = 0.25
"""The part of the budget that the rows of a source may take, to be read once and not in every pass."""


def budget_of(asked: float | None) -> float:
    """Return the bytes that kernel values may take: as asked, else half of what is free, 4 GiB at most."""
    return min(MOST_UNASKED, SHARE_OF_FREE * free_memory()) if asked is None else float(asked)


def reckoned_budget(asked: float | None) -> float:
    """Return the bytes of kernel values to reckon with: as asked, else a quarter of all memory, 4 GiB at most."""
    if asked is not None:
        return float(asked)
    try:
        return min(float(MOST_UNASKED), SHARE_OF_ALL * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float(MOST_UNASKED)


class KernelValues:
    """Rows as their kernel values with some atoms: ``values[tile]`` for the slices of ``tile`` rows.

    ``rows`` are the rows themselves, ``kept`` says how many of them have their values in memory.

    Parameters
    ----------
    X : rows
    features : Features
        Whose kernel and atoms they are.
    budget : float
        Bytes that are kept; the tiles beyond are computed whenever they are asked for.
    single : bool
        In float32, for solvers that know what that costs.
    asked : float, optional
        The bytes that the user asked for, by which tiles are cut.
    tile : int, optional
        How many rows make a tile, where the bits of sums over other tiles are to be met.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.core.nystrom import TriangularFeatures
    >>> from squeak.kernels import RBF
    >>> from squeak.learners.cached import KernelValues
    >>> X = np.random.default_rng(0).random((10_000, 2))
    >>> values = KernelValues(X, TriangularFeatures(RBF(1.0), X[:50]), budget=1e6)
    >>> first, last = slice(0, values.tile), slice(8192, 10_000)
    >>> values.tile, values.kept, values[first].shape, bool(np.allclose(values[last], RBF(1.0)(X[last], X[:50])))
    (4096, 0, (4096, 50), True)
    """

    def __init__(
        self,
        X: Rows,
        features: Any,
        budget: float,
        single: bool = False,
        asked: float | None = None,
        tile: int | None = None,
    ) -> None:
        kernel, atoms, m = features.kernel, features.atoms, len(features.mixing)
        self.shape = (n_rows(X), m)
        self.dtype: Any = np.dtype(np.float32 if single else np.float64)
        row = self.dtype.itemsize * m
        all_kept = row * float(self.shape[0]) <= reckoned_budget(asked)
        self.tile = tile or int(np.clip((TILE_BYTES if all_kept else COMPUTED_BYTES) // row, 64, 4096))
        self.rows = X
        self._compute: Callable[..., Any] = against32(kernel, atoms) if single else against(kernel, atoms)
        tiles = engine.tiles(self.shape[0], self.tile)
        count = min(len(tiles), int(budget // (row * self.tile)))
        if row * float(self.shape[0]) <= budget:
            count = len(tiles)
        self.kept = tiles[count - 1].stop if count else 0
        self._values = np.empty((self.kept, m), dtype=self.dtype)
        self._filled = np.zeros(count, dtype=bool)

    @property
    def nbytes(self) -> int:
        """The bytes of the values that are kept."""
        return int(self._values.nbytes)

    def __getitem__(self, tile: slice) -> Any:
        """Return the values of the rows of a tile, not to be written to.

        The first pass computes them and has them in the cache for what it does with them.
        """
        start, stop, _ = tile.indices(self.shape[0])
        if stop > self.kept:
            return self._compute(take(self.rows, tile))
        for number in range(start // self.tile, -(-stop // self.tile)):
            if not self._filled[number]:
                whole = slice(number * self.tile, min((number + 1) * self.tile, self.kept))
                if self.dtype == np.float32:
                    self._compute(take(self.rows, whole), self._values[whole])
                else:
                    self._values[whole] = self._compute(take(self.rows, whole))
                self._filled[number] = True
        values = self._values[tile]
        values.flags.writeable = False  # every pass looks into the one array: a change would be an error
        return values


class _Given(Kernel):
    """The kernel of rows that are kernel values already: k(row, atoms) is the row, and not to be written to."""

    def _block(self, X: Rows, Y: Rows) -> Array:
        return np.asarray(X)


@dataclass(frozen=True)
class GivenFeatures:
    """Features of rows that hold their kernel values with the atoms."""

    mixing: Array

    atoms: ClassVar[Any] = None
    kernel: ClassVar[Any] = _Given()

    @property
    def rank(self) -> int:
        """The number of features."""
        return int(self.mixing.shape[1])


def kept_in_memory(
    data: Any, features: Features, budget: float | None, single: bool = False, values: KernelValues | None = None
) -> tuple[Any, Any]:
    """Return data and features for many passes: kernel values in place of rows in memory.

    In float64 they are those that every pass would compute. ``values`` are those of a fit before on these rows.
    Rows that workers hold become kernel values there, within the same budget for each worker.
    """
    if isinstance(data, PersistedTraining):
        seen = GivenFeatures(features.mixing)
        return data.changed(partial(values_of_blocks, budget=budget), features, seen), seen
    if not isinstance(data, ArrayTraining):
        return data, features
    if values is None:
        values = KernelValues(data.X, features, budget_of(budget), single, budget)
    return replace(data, X=values), GivenFeatures(features.mixing)


_held: weakref.WeakSet[KernelValues] = weakref.WeakSet()
"""The kernel values that this process holds for others, as a worker of a cluster."""


def values_of_blocks(blocks: list[Block], features: Any, budget: float | None) -> list[Block]:
    """Return blocks of rows as their kernel values, computed now, as far as the budget of this process goes.

    Where nobody says, all workers of this machine, a core each, share half of its free memory, and none takes more
    than half of what it may. Tiles are those of rows that are not kept, and so are the bits of sums over them.
    """
    found: list[Block] = []
    with engine.serial():
        for X, pair in blocks:
            taken = sum(values.nbytes for values in list(_held))
            free = SHARE_OF_FREE * (free_memory() + taken) / engine.thread_count()
            unasked = min(float(MOST_UNASKED), free, SHARE_OF_FREE * limit_of_worker())
            allowed = unasked if budget is None else float(budget)
            left = max(0.0, allowed - taken)
            values = KernelValues(X, features, left, tile=tile_rows(len(features.mixing)))
            for tile in engine.tiles(values.kept, values.tile):
                values[tile]
            _held.add(values)
            found.append((values, pair))
    return found


def rows_in_memory(data: SourceTraining, budget: float | None) -> ArrayTraining | None:
    """Return the rows of a source as an array, read once; None where they take more than a part of the budget.

    Rows are few numbers beside their kernel values; on the workers of a cluster they stay where they are.
    """
    if data.client is not None:
        return None
    allowed, blocks = SHARE_OF_ROWS * reckoned_budget(budget), []
    for X, (y, weight) in data.blocks():
        if not isinstance(X, np.ndarray):
            return None
        allowed -= X.nbytes
        if allowed < 0:
            return None
        blocks.append((X, y, weight))
    X, y, weight = zip(*blocks, strict=True)
    return ArrayTraining(
        np.concatenate(X), np.concatenate(y), None if weight[0] is None else np.concatenate(weight)
    )
