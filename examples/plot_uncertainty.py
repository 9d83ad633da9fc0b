"""
How sure is the prediction?
===========================

The prediction of kernel ridge regression is the mean of a Gaussian process. ``predict(X, return_std=True)`` also
gives the standard deviation of a new target, in the units of the target. Where many rows were seen it is little
more than the noise, and where none were seen it is larger. ``predict_interval`` gives the two ends of an interval
that holds a given part of new targets.
"""

import matplotlib.pyplot as plt
import numpy as np

from squeak import KernelRidge
from squeak.kernels import RBF

# %%
# There are 20,000 rows, and none of them lies between 4 and 6.
rng = np.random.default_rng(0)
X = np.concatenate([rng.uniform(0, 4, 15_000), rng.uniform(6, 9, 5_000)]).reshape(-1, 1)
y = np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(len(X))
model = KernelRidge(RBF(0.5), alpha=0.09, max_atoms=100, random_state=0).fit(X, y)

# %%
# Without the noise, what is left is the standard deviation of the function itself.
grid = np.linspace(-0.5, 9.5, 400).reshape(-1, 1)
mean, std = model.predict(grid, return_std=True)
low, high = model.predict_interval(grid, coverage=0.9)
own = np.sqrt(std**2 - model.noise_**2)
print(f"the noise is 0.3; the fit says {model.noise_[0]:.3f}")

figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
axes.scatter(X[::40, 0], y[::40], s=4, color="0.8", label="one row in forty")
axes.fill_between(grid[:, 0], low, high, color="0.5", alpha=0.15, label="90% of new rows")
axes.fill_between(
    grid[:, 0], mean - 2 * own, mean + 2 * own, color="#0b6e99", alpha=0.3, label="the function, ± 2 std"
)
axes.plot(grid[:, 0], mean, color="#0b6e99", label=f"{len(model.dictionary_)} atoms")
axes.plot(grid[:, 0], np.sin(2 * grid[:, 0]), "k:", linewidth=1, label="truth")
axes.legend(frameon=False, ncols=4, loc="lower center", fontsize=8)
axes.set(ylim=(-3, 3), xlabel="x")
axes.spines[["top", "right"]].set_visible(False)
plt.show()
