"""
Denoise by kernel principal components
======================================

A row's scores on a few kernel principal components keep its place along the shape of the data and lose the
noise across it. ``inverse_transform`` finds the row whose image is nearest: its pre-image.
"""

import matplotlib.pyplot as plt
import numpy as np

from squeak import KernelPCA
from squeak.kernels import RBF

rng = np.random.default_rng(0)
turn = np.sort(rng.uniform(0, 3 * np.pi, 1500))
clean = np.column_stack([turn * np.cos(turn), turn * np.sin(turn)]) / 4
noisy = clean + 0.15 * rng.standard_normal(clean.shape)

# %%
# We keep twelve components, on a dictionary of 150 atoms.
pca = KernelPCA(12, kernel=RBF(0.5), max_atoms=150, random_state=0).fit(noisy)
found = pca.inverse_transform(pca.transform(noisy))


def distance(rows):
    """Return the mean distance of rows from the curve."""
    return np.sqrt(((rows[:, None] - clean[None, ::3]) ** 2).sum(axis=2).min(axis=1)).mean()


figure, axes = plt.subplots(figsize=(5.4, 5), layout="constrained")
axes.scatter(*noisy.T, s=5, color="0.75", label=f"rows: {distance(noisy):.3f} from the curve")
axes.scatter(*found.T, s=5, color="#0b6e99", label=f"pre-images: {distance(found):.3f}")
axes.legend(frameon=False, markerscale=3)
axes.set_aspect("equal")
axes.spines[["top", "right"]].set_visible(False)
plt.show()
