"""Online Newton steps by their definition, on explicit feature vectors: what every fast form is held against."""

from __future__ import annotations

import numpy as np

from squeak.core.seeds import SAMPLE, coins


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


def literal_pros(X, y, kernel, loss, alpha, bound, eta, entries, *, restarts, half_life=None):
    """Return PROS- or CON-KONS' predictions as printed, with the eigen embedding and an explicit projection.

    With a half-life A is multiplied by 2^(−1/half_life) after every row, and after every ⌈half_life⌉ rows what
    its regularisation has lost is added again.

    ``entries`` are the rows that become atoms. φ̃(x) = Λ^(−1/2)Uᵀk(atoms, x); at a new atom PROS begins anew, and
    CON maps its weights and A − αI by the projection between the two spaces.
    """
    atoms, out = [], []
    M = np.zeros((0, 0))  # (coordinates, atoms)
    A, v = np.zeros((0, 0)), np.zeros(0)
    fade, spell = (1.0, 1) if half_life is None else (2.0 ** (-1.0 / half_life), int(np.ceil(half_life)))
    full = alpha
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
        A, alpha = fade * A, fade * alpha
        if (t + 1) % spell == 0:
            A, alpha = A + (full - alpha) * np.eye(len(A)), full
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


def literal_scaled(X, y, make, seed, *, remembered, looks):
    """Return predictions of a stream whose scales are learned on the way, row by row as its definition says.

    ``make(rows)`` gives an inner learner whose width was learned from scaled rows. After the numbers of rows in
    ``looks`` the medians and inter-quartile ranges of a reservoir sample are taken; where they have moved, or rows
    are few, an inner learner begins anew with the sample and the latest rows.
    """
    u = coins(seed, 0, len(y), SAMPLE)
    sample, out, inner, centre, spread, restarts = [], [], None, None, None, []

    def scaled(x):
        z = np.where(np.isinf(spread), 0.0, (x - centre) / spread)
        return z / np.sqrt(1.0 + (z / 3.0) ** 2)

    for t, (x, target) in enumerate(zip(X, y, strict=True)):
        out.append(0.0 if inner is None else inner.test_then_train_one(scaled(x), target))
        if t < remembered:
            sample.append(t)
        elif int(u[t] * (t + 1)) < remembered:
            sample[int(u[t] * (t + 1))] = t
        if t + 1 not in looks:
            continue
        low, middle, high = np.percentile(X[sample], [25, 50, 75], axis=0)
        width = np.where(high > low, high - low, 1.5 * np.abs(X[sample] - middle).mean(axis=0))
        width = np.where(np.ptp(X[sample], axis=0) == 0, np.inf, width)
        if t + 1 > 128:
            with np.errstate(invalid="ignore"):
                ratio = np.where(np.isinf(width) & np.isinf(spread), 1.0, width / spread)
            shift = np.abs(middle - centre) / np.maximum(width, spread)
            if np.all((ratio <= 2) & (ratio >= 0.5) & (shift <= 2)):
                continue
            restarts.append(t + 1)
        centre, spread = middle, width
        known = sorted({*sample, *range(max(0, t + 1 - remembered), t + 1)})
        inner = make(scaled(X[sample]))
        inner.partial_fit(scaled(X[known]), y[known])
    return np.array(out), restarts
