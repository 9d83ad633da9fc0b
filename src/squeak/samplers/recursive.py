"""Recursion: the dictionary of half the rows scores all of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import eigh

from squeak.core.checks import check_whole
from squeak.core.constructors import parameters
from squeak.core.kernels import gram
from squeak.core.leverage import SMALLEST_RIDGE, weighted_gram
from squeak.core.rows import n_rows, take
from squeak.core.seeds import SAMPLE, generator_at
from squeak.core.types import IntArray, Rows
from squeak.samplers.base import Coins, Plan
from squeak.samplers.batch import BatchSampler, Choice, bounded_scores, keep_by_score
from squeak.samplers.theory import recursive_oversampling

BASE = 128
"""The recursion begins with about so many rows, all of them kept."""


@parameters
class Recursive(Coins, BatchSampler):
    """Recursive ridge leverage scores: a random half of the rows, by recursion, gives the scores of all.

    The rows are put in random order; the first n/2^H are all kept. For h = H − 1, …, 0 the dictionary so far
    scores the first n/2^h rows, τ̃ = φᵀ(ΦSSᵀΦᵀ + ridge·Π)⁻¹φ, and those kept with probability min(1,
    oversampling·τ̃) are the next dictionary. The last is one of all rows.

    With ``max_atoms`` in place of a ridge it is the fixed-size form that practitioners use: the ridge of each
    level is the mean of the eigenvalues beyond the k = ⌈s/(4 log s)⌉ largest, and the last level draws
    exactly s = max_atoms rows without replacement, proportionally to τ̃. Its weights estimate nothing
    (``calibrated`` is False).

    Parameters
    ----------
    kernel, ridge, oversampling, copies, eps, delta, n, source, random_state
        As in :class:`Squeak`.
    max_atoms : int, optional
        The exact size; leave ``ridge`` out. ``oversampling``, ``copies`` and ``eps`` have no part in this form.

    Attributes
    ----------
    dictionary_ : Dictionary
    passes_ : float

    References
    ----------
    Musco and Musco, "Recursive sampling for the Nyström method", NeurIPS 2017; thesis, algorithm 6, with the
    corrections of the theory page (the loop reaches all rows; overestimates).

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.samplers import Recursive
    >>> X = np.random.default_rng(0).standard_normal((2000, 2))
    >>> d = Recursive(kernel=RBF(2.0), ridge=1.0, oversampling=5, random_state=0).fit(X).dictionary_
    >>> d.n_seen, 40 < len(d) < 200
    (2000, True)
    >>> len(Recursive(kernel=RBF(2.0), max_atoms=50, random_state=0).fit(X).dictionary_)
    50
    """

    _theory = staticmethod(recursive_oversampling)

    max_atoms: int | None = None

    def _make_plan(self, first_rows: Rows, kernel: Any) -> Plan:
        # the theorem overestimates: its factor 3/2 is part of the oversampling, and there is no 1 − ε
        return replace(super()._make_plan(first_rows, kernel), eps=0.0)

    def _choose(self, X: Rows, plan: Plan, seed: int) -> tuple[list[Choice], float]:
        if self.max_atoms is not None and self.ridge is not None:
            raise ValueError(
                "Recursive takes a ridge or max_atoms, not both: with max_atoms it finds its own ridge"
            )
        n = n_rows(X)
        order = generator_at(seed, SAMPLE, 0).permutation(n)
        if self.max_atoms is not None:
            return _fixed_size(X, plan, seed, order, check_whole("max_atoms", self.max_atoms))
        levels = max(0, math.ceil(math.log2(n / BASE)))
        choice, passes = _all_of(order[: math.ceil(n / 2**levels)], plan), 0.0
        for level in range(levels - 1, -1, -1):
            some = order[: math.ceil(n / 2**level)]
            scores = bounded_scores(choice, X, plan, plan.ridge, some)
            kept = keep_by_score(scores, plan, plan.ridge, generator_at(seed, SAMPLE, 1, level))
            if kept.rows.size == 0 and level:
                continue  # nobody was kept: the dictionary of fewer rows scores the next level too
            choice = replace(kept, rows=some[kept.rows])
            passes += len(some) / n
        if levels == 0:
            scores = bounded_scores(choice, X, plan, plan.ridge)
            choice = keep_by_score(scores, plan, plan.ridge, generator_at(seed, SAMPLE, 1, 0))
            passes = 1.0
        return [choice], passes


def _all_of(rows: IntArray, plan: Plan) -> Choice:
    size = len(rows)
    return Choice(rows, np.ones(size), np.full(size, plan.copies), plan.copies, plan.ridge, plan.oversampling)


def _fixed_size(X: Rows, plan: Plan, seed: int, order: IntArray, size: int) -> tuple[list[Choice], float]:
    """Draw exactly ``size`` rows, as the authors' public code does."""
    n = n_rows(X)
    size = min(size, n)
    directions = math.ceil(size / (4 * max(1.0, math.log(size))))
    levels = max(0, math.ceil(math.log2(n / size)))
    choice = _all_of(order[: math.ceil(n / 2**levels)], plan)
    ridge, passes = plan.ridge, 0.0
    scores = np.ones(n)
    for level in range(levels - 1, -1, -1):
        some = order[: math.ceil(n / 2**level)]
        ridge = _tail_mean(X, choice, plan, directions)
        scores = bounded_scores(choice, X, plan, ridge, some)
        passes += len(some) / n
        if level:
            chances = np.minimum(1.0, max(1.0, math.log(size)) * scores)
            kept = np.flatnonzero(generator_at(seed, SAMPLE, 1, level).random(len(some)) < chances)
            if kept.size:
                ones = np.ones(kept.size, dtype=np.int64)
                choice = Choice(some[kept], chances[kept], ones, 1, ridge, None)
    scores = np.maximum(scores, np.finfo(np.float64).tiny)
    drawn = generator_at(seed, SAMPLE, 2).choice(n, size, replace=False, p=scores / scores.sum())
    rows = order[drawn] if levels else drawn
    ones = np.ones(size, dtype=np.int64)
    return [Choice(rows, np.ones(size), ones, 1, ridge, None, calibrated=False)], passes


def _tail_mean(X: Rows, choice: Choice, plan: Plan, directions: int) -> float:
    """Return the mean over ``directions`` of the eigenvalues of S K S beyond the ``directions`` largest."""
    K = weighted_gram(gram(plan.kernel, take(X, choice.rows)), choice.weights)
    top = K.diagonal()
    if len(K) > directions:
        top = eigh(K, eigvals_only=True, subset_by_index=[len(K) - directions, len(K) - 1])
    tail = float(K.trace() - top.sum()) / directions
    return max(tail, SMALLEST_RIDGE * float(K.diagonal().max()), SMALLEST_RIDGE * plan.ridge)
