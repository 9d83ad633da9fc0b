"""Classification on a dictionary: squared loss, one against the rest, or logistic loss with probabilities."""

from __future__ import annotations

import warnings
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from squeak.core import state
from squeak.core.checks import check_choice, check_labels
from squeak.core.constructors import parameters
from squeak.core.rows import take
from squeak.core.saved import LabelsPiece, Layout
from squeak.core.seeds import draw_seed
from squeak.core.types import Array
from squeak.learners.cached import kept_in_memory
from squeak.learners.calibration import Calibration
from squeak.learners.choice import faster_solver
from squeak.learners.classes import Classifier, ClassWeights, Watched, check_classes
from squeak.learners.data import ArrayTraining, SourceTraining, Training, centred
from squeak.learners.drawn import drawn_from
from squeak.learners.falkon import VoronoiTerm
from squeak.learners.left_out import LeftOut, sample_of
from squeak.learners.logistic import newton
from squeak.learners.logistic_alpha import log_odds, searched_alpha
from squeak.learners.solving import RidgeLearner
from squeak.learners.tuning import wants_search
from squeak.samplers.dictionary import Dictionary

SINGLE = 1e-4
"""Newton's method on float32 values ends at a gradient of this part of the first; in float64 it may be ten times
that. What is left to gain goes with its square."""


