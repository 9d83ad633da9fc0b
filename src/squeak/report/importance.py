"""How much each column matters: by the model's gradient, and by what is lost when its values are exchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core.checks import check_whole
from squeak.core.progress import progress
from squeak.core.rows import take
from squeak.core.seeds import ORDER, SAMPLE, RandomState, draw_seed, generator_at
from squeak.core.types import Array, Rows
from squeak.data import Block
from squeak.report.given import Given, column_names, has_targets, preprocessing_of, read_given


def spans_of(model: Any, given: Given) -> list[tuple[str, slice]]:
    """Return the user's columns by name, with the places of the numbers that each became."""
    encoding = preprocessing_of(model)
    width = int(given.X.shape[1])
    names = column_names(model, given) or [f"column {place}" for place in range(width)]
    spans = [slice(place, place + 1) for place in range(width)]
    if encoding is not None:
        spans = [span for _, span in encoding.spans()]
    return list(zip(names, spans, strict=True))


def looked_at(model: Any, X: Any, y: Any, max_rows: int, random_state: RandomState) -> tuple[Given, int]:
    """Return the rows to look at, as the model's kernel takes them, and the seed."""
    check_whole("max_rows", max_rows)
    if not has_targets(model):
        raise TypeError(f"a {type(model).__name__} predicts nothing, so there is nothing to explain")
    given, seed = X if isinstance(X, Given) else read_given(model, X, y), draw_seed(random_state)
    if given is None or isinstance(given.X, list):
        raise TypeError("columns are explained of rows that are tables of numbers")
    if given.n > max_rows:
        some = np.sort(generator_at(seed, ORDER).permutation(given.n)[:max_rows])
        given = Given(
            take(given.X, some),
            None if given.y is None else np.asarray(given.y)[some],
            given.whole,
            given.skipped,
            given.names,
        )
    return given, seed


def score_of(model: Any, y: Any) -> tuple[Callable[[Rows], float], str]:
    """Return the function from encoded rows to the score of their predictions, and its name."""
    from sklearn.metrics import accuracy_score, r2_score

    if hasattr(model, "classes_"):
        truth = y.astype(str)
        return lambda X: float(accuracy_score(truth, np.asarray(model.predict(Block(X))).astype(str))), "accuracy"
    truth = y.astype(np.float64)
    return lambda X: float(r2_score(truth, model.predict(Block(X)))), "R²"


def answers_of(model: Any) -> tuple[Callable[[Rows], Array], tuple[str, ...]]:
    """Return the function from encoded rows to numbers, shape (n, outputs), and the outputs' names if known."""
    if not hasattr(model, "classes_"):
        return lambda X: _columns(model.predict(Block(X))), ()
    names = tuple(map(str, model.classes_))
    if hasattr(model, "predict_proba"):
        if len(names) == 2:
            return lambda X: np.asarray(model.predict_proba(Block(X)))[:, 1:], names[1:]
        return lambda X: np.asarray(model.predict_proba(Block(X))), names
    return lambda X: _columns(model.decision_function(Block(X))), names[1:] if len(names) == 2 else names


def _columns(values: Any) -> Array:
    values = np.asarray(values, dtype=np.float64)
    return np.asarray(values.reshape(len(values), -1))


def dense(X: Rows) -> Array:
    """Return rows as a dense array."""
    return np.asarray(X.toarray() if sp.issparse(X) else X)


def replaced(X: Rows, span: slice, values: Rows) -> Rows:
    """Return rows with the numbers of one column replaced."""
    if sp.issparse(X):
        return sp.csr_array(sp.hstack([X[:, : span.start], sp.csr_array(values), X[:, span.stop :]]))
    moved = np.array(X)
    moved[:, span] = values
    return moved


def permuted(X: Rows, spans: Sequence[slice], order: Any) -> Rows:
    """Return rows in which some columns have the values of other rows, all of them in the same order."""
    for span in spans:
        X = replaced(X, span, X[:, span][order])
    return X


