"""One figure of a graph and its sparsifier: degrees before and after, and the weights that were kept."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from squeak.graphs.forms import read_graph
from squeak.report.figures import BLUE, GREY, ORANGE, finished, new_figure


def draw_sparsifier(
    graph: Any, sparsifier: Any, path: str | os.PathLike[str] | None = None, title: str = ""
) -> Any:
    """Draw the degrees of every node in both graphs, and the weights of their edges.

    On the left a dot a node: the sum of its weights in the sparsifier against that in the graph; they scatter
    about the diagonal by ε at most. On the right histograms of the edges' weights.

    Parameters
    ----------
    graph, sparsifier : see :func:`squeak.graphs.sparsify`
    path : path, optional
        Where to save the figure; its ending decides the format.
    title : str

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import networkx as nx
    >>> from squeak.graphs import sparsify
    >>> from squeak.report import draw_sparsifier
    >>> G = nx.gnp_random_graph(100, 0.5, seed=0)
    >>> len(draw_sparsifier(G, sparsify(G, oversampling=8, random_state=0)).axes)
    2
    """
    one, other = read_graph(graph).edges, read_graph(sparsifier).edges
    n = max(one.n_nodes, other.n_nodes)
    before, after = one.on_nodes(n).degrees(), other.on_nodes(n).degrees()
    figure, (left, right) = new_figure(10, 4.2)
    there = (before > 0) & (after > 0)
    left.plot(before[there], after[there], ".", markersize=3, alpha=0.4, color=BLUE)
    ends = [before[there].min(initial=1.0), before[there].max(initial=1.0)]
    left.plot(ends, ends, color=ORANGE, linewidth=1)
    left.set(xscale="log", yscale="log", xlabel="degree in the graph", ylabel="degree in the sparsifier")
    left.set_title(f"{len(one):,} edges, {len(other):,} kept")
    weights = np.concatenate([one.weights, other.weights])
    low, high = (weights.min(), weights.max()) if len(weights) else (1.0, 1.0)
    bins = np.geomspace(low * 0.9, high * 1.1, 40)
    for edges, name, colour in ((one, "graph", GREY), (other, "sparsifier", BLUE)):
        right.hist(edges.weights, bins=bins, alpha=0.6, color=colour, label=name)
    right.set(xscale="log", yscale="log", xlabel="weight of an edge", ylabel="edges")
    right.legend(frameon=False)
    return finished(figure, path, title)
