"""The rows that a model is explained on, its answers to them, and rows in which one column is another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core.checks import check_whole
from squeak.core.rows import take
from squeak.core.seeds import ORDER, RandomState, draw_seed, generator_at
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
