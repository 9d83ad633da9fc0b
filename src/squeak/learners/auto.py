"""A table in, a model out: kernel, metric, width, penalty and local experts are chosen on held-out rows."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from squeak.core import state
from squeak.core.constructors import parameters
from squeak.core.progress import one_bar
from squeak.core.saved import LabelsPiece, Layout
from squeak.core.types import Array
from squeak.data import DecidesBlocks, PredictsBlocks, by_blocks
from squeak.learners.auto_learner import AutoLearner
from squeak.learners.calibration import calibrated, probabilities
from squeak.learners.classes import Coding, check_classes
from squeak.learners.composed import plus
from squeak.learners.formula import Answers, Classes
from squeak.learners.intervals import check_coverage, interval
from squeak.learners.leaves import scores_of
from squeak.learners.rows import all_or_nothing
from squeak.learners.spread import floored
from squeak.learners.units import Units, as_columns

LEAST_SLOPE = 1e-3
"""Where the logits of probabilities rise no faster with the scores, the most frequent class is predicted."""


@parameters
class AutoRegressor(MultiOutputMixin, RegressorMixin, PredictsBlocks, AutoLearner):
    """Predict a numeric column of a table, with all settings chosen automatically.

    The table may hold numbers, text, dates and gaps. The kernels, the metric of each, the widths and the penalties
    are chosen by their errors on rows that are held out from the fit (:class:`KernelBlend`). In the same way it is
    decided whether one model serves the whole space or whether an expert for each part of it does better
    (:class:`LocalExperts`). Beside these, trees are boosted for as many rounds as lower the error on the held-out
    rows. Then all models are blended with weights that are not negative, and fitted to all rows.
    Tables without local experts are learned in this way several times. Each of these folds holds other rows out,
    and the model is the mean of all folds.
    The sizes of the errors on the held-out rows are learned too. They give standard deviations and intervals in
    the units of the target.

    Parameters
    ----------
    time_budget : float, optional
        The number of seconds after which nothing new is tried: the search for kernels and metrics ends, and local
        experts or further folds are left out if they would take longer. Boosted trees and one model of all rows are
        fitted in any case, so that a fit may take longer than that. With a time budget, the result depends on the
        speed of the machine.
    max_atoms : int, optional
        The largest number of atoms (rows kept) for each kernel. By default every row is an atom in tables and local
        experts of up to 8,000 rows, and a model of more rows has 1,000 atoms. Fewer atoms make the model smaller
        and predictions quicker.
    leaf_rows : int, optional
        The largest number of rows of a local expert: 5,000 by default, and 4,000 in tables of more than 25,000
        rows. A table of up to 1.6 times as many rows has no local experts.
    trees : bool
        Whether boosted trees may be a part of the model, with a weight like that of the other parts. They follow
        steps and thresholds, which kernels smooth out. Without them the predictions of a regression have no jumps.
    folds : int, optional
        How often a table without local experts is learned: four times by default, and less often from 4,000 rows
        on, so that the folds have 16,000 rows together at most. One fold takes the least time, and its model is the
        smallest.
    random_state : None, int, RandomState or Generator
        The seed. The same seed gives the same result, on any number of threads.
    verbose : int
        1 shows the stages of the search.

    Attributes
    ----------
    relevance_ : array of shape (columns,)
        How much each column matters to the predictions: the mean squared slope along the column times the column's
        variance, divided by the sum over all columns.
    search_ : list of dict
        Everything that was tried: stage, model, rows, atoms, alpha, the error on the held-out rows (as a part of
        the targets' standard deviation), seconds, and the weight in the final model (of classes, the part of the
        logits). Models of all rows are blends, so that their alpha is NaN. A line of the stage "fold" ends the
        lines of each fold, if there are several. The last line, of the stage "mixture", is the final model: its
        weights were chosen on the same held-out rows.
    limits_ : list of str
        What stands in the way of a smaller error, in words.
    preprocessing_ : Preprocessing
        What turns the columns of a table into numbers.

    References
    ----------
    Radhakrishnan, Beaglehole, Pandit and Belkin, Science 383 (2024); Beaglehole, Holzmüller, Radhakrishnan and
    Belkin, "xRFM" (2025). Friedman, "Greedy function approximation: a gradient boosting machine", Annals of
    Statistics 29 (2001), for boosted trees, and Sigrist, "KTBoost: combined kernel and tree boosting", Neural
    Processing Letters 53 (2021), for models of trees and kernels. Lei, G'Sell, Rinaldo, Tibshirani and Wasserman,
    JASA 113 (2018), section 5.2, for intervals whose width follows a learned spread.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from squeak import AutoRegressor
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"size": rng.gamma(2, 40, 400), "town": rng.choice(["A", "B"], 400)})
    >>> price = 3 * frame["size"] * np.where(frame["town"] == "A", 2, 1) + rng.normal(0, 5, 400)
    >>> model = AutoRegressor(random_state=0).fit(frame, price)
    >>> bool(model.score(frame, price) > 0.98)
    True
    >>> low, high = model.predict_interval(frame, coverage=0.9)
    >>> bool(np.mean((low <= price) & (price <= high)) > 0.8)
    True
    """

    kind: ClassVar[str] = "auto-regressor"

    @all_or_nothing
    @one_bar
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from all rows.

        Parameters
        ----------
        X : array, table, or row source
            The rows of a source are those that its own preprocessing makes. They are gathered in memory up to
            4 GB of them. Of more, and of more than 50,000 rows that the workers of a cluster read, everything but
            the local experts is chosen on a sample of 50,000 rows (or 50 for each atom, if that is more); the
            experts are fitted to all rows as those of :class:`LocalExperts` are.
        y : array of shape (n,) or (n, outputs)
        sample_weight : array of shape (n,), optional
            Their unit does not matter. Standard deviations and intervals count all rows alike.

        Returns
        -------
        self
        """
        self._check()
        table = self._numbers(X, y, sample_weight, classes=False)
        self.dimensions_ = table.y.ndim
        units = Units.of(table.y.reshape(len(table.X), -1), table.weight)
        self._compose(table if units is None else table.coded(units), (units or as_columns)(table.y))
        if units is not None:
            self.everywhere_, self.spread_ = units.back(self.everywhere_), units.back(self.spread_)
            self.experts_ = [units.back(expert) for expert in self.experts_]
            self.trees_ = None if self.trees_ is None else self.trees_.times(units.unit)
        return self

    @by_blocks
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return f(x) for every row, and the deviation of targets from it where asked for.

        Parameters
        ----------
        X : array, table, or row source
        return_std : bool

        Returns
        -------
        mean : array of shape (n,) or (n, outputs)
        std : array of the same shape
            In the target's units, with the noise; where it was asked for.
        """
        numbers = self._rows_for(X)
        mean = self._shaped(self._values(numbers))
        if not return_std:
            return mean
        return mean, self._shaped(self._spread(numbers) * np.sqrt(np.mean(self.scores_**2, axis=0)))

    @by_blocks
    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """Return intervals that hold a part of ``coverage`` of new targets.

        low = f(x) + q₁·s(x), high = f(x) + q₂·s(x), where s is the learned size of residuals and the q are
        quantiles of residuals in its units, on rows that the model had not seen.

        Parameters
        ----------
        X : array, table, or row source
        coverage : float

        Returns
        -------
        low, high : arrays of shape (n,) or (n, outputs)
        """
        check_coverage(coverage)
        numbers = self._rows_for(X)
        low, high = interval(self._values(numbers), self._spread(numbers), self.scores_, coverage)
        return self._shaped(low), self._shaped(high)

    def _spread(self, X: Any) -> Array:
        return floored(self.spread_[0].values(X), self.spread_[0].intercept)

    def _shaped(self, values: Array) -> Array:
        return values[:, 0] if self.dimensions_ == 1 else values


@parameters
class AutoClassifier(ClassifierMixin, DecidesBlocks, AutoLearner):
    """Predict the class of each row of a table, with all settings chosen automatically.

    It works as :class:`AutoRegressor` does. Kernels learn classes as scores by the squared loss, one score for two
    classes and one score per class for more, and trees learn the logits of probabilities. The held-out rows tell
    how all of these add up to logits, with slopes that are not negative and make the log loss least. The class that
    is predicted is the one of the largest probability.

    Parameters
    ----------
    time_budget, max_atoms, leaf_rows, trees, folds, random_state, verbose
        As for :class:`AutoRegressor`.

    Attributes
    ----------
    classes_ : array
        The classes, in the order of the columns of ``predict_proba``.
    relevance_, search_, limits_, preprocessing_
        As for :class:`AutoRegressor`.

    References
    ----------
    As for :class:`AutoRegressor`, and for the sum of logits Ting and Witten, "Issues in stacked generalization",
    Journal of Artificial Intelligence Research 10 (1999).

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import AutoClassifier
    >>> X = np.random.default_rng(0).standard_normal((400, 3))
    >>> y = np.where(np.hypot(X[:, 0], X[:, 1]) < 1.2, "in", "out")
    >>> model = AutoClassifier(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    kind: ClassVar[str] = "auto-classifier"
    _state: ClassVar[Layout] = {
        **AutoLearner._state,
        "classes_": LabelsPiece("classes_dtype"),
        "slope_": state.number(),
        "offsets_": state.numbers("offsets"),
    }

    classes_: Any = field(init=False)
    slope_: float = field(init=False)
    offsets_: Array = field(init=False)

    @all_or_nothing
    @one_bar
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from all rows.

        Parameters
        ----------
        X : array, table, or row source
            As for :class:`AutoRegressor`.
        y : array of shape (n,)
            Classes: numbers, text or truth values.
        sample_weight : array of shape (n,), optional
            Their unit does not matter.

        Returns
        -------
        self
        """
        self._check()
        table = self._numbers(X, y, sample_weight, classes=True)
        check_classification_targets(table.y)
        self.classes_ = table.classes
        check_classes(self.classes_)
        self.dimensions_ = 1
        coding = Coding(self.classes_, -1.0)
        found = self._compose(table.coded(coding), coding(table.y))
        places = np.searchsorted(self.classes_, table.y[found.back])
        given = None if table.weight is None else table.weight[found.back]
        self.slope_, self.offsets_ = calibrated(found.back_scores, places, len(self.classes_), given)
        # a·f + b = a·(f + b/a): with the offsets in the scores, the largest score is the most probable class
        slope = max(self.slope_, LEAST_SLOPE)
        self.everywhere_ = plus(self.everywhere_, self.offsets_ / slope, table.X)
        self.offsets_ = self.offsets_ * (1.0 - self.slope_ / slope)
        return self

    def _restore(self, found: dict[str, Any]) -> None:
        super()._restore(found)
        if not scores_of(self.classes_) == self.scores_.shape[1] == len(self.offsets_):
            raise ValueError("the scores do not fit the classes")

    def _answers(self) -> Answers:
        return Classes(self.classes_, self.slope_, self.offsets_)

    @by_blocks
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of every class for every row.

        Learned from the scores of the held-out rows: 1/(1 + exp(−(a·f + b))) for two classes, and
        in proportion to exp(a·f_c + b_c) for more.

        Parameters
        ----------
        X : array, table, or row source

        Returns
        -------
        array of shape (n, classes)
        """
        return probabilities(self._values(self._rows_for(X)), self.slope_, self.offsets_)

    @by_blocks
    def decision_function(self, X: Any) -> Array:
        """Return the scores of every row.

        Parameters
        ----------
        X : array, table, or row source

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
        X : array, table, or row source

        Returns
        -------
        array of shape (n,)
        """
        values = self.decision_function(X)
        return self.classes_[(values > 0).astype(np.intp) if values.ndim == 1 else values.argmax(axis=1)]
