"""Figures by matplotlib: samplers compared, a graph and its sparsifier, online learners, a merge tree."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from squeak.core.outputs import replacing
from squeak.graphs.forms import read_both
from squeak.trees.tree import Tree

COLOURS = (
    *("#0b6e99", "#d9730d", "#448361", "#9f6b53", "#9065b0", "#c14c8a"),
    *("#d44c47", "#cb912f", "#787774", "#337ea9", "#1f1f1f"),
)
BLUE, ORANGE, GREY = *COLOURS[:2], "#9aa5ad"


def new_figure(width: float, height: float, parts: int = 2, grid: bool = False) -> tuple[Any, list[Any]]:
    """Return an empty figure and its parts, side by side."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    found = list(figure.subplots(1, parts, squeeze=False)[0])
    for axes in found:
        axes.spines[["top", "right"]].set_visible(False)
        if grid:
            axes.grid(visible=True, which="major", color="0.92")
    return figure, found


def finished(figure: Any, path: str | os.PathLike[str] | None, title: str = "") -> Any:
    """Return a figure with its title, written to a file where one is named."""
    if title:
        figure.suptitle(title)
    if path is not None:
        save_figure(figure, path)
    return figure


def save_figure(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure of matplotlib in the format of the path's ending."""
    with replacing(path) as stream:
        figure.savefig(stream, dpi=150, format=Path(path).suffix.removeprefix(".") or "png")


MARKERS = "os^vDPX<>*h"


def draw_comparison(table: Any, path: str | os.PathLike[str] | None = None, title: str = "") -> Any:
    """Draw the table of :func:`squeak.samplers.compare`: ε̂ and trace error against atoms, a curve a sampler.

    Parameters
    ----------
    table : DataFrame or list of dict
    path : path, optional
        Where to save the figure; its ending decides the format.
    title : str

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.report import draw_comparison
    >>> from squeak.samplers import Squeak, Uniform, compare
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> table = compare(X, RBF(1.0), 1.0, samplers=[Squeak(), Uniform()], repeats=1, random_state=0)
    >>> len(draw_comparison(table).axes)
    2
    """
    records = table.to_dict("records") if hasattr(table, "to_dict") else list(table)
    figure, parts = new_figure(10, 4.5, grid=True)
    measures = (("accuracy_high", "ε̂ = ‖P − P̃‖ (guarantees hold below 1)"), ("trace_error", "Tr(K − K̃) / Tr K"))
    for axes, (measure, label) in zip(parts, measures, strict=True):
        for number, name in enumerate(dict.fromkeys(record["sampler"] for record in records)):
            points = sorted((r["atoms"], r[measure]) for r in records if r["sampler"] == name)
            shown = [(atoms, value) for atoms, value in points if np.isfinite(value) and value > 1e-15]
            if shown:
                style = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
                axes.plot(*zip(*shown, strict=True), label=name, markersize=5, linewidth=1.2, **style)
        axes.set(xscale="log", yscale="log", xlabel="atoms", title=label)
    parts[1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return finished(figure, path, title)


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
    one, other = read_both(graph, sparsifier)
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


def draw_progress(runs: Any, path: str | os.PathLike[str] | None = None, title: str = "") -> Any:
    """Draw what :func:`squeak.online.progressive_validation` found: loss of the last rows, and atoms, against rows.

    Parameters
    ----------
    runs : Progress, or dict of name to Progress
    path : path, optional
        Where to save the figure; its ending decides the format.
    title : str

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import ConKonsRegressor, progressive_validation
    >>> from squeak.report import draw_progress
    >>> X = np.random.default_rng(0).standard_normal((500, 2))
    >>> progress = progressive_validation(ConKonsRegressor(random_state=0), X, np.sin(X[:, 0]))
    >>> len(draw_progress(progress).axes)
    2
    """
    named = runs if isinstance(runs, dict) else {"": runs}
    figure, (left, right) = new_figure(10, 4, grid=True)
    for number, (name, run) in enumerate(named.items()):
        style = {"color": COLOURS[number % len(COLOURS)], "linewidth": 1.3, "label": f"{name} {run.mean_loss:.4g}"}
        window = max(1, run.n // 20)
        ends = run.rows[run.rows >= window]
        left.plot(ends, run.recent(window, ends), **style)
        right.plot(run.rows, run.atoms, **style)
    words = "mean loss of the last twentieth, each row predicted before it is learned"
    left.set(xlabel="rows", yscale="log", title=words)
    left.title.set_fontsize(10)
    right.set(xlabel="rows", title="atoms")
    left.legend(frameon=False, fontsize=8, title="mean loss in all", title_fontsize=8)
    return finished(figure, path, title)


def draw_tree(tree: Tree, nodes: Any = None, path: str | os.PathLike[str] | None = None, title: str = "") -> Any:
    """Draw a merge tree, leaves at the bottom; with the facts of a run, dots grow with atoms and darken with time.

    A node stands above the middle of its children, at the height of the merges below it.

    Parameters
    ----------
    tree : Tree
    nodes : list of NodeFacts, optional
        ``nodes_`` of a fitted :class:`Disqueak`.
    path : path, optional
        Where to save the figure; its ending decides the format.
    title : str

    Returns
    -------
    matplotlib.figure.Figure

    References
    ----------
    Thesis, figure 3.2 (merge trees).

    Examples
    --------
    >>> from squeak.report import draw_tree
    >>> from squeak.samplers import Tree
    >>> len(draw_tree(Tree.balanced(4)).axes[0].lines)
    6
    """
    merges = [tree.children(node) for node in range(tree.n_leaves, tree.root + 1)]
    across, level = places(tree.n_leaves, merges)
    figure, (axes,) = new_figure(min(14.0, 3.0 + 0.5 * tree.n_leaves), 1.8 + 0.6 * tree.height, parts=1)
    for node, children in enumerate(merges, tree.n_leaves):
        for child in children:
            ends = [across[child], across[node]], [level[child], level[node]]
            axes.plot(*ends, color=GREY, linewidth=1, zorder=1)
    facts = {fact.node: fact for fact in nodes or ()}
    known = sorted(facts)
    if known:
        most = max(facts[node].atoms for node in known)
        dots = axes.scatter(
            [across[node] for node in known],
            [level[node] for node in known],
            s=[30 + 170 * facts[node].atoms / most for node in known],
            c=[facts[node].seconds for node in known],
            cmap="YlGnBu",
            edgecolors="#33424d",
            zorder=2,
        )
        figure.colorbar(dots, ax=axes, label="seconds")
        if len(known) <= 40:
            how = {"xytext": (0, 9), "textcoords": "offset points", "ha": "center", "fontsize": 8}
            for node in known:
                axes.annotate(f"{facts[node].atoms:,}", (across[node], level[node]), **how)
    else:
        axes.scatter(across, level, s=30, color=BLUE, zorder=2)
    axes.set_yticks(range(tree.height + 1))
    axes.set_ylabel("merges below")
    axes.set_xlabel("leaves" + (" (a dot's size and number: atoms)" if known else ""))
    axes.set_xticks([])
    axes.margins(y=0.15)
    axes.spines["bottom"].set_visible(False)
    if title:
        axes.set_title(title)
    return finished(figure, path)


def places(n_leaves: int, merges: Any) -> tuple[list[float], list[int]]:
    """Return where each node of a tree stands: above the middle of its children, at the height of the merges below.

    Leaves stand from left to right in such an order that no two lines cross.
    """
    level, below = [0] * n_leaves, [[leaf] for leaf in range(n_leaves)]
    for children in merges:
        level.append(1 + max(level[child] for child in children))
        below.append([leaf for child in children for leaf in below[child]])
    rank = {leaf: place for place, leaf in enumerate(below[-1])}
    across = [float(rank.get(leaf, leaf)) for leaf in range(n_leaves)]
    for children in merges:
        across.append(sum(across[child] for child in children) / len(children))
    return across, level
