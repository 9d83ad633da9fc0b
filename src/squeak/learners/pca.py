"""Kernel principal components on a dictionary: one pass over the rows, in memory, out of core or as they come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from squeak.core import state, storage
from squeak.core.dictionary import Dictionary
from squeak.core.kernels import diagonal, gram
from squeak.core.nystrom import FixedFeatures, TriangularFeatures
from squeak.core.rows import n_rows
from squeak.core.seeds import RandomState
from squeak.core.sources import RowSource
from squeak.core.sums import Arrays
from squeak.core.types import Array, Rows
from squeak.learners.base import DictionaryLearner, all_or_nothing
from squeak.learners.data import Training
from squeak.learners.normal import UNKNOWN, NormalEquations, NormalTerm, leading_directions
from squeak.learners.one_pass import OnePass
from squeak.learners.preimage import preimages
from squeak.learners.stored import learner_from_parts, learner_to_parts
from squeak.learners.tiles import atom_values
from squeak.samplers.base import Sampler

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


@storage.register
class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DictionaryLearner):  # type: ignore[misc]
    """Principal components of the rows' feature vectors φ(x), found within the span of a dictionary.

    With features z(x) of the dictionary (‖z‖² ≤ k(x, x)) and Σ w z zᵀ = B Σ² Bᵀ (z − its mean in place of z where
    centred), the scores of a row are B_kᵀ z(x). With all rows as atoms this is kernel PCA itself.

    Parameters
    ----------
    n_components : int, None or "auto"
        None: all that are not rounding. "auto": those with an eigenvalue above the dictionary's ridge, which are
        the ones that its accuracy speaks of.
    kernel : kernel, optional
        RBF of the median width by default.
    centre : bool
        Subtract the mean of the feature vectors, as scikit-learn's KernelPCA does; the theory is uncentred.
    sampler, dictionary, max_atoms
        One of them at most, as in :class:`KernelRidge`.
    random_state : None, int, RandomState or Generator
    verbose : int

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
    _state: ClassVar[state.Table] = {
        "mixing": state.numbers("m", "r"),
        "gram": state.numbers("r", "r"),
        "moment": state.numbers("r", 2),
        "square": state.numbers(2),
        "weight": state.number(low=state.LEAST),
        "n": state.whole(low=1),
    }

    _stream: OnePass

    def __init__(
        self,
        n_components: int | str | None = None,
        kernel: Any = None,
        centre: bool = True,
        sampler: Sampler | None = None,
        dictionary: Any = None,
        max_atoms: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.centre = centre
        self.sampler = sampler
        self.dictionary = dictionary
        self.max_atoms = max_atoms
        self.random_state = random_state
        self.verbose = verbose

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
        """
        self._check_pca_parameters()
        if isinstance(X, RowSource):
            data: Training = self._source(X, None, sample_weight, target=False)
            if not data.repeatable and self.dictionary is None:
                stream = OnePass.begin(self)
                for found in X.blocks():
                    stream.add(found.X, moment_targets(self._own_kernel(), found.X), None)
                stream.preprocessing = X.preprocessing
                return self._keep(stream)
        else:
            data = self._array(X, None, sample_weight, targets=False)
        d = self._choose_dictionary(data, self._own_kernel(), None)
        stream = OnePass(None, self._features(d), d)
        assert stream.features is not None
        mean = float(diagonal(d.kernel, d.atoms).mean())
        n = data.n_at_most or UNKNOWN
        term = NormalTerm(stream.features, leading_directions(stream.features, n, RAW_UP_TO * mean * n))
        stream.equations, stream.dimensions = NormalEquations.of(term, data.sum(MomentTerm(term))), 2
        return self._keep(stream)

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelPCA:
        """Take in more rows, which are not needed again, and find the components of all so far.

        With a ``dictionary``, or after :meth:`fit`, the atoms stay and the result is that of one fit. Otherwise the
        dictionary is learned along the way by SQUEAK, and when it changes old rows are replaced by their projection
        on the new atoms: what they lose counts as reconstruction error.
        """
        self._check_pca_parameters()
        first = not hasattr(self, "_stream")
        data = self._array(X, None, sample_weight, targets=False, reset=first)
        stream = OnePass.begin(self) if first else self._stream.copy()
        stream.add(data.X, moment_targets(self._own_kernel() if first else self.kernel_, data.X), data.weight)
        return self._keep(stream)

    def _check_pca_parameters(self) -> None:
        self._check_choice()
        k = self.n_components
        whole = isinstance(k, int | np.integer) and not isinstance(k, bool) and k >= 1
        if not (k is None or (isinstance(k, str) and k == "auto") or whole):
            raise ValueError(f"n_components must be a whole number from 1 on, None or 'auto'; it is {k!r}")

    def _features(self, d: Dictionary) -> TriangularFeatures:
        return TriangularFeatures(d.kernel, d.atoms)

    def _keep(self, stream: OnePass) -> KernelPCA:
        """Take the components from the sums, and leave all that is known in the model."""
        equations, features = stream.equations, stream.features
        assert equations is not None
        assert features is not None
        d = stream.dictionary
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
        self.n_components_ = self._n_features_out = k
        self.dictionary_ = d
        return self

    def _chosen(self, values: Array, ridge: float) -> int:
        """Return how many components are kept."""
        if self.n_components is None:
            return max(1, int(np.sum(values > NOISE * len(values) * values[0])))
        if isinstance(self.n_components, str):
            return max(1, int(np.sum(values > ridge)))
        return min(int(self.n_components), len(values))

    def transform(self, X: Any) -> Array:
        """Return the scores B_kᵀ(z(x) − mean) of every row, shape (n, k)."""
        check_is_fitted(self)
        return atom_values(self._rows_for(X), self.dictionary_, self.dual_coef_, self._mean @ self._basis)

    def inverse_transform(self, X: Any) -> Array:
        """Return rows whose feature vectors are nearest to those that scores describe: pre-images.

        Exact for the linear kernel; for the Gaussian the nearest atoms and then a fixed-point iteration; for others
        the best combination of the nearest atoms. Rows are as the kernel sees them, after any preprocessing.
        """
        check_is_fitted(self)
        scores = check_array(X, dtype=np.float64)
        if scores.shape[1] != self.n_components_:
            raise ValueError(
                f"there are {self.n_components_} components; these scores have {scores.shape[1]} columns"
            )
        points = scores @ self._basis.T + self._mean
        return preimages(self.dictionary_.kernel, self.dictionary_.atoms, points @ self._feature_map.mixing.T)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the fitted model's arrays and the rest as JSON data; more rows can be taken in after loading."""
        equations = self._stream.equations
        assert equations is not None
        names = ("gram", "moment", "square", "weight", "n")
        sums = {name: getattr(equations, name) for name in names}
        return learner_to_parts(self, mixing=self._feature_map.mixing, **sums)

    @classmethod
    def from_parts(cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> KernelPCA:
        """Return the model that was stored; its dictionary no longer changes."""
        model: KernelPCA
        model, found = learner_from_parts(cls, arrays, content, kernel)
        d = model.dictionary_
        features: Any = FixedFeatures(d.kernel, d.atoms, found.pop("mixing"))
        stream = OnePass(None, features, d)
        stream.equations = NormalEquations(features, **found)
        model._check_pca_parameters()
        return model._keep(stream)
