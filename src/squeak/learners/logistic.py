"""Logistic regression on features: Newton's method, each step by FALKON's conjugate gradients.

Minimises Σ w ℓ(y, f(x)) + (alpha/2)·‖f‖², f(x) = offset + z(x)ᵀB. One output with labels 0 and 1: ℓ = log(1 + eᶠ)
− y·f. Several classes: ℓ = log Σ_c e^{f_c} − f_y. A Newton step solves H·D = −gradient with

    gradient = Σ w z (p − y)ᵀ + alpha·B,    H·V = Σ w z (p ∘ (v − ⟨p, v⟩))ᵀ + alpha·V,  v = zᵀV

(p(1 − p)·v for one output). The atoms' own p make the preconditioner, a block for each output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, softmax

from squeak.core import engine
from squeak.core.kernels import block
from squeak.core.nystrom import Features
from squeak.core.rows import take
from squeak.core.types import Array, Rows
from squeak.learners.falkon import Preconditioner
from squeak.learners.tiles import in_precision_of, sum_tiles
from squeak.trees.sums import Arrays

NEWTON_STEPS = 50
CG_STEPS = 40
SUFFICIENT = 1e-4
"""The part of the predicted decrease that a step must reach (Armijo's rule)."""


def probabilities(F: Array) -> Array:
    """Return p from the outputs: the logistic function of one, the softmax of several."""
    return np.asarray(expit(F) if F.shape[1] == 1 else softmax(F, axis=1))


def losses(F: Array, Y: Array) -> Array:
    """Return the loss of every row; no overflow, however large the outputs."""
    if F.shape[1] == 1:
        return np.asarray((np.logaddexp(0.0, F) - Y * F)[:, 0])
    return np.asarray(-np.sum(Y * log_softmax(F, axis=1), axis=1))


def curved(p: Array, v: Array) -> Array:
    """Return the second derivative of the loss times v: p(1 − p)·v, or p ∘ (v − ⟨p, v⟩)."""
    if p.shape[1] == 1:
        return np.asarray(p * (1.0 - p) * v)
    return np.asarray(p * (v - np.sum(p * v, axis=1, keepdims=True)))


@dataclass(frozen=True)
class _Pass:
    """A sum over rows of z times something computed from their outputs."""

    features: Features
    B: Array
    offset: Array

    def _sums(self, X: Rows, pair: tuple[Any, Any], extra: Array | None) -> Arrays:
        y, weight = pair
        mixing = self.features.mixing
        inner = mixing @ self.B if extra is None else mixing @ np.hstack([self.B, extra])
        outputs = self.B.shape[1]

        def add(sums: Arrays, tile: slice) -> None:
            values = block(self.features.kernel, take(X, tile), self.features.atoms)
            found = in_precision_of(values, inner)
            F, w = found[:, :outputs] + self.offset, 1.0 if weight is None else weight[tile][:, None]
            if extra is None:
                Y = y[tile].reshape(len(F), -1)
                sums[1][:] += np.sum(np.ravel(w) * losses(F, Y))
                right = probabilities(F) - Y
            else:
                right = curved(probabilities(F), found[:, outputs:])
            sums[0][:] += in_precision_of(values.T, w * right)

        total, value = sum_tiles(X, len(mixing), 1, lambda: (np.zeros((len(mixing), outputs)), np.zeros(1)), add)
        return mixing.T @ total, value


@dataclass(frozen=True)
class GradientTerm(_Pass):
    """Σ w z (p − y)ᵀ and Σ w ℓ."""

    def __call__(self, X: Rows, pair: tuple[Any, Any]) -> Arrays:
        """Return the sums over a block, in tiles on the threads."""
        return self._sums(X, pair, None)


@dataclass(frozen=True)
class HessianTerm(_Pass):
    """Σ w z (second derivative · zᵀV)ᵀ."""

    V: Array

    def __call__(self, X: Rows, pair: tuple[Any, Any]) -> Arrays:
        """Return the sum over a block, in tiles on the threads."""
        return self._sums(X, pair, self.V)[:1]


@dataclass
class NewtonResult:
    """What Newton's method found."""

    B: Array
    n_iter: int
    passes: int
    gradient: float
    """The norm of the gradient over that at zero."""
    converged: bool
    first: float = 0.0
    """The norm of the gradient at zero."""


def newton(
    data: Any,
    features: Any,
    own: Features,
    weights: Array,
    alpha: float,
    offset: Array,
    tol: float,
    start: NewtonResult | None = None,
) -> NewtonResult:
    """Minimise the penalised logistic loss from zero, to a gradient of ``tol`` times the first.

    Or from where another run ended, such as one on float32 kernel values: a gradient of ``tol`` times its first.

    Parameters
    ----------
    data : rows, targets (0/1, or one column a class) and weights
    features : features of the rows as ``data`` has them
    own : Features
        Of the atoms, for the preconditioner.
    weights : array of shape (m,)
        How many rows each atom stands for.
    alpha : float
    offset : array of shape (outputs,)
        What f is added to: the log odds of the classes; one output for two classes, else one each.
    tol : float
    start : NewtonResult, optional

    References
    ----------
    Marteau-Ferey, Bach, Rudi, "Globally convergent Newton methods for ill-conditioned generalized self-concordant
    losses", NeurIPS 2019 (logistic FALKON).
    """
    with engine.single_blas():
        Z = block(own.kernel, own.atoms, own.atoms) @ own.mixing
    B = np.zeros((own.rank, len(offset))) if start is None else start.B
    gradient, value = data.sum(GradientTerm(features, B, offset))
    gradient = gradient + alpha * B
    objective, passes = (
        float(value[0]) + 0.5 * alpha * float(np.sum(B**2)),
        1 if start is None else start.passes + 1,
    )
    first = float(np.linalg.norm(gradient)) if start is None else start.first
    for step in range(1, NEWTON_STEPS + 1):
        size = float(np.linalg.norm(gradient))
        if size <= tol * first:
            return NewtonResult(B, step, passes, size / max(first, 1e-300), True, first)
        P = _preconditioners(Z, weights, probabilities(Z @ B + offset), alpha)
        enough = min(0.1, np.sqrt(size / first))
        D, used = _direction(data, features, B, offset, gradient, P, alpha, enough)
        passes += used
        slope, length = float(np.sum(gradient * D)), 1.0
        while True:
            trial = B + length * D
            G, value = data.sum(GradientTerm(features, trial, offset))
            passes += 1
            there = float(value[0]) + 0.5 * alpha * float(np.sum(trial**2))
            if there <= objective + SUFFICIENT * length * slope + 1e-12 * abs(objective):
                break
            length *= 0.5
            if length < 1e-8:  # rounding decides: this is the minimum as far as can be told
                return NewtonResult(B, step, passes, size / first, size <= 1e-3 * first, first)
        B, gradient, objective = trial, G + alpha * trial, there
    size = float(np.linalg.norm(gradient)) / max(first, 1e-300)
    return NewtonResult(B, NEWTON_STEPS, passes, size, size <= tol, first)


def _preconditioners(Z: Array, weights: Array, p: Array, alpha: float) -> list[Preconditioner]:
    """Return one for each output, from the atoms' own second derivatives."""
    found = []
    for output in range(p.shape[1]):
        root = np.sqrt(weights * p[:, output] * (1.0 - p[:, output]))
        scaled = Z * root[:, None]
        found.append(Preconditioner.from_gram(scaled.T @ scaled, alpha))
    return found


def _direction(
    data: Any,
    features: Any,
    B: Array,
    offset: Array,
    gradient: Array,
    P: list[Preconditioner],
    alpha: float,
    tol: float,
) -> tuple[Array, int]:
    """Return the Newton direction to a relative tolerance, and the passes it took."""

    def precondition(R: Array) -> Array:
        return np.column_stack([p.back(p.half(R[:, [k]]))[:, 0] for k, p in enumerate(P)])

    D, R = np.zeros_like(gradient), -gradient
    U = precondition(R)
    V, product = U.copy(), float(np.sum(R * U))
    first, passes = product, 0
    while passes < CG_STEPS and product > tol**2 * first:
        (HV,) = data.sum(HessianTerm(features, B, offset, V))
        HV = HV + alpha * V
        passes += 1
        curvature = float(np.sum(V * HV))
        if curvature <= 0:
            break
        a = product / curvature
        D, R = D + a * V, R - a * HV
        U = precondition(R)
        fresh = float(np.sum(R * U))
        V, product = U + fresh / product * V, fresh
    return (D if passes else U), passes
