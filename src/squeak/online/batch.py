"""BATCH: the best weights in hindsight, in the space that an online learner ended with."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.exceptions import NotFittedError

from squeak.core import engine
from squeak.core.checks import check_positive
from squeak.core.rows import take
from squeak.core.types import Array, Rows
from squeak.online.learner import NewtonLearner
from squeak.online.losses import loss_of

TILE = 4096
ROUNDS = 50


class Batch:
    """Regularised empirical risk minimisation in the final space of a ConKons, ProsNKons or BudgetKons.

    min_w Σ ℓ(y_t, φ̃(x_t)ᵀw) + alpha‖w‖², by Newton's method over passes of the rows (one pass for squared loss).
    What an online learner's regret is measured against.

    Parameters
    ----------
    model : ConKonsRegressor, ProsNKonsRegressor, BudgetKonsRegressor, or one of the classifiers
        That has learned; its space, loss and classes are used.
    alpha : float, optional
        The model's own unless given.

    Attributes
    ----------
    mean_loss_ : float
        The mean of ``losses_``.
    losses_ : array of shape (n,)
        The loss of every row, summed over the outputs.
    weights_ : array of shape (coordinates, outputs)
    norm_ : float
        ‖w‖², summed over the outputs.

    References
    ----------
    Thesis, section 5.3.2 (BATCH); the theory page, "Online learning".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import Batch, ConKonsRegressor
    >>> X = np.random.default_rng(0).uniform(-2, 2, (1000, 2))
    >>> y = np.sin(2 * X[:, 0]) * X[:, 1]
    >>> model = ConKonsRegressor(random_state=0).fit(X, y)
    >>> bool(Batch(model).fit(X, y).mean_loss_ < 0.1 * y.var())
    True
    """

    def __init__(self, model: Any, alpha: float | None = None) -> None:
        self.model, self.alpha = model, alpha

    def fit(self, X: Any, y: Any) -> Batch:
        """Find the weights; the rows are gone over as often as Newton's method needs.

        Parameters
        ----------
        X : rows of shape (n, d)
        y : array of shape (n,)

        Returns
        -------
        self
        """
        learner = self.model.learner_
        if not isinstance(learner, NewtonLearner):
            raise TypeError(f"a {type(self.model).__name__} has no final space of few coordinates")
        loss = loss_of(self.model)
        if loss.name == "hinge":
            raise ValueError("hinge loss has no second derivative: use loss='squared_hinge'")
        alpha = check_positive("alpha", self.model.alpha if self.alpha is None else self.alpha)
        rows, targets = self.model.encoded(X, y)
        found = [_minimise(learner, rows, targets[:, i], loss, alpha) for i in range(targets.shape[1])]
        self.weights_ = np.column_stack([weights for weights, _ in found])
        self.losses_ = np.sum([losses for _, losses in found], axis=0)
        self.mean_loss_ = float(self.losses_.mean())
        self.norm_ = float(np.sum(self.weights_**2))
        return self

    def predict(self, X: Any) -> Any:
        """Return the predictions, or labels, of rows.

        Parameters
        ----------
        X : rows of shape (n, d)

        Returns
        -------
        array of shape (n,)
        """
        if not hasattr(self, "weights_"):
            raise NotFittedError("this Batch has seen no rows yet: call fit")
        rows, _ = self.model.encoded(X)
        return self.model.answers(self.model.learner_.space.features.transform(rows) @ self.weights_)


def _minimise(learner: NewtonLearner, X: Rows, y: Array, loss: Any, alpha: float) -> tuple[Array, Array]:
    """Return the minimiser of Σ ℓ + alpha‖w‖² and the loss of every row there.

    Newton steps, halved while they overshoot.
    """
    j = learner.space.size
    best, step = np.zeros(j), np.zeros(j)
    value, losses, gradient, hessian = _pass(learner, X, y, loss, alpha, best)
    for _ in range(ROUNDS):
        step = cho_solve(cho_factor(hessian, lower=True), gradient) if j else step
        decrease = float(gradient @ step)
        if decrease <= 1e-10 * max(value, 1e-300):
            break
        size = 1.0
        while True:
            tried = _pass(learner, X, y, loss, alpha, best - size * step)
            if tried[0] <= value - 1e-4 * size * decrease or size < 1e-6:
                break
            size /= 2.0
        if tried[0] >= value:
            break
        best = best - size * step
        value, losses, gradient, hessian = tried
    return best, losses


def _pass(
    learner: NewtonLearner, X: Rows, y: Array, loss: Any, alpha: float, w: Array
) -> tuple[float, Array, Array, Array]:
    """Return objective, losses, gradient and Hessian at w, from one pass over the rows."""
    gradient, hessian = 2.0 * alpha * w, 2.0 * alpha * np.eye(len(w))
    losses = np.empty(len(y))
    for tile in engine.tiles(len(y), TILE):
        features = learner.space.features.block(take(X, tile))
        z = features @ w
        losses[tile] = loss.value(y[tile], z)
        slopes = np.array([loss.derivative(a, b) for a, b in zip(y[tile].tolist(), z.tolist(), strict=True)])
        gradient += features.T @ slopes
        hessian += (features.T * loss.second_derivative(y[tile], z)) @ features
    return float(losses.sum() + alpha * w @ w), losses, gradient, hessian
