"""FALKON on kernel values kept in float32: half the memory and half the time of a pass, a third of a kernel's time.

Every pass uses the same rounded values, so the iterations solve a neighbouring problem and no matrix loses its
definiteness; :mod:`squeak.learners.rounding` tells beforehand how far its solution is from that of exact values.
After the iterations the gradient is computed once in float64, from the values in memory, and its equation solved by
the float32 iterations again (iterative refinement), until what is left to gain is small in float64. Where rounded
values would cost too much, or residuals turn out to be no noise, gradients are those of exact values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from squeak.core.kernels import against, against32, block
from squeak.core.nystrom import Features
from squeak.core.rows import n_rows, take
from squeak.core.types import Array, Rows
from squeak.learners.cached import kept_in_memory
from squeak.learners.data import ArrayTraining
from squeak.learners.falkon import (
    Preconditioner,
    ProductTerm,
    RightTerm,
    Solution,
    check_weights,
    conjugate_gradient,
    preconditioner,
)
from squeak.learners.rounding import (
    ACCEPTED,
    CONTRACTS,
    LOOKED_AT,
    Outlook,
    drawn_part,
    leading_features,
    outlook,
)
from squeak.learners.tiles import few_rows, power_of_two, sum_tiles
from squeak.trees.sums import Arrays

GAIN = 1e-6
"""The iterations end when no more than this part of the objective is left to gain, in float64 twice as much."""

EXACTLY = 1e-5
"""The part that may be left in the end where gradients are those of exact values."""

COARSE = 1e-4
"""While products are in float32 they end at what these round, but not above this part."""

EXPLAINED = 1e-3
"""An objective below this part of Σ w y² leaves residuals that are no noise: the gradient is then looked at."""


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
                Z *= np.sqrt(weight[tile] / unit).astype(np.float32)[:, None]
            sums[0][:] += Z.T @ Z

        unit = 1.0 if weight is None else float(np.max(weight))
        (total,) = sum_tiles(X, len(mixing), r, lambda: (np.zeros((r, r)),), add)
        return np.asarray(total * unit)


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
        values_of, few = against(self.features.kernel, self.features.atoms), getattr(X, "tile", None) or few_rows(m)

        def add(sums: Arrays, tile: slice) -> None:
            for start in range(tile.start, tile.stop, few):
                some = slice(start, min(start + few, tile.stop))
                values = np.asarray(values_of(take(X, some)), dtype=np.float64)
                missed = y[some].reshape(len(values), -1) - values @ self.coef
                weighted = missed if weight is None else weight[some][:, None] * missed
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
        if self.kind == "falkon":
            check_weights(d)
        try:
            P, drawn = self._first(kept, used, d, seen)
        except ValueError as error:  # not definite
            return KeptSolution(words=str(error))
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
        if self.callback is None and (found.converged or done < self.max_iter):
            exactly = view.exactly or self._is_felt(data, features, view, found, square)
            solution = self._refined(kept, seen, view, product, P, found.lowest, solution, 2 * GAIN)
            if exactly and solution.beta is not None:
                solution = self._refined(data, features, view, product, P, found.lowest, solution, EXACTLY)
                solution.words = solution.words or " and gradients computed in float64"
        if solution.beta is not None and len(solution.beta) > used.rank:
            gram = np.diag(view.energy)
            gram[: used.rank, : used.rank] = P.S
            solution.features, solution.gram = features, gram
        if solution.beta is not None:
            with np.errstate(over="ignore"):
                solution.beta, solution.residual = solution.beta * unit, solution.residual * unit * unit
        return solution

    def _first(self, kept: ArrayTraining, features: Features, d: Any, seen: Any) -> tuple[Preconditioner, int]:
        """Return the preconditioner that the iterations begin with, and from how many drawn rows it is."""
        if self.kind not in ("auto", "falkon"):
            return preconditioner(kept, features, d, self.alpha, self.kind, self.seed, seen), 0
        by_scores = d.calibrated and (self.kind == "falkon" or np.ptp(d.weights) > 1e-3 * d.weights.max())
        if by_scores:
            mean = 1.0 if kept.weight is None else float(np.mean(kept.weight))
            gram = SampledGram(features)(features.atoms, d.weights * mean)
            return Preconditioner.from_gram(gram, self.alpha), 0
        return self._from_rows(kept, features, sample_size(*kept.X.shape))

    def _from_rows(self, kept: ArrayTraining, features: Features, size: int) -> tuple[Preconditioner, int]:
        """Return the preconditioner from some rows, drawn at random."""
        some = drawn_part(replace(kept, X=kept.X.rows), size, self.seed, 91)
        drawn = n_rows(some.X)
        gram = SampledGram(features)(some.X, some.weight) * (kept.X.shape[0] / drawn)
        return Preconditioner.from_gram(gram, self.alpha), drawn

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

    def _is_felt(
        self, data: ArrayTraining, features: Features, view: Outlook, found: Solution, square: Array
    ) -> bool:
        """Tell whether float32 is felt after all: by predictions of some rows in float64, and by their residuals.

        Of features that were dropped the gradient b is what residuals have in common with them; if these are noise,
        Σ b_k²/(e_k + alpha) is Σ_i w_i² z_ik² r_i²/(e_k + alpha), and what is more is structure that was lost.
        Where hardly anything is left to explain, no residual is noise.
        """
        n, r = n_rows(data.X), view.rank
        assert found.objective is not None
        if np.any(found.objective < EXPLAINED * square):
            return True
        coef = features.mixing[:, :r] @ found.beta
        some = drawn_part(data, LOOKED_AT, self.seed, 92)
        rounded = against32(features.kernel, features.atoms)(some.X).astype(np.float64)
        missed = np.square((block(features.kernel, some.X, features.atoms) - rounded) @ coef)
        cost = n / len(missed) * (missed.sum(axis=0) if some.weight is None else some.weight @ missed)
        some = drawn_part(data, max(LOOKED_AT, n // 32), self.seed, 93)
        times = n / n_rows(some.X)
        seen = times * some.sum(ResidualTerm(features, coef))[0][r:]
        spread = view.energy[r:, None] + self.alpha
        noise = found.objective / max(1.0, float(n if data.weight is None else np.sum(data.weight)))
        expected = times * noise * np.sum(view.weighted[r:, None] / spread, axis=0)
        lost = np.sum(seen**2 / spread, axis=0) - 2.0 * expected
        return bool(np.any(np.maximum(cost, lost) > ACCEPTED * found.objective))

    def _refined(
        self,
        data: ArrayTraining,
        features: Any,
        view: Outlook,
        product: Callable[[Array], Array],
        P: Preconditioner,
        lowest: float,
        solution: KeptSolution,
        enough: float,
    ) -> KeptSolution:
        """Return the solution after gradients in float64, each one pass, and iterations in float32 on them.

        It ends when no more than the part ``enough`` of the objective is left to gain.

        If ``features`` are all of them, those that were dropped are solved for as well: alpha is most of their
        part of the system.
        """
        r, before = view.rank, np.inf
        beta = np.zeros((features.rank, solution.beta.shape[1]))
        beta[:r], spread = solution.beta, self.alpha + view.energy[r : features.rank, None]
        for _ in range(REFINED + 1):
            gradient, residual = data.sum(ResidualTerm(features, features.mixing @ beta))
            gradient -= self.alpha * beta
            objective = residual + self.alpha * np.square(beta).sum(axis=0)
            left = np.square(P.half(gradient[:r])).sum(axis=0) / lowest
            left += np.sum(gradient[r:] ** 2 / spread, axis=0)
            share = float(np.max(left / np.maximum(objective, np.finfo(np.float64).tiny), initial=0.0))
            if share <= enough:
                return replace(solution, beta=beta, residual=residual, left=share, converged=True)
            if not share <= CONTRACTS * before:
                break
            before = share
            gain = max(GAIN / 4, 0.1 * view.beside**2 * share)  # no more than float32 can tell
            found = conjugate_gradient(product, gradient[:r], P, CHUNK, self.tol, None, None, objective, gain)
            beta[:r] += found.beta
            beta[r:] += gradient[r:] / spread
            solution.n_iter += found.n_iter
            lowest = min(lowest, found.lowest)
            expected = 2.0 * share * view.beside**2 + float(found.left.max(initial=0.0))
            if features.rank == r and found.objective is not None and expected <= enough / 2:
                residual = np.maximum(found.objective - self.alpha * np.square(beta).sum(axis=0), 0.0)
                return replace(solution, beta=beta, residual=residual, left=expected, converged=True)
        return KeptSolution(words=f"rounding in float32 leaves {share:.1g} of the objective to gain")
