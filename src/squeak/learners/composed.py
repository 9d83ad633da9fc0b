"""How a model is composed for rows in memory: a search on some of them, one model or local experts, and a spread.

Every choice is made on the same rows, which are held out from the fits that are compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.progress import Job
from squeak.core.seeds import SAMPLE, generator_at
from squeak.core.types import Array, BoolArray, IntArray
from squeak.learners.blend import DEFAULT_KERNELS, KernelBlend, atoms_for
from squeak.learners.boosting import FEWEST_ROWS, Boosted, Trees, coded_chances
from squeak.learners.choice import Costs
from squeak.learners.data import SourceTraining
from squeak.learners.expansion import Expansion
from squeak.learners.experts import LocalExperts
from squeak.learners.leaf_passes import enough_rows
from squeak.learners.metric import Held, Trial, gradient_product, tuned
from squeak.learners.mixed import added_up, averaged
from squeak.learners.regions import HeldOut
from squeak.learners.splits import SplitTree
from squeak.learners.spread import constant, spread_of
from squeak.learners.tried import BOOSTED, Search, Stage, say_limits, words_of

SEARCH_ROWS, SEARCH_ATOMS = 8_000, 600
"""Rows and atoms with which kernels and metrics are searched for."""

BACK, ENOUGH_BACK, MOST_BACK = 0.15, 600, 10_000
"""The part of the rows that is held out; of few rows a third, until these are enough; how many at most."""

FEWEST = 12
"""Below so many rows the mean is all that is learned."""

PROMISING = 1.35
"""A kernel whose error exceeds the least by more than this factor is given up after the search."""

LEAF_SEARCH_ATOMS, LEAF_KERNELS = 400, 2
"""Of a local expert: atoms of its search, and how many of the kernels it tries."""

ROWS_OF_A_SEARCH = 12_500
"""Experts of so many rows take about as long as the search does; they are tried where that much time is left."""

A_SEARCH = 8.0
"""Seconds of a search, to begin with: it is corrected as soon as the first kernel has been tried."""

WHOLE = 1.6
"""With at most so many times the rows of a leaf there is one model, and no experts."""

MANY_ROWS, LEAF, LEAF_OF_MANY = 25_000, 5_000, 4_000
"""Rows of a leaf where nobody says, up to so many rows in all and beyond: larger ones err less and take longer."""


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


@dataclass(frozen=True)
class Beyond:
    """All rows of which those in memory are a sample: where they are read, and how many they are."""

    data: SourceTraining
    n: int
    numbers: Array
    """The random numbers of the rows in the sample: no row that was left out has a smaller one."""
    seed: int
    """Of these numbers."""

    def held_out(self, rows: int) -> HeldOut:
        """Return the rule by which experts hold rows out; what they say is told of so many rows of the sample."""
        told = np.sort(self.numbers)[:rows]
        return HeldOut(self.seed, max(BACK, float(told[-1])), told)


def leaf_of(n: int, leaf_rows: int | None) -> int:
    """Return how many of n rows a leaf has at most."""
    return leaf_rows or (LEAF if n <= MANY_ROWS else LEAF_OF_MANY)


def compose(
    X: Array,
    y: Array,
    weight: Array | None,
    *,
    groups: IntArray | None,
    classes: bool,
    trees: bool,
    seed: int,
    max_atoms: int | None,
    leaf_rows: int | None,
    search: Search,
    job: Job,
    beyond: Beyond | None = None,
) -> Composed:
    """Choose and fit a model of rows in memory, or with local experts of all rows of which these are a sample.

    Parameters
    ----------
    X : array of shape (n, d)
    y : array of shape (n, outputs)
    weight : array of shape (n,), optional
    groups : array of int of shape (d,), optional
        Columns with one number share a width.
    classes : bool
        Whether the targets are classes, coded as −1 and 1.
    trees : bool
        Whether boosted trees may be a part of the model.
    seed : int
    max_atoms, leaf_rows : int, optional
    search : Search
        Takes down what is tried.
    job : Job
        Told of every stage, and of the part of it that is done.
    beyond : Beyond, optional
        All rows, where those given are a sample of them.

    Returns
    -------
    Composed
    """
    n = len(y) if beyond is None else beyond.n
    leaf_rows = leaf_of(n, leaf_rows)
    rng = generator_at(seed, SAMPLE, 10)
    equal = not np.ptp(y, axis=0).any()
    if n < FEWEST or equal or not np.ptp(X, axis=0).any():
        alike = "all targets are equal" if equal else "rows are alike"
        why = "there are too few rows" if n < FEWEST else alike
        search.limits.append(f"{why}: the mean is all that was learned")
        return _mean_only(X, y, weight)
    centred = y - np.average(y, axis=0, weights=weight)
    size = float(np.sqrt(np.average(np.square(centred), axis=0, weights=weight).sum()))
    held_out = min(MOST_BACK, max(round(BACK * n), min(n // 3, ENOUGH_BACK)))
    if beyond is None:
        back = np.zeros(n, dtype=bool)
        back[rng.permutation(n)[:held_out]] = True
    else:
        held = beyond.held_out(min(held_out, len(y) // 3))
        back = beyond.numbers <= held.told[-1]
    few = min(SEARCH_ATOMS, max_atoms or SEARCH_ATOMS)
    atoms = atoms_for(n, max_atoms)

    def expect(searching: float, kernels: int) -> None:
        one = kernels * Costs.of(len(y), atoms, X.shape[1], False, 0.0).direct / engine.thread_count()
        experts = {"local experts": n / ROWS_OF_A_SEARCH * searching} if n > WHOLE * leaf_rows else {}
        job.expect({"kernels and metrics": searching, "one model": one, **experts})

    expect(A_SEARCH * min(n, SEARCH_ROWS) / SEARCH_ROWS, 2)

    def boost(ended: Callable[[], bool]) -> tuple[Boosted | None, float]:
        began = time.monotonic()
        grown = Boosted.search(X, y, weight, back, classes, seed, ended) if trees else None
        return grown, time.monotonic() - began

    with engine.beside(boost) as grown_trees:
        found, tuning = _searched(X, y, weight, back, groups, rng, search, size, job, few)
        tuning_took = sum(stage.seconds for stage in search.stages)
        searching = tuning_took / min(engine.thread_count(), len(DEFAULT_KERNELS))
        kernels = [trial.kernel for trial in found]
        values: list[Array] = []
        models: list[Any] = []

        def tried(model: Any, words: str, atoms: int, some: IntArray) -> None:
            began = time.monotonic()
            model.set_params(random_state=seed % 2**32)
            models.append(model)
            if beyond is None or isinstance(model, KernelBlend):
                model.fit(
                    X[some], y[some], None if weight is None else weight[some], back=back[some], groups=groups
                )
                said = model.back_values_ if isinstance(model, LocalExperts) else _in_place(model, len(some))
                values.append(said[back[some]])
                m = len(some)
            else:
                model.fit(beyond.data, back=held, groups=groups)
                values.append(model.back_values_[np.searchsorted(held.told, beyond.numbers[back])])
                m = n
            error = _error(values[-1], y[back], weight, back) / size
            words = words or f"{model.tree_.n_leaves} local experts"
            search.stages.append(
                Stage("all rows", words, m, min(atoms, m), np.nan, error, time.monotonic() - began)
            )

        expect(searching, len(kernels))
        job.begin("one model")
        every = np.arange(len(y))
        blend = KernelBlend(kernels, max_atoms=max_atoms, rounds=0, search_atoms=few)
        spare = max(0, len(y) - enough_rows(atoms))
        left_out = rng.permutation(np.flatnonzero(~back))[:spare] if spare else every[:0]
        tried(blend, words_of(kernels), atoms, np.setdiff1d(every, left_out))
        if n > WHOLE * leaf_rows and search.left() > n / ROWS_OF_A_SEARCH * searching:
            job.begin("local experts")
            leaf = KernelBlend(
                _heaviest(models[0]),
                max_atoms=max_atoms,
                rounds=1,
                search_atoms=min(few, LEAF_SEARCH_ATOMS),
            )
            experts_of = LocalExperts(leaf, leaf_rows=leaf_rows, split_kernel=kernels[0])
            tried(experts_of, "", atoms_for(leaf_rows, max_atoms), every)
        elif n > WHOLE * leaf_rows:
            search.limits.append("time_budget was too short for local experts, which often pay with so many rows")
        boosted, growing = grown_trees()
    if boosted is not None:
        values.append(boosted.back_values)
        rounds = sum(boosted.steps)
        said = coded_chances(values[-1]) if classes else values[-1]
        error = _error(said, y[back], weight, back) / size
        search.stages.append(Stage("all rows", f"{rounds} {BOOSTED}", boosted.rows, 0, np.nan, error, growing))
    elif trees and np.count_nonzero(~back) >= FEWEST_ROWS:
        search.limits.append("there are no boosted trees: some class has no row beside those that are held out")
    mean = np.average(y[~back], axis=0, weights=None if weight is None else weight[~back])
    beside = None if weight is None else weight[back]
    mixed = (added_up if classes else averaged)(values, y[back], mean, beside)
    shares = mixed.shares
    kept = len(search.stages) - len(values)
    for place, share in enumerate(mixed.told[:-1]):
        search.stages[kept + place] = replace(search.stages[kept + place], weight=float(share))
    tree = SplitTree.single(X.shape[1])
    experts: list[list[Expansion]] = [[]]
    everywhere = [one.times(float(shares[0])) for one in models[0].expansions_] if shares[0] else []
    if len(models) > 1 and shares[1]:
        tree = models[1].tree_
        experts = [[one.times(float(shares[1])) for one in expert] for expert in models[1].experts_]
    grown = boosted.trees.times(float(shares[-2])) if boosted is not None and shares[-2] else None
    if shares[-1] or not (everywhere or any(experts)):
        everywhere.append(constant(X, float(shares[-1]) * mean))
    sizes = map(len, [*everywhere, *(one for expert in experts for one in expert)])
    error = _error(mixed.said, y[back], weight, back) / size
    search.stages.append(Stage("mixture", "all of these, by their weights", n, sum(sizes), np.nan, error, 0.0, 1.0))
    say_limits(search, found, mixed.told)
    spread, scores = spread_of(found[0].kernel, X[back], y[back] - mixed.said, seed)
    slopes = gradient_product(found[0].kernel, tuning.atoms, found[0].coef, tuning.X[:4000], full=False)
    slopes *= mixed.told[-1] < 1.0  # a constant does not depend on any column
    return Composed(
        tree,
        experts,
        everywhere,
        grown,
        spread,
        scores,
        mixed.back_scores,
        np.flatnonzero(back),
        np.asarray(slopes * X.var(axis=0)),
    )


def _searched(
    X: Array,
    y: Array,
    weight: Array | None,
    back: BoolArray,
    groups: IntArray | None,
    rng: np.random.Generator,
    search: Search,
    size: float,
    job: Job,
    atoms: int,
) -> tuple[list[Trial], Held]:
    """Return the promising kernels, the best first, tuned on a part of the rows."""
    job.begin("kernels and metrics")
    some = np.concatenate(
        [
            rng.permutation(np.flatnonzero(~back))[:SEARCH_ROWS],
            rng.permutation(np.flatnonzero(back))[: SEARCH_ROWS // 4],
        ]
    )
    held = Held.split(X[some], y[some], None if weight is None else weight[some], atoms, rng, back[some])

    over: list[Any] = []

    def at(kernel: Any) -> tuple[Trial, float] | None:
        if kernel is not DEFAULT_KERNELS[0] and not search.left() > 0.0:
            return None
        began = time.monotonic()
        found = tuned(kernel, held, groups, left=search.left)
        over.append(kernel)
        job.reach(len(over) / len(DEFAULT_KERNELS))
        return found, time.monotonic() - began

    tried = [one for one in engine.map_ordered(at, DEFAULT_KERNELS) if one is not None]
    if len(tried) < len(DEFAULT_KERNELS):
        search.limits.append(f"time_budget ended the search after {len(tried)} of {len(DEFAULT_KERNELS)} kernels")
    for trial, seconds in tried:
        error = float(np.sqrt(trial.error)) / size
        search.stages.append(
            Stage("search", words_of([trial.kernel]), len(held.X), held.n_atoms, trial.alpha, error, seconds)
        )
    found = sorted((trial for trial, _ in tried), key=lambda trial: trial.error)
    promising = [trial for trial in found if trial.error <= PROMISING * found[0].error]
    return promising, held


def _heaviest(model: KernelBlend) -> list[Any]:
    """Return the kernels that have the largest weights in a blend, :data:`LEAF_KERNELS` at most."""
    order = np.argsort(-model.weights_, kind="stable")[:LEAF_KERNELS]
    return [model.kernels_[place] for place in order]


def _in_place(model: KernelBlend, n: int) -> Array:
    """Return what a model said of the held-out rows, at their places among all rows."""
    out = np.full((n, model.back_values_.shape[1]), np.nan)
    out[model.back_] = model.back_values_
    return out


def _error(said: Array, y: Array, weight: Array | None, back: BoolArray) -> float:
    squares = np.square(y - said).sum(axis=1)
    return float(np.sqrt(np.average(squares, weights=None if weight is None else weight[back])))


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
