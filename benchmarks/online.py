"""Online learning: accuracy with one configuration, speed against river and scikit-learn, cost that does not grow.

One core: BLAS is held to one thread. Columns are standardised and clipped at three standard deviations, targets
scaled to [0, 1]. squeak has its defaults everywhere, but for ``scale=None``, for the columns are scaled; the others get the same length scale and the best of five step
sizes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import SGDRegressor

from benchmarks.common import DATA, RESULTS, PeakMemory, save
from squeak.core import engine
from squeak.kernels import RBF
from squeak.online import (
    ConKonsClassifier,
    ConKonsRegressor,
    FOGDClassifier,
    FOGDRegressor,
    NOGDClassifier,
    NOGDRegressor,
    progressive_validation,
)

SHUFFLES = 5
SETS = ("cadata", "casp", "cpusmall", "ijcnn1")
UNSEEN = ("elevators", "kin40k", "parkinson", "a9a", "spambase")
"""Sets that played no part in the choice of the defaults."""

LABELS = ("ijcnn1", "a9a", "spambase")
ETAS = (0.03, 0.1, 0.3, 1.0, 3.0)
FEATURES = 500
SINGLY = 3_000
BLOCK = 1_000
FEW = 50


def load(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    path = DATA / f"{name}.npz"
    if not path.exists():
        print(f"  {name}: not at hand, left out")
        return None
    with np.load(path) as file:
        X, y = file["X"].astype(np.float64), file["y"].astype(np.float64)
    X = X[:, X.std(axis=0) > 0]
    X = np.clip((X - X.mean(axis=0)) / X.std(axis=0), -3, 3)
    return X, y if name in LABELS else (y - y.min()) / (y.max() - y.min())


def shuffled(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(len(y))
    return np.ascontiguousarray(X[order]), y[order]


def accuracy(names: tuple[str, ...] = SETS) -> dict[str, Any]:
    """Progressive loss: squeak's defaults, and first-order learners of the same width with a searched step size."""
    table: dict[str, Any] = {}
    for name in names:
        data = load(name)
        if data is None:
            continue
        labels = name in LABELS
        ours: Any = ConKonsClassifier if labels else ConKonsRegressor
        others: dict[str, Any] = {
            "FOGD": FOGDClassifier if labels else FOGDRegressor,
            "NOGD": NOGDClassifier if labels else NOGDRegressor,
        }
        losses, widths = [], []
        for seed in range(SHUFFLES):
            model = ours(scale=None, random_state=seed)
            losses.append(progressive_validation(model, *shuffled(*data, seed)).mean_loss)
            widths.append(model.kernel_.length_scale)
        entry: dict[str, Any] = {"ConKons": {"mean": float(np.mean(losses)), "worst": float(np.max(losses))}}
        part = shuffled(*data, 0)
        searched = tuple(array[:20_000] for array in part)
        for words, cls in others.items():
            found = {
                eta: progressive_validation(cls(RBF(widths[0]), step=eta, random_state=0), *searched).mean_loss
                for eta in ETAS
            }
            best = min(found, key=found.__getitem__)
            loss = progressive_validation(cls(RBF(widths[0]), step=best, random_state=0), *part).mean_loss
            entry[words] = {"mean": loss, "eta": best}
        table[name] = entry
        shown = ", ".join(f"{words} {facts['mean']:.5f}" for words, facts in entry.items())
        print(f"  {name:<9} {shown} (worst shuffle {entry['ConKons']['worst']:.5f})", flush=True)
    return table


