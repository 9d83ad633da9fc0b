"""The dense, slow, obvious versions: what everything fast is held against."""

from __future__ import annotations

import numpy as np


def dense_scores(K: np.ndarray, ridge: float) -> np.ndarray:
    """Return τ = diag(K (K + ridge·I)⁻¹), by the definition."""
    return np.diag(K @ np.linalg.inv(K + ridge * np.eye(len(K))))


def dense_estimate(K: np.ndarray, weights: np.ndarray, ridge: float, shrink: float = 1.0) -> np.ndarray:
    """Return shrink·φᵀ(ΦSSᵀΦᵀ + ridge·Π)⁻¹φ for all n rows, by a feature map with K = ΦᵀΦ."""
    eigenvalues, U = np.linalg.eigh(K)
    phi = (U * np.sqrt(np.maximum(eigenvalues, 0))) @ U.T  # column i is φ_i, in n dimensions
    middle = np.linalg.inv((phi * weights) @ phi.T + ridge * np.eye(len(K)))
    return shrink * np.einsum("ij,ik,kj->j", phi, middle, phi)


def dense_accuracy(K: np.ndarray, weights: np.ndarray, ridge: float) -> float:
    """Return ‖P − P̃‖₂ with P = K(K + ridge·I)⁻¹ and P̃ = P^½ diag(w) P^½, formed in full."""
    eigenvalues, U = np.linalg.eigh(K)
    eigenvalues = np.maximum(eigenvalues, 0)
    root = (U * np.sqrt(eigenvalues / (eigenvalues + ridge))) @ U.T
    return float(np.linalg.norm(root @ root - root @ np.diag(weights) @ root, 2))


def literal_kors(K: np.ndarray, ridge: float, oversampling: float, copies: int, u: np.ndarray, eps: float = 0.0):
    """Return (indices, p, counts) of KORS row by row: the score from the dictionary plus the row at weight 1."""
    indices: list[int] = []
    chances: list[float] = []
    counts: list[int] = []
    for t in range(len(K)):
        w = np.array([*(c / (copies * p) for c, p in zip(counts, chances, strict=True)), 1.0])
        members = [*indices, t]
        root = np.sqrt(w)
        A = root[:, None] * K[np.ix_(members, members)] * root + ridge * np.eye(len(members))
        k = root * K[members, t]
        tau = (1 - eps) / ridge * (K[t, t] - k @ np.linalg.solve(A, k))
        p = min(1.0, oversampling / copies * tau)
        count = binomial_from_uniform(u[t], p, copies)
        if count:
            indices.append(t)
            chances.append(p)
            counts.append(count)
    return np.array(indices), np.array(chances), np.array(counts)


def binomial_from_uniform(u: float, p: float, copies: int) -> int:
    """Return #{j ≥ 1: u < P(Binomial(copies, p) ≥ j)}, tail by tail."""
    from math import comb

    tails = [
        sum(comb(copies, i) * p**i * (1 - p) ** (copies - i) for i in range(j, copies + 1))
        for j in range(1, copies + 1)
    ]
    return sum(u < tail for tail in tails)


def literal_squeak(K, ridge, oversampling, copies, rng, eps=0.0):
    """Return the weights of all n rows after SQUEAK as printed: each row joins, then every atom is thinned."""
    n = len(K)
    p, q = np.ones(n), np.zeros(n, dtype=int)
    for t in range(n):
        q[t] = copies
        members = np.flatnonzero(q)
        w = q[members] / (copies * p[members])
        root = np.sqrt(w)
        A = root[:, None] * K[np.ix_(members, members)] * root + ridge * np.eye(len(members))
        tau = (1 - eps) / w * (1 - ridge * np.diag(np.linalg.inv(A)))
        lowered = np.minimum(p[members], np.minimum(1.0, oversampling / copies * np.maximum(tau, 0)))
        q[members] = rng.binomial(q[members], lowered / p[members])
        p[members] = lowered
    return np.where(q > 0, q / (copies * p), 0.0)


def dense_kernel(kernel, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return k(X, Y) of a radial, polynomial or linear kernel by its formula, in extended precision."""
    from squeak.kernels import RBF, Laplacian, Matern

    X, Y = np.asarray(X, dtype=np.longdouble), np.asarray(Y, dtype=np.longdouble)
    name = type(kernel).__name__
    if name == "Scaled":
        return np.longdouble(kernel.factor) * dense_kernel(kernel.kernel, X, Y)
    width = np.asarray(kernel.length_scale, dtype=np.longdouble)
    if name in ("Linear", "Polynomial"):
        return ((X / width) @ (Y / width).T + kernel.offset) ** kernel.degree
    apart = (X[:, None, :] - Y[None, :, :]) / width
    if isinstance(kernel, Laplacian):
        return np.exp(-np.abs(apart).sum(axis=2))
    square = (apart**2).sum(axis=2)
    if isinstance(kernel, RBF):
        return np.exp(-square / 2)
    assert isinstance(kernel, Matern)
    r = np.sqrt(2 * kernel.nu * square)
    return np.exp(-r) * {0.5: 1 + 0 * r, 1.5: 1 + r, 2.5: 1 + r + r * r / 3}[kernel.nu]
