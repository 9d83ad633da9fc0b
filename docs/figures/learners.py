"""Ridge regression on a dictionary: what the landmarks, and FALKON's weights, are worth.

Left: 20,000 rows, of which some 300 lie in 30 small clusters far from the rest. Test error of either kind against
the number of atoms, for uniform landmarks and for those of BLESS-R. Right: FALKON's residual after each pass with
300 centres of either kind.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from squeak import KernelRidge
from squeak.kernels import RBF
from squeak.samplers import BlessR, Uniform

COLOURS = {"uniform": "#d9730d", "BLESS-R": "#0b6e99"}


def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, the function's values, and which rows are rare."""
    rng = np.random.default_rng(seed)
    centres = 6.0 * np.random.default_rng(7).standard_normal((30, 3))
    rare = rng.random(n) < 0.015
    X = rng.standard_normal((n, 3))
    X[rare] = centres[rng.integers(0, 30, rare.sum())] + 0.3 * rng.standard_normal((rare.sum(), 3))
    return X, np.sin(2.0 * X[:, 0]) + np.cos(X[:, 1] * X[:, 2]), rare


def sampler(name: str, atoms: int, seed: int) -> Uniform | BlessR:
    """Return the sampler of a name."""
    return (Uniform if name == "uniform" else BlessR)(max_atoms=atoms, random_state=seed)


def main() -> Any:
    """Return the figure with both panels."""
    X, f, _ = rows(20_000, 0)
    y = f + 0.1 * np.random.default_rng(1).standard_normal(len(f))
    X_test, f_test, rare = rows(20_000, 2)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    sizes = [50, 100, 200, 400, 800]
    for name, colour in COLOURS.items():
        common, few = [], []
        for atoms in sizes:
            runs = [
                KernelRidge(RBF(1.5), alpha=0.1, sampler=sampler(name, atoms, seed)).fit(X, y).predict(X_test)
                for seed in range(3)
            ]
            common.append(np.mean([np.mean((run - f_test)[~rare] ** 2) for run in runs]))
            few.append(np.mean([np.mean((run - f_test)[rare] ** 2) for run in runs]))
        left.plot(sizes, common, color=colour, marker="o", label=f"{name}, common rows")
        left.plot(sizes, few, color=colour, marker="o", linestyle=":", label=f"{name}, rare rows")
        model = KernelRidge(RBF(1.5), alpha=0.1, sampler=sampler(name, 300, 0), solver="falkon", max_iter=30).fit(
            X, y
        )
        passes = range(1, len(model.residuals_) + 1)
        right.plot(passes, model.residuals_, color=colour, label=f"{name}, condition {model.condition_:.0f}")
    left.set(xscale="log", yscale="log", xlabel="atoms", ylabel="mean squared test error")
    left.set_xticks(sizes, [str(size) for size in sizes])
    left.minorticks_off()
    right.set(yscale="log", xlabel="FALKON's passes over the rows", ylabel="relative residual")
    for axes in (left, right):
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


figure = main()
