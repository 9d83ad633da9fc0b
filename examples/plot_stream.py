"""
A stream without end, in bounded memory
=======================================

With ``max_atoms`` the dictionary never outgrows its limit, however long the stream. What gives is the ridge:
it is raised when too many atoms want to stay, so only directions that stand out from a larger ridge are kept.
Here a cluster of rows appears every 4,000 rows, and the dictionary must make room for it.
"""

import matplotlib.pyplot as plt
import numpy as np

from squeak import Squeak
from squeak.kernels import RBF

rng = np.random.default_rng(0)
centres = 6 * rng.standard_normal((8, 3))
bounded = Squeak(RBF(1.5), ridge=5.0, max_atoms=300, random_state=0)
free = Squeak(RBF(1.5), ridge=5.0, random_state=0)

# %%
# ``partial_fit`` takes blocks of any size; the dictionary is there after every one of them.
seen, sizes, ridges = [], [], []
for known in range(1, len(centres) + 1):
    for _ in range(4):
        block = centres[rng.integers(0, known, 1000)] + 0.7 * rng.standard_normal((1000, 3))
        bounded.partial_fit(block)
        free.partial_fit(block)
        seen.append(bounded.n_seen_)
        sizes.append((len(bounded.dictionary_), len(free.dictionary_)))
        ridges.append(bounded.dictionary_.ridge)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
left.plot(seen, [size[1] for size in sizes], color="#d9730d", label="no limit: the ridge stays 5")
left.plot(seen, [size[0] for size in sizes], color="#0b6e99", label="max_atoms=300")
left.axhline(300, color="0.7", linestyle=":")
left.set(xlabel="rows read", ylabel="atoms")
left.legend(frameon=False)
right.plot(seen, ridges, color="#0b6e99")
right.set(xlabel="rows read", ylabel="ridge of the limited dictionary", yscale="log")
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
plt.show()
