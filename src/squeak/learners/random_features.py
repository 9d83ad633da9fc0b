"""Random Fourier features as a transformer, and what the learners on them share."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from squeak.core import state, storage
from squeak.core.dictionary import preprocessing_from_parts, preprocessing_parts, restored_kernel, stored_kernel
from squeak.core.fourier import FourierFeatures, has_fourier_features
from squeak.core.kernels import resolve
from squeak.core.kernels.registry import check_stored
from squeak.core.rows import check_rows, refuse_hidden
from squeak.core.seeds import RandomState, draw_seed
from squeak.core.sources import Preprocessing, RowSource
from squeak.core.types import Array, Rows
from squeak.learners.base import DictionaryLearner, all_or_nothing
from squeak.learners.data import Training
from squeak.learners.stored import curves_of, restore_columns, restore_curves

MEDIAN_ROWS = 1000


def default_features(n: int) -> int:
    """Return how many features are drawn where nobody says: ⌈√n·log n⌉, the theory's √n with its logarithm."""
    return max(1, math.ceil(math.sqrt(n) * math.log(max(n, 2))))


class FourierLearner(DictionaryLearner):
    """Base of what uses random Fourier features: there is no dictionary, but rows are checked in the same way."""

    sampler = dictionary = max_atoms = None
    n_features: int | None
    features_: FourierFeatures
    preprocessing_: Preprocessing | None

    def _check_fourier(self) -> None:
        """Refuse what has no random features, before any row is read."""
        kernel = self._own_kernel()
        if not has_fourier_features(kernel):
            raise TypeError(
                f"random features are known for RBF, Laplacian, Matern and their multiples, not for {kernel!r}"
            )
        check_whole("n_features", self.n_features, optional=True)

    def _keep_preprocessing(self, X: Any) -> None:
        self.preprocessing_ = X.preprocessing if isinstance(X, RowSource) else None

    def _rows_for(self, X: Any) -> Rows:
        check_is_fitted(self)
        d = len(self.features_.frequencies)
        if isinstance(X, RowSource):
            if X.preprocessing != self.preprocessing_:
                raise ValueError(
                    "these rows were preprocessed in another way than those of the fit: "
                    "make them with squeak.rows(..., preprocessing=model.preprocessing_)"
                )
            return check_rows(X.collect()[0], self.kernel_, width=d)
        if self.preprocessing_ is not None:
            return check_rows(self.preprocessing_.encode(X), self.kernel_, width=d)
        refuse_hidden(X)
        checked = validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False, ensure_all_finite=False
        )
        return check_rows(checked, self.kernel_, width=d)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "features_")

    @property
    def kernel_(self) -> Any:
        """The kernel with every width a number."""
        return self.features_.kernel

    def _parts(self, arrays: dict[str, Any], content: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arrays and description of the features, the parameters that are data, and what is given."""
        encoding, described = preprocessing_parts(self.preprocessing_)
        names = getattr(self, "feature_names_in_", None)
        plain = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if value is None or isinstance(value, bool | int | float | str)
        }
        content = {
            **stored_kernel(self.kernel_),
            **content,
            "height": self.features_.height,
            "parameters": plain,
            "preprocessing": described,
            "n_features_in": int(self.n_features_in_),
            "feature_names": None if names is None else [str(name) for name in names],
        }
        arrays = {
            **arrays,
            "frequencies": self.features_.frequencies,
            "offsets": self.features_.offsets,
            **curves_of(self),
            **encoding,
        }
        return arrays, content

    @classmethod
    def _from_parts(cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any) -> Any:
        model = cls(**state.parameters(cls, content["parameters"]))
        found = state.checked(FEATURES, arrays, content)
        columns = len(found["frequencies"])
        if not found["frequencies"].size:
            raise ValueError("there are no features")
        fourier = check_stored(restored_kernel(content, kernel), np.zeros((1, columns)))
        model.set_params(kernel=fourier)
        model.features_ = FourierFeatures(fourier, found["frequencies"], found["offsets"], found["height"])
        model._check_fourier()
        model.preprocessing_ = preprocessing_from_parts(arrays, content)
        if model.preprocessing_ is not None and model.preprocessing_.n_features != columns:
            raise ValueError("the preprocessing does not fit the features")
        restore_curves(model, arrays)
        restore_columns(model, content["n_features_in"], content["feature_names"], columns)
        return model


FEATURES = {
    "frequencies": state.numbers("columns", "features"),
    "offsets": state.numbers("features"),
    "height": state.number(low=0.0),
}


@storage.register
class RandomFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FourierLearner):  # type: ignore[misc]
    """Random Fourier features: φ(x) = √(2/M)·cos(xΩ + b), whose inner products are the kernel's on average.

    The columns of Ω come from the kernel's spectral density: normal with variance 1/length_scale² for RBF, Cauchy
    in every column by itself for the Laplacian, Student's t with 2·nu degrees of freedom for Matérn.

    Parameters
    ----------
    kernel : RBF, Laplacian or Matern, or a multiple of one, optional
        RBF of the median width by default.
    n_features : int, optional
        M; ⌈√n·log n⌉ by default.
    random_state : None, int, RandomState or Generator

    Attributes
    ----------
    features_ : FourierFeatures
        Frequencies, offsets and height.
    kernel_

    Notes
    -----
    ``|φ(x)·φ(y) − k(x, y)| = O(M^(−1/2))`` whatever the data; Nyström features of a dictionary use the data, and
    need fewer numbers a row for the same error where the kernel's eigenvalues fall fast.

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

    def __init__(self, kernel: Any = None, n_features: int | None = None, random_state: RandomState = None) -> None:
        self.kernel = kernel
        self.n_features = n_features
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> RandomFeatures:
        """Draw the features for rows of this width; the values of the rows count only for a width of "median".

        Parameters
        ----------
        X : array, CSR, table, or row source
        y : ignored
        """
        self._check_fourier()
        if isinstance(X, RowSource):
            data: Training = self._source(X, None, None, target=False)
        else:
            data = self._array(X, None, None, targets=False)
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
        self.features_, self._n_features_out = features, n_features
        return self

    def transform(self, X: Any) -> Array:
        """Return φ(x) for every row, shape (n, M)."""
        rows = self._rows_for(X)
        return self.features_.transform(rows)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the features' arrays and the rest as JSON data."""
        return self._parts({}, {})

    @classmethod
    def from_parts(cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> RandomFeatures:
        """Return the transformer that was stored."""
        model: RandomFeatures = cls._from_parts(arrays, content, kernel)
        model._n_features_out = model.features_.rank
        return model


def check_whole(name: str, value: Any, optional: bool = False) -> None:
    """Refuse what is not a whole number from 1 on (or None, where that is allowed)."""
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number from 1 on; it is {value!r}")
