"""Probabilities from the scores of a classifier that was fitted by the squared loss: two numbers, or one a class.

For two classes P(second | f) = 1/(1 + exp(−(a·f + b))), Platt's sigmoid; for more P(c | f) ∝ exp(a·f_c + b_c), with
one slope for all classes. Slope and offsets minimise the log loss of scores that the rows themselves had no part in
(leave-one-out), against targets that are not quite 0 and 1: a row of class c, of which there are N_c, counts
(N_c + 1)/(N_c + 2) for its own class, and the rest is shared by the others. So the slope stays finite where the
classes are separable, and a class of one row does not get a probability of one. A slope is never negative: where
scores say nothing, classes are as probable as they are frequent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import expit, log_softmax, softmax

from squeak.core.types import Array, IntArray
from squeak.learners.left_out import LeftOut

STEPS = 100
ENOUGH = 1e-10
"""The decrease that Newton's method could still reach, as a part of the loss, at which it ends."""

HOLD = 1e-8
"""Added to the diagonal of the second derivatives, as a part of the weight: offsets are known up to a sum."""


@dataclass
class Calibration:
    """The slope and the offsets of a fit's probabilities, computed when they are first asked for."""

    errors: LeftOut | None
    factors: Array | None = None
    """The weights of the classes in the fit, which probabilities are to be without."""
    known: tuple[float, Array] | None = None
    """Slope and offsets, where a file has them."""

    @cached_property
    def _found(self) -> tuple[float, Array]:
        if self.known is not None:
            return self.known
        assert self.errors is not None
        assert self.errors.sample is not None
        values, coded, weight = self.errors.values, self.errors.sample.y, self.errors.sample.weight
        assert values is not None
        two = coded.shape[1] == 1
        places = (coded[:, 0] > 0).astype(np.int64) if two else coded.argmax(axis=1)
        if weight is not None and self.factors is not None:
            weight = weight / self.factors[places]
        return calibrated(values, places, 2 if two else coded.shape[1], weight)

    def of_some(self, most: int, rng: np.random.Generator) -> Calibration:
        """Return the calibration by so many of the rows at most, drawn without replacement."""
        if self.errors is None or self.errors.sample is None or len(self.errors.sample.y) <= most:
            return self
        some = np.sort(rng.permutation(len(self.errors.sample.y))[:most])
        return replace(self, errors=replace(self.errors, sample=self.errors.sample.of_some(some)))

    @property
    def slope(self) -> float:
        """How steeply probabilities rise with scores."""
        return self._found[0]

    @property
    def offsets(self) -> Array:
        """One for two classes, else one for each."""
        return self._found[1]


def smoothed(places: IntArray, classes: int, weight: Array) -> Array:
    """Return Platt's targets for the classes of some rows, shape (n, classes).

    Parameters
    ----------
    places : array of int
        The number of each row's class.
    classes : int
    weight : array of shape (n,)

    Returns
    -------
    array of shape (n, classes)

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.learners.calibration import smoothed
    >>> smoothed(np.array([0, 0, 1]), 2, np.ones(3)).round(2)
    array([[0.75, 0.25],
           [0.75, 0.25],
           [0.33, 0.67]])
    """
    counts = np.bincount(places, weight, minlength=classes)[places]
    targets = np.repeat((1.0 / (counts + 2.0) / (classes - 1))[:, None], classes, axis=1)
    targets[np.arange(len(places)), places] = (counts + 1.0) / (counts + 2.0)
    return targets


def calibrated(values: Array, places: IntArray, classes: int, weight: Array | None = None) -> tuple[float, Array]:
    """Return the slope and the offsets, one for two classes and else one for each, by Newton's method.

    Parameters
    ----------
    values : array of shape (n, outputs)
        Scores: one output for two classes, positive for the second; else one for each class.
    places : array of int
        The number of each row's class.
    classes : int
    weight : array of shape (n,), optional

    Returns
    -------
    slope : float
    offsets : array of shape (outputs,)

    References
    ----------
    Platt, "Probabilistic outputs for support vector machines", 1999. Lin, Lin, Weng, "A note on Platt's
    probabilistic outputs for support vector machines", Machine Learning 2007. Guo, Pleiss, Sun, Weinberger, "On
    calibration of modern neural networks", ICML 2017, for one slope and several classes.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.learners.calibration import calibrated
    >>> f = np.linspace(-2, 2, 2001)
    >>> second = np.random.default_rng(0).random(2001) < 1 / (1 + np.exp(-(3 * f + 1)))
    >>> slope, offsets = calibrated(f[:, None], second.astype(int), 2)
    >>> bool(abs(slope - 3) < 0.4), bool(abs(offsets[0] - 1) < 0.3)
    (True, True)
    """
    slopes, offsets = stacked([values], places, classes, weight)
    return float(slopes[0]), offsets


