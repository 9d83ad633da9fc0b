"""Graphs as dense matrices: the slow, obvious formulas that the fast ones must agree with."""

import numpy as np

from squeak.graphs.edges import check_edges, merged


def random_graph(n, m, seed, weighted=True):
    """Return a random graph with a few weights far from the others."""
    rng = np.random.default_rng(seed)
    u, v = rng.integers(n, size=(2, m))
    w = np.exp(1.5 * rng.standard_normal(m)) if weighted else None
    return merged(check_edges(u, v, w, n))


def dense_laplacian(edges):
    L = np.zeros((edges.n_nodes, edges.n_nodes))
    for u, v, w in zip(edges.u, edges.v, edges.weights, strict=True):
        b = np.zeros(edges.n_nodes)
        b[u], b[v] = 1, -1
        L += w * np.outer(b, b)
    return L


def dense_leverage(edges, ridge=0.0):
    L = dense_laplacian(edges)
    P = np.linalg.pinv(L + ridge * np.eye(len(L)), hermitian=True, rcond=1e-12)
    return edges.weights * (P[edges.u, edges.u] + P[edges.v, edges.v] - 2 * P[edges.u, edges.v])


def dense_accuracy(one, other, ridge=0.0):
    L, H = dense_laplacian(one), dense_laplacian(other)
    values, vectors = np.linalg.eigh(L + ridge * np.eye(len(L)))
    kept = values > 1e-10 * values[-1]
    root = vectors[:, kept] / np.sqrt(values[kept]) @ vectors[:, kept].T
    return np.abs(np.linalg.eigvalsh(root @ (H - L) @ root)).max()


def is_bridge(edges, which):
    rest = edges.take(np.arange(len(edges)) != which)
    return rest.components()[0] > edges.components()[0]
