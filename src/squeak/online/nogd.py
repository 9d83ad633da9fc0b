"""NOGD.

Gradient steps on every row until a budget of rows is kept, then on the leading Nyström features of these.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from squeak.core.checks import check_whole
from squeak.core.constructors import parameters
from squeak.core.nystrom import EigenFeatures, Features, FixedFeatures
from squeak.core.saved import Layout
from squeak.core.state import flag, numbers
from squeak.core.types import Array, Rows
from squeak.online.faces import OnlineClassifier, OnlineRegressor
from squeak.online.first_order import FirstOrder, GradientRule, HingeDefaults, SupportLearner


class NystromLearner(SupportLearner):
    """Kernel gradient descent up to ``budget`` rows; then w ← w − η·ġ·z(x), z the ``rank`` leading features.

    What was learned is carried over: w = Zᵀa, with Z the features of the kept rows and a their coefficients.

    Source: Lu, Hoi, Wang, Zhao and Liu, Large scale online kernel learning (2016).
    """

    _state: ClassVar[Layout] = {
        **SupportLearner._state,
        "embedded": flag(),
        "mixing": numbers("m", "rank", optional=True),
        "weights": numbers("rank", "outputs", optional=True),
    }

    def __init__(self, kernel: Any, rule: GradientRule, n_outputs: int, budget: int, rank: int) -> None:
        super().__init__(kernel, rule, 0.0, n_outputs)
        self.budget, self.rank = budget, rank
        self.features: Features | None = None
        self.weights: Array | None = None

    @property
    def embedded(self) -> bool:
        """Whether steps are taken on the features."""
        return self.features is not None

    @property
    def mixing(self) -> Array | None:
        """What makes the features of kernel values, once there are any."""
        return None if self.features is None else self.features.mixing

    @property
    def facts(self) -> dict[str, int]:
        """Rows kept, and the dimension that steps are taken in."""
        size = len(self.coefficients) if self.weights is None else len(self.weights)
        return {"atoms": len(self.coefficients), "coordinates": size, "growths": 0}

    def raw(self, X: Rows) -> Array:
        """Return f of every row before clipping, shape (n, outputs)."""
        if self.features is None or self.weights is None:
            return super().raw(X)
        return np.asarray(self.features.block(X) @ self.weights)

    def add(self, x: Rows, coefficients: Array) -> None:
        """Add a term to f, in the space that is in use."""
        if self.features is not None:
            self.weights = self.weights + np.outer(self.features.block(x)[0], coefficients[0])
            return
        super().add(x, coefficients)
        if len(self.coefficients) == self.budget:
            mixing = EigenFeatures(self.kernel, self.atoms).mixing[:, : self.rank]
            self.features = FixedFeatures(self.kernel, self.atoms, np.ascontiguousarray(mixing))
            self.weights = self.features.block(self.atoms).T @ self.coefficients

    def _take(self, found: dict[str, Any]) -> None:
        embedded, mixing = found.pop("embedded"), found.pop("mixing")
        if {embedded} != {mixing is not None, found["weights"] is not None}:
            raise ValueError("the learner's features are damaged")
        super()._take(found)
        self.features = FixedFeatures(self.kernel, self.atoms, mixing) if embedded else None


@parameters
class _NOGD(FirstOrder):
    max_atoms: int = 100
    rank: int = 20

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if check_whole("rank", self.rank) > check_whole("max_atoms", self.max_atoms):
            raise ValueError(f"rank {self.rank} is larger than max_atoms {self.max_atoms}")

    def _build(self, kernel: Any, rows: Rows, n_outputs: int, seed: int) -> NystromLearner:
        return NystromLearner(kernel, self._rule(), n_outputs, int(self.max_atoms), int(self.rank))


@parameters
class NOGDRegressor(_NOGD, OnlineRegressor):
    """Nyström online gradient descent: the first rows as a budget, then steps on their leading eigenvectors.

    Parameters
    ----------
    kernel : kernel, optional
        RBF("median") unless given.
    max_atoms : int
        The budget.
    rank : int
        How many eigenvectors are used.
    loss, step, schedule, tube, bound
        As in :class:`KernelOGDRegressor`.
    scale : {"auto", "robust", None}
        As in :class:`ConKonsRegressor`.
    random_state : ignored

    References
    ----------
    Lu, Hoi, Wang, Zhao and Liu, Large scale online kernel learning (2016).

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import NOGDRegressor
    >>> X = np.random.default_rng(0).uniform(-2, 2, (1000, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> bool(np.mean((NOGDRegressor(max_atoms=50).fit(X, y).predict(X) - y) ** 2) < 0.2)
    True
    """

    tube: float = 0.0


@parameters
class NOGDClassifier(HingeDefaults, _NOGD, OnlineClassifier):
    """Nyström online gradient descent for labels: see :class:`NOGDRegressor`.

    Parameters
    ----------
    kernel, max_atoms, rank, step, schedule, scale, random_state
        As in :class:`NOGDRegressor`.
    loss, bound
        As in :class:`KernelOGDClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import NOGDClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (1000, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> NOGDClassifier().fit(X, y).score(X, y) > 0.8
    True
    """
