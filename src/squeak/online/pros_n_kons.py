"""PROS-N-KONS, CON-KONS and B-KONS: second-order online kernel learning at a cost a row that does not grow."""

from __future__ import annotations

from typing import Any, ClassVar

from squeak.core.checks import check_positive, check_whole
from squeak.core.constructors import parameters
from squeak.core.rows import copy_rows
from squeak.core.types import Rows
from squeak.kernels import RBF
from squeak.online.drift import LossWatch
from squeak.online.faces import OnlineClassifier, OnlineRegressor
from squeak.online.learner import NewtonLearner, NewtonPlan
from squeak.online.second_order import SecondOrder
from squeak.online.space import Space
from squeak.samplers.base import check_ridge_beside


@parameters
class GrowingSpace(SecondOrder):
    """The shared part: a space that KORS grows, and what a new coordinate does to the Newton steps."""

    _restarts: ClassVar[bool] = False
    classes_join: ClassVar[bool] = True

    ridge: float = 0.03
    oversampling: float = 1.0
    max_atoms: int | None = 100
    alarm_rate: float | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.alarm_rate is not None and check_positive("alarm_rate", self.alarm_rate, " or None") >= 1.0:
            raise ValueError(f"alarm_rate must lie between 0 and 1; it is {self.alarm_rate!r}")
        check_positive("oversampling", self.oversampling)
        check_positive("ridge", self.ridge)
        if self.max_atoms is not None:
            check_whole("max_atoms", self.max_atoms)

    def _build(self, kernel: Any, rows: Rows, n_outputs: int, seed: int) -> Any:
        ridge = check_ridge_beside(float(self.ridge), kernel, rows)
        limit = None if self.max_atoms is None else int(self.max_atoms)
        space = Space.empty(kernel, rows, ridge, float(self.oversampling), limit)
        return NewtonLearner(self._plan(), space, n_outputs, seed)

    def _plan(self) -> NewtonPlan:
        guarded = self.curvature == "auto"
        return NewtonPlan(float(self.alpha), self._restarts, guarded, self._rule(), self._horizons())

    def _watch(self) -> LossWatch | None:
        if self.alarm_rate is None:
            return None
        bound = None if self.bound is None else float(self.bound)
        return LossWatch(float(self.alarm_rate), labels=self._labels, bound=bound)

    def _horizons(self) -> tuple[float | None, ...]:
        """Return the half-lives of the heads."""
        raise self._abstract()

    @property
    def n_coordinates_(self) -> int:
        """The dimension of the space: atoms less those that lay in the span already."""
        return self._fact("coordinates")

    @property
    def n_growths_(self) -> int:
        """How often the space has grown; PROS-N-KONS and B-KONS begin anew each time."""
        return self._fact("growths")


@parameters
class _GrowingKons(GrowingSpace):
    """What has one space, and settings in the papers."""

    _paper_alpha: ClassVar[float] = 1.0
    _paper_atoms: ClassVar[int | None] = None

    half_life: float | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.half_life is not None:
            check_positive("half_life", self.half_life, " or None")

    def _horizons(self) -> tuple[float | None, ...]:
        return (None if self.half_life is None else float(self.half_life),)

    @classmethod
    def from_paper(cls, **params: Any) -> Any:
        """Return the estimator as in the thesis' experiments (section 5.3.2); ``params`` replace its settings.

        RBF of width 8 on columns scaled to [0, 1], α = γ = 1 (classifiers 0.01), KORS with β = 1 and ε = 1/2
        (oversampling β(1 − ε)), η = σ/2 with the worst case's curvature, and C = 1, which the thesis does not
        report.

        Parameters
        ----------
        **params
            As those of the class.

        Returns
        -------
        estimator
        """
        settings: dict[str, Any] = {
            "kernel": RBF(8.0),
            "alpha": cls._paper_alpha,
            "ridge": cls._paper_alpha,
            "oversampling": 0.5,
            "max_atoms": cls._paper_atoms,
            "bound": 1.0,
            "curvature": "worst",
            "step": 0.5,
        }
        return cls(**(settings | params))

    @property
    def atoms_(self) -> Rows:
        """The rows that span the space."""
        learner: Any = self.learner_
        return None if learner is None else copy_rows(learner.space.scorer.atoms)


