"""
What oversampling buys
======================

The measured accuracy ε̂ falls like one over the square root of the dictionary's size. The figure shows the
mean of three runs on 3,000 rows, in the papers' form (as many copies as the oversampling) and with one coin per
row. One coin is the default: at equal oversampling it keeps a few more atoms, and at equal size it is more
accurate.
"""

import matplotlib.pyplot as plt
import numpy as np

from squeak import Squeak
from squeak.kernels import RBF
from squeak.leverage import estimate_accuracy

X = np.random.default_rng(0).standard_normal((3000, 2))


def measure(oversampling, copies):
    """Return the mean size and the mean ε̂ of three dictionaries."""
    sampler = Squeak(RBF(1.0), ridge=6.0, oversampling=oversampling, copies=copies)
    found = [sampler.set_params(random_state=seed).fit(X).dictionary_ for seed in range(3)]
    return np.mean([len(d) for d in found]), np.mean([estimate_accuracy(d, X).lower for d in found])


# %%
# One pass over the rows brackets ε̂; the lower bound shown here is usually within a few percent of it.
# :func:`squeak.leverage.accuracy` is exact, and builds the whole kernel matrix: for a few thousand rows.
values = (5, 10, 20)
curves = {
    "papers' copies": np.array([measure(q, q) for q in values]),
    "one coin": np.array([measure(q, 1) for q in values]),
}

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for (label, curve), colour in zip(curves.items(), ("#d9730d", "#0b6e99"), strict=True):
    axes.plot(*curve.T, marker="o", color=colour, label=label)
guide = curves["one coin"][[0, -1], 0]
axes.plot(guide, 0.9 * np.sqrt(guide[0] / guide), color="0.7", linestyle=":", label="∝ 1/√atoms")
axes.set(xscale="log", yscale="log", xlabel="atoms", ylabel="measured accuracy ε̂")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
