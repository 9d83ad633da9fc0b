"""What KONS and its kin share: the parameters of online Newton steps."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from squeak.core.checks import check_positive
from squeak.core.constructors import parameters
from squeak.core.seeds import RandomState
from squeak.online.base import OnlineEstimator
from squeak.online.losses import loss_of
from squeak.online.newton import StepRule

CURVATURES = ("adaptive", "worst", "auto")


@parameters
class SecondOrder(OnlineEstimator):
    """The parameters of every second-order estimator, and the step rule that they ask for."""

    kernel: Any = field(default=None, kw_only=False)
    loss: str = "squared"
    alpha: float = 0.1
    bound: float | None = None
    curvature: str = "adaptive"
    step: float = 1.0
    scale: str | None = "auto"
    random_state: RandomState = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.curvature not in CURVATURES:
            raise ValueError(f"curvature must be one of {', '.join(CURVATURES)}; it is {self.curvature!r}")
        if check_positive("step", self.step) > 1.0:
            raise ValueError(f"step must lie in (0, 1]; it is {self.step!r}")
        check_positive("alpha", self.alpha)

    def _rule(self) -> StepRule:
        bound = None if self.bound is None else float(self.bound)
        curvature = "adaptive" if self.curvature == "auto" else self.curvature
        return StepRule(loss_of(self), bound, curvature, float(self.step))
