"""How large residuals are in different places: a model of their sizes, and residuals in its units."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from squeak.core.kernels import RBF
from squeak.core.seeds import SAMPLE, generator_at
from squeak.core.types import Array
from squeak.learners.expansion import Expansion
from squeak.learners.ridge import KernelRidge

SPREAD_ATOMS, SPREAD_FROM = 300, 60
"""Atoms of the model of the residuals' size; below so many held-out rows it is a constant."""

TOWARDS_MEAN = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
"""How far the model of the spread may be drawn towards the mean."""

LEAST_SPREAD = 0.1
"""The spread is taken to be no less than this part of the mean one."""


def constant(X: Array, value: Array) -> Expansion:
    """Return a constant as a sum of kernel functions."""
    return Expansion(RBF(1.0), X[:1].copy(), np.zeros((1, len(value))), value)


def spread_of(kernel: Any, X: Array, residual: Array, seed: int) -> tuple[Expansion, Array]:
    """Return a model of residuals' sizes, and the residuals in its units, each by a model that has not seen it.

    The model is drawn towards the mean size, s ← (1 − t)·s + t·mean, by the t of least mean log s + |r|/s: that is
    the likelihood of residuals whose sizes are distributed exponentially about s.
    """
    size = np.abs(residual)
    mean = np.maximum(size.mean(axis=0), 1e-300)
    if len(X) < SPREAD_FROM:
        return constant(X, mean), residual / mean
    order = generator_at(seed, SAMPLE, 11).permutation(len(X))
    halves = np.array_split(order, 2)
    found = np.empty_like(residual)
    for one, other in (halves, halves[::-1]):
        found[other] = _sizes(kernel, X[one], size[one]).values(X[other])

    def drawn(t: float) -> Array:
        return floored((1.0 - t) * found + t * mean, mean)

    def unlikely(t: float) -> float:
        return float(np.mean(np.log(drawn(t) / mean) + size / drawn(t)))

    t = min(TOWARDS_MEAN, key=unlikely)
    whole = _sizes(kernel, X[order], size[order]).times(1.0 - t)
    return replace(whole, intercept=whole.intercept + t * mean), residual / drawn(t)


def _sizes(kernel: Any, X: Array, size: Array) -> Expansion:
    """Return a model of residuals' sizes, whose atoms are the first rows: their order must tell nothing."""
    model = KernelRidge(kernel, alpha="auto", dictionary=X[:SPREAD_ATOMS], fit_intercept=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that its penalty is at the end of its range says nothing of the target
        model.fit(X, size)
    return Expansion.of(model)


def floored(spread: Array, mean: Array) -> Array:
    """Return the spread, never less than a part of its mean."""
    return np.asarray(np.maximum(spread, LEAST_SPREAD * np.maximum(mean, 1e-300)))