TOGETHER = 0.8
"""Two columns whose ranks correlate by this or more move together."""

MOST_COMPARED = 2_000
"""Numbers of a row up to which it is asked which of them move together."""


@dataclass(frozen=True)
class Together:
    """Columns that move together, and what the score loses when all of them are permuted alike."""

    names: tuple[str, ...]
    correlation: float
    """The least rank correlation, in size, by which they were joined."""
    mean: float
    error: float


@dataclass(frozen=True)
class Importance:
    """What :func:`permutation_importance` found, the most important column first.

    Examples
    --------
    >>> import numpy as np, squeak
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> model = squeak.KernelRidge(max_atoms=50, random_state=0).fit(X, X[:, 1])
    >>> squeak.report.permutation_importance(model, X, X[:, 1], random_state=0).names
    ('column 1', 'column 0')
    """

    names: tuple[str, ...]
    means: Array
    """How much the score falls when the column is permuted, on average; shape (columns,)."""
    errors: Array
    """The standard errors of the means, over the permutations."""
    drops: Array
    """What every permutation cost; shape (columns, repeats)."""
    score: float
    """Of the rows as they are."""
    metric: str
    """``"R²"`` or ``"accuracy"``."""
    together: tuple[Together, ...]

    @property
    def caveat(self) -> str:
        """A sentence on the columns that move together; empty where none do."""
        told = "; ".join(
            f"{', '.join(group.names[:-1])} and {group.names[-1]} (rank correlation "
            f"{min(0.99, int(100 * group.correlation) / 100)} or more) cost {group.mean:.3g} ± {group.error:.1g}"
            f" of {self.metric} together"
            for group in self.together
        )
        return told and (
            "Columns that move together stand in for each other: permuting one of them alone costs less than it "
            f"matters, and makes rows that never occur. {told}."
        )


def relevance(model: Any) -> dict[str, float]:
    """Return how much each of the user's columns matters to a model by its gradient, the most relevant one first.

    The share of column j of Σ_j var(x_j)·E(∂f/∂x_j)², over the model's atoms (``relevance_``): how far predictions
    move with the column where the atoms are. It needs no rows and no targets.

    Parameters
    ----------
    model : fitted learner with ``relevance_``

    Returns
    -------
    dict of str to float
        By the columns' names; the shares add up to 1.

    References
    ----------
    Radhakrishnan, Beaglehole, Pandit, Belkin (2024): "Mechanism for feature learning in neural networks and
    backpropagation-free machine learning models", Science 383, for the average gradient outer product.

    Examples
    --------
    >>> import numpy as np, squeak
    >>> X = np.random.default_rng(0).standard_normal((500, 3))
    >>> model = squeak.KernelRidge(max_atoms=50, random_state=0).fit(X, np.sin(X[:, 1]))
    >>> next(iter(squeak.report.relevance(model)))
    'column 1'
    """
    shares = np.asarray(model.relevance_, dtype=np.float64)
    names = column_names(model) or [f"column {place}" for place in range(len(shares))]
    return {names[place]: float(shares[place]) for place in np.argsort(-shares, kind="stable")}


