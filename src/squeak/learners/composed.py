"""How a model is composed for rows in memory: choices on held-out rows, once or in folds, and a spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from squeak.core.progress import Job
from squeak.core.seeds import SAMPLE, generator_at
from squeak.core.types import Array, BoolArray, IntArray
from squeak.learners.expansion import Expansion
from squeak.learners.fold import BACK, Fold, Problem, composed_on, folds_of
from squeak.learners.grown import Trees
from squeak.learners.splits import SplitTree
from squeak.learners.spread import constant, spread_of
from squeak.learners.tried import Search, Stage

ENOUGH_BACK, MOST_BACK = 600, 10_000
"""Of few rows a third is held out, or a fourth in folds, until these are enough; how many are at most."""

FEWEST = 12
"""Below so many rows the mean is all that is learned."""

TOGETHER = "all of these, by their weights"


@dataclass(frozen=True)
class Composed:
    """A fitted composition: functions of all rows, experts of parts of the space, and the spread of residuals."""

    tree: SplitTree
    experts: list[list[Expansion]]
    """Of every leaf; empty lists where functions of all rows are the whole model."""
    everywhere: list[Expansion]
    trees: Trees | None
    spread: Expansion
    scores: Array
    """Residuals of the held-out rows, in units of the spread, shape (k, outputs)."""
    back_scores: Array
    """What the model said of the held-out rows, shape (k, outputs)."""
    back: IntArray
    slopes: Array
    """Mean squared slope along every column times its variance, shape (d,)."""


def compose(problem: Problem, seed: int, search: Search, job: Job) -> Composed:
    """Choose and fit a model of rows in memory, or with local experts of all rows of which these are a sample.

    Tables without local experts are learned in folds. Each fold holds other rows out, makes its own choices on
    them and is fitted to all rows; the model is the mean of the folds. What is chosen on few rows varies much
    from fold to fold, and the mean does not. With K folds, K times as many rows tell how large errors are.

    Parameters
    ----------
    problem : Problem
    seed : int
    search : Search
        Takes down what is tried.
    job : Job
        Told of every stage, and of the part of it that is done.

    Returns
    -------
    Composed
    """
    X, y, n = problem.X, problem.y, problem.n
    equal = not np.ptp(y, axis=0).any()
    if n < FEWEST or equal or not np.ptp(X, axis=0).any():
        alike = "all targets are equal" if equal else "rows are alike"
        why = "there are too few rows" if n < FEWEST else alike
        search.limits.append(f"{why}: the mean is all that was learned")
        return _mean_only(X, y, problem.weight)
    rng = generator_at(seed, SAMPLE, 10)
    backs = _held_out(problem, folds_of(n, problem.leaf_rows, problem.folds), rng)
    folds: list[Fold] = []
    searches: list[Search] = []
    for number, back in enumerate(backs):
        if number and not search.left() > search.spent() / number:
            search.limits.append(f"time_budget ended the search after {number} of {len(backs)} folds")
            break
        own = seed if not number else int(generator_at(seed, SAMPLE, 13, number).integers(2**63))
        searches.append(search.part())
        folds.append(composed_on(problem, back, rng, own, searches[-1], job, (number, len(backs))))
    return _joined(problem, folds, searches, seed, search)


def _held_out(problem: Problem, folds: int, rng: np.random.Generator) -> list[BoolArray]:
    """Return for every fold which rows it holds out; no row is held out twice."""
    n, rows = problem.n, len(problem.y)
    most = n // max(3, folds)
    held_out = min(MOST_BACK, most, max(round(BACK * n), min(most, ENOUGH_BACK)))
    if problem.beyond is not None:
        held = problem.beyond.held_out(min(held_out, rows // 3))
        return [problem.beyond.numbers <= held.told[-1]]
    order = rng.permutation(n)
    found = np.zeros((folds, n), dtype=bool)
    for number, back in enumerate(found):
        back[order[number * held_out : (number + 1) * held_out]] = True
    return list(found)


def _joined(
    problem: Problem, folds: Sequence[Fold], searches: Sequence[Search], seed: int, search: Search
) -> Composed:
    """Return the mean of the folds, with the spread of what they said of the rows that they held out."""
    X, y = problem.X, problem.y
    back = np.concatenate([fold.back for fold in folds])
    said = np.concatenate([fold.mixed.said for fold in folds])
    whole, words = _mean_of(X, folds), TOGETHER
    if len(folds) > 1:
        words = f"the mean of {len(folds)} folds"
        for number, (fold, own) in enumerate(zip(folds, searches, strict=True), 1):
            name = f"fold {number} of {len(folds)}: {TOGETHER}"
            own.stages.append(_told(problem, "fold", name, fold, fold.mixed.said, fold.back))
    search.gather(searches)
    search.stages.append(_told(problem, "mixture", words, whole, said, back))
    back_scores = np.concatenate([_by_others(fold, folds) for fold in folds]) if problem.classes else said
    spread, scores = spread_of(whole.kernel, X[back], y[back] - said, seed)
    experts, everywhere, slopes = whole.experts, whole.everywhere, whole.slopes
    return Composed(whole.tree, experts, everywhere, whole.trees, spread, scores, back_scores, back, slopes)


def _told(problem: Problem, stage: str, words: str, model: Fold, said: Array, back: IntArray) -> Stage:
    """Return the line of the search's table about a whole model."""
    atoms = sum(map(len, [*model.everywhere, *(one for expert in model.experts for one in expert)]))
    return Stage(stage, words, problem.n, atoms, np.nan, problem.error(said, back), 0.0, 1.0)


