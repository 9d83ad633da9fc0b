"""Kernel canonical correlation on two dictionaries: functions of two views of the rows that agree most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular, svd
from sklearn.utils.validation import check_is_fitted

from squeak.core import state
from squeak.core.checks import check_positive, check_whole
from squeak.core.constructors import parameters
from squeak.core.kernels import gram
from squeak.core.nystrom import TriangularFeatures
from squeak.core.rows import check_rows, n_rows, refuse_hidden, take, width_of
from squeak.core.saved import Layout, NestedPiece
from squeak.core.types import Array, Rows
from squeak.data import RowSource, by_blocks
from squeak.learners.base import DictionaryLearner
from squeak.learners.data import ArrayTraining
from squeak.learners.expansion import Expansion
from squeak.learners.formula import Function
from squeak.learners.normal import shifted_factor
from squeak.learners.rows import Transformer, all_or_nothing
from squeak.learners.tiles import atom_values, sum_tiles
from squeak.samplers.dictionary import Dictionary
from squeak.trees.sums import Arrays


class _SecondView(DictionaryLearner):
    """The second view's way to its dictionary: the same parameters, under the names that the base knows."""

    def __init__(self, owner: Any) -> None:
        self.kernel, self.dictionary, self.sampler = owner.kernel_y, owner.dictionary_y, owner.sampler
        self.max_atoms = owner.max_atoms if owner.dictionary_y is None else None
        if owner.dictionary_y is not None:
            self.sampler = None
        self.alpha, self.random_state, self.verbose = owner.alpha, owner.random_state, owner.verbose

    def check(self) -> None:
        """Refuse contradictory parameters before any row is read."""
        self._check_choice()

    def chosen(self, y: Any, alpha: float) -> Dictionary:
        """Return the dictionary of a second view in memory."""
        kernel = self._own_kernel()
        return self._choose_dictionary(ArrayTraining(as_rows(y, kernel)), kernel, alpha)

    def learned_along(self, source: RowSource, alpha: float) -> Dictionary:
        """Return the dictionary of a source's second view, learned in one pass over it."""
        stream = self._begin_stream(alpha)
        if stream.given is not None:
            return stream.given
        for found in source.blocks():
            stream.sampler.partial_fit(as_rows(found.y, self._own_kernel()))
        return stream.dictionary


@dataclass(frozen=True)
class JointTerm:
    """Σ w u uᵀ with u = (z_x, z_y, 1): all second moments of two views and their means."""

    first: TriangularFeatures
    second: TriangularFeatures

    def __call__(self, X: Rows, pair: tuple[Any, Any]) -> Arrays:
        """Return the sums over a block."""
        Y, weight = as_rows(pair[0], self.second.kernel), pair[1]
        side = self.first.rank + self.second.rank + 1
        if n_rows(Y) != n_rows(X):
            raise ValueError(f"the views have {n_rows(X):,} and {n_rows(Y):,} rows")

        def add(total: Arrays, tile: slice) -> None:
            x, y = self.first.block(take(X, tile)), self.second.block(take(Y, tile))
            u = np.hstack([x, y, np.ones((len(x), 1))])
            if weight is not None:
                u *= np.sqrt(weight[tile])[:, None]
            total[0][:] += u.T @ u

        return sum_tiles(X, side, side, lambda: (np.zeros((side, side)),), add)