def timed(run: Callable[[], Any], rows: int, repeats: int = 5) -> list[float]:
    """Return microseconds a row of every repeat."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds.append((time.perf_counter() - start) / rows * 1e6)
    return seconds


def pace(atoms: int) -> dict[str, list[float]]:
    """Microseconds a row with ``atoms`` coordinates, 8 columns: many rows at once, and one by one."""
    rng = np.random.default_rng(0)
    X = rng.random((60_000, 8))
    y = np.sin(3 * X).sum(axis=1) / 8 + 0.05 * rng.standard_normal(len(X))
    model = ConKonsRegressor(RBF(0.7), max_atoms=atoms, random_state=0).fit(X[:10_000], y[:10_000])
    assert model.n_coordinates_ == atoms
    starts = iter(range(10_000, 60_000, 4_000))

    def block() -> None:
        start = next(starts)
        model.partial_fit(X[start : start + 4_000], y[start : start + 4_000])

    def singly() -> None:
        for i in range(2_000):
            model.learn_one(X[i], y[i])

    return {"block": timed(block, 4_000, 10), "singly": timed(singly, 2_000)}


def sgd(width: float, eta: float) -> tuple[Any, Any]:
    features = RBFSampler(gamma=0.5 / width**2, n_components=FEATURES, random_state=0)
    return features, SGDRegressor(learning_rate="constant", eta0=eta, alpha=0.0, random_state=0)


def squeak_stream(X: np.ndarray, y: np.ndarray, block: int, atoms: int = 100) -> float:
    """Return the progressive loss of squeak's defaults; every row is predicted before it is learned."""
    model, total = ConKonsRegressor(max_atoms=atoms, scale=None, random_state=0), 0.0
    for start in range(0, len(y), block):
        here = slice(start, start + block)
        total += float(np.sum((model.test_then_train(X[here], y[here]) - y[here]) ** 2))
    return total / len(y)


def sklearn_stream(X: np.ndarray, y: np.ndarray, width: float, eta: float, block: int) -> float:
    """Return the progressive loss of RBFSampler + SGDRegressor; a block is predicted before any of it is learned."""
    features, model = sgd(width, eta)
    features.fit(X[:1])
    total = float(y[0] ** 2)
    model.partial_fit(features.transform(X[:1]), y[:1])
    for start in range(1, len(y), block):
        Z = features.transform(X[start : start + block])
        total += float(np.sum((model.predict(Z) - y[start : start + block]) ** 2))
        model.partial_fit(Z, y[start : start + block])
    return total / len(y)


def river_stream(X: np.ndarray, y: np.ndarray, width: float, eta: float) -> float:
    """Return the progressive loss of river's RBFSampler + linear model, rows as the dicts that it takes."""
    from river import feature_extraction, linear_model, optim

    model = feature_extraction.RBFSampler(gamma=0.5 / width**2, n_components=FEATURES, seed=0) | (
        linear_model.LinearRegression(optimizer=optim.SGD(eta), intercept_lr=eta)
    )
    total = 0.0
    for x, target in zip([dict(enumerate(row)) for row in X.tolist()], y.tolist(), strict=True):
        total += (model.predict_one(x) - target) ** 2
        model.learn_one(x, target)
    return total / len(y)


def searched(run: Callable[[float], float], etas: tuple[float, ...]) -> float:
    with np.errstate(all="ignore"):
        found = {}
        for eta in etas:
            try:
                found[eta] = run(eta)
            except (ValueError, OverflowError):  # it diverged
                found[eta] = np.inf
    return min(found, key=lambda eta: found[eta] if np.isfinite(found[eta]) else np.inf)