def _by_others(fold: Fold, folds: Sequence[Fold]) -> Array:
    """Return the logits of a fold's held-out rows, its models mixed as the other folds mix theirs.

    How a fold mixes its models was chosen on these rows, so that its own logits would look too sure there.
    """
    alike = [one.mixed for one in folds if one is not fold and len(one.values) == len(fold.values)]
    if not alike:
        return fold.mixed.back_scores
    slopes = np.mean([mixed.shares for mixed in alike], axis=0)
    logits = sum(slope * one for slope, one in zip(slopes[:-1], fold.values, strict=True))
    return np.asarray(logits + np.mean([mixed.offsets for mixed in alike], axis=0))


def _mean_of(X: Array, folds: Sequence[Fold]) -> Fold:
    """Return the mean of folds, of which several have no local experts; its kernel is that of the first."""
    part = 1.0 / len(folds)
    offsets = [fold.mixed.offsets for fold in folds]
    whole = [
        one.times(part)
        for fold, offset in zip(folds, offsets, strict=True)
        for one in (plus(fold.everywhere, offset, X) if offset.any() else fold.everywhere)
    ]
    grown = [fold.trees.times(part) for fold in folds if fold.trees is not None]
    slopes = np.mean([fold.slopes for fold in folds], axis=0)
    return replace(folds[0], everywhere=whole, trees=Trees.total(grown) if grown else None, slopes=slopes)


def plus(parts: list[Expansion], value: Array, X: Array) -> list[Expansion]:
    """Return functions that add up to those given and a constant; a row of X is the atom where none is given."""
    if not parts:
        return [constant(X, value)]
    return [replace(parts[0], intercept=parts[0].intercept + value), *parts[1:]]


def _mean_only(X: Array, y: Array, weight: Array | None) -> Composed:
    mean = np.average(y, axis=0, weights=weight)
    residual = y - mean
    size = np.maximum(np.abs(residual).mean(axis=0), 1e-300)
    n, d = X.shape
    # a row's own target is part of the mean: without it the residual is n/(n − 1) times as large
    scores = residual / size * (n / max(n - 1, 1))
    return Composed(
        SplitTree.single(d),
        [[]],
        [constant(X, mean)],
        None,
        constant(X, size),
        scores,
        np.broadcast_to(mean, y.shape),
        np.arange(n),
        np.zeros(d),
    )
