"""Kernel values kept in memory between passes, where the caller's budget has room for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from squeak.core import engine
from squeak.core.kernels import Kernel, block
from squeak.core.nystrom import Features
from squeak.core.rows import n_rows, take
from squeak.core.types import Array, Rows
from squeak.learners.data import ArrayTraining
from squeak.learners.tiles import tile_rows

DEFAULT_BUDGET = 512 * 2**20
"""Bytes that kernel values may take where nobody says."""


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


def kept_in_memory(data: Any, features: Features, budget: float | None) -> tuple[Any, Any]:
    """Return data and features for many passes: kernel values in place of rows, if they fit into the budget.

    The values are those that every pass would compute, in float64: results do not change.
    """
    limit = DEFAULT_BUDGET if budget is None else budget
    if not isinstance(data, ArrayTraining) or 8.0 * n_rows(data.X) * len(features.mixing) > limit:
        return data, features
    values = np.empty((n_rows(data.X), len(features.mixing)))

    def fill(tile: slice) -> None:
        values[tile] = block(features.kernel, take(data.X, tile), features.atoms)

    engine.map_ordered(fill, engine.tiles(len(values), tile_rows(len(features.mixing))))
    values.flags.writeable = False  # every pass looks into the one array: a change in place would be an error
    return ArrayTraining(values, data.y, data.weight), GivenFeatures(features.mixing)
