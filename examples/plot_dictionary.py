"""
Where the atoms lie
===================

Atoms drawn at random follow the crowd, and atoms chosen by leverage scores follow the shape. The data are a
dense crowd, a thin arc and a few strays: 20,000 rows, read once. Both dictionaries have the same size. Uniform
puts nearly all its atoms into the crowd; SQUEAK covers the arc and keeps the strays, because nothing else
explains them.
"""

import matplotlib.pyplot as plt
import numpy as np

from squeak import Squeak
from squeak.kernels import RBF
from squeak.leverage import estimate_accuracy
from squeak.samplers import Uniform

rng = np.random.default_rng(0)
angle = rng.uniform(0.15 * np.pi, 0.85 * np.pi, 1490)
arc = np.column_stack([5 * np.cos(angle), 5 * np.sin(angle) - 1]) + 0.05 * rng.standard_normal((1490, 2))
strays = rng.uniform([-5, -4], [5, -2], (10, 2))
X = rng.permutation(np.vstack([0.6 * rng.standard_normal((18_500, 2)), arc, strays]))

# %%
# One pass gives a dictionary whose size the data decide. Then as many rows are drawn at random.
kernel, ridge = RBF(1.0), 8.0
squeak = Squeak(kernel, ridge=ridge, oversampling=14, random_state=1).fit(X).dictionary_
uniform = Uniform(kernel, ridge=ridge, max_atoms=len(squeak), random_state=1).fit(X).dictionary_

# %%
# ε̂ is the measured accuracy: how far sums over the dictionary are from sums over all rows, in the worst
# direction. :func:`squeak.leverage.estimate_accuracy` brackets it by one more pass. Below 1 it is a
# guarantee; near 1 or above, some direction of the data is lost.
figure, panels = plt.subplots(1, 2, figsize=(9, 4), sharex=True, sharey=True, layout="constrained")
for axes, dictionary, name in zip(panels, (uniform, squeak), ("uniform", "SQUEAK"), strict=True):
    axes.scatter(*X.T, s=1, color="0.8", linewidth=0)
    axes.scatter(*dictionary.atoms.T, s=14, color="#d9730d" if name == "uniform" else "#0b6e99", linewidth=0)
    found = estimate_accuracy(dictionary, X)
    axes.set_title(f"{name}: {len(dictionary)} of {len(X):,} rows, ε̂ ≥ {found.lower:.2f}")
    axes.set_axis_off()
plt.show()