def stacked(
    members: Sequence[Array], places: IntArray, classes: int, weight: Array | None = None, least: float = 0.0
) -> tuple[Array, Array]:
    """Return a slope a_b ≥ 0 for the scores f_b of each of several models, and offsets.

    The logits of the classes are Σ_b a_b f_b + offsets. Slopes and offsets minimise the log loss, as for a single
    model. A model whose slope would be negative, or whose part of the logits is too small, is left out, one after
    the other.

    Parameters
    ----------
    members : sequence of arrays of shape (n, outputs)
        Scores of every model, for rows that it has not seen.
    places : array of int
        The number of each row's class.
    classes : int
    weight : array of shape (n,), optional
    least : float
        The smallest part of the logits, by the size of a_b f_b, that a model must have to stay.

    Returns
    -------
    slopes : array of shape (models,)
    offsets : array of shape (outputs,)

    References
    ----------
    Wolpert, "Stacked generalization", Neural Networks 5 (1992); Ting and Witten, "Issues in stacked
    generalization", Journal of Artificial Intelligence Research 10 (1999), for the log loss and slopes that are not
    negative.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.learners.calibration import stacked
    >>> rng = np.random.default_rng(0)
    >>> one, two, noise = rng.standard_normal((3, 4000, 1))
    >>> second = rng.random(4000) < 1 / (1 + np.exp(-(2 * one + two)[:, 0]))
    >>> slopes, _ = stacked([one, two, noise], second.astype(int), 2, least=0.05)
    >>> slopes.round(1).tolist()
    [2.0, 1.0, 0.0]
    """
    # Platt's targets count rows: weights that are 1 on average do not depend on their unit
    weight = np.ones(len(places)) if weight is None else weight / weight.mean()
    targets = smoothed(places, classes, weight)
    free = np.arange(1, classes) if classes == 2 else np.arange(classes)
    sizes = [weight @ np.square(values).sum(axis=1) / weight.sum() for values in members]
    units = [float(np.sqrt(size)) or 1.0 for size in sizes]
    scores = [values / unit for values, unit in zip(members, units, strict=True)]
    if classes == 2:
        scores = [np.hstack([np.zeros_like(values), values]) for values in scores]
    kept = list(range(len(members)))
    while True:
        start = np.concatenate([np.full(len(kept), 1.0 / len(kept)), _frequencies(places, classes, weight)[free]])
        theta = _newton([scores[place] for place in kept], targets, weight, free, start)
        parts = theta[: len(kept)]
        worst = int(np.argmin(parts))
        if parts[worst] > least * max(parts.sum(), 0.0):
            break
        if len(kept) == 1:  # the scores say nothing of classes: these are as frequent everywhere as they are in all
            shares = np.log(weight @ targets)
            theta = np.append(0.0, (shares - shares[0])[free])
            break
        del kept[worst]
    slopes, offsets = np.zeros(len(members)), theta[len(kept) :]
    slopes[kept] = theta[: len(kept)] / np.array([units[place] for place in kept])
    return slopes, np.asarray(offsets if classes == 2 else offsets - offsets.mean())


def _newton(scores: Sequence[Array], targets: Array, weight: Array, free: IntArray, theta: Array) -> Array:
    """Return slopes, one for each of the scores, and offsets of the free classes, of the least log loss."""
    many = len(scores)
    hold = HOLD * float(weight.sum())

    def logits(theta: Array) -> Array:
        found = theta[0] * scores[0]
        for slope, F in zip(theta[1:many], scores[1:], strict=True):
            found += slope * F
        found[:, free] += theta[many:]
        return np.asarray(found)

    def loss(theta: Array) -> float:
        return float(-(weight @ (targets * log_softmax(logits(theta), axis=1)).sum(axis=1))) + 0.5 * hold * float(
            theta @ theta
        )

    value = loss(theta)
    for _ in range(STEPS):
        p = softmax(logits(theta), axis=1)
        off = weight[:, None] * (p - targets)
        gradient = np.concatenate([[np.sum(off * F) for F in scores], off[:, free].sum(axis=0)]) + hold * theta
        H = np.zeros((len(theta), len(theta)))
        for place, F in enumerate(scores):
            curved = weight[:, None] * p * (F - np.sum(p * F, axis=1, keepdims=True))
            H[place, :many] = [np.sum(curved * G) for G in scores]
            H[place, many:] = H[many:, place] = curved[:, free].sum(axis=0)
        H[many:, many:] = np.diag((weight @ p)[free]) - (p[:, free] * weight[:, None]).T @ p[:, free]
        H[np.diag_indices_from(H)] += hold
        step = -np.linalg.solve(H, gradient)
        promised, length = -float(gradient @ step), 1.0
        if promised <= ENOUGH * max(abs(value), 1e-300):
            break
        while (there := loss(theta + length * step)) > value - 1e-4 * length * promised and length > 1e-10:
            length *= 0.5
        theta, value = theta + length * step, there
    return theta


def _frequencies(places: IntArray, classes: int, weight: Array) -> Array:
    """Return the log frequencies of the classes, less that of the first."""
    found = np.log(np.bincount(places, weight, minlength=classes) + 1.0)
    return np.asarray(found - found[0])


def probabilities(values: Array, slope: float, offsets: Array) -> Array:
    """Return the probability of every class from scores, shape (n, classes).

    Parameters
    ----------
    values : array of shape (n, outputs)
    slope : float
    offsets : array of shape (outputs,)

    Returns
    -------
    array of shape (n, classes)

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.learners.calibration import probabilities
    >>> probabilities(np.array([[0.0], [1.0]]), 2.0, np.zeros(1)).round(2)
    array([[0.5 , 0.5 ],
           [0.12, 0.88]])
    """
    logits = slope * values + offsets
    if logits.shape[1] == 1:
        return np.hstack([expit(-logits), expit(logits)])
    return np.asarray(softmax(logits, axis=1))
