"""Graphs as dense matrices: the slow, obvious formulas that the fast ones must agree with."""

from fractions import Fraction

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


def exact_leverage(edges, ridge=0.0):
    """Return the leverage of every edge by elimination with fractions: no rounding but that of the result."""
    n = edges.n_nodes
    ground = n  # the ridge leads there; without one, the first node of every component is held
    L = [[Fraction(0)] * n for _ in range(n)]
    for u, v, w in zip(edges.u.tolist(), edges.v.tolist(), map(Fraction, edges.weights.tolist()), strict=True):
        L[u][u] += w
        L[v][v] += w
        L[u][v] -= w
        L[v][u] -= w
    held = set() if ridge else set(np.unique(edges.components()[1], return_index=True)[1].tolist())
    free = [node for node in range(n) if node not in held and node != ground]
    M = [[L[i][j] + (Fraction(ridge) if i == j else 0) for j in free] for i in free]
    inverse = _inverse_of_fractions(M)
    P = {(i, j): inverse[a][b] for a, i in enumerate(free) for b, j in enumerate(free)}

    def entry(i, j):
        return P.get((i, j), Fraction(0))

    pairs = zip(edges.u.tolist(), edges.v.tolist(), edges.weights.tolist(), strict=True)
    return np.array([float(Fraction(w) * (entry(u, u) + entry(v, v) - 2 * entry(u, v))) for u, v, w in pairs])


def _inverse_of_fractions(M):
    n = len(M)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(n))] for i, row in enumerate(M)]
    for k in range(n):
        pivot = next(i for i in range(k, n) if rows[i][k] != 0)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for i in range(n):
            if i != k and rows[i][k] != 0:
                rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [row[n:] for row in rows]


def exact_harmonic(edges, labelled, values, alpha):
    """Return the minimum of Σ_S (f − y)² + alpha·fᵀLf, with fractions; every component must have a label."""
    n = edges.n_nodes
    Q = [[Fraction(0)] * n for _ in range(n)]
    for u, v, w in zip(edges.u.tolist(), edges.v.tolist(), map(Fraction, edges.weights.tolist()), strict=True):
        for i, j, sign in ((u, u, 1), (v, v, 1), (u, v, -1), (v, u, -1)):
            Q[i][j] += sign * Fraction(alpha) * w
    right = [Fraction(0)] * n
    for node, value in zip(labelled, values, strict=True):
        Q[node][node] += 1
        right[node] += Fraction(value)
    inverse = _inverse_of_fractions(Q)
    return np.array([float(sum(a * b for a, b in zip(row, right, strict=True))) for row in inverse])


COMPLETE = merged(check_edges(*np.triu_indices(12, 1)))


def two_cliques(n, joins, weight, seed=0):
    """Return two complete graphs of n nodes, joined by some edges, and which edges these are."""
    rng = np.random.default_rng(seed)
    u, v = np.triu_indices(n, 1)
    a, b = rng.choice(n, joins, replace=False), rng.choice(n, joins, replace=False) + n
    w = np.concatenate([np.ones(2 * len(u)), np.full(joins, weight)])
    graph = merged(check_edges(np.concatenate([u, u + n, a]), np.concatenate([v, v + n, b]), w))
    return graph, (graph.u < n) & (graph.v >= n)
