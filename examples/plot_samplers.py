"""
Samplers side by side
=====================

:func:`squeak.samplers.compare` runs the samplers on the same rows and puts size, accuracy and time into one
table; try it on 2,000 of your own rows before choosing one. Here most rows lie in one crowd and a few in
small clusters, so it matters which rows are kept.
"""

import numpy as np

from squeak.kernels import RBF
from squeak.report import draw_comparison
from squeak.samplers import compare

rng = np.random.default_rng(0)
centres = 5 * rng.standard_normal((20, 3))
few = np.concatenate([centre + 0.3 * rng.standard_normal((3, 3)) for centre in centres])
X = rng.permutation(np.vstack([rng.standard_normal((440, 3)), few]))

# %%
# Every sampler is run at each oversampling; those that take a size get the one that SQUEAK came to.
table = compare(X, RBF(1.5), ridge=1.0, oversampling=[3, 6, 12], repeats=1, random_state=0)
print(table[["sampler", "atoms", "accuracy_high", "trace_error"]].round(4).to_string(index=False))

# %%
# Left: the accuracy of weighted sums over the dictionary. Right: the part of the kernel matrix's trace that
# its atoms do not span. Uniform rows lose both where the rows are unlike each other.
figure = draw_comparison(table, title="500 rows, a crowd and small clusters")
