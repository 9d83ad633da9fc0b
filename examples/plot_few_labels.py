"""
Ten labels for 1,797 digits
===========================

A graph of neighbours carries few labels far: the harmonic solution changes as little as it can along edges.
The figure begins with one label for each digit, and compares with a nearest-neighbour classifier that has the
same labels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from squeak.graphs import HarmonicClassifier, knn_graph

X, digits = load_digits(return_X_y=True)
graph = knn_graph(X / 16.0, 10)

# %%
# −1 stands for a node whose label is to be found; ``transduction_`` has the labels of all nodes.
counts, runs = (1, 2, 5, 10, 20), 3
found = {"harmonic": [], "nearest label": []}
for count in counts:
    scores = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        known = np.concatenate([rng.choice(np.flatnonzero(digits == d), count, replace=False) for d in range(10)])
        y = np.full(len(X), -1)
        y[known] = digits[known]
        hidden = y == -1
        harmonic = HarmonicClassifier().fit(graph, y).transduction_
        nearest = KNeighborsClassifier(1).fit(X[known], digits[known]).predict(X)
        scores.append([np.mean(labels[hidden] == digits[hidden]) for labels in (harmonic, nearest)])
    for name, score in zip(found, np.mean(scores, axis=0), strict=True):
        found[name].append(score)

figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
for (name, scores), colour in zip(found.items(), ("#0b6e99", "#d9730d"), strict=True):
    axes.plot(10 * np.array(counts), scores, "o-", color=colour, label=name)
axes.set(xscale="log", xlabel="labels in all", ylabel="accuracy on the other digits")
axes.set_xticks([10 * count for count in counts], [str(10 * count) for count in counts])
axes.minorticks_off()
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
