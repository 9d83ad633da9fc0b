"""Kernel ridge regression with alpha chosen by its leave-one-out error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np

from squeak.core.checks import check_positive
from squeak.core.constructors import parameters
from squeak.core.seeds import draw_seed
from squeak.core.types import Array
from squeak.learners.data import ArrayTraining, Shifted
from squeak.learners.drawn import drawn_from, watched
from squeak.learners.ridge import KernelRidge
from squeak.learners.tuning import leave_one_out

DEFAULT_ALPHAS = tuple(float(alpha) for alpha in np.geomspace(1e-3, 1e3, 13))


@parameters
class KernelRidgeCV(KernelRidge):
    """Kernel ridge regression on a dictionary, with the alpha of least leave-one-out error.

    One pass sums the normal equations, whose eigenvectors give the coefficients at every alpha. One more pass gives
    the exact leave-one-out errors of all alphas, (y_i − f(x_i))/(1 − h_i) with h_i = w_i z_iᵀ(Σ w z zᵀ +
    alpha·I)⁻¹z_i.

    Parameters
    ----------
    kernel : kernel, optional
        How similar two rows are. The default is an RBF of the median width.
    alphas : sequence of float
        The penalties to choose from. The default is 13 values from 1e-3 to 1e3.
    sampler, dictionary, max_atoms, fit_intercept, regularised, random_state, verbose
        As in :class:`KernelRidge`.

    Attributes
    ----------
    alpha_ : float
        The penalty with the least error.
    errors_ : array of shape (alphas,)
        The mean squared leave-one-out error of every alpha.
    coef_path_ : array of shape (alphas, m) or (alphas, m, outputs)
        The coefficients at every alpha.

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

    alphas: Any = field(default=DEFAULT_ALPHAS, kw_only=False)

    alpha: float | str = field(default="auto", init=False)  # what follows is not for the user to choose
    solver: str = field(default="direct", init=False)
    preconditioner: str = field(default="auto", init=False)
    max_iter: int = field(default=1, init=False)
    tol: float = field(default=1e-7, init=False)
    memory_budget: float | None = field(default=None, init=False)
    warm_start: bool = field(default=False, init=False)
    callback: Callable[[int, Array], bool | None] | None = field(default=None, init=False)

    def _check_ridge_parameters(self) -> None:
        for alpha in np.atleast_1d(self.alphas).tolist():
            check_positive("alpha", alpha)
        self._check_choice()

    def _fit(self, X: Any, y: Any, sample_weight: Any, run: Any = None) -> None:
        """Learn from all rows, in two passes."""
        self._forget()
        data = self._training(X, y, sample_weight, numeric=True, run=run)
        if not data.repeatable:
            raise ValueError("leave-one-out errors take a second pass: an iterator can be read only once")
        seed = draw_seed(self.random_state)
        seen = data = watched(data, seed)
        data, d = self._centred(data)
        alphas = np.array([float(alpha) for alpha in np.atleast_1d(self.alphas).tolist()])
        features = self._hold(self._features(d))
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
        self.solver_, self._gram, self.n_iter_, self.condition_ = "direct", equations.gram, 1, None
        self._sums = (spectrum.residual(self.alpha_), equations.weight)
        self._keep(d, path[int(np.argmin(self.errors_))], single, drawn_from(seen, seed))

    def _streams(self) -> bool:
        """Return False: leave-one-out errors need the rows again."""
        return False
