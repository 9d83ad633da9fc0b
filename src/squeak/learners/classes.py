"""What classifiers share: classes as columns of numbers, found on the way, and scores as classes again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.metaestimators import available_if

from squeak.core.advice import Advice, InputError
from squeak.core.checks import check_labels, refuse_mixed
from squeak.core.state import plain
from squeak.core.types import Array
from squeak.data import Block, Cursor, DecidesBlocks, RowSource, by_blocks
from squeak.learners.calibration import probabilities
from squeak.learners.drawn import Sampled
from squeak.learners.formula import Answers, Classes
from squeak.learners.rows import RowLearner

MOST_NUMBERS = 1000
"""More different numbers than these are taken for the target of a regression."""


@dataclass(frozen=True)
class Coding:
    """Classes as columns of numbers: one column for two classes, else one for each."""

    classes: Any
    low: float

    def __call__(self, y: Any) -> Array:
        """Return the columns: 1 for the class, ``low`` for others."""
        places = np.searchsorted(self.classes, y)
        places = np.minimum(places, len(self.classes) - 1)
        if not np.array_equal(self.classes[places], y):
            raise ValueError("there are targets of a class that was not seen before")
        if len(self.classes) == 2:
            return np.where(places == 1, 1.0, self.low)[:, None]
        return np.where(np.arange(len(self.classes)) == places[:, None], 1.0, self.low)


@dataclass(frozen=True)
class ClassWeights:
    """The weights of rows by their classes."""

    classes: Any
    factors: Array

    @classmethod
    def of(cls, class_weight: Any, classes: Any, counts: Array) -> ClassWeights:
        """Return the weights that a user asks for: a dict, or "balanced", n/(classes·rows of the class)."""
        if isinstance(class_weight, str) and class_weight == "balanced":
            factors = counts.sum() / (len(classes) * np.maximum(counts, 1.0))
        else:
            factors = compute_class_weight(class_weight, classes=classes, y=classes)
        factors = np.asarray(factors, dtype=np.float64)
        if (factors < 0).any() or not factors @ counts > 0:
            raise ValueError(f"class_weight must not be negative, nor zero for all: {class_weight!r}")
        return cls(classes, factors)

    @property
    def heaviest(self) -> float:
        """The largest weight."""
        return float(self.factors.max())

    def __call__(self, y: Any) -> Array:
        """Return the weights of rows of some classes."""
        return np.asarray(self.factors[np.searchsorted(self.classes, y)])


class Classifier(ClassifierMixin, DecidesBlocks, RowLearner):
    """Base of the classifiers: one score for two classes, one for each of more, by a squared or logistic loss."""

    classes_: Any
    intercept_: Any
    loss: str

    @property
    def _coding(self) -> Coding:
        return Coding(self.classes_, -1.0 if self.loss == "squared" else 0.0)

    def _encode(self, y: Any) -> Array:
        return self._coding(y)

    def _restore(self, found: dict[str, Any]) -> None:
        super()._restore(found)
        if len(self.intercept_) != (1 if len(self.classes_) == 2 else len(self.classes_)):
            raise ValueError("the coefficients do not fit the classes")

    def _check_probabilities(self) -> bool:
        """Return True, or raise an AttributeError that says why there are no probabilities."""
        if getattr(self, "solver_", "newton" if self.loss == "logistic" else "") != "newton":
            raise AttributeError("predict_proba needs a model fitted with loss='logistic'")
        return True

    def _probabilities(self, values: Array) -> Array:
        """Return the probabilities of all classes from scores of shape (n, outputs)."""
        return probabilities(values, *self._logits())

    def _answers(self) -> Answers:
        known = hasattr(self, "predict_proba")
        return Classes(self.classes_, *self._logits()) if known else Classes(self.classes_, None)

    def _logits(self) -> tuple[float, Array]:
        """Return slope and offsets: slope·f + offsets are the logits of probabilities."""
        return 1.0, np.zeros(len(self.intercept_))

    @by_blocks
    def decision_function(self, X: Any) -> Array:
        """Return f(x) for every row.

        Parameters
        ----------
        X : array, CSR, table, or row source

        Returns
        -------
        array of shape (n,) or (n, classes)
            Positive for ``classes_[1]`` of two classes; else a column for each class.
        """
        values = self._values(self._rows_for(X))
        return values[:, 0] if values.shape[1] == 1 else values

    @by_blocks
    def predict(self, X: Any) -> Any:
        """Return the class of every row.

        Parameters
        ----------
        X : array, CSR, table, or row source

        Returns
        -------
        array of shape (n,)
        """
        values = self.decision_function(X)
        return self.classes_[(values > 0).astype(np.intp) if values.ndim == 1 else values.argmax(axis=1)]

    @available_if(lambda self: self._check_probabilities())  # type: ignore[untyped-decorator]
    @by_blocks
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of every class for every row.

        After a fit with the logistic loss they are the model's own. After the squared loss
        (:class:`~squeak.KernelClassifier`) they are calibrated on leave-one-out scores of up to 4,000 rows: Platt's
        sigmoid of a·f + b for two classes, the softmax of a·f_c + b_c for more. The most probable class may then
        differ from :meth:`predict`, which goes by the scores, where two are nearly alike.

        Parameters
        ----------
        X : array, CSR, table, or row source

        Returns
        -------
        array of shape (n, classes)
        """
        return self._probabilities(self._values(self._rows_for(X)))


