"""Random Fourier features as a transformer, and what the learners on them share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from squeak.core import state
from squeak.core.checks import check_whole
from squeak.core.constructors import parameters
from squeak.core.fourier import FourierFeatures, has_fourier_features
from squeak.core.kernels import resolve
from squeak.core.kernels.registry import check_stored
from squeak.core.saved import KernelPiece, Layout, NestedPiece
from squeak.core.seeds import draw_seed
from squeak.core.types import Array
from squeak.data import Preprocessing, RowSource, by_blocks
from squeak.learners.formula import Cosines, Function
from squeak.learners.rows import KernelLearner, Transformer, all_or_nothing

MEDIAN_ROWS = 1000


def default_features(n: int) -> int:
    """Return how many features are drawn where nobody says: ⌈√n·log n⌉, the theory's √n with its logarithm."""
    return max(1, math.ceil(math.sqrt(n) * math.log(max(n, 2))))


@parameters
class FourierLearner(KernelLearner):
    """Base of what uses random Fourier features: there is no dictionary, but rows are checked in the same way."""

    _columns_part: ClassVar[str] = "n_features_in"
    _foundation: ClassVar[Layout] = {
        "features_.kernel": KernelPiece(),
        "features_.frequencies": state.numbers("columns", "features"),
        "features_.offsets": state.numbers("features"),
        "features_.height": state.number(low=0.0),
        "_preprocessing": NestedPiece(Preprocessing, optional=True),
    }

    n_features: int | None = None
    features_: FourierFeatures = field(init=False)
    _preprocessing: Preprocessing | None = field(init=False)

    def _check_fourier(self) -> None:
        """Refuse what has no random features, before any row is read."""
        kernel = self._own_kernel()
        if not has_fourier_features(kernel):
            raise TypeError(
                f"random features are known for RBF, Laplacian, Matern and their multiples, not for {kernel!r}"
            )
        if self.n_features is not None:
            check_whole("n_features", self.n_features)

    def _keep_preprocessing(self, X: Any) -> None:
        self._preprocessing = X.preprocessing if isinstance(X, RowSource) else None

    def _width(self) -> int | None:
        return len(self.features_.frequencies)

    def _cosines(self, mixing: Array, intercept: Any = 0.0) -> Cosines:
        """Return the features times a matrix or one number each, as a function."""
        found = self.features_
        return Cosines(found.frequencies, found.offsets, found.height * mixing, intercept)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "features_")

    @property
    def kernel_(self) -> Any:
        """The kernel with every width a number."""
        return self.features_.kernel

    @property
    def preprocessing_(self) -> Preprocessing | None:
        """What turns the user's columns into rows, where a row source brought it; else None."""
        return self._preprocessing

    def _restore(self, found: dict[str, Any]) -> None:
        parts = {name: found[f"features_.{name}"] for name in ("kernel", "frequencies", "offsets", "height")}
        columns = len(parts["frequencies"])
        if not parts["frequencies"].size:
            raise ValueError("there are no features")
        check_stored(parts["kernel"], np.zeros((1, columns)))
        self.features_, self._preprocessing = FourierFeatures(**parts), found["_preprocessing"]
        super()._restore(found)
        self._check_fourier()
        if self._preprocessing is not None and self._preprocessing.n_features != columns:
            raise ValueError("the preprocessing does not fit the features")


@parameters
class RandomFeatures(Transformer, FourierLearner):
    """Random Fourier features: φ(x) = √(2/M)·cos(xΩ + b), whose inner products are the kernel's on average.

    The columns of Ω come from the kernel's spectral density: normal with variance 1/length_scale² for RBF, Cauchy
    in every column independently for the Laplacian, and Student's t with 2·nu degrees of freedom for Matérn.

    Parameters
    ----------
    kernel : RBF, Laplacian or Matern, or a multiple of one, optional
        How similar two rows are. The default is an RBF of the median width.
    n_features : int, optional
        The number M of features. The default is ⌈√n·log n⌉.
    random_state : None, int, RandomState or Generator
        The seed. The same seed gives the same result, on any number of threads.

    Attributes
    ----------
    features_ : FourierFeatures
        Frequencies, offsets and height.
    kernel_
        The kernel, with a number for its width.

    Notes
    -----
    ``|φ(x)·φ(y) − k(x, y)| = O(M^(−1/2))``, whatever the data. Nyström features of a dictionary look at the data.
    Where the kernel's eigenvalues fall fast, they need fewer features for the same error.

    References
    ----------
    Rahimi, Recht, NIPS 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import RandomFeatures
    >>> from squeak.kernels import Matern
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> Z = RandomFeatures(Matern(2.0, nu=1.5), n_features=20_000, random_state=0).fit_transform(X)
    >>> Z.shape, bool(np.abs(Z @ Z.T - Matern(2.0, nu=1.5)(X)).max() < 0.05)
    ((100, 20000), True)
    """

    kind: ClassVar[str] = "random-features"

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> RandomFeatures:
        """Draw the features for rows of this width; the values of the rows count only for a width of "median".

        Parameters
        ----------
        X : array, CSR, table, or row source
        y : ignored

        Returns
        -------
        self
        """
        self._check_fourier()
        data = self._training(X, None, None, targets=False)
        some = data.head(MEDIAN_ROWS)
        if self.n_features is not None:
            n_features = int(self.n_features)
        elif data.n_at_most is not None:
            n_features = default_features(data.n_at_most)
        else:
            raise ValueError("this source does not say how many rows it has: give n_features")
        kernel = resolve(self._own_kernel(), some)
        features = FourierFeatures.draw(kernel, some.shape[1], n_features, draw_seed(self.random_state))
        self._keep_preprocessing(X)
        self.features_ = features
        return self

    @property
    def _n_features_out(self) -> int:
        return self.features_.rank

    def _functions(self) -> Sequence[Function]:
        return [self._cosines(np.ones(self.features_.rank))]

    @by_blocks
    def transform(self, X: Any) -> Array:
        """Return φ(x) for every row.

        Parameters
        ----------
        X : array, CSR, table, or row source

        Returns
        -------
        array of shape (n, M)
        """
        rows = self._rows_for(X)
        return self.features_.transform(rows)
