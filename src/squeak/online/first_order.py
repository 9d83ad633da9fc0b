"""First-order online kernel learning: gradient steps, regret of order √T.

What second-order learners are compared with.
"""

from __future__ import annotations

import math
from copy import copy
from typing import Any, ClassVar

import numpy as np

from squeak.core import engine
from squeak.core.kernels import block
from squeak.core.kernels.registry import check_stored
from squeak.core.rows import copy_rows, join, n_rows, rows_from_arrays, rows_to_arrays, take
from squeak.core.seeds import RandomState
from squeak.core.state import checked, flag, number, numbers, whole
from squeak.core.types import Array, Rows
from squeak.online.base import OnlineEstimator, check_positive
from squeak.online.faces import OnlineClassifier, OnlineRegressor
from squeak.online.losses import Loss, clipped_part

SCHEDULES = ("sqrt", "constant")


class GradientRule:
    """Step sizes and derivatives: η_t = eta/√t or eta; predictions are clipped as the second-order learners' are.

    Clipping keeps derivatives bounded, so that no step size can make the weights overflow.
    """

    def __init__(self, loss: Loss, eta: float, schedule: str, bound: float | None, tube: float) -> None:
        self.loss, self.eta, self.schedule, self.tube = loss, eta, schedule, tube
        self.grows, self.bound, self.round = bound is None, 0.0 if bound is None else bound, 0

    def copy(self) -> GradientRule:
        """Return a rule in its first state."""
        return GradientRule(self.loss, self.eta, self.schedule, None if self.grows else self.bound, self.tube)

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
        return self.eta / math.sqrt(max(self.round, 1)) if self.schedule == "sqrt" else self.eta


