"""The methods of the section ``tables``: squeak, gradient boosters, a forest, Nyström ridge regression and xRFM.

Every method is built for one split and fits its raw rows, so that encoding and scaling count as part of its work.
A method whose package is absent is left out. ``settings`` is a version: raise it when the settings of a method
change, and its cached results are no longer used.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

import squeak
from benchmarks.tables_data import Split
from benchmarks.tables_search import Searched, space

ATOMS = 1000
"""Atoms of squeak's version before, and components of scikit-learn's Nystroem."""


class Categories(TransformerMixin, BaseEstimator):
    """Give text columns the categorical type, with the categories of the training rows; arrays stay as they are.

    With ``word``, gaps and unknown values of text columns become that word and the columns stay text.
    """

    def __init__(self, word: str | None = None) -> None:
        self.word = word

    def fit(self, X: Any, y: Any = None) -> Categories:
        self.levels_ = {name: sorted(X[name].dropna().unique()) for name in text_columns(X)}
        return self

    def transform(self, X: Any) -> Any:
        if not self.levels_:
            return X
        import pandas as pd

        changed = {name: pd.Categorical(X[name], categories=levels) for name, levels in self.levels_.items()}
        if self.word is not None:
            changed = {name: column.astype(object) for name, column in changed.items()}
            changed = {name: np.where(pd.isna(column), self.word, column) for name, column in changed.items()}
        return X.assign(**changed)


def text_columns(X: Any) -> list[str]:
    """Return the names of a data frame's text columns; none for an array."""
    if isinstance(X, np.ndarray):
        return []
    from pandas.api.types import is_numeric_dtype

    return [name for name in X if not is_numeric_dtype(X[name].dtype)]


def encoded(split: Split, model: Any, *, scaled: bool) -> Any:
    """Return the model behind an encoder: scaled one-hot columns without gaps, or ordinal codes for a forest."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

    words = text_columns(split.X)
    if isinstance(split.X, np.ndarray):
        return make_pipeline(StandardScaler(), model) if scaled else model
    if scaled:
        one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        numbers = SimpleImputer(strategy="median", add_indicator=True)
        encoder = make_column_transformer((one_hot, words), (numbers, make_column_selector(dtype_include="number")))
        return make_pipeline(encoder, StandardScaler(), model)
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-1)
    return make_pipeline(make_column_transformer((codes, words), remainder="passthrough"), model)


class MedianNystroem(TransformerMixin, BaseEstimator):
    """scikit-learn's Nystroem with an RBF kernel whose width is the median distance of 1,000 rows."""

    def fit(self, X: np.ndarray, y: Any = None) -> MedianNystroem:
        from scipy.spatial.distance import pdist
        from sklearn.kernel_approximation import Nystroem

        part = X[np.random.default_rng(0).permutation(len(X))[:1000]]
        gamma = 1.0 / (2.0 * float(np.median(pdist(part))) ** 2)
        self.features_ = Nystroem(gamma=gamma, n_components=min(ATOMS, len(X)), random_state=0).fit(X)
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        return self.features_.transform(X)


class XRFM(BaseEstimator):
    """xRFM with its default kernel, bandwidth and penalty, and leaves that a processor can solve.

    It needs rows for validation: 15% of the training rows, at most 5,000. Targets are standardised.
    """

    LEAF = 10_000

    def __init__(self, classes: int, threads: int) -> None:
        self.classes = classes
        self.threads = threads

    def fit(self, X: np.ndarray, y: np.ndarray) -> XRFM:
        import torch
        from xrfm import xRFM

        self.shift_, self.scale_ = (0.0, 1.0) if self.classes else (y.mean(), y.std())
        target = y.astype(np.int64) if self.classes else ((y - self.shift_) / self.scale_).astype(np.float32)
        order = np.random.default_rng(0).permutation(len(X))
        held, rest = np.split(order, [min(int(0.15 * len(X)), 5000)])
        model = {"kernel": "l2", "bandwidth": 10.0, "exponent": 1.0, "diag": False, "bandwidth_mode": "constant"}
        fit = {"reg": 1e-3, "iters": 5, "verbose": False, "early_stop_rfm": True}
        torch.set_num_threads(self.threads)
        self.model_ = xRFM(
            {"model": model, "fit": fit},
            max_leaf_size=self.LEAF,
            device=torch.device("cpu"),
            tuning_metric="accuracy" if self.classes else "mse",
            random_state=0,
            verbose=False,
        )
        rows = X.astype(np.float32)
        self.model_.fit(rows[rest], target[rest], rows[held], target[held])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.model_.predict(X.astype(np.float32))).squeeze() * self.scale_ + self.shift_

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.model_.predict_proba(X.astype(np.float32)))


