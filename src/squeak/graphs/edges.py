"""Edges as arrays: every undirected pair once, smaller node first, with a positive weight; bridges and forests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from squeak.core.advice import InputError
from squeak.core.checks import check_between
from squeak.core.rows import refuse_hidden
from squeak.core.seeds import generator_at
from squeak.core.types import Array, IntArray

LARGEST_NODE = 2**31 - 2
"""Node numbers must fit into the 32-bit indices of sparse matrices."""

LARGEST_WEIGHT = 1e300
"""Sums of larger weights overflow."""


def check_graph_ridge(ridge: Any) -> float:
    """Return the ridge as a float, 0 or positive; it is the weight of an edge from each node to one more."""
    found = check_between("ridge", ridge, 0, LARGEST_WEIGHT)
    if 0 < found < 1 / LARGEST_WEIGHT:
        raise InputError(f"ridge must be 0, or at least {1 / LARGEST_WEIGHT:g} (it is inverted); it is {found!r}")
    return found


@dataclass(frozen=True)
class Edges:
    """The edges of an undirected graph without loops: u < v, in the order given, weights positive and finite.

    Pairs are all different in a graph; in a block of a stream they need not be.
    """

    n_nodes: int
    u: IntArray
    v: IntArray
    weights: Array

    def __len__(self) -> int:
        return len(self.u)

    def take(self, which: Any) -> Edges:
        """Return some of the edges, in the order given."""
        return Edges(self.n_nodes, self.u[which], self.v[which], self.weights[which])

    def with_weights(self, weights: Array) -> Edges:
        """Return the same pairs with other weights."""
        same = Edges(self.n_nodes, self.u, self.v, weights)
        if "ascending" in self.__dict__:  # of the pairs alone
            same.__dict__["ascending"] = self.ascending
        return same

    def on_nodes(self, n_nodes: int) -> Edges:
        """Return the same edges on more nodes."""
        return Edges(n_nodes, self.u, self.v, self.weights)

    def without_lone_nodes(self) -> Edges:
        """Return the same edges on the nodes that have any, in their order, where these are surely not all."""
        if self.n_nodes <= 2 * len(self):
            return self
        nodes, ends = np.unique(np.concatenate([self.u, self.v]), return_inverse=True)
        u, v = ends.astype(np.int64).reshape(2, -1)
        return Edges(len(nodes), u, v, self.weights)

    def adjacency(self) -> Any:
        """Return the symmetric adjacency matrix, CSR; parallel edges are added up."""
        return self.matrix.copy()

    @cached_property
    def ascending(self) -> bool:
        """Whether the pairs are all different and in the order of ``triu(A).nonzero()``."""
        u, v = self.u, self.v
        return bool(np.all((u[1:] > u[:-1]) | ((u[1:] == u[:-1]) & (v[1:] > v[:-1]))))

    @cached_property
    def matrix(self) -> Any:
        """The adjacency matrix, not to be changed; of ascending edges the sum of two halves that are sorted."""
        n, u, v = self.n_nodes, self.u.astype(np.int32), self.v.astype(np.int32)
        if self.ascending:
            starts = np.zeros(n + 1, dtype=np.int32)
            np.cumsum(np.bincount(u, minlength=n), out=starts[1:])
            upper = sp.csr_matrix((self.weights, v, starts), shape=(n, n))
            lower = upper.T.tocsr()
            upper.has_canonical_format = lower.has_canonical_format = True
            return lower + upper
        ends = np.concatenate([v, u]), np.concatenate([u, v])
        A = sp.coo_matrix((np.concatenate([self.weights, self.weights]), ends), (n, n)).tocsr()
        A.sum_duplicates()
        return A

    def degrees(self) -> Array:
        """Return the sum of the weights at every node."""
        n, w = self.n_nodes, self.weights
        return np.asarray(
            np.bincount(self.u, w, minlength=n) + np.bincount(self.v, w, minlength=n), dtype=np.float64
        )

    def laplacian(self) -> Any:
        """Return L = Σ a_e b_e b_eᵀ, CSR, with b_e = χ_u − χ_v."""
        return (sp.diags(self.degrees()) - self.adjacency()).tocsr()

    def components(self) -> tuple[int, IntArray]:
        """Return how many components there are and which one each node is in."""
        return self._components

    @cached_property
    def _components(self) -> tuple[int, IntArray]:
        if self.parents_from_first is not None:
            return 1, np.zeros(self.n_nodes, dtype=np.int64)
        count, labels = sp.csgraph.connected_components(self.matrix, directed=False)
        return int(count), labels.astype(np.int64)

    @cached_property
    def parents_from_first(self) -> IntArray | None:
        """The parent of every node as seen from node 0, −1 of itself; None where some are not reached."""
        if self.n_nodes == 0:
            return None
        reached, parents = sp.csgraph.breadth_first_order(self.matrix, 0, return_predecessors=True)
        if len(reached) < self.n_nodes:
            return None
        parents[0] = -1
        return np.asarray(parents.astype(np.int64))


def check_edges(
    u: Any, v: Any, weights: Any = None, n_nodes: int | None = None, *, place: str = "edge", first: int = 0
) -> Edges:
    """Return clean edges: loops dropped, u < v, order and parallel edges kept; refuse what no graph has.

    ``weights``: 1 for every edge where left out. Edges of weight 0 are no edges. ``n_nodes``: the largest node
    number and one more, where left out. ``place``, ``first``: words and the number of the first edge, for messages.
    """
    u, v = _nodes(u, place, first), _nodes(v, place, first)
    if u.shape != v.shape:
        raise ValueError(f"there are {len(u)} first nodes and {len(v)} second nodes")
    w = np.ones(len(u)) if weights is None else _weights(weights, len(u), place, first)
    top = int(max(u.max(), v.max())) + 1 if len(u) else 0
    if n_nodes is None:
        n_nodes = top
    elif top > n_nodes:
        bad = int(np.flatnonzero(np.maximum(u, v) >= n_nodes)[0])
        raise ValueError(
            f"{place} {first + bad}: node {max(u[bad], v[bad])} of a graph of {n_nodes} nodes, numbered from 0"
        )
    real = (u != v) & (w > 0)
    if not real.all():
        u, v, w = u[real], v[real], w[real]
    return Edges(int(n_nodes), np.minimum(u, v), np.maximum(u, v), w)


def from_columns(columns: Any, n_nodes: int | None = None, first: int = 0) -> Edges:
    """Return clean edges from two columns of nodes, and maybe one of weights."""
    u, v, weights = (*columns, None)[:3]
    return check_edges(u, v, weights, n_nodes, first=first)


def _nodes(nodes: Any, place: str, first: int) -> IntArray:
    refuse_hidden(nodes, "the edges' ends")
    array = np.asarray(nodes)
    if array.ndim != 1:
        raise ValueError(f"node numbers must be one-dimensional; they have shape {array.shape}")
    if array.dtype.kind == "f":
        whole = np.isfinite(array) & (array == np.floor(array))
        if not whole.all():
            bad = int(np.flatnonzero(~whole)[0])
            raise ValueError(f"{place} {first + bad}: {array[bad]} is not a node number")
    elif array.dtype.kind not in "iu":
        raise TypeError(f"nodes must be whole numbers from 0 on, not {array.dtype}; number them first")
    wrong = (array < 0) | (array > LARGEST_NODE)
    if wrong.any():
        bad = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"{place} {first + bad}: {array[bad]} is not a node number (0 to {LARGEST_NODE:,})")
    return array.astype(np.int64, copy=False)


def _weights(weights: Any, n: int, place: str, first: int) -> Array:
    refuse_hidden(weights, "the edges' weights")
    array = np.asarray(weights)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"weights must be real numbers, not {array.dtype}")
    array = array.astype(np.float64, copy=False)
    if array.shape != (n,):
        raise ValueError(f"there are {n} edges and weights of shape {array.shape}")
    wrong = ~((array >= 0) & (array <= LARGEST_WEIGHT))
    if wrong.any():
        bad = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"{place} {first + bad} has weight {array[bad]}: weights are similarities, not negative and "
            f"{LARGEST_WEIGHT:g} at most"
        )
    return array


def merged(edges: Edges) -> Edges:
    """Return the graph with parallel edges added up, sorted by (u, v): the order of ``triu(A).nonzero()``."""
    return merged_places(edges)[0]


def merged_places(edges: Edges) -> tuple[Edges, Any]:
    """Return the merged graph and the place in it of each of the edges given."""
    if edges.ascending:
        return edges, slice(None)
    key = edges.u * edges.n_nodes + edges.v
    by_v = stable_order(edges.v, edges.n_nodes)
    order = by_v[stable_order(edges.u[by_v], edges.n_nodes)]
    key = key[order]
    first = np.flatnonzero(np.concatenate([[True], key[1:] > key[:-1]]))
    graph = edges.take(order[first])
    place = np.empty(len(key), dtype=np.int64)
    if len(first) == len(key):
        place[order] = np.arange(len(key))
        return graph, place
    place[order] = np.repeat(np.arange(len(first)), np.diff(first, append=len(key)))
    return graph.with_weights(np.add.reduceat(edges.weights[order], first)), place


def stable_order(values: IntArray, n: int) -> IntArray:
    """Return the stable order of whole numbers below n: by counting, in linear time, unless n is large.

    The columns of a matrix with one entry in each row are counted by scipy.
    """
    m = len(values)
    if n > 4 * m:
        return np.argsort(values, kind="stable")
    entries = (np.ones(m, dtype=np.int8), values.astype(np.int32), np.arange(m + 1))
    return np.asarray(sp.csr_matrix(entries, shape=(m, n)).tocsc().indices)


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
    others, tree = np.flatnonzero(~tree), np.flatnonzero(tree)
    marks = generator_at(0).integers(2**64, size=len(others), dtype=np.uint64)
    sums = np.zeros(edges.n_nodes, dtype=np.uint64)
    np.add.at(sums, edges.u[others], marks)
    np.subtract.at(sums, edges.v[others], marks)
    child = np.where(down[tree], edges.v[tree], edges.u[tree])
    found[tree] = _sums_below(sums, parents)[child] == 0
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
