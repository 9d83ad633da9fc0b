"""Classification on a dictionary: squared loss, one against the rest, or logistic loss with probabilities."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import compute_sample_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from squeak.core import state, storage
from squeak.core.dictionary import Dictionary
from squeak.core.rows import take
from squeak.core.seeds import RandomState
from squeak.core.sources import Block, Cursor, RowSource
from squeak.core.state import labels
from squeak.core.types import Array
from squeak.learners.base import all_or_nothing
from squeak.learners.cached import kept_in_memory
from squeak.learners.data import ArrayTraining, SourceTraining, Training, centred
from squeak.learners.falkon import VoronoiTerm
from squeak.learners.logistic import newton, probabilities
from squeak.learners.solving import RidgeLearner
from squeak.learners.stored import learner_from_parts, learner_to_parts
from squeak.learners.tuning import wants_search
from squeak.samplers.base import Sampler


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


MOST_NUMBERS = 1000
"""More different numbers than these are taken for the target of a regression."""


def _has_probabilities(model: Any) -> bool:
    if getattr(model, "solver_", "newton" if model.loss == "logistic" else "") != "newton":
        raise AttributeError("predict_proba needs a model fitted with loss='logistic'")
    return True


@storage.register
class KernelClassifier(ClassifierMixin, RidgeLearner):  # type: ignore[misc]
    """Kernel classification on a dictionary of the rows, for any number of them.

    ``loss="squared"``: ridge regression on ±1, one class against the rest; the fast one. ``loss="logistic"``:
    minimises Σ w ℓ(y, f) + (alpha/2)·‖f‖² with the logistic loss, for two classes or (softmax) several, by
    Newton's method with FALKON's conjugate gradients; it gives probabilities. Both start from the classes'
    frequencies: f is added to their mean, or to their log odds, and far from all rows that is the prediction.

    Parameters
    ----------
    kernel : kernel, optional
        RBF of the median width by default.
    alpha : float or "auto"
        Penalty, as in :class:`KernelRidge`; "auto" with the squared loss only.
    loss : "squared" or "logistic"
    sampler, dictionary, max_atoms, solver, regularised, preconditioner, max_iter, tol, memory_budget, warm_start,
    callback
        As in :class:`KernelRidge`; the solver is chosen for the squared loss only.
    class_weight : dict, "balanced" or None
    random_state : None, int, RandomState or Generator
    verbose : int

    Attributes
    ----------
    classes_ : array
    intercept_ : array
    dual_coef_ : array of shape (m,) for two classes, else (m, classes)
    dictionary_, kernel_, solver_, alpha_, n_iter_

    References
    ----------
    Rudi, Carratino, Rosasco, "FALKON", NIPS 2017; the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import KernelClassifier
    >>> from squeak.kernels import RBF
    >>> X = np.random.default_rng(0).standard_normal((3000, 2))
    >>> y = np.where(np.hypot(*X.T) < 1.2, "in", "out")
    >>> model = KernelClassifier(RBF(1.0), alpha=0.1, loss="logistic", max_atoms=60, random_state=0)
    >>> model = model.fit(X, y)
    >>> bool(model.score(X, y) > 0.97), model.predict_proba([[0.0, 0.0], [3.0, 0.0]]).round(1)
    (True, array([[1., 0.],
           [0., 1.]]))
    """

    kind: ClassVar[str] = "kernel-classifier"
    _state: ClassVar[state.Table] = {
        "dual_coef": state.numbers("m", "outputs?", low=-state.HUGE, high=state.HUGE),
        "intercept": state.numbers("outputs", low=-state.HUGE, high=state.HUGE),
        "alpha": state.number(low=0.0),
        "solver": state.text(),
    }

    def __init__(
        self,
        kernel: Any = None,
        alpha: float | str = 1.0,
        loss: str = "squared",
        sampler: Sampler | None = None,
        dictionary: Any = None,
        max_atoms: int | None = None,
        class_weight: Any = None,
        solver: str = "auto",
        regularised: bool = False,
        preconditioner: str = "auto",
        max_iter: int = 50,
        tol: float = 1e-7,
        memory_budget: float | None = None,
        warm_start: bool = False,
        callback: Callable[[int, Array], bool | None] | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.loss = loss
        self.sampler = sampler
        self.dictionary = dictionary
        self.max_atoms = max_atoms
        self.class_weight = class_weight
        self.solver = solver
        self.regularised = regularised
        self.preconditioner = preconditioner
        self.max_iter = max_iter
        self.tol = tol
        self.memory_budget = memory_budget
        self.warm_start = warm_start
        self.callback = callback
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        every: float = 30.0,
    ) -> KernelClassifier:
        """Learn from all rows.

        Parameters
        ----------
        X : array, CSR, table, or row source with a target
        y : array of shape (n,)
            Classes: numbers, text, booleans.
        sample_weight : array of shape (n,), optional
        checkpoint : path, optional
            Keep the state of a fit on a row source in this file, replaced as the fit goes on: the dictionary's
            stream, then the sums of every pass. If the process dies, the same call goes on from there and ends in
            the same bits. A file that holds an unfinished fit of other parameters or other data is refused. It
            needs a number as ``random_state``, and is not for a cluster.
        every : float
            Seconds between two writes of the checkpoint; 0 writes after every block.
        """
        if checkpoint is None:
            return self._fit(X, y, sample_weight)
        from squeak.learners.checkpoint import fit_kept

        self._check_ridge_parameters()
        fit_kept(self, X, y, sample_weight, checkpoint, every)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, run: Any = None) -> KernelClassifier:
        """Learn from all rows; ``run`` keeps what is learned in a checkpoint."""
        self._check_ridge_parameters()
        if self.loss not in ("squared", "logistic"):
            raise ValueError(f"loss must be 'squared' or 'logistic'; it is {self.loss!r}")
        if self.loss == "logistic" and self.alpha == "auto":
            raise ValueError("alpha='auto' is for the squared loss; give a number, or search with GridSearchCV")
        self.__dict__.pop("dictionary_", None)
        low = -1.0 if self.loss == "squared" else 0.0
        d: Dictionary | None = None
        if isinstance(X, RowSource):
            if self.class_weight is not None:
                raise ValueError("class_weight goes with arrays; a row source has no place for weights")
            read = self._source(X, y, sample_weight, run=run)
            if not read.repeatable:
                raise ValueError("classes must be known before learning: an iterator can be read only once")
            watched = Watched(X)
            if read.client is None and self.dictionary is None and not wants_search(self._own_kernel()):
                d = self._dictionary_of(replace(read, source=watched))
            classes = watched.classes()
            data: Training = replace(read, encode=Coding(classes, low))
        else:
            array = self._array(X, y, sample_weight, y_numeric=False)
            check_classification_targets(array.y)
            classes = np.unique(array.y)
            weight = array.weight
            if self.class_weight is not None:
                weight = compute_sample_weight(self.class_weight, array.y) * (1.0 if weight is None else weight)
                if (weight < 0).any() or not weight.sum() > 0:
                    raise ValueError(f"class_weight must not be negative, nor zero for all: {self.class_weight!r}")
                some = np.flatnonzero(weight)
                array, weight = ArrayTraining(take(array.X, some), array.y[some]), weight[some]
            _check_classes(classes)
            data = ArrayTraining(array.X, Coding(classes, low)(array.y), weight)
        self.classes_ = classes
        if self.loss == "logistic":
            _, mean = centred(data)
            rare = np.finfo(np.float64).tiny
            self.intercept_ = np.log(np.maximum(mean, rare))
            if len(classes) == 2:
                self.intercept_ = self.intercept_ - np.log(np.maximum(1.0 - mean, rare))
        elif isinstance(data, ArrayTraining):
            data, self.intercept_ = centred(data)
        d = self._dictionary_of(data) if d is None else d
        coef = self._solve(data, d) if self.loss == "squared" else self._newton(data, d)
        self.dual_coef_ = coef[:, 0] if len(classes) == 2 else coef
        self.dictionary_ = d
        return self

    def _newton(self, data: Any, d: Dictionary) -> Array:
        features = self._features(d)
        alpha = self.alpha_ = float(self.alpha)
        if isinstance(data, SourceTraining):
            data = data.persist()
        data, seen = kept_in_memory(data, features, self.memory_budget)
        weights = d.weights if d.calibrated else data.sum(VoronoiTerm(seen))[0]
        offset = self.intercept_
        found = newton(data, seen, features, weights, alpha, offset, max(float(self.tol), 1e-10))
        self.solver_, self.rank_, self._feature_map = "newton", features.rank, features
        self.n_iter_, self.passes_, self.condition_ = found.n_iter, found.passes, None
        if not found.converged:
            warnings.warn(
                f"Newton's method ended with a gradient of {found.gradient:.2g} of the first: a larger alpha or "
                "scaled columns help",
                ConvergenceWarning,
                stacklevel=3,
            )
        return features.mixing @ found.B

    def decision_function(self, X: Any) -> Array:
        """Return f(x): positive for ``classes_[1]`` of two classes, else a column for each class."""
        check_is_fitted(self)
        values = self._values(self._rows_for(X))
        return values[:, 0] if len(self.classes_) == 2 else values

    def predict(self, X: Any) -> Any:
        """Return the class of every row."""
        values = self.decision_function(X)
        if values.ndim == 1:
            return self.classes_[(values > 0).astype(np.intp)]
        return self.classes_[values.argmax(axis=1)]

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of every class for every row."""
        values = self.decision_function(X)
        p = probabilities(values.reshape(len(values), -1))
        return np.hstack([1.0 - p, p]) if p.shape[1] == 1 else p

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the fitted model's arrays and the rest as JSON data."""
        arrays, content = learner_to_parts(
            self,
            dual_coef=self.dual_coef_,
            intercept=self.intercept_,
            alpha=self.alpha_,
            solver=self.solver_,
        )
        classes = [value.item() if isinstance(value, np.generic) else value for value in self.classes_]
        return arrays, {"classes": classes, "classes_dtype": str(self.classes_.dtype), **content}

    @classmethod
    def from_parts(cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> KernelClassifier:
        """Return the model that was stored."""
        model: KernelClassifier
        model, found = learner_from_parts(cls, arrays, content, kernel)
        model.classes_ = labels(content["classes"], content["classes_dtype"])
        if len(found["intercept"]) != (1 if len(model.classes_) == 2 else len(model.classes_)):
            raise ValueError("the coefficients do not fit the classes")
        model.dual_coef_, model.solver_ = found["dual_coef"], found["solver"]
        model.alpha_, model.intercept_ = found["alpha"], found["intercept"]
        return model


class Watched(RowSource):
    """A source that takes note of the classes as its rows are read, by whoever reads them: they need no pass."""

    def __init__(self, source: RowSource) -> None:
        self.__dict__.update(source.__dict__)
        self._found: Any = None
        self._whole = False

    def blocks(self, start: Cursor | None = None) -> Iterator[Block]:
        """Yield the rows in blocks, as the source does."""
        for part in super().blocks(start):
            check_classification_targets(part.y)
            fresh = np.unique(part.y)
            self._found = fresh if self._found is None else np.unique(np.concatenate([self._found, fresh]))
            _check_not_numbers(self._found)
            yield part
        self._whole = self._whole or start is None

    def classes(self) -> Any:
        """Return the classes; if nobody has read all rows in order, after a pass."""
        if not self._whole:
            for _ in self.blocks():
                pass
        _check_classes(self._found)
        return self._found


def _check_not_numbers(classes: Any) -> None:
    """Refuse numbers by the thousand: each class would be a problem of its own."""
    if classes.dtype.kind in "fiu" and len(classes) > MOST_NUMBERS:
        raise ValueError(
            f"the target has {len(classes):,} or more different numbers, each a class of its own: "
            "KernelRidge predicts numbers; make them text if they are names"
        )


def _check_classes(classes: Any) -> None:
    _check_not_numbers(classes)
    if len(classes) < 2:
        raise ValueError(f"there is only one class, {classes[0]!r}; two or more are needed")