def peers() -> dict[str, Any]:
    """Time and loss over the same rows: singly on the first 3,000 of a shuffle, in blocks on all of it."""
    table: dict[str, Any] = {}
    etas = tuple(eta / 10 for eta in ETAS)
    for name in ("cadata", "casp"):
        data = load(name)
        if data is None:
            continue
        X, y = shuffled(*data, 0)
        probe = ConKonsRegressor(scale=None, random_state=0).fit(X[:200], y[:200])
        width = probe.kernel_.length_scale
        few = X[:SINGLY], y[:SINGLY]
        best = searched(lambda eta: sklearn_stream(X, y, width, eta, BLOCK), etas)
        # river's features are not divided by the root of their number
        smaller = tuple(eta / FEATURES for eta in ETAS)
        best_river = searched(lambda eta: river_stream(few[0][:800], few[1][:800], width, eta), smaller)
        losses: dict[str, float] = {}
        seconds: dict[str, list[float]] = {}

        def ours_singly(few: Any = few) -> float:
            model = ConKonsRegressor(scale=None, random_state=0)
            said = [model.test_then_train_one(x, t) for x, t in zip(*few, strict=True)]
            return float(np.mean((np.array(said) - few[1]) ** 2))

        candidates: dict[str, tuple[Callable[[], float], int]] = {
            "squeak singly": (ours_singly, SINGLY),
            "river singly": (lambda: river_stream(*few, width, best_river), SINGLY),
            "scikit-learn singly": (lambda: sklearn_stream(*few, width, best, 1), SINGLY),
            "squeak blocks": (lambda: squeak_stream(X, y, BLOCK), len(y)),
            f"squeak blocks, {FEW} atoms": (lambda: squeak_stream(X, y, BLOCK, FEW), len(y)),
            "scikit-learn blocks": (lambda: sklearn_stream(X, y, width, best, BLOCK), len(y)),
        }
        for _ in range(3):
            for words, (run, rows) in candidates.items():
                start = time.perf_counter()
                losses[words] = run()
                seconds.setdefault(words, []).append((time.perf_counter() - start) / rows * 1e6)
        table[name] = {
            words: {"microseconds": float(np.median(seconds[words])), "loss": losses[words]} for words in candidates
        }
        for ours, theirs in (
            ("squeak singly", "river singly"),
            ("squeak singly", "scikit-learn singly"),
            ("squeak blocks", "scikit-learn blocks"),
            (f"squeak blocks, {FEW} atoms", "scikit-learn blocks"),
        ):
            ratios = np.array(seconds[theirs]) / np.array(seconds[ours])
            table[name][f"{theirs} over {ours.replace(' singly', '').replace(' blocks', '')}"] = {
                "median": float(np.median(ratios)),
                "min": float(ratios.min()),
                "max": float(ratios.max()),
            }
            print(
                f"  {name:<7} {theirs} takes, against {ours}, {np.median(ratios):.1f} times as long ({ratios.min():.1f} to {ratios.max():.1f}); "
                f"losses {losses[ours]:.5f}, theirs {losses[theirs]:.5f}",
                flush=True,
            )
    return table


def growth(sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)) -> dict[str, Any]:
    """Microseconds a row over the last tenth of a stream, and memory above that at row 10,000."""
    rng = np.random.default_rng(1)
    model = ConKonsRegressor(RBF(0.7), max_atoms=100, random_state=0)
    table: dict[str, Any] = {}
    seen = 0
    with PeakMemory() as memory:
        for size in sizes:
            times = []
            while seen < size:
                X = rng.random((5_000, 8))
                y = np.sin(3 * X).sum(axis=1) / 8 + 0.05 * rng.standard_normal(5_000)
                start = time.perf_counter()
                model.partial_fit(X, y)
                seen += 5_000
                if seen > 0.9 * size:
                    times.append((time.perf_counter() - start) / 5_000 * 1e6)
            table[f"{size}"] = {"microseconds": float(np.median(times)), "peak_mb": memory.peak / 1e6}
            print(
                f"  {size:>9,} rows: {np.median(times):.1f} µs a row, peak {memory.peak / 1e6:.0f} MB", flush=True
            )
    return table


def paces() -> dict[str, Any]:
    """Microseconds a row at three sizes."""
    rates = {str(atoms): pace(atoms) for atoms in (20, 100, 200)}
    for atoms, facts in rates.items():
        shown = ", ".join(
            f"{words} {np.median(t):.1f} ({min(t):.1f} to {max(t):.1f})" for words, t in facts.items()
        )
        print(f"  {atoms:>3} atoms, µs a row: {shown}", flush=True)
    return rates


def run() -> None:
    """Measure all, or the parts named in ONLINE (with commas between them)."""
    parts = {"pace": paces, "growth": growth, "peers": peers, "accuracy": accuracy}
    parts["unseen"] = lambda: accuracy(UNSEEN)
    chosen = [name for name in os.environ.get("ONLINE", "").split(",") if name] or list(parts)
    path = RESULTS / "online.json"
    known = json.loads(path.read_text()) if path.exists() and len(chosen) < len(parts) else {}
    known.pop("measured_with", None)
    with engine.single_blas():
        for name in chosen:
            known[name] = parts[name]()
            save("online", known)


if __name__ == "__main__":
    run()
