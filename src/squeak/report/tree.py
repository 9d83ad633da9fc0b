"""One figure of a merge tree: its nodes' sizes and times."""

from __future__ import annotations

import os
from typing import Any

from squeak.report.figures import BLUE, GREY, finished, new_figure
from squeak.trees.tree import Tree


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
