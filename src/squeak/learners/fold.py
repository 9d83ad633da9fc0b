"""One composition of rows in memory: kernels, local experts and trees, chosen on rows that are held out.

Every choice is made on the same rows, which are held out from the fits that are compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.progress import Job
from squeak.core.types import Array, BoolArray, IntArray
from squeak.learners.blend import DEFAULT_KERNELS, KernelBlend, atoms_for
from squeak.learners.boosting import FEWEST_ROWS, Boosted, coded_chances
from squeak.learners.choice import Costs
from squeak.learners.data import SourceTraining
from squeak.learners.expansion import Expansion
from squeak.learners.experts import LocalExperts
from squeak.learners.grown import Trees
from squeak.learners.leaf_passes import enough_rows
from squeak.learners.metric import Held, Trial, gradient_product, tuned
from squeak.learners.mixed import Mixed, added_up, averaged
from squeak.learners.regions import HeldOut
from squeak.learners.splits import SplitTree
from squeak.learners.spread import constant
from squeak.learners.tried import BOOSTED, Search, Stage, say_limits, words_of

SEARCH_ROWS, SEARCH_ATOMS = 8_000, 600
"""Rows and atoms with which kernels and metrics are searched for."""

BACK = 0.15
"""The part of the rows that is held out."""

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

MOST_FOLDS, ROWS_OF_FOLDS = 4, 16_000
"""A table without local experts is learned in so many folds at most, which have so many rows together at most."""


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


@dataclass(frozen=True)
class Problem:
    """Rows in memory, what is asked of them, and the limits of the model."""

    X: Array
    y: Array
    """Targets as columns; classes are coded as −1 and 1."""
    weight: Array | None
    groups: IntArray | None
    """Columns with one number share a width."""
    classes: bool
    trees: bool
    """Whether boosted trees may be a part of the model."""
    max_atoms: int | None
    leaf_rows: int
    folds: int | None = None
    """As many as the rows are worth, where nobody says."""
    beyond: Beyond | None = None
    """All rows, where those in memory are a sample of them."""

    @property
    def n(self) -> int:
        """The number of all rows."""
        return len(self.y) if self.beyond is None else self.beyond.n

    @cached_property
    def size(self) -> float:
        """The root of the targets' variance, summed over outputs: errors are told as parts of it."""
        centred = self.y - np.average(self.y, axis=0, weights=self.weight)
        return float(np.sqrt(np.average(np.square(centred), axis=0, weights=self.weight).sum()))

    def error(self, said: Array, back: Any) -> float:
        """Return the root of the mean squared error on some rows, as a part of :attr:`size`."""
        squares = np.square(self.y[back] - said).sum(axis=1)
        weights = None if self.weight is None else self.weight[back]
        return float(np.sqrt(np.average(squares, weights=weights))) / self.size


@dataclass(frozen=True)
class Fold:
    """A model whose choices were made on some held-out rows and which was then fitted to all rows."""

    tree: SplitTree
    experts: list[list[Expansion]]
    """Of every leaf; empty lists where functions of all rows are the whole model."""
    everywhere: list[Expansion]
    trees: Trees | None
    back: IntArray
    """The numbers of the held-out rows."""
    values: list[Array]
    """What each of its models said of them before it had seen them."""
    mixed: Mixed
    """How these models are mixed."""
    kernel: Any
    """The best one of the search."""
    slopes: Array
    """Mean squared slope along every column times its variance, shape (d,)."""


def leaf_of(n: int, leaf_rows: int | None) -> int:
    """Return how many of n rows a leaf has at most."""
    return leaf_rows or (LEAF if n <= MANY_ROWS else LEAF_OF_MANY)


