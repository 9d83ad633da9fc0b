"""FOGD and DUAL-SGD: gradient steps on random Fourier features, alone or beside a budget of kept rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from squeak.core import engine
from squeak.core.checks import check_whole
from squeak.core.constructors import parameters
from squeak.core.fourier import FourierFeatures, has_fourier_features
from squeak.core.rows import n_rows, take
from squeak.core.saved import Layout
from squeak.core.seeds import FEATURES, generator_at
from squeak.core.state import numbers, whole
from squeak.core.types import Array, Rows
from squeak.online.faces import OnlineClassifier, OnlineRegressor
from squeak.online.first_order import FirstOrder, GradientLearner, GradientRule, HingeDefaults, SupportLearner

Draw = Callable[[], FourierFeatures]


class FourierLearner(GradientLearner):
    """w ← w − η·ġ·z(x) in the space of the features; one column of weights for every output.

    z(x) = [cos(Wᵀx), sin(Wᵀx)]/√D, the D columns of W from the kernel's spectral density: zᵀz' ≈ k(x, x'). They
    are drawn when they are needed, for a file does not hold them.

    Source: Lu, Hoi, Wang, Zhao and Liu, Large scale online kernel learning (2016).
    """

    _state: ClassVar[Layout] = {"weights": numbers("outputs", "features"), "n_seen": whole()}

    def __init__(self, rule: GradientRule, n_outputs: int, draw: Draw, n_features: int) -> None:
        super().__init__(rule, n_outputs)
        self.draw = draw
        self.weights = np.zeros((n_outputs, n_features))

    @cached_property
    def features(self) -> FourierFeatures:
        """The features, drawn once."""
        return self.draw()

    @property
    def facts(self) -> dict[str, int]:
        """No rows are kept."""
        return {"atoms": 0, "coordinates": self.weights.shape[1], "growths": 0}

    def raw(self, X: Rows) -> Array:
        """Return f of every row before clipping, shape (n, outputs)."""
        return np.asarray(self.features.block(X) @ self.weights.T)

    def learn(self, X: Rows, targets: Array) -> Array:
        """Predict each row, then learn from it; returns the predictions."""
        predictions = np.empty(targets.shape)
        with engine.single_blas():
            for tile in engine.tiles(n_rows(X), 256):
                for i, z in enumerate(self.features.block(take(X, tile)), start=tile.start):
                    predictions[i] = self._step(z, targets[i].tolist())
        return predictions

    def learn_row(self, x: Rows, targets: list[float]) -> list[float]:
        """Predict one row, then learn from it."""
        return self._step(self.features.block(x)[0], targets)

    def _step(self, z: Array, targets: list[float]) -> list[float]:
        after, said = self.copy(), []
        after.weights = self.weights.copy()
        for rule, weights, y in zip(after.rules, after.weights, targets, strict=True):
            prediction, step = rule(y, float(weights @ z))
            if step != 0.0:
                weights -= step * z
            said.append(prediction)
        after.n_seen += 1
        self.__dict__.update(after.__dict__)  # at once: an interrupt leaves the row learned or not
        return said

    def _sizes(self) -> dict[str, int]:
        return super()._sizes() | {"features": self.weights.shape[1]}


class DualLearner(SupportLearner):
    """A budget of kept rows; over it, the one with the smallest coefficient is moved into the Fourier features.

    Source: Le, Nguyen, Nguyen and Phung, Dual space gradient descent for online learning (2016).
    """

    _state: ClassVar[Layout] = {**SupportLearner._state, "fourier_weights": numbers("features", "outputs")}

    def __init__(
        self, kernel: Any, rule: GradientRule, n_outputs: int, draw: Draw, n_features: int, budget: int
    ) -> None:
        super().__init__(kernel, rule, 0.0, n_outputs)
        self.draw, self.budget = draw, budget
        self.fourier_weights = np.zeros((n_features, n_outputs))

    @cached_property
    def features(self) -> FourierFeatures:
        """The features, drawn once."""
        return self.draw()

    def raw(self, X: Rows) -> Array:
        """Return f of every row before clipping, shape (n, outputs)."""
        return super().raw(X) + self.features.block(X) @ self.fourier_weights

    def shrink(self, factor: float) -> None:
        """Multiply f by a factor."""
        super().shrink(factor)
        self.fourier_weights = self.fourier_weights * factor

    def add(self, x: Rows, coefficients: Array) -> None:
        """Add a term to f, and move the smallest one where there are too many."""
        super().add(x, coefficients)
        if len(self.coefficients) > self.budget:
            least = int(np.argmin(np.abs(self.coefficients).max(axis=1)))
            moved = self.features.block(take(self.atoms, slice(least, least + 1)))[0]
            self.fourier_weights = self.fourier_weights + np.outer(moved, self.coefficients[least])
            stay = np.delete(np.arange(len(self.coefficients)), least)
            self.atoms, self.coefficients = take(self.atoms, stay), self.coefficients[stay]

    def _sizes(self) -> dict[str, int]:
        return super()._sizes() | {"features": len(self.fourier_weights)}


@parameters
class _FOGD(FirstOrder):
    n_features: int = 800

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_whole("n_features", self.n_features)

    def _frequencies(self) -> int:
        """Return D: every frequency gives a cosine and a sine."""
        return (int(self.n_features) + 1) // 2

    def _check_stored(self, arrays: dict[str, Any], n_outputs: int) -> None:
        weights = arrays["fourier_weights" if "fourier_weights" in arrays else "weights"]
        if weights.size != 2 * self._frequencies() * n_outputs:
            raise ValueError(f"its weights are not those of {self.n_features} features")

    def _draw(self, kernel: Any, rows: Rows, seed: int) -> Draw:
        """Return what draws the features, for rows of the kind given."""
        if not has_fourier_features(kernel):
            raise TypeError(f"random Fourier features are known for RBF, Laplacian and Matern, not for {kernel!r}")
        return partial(_drawn, kernel, rows.shape[1], self._frequencies(), seed)

    def _build(self, kernel: Any, rows: Rows, n_outputs: int, seed: int) -> Any:
        return FourierLearner(self._rule(), n_outputs, self._draw(kernel, rows, seed), 2 * self._frequencies())


@parameters
class _DualSGD(_FOGD):
    max_atoms: int = 100

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_whole("max_atoms", self.max_atoms)

    def _build(self, kernel: Any, rows: Rows, n_outputs: int, seed: int) -> Any:
        draw, n_features = self._draw(kernel, rows, seed), 2 * self._frequencies()
        return DualLearner(kernel, self._rule(), n_outputs, draw, n_features, int(self.max_atoms))


def _drawn(kernel: Any, columns: int, n: int, seed: int) -> FourierFeatures:
    return FourierFeatures.pairs(kernel, columns, n, generator_at(seed, FEATURES))


@parameters
class FOGDRegressor(_FOGD, OnlineRegressor):
    """Fourier online gradient descent: a linear model on random Fourier features of the kernel.

    The features have norm 1. Where the literature leaves out the 1/√D, its step size is ours over D.

    Parameters
    ----------
    kernel : RBF, Laplacian, Matern, or a multiple of one, optional
        RBF("median") unless given.
    n_features : int
        2D: a cosine and a sine for each of D frequencies; an odd number is rounded up.
    loss, step, schedule, tube, bound
        As in :class:`KernelOGDRegressor`.
    scale : {"auto", "robust", None}
        As in :class:`ConKonsRegressor`.
    random_state : None, int, RandomState or Generator

    References
    ----------
    Lu, Hoi, Wang, Zhao and Liu, Large scale online kernel learning (2016).

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import FOGDRegressor
    >>> X = np.random.default_rng(0).uniform(-2, 2, (500, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> bool(np.mean((FOGDRegressor(random_state=0).fit(X, y).predict(X) - y) ** 2) < 0.2)
    True
    """

    tube: float = 0.0


@parameters
class FOGDClassifier(HingeDefaults, _FOGD, OnlineClassifier):
    """Fourier online gradient descent for labels: see :class:`FOGDRegressor`.

    Parameters
    ----------
    kernel, n_features, step, schedule, scale, random_state
        As in :class:`FOGDRegressor`.
    loss, bound
        As in :class:`KernelOGDClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import FOGDClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> FOGDClassifier(random_state=0).fit(X, y).score(X, y) > 0.8
    True
    """


@parameters
class DualSGDRegressor(_DualSGD, OnlineRegressor):
    """DUAL-SGD: a budget of kept rows, and the terms of those that had to go as random Fourier features.

    Parameters
    ----------
    kernel, n_features, loss, step, schedule, tube, bound, scale, random_state
        As in :class:`FOGDRegressor`.
    max_atoms : int
        The budget.

    References
    ----------
    Le, Nguyen, Nguyen and Phung, Dual space gradient descent for online learning (2016).

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import DualSGDRegressor
    >>> X = np.random.default_rng(0).uniform(-2, 2, (500, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> model = DualSGDRegressor(max_atoms=50, random_state=0).fit(X, y)
    >>> bool(np.mean((model.predict(X) - y) ** 2) < 0.2), model.n_atoms_
    (True, 50)
    """

    tube: float = 0.0


@parameters
class DualSGDClassifier(HingeDefaults, _DualSGD, OnlineClassifier):
    """DUAL-SGD for labels: see :class:`DualSGDRegressor`.

    Parameters
    ----------
    kernel, n_features, max_atoms, step, schedule, scale, random_state
        As in :class:`DualSGDRegressor`.
    loss, bound
        As in :class:`KernelOGDClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import DualSGDClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> DualSGDClassifier(max_atoms=50, random_state=0).fit(X, y).score(X, y) > 0.8
    True
    """
