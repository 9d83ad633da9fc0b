"""Losses of online learning: value, derivative, Lipschitz constant, and curvature, worst and at each step.

A loss ℓ is σ-curved at u when ℓ(w) ≥ ℓ(u) + ℓ'(u)(w − u) + (σ/2)·ℓ'(u)²(w − u)² for every |w| ≤ bound. An online
Newton step may add σ·g·gᵀ to its matrix: the larger σ, the faster it learns. Only u = the prediction matters
in the analysis, so the curvature of this very step is legal, and far larger than the worst case.

Step functions take and return plain floats, which is what a stream of single rows needs; ``value`` takes arrays.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Protocol

import numpy as np
from sklearn.base import is_classifier

SMALLEST_ERROR = 1e-6
"""A squared loss whose error is below this part of the bound counts as having that error.

Curvature stays finite.
"""

SMALLEST_BOUND = 1e-150
"""Targets below this count as having that size, for their squares would be 0."""


class Loss(Protocol):
    """What an online learner asks of a loss; y is a target in [−bound, bound], or a label ±1."""

    name: ClassVar[str]
    for_labels: ClassVar[bool]
    """Whether y is a label ±1."""

    def value(self, y: Any, z: Any) -> Any:
        """Return ℓ(y, z), elementwise."""

    def derivative(self, y: float, z: float) -> float:
        """Return dℓ/dz."""

    def second_derivative(self, y: Any, z: Any) -> Any:
        """Return d²ℓ/dz², elementwise; the smaller one where there are two."""

    def lipschitz(self, bound: float) -> float:
        """Return the largest |ℓ'| on [−bound, bound]."""

    def worst_curvature(self, bound: float) -> float:
        """Return the σ that holds for all y and all predictions in [−bound, bound]; 0: not curved."""

    def curvature(self, y: float, z: float, bound: float) -> float:
        """Return the largest σ that holds at the prediction z; only asked where ℓ' ≠ 0."""


class SquaredLoss:
    """(y − z)², with targets and predictions in [−bound, bound].

    σ = 1/(8·bound²) at worst; at a step exactly 1/(2(z − y)²), for then the quadratic bound is the loss itself.

    Source: Thesis, section 5.1; the theory page, "Online learning".
    """

    name: ClassVar[str] = "squared"
    for_labels: ClassVar[bool] = False

    def value(self, y: Any, z: Any) -> Any:
        """Return (y − z)²."""
        return (y - z) ** 2

    def derivative(self, y: float, z: float) -> float:
        """Return 2(z − y)."""
        return 2.0 * (z - y)

    def second_derivative(self, y: Any, z: Any) -> Any:
        """Return 2."""
        return np.full(np.shape(z), 2.0)

    def lipschitz(self, bound: float) -> float:
        """Return 4·bound."""
        return 4.0 * bound

    def worst_curvature(self, bound: float) -> float:
        """Return 1/(8·bound²)."""
        return 1.0 / (8.0 * max(bound, SMALLEST_BOUND) ** 2)

    def curvature(self, y: float, z: float, bound: float) -> float:
        """Return 1/(2(z − y)²), the error no smaller than :data:`SMALLEST_ERROR` of the bound."""
        error = max(abs(z - y), SMALLEST_ERROR * bound, SMALLEST_BOUND)
        return 0.5 / (error * error)


class LogisticLoss:
    """log(1 + e^(−yz)) with labels ±1.

    σ = e^(−bound) at worst. At a step: the mean curvature from z to w, which is least at one end of
    [−bound, bound], over ℓ'(z)².

    Source: Thesis, section 5.1; the theory page, "Online learning".
    """

    name: ClassVar[str] = "logistic"
    for_labels: ClassVar[bool] = True

    def value(self, y: Any, z: Any) -> Any:
        """Return log(1 + e^(−yz)), without overflow."""
        return np.logaddexp(0.0, -y * z)

    def derivative(self, y: float, z: float) -> float:
        """Return −y/(1 + e^(yz))."""
        return -y * _logistic(-y * z)

    def second_derivative(self, y: Any, z: Any) -> Any:
        """Return p(1 − p), p = 1/(1 + e^(−z))."""
        with np.errstate(over="ignore"):
            p = 1.0 / (1.0 + np.exp(-np.abs(z)))
        return p * (1.0 - p)

    def lipschitz(self, bound: float) -> float:
        """Return 1/(1 + e^(−bound))."""
        return _logistic(bound)

    def worst_curvature(self, bound: float) -> float:
        """Return e^(−bound)."""
        return math.exp(-bound)

    def curvature(self, y: float, z: float, bound: float) -> float:
        """Return the least mean second derivative between z and a point of [−bound, bound], over ℓ'(z)²."""
        margin = y * z
        slope = _logistic(-margin)
        least = min(_mean_curvature(margin, end) for end in (-bound, bound))
        return least / (slope * slope)


