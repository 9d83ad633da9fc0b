"""Kernel ridge regression with alpha chosen by its leave-one-out error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from squeak.core import storage
from squeak.core.seeds import RandomState
from squeak.core.sources import RowSource
from squeak.core.types import Array
from squeak.learners.data import ArrayTraining, Shifted, Training, centred
from squeak.learners.ridge import KernelRidge
from squeak.learners.solving import check_alpha
from squeak.learners.tuning import leave_one_out
from squeak.samplers.base import Sampler

DEFAULT_ALPHAS = tuple(float(alpha) for alpha in np.geomspace(1e-3, 1e3, 13))


@storage.register
class KernelRidgeCV(KernelRidge):
    """Kernel ridge regression on a dictionary, with the alpha of least leave-one-out error.

    One pass for the normal equations, whose eigenvectors give the coefficients at every alpha; one more for the
    exact leave-one-out errors of all of them, (y_i − f(x_i))/(1 − h_i) with h_i = w_i z_iᵀ(Σ w z zᵀ +
    alpha·I)⁻¹z_i.

    Parameters
    ----------
    kernel : kernel, optional
    alphas : sequence of float
        13 from 1e-3 to 1e3 by default.
    sampler, dictionary, max_atoms, fit_intercept, regularised, random_state, verbose
        As in :class:`KernelRidge`.

    Attributes
    ----------
    alpha_ : float
        The one with the least error.
    errors_ : array of shape (alphas,)
        Mean squared leave-one-out errors.
    coef_path_ : array of shape (alphas, m) or (alphas, m, outputs)
        Coefficients at every alpha.

    References
    ----------
    Golub, Heath, Wahba 1979 for the identity; the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import KernelRidgeCV
    >>> from squeak.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (3000, 1))
    >>> y = np.sin(2 * X[:, 0]) + rng.standard_normal(3000)
    >>> model = KernelRidgeCV(kernel=RBF(0.5), max_atoms=50, random_state=0).fit(X, y)
    >>> 1 <= model.alpha_ <= 100, bool(model.errors_.min() < 1.05)
    (True, True)
    """

    kind: ClassVar[str] = "kernel-ridge-cv"

    def __init__(
        self,
        kernel: Any = None,
        alphas: Any = DEFAULT_ALPHAS,
        sampler: Sampler | None = None,
        dictionary: Any = None,
        max_atoms: int | None = None,
        fit_intercept: bool = False,
        regularised: bool = False,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.alphas = alphas
        self.sampler = sampler
        self.dictionary = dictionary
        self.max_atoms = max_atoms
        self.fit_intercept = fit_intercept
        self.regularised = regularised
        self.random_state = random_state
        self.verbose = verbose

    solver, preconditioner, max_iter, tol, memory_budget = "direct", "auto", 1, 1e-7, None
    warm_start = False
    callback: Callable[[int, Array], bool | None] | None = None
    alpha: Any = "auto"

    def _fit(self, X: Any, y: Any, sample_weight: Any, run: Any = None) -> KernelRidge:
        """Learn from all rows, in two passes."""
        alphas = np.array([check_alpha(alpha) for alpha in np.atleast_1d(self.alphas).tolist()])
        self._check_choice()
        self._forget()
        if isinstance(X, RowSource):
            data: Training = self._source(X, y, sample_weight, numeric=True, run=run)
            if not data.repeatable:
                raise ValueError("leave-one-out errors take a second pass: an iterator can be read only once")
        else:
            data = self._array(X, y, sample_weight, multi_output=True, y_numeric=True)
        self.intercept_ = np.zeros(1)
        if self.fit_intercept and isinstance(data, ArrayTraining):
            data, self.intercept_ = centred(data)
        d = self._dictionary_of(data)
        features = self._features(d)
        equations = self._equations(data, features, float(alphas.min()))
        spectrum = equations.spectrum()
        if isinstance(data, ArrayTraining):
            single = data.y.ndim == 1
        else:
            single = equations.moment.shape[1] == 1
            data = replace(data, encode=Shifted(data.encode, self.intercept_))
        self.errors_ = leave_one_out(data, features, spectrum, alphas)
        self.alpha_ = float(alphas[int(np.argmin(self.errors_))])
        path = np.array([features.mixing @ spectrum.solve(alpha) for alpha in alphas.tolist()])
        self.coef_path_ = path[:, :, 0] if single else path
        self.solver_, self.rank_, self._feature_map, self.condition_ = "direct", features.rank, features, None
        self._gram, self.n_iter_ = equations.gram, 1
        return self._keep(d, path[int(np.argmin(self.errors_))], single=single)

    def _streams(self) -> bool:
        """Return False: leave-one-out errors need the rows again."""
        return False
