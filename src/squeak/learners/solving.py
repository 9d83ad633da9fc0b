"""The solvers that ridge regression and squared-loss classification share: exact, direct, FALKON."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from squeak.core import engine
from squeak.core.dictionary import Dictionary
from squeak.core.kernels import block, diagonal, gram
from squeak.core.nystrom import Features, TriangularFeatures
from squeak.core.rows import n_rows, same_rows, take
from squeak.core.seeds import draw_seed
from squeak.core.types import Array, Rows
from squeak.learners.base import DictionaryLearner
from squeak.learners.cached import kept_in_memory
from squeak.learners.data import ArrayTraining, SourceTraining, Training, centred, near_mean
from squeak.learners.falkon import CONDITION_WARNING, ProductTerm, conjugate_gradient, preconditioner
from squeak.learners.normal import UNKNOWN, NormalEquations, tile_rows
from squeak.learners.tuning import alpha_grid, searched_kernel, wants_search

DIRECT_UP_TO = 4000
"""Atoms up to which the normal equations beat the iterations (one product of n·m² at full speed)."""

MISSED = 1e-8
"""The part of the targets by which the solution of an exact system may miss its equation, and so predictions."""


class RidgeLearner(DictionaryLearner):
    """The solvers that ridge regression and squared-loss classification share."""

    alpha: Any
    solver: str
    regularised: bool
    preconditioner: str
    max_iter: int
    tol: float
    memory_budget: float | None
    warm_start: bool
    _before: tuple[Any, Array]
    dual_coef_: Array
    intercept_: Array
    alpha_: float
    condition_: float | None
    callback: Callable[[int, Array], bool | None] | None

    def _check_ridge_parameters(self) -> None:
        self._check_choice()
        if self.alpha != "auto":
            check_alpha(self.alpha, " or 'auto'")
        elif self.solver == "falkon":
            raise ValueError("alpha='auto' is chosen from the normal equations: solver='direct' or 'auto'")
        if self.solver not in ("auto", "direct", "falkon"):
            raise ValueError(f"solver must be 'auto', 'direct' or 'falkon'; it is {self.solver!r}")
        if self.preconditioner not in ("auto", "falkon", "voronoi", "krill"):
            raise ValueError(
                f"preconditioner must be 'auto', 'falkon', 'voronoi' or 'krill'; it is {self.preconditioner!r}"
            )

    def _features(self, d: Dictionary) -> Features:
        if self.regularised:
            return TriangularFeatures(d.kernel, d.atoms, d.weights, d.ridge)
        return TriangularFeatures(d.kernel, d.atoms)

    def _dictionary_of(self, data: Training) -> Dictionary:
        """Return the dictionary of a fit, with a width that is searched for where the kernel asks for it."""
        kernel = self._own_kernel()
        if self.dictionary is None and wants_search(kernel):
            kernel = searched_kernel(kernel, data, lambda y: y, draw_seed(self.random_state), self.verbose)
        ridge = None if self.alpha == "auto" else float(self.alpha)
        return self._choose_dictionary(data, kernel, ridge)

    def _solve(self, data: Training, d: Dictionary) -> Array:
        """Set ``solver_`` and what it reports; return the coefficients of the atoms, shape (m, outputs)."""
        chosen = self.solver
        if chosen == "auto":
            small = len(d) <= DIRECT_UP_TO or not data.repeatable or self.alpha == "auto"
            chosen = "direct" if small else "falkon"
        if chosen == "direct" and self.alpha != "auto" and not self.regularised:
            chosen = "exact" if self._is_exact(data, d) else chosen
        self.solver_, self.n_iter_, self.condition_ = chosen, 1, None
        self.__dict__.pop("residuals_", None)  # of a fit before
        if self.alpha == "auto":
            return self._automatic(data, d)
        self.alpha_ = float(self.alpha)
        if chosen == "exact":
            return self._exact(data, self._hold(self._features(d)))
        if chosen == "falkon":
            return self._falkon(data, d, self._hold(self._features(d)))
        features = self._hold(self._features(d))
        equations = self._equations(data, features, self.alpha_)
        self._gram = equations.gram
        return features.mixing @ equations.solve(self.alpha_)

    def _equations(self, data: Training, features: Features, alpha: float) -> NormalEquations:
        """Return the normal equations; those of a source less the targets' mean, where there is an intercept."""
        if isinstance(data, ArrayTraining) or not self._has_intercept():
            return NormalEquations.sum(data, features, alpha)
        data, shift = near_mean(data)
        equations, mean = NormalEquations.sum(data, features, alpha).centred()
        assert shift.by is not None
        self.intercept_ = shift.by + mean
        return equations

    def _has_intercept(self) -> bool:
        """Tell whether targets are learned less their mean: taken off before, or in the sums of a source."""
        return bool(getattr(self, "fit_intercept", True))

    def _is_exact(self, data: Training, d: Dictionary) -> bool:
        """Tell whether every row is an atom, with weights that alpha can be divided by."""
        if not isinstance(data, ArrayTraining) or not same_rows(data.X, d.atoms):
            return False
        with np.errstate(over="ignore"):
            return data.weight is None or bool(np.isfinite(float(self.alpha) / data.weight).all())

    def _hold(self, features: Features) -> Features:
        self._feature_map, self.rank_ = features, features.rank
        return features

    def _automatic(self, data: Training, d: Dictionary) -> Array:
        """Choose alpha by generalised cross-validation, from the sums of the one pass; return the coefficients."""
        mean = float(diagonal(d.kernel, d.atoms).mean())
        size = data.n_at_most or UNKNOWN if data.weight is None else float(np.sum(data.weight))
        features = self._hold(self._features(d))
        equations = self._equations(data, features, float(alpha_grid(mean, size)[0]))
        spectrum, alphas = equations.spectrum(), alpha_grid(mean, equations.weight)
        self.alpha_ = min(alphas.tolist(), key=spectrum.gcv)
        self._gram = equations.gram
        return features.mixing @ spectrum.solve(self.alpha_)

    def _exact(self, data: Training, features: Features) -> Array:
        """Return (K + alpha·W⁻¹)⁻¹y: every row is an atom, so this is kernel ridge regression itself.

        Rounding in K weighs more the smaller alpha is. Where the equation is missed by it (or the matrix is no
        longer definite: repeated rows and a tiny alpha), the normal equations on the rows' span are solved, which
        are stable.
        """
        from scipy.linalg import cho_factor, cho_solve

        assert isinstance(data, ArrayTraining)
        K = gram(features.kernel, data.X)
        Z = K @ features.mixing
        weight = np.ones(len(K)) if data.weight is None else data.weight
        self._gram = (Z * weight[:, None]).T @ Z
        y = data.y.reshape(len(K), -1).astype(np.float64)
        A = K.copy()
        A[np.diag_indices_from(A)] += self.alpha_ / weight
        try:
            coef = np.asarray(cho_solve(cho_factor(A, lower=True, overwrite_a=True, check_finite=False), y))
        except np.linalg.LinAlgError:
            coef = np.full(y.shape, np.inf)
        with np.errstate(invalid="ignore", over="ignore"):
            missed = np.abs(y - K @ coef - self.alpha_ / weight[:, None] * coef).max(axis=0)
        if (missed <= MISSED * np.abs(y).max(axis=0)).all():
            return coef
        self.solver_ = "direct"
        rounding = float(np.finfo(np.float64).eps * np.trace(K))
        if self.alpha_ < rounding * float(weight.max()):
            warnings.warn(
                f"alpha {self.alpha_:.3g} is lost in the rounding errors of the kernel's values (about "
                f"{rounding:.2g}), so the system was solved on the rows' numerical span: use a larger "
                "alpha, or scale the columns",
                ConvergenceWarning,
                stacklevel=4,
            )
        return features.mixing @ NormalEquations.sum(data, features).solve(self.alpha_)

    def _falkon(self, data: Any, d: Dictionary, features: Features) -> Array:
        from tqdm.auto import tqdm

        if not data.repeatable:
            raise ValueError("FALKON reads the rows many times: an iterator cannot be; use solver='direct'")
        if isinstance(data, SourceTraining):
            if self._has_intercept():
                data, self.intercept_ = centred(data)
            data = data.persist()
        data, seen = kept_in_memory(data, features, self.memory_budget)
        P = preconditioner(data, features, d, self.alpha_, self.preconditioner, draw_seed(self.random_state), seen)
        (right,) = data.sum(ProductTerm(seen, None, targets=True))
        bar = tqdm(total=self.max_iter, desc="FALKON", unit=" passes", disable=not self.verbose)

        def after(step: int, beta: Array) -> bool | None:
            bar.update(1)
            return None if self.callback is None else self.callback(step, features.mixing @ beta)

        start = None
        if self.warm_start and getattr(self, "_before", (None, None))[0] is d:
            start = self._before[1] if self._before[1].shape == right.shape else None
        with bar:
            found = conjugate_gradient(
                lambda v: data.sum(ProductTerm(seen, v))[0], right, P, self.max_iter, self.tol, start, after
            )
        self.n_iter_, self.condition_, self.residuals_ = found.n_iter, found.condition, found.residuals
        self._gram, self._before = P.S, (d, found.beta)
        if not found.converged and self.callback is None and found.condition > CONDITION_WARNING:
            warnings.warn(
                f"FALKON ended after {found.n_iter} passes with residual {found.residuals[-1]:.2g}; the "
                f"preconditioned system has condition {found.condition:.0f}: more atoms, weights by leverage "
                "scores, or a larger alpha bring it down",
                ConvergenceWarning,
                stacklevel=3,
            )
        return features.mixing @ found.beta

    def _values(self, X: Rows) -> Array:
        """Return k(X, atoms)·coef for checked rows, in tiles on the threads."""
        d, coef = self.dictionary_, self.dual_coef_.reshape(len(self.dictionary_), -1)
        out = np.empty((n_rows(X), coef.shape[1]))

        def fill(tile: slice) -> None:
            out[tile] = block(d.kernel, take(X, tile), d.atoms) @ coef

        engine.map_ordered(fill, engine.tiles(n_rows(X), tile_rows(len(d))))
        out += self.intercept_
        return out


def check_alpha(alpha: Any, otherwise: str = "") -> float:
    """Return alpha as a float, or raise with what else it may be."""
    if isinstance(alpha, bool) or not isinstance(alpha, int | float | np.number):
        raise TypeError(f"alpha must be a positive number{otherwise}; it is {alpha!r}")
    if not (alpha > 0 and np.isfinite(alpha)):
        raise ValueError(f"alpha must be positive and finite; it is {alpha!r}")
    return float(alpha)
