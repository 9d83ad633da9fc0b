"""FOGD and DUAL-SGD: gradient steps on random Fourier features, alone or beside a budget of kept rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.kernels import RBF
from squeak.core.kernels.width import checked_width
from squeak.core.rows import n_rows, take
from squeak.core.seeds import FEATURES, RandomState, generator_at
from squeak.core.state import checked, numbers, whole
from squeak.core.types import Array, Rows
from squeak.online.faces import OnlineClassifier, OnlineRegressor
from squeak.online.first_order import FirstOrder, GradientRule, SupportLearner, copied, restore_rules
from squeak.samplers.base import check_max_atoms


class FourierFeatures:
    """z(x) = [cos(Wᵀx), sin(Wᵀx)]/√D, the D columns of W ~ N(0, 1/width²): zᵀz' ≈ the RBF kernel, and ‖z‖ = 1."""

    def __init__(self, kernel: Any, columns: int, n_frequencies: int, seed: int) -> None:
        if not isinstance(kernel, RBF):
            raise TypeError(f"random Fourier features are those of an RBF kernel here; the kernel is {kernel!r}")
        self._width = np.broadcast_to(checked_width(kernel, columns), (columns,))
        self.n_frequencies, self._seed = n_frequencies, seed

    @cached_property
    def W(self) -> Array:
        """The frequencies, shape (columns, D); drawn when they are needed, for a file does not hold them."""
        draws = generator_at(self._seed, FEATURES).standard_normal((len(self._width), self.n_frequencies))
        return np.asarray(draws / self._width[:, None])

    def __call__(self, X: Rows) -> Array:
        """Return the features of rows, shape (n, 2D)."""
        with np.errstate(over="ignore", invalid="ignore"):
            angles = np.asarray(X @ self.W, dtype=np.float64)
        if not np.isfinite(angles).all():
            raise ValueError("rows divided by length_scale overflow float64: scale the columns first")
        return np.asarray(np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(self.W.shape[1]))


class FourierLearner:
    """w ← w − η·ġ·z(x) in the space of the features; one column of weights for every output.

    References
    ----------
    Lu, Hoi, Wang, Zhao and Liu, Large scale online kernel learning (2016).
    """

    def __init__(self, features: FourierFeatures, rule: GradientRule, n_outputs: int) -> None:
        self.features = features
        self.rules = [rule.copy() for _ in range(n_outputs)]
        self.weights = np.zeros((n_outputs, 2 * features.n_frequencies))
        self.n_seen = 0

    @property
    def facts(self) -> dict[str, int]:
        """No rows are kept."""
        return {"atoms": 0, "coordinates": self.weights.shape[1], "growths": 0}

    def scores(self, X: Rows) -> Array:
        """Return the predictions of rows, shape (n, outputs)."""
        bounds = np.array([rule.bound for rule in self.rules])
        return np.clip(self.features(X) @ self.weights.T, -bounds, bounds)

    def score_row(self, x: Rows) -> list[float]:
        """Return the predictions of one row."""
        return [float(value) for value in self.scores(x)[0]]

    def learn(self, X: Rows, targets: Array) -> Array:
        """Predict each row, then learn from it; returns the predictions."""
        predictions = np.empty(targets.shape)
        with engine.single_blas():
            for tile in engine.tiles(n_rows(X), 256):
                for i, z in enumerate(self.features(take(X, tile)), start=tile.start):
                    predictions[i] = self._step(z, targets[i].tolist())
        return predictions

    def copy(self) -> Any:
        """Return a learner of its own in the same state; arrays are shared, for none is changed in place."""
        return copied(self)

    def learn_row(self, x: Rows, targets: list[float]) -> list[float]:
        """Predict one row, then learn from it."""
        return self._step(self.features(x)[0], targets)

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

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arrays and the rest as JSON data; the frequencies come from the seed."""
        rules = [{"bound": rule.bound, "round": rule.round} for rule in self.rules]
        return {"weights": self.weights}, {"n_seen": self.n_seen, "rules": rules}

    def set_parts(self, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        """Take over the state that :meth:`to_parts` took apart, or raise what does not fit."""
        outputs, size = self.weights.shape
        found = checked({"weights": numbers(outputs, size), "n_seen": whole()}, arrays, content)
        self.weights, self.n_seen = found["weights"].copy(), found["n_seen"]
        restore_rules(self.rules, content["rules"])


class DualLearner(SupportLearner):
    """A budget of kept rows; over it, the one with the smallest coefficient is moved into the Fourier features.

    References
    ----------
    Le, Nguyen, Nguyen and Phung, Dual space gradient descent for online learning (2016).
    """

    def __init__(
        self,
        kernel: Any,
        rule: GradientRule,
        penalty: float,
        n_outputs: int,
        features: FourierFeatures,
        budget: int,
    ) -> None:
        super().__init__(kernel, rule, penalty, n_outputs)
        self.features, self.budget = features, budget
        self.weights = np.zeros((2 * features.n_frequencies, n_outputs))

    def raw(self, X: Rows) -> Array:
        """Return f of every row before clipping, shape (n, outputs)."""
        return super().raw(X) + self.features(X) @ self.weights

    def shrink(self, factor: float) -> None:
        """Multiply f by a factor."""
        super().shrink(factor)
        self.weights = self.weights * factor

    def add(self, x: Rows, coefficients: Array) -> None:
        """Add a term to f, and move the smallest one where there are too many."""
        super().add(x, coefficients)
        if len(self.coefficients) > self.budget:
            least = int(np.argmin(np.abs(self.coefficients).max(axis=1)))
            moved = self.features(take(self.atoms, slice(least, least + 1)))[0]
            self.weights = self.weights + np.outer(moved, self.coefficients[least])
            stay = np.delete(np.arange(len(self.coefficients)), least)
            self.atoms, self.coefficients = take(self.atoms, stay), self.coefficients[stay]

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arrays and the rest as JSON data."""
        arrays, content = super().to_parts()
        return {**arrays, "fourier_weights": self.weights}, content

    def set_parts(self, arrays: dict[str, Any], content: dict[str, Any]) -> None:
        """Take over the state that :meth:`to_parts` took apart, or raise what does not fit."""
        super().set_parts(arrays, content)
        size, outputs = self.weights.shape
        self.weights = checked({"fourier_weights": numbers(size, outputs)}, arrays, {})["fourier_weights"].copy()


