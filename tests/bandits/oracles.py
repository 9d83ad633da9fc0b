"""The dense, slow, obvious versions of the posteriors: every pull a row of its own."""

from __future__ import annotations

import numpy as np


def dense_posterior(K: np.ndarray, pulls: np.ndarray, rewards: np.ndarray, ridge: float):
    """Return mean, variance (GP units) and logdet(I + K_t/λ) at all arms; K is the Gram matrix of the arms."""
    Kt, k = K[np.ix_(pulls, pulls)], K[pulls]
    A = Kt + ridge * np.eye(len(pulls))
    mean = k.T @ np.linalg.solve(A, rewards)
    variance = K.diagonal() - np.einsum("ij,ij->j", k, np.linalg.solve(A, k))
    return mean, variance, np.linalg.slogdet(np.eye(len(pulls)) + Kt / ridge)[1]


def spec_incremental(K: np.ndarray, pulls: np.ndarray, rewards: np.ndarray, ridge: float):
    """Return the same by the specification's update, O(A·t) a step, one vector a pull."""
    mean, variance, logdet, rows = np.zeros(len(K)), K.diagonal().copy(), 0.0, []
    for i, y in zip(pulls, rewards, strict=True):
        d = ridge + variance[i]
        v = (K[:, i] - sum(r * r[i] for r in rows)) / np.sqrt(d) if rows else K[:, i] / np.sqrt(d)
        logdet += np.log1p(variance[i] / ridge)
        mean = mean + v * (y - mean[i]) / np.sqrt(d)
        variance = np.maximum(variance - v * v, 0)
        rows.append(v)
    return mean, variance, logdet


def dense_dtc(K: np.ndarray, members: np.ndarray, pulls: np.ndarray, rewards: np.ndarray, ridge: float):
    """Return mean, residual and signal (ridge-leverage units) by the eigenvectors of K_II, with repeated rows."""
    S, U = np.linalg.eigh(K[np.ix_(members, members)])
    keep = 10 * len(members) * S[-1] * np.finfo(float).eps < S
    Z = K[:, members] @ U[:, keep] / np.sqrt(S[keep])
    V = Z[pulls].T @ Z[pulls] + ridge * np.eye(Z.shape[1])
    signal = np.einsum("ij,ij->i", Z, np.linalg.solve(V, Z.T).T)
    residual = np.maximum(K.diagonal() - (Z**2).sum(axis=1), 0) / ridge
    return Z @ np.linalg.solve(V, Z[pulls].T @ rewards), residual, signal


def literal_region(values, first, least, sides):
    """Return the length of the region of trust, value by value."""
    length, good, bad, top = 0.4, 0, 0, values[:first].max()
    for value in values[first:]:
        good, bad = (good + 1, 0) if value > top + least else (0, bad + 1)
        top = max(top, value)
        if good == 3:
            length, good = min(2 * length, 1.6), 0
        elif bad == max(4, sides):
            length, bad = length / 2, 0
        if length < 0.4 / 2**5:
            length, good, bad = 0.4, 0, 0
    return length
