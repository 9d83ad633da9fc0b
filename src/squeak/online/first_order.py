"""First-order online kernel learning: gradient steps, regret of order √T.

What second-order learners are compared with.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from squeak.core import engine
from squeak.core.checks import check_between, check_positive
from squeak.core.constructors import parameters
from squeak.core.kernels import block
from squeak.core.kernels.registry import check_stored
from squeak.core.rows import copy_rows, join, n_rows, take
from squeak.core.saved import Layout, RowsPiece
from squeak.core.seeds import RandomState
from squeak.core.state import LARGEST, flag, number, numbers, whole
from squeak.core.types import Array, Rows
from squeak.online.base import OnlineEstimator
from squeak.online.faces import OnlineClassifier, OnlineRegressor
from squeak.online.losses import Loss, clipped_part, loss_of
from squeak.online.stored import Stored

SCHEDULES = ("sqrt", "constant")


class GradientRule(Stored):
    """Step sizes and derivatives: η_t = step/√t or step; predictions are clipped as the second-order learners' are.

    Clipping keeps derivatives bounded, so that no step size can make the weights overflow.
    """

    _state: ClassVar[Layout] = {"bound": number(low=0.0), "round": whole()}

    def __init__(self, loss: Loss, step: float, schedule: str, bound: float | None, tube: float) -> None:
        self.loss, self.step, self.schedule, self.tube = loss, step, schedule, tube
        self.grows, self.bound, self.round = bound is None, 0.0 if bound is None else bound, 0

    def __call__(self, y: float, z: float) -> tuple[float, float]:
        """Return the clipped prediction and η·ġ; 0 within the tube."""
        prediction = z - clipped_part(z, self.bound)
        self.round += 1
        if self.grows and abs(y) > self.bound:
            self.bound = abs(y)
        if self.tube > 0.0 and abs(prediction - y) <= self.tube:
            return prediction, 0.0
        return prediction, self.size * self.loss.derivative(y, z - clipped_part(z, self.bound))

    @property
    def size(self) -> float:
        """η of this round."""
        return self.step / math.sqrt(max(self.round, 1)) if self.schedule == "sqrt" else self.step


class GradientLearner(Stored):
    """What all first-order learners share: a rule for every output, and predictions clipped to their bounds."""

    _inner: ClassVar[tuple[str, str]] = ("rules", "")

    def __init__(self, rule: GradientRule, n_outputs: int) -> None:
        self.rules = [copy(rule) for _ in range(n_outputs)]
        self.n_seen = 0

    def raw(self, X: Rows) -> Array:
        """Return f of every row before clipping, shape (n, outputs)."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def scores(self, X: Rows) -> Array:
        """Return the predictions of rows, shape (n, outputs)."""
        bounds = np.array([rule.bound for rule in self.rules])
        return np.clip(self.raw(X), -bounds, bounds)

    def score_row(self, x: Rows) -> list[float]:
        """Return the predictions of one row."""
        return [float(value) for value in self.scores(x)[0]]

    def copy(self) -> Any:
        """Return a learner of its own in the same state; arrays are shared, for none is changed in place."""
        other = copy(self)
        other.rules = [copy(rule) for rule in self.rules]
        return other

    def _sizes(self) -> dict[str, int]:
        return {"outputs": len(self.rules)}


