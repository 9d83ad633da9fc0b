"""
Choose alpha from one pass
==========================

:class:`~squeak.KernelRidgeCV` has the exact leave-one-out error of every alpha from two passes over the rows.
If alpha is too small, the function follows the noise, and if it is too large, the function becomes flat.
``alpha="auto"`` in :class:`~squeak.KernelRidge` chooses alpha in the same pass that fits the model.
"""

import matplotlib.pyplot as plt
import numpy as np

from squeak import KernelRidge, KernelRidgeCV
from squeak.kernels import RBF

rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, (400, 1))
y = np.sin(3 * X[:, 0]) * np.exp(-0.2 * X[:, 0] ** 2) + 0.4 * rng.standard_normal(400)

# %%
# The left panel shows the errors of all alphas, and the right one what the best of them predicts.
path = KernelRidgeCV(RBF(0.3), alphas=np.geomspace(1e-4, 1e3, 29), max_atoms=100, random_state=0).fit(X, y)
auto = KernelRidge(RBF("auto"), alpha="auto", max_atoms=100, random_state=0).fit(X, y)
print(f"leave-one-out: alpha {path.alpha_:.3g}; automatic: alpha {auto.alpha_:.3g}, kernel {auto.kernel_}")

# %%
grid = np.linspace(-3, 3, 300).reshape(-1, 1)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
left.plot(path.alphas, path.errors_, color="#0b6e99")
left.axvline(path.alpha_, color="0.7", linestyle=":")
left.set(xscale="log", xlabel="alpha", ylabel="mean squared leave-one-out error")
right.scatter(X[:, 0], y, s=5, color="0.8")
for alpha, colour in ((1e-4, "#d9730d"), (path.alpha_, "#0b6e99"), (300.0, "0.4")):
    model = KernelRidge(RBF(0.3), alpha=alpha, max_atoms=100, random_state=0).fit(X, y)
    right.plot(grid[:, 0], model.predict(grid), color=colour, label=f"alpha {alpha:.3g}")
right.set_ylim(-2, 2)
right.legend(frameon=False)
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
plt.show()
