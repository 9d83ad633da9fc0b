"""Learners side by side, mixed by the fixed-share rule: widths, half-lives, linear ones, and the target before.

Expert i predicts z_i. The mixture predicts Σ w_i z_i, and after the target y is known

    v_i ∝ w_i·exp(−η(z_i − y)²),      w_i ← (1 − share)·v_i + share/N.

The squared loss of numbers in [−C, C] is η-exp-concave for η = 1/(8C²): exp(−η(z − y)²) is concave in z. Hence the
loss of the mixture in a round is at most −(1/η)·ln Σ w_i exp(−η(z_i − y)²), and the sum of these over the rounds is
−1/η times the logarithm of a sum over all sequences of experts, each weighted by the probability of a chain that
begins uniformly, stays with 1 − share + share/N and goes to each other expert with share/N. One term of that sum
bounds it: for every sequence with k switches in T rounds

    Σ loss of the mixture ≤ Σ loss of the sequence
        + 8C²·(ln N + k·ln(N/share) + (T − 1 − k)·ln(1/(1 − share + share/N))).

Over the rounds after some others, every weight is at least share/N at first: ln(N/share) takes the place of ln N.

Source: Herbster and Warmuth (1998), Tracking the best expert; Cesa-Bianchi and Lugosi (2006), Prediction, learning,
and games, sections 3.3 and 5.2.

Where C is not known, 8C² is 20 times the mixture's own mean squared error, so that one extreme target does not make
all experts equal; the bound needs C.
"""

from __future__ import annotations

import math
from copy import copy
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from squeak.core.checks import check_between, check_positive, check_whole
from squeak.core.constructors import parameters
from squeak.core.rows import take
from squeak.core.types import Array, Rows
from squeak.kernels import RBF
from squeak.online.experts import LinearLearner, PreviousTarget
from squeak.online.faces import OnlineClassifier, OnlineRegressor
from squeak.online.learner import LARGEST_PART, NewtonPlan
from squeak.online.losses import loss_named
from squeak.online.pros_n_kons import GrowingSpace
from squeak.online.stored import Columns
from squeak.online.weights import SharedWeights
from squeak.online.widths import needs_rows

MOST_COLUMNS = 200
"""A mixture has linear experts where rows have no more columns, for their time is of order columns²."""

LINEAR_HALF_LIVES = (3000.0, 30.0)
"""Half-lives of the slow and the quick linear expert."""


