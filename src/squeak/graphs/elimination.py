"""Resistances between all nodes of a small graph, accurate in every digit whatever its weights are.

Nodes are eliminated one after the other (the star-mesh transform): with p_i = w_ki/d_k, d_k = Σ_i w_ki, the nodes
that are left get w_ij + p_i·w_kj, a sum of positive numbers, so nothing cancels however far apart weights are. That
is the way of Grassmann, Taksar and Heyman. Backwards, x_k is Σ p_i x_i and noise of variance 1/d_k in the Gaussian
field whose variances Var(x_i − x_j) are the resistances, hence

    r_kj = 1/d_k + Σ_i p_i·r_ij − ½ Σ_il p_i·p_l·r_il.

Each of the sums is no larger than a small multiple of r_kj (the strongest neighbour of k and the triangle
inequality bound it), so their difference keeps its digits too.
"""

from __future__ import annotations

import numpy as np

from squeak.core.types import Array


def _eliminated(weights: Array) -> tuple[Array, Array]:
    """Return p (above the diagonal) and d of every node as it is eliminated, one by one; 0 where it is alone."""
    n, W = len(weights), weights.copy()
    P, degrees = np.zeros((n, n)), np.zeros(n)
    for k in range(n - 1):
        row = W[k, k + 1 :]
        degrees[k] = row.sum()
        if degrees[k] > 0:
            P[k, k + 1 :] = row / degrees[k]
            W[k + 1 :, k + 1 :] += P[k, k + 1 :, None] * row  # the diagonal is never looked at
    return P, degrees


def grounded_solution(weights: Array, ground: Array, right: Array) -> Array:
    """Return x with (L + diag(ground))·x = right, L the Laplacian of the weights, as accurate whatever they are.

    ``weights``: symmetric, not negative, and 0 on the diagonal. ``ground``: not negative; in every component some
    are positive.
    """
    n = len(weights)
    W = np.zeros((n + 1, n + 1))
    W[:n, :n] = weights
    W[:n, n] = W[n, :n] = ground
    P, degrees = _eliminated(W)
    x = np.vstack([right, np.zeros((1, right.shape[1]))])
    for k in range(n):
        x[k + 1 :] += P[k, k + 1 :, None] * x[k]
    x[n] = 0.0
    for k in range(n - 1, -1, -1):
        x[k] = x[k] / degrees[k] + P[k, k + 1 :] @ x[k + 1 :]
    return np.asarray(x[:n])


def resistance_matrix(weights: Array) -> Array:
    """Return the resistance between any two nodes of a component; 0 between two components.

    ``weights``: symmetric, not negative, and 0 on the diagonal.
    """
    n = len(weights)
    P, degrees = _eliminated(weights)
    R = np.zeros((n, n))
    for k in range(n - 2, -1, -1):
        if degrees[k] > 0:
            p = P[k, k + 1 :]
            spread = R[k + 1 :, k + 1 :] @ p
            R[k, k + 1 :] = R[k + 1 :, k] = 1.0 / degrees[k] + np.maximum(spread - 0.5 * (p @ spread), 0.0)
    return R