class Watched(Sampled):
    """A source that takes note of the classes as its rows are read, by whoever reads them: they need no pass."""

    def __init__(self, source: RowSource, seed: int) -> None:
        super().__init__(source, seed)
        self._found: tuple[Any, Any] | None = None

    def blocks(self, start: Cursor | None = None, apart: bool = False) -> Iterator[Block]:
        """Yield the rows in blocks, as the source does."""
        found: Any = None
        for part in super().blocks(start, apart):
            if self._found is None:
                found = _with_classes(found, part.y)
            yield part
        if self._found is None and start is None:
            self._found = found

    def classes(self, client: Any = None) -> tuple[Any, Any]:
        """Return the classes and how many rows each has; if nobody has read all rows, after a pass, by workers."""
        if self._found is None and client is not None:
            parts = [(self.alone(part, part + 1), part) for part in range(self.n_parts)]
            there = [found for found in client.map_ordered(_classes_of_part, parts) if found is not None]
            if there:
                self._found = reduce(_added, there)
                _check_not_numbers(self._found[0])
        if self._found is None:
            for _ in self.blocks():
                pass
        assert self._found is not None
        check_classes(self._found[0])
        return self._found


def _with_classes(found: tuple[Any, Any] | None, y: Any) -> tuple[Any, Any]:
    """Return the classes found so far with those of some targets."""
    check_labels(y)
    fresh = np.unique(y, return_counts=True)
    found = fresh if found is None else _added(found, fresh)
    _check_not_numbers(found[0])
    return found


def _classes_of_part(given: tuple[RowSource, int]) -> tuple[Any, Any] | None:
    """Return the classes of one part of a source and their rows; None where it has no rows."""
    source, part = given
    found = None
    for block in source.part_pairs(part, part + 1):
        found = _with_classes(found, block.y)
    return found


def _added(one: tuple[Any, Any], two: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the classes of both, and how many rows each has in all."""
    both = np.concatenate([one[0], two[0]])
    refuse_mixed(both)
    classes, places = np.unique(both, return_inverse=True)
    return classes, np.bincount(places, np.concatenate([one[1], two[1]]), minlength=len(classes))


def _check_not_numbers(classes: Any) -> None:
    """Refuse numbers by the thousand: each class would be a problem of its own."""
    if classes.dtype.kind in "fiu" and len(classes) > MOST_NUMBERS:
        raise InputError(
            f"the target has {len(classes):,} or more different numbers, each a class of its own",
            Advice(
                "{} predicts numbers", "task", "regression", python="AutoRegressor and KernelRidge predict numbers"
            ),
            "make them text if they are names",
        )


def check_classes(classes: Any) -> None:
    """Refuse fewer than two classes, and numbers by the thousand."""
    _check_not_numbers(classes)
    if len(classes) < 2:
        raise ValueError(f"there is only one class, {plain(classes[0])!r}; two or more are needed")