class MixedLearner(SharedWeights):
    """Experts side by side, mixed by the fixed-share rule for each output; see the module.

    ``learners``: the experts; a learner with several half-lives is so many of them. ``bound``: C, to which experts
    are clipped; None: unknown.
    """

    _inner: ClassVar[tuple[str, str]] = ("learners", "expert{}_")

    def __init__(self, learners: list[Any], n_outputs: int, share: float, bound: float | None) -> None:
        super().__init__(sum(learner.n_heads for learner in learners) // n_outputs, n_outputs, share, bound)
        self.learners = learners

    @property
    def facts(self) -> dict[str, int]:
        """Atoms, coordinates and growths of all experts."""
        names = ("atoms", "coordinates", "growths")
        return {name: sum(learner.facts[name] for learner in self.learners) for name in names}

    def copy(self) -> MixedLearner:
        """Return a learner of its own in the same state."""
        other = copy(self)
        other.learners = [learner.copy() for learner in self.learners]
        return other

    def with_outputs(self, columns: Columns) -> MixedLearner:
        """Return a learner with other outputs; for a new one all experts count the same."""
        other = copy(self)
        other.learners = [learner.with_outputs(columns) for learner in self.learners]
        other.take_outputs(columns)
        return other

    def scores(self, X: Rows) -> Array:
        """Return the predictions of rows, shape (n, outputs)."""
        return self.weighed(self._said([one.scores(X) for one in self.learners]))

    def score_row(self, x: Rows) -> list[float]:
        """Return the predictions of one row."""
        said = self._said_of([one.score_row(x) for one in self.learners])
        return list((self.weights * said).sum(axis=0).tolist())

    def gradient_squares(self, X: Rows) -> Array:
        """Return the mean of (∂f/∂x_j)² over rows for each column: that of the experts, each by its weight."""
        shares = iter(self.weights.reshape(-1))  # experts of a learner follow each other, with all their outputs
        found = np.zeros(np.shape(X)[1])
        for learner in self.learners:
            own = np.array([next(shares) for _ in range(learner.n_heads)])
            if hasattr(learner, "gradient_squares"):
                found += learner.gradient_squares(X, own)
        return found

    def learn(self, X: Rows, targets: Array) -> Array:
        """Predict each row, then learn from it; returns the predictions."""
        predictions = np.empty(targets.shape)
        for at in range(0, len(targets), LARGEST_PART):
            part, after = slice(at, at + LARGEST_PART), self.copy()
            rows, some = take(X, part), targets[part]
            said = self._said([one.learn(rows, some) for one in after.learners])
            predictions[part] = after.learn_rounds(said, some)
            self.__dict__.update(after.__dict__)  # at once: an interrupt leaves the part learned or not
        return predictions

    def learn_row(self, x: Rows, targets: list[float]) -> list[float]:
        """Predict one row, then learn from it."""
        said = self._said_of([one.learn_row(x, targets) for one in self.learners])
        return list(self.learn_round(said, np.array(targets)).tolist())

    def _said(self, said: list[Any]) -> Array:
        """Return what the experts say, shape (n, experts, outputs), within the bound where one is given."""
        return self._clipped(np.concatenate(said, axis=1).reshape(len(said[0]), -1, self.n_outputs))

    def _said_of(self, said: list[list[float]]) -> Array:
        """Return the same of one row, shape (experts, outputs)."""
        return self._clipped(np.array(list(chain.from_iterable(said))).reshape(-1, self.n_outputs))


@parameters
class _Mixed(GrowingSpace):
    """The parameters of a mixture, and its experts."""

    alarm_rate: float | None = 0.01
    widths: tuple[float, ...] = (0.5, 1.0, 4.0)
    half_lives: tuple[float | None, ...] = (None, 300.0, 30.0)
    linear: bool = True
    previous: bool = False
    share: float = 0.003

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.widths, tuple | list) or not len(self.widths):
            raise ValueError(f"widths must be some positive numbers; it is {self.widths!r}")
        for width in self.widths:
            check_positive("widths", width)
        if not isinstance(self.half_lives, tuple | list) or not len(self.half_lives):
            raise ValueError(f"half_lives must be some positive numbers or None; it is {self.half_lives!r}")
        for half_life in self.half_lives:
            if half_life is not None:
                check_positive("half_lives", half_life, " or None")
        check_between("share", self.share, 0.0, 1.0)

    def _build(self, kernel: Any, rows: Rows, n_outputs: int, seed: int) -> MixedLearner:
        learners: list[Any] = [
            super(_Mixed, self)._build(stretched(kernel, float(width)), rows, n_outputs, seed)
            for width in self.widths
        ]
        if self.linear and isinstance(rows, np.ndarray) and rows.shape[1] <= MOST_COLUMNS:
            learners += [LinearLearner(plan, rows.shape[1], n_outputs) for plan in self._linear_plans()]
        learners += [PreviousTarget(n_outputs)] if self.previous else []
        bound = 1.0 if self._labels else None if self.bound is None else float(self.bound)
        return MixedLearner(learners, n_outputs, float(self.share), bound)

    def _linear_plans(self) -> list[NewtonPlan]:
        """Return the plans of a slow linear expert, which has the logistic loss for labels, and of a quick one."""
        slow, quick = (NewtonPlan(float(self.alpha), False, False, self._rule(), (h,)) for h in LINEAR_HALF_LIVES)
        if self._labels:
            slow.rule.loss = loss_named("logistic", labels=True)
        return [slow, quick]

    def _own_kernel(self) -> Any:
        return RBF("learned") if self.kernel is None else super()._own_kernel()

    def _horizons(self) -> tuple[float | None, ...]:
        return tuple(None if half_life is None else float(half_life) for half_life in self.half_lives)

    @property
    def expert_weights_(self) -> Array:
        """How much each expert counts: for each width a row for each half-life, linear ones, the target before."""
        learner: Any = self.learner_
        return np.zeros((0, 0)) if learner is None else learner.weights.copy()

    def switching_bound(self, switches: int = 0) -> float | None:
        """Return by how much the mixture can have lost more than any sequence of its experts.

        In squared error of predictions, for labels of scores that are clipped to [−1, 1], summed over the outputs
        and over the rows since the last restart (see ``history_``):
        8C²·(ln N + k·ln(N/share) + (T − 1 − k)·ln(1/(1 − share + share/N)) + a·(ln 2 + ½)) for each output, with N
        experts, k switches, T rows and a alarms in ``history_``: after each of them the experts predict beside
        those that begin anew, or beside those of before. Where a restart learns rows again (scales that are learned
        on the way, a width that is learned from the first rows), weights are no longer even at the first row after
        it: ln(N/share) takes the place of ln N, and T counts these rows, too. It holds for every stream.

        Parameters
        ----------
        switches : int
            k: how often the sequence goes to another expert.

        Returns
        -------
        float or None
            None where ``bound`` is None, for the theorem needs C beforehand.

        References
        ----------
        Herbster and Warmuth (1998): Tracking the best expert.

        Examples
        --------
        >>> import numpy as np
        >>> from squeak.online import MixedKonsRegressor
        >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
        >>> model = MixedKonsRegressor(bound=1.0, random_state=0).fit(X, np.sin(3 * X[:, 0]))
        >>> 8.0 < model.switching_bound() < 100.0
        True
        """
        check_whole("switches", switches, 0)
        learner: Any = self.learner_
        if learner is None or learner.grows or not 0.0 < learner.share < 1.0:
            return None
        n, rounds = len(learner.weights), learner.n_seen
        stay = -math.log(1.0 - learner.share + learner.share / n)
        again = self.scale_ is not None or needs_rows(self._stream.kernel)
        begin, switch = math.log(n / learner.share if again else n), math.log(n / learner.share)
        cost = begin + switches * switch + max(rounds - 1 - switches, 0) * stay
        alarms = sum("after" in entry for entry in self.history_)
        return float(8.0 * learner.bound**2 * (cost + alarms * (math.log(2.0) + 0.5)) * learner.weights.shape[1])