class SupportLearner:
    """f = Σ a_s k(x_s, ·) over rows whose derivative was not 0; one column of coefficients for every output.

    f ← (1 − η·penalty)·f − η·ġ·k(x, ·).

    References
    ----------
    Kivinen, Smola and Williamson's NORMA; the theory page, "Online learning".
    """

    def __init__(self, kernel: Any, rule: GradientRule, penalty: float, n_outputs: int) -> None:
        self.kernel, self.penalty = kernel, penalty
        self.rules = [rule.copy() for _ in range(n_outputs)]
        self.atoms: Rows = None
        self.coefficients = np.zeros((0, n_outputs))
        self.n_seen = 0

    @property
    def facts(self) -> dict[str, int]:
        """Rows kept."""
        return {"atoms": len(self.coefficients), "coordinates": len(self.coefficients), "growths": 0}

    def raw(self, X: Rows) -> Array:
        """Return f of every row before clipping, shape (n, outputs)."""
        if self.atoms is None:
            return np.zeros((n_rows(X), len(self.rules)))
        return np.asarray(block(self.kernel, X, self.atoms) @ self.coefficients)

    def scores(self, X: Rows) -> Array:
        """Return the predictions of rows, shape (n, outputs)."""
        bounds = np.array([rule.bound for rule in self.rules])
        return np.clip(self.raw(X), -bounds, bounds)

    def score_row(self, x: Rows) -> list[float]:
        """Return the predictions of one row."""
        return [float(value) for value in self.scores(x)[0]]

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

    def copy(self) -> Any:
        """Return a learner of its own in the same state; arrays are shared, for none is changed in place."""
        return copied(self)

    def shrink(self, factor: float) -> None:
        """Multiply f by a factor."""
        self.coefficients = self.coefficients * factor

    def add(self, x: Rows, coefficients: Array) -> None:
        """Add a term to f."""
        self.atoms = copy_rows(x) if self.atoms is None else join(self.atoms, x)
        self.coefficients = np.vstack([self.coefficients, coefficients])

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arrays and the rest as JSON data."""
        arrays: dict[str, Any] = {"coefficients": self.coefficients}
        if self.atoms is not None:
            arrays |= rows_to_arrays(self.atoms)
        rules = [{"bound": rule.bound, "round": rule.round} for rule in self.rules]
        return arrays, {"n_seen": self.n_seen, "empty": self.atoms is None, "rules": rules}

    def set_parts(self, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        """Take over the state that :meth:`to_parts` took apart, or raise what does not fit."""
        empty = checked({"empty": flag()}, arrays, content)["empty"]
        self.atoms = None if empty else rows_from_arrays(arrays)
        m = 0 if self.atoms is None else n_rows(self.atoms)
        found = checked(STATE, arrays, content, m=m, outputs=len(self.rules))
        if m:
            check_stored(self.kernel, self.atoms)
        self.coefficients, self.n_seen = found["coefficients"].copy(), found["n_seen"]
        restore_rules(self.rules, content["rules"])


def copied(learner: Any) -> Any:
    """Return a first-order learner of its own in the same state, which shares the arrays."""
    other = copy(learner)
    other.rules = [copy(rule) for rule in learner.rules]
    return other


STATE = {"coefficients": numbers("m", "outputs"), "n_seen": whole()}
RULE = {"bound": number(low=0.0), "round": whole()}


def restore_rules(rules: list[GradientRule], stored: Any) -> None:
    """Give the rules of a learner the bounds and rounds that were stored."""
    if not isinstance(stored, list) or len(stored) != len(rules):
        raise ValueError("the learner's outputs do not fit")
    for rule, facts in zip(rules, stored, strict=True):
        rule.__dict__.update(checked(RULE, {}, facts))


class FirstOrder(OnlineEstimator):
    """The parameters that all first-order estimators share."""

    _poor_on_few_rows: ClassVar[bool] = True
    tube: float

    def __init__(
        self, kernel: Any, loss: str, eta: float, schedule: str, bound: float | None, random_state: RandomState
    ) -> None:
        self.kernel = kernel
        self.loss = loss
        self.eta = eta
        self.schedule = schedule
        self.bound = bound
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("eta", self.eta)
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}; it is {self.schedule!r}")
        tube = getattr(self, "tube", 0.0)
        if isinstance(tube, bool) or not isinstance(tube, int | float | np.number) or not 0 <= tube < math.inf:
            raise ValueError(f"tube must be a number from 0 on; it is {tube!r}")

    def _rule(self) -> GradientRule:
        bound = None if self.bound is None else float(self.bound)
        return GradientRule(self._loss(), float(self.eta), self.schedule, bound, float(getattr(self, "tube", 0.0)))


class _KernelOGD(FirstOrder):
    penalty: float

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not (isinstance(self.penalty, int | float | np.number) and 0 <= self.penalty < math.inf):
            raise ValueError(f"penalty must be a number from 0 on; it is {self.penalty!r}")

    def _build(self, kernel: Any, rows: Rows, n_outputs: int, seed: int) -> SupportLearner:
        return SupportLearner(kernel, self._rule(), float(self.penalty), n_outputs)


class KernelOGDRegressor(_KernelOGD, OnlineRegressor):
    """Kernel online gradient descent (NORMA with a penalty): f ← (1 − η·penalty)f − η·ġ·k(x, ·). Keeps every row.

    Parameters
    ----------
    kernel : kernel, optional
        RBF("median") unless given.
    loss : {"squared"}
    eta : float
        Step size.
    schedule : {"sqrt", "constant"}
        η_t = eta/√t, or eta.
    penalty : float
        0 is plain gradient descent.
    tube : float
        No step where the error is no larger.
    bound : float or None
        Predictions are clipped to [−bound, bound]; None: the largest absolute target so far.
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

    def __init__(
        self,
        kernel: Any = None,
        loss: str = "squared",
        eta: float = 0.5,
        schedule: str = "sqrt",
        penalty: float = 0.0,
        tube: float = 0.0,
        bound: float | None = None,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(kernel, loss, eta, schedule, bound, random_state)
        self.penalty = penalty
        self.tube = tube


class KernelOGDClassifier(_KernelOGD, OnlineClassifier):
    """Kernel online gradient descent for labels: see :class:`KernelOGDRegressor`.

    Parameters
    ----------
    kernel, eta, schedule, penalty, random_state
        As in :class:`KernelOGDRegressor`.
    loss : {"hinge", "logistic", "squared_hinge", "squared"}
    bound : float
        Scores are clipped to [−bound, bound].

    References
    ----------
    Kivinen, Smola and Williamson, Online learning with kernels; the theory page, "Online learning".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import KernelOGDClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> KernelOGDClassifier().fit(X, y).score(X, y) > 0.8
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        loss: str = "hinge",
        eta: float = 1.0,
        schedule: str = "sqrt",
        penalty: float = 0.0,
        bound: float = 10.0,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(kernel, loss, eta, schedule, bound, random_state)
        self.penalty = penalty