class SquaredHingeLoss:
    """max(0, 1 − yz)² with labels ±1.

    With m = 1 − yz > 0 and D = max(m, bound − 1 + m), the step's σ = (2D − m)/(2mD²). At bound 1 it is the squared
    loss of the labels; a larger bound lets predictions pass the margin, where the loss is 0.

    Source: Thesis, section 5.1; the theory page, "Online learning". The step's curvature is derived from the
    definition.
    """

    name: ClassVar[str] = "squared_hinge"
    for_labels: ClassVar[bool] = True

    def value(self, y: Any, z: Any) -> Any:
        """Return max(0, 1 − yz)²."""
        return np.maximum(0.0, 1.0 - y * z) ** 2

    def derivative(self, y: float, z: float) -> float:
        """Return −2y·max(0, 1 − yz)."""
        return -2.0 * y * max(0.0, 1.0 - y * z)

    def second_derivative(self, y: Any, z: Any) -> Any:
        """Return 2 inside the margin, 0 beyond."""
        return np.where(np.asarray(y) * z < 1.0, 2.0, 0.0)

    def lipschitz(self, bound: float) -> float:
        """Return 2(1 + bound)."""
        return 2.0 * (1.0 + bound)

    def worst_curvature(self, bound: float) -> float:
        """Return 1/(2(1 + bound)²) up to bound 1, (3·bound − 1)/(8·bound²(1 + bound)) above."""
        if bound <= 1.0:
            return 0.5 / (1.0 + bound) ** 2
        return (3.0 * bound - 1.0) / (8.0 * bound * bound * (1.0 + bound))

    def curvature(self, y: float, z: float, bound: float) -> float:
        """Return (2D − m)/(2mD²), m = 1 − yz, D = max(m, bound − 1 + m)."""
        m = max(1.0 - y * z, SMALLEST_ERROR)
        reach = max(m, bound - 1.0 + m)
        return (2.0 * reach - m) / (2.0 * m * reach * reach)


class HingeLoss:
    """max(0, 1 − yz) with labels ±1: no curvature, so steps shrink as 1/(L·bound·√t) and regret grows as √T.

    Source: Thesis, section 5.1; the theory page, "Online learning".
    """

    name: ClassVar[str] = "hinge"
    for_labels: ClassVar[bool] = True

    def value(self, y: Any, z: Any) -> Any:
        """Return max(0, 1 − yz)."""
        return np.maximum(0.0, 1.0 - y * z)

    def derivative(self, y: float, z: float) -> float:
        """Return −y inside the margin, 0 beyond."""
        return -y if y * z < 1.0 else 0.0

    def second_derivative(self, y: Any, z: Any) -> Any:
        """Return 0."""
        return np.zeros(np.shape(z))

    def lipschitz(self, bound: float) -> float:
        """Return 1."""
        return 1.0

    def worst_curvature(self, bound: float) -> float:
        """Return 0."""
        return 0.0

    def curvature(self, y: float, z: float, bound: float) -> float:
        """Return 0."""
        return 0.0


LOSSES: dict[str, Loss] = {
    loss.name: loss for loss in (SquaredLoss(), LogisticLoss(), SquaredHingeLoss(), HingeLoss())
}


def loss_named(name: Any, *, labels: bool) -> Loss:
    """Return the loss of that name, or raise; regression takes the squared loss only."""
    known = [key for key, loss in LOSSES.items() if labels or not loss.for_labels]
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"loss must be one of {', '.join(known)}; it is {name!r}")
    return LOSSES[name]


def loss_of(model: Any) -> Loss:
    """Return the loss that an online estimator names, or raise."""
    return loss_named(model.loss, labels=is_classifier(model))


def clipped_part(z: float, bound: float) -> float:
    """Return h(z) = sign(z)·max(|z| − bound, 0): what clipping to [−bound, bound] takes away."""
    if z > bound:
        return z - bound
    return z + bound if z < -bound else 0.0


def _logistic(z: float) -> float:
    if z >= 0:
        return 1.0 / (1.0 + math.exp(-z))
    small = math.exp(max(z, -745.0))
    return small / (1.0 + small)


def _log_sum(z: float) -> float:
    """Return log(1 + e^(−z))."""
    return math.log1p(math.exp(-z)) if z > 0 else -z + math.log1p(math.exp(z))


def _mean_curvature(start: float, end: float) -> float:
    """Return 2(f(end) − f(start) − f'(start)(end − start))/(end − start)² for f(s) = log(1 + e^(−s))."""
    gap = end - start
    if abs(gap) < 1e-3:  # the difference would be lost in rounding; the integral's midpoint rule is not
        p = _logistic(start + gap / 3.0)
        return p * (1.0 - p)
    return 2.0 * (_log_sum(end) - _log_sum(start) + _logistic(-start) * gap) / (gap * gap)
