"""Values and sums over the tiles of a block, on the threads; the order of a sum does not depend on their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.kernels import block
from squeak.core.rows import n_rows, take
from squeak.core.types import Array, Rows
from squeak.trees.sums import Arrays

TILE = 4096
"""Rows of a tile at most: large, so that the symmetric product is most of the work."""

TILE_BYTES = 32 * 2**20
LANE_BYTES = 192 * 2**20


def tile_rows(m: int) -> int:
    """Return how many rows of m numbers make a tile."""
    return int(np.clip(TILE_BYTES // (8 * max(m, 1)), 256, TILE))


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
    tiles, lanes = engine.tiles(n_rows(X), tile_rows(m)), lanes_for(side)

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

    def fill(tile: slice) -> None:
        out[tile] = block(d.kernel, take(rows, tile), d.atoms) @ coef - shift

    engine.map_ordered(fill, engine.tiles(n_rows(rows), tile_rows(len(d))))
    return out
