"""Online Newton steps by their definition, on explicit feature vectors: what every fast form is held against."""

from __future__ import annotations

import numpy as np


def explicit_newton(Phi, y, loss, alpha, bound, eta, include=None):
    """Return predictions and a record of every round of ONS: A_0 = αI, A += η g gᵀ, clipped by the A-projection.

    ``eta(t, y, prediction)`` gives η_t; ``include[t]`` says which part of round t's direction enters A, 0 or 1 in
    SKETCHED-KONS.
    """
    d = Phi.shape[1]
    A, w, g = alpha * np.eye(d), np.zeros(d), np.zeros(d)
    record = []
    for t, (phi, target) in enumerate(zip(Phi, y, strict=True)):
        inverse = np.linalg.inv(A)
        u = w - inverse @ g
        ybar = phi @ u
        h = np.sign(ybar) * max(abs(ybar) - bound, 0.0)
        w = u - (h / (phi @ inverse @ phi) * (inverse @ phi) if h else 0.0)
        prediction = ybar - h
        slope = loss.derivative(target, prediction)
        step = eta(t, target, prediction) if slope else 0.0
        g = slope * phi
        A = A + (1.0 if include is None else float(include[t])) * step * np.outer(g, g)
        record.append(
            {"prediction": prediction, "g": g, "A": A.copy(), "w": w.copy(), "eta": step, "clipped": h != 0}
        )
    return np.array([r["prediction"] for r in record]), record


def exact_features(kernel, X):
    """Return feature vectors with ΦΦᵀ = K, one row for every row of X."""
    eigenvalues, U = np.linalg.eigh(kernel(X))
    return (U * np.sqrt(np.maximum(eigenvalues, 0))) @ U.T


def literal_pros(X, y, kernel, loss, alpha, bound, eta, entries, *, restarts):
    """Return PROS- or CON-KONS' predictions as printed, with the eigen embedding and an explicit projection.

    ``entries`` are the rows that become atoms. φ̃(x) = Λ^(−1/2)Uᵀk(atoms, x); at a new atom PROS begins anew, and
    CON maps its weights and A − αI by the projection between the two spaces.
    """
    atoms, out = [], []
    M = np.zeros((0, 0))  # (coordinates, atoms)
    A, v = np.zeros((0, 0)), np.zeros(0)
    for t, target in enumerate(y):
        k = kernel(X[atoms], X[t : t + 1])[:, 0] if atoms else np.zeros(0)
        phi = M @ k
        inverse = np.linalg.inv(A) if len(v) else A
        z = float(phi @ v)
        h = np.sign(z) * max(abs(z) - bound, 0.0)
        w = v - (h / (phi @ inverse @ phi) * (inverse @ phi) if h else 0.0)
        prediction = z - h
        out.append(prediction)
        slope = loss.derivative(target, prediction)
        g = slope * phi
        A = A + (eta(t, target, prediction) if slope else 0.0) * np.outer(g, g)
        v = w - np.linalg.solve(A, g) if len(v) else w
        if t in entries:
            before, old = list(atoms), M
            atoms.append(t)
            K = kernel(X[atoms])
            eigenvalues, U = np.linalg.eigh(K)
            keep = eigenvalues > 1e-10
            M = (U[:, keep] / np.sqrt(eigenvalues[keep])).T
            if restarts or not len(v):
                A, v = alpha * np.eye(len(M)), np.zeros(len(M))
            else:
                bridge = M @ kernel(X[atoms], X[before]) @ old.T  # new coordinates of the old basis
                A = bridge @ (A - alpha * np.eye(len(old))) @ bridge.T + alpha * np.eye(len(M))
                v = bridge @ v
    return np.array(out)
