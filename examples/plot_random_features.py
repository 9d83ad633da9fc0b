"""
Random features, or those of a dictionary?
==========================================

Random features do not look at the data; a dictionary does. The figure shows the root mean square error of the
kernel on 1,000 rows against the number of features (mean of three runs). Where the kernel's eigenvalues fall
fast, a hundred atoms do what thousands of random features would.
"""

import matplotlib.pyplot as plt
import numpy as np

from squeak import Nystroem, RandomFeatures
from squeak.kernels import RBF
from squeak.samplers import BlessR

rng = np.random.default_rng(0)
X, kernel, sizes = rng.standard_normal((1000, 4)), RBF(2.0), (25, 50, 100, 200, 400)
K = kernel(X)


def random(m, seed):
    """Return m random features."""
    return RandomFeatures(kernel, n_features=m, random_state=seed).fit_transform(X)


def chosen(m, seed):
    """Return the features of a dictionary of m atoms."""
    return Nystroem(kernel, sampler=BlessR(max_atoms=m, random_state=seed)).fit_transform(X)


# %%
# Both are transformers: put either before a linear model.
figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
for make, colour, label in ((random, "#d9730d", "random"), (chosen, "#0b6e99", "of a dictionary")):
    features = [[make(m, seed) for seed in range(3)] for m in sizes]
    errors = [np.mean([np.sqrt(np.mean((Z @ Z.T - K) ** 2)) for Z in runs]) for runs in features]
    print(label, dict(zip(sizes, np.round(errors, 5).tolist(), strict=True)))
    axes.plot(sizes, errors, marker="o", color=colour, label=label)
axes.set(xscale="log", yscale="log", xlabel="features", ylabel="error of the kernel (root mean square)")
axes.set_xticks(sizes, [str(m) for m in sizes])
axes.legend(frameon=False)
axes.minorticks_off()
axes.spines[["top", "right"]].set_visible(False)
plt.show()
