"""
Dictionaries merged up a tree
=============================

DISQUEAK learns a dictionary of every part of the rows where the part is stored, and merges the dictionaries two
by two. Only atoms are sent from one place to another. Each dot is a dictionary, and its number says how many atoms
it has. From one level to the next the number of rows behind a dictionary doubles, and its size hardly changes.
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
