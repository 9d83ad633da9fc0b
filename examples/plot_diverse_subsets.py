"""
Diverse subsets, drawn exactly
==============================

Uniform samples clump and leave gaps. A determinantal point process draws rows that resemble each other seldom
together, and every sample is exact: :class:`squeak.dpp.DPP` needs no n × n matrix for it.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import pdist

from squeak.dpp import DPP
from squeak.kernels import RBF

rng = np.random.default_rng(0)
X = rng.uniform(0, 1, (3000, 2))
k = 25

# %%
# Some work is done once. Then you can draw as many subsets of exactly k rows as you like.
dpp = DPP(RBF(0.15), expected_size=k, random_state=0).fit(X)
diverse = dpp.sample(n_samples=25, k=k)
uniform = [rng.choice(len(X), k, replace=False) for _ in range(25)]

# %%
figure, panels = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
for axes, samples, name, colour in zip(
    panels, (uniform, diverse), ("uniform", "k-DPP"), ("#d9730d", "#0b6e99"), strict=False
):
    axes.scatter(*X.T, s=1, color="0.88")
    axes.scatter(*X[samples[0]].T, s=26, color=colour)
    axes.set(title=f"{k} rows: {name}", xticks=[], yticks=[])
    axes.set_aspect("equal")
    nearest = [pdist(X[rows]).min() for rows in samples]
    panels[2].hist(nearest, bins=np.linspace(0, 0.15, 16), color=colour, alpha=0.7, label=name)
panels[2].set(title="distance of the closest two, 25 samples", xlabel="distance")
panels[2].legend(frameon=False)
panels[2].spines[["top", "right"]].set_visible(False)
plt.show()
