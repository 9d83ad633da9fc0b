"""Regression by stochastic gradient descent on random features: rows stream by, batch by batch."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from squeak.core import state
from squeak.core.constructors import parameters
from squeak.core.saved import Layout
from squeak.core.types import Array
from squeak.data import PredictsBlocks, by_blocks
from squeak.learners.formula import Answers, Numbers
from squeak.learners.rows import all_or_nothing
from squeak.learners.sgd import Descent
from squeak.learners.sgd_learner import SgdLearner


@parameters
class RandomFeatureRegressor(MultiOutputMixin, RegressorMixin, PredictsBlocks, SgdLearner):
    """Least squares on random Fourier features, by mini-batch gradient steps: f(x) = mean(y) + w·φ(x).

    The steps are w ← w − step/(κ²·b)·t^(−decay)·Σ_batch φ(x)(f(x) − y), from 0. They take a time of order
    rows·M·passes and a memory of order b·M, and read rows from any source in their order. There is no penalty:
    stopping early is what regularises.

    Parameters
    ----------
    kernel : RBF, Laplacian or Matern, or a multiple of one, optional
        How similar two rows are. The default is an RBF of the median width.
    n_features : int, optional
        The number M of random features. The default is ⌈√n·log n⌉.
    batch_size : int, optional
        The number b of rows of a step. The default is ⌈√n⌉, beyond which larger batches only waste passes.
    step : float or "auto"
        The step in units of 1/κ² (κ² = 2·k(x, x)): 1 is that of the theory. "auto" is the longest safe one for the
        batch, κ²·b/(κ² + (b − 1)·λ) with the largest eigenvalue λ of the features' covariance.
    decay : float
        The step falls like t^(−decay); 0 is best in practice.
    max_iter : int
        The largest number of passes over the rows.
    validation_fraction : float
        The part of the rows (at most 10,000 of them) that are held out to stop early; 0 for none.
    patience, tol : int, float
        Stop after so many passes whose error is not lower by this part than the least before.
    tail : float
        The last part of every pass's steps, over which iterates are averaged; 0 takes the last iterate.
    shuffle : bool
        Whether to use the rows in a random order: all of them if they are in memory, block by block (65,536 rows at
        most) if they come from a source. A source that is sorted needs ``squeak.rows(..., shuffle=True)`` as well.
    replacement : bool
        Whether to draw the rows of every batch independently, as the analysis assumes. A pass is then n draws, in
        which some rows come twice and others not at all. From a source they are drawn within a block.
    random_state : None, int, RandomState or Generator
        The seed. The same seed gives the same result, on any number of threads.

    Attributes
    ----------
    coef_ : array of shape (M,) or (M, outputs)
    intercept_ : float or array of shape (outputs,)
    features_, kernel_
    step_, batch_size_, n_passes_, n_steps_
    validation_errors_ : array
        Mean ½(f − y)² over the rows held out, after every pass.

    Notes
    -----
    The thesis draws every batch with replacement (``replacement=True``); by default a pass uses every row once,
    which does no worse. Its four regimes are one row a step of length 1/n, √n passes; one row, 1/√n, one pass; √n
    rows, 1, one pass; all rows, 1, √n passes. All have step·T = √n.

    References
    ----------
    Carratino, Rudi, Rosasco, "Learning with SGD and random features", NeurIPS 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import RandomFeatureRegressor
    >>> from squeak.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (5000, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(5000)
    >>> model = RandomFeatureRegressor(RBF(0.5), max_iter=20, random_state=0).fit(X, y)
    >>> model.coef_.shape, bool(model.score(X, y) > 0.97)
    ((603,), True)
    """

    kind: ClassVar[str] = "random-feature-regressor"
    _state: ClassVar[Layout] = {**SgdLearner._state, "_single": state.flag()}

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> RandomFeatureRegressor:
        """Learn from more rows, once through and in their order; the first block fixes features, step and mean.

        Parameters
        ----------
        X : array, CSR or table
        y : array of shape (n,) or (n, outputs)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        self._check_sgd()
        first = not hasattr(self, "_descent")
        data = self._array(X, y, sample_weight, multi_output=True, y_numeric=True, reset=first)
        if first:
            self._forget()
        elif self._columns(data.y) != len(self._descent.intercept):
            raise ValueError(f"y has {self._columns(data.y)} outputs; it had {len(self._descent.intercept)} before")
        self._partial_fit(data)
        return self

    @staticmethod
    def _columns(y: Any) -> int:
        return 1 if y.ndim == 1 else int(y.shape[1])

    def _forget(self) -> None:
        self._total, self._weight, self._single = 0.0, 0.0, True

    def _look(self, y: Any, weight: Any) -> None:
        y = np.asarray(y, dtype=np.float64)
        self._single = y.ndim == 1
        self._total = self._total + (y.sum(axis=0) if weight is None else weight @ y)
        self._weight += len(y) if weight is None else float(weight.sum())

    def _intercept(self) -> Array:
        return np.atleast_1d(self._total / self._weight)

    def _encode(self, y: Any) -> Array:
        return np.asarray(y, dtype=np.float64).reshape(len(y), -1)

    def _keep(self, descent: Descent, coef: Array, passes: int) -> None:
        super()._keep(descent, coef, passes)
        if self._single:
            self.coef_, self.intercept_ = coef[:, 0], float(descent.intercept[0])

    def _answers(self) -> Answers:
        return Numbers(self._single)

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
        values = self._values(self._rows_for(X))
        return values[:, 0] if self._single else values

    def _restore(self, found: dict[str, Any]) -> None:
        super()._restore(found)
        if self._single and self._coef.shape[1] != 1:
            raise ValueError("the coefficients are those of several outputs")
