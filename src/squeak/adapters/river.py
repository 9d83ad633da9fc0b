"""The online learners as models of river; needs the extra ``river``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from river import base
from scipy.special import expit
from sklearn.base import clone

from squeak.core.checks import check_whole
from squeak.core.state import plain
from squeak.core.types import Array
from squeak.online import ConKonsClassifier, ConKonsRegressor


class _Columns:
    """The columns that features have in rows of a fixed width; features that a row lacks are 0.

    A number has a column. A text has a column for each of its values, 1 where the row has that value; a missing
    number (None or NaN) has one that says so, and counts as the mean of those before it. Kernels see a column of
    zeros as no column at all, so what comes up late takes a spare one, as if it had been there, and 0, from the
    beginning. A value of a text for which no column is left is 0 in all of them, as the values that a row source
    does not know.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._places: dict[Any, int] = {}
        self._means: dict[Any, tuple[int, float]] = {}

    def numbers(self, x: dict[Any, Any]) -> dict[Any, float]:
        """Return the features as numbers, by the names of their columns."""
        found: dict[Any, float] = {}
        for name, value in x.items():
            if isinstance(value, str):
                found[_Value(name, value)] = 1.0
                continue
            try:
                number = math.nan if value is None else float(value)
            except (TypeError, ValueError):
                raise TypeError(f"feature {name!r} is {value!r}, neither a number nor a text") from None
            if math.isnan(number):
                found[_Value(name, None)] = 1.0
                number = self._means.get(name, (0, 0.0))[1]
            found[name] = number
        return found

    def places(self, x: dict[Any, Any]) -> dict[Any, int]:
        """Return the column of every feature known or in ``x``; changes nothing."""
        new = sorted((name for name in self.numbers(x) if name not in self._places), key=repr)  # whatever the order
        left = self._width - len(self._places)
        needed = [name for name in new if not isinstance(name, _Value)]
        if len(needed) > left:
            raise ValueError(
                f"feature {needed[-1]!r} is one too many: there are columns for {self._width} features; raise spare"
            )
        values = [name for name in new if isinstance(name, _Value)][: left - len(needed)]
        return self._places | {name: len(self._places) + i for i, name in enumerate([*needed, *values])}

    def row(self, x: dict[Any, Any]) -> Array:
        """Return the features as a row."""
        places, row = self.places(x), np.zeros(self._width)
        for name, value in self.numbers(x).items():
            if name in places:
                row[places[name]] = value
        return row

    def keep(self, x: dict[Any, Any]) -> None:
        """Let the features of ``x`` have their columns from now on, and count its numbers."""
        self._places = self.places(x)
        for name, value in self.numbers(x).items():
            if not isinstance(name, _Value) and x[name] is not None and x[name] == x[name]:
                count, mean = self._means.get(name, (0, 0.0))
                self._means[name] = count + 1, mean + (value - mean) / (count + 1)


@dataclass(frozen=True)
class _Value:
    """The name of a column that says which value a feature has; None: that it has none."""

    feature: Any
    value: str | None


class _Learner:
    """What both faces share: a fresh copy of the learner, made when the first row is learned."""

    learner: Any
    spare: int
    seed: int | None

    def _set(self, learner: Any, default: type, spare: int, seed: int | None) -> None:
        self.learner, self.spare, self.seed = learner, check_whole("spare", spare, 0), seed
        self._default = default
        self._model: Any = None
        self._columns = _Columns(0)

    def _learn(self, x: dict[Any, Any], y: Any, **classes: Any) -> None:
        model, columns = self._model, self._columns
        if model is None:
            model, columns = self._fresh(), _Columns(len(_Columns(0).numbers(x)) + self.spare)
        model.learn_one(columns.row(x), y, **classes)
        columns.keep(x)
        self._model, self._columns = model, columns

    def _fresh(self) -> Any:
        made = self._default() if self.learner is None else clone(self.learner)
        return made if self.seed is None else made.set_params(random_state=self.seed)


class RiverRegressor(_Learner, base.Regressor):
    """One of squeak's online regressors as a regressor of river.

    Features are columns; one that a row lacks is 0, and the order in which a row has them does not matter. A text
    is a category: each value that comes up has a column of its own, also those that come up late. None and NaN are
    gaps: they count as the mean so far, and a column says where they were. The scales of columns are learned on the
    way.

    Parameters
    ----------
    learner : online regressor, optional
        ``ConKonsRegressor()`` by default; it is copied, never changed.
    spare : int
        How many features, and values of texts, may have a column of their own after the first row. Values beyond
        are 0 in all columns; a number beyond is an error.
    seed : int, optional
        The learner's ``random_state``; its own where None.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from squeak.adapters.river import RiverRegressor
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), RiverRegressor(seed=0), metrics.MAE()).get() < 2
    True
    """

    def __init__(self, learner: Any = None, spare: int = 16, seed: int | None = None) -> None:
        self._set(learner, ConKonsRegressor, spare, seed)

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learn from one row."""
        self._learn(x, y)

    def predict_one(self, x: dict[Any, Any]) -> float:
        """Return the prediction of one row; 0 before any row was learned."""
        return 0.0 if self._model is None else float(self._model.predict_one(self._columns.row(x)))


class RiverClassifier(_Learner, base.Classifier):
    """One of squeak's online classifiers as a classifier of river.

    Parameters
    ----------
    learner : online classifier, optional
        ``ConKonsClassifier()`` by default; it is copied, never changed. The logistic loss gives probabilities.
    classes : tuple
        All labels that may come.
    spare, seed
        As in :class:`RiverRegressor`.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from squeak.adapters.river import RiverClassifier
    >>> model = RiverClassifier(seed=0)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy()).get() > 0.85
    True
    """

    def __init__(
        self,
        learner: Any = None,
        classes: tuple[Any, ...] = (False, True),
        spare: int = 16,
        seed: int | None = None,
    ) -> None:
        self.classes = classes
        self._set(learner, ConKonsClassifier, spare, seed)

    @property
    def _multiclass(self) -> bool:
        return len(self.classes) > 2

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learn from one row."""
        first = {"classes": np.array(self.classes)} if self._model is None else {}
        self._learn(x, y, **first)

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """Return the label of one row; the first class before any row was learned."""
        if self._model is None:
            return self.classes[0]
        return plain(self._model.predict_one(self._columns.row(x)))

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Return each label's probability, where the learner has the logistic loss.

        Of more than two classes each has a learner against the rest; their probabilities are divided by their sum.
        """
        if getattr(self.learner, "loss", None) != "logistic":
            raise NotImplementedError("only learners with loss='logistic' have probabilities")
        if self._model is None:
            return dict.fromkeys(self.classes, 1.0 / len(self.classes))
        scores = np.ravel(self._model.decision_function(self._columns.row(x)[None, :]))
        chances = expit(np.array([-scores[0], scores[0]]) if len(scores) == 1 else scores)
        labels = [plain(label) for label in self._model.classes_]
        return dict(zip(labels, (chances / chances.sum()).tolist(), strict=True))
