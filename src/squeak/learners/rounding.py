"""What float32 costs ridge regression on a dictionary, known before it is solved.

Kernel values K̃ that are rounded once make a neighbouring problem. With features z = Mᵀk rounding adds noise of
variance ε²·‖M_k‖² to feature k, ε ≈ 6·10⁻⁸·(root mean square of k). Features of ever smaller pivots have ever
larger columns M_k and ever less energy e_k = Σ w z_k²: the last ones are dropped where that costs less than their
noise. As parts of the objective, for residuals that look like noise,

    dropped features cost  Σ_{k ≥ r} e_k/(alpha·n),    rounding  Σ_{k < r} ε²‖M_k‖²/(e_k + alpha).

Products in float32 round three times as much. Iterations with them still lead to a solution in float64, if
gradients are computed in float64 from time to time, as long as the noise beside alpha, n·ε²‖M_k‖²/(e_k + alpha),
is well below 1. If it is not, float32 cannot serve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from squeak.core.kernels import block, diagonal
from squeak.core.nystrom import Features, FixedFeatures
from squeak.core.rows import n_rows, take
from squeak.core.seeds import SAMPLE, generator_at
from squeak.learners.data import ArrayTraining

ACCEPTED = 2e-5
"""The part of the objective that rounded values may cost: noise, which makes no prediction better."""

LOST = 1e-4
"""The part that features which were dropped may have cost, as rows left aside tell after the iterations."""

FEW_DROPPED = 1e-3
"""The same of features that were dropped and are solved for afterwards, with gradients of exact values."""

CONTRACTS = 0.5
"""Noise beside alpha, as a part of it, up to which the iterations in float32 refine a solution in float64."""

EPSILON = 6e-8
"""The error of a kernel value in float32, as a part of their root mean square: exponent and rounding."""

ROUNDED = 2e-7 / EPSILON
"""What products in float32 add to it."""

LOOKED_AT = 512
"""Rows whose kernel values are computed in float64 to see what float32 would cost."""

HUGE = 1e30
"""k(x, x)·k(z, z) from which float32 has no room for products."""


@dataclass(frozen=True)
class Outlook:
    """What float32 would cost on some rows: how many features to use, and whether gradients must be those of K."""

    rank: int
    cost: float
    """Of rounded values, as a part of the objective."""
    exactly: bool
    noise: float = 0.0
    """Of rounded products, as a part of the objective."""
    beside: float = 0.0
    """Of rounded products, beside alpha: by so much a solution is nearer after each round of refinement."""
    energy: Any = None
    """Σ w z² of every feature, estimated."""
    weighted: Any = None
    """Σ w² z²."""
    each: Any = None
    """Noise of rounded values beside alpha, for every feature."""
    reason: str = ""
    """Why float32 cannot serve; empty where it can."""


def outlook(data: ArrayTraining, features: Features, alpha: float, seed: int) -> Outlook:
    """Return what float32 would cost, from the kernel values of some rows in float64."""
    X, n = data.X, n_rows(data.X)
    largest = float(diagonal(features.kernel, X).max()) * float(diagonal(features.kernel, features.atoms).max())
    if not 1.0 / HUGE < largest < HUGE:
        return Outlook(0, np.inf, False, reason="kernel values are too large or too small for float32")
    rows = drawn_rows(n, LOOKED_AT, seed, 90)
    weight = np.ones(n) if data.weight is None else np.asarray(data.weight, dtype=np.float64)
    weight = weight / weight.max()  # squares must be numbers; alpha is taken in the same unit
    unit = 1.0 if data.weight is None else float(np.max(data.weight))
    K = block(features.kernel, take(X, rows), features.atoms)
    squares = np.square(K @ features.mixing)
    some, total, alpha = weight[rows], float(weight.sum()), alpha / unit
    energy, weighted = n / len(rows) * (some @ squares), n / len(rows) * (some**2 @ squares)
    error = EPSILON**2 * float(np.mean(np.square(K))) * np.einsum("ij,ij->j", features.mixing, features.mixing)
    beside = total * error / (energy + alpha)
    dropped = np.append(np.cumsum(weighted[::-1])[::-1], 0.0)[1:] / (alpha * total)
    rounding = float(np.sum(weight**2)) / total**2 * np.cumsum(beside)
    allowed = np.maximum.accumulate(ROUNDED**2 * beside) <= CONTRACTS
    costs = np.where(allowed, dropped + rounding, np.inf)
    best = int(np.argmin(costs))
    exactly = not costs[best] <= ACCEPTED
    if exactly:  # as many features as the iterations can refine
        best = int(np.count_nonzero(allowed)) - 1
    if best < 0 or dropped[best] > (FEW_DROPPED if exactly else ACCEPTED):
        words = f"alpha {alpha * unit:.3g} is too small for float32 beside the last pivots of K_MM"
        return Outlook(0, np.inf, False, reason=words)
    noise = ROUNDED**2 * float(rounding[best])
    most = ROUNDED**2 * float(beside[: best + 1].max())
    return Outlook(best + 1, float(costs[best]), exactly, noise, most, energy * unit, weighted * unit**2, beside)


def drawn_rows(n: int, count: int, seed: int, stream: int) -> Any:
    """Return the numbers of some rows, ascending, drawn without replacement; all of them where they are few."""
    if count >= n:
        return np.arange(n)
    return np.sort(generator_at(seed, SAMPLE, stream).choice(n, count, replace=False))


def drawn_part(data: ArrayTraining, count: int, seed: int, stream: int) -> ArrayTraining:
    """Return some of the rows, with their targets and weights."""
    rows = drawn_rows(n_rows(data.X), count, seed, stream)
    weight = None if data.weight is None else np.asarray(data.weight)[rows]
    return ArrayTraining(take(data.X, rows), data.y[rows], weight)


def leading_features(features: Features, rank: int) -> Features:
    """Return the first features, those of the largest pivots: on the span of these atoms."""
    if rank == features.rank:
        return features
    return FixedFeatures(features.kernel, features.atoms, np.ascontiguousarray(features.mixing[:, :rank]))
