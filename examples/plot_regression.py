"""
Rare rows, and landmarks that miss them
=======================================

There are 10,000 rows, of which about 150 lie in 30 small clusters far from the rest. Ridge regression on a
dictionary needs atoms where the function is to be learned: uniform landmarks find the crowd and miss the
clusters, leverage scores find both. Where all rows are alike, uniform ones are as good.
"""

import matplotlib.pyplot as plt
import numpy as np

from squeak import KernelRidge
from squeak.kernels import RBF
from squeak.samplers import BlessR, Uniform

centres = 6.0 * np.random.default_rng(7).standard_normal((30, 3))


def rows(n, seed):
    """Return rows, the function's values, and which rows are rare."""
    rng = np.random.default_rng(seed)
    rare = rng.random(n) < 0.015
    X = rng.standard_normal((n, 3))
    X[rare] = centres[rng.integers(0, 30, rare.sum())] + 0.3 * rng.standard_normal((rare.sum(), 3))
    return X, np.sin(X[:, 0]) + np.cos(X[:, 1]), rare


X, f, _ = rows(10_000, 0)
y = f + 0.1 * np.random.default_rng(1).standard_normal(len(f))
X_test, f_test, rare = rows(10_000, 2)

# %%
# Any sampler can choose the dictionary of a learner; it takes kernel and ridge from the learner.
sizes = (50, 100, 200, 400)
figure, axes = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
for sampler, colour, name in ((Uniform, "#d9730d", "uniform"), (BlessR, "#0b6e99", "leverage scores")):
    errors = []
    for atoms in sizes:
        model = KernelRidge(RBF(1.5), alpha=0.1, sampler=sampler(max_atoms=atoms, random_state=0)).fit(X, y)
        squared = (model.predict(X_test) - f_test) ** 2
        errors.append((squared[~rare].mean(), squared[rare].mean()))
    axes.plot(sizes, [error[0] for error in errors], color=colour, marker="o", label=f"{name}, common rows")
    axes.plot(sizes, [error[1] for error in errors], ":", color=colour, marker="o", label=f"{name}, rare rows")
axes.set(xscale="log", yscale="log", xlabel="atoms", ylabel="mean squared error on new rows")
axes.set_xticks(sizes, [str(size) for size in sizes])
axes.minorticks_off()
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
