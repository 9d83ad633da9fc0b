"""
Clusters that no straight line parts
====================================

k-means draws straight borders between its centres. With a Gaussian kernel the borders are straight in feature
space and bend around the rows. The example has 20,000 rows and 60 atoms, and takes a few passes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

from squeak import KernelKMeans
from squeak.kernels import RBF

rng = np.random.default_rng(0)
angle, radius = rng.uniform(0, 2 * np.pi, 20_000), np.repeat([0.4, 3.0], 10_000)
X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.15 * rng.standard_normal((20_000, 2))

# %%
plain = KMeans(2, n_init=3, random_state=0).fit(X).labels_
kernel = KernelKMeans(2, kernel=RBF(1.0), max_atoms=60, random_state=0).fit(X).labels_

figure, panels = plt.subplots(1, 2, figsize=(8, 4), sharex=True, sharey=True, layout="constrained")
shown = rng.permutation(20_000)[:2000]
for axes, labels, name in zip(panels, (plain, kernel), ("k-means", "kernel k-means"), strict=True):
    axes.scatter(*X[shown].T, s=5, c=np.where(labels[shown] == labels[0], "#0b6e99", "#d9730d"))
    axes.set_title(name)
    axes.set_aspect("equal")
    axes.set_axis_off()
plt.show()