@parameters
class _Classification(_GrowingKons):
    """The defaults of classifiers."""

    _paper_alpha: ClassVar[float] = 0.01

    loss: str = "squared_hinge"
    bound: float = 10.0


class ConKonsRegressor(_GrowingKons, OnlineRegressor):
    """Online kernel regression that keeps what it learned when its space grows. Begin with this one.

    Rows become atoms by their leverage scores as they come (KORS). In the span of the atoms, each row is one exact
    online Newton step. A new atom adds a coordinate, and the weights and the curvature of the old coordinates stay.
    With squared loss and adaptive curvature this is recursive least squares with clipped predictions, in a kernel
    space that grows by itself. A row takes a time of order atoms².

    Parameters
    ----------
    kernel : kernel, optional
        How similar two rows are. The default is RBF("median"), where the median is taken over the distances between
        the first rows, with each column in units of its scale. With RBF("learned"), columns that matter little to
        the model are made shorter on the way.
    loss : {"squared"}
        What a wrong prediction costs.
    alpha : float
        The regularisation of the Newton steps: their matrix A begins as alpha·I.
    ridge : float
        The ridge of the leverage scores by which atoms are chosen. A smaller ridge finds more atoms.
    oversampling : float
        A row becomes an atom with probability min(1, oversampling·score).
    max_atoms : int or None
        The largest number of coordinates. With it, the time per row and the memory are fixed.
    bound : float or None
        Targets lie in [−bound, bound], and predictions are clipped to it. None means the largest absolute target so
        far.
    curvature : {"adaptive", "worst", "auto"}
        How strongly the loss is taken to curve. "adaptive" is the curvature of each step, which is best for rows in
        random order. "worst" is that of the worst case, which can be better if the target drifts. "auto" runs both
        side by side and predicts with the one that was better of late; its Newton steps take twice as long.
    step : float
        η = step·σ, in (0, 1]; the papers have 1/2.
    half_life : float or None
        After so many rows a row counts half, and after twice as many a quarter, in the matrix A of the Newton
        steps. Choose it about as long as what was true stays true; None: rows count for ever. The atoms stay.
    alarm_rate : float or None
        Watch the losses, and begin anew with the last rows once they have become larger; scales that are learned on
        the way are learned anew, too, and so is how much columns matter. For 8,192 rows the learner as it was goes
        on beside the new one, and their predictions are mixed; then the better one of the two goes on alone. The
        number is the probability with which a stream that does not drift ever raises a false alarm, counted anew
        after each restart for scales. ``history_`` lists the alarms. None: no watch.
    scale : {"auto", "robust", None}
        "robust": the scales of columns are learned on the way, as the medians and inter-quartile ranges of a sample
        of the rows so far, with a soft clip; where they have moved much the learner begins anew with what it
        remembers of the rows, and ``history_`` says so. None: columns are taken as they are, as the papers'
        algorithms do. "auto": "robust" where the kernel's width is learned from the rows and the rows are dense
        and not scaled by a row source; else None.
    random_state : None, int, RandomState or Generator
        The seed. The same seed gives the same result, on any number of threads.

    See Also
    --------
    ProsNKonsRegressor : begins anew at each new atom, as its regret bound needs.

    References
    ----------
    Thesis, section 5.3; the theory page, "Online learning". No regret bound is known for this variant.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import ConKonsRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (2000, 2))
    >>> y = np.sin(2 * X[:, 0]) * X[:, 1]
    >>> model = ConKonsRegressor(random_state=0).partial_fit(X[:1000], y[:1000])
    >>> bool(np.mean((model.predict(X[1000:]) - y[1000:]) ** 2) < 0.1 * y.var())
    True
    >>> model.n_atoms_ <= 100
    True
    """

    _restarts = False


