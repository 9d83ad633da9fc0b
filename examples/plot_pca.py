"""
How few atoms do for principal components
=========================================

The figure shows the error of 40 kernel principal components on a dictionary, divided by the best possible
error, against the number of atoms. Most of the 2,000 rows are in one cluster, and a dozen small clusters are
around it. The figure is the mean of five runs.
``reconstruction_error_`` is measured in the same pass that fits.
"""

import matplotlib.pyplot as plt
import numpy as np

from squeak import KernelPCA
from squeak.kernels import RBF
from squeak.samplers import BlessR, Uniform

rng = np.random.default_rng(0)
centres = 6 * rng.standard_normal((12, 3))
few = np.concatenate([c + 0.3 * rng.standard_normal((10, 3)) for c in centres])
X, kernel = rng.permutation(np.concatenate([rng.standard_normal((1880, 3)), few])), RBF(1.0)

# %%
# The best possible error needs all eigenvalues of K.
best = np.linalg.eigvalsh(kernel(X))[:-40].sum()


def over_best(sampler, atoms):
    """Return the mean error of five runs over the best possible."""
    models = [
        KernelPCA(40, kernel=kernel, centre=False, sampler=sampler(max_atoms=atoms, random_state=s))
        for s in range(5)
    ]
    return np.mean([model.fit(X).reconstruction_error_ for model in models]) / best


sizes = (50, 100, 200, 400)
figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
for sampler, colour, label in ((Uniform, "#d9730d", "uniform"), (BlessR, "#0b6e99", "leverage scores (BLESS-R)")):
    errors = np.array([over_best(sampler, m) for m in sizes])
    print(label, dict(zip(sizes, np.round(errors, 3).tolist(), strict=True)))
    axes.plot(sizes, errors - 1, marker="o", color=colour, label=label)
axes.set(xscale="log", yscale="log", xlabel="atoms", ylabel="error of 40 components over the best, less 1")
axes.set_xticks(sizes, [str(m) for m in sizes])
axes.minorticks_off()
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
