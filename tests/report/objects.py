"""One small object of every kind that squeak saves, for the tests of the report."""

from functools import partial

import numpy as np
import pandas as pd

import squeak
from squeak import bandits, dpp, graphs, learners, online
from squeak.kernels import RBF

N = 400


def numbers():
    """Return rows, targets and classes."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((N, 3))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.standard_normal(N)
    return X, y, np.where(y > 0, "late", "on time")


def flights(script="<script>"):
    """Return a table with a category, a date and a column whose name is code."""
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            script: rng.standard_normal(N),
            "to": rng.choice(["AMS", f"{script}alert(1)</script>", "LIL"], N),
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 300, N), unit="D"),
            "delay": 10 * rng.standard_normal(N),
        }
    )


def _bandit(kind):
    X = numbers()[0][:40]
    bandit = kind(X, RBF(1.0), noise=0.1, random_state=0)
    return bandit.run(lambda arm: float(np.cos(X[arm, 0])), 12)


def _box():
    box = squeak.bandits.BoxUCB([(-1.0, 1.0), (0.0, 2.0)], random_state=0)
    for _ in range(12):
        point = box.ask()
        box.tell(point, float(np.cos(point[0]) + point[1]))
    return box


def _dictionary():
    return squeak.Squeak(RBF(1.0), ridge=1.0, random_state=0).fit(numbers()[0]).dictionary_


def _preprocessing():
    return squeak.rows(flights(), "delay", scale="standard").preprocessing


def every_kind():
    """Return a function for every kind: it makes the object."""
    X, y, labels = numbers()
    small = {"kernel": RBF(1.0), "max_atoms": 40, "random_state": 0}
    Y = np.column_stack([X[:, 0] ** 2, y])
    clique = np.ones((12, 12)) - np.eye(12)
    made = {
        "dictionary": _dictionary,
        "preprocessing": _preprocessing,
        "stream": lambda: squeak.Squeak(RBF(1.0), ridge=1.0, random_state=0).fit(X),
        "kernel-ridge": lambda: squeak.KernelRidge(**small, solver="falkon").fit(X, y),
        "kernel-ridge-cv": lambda: squeak.KernelRidgeCV(**small).fit(X, y),
        "kernel-classifier": lambda: squeak.KernelClassifier(**small).fit(X, labels),
        "kernel-gradient-descent": lambda: learners.KernelGradientDescent(RBF(1.0), random_state=0).fit(X, y),
        "basic-falkon": lambda: learners.BasicFalkon(**small).fit(X, y),
        "divide-and-conquer-ridge": lambda: learners.DivideAndConquerRidge(RBF(1.0), random_state=0).fit(X, y),
        "nytro-regressor": lambda: learners.NytroRegressor(**small).fit(X, y),
        "kernel-blend": lambda: learners.KernelBlend([RBF("learned")], max_atoms=40, random_state=0).fit(X, y),
        "local-experts": lambda: learners.LocalExperts(
            squeak.KernelRidge(RBF(1.0), max_atoms=40), leaf_rows=200, random_state=0
        ).fit(X, y),
        "auto-regressor": lambda: squeak.AutoRegressor(max_atoms=40, random_state=0).fit(X, y),
        "auto-classifier": lambda: squeak.AutoClassifier(max_atoms=40, random_state=0).fit(X, labels),
        "kernel-pca": lambda: squeak.KernelPCA(4, **small).fit(X),
        "kernel-k-means": lambda: squeak.KernelKMeans(3, **small).fit(X),
        "kernel-cca": lambda: squeak.KernelCCA(2, **small, kernel_y=RBF(1.0)).fit(X, Y),
        "nystroem": lambda: squeak.Nystroem(**small).fit(X),
        "quadrature-features": lambda: learners.QuadratureFeatures(RBF(1.0), n_features=60).fit(X),
        "random-features": lambda: squeak.RandomFeatures(RBF(1.0), n_features=60, random_state=0).fit(X),
        "random-feature-regressor": lambda: squeak.RandomFeatureRegressor(
            RBF(1.0), n_features=60, random_state=0
        ).fit(X, y),
        "random-feature-classifier": (
            lambda: squeak.RandomFeatureClassifier(RBF(1.0), n_features=60, random_state=0).fit(X, labels)
        ),
        "online": lambda: online.ConKonsRegressor(RBF(1.0), random_state=0).fit(X, y),
        "edges": lambda: graphs.StreamSparsifier(oversampling=2, random_state=0).fit(clique).sample_,
        "edge-stream": lambda: graphs.StreamSparsifier(oversampling=2, random_state=0).fit(clique),
        "dpp": lambda: dpp.DPP(RBF(1.0), random_state=0).fit(X),
    }
    kinds = [getattr(bandits, name) for name in bandits.__all__]
    made |= {kind.kind: partial(_bandit, kind) for kind in kinds if getattr(kind, "kind", "")}
    return made | {bandits.BoxUCB.kind: _box}
