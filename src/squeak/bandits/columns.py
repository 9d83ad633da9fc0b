"""Kernel columns of the arms that matter, computed once each."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.bandits.posterior import kernel_row
from squeak.core.kernels import block
from squeak.core.rows import take
from squeak.core.types import Array, IntArray, Rows


class Columns:
    """Kernel columns k(x_i, arms) of the arms that were in a dictionary lately, shape (kept, A).

    Arms that have left the dictionary are dropped when more than twice the columns in use are kept.
    """

    def __init__(self, kernel: Any, arms: Rows, diag: Array) -> None:
        self._kernel, self._arms, self._diag = kernel, arms, diag
        self.slots: dict[int, int] = {}
        self.values: Array = np.empty((0, len(diag)))

    def take(self, members: IntArray) -> Array:
        """Return the columns of these arms, (m, A), in a new array."""
        missing = [int(arm) for arm in members if int(arm) not in self.slots]
        if len(self.slots) + len(missing) > len(self.values):
            grown = np.empty((max(64, (len(self.slots) + len(missing)) * 3 // 2), len(self._diag)))
            grown[: len(self.slots)] = self.values[: len(self.slots)]
            self.values = grown
        for arm in missing:
            slot = len(self.slots)
            self.values[slot] = kernel_row(self._kernel, self._arms, self._diag, arm)
            self.slots[arm] = slot
        return self.values[[self.slots[int(arm)] for arm in members]]

    def trim(self, members: IntArray) -> None:
        """Drop the columns of arms outside the dictionary if there are more of them than of those inside."""
        if len(self.slots) <= max(2 * len(members), 64):
            return
        wanted = set(members.tolist())
        kept = [arm for arm in self.slots if arm in wanted]
        self.values[: len(kept)] = self.values[[self.slots[arm] for arm in kept]]
        self.slots = {arm: slot for slot, arm in enumerate(kept)}

    def add(self, arms: Rows, diag: Array, rows: Rows) -> None:
        """Take in more arms: ``arms`` and ``diag`` are all of them, ``rows`` the new ones."""
        self._arms, self._diag = arms, diag
        wider = np.empty((len(self.values), len(diag)))
        used = len(self.slots)
        wider[:used, : self.values.shape[1]] = self.values[:used]
        if used:
            kept = np.fromiter(self.slots, dtype=np.int64)
            wider[:used, self.values.shape[1] :] = block(self._kernel, take(arms, kept), rows)
        self.values = wider
