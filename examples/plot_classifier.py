"""
A decision boundary on sixty atoms
==================================

:class:`~squeak.KernelClassifier` learns probabilities with the logistic loss, on a dictionary. The data are two
moons of 20,000 rows, and sixty atoms are enough for the boundary. The atoms do not look at labels: they cover
the rows, and the same dictionary would serve any other target.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from squeak import KernelClassifier
from squeak.kernels import RBF

X, y = make_moons(20_000, noise=0.25, random_state=0)
model = KernelClassifier(RBF(0.6), alpha=1.0, loss="logistic", max_atoms=60, random_state=0).fit(
    X[:16_000], y[:16_000]
)
print(f"accuracy on 4,000 new rows: {model.score(X[16_000:], y[16_000:]):.3f}")

# %%
# The figure shows the probability of the second class over the plane.
across, up = np.meshgrid(np.linspace(-2, 3, 150), np.linspace(-1.5, 2, 100))
grid = np.column_stack([across.ravel(), up.ravel()])
chance = model.predict_proba(grid)[:, 1].reshape(across.shape)

figure, axes = plt.subplots(figsize=(7, 4.4), layout="constrained")
shown = axes.contourf(across, up, chance, levels=np.linspace(0, 1, 11), cmap="RdBu", alpha=0.5)
axes.contour(across, up, chance, levels=[0.5], colors="k", linewidths=1)
axes.scatter(*X[:800].T, c=y[:800], cmap="RdBu", s=5, edgecolor="none")
axes.scatter(
    *model.dictionary_.atoms.T, s=28, facecolor="none", edgecolor="k", label=f"{len(model.dictionary_)} atoms"
)
axes.legend(loc="upper right")
figure.colorbar(shown, ax=axes, label="chance of the second class")
plt.show()
