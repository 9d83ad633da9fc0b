"""Nyström features as a transformer: kernel learning with any linear model, in a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from squeak.core import state
from squeak.core.checks import check_choice, check_whole
from squeak.core.constructors import parameters
from squeak.core.nystrom import EigenFeatures, Features, TriangularFeatures
from squeak.core.saved import Layout
from squeak.core.types import Array
from squeak.data import by_blocks
from squeak.learners.base import DictionaryLearner
from squeak.learners.expansion import Expansion
from squeak.learners.formula import Function
from squeak.learners.rows import Transformer, all_or_nothing
from squeak.samplers.dictionary import Dictionary
from squeak.samplers.stream import StreamSampler


@parameters
class Nystroem(Transformer, DictionaryLearner):
    """Turn rows into vectors whose inner products approximate a kernel, by atoms of high leverage.

    The features are z(x) = Mᵀ k(atoms, x) with Mᵀ K_MM M = I. So ⟨z(x), z(x')⟩ = k(x, x') for atoms. If the
    dictionary is (ε, ridge)-accurate, it is below k(x, x') by at most ε·ridge/(1 − ε) over the rows.

    Parameters
    ----------
    kernel : kernel, optional
        How similar two rows are. The default is an RBF of the median width.
    sampler, dictionary, max_atoms
        How the atoms are chosen; give at most one: a sampler, a :class:`Dictionary` or rows, or a number of atoms.
    form : "eigen" or "triangular"
        "eigen" gives features that are uncorrelated over the atoms, the largest first. "triangular" costs half as
        much, and its first columns belong to the first atoms.
    regularised : bool
        Whether to use K̃ = C(S K_MM S + ridge·I)⁻¹Cᵀ with the dictionary's weights and ridge.
    n_components : int, optional
        How many of the features to keep, the first ones. All are kept by default.
    random_state : None, int, RandomState or Generator
        The seed. The same seed gives the same result, on any number of threads.
    verbose : int
        1 shows progress.

    Attributes
    ----------
    dictionary_, kernel_
        What was used in the fit.
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
    _state: ClassVar[Layout] = {"_feature_map.mixing": state.numbers("m", "r")}

    _stream: Any = field(init=False)

    form: str = "eigen"
    regularised: bool = False
    n_components: int | None = None

    def _check_parameters(self) -> None:
        self._check_choice()
        check_choice("form", self.form, "eigen", "triangular")
        if self.n_components is not None:
            check_whole("n_components", self.n_components)

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Nystroem:
        """Choose the dictionary of the rows.

        Parameters
        ----------
        X : array, CSR, table, or row source
        y : ignored

        Returns
        -------
        self
        """
        self._check_parameters()
        self.__dict__.pop("_stream", None)
        data = self._training(X, None, None, targets=False)
        return self._map(self._choose_dictionary(data, self._own_kernel(), None))

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any = None) -> Nystroem:
        """Read more rows: the dictionary grows with them (SQUEAK, or the sampler given), and features change.

        It goes on from the dictionary that :meth:`fit` chose or that was loaded, if its weights estimate sums over
        the rows. One that was given as ``dictionary`` stays as it is.

        Parameters
        ----------
        X : array, CSR or table
        y : ignored

        Returns
        -------
        self
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
        self._feature_map, self.dictionary_ = features, d
        return self

    @property
    def n_components_(self) -> int:  # type: ignore[override]
        """The number of features."""
        return self._feature_map.rank

    def _functions(self) -> Sequence[Function]:
        d, mixing = self.dictionary_, self._feature_map.mixing
        return [Expansion(d.kernel, d.atoms, mixing, np.zeros(mixing.shape[1]))]

    @by_blocks
    def transform(self, X: Any) -> Array:
        """Return the features of rows.

        Parameters
        ----------
        X : array, CSR, table, or row source

        Returns
        -------
        array of shape (n, ``n_components_``)
        """
        rows = self._rows_for(X)
        return self._feature_map.transform(rows)