class Quantiles(BaseEstimator):
    """Two gradient boosters for the 5% and 95% quantiles: intervals of 90%, and their middle as the prediction."""

    def __init__(self, build: Callable[[float], Any]) -> None:
        self.build = build

    def fit(self, X: Any, y: np.ndarray) -> Quantiles:
        self.models_ = [self.build(quantile).fit(X, y) for quantile in (0.05, 0.95)]
        return self

    def predict_interval(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        low, high = (model.predict(X) for model in self.models_)
        return np.stack([np.minimum(low, high), np.maximum(low, high)], axis=1)

    def predict(self, X: Any) -> np.ndarray:
        return self.predict_interval(X).mean(axis=1)


def ours(split: Split, threads: int, **settings: Any) -> Any:
    cls = squeak.AutoClassifier if split.classes else squeak.AutoRegressor
    return cls(random_state=0, **settings)


def kernels(split: Split, threads: int) -> Any:
    return ours(split, threads, trees=False)


def before(split: Split, threads: int) -> Any:
    from squeak.kernels import RBF

    common: dict[str, Any] = {"alpha": "auto", "max_atoms": ATOMS, "random_state": 0}
    if split.classes:
        return encoded(split, squeak.KernelClassifier(RBF("auto"), **common), scaled=True)
    return encoded(split, squeak.KernelRidge(RBF("auto"), fit_intercept=True, **common), scaled=True)


def hist(split: Split, threads: int, **settings: Any) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.pipeline import make_pipeline

    cls = HistGradientBoostingClassifier if split.classes else HistGradientBoostingRegressor
    return make_pipeline(Categories(), cls(random_state=0, **settings))


def lightgbm(split: Split, threads: int, **settings: Any) -> Any:
    from lightgbm import LGBMClassifier, LGBMRegressor
    from sklearn.pipeline import make_pipeline

    cls = LGBMClassifier if split.classes else LGBMRegressor
    return make_pipeline(Categories(), cls(n_jobs=threads, verbose=-1, random_state=0, **settings))


def catboost(split: Split, threads: int, **settings: Any) -> Any:
    from catboost import CatBoostClassifier, CatBoostRegressor
    from sklearn.pipeline import make_pipeline

    cls = CatBoostClassifier if split.classes else CatBoostRegressor
    fixed: dict[str, Any] = {"thread_count": threads, "verbose": 0, "random_seed": 0, "allow_writing_files": False}
    model = cls(cat_features=text_columns(split.X), **fixed, **settings)
    return make_pipeline(Categories("missing"), model)


def forest(split: Split, threads: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    cls = RandomForestClassifier if split.classes else RandomForestRegressor
    return encoded(split, cls(n_jobs=threads, random_state=0), scaled=False)


def nystroem(split: Split, threads: int) -> Any:
    from sklearn.linear_model import RidgeClassifierCV, RidgeCV
    from sklearn.pipeline import make_pipeline

    cls = RidgeClassifierCV if split.classes else RidgeCV
    return encoded(split, make_pipeline(MedianNystroem(), cls(alphas=np.logspace(-6, 3, 10))), scaled=True)


def xrfm(split: Split, threads: int) -> Any:
    return encoded(split, XRFM(split.classes, threads), scaled=True)


def quantile(split: Split, threads: int) -> Any:
    return Quantiles(lambda level: hist(split, threads, loss="quantile", quantile=level))


def searched(build: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method with a random search before its fit; ``budget`` is processor seconds for both."""

    def made(split: Split, threads: int, budget: float) -> Any:
        return Searched(lambda **s: build(split, threads, **s), space(build.__name__), split.classes, budget)

    return made


class Method(NamedTuple):
    """How a method is called in the tables, the version of its settings, its package and how it is built."""

    title: str
    settings: int
    package: str | None
    build: Callable[..., Any]
    budgeted: bool = False
    """Whether it searches, within the processor time of squeak's own fit."""
    regression_only: bool = False


METHODS = {
    "squeak": Method("squeak", 4, None, ours),
    "kernels": Method("squeak, trees=False", 1, None, kernels),
    "before": Method("KernelRidge (squeak)", 1, None, before),
    "hist": Method("HistGradientBoosting", 1, None, hist),
    "lightgbm": Method("LightGBM", 1, "lightgbm", lightgbm),
    "catboost": Method("CatBoost", 1, "catboost", catboost),
    "forest": Method("RandomForest", 1, None, forest),
    "nystroem": Method("Nystroem + Ridge", 1, None, nystroem),
    "xrfm": Method("xRFM", 1, "xrfm", xrfm),
    "hist_searched": Method("HistGradientBoosting, searched", 1, None, searched(hist), budgeted=True),
    "lightgbm_searched": Method("LightGBM, searched", 1, "lightgbm", searched(lightgbm), budgeted=True),
    "catboost_searched": Method("CatBoost, searched", 1, "catboost", searched(catboost), budgeted=True),
    "quantile": Method("quantile boosting", 1, None, quantile, regression_only=True),
}


def at_hand(name: str) -> bool:
    """Return whether a method can run: its package is installed; for squeak, it has automatic models."""
    if name == "squeak":
        return hasattr(squeak, "AutoRegressor") and hasattr(squeak, "AutoClassifier")
    package = METHODS[name].package
    return package is None or find_spec(package) is not None
