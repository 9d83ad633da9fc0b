"""One coin a row or the papers' copies: measured accuracy against size, from exact scores and from SQUEAK."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.common import real_rows, save
from squeak import Squeak
from squeak.kernels import RBF
from squeak.samplers import ExactRLS
from squeak.samplers.measured import accuracy_meter


def curve(
    cls: type, coin: bool, X: np.ndarray, measure: Callable[[np.ndarray], float], kernel: RBF, seeds: int
) -> np.ndarray:
    """Return rows (oversampling, mean atoms, mean ε̂)."""
    points = []
    for oversampling in (5, 7, 10, 14, 20, 28, 40):
        sizes, errors = [], []
        for seed in range(seeds):
            copies = 1 if coin else oversampling
            sampler = cls(kernel=kernel, ridge=1.0, oversampling=oversampling, copies=copies, random_state=seed)
            d = sampler.fit(X).dictionary_
            weights = np.zeros(len(X))
            weights[d.indices] = d.weights
            sizes.append(len(d))
            errors.append(measure(weights))
        points.append((oversampling, np.mean(sizes), np.mean(errors)))
    return np.array(points)


def run(n: int = 1200, seeds: int = 6) -> None:
    sets = {"gauss 2-D": (np.random.default_rng(0).standard_normal((n, 2)), RBF(1.0))}
    for name, kernel in (("cadata", RBF(3.0)), ("kin40k", RBF(6.0))):
        X = real_rows(name)
        if X is not None:
            sets[name] = (X[:: len(X) // n][:n], kernel)
    table = []
    print("mean ε̂ at equal size (interpolated); below 1 the coin is better")
    for name, (X, kernel) in sets.items():
        measure = accuracy_meter(kernel(X), 1.0)
        for cls in (ExactRLS, Squeak):
            coin, copies = (curve(cls, is_coin, X, measure, kernel, seeds) for is_coin in (True, False))
            for atoms in (200, 300, 400):
                both = [np.exp(np.interp(np.log(atoms), np.log(c[:, 1]), np.log(c[:, 2]))) for c in (coin, copies)]
                inside = all(c[0, 1] <= atoms <= c[-1, 1] for c in (coin, copies))
                if inside:
                    entry = {
                        "data": name,
                        "scores": cls.__name__,
                        "atoms": atoms,
                        "coin": float(both[0]),
                        "copies": float(both[1]),
                        "ratio": float(both[0] / both[1]),
                    }
                    table.append(entry)
                    print(
                        f"  {name:10s} {cls.__name__:9s} {atoms} atoms: coin {both[0]:.3f}, copies {both[1]:.3f}, "
                        f"ratio {both[0] / both[1]:.2f}"
                    )
    ratios = [entry["ratio"] for entry in table]
    print(f"  geometric mean of the ratios: {np.exp(np.mean(np.log(ratios))):.3f}")
    save("coins", {"rows": n, "seeds": seeds, "table": table, "mean_ratio": float(np.exp(np.mean(np.log(ratios))))})


if __name__ == "__main__":
    run()
