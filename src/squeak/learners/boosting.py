"""Boosted trees as a part of a blend: they follow steps and thresholds, where kernels are smooth.

scikit-learn grows the trees. What is kept of them are arrays, so that a model is saved as data and its answers do
not depend on the version of scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from threadpoolctl import threadpool_limits

from squeak.core.seeds import SAMPLE, generator_at
from squeak.core.types import Array, BoolArray, IntArray
from squeak.learners.grown import Trees

STEPS, MOST_TREES, MOST_NUMBERS = 960, 3_000, 2e9
"""Rounds of boosting at most, and trees at most: a round has one for each class of many, and every output has
rounds of its own. And the numbers of the table that all trees look at, at most: rows times columns times trees."""

SMALL, SMALL_STEPS = 2_000, 240
"""With fewer rows there are fewer rounds: most of their time would be spent outside of the rows."""

RATE, FAST_RATE = 0.05, 0.1
"""The learning rate, and that of fewer rounds. With larger ones the trees of many classes diverge."""

FIRST_STEPS, GROWTH, LAST = 60, 2, 0.8
"""Rounds that are tried first (fewer where very many classes would make more than :data:`MOST_TREES`), and by
how much they grow while the error is least after this part of them."""

DEPTH, LEAVES = 8, 64
"""Splits between the root of a tree and a leaf at most, and leaves of a tree at most."""

COLUMNS = 0.5
"""The part of the columns that each split may choose from: trees that differ make a better sum."""

FEWEST_ROWS, MOST_ROWS = 100, 200_000
"""With fewer rows to learn from there are no trees, and of more than the second number so many are drawn."""


def coded_chances(logits: Array) -> Array:
    """Return 2·p − 1 for the probabilities p of the second of two classes, or of every one of more."""
    return np.asarray(2.0 * (expit(logits) if logits.shape[1] == 1 else softmax(logits, axis=1)) - 1.0)


@dataclass(frozen=True)
class Boosted:
    """Trees of all rows, the rounds of boosting that they took, and what trees of fewer rows say of the others.

    Parameters
    ----------
    trees : Trees
    steps : list of int
        For every model, the rounds of least squared error on the held-out rows.
    back_values : array of shape (held-out rows, outputs)
        What models that have not seen them say of the held-out rows; of classes, the logits of probabilities.
    rows : int
        How many rows the trees have learned from.
    """

    trees: Trees
    steps: list[int]
    back_values: Array
    rows: int

    @classmethod
    def search(
        cls,
        X: Array,
        y: Array,
        weight: Array | None,
        back: BoolArray,
        classes: bool,
        seed: int,
        ended: Callable[[], bool] = lambda: False,
    ) -> Boosted | None:
        """Return trees after as many rounds as serve the held-out rows best.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n, outputs)
        weight : array of shape (n,), optional
        back : array of bool of shape (n,)
            The rows that are held out.
        classes : bool
            Whether the targets are classes: one column of −1 and 1 for two of them, and a column for each of more.
        seed : int
        ended : function
            Tells whether nobody wants the trees any more.

        Returns
        -------
        Boosted, or None
            None where there are too few rows to learn from, or none of some class, or nobody wants the trees.
        """
        fit = np.flatnonzero(~back)
        if len(fit) < FEWEST_ROWS or (classes and not _all_classes(y[fit])):
            return None
        every, targets = np.arange(len(X)), _targets(y, classes)
        if len(fit) > MOST_ROWS:
            fit = _drawn(fit, targets[0] if classes else None, seed)
            every = np.sort(np.append(fit, np.flatnonzero(back)))
        models, steps, said = [], [], []
        # One thread: those of OpenMP wait for each other without rest, and crawl where others use the cores.
        with threadpool_limits(1, user_api="openmp"):
            for output, target in enumerate(targets):
                truth = y[back] if classes else y[back][:, [output]]
                rounds, values = _rounds(
                    _model(y[every], X.shape[1], classes, seed), X, target, weight, fit, back, truth, ended
                )
                if ended():
                    return None
                model = _model(y[every], X.shape[1], classes, seed).set_params(max_iter=rounds)
                models.append(_fitted(model, X, target, weight, every))
                steps.append(rounds)
                said.append(values)
            trees = _centred(_arrays(models, X[every[:1]]), X[every])
            _check(trees, models, X[every[:100]])
        return cls(trees, steps, np.concatenate(said, axis=1), len(every))


def _model(y: Array, columns: int, classes: bool, seed: int) -> Any:
    """Return boosted trees of scikit-learn, for so many rows and columns, that have not been fitted."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    trees = min(float(MOST_TREES), MOST_NUMBERS / (len(y) * columns)) / y.shape[1]
    fewest = max(1, min(FIRST_STEPS, MOST_TREES // y.shape[1]))
    steps = max(fewest, min(STEPS if len(y) >= SMALL else SMALL_STEPS, int(trees)))
    return kind(
        learning_rate=RATE if steps == STEPS else FAST_RATE,
        max_iter=steps,
        max_leaf_nodes=LEAVES,
        max_depth=DEPTH,
        max_features=COLUMNS,
        early_stopping=False,
        random_state=seed % 2**32,
    )


def _targets(y: Array, classes: bool) -> list[Array]:
    """Return the targets of every model: classes have one model, and outputs one each."""
    if not classes:
        return list(y.T)
    return [(y[:, 0] > 0).astype(np.int64) if y.shape[1] == 1 else y.argmax(axis=1)]


def _drawn(rows: IntArray, classes: Array | None, seed: int) -> IntArray:
    """Return :data:`MOST_ROWS` of some rows, and with them a row of each class that would be lost; in order."""
    order = rows[generator_at(seed, SAMPLE, 12).permutation(len(rows))]
    first = order[:0] if classes is None else order[np.unique(classes[order], return_index=True)[1]]
    return np.union1d(order[:MOST_ROWS], first)


def _all_classes(y: Array) -> bool:
    """Return whether each class has a row."""
    return bool((y.max(axis=0) > 0).all() and (y.min(axis=0) < 0).all())


def _fitted(model: Any, X: Array, target: Array, weight: Array | None, rows: IntArray) -> Any:
    return model.fit(X[rows], target[rows], sample_weight=None if weight is None else weight[rows])


def _rounds(
    model: Any,
    X: Array,
    target: Array,
    weight: Array | None,
    fit: IntArray,
    back: BoolArray,
    truth: Array,
    ended: Callable[[], bool],
) -> tuple[int, Array]:
    """Return the rounds of least squared error on the held-out rows, and what the model says of these then.

    The rounds grow as long as the last of them lower the error.
    """
    most, rounds = model.max_iter, min(FIRST_STEPS, model.max_iter)
    model.set_params(warm_start=True)
    beside = None if weight is None else weight[back]
    while True:
        _fitted(model.set_params(max_iter=rounds), X, target, weight, fit)
        best, values = _best(model, X[back], truth, beside)
        if best < LAST * rounds or rounds >= most or ended():
            return best, values
        rounds = min(GROWTH * rounds, most)


def _best(model: Any, X: Array, truth: Array, weight: Array | None) -> tuple[int, Array]:
    """Return the rounds of least squared error on some rows, and what the model says of them then."""
    least, best, values = np.inf, 0, np.zeros_like(truth)
    classes = hasattr(model, "staged_decision_function")
    for step, said in enumerate(model.staged_decision_function(X) if classes else model.staged_predict(X), 1):
        said = said.reshape(truth.shape)
        off = (coded_chances(said) if classes else said) - truth
        error = float(np.average(np.square(off).sum(axis=1), weights=weight))
        if error < least:
            least, best, values = error, step, said
    return best, np.asarray(values)


def _check(trees: Trees, models: Sequence[Any], X: Array) -> None:
    """Raise an error unless trees say the same as the models that they were taken from."""
    if not np.allclose(trees.values(X), _raw(models, X), rtol=1e-6, atol=1e-9):
        raise RuntimeError("this version of scikit-learn keeps trees in a form that squeak does not know")


def _centred(trees: Trees, X: Array) -> Trees:
    """Return trees with every threshold in the middle between the two values of its column that it is between.

    The rows of the fit go the same ways. scikit-learn may put a threshold on a value, and then the last digit of a
    number that is computed in another order, by a program that runs an ONNX file for instance, decides.
    """
    threshold = trees.threshold.copy()
    split = trees.children[:, 0] != np.arange(len(threshold))
    for column in range(trees.columns):
        nodes = np.flatnonzero(split & (trees.feature == column))
        if len(nodes):
            values = np.unique(X[:, column])
            above = np.searchsorted(values, threshold[nodes], side="right")
            inner = (above > 0) & (above < len(values))
            threshold[nodes[inner]] = (values[above[inner] - 1] + values[above[inner]]) / 2.0
    return replace(trees, threshold=threshold)


def _raw(models: Sequence[Any], X: Array) -> Array:
    """Return the sums of the leaves of all models, before they become probabilities, shape (n, outputs)."""
    said = [getattr(model, "decision_function", model.predict)(X) for model in models]
    return np.concatenate([one.reshape(len(X), -1) for one in said], axis=1)


def _arrays(models: Sequence[Any], X: Array) -> Trees:
    """Return the trees of fitted models as arrays, those of one output beside each other; X is a row."""
    grown = [
        (tree.nodes, first + output)
        for first, steps in enumerate(model._predictors for model in models)
        for output in range(len(steps[0]))
        for tree in (step[output] for step in steps)
    ]
    raw = _raw(models, X)
    sizes = np.array([len(nodes) for nodes, _ in grown])
    roots = np.cumsum(sizes) - sizes
    nodes, offset = np.concatenate([nodes for nodes, _ in grown]), np.repeat(roots, sizes)
    leaf, places = nodes["is_leaf"].astype(bool), np.arange(len(nodes))
    children = np.stack([nodes["left"], nodes["right"]], axis=1).astype(np.int64) + offset[:, None]
    outputs = raw.shape[1]
    found = Trees(
        np.where(leaf, 0, nodes["feature_idx"]).astype(np.int64),
        np.where(leaf, 0.0, nodes["num_threshold"]),
        np.where(leaf[:, None], places[:, None], children),
        np.where(leaf, nodes["value"], 0.0),
        roots.astype(np.int64),
        np.array([output for _, output in grown], dtype=np.int64),
        np.zeros(outputs),
        np.ones(outputs),
        X.shape[1],
    )
    return replace(found, baseline=(raw - found.values(X))[0])