@parameters
class KernelCCA(Transformer, DictionaryLearner):
    """Kernel canonical correlation analysis: pairs of functions f(x), g(y) that vary together over the rows.

    It maximises Σ w f(x) g(y), both centred, subject to Σ w f² + alpha·‖f‖² = Σ w and Σ w g² + alpha·‖g‖² = Σ w.
    Each pair is uncorrelated (in the same sense) with those before it. With the features z of the two dictionaries
    this is the singular value decomposition of (S_xx + alpha·I)^(−½) S_xy (S_yy + alpha·I)^(−½). If all rows are
    atoms, it is kernel CCA itself. Without a penalty, kernel CCA finds correlation 1 in any data, so choose alpha
    with care.

    Parameters
    ----------
    n_components : int
        The number of pairs of functions.
    kernel, kernel_y : kernels, optional
        The kernels of the two views. The default is an RBF of the median width.
    alpha : float
        The penalty, as in scikit-learn; it is compared with eigenvalues of K.
    sampler, max_atoms
        How the atoms of both views are chosen; give at most one, as in :class:`KernelRidge`.
    dictionary, dictionary_y : Dictionary or rows, optional
        The atoms of each view, in place of a sampler.
    random_state : None, int, RandomState or Generator
        The seed. The same seed gives the same result, on any number of threads.
    verbose : int
        1 shows progress.

    Attributes
    ----------
    values_ : array of shape (k,)
        The singular values: correlations with the penalty counted as variance.
    correlations_ : array of shape (k,)
        The plain correlations of the pairs over the rows.
    dual_coef_, dual_coef_y_ : arrays of shape (m, k) and (m_y, k)
    dictionary_, dictionary_y_, kernel_, n_components_

    References
    ----------
    Bach, Jordan, "Kernel independent component analysis", 2002, section 3.2; Hardoon, Szedmak, Shawe-Taylor,
    "Canonical correlation analysis", 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import KernelCCA
    >>> from squeak.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> common = rng.uniform(-1, 1, 2000)
    >>> X = np.column_stack([common, rng.standard_normal(2000)])
    >>> Y = np.column_stack([common**2, rng.standard_normal(2000)])       # no linear correlation with X
    >>> cca = KernelCCA(1, kernel=RBF(1.0), kernel_y=RBF(1.0), max_atoms=60, random_state=0).fit(X, Y)
    >>> bool(abs(np.corrcoef(X[:, 0], Y[:, 0])[0, 1]) < 0.05), bool(cca.correlations_[0] > 0.95)
    (True, True)
    """

    kind: ClassVar[str] = "kernel-cca"
    _state: ClassVar[Layout] = {
        "dual_coef_": state.numbers("m", "k"),
        "dual_coef_y_": state.numbers("m_y", "k"),
        **{name: state.numbers("k") for name in ("_shift", "_shift_y", "values_", "correlations_")},
    }
    _foundation: ClassVar[Layout] = {
        "dictionary_": NestedPiece(Dictionary, size="m"),
        "dictionary_y_": NestedPiece(Dictionary, "second_", "second", size="m_y"),
    }

    n_components: int = field(default=2, kw_only=False)
    kernel: Any = None
    kernel_y: Any = None
    alpha: float = 1.0
    dictionary_y: Any = None

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelCCA:
        """Find the pairs of functions.

        Parameters
        ----------
        X : array, CSR, table, or row source
            The first view. A row source carries the second as its targets, for arrays ``squeak.rows(X, target=Y)``;
            it is read block by block, on the workers of a cluster where a Dask client is active.
        y : array of shape (n,) or (n, columns)
            The second view.
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        self._check_choice()
        alpha, view = check_positive("alpha", self.alpha), _SecondView(self)
        check_whole("n_components", self.n_components)
        view.check()
        data = self._training(X, y, sample_weight, numeric=True)
        if not data.repeatable:
            raise ValueError("kernel CCA reads the rows more than once: an iterator cannot be")
        second = view.chosen(data.y, alpha) if isinstance(data, ArrayTraining) else view.learned_along(X, alpha)
        first = self._choose_dictionary(data, self._own_kernel(), alpha)
        maps = TriangularFeatures(first.kernel, first.atoms), TriangularFeatures(second.kernel, second.atoms)
        (moments,) = data.sum(JointTerm(*maps))
        self._solve(moments, maps, alpha)
        self.dictionary_y_, self.dictionary_ = second, first
        return self

    def _solve(self, moments: Array, maps: tuple[TriangularFeatures, TriangularFeatures], alpha: float) -> None:
        r, weight = maps[0].rank, float(moments[-1, -1])
        mean = moments[:-1, -1] / weight
        S = moments[:-1, :-1] - weight * np.outer(mean, mean)
        S = (S + S.T) / 2
        sides = (slice(None, r), slice(r, None))
        factors = [shifted_factor(S[side, side], alpha) for side in sides]
        middle = solve_triangular(factors[0], S[sides[0], sides[1]], lower=True)
        middle = solve_triangular(factors[1], middle.T, lower=True).T
        U, values, Vt = svd(middle, full_matrices=False, check_finite=False)
        k = min(int(self.n_components), len(values))
        a = solve_triangular(factors[0], U[:, :k], lower=True, trans="T")
        b = solve_triangular(factors[1], Vt[:k].T, lower=True, trans="T")
        atom_scores = gram(maps[0].kernel, maps[0].atoms) @ (maps[0].mixing @ a)
        signs = np.where(atom_scores[np.argmax(np.abs(atom_scores), axis=0), np.arange(k)] < 0, -1.0, 1.0)
        a, b = a * signs * np.sqrt(weight), b * signs * np.sqrt(weight)
        spread = np.prod(
            [np.einsum("ij,ij->j", c, S[side, side] @ c) for c, side in zip((a, b), sides, strict=True)], axis=0
        )
        spread = np.maximum(spread, 0.0)  # nothing varies: rounding may be negative
        shared = np.einsum("ij,ij->j", a, S[sides[0], sides[1]] @ b)
        self.values_ = values[:k]
        self.correlations_ = np.divide(shared, np.sqrt(spread), out=np.zeros(k), where=spread > 0)
        self.dual_coef_, self.dual_coef_y_ = maps[0].mixing @ a, maps[1].mixing @ b
        self._shift, self._shift_y = mean[:r] @ a, mean[r:] @ b

    @property
    def n_components_(self) -> int:  # type: ignore[override]
        """The number of pairs that were found."""
        return len(self.values_)

    def transform(self, X: Any, y: Any = None) -> Any:
        """Return f(x) for every row; with ``y``, g(y) as well.

        Parameters
        ----------
        X : array, CSR, table, or row source
        y : array, optional
            The second view.

        Returns
        -------
        array of shape (n, k), or two of them
        """
        left = self._first_view(X)
        return left if y is None else (left, self.transform_y(y))

    @by_blocks
    def _first_view(self, X: Any) -> Array:
        return atom_values(self._rows_for(X), self.dictionary_, self.dual_coef_, self._shift)

    def _functions(self) -> Sequence[Function]:
        return [replace(Expansion.of(self), intercept=-self._shift)]

    def transform_y(self, y: Any) -> Array:
        """Return g(y) for every row of the second view.

        Parameters
        ----------
        y : array of shape (n,) or (n, columns)

        Returns
        -------
        array of shape (n, k)
        """
        check_is_fitted(self)
        d = self.dictionary_y_
        return atom_values(as_rows(y, d.kernel, width_of(d.atoms)), d, self.dual_coef_y_, self._shift_y)

    def score(self, X: Any, y: Any) -> float:
        """Return the mean correlation of f(x) and g(y) over the pairs of functions, on these rows.

        Parameters
        ----------
        X, y : array
            The two views.

        Returns
        -------
        float
        """
        left, right = map(np.asarray, self.transform(X, y))
        if len(left) != len(right):
            raise ValueError(f"the views have {len(left):,} and {len(right):,} rows")
        left, right = left - left.mean(axis=0), right - right.mean(axis=0)
        spread = np.sqrt((left**2).sum(axis=0) * (right**2).sum(axis=0))
        return float(
            np.mean(np.divide((left * right).sum(axis=0), spread, out=np.zeros_like(spread), where=spread > 0))
        )

    def _restore(self, found: dict[str, Any]) -> None:
        super()._restore(found)
        self.kernel_y = self.dictionary_y_.kernel

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


def as_rows(y: Any, kernel: Any, width: int | None = None) -> Rows:
    """Return the second view as rows for its kernel: one column where it has one number a row."""
    refuse_hidden(y, "y")
    if isinstance(y, list) or (isinstance(y, np.ndarray) and y.ndim == 1) or type(y).__name__ == "Series":
        y = np.asarray(y)
        y = y.reshape(-1, 1) if y.ndim == 1 else y
    return check_rows(y, kernel, width=width)
