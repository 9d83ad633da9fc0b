"""The penalty of the logistic loss by held-out rows: no sums tell it, as they do for the squared loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core.kernels import block, diagonal
from squeak.core.nystrom import TriangularFeatures
from squeak.core.rows import n_rows, take
from squeak.core.seeds import SAMPLE, generator_at
from squeak.core.types import Array
from squeak.learners.cached import kept_in_memory
from squeak.learners.data import ArrayTraining
from squeak.learners.falkon import VoronoiTerm
from squeak.learners.left_out import Sample
from squeak.learners.logistic import losses, newton
from squeak.samplers.dictionary import Dictionary

ATOMS = 300
"""Atoms with which alphas are tried, spread evenly over those of the fit."""

KEPT_BACK = 4
"""One row in so many is held out."""

POWERS = range(-1, -9, -1)
"""Powers of ten that are tried, as parts of the trace of K; from the largest on, until the loss grows."""

TOL = 1e-2
"""Of Newton's method, in the search."""


def searched_alpha(sample: Sample | None, d: Dictionary, n: float, seed: int) -> float:
    """Return the alpha of least log loss on held-out rows.

    Three quarters of the sample are learned at each alpha on part of the atoms, and the rest is predicted. Of n
    rows in place of n' the alpha is √(n/n') times as large: the penalty for each row, alpha/n, falls as 1/√n, as
    the theory of regularised learning has it for targets of which no more is known than that the kernel can learn
    them.

    Parameters
    ----------
    sample : Sample
        Targets 0 and 1, one column for two classes, else one for each.
    d : Dictionary
    n : float
        The number of rows of the fit.
    seed : int

    Returns
    -------
    float

    References
    ----------
    Stone, "Cross-validatory choice and assessment of statistical predictions", JRSS B 1974, for the choice.
    Caponnetto, De Vito, "Optimal rates for the regularized least-squares algorithm", 2007, for the growth with n.
    """
    if sample is None:
        raise ValueError("alpha='auto' needs rows that can be read again: give a number")
    count = n_rows(sample.X)
    order = generator_at(seed, SAMPLE, 76).permutation(count)
    back, rest = order[: count // KEPT_BACK], np.sort(order[count // KEPT_BACK :])
    if not len(back):
        raise ValueError(f"alpha='auto' keeps rows back, and there are only {count}: give a number")
    some = np.unique(np.linspace(0, len(d) - 1, min(len(d), ATOMS)).astype(np.int64))
    features = TriangularFeatures(d.kernel, take(d.atoms, some))
    weight = np.ones(count) if sample.weight is None else sample.weight
    data: Any = ArrayTraining(take(sample.X, rest), sample.y[rest], weight[rest])
    data, seen = kept_in_memory(data, features, None)
    (atom_weights,) = data.sum(VoronoiTerm(seen))
    offset = log_odds(weight[rest] @ sample.y[rest] / weight[rest].sum())
    held = block(features.kernel, take(sample.X, back), features.atoms) @ features.mixing
    trace = float(diagonal(d.kernel, features.atoms).mean()) * float(weight[rest].sum())
    tried: dict[float, float] = {}

    def loss(power: float) -> float:
        found = newton(data, seen, features, atom_weights, 10.0**power * trace, offset, TOL)
        tried[power] = float(weight[back] @ losses(held @ found.B + offset, sample.y[back]))
        return tried[power]

    least = np.inf
    for power in POWERS:
        if (there := loss(power)) > least:
            break
        least = there
    best = min(tried, key=tried.__getitem__)
    for beside in (best - 0.5, best + 0.5):
        loss(beside)
    best = min(tried, key=tried.__getitem__)
    return float(10.0**best * trace * np.sqrt(max(n / len(rest), 1.0)))


def log_odds(mean: Array) -> Array:
    """Return what the logistic loss starts from: the log odds of two classes, or the log frequency of each of more.

    Parameters
    ----------
    mean : array of shape (outputs,)
        The classes' shares; of two classes that of the second.

    Returns
    -------
    array of shape (outputs,)
    """
    rare = np.finfo(np.float64).tiny
    found = np.log(np.maximum(mean, rare))
    return np.asarray(found - np.log(np.maximum(1.0 - mean, rare)) if len(mean) == 1 else found)
