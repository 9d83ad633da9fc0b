"""Values and sums over the tiles of a block, on the threads; the order of a sum does not depend on their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.kernels import against
from squeak.core.rows import n_rows, take
from squeak.core.types import Array, Rows
from squeak.trees.sums import Arrays

TILE = 4096
"""Rows of a tile at most: large, so that the symmetric product is most of the work."""

TILE_BYTES = 32 * 2**20
FEW_BYTES = 2 * 2**20
"""Bytes of kernel values that predictions compute at a time."""

LANE_BYTES = 192 * 2**20


def tile_rows(m: int) -> int:
    """Return how many rows of m numbers make a tile."""
    return int(np.clip(TILE_BYTES // (8 * max(m, 1)), 256, TILE))


def few_rows(m: int) -> int:
    """Return how many rows of m numbers stay in the cache."""
    return int(np.clip(FEW_BYTES // (8 * max(m, 1)), 16, 512))


def tiles_of(X: Rows, m: int) -> list[slice]:
    """Return the tiles of some rows that become m numbers each; kept kernel values have tiles of their own."""
    return engine.tiles(n_rows(X), getattr(X, "tile", None) or tile_rows(m))


def lanes_for(m: int) -> int:
    """Return how many sums are kept side by side: by the size alone, so that bits do not depend on threads."""
    return int(np.clip(LANE_BYTES // (8 * max(m, 1) ** 2), 2, 16))


def sum_tiles(
    X: Rows, m: int, side: int, zero: Callable[[], Arrays], add: Callable[[Arrays, slice], None]
) -> Arrays:
    """Return the sum over all tiles of some rows.

    Parameters
    ----------
    X : rows
    m : int
        Numbers that a row becomes, which decides the size of a tile.
    side : int
        The root of how many numbers the sum holds, which decides how many sums are kept side by side.
    zero : function
        Returns new arrays of zeros.
    add : function
        Adds a tile's terms to such arrays, in place.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.learners.tiles import sum_tiles
    >>> X = np.ones((10_000, 2))
    >>> def add(total, tile):
    ...     total[0][:] += X[tile].sum(axis=0)
    >>> sum_tiles(X, 2, 2, lambda: (np.zeros(2),), add)
    (array([10000., 10000.]),)
    """
    tiles, lanes = tiles_of(X, m), lanes_for(side)

    def lane(number: int) -> Arrays:
        total = zero()
        for tile in tiles[number::lanes]:
            add(total, tile)
        return total

    found = engine.map_ordered(lane, range(min(lanes, len(tiles))))
    for other in found[1:]:
        for kept, array in zip(found[0], other, strict=True):
            kept += array
    return found[0]


def power_of_two(values: Array) -> Array:
    """Return a power of two for every column, in units of which squares neither overflow nor vanish."""
    largest = np.abs(values).max(axis=0, initial=0.0)
    return np.asarray(np.ldexp(1.0, np.clip(np.frexp(largest)[1], -1000, 1000)))


def in_precision_of(values: Any, right: Array) -> Array:
    """Return ``values @ right`` in float64, multiplied in the values' own precision, which may be float32.

    The columns of the right side are taken in units of a power of two, so that no number is too large for float32.
    """
    if values.dtype == np.float64:
        return np.asarray(values @ right)
    unit = power_of_two(right)
    return np.asarray((values @ (right / unit).astype(values.dtype)) * unit)


def atom_values(rows: Rows, d: Any, coef: Array, shift: Any = 0.0) -> Array:
    """Return k(rows, atoms)·coef − shift, shape (len(rows), columns of coef).

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import Squeak
    >>> from squeak.learners.tiles import atom_values
    >>> X = np.random.default_rng(0).random((300, 2))
    >>> d = Squeak(ridge=1.0, random_state=0).fit(X).dictionary_
    >>> bool(np.allclose(atom_values(X, d, np.eye(len(d))), d.kernel(X, d.atoms)))
    True
    """
    out = np.empty((n_rows(rows), coef.shape[1]))
    values_of, few = against(d.kernel, d.atoms), few_rows(len(d))

    def fill(tile: slice) -> None:
        for start in range(tile.start, tile.stop, few):  # stay in the cache, and in memory that is used again
            some = slice(start, min(start + few, tile.stop))
            out[some] = values_of(take(rows, some)) @ coef - shift

    engine.map_ordered(fill, engine.tiles(n_rows(rows), tile_rows(len(d))))
    return out