@parameters
class KernelClassifier(Classifier, RidgeLearner):
    """Kernel classification on a dictionary of the rows, for any number of rows.

    With ``loss="squared"``, the faster one, it is ridge regression on targets of ±1, one class against the rest,
    and probabilities are calibrated on leave-one-out scores. With ``loss="logistic"`` it minimises Σ w ℓ(y, f) +
    (alpha/2)·‖f‖² with the logistic loss for two classes, or softmax for several, by Newton's method with FALKON's
    conjugate gradients. Both start from the frequencies of the classes: f is added to their mean, or to their log
    odds, and far from all rows that is the prediction.

    Parameters
    ----------
    kernel : kernel, optional
        How similar two rows are. The default is an RBF of the median width.
    alpha : float or "auto"
        The penalty, as in :class:`KernelRidge`. With the logistic loss, "auto" takes the least log loss on rows
        held out, which are a quarter of up to 4,000 rows.
    loss : "squared" or "logistic"
        What a wrong prediction costs.
    sampler, dictionary, max_atoms, solver, regularised, preconditioner, max_iter, tol, memory_budget, warm_start,
    callback
        As in :class:`KernelRidge`. The logistic loss has its own solver. Its passes are in float32 with "kept", or
        where "auto" finds that faster.
    class_weight : dict, "balanced" or None
        How much the rows of each class count, also for row sources. "balanced" gives every class the same weight in
        all, which changes decisions where classes are rare. After the squared loss, probabilities are calibrated
        without these weights: they say how often a class occurs. After the logistic loss they include the weights.
    random_state : None, int, RandomState or Generator
        The seed. The same seed gives the same result, on any number of threads.
    verbose : int
        1 shows progress.

    Attributes
    ----------
    classes_ : array
        The classes, in the order of the columns of ``predict_proba``.
    intercept_ : array
        What is added to f: the mean or the log odds of the classes.
    dual_coef_ : array of shape (m,) for two classes, else (m, classes)
        The coefficients of the atoms.
    relevance_ : array of shape (columns,)
        The share of each column in how much the model changes.
    dictionary_, kernel_, solver_, alpha_, n_iter_
        What was used in the fit.
    calibration_ : object
        Of the squared loss: the ``slope`` a and the ``offsets`` b of the probabilities, see :meth:`predict_proba`.

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
    _state: ClassVar[Layout] = {
        "dual_coef_": state.numbers("m", "outputs?", low=-state.HUGE, high=state.HUGE),
        "intercept_": state.numbers("outputs", low=-state.HUGE, high=state.HUGE),
        "alpha_": state.number(low=state.TINY),
        "solver_": state.text(),
        "classes_": LabelsPiece("classes_dtype"),
        "_calibration.slope": state.number(low=-state.HUGE, high=state.HUGE, optional=True),
        "_calibration.offsets": state.numbers("outputs", low=-state.HUGE, high=state.HUGE, optional=True),
    }
    _calibration: Calibration = field(init=False)

    loss: str = "squared"
    class_weight: Any = None

    def _check_ridge_parameters(self) -> None:
        super()._check_ridge_parameters()
        check_choice("loss", self.loss, "squared", "logistic")

    def _fit(self, X: Any, y: Any, sample_weight: Any, run: Any = None) -> None:
        for name in ("dictionary_", "_calibration"):
            self.__dict__.pop(name, None)
        d: Dictionary | None = None
        seed = draw_seed(self.random_state)
        read = self._training(X, y, sample_weight, run=run)
        if isinstance(read, SourceTraining):
            if not read.repeatable:
                raise ValueError("classes must be known before learning: an iterator can be read only once")
            watched = Watched(X, seed)
            if read.client is None and self.dictionary is None and not wants_search(self._own_kernel()):
                d = self._dictionary_of(replace(read, source=watched))
            self.classes_, counts = watched.classes(read.client)
            weigh = None if self.class_weight is None else ClassWeights.of(self.class_weight, self.classes_, counts)
            coded = replace(read, encode=self._coding, weigh=weigh)
            data: Training = coded
            drawn = drawn_from(replace(coded, source=watched), seed)
        else:
            data, weigh = self._coded(read)
            drawn = drawn_from(data, seed)
        if self.loss == "logistic":
            _, mean = centred(data)
            self.intercept_ = log_odds(mean)
        elif isinstance(data, ArrayTraining):
            data, self.intercept_ = centred(data)
        d = self._dictionary_of(data) if d is None else d
        if self.loss == "squared":
            coef, sample = self._solve(data, d), sample_of(drawn)
            errors = LeftOut(self._feature_map, self._gram, self.alpha_, coef, self.intercept_, sample=sample)
            self._calibration = Calibration(errors, None if weigh is None else weigh.factors)
        else:
            coef = self._newton(data, d, sample_of(drawn), seed)
        self.dual_coef_ = coef[:, 0] if len(self.classes_) == 2 else coef
        self.dictionary_ = d

    def _check_probabilities(self) -> bool:
        fitted = hasattr(self, "dictionary_")
        if fitted and self.solver_ != "newton" and not hasattr(self, "_calibration"):
            raise AttributeError(
                "this model was fitted by the squared loss, and its file was written before models kept what "
                "probabilities take: fit it anew"
            )
        return True

    @property
    def calibration_(self) -> Calibration:
        """How probabilities are made of scores after the squared loss; computed when it is first asked for."""
        self._check_probabilities()
        if self.solver_ == "newton":
            raise AttributeError("the scores of the logistic loss are log odds: there is nothing to calibrate")
        return self._calibration

    def _logits(self) -> tuple[float, Array]:
        if self.solver_ == "newton":
            return super()._logits()
        return self._calibration.slope, self._calibration.offsets

    def _restore(self, found: dict[str, Any]) -> None:
        super()._restore(found)
        slope, offsets = found["_calibration.slope"], found["_calibration.offsets"]
        if slope is not None and offsets is not None:
            self._calibration = Calibration(None, known=(slope, offsets))

    def _coded(self, rows: ArrayTraining) -> tuple[ArrayTraining, ClassWeights | None]:
        """Return rows in memory with numbers for their classes, and the classes' weights."""
        check_labels(rows.y)
        weigh, weight = None, rows.weight
        self.classes_, counts = np.unique(rows.y, return_counts=True)
        if self.class_weight is not None:
            weigh = ClassWeights.of(self.class_weight, self.classes_, counts.astype(np.float64))
            weight = weigh(rows.y) * (1.0 if weight is None else weight)
            some = np.flatnonzero(weight)
            rows, weight = ArrayTraining(take(rows.X, some), rows.y[some]), weight[some]
        check_classes(self.classes_)
        return ArrayTraining(rows.X, self._encode(rows.y), weight), weigh

    def _in_float32(self, data: Any, d: Dictionary) -> tuple[bool, str]:
        """Tell whether Newton's method begins on float32 kernel values: where asked for, or where it is faster."""
        if not isinstance(data, ArrayTraining) or self.solver not in ("auto", "kept"):
            return False, "logistic loss, in float64"
        chosen, why = faster_solver(data.X, len(d), d.kernel, self.memory_budget)
        single = self.solver == "kept" or chosen == "kept"
        return (
            single,
            f"logistic loss, on kernel values in float32: {why}" if single else "logistic loss, in float64",
        )

    def _newton(self, data: Any, d: Dictionary, sample: Any, seed: int) -> Array:
        features = self._hold(self._features(d))
        if self.alpha == "auto":
            self.alpha_ = searched_alpha(sample, d, data.n_at_most or d.n_seen, seed)
        else:
            self.alpha_ = float(self.alpha)
        alpha = self.alpha_
        if isinstance(data, SourceTraining):
            data = data.persist()
        single, self.solver_reason_ = self._in_float32(data, d)
        kept, seen = kept_in_memory(data, features, self.memory_budget, single)
        weights = d.weights if d.calibrated else kept.sum(VoronoiTerm(seen))[0]
        offset, tol = self.intercept_, max(float(self.tol), 1e-10)
        found = newton(kept, seen, features, weights, alpha, offset, max(tol, SINGLE) if single else tol)
        if single:  # a look at the gradient in float64, and steps in float64 if rounding is felt
            steps = found.n_iter
            found = newton(data, features, features, weights, alpha, offset, max(tol, 10 * SINGLE), found)
            found.n_iter += steps - 1
        self.solver_, self.condition_ = "newton", None
        self.n_iter_, self.passes_ = found.n_iter, found.passes
        if not found.converged:
            warnings.warn(
                f"Newton's method ended with a gradient of {found.gradient:.2g} of the first: a larger alpha or "
                "scaled columns help",
                ConvergenceWarning,
                stacklevel=3,
            )
        return features.mixing @ found.B
