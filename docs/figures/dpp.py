"""Diverse subsets of handwritten digits beside uniform ones, and landmarks for kernel ridge regression.

Above: three samples of ten digits drawn uniformly, and three drawn by a k-DPP. Below: the error of kernel ridge
regression on landmarks chosen uniformly, by leverage scores and by a k-DPP. Uses mnist and cadata where they are at
hand (SQUEAK_DATA, or beside the repository), else scikit-learn's small digits and a synthetic regression.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, make_friedman1

from squeak.core.nystrom import TriangularFeatures
from squeak.dpp import DPP
from squeak.kernels import RBF
from squeak.samplers import BlessR

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("SQUEAK_DATA", ROOT.parent / "shared" / "data"))
K, SAMPLES = 10, 100


def digits() -> tuple[np.ndarray, np.ndarray, str]:
    """Return images as rows, which digits they show, and where they are from."""
    if (DATA / "mnist.npz").exists():
        with np.load(DATA / "mnist.npz") as file:
            return file["X"][:10_000].reshape(10_000, -1) / 255.0, file["y"][:10_000], "10,000 digits of mnist"
    return load_digits().data / 16.0, load_digits().target, "1,797 digits of scikit-learn"


def houses() -> tuple[np.ndarray, np.ndarray, str]:
    """Return standardised rows and targets, and what they are."""
    if (DATA / "cadata.npz").exists():
        with np.load(DATA / "cadata.npz") as file:
            X, y, name = file["X"].astype(float), file["y"].astype(float), "cadata"
    else:
        X, y = make_friedman1(6_000, noise=0.5, random_state=0)
        name = "a synthetic regression"
    order = np.random.default_rng(0).permutation(len(X))[:4_000]
    X, y = X[order], y[order]
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std(), name


def error(X: np.ndarray, y: np.ndarray, kernel: Any, landmarks: np.ndarray, train: int, alpha: float) -> float:
    """Return the test error (RMSE) of kernel ridge regression in the span of the landmarks."""
    features = TriangularFeatures(kernel, X[landmarks])
    Z = features.transform(X)
    A = Z[:train].T @ Z[:train] + alpha * np.eye(features.rank)
    residual = y[train:] - Z[train:] @ np.linalg.solve(A, Z[:train].T @ y[:train])
    return float(np.sqrt(np.mean(residual**2)))


def landmark_errors(sizes: tuple[int, ...], repeats: int, train: int = 2_000) -> tuple[dict[str, np.ndarray], str]:
    """Return for each way to choose landmarks its errors, shape (sizes, repeats)."""
    X, y, name = houses()
    kernel = RBF("median").resolve(X[:1_000])
    found = {way: np.zeros((len(sizes), repeats)) for way in ("uniform", "leverage scores", "k-DPP")}
    for row, size in enumerate(sizes):
        dpp = DPP(kernel, expected_size=size, random_state=1).fit(X[:train])
        for seed, diverse in enumerate(dpp.sample(repeats, k=size)):
            rng = np.random.default_rng(seed)
            scores = BlessR(kernel, max_atoms=2 * size, random_state=seed).fit(X[:train]).dictionary_
            chances = scores.probabilities / scores.probabilities.sum()
            by_score = rng.choice(scores.indices, min(size, len(scores)), replace=False, p=chances)
            ways = {"uniform": rng.permutation(train)[:size], "leverage scores": by_score, "k-DPP": diverse}
            for way, rows in ways.items():
                found[way][row, seed] = error(X, y, kernel, rows, train, 1e-3)
    return found, name


def main() -> Any:
    """Return the figure with both pictures, and print their numbers."""
    X, labels, what = digits()
    kernel = RBF("median").resolve(X[:1_000])
    rng = np.random.default_rng(0)
    drawn = {
        "uniform": [np.sort(rng.permutation(len(X))[:K]) for _ in range(SAMPLES)],
        "k-DPP": DPP(kernel, expected_size=K, random_state=0).fit(X).sample(SAMPLES, k=K),
    }
    side = int(np.sqrt(X.shape[1]))
    figure = plt.figure(figsize=(10, 7.2), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1, 1.15])
    for panel, (title, samples) in zip(above.subfigures(1, 2), drawn.items(), strict=True):
        different = np.mean([len(np.unique(labels[rows])) for rows in samples])
        panel.suptitle(f"{title}: {different:.2f} different digits among {K}, mean of {SAMPLES}", fontsize=10)
        for axis, row in zip(panel.subplots(3, K).flat, np.concatenate(samples[:3]), strict=True):
            axis.imshow(X[row].reshape(side, side), cmap="gray_r")
            axis.set_axis_off()
        print(f"{what}, {title}: {different:.3f} different digits among {K}, mean of {SAMPLES} samples")
    sizes = (15, 30, 60)
    found, name = landmark_errors(sizes, repeats=4)
    axis = below.subplots()
    for way, errors in found.items():
        axis.errorbar(sizes, errors.mean(axis=1), errors.std(axis=1), marker="o", capsize=3, label=way)
        print(
            f"{name}, {way}: "
            + ", ".join(f"{m:.4f} ± {s:.4f}" for m, s in zip(errors.mean(1), errors.std(1), strict=True))
        )
    axis.set(
        xlabel="landmarks", ylabel="test RMSE", xscale="log", title=f"kernel ridge regression on landmarks, {name}"
    )
    axis.set_xticks(sizes, [str(size) for size in sizes])
    axis.minorticks_off()
    axis.legend()
    return figure


figure = main()
