"""Bridges and spanning forests, in linear time (but for sorting) and without a loop over nodes."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from squeak.core.seeds import generator_at
from squeak.core.types import Array, IntArray
from squeak.graphs.edges import Edges

FIRST_ROUND = 4
"""Edges a component that are looked at first, those of the best scores."""


def rooted_forest(edges: Edges) -> IntArray:
    """Return the parent of every node in a spanning forest, −1 at roots."""
    n = edges.n_nodes
    if edges.parents_from_first is not None:
        return edges.parents_from_first
    A, (_, labels) = edges.adjacency(), edges.components()
    roots = np.unique(labels, return_index=True)[1]
    above = sp.csr_matrix((np.ones(len(roots)), (np.zeros(len(roots), dtype=int), roots)), (1, n))
    with_root = sp.bmat([[A, above.T], [above, None]], format="csr")  # one more node, joined to a node of each
    _, parents = sp.csgraph.breadth_first_order(with_root, n, directed=True, return_predecessors=True)
    parents = parents[:n].astype(np.int64)
    parents[parents == n] = -1
    return np.asarray(parents)


def bridges(edges: Edges) -> NDArray[np.bool_]:
    """Tell for each edge whether its removal would cut a component in two; pairs must be all different.

    Every edge outside a spanning forest adds a random 64-bit number at one end and takes it off at the other.
    The sum over the nodes below a forest edge is 0 if no other edge leaves them; if one does, it is 0 with
    probability 2⁻⁶⁴. So no bridge is ever missed.
    """
    found = np.zeros(len(edges), dtype=bool)
    if len(edges) == 0:
        return found
    parents = rooted_forest(edges)
    down = parents[edges.v] == edges.u
    tree = down | (parents[edges.u] == edges.v)
    marks = generator_at(0).integers(2**64, size=int((~tree).sum()), dtype=np.uint64)
    sums = np.zeros(edges.n_nodes, dtype=np.uint64)
    np.add.at(sums, edges.u[~tree], marks)
    np.subtract.at(sums, edges.v[~tree], marks)
    below = _sums_below(sums, parents)
    child = np.where(down, edges.v, edges.u)
    found[tree] = below[child[tree]] == 0
    return found


def certain_edges(edges: Edges, ridge: float) -> NDArray[np.bool_]:
    """Tell which edges have the leverage 1: bridges, where there is no ridge."""
    return bridges(edges) if ridge == 0 else np.zeros(len(edges), dtype=bool)


def _sums_below(values: NDArray[np.uint64], parents: IntArray) -> NDArray[np.uint64]:
    """Return for each node the sum over its subtree; the ancestors' distance doubles each round."""
    total, above = values.copy(), parents.copy()
    while True:
        have = np.flatnonzero(above >= 0)
        if len(have) == 0:
            return total
        farther = total.copy()
        np.add.at(farther, above[have], total[have])
        total = farther
        up = above[above[have]]
        above[have] = up


def best_forest(edges: Edges, scores: Array) -> NDArray[np.bool_]:
    """Mark the edges of a spanning forest with the largest total score; pairs may come more than once."""
    chosen = np.zeros(len(edges), dtype=bool)
    if len(edges) == 0:
        return chosen
    order = np.argsort(-scores, kind="stable")
    key = (edges.u * edges.n_nodes + edges.v)[order]
    best = np.sort(np.unique(key, return_index=True)[1])  # of equal pairs the one with the best score
    ranked = order[best]
    shape = (edges.n_nodes, edges.n_nodes)
    ranks = np.arange(1.0, len(ranked) + 1)
    tree = sp.csgraph.minimum_spanning_tree(sp.csr_matrix((ranks, (edges.u[ranked], edges.v[ranked])), shape))
    chosen[ranked[tree.data.astype(np.int64) - 1]] = True
    return chosen


def forest_beyond(edges: Edges, sure: NDArray[np.bool_], scores: Array) -> NDArray[np.bool_]:
    """Mark edges of the best scores that, with those that are sure to stay, hold every component together.

    The sure ones are contracted first. Of what is left the best few edges a node are taken before the others: their
    forest is part of that of all, and contracts nearly everything.
    """
    chosen = np.zeros(len(edges), dtype=bool)
    fixed = sure
    while True:
        _, labels = edges.take(fixed).components()
        a, b = labels[edges.u], labels[edges.v]
        open_ones = np.flatnonzero(a != b)
        left = len(open_ones)
        if left == 0:
            return chosen
        few = FIRST_ROUND * (int(labels.max()) + 1)
        if left > 2 * few:
            values = scores[open_ones]
            open_ones = open_ones[values >= np.partition(values, left - few)[left - few]]
        a, b = a[open_ones], b[open_ones]
        rest = Edges(edges.n_nodes, np.minimum(a, b), np.maximum(a, b), edges.weights[open_ones])
        chosen[open_ones[best_forest(rest, scores[open_ones])]] = True
        if len(open_ones) == left:
            return chosen
        fixed = sure | chosen


def spanned_alike(one: Edges, other: Edges) -> bool:
    """Tell whether two graphs on the same nodes have the same components."""
    count, labels = one.components()
    other_count, other_labels = other.components()
    return count == other_count and len(np.unique(labels * other_count + other_labels)) == count
