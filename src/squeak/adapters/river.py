"""The online learners as models of river; needs the extra ``river``."""

from __future__ import annotations

from typing import Any

import numpy as np
from river import base
from scipy.special import expit
from sklearn.base import clone

from squeak.core.checks import check_whole
from squeak.core.state import plain
from squeak.online import ConKonsClassifier, ConKonsRegressor, MixedKonsClassifier
from squeak.online.records import RecordColumns

LEAST = 1e-9
"""No probability of a mixture is lower before they are divided by their sum."""


class _Learner:
    """What both faces share: a fresh copy of the learner, made when the first row is learned."""

    learner: Any
    spare: int
    seed: int | None

    def _set(self, learner: Any, default: type, spare: int, seed: int | None) -> None:
        self.learner, self.spare, self.seed = learner, check_whole("spare", spare, 0), seed
        self._default = default
        self._model: Any = None
        self._columns = RecordColumns(0)

    def _learn(self, x: dict[Any, Any], y: Any, **classes: Any) -> None:
        model, columns = self._model, self._columns
        if model is None:
            model, columns = self._fresh(), RecordColumns.of(x, self.spare)
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
        How many features, and values of texts, may have a column of their own after the first row; a quarter of
        these columns is for numbers alone. Values beyond are 0 in all columns; a number beyond is an error.
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
        ``ConKonsClassifier()`` by default; it is copied, never changed. The logistic loss gives probabilities, and
        so do mixtures.
    classes : tuple, optional
        All labels that may come. Without it, classes join as they come up; learners that cannot do that, such as
        ``FOGDClassifier``, take False and True.
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
        classes: tuple[Any, ...] | None = None,
        spare: int = 16,
        seed: int | None = None,
    ) -> None:
        self.classes = classes
        self._set(learner, ConKonsClassifier, spare, seed)

    @property
    def _multiclass(self) -> bool:
        return self._named is None or len(self._named) > 2

    @property
    def _named(self) -> tuple[Any, ...] | None:
        """The labels that may come; None: any."""
        joining = self.learner is None or self.learner.classes_join
        return self.classes if self.classes is not None or joining else (False, True)

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learn from one row."""
        first = {"classes": np.array(self._named)} if self._model is None and self._named is not None else {}
        self._learn(x, y, **first)

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """Return the label of one row; before any row was learned, the first class, or None where none is known."""
        if self._model is None:
            return None if self._named is None else self._named[0]
        return plain(self._model.predict_one(self._columns.row(x)))

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Return each label's probability, where the learner is a mixture or has the logistic loss.

        A mixture predicts the mean z of the label, which is ±1, so its probability is (1 + z)/2. Of more than two
        classes each has a learner against the rest; their probabilities are divided by their sum.
        """
        mixed = isinstance(self.learner, MixedKonsClassifier)
        if not mixed and getattr(self.learner, "loss", None) != "logistic":
            raise NotImplementedError("only mixtures, and learners with loss='logistic', have probabilities")
        if self._model is None:
            return {} if self._named is None else dict.fromkeys(self._named, 1.0 / len(self._named))
        scores = np.ravel(self._model.decision_function(self._columns.row(x)[None, :]))
        scores = np.array([-scores[0], scores[0]]) if len(scores) == 1 else scores
        chances = np.maximum(0.5 + 0.5 * scores, LEAST) if mixed else expit(scores)
        labels = [plain(label) for label in self._model.classes_]
        if len(labels) == 1:
            return {labels[0]: 1.0}
        return dict(zip(labels, (chances / chances.sum()).tolist(), strict=True))
