"""Draw docs/images/graphs.png: accuracy of sparsifiers against their size, and leverage by eight projections."""

import networkx as nx
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from squeak.graphs import edge_leverage, sparsify, spectral_accuracy
from squeak.graphs.forms import read_graph

graph = read_graph(nx.planted_partition_graph(6, 100, 0.5, 0.0004, seed=1)).edges  # six clusters, few edges between
rng = np.random.default_rng(0)


def uniform(kept: int) -> object:
    """Return so many edges drawn at random, weights raised to make up for the others."""
    chosen = np.sort(rng.choice(len(graph), kept, replace=False))
    return graph.take(chosen).with_weights(np.full(kept, len(graph) / kept))


def plain_projections(count: int) -> np.ndarray:
    """Return the leverage by Johnson-Lindenstrauss alone."""
    signs = rng.choice([-1.0, 1.0], size=(len(graph), count))
    y = np.zeros((graph.n_nodes, count))
    np.add.at(y, graph.u, signs)
    np.subtract.at(y, graph.v, signs)
    x = np.linalg.pinv(graph.laplacian().toarray(), hermitian=True) @ y
    return ((x[graph.u] - x[graph.v]) ** 2).mean(axis=1)


curves: dict[str, list[tuple[int, float]]] = {"leverage, one coin": [], "leverage, copies": [], "uniform": []}
for q in (3, 6, 12, 18):
    for seed in range(3):
        coin = sparsify(graph, oversampling=q, random_state=seed)
        copies = sparsify(graph, oversampling=q, copies=q, random_state=seed)
        for name, H in zip(curves, (coin, copies, uniform(len(coin))), strict=True):
            curves[name].append((len(H), spectral_accuracy(graph, H)))

figure = Figure(figsize=(10, 4.2), layout="constrained")
FigureCanvasAgg(figure)
left, right = figure.subplots(1, 2)
for (name, points), colour in zip(curves.items(), ("#0b6e99", "#448361", "#d9730d"), strict=True):
    kept, eps = np.array(points).reshape(-1, 3, 2).mean(axis=1).T
    left.plot(100 * kept / len(graph), eps, "o-", color=colour, label=name)
    print(f"{name}: " + "; ".join(f"{k:.0f} edges, ε {e:.2f}" for k, e in zip(kept, eps, strict=True)))
left.set(xscale="log", yscale="log", xlabel="edges kept, %", title="accuracy ε of a sparsifier")
left.legend(frameon=False)
exact = edge_leverage(graph, "exact")
ours = edge_leverage(graph, "projections", n_projections=8, random_state=0)
for values, name, colour in ((plain_projections(8), "plain", "#c9d1d6"), (ours, "squeak", "#0b6e99")):
    right.plot(exact, values, ".", markersize=2, color=colour, label=name)
    print(f"{name}: median error {100 * np.median(np.abs(values / exact - 1)):.1f}%")
right.set(xscale="log", yscale="log", xlabel="leverage, exact", title="leverage by 8 projections")
right.legend(frameon=False, markerscale=5)
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color="0.92")