def folds_of(n: int, leaf_rows: int, folds: int | None) -> int:
    """Return in how many folds n rows are learned: one where there are local experts, else as many as are given."""
    if n > WHOLE * leaf_rows:
        return 1
    return max(1, min(n // 3, folds or min(MOST_FOLDS, ROWS_OF_FOLDS // n)))


def composed_on(
    problem: Problem,
    back: BoolArray,
    rng: np.random.Generator,
    seed: int,
    search: Search,
    job: Job,
    place: tuple[int, int] = (0, 1),
) -> Fold:
    """Choose a model on the rows that are held out, and fit it to all.

    Parameters
    ----------
    problem : Problem
    back : array of bool of shape (n,)
        The rows that are held out.
    rng : Generator
    seed : int
    search : Search
        Takes down what is tried.
    job : Job
        Told of every stage, and of the part of it that is done.
    place : tuple of int
        The number of the fold, from 0 on, and how many folds there are.

    Returns
    -------
    Fold
    """
    X, y, weight, n, beyond = problem.X, problem.y, problem.weight, problem.n, problem.beyond
    held = None if beyond is None else beyond.held_out(int(np.count_nonzero(back)))
    few = min(SEARCH_ATOMS, problem.max_atoms or SEARCH_ATOMS)
    atoms = atoms_for(n, problem.max_atoms)
    large = n > WHOLE * problem.leaf_rows

    def expect(searching: float, kernels: int) -> None:
        one = kernels * Costs.of(len(y), atoms, X.shape[1], False, 0.0).direct / engine.thread_count()
        experts = {"local experts": n / ROWS_OF_A_SEARCH * searching} if large else {}
        stages = {"kernels and metrics": searching, "one model": one, **experts}
        later = range(place[0], place[1])
        job.expect({named(stage, number): took for number in later for stage, took in stages.items()})

    def named(stage: str, number: int = place[0]) -> str:
        return stage if place[1] == 1 else f"fold {number + 1}: {stage}"

    expect(A_SEARCH * min(n, SEARCH_ROWS) / SEARCH_ROWS, 2)

    def boost(ended: Callable[[], bool]) -> tuple[Boosted | None, float]:
        began = time.monotonic()
        grown = Boosted.search(X, y, weight, back, problem.classes, seed, ended) if problem.trees else None
        return grown, time.monotonic() - began

    job.begin(named("kernels and metrics"))
    with engine.beside(boost) as grown_trees:
        found, tuning = _searched(problem, back, rng, search, job, few)
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
                weights = None if weight is None else weight[some]
                model.fit(X[some], y[some], weights, back=back[some], groups=problem.groups)
                said = model.back_values_ if isinstance(model, LocalExperts) else _in_place(model, len(some))
                values.append(said[back[some]])
                m = len(some)
            else:
                assert held is not None
                model.fit(beyond.data, back=held, groups=problem.groups)
                values.append(model.back_values_[np.searchsorted(held.told, beyond.numbers[back])])
                m = n
            words = words or f"{model.tree_.n_leaves} local experts"
            error = problem.error(values[-1], back)
            search.stages.append(
                Stage("all rows", words, m, min(atoms, m), np.nan, error, time.monotonic() - began)
            )

        expect(searching, len(kernels))
        job.begin(named("one model"))
        every = np.arange(len(y))
        blend = KernelBlend(kernels, max_atoms=problem.max_atoms, rounds=0, search_atoms=few)
        spare = max(0, len(y) - enough_rows(atoms))
        left_out = rng.permutation(np.flatnonzero(~back))[:spare] if spare else every[:0]
        tried(blend, words_of(kernels), atoms, np.setdiff1d(every, left_out))
        if large and search.left() > n / ROWS_OF_A_SEARCH * searching:
            job.begin(named("local experts"))
            leaf = KernelBlend(
                _heaviest(models[0]),
                max_atoms=problem.max_atoms,
                rounds=1,
                search_atoms=min(few, LEAF_SEARCH_ATOMS),
            )
            experts_of = LocalExperts(leaf, leaf_rows=problem.leaf_rows, split_kernel=kernels[0])
            tried(experts_of, "", atoms_for(problem.leaf_rows, problem.max_atoms), every)
        elif large:
            search.limits.append("time_budget was too short for local experts, which often pay with so many rows")
        boosted, growing = grown_trees()
    if boosted is not None:
        values.append(boosted.back_values)
        rounds = sum(boosted.steps)
        error = problem.error(coded_chances(values[-1]) if problem.classes else values[-1], back)
        search.stages.append(Stage("all rows", f"{rounds} {BOOSTED}", boosted.rows, 0, np.nan, error, growing))
    elif problem.trees and np.count_nonzero(~back) >= FEWEST_ROWS:
        search.limits.append("there are no boosted trees: some class has no row beside those that are held out")
    mean = np.average(y[~back], axis=0, weights=None if weight is None else weight[~back])
    beside = None if weight is None else weight[back]
    mixed = (added_up if problem.classes else averaged)(values, y[back], mean, beside)
    shares = mixed.shares
    for line, share in enumerate(mixed.told[:-1], len(search.stages) - len(values)):
        search.stages[line] = replace(search.stages[line], weight=float(share))
    tree = SplitTree.single(X.shape[1])
    experts: list[list[Expansion]] = [[]]
    everywhere = [one.times(float(shares[0])) for one in models[0].expansions_] if shares[0] else []
    if len(models) > 1 and shares[1]:
        tree = models[1].tree_
        experts = [[one.times(float(shares[1])) for one in expert] for expert in models[1].experts_]
    grown = boosted.trees.times(float(shares[-2])) if boosted is not None and shares[-2] else None
    if shares[-1] or not (everywhere or any(experts)):
        everywhere.append(constant(X, float(shares[-1]) * mean))
    say_limits(search, found, mixed.told)
    slopes = gradient_product(found[0].kernel, tuning.atoms, found[0].coef, tuning.X[:4000], full=False)
    slopes *= mixed.told[-1] < 1.0  # a constant does not depend on any column
    slopes = np.asarray(slopes * X.var(axis=0))
    return Fold(tree, experts, everywhere, grown, np.flatnonzero(back), values, mixed, found[0].kernel, slopes)


def _searched(
    problem: Problem, back: BoolArray, rng: np.random.Generator, search: Search, job: Job, atoms: int
) -> tuple[list[Trial], Held]:
    """Return the promising kernels, the best first, tuned on a part of the rows."""
    some = np.concatenate(
        [
            rng.permutation(np.flatnonzero(~back))[:SEARCH_ROWS],
            rng.permutation(np.flatnonzero(back))[: SEARCH_ROWS // 4],
        ]
    )
    weight = None if problem.weight is None else problem.weight[some]
    held = Held.split(problem.X[some], problem.y[some], weight, atoms, rng, back[some])

    over: list[Any] = []

    def at(kernel: Any) -> tuple[Trial, float] | None:
        if kernel is not DEFAULT_KERNELS[0] and not search.left() > 0.0:
            return None
        began = time.monotonic()
        found = tuned(kernel, held, problem.groups, left=search.left)
        over.append(kernel)
        job.reach(len(over) / len(DEFAULT_KERNELS))
        return found, time.monotonic() - began

    tried = [one for one in engine.map_ordered(at, DEFAULT_KERNELS) if one is not None]
    if len(tried) < len(DEFAULT_KERNELS):
        search.limits.append(f"time_budget ended the search after {len(tried)} of {len(DEFAULT_KERNELS)} kernels")
    for trial, seconds in tried:
        error = float(np.sqrt(trial.error)) / problem.size
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
