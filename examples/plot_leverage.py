"""
What a leverage score says
==========================

The ridge leverage score of a row says how much it adds to what the others already tell: near 1 for a row that
stands alone, near 0 in a crowd. The scores sum up to the effective dimension, the number of directions in the
data that stand out from the ridge.
"""

import matplotlib.pyplot as plt
import numpy as np

from squeak.kernels import RBF
from squeak.leverage import exact_leverage_scores

# %%
# The data are a crowd of 300 rows, 40 rows along a line, and three strays.
rng = np.random.default_rng(0)
crowd = 0.4 * rng.standard_normal((300, 2))
line = np.column_stack([np.linspace(1.5, 5.0, 40), 0.05 * rng.standard_normal(40)])
strays = np.array([[-2.5, 1.5], [0.5, 2.5], [3.5, -2.0]])
X = np.vstack([crowd, line, strays])

# %%
# From a larger ridge fewer directions stand out, and even the strays count for less.
ridges = (0.1, 1.0, 10.0)
scores = [exact_leverage_scores(X, RBF(0.7), ridge) for ridge in ridges]

figure, panels = plt.subplots(1, 3, figsize=(11, 2.8), sharex=True, sharey=True, layout="constrained")
for axes, ridge, score in zip(panels, ridges, scores, strict=True):
    dots = axes.scatter(*X.T, c=score, s=18, cmap="viridis", vmin=0, vmax=1)
    axes.set_title(f"ridge {ridge:g}: effective dimension {score.sum():.1f}")
    axes.set_aspect("equal")
figure.colorbar(dots, ax=panels, label="leverage score")
plt.show()
