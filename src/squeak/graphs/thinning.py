"""Thin a sample of edges to their scores, and keep it connected on the way."""

from __future__ import annotations

import numpy as np

from squeak.core.seeds import SHRINK, generator_at
from squeak.core.thinning import keep_probability, thin
from squeak.core.types import Array
from squeak.graphs.forest import forest_beyond
from squeak.graphs.oracle import Oracle
from squeak.graphs.sample import EdgeSample


def thinned(sample: EdgeSample, scores: Array, seed: int, *place: int, connected: bool) -> EdgeSample:
    """Return the sample thinned to its scores: p' = min(p, (oversampling/copies)·score).

    With ``connected`` the edges of the best scores that hold the components together keep theirs: no coin is
    tossed: each component stays whole. What is kept so is decided before the draw, so weights stay unbiased.
    """
    chances = keep_probability(scores, sample.oversampling, sample.copies)
    if connected:
        sure = chances >= sample.probabilities
        chances[forest_beyond(sample.atoms, sure, scores)] = 1.0
    probabilities, counts = thin(sample.probabilities, sample.counts, chances, generator_at(seed, SHRINK, *place))
    alive = np.flatnonzero(counts > 0)
    return sample.take(alive, probabilities[alive], counts[alive])


def shrink(sample: EdgeSample, oracle: Oracle, seed: int, *place: int, connected: bool) -> EdgeSample:
    """Return the sample thinned to the scores of its edges within itself."""
    return thinned(sample, oracle.own_scores(sample.original), seed, *place, connected=connected)
