"""A detector of drift: e-processes over the losses of a stream, whose false alarms are bounded for ever.

Losses l_t lie in [0, 1]. Of a steady stream their mean, given all before, is always the same number μ, which nobody
knows. For q in (0, 1) the product of (q/μ)^l·((1 − q)/(1 − μ))^(1 − l) over rounds has an expectation of 1 at most,
for the factor is convex in l. So has its mean over q under the density 1/(π√(q(1 − q))): with n rounds and k = Σ l

    W = B(k + ½, n − k + ½)/π · μ^(−k)·(1 − μ)^(−(n − k)).

For a cut of the stream in two, the product of the two W starts as 1 and is a supermartingale from the cut on, so
that it ever reaches 1/δ with a probability of δ at most (Ville's inequality). As μ is unknown, take the least
product over all μ, which is that at the mean of all rounds:

    ln E = ln B(k₁ + ½, n₁ − k₁ + ½) + ln B(k₂ + ½, n₂ − k₂ + ½) − 2 ln π + n·H(k/n),

with the entropy H(p) = −p ln p − (1 − p) ln(1 − p).

The j-th possible cut raises an alarm where ln E ≥ ln(j(j + 1)/rate) and the losses after it are the larger ones. As
Σ 1/(j(j + 1)) = 1, a steady stream ever raises an alarm with a probability of ``rate`` at most. Where the learner
begins anew (:meth:`LossWatch.restart`), the count does as well: with k restarts it is (k + 1)·``rate``.

Cuts are tried after every 32 rounds, at the ends of cells of 32 rounds that are merged as they grow old: four of
each power of two stay, as in ADWIN, so that memory and time grow with the logarithm of the rounds.

Source: Ville (1939); the mixture is that of Krichevsky and Trofimov (1981); the cells are those of Bifet and
Gavaldà (2007), Learning from time-changing data with adaptive windowing. Shekhar and Ramdas (2023), Sequential
changepoint detection via backward confidence sequences, has the general case.
"""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar

import numpy as np
from scipy.special import betaln, xlogy

from squeak.core.saved import Layout
from squeak.core.state import HUGE, number, numbers, whole, wholes
from squeak.core.types import Array
from squeak.online.stored import Stored

CELL = 32
"""Rounds between two looks, and between two possible cuts."""

KEPT = 4
"""Cells of one size at most."""


def evidence(n_before: Any, k_before: Any, n_after: Any, k_after: Any) -> Array:
    """Return ln E of cuts: rounds and summed losses before and after each; see the module."""
    n, k = n_before + n_after, k_before + k_after
    before = betaln(k_before + 0.5, n_before - k_before + 0.5)
    after = betaln(k_after + 0.5, n_after - k_after + 0.5)
    entropy = xlogy(n, n) - xlogy(k, k) - xlogy(n - k, n - k)
    return np.asarray(before + after - 2.0 * np.log(np.pi) + entropy)


