"""How good a sparsifier is: the largest relative error of its quadratic form, measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh, eigh_tridiagonal, eigvalsh

from squeak.core import engine
from squeak.core.seeds import PROBE, RandomState, draw_seed, generator_at
from squeak.core.types import Array
from squeak.graphs.edges import Edges, best_forest, check_graph_ridge, rooted_forest, spanned_alike
from squeak.graphs.forms import read_both
from squeak.graphs.solver import NormalisedSystem

DENSE = 1500
"""Nodes up to which all eigenvalues are computed."""

STEPS = 200
SOLVE = 1e-7
RESOLVED = 1e-7
"""Eigenvalues above this part of the largest are known to about 1e-9 of themselves."""

EDGES = 4096
"""Edges at a time, in coordinates of a tree."""


def spectral_accuracy(
    graph: Any, sparsifier: Any, ridge: float = 0.0, *, tol: float = 5e-3, random_state: RandomState = 0
) -> float:
    """Return ε = ‖(L + ridge·I)^(-1/2)(L_H − L)(L + ridge·I)^(-1/2)‖, the accuracy of a sparsifier H.

    It is the smallest ε with (1 − ε)L − ε·ridge·I ⪯ L_H ⪯ (1 + ε)L + ε·ridge·I, on the range of L where ridge is 0.
    Up to 1,500 nodes it is exact, however far apart the weights are. Beyond, Lanczos steps on the pencil
    (L_H − L, L + ridge·I) run until the value changes by less than ``tol``; they approach it from below. It is at
    least 1 where H cuts a component of the graph in two, and infinite where H joins two of them and the ridge is 0.

    Parameters
    ----------
    graph, sparsifier : see :func:`squeak.graphs.sparsify`
        On the same nodes.
    ridge : float
    tol : float
        Relative change, over ten steps, at which Lanczos stops.
    random_state : None, int, RandomState or Generator
        For the first Lanczos vector.

    Returns
    -------
    float

    References
    ----------
    The theory page, "Graphs".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.graphs import spectral_accuracy
    >>> complete = np.ones((4, 4)) - np.eye(4)
    >>> round(spectral_accuracy(complete, 1.25 * complete), 9)
    0.25
    """
    ridge = check_graph_ridge(ridge)
    one, other = read_both(graph, sparsifier)
    n = max(one.n_nodes, other.n_nodes)
    if one.n_nodes != other.n_nodes:
        if sum(hasattr(g, "shape") and g.shape[0] == g.shape[1] for g in (graph, sparsifier)) == 2:
            raise ValueError(f"the graph has {one.n_nodes} nodes, the sparsifier {other.n_nodes}")
        one, other = one.on_nodes(n), other.on_nodes(n)  # edge lists do not tell of nodes without edges
    if ridge == 0:
        _, labels = one.components()
        if (labels[other.u] != labels[other.v]).any():
            return float("inf")
    if len(one) == 0:
        top = float(other.degrees().max(initial=0.0))
        return 0.0 if top == 0 else _dense(one, other, ridge)
    least = 1.0 if ridge == 0 and not spanned_alike(one, other) else 0.0  # however weak what holds it together
    with engine.single_blas():
        if n <= DENSE:
            return max(_dense(one, other, ridge), least)
        rng = generator_at(draw_seed(random_state), PROBE)
        return max(_lanczos(one, other, ridge, tol, rng), least)


def _dense(one: Edges, other: Edges, ridge: float) -> float:
    """Return ε from all eigenvalues of L, or in coordinates of a tree where some of these are lost in rounding."""
    scale = max(float(one.degrees().mean()), ridge)
    L = one.laplacian().toarray() / scale
    values, vectors = eigh(L + (ridge / scale) * np.eye(len(L)))
    kept = values > RESOLVED * values[-1]
    if np.count_nonzero(kept) < len(L) - (one.components()[0] if ridge == 0 else 0):
        return by_tree(grounded(one, ridge), grounded(other, ridge))
    B = vectors[:, kept] / np.sqrt(values[kept])
    change = B.T @ ((other.laplacian() / scale - L) @ B)
    ends = eigvalsh(0.5 * (change + change.T))
    return float(max(0.0, -ends[0], ends[-1]))


def grounded(graph: Edges, ridge: float) -> Edges:
    """Return the graph with the ridge as an edge from every node to one more."""
    if ridge == 0:
        return graph
    n, nodes = graph.n_nodes, np.arange(graph.n_nodes)
    ends = np.append(graph.u, nodes), np.append(graph.v, np.full(n, n))
    return Edges(n + 1, *ends, np.append(graph.weights, np.full(n, ridge)))


def by_tree(one: Edges, other: Edges) -> float:
    """Return ε for weights however far apart, from the differences along the edges of a heaviest spanning forest.

    The difference between the ends of an edge e is the sum of those on its path in the forest. With the unknowns
    √w_t·(difference along t), e adds to the quadratic form the square of a row with the entries ±√(w_e/w_t), t on
    its path. In a heaviest forest they are at most 1, and the forest's own edges add the identity. So the form of
    the graph has all eigenvalues from 1 to the number of edges times that of nodes: nothing is lost in rounding.
    """
    paths, roots = _paths_to_roots(one.take(best_forest(one, one.weights)))
    before, after = _form_on(paths, roots, one), _form_on(paths, roots, other)
    ends = eigh(after - before, before, eigvals_only=True)
    return float(max(0.0, -ends[0], ends[-1]))


def _paths_to_roots(forest: Edges) -> tuple[Any, Array]:
    """Return which edges of a forest are on the way from each node to its root, and √weight of each of them."""
    parents = rooted_forest(forest)
    children = np.flatnonzero(parents >= 0)
    number = np.zeros(forest.n_nodes, dtype=np.int64)
    number[children] = np.arange(len(children))
    up = sp.csr_matrix((np.ones(len(children)), (children, parents[children])), (forest.n_nodes, forest.n_nodes))
    step = sp.csr_matrix((np.ones(len(children)), (children, number[children])), (forest.n_nodes, len(children)))
    paths = step
    while step.nnz:
        step = up @ step
        paths = paths + step
    weights = np.asarray(forest.adjacency()[children, parents[children]]).ravel()
    return paths, np.sqrt(weights)


def _form_on(paths: Any, roots: Array, graph: Edges) -> Array:
    """Return the quadratic form of a graph in the coordinates of a forest, some edges at a time."""
    total = np.zeros((len(roots), len(roots)))
    for tile in engine.tiles(len(graph), EDGES):
        ways = (paths[graph.u[tile]] - paths[graph.v[tile]]).tocsr()
        rows = sp.diags(np.sqrt(graph.weights[tile])) @ ways @ sp.diags(1.0 / roots)
        total += (rows.T @ rows).toarray()
    return total


def _lanczos(one: Edges, other: Edges, ridge: float, tol: float, rng: np.random.Generator) -> float:
    """Run Lanczos in the inner product of ℒ = D^(-1/2)(L + ridge·I)D^(-1/2), with all vectors kept orthogonal."""
    system = NormalisedSystem(one, ridge)
    change = other.laplacian() - one.laplacian()
    scale = system.scale

    def apply(x: Array) -> Array:
        """Return (L_H − L)x in normalised coordinates."""
        return np.asarray(scale * (change @ (scale * x)))

    def form(x: Array) -> Array:
        return np.asarray(x - system.N @ x)

    def solve(y: Array) -> Array:
        z, _ = system.solve_normalised(y[:, None], SOLVE)
        return np.asarray(z[:, 0])

    w = solve(apply(rng.standard_normal(one.n_nodes)))
    basis: list[Array] = []
    images: list[Array] = []  # ℒ times the basis
    alphas: list[float] = []
    betas: list[float] = []
    history: list[float] = []
    for step in range(min(STEPS, one.n_nodes)):
        image = form(w)
        size = float(np.sqrt(max(float(w @ image), 0.0)))
        if size == 0 or (history and size <= 1e-12 * history[-1]):
            break
        if step:
            betas.append(size)
        v, image = w / size, image / size
        basis.append(v)
        images.append(image)
        moved = apply(v)
        alphas.append(float(v @ moved))
        w = solve(moved)
        for _ in range(2):
            for known, its_image in zip(basis, images, strict=True):
                w -= (its_image @ w) * known
        ends = eigh_tridiagonal(np.array(alphas), np.array(betas), eigvals_only=True)
        history.append(float(max(-ends[0], ends[-1])))
        if step >= 15 and history[-1] - history[-11] <= tol * history[-1]:
            break
    return max(0.0, history[-1]) if history else 0.0
