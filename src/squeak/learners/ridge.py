"""Kernel ridge regression on a dictionary: more rows than memory, direct or by FALKON."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from squeak.core import engine, state, storage
from squeak.core.dictionary import Dictionary
from squeak.core.kernels import diagonal
from squeak.core.nystrom import FixedFeatures
from squeak.core.rows import n_rows, take
from squeak.core.seeds import RandomState
from squeak.core.sources import RowSource
from squeak.core.types import Array, Rows
from squeak.learners.base import all_or_nothing
from squeak.learners.data import ArrayTraining, Training, as_numbers, centred
from squeak.learners.normal import SMALL, UNKNOWN, NormalEquations, tile_rows
from squeak.learners.one_pass import OnePass
from squeak.learners.solving import RidgeLearner
from squeak.learners.stored import learner_from_parts, learner_to_parts
from squeak.learners.tuning import wants_search
from squeak.samplers.base import Sampler


@storage.register
class KernelRidge(MultiOutputMixin, RegressorMixin, RidgeLearner):  # type: ignore[misc]
    """Kernel ridge regression on a dictionary of the rows: scikit-learn's KernelRidge for any number of rows.

    Minimises Σ w_i (y_i − f(x_i))² + alpha·‖f‖² over the functions f = Σ_j c_j k(·, atom_j): with features
    z = Mᵀ k(atoms, x), Mᵀ K_MM M = I, that is (Σ w z zᵀ + alpha·I) β = Σ w z y and c = M β. With all rows as
    atoms it is scikit-learn's KernelRidge. No intercept unless asked for, as there.

    Parameters
    ----------
    kernel : kernel, optional
        RBF of the median width by default.
    alpha : float or "auto"
        Penalty in scikit-learn's sense: K + alpha·I; "auto" takes the least generalised cross-validation error.
    sampler, dictionary, max_atoms
        One of them at most. A sampler such as ``BlessR()``, what it leaves None (kernel, ridge, random_state) comes
        from here; a :class:`Dictionary`, or rows to be used as they are; or a number of atoms, chosen by BLESS-R
        for rows in memory and by SQUEAK or DISQUEAK for streams. 10·√n atoms, 2,000 at most, without any.
    fit_intercept : bool
        Learn y less its (weighted) mean, and add the mean to predictions.
    solver : "auto", "direct" or "falkon"
        Normal equations in one pass, or conjugate gradients in a few; by the number of atoms.
    regularised : bool
        Regularised Nyström features, K̃ = C(S K_MM S + ridge·I)⁻¹Cᵀ with the dictionary's weights and ridge.
    preconditioner : "auto", "falkon", "voronoi" or "krill"
        For FALKON: from the dictionary's weights, or, where centres carry none, from a pass over the rows.
    max_iter, tol : int, float
        Of FALKON; the tolerance is relative, for each output.
    memory_budget : float, optional
        Bytes that FALKON may take to keep kernel values between passes; 512 MB by default, 0 for none.
    warm_start : bool
        FALKON begins where the fit before ended, if ``dictionary`` is the same: for a path of alpha, large ones
        first.
    callback : function of (iteration, coefficients), optional
        Called after each iteration of FALKON; returning True ends it.
    random_state : None, int, RandomState or Generator
    verbose : int

    Attributes
    ----------
    dual_coef_ : array of shape (m,) or (m, outputs)
    intercept_ : array of shape (outputs,)
    alpha_ : float
    dictionary_, kernel_, solver_, rank_, n_iter_
    condition_ : float or None
        Of FALKON's preconditioned system, from its own scalars.

    Notes
    -----
    If the dictionary is (ε, ridge)-accurate, the fixed-design risk is at most
    (1 + (ridge/alpha)·ε/(1 − ε))² times that of all rows.

    References
    ----------
    The theory page. Rudi, Carratino,
    Rosasco, "FALKON", NIPS 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import KernelRidge
    >>> from squeak.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (5000, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(5000)
    >>> model = KernelRidge(kernel=RBF(0.5), alpha=0.1, max_atoms=50, random_state=0).fit(X, y)
    >>> model.solver_, bool(model.score(X, y) > 0.97)
    ('direct', True)
    """

    kind: ClassVar[str] = "kernel-ridge"
    _state: ClassVar[state.Table] = {
        "dual_coef": state.numbers("m", "outputs?", low=-state.HUGE, high=state.HUGE),
        "intercept": state.numbers("intercepts", low=-state.HUGE, high=state.HUGE),
        "gram": state.numbers("r", "r", optional=True),
        "mixing": state.numbers("m", "r", optional=True),
        "alpha": state.number(low=0.0),
        "regularised": state.flag(),
        "solver": state.text(),
        "estimated": state.flag(optional=True),
    }

    _stream: OnePass
    _estimated: bool

    def __init__(
        self,
        kernel: Any = None,
        alpha: float | str = 1.0,
        sampler: Sampler | None = None,
        dictionary: Any = None,
        max_atoms: int | None = None,
        fit_intercept: bool = False,
        solver: str = "auto",
        regularised: bool = False,
        preconditioner: str = "auto",
        max_iter: int = 50,
        tol: float = 1e-7,
        memory_budget: float | None = None,
        warm_start: bool = False,
        callback: Callable[[int, Array], bool | None] | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.sampler = sampler
        self.dictionary = dictionary
        self.max_atoms = max_atoms
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.regularised = regularised
        self.preconditioner = preconditioner
        self.max_iter = max_iter
        self.tol = tol
        self.memory_budget = memory_budget
        self.warm_start = warm_start
        self.callback = callback
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        every: float = 30.0,
    ) -> KernelRidge:
        """Learn from all rows.

        Parameters
        ----------
        X : array, CSR, table, or row source
            A row source carries its targets, is read block by block, and on the workers of a cluster where a Dask
            client is active; one that can be read only once is learned in one pass (:meth:`partial_fit`).
        y : array of shape (n,) or (n, outputs)
        sample_weight : array of shape (n,), optional
        checkpoint : path, optional
            Keep the state of a fit on a row source in this file, replaced as the fit goes on: the dictionary's
            stream, then the sums of every pass. If the process dies, the same call goes on from there and ends in
            the same bits. A file that holds an unfinished fit of other parameters or other data is refused. It
            needs a number as ``random_state``, and is not for a cluster.
        every : float
            Seconds between two writes of the checkpoint; 0 writes after every block.
        """
        if checkpoint is None:
            return self._fit(X, y, sample_weight)
        from squeak.learners.checkpoint import fit_kept

        self._check_ridge_parameters()
        fit_kept(self, X, y, sample_weight, checkpoint, every)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, run: Any = None) -> KernelRidge:
        """Learn from all rows; ``run`` keeps what is learned in a checkpoint."""
        self._check_ridge_parameters()
        self._forget()
        if isinstance(X, RowSource):
            data: Training = self._source(X, y, sample_weight, numeric=True, run=run)
            if not data.repeatable and self.dictionary is None:
                if self.alpha == "auto" or wants_search(self._own_kernel()):
                    raise ValueError(
                        "rows that can be read only once leave nothing for 'auto' to search: give numbers"
                    )
                return self._fit_once(X)
        else:
            data = self._array(X, y, sample_weight, multi_output=True, y_numeric=True)
        self.intercept_ = np.zeros(1)
        if self.fit_intercept and isinstance(data, ArrayTraining):
            data, self.intercept_ = centred(data)
        d = self._dictionary_of(data)
        coef = self._solve(data, d)
        single = data.y.ndim == 1 if isinstance(data, ArrayTraining) else coef.shape[1] == 1
        return self._keep(d, coef, single=single)

    def _falkon(self, data: Any, d: Dictionary, features: Any) -> Array:
        coef = super()._falkon(data, d, features)
        self._estimated = (data.n_at_most or UNKNOWN) * len(features.mixing) ** 2 > SMALL
        if not self._estimated:  # a second at most, for deviations that are exact
            self._gram = NormalEquations.sum(data, features).gram
        return coef

    def _forget(self) -> None:
        for name in ("_stream", "_gram", "dictionary_", "dual_coef_"):
            self.__dict__.pop(name, None)

    def _keep(self, d: Dictionary, coef: Array, single: bool) -> KernelRidge:
        self.dual_coef_ = coef[:, 0] if single else coef
        self.dictionary_ = d
        return self

    def _fit_once(self, source: RowSource) -> KernelRidge:
        one = OnePass.begin(self)
        for block_ in source.blocks():
            one.add(block_.X, as_numbers(block_.y), None)
        if source.preprocessing is not None:
            one.preprocessing = source.preprocessing
        one.into(self)
        return self

    def _streams(self) -> bool:
        """Tell whether rows can be learned from one block at a time: sums, and nothing to search for."""
        return self.solver != "falkon" and self.alpha != "auto" and not wants_search(self._own_kernel())

    @available_if(lambda self: self._streams())  # type: ignore[untyped-decorator]
    @all_or_nothing
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelRidge:
        """Learn from more rows, which are not needed again; not with FALKON, nor with anything "auto".

        With a ``dictionary`` the sums of the normal equations grow, and the result is that of one fit. Without, the
        dictionary is learned along the way by SQUEAK: when it changes, old rows are replaced by their projection
        on the new atoms, G ← T G Tᵀ, b ← T b with T = M_newᵀ K(new, old) M_old. What is lost is the part of old
        rows outside the new span; with rows in random order it is within the noise (docs/learners.md). After
        :meth:`fit`, or in a model that was loaded, the atoms and the intercept stay, and the sums grow from there.
        """
        self._check_ridge_parameters()
        first = not hasattr(self, "dual_coef_")
        data = self._array(X, y, sample_weight, multi_output=True, y_numeric=True, reset=first)
        if first:
            stream = OnePass.begin(self)
        else:
            stream = self._stream.copy() if hasattr(self, "_stream") else OnePass.after_fit(self)
        if not first and data.y.ndim != stream.dimensions:
            raise ValueError(f"y has {data.y.ndim} dimensions; it had {stream.dimensions} before")
        outputs = 1 if data.y.ndim == 1 else data.y.shape[1]
        if not first and self.dual_coef_.size != outputs * len(self.dual_coef_):
            raise ValueError("y has another number of outputs than before")
        stream.add(data.X, data.y, data.weight)
        self._stream = stream
        stream.into(self)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return f(x) for every row, and the posterior's standard deviation of f where asked for.

        In the Gaussian-process view with noise variance alpha, var f(x) = k(x, x) − ‖z‖² + alpha·zᵀ(Σ w z zᵀ +
        alpha·I)⁻¹z; the last matrix is the factor of the fit. After FALKON on many rows and atoms, where that
        factor would take longer than the fit, it is that of the preconditioner, and a warning says so. The scale
        is the kernel's, as in scikit-learn: far from all rows the deviation is √k(x, x), 1 for an RBF. In the
        targets' units it is c times as large for the kernel c²·k and the penalty c²·alpha, which give the same
        predictions.
        """
        check_is_fitted(self)
        rows = self._rows_for(X)
        values = self._values(rows)
        mean = values[:, 0] if self.dual_coef_.ndim == 1 else values
        return (mean, self._std(rows)) if return_std else mean

    def _std(self, X: Rows) -> Array:
        from scipy.linalg import cholesky, solve_triangular

        if not hasattr(self, "_gram"):
            raise ValueError("return_std needs the factor of the fit, which this model does not hold")
        if self.solver_ == "falkon" and self._estimated:
            warnings.warn(
                "after FALKON on so many rows and atoms the deviation is estimated from its preconditioner and "
                "may be some percent off: fit with solver='direct' for the exact one",
                stacklevel=3,
            )
        A = self._gram.copy()
        A[np.diag_indices_from(A)] += self.alpha_
        try:
            factor, features = cholesky(A, lower=True, overwrite_a=True), self._feature_map
        except np.linalg.LinAlgError:
            raise ValueError("return_std needs a factor of the fit, and its matrix has none: raise alpha") from None
        inverse = solve_triangular(factor, np.eye(len(factor)), lower=True)
        out = np.empty(n_rows(X))

        def fill(tile: slice) -> None:
            part = take(X, tile)
            z = features.block(part)
            left = diagonal(features.kernel, part) - np.einsum("ij,ij->i", z, z)
            v = z @ inverse.T
            out[tile] = np.sqrt(np.maximum(left, 0.0) + self.alpha_ * np.einsum("ij,ij->i", v, v))

        engine.map_ordered(fill, engine.tiles(n_rows(X), tile_rows(len(features.mixing))))
        return out

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the fitted model's arrays and the rest as JSON data."""
        measured = {"gram": self._gram, "mixing": self._feature_map.mixing} if hasattr(self, "_gram") else {}
        return learner_to_parts(
            self,
            dual_coef=self.dual_coef_,
            intercept=self.intercept_,
            alpha=self.alpha_,
            regularised=bool(self.regularised),
            solver=self.solver_,
            estimated=bool(self._estimated) if self.solver_ == "falkon" else None,
            **measured,
        )

    @classmethod
    def from_parts(cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> KernelRidge:
        """Return the model that was stored."""
        model: KernelRidge
        model, found = learner_from_parts(cls, arrays, content, kernel)
        model.dual_coef_, model.intercept_ = found["dual_coef"], found["intercept"]
        if len(model.intercept_) not in (1, *model.dual_coef_.shape[1:]):
            raise ValueError("the intercept does not fit the coefficients")
        model.alpha_, model.regularised, model.solver_ = found["alpha"], found["regularised"], found["solver"]
        model._estimated = found["estimated"] is not False
        if found["gram"] is not None:
            model._gram = found["gram"]
            model._feature_map = FixedFeatures(model.kernel_, model.dictionary_.atoms, found["mixing"])
        return model
