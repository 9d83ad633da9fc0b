"""Projectron: gradient steps whose row is kept only where it is far from the span of those kept."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from squeak.core.checks import check_between, check_whole
from squeak.core.cholesky import GrowingCholesky
from squeak.core.constructors import parameters
from squeak.core.kernels import block, diagonal
from squeak.core.nystrom import IN_SPAN
from squeak.core.saved import Layout
from squeak.core.types import Array, Rows
from squeak.online.faces import OnlineClassifier, OnlineRegressor
from squeak.online.first_order import FirstOrder, GradientRule, SupportLearner
from squeak.online.losses import HingeLoss
from squeak.online.stored import FactorPiece


class PerceptronLoss(HingeLoss):
    """max(0, −yz): a step at every mistake and at no other row."""

    def value(self, y: Any, z: Any) -> Any:
        """Return max(0, −yz)."""
        return np.maximum(0.0, -y * z)

    def derivative(self, y: float, z: float) -> float:
        """Return −y where the sign is wrong, 0 counted as wrong."""
        return -y if y * z <= 0.0 else 0.0


class ProjectedLearner(SupportLearner):
    """f ← f − η·ġ·k(x, ·), with k(x, ·) replaced by its projection on the span of the rows kept where that is near.

    Between calls ``factor`` is that of K over the rows kept.
    """

    _state: ClassVar[Layout] = {**SupportLearner._state, "factor": FactorPiece("m")}

    def __init__(self, kernel: Any, rule: GradientRule, n_outputs: int, tol: float, max_atoms: int | None) -> None:
        super().__init__(kernel, rule, 0.0, n_outputs)
        self.tol, self.max_atoms, self.factor = tol, max_atoms, GrowingCholesky()

    def add(self, x: Rows, coefficients: Array) -> None:
        """Add a term to f: to the coefficients of the rows kept, or as one more row."""
        level = float(diagonal(self.kernel, x)[0])
        if level <= 0.0:
            return  # k(x, ·) is 0
        columns = np.zeros((1, 0)) if self.atoms is None else block(self.kernel, x, self.atoms)
        projected = self.factor.project(columns)
        left = level - float(np.sum(projected**2))
        full = self.max_atoms is not None and len(self.coefficients) >= self.max_atoms
        if self.atoms is not None and (full or left <= max(self.tol, IN_SPAN) * level):
            self.coefficients = self.coefficients + (self.factor.inverse.T @ projected[0])[:, None] * coefficients
            return
        super().add(x, coefficients)
        self.factor = self.factor.append(projected, np.array([[left]]))

    def _take(self, found: dict[str, Any]) -> None:
        if found["factor"].size != len(found["coefficients"]):
            raise ValueError("the learner's factor does not fit its rows")
        super()._take(found)


@parameters
class _Projectron(FirstOrder):
    tol: float = 0.01
    max_atoms: int | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_between("tol", self.tol, 0.0, 1.0)
        if self.max_atoms is not None:
            check_whole("max_atoms", self.max_atoms)

    def _build(self, kernel: Any, rows: Rows, n_outputs: int, seed: int) -> ProjectedLearner:
        limit = None if self.max_atoms is None else int(self.max_atoms)
        return ProjectedLearner(kernel, self._rule(), n_outputs, float(self.tol), limit)


@parameters
class ProjectronRegressor(_Projectron, OnlineRegressor):
    """Kernel online gradient descent that keeps a row only where it is far from the span of those kept.

    A step −η·ġ·k(x, ·) is taken on the projection K⁻¹k(x) of the row on the rows kept where its squared distance
    from their span is at most tol·k(x, x), else the row is kept. So their number stays bounded for ever, whatever
    the length of the stream.

    Parameters
    ----------
    kernel : kernel, optional
        RBF("median") unless given.
    tol : float
        0 keeps every row that is not in the span, and is :class:`KernelOGDRegressor` in function.
    max_atoms : int, optional
        Once so many rows are kept, all others are projected.
    loss, step, schedule, tube, bound
        As in :class:`KernelOGDRegressor`.
    scale : {"auto", "robust", None}
        As in :class:`ConKonsRegressor`.
    random_state : ignored

    References
    ----------
    Orabona, Keshet, Caputo, "Bounded kernel-based online learning", JMLR 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import ProjectronRegressor
    >>> X = np.random.default_rng(0).uniform(-2, 2, (1000, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> bool(np.mean((ProjectronRegressor().fit(X, y).predict(X) - y) ** 2) < 0.2)
    True
    """

    tube: float = 0.0


@parameters
class ProjectronClassifier(_Projectron, OnlineClassifier):
    """The Projectron: a kernel perceptron that keeps a row it got wrong only where it is far from those kept.

    At a mistake f ← f + y·k(x, ·), on the projection of k(x, ·) where that is near, as in
    :class:`ProjectronRegressor`; at other rows nothing happens.

    Parameters
    ----------
    kernel, tol, max_atoms, step, schedule, scale, random_state
        As in :class:`ProjectronRegressor`; the step is 1 at every mistake.
    bound : float
        Scores are clipped to [−bound, bound].

    References
    ----------
    Orabona, Keshet, Caputo, "Bounded kernel-based online learning", JMLR 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import ProjectronClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (1000, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> ProjectronClassifier().fit(X, y).score(X, y) > 0.75
    True
    """

    loss: str = field(default="hinge", init=False)
    step: float = 1.0
    schedule: str = "constant"
    bound: float = 1e3

    def _rule(self) -> GradientRule:
        return GradientRule(PerceptronLoss(), float(self.step), self.schedule, float(self.bound), 0.0)
