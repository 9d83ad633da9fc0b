"""The protocol of the thesis' online experiments (section 5.3.2): data, scaling, shuffles, progressive loss."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.common import DATA

from squeak.online import progressive_validation

RUNS = 15


def scaled_to_unit(X: np.ndarray) -> np.ndarray:
    low, high = X.min(axis=0), X.max(axis=0)
    return (X - low) / np.where(high > low, high - low, 1.0)


def regression(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return a data set as the thesis has it: columns and target scaled to [0, 1]; None where it is absent.

    parkinson's 20 published columns are the subject's number and all but motor_UPDRS, which gives the target away.
    """
    path = DATA / f"{name}.npz"
    if not path.exists():
        return None
    with np.load(path) as file:
        X, y = file["X"].astype(np.float64), file["y"].astype(np.float64)
        if name == "parkinson":
            keep = [i for i, column in enumerate(file["feature_names"]) if str(column) != "motor_UPDRS"]
            X = np.column_stack([file["subject"], X[:, keep]])
    return scaled_to_unit(X), (y - y.min()) / (y.max() - y.min())


def labels(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Return a data set of labels ±1, its columns as they are: ijcnn1's published sizes come out unscaled only."""
    path = DATA / f"{name}.npz"
    if not path.exists():
        return None
    with np.load(path) as file:
        return file["X"].astype(np.float64), file["y"].astype(np.float64)


def repeated(
    make: Callable[[int], Any], X: np.ndarray, y: np.ndarray, runs: int, after: Any = None
) -> dict[str, Any]:
    """Return mean and spread of the progressive loss, size and seconds over shuffles; ``after`` adds its own."""
    losses, sizes, seconds, extra = [], [], [], []
    for run in range(runs):
        order = np.random.default_rng(run).permutation(len(y))
        model = make(run)
        start = time.perf_counter()
        losses.append(progressive_validation(model, X[order], y[order]).mean_loss)
        seconds.append(time.perf_counter() - start)
        sizes.append(model.n_atoms_)
        if after is not None:
            extra.append(after(model, X[order], y[order]))
    found = {
        "loss": float(np.mean(losses)),
        "spread": float(np.std(losses)),
        "atoms": float(np.mean(sizes)),
        "seconds": float(np.median(seconds)),
    }
    if extra:
        found["batch"], found["batch_spread"] = float(np.mean(extra)), float(np.std(extra))
    return found