class LossWatch(Stored):
    """Watches the losses of a learner; see the module.

    Between calls ``alarm`` is None, or says what the last rows raised. ``rate``: the probability of a false alarm.
    ``labels``: whether targets are ±1: the loss is then 1 where the label is wrong. Otherwise it is |e|/(|e| + m)
    of the error e, with the median m of the first 32 absolute errors, which are not counted. ``bound``: that of
    targets and predictions, where it is known.
    """

    _state: ClassVar[Layout] = {
        "cells": wholes("cells", low=1),
        "sums": numbers("cells", low=0.0),
        "rounds": whole(high=CELL - 1),
        "open": number(low=0.0, high=CELL),
        "first": numbers("first", low=0.0, high=HUGE),
        "unit": number(low=0.0, high=HUGE),
    }

    def __init__(self, rate: float, *, labels: bool, bound: float | None = None) -> None:
        self.rate, self.labels, self.bound = rate, labels, 1.0 if labels else bound
        self.alarm: dict[str, Any] | None = None
        self.restart()

    def restart(self) -> None:
        """Forget all losses."""
        self.cells, self.sums = np.zeros(0, dtype=np.int64), np.zeros(0)
        self.rounds, self.open = 0, 0.0
        self.first, self.unit = np.zeros(0), 0.0

    def copy(self) -> LossWatch:
        """Return one of its own in the same state; arrays are shared, for none is changed in place."""
        return copy(self)

    def see(self, said: Array, targets: Array) -> int:
        """Take note of predictions and targets, shape (n, outputs), up to an alarm; returns how many that are."""
        self.alarm, at, n = None, 0, len(said)
        if not self.labels:
            at = self._calibrate(np.abs(said - targets).max(axis=1))
        losses = self._losses(said[at:], targets[at:]).tolist()
        while at < n:
            stop = min(n, at + CELL - self.rounds)
            some = losses[at - n : stop - n or None]
            self.open += float(sum(some))
            self.rounds += len(some)
            at = stop
            if self.rounds == CELL and self._close():
                return at
        return n

    def see_row(self, said: list[float], targets: list[float]) -> None:
        """Take note of the predictions and targets of one row."""
        self.alarm = None
        if self.labels:
            wrong = _label(said) != _label(targets)
            self.open += float(wrong)
        elif len(self.first) < CELL:
            self.see(np.array([said]), np.array([targets]))
            return
        else:
            error = min(max(abs(z - y) for z, y in zip(said, targets, strict=True)), HUGE)
            self.open += error / max(error + self.unit, 1.0 / HUGE)
        self.rounds += 1
        if self.rounds == CELL:
            self._close()

    def _calibrate(self, errors: Array) -> int:
        """Learn the unit of errors from the first of them; returns how many were taken."""
        taken = min(CELL - len(self.first), len(errors))
        if taken > 0:
            self.first = np.concatenate([self.first, np.minimum(errors[:taken], HUGE)])
            self.unit = float(np.median(self.first))
        return max(taken, 0)

    def _losses(self, said: Array, targets: Array) -> Array:
        if self.labels:
            if said.shape[1] == 1:
                return np.asarray(((said[:, 0] >= 0) != (targets[:, 0] > 0)).astype(float))
            return np.asarray((said.argmax(axis=1) != targets.argmax(axis=1)).astype(float))
        errors = np.minimum(np.abs(said - targets).max(axis=1, initial=0.0), HUGE)
        return np.asarray(errors / np.maximum(errors + self.unit, 1.0 / HUGE))

    def _close(self) -> bool:
        """End a cell and try all cuts; tells whether there is an alarm."""
        self.cells, self.sums = np.append(self.cells, 1), np.append(self.sums, self.open)
        self.rounds, self.open = 0, 0.0
        cuts, sums = np.cumsum(self.cells), np.cumsum(self.sums)
        n, k, total, lost = cuts[:-1] * CELL, sums[:-1], cuts[-1] * CELL, sums[-1]
        found = evidence(n, k, total - n, lost - k) - np.log(cuts[:-1] * (cuts[:-1] + 1.0) / self.rate)
        found = np.where((lost - k) * n > k * (total - n), found, -1.0)
        if len(found) and found.max() >= 0.0:
            cut = int(found.argmax())
            after = int(total - n[cut])
            means = [round(float(k[cut] / n[cut]), 6), round(float((lost - k[cut]) / after), 6)]
            self.restart()
            self.alarm = {"after": after, "losses": means}
            return True
        self._merge()
        return False

    def _merge(self) -> None:
        """Join the two oldest cells of a size of which there are too many."""
        size = 1
        while np.count_nonzero(self.cells == size) > KEPT:
            first = int(np.argmax(self.cells == size))
            self.cells, self.sums = self.cells.copy(), self.sums.copy()
            self.cells[first + 1] += self.cells[first]
            self.sums[first + 1] += self.sums[first]
            self.cells, self.sums = np.delete(self.cells, first), np.delete(self.sums, first)
            size *= 2

    def _take(self, found: dict[str, Any]) -> None:
        if np.any(found["sums"] > CELL * found["cells"]) or found["open"] > found["rounds"]:
            raise ValueError("the losses of its watch do not fit")
        if len(found["first"]) > (0 if self.labels else CELL):
            raise ValueError("the losses of its watch do not fit")
        super()._take(found)


def _label(scores: list[float]) -> int:
    """Return the number of the label that scores stand for."""
    return int(scores[0] >= 0.0) if len(scores) == 1 else scores.index(max(scores))
