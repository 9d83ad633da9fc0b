"""Gradient descent on all rows, stopped early: the small reference that the fast learners are held against."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from squeak.core import state
from squeak.core.checks import check_between, check_positive, check_whole
from squeak.core.constructors import parameters
from squeak.core.kernels import block, gram, resolve
from squeak.core.rows import n_rows, take
from squeak.core.saved import Layout
from squeak.core.seeds import coins, draw_seed
from squeak.core.types import Array
from squeak.data import PredictsBlocks, by_blocks
from squeak.learners.base import landmarks
from squeak.learners.rows import KernelLearner, all_or_nothing
from squeak.learners.tiles import atom_values

MOST_ROWS = 20_000
"""Rows beyond which the kernel matrix would take more than 3 GB."""


@parameters
class KernelGradientDescent(MultiOutputMixin, RegressorMixin, PredictsBlocks, KernelLearner):
    """Kernel least squares by gradient descent (Landweber, L2-boosting), regularised by stopping early.

    c_t = c_{t−1} − step/(κ²·n)·(K c_{t−1} − y), c_0 = 0, with κ² = max k(x, x): after t steps an eigenvalue λ of
    K/n has come 1 − (1 − step·λ/κ²)^t of its way, much as ridge regression with λn = κ²·n/(step·t) would let it.

    Parameters
    ----------
    kernel : kernel, optional
        RBF of the median width by default.
    step : float
        In units of 1/κ², at most 1.
    max_iter : int, optional
        Steps; ⌈√n⌉ by default.
    validation_fraction : float
        Part of the rows that are held out; the step with the least error on them is kept. 0: the last one.
    random_state : None, int, RandomState or Generator
        For the rows held out.

    Attributes
    ----------
    dual_coef_ : array of shape (n,) or (n, outputs)
    n_iter_ : int
        The step that was kept.
    validation_errors_ : array
        Mean squared error on the rows held out, after every step.
    dictionary_, kernel_

    Notes
    -----
    O(n²) memory and O(n²·t) time: for a few thousand rows. The source's equations 2.35 and 2.36 have one K too
    many, with which the steps diverge at this length; its sum must end at t − 1.

    References
    ----------
    Yao, Rosasco, Caponnetto, "On early stopping in gradient descent learning", 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.learners import KernelGradientDescent
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (400, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(400)
    >>> model = KernelGradientDescent(RBF(1.0), max_iter=300, validation_fraction=0.2, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    kind: ClassVar[str] = "kernel-gradient-descent"
    _state: ClassVar[Layout] = {
        "dual_coef_": state.numbers("m", "outputs?", low=-state.HUGE, high=state.HUGE),
        "n_iter_": state.whole(),
    }

    step: float = 1.0
    max_iter: int | None = None
    validation_fraction: float = 0.0

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelGradientDescent:
        """Learn from rows in memory.

        Parameters
        ----------
        X : array, CSR or table
        y : array of shape (n,) or (n, outputs)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        if self.max_iter is not None:
            check_whole("max_iter", self.max_iter)
        if check_positive("step", self.step) > 1:
            raise ValueError(f"step must lie in (0, 1], in units of 1/κ²; it is {self.step!r}")
        check_between("validation_fraction", self.validation_fraction, 0.0, 0.9)
        data = self._array(X, y, sample_weight, multi_output=True, y_numeric=True)
        if n_rows(data.X) > MOST_ROWS:
            raise ValueError(
                f"{n_rows(data.X):,} rows make too large a kernel matrix: use KernelRidge, or a sample"
            )
        kernel = resolve(self._own_kernel(), data.X)
        n = n_rows(data.X)
        held = coins(draw_seed(self.random_state), 0, n) < self.validation_fraction
        if held.all():
            held[:] = False
        train, test = np.flatnonzero(~held), np.flatnonzero(held)
        rows, targets = take(data.X, train), data.y.reshape(n, -1).astype(np.float64)
        weight = np.ones(len(train)) if data.weight is None else data.weight[train]
        K, beside = gram(kernel, rows), block(kernel, take(data.X, test), rows) if len(test) else None
        largest = float(K.diagonal().max())
        if largest <= 0:
            raise ValueError(f"{kernel!r} is zero for all rows: there is nothing to learn from")
        length = float(self.step) / (largest * float(weight.sum()))
        coef, best, errors = np.zeros((len(train), targets.shape[1])), None, []
        steps = math.ceil(math.sqrt(n)) if self.max_iter is None else int(self.max_iter)
        for _ in range(steps):
            coef -= length * weight[:, None] * (K @ coef - targets[train])
            if beside is not None:
                errors.append(float(np.mean((beside @ coef - targets[test]) ** 2)))
                if errors[-1] == min(errors):
                    best = coef.copy()
        self.validation_errors_ = np.array(errors)
        self.n_iter_ = steps if best is None else int(np.argmin(errors)) + 1
        coef = coef if best is None else best
        self.dual_coef_ = coef[:, 0] if data.y.ndim == 1 else coef
        self.dictionary_ = landmarks(rows, kernel)
        return self

    @by_blocks
    def predict(self, X: Any) -> Array:
        """Return f(x) for every row.

        Parameters
        ----------
        X : array, CSR, table, or row source

        Returns
        -------
        array of shape (n,) or (n, outputs)
        """
        rows = self._rows_for(X)
        values = atom_values(rows, self.dictionary_, self.dual_coef_.reshape(len(self.dual_coef_), -1))
        return values[:, 0] if self.dual_coef_.ndim == 1 else values
