"""Kernel ridge regression on a dictionary: more rows than memory, direct or by FALKON."""

from __future__ import annotations

import warnings
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if

from squeak.core import state
from squeak.core.constructors import parameters
from squeak.core.kernels import gram
from squeak.core.saved import Layout
from squeak.core.seeds import draw_seed
from squeak.core.types import Array, Rows
from squeak.data import PredictsBlocks, RowSource, by_blocks
from squeak.learners.data import ArrayTraining, Training, as_numbers, centred
from squeak.learners.drawn import Drawn, drawn_from, watched
from squeak.learners.intervals import check_coverage, interval
from squeak.learners.left_out import LeftOut, sample_of
from squeak.learners.merging import MergesSums
from squeak.learners.normal import SMALL, UNKNOWN, NormalEquations
from squeak.learners.one_pass import OnePass
from squeak.learners.rows import all_or_nothing
from squeak.learners.solving import ITERATED, RidgeLearner
from squeak.learners.tuning import wants_search
from squeak.samplers.dictionary import Dictionary

UNKNOWN_NOISE = (
    "the model's file was written before models kept the noise of their fit, or the squares of the targets are too "
    "large for float64; fit it anew, with scaled targets"
)


@parameters
class KernelRidge(MultiOutputMixin, RegressorMixin, PredictsBlocks, MergesSums, RidgeLearner):
    """Kernel ridge regression on a dictionary of the rows: scikit-learn's KernelRidge for any number of rows.

    The prediction for a row is a weighted sum of its similarities to a few rows of the fit, the atoms. The fit
    minimises Σ w_i (y_i − f(x_i))² + alpha·‖f‖² over these functions f = Σ_j c_j k(·, atom_j). With the features z
    = Mᵀ k(atoms, x), Mᵀ K_MM M = I, it solves (Σ w z zᵀ + alpha·I) β = Σ w z y, and c = M β. If all rows are atoms,
    the model is that of scikit-learn's KernelRidge.

    Parameters
    ----------
    kernel : kernel, optional
        How similar two rows are. The default is an RBF of the median width.
    alpha : float or "auto"
        The penalty, as in scikit-learn: K + alpha·I. "auto" takes the least generalised cross-validation error.
    sampler, dictionary, max_atoms
        How the atoms are chosen; give at most one of the three. ``max_atoms`` is the largest number of atoms; they
        are chosen by BLESS-R for rows in memory, and by SQUEAK or DISQUEAK for streams. By default there are 10·√n
        atoms, and 2,000 at most. A sampler such as ``BlessR()`` takes the parameters that it leaves None (kernel,
        ridge, random_state) from here. A :class:`Dictionary`, or rows, are used as they are.
    fit_intercept : bool
        Whether to subtract the (weighted) mean of y in the fit and to add it to predictions.
    solver : "auto", "direct", "kept" or "falkon"
        "direct" solves the normal equations after one pass over the rows. "kept" and "falkon" take conjugate
        gradient steps in a few passes: "kept" on kernel values in float32 that stay in memory, "falkon" in float64.
        "auto" takes the one that should be fastest; ``solver_`` says which it was, and ``solver_reason_`` why.
    regularised : bool
        Whether to use K̃ = C(S K_MM S + ridge·I)⁻¹Cᵀ with the dictionary's weights and ridge.
    preconditioner : "auto", "falkon", "voronoi" or "krill"
        How FALKON's preconditioner is made: from the weights of the dictionary, or by a pass over the rows.
    max_iter, tol : int, float
        The largest number of FALKON's iterations, and the relative residual at which they end.
    memory_budget : float, optional
        The bytes of kernel values to keep between passes. By default half of the free memory, at most 4 GiB.
    warm_start : bool
        Whether FALKON begins where the last fit on the same ``dictionary`` ended, for decreasing alphas.
    callback : function of (iteration, coefficients), optional
        It is called after each iteration of FALKON. If it returns True, the iterations end.
    random_state, verbose
        The seed, and whether progress is shown (1).

    Attributes
    ----------
    dual_coef_ : array of shape (m,) or (m, outputs)
        The coefficients of the atoms.
    noise_ : array of shape (outputs,)
        The standard deviation of the noise, in units of the targets.
    relevance_ : array of shape (columns,)
        The share of each column in how much the model changes.
    intercept_, alpha_, dictionary_, kernel_, solver_, rank_, n_iter_, condition_
        What was found or used in the fit; ``condition_`` is the condition number of FALKON's system, or None.

    Notes
    -----
    If the dictionary is (ε, ridge)-accurate, the fixed-design risk is at most (1 + (ridge/alpha)·ε/(1 − ε))² times
    that of ridge regression on all rows.

    References
    ----------
    The theory page. Rudi, Carratino, Rosasco, "FALKON", NIPS 2017.

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
    _state: ClassVar[Layout] = {
        "dual_coef_": state.numbers("m", "outputs?", low=-state.HUGE, high=state.HUGE),
        "intercept_": state.numbers("intercepts", low=-state.HUGE, high=state.HUGE),
        "_gram": state.numbers("r", "r", optional=True),
        "_feature_map.mixing": state.numbers("m", "r", optional=True),
        "alpha_": state.number(low=state.TINY),
        "regularised": state.flag(),
        "solver_": state.text(),
        "_estimated": state.flag(optional=True),
        "_left_out.noise": state.numbers("outputs", low=0.0, high=state.HUGE, optional=True),
        "_left_out.weight": state.number(low=0.0, optional=True),
        "_left_out.scores": state.numbers("scores", "outputs", optional=True),
        "_left_out.score_weights": state.numbers("scores", low=0.0, optional=True),
    }

    _stream: OnePass = field(init=False)
    _estimated: bool = field(init=False)  # whether FALKON's deviation is; unknown for old files
    _left_out: LeftOut = field(init=False)
    _drawn: Drawn | None = field(init=False)

    fit_intercept: bool = False

    def _fit(self, X: Any, y: Any, sample_weight: Any, run: Any = None) -> None:
        self._forget()
        data = self._training(X, y, sample_weight, numeric=True, run=run)
        if not data.repeatable and self.dictionary is None:
            if self.alpha == "auto" or wants_search(self._own_kernel()):
                raise ValueError("rows that can be read only once leave nothing for 'auto' to search: give numbers")
            self._fit_once(X)
            return
        seed = draw_seed(self.random_state)
        seen = data = watched(data, seed)
        data, d = self._centred(data)
        coef = self._solve(data, d)
        single = data.y.ndim == 1 if isinstance(data, ArrayTraining) else coef.shape[1] == 1
        self._keep(d, coef, single, drawn_from(seen, seed))

    def _centred(self, data: Training) -> tuple[Training, Dictionary]:
        """Return the rows, less their mean where there is an intercept and they are in memory; and their atoms."""
        self.intercept_ = np.zeros(1)
        if self.fit_intercept and isinstance(data, ArrayTraining):
            data, self.intercept_ = centred(data)
        return data, self._dictionary_of(data)

    def _iterated(self, data: Any, d: Dictionary, features: Any, path: Any = None) -> Array | None:
        coef = super()._iterated(data, d, features, path)
        self._estimated = (data.n_at_most or UNKNOWN) * len(features.mixing) ** 2 > SMALL
        if coef is not None and not self._estimated:  # a second at most, for deviations that are exact
            self._gram = NormalEquations.sum(data, self._feature_map).gram
        return coef

    def _forget(self) -> None:
        for name in ("_stream", "_gram", "_estimated", "_left_out", "_drawn", "dictionary_", "dual_coef_"):
            self.__dict__.pop(name, None)

    def _keep(self, d: Dictionary, coef: Array, single: bool, drawn: Drawn | None) -> None:
        self.dual_coef_ = coef[:, 0] if single else coef
        self.dictionary_, self._drawn = d, drawn
        before = self._left_out.before if hasattr(self, "_left_out") else None
        residual, weight = self._sums or (None, None)
        sums: dict[str, Any] = {"residual": residual, "weight": weight}
        self._left_out = self._errors(coef, **sums, sample=sample_of(drawn), before=before)

    def _errors(self, coef: Array, **known: Any) -> LeftOut:
        """Return what the fit says of its errors, of which nothing is computed before it is asked for."""
        return LeftOut(self._feature_map, self._gram, self.alpha_, coef, self.intercept_, **known)

    def _fit_once(self, source: RowSource) -> None:
        stream = self._drawing_stream()
        for block in source.blocks():
            stream.add(block.X, as_numbers(block.y), None)
        stream.preprocessing = source.preprocessing
        self._take(stream)

    def _drawing_stream(self) -> OnePass:
        """Return the state before the first row of a stream, some of whose rows are drawn."""
        stream = self._begin_stream(float(self.alpha))
        return replace(stream, drawn=Drawn(draw_seed(self.random_state)))

    def _take(self, stream: OnePass) -> None:
        """Solve the equations of a stream, and keep what was found."""
        equations, mean = stream.summed(), np.zeros(1)
        if stream.fit_intercept:
            equations, mean = equations.centred()
        features = self._hold(equations.features)
        self.solver_, self.solver_reason_ = "direct", "sums that grow with the rows"
        self.n_iter_, self.condition_ = 1, None
        self.alpha_, self.intercept_ = float(self.alpha), stream.intercept + mean
        coef = features.mixing @ self._direct(equations)
        if not np.isfinite(equations.square).all():
            self._sums = None  # it goes on from a file that has none
        self._keep(stream.dictionary, coef, stream.dimensions == 1, stream.drawn)

    def _after_fit(self) -> OnePass:
        """Return the stream that goes on from a fit: its atoms and its intercept stay.

        The right sides of the normal equations are those that its solution solves, Σ w z yᵀ = (Σ w z zᵀ +
        alpha·I)β. With features Mᵀ(K + ridge·S⁻²)M = I, ridge 0 unless they are regularised, the coefficients M β
        of the atoms give β = Mᵀ(K + ridge·S⁻²)·coef.
        """
        if not hasattr(self, "_gram") or self.solver_ in ITERATED:
            raise ValueError(
                f"this {type(self).__name__} was fitted by FALKON and holds no sums that rows could be added to: "
                "fit it with solver='direct', or give all rows to partial_fit"
            )
        d, features = self.dictionary_, self._feature_map
        coef = self.dual_coef_.reshape(len(d), -1)
        turned = gram(d.kernel, d.atoms) @ coef
        if self.regularised:
            turned += d.ridge * coef / d.weights[:, None]
        beta = features.mixing.T @ turned
        right, residual = self._gram @ beta + self.alpha_ * beta, self._left_out.residual_sum()
        unknown = np.full(coef.shape[1], np.nan)
        square = np.einsum("ij,ij->j", beta, right + self.alpha_ * beta) + (
            unknown if residual is None else residual
        )
        equations = NormalEquations(features, self._gram, right, square, self._left_out.weight or 0.0, 0)
        drawn = getattr(self, "_drawn", None) or Drawn(draw_seed(self.random_state))
        stream = OnePass(None, features, d, equations=equations, intercept=self.intercept_, drawn=drawn)
        return replace(stream, dimensions=self.dual_coef_.ndim)

    def _streams(self) -> bool:
        """Tell whether rows can be learned from one block at a time: sums, and nothing to search for."""
        return self.solver not in ITERATED and self.alpha != "auto" and not wants_search(self._own_kernel())

    @available_if(lambda self: self._streams())  # type: ignore[untyped-decorator]
    @all_or_nothing
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelRidge:
        """Learn from more rows, which are not needed again; not with FALKON, nor with anything "auto".

        With a ``dictionary`` the sums of the normal equations grow, and the result is that of one fit. Without, the
        dictionary is learned along the way by SQUEAK: when one in twenty of its atoms is newer than the dictionary
        that rows are summed on, that one, ``dictionary_``, is replaced, and old rows by their projection on the
        new atoms, G ← T G Tᵀ, b ← T b with T = M_newᵀ K(new, old) M_old. What is lost is the part of old
        rows outside the new span; with rows in random order it is within the noise (docs/learners.md). After
        :meth:`fit`, or in a model that was loaded, the atoms and the intercept stay, and the sums grow from there.

        Parameters
        ----------
        X : array, CSR or table
        y : array of shape (n,) or (n, outputs)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        self._check_ridge_parameters()
        first = not hasattr(self, "dual_coef_")
        data = self._array(X, y, sample_weight, multi_output=True, y_numeric=True, reset=first)
        if first:
            stream = self._drawing_stream()
        else:
            stream = self._stream.copy() if hasattr(self, "_stream") else self._after_fit()
        if not first and data.y.ndim != stream.dimensions:
            raise ValueError(f"y has {data.y.ndim} dimensions; it had {stream.dimensions} before")
        outputs = 1 if data.y.ndim == 1 else data.y.shape[1]
        if not first and self.dual_coef_.size != outputs * len(self.dual_coef_):
            raise ValueError("y has another number of outputs than before")
        stream.add(data.X, data.y, data.weight)
        self._stream = stream
        self._take(stream)
        return self

    @property
    def noise_(self) -> Array:
        """The standard deviation of the noise for each output, in units of the targets, as the fit estimates it."""
        if not hasattr(self, "_left_out") or self._left_out.noise is None:
            raise AttributeError(f"noise_ is not known: {UNKNOWN_NOISE}")
        return self._left_out.noise

    @by_blocks
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return f(x) for every row, and the standard deviation of a new target there where asked for.

        It is in units of the targets, std(x) = σ̂·√(1 + s²(x)/alpha). In the Gaussian-process view with noise
        variance alpha, s² = k(x, x) − ‖z‖² + alpha·zᵀ(Σ w z zᵀ + alpha·I)⁻¹z is the posterior variance of f on the
        kernel's scale. σ̂² = Σ w (y − f)²/(Σ w − freedom) is the square of ``noise_``, the noise that the residuals
        show, with tr(G(G + alpha·I)⁻¹) degrees of freedom, G = Σ w z zᵀ. The deviation of f itself is √(std² − σ̂²).
        Near the rows, std is little more than the noise; far from all of them it grows to
        σ̂·√(1 + k(x, x)/alpha). After FALKON on many rows and atoms, where G would take longer than the fit, it is
        that of the preconditioner, and a warning says so.

        Parameters
        ----------
        X : array, CSR, table, or row source
        return_std : bool

        Returns
        -------
        mean : array of shape (n,) or (n, outputs)
        std : array of shape (n,) or (n, outputs)
            Where it was asked for.
        """
        rows = self._rows_for(X)
        values = self._values(rows)
        mean = values[:, 0] if self.dual_coef_.ndim == 1 else values
        return (mean, self._std(rows)) if return_std else mean

    def _std(self, X: Rows) -> Array:
        noise = None if self._known_errors() is None else self._left_out.noise
        if noise is None:
            raise ValueError(f"the deviation is not known: {UNKNOWN_NOISE}")
        if self.solver_ in ITERATED and getattr(self, "_estimated", None) is not False:
            warnings.warn(
                "after FALKON on so many rows and atoms the deviation is estimated from its preconditioner and "
                "may be some percent off: fit with solver='direct' for the exact one",
                stacklevel=3,
            )
        spread = self._left_out.spread(X)
        return np.asarray(noise[0] * spread if self.dual_coef_.ndim == 1 else spread[:, None] * noise)

    def _known_errors(self) -> LeftOut | None:
        """Return what is known of the errors; None for a file that has no factor of the fit."""
        return getattr(self, "_left_out", None)

    @by_blocks
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Return an interval for every row that a new target lies in with a probability of ``coverage``.

        Of up to 4,000 rows of the fit, drawn by ``random_state``, the model knows the leave-one-out scores
        t_i = (y_i − f₋ᵢ(x_i))/u₋ᵢ(x_i), u = √(1 + s²/alpha) the spread of :meth:`predict`, without a refit:
        y − f₋ᵢ = (y − f)/(1 − h), h = w zᵀ(Σ w z zᵀ + alpha·I)⁻¹z. The interval is f(x) ± q·u(x), q the
        ⌈(k + 1)·coverage⌉-th smallest of k values ``|t_i|``; where targets are skewed, the two ends lie at the
        distances of the narrowest interval with the same share of scores (``learners.intervals``).

        Parameters
        ----------
        X : array, CSR, table, or row source
        coverage : float
            Between 0 and 1, both excluded.

        Returns
        -------
        low, high : arrays of shape (n,) or (n, outputs)
            Infinite where the rows are too few: 90% takes nine. Of several outputs each is covered by itself.

        Notes
        -----
        Rows of the fit and new rows must be drawn alike (exchangeable). Were the scores those of held-out rows,
        coverage would be guaranteed for every number of rows and every distribution, on average over rows (not at
        each x): Vovk et al. 2005; Lei et al. 2018. That they are leave-one-out scores makes it approximate. The
        residuals are exact, with an atom left out together with its row, but the other atoms, kernel, alpha and
        intercept were chosen with all rows at hand; and the interval is set around the fit of all rows (the
        "jackknife" of Barber et al. 2021: it relies on a fit that changes little with one row).
        With sample weights a score counts as its row's weight. After FALKON on many rows and atoms h is
        estimated. After ``partial_fit`` on a model from a file, its older scores stay as they were.

        References
        ----------
        Vovk, Gammerman, Shafer, "Algorithmic Learning in a Random World", 2005. Lei, G'Sell, Rinaldo, Tibshirani,
        Wasserman, "Distribution-Free Predictive Inference for Regression", JASA 2018. Barber, Candès, Ramdas,
        Tibshirani, "Predictive inference with the jackknife+", Annals of Statistics 2021.

        Examples
        --------
        >>> import numpy as np
        >>> from squeak import KernelRidge
        >>> from squeak.kernels import RBF
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-3, 3, (4000, 1))
        >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(4000)
        >>> model = KernelRidge(RBF(0.5), alpha=0.1, max_atoms=50, random_state=0).fit(X[:2000], y[:2000])
        >>> low, high = model.predict_interval(X[2000:], coverage=0.9)
        >>> bool(0.88 < np.mean((low <= y[2000:]) & (y[2000:] <= high)) < 0.92)
        True
        """
        coverage, rows, errors = check_coverage(coverage), self._rows_for(X), self._known_errors()
        scores = None if errors is None else errors.scores
        if errors is None or scores is None:
            raise ValueError(f"the interval is not known: {UNKNOWN_NOISE}")
        low, high = interval(self._values(rows), errors.spread(rows), scores, coverage, errors.score_weights)
        return (low[:, 0], high[:, 0]) if self.dual_coef_.ndim == 1 else (low, high)

    def _restore(self, found: dict[str, Any]) -> None:
        super()._restore(found)
        if (found.get("_gram") is None) != (found.get("_feature_map.mixing") is None):
            raise ValueError("it holds the factor of the fit without its features, or these without it")
        if len(self.intercept_) not in (1, *self.dual_coef_.shape[1:]):
            raise ValueError("the intercept does not fit the coefficients")
        if hasattr(self, "_gram") and hasattr(self, "_feature_map"):
            noise, weight, scores, weights = (
                found[f"_left_out.{name}"] for name in ("noise", "weight", "scores", "score_weights")
            )
            coef = self.dual_coef_.reshape(len(self.dictionary_), -1)
            known = noise is not None and weight is not None
            self._left_out = self._errors(coef, weight=weight, known_noise=noise if known else None)
            self._left_out.before = None if scores is None else (scores, weights)
