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


class DenseNystrom:
    """K̃ = C (S K_MM S + ridge·I)⁺ Cᵀ, C = k(·, atoms)·S, between any rows: every learner on atoms is one on K̃."""

    def __init__(self, kernel, atoms: np.ndarray, weights: np.ndarray | None = None, ridge: float = 0.0) -> None:
        self.kernel, self.atoms = kernel, np.asarray(atoms, dtype=float)
        self.root = np.ones(len(atoms)) if weights is None else np.sqrt(weights)
        middle = self.root[:, None] * self.exact(self.atoms, self.atoms) * self.root + ridge * np.eye(len(atoms))
        values, vectors = np.linalg.eigh(middle)
        keep = values > 1e-11 * values[-1]
        self.mixing = self.root[:, None] * vectors[:, keep] / np.sqrt(values[keep])

    def exact(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return np.asarray(dense_kernel(self.kernel, X, Y), dtype=float)

    def diag(self, X: np.ndarray) -> np.ndarray:
        return np.array([self.exact(x[None], x[None])[0, 0] for x in X])

    def features(self, X: np.ndarray) -> np.ndarray:
        return self.exact(X, self.atoms) @ self.mixing

    def __call__(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return self.features(X) @ self.features(Y).T


def dense_ridge(K, X, Y, w, alpha, T, intercept):
    """Return f(T), the deviation at T and the mean: f(t) = ȳ + K̃_tn (K̃_nn + alpha·W⁻¹)⁻¹ (y − ȳ)."""
    mean = (w @ Y) / w.sum() if intercept else np.zeros(Y.shape[1])
    A = K(X, X) + alpha * np.diag(1 / w)
    across = K(T, X)
    values = mean + across @ np.linalg.solve(A, Y - mean)
    variance = K.diag(T) - np.einsum("ij,ji->i", across, np.linalg.solve(A, across.T))
    return values, np.sqrt(np.maximum(variance, 0)), mean


def dense_deviation(K, X, Y, w, alpha, rank, std, intercept):
    """Return σ̂·√(1 + std²/alpha) for every output, σ̂² = Σ w (y − f)²/(max(Σ w, rank) − tr(K̃(K̃ + alpha·W⁻¹)⁻¹))."""
    mean = (w @ Y) / w.sum() if intercept else np.zeros(Y.shape[1])
    G = K(X, X)
    hat = np.linalg.solve(G + alpha * np.diag(1 / w), G).T
    residual = w @ np.square(Y - mean - hat @ (Y - mean))
    noise = np.sqrt(residual / (max(w.sum(), rank) - np.trace(hat)))
    return np.sqrt(1 + std**2 / alpha)[:, None] * noise


def dense_scores_left_out(without, X, Y, w, alpha, intercept):
    """Return (y_i − f₋ᵢ(x_i))/√(1 + s₋ᵢ²/alpha) and f₋ᵢ(x_i), one fit without the row for each row.

    ``without(i)`` is K̃ without the atom that row i may be; the mean stays.
    """
    mean = (w @ Y) / w.sum() if intercept else np.zeros(Y.shape[1])
    scores, values = np.zeros(Y.shape), np.zeros(Y.shape)
    for i in range(len(X)):
        rest = np.flatnonzero(np.arange(len(X)) != i)
        values[[i]], std, _ = dense_ridge(without(i), X[rest], Y[rest] - mean, w[rest], alpha, X[[i]], False)
        values[i] += mean
        scores[i] = (Y[i] - values[i]) / np.sqrt(1 + std**2 / alpha)
    return scores, values


def dense_leave_one_out(K, X, Y, w, alpha, intercept):
    """Return the mean weighted squared error at each row of the fit to all others, one fit for each row."""
    mean = (w @ Y) / w.sum() if intercept else np.zeros(Y.shape[1])
    G, total = K(X, X), 0.0
    for i in range(len(X)):
        rest = np.flatnonzero(np.arange(len(X)) != i)
        A = G[np.ix_(rest, rest)] + alpha * np.diag(1 / w[rest])
        total += w[i] * np.sum((Y[i] - mean - G[i, rest] @ np.linalg.solve(A, Y[rest] - mean)) ** 2)
    return total / w.sum()


def dense_logistic(K, X, codes, w, alpha, T):
    """Return f(T) of penalised logistic regression from the classes' log odds, by plain Newton steps."""
    from scipy.special import softmax

    Z, outputs = K.features(X), codes.shape[1]
    part = (w @ codes) / w.sum()
    offset = np.log(part) - (0.0 if outputs > 1 else np.log(1 - part))
    B = np.zeros((Z.shape[1], outputs))

    def chances(F):
        return softmax(F, axis=1) if outputs > 1 else 1 / (1 + np.exp(-F))

    for _ in range(50):
        p = chances(Z @ B + offset)
        gradient = Z.T @ (w[:, None] * (p - codes)) + alpha * B
        H = np.zeros((B.size, B.size))
        for z, row, weight in zip(Z, p, w, strict=True):
            inner = np.diag(row) - np.outer(row, row)
            H += weight * np.kron(np.outer(z, z), inner)
        H += alpha * np.eye(B.size)
        step = np.linalg.solve(H, gradient.ravel()).reshape(B.shape)
        B = B - step
        if np.abs(step).max() < 1e-13 * max(np.abs(B).max(), 1e-300):
            break
    return K.features(T) @ B + offset


def dense_components(K, X, w, centre, T, count):
    """Return the eigenvalues of the (centred) W^½ K̃ W^½ and the scores of T, their signs open."""
    weight = w.sum()
    G, across = K(X, X), K(T, X)
    if centre:
        mean = G @ w / weight
        level = w @ mean / weight
        across = across - mean - (across @ w / weight)[:, None] + level
        G = G - mean - mean[:, None] + level
    root = np.sqrt(w)
    values, vectors = np.linalg.eigh(root[:, None] * G * root)
    values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
    return values, across @ (root[:, None] * vectors / np.sqrt(values))


def dense_correlations(first, second, X, Y, w, alpha, T, count):
    """Return the singular values of (S_xx + alpha·I)^(−½) S_xy (S_yy + alpha·I)^(−½), and f(T), its signs open."""
    A, B = first.features(X), second.features(Y)
    shift = (w @ A) / w.sum()
    A, B = A - shift, B - (w @ B) / w.sum()

    def inverse_root(S):
        values, vectors = np.linalg.eigh(S + alpha * np.eye(len(S)))
        return vectors / np.sqrt(values) @ vectors.T

    left, right = inverse_root(A.T @ (w[:, None] * A)), inverse_root(B.T @ (w[:, None] * B))
    U, values, _ = np.linalg.svd(left @ (A.T @ (w[:, None] * B)) @ right)
    return values[:count], (first.features(T) - shift) @ left @ U[:, :count] * np.sqrt(w.sum())


def dense_inertia(K, X, w, labels):
    """Return Σ w ‖φ(x) − c‖², each c the mean of its cluster's projections: Σ w k(x, x) − Σ_C ‖Σ_C w φ̃‖²/W_C."""
    G, total = K(X, X), float(w @ K.diag(X))
    for label in np.unique(labels):
        part = np.where(labels == label, w, 0.0)
        total -= part @ G @ part / part.sum()
    return total


def dense_descent(K, Y, w, step, steps):
    """Return the coefficients of gradient descent on ½ Σ w (y − K c)²/Σ w, from zero."""
    coef = np.zeros_like(Y)
    for _ in range(steps):
        coef = coef - step / (K.diagonal().max() * w.sum()) * w[:, None] * (K @ coef - Y)
    return coef


def dense_waves(features, X):
    """Return φ(x) = height·cos(x·frequencies + offsets), in extended precision."""
    phase = X.astype(np.longdouble) @ features.frequencies.astype(np.longdouble) + features.offsets
    return np.asarray(features.height * np.cos(phase), dtype=float)


def dense_steps(Z, slope, w, mean, bound, batch, passes, decay, tail):
    """Return the coefficients after gradient steps over batches of rows in their order, the last ones averaged."""
    coef, t = np.zeros((Z.shape[1], len(mean))), 0
    for _ in range(passes):
        kept = []
        for part in (slice(start, start + batch) for start in range(0, len(Z), batch)):
            t += 1
            coef = coef - t**-decay / bound / batch * Z[part].T @ (
                w[part, None] * slope(Z[part] @ coef + mean, part)
            )
            kept.append(coef)
    return np.mean(kept[-int(np.ceil(tail * len(kept))) :], axis=0) if tail else coef
