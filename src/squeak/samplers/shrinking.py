"""Shrink: re-score all atoms and thin them, raising the ridge where a limit on their number asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from squeak.core.kernels import gram
from squeak.core.leverage import WeightedFactor, dictionary_scores
from squeak.core.rows import take
from squeak.core.thinning import expected_survivors, keep_probability, thin, thin_to
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
    scores: Array | None = None,
    score_ridge: float | None = None,
) -> Thinned:
    """Lower every probability to the atom's score within the dictionary, thin, and factor what is left.

    p' = min(p, (oversampling/copies)·τ̃), counts' ~ Binomial(counts, p'/p). Where there are more than ``max_atoms``,
    the ridge is raised just so far that no more are to be expected, and exactly ``max_atoms`` are left
    (:func:`squeak.core.thinning.thin_to`); nothing is ever drawn anew, so weights stay unbiased. Coins are tossed
    in the order of the atoms as given: hand them over in the order of the stream, for the same draws from the same
    seed.

    Parameters
    ----------
    ridge : float
        At least the ridge of the dictionary so far.
    factor : float
        The papers' 1 − ε; 1 in practice.
    scores : array, optional
        The atoms' scores at ``ridge`` where they are known already.
    score_ridge : float, optional
        The ridge that scores are computed with where it is not ``ridge``: the papers' (1 + (j − 1)ε)·ridge.

    References
    ----------
    Thesis, algorithm 10 (DICT-MERGE); the theory page.
    """
    K = gram(kernel, atoms)
    shift = 1.0 if score_ridge is None else score_ridge / ridge
    kept = np.arange(len(counts))

    def chances_at(trial: float) -> Array:
        """The probabilities that the atoms would have at another ridge."""
        scores = dictionary_scores(K, counts / (copies * probabilities), shift * trial, factor)
        return keep_probability(scores, oversampling, copies)

    chances = chances_at(ridge) if scores is None else keep_probability(scores, oversampling, copies)
    if max_atoms is not None and len(counts) > max_atoms:
        ridge, chances = _fitting_ridge(ridge, chances, chances_at, probabilities, counts, max_atoms)
        probabilities, counts = thin_to(probabilities, counts, chances, max_atoms, rng)
    else:
        probabilities, counts = thin(probabilities, counts, chances, rng)
    alive = counts > 0
    probabilities, counts, kept = probabilities[alive], counts[alive], kept[alive]
    weights = counts / (copies * probabilities)
    values = K[np.ix_(kept, kept)]
    rebuilt, order = WeightedFactor.build(kernel, take(atoms, kept), weights, ridge, values)
    return Thinned(kept[order], probabilities[order], counts[order], rebuilt)


def _fitting_ridge(
    ridge: float,
    chances: Array,
    chances_at: Callable[[float], Array],
    probabilities: Array,
    counts: IntArray,
    max_atoms: int,
) -> tuple[float, Array]:
    """Return the ridge, raised just so far that the survivors fit, and the probabilities at it.

    They fit when their mean number is at most ``max_atoms``; 5% less is near enough, for the rest is filled up. The
    number falls smoothly with the ridge, so a secant on the logarithms finds it in a few factorisations.
    """

    def survivors(chances: Array) -> float:
        return expected_survivors(probabilities, counts, chances)

    low, low_expected, slope = ridge, survivors(chances), -0.5
    if low_expected <= max_atoms:
        return ridge, chances
    high, high_expected, high_chances = np.inf, 0.0, chances
    while high == np.inf or (high_expected < 0.95 * max_atoms and high > 1.01 * low):
        wanted = np.log(0.975 * max_atoms / low_expected) / slope
        step = np.clip(wanted, np.log(1.005), np.log(16.0))
        if high < np.inf:
            step = np.clip(step, 0.1 * np.log(high / low), 0.9 * np.log(high / low))
        trial = float(low * np.exp(step))
        chances = chances_at(trial)
        expected = survivors(chances)
        slope = min(-0.05, (np.log(max(expected, 1e-3)) - np.log(low_expected)) / step)
        if expected > max_atoms:
            low, low_expected = trial, expected
        else:
            high, high_expected, high_chances = trial, expected, chances
    return high, high_chances
