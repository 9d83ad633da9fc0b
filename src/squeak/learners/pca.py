"""Kernel principal components on a dictionary: one pass over the rows, in memory, out of core or as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh
from sklearn.utils.validation import check_array, check_is_fitted

from squeak.core import state
from squeak.core.checks import check_whole
from squeak.core.constructors import parameters
from squeak.core.kernels import diagonal, gram
from squeak.core.rows import n_rows
from squeak.core.saved import Layout, name_of
from squeak.core.types import Array, Rows
from squeak.data import by_blocks
from squeak.learners.base import DictionaryLearner
from squeak.learners.expansion import Expansion
from squeak.learners.formula import Function
from squeak.learners.normal import UNKNOWN, NormalEquations, NormalTerm, leading_directions
from squeak.learners.one_pass import OnePass
from squeak.learners.preimage import preimages
from squeak.learners.rows import Transformer, all_or_nothing
from squeak.learners.tiles import atom_values
from squeak.trees.sums import Arrays

NOISE = 1e-12
"""Eigenvalues below this part of the largest are rounding."""

RAW_UP_TO = 1e-7
"""Kernel columns are summed as they are where that loses no more than a thousandth of this part of the trace."""


def moment_targets(kernel: Any, X: Rows) -> Array:
    """Return (1, √k(x, x)) for every row: as targets they make the normal equations hold Σ w z and Σ w k(x, x)."""
    return np.column_stack([np.ones(n_rows(X)), np.sqrt(diagonal(kernel, X))])


@dataclass(frozen=True)
class MomentTerm:
    """Σ w z zᵀ, Σ w z, Σ w and Σ w k(x, x)."""

    term: NormalTerm

    def __call__(self, X: Rows, pair: tuple[Any, Any]) -> Arrays:
        """Return the sums over a block."""
        return self.term(X, (moment_targets(self.term.features.kernel, X), pair[1]))


@parameters
class KernelPCA(Transformer, DictionaryLearner):
    """Principal components of the rows' feature vectors φ(x), found within the span of a dictionary.

    With the features z(x) of the dictionary (‖z‖² ≤ k(x, x)) and Σ w z zᵀ = B Σ² Bᵀ (with z − its mean in place of
    z if it is centred), the scores of a row are B_kᵀ z(x). If all rows are atoms, this is kernel PCA itself.

    Parameters
    ----------
    n_components : int, None or "auto"
        How many components to keep. None keeps all that are not rounding. "auto" keeps those with an eigenvalue
        above the dictionary's ridge, which are the ones that its accuracy is about.
    kernel : kernel, optional
        How similar two rows are. The default is an RBF of the median width.
    centre : bool
        Whether to subtract the mean of the feature vectors, as scikit-learn's KernelPCA does. The theory does not.
    sampler, dictionary, max_atoms
        How the atoms are chosen; give at most one, as in :class:`KernelRidge`.
    random_state : None, int, RandomState or Generator
        The seed. The same seed gives the same result, on any number of threads.
    verbose : int
        1 shows progress.

    Attributes
    ----------
    eigenvalues_ : array of shape (k,)
        σ², estimates from below of the eigenvalues of K (or of the centred K), largest first.
    explained_variance_, explained_variance_ratio_ : arrays of shape (k,)
        σ²/Σw, and σ² as a part of all that there is, Tr K (centred: Tr K − ‖Σ w z‖²/Σw).
    reconstruction_error_ : float
        Tr K − Σ σ², the squared distance of the rows' feature vectors from the components' span.
    dual_coef_ : array of shape (m, k)
        The components as combinations of the atoms.
    n_components_, dictionary_, kernel_

    Notes
    -----
    If the dictionary is (ε, ridge)-accurate, the error of k uncentred components is at most the best possible
    for k plus k·ε·ridge/(1 − ε).

    References
    ----------
    Thesis, section 4.2.3.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import KernelPCA
    >>> from squeak.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(0, 2 * np.pi, 3000)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.1 * rng.standard_normal((3000, 2))
    >>> pca = KernelPCA(n_components=4, kernel=RBF(1.0), max_atoms=60, random_state=0).fit(X)
    >>> pca.transform(X).shape, bool(pca.explained_variance_ratio_.sum() > 0.9)
    ((3000, 4), True)
    >>> clean = pca.inverse_transform(pca.transform(X))
    >>> bool(np.abs(np.hypot(*clean.T) - 1).mean() < np.abs(np.hypot(*X.T) - 1).mean())
    True
    """

    kind: ClassVar[str] = "kernel-pca"
    _state: ClassVar[Layout] = {
        "_feature_map.mixing": state.numbers("m", "r"),
        "_stream.equations.gram": state.numbers("r", "r"),
        "_stream.equations.moment": state.numbers("r", 2),
        "_stream.equations.square": state.numbers(2, low=0.0),
        "_stream.equations.weight": state.number(low=state.LEAST),
        "_stream.equations.n": state.whole(low=1),
    }

    _stream: OnePass = field(init=False)

    n_components: int | str | None = field(default=None, kw_only=False)
    kernel: Any = None
    centre: bool = True

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelPCA:
        """Find the components of all rows.

        Parameters
        ----------
        X : array, CSR, table, or row source
            A row source is read block by block, on the workers of a cluster where a Dask client is active; one
            that can be read only once is learned in one pass (:meth:`partial_fit`).
        y : ignored
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        self._check_pca_parameters()
        data = self._training(X, None, sample_weight, targets=False)
        if not data.repeatable and self.dictionary is None:
            stream = self._begin_stream(None)
            for found in X.blocks():
                stream.add(found.X, moment_targets(self._own_kernel(), found.X), None)
            stream.preprocessing = X.preprocessing
            return self._keep(stream)
        d = self._choose_dictionary(data, self._own_kernel(), None)
        features = self._features(d)
        mean = float(diagonal(d.kernel, d.atoms).mean())
        n = data.n_at_most or UNKNOWN
        term = NormalTerm(features, leading_directions(features, n, RAW_UP_TO * mean * n))
        equations = NormalEquations.of(term, data.sum(MomentTerm(term)))
        return self._keep(OnePass(None, features, d, equations=equations, dimensions=2))

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelPCA:
        """Take in more rows, which are not needed again, and find the components of all so far.

        With a ``dictionary``, or after :meth:`fit`, the atoms stay and the result is that of one fit. Otherwise the
        dictionary is learned along the way by SQUEAK, and when it changes old rows are replaced by their projection
        on the new atoms: what they lose counts as reconstruction error.

        Parameters
        ----------
        X : array, CSR or table
        y : ignored
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        self._check_pca_parameters()
        first = not hasattr(self, "_stream")
        data = self._array(X, None, sample_weight, targets=False, reset=first)
        stream = self._begin_stream(None) if first else self._stream.copy()
        stream.add(data.X, moment_targets(self._own_kernel() if first else self.kernel_, data.X), data.weight)
        return self._keep(stream)

    def _check_pca_parameters(self) -> None:
        self._check_choice()
        if self.n_components is not None and self.n_components != "auto":
            check_whole("n_components", self.n_components)

    def _keep(self, stream: OnePass) -> KernelPCA:
        """Take the components from the sums, and leave all that is known in the model."""
        equations, d = stream.summed(), stream.dictionary
        features = equations.features
        weight, trace = (float(value) for value in equations.square)
        mean = equations.moment[:, 0] / weight if self.centre else np.zeros(features.rank)
        values, vectors = eigh(equations.gram - weight * np.outer(mean, mean), check_finite=False)
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        total = max(trace - weight * float(mean @ mean), 0.0)
        k = self._chosen(values, d.ridge)
        basis = vectors[:, :k]
        atom_scores = gram(d.kernel, d.atoms) @ (features.mixing @ basis)
        largest = np.argmax(np.abs(atom_scores), axis=0)  # the atom farthest out decides the sign
        basis = basis * np.where(atom_scores[largest, np.arange(k)] < 0, -1.0, 1.0)
        self._mean, self._basis, self._feature_map, self._stream = mean, basis, features, stream
        self.dual_coef_ = features.mixing @ basis
        self.eigenvalues_ = values[:k]
        self.explained_variance_ = self.eigenvalues_ / weight
        self.explained_variance_ratio_ = self.eigenvalues_ / total if total > 0 else np.zeros(k)
        self.reconstruction_error_ = max(total - float(self.eigenvalues_.sum()), 0.0)
        self.n_components_ = k
        self.dictionary_ = d
        return self

    def _chosen(self, values: Array, ridge: float) -> int:
        """Return how many components are kept."""
        if self.n_components is None:
            return max(1, int(np.sum(values > NOISE * len(values) * values[0])))
        if isinstance(self.n_components, str):
            return max(1, int(np.sum(values > ridge)))
        return min(int(self.n_components), len(values))

    @by_blocks
    def transform(self, X: Any) -> Array:
        """Return the scores B_kᵀ(z(x) − mean) of every row.

        Parameters
        ----------
        X : array, CSR, table, or row source

        Returns
        -------
        array of shape (n, k)
        """
        rows = self._rows_for(X)
        return atom_values(rows, self.dictionary_, self.dual_coef_, self._mean @ self._basis)

    def _functions(self) -> Sequence[Function]:
        return [replace(Expansion.of(self), intercept=-(self._mean @ self._basis))]

    def inverse_transform(self, X: Any) -> Array:
        """Return rows whose feature vectors are nearest to those that scores describe: pre-images.

        Exact for the linear kernel; for the Gaussian the nearest atoms and then a fixed-point iteration; for others
        the best combination of the nearest atoms. Rows are as the kernel sees them, after any preprocessing.

        Parameters
        ----------
        X : array of shape (n, k)
            Scores, as :meth:`transform` returns them.

        Returns
        -------
        array of shape (n, d)
        """
        check_is_fitted(self)
        scores = check_array(X, dtype=np.float64)
        if scores.shape[1] != self.n_components_:
            raise ValueError(
                f"there are {self.n_components_} components; these scores have {scores.shape[1]} columns"
            )
        points = scores @ self._basis.T + self._mean
        return preimages(self.dictionary_.kernel, self.dictionary_.atoms, points @ self._feature_map.mixing.T)

    def _restore(self, found: dict[str, Any]) -> None:
        super()._restore(found)
        self._check_pca_parameters()
        sums = {name_of(path): value for path, value in found.items() if path.startswith("_stream.")}
        equations = NormalEquations(self._feature_map, **sums)
        if not np.isclose(equations.square[0], equations.weight, rtol=1e-6, atol=0.0):
            raise ValueError("the weight of its rows is not that of its sums")
        self._keep(OnePass(None, self._feature_map, self.dictionary_, equations=equations))
