"""Similarity graphs of rows: the nearest neighbours, each undirected pair once."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from squeak.core.checks import check_positive, check_whole
from squeak.core.kernels import RBF
from squeak.core.rows import check_rows
from squeak.core.types import Array
from squeak.graphs.edges import Edges, check_edges

LOCAL = 7
"""The neighbour whose distance is a row's own scale."""


def knn_graph(X: Any, n_neighbors: int = 10, scaling: str = "local", scale: float | None = None) -> Any:
    """Return the adjacency matrix of the nearest-neighbour graph of rows, Gaussian weights.

    Two rows are joined where one is among the nearest of the other; each pair is one edge, so that mutual
    neighbours do not count twice. With "local" scaling the weight is exp(−d²/(σ_i·σ_j)), σ_i the distance of
    row i to its seventh neighbour (or to its last, where there are fewer); with "global" it is exp(−d²/(2σ²)),
    σ the median distance to the last neighbour unless ``scale`` is given.

    Parameters
    ----------
    X : array, shape (n, d)
    n_neighbors : int
    scaling : {"local", "global", "none"}
        "none" gives weight 1 to every edge.
    scale : float, optional
        σ of "global".

    Returns
    -------
    CSR matrix, shape (n, n)

    References
    ----------
    Zelnik-Manor, Perona, "Self-tuning spectral clustering"; the theory page, "Graphs" (each pair once).

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.graphs import knn_graph
    >>> A = knn_graph(np.array([[0.0], [1.0], [3.0]]), n_neighbors=1, scaling="none")
    >>> A.toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    return knn_edges(X, n_neighbors, scaling, scale)[0].adjacency()


def knn_edges(
    X: Any, n_neighbors: int, scaling: str, scale: float | None = None
) -> tuple[Edges, Array, NearestNeighbors]:
    """Return the edges, the scale of every row, and the index that found them."""
    rows = check_rows(X, RBF(1.0))
    n = rows.shape[0]
    if scaling not in ("local", "global", "none"):
        raise ValueError(f"scaling must be 'local', 'global' or 'none'; it is {scaling!r}")
    if check_whole("n_neighbors", n_neighbors) >= n:
        raise ValueError(f"n_neighbors is {n_neighbors}, but there are only {n} rows")
    if scale is not None:
        check_positive("scale", scale)
    index = NearestNeighbors(n_neighbors=n_neighbors).fit(rows)
    distances, neighbours = index.kneighbors()
    scales = row_scales(distances, scaling, scale)
    i = np.repeat(np.arange(n), n_neighbors)
    j, d = neighbours.ravel(), distances.ravel()
    key = np.minimum(i, j) * n + np.maximum(i, j)
    key, first = np.unique(key, return_index=True)
    weights = similarities(d[first], scales[i[first]], scales[j[first]], scaling)
    return check_edges(key // n, key % n, weights, n), scales, index


def row_scales(distances: Array, scaling: str, scale: float | None = None, least: float | None = None) -> Array:
    """Return σ of every row from the distances to its neighbours.

    ``least`` where that is 0, or the smallest positive one.
    """
    if scaling == "local":
        scales = distances[:, min(LOCAL, distances.shape[1]) - 1].copy()
    else:
        scales = np.full(len(distances), np.median(distances[:, -1]) if scale is None else scale)
    positive = scales[scales > 0]
    if least is None:
        least = float(positive.min()) if len(positive) else 1.0
    scales[scales <= 0] = least
    return np.asarray(scales)


def similarities(distances: Array, one: Array, other: Array, scaling: str) -> Array:
    """Return the weights of pairs from their distances and the scales of both ends; never 0."""
    if scaling == "none":
        return np.ones(len(distances))
    spread = one * other * (1.0 if scaling == "local" else 2.0)
    return np.asarray(np.maximum(np.exp(-(distances**2) / spread), 1e-300))
