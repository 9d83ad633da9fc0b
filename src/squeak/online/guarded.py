"""Two Newton heads side by side, one for a steady stream and one for a drifting one; the better one speaks.

With the curvature of each step, A grows as fast as the rows come: best when rows are exchangeable, slow to
forget. With the worst case's curvature A grows with the errors only, so a learner that is rarely wrong keeps
taking large steps and follows a target that moves. Which one fits is seen from their recent losses.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from squeak.core.saved import Layout
from squeak.core.state import number
from squeak.core.types import Array
from squeak.online.newton import NewtonHead, StepRule
from squeak.online.stored import Stored

MEMORY = 100.0
"""Rounds that the comparison of the two looks back on."""


class GuardedHead(Stored):
    """An adaptive and a worst-case head; each round the one with the smaller discounted loss so far predicts.

    Both learn from every row. The discount is 1 − 1/100: the choice follows a change within some hundred rows.

    Parameters
    ----------
    rule : StepRule
        Its curvature is replaced by each head's own.
    alpha : float
    restarts : bool
    """

    _state: ClassVar[Layout] = {"lead": number()}
    _inner: ClassVar[tuple[str, str]] = ("heads", "{}_")

    def __init__(self, rule: StepRule, alpha: float, *, restarts: bool) -> None:
        bound = None if rule.grows else rule.bound
        self.heads = [
            NewtonHead(StepRule(rule.loss, bound, curvature, rule.step), alpha, restarts=restarts)
            for curvature in ("adaptive", "worst")
        ]
        self.lead = 0.0
        """The discounted sum of the adaptive head's losses less the other's."""

    @property
    def rule(self) -> StepRule:
        """The rule of the head that speaks."""
        return self._speaker.rule

    @property
    def _speaker(self) -> NewtonHead:
        return self.heads[1 if self.lead > 0.0 else 0]

    @property
    def gain(self) -> float:
        """Σ gᵀA⁻¹g of the head that speaks."""
        return self._speaker.gain

    def copy(self) -> GuardedHead:
        """Return a pair of its own in the same state."""
        pair = GuardedHead.__new__(GuardedHead)
        pair.heads, pair.lead = [head.copy() for head in self.heads], self.lead
        return pair

    def extend(self, size: int) -> None:
        """Go on in a space of ``size`` coordinates."""
        for head in self.heads:
            head.extend(size)

    def scores(self, features: Array) -> Array:
        """Return the clipped predictions of the head that speaks."""
        return self._speaker.scores(features)

    def learn_row(self, phi: Array, y: float) -> float:
        """Predict one row, then learn from its target; returns the prediction."""
        chosen = 1 if self.lead > 0.0 else 0
        said = [head.learn_row(phi, y) for head in self.heads]
        loss = self.heads[0].rule.loss
        gap = float(loss.value(y, said[0]) - loss.value(y, said[1]))
        self.lead = (1.0 - 1.0 / MEMORY) * self.lead + gap
        return said[chosen]

    def learn_block(self, features: Array, y: Array) -> Array:
        """Predict and learn from some rows, one after the other; returns the predictions, shape (n,)."""
        said = [head.learn_block(features, y) for head in self.heads]
        loss = self.heads[0].rule.loss
        gaps = loss.value(y, said[0]) - loss.value(y, said[1])
        second = np.empty(len(y), dtype=bool)
        for i, gap in enumerate(gaps.tolist()):
            second[i] = self.lead > 0.0
            self.lead = (1.0 - 1.0 / MEMORY) * self.lead + gap
        return np.where(second, said[1], said[0])
