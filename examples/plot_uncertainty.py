"""
How sure is the prediction?
===========================

Kernel ridge regression is the mean of a Gaussian process; ``predict(X, return_std=True)`` gives its standard
deviation too, from the dictionary alone. It is small where rows were seen and grows where none were.
"""

import matplotlib.pyplot as plt
import numpy as np

from squeak import KernelRidge
from squeak.kernels import RBF

# %%
# 20,000 rows, none of them between 4 and 6.
rng = np.random.default_rng(0)
X = np.concatenate([rng.uniform(0, 4, 15_000), rng.uniform(6, 9, 5_000)]).reshape(-1, 1)
y = np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(len(X))
model = KernelRidge(RBF(0.5), alpha=0.09, max_atoms=100, random_state=0).fit(X, y)

# %%
# alpha is the noise's variance here, 0.3², so the band is that of the function itself, without the noise.
grid = np.linspace(-0.5, 9.5, 400).reshape(-1, 1)
mean, std = model.predict(grid, return_std=True)

figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
axes.scatter(X[::40, 0], y[::40], s=4, color="0.8", label="one row in forty")
axes.fill_between(grid[:, 0], mean - 2 * std, mean + 2 * std, color="#0b6e99", alpha=0.2, label="± 2 std")
axes.plot(grid[:, 0], mean, color="#0b6e99", label=f"{len(model.dictionary_)} atoms")
axes.plot(grid[:, 0], np.sin(2 * grid[:, 0]), "k:", linewidth=1, label="truth")
axes.legend(frameon=False, ncols=4, loc="lower center", fontsize=8)
axes.set(ylim=(-3, 3), xlabel="x")
axes.spines[["top", "right"]].set_visible(False)
plt.show()