class _Fourier(FirstOrder):
    n_frequencies: int
    max_atoms: int

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_max_atoms(self.n_frequencies, "n_frequencies")
        if hasattr(self, "max_atoms"):
            check_max_atoms(self.max_atoms)

    def _check_stored(self, arrays: dict[str, Any], n_outputs: int) -> None:
        name = "fourier_weights" if hasattr(self, "max_atoms") else "weights"
        if arrays[name].size != 2 * self.n_frequencies * n_outputs:
            raise ValueError(f"its weights are not those of {self.n_frequencies} frequencies")

    def _build(self, kernel: Any, rows: Rows, n_outputs: int, seed: int) -> Any:
        features = FourierFeatures(kernel, rows.shape[1], int(self.n_frequencies), seed)
        if hasattr(self, "max_atoms"):
            return DualLearner(kernel, self._rule(), 0.0, n_outputs, features, int(self.max_atoms))
        return FourierLearner(features, self._rule(), n_outputs)


class FOGDRegressor(_Fourier, OnlineRegressor):
    """Fourier online gradient descent: a linear model on random Fourier features of an RBF kernel.

    The features have norm 1. Where the literature leaves out the 1/√D, its step size is ours over D.

    Parameters
    ----------
    kernel : RBF, optional
        RBF("median") unless given.
    n_frequencies : int
        D; the model has 2D features.
    loss, eta, schedule, tube, bound
        As in :class:`KernelOGDRegressor`.
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

    def __init__(
        self,
        kernel: Any = None,
        n_frequencies: int = 400,
        loss: str = "squared",
        eta: float = 0.5,
        schedule: str = "sqrt",
        tube: float = 0.0,
        bound: float | None = None,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(kernel, loss, eta, schedule, bound, random_state)
        self.n_frequencies = n_frequencies
        self.tube = tube


class FOGDClassifier(_Fourier, OnlineClassifier):
    """Fourier online gradient descent for labels: see :class:`FOGDRegressor`.

    Parameters
    ----------
    kernel, n_frequencies, eta, schedule, random_state
        As in :class:`FOGDRegressor`.
    loss, bound
        As in :class:`KernelOGDClassifier`.

    References
    ----------
    Lu, Hoi, Wang, Zhao and Liu, Large scale online kernel learning (2016).

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import FOGDClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> FOGDClassifier(random_state=0).fit(X, y).score(X, y) > 0.8
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        n_frequencies: int = 400,
        loss: str = "hinge",
        eta: float = 1.0,
        schedule: str = "sqrt",
        bound: float = 10.0,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(kernel, loss, eta, schedule, bound, random_state)
        self.n_frequencies = n_frequencies


class DualSGDRegressor(_Fourier, OnlineRegressor):
    """DUAL-SGD: a budget of kept rows, and the terms of those that had to go as random Fourier features.

    Parameters
    ----------
    kernel, n_frequencies, loss, eta, schedule, tube, bound, random_state
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

    def __init__(
        self,
        kernel: Any = None,
        n_frequencies: int = 400,
        max_atoms: int = 100,
        loss: str = "squared",
        eta: float = 0.5,
        schedule: str = "sqrt",
        tube: float = 0.0,
        bound: float | None = None,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(kernel, loss, eta, schedule, bound, random_state)
        self.n_frequencies = n_frequencies
        self.max_atoms = max_atoms
        self.tube = tube


class DualSGDClassifier(_Fourier, OnlineClassifier):
    """DUAL-SGD for labels: see :class:`DualSGDRegressor`.

    Parameters
    ----------
    kernel, n_frequencies, max_atoms, eta, schedule, random_state
        As in :class:`DualSGDRegressor`.
    loss, bound
        As in :class:`KernelOGDClassifier`.

    References
    ----------
    Le, Nguyen, Nguyen and Phung, Dual space gradient descent for online learning (2016).

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import DualSGDClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> DualSGDClassifier(max_atoms=50, random_state=0).fit(X, y).score(X, y) > 0.8
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        n_frequencies: int = 400,
        max_atoms: int = 100,
        loss: str = "hinge",
        eta: float = 1.0,
        schedule: str = "sqrt",
        bound: float = 10.0,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(kernel, loss, eta, schedule, bound, random_state)
        self.n_frequencies = n_frequencies
        self.max_atoms = max_atoms
