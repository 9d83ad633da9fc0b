"""Progressive validation, where the loss of each row before it is learned counts, and the best in hindsight."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.exceptions import NotFittedError

from squeak.core import engine
from squeak.core.checks import check_positive
from squeak.core.progress import progress
from squeak.core.rows import take
from squeak.core.types import Array, IntArray, Rows
from squeak.data import RowSource
from squeak.online.base import OnlineEstimator
from squeak.online.checkpoint import COUNTS, OnlineRun, sums_at
from squeak.online.kons import KonsLearner
from squeak.online.learner import NewtonLearner
from squeak.online.losses import loss_of
from squeak.online.stream import Tested
from squeak.samplers.checkpoint import fit_with_checkpoint

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


@dataclass(frozen=True)
class Progress:
    """What a pass of test-then-train found.

    Parameters
    ----------
    losses : array of shape (n,)
        The loss of every row before it was learned: squared error, or 1 for a wrong label. It is empty where sums
        alone were kept.
    surrogate : array of shape (n,)
        The model's own loss of every row, summed over its outputs; what regret is about. It is empty, too, where
        sums alone were kept.
    rows, atoms, growths : arrays of shape (points,)
        Rows seen, atoms and how often the space had grown, at the points of the curve.
    times : array of shape (points,)
        Seconds of predicting and learning, up to each point.
    sums : array of shape (points, 2), optional
        The sums of ``losses`` and of ``surrogate`` up to each point.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import Progress
    >>> one = np.array([1])
    >>> Progress(np.array([4.0, 0.0]), np.array([4.0, 0.0]), 2 * one, one, one, 0.1 * one).mean_loss
    2.0
    """

    losses: Array
    surrogate: Array
    rows: IntArray
    atoms: IntArray
    growths: IntArray
    times: Array
    sums: Array = None  # type: ignore[assignment]  # set below

    def __post_init__(self) -> None:
        if self.sums is None:
            object.__setattr__(self, "sums", sums_at(self.rows, self.losses, self.surrogate))

    @property
    def n(self) -> int:
        """The number of rows in all."""
        return int(self.rows[-1])

    @property
    def mean_loss(self) -> float:
        """The mean of ``losses``: progressive squared error, or the online error rate."""
        return float(self.sums[-1, 0] / self.n)

    @property
    def seconds(self) -> float:
        """Seconds of predicting and learning in all."""
        return float(self.times[-1])

    @property
    def curve(self) -> Array:
        """The mean loss up to each point."""
        return np.asarray(self.sums[:, 0] / self.rows)

    def recent(self, rows: int, ends: Any = None) -> Array:
        """Return the mean loss of the last rows before each of some ends, from the sums at the points.

        Between points the loss of every row counts as their mean.

        Parameters
        ----------
        rows : int
            Over how many rows the mean is.
        ends : array of ints, optional
            Numbers of rows, none of them smaller than ``rows``; all rows unless given.

        Returns
        -------
        array of shape (len(ends),)
        """
        ends = np.atleast_1d(self.n if ends is None else ends)
        known = np.append(0, self.rows), np.append(0.0, self.sums[:, 0])
        return np.asarray((np.interp(ends, *known) - np.interp(ends - rows, *known)) / rows)

    def regret(self, batch: Batch) -> Array:
        """Return Σ_{s≤t} (loss − the hindsight model's loss), at each point; both in the model's own loss.

        Parameters
        ----------
        batch : Batch
            Fitted on the same rows in the same order.

        Returns
        -------
        array of shape (points,)
        """
        if len(batch.losses_) != self.n:
            raise ValueError(f"the batch saw {len(batch.losses_)} rows, the stream {self.n}")
        return np.asarray(self.sums[:, 1] - np.cumsum(batch.losses_)[self.rows - 1])


def progressive_validation(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = 30.0,
    classes: Any = None,
    each: Callable[[Tested, int], None] | None = None,
    keep_losses: bool = True,
    verbose: int = 0,
) -> Progress:
    """Predict each row of a stream, count its loss, and then let the model learn from it.

    The model continues from its present state (a new one begins), and at the end it has learned all rows, as by
    ``partial_fit``.

    Parameters
    ----------
    model : any estimator of squeak.online
        The model, which is changed.
    X : rows of shape (n, d), or a row source with a target
        The rows, in the order of the stream.
    y : array of shape (n,)
        The targets. They are left out for a row source.
    checkpoint : path, optional
        A file in which the learner, its place in a row source and every loss are kept. It is replaced as the pass
        goes on. If the process dies, the same call continues from there and ends in the same bits (except for
        ``times``). A file with an unfinished pass of another learner, or over other data, is refused.
    every : float
        The number of seconds between two writes of the checkpoint; 0 writes after every block.
    classes : array of labels, optional
        All labels that may come. A classifier needs them unless the first block holds them all.
    each : callable, optional
        A function that is called after every block with what ``test_then_train_blocks`` gave for it and the number
        of rows before it. Use it for predictions that are wanted as the pass goes on.
    keep_losses : bool
        False keeps sums of losses at the points of the curve alone, and not the loss of every row (16 bytes):
        memory and checkpoints do not grow with the stream then.
    verbose : int
        1 shows a progress bar with the loss so far.

    Returns
    -------
    Progress
        An object with ``mean_loss``, ``losses``, ``curve``, ``atoms``, ``growths`` and ``seconds``, and with
        ``regret(Batch(model).fit(X, y))``.

    References
    ----------
    Thesis, section 5.1 (the protocol of online learning); the theory page, "Online learning".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import ConKonsRegressor, progressive_validation
    >>> X = np.random.default_rng(0).uniform(-2, 2, (2000, 2))
    >>> y = np.sin(2 * X[:, 0]) * X[:, 1]
    >>> progress = progressive_validation(ConKonsRegressor(random_state=0), X, y)
    >>> bool(progress.mean_loss < 0.2 * y.var()), len(progress.losses)
    (True, 2000)
    """
    if not isinstance(model, OnlineEstimator):
        raise TypeError(f"progressive_validation takes an estimator of squeak.online, not {type(model).__name__}")
    total = X.n_rows if isinstance(X, RowSource) else len(y) if hasattr(y, "__len__") else None
    with progress(type(model).__name__, "rows", total, verbose, unit_scale=True) as bar:

        def told(rows: int, loss: float, atoms: int) -> None:
            bar.set_postfix({"loss": f"{loss:.5f}", "atoms": atoms}, refresh=False)
            bar.update(rows)

        run = OnlineRun(model, y, told, each, keep_losses)
        with nullcontext() if classes is None else model.taking(classes):
            if checkpoint is None:
                run.read(X)
            else:
                fit_with_checkpoint(run, X, checkpoint, every)
    losses, surrogate, table = run.curves()
    rows, atoms, growths = table[:, : COUNTS - 1].T.astype(np.int64)
    return Progress(losses, surrogate, rows, atoms, growths, table[:, COUNTS - 1], table[:, COUNTS:])


def regret_bound(model: Any, norm: float) -> float | None:
    """Return the most that the theorems allow for the regret so far.

    Against any w with ‖w‖² ≤ norm and ``|f_w(x)| ≤ bound``.

    KONS: ½(α·norm + Σ gᵀA⁻¹g), which holds for every stream of a curved loss. PROS-N-KONS and B-KONS: with the
    restarts J, ½((J + 1)α·norm + Σ gᵀA⁻¹g) for the steps, and (L²/α)(Tγε/(4(1 − ε)) + 1) + 2JC for the space, ε =
    ½, with the probability that the theorem asks of KORS; at practical sizes the second part is mostly vacuous.
    None where no theorem is known: CON-KONS, SKETCHED-KONS, a loss without curvature, ``curvature="auto"``, and
    scales that are learned on the way.

    Parameters
    ----------
    model : an estimator of squeak.online that has learned
    norm : float
        ‖w‖² of the comparator, summed over the outputs.

    Returns
    -------
    float or None

    References
    ----------
    Thesis, theorems 5.4 and 5.8; the theory page, "Online learning".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import Linear
    >>> from squeak.online import KonsRegressor, regret_bound
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    >>> model = KonsRegressor(kernel=Linear(), alpha=1.0, bound=2.0).fit(X, X.sum(axis=1))
    >>> 1.0 < regret_bound(model, norm=2.0) < 10.0
    True
    """
    learner, loss = model.learner_, loss_of(model)
    if (
        model.scale_ is not None
        or loss.worst_curvature(1.0) == 0.0
        or getattr(model, "curvature", "auto") == "auto"
        or getattr(model, "half_life", None) is not None
        or model.history_
    ):
        return None
    if isinstance(learner, KonsLearner):
        if learner.heads[0].chances is not None:
            return None
        return 0.5 * (learner.heads[0].alpha * norm + sum(head.gain for head in learner.heads))
    if not isinstance(learner, NewtonLearner) or not learner.plan.restarts:
        return None
    alpha, space = learner.plan.alpha, learner.space
    total = 0.0
    for head in learner.heads:
        bound = head.rule.bound
        steps = 0.5 * ((learner.growths + 1) * alpha * norm / len(learner.heads) + head.gain)
        space_part = loss.lipschitz(bound) ** 2 / alpha * (learner.n_seen * space.scorer.ridge / 4.0 + 1.0)
        total += steps + space_part + 2.0 * learner.growths * bound
    return float(total)
