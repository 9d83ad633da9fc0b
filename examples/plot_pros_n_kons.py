"""
Atoms over time
===============

PROS-N-KONS starts again at each new atom, as its theorem needs. CON-KONS keeps what it knows and adds a
coordinate. Both choose the same atoms by the same coins: many at first and fewer later, so that starting again
becomes rare.
"""

import matplotlib.pyplot as plt
import numpy as np

from squeak.kernels import RBF
from squeak.online import ConKonsRegressor, ProsNKonsRegressor, progressive_validation

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (10_000, 3))
y = np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.1 * rng.standard_normal(len(X))

# %%
runs = {
    cls.__name__.removesuffix("Regressor"): progressive_validation(
        cls(RBF(1.0), ridge=1.0, max_atoms=None, random_state=0), X, y
    )
    for cls in (ProsNKonsRegressor, ConKonsRegressor)
}

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for (name, run), colour in zip(runs.items(), ("#d9730d", "#0b6e99"), strict=True):
    left.plot(run.rows, run.atoms, color=colour, linestyle="-" if name == "ProsNKons" else "--", label=name)
    right.plot(run.rows, run.curve, color=colour, label=f"{name}: {run.mean_loss:.4f}")
left.set(xlabel="rows", ylabel="atoms")
right.set(xlabel="rows", ylabel="mean squared error so far", xscale="log", yscale="log")
for axes in (left, right):
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
plt.show()
