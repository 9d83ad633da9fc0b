"""The units of rewards: mean and spread of those told so far, for the prior mean, the kernel and the noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core.kernels import Scaled

FIRST = 8
"""So many arms are drawn at random before rewards have units of their own, which doubling numbers of them renew."""


class InUnits:
    """A bandit whose prior can be put into the units of its rewards."""

    kernel_: Any
    noise_: float
    prior_mean_: float
    unit_: float
    """The spread of the rewards when units were last taken; 1 before."""
    _largest: float
    _rewards: list[float]

    def _take_units(self) -> None:
        """Put kernel, noise and prior mean into the units of the rewards told so far."""
        spread = float(np.std(self._rewards)) or self.unit_
        ratio = spread / self.unit_
        inner = self.kernel_
        times = (inner.kernel, inner.factor * ratio**2) if isinstance(inner, Scaled) else (inner, ratio**2)
        self.kernel_, self.noise_ = times[1] * times[0], self.noise_ * ratio
        self._largest *= ratio**2
        self.prior_mean_, self.unit_ = float(np.mean(self._rewards)), spread

    def in_units_of_rewards(self: Any) -> Any:
        """Return the bandit anew, its prior in the units of the rewards told so far.

        The prior mean is their mean; kernel and noise are multiplied to their spread. The new bandit has the same
        seed, is told the same rewards, has the same arms retired, and has nothing pending.

        Returns
        -------
        Bandit
            Of the same class.
        """
        spread, mean = float(self.rewards_.std()) or 1.0, float(self.rewards_.mean())
        given = (
            self._parameters()
            | {"scale": None, "noise": spread * self.noise_, "prior_mean": mean}
            | self._options()
        )
        made = type(self)(self.arms_, spread**2 * self.kernel_, random_state=self._seed, **given)
        made.tell(self.pulls_, self.rewards_)
        made.active_ = self.active_.copy()
        return made
