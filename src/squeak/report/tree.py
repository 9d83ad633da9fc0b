"""One figure of a merge tree: its nodes' sizes and times."""

from __future__ import annotations

import os
from typing import Any

from squeak.report.figures import save_figure
from squeak.samplers.tree import Tree


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
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    order = iter(range(tree.n_leaves))
    across = {leaf: float(next(order)) for leaf in _leaves_in_order(tree)}
    level = tree.fold(lambda _: 0, lambda below: 1 + max(below))
    figure = Figure(figsize=(min(14.0, 3.0 + 0.5 * tree.n_leaves), 1.8 + 0.6 * tree.height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for node in range(tree.n_leaves, tree.root + 1):
        children = tree.children(node)
        across[node] = sum(across[child] for child in children) / len(children)
        for child in children:
            axes.plot(
                [across[child], across[node]], [level[child], level[node]], color="#9aa5ad", linewidth=1, zorder=1
            )
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
            for node in known:
                text = f"{facts[node].atoms:,}"
                axes.annotate(
                    text,
                    (across[node], level[node]),
                    xytext=(0, 9),
                    textcoords="offset points",
                    ha="center",
                    fontsize=8,
                )
    else:
        axes.scatter(list(across.values()), [level[node] for node in across], s=30, color="#0b6e99", zorder=2)
    axes.set_yticks(range(tree.height + 1))
    axes.set_ylabel("merges below")
    axes.set_xlabel("leaves" + (" (a dot's size and number: atoms)" if known else ""))
    axes.set_xticks([])
    axes.margins(y=0.15)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    if title:
        axes.set_title(title)
    if path is not None:
        save_figure(figure, path)
    return figure


def _leaves_in_order(tree: Tree) -> list[int]:
    """Return the leaves from left to right, so that no two lines cross."""
    below: list[list[int]] = tree.fold(lambda leaf: [leaf], lambda parts: [leaf for part in parts for leaf in part])
    return below[-1]
