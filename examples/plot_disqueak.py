"""
Dictionaries merged up a tree
=============================

DISQUEAK learns a dictionary of every part where it lies, and merges them two by two. Only atoms travel. Each
dot is a dictionary; its number is how many atoms it has. Towards the root the rows behind a dictionary double
from level to level, its size does not.
"""

import numpy as np

from squeak import Disqueak, Squeak
from squeak.kernels import RBF
from squeak.report import draw_tree

X = np.random.default_rng(0).standard_normal((40_000, 3))
parts = Disqueak(RBF(2.0), ridge=4.0, n_leaves=16, random_state=0).fit(X)
alone = Squeak(RBF(2.0), ridge=4.0, random_state=0).fit(X)

# %%
# The root stands for all rows, as one pass over all of them would. With a Dask client active the same lines
# run on its cluster and give the same bits.
print("merged: ", parts.dictionary_)
print("one pass:", alone.dictionary_)

# %%
figure = draw_tree(parts.tree_, parts.nodes_, title="40,000 rows in 16 parts")
