"""NOGD.

Gradient steps on every row until a budget of rows is kept, then on the leading Nyström features of these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core.nystrom import EigenFeatures, Features, FixedFeatures
from squeak.core.rows import n_rows
from squeak.core.seeds import RandomState
from squeak.core.state import checked, flag, numbers
from squeak.core.types import Array, Rows
from squeak.online.faces import OnlineClassifier, OnlineRegressor
from squeak.online.first_order import FirstOrder, GradientRule, SupportLearner
from squeak.samplers.base import check_max_atoms


class NystromLearner(SupportLearner):
    """Kernel gradient descent up to ``budget`` rows; then w ← w − η·ġ·z(x), z the ``rank`` leading features.

    What was learned is carried over: w = Zᵀa, with Z the features of the kept rows and a their coefficients.

    References
    ----------
    Lu, Hoi, Wang, Zhao and Liu, Large scale online kernel learning (2016).
    """

    def __init__(self, kernel: Any, rule: GradientRule, n_outputs: int, budget: int, rank: int) -> None:
        super().__init__(kernel, rule, 0.0, n_outputs)
        self.budget, self.rank = budget, rank
        self.features: Features | None = None
        self.weights = np.zeros((0, n_outputs))

    @property
    def facts(self) -> dict[str, int]:
        """Rows kept, and the dimension that steps are taken in."""
        size = len(self.coefficients) if self.features is None else len(self.weights)
        return {"atoms": 0 if self.atoms is None else n_rows(self.atoms), "coordinates": size, "growths": 0}

    def raw(self, X: Rows) -> Array:
        """Return f of every row before clipping, shape (n, outputs)."""
        return super().raw(X) if self.features is None else np.asarray(self.features.block(X) @ self.weights)

    def add(self, x: Rows, coefficients: Array) -> None:
        """Add a term to f, in the space that is in use."""
        if self.features is not None:
            self.weights = self.weights + np.outer(self.features.block(x)[0], coefficients[0])
            return
        super().add(x, coefficients)
        if len(self.coefficients) == self.budget:
            self._embed()
            assert self.features is not None
            self.weights = self.features.block(self.atoms).T @ self.coefficients

    def _embed(self) -> None:
        features = EigenFeatures(self.kernel, self.atoms)
        features.mixing = np.ascontiguousarray(features.mixing[:, : self.rank])
        self.features = features

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arrays and the rest as JSON data."""
        arrays, content = super().to_parts()
        if self.features is not None:
            arrays |= {"weights": self.weights, "mixing": self.features.mixing}
        return arrays, {**content, "embedded": self.features is not None}

    def set_parts(self, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        """Take over the state that :meth:`to_parts` took apart, or raise what does not fit."""
        super().set_parts(arrays, content)
        if checked({"embedded": flag()}, arrays, content)["embedded"]:
            found = checked(EMBEDDED, arrays, content, m=len(self.coefficients), outputs=len(self.rules))
            self.features = FixedFeatures(self.kernel, self.atoms, found["mixing"])
            self.weights = found["weights"].copy()


EMBEDDED = {"mixing": numbers("m", "rank"), "weights": numbers("rank", "outputs")}


class _NOGD(FirstOrder):
    max_atoms: int
    rank: int

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if check_max_atoms(self.rank, "rank") > check_max_atoms(self.max_atoms):
            raise ValueError(f"rank {self.rank} is larger than max_atoms {self.max_atoms}")

    def _build(self, kernel: Any, rows: Rows, n_outputs: int, seed: int) -> NystromLearner:
        return NystromLearner(kernel, self._rule(), n_outputs, int(self.max_atoms), int(self.rank))


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
    loss, eta, schedule, tube, bound
        As in :class:`KernelOGDRegressor`.
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

    def __init__(
        self,
        kernel: Any = None,
        max_atoms: int = 100,
        rank: int = 20,
        loss: str = "squared",
        eta: float = 0.5,
        schedule: str = "sqrt",
        tube: float = 0.0,
        bound: float | None = None,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(kernel, loss, eta, schedule, bound, random_state)
        self.max_atoms = max_atoms
        self.rank = rank
        self.tube = tube


class NOGDClassifier(_NOGD, OnlineClassifier):
    """Nyström online gradient descent for labels: see :class:`NOGDRegressor`.

    Parameters
    ----------
    kernel, max_atoms, rank, eta, schedule, random_state
        As in :class:`NOGDRegressor`.
    loss, bound
        As in :class:`KernelOGDClassifier`.

    References
    ----------
    Lu, Hoi, Wang, Zhao and Liu, Large scale online kernel learning (2016).

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import NOGDClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (1000, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> NOGDClassifier().fit(X, y).score(X, y) > 0.8
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        max_atoms: int = 100,
        rank: int = 20,
        loss: str = "hinge",
        eta: float = 1.0,
        schedule: str = "sqrt",
        bound: float = 10.0,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(kernel, loss, eta, schedule, bound, random_state)
        self.max_atoms = max_atoms
        self.rank = rank
