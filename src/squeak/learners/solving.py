"""The solvers that ridge regression and squared-loss classification share: exact, direct, and FALKON twice."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import field
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from squeak.core.checks import check_between, check_choice, check_positive, check_whole
from squeak.core.constructors import parameters
from squeak.core.kernels import diagonal, gram
from squeak.core.nystrom import Features, TriangularFeatures
from squeak.core.progress import progress
from squeak.core.rows import same_rows
from squeak.core.seeds import draw_seed
from squeak.core.types import Array, Rows
from squeak.learners.base import DictionaryLearner
from squeak.learners.cached import kept_in_memory, rows_in_memory
from squeak.learners.choice import DIRECT_UP_TO, faster_solver
from squeak.learners.data import ArrayTraining, SourceTraining, Training, centred, near_mean
from squeak.learners.falkon import CONDITION_WARNING, ProductTerm, RightTerm, conjugate_gradient, preconditioner
from squeak.learners.kept import KeptFalkon
from squeak.learners.kept_path import Path, kept_path
from squeak.learners.metric import gradient_product
from squeak.learners.normal import UNKNOWN, NormalEquations, residual_sum
from squeak.learners.rows import all_or_nothing
from squeak.learners.tiles import atom_values
from squeak.learners.tuning import alpha_grid, asked_width, searched_kernel, wants_search
from squeak.learners.warning import first_rows, warn_if_alpha_at_edge, warn_if_width_at_edge
from squeak.samplers.dictionary import Dictionary

ITERATED = ("falkon", "kept", "streamed")
"""Solvers by conjugate gradients, which hold no sums that rows could be added to."""

MISSED = 1e-8
"""The part of the targets by which the solution of an exact system may miss its equation, and so predictions."""


@parameters
class RidgeLearner(DictionaryLearner):
    """The solvers that ridge regression and squared-loss classification share."""

    alpha: float | str = field(default=1.0, kw_only=False)
    solver: str = "auto"
    regularised: bool = False
    preconditioner: str = "auto"
    max_iter: int = 50
    tol: float = 1e-7
    memory_budget: float | None = None
    warm_start: bool = False
    callback: Callable[[int, Array], bool | None] | None = None
    _before: tuple[Any, Array] = field(init=False)
    dual_coef_: Array = field(init=False)
    intercept_: Array = field(init=False)
    alpha_: float = field(init=False)
    solver_: str = field(init=False)
    solver_reason_: str = field(init=False)
    condition_: float | None = field(init=False)
    _gram: Array = field(init=False)
    _sums: tuple[Array, float] | None = field(init=False)  # Σ w (y − f)² for every output, and Σ w

    @property
    def relevance_(self) -> Array:
        """How much each of the user's columns matters to the model: shares that add up to 1.

        The mean over atoms of Σ over outputs of (∂f/∂x_j)², times the variance of x_j; features of one column of a
        table, such as its categories, count together. Only for kernels with a gradient and dense rows.
        """
        d = self.dictionary_
        if not isinstance(d.atoms, np.ndarray):
            raise AttributeError("relevance_ is known for dense rows only")
        try:
            slopes = gradient_product(d.kernel, d.atoms, self.dual_coef_.reshape(len(d), -1), d.atoms, full=False)
        except TypeError as error:
            raise AttributeError(f"relevance_ needs the gradient: {error}") from None
        found = slopes * np.var(np.asarray(d.atoms, dtype=np.float64), axis=0)
        if d.preprocessing is not None:
            found = np.array([found[span].sum() for _, span in d.preprocessing.spans()])
        return np.asarray(found / (found.sum() or 1.0))

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        every: float = 30.0,
    ) -> Self:
        """Learn from all rows.

        Parameters
        ----------
        X : array, CSR, table, or row source
            A row source carries its targets, is read block by block, and on the workers of a cluster where a Dask
            client is active; one that can be read only once is learned in one pass (``partial_fit``).
        y : array of shape (n,) or, for a regression, (n, outputs)
            The classes of a classifier are numbers, text or truth values.
        sample_weight : array of shape (n,), optional
        checkpoint : path, optional
            Keep the state of a fit on a row source in this file, replaced as the fit goes on: the dictionary's
            stream, then the sums of every pass. If the process dies, the same call goes on from there and ends in
            the same bits. A file that holds an unfinished fit of other parameters or other data is refused. It
            needs a number as ``random_state``, and is not for a cluster.
        every : float
            Seconds between two writes of the checkpoint; 0 writes after every block.

        Returns
        -------
        self
        """
        self._check_ridge_parameters()
        if checkpoint is None:
            self._fit(X, y, sample_weight)
        else:
            from squeak.learners.checkpoint import fit_kept

            fit_kept(self, self._fit, X, y, sample_weight, checkpoint, every)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, run: Any = None) -> None:
        """Learn from all rows; ``run`` keeps what is learned in a checkpoint."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def _check_ridge_parameters(self) -> None:
        self._check_choice()
        if self.alpha != "auto":
            check_positive("alpha", self.alpha, " or 'auto'")
        elif self.solver == "falkon":
            raise ValueError("alpha='auto' needs solver='direct', 'kept' or 'auto'")
        check_choice("solver", self.solver, "auto", "direct", "falkon", "kept")
        check_choice("preconditioner", self.preconditioner, "auto", "falkon", "voronoi", "krill")
        check_whole("max_iter", self.max_iter)
        check_between("tol", self.tol, 0.0, np.inf)

    def _features(self, d: Dictionary) -> Features:
        return (
            TriangularFeatures(d.kernel, d.atoms, d.weights, d.ridge) if self.regularised else super()._features(d)
        )

    def _dictionary_of(self, data: Training) -> Dictionary:
        """Return the dictionary of a fit, with a width that is searched for where the kernel asks for it."""
        kernel = self._own_kernel()
        if self.dictionary is None and wants_search(kernel):
            asked, seed = kernel, draw_seed(self.random_state)
            looked_at = first_rows(data) if asked_width(asked) == "auto" else data
            kernel = searched_kernel(asked, looked_at, lambda y: y, seed, self.verbose)
            if isinstance(looked_at, ArrayTraining) and asked.get_params(deep=False).get("length_scale") == "auto":
                warn_if_width_at_edge(asked, kernel, looked_at)
        ridge = None if self.alpha == "auto" else float(self.alpha)
        return self._choose_dictionary(data, kernel, ridge)

    def _solve(self, data: Training, d: Dictionary) -> Array:
        """Set ``solver_`` and what it reports; return the coefficients of the atoms, shape (m, outputs)."""
        chosen, self.solver_reason_ = self._chosen(data, d)
        self.solver_, self.n_iter_, self.condition_ = chosen, 1, None
        self.__dict__.pop("residuals_", None)  # of a fit before
        if chosen == "kept" and isinstance(data, SourceTraining):
            data = self._loaded(data)
        if self.alpha == "auto":
            coef = self._kept_path(data, d) if self.solver_ == "kept" else None
            return self._automatic(data, d) if coef is None else coef
        self.alpha_ = float(self.alpha)
        features = self._hold(self._features(d))
        if chosen == "exact":
            return self._exact(data, features)
        if self.solver_ in ITERATED:
            coef = self._iterated(data, d, features)
            if coef is not None:
                return coef
            self.solver_ = "direct"
        equations = self._equations(data, features, self.alpha_)
        return features.mixing @ self._direct(equations)

    def _chosen(self, data: Training, d: Dictionary) -> tuple[str, str]:
        """Return which solver is used, and why."""
        chosen, why = self.solver, "asked for"
        if chosen == "auto":
            chosen, why = "direct", "alpha='auto' is chosen from the sums of one pass"
            if not data.repeatable:
                why = "the rows can be read only once"
            elif self.alpha != "auto" and isinstance(data, ArrayTraining):
                chosen, why = faster_solver(data.X, len(d), d.kernel, self.memory_budget)
            elif self.alpha != "auto":
                chosen = "direct" if len(d) <= DIRECT_UP_TO else "kept"
                why = f"rows that are read from files: one pass up to {DIRECT_UP_TO:,} atoms"
        if chosen == "direct" and self.alpha != "auto" and not self.regularised and self._is_exact(data, d):
            return "exact", "every row is an atom"
        return chosen, why

    def _loaded(self, data: SourceTraining) -> Training:
        """Return the rows of a source in memory, less the targets' mean; where they do not fit, say so."""
        mean = np.zeros(1)
        shifted: Any = data
        here = data.repeatable and data.client is None
        if here and self._has_intercept():
            shifted, mean = centred(data)
        loaded = rows_in_memory(shifted, self.memory_budget) if here else None
        if loaded is None:
            self.solver_ = "direct" if self.alpha == "auto" else "falkon"
            why = "do not fit in memory, and are read in every pass"
            self.solver_reason_ += f"; the rows {why if data.client is None else 'stay with the workers'}"
            return data
        self.intercept_ = mean
        self.solver_reason_ += "; the rows were read into memory"
        return loaded

    def _kept_path(self, data: Any, d: Dictionary) -> Array | None:
        """Choose alpha by iterations on kept values, and solve; None, and say why, where float32 cannot serve."""
        features = self._hold(self._features(d))
        size = float(data.n) if data.weight is None else float(np.sum(data.weight))
        alphas = alpha_grid(float(diagonal(d.kernel, d.atoms).mean()), size)
        path = kept_path(data, features, alphas, self.memory_budget, draw_seed(self.random_state))
        if isinstance(path, str):
            self.solver_, self.solver_reason_ = "direct", f"{self.solver_reason_}; but {path}, so float64 was used"
            return None
        self.alpha_ = path.alpha
        warn_if_alpha_at_edge(self.alpha_, alphas, path.unexplained, lambda: np.inf)
        coef = self._iterated(data, d, features, path)
        if coef is None:
            self.solver_ = "direct"
        return coef

    def _iterated(self, data: Any, d: Dictionary, features: Features, path: Path | None = None) -> Array | None:
        """Return the coefficients by conjugate gradients; None where the normal equations are to be solved."""
        if self.solver_ == "kept":
            coef = self._kept(data, d, features, path)
            if coef is not None or path is not None or len(d) <= DIRECT_UP_TO:
                return coef
            self.solver_ = "falkon"
        return self._falkon(data, d, features)

    def _direct(self, equations: NormalEquations) -> Array:
        """Solve the equations at ``alpha_``, and keep what deviations need; return β."""
        beta = equations.solve(self.alpha_)
        self._gram, self._sums = equations.gram, (equations.residual(beta, self.alpha_), equations.weight)
        return beta

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
        whole = float(np.sum(spectrum.square)) / spectrum.weight or np.inf
        warn_if_alpha_at_edge(
            self.alpha_,
            alphas,
            spectrum.gcv(self.alpha_) / whole,
            lambda: equations.half().spectrum().gcv(self.alpha_) / whole,
        )
        self._gram, self._sums = equations.gram, (spectrum.residual(self.alpha_), equations.weight)
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
            residual = np.sum(np.square(self.alpha_ * coef) / weight[:, None], axis=0)
            self._sums = (residual, float(weight.sum()))
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
        return features.mixing @ self._direct(NormalEquations.sum(data, features))

    def _kept(self, data: Any, d: Dictionary, features: Features, path: Path | None = None) -> Array | None:
        """Solve on kernel values in float32; return None, and say why, where those cannot serve."""
        with self._bar() as bar:
            solver = KeptFalkon(
                self.alpha_,
                draw_seed(self.random_state),
                self.memory_budget,
                self.preconditioner,
                self.max_iter,
                self.tol,
                self.callback,
                lambda: bar.update(1),
                None if path is None else path.values,
            )
            found = solver.solve(data, d, features, self._start(d) if path is None else path.beta)
        if found.beta is None or (self.callback is None and not found.converged):
            slow = f"{found.n_iter} passes left {found.left:.1g} of the objective to gain"
            self.solver_reason_ += f"; but {found.words or slow}, so float64 was used"
            return None
        self.solver_ = "kept" if found.in_memory == 1.0 else "streamed"
        self.solver_reason_ += f"; {found.in_memory:.0%} of the kernel values kept in float32{found.words}"
        self._hold(found.features)
        self.n_iter_, self.condition_, self.residuals_ = found.n_iter, found.condition, found.residuals
        before = np.zeros((features.rank, found.beta.shape[1]))
        before[: len(found.beta)] = found.beta
        self._gram, self._before, self._sums = found.gram, (d, before), (found.residual, found.weight)
        return np.asarray(found.features.mixing @ found.beta)

    def _bar(self) -> Any:
        return progress("FALKON", "passes", self.max_iter, self.verbose)

    def _start(self, d: Dictionary) -> Array | None:
        """Return what the fit before ended with, where this one is to begin there."""
        return self._before[1] if self.warm_start and getattr(self, "_before", (None, None))[0] is d else None

    def _falkon(self, data: Any, d: Dictionary, features: Features) -> Array:
        if not data.repeatable:
            raise ValueError("FALKON reads the rows many times: an iterator cannot be; use solver='direct'")
        if isinstance(data, SourceTraining):
            if self._has_intercept():
                data, self.intercept_ = centred(data)
            data = data.persist()
        data, seen = kept_in_memory(data, features, self.memory_budget)
        P = preconditioner(data, features, d, self.alpha_, self.preconditioner, draw_seed(self.random_state), seen)
        right, square, weight = data.sum(RightTerm(seen))
        start = self._start(d)
        start = start if start is not None and start.shape == right.shape else None
        with self._bar() as bar:

            def after(step: int, beta: Array) -> bool | None:
                bar.update(1)
                return None if self.callback is None else self.callback(step, features.mixing @ beta)

            found = conjugate_gradient(
                lambda v: data.sum(ProductTerm(seen, v))[0], right, P, self.max_iter, self.tol, start, after
            )
        self.n_iter_, self.condition_, self.residuals_ = found.n_iter, found.condition, found.residuals
        self._gram, self._before = P.S, (d, found.beta)
        self._sums = (residual_sum(square, right, found.beta, self.alpha_), float(weight))
        if not found.converged and self.callback is None and found.condition > CONDITION_WARNING:
            warnings.warn(
                f"FALKON ended after {found.n_iter} passes with residual {found.residuals[-1]:.2g}; the "
                f"preconditioned system has condition {found.condition:.0f}: more atoms, weights by leverage "
                "scores, or a larger alpha bring it down",
                ConvergenceWarning,
                stacklevel=4,
            )
        return features.mixing @ found.beta

    def _values(self, X: Rows) -> Array:
        """Return k(X, atoms)·coef + intercept for checked rows, shape (n, outputs)."""
        coef = self.dual_coef_.reshape(len(self.dictionary_), -1)
        return atom_values(X, self.dictionary_, coef, -self.intercept_)
