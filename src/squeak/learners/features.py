"""Nyström features as a transformer: kernel learning with any linear model, in a pipeline."""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from squeak.core import state, storage
from squeak.core.dictionary import Dictionary
from squeak.core.nystrom import EigenFeatures, Features, FixedFeatures, TriangularFeatures
from squeak.core.seeds import RandomState
from squeak.core.sources import RowSource
from squeak.core.types import Array
from squeak.learners.base import DictionaryLearner, all_or_nothing
from squeak.learners.stored import learner_from_parts, learner_to_parts
from squeak.samplers.base import Sampler
from squeak.samplers.stream import StreamSampler


@storage.register
class Nystroem(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DictionaryLearner):  # type: ignore[misc]
    """Map rows to vectors whose inner products approximate the kernel, by landmarks of high leverage.

    z(x) = Mᵀ k(atoms, x) with Mᵀ K_MM M = I, so that ⟨z(x), z(x')⟩ = k(x, x') for atoms and is below it by at most
    ε·ridge/(1 − ε) over the rows, if the dictionary is (ε, ridge)-accurate.

    Parameters
    ----------
    kernel : kernel, optional
        RBF of the median width by default.
    sampler, dictionary, max_atoms
        One of them at most: a sampler, a :class:`Dictionary` or rows as landmarks, or a number of atoms.
    form : "eigen" or "triangular"
        Uncorrelated over the atoms, largest first; or half the cost, and the first columns belong to the first
        atoms.
    regularised : bool
        K̃ = C(S K_MM S + ridge·I)⁻¹Cᵀ with the dictionary's weights and ridge.
    n_components : int, optional
        Keep so many features, the first; all by default.
    random_state : None, int, RandomState or Generator
    verbose : int

    Attributes
    ----------
    dictionary_, kernel_
    n_components_ : int
        The number of features: the rank of K_MM, or ``n_components``.

    References
    ----------
    Thesis, section 4.1.1; the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import Nystroem
    >>> from squeak.kernels import RBF
    >>> X = np.random.default_rng(0).standard_normal((1000, 2))
    >>> Z = Nystroem(kernel=RBF(2.0), max_atoms=80, random_state=0).fit_transform(X)
    >>> bool(np.abs(Z @ Z.T - RBF(2.0)(X)).max() < 1e-2)
    True
    """

    kind: ClassVar[str] = "nystroem"
    _state: ClassVar[state.Table] = {"mixing": state.numbers("m", "r")}

    _stream: Any
    _features_of: Features

    def __init__(
        self,
        kernel: Any = None,
        sampler: Sampler | None = None,
        dictionary: Any = None,
        max_atoms: int | None = None,
        form: str = "eigen",
        regularised: bool = False,
        n_components: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.sampler = sampler
        self.dictionary = dictionary
        self.max_atoms = max_atoms
        self.form = form
        self.regularised = regularised
        self.n_components = n_components
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        self._check_choice()
        if self.form not in ("eigen", "triangular"):
            raise ValueError(f"form must be 'eigen' or 'triangular'; it is {self.form!r}")
        if self.n_components is not None:
            if isinstance(self.n_components, bool) or not isinstance(self.n_components, int | np.integer):
                raise TypeError(f"n_components must be a whole number; it is {self.n_components!r}")
            if self.n_components < 1:
                raise ValueError(f"n_components must be from 1 on; it is {self.n_components}")

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Nystroem:
        """Choose the dictionary of the rows; ``y`` is ignored, for pipelines."""
        self._check_parameters()
        self.__dict__.pop("_stream", None)
        if isinstance(X, RowSource):
            data: Any = self._source(X, y, None, target=False)
        else:
            data = self._array(X, None, None, targets=False)
        return self._map(self._choose_dictionary(data, self._own_kernel(), None))

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any = None) -> Nystroem:
        """Read more rows: the dictionary grows with them (SQUEAK, or the sampler given), and features change.

        It goes on from the dictionary that :meth:`fit` chose or that was loaded, if its weights estimate sums over
        the rows. One that was given as ``dictionary`` stays as it is.
        """
        self._check_parameters()
        first = not hasattr(self, "dictionary_")
        data = self._array(X, None, None, targets=False, reset=first)
        if self.dictionary is not None:
            return self._map(self._choose_dictionary(data, self._own_kernel(), None))
        stream = copy(self._stream) if hasattr(self, "_stream") else self._stream_sampler(None)
        if not first and not hasattr(self, "_stream"):
            if not isinstance(stream, StreamSampler):
                raise ValueError(
                    f"{type(stream).__name__} cannot go on from a fit: give it all rows by partial_fit"
                )
            stream.go_on_from(self.dictionary_)
        stream.partial_fit(data.X)
        self._stream = stream
        return self._map(stream.dictionary_)

    def _map(self, d: Dictionary) -> Nystroem:
        kind = EigenFeatures if self.form == "eigen" else TriangularFeatures
        weights, ridge = (d.weights, d.ridge) if self.regularised else (None, 0.0)
        features: Features = kind(d.kernel, d.atoms, weights, ridge)
        if self.n_components is not None:
            features.mixing = np.ascontiguousarray(features.mixing[:, : self.n_components])
        self._features_of, self.dictionary_ = features, d
        return self

    @property
    def n_components_(self) -> int:
        """The number of features."""
        return self._features_of.rank

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def transform(self, X: Any) -> Array:
        """Return the features of rows, shape (n, ``n_components_``)."""
        check_is_fitted(self)
        return self._features_of.transform(self._rows_for(X))

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the fitted map's arrays and the rest as JSON data."""
        return learner_to_parts(self, mixing=self._features_of.mixing)

    @classmethod
    def from_parts(cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> Nystroem:
        """Return the map that was stored."""
        model: Nystroem
        model, found = learner_from_parts(cls, arrays, content, kernel)
        model._features_of = FixedFeatures(model.kernel_, model.dictionary_.atoms, found["mixing"])
        return model