def stretched(kernel: Any, factor: float) -> Any:
    """Return a kernel with its width multiplied by a factor."""
    if factor == 1.0:
        return kernel
    width = kernel.get_params().get("length_scale") if hasattr(kernel, "get_params") else None
    if width is None:
        raise ValueError(f"{kernel!r} has no width that could be multiplied: pass widths=(1.0,)")
    wider = [float(one) * factor for one in width] if np.ndim(width) else float(width) * factor
    return clone(kernel, safe=False).set_params(length_scale=wider)


@parameters
class MixedKonsRegressor(_Mixed, OnlineRegressor):
    """Online kernel regression with several widths and half-lives at once, mixed by their losses.

    There is one :class:`ConKonsRegressor`, called an expert, for each width and half-life, and there are two
    linear experts. Their predictions are mixed by the fixed-share rule: experts that predicted well lately get more
    weight. The loss of the mixture is never much above that of the best expert, nor above that of the best sequence
    of experts with a few switches (:meth:`switching_bound`). A row takes as much time as all experts together.

    Parameters
    ----------
    kernel, loss, alpha, ridge, oversampling, max_atoms, bound, curvature, step, scale, random_state
        As in :class:`ConKonsRegressor`, for each expert. The default kernel is RBF("learned"): columns that matter
        little are made shorter along the stream.
    alarm_rate : float or None
        As in :class:`ConKonsRegressor`, for the losses of the mixture, but 0.01 by default: on drift a mixture
        begins anew beside this one, and learns again which columns matter.
    widths : tuple of float
        The widths of the experts, as multiples of the width of the kernel.
    half_lives : tuple of float or None
        The half-lives of the experts of each width: after so many rows a row counts half, and with None it counts
        fully for ever. Experts of one width share their atoms.
    linear : bool
        Whether two more experts are linear in the columns: ridge regressions with half-lives of 3,000 and of 30
        rows. There are none where rows are not dense or have more than 200 columns.
    previous : bool
        Whether one more expert predicts the target of the row before.
    share : float
        The part of the weight that is shared out among all experts after each row. A larger share follows changes
        faster.

    References
    ----------
    Herbster and Warmuth (1998), Tracking the best expert; Cesa-Bianchi and Lugosi (2006), section 5.2.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import MixedKonsRegressor
    >>> X = np.random.default_rng(0).uniform(-2, 2, (1000, 2))
    >>> y = np.sin(2 * X[:, 0]) * X[:, 1]
    >>> model = MixedKonsRegressor(random_state=0).fit(X, y)
    >>> bool(np.mean((model.predict(X) - y) ** 2) < 0.1 * y.var())
    True
    >>> model.expert_weights_.shape
    (11, 1)
    """


@parameters
class MixedKonsClassifier(_Mixed, OnlineClassifier):
    """Online kernel classification with several widths and half-lives at once, mixed by their losses.

    It works as :class:`MixedKonsRegressor` does. One more expert predicts the label of the row before
    (``previous``). So the mixture is never much worse than this simple rule, which is hard to beat on streams whose
    labels come in runs; ``predict`` of rows then depends on the last label seen. Scores of the experts are clipped
    to [−1, 1] before they are mixed.

    Parameters
    ----------
    kernel, alpha, ridge, oversampling, max_atoms, curvature, step, scale, random_state
        As in :class:`ConKonsClassifier`, for each expert.
    alarm_rate, widths, half_lives, linear, previous, share
        As in :class:`MixedKonsRegressor`; ``previous`` is true by default. The linear expert with the half-life of
        3,000 rows is a logistic regression, and predicts the mean of the label, which is ±1.
    loss : {"squared_hinge", "logistic", "hinge", "squared"}
    bound : float
        Scores of each expert's own steps are clipped to [−bound, bound].

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import MixedKonsClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (1000, 2))
    >>> y = np.where((X**2).sum(axis=1) < 0.6, "in", "out")
    >>> model = MixedKonsClassifier(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    loss: str = "squared_hinge"
    bound: float = 10.0
    previous: bool = True
