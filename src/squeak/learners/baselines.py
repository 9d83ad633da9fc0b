"""Baselines: other ways to make kernel regression affordable, that the literature compares with."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from squeak.core import state
from squeak.core.checks import check_between, check_positive, check_whole
from squeak.core.cholesky import NotPositiveDefiniteError, inverse_factor
from squeak.core.constructors import parameters
from squeak.core.kernels import gram, resolve
from squeak.core.leverage import weighted_gram
from squeak.core.nystrom import TriangularFeatures
from squeak.core.rows import n_rows, take
from squeak.core.saved import Layout
from squeak.core.seeds import ORDER, SAMPLE, draw_seed, generator_at
from squeak.core.types import Array
from squeak.data import PredictsBlocks, by_blocks
from squeak.learners.base import DictionaryLearner, landmarks
from squeak.learners.cached import kept_in_memory
from squeak.learners.falkon import ProductTerm, preconditioner
from squeak.learners.rows import KernelLearner, all_or_nothing
from squeak.learners.tiles import atom_values

_COEFFICIENTS: Layout = {"dual_coef_": state.numbers("m", "outputs?", low=-state.HUGE, high=state.HUGE)}


class _Expansion(MultiOutputMixin, RegressorMixin, PredictsBlocks):
    """f(x) = Σ_j c_j k(x, x_j) over the atoms of ``dictionary_``."""

    dual_coef_: Array
    dictionary_: Any
    _rows_for: Any

    def _keep(self, coef: Array, y: Array) -> None:
        self.dual_coef_ = coef[:, 0] if y.ndim == 1 else coef

    @by_blocks
    def predict(self, X: Any) -> Array:
        """Return f(x) for every row.

        Parameters
        ----------
        X : array, CSR, table, or row source

        Returns
        -------
        array of shape (n,) or (n, outputs)
        """
        rows, d = self._rows_for(X), self.dictionary_
        values = atom_values(rows, d, self.dual_coef_.reshape(len(d), -1))
        return values[:, 0] if self.dual_coef_.ndim == 1 else values


@parameters
class DivideAndConquerRidge(_Expansion, KernelLearner):
    """The mean of kernel ridge regressions on random parts of the rows: n³/parts² time in place of n³.

    Part p solves (K_p + (alpha/parts)·I)c_p = y_p, alpha/parts being λ times its number of rows as alpha is λ·n for
    all; f is the mean of the parts' functions. With a small λ each part fits its noise, which the mean takes out.

    Parameters
    ----------
    kernel : kernel, optional
        RBF of the median width by default.
    alpha : float
        λ·n, as in :class:`KernelRidge`; with one part the two agree.
    n_parts : int
        At most the number of rows.
    random_state : None, int, RandomState or Generator
        Which row is in which part.

    Attributes
    ----------
    dual_coef_ : array of shape (n,) or (n, outputs)
    dictionary_, kernel_
        All rows: predictions cost as much as those of exact ridge regression.

    References
    ----------
    Zhang, Duchi, Wainwright, "Divide and conquer kernel ridge regression", COLT 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.learners import DivideAndConquerRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (800, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(800)
    >>> bool(DivideAndConquerRidge(RBF(1.0), n_parts=4, random_state=0).fit(X, y).score(X, y) > 0.95)
    True
    """

    kind: ClassVar[str] = "divide-and-conquer-ridge"
    _state: ClassVar[Layout] = _COEFFICIENTS

    alpha: float = field(default=1.0, kw_only=False)
    n_parts: int = 10

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> DivideAndConquerRidge:
        """Learn from rows in memory.

        Parameters
        ----------
        X : array, CSR or table
        y : array of shape (n,) or (n, outputs)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        alpha, seed = check_positive("alpha", self.alpha), draw_seed(self.random_state)
        parts = check_whole("n_parts", self.n_parts)
        data = self._array(X, y, sample_weight, multi_output=True, y_numeric=True)
        kernel, n = resolve(self._own_kernel(), data.X), n_rows(data.X)
        targets = data.y.reshape(n, -1).astype(np.float64)
        weight = np.ones(n) if data.weight is None else data.weight
        parts, coef = min(parts, n), np.empty_like(targets)
        for some in np.array_split(generator_at(seed, SAMPLE).permutation(n), parts):
            K, root = gram(kernel, take(data.X, some)), np.sqrt(weight[some])[:, None]
            try:
                inverse = inverse_factor(weighted_gram(K, weight[some], alpha / parts))
            except NotPositiveDefiniteError:
                raise ValueError(f"alpha {alpha:g} is lost in rounding beside {kernel!r}: raise it") from None
            coef[some] = root * (inverse.T @ (inverse @ (root * targets[some]))) / parts
        self._keep(coef, data.y)
        self.dictionary_ = landmarks(data.X, kernel)
        return self


@parameters
class NytroRegressor(_Expansion, DictionaryLearner):
    """NYTRO: gradient descent on the Nyström features of a dictionary, regularised by stopping early.

    β ← β − step/(κ²·n)·Zᵀ(Zβ − y) from 0, Z = K_nm·R, R·Rᵀ = K_mm⁻¹ and κ² = max ‖z(x)‖²; the coefficients of the
    atoms are R·β. After t steps it has done about what ridge regression with λ·n = κ²·n/(step·t) would, and the
    whole path of t comes for one solution's price.

    Parameters
    ----------
    kernel : kernel, optional
        RBF of the median width by default.
    sampler, dictionary, max_atoms
        One of them at most, as in :class:`KernelRidge`.
    step : float
        In units of 1/κ², at most 1.
    max_iter : int, optional
        Steps; ⌈√n⌉ by default.
    validation_fraction : float
        Part of the rows that are held out; the step with the least error on them is kept. 0: the last one.
    random_state : None, int, RandomState or Generator
    verbose : int

    Attributes
    ----------
    dual_coef_ : array of shape (m,) or (m, outputs)
    n_iter_ : int
        The step that was kept.
    validation_errors_ : array
        Mean squared error on the rows held out, after every step.
    dictionary_, kernel_

    References
    ----------
    Camoriano, Angles, Rudi, Rosasco, "NYTRO: When subsampling meets early stopping", AISTATS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.learners import NytroRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (800, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(800)
    >>> model = NytroRegressor(RBF(1.0), max_atoms=40, max_iter=200, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95), len(model.dictionary_)
    (True, 40)
    """

    kind: ClassVar[str] = "nytro-regressor"
    _state: ClassVar[Layout] = {**_COEFFICIENTS, "n_iter_": state.whole()}

    step: float = 1.0
    max_iter: int | None = None
    validation_fraction: float = 0.0

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NytroRegressor:
        """Learn from rows in memory.

        Parameters
        ----------
        X : array, CSR or table
        y : array of shape (n,) or (n, outputs)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        self._check_choice()
        if check_positive("step", self.step) > 1:
            raise ValueError(f"step must lie in (0, 1], in units of 1/κ²; it is {self.step!r}")
        if self.max_iter is not None:
            check_whole("max_iter", self.max_iter)
        check_between("validation_fraction", self.validation_fraction, 0.0, 0.9)
        seed = draw_seed(self.random_state)
        data = self._array(X, y, sample_weight, multi_output=True, y_numeric=True)
        n = n_rows(data.X)
        d = self._choose_dictionary(data, self._own_kernel(), None)
        features = TriangularFeatures(d.kernel, d.atoms)
        Z, targets = features.transform(data.X), data.y.reshape(n, -1).astype(np.float64)
        order = generator_at(seed, ORDER).permutation(n)
        held = min(int(self.validation_fraction * n), n - 1)
        test, train = order[:held], np.sort(order[held:])
        weight = np.ones(len(train)) if data.weight is None else data.weight[train]
        largest = float(np.einsum("ij,ij->i", Z, Z).max(initial=0.0))
        if largest <= 0:
            raise ValueError(f"{d.kernel!r} is zero for all rows: there is nothing to learn from")
        length = float(self.step) / (largest * float(weight.sum()))
        beta, best, errors = np.zeros((features.rank, targets.shape[1])), None, []
        steps = math.ceil(math.sqrt(n)) if self.max_iter is None else int(self.max_iter)
        seen, hidden = (Z[train], Z[test]) if held else (Z, Z[:0])
        for _ in range(steps):
            beta = beta - length * (seen.T @ (weight[:, None] * (seen @ beta - targets[train])))
            if held:
                errors.append(float(np.mean((hidden @ beta - targets[test]) ** 2)))
                best = beta if errors[-1] == min(errors) else best
        self.validation_errors_ = np.array(errors)
        self.n_iter_ = steps if best is None else int(np.argmin(errors)) + 1
        self._keep(features.mixing @ (beta if best is None else best), data.y)
        self.dictionary_ = d
        return self


POWERS = 20
"""Products by which the largest eigenvalue of the preconditioned system is estimated, from below."""

MARGIN = 1.1
"""What the estimate is multiplied by: descent converges as long as the eigenvalue is below 2.2 estimates."""


@parameters
class BasicFalkon(_Expansion, DictionaryLearner):
    """FALKON in its basic form: preconditioned gradient descent in place of conjugate gradients.

    β ← β − step·Bᵀ[K_nmᵀ(K_nm·Bβ − y) + alpha·K_mm·Bβ] from 0, with B·Bᵀ = (K_mm·C·K_mm + alpha·K_mm)⁻¹ and C the
    dictionary's weights, which are n/m for uniform atoms; the coefficients of the atoms are B·β. An iteration costs
    as much as one of conjugate gradients, but it takes of the order of cond(BᵀHB) of them to an error where
    conjugate gradients take the root of that: ``KernelRidge(solver="falkon")`` is the one for work.

    The thesis writes the step as γ/n. Since BᵀHB is near I for this B, γ is of the order of n, and ``step`` is γ/n.

    Parameters
    ----------
    kernel : kernel, optional
        RBF of the median width by default.
    alpha : float
        λ·n, as in :class:`KernelRidge`, whose solution the iterations approach.
    sampler, dictionary, max_atoms
        One of them at most, as in :class:`KernelRidge`.
    step : float, optional
        Below 2/‖BᵀHB‖. By default 1/(1.1·L), where L is the estimate of that norm by 20 power iterations.
    max_iter : int
        Steps at most.
    tol : float
        The steps end when the gradient's norm is this part of what it was at first, for every output.
    random_state : None, int, RandomState or Generator
    verbose : int

    Attributes
    ----------
    dual_coef_ : array of shape (m,) or (m, outputs)
    n_iter_ : int
    step_ : float
        The step that was taken.
    residuals_ : array
        The gradient's norm before every step and after the last one, relative to the first; the largest of all
        outputs.
    dictionary_, kernel_

    See Also
    --------
    KernelRidge : with ``solver="falkon"``, the same system by conjugate gradients.

    References
    ----------
    Carratino, "Large scale kernel methods for supervised learning and optimization", 2020, section 4.2.2,
    equations 4.7 to 4.9. Rudi, Carratino, Rosasco, "FALKON: An optimal large scale kernel method", NIPS 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.learners import BasicFalkon
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (800, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(800)
    >>> model = BasicFalkon(RBF(1.0), alpha=0.1, max_atoms=40, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95), bool(model.residuals_[-1] < 0.01)
    (True, True)
    """

    kind: ClassVar[str] = "basic-falkon"
    _state: ClassVar[Layout] = {
        **_COEFFICIENTS,
        "n_iter_": state.whole(),
        "step_": state.number(0.0),
        "residuals_": state.numbers("steps", low=0.0),
    }

    alpha: float = field(default=1.0, kw_only=False)
    step: float | None = None
    max_iter: int = 50
    tol: float = 1e-7

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BasicFalkon:
        """Learn from rows in memory.

        Parameters
        ----------
        X : array, CSR or table
        y : array of shape (n,) or (n, outputs)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        self._check_choice()
        alpha, seed = check_positive("alpha", self.alpha), draw_seed(self.random_state)
        if self.step is not None:
            check_positive("step", self.step)
        steps = check_whole("max_iter", self.max_iter)
        tol = check_between("tol", self.tol, 0.0, 1.0)
        data = self._array(X, y, sample_weight, multi_output=True, y_numeric=True)
        d = self._choose_dictionary(data, self._own_kernel(), alpha)
        features = TriangularFeatures(d.kernel, d.atoms)
        values, seen = kept_in_memory(data, features, None)
        P = preconditioner(values, features, d, alpha, "auto", seed, seen)

        def product(gamma: Array) -> Array:
            v = P.back(gamma)
            return np.asarray(P.half(values.sum(ProductTerm(seen, v))[0] + alpha * v))

        right = P.half(values.sum(ProductTerm(seen, None, targets=True))[0])
        self.step_ = self._length(product, right.shape[0], seed) if self.step is None else float(self.step)
        gamma, size = np.zeros_like(right), np.maximum(np.linalg.norm(right, axis=0), np.finfo(np.float64).tiny)
        gradient, residuals = -right, [1.0]
        while len(residuals) <= steps and residuals[-1] > tol:
            gamma = gamma - self.step_ * gradient
            gradient = product(gamma) - right
            residuals.append(float(np.max(np.linalg.norm(gradient, axis=0) / size)))
            if residuals[-1] > 1 / np.finfo(np.float32).eps:
                raise ValueError(f"the descent diverges: step {self.step_:g} is above 2/‖BᵀHB‖; leave it out")
        self.n_iter_, self.residuals_ = len(residuals) - 1, np.array(residuals)
        self._keep(features.mixing @ P.back(gamma), data.y)
        self.dictionary_ = d
        return self

    @staticmethod
    def _length(product: Any, rank: int, seed: int) -> float:
        """Return 1/(1.1·L); L is the Rayleigh quotient after some power iterations: a lower bound of the norm."""
        v, largest = generator_at(seed, ORDER).standard_normal((rank, 1)), 1.0
        for _ in range(POWERS):
            v = v / np.linalg.norm(v)
            following = product(v)
            largest, v = float(v[:, 0] @ following[:, 0]), following
        return 1.0 / (MARGIN * largest)
