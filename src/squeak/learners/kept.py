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

from squeak.core.kernels import against32, block
from squeak.core.nystrom import Features
from squeak.core.rows import n_rows, width_of
from squeak.core.types import Array
from squeak.learners.cached import GivenFeatures, KernelValues, kept_in_memory, reckoned_budget
from squeak.learners.data import ArrayTraining
from squeak.learners.falkon import (
    Preconditioner,
    ProductTerm,
    ResidualTerm,
    Solution,
    check_weights,
    conjugate_gradient,
    preconditioner,
)
from squeak.learners.rounding import (
    ACCEPTED,
    CONTRACTS,
    LOOKED_AT,
    LOST,
    Outlook,
    drawn_part,
    leading_features,
    outlook,
)
from squeak.learners.sampled import (
    GAIN,
    PRODUCT,
    READ,
    SampledTerm,
    computes_in_float32,
    sample_size,
    value_cost,
)
from squeak.learners.tiles import power_of_two

COARSE = 1e-4
"""While products are in float32 they end at what these round, but not above this part."""

EXPLAINED = 1e-3
"""An objective below this part of Σ w y² leaves residuals that are no noise: the gradient is then looked at."""

CHUNK = 15
"""Passes after which a preconditioner from more rows is thought of."""

REFINED = 4
"""Times that a solution is refined at most."""


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
class _System:
    """What all iterations share: rows as their kernel values, features of both, outlook and preconditioner."""

    kept: ArrayTraining
    seen: Any
    used: Features
    view: Outlook
    P: Preconditioner
    drawn: int
    lowest: float = 1.0
    """The least eigenvalue of the preconditioned system that was seen."""

    def product(self, v: Array) -> Array:
        """Return Σ w z (zᵀ v): one pass."""
        return np.asarray(self.kept.sum(ProductTerm(self.seen, v))[0])


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
    values: KernelValues | None = None
    """Kernel values of these rows that are in memory already."""

    def solve(self, data: ArrayTraining, d: Any, features: Features, start: Array | None = None) -> KeptSolution:
        """Return the solution, or in its words why float32 cannot serve."""
        y = np.asarray(data.y, dtype=np.float64).reshape(n_rows(data.X), -1)
        unit = power_of_two(y)
        data = replace(data, y=y / unit)
        view = outlook(data, features, self.alpha, self.seed)
        if view.reason:
            return KeptSolution(words=view.reason)
        used = leading_features(features, view.rank)
        kept, seen = kept_in_memory(data, used, self.budget, single=True, values=self.values)
        if self.kind == "falkon":
            check_weights(d)
        try:
            P, drawn, beta = self._first(kept, used, d, seen)
        except ValueError as error:  # not definite
            return KeptSolution(words=str(error))
        if start is not None and len(start) >= len(beta) and start.shape[1] == beta.shape[1]:
            beta = start[: len(beta)] / unit
        system = _System(kept, seen, used, view, P, drawn)
        found, beta, done = self._iterated(system, beta, unit)
        assert found.objective is not None
        residual = np.maximum(found.objective - self.alpha * np.square(beta).sum(axis=0), 0.0)
        weight = float(n_rows(data.X)) if data.weight is None else float(np.sum(data.weight))
        solution = KeptSolution(used, beta, None, residual, weight, done, found.residuals, found.condition)
        solution.in_memory = kept.X.kept / kept.X.shape[0]
        solution.left, solution.converged = float(np.nan_to_num(found.left).max(initial=0.0)), found.converged
        if self.callback is None and (found.converged or done < self.max_iter):
            exactly = view.exactly or self._is_felt(data, features, view, beta, found.objective)
            solution = self._refined(system, lambda beta: self._at(kept, seen, beta), solution, 2 * GAIN, exactly)
            if exactly and solution.beta is not None:
                solution = self._exactly(system, data, features, solution)
        solution.gram = system.P.S
        if solution.beta is not None and len(solution.beta) > used.rank:
            gram = np.diag(view.energy)
            gram[: used.rank, : used.rank] = system.P.S
            solution.features, solution.gram = features, gram
        if solution.beta is not None:
            with np.errstate(over="ignore"):
                solution.beta, solution.residual = solution.beta * unit, solution.residual * unit * unit
        return solution

    def _at(self, data: ArrayTraining, features: Any, beta: Array, dtype: Any = np.float64) -> tuple[Array, Array]:
        """Return half the negative gradient at some coefficients, and the objective: one pass."""
        gradient, residual = data.sum(ResidualTerm(features, features.mixing @ beta, dtype))
        return gradient - self.alpha * beta, residual + self.alpha * np.square(beta).sum(axis=0)

    def _first(
        self, kept: ArrayTraining, features: Features, d: Any, seen: Any
    ) -> tuple[Preconditioner, int, Array]:
        """Return the preconditioner to begin with, from how many drawn rows it is, and their own solution."""
        nothing = np.zeros((features.rank, kept.y.shape[1]))
        if self.kind not in ("auto", "falkon"):
            return preconditioner(kept, features, d, self.alpha, self.kind, self.seed, seen), 0, nothing
        by_scores = d.calibrated and (self.kind == "falkon" or np.ptp(d.weights) > 1e-3 * d.weights.max())
        if by_scores:
            mean = 1.0 if kept.weight is None else float(np.mean(kept.weight))
            gram, _ = SampledTerm(features)(features.atoms, (None, d.weights * mean))
            return Preconditioner.from_gram(gram, self.alpha), 0, nothing
        n, m = kept.X.shape
        anew = 1.0 - min(1.0, reckoned_budget(self.budget) / (4.0 * n * m))  # what is free now must not decide
        cost = value_cost(width_of(kept.X.rows) or 1, computes_in_float32(features.kernel, kept.X.rows))
        return self._from_rows(kept, features, sample_size(n, m, anew * cost))

    def _from_rows(self, kept: ArrayTraining, features: Features, size: int) -> tuple[Preconditioner, int, Array]:
        """Return the preconditioner from some rows, drawn at random, and the solution on these rows."""
        some = drawn_part(replace(kept, X=kept.X.rows), size, self.seed, 91)
        drawn = n_rows(some.X)
        gram, moment = (kept.X.shape[0] / drawn * array for array in some.sum(SampledTerm(features)))
        P = Preconditioner.from_gram(gram, self.alpha)
        return P, drawn, P.back(P.half(moment))

    def _iterated(self, system: _System, beta: Array, unit: Array) -> tuple[Solution, Array, int]:
        """Return what iterations in float32 find from some coefficients on, where they end, and their number."""
        gradient, objective = self._at(system.kept, system.seen, beta, np.float32)
        gain = float(np.clip(system.view.noise, GAIN, COARSE))
        found, done = None, 0

        def after(step: int, change: Array) -> bool | None:
            self.tick()
            if self.callback is None:
                return None
            return self.callback(step, system.used.mixing @ (beta + change) * unit)

        while found is None or (not found.converged and done < self.max_iter):
            if found is not None:
                if found.n_iter < CHUNK or self.callback is not None:
                    break  # ended by the callback, or by rounding
                self._refresh(system, found)
            most = min(CHUNK if self.callback is None else self.max_iter, self.max_iter - done)
            change = None if found is None else found.beta
            found = conjugate_gradient(
                system.product, gradient, system.P, most, self.tol, change, after, objective, gain
            )
            done += found.n_iter
        system.lowest = found.lowest
        return found, beta + found.beta, done

    def _refresh(self, system: _System, found: Solution) -> None:
        """Make the preconditioner from more rows where that costs less than the passes still to come."""
        n, m = system.kept.X.shape
        root = np.sqrt(found.condition)
        rate = np.log((root + 1.0) / max(root - 1.0, 1e-6))
        to_come = 0.5 * np.log(max(float(found.left.max()), 2 * GAIN) / GAIN) / rate
        more = min(n, max(4 * system.drawn, sample_size(n, m)))
        cost = more * float(system.used.rank) ** 2 * PRODUCT
        if more > system.drawn and cost < 0.5 * to_come * n * m * READ:
            system.P, system.drawn, _ = self._from_rows(system.kept, system.used, more)

    def _is_felt(
        self, data: ArrayTraining, features: Features, view: Outlook, beta: Array, objective: Array
    ) -> bool:
        """Tell whether float32 is felt after all: by predictions of some rows in float64, and by their residuals.

        Of features that were dropped the gradient b is what residuals have in common with them; if these are noise,
        Σ b_k²/(e_k + alpha) is Σ_i w_i² z_ik² r_i²/(e_k + alpha), and what is more is structure that was lost.
        Where hardly anything is left to explain, no residual is noise.
        """
        n, r = n_rows(data.X), view.rank
        square = np.square(data.y).sum(axis=0) if data.weight is None else data.weight @ np.square(data.y)
        if np.any(objective < EXPLAINED * square):
            return True
        coef = features.mixing[:, :r] @ beta
        some = drawn_part(data, LOOKED_AT, self.seed, 92)
        rounded = against32(features.kernel, features.atoms)(some.X).astype(np.float64)
        missed = np.square((block(features.kernel, some.X, features.atoms) - rounded) @ coef)
        cost = n / len(missed) * (missed.sum(axis=0) if some.weight is None else some.weight @ missed)
        if r == features.rank:
            return bool(np.any(cost > ACCEPTED * objective))
        some = drawn_part(data, max(LOOKED_AT, n // 8), self.seed, 93)
        times = n / n_rows(some.X)
        seen = times * some.sum(ResidualTerm(features, coef))[0][r:]
        spread = view.energy[r:, None] + self.alpha
        noise = objective / max(1.0, float(n if data.weight is None else np.sum(data.weight)))
        expected = times * noise * np.sum(view.weighted[r:, None] / spread, axis=0)
        lost = np.sum(seen**2 / spread, axis=0) - 2.0 * expected
        return bool(np.any((cost > ACCEPTED * objective) | (lost > LOST * objective)))

    def _exactly(
        self, system: _System, data: ArrayTraining, features: Features, solution: KeptSolution
    ) -> KeptSolution:
        """Return the solution after gradients of exact values, with those features that were dropped as well.

        At β + δ the gradient is that at β less (Σ w z zᵀ + alpha·I) δ. The change δ is small, and rounded values
        are good enough for its product if their noise beside alpha, squared, times what there is to gain, is less
        than what may be left: a single pass in float64 then serves all rounds, else each round takes one.
        """
        view, r = system.view, system.view.rank
        seen, nothing = GivenFeatures(features.mixing), replace(system.kept, y=np.zeros_like(system.kept.y))
        begun = np.zeros((features.rank, solution.beta.shape[1]))
        begun[:r] = solution.beta
        first, objective = self._at(data, features, begun)
        each, least = np.square(view.each)[:, None], np.maximum(objective, np.finfo(np.float64).tiny)
        unseen = float(each[:r].max()) * self._left(system, first, objective)[0]
        unseen += float(np.max(np.sum((each * first**2)[r:] / self._spread(system, first), axis=0) / least))

        def at(beta: Array) -> tuple[Array, Array]:
            change = beta - begun
            if not change.any():
                return first, objective
            if 2.0 * unseen > ACCEPTED or view.each.max() > 1.0:
                return self._at(data, features, beta)
            lost, square = self._at(nothing, seen, change)
            return first + lost, objective + square - 2.0 * np.einsum("ij,ij->j", first, change)

        solution = self._refined(system, at, replace(solution, beta=begun), ACCEPTED)
        solution.words = solution.words or " and gradients computed in float64"
        return solution

    def _spread(self, system: _System, gradient: Array) -> Array:
        """Return the diagonal of the system for the features that were dropped."""
        return np.asarray(self.alpha + system.view.energy[system.view.rank : len(gradient), None])

    def _left(self, system: _System, gradient: Array, objective: Array) -> tuple[float, float]:
        """Return what is left to gain, as parts of the objective: by features in use, and by those dropped."""
        r, least = system.view.rank, np.maximum(objective, np.finfo(np.float64).tiny)
        used = np.square(system.P.half(gradient[:r])).sum(axis=0) / system.lowest
        dropped = np.sum(gradient[r:] ** 2 / self._spread(system, gradient), axis=0)
        return float(np.max(used / least, initial=0.0)), float(np.max(dropped / least, initial=0.0))

    def _refined(
        self,
        system: _System,
        at: Callable[[Array], tuple[Array, Array]],
        solution: KeptSolution,
        enough: float,
        once: bool = False,
    ) -> KeptSolution:
        """Return the solution after gradients in float64, each one pass, and iterations in float32 on them.

        It ends when no more than the part ``enough`` of the objective is left to gain, as a gradient tells, or as
        the round before lets expect; or after one round, if another gradient follows anyway. If there are
        coefficients of features that were dropped, these are solved for as well: alpha is most of their part. A
        round then halves what is left at least, or it is the last one, and the part ``LOST`` may be left after it.
        """
        r, before, beta = system.view.rank, np.inf, solution.beta.copy()
        for _ in range(REFINED + 1):
            gradient, objective = at(beta)
            share, dropped = self._left(system, gradient, objective)
            if share + dropped <= enough:
                residual = np.maximum(objective - self.alpha * np.square(beta).sum(axis=0), 0.0)
                return replace(solution, beta=beta, residual=residual, left=share + dropped, converged=True)
            if not share + dropped <= CONTRACTS * before:
                break
            before = share + dropped
            gain = max(enough / 4, 0.1 * system.view.beside**2 * share)  # no more than float32 can tell
            found = conjugate_gradient(
                system.product, gradient[:r], system.P, CHUNK, self.tol, None, None, objective, gain
            )
            assert found.objective is not None
            beta[:r] += found.beta
            beta[r:] += gradient[r:] / self._spread(system, gradient)
            solution.n_iter += found.n_iter
            system.lowest = min(system.lowest, found.lowest)
            expected = 2.0 * system.view.beside**2 * share + float(np.nan_to_num(found.left).max(initial=0.0))
            if dropped > 0.0:  # what the features in use have in common with these was left aside
                expected = max(expected, CONTRACTS * before)
            if once or expected <= (enough if dropped == 0.0 else LOST):
                least = found.objective - np.sum(gradient[r:] ** 2 / self._spread(system, gradient), axis=0)
                residual = np.maximum(least - self.alpha * np.square(beta).sum(axis=0), 0.0)
                return replace(solution, beta=beta, residual=residual, left=expected, converged=True)
        return KeptSolution(words=f"rounding in float32 leaves {share + dropped:.1g} of the objective to gain")