class ConKonsClassifier(_Classification, OnlineClassifier):
    """Online kernel classification that keeps what it learned when its space grows. Begin with this one.

    It works as :class:`ConKonsRegressor` does. Two classes are learned as ±1. More classes are learned one against
    the rest, in one space.

    Parameters
    ----------
    kernel, alpha, ridge, oversampling, max_atoms, curvature, step, half_life, alarm_rate, scale, random_state
        As in :class:`ConKonsRegressor`.
    loss : {"squared_hinge", "logistic", "hinge", "squared"}
        What a wrong prediction costs.
    bound : float
        Scores are clipped to [−bound, bound]. With a bound of 1, the squared hinge is the squared loss of the
        labels.

    Attributes
    ----------
    classes_ : array
        The classes.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import ConKonsClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    >>> y = np.where((X**2).sum(axis=1) < 0.6, "in", "out")
    >>> model = ConKonsClassifier(random_state=0).fit(X[:1000], y[:1000])
    >>> bool(model.score(X[1000:], y[1000:]) > 0.95)
    True
    """

    _restarts = False


@parameters
class ProsNKonsRegressor(_GrowingKons, OnlineRegressor):
    """PROS-N-KONS: exact online Newton steps in the span of the atoms, which start again at each new atom.

    Its regret bound needs these restarts: R_T ≤ J(α‖w‖² + (4/σ)d_eff(α/(σL²))log(2σL²T/α)) + … for J atoms. On
    short streams they cost more than they give, and :class:`ConKonsRegressor` is usually better.

    Parameters
    ----------
    kernel, loss, alpha, ridge, oversampling, bound, curvature, step, half_life, alarm_rate, scale,
    random_state
        As in :class:`ConKonsRegressor`.
    max_atoms : int or None
        The largest number of coordinates. With None, the space grows as the data ask for it.

    References
    ----------
    Thesis, algorithm 14 and theorems 5.8 and 5.9; the theory page, "Online learning".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import ProsNKonsRegressor
    >>> from squeak.kernels import RBF
    >>> X = np.random.default_rng(0).uniform(-2, 2, (2000, 2))
    >>> y = np.sin(2 * X[:, 0]) * X[:, 1] / 2
    >>> model = ProsNKonsRegressor.from_paper(kernel=RBF(1.0), bound=2.0, random_state=0).fit(X, y)
    >>> model.n_growths_ == model.n_coordinates_
    True
    """

    _restarts = True
    _poor_on_few_rows = True

    max_atoms: int | None = None


@parameters
class ProsNKonsClassifier(_Classification, OnlineClassifier):
    """PROS-N-KONS for labels: see :class:`ProsNKonsRegressor`.

    Parameters
    ----------
    kernel, loss, alpha, ridge, oversampling, bound, curvature, step, half_life, alarm_rate, scale,
    random_state
        As in :class:`ConKonsClassifier`.
    max_atoms : int or None
        None: the space grows as the data ask.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import ProsNKonsClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    >>> y = (X**2).sum(axis=1) < 0.6
    >>> ProsNKonsClassifier(random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    _restarts = True
    _poor_on_few_rows = True

    max_atoms: int | None = None


class BudgetKonsRegressor(_GrowingKons, OnlineRegressor):
    """B-KONS: PROS-N-KONS until ``max_atoms`` coordinates are there, then Newton steps in that space for ever.

    Below the limit it is PROS-N-KONS with the same seed, to rounding. Coordinates count, not atoms: a repeated
    row may be sampled again and adds none.

    Parameters
    ----------
    kernel, loss, alpha, ridge, oversampling, max_atoms, bound, curvature, step, half_life, alarm_rate, scale,
    random_state
        As in :class:`ConKonsRegressor`.

    References
    ----------
    Thesis, section 5.3.2; the theory page, "Online learning".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import BudgetKonsRegressor
    >>> X = np.random.default_rng(0).uniform(-2, 2, (2000, 2))
    >>> y = np.sin(2 * X[:, 0]) * X[:, 1]
    >>> BudgetKonsRegressor(max_atoms=30, random_state=0).fit(X, y).n_coordinates_
    30
    """

    _restarts = True
    _poor_on_few_rows = True
    _paper_atoms = 100


class BudgetKonsClassifier(_Classification, OnlineClassifier):
    """B-KONS for labels: see :class:`BudgetKonsRegressor`.

    Parameters
    ----------
    kernel, loss, alpha, ridge, oversampling, max_atoms, bound, curvature, step, half_life, alarm_rate, scale,
    random_state
        As in :class:`ConKonsClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import BudgetKonsClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    >>> y = (X**2).sum(axis=1) < 0.6
    >>> BudgetKonsClassifier(max_atoms=30, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    _restarts = True
    _poor_on_few_rows = True
    _paper_atoms = 100
