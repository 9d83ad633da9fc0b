"""A small random search for the gradient boosters of the section ``tables``, within a given processor time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

MOST_TRIALS = 100


def space(name: str) -> Callable[[np.random.Generator], dict[str, Any]]:
    """Return a function that draws settings of the named booster."""
    return {"hist": _hist, "lightgbm": _lightgbm, "catboost": _catboost}[name]


def _log(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _hist(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "learning_rate": _log(rng, 0.02, 0.3),
        "max_iter": int(_log(rng, 100, 1000)),
        "max_leaf_nodes": int(_log(rng, 8, 128)),
        "min_samples_leaf": int(_log(rng, 2, 100)),
        "l2_regularization": _log(rng, 1e-3, 100.0),
        "max_features": float(rng.uniform(0.4, 1.0)),
    }


def _lightgbm(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "learning_rate": _log(rng, 0.02, 0.3),
        "n_estimators": int(_log(rng, 100, 1000)),
        "num_leaves": int(_log(rng, 8, 128)),
        "min_child_samples": int(_log(rng, 2, 100)),
        "reg_lambda": _log(rng, 1e-3, 100.0),
        "colsample_bytree": float(rng.uniform(0.4, 1.0)),
        "subsample": float(rng.uniform(0.5, 1.0)),
        "subsample_freq": 1,
    }


def _catboost(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "learning_rate": _log(rng, 0.02, 0.3),
        "iterations": int(_log(rng, 300, 2000)),
        "depth": int(rng.integers(4, 9)),
        "l2_leaf_reg": _log(rng, 0.5, 20.0),
        "random_strength": _log(rng, 0.1, 10.0),
    }


class Searched(BaseEstimator):
    """The best of random settings on a fifth of the training rows, then fitted to all of them.

    The first settings tried are the defaults. Another trial begins only if it and the last fit are expected to end
    within ``budget`` processor seconds, each as long as the mean of the trials so far.
    """

    def __init__(
        self,
        build: Callable[..., Any],
        draw: Callable[[np.random.Generator], dict[str, Any]],
        classes: int,
        budget: float,
    ) -> None:
        self.build = build
        self.draw = draw
        self.classes = classes
        self.budget = budget

    def fit(self, X: Any, y: np.ndarray) -> Searched:
        rng = np.random.default_rng(0)
        order = rng.permutation(len(y))
        held, rest = np.split(order, [len(y) // 5])
        part, kept = (X[rest], X[held]) if isinstance(X, np.ndarray) else (X.iloc[rest], X.iloc[held])
        start, best, self.trials_ = time.process_time(), np.inf, 0
        settings: dict[str, Any] = {}
        while self.trials_ < MOST_TRIALS:
            predicted = np.ravel(self.build(**settings).fit(part, y[rest]).predict(kept))
            error = float(np.mean(predicted != y[held]) if self.classes else np.mean((predicted - y[held]) ** 2))
            if error < best:
                best, self.settings_ = error, settings
            self.trials_ += 1
            taken = time.process_time() - start
            if taken * (1 + 2.5 / self.trials_) > self.budget:  # a trial, and a fit to all rows
                break
            settings = self.draw(rng)
        self.model_ = self.build(**self.settings_).fit(X, y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.model_.predict(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.model_.predict_proba(X)
