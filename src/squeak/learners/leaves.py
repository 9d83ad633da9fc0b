"""What local experts are made of: where the space is split, and the model of one part, which any worker can fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from squeak.core.kernels import RBF, resolve
from squeak.core.seeds import SAMPLE, draw_seed, generator_at
from squeak.core.types import Array, IntArray
from squeak.learners.blend import KernelBlend
from squeak.learners.classes import Coding
from squeak.learners.data import ArrayTraining
from squeak.learners.expansion import Expansion, total
from squeak.learners.metric import Held, gradient_product, tuned
from squeak.learners.splits import SplitTree
from squeak.learners.told import without
from squeak.samplers.base import own_kernel

SPLIT_ROWS, SPLIT_ATOMS = 4000, 400
"""Rows and atoms of the small model whose slopes tell where a node is split."""

ODDS_ROWS = 1000
"""Rows of a leaf at most by which its probabilities are calibrated: these are a few numbers."""

DIRECTIONS = 4
"""Directions that are tried before rows are left in one leaf."""


def shared(tree: SplitTree, experts: list[list[Expansion]], X: Array) -> Array:
    """Return Σ over leaves of their share times their expert's value, for every row.

    Parameters
    ----------
    tree : SplitTree
    experts : list of lists of expansions
    X : array of shape (n, d)

    Returns
    -------
    array of shape (n, outputs)
    """
    out = np.zeros((len(X), experts[0][0].coef.shape[1]))
    for (rows, share), expert in zip(tree.shares(X), experts, strict=True):
        if len(rows):
            out[rows] += share[:, None] * total(expert, X[rows])
    return out


@dataclass(frozen=True)
class Slopes:
    """Where the target changes most among some rows, by a small model of them."""

    X: Array
    y: Array
    weight: Array | None
    kernel: Any
    seed: int

    @classmethod
    def of(cls, data: ArrayTraining, classes: Any, kernel: Any, seed: int) -> Slopes:
        """Return the slopes of rows whose targets are numbers or, where they are told, classes."""
        y = data.y.reshape(len(data.y), -1) if classes is None else Coding(classes, -1.0)(data.y)
        return cls(np.asarray(data.X, dtype=np.float64), y, data.weight, kernel, seed)

    def directions(self, rows: IntArray, turns: tuple[int, ...]) -> Array:
        """Return the first eigenvectors of G = (1/n) Σ ∇f ∇fᵀ over some of the rows, the largest first.

        The largest entry of each is positive: libraries of linear algebra differ in the signs that they choose.
        """
        rng = generator_at(self.seed, SAMPLE, 1, *turns)
        some = rng.permutation(rows)[:SPLIT_ROWS]
        held = Held.split(
            self.X[some], self.y[some], None if self.weight is None else self.weight[some], SPLIT_ATOMS, rng
        )
        trial = tuned(self.kernel, held, rounds=0)
        G = gradient_product(trial.kernel, held.atoms, trial.coef, held.X[: SPLIT_ROWS // 2])
        found = np.linalg.eigh(G)[1].T[::-1][:DIRECTIONS]
        largest = np.take_along_axis(found, np.abs(found).argmax(axis=1)[:, None], axis=1)
        return np.asarray(found * np.sign(largest))


@dataclass(frozen=True)
class Task:
    """What the expert of a leaf is fitted to; travels to a worker with the rows of the leaf alone."""

    estimator: Any
    data: ArrayTraining
    by_row: dict[str, Any]
    beside: dict[str, Any]
    rows: IntArray
    classes: Any
    seed: int
    leaf: int
    told: Array | None = None
    """Of which rows it is told what a model says that can leave a row out afterwards."""

    def __reduce__(self) -> Any:
        data, rows = self.data, self.rows
        some = ArrayTraining(data.X[rows], data.y[rows], None if data.weight is None else data.weight[rows])
        given = {name: values[rows] for name, values in self.by_row.items()}
        told, places = None if self.told is None else self.told[rows], np.arange(len(rows))
        return Task, (self.estimator, some, given, self.beside, places, self.classes, self.seed, self.leaf, told)


def with_width(estimator: Any, X: Array, rows: IntArray) -> Any:
    """Return the estimator of a leaf; where its rows are all alike and tell no width, with one from all rows."""
    if isinstance(estimator, KernelBlend) or (X[rows] != X[rows[0]]).any() or (X[0] == X).all():
        return estimator
    return clone(estimator).set_params(kernel=resolve(own_kernel(estimator.kernel), X))


@dataclass(frozen=True)
class Odds:
    """How the log odds of classes are made of an expert's scores: slope·score + offsets."""

    slope: float
    offsets: Array
    """One for two classes, else one for each class."""