def permutation_importance(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    repeats: int = 5,
    max_rows: int = 2_000,
    random_state: RandomState = None,
    verbose: int = 0,
) -> Importance:
    """Return how much a model's score falls when the values of a column are exchanged between rows.

    The score is R² for numbers and accuracy for classes. A column of the user is permuted as a whole: all 0/1
    numbers that a category became move alike. Use rows that the model was not fitted on.

    Parameters
    ----------
    model : fitted regressor or classifier
    X : array, CSR, table, or row source
        Rows as the user has them.
    y : array, optional
        Their targets; a row source carries its own.
    repeats : int
        Permutations of each column.
    max_rows : int
        How many rows are looked at, drawn by ``random_state`` where there are more.
    random_state : None, int, RandomState or Generator
    verbose : int
        1 shows a progress bar.

    Returns
    -------
    Importance

    Notes
    -----
    The mean of score(X) − score(X with column j permuted) over the permutations, with its standard error. Columns
    whose ranks correlate by 0.8 or more stand in for each other, so that each of them seems to matter less than it
    does (Hooker, Mentch, Zhou 2021). They are named in ``together`` and permuted as one as well.

    References
    ----------
    Breiman (2001): "Random forests", Machine Learning 45. Fisher, Rudin, Dominici (2019): "All models are wrong,
    but many are useful", JMLR 20. Hooker, Mentch, Zhou (2021): "Unrestricted permutation forces extrapolation",
    Statistics and Computing 31.

    Examples
    --------
    >>> import numpy as np, squeak
    >>> X = np.random.default_rng(0).standard_normal((1000, 3))
    >>> y = np.sin(X[:, 0]) + 0.1 * X[:, 2]
    >>> model = squeak.KernelRidge(max_atoms=50, random_state=0).fit(X[:500], y[:500])
    >>> found = squeak.report.permutation_importance(model, X[500:], y[500:], random_state=0)
    >>> found.names[0], found.metric, found.together
    ('column 0', 'R²', ())
    """
    check_whole("repeats", repeats)
    given, seed = looked_at(model, X, y, max_rows, random_state)
    if given.y is None:
        raise ValueError("importance is measured against targets: give y, or a row source with a target")
    score, metric = score_of(model, np.asarray(given.y))
    spans = spans_of(model, given)
    groups = moving_together(given.X, [span for _, span in spans])
    before = score(given.X)
    tasks = [[span] for _, span in spans] + [[spans[place][1] for place in group] for group, _ in groups]
    drops = np.zeros((len(tasks), repeats))
    with progress("importance", "permutations", drops.size, verbose) as bar:
        for task, moved in enumerate(tasks):
            for turn in range(repeats):
                order = generator_at(seed, SAMPLE, task, turn).permutation(given.n)
                drops[task, turn] = before - score(permuted(given.X, moved, order))
                bar.update(1)
    means = drops.mean(axis=1)
    errors = drops.std(axis=1, ddof=1) / np.sqrt(repeats) if repeats > 1 else np.full(len(tasks), np.nan)
    best = np.argsort(-means[: len(spans)], kind="stable")
    together = tuple(
        Together(
            tuple(spans[place][0] for place in group),
            correlation,
            float(means[len(spans) + number]),
            float(errors[len(spans) + number]),
        )
        for number, (group, correlation) in enumerate(groups)
    )
    names = tuple(spans[place][0] for place in best)
    return Importance(names, means[best], errors[best], drops[best], before, metric, together)


def moving_together(X: Rows, spans: Sequence[slice]) -> list[tuple[tuple[int, ...], float]]:
    """Return the groups of columns that rank correlations of 0.8 or more join, with the least of these."""
    from scipy.sparse.csgraph import connected_components
    from scipy.stats import rankdata

    if X.shape[1] > MOST_COMPARED or len(spans) < 2:
        return []
    ranks = rankdata(dense(X), axis=0)
    ranks = ranks - ranks.mean(axis=0)
    sizes = np.sqrt(np.square(ranks).sum(axis=0))
    ranks = ranks / np.where(sizes > 0, sizes, 1.0)
    starts = [span.start for span in spans]
    joint = np.maximum.reduceat(np.maximum.reduceat(np.abs(ranks.T @ ranks), starts, axis=0), starts, axis=1)
    np.fill_diagonal(joint, 0.0)
    near = joint >= TOGETHER
    _, labels = connected_components(sp.csr_array(near), directed=False)
    found = []
    for label in np.unique(labels):
        group = np.flatnonzero(labels == label)
        if len(group) > 1:
            inside = joint[np.ix_(group, group)]
            found.append((tuple(int(place) for place in group), float(inside[inside >= TOGETHER].min())))
    return found
