"""Shrink: re-score all atoms and thin them, raising the ridge where a limit on their number asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from squeak.core.kernels import gram
from squeak.core.leverage import WeightedFactor, scores_at, weighted_spectrum
from squeak.core.rows import take
from squeak.core.thinning import expected_survivors, keep_probability, thin
from squeak.core.types import Array, IntArray, Rows


@dataclass(frozen=True)
class Thinned:
    """What a shrink leaves: the numbers of the atoms kept, their state, and the factor they were built into."""

    kept: IntArray
    probabilities: Array
    counts: IntArray
    scorer: WeightedFactor


def shrink(
    kernel: Any,
    atoms: Rows,
    probabilities: Array,
    counts: IntArray,
    *,
    ridge: float,
    oversampling: float,
    copies: int,
    factor: float,
    rng: np.random.Generator,
    max_atoms: int | None = None,
    scorer: WeightedFactor | None = None,
    score_ridge: float | None = None,
) -> Thinned:
    """Lower every probability to the atom's score within the dictionary, thin, and factor what is left.

    p' = min(p, (oversampling/copies)·τ̃), counts' ~ Binomial(counts, p'/p). If more than ``max_atoms`` are to be
    expected, or remain, the ridge is raised just so far that their expected number fits, and what remains
    is thinned again; nothing is ever drawn anew, so weights stay unbiased.

    Parameters
    ----------
    ridge : float
        At least the ridge of the dictionary so far.
    factor : float
        The papers' 1 − ε; 1 in practice.
    scorer : WeightedFactor, optional
        The factor of just these atoms in this order; used when its ridge is the one asked for.
    score_ridge : float, optional
        The ridge that scores are computed with where it is not ``ridge``: the papers' (1 + (j − 1)ε)·ridge.

    References
    ----------
    Thesis, algorithm 10 (DICT-MERGE); spec 5.2 and 5.4.
    """
    K = gram(kernel, atoms)
    weights = counts / (copies * probabilities)
    shift = 1.0 if score_ridge is None else score_ridge / ridge
    if scorer is not None and scorer.ridge == ridge and shift == 1.0:
        scores = scorer.atom_scores(factor)
    else:
        spectrum = weighted_spectrum(K, weights)
        scores = scores_at(spectrum[0], spectrum[1], weights, shift * ridge, factor)
    chances = keep_probability(scores, oversampling, copies)
    kept = np.arange(len(weights))
    if max_atoms is not None and expected_survivors(probabilities, counts, chances)[0] > max_atoms:
        chances = np.ones(len(weights))  # nothing is drawn yet: the first draw is at the raised ridge
    else:
        probabilities, counts, kept = _draw(probabilities, counts, chances, kept, rng)
    while max_atoms is not None and len(kept) > max_atoms:
        weights = counts / (copies * probabilities)
        spectrum = weighted_spectrum(K[np.ix_(kept, kept)], weights)

        def chances_at(trial: float, spectrum: Any = spectrum, weights: Array = weights) -> Array:
            scores = scores_at(spectrum[0], spectrum[1], weights, shift * trial, factor)
            return keep_probability(scores, oversampling, copies)

        ridge = _raised_ridge(ridge, chances_at, probabilities, counts, max_atoms)
        probabilities, counts, kept = _draw(probabilities, counts, chances_at(ridge), kept, rng)
    weights = counts / (copies * probabilities)
    values = K[np.ix_(kept, kept)]
    rebuilt, order = WeightedFactor.build(kernel, take(atoms, kept), weights, ridge, values)
    return Thinned(kept[order], probabilities[order], counts[order], rebuilt)


def _draw(
    probabilities: Array, counts: IntArray, chances: Array, kept: IntArray, rng: np.random.Generator
) -> tuple[Array, IntArray, IntArray]:
    """Thin, and leave out what has no count left."""
    probabilities, counts = thin(probabilities, counts, chances, rng)
    alive = counts > 0
    return probabilities[alive], counts[alive], kept[alive]


def _raised_ridge(ridge: float, chances_at: Any, probabilities: Array, counts: IntArray, max_atoms: int) -> float:
    """Return the smallest larger ridge, to 1%, at which mean + deviation of the survivors' number fits."""

    def fits(trial: float) -> bool:
        mean, variance = expected_survivors(probabilities, counts, chances_at(trial))
        return bool(mean + np.sqrt(variance) <= max_atoms)

    low, high = ridge, 2.0 * ridge
    while not fits(high):
        low, high = high, 4.0 * high
    while high > 1.01 * low:
        middle = np.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return float(high)