class Fitted(NamedTuple):
    """What a task returns of its leaf."""

    expert: list[Expansion]
    """The functions whose sum the leaf's model is."""
    places: IntArray
    """Rows of which it is told what the model said without them: those that it held out, or those of the task."""
    values: Array
    """What it said of them."""
    odds: Odds | None
    """Of classes by the squared loss, how log odds are made of scores."""


def fitted(task: Task) -> Fitted:
    """Return the expert of a leaf, and what it said of rows without them."""
    rows, data = task.rows, task.data
    X, y = data.X[rows], data.y[rows]
    weight = None if data.weight is None else data.weight[rows]
    known = None if task.classes is None else np.unique(y)
    none = np.zeros(0, dtype=np.int64), np.zeros((0, 1))
    if known is not None and len(known) == 1:
        scores, odds = Coding(task.classes, -1.0)(known)[0], None
        sure = _of_one_class(scores, len(rows))
        if _logistic(task):
            scores = sure.offsets
        else:
            odds = sure
        part = Expansion(RBF(1.0), X[:1].astype(np.float64), np.zeros((1, len(scores))), scores)
        return Fitted([part], *none, odds)
    model = clone(task.estimator)
    model.set_params(random_state=draw_seed(generator_at(task.seed, SAMPLE, 2, task.leaf)) % 2**32)
    given = {name: values[rows] for name, values in task.by_row.items()} | task.beside
    if weight is not None:
        given["sample_weight"] = weight
    model.fit(X, y, **given)
    if isinstance(model, KernelBlend):
        return Fitted(model.expansions_, model.back_, model.back_values_, None)
    part = Expansion.of(model)
    some = none[0] if task.told is None or known is not None else np.flatnonzero(task.told[rows])
    values = without(model, X, y, weight, some) if len(some) else None
    if values is not None:
        return Fitted([part], some, values, None)
    if known is None:
        return Fitted([part], *none, None)
    odds = None
    if not _logistic(task):
        found = model.calibration_.of_some(ODDS_ROWS, generator_at(task.seed, SAMPLE, 3, task.leaf))
        odds = _with_missing(Odds(found.slope, found.offsets), known, task.classes, len(rows))
    return Fitted([_for_classes(part, known, task, len(rows))], *none, odds)


def scores_of(classes: Any) -> int:
    """Return how many scores tell the classes apart: one for two, else one for each."""
    return 1 if len(classes) == 2 else len(classes)


def _logistic(task: Task) -> bool:
    return bool(getattr(task.estimator, "loss", "squared") == "logistic")


def _for_classes(part: Expansion, known: Any, task: Task, n: int) -> Expansion:
    """Return scores of the classes of a leaf as scores of all classes.

    Those that the leaf's n rows do not hold have −1, or with the logistic loss odds of 1 to n + 1.
    """
    classes = task.classes
    if len(known) == len(classes):
        return part
    missing = -float(np.log(n + 1.0)) if _logistic(task) else -1.0
    coef, intercept = np.zeros((len(part), len(classes))), np.full(len(classes), missing)
    places = np.searchsorted(classes, known)
    side = 0.5 if _logistic(task) else 1.0  # one score s of two classes is −s/2 against s/2 to the softmax
    signs = (side * np.array([-1.0, 1.0]), [0, 0]) if len(known) == 2 else (np.ones(len(known)), range(len(known)))
    coef[:, places] = part.coef[:, signs[1]] * signs[0]
    intercept[places] = part.intercept[signs[1]] * signs[0]
    return Expansion(part.kernel, part.atoms, coef, intercept)


def _of_one_class(scores: Array, n: int) -> Odds:
    """Return the log odds of a leaf whose n rows are all of one class: n + 1 to 1 against each other (Laplace).

    ``scores``: of the classes, 1 and −1.
    """
    return Odds(0.0, scores * float(np.log(n + 1.0)) / (1.0 if len(scores) == 1 else 2.0))


def _with_missing(odds: Odds, known: Any, classes: Any, n: int) -> Odds:
    """Return the log odds of all classes from those of the classes that a leaf's n rows hold.

    The log odds of these add up to 0, and each other class has −log(n + 1). The scores of all classes are those of
    the classes of the leaf, −s and s for a single score s, and −1 for each other class.
    """
    if len(known) == len(classes):
        return odds
    two, places = len(known) == 2, np.searchsorted(classes, known)
    slope = odds.slope / 2.0 if two else odds.slope
    offsets = np.full(len(classes), slope - float(np.log(n + 1.0)))
    if two:
        offsets[places] = odds.offsets[0] / 2.0 * np.array([-1.0, 1.0])
    else:  # the scores of k classes, one against the rest, add up to 2 − k
        offsets[places] = odds.offsets - odds.offsets.mean() + slope * (len(known) - 2.0) / len(known)
    return Odds(slope, offsets)