class SupportLearner(GradientLearner):
    """f = Σ a_s k(x_s, ·) over rows whose derivative was not 0; one column of coefficients for every output.

    f ← (1 − η·penalty)·f − η·ġ·k(x, ·).

    Source: Kivinen, Smola and Williamson's NORMA; the theory page, "Online learning".
    """

    _state: ClassVar[Layout] = {
        "atoms": RowsPiece(size="m", optional=True),
        "empty": flag(),
        "coefficients": numbers("m", "outputs"),
        "n_seen": whole(),
    }

    def __init__(self, kernel: Any, rule: GradientRule, penalty: float, n_outputs: int) -> None:
        super().__init__(rule, n_outputs)
        self.kernel, self.penalty = kernel, penalty
        self.atoms: Rows = None
        self.coefficients = np.zeros((0, n_outputs))

    @property
    def empty(self) -> bool:
        """Whether no row is kept yet."""
        return self.atoms is None

    @property
    def facts(self) -> dict[str, int]:
        """Rows kept."""
        return {"atoms": len(self.coefficients), "coordinates": len(self.coefficients), "growths": 0}

    def raw(self, X: Rows) -> Array:
        """Return f of every row before clipping, shape (n, outputs)."""
        if self.atoms is None:
            return np.zeros((n_rows(X), len(self.rules)))
        return np.asarray(block(self.kernel, X, self.atoms) @ self.coefficients)

    def learn(self, X: Rows, targets: Array) -> Array:
        """Predict each row, then learn from it; returns the predictions."""
        with engine.single_blas():
            return np.array(
                [self.learn_row(take(X, slice(i, i + 1)), targets[i].tolist()) for i in range(n_rows(X))]
            )

    def learn_row(self, x: Rows, targets: list[float]) -> list[float]:
        """Predict one row, then learn from it."""
        after, values = self.copy(), self.raw(x)[0].tolist()
        outcomes = [rule(y, z) for rule, y, z in zip(after.rules, targets, values, strict=True)]
        if self.penalty > 0.0:
            after.shrink(1.0 - min(1.0, after.rules[0].size * self.penalty))
        if any(step != 0.0 for _, step in outcomes):
            after.add(x, np.array([[-step for _, step in outcomes]]))
        after.n_seen += 1
        self.__dict__.update(after.__dict__)  # at once: an interrupt leaves the row learned or not
        return [prediction for prediction, _ in outcomes]

    def shrink(self, factor: float) -> None:
        """Multiply f by a factor."""
        self.coefficients = self.coefficients * factor

    def add(self, x: Rows, coefficients: Array) -> None:
        """Add a term to f."""
        self.atoms = copy_rows(x) if self.atoms is None else join(self.atoms, x)
        self.coefficients = np.vstack([self.coefficients, coefficients])

    def _take(self, found: dict[str, Any]) -> None:
        atoms, empty = found["atoms"], found.pop("empty")
        if empty != (atoms is None) or empty == bool(len(found["coefficients"])):
            raise ValueError("the learner's rows do not fit its coefficients")
        if atoms is not None:
            check_stored(self.kernel, atoms)
        super()._take(found)


@parameters
class FirstOrder(OnlineEstimator):
    """The parameters that all first-order estimators share."""

    _poor_on_few_rows: ClassVar[bool] = True
    kernel: Any = field(default=None, kw_only=False)
    loss: str = "squared"
    step: float = 0.5
    schedule: str = "sqrt"
    bound: float | None = None
    scale: str | None = "auto"
    random_state: RandomState = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("step", self.step)
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}; it is {self.schedule!r}")
        for name in ("tube", "penalty"):
            check_between(name, getattr(self, name, 0.0), 0.0, LARGEST)

    def _rule(self) -> GradientRule:
        bound, tube = None if self.bound is None else float(self.bound), float(getattr(self, "tube", 0.0))
        return GradientRule(loss_of(self), float(self.step), self.schedule, bound, tube)


@parameters
class HingeDefaults(FirstOrder):
    """The defaults of classifiers."""

    loss: str = "hinge"
    step: float = 1.0
    bound: float = 10.0


@parameters
class _KernelOGD(FirstOrder):
    penalty: float = 0.0

    def _build(self, kernel: Any, rows: Rows, n_outputs: int, seed: int) -> SupportLearner:
        return SupportLearner(kernel, self._rule(), float(self.penalty), n_outputs)


@parameters
class KernelOGDRegressor(_KernelOGD, OnlineRegressor):
    """Kernel online gradient descent (NORMA with a penalty): f ← (1 − η·penalty)f − η·ġ·k(x, ·). Keeps every row.

    Parameters
    ----------
    kernel : kernel, optional
        RBF("median") unless given.
    loss : {"squared"}
    step : float
        η_t = step/√t, or step: see ``schedule``.
    schedule : {"sqrt", "constant"}
    penalty : float
        0 is plain gradient descent.
    tube : float
        No step where the error is no larger.
    bound : float or None
        Predictions are clipped to [−bound, bound]; None: the largest absolute target so far.
    scale : {"auto", "robust", None}
        As in :class:`ConKonsRegressor`.
    random_state : ignored

    References
    ----------
    Kivinen, Smola and Williamson, Online learning with kernels; the theory page, "Online learning".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import KernelOGDRegressor
    >>> X = np.random.default_rng(0).uniform(-2, 2, (500, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> bool(np.mean((KernelOGDRegressor().fit(X, y).predict(X) - y) ** 2) < 0.2)
    True
    """

    tube: float = 0.0


@parameters
class KernelOGDClassifier(HingeDefaults, _KernelOGD, OnlineClassifier):
    """Kernel online gradient descent for labels: see :class:`KernelOGDRegressor`.

    Parameters
    ----------
    kernel, step, schedule, penalty, scale, random_state
        As in :class:`KernelOGDRegressor`.
    loss : {"hinge", "logistic", "squared_hinge", "squared"}
    bound : float
        Scores are clipped to [−bound, bound].

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import KernelOGDClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> KernelOGDClassifier().fit(X, y).score(X, y) > 0.8
    True
    """
