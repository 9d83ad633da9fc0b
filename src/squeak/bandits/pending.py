"""Pulls of arms that are under way or failed, and arms that are not pulled any more."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.bandits.runs import check_indices
from squeak.core.types import BoolArray


class PendingPulls:
    """What a bandit over arms knows of pulls without a reward."""

    n_arms: Any
    active_: BoolArray
    """Which arms may be asked for."""
    _pending: list[int]
    tell: Any

    def forget(self, indices: Any) -> None:
        """Give up pending pulls whose rewards will never come; their arms may be asked for again.

        Parameters
        ----------
        indices : int or array of ints
        """
        left = list(self._pending)
        for arm in check_indices(indices, self.n_arms).tolist():
            if arm not in left:
                raise ValueError(f"arm {arm} is not pending; {sorted(set(self._pending))} are")
            left.remove(arm)
        self._pending = left

    def fail(self, indices: Any) -> None:
        """Tell that experiments failed: their arms are no longer pending, and are never asked for again.

        Parameters
        ----------
        indices : int or array of ints
        """
        arms = check_indices(indices, self.n_arms)
        self.retire(arms)
        self._drop(arms.tolist())

    def retire(self, indices: Any) -> None:
        """Never ask for these arms again; what they told stays.

        Parameters
        ----------
        indices : int or array of ints
        """
        self.active_[check_indices(indices, self.n_arms)] = False

    def _drop(self, arms: list[int]) -> None:
        self._pending = self._pending_without(arms)

    def _pending_without(self, arms: list[int]) -> list[int]:
        left = list(self._pending)
        for arm in arms:
            if arm in left:
                left.remove(arm)
        return left

    def _tell(self, arms: list[int], rewards: list[float]) -> None:
        """Tell the rewards of a run; an arm whose reward is not finite has failed."""
        good = np.isfinite(rewards)
        if good.any():
            self.tell(np.array(arms)[good], np.array(rewards)[good])
        if not good.all():
            self.fail(np.array(arms)[~good])
