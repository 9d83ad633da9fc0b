"""FALKON on kernel values kept in float32: half the memory and half the time of a pass, a third of a kernel's time.

Every pass uses the same rounded values K̃, so the iterations solve a neighbouring problem and no matrix loses its
definiteness. How far its solution is from that of K is known beforehand. With features z = Mᵀk rounding adds noise
of variance ε²·‖M_k‖² to feature k, ε ≈ 6·10⁻⁸·(root mean square of k). Features of ever smaller pivots have ever
larger columns M_k and ever less energy e_k = Σ w z_k²: the last ones are dropped where that costs less than their
noise. As parts of the objective (for residuals that look like noise; that is looked at afterwards),

    dropped features cost  Σ_{k ≥ r} e_k/(alpha·n),    rounding  Σ_{k < r} ε²‖M_k‖²/(e_k + alpha).

Products in float32 round three times as much. After the iterations the gradient is therefore computed once in
float64, from the values K̃ in memory, and its equation solved by the float32 iterations again (iterative
refinement), until what is left to gain is small in float64. Where the cost above is too large, or the fit leaves so
little that residuals are no noise, gradients are those of K itself, computed anew. All that works as long as the
noise beside alpha, n·ε²‖M_k‖²/(e_k + alpha), is well below 1; else float32 cannot serve.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from squeak.core.kernels import against32, block, diagonal
from squeak.core.nystrom import Features, FixedFeatures
from squeak.core.rows import n_rows, take
from squeak.core.seeds import SAMPLE, generator_at
from squeak.core.types import Array, Rows
from squeak.learners.cached import kept_in_memory
from squeak.learners.data import ArrayTraining
from squeak.learners.falkon import (
    Preconditioner,
    ProductTerm,
    RightTerm,
    Solution,
    conjugate_gradient,
    preconditioner,
)
from squeak.learners.tiles import power_of_two, sum_tiles
from squeak.trees.sums import Arrays

GAIN = 1e-6
"""The iterations end when no more than this part of the objective is left to gain, in float64 twice as much."""

COARSE = 1e-4
"""While products are in float32 they end at what these round, but not above this part."""

ACCEPTED = 6e-5
"""The part of the objective that rounded values may cost: noise, which makes no prediction better."""

CONTRACTS = 0.5
"""Noise beside alpha, as a part of it, up to which the iterations in float32 refine a solution in float64."""

EXPLAINED = 1e-3
"""An objective below this part of Σ w y² leaves residuals that are no noise: the gradient is then looked at."""

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
    reason: str = ""
    """Why float32 cannot serve; empty where it can."""


def outlook(data: ArrayTraining, features: Features, alpha: float, seed: int) -> Outlook:
    """Return what float32 would cost, from the kernel values of some rows in float64."""
    X, n = data.X, n_rows(data.X)
    largest = float(diagonal(features.kernel, X).max()) * float(diagonal(features.kernel, features.atoms).max())
    if not 1.0 / HUGE < largest < HUGE:
        return Outlook(0, np.inf, False, 0.0, "kernel values are too large or too small for float32")
    rows = drawn_rows(n, LOOKED_AT, seed, 90)
    weight = np.ones(n) if data.weight is None else np.asarray(data.weight, dtype=np.float64)
    weight = weight / weight.max()  # squares must be numbers; alpha is taken in the same unit
    unit = 1.0 if data.weight is None else float(np.max(data.weight))
    K = block(features.kernel, take(X, rows), features.atoms)
    squares = np.square(K @ features.mixing)
    some, total, alpha = weight[rows], float(weight.sum()), alpha / unit
    energy, weighted = n / len(rows) * (some @ squares), n / len(rows) * (some**2 @ squares)
    noise = EPSILON**2 * float(np.mean(np.square(K))) * np.einsum("ij,ij->j", features.mixing, features.mixing)
    beside = total * noise / (energy + alpha)
    dropped = np.append(np.cumsum(weighted[::-1])[::-1], 0.0)[1:] / (alpha * total)
    rounding = float(np.sum(weight**2)) / total**2 * np.cumsum(beside)
    allowed = np.maximum.accumulate(ROUNDED**2 * beside) <= CONTRACTS
    costs = np.where(allowed, dropped + rounding, np.inf)
    best = int(np.argmin(costs))
    exactly = not costs[best] <= ACCEPTED
    if exactly:  # as many features as the iterations can refine
        best = int(np.count_nonzero(allowed)) - 1
    if best < 0 or dropped[best] > ACCEPTED:
        words = f"alpha {alpha * unit:.3g} is too small for float32 beside the last pivots of K_MM"
        return Outlook(0, np.inf, False, 0.0, words)
    return Outlook(best + 1, float(costs[best]), exactly, ROUNDED**2 * float(rounding[best]))


def drawn_rows(n: int, count: int, seed: int, stream: int) -> Any:
    """Return the numbers of some rows, ascending, drawn without replacement; all of them where they are few."""
    if count >= n:
        return np.arange(n)
    return np.sort(generator_at(seed, SAMPLE, stream).choice(n, count, replace=False))


def leading_features(features: Features, rank: int) -> Features:
    """Return the first features, those of the largest pivots: on the span of these atoms."""
    if rank == features.rank:
        return features
    return FixedFeatures(features.kernel, features.atoms, np.ascontiguousarray(features.mixing[:, :rank]))


@dataclass(frozen=True)
class SampledGram:
    """Σ w z zᵀ over a sample, multiplied in float32: a preconditioner needs no more digits.

    An entry's rounding is a part of the root of its two diagonal entries, so that large features do not drown small
    ones.
    """

    features: Features

    def __call__(self, X: Rows, weight: Array | None) -> Array:
        """Return the sum, in tiles on the threads."""
        features, r = self.features, self.features.rank
        values_of, mixing = against32(features.kernel, features.atoms), features.mixing.astype(np.float32)

        def add(sums: Arrays, tile: slice) -> None:
            Z = values_of(take(X, tile)) @ mixing
            if weight is not None:
                Z *= np.sqrt(weight[tile]).astype(np.float32)[:, None]
            sums[0][:] += Z.T @ Z

        (total,) = sum_tiles(X, len(mixing), r, lambda: (np.zeros((r, r)),), add)
        return np.asarray(total)


PRODUCT = 0.07
"""Nanoseconds of a core for a row of a sample and a pair of features: two products in float32."""

READ = 0.7
"""Nanoseconds of a core for a kernel value in a pass, read once and used twice."""

EFFECTIVE = 0.8
"""The effective dimension as a part of the atoms: a cautious guess."""

TIMES_ATOMS = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)


def passes_with(times: float) -> float:
    """Return how many passes a preconditioner from so many rows for each atom takes.

    With s rows for effective dimension D the preconditioned system has eigenvalues (1 ± √(D/s))² as those of a
    Wishart matrix, and the objective's gap falls by D/s with every pass.
    """
    return float(np.log(1.0 / GAIN) / np.log(times / EFFECTIVE))


def sample_size(n: int, m: int) -> int:
    """Return from how many rows to make the preconditioner: where it and the passes take the least time."""
    best = min(TIMES_ATOMS, key=lambda times: times * m**3 * PRODUCT + passes_with(times) * n * m * READ)
    return min(n, int(best * m))


CHUNK = 15
"""Passes after which a preconditioner from more rows is thought of."""

REFINED = 4
"""Times that a solution is refined at most."""


@dataclass(frozen=True)
class ResidualTerm:
    """Σ w z (y − f)ᵀ and Σ w (y − f)² at some coefficients of the atoms, in float64."""

    features: Features
    coef: Array

    def __call__(self, X: Rows, pair: tuple[Any, Any]) -> Arrays:
        """Return the sums over a block, in tiles on the threads."""
        y, weight = pair
        m, outputs = self.coef.shape

        def add(sums: Arrays, tile: slice) -> None:
            values = np.asarray(block(self.features.kernel, take(X, tile), self.features.atoms), dtype=np.float64)
            missed = y[tile].reshape(len(values), -1) - values @ self.coef
            weighted = missed if weight is None else weight[tile][:, None] * missed
            sums[0][:] += values.T @ weighted
            sums[1][:] += np.einsum("ij,ij->j", weighted, missed)

        total, square = sum_tiles(X, m, 1, lambda: (np.zeros((m, outputs)), np.zeros(outputs)), add)
        return self.features.mixing.T @ total, square


@dataclass
class KeptSolution:
    """What the iterations in float32 found, or why they cannot serve."""

    features: Any = None
    beta: Any = None
    gram: Any = None
    residual: Any = None
    """Σ w (y − f)² for every output."""
    weight: float = 0.0
    n_iter: int = 0
    residuals: Any = None
    condition: float = 1.0
    left: float = np.inf
    """What is left to gain, as a part of the objective."""
    in_memory: float = 0.0
    """The part of the kernel values that was kept."""
    converged: bool = True
    words: str = ""


@dataclass
class KeptFalkon:
    """Ridge regression by conjugate gradients on kernel values in float32, for rows in memory.

    Parameters
    ----------
    alpha : float
    seed : int
        Of the rows that are drawn for the preconditioner.
    budget : float, optional
        Bytes of kernel values that are kept.
    kind : "auto", "falkon", "voronoi" or "krill"
        The preconditioner; "auto" is the dictionary's weights where they differ from atom to atom, else rows drawn.
    max_iter, tol : int, float
        Of the iterations; a residual of ``tol`` ends them too.
    callback : function of (iteration, coefficients), optional

    References
    ----------
    Rudi, Carratino, Rosasco, "FALKON", NIPS 2017. Higham, "Accuracy and Stability of Numerical Algorithms", chapter
    12, for iterative refinement.
    """

    alpha: float
    seed: int
    budget: float | None
    kind: str
    max_iter: int
    tol: float
    callback: Callable[[int, Array], bool | None] | None = None
    tick: Callable[[], object] = int
    """Called after each pass."""

    def solve(self, data: ArrayTraining, d: Any, features: Features, start: Array | None = None) -> KeptSolution:
        """Return the solution, or in its words why float32 cannot serve."""
        y = np.asarray(data.y, dtype=np.float64).reshape(n_rows(data.X), -1)
        unit = power_of_two(y)
        data = replace(data, y=y / unit)
        view = outlook(data, features, self.alpha, self.seed)
        if view.reason:
            return KeptSolution(words=view.reason)
        used = leading_features(features, view.rank)
        kept, seen = kept_in_memory(data, used, self.budget, single=True)
        right, square, weight = kept.sum(RightTerm(seen))
        fits = start is not None and len(start) >= len(right) and start.shape[1] == right.shape[1]
        start = start[: len(right)] / unit if start is not None and fits else None

        def after(step: int, beta: Array) -> bool | None:
            self.tick()
            return None if self.callback is None else self.callback(step, used.mixing @ beta * unit)

        def product(v: Array) -> Array:
            return np.asarray(kept.sum(ProductTerm(seen, v))[0])

        gain = float(np.clip(view.noise, GAIN, COARSE))
        P, drawn = self._first(kept, used, d, seen)
        found, done = None, 0
        while found is None or (not found.converged and done < self.max_iter):
            if found is not None:
                if found.n_iter < CHUNK or self.callback is not None:
                    break  # ended by the callback, or by rounding
                P, drawn = self._refreshed(kept, used, P, drawn, found)
                start = found.beta
            most = min(CHUNK if self.callback is None else self.max_iter, self.max_iter - done)
            found = conjugate_gradient(product, right, P, most, self.tol, start, after, square, gain)
            done += found.n_iter
        assert found.objective is not None
        solution = KeptSolution(used, found.beta, P.S, None, float(weight), done, found.residuals, found.condition)
        solution.in_memory = kept.X.kept / kept.X.shape[0]
        solution.left, solution.converged = float(found.left.max(initial=0.0)), found.converged
        solution.residual = np.maximum(found.objective - self.alpha * np.square(found.beta).sum(axis=0), 0.0)
        if self.callback is None and done < self.max_iter:
            exactly = view.exactly or self._shows_rounding(data, used, found, square)
            rows, own = (data, features) if exactly else (kept, seen)
            solution = self._refined(rows, own, product, P, found, solution)
            solution.words = " and gradients in float64" if exactly and not solution.words else solution.words
        solution.beta, solution.residual = solution.beta * unit, solution.residual * unit**2
        return solution

    def _first(self, kept: ArrayTraining, features: Features, d: Any, seen: Any) -> tuple[Preconditioner, int]:
        """Return the preconditioner that the iterations begin with, and from how many drawn rows it is."""
        if self.kind not in ("auto", "falkon") or (self.kind == "falkon" and not d.calibrated):
            P = preconditioner(kept, features, d, self.alpha, self.kind, self.seed, seen)
            return P, 0
        by_scores = d.calibrated and (self.kind == "falkon" or np.ptp(d.weights) > 1e-3 * d.weights.max())
        if by_scores:
            mean = 1.0 if kept.weight is None else float(np.mean(kept.weight))
            gram = SampledGram(features)(features.atoms, d.weights * mean)
            return Preconditioner.from_gram(gram, self.alpha), 0
        return self._from_rows(kept, features, sample_size(*kept.X.shape))

    def _from_rows(self, kept: ArrayTraining, features: Features, size: int) -> tuple[Preconditioner, int]:
        """Return the preconditioner from some rows, drawn at random."""
        n = kept.X.shape[0]
        rows = drawn_rows(n, size, self.seed, 91)
        weight = None if kept.weight is None else np.asarray(kept.weight)[rows]
        gram = SampledGram(features)(take(kept.X.rows, rows), weight) * (n / len(rows))
        return Preconditioner.from_gram(gram, self.alpha), len(rows)

    def _refreshed(
        self, kept: ArrayTraining, features: Features, P: Preconditioner, drawn: int, found: Solution
    ) -> tuple[Preconditioner, int]:
        """Return a preconditioner from more rows where that costs less than the passes still to come."""
        n, m = kept.X.shape
        root = np.sqrt(found.condition)
        rate = np.log((root + 1.0) / max(root - 1.0, 1e-6))
        to_come = 0.5 * np.log(max(float(found.left.max()), 2 * GAIN) / GAIN) / rate
        more = min(n, max(4 * drawn, sample_size(n, m)))
        if more > drawn and more * float(features.rank) ** 2 * PRODUCT < 0.5 * to_come * n * m * READ:
            return self._from_rows(kept, features, more)
        return P, drawn

    def _shows_rounding(self, data: ArrayTraining, features: Features, found: Solution, square: Array) -> bool:
        """Tell whether rounded values are felt: little is left to explain, or predictions differ from float64's."""
        assert found.objective is not None
        rows = drawn_rows(n_rows(data.X), LOOKED_AT, self.seed, 92)
        X, coef = take(data.X, rows), features.mixing @ found.beta
        exact = block(features.kernel, X, features.atoms) @ coef
        missed = np.square(exact - against32(features.kernel, features.atoms)(X).astype(np.float64) @ coef)
        weight = np.ones(len(rows)) if data.weight is None else np.asarray(data.weight)[rows]
        cost = n_rows(data.X) / len(rows) * (weight @ missed)
        return bool(np.any((found.objective < EXPLAINED * square) | (cost > ACCEPTED * found.objective)))

    def _refined(
        self,
        data: ArrayTraining,
        features: Any,
        product: Callable[[Array], Array],
        P: Preconditioner,
        found: Solution,
        solution: KeptSolution,
    ) -> KeptSolution:
        """Return the solution after gradients in float64, each one pass, and iterations in float32 on them."""
        r, before = solution.features.rank, np.inf
        for _ in range(REFINED + 1):
            coef = features.mixing[:, :r] @ solution.beta
            gradient, residual = data.sum(ResidualTerm(features, coef))
            gradient[:r] -= self.alpha * solution.beta
            objective = residual + self.alpha * np.square(solution.beta).sum(axis=0)
            inside = np.square(P.half(gradient[:r])).sum(axis=0) / found.lowest
            left = inside + np.square(gradient[r:]).sum(axis=0) / self.alpha
            share = float(np.max(left / np.maximum(objective, np.finfo(np.float64).tiny), initial=0.0))
            solution.left, solution.residual = share, residual
            if share <= 2 * GAIN:
                return replace(solution, converged=True)
            if not share <= CONTRACTS * before:
                break
            before = share
            found = conjugate_gradient(product, gradient[:r], P, CHUNK, self.tol, None, None, objective, GAIN / 4)
            solution.beta = solution.beta + found.beta
            solution.n_iter += found.n_iter
        return KeptSolution(words=f"rounding in float32 leaves {solution.left:.1g} of the objective to gain")
