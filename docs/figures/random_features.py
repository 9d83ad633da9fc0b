"""Random features: how many it takes, beside those of a dictionary; and what batch and step do.

Left: the root mean square error of the kernel on 1,000 rows against the number of features, random and Nyström
(mean of five runs). Right: test error against passes over 4,000 rows, for batches of one row, √n and all, each with
the longest safe step of its size.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from squeak import RandomFeatureRegressor, RandomFeatures
from squeak.core.nystrom import TriangularFeatures
from squeak.kernels import RBF
from squeak.samplers import BlessR


def main() -> Any:
    """Return the figure with both panels."""
    rng = np.random.default_rng(0)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")

    X, kernel = rng.standard_normal((1000, 4)), RBF(2.0)
    K, sizes = kernel(X), (25, 50, 100, 200, 400)

    def off(Z: np.ndarray) -> float:
        return float(np.sqrt(np.mean((Z @ Z.T - K) ** 2)))

    def random(m: int, seed: int) -> np.ndarray:
        return RandomFeatures(kernel, n_features=m, random_state=seed).fit_transform(X)

    def nystroem(m: int, seed: int) -> np.ndarray:
        d = BlessR(kernel=kernel, max_atoms=m, random_state=seed).fit(X).dictionary_
        return TriangularFeatures(kernel, d.atoms).transform(X)

    for make, colour, label in ((random, "#d9730d", "random"), (nystroem, "#0b6e99", "of a dictionary")):
        errors = [np.mean([off(make(m, seed)) for seed in range(5)]) for m in sizes]
        print(label, dict(zip(sizes, np.round(errors, 5).tolist(), strict=True)))
        left.plot(sizes, errors, marker="o", color=colour, label=label)
    left.set(xscale="log", yscale="log", xlabel="features", ylabel="error of the kernel (root mean square)")
    left.set_xticks(sizes, [str(m) for m in sizes])
    left.legend(frameon=False)

    X, Xt = rng.standard_normal((4000, 4)), rng.standard_normal((2000, 4))

    def truth(X: np.ndarray) -> np.ndarray:
        return np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]

    y, yt = truth(X) + 0.3 * rng.standard_normal(4000), truth(Xt)
    passes = (1, 2, 4, 8, 16)
    for batch, colour in ((1, "#d9730d"), (64, "#0b6e99"), (4000, "0.5")):
        errors = []
        for number in passes:
            model = RandomFeatureRegressor(
                RBF(1.5), n_features=400, batch_size=batch, max_iter=number, validation_fraction=0, random_state=0
            )
            errors.append(float(np.mean((model.fit(X, y).predict(Xt) - yt) ** 2)))
        step = model.step_ / model.features_.bound
        print(f"batch {batch}, step {step:.2f}", dict(zip(passes, np.round(errors, 4).tolist(), strict=True)))
        right.plot(passes, errors, marker="o", color=colour, label=f"batch {batch:,}, step {step:.2g}")
    right.set(xscale="log", yscale="log", xlabel="passes over the rows", ylabel="mean squared error on new rows")
    right.set_xticks(passes, [str(number) for number in passes])
    right.legend(frameon=False)

    for axes in (left, right):
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
    return figure


figure = main()
