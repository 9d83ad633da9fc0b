"""
Which ridge, how many atoms?
============================

The ridge says which directions count: those with an eigenvalue of the kernel matrix well above it. The
dictionary then has about ``oversampling`` times the effective dimension of atoms. One dictionary at a small
ridge shows the whole curve, for every larger ridge, without the kernel matrix.
"""

import matplotlib.pyplot as plt
import numpy as np

from squeak import Squeak
from squeak.kernels import RBF
from squeak.leverage import effective_dimension

rng = np.random.default_rng(0)
X = np.vstack([rng.standard_normal((950, 3)), 4 + 0.3 * rng.standard_normal((50, 3))])
kernel = RBF(1.5)

# %%
# The eigenvalues of the weighted atoms are those of the kernel matrix, within the dictionary's accuracy; so Σ
# λ/(λ + ridge) over them is the effective dimension at any ridge above the dictionary's own.
d = Squeak(kernel, ridge=0.3, random_state=0).fit(rng.permutation(X)).dictionary_
eigenvalues = d.eigenvalues()
ridges = np.geomspace(0.3, 300, 25)
estimated = [np.sum(eigenvalues / (eigenvalues + ridge)) for ridge in ridges]
exact = [effective_dimension(X, kernel, ridge) for ridge in ridges[::6]]

figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
axes.plot(ridges, estimated, color="#0b6e99", label=f"from a dictionary of {len(d)} atoms")
axes.plot(ridges[::6], exact, "o", color="#d9730d", label="exact, from all of K")
axes.set(xscale="log", yscale="log", xlabel="ridge", ylabel="effective dimension")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
