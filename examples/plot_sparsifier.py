"""
A graph with a part of its edges
================================

Keep each edge with a probability in proportion to its leverage, and the graph's Laplacian stays within a
factor 1 ± ε in every direction: cuts, flows and eigenvectors are nearly the same. Uniform edges lose the few
that hold clusters together.
"""

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import scipy.sparse as sp

from squeak.graphs import sparsify, spectral_accuracy

# %%
# Six clusters of 100 nodes form a ring, with one edge from each to the next.
G = nx.planted_partition_graph(6, 100, 0.5, 0.0, seed=1)
G.add_edges_from((100 * c, 100 * (c + 1) % 600) for c in range(6))
A = sp.triu(nx.to_scipy_sparse_array(G, dtype=float)).tocoo()
n_edges = A.nnz
rng = np.random.default_rng(0)


def uniform(kept):
    """Return so many edges drawn at random, weights raised to make up for the others."""
    chosen = np.sort(rng.choice(n_edges, kept, replace=False))
    half = sp.coo_array((np.full(kept, n_edges / kept), (A.row[chosen], A.col[chosen])), A.shape)
    return (half + half.T).tocsr()


# %%
# Both ways keep the same number of edges, in two draws each.
full = (A + A.T).tocsr()
curves = {"leverage, one coin": [], "leverage, copies": [], "uniform": []}
for q in (3, 6, 12):
    for seed in range(2):
        coin = sparsify(full, oversampling=q, random_state=seed)
        copies = sparsify(full, oversampling=q, copies=q, random_state=seed)
        for name, H in zip(curves, (coin, copies, uniform(coin.nnz // 2)), strict=True):
            curves[name].append((H.nnz // 2, spectral_accuracy(full, H)))

figure, axes = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
for (name, points), colour in zip(curves.items(), ("#0b6e99", "#448361", "#d9730d"), strict=True):
    kept, eps = np.array(points).reshape(-1, 2, 2).mean(axis=1).T
    axes.plot(100 * kept / n_edges, eps, "o-", color=colour, label=name)
axes.set(xscale="log", yscale="log", xlabel="edges kept, %", title="accuracy ε of a sparsifier")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
axes.grid(visible=True, color="0.92")
plt.show()
