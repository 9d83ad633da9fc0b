"""How models are mixed by what they say of rows that they have not seen: weights, and slopes for classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from squeak.core.types import Array
from squeak.learners.blend import LEAST_WEIGHT, convex_weights, trusted_part
from squeak.learners.boosting import coded_chances
from squeak.learners.calibration import stacked

RAREST = 1e-6
"""A class that no row beside the held-out ones has is taken to be as frequent."""


@dataclass(frozen=True)
class Mixed:
    """How models are mixed: f = Σ_b share_b f_b + (the last share)·mean + offsets."""

    shares: Array
    told: Array
    """The same as parts of 1, for people."""
    offsets: Array
    """What is added for classes, so that the sum is their logits; 0 for numbers."""
    back_scores: Array
    """What the mixture says of the held-out rows: numbers, or logits."""
    said: Array
    """The same as targets: of classes, 2·p − 1 with their probabilities p."""


def averaged(values: list[Array], y: Array, mean: Array, weight: Array | None) -> Mixed:
    """Return weights w ≥ 0 of least squared error on held-out rows; the mean has what is not trusted."""
    values = [*values, np.broadcast_to(mean, values[0].shape)]
    shares = convex_weights(values, y, weight)
    shares[:-1] *= trusted_part(np.asarray(np.tensordot(shares, values, axes=1)), mean, y, weight)
    shares[-1] = 1.0 - shares[:-1].sum()
    said = np.asarray(sum(share * one for share, one in zip(shares, values, strict=True)))
    return Mixed(shares, shares, np.zeros(y.shape[1]), said, said)


def added_up(values: list[Array], y: Array, mean: Array, weight: Array | None) -> Mixed:
    """Return slopes and offsets of least log loss on held-out rows.

    They are drawn towards the logits of the classes' frequencies, as far as the sum is not trusted.
    """
    two = y.shape[1] == 1
    places = (y[:, 0] > 0).astype(np.int64) if two else y.argmax(axis=1)
    slopes, offsets = stacked(values, places, 2 if two else y.shape[1], weight, LEAST_WEIGHT)
    logits = np.asarray(sum(slope * one for slope, one in zip(slopes, values, strict=True)))
    trusted = trusted_part(coded_chances(logits + offsets), mean, y, weight)
    offsets = trusted * offsets + (1.0 - trusted) * _logits_of(mean)
    scores = trusted * logits + offsets
    sizes = slopes * [float(np.std(one, axis=0).mean()) for one in values]
    told = np.append(trusted * sizes / (sizes.sum() or 1.0), 0.0)
    told[-1] = 1.0 - told.sum()
    return Mixed(np.append(trusted * slopes, 0.0), told, offsets, scores, coded_chances(scores))


def _logits_of(mean: Array) -> Array:
    """Return the logits of classes whose mean code is given: one for two classes, else one for each."""
    chances = np.clip((1.0 + mean) / 2.0, RAREST, 1.0 - RAREST)
    if len(mean) == 1:
        return np.asarray(np.log(chances / (1.0 - chances)))
    found = np.log(chances)
    return np.asarray(found - found.mean())
