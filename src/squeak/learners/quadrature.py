"""Quadrature Fourier features: the Gaussian kernel's frequencies from a Gauss–Hermite rule in place of a draw."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from squeak.core import state
from squeak.core.constructors import parameters
from squeak.core.fourier import FourierFeatures
from squeak.core.kernels import RBF, Scaled, resolve
from squeak.core.kernels.width import checked_width
from squeak.core.saved import Layout
from squeak.core.seeds import draw_seed
from squeak.core.types import Array
from squeak.data import by_blocks
from squeak.learners.formula import Function
from squeak.learners.random_features import MEDIAN_ROWS, FourierLearner, default_features
from squeak.learners.rows import Transformer, all_or_nothing


@parameters
class QuadratureFeatures(Transformer, FourierLearner):
    """Quadrature Fourier features of the RBF kernel: no draw, and an error that falls fast, for a few columns.

    k(x, y) = E cos(ω·(x − y)) with normal ω. The mean is taken by the Gauss–Hermite rule with m nodes in every
    column, that is ω = √2·h/length_scale with the product of the nodes' weights p: φ(x) = (√p·cos(ω·x),
    √p·sin(ω·x)) over all of them, where ω and −ω, which have the same features, count once with twice the weight.
    The largest error of φ(x)·φ(y) against k(x, y) falls faster than exponentially in m, where that of M random
    features falls like M^(−1/2). But there are m^d features for d columns, so it is for d up to about four, and for
    rows within a few widths of each other: beyond that the nodes do not follow the cosine.

    Parameters
    ----------
    kernel : RBF or a multiple of it, optional
        RBF of the median width by default.
    n_features : int, optional
        At most so many features: m is the largest number whose d-th power is not above it. ⌈√n·log n⌉ by default.
    random_state : None, int, RandomState or Generator
        Not used: there is no draw.

    Attributes
    ----------
    n_nodes_ : int
        m.
    features_ : FourierFeatures
        Frequencies and offsets.
    heights_ : array
        √p of every feature.
    kernel_

    See Also
    --------
    RandomFeatures : for any number of columns.

    References
    ----------
    Mutný, Krause, "Efficient high dimensional Bayesian optimization with additivity and quadrature Fourier
    features", NeurIPS 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.learners import QuadratureFeatures
    >>> X = np.random.default_rng(0).uniform(0, 1, (100, 2))
    >>> Z = QuadratureFeatures(RBF(0.5), n_features=150).fit_transform(X)
    >>> Z.shape, bool(np.abs(Z @ Z.T - RBF(0.5)(X)).max() < 1e-8)
    ((100, 144), True)
    """

    kind: ClassVar[str] = "quadrature-features"
    _state: ClassVar[Layout] = {"heights_": state.numbers("features", low=0.0), "n_nodes_": state.whole(low=2)}

    n_nodes_: int = field(init=False)
    heights_: Array = field(init=False)

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> QuadratureFeatures:
        """Set the features for rows of this width; the values of the rows count only for a width of "median".

        Parameters
        ----------
        X : array, CSR, table, or row source
        y : ignored

        Returns
        -------
        self
        """
        self._check_fourier()
        draw_seed(self.random_state)  # nothing is drawn, but a wrong one is refused as elsewhere
        inner, factor = self._own_kernel(), 1.0
        data = self._training(X, None, None, targets=False)
        some = data.head(MEDIAN_ROWS)
        if self.n_features is None and data.n_at_most is None:
            raise ValueError("this source does not say how many rows it has: give n_features")
        most = default_features(data.n_at_most or 1) if self.n_features is None else int(self.n_features)
        kernel = inner = resolve(inner, some)
        while isinstance(inner, Scaled):
            inner, factor = inner.kernel, factor * float(inner.factor)
        if not isinstance(inner, RBF):
            raise TypeError(f"quadrature features are known for RBF and its multiples, not for {inner!r}")
        columns = some.shape[1]
        nodes = int(np.floor(most ** (1.0 / columns) * (1 + 1e-12)))
        if nodes < 2:
            raise ValueError(
                f"{columns} columns with two nodes each are more than {most} features: use RandomFeatures"
            )
        frequencies, chances = gauss_hermite(nodes, columns)
        frequencies = frequencies / np.broadcast_to(checked_width(inner, columns), (columns,))[:, None]
        moving = frequencies.any(axis=0)  # the sine of the frequency 0 is 0
        self.heights_ = np.sqrt(factor * np.concatenate([chances, chances[moving]]))
        offsets = np.repeat([0.0, -0.5 * np.pi], [len(chances), int(moving.sum())])
        self.features_ = FourierFeatures(kernel, np.hstack([frequencies, frequencies[:, moving]]), offsets, 1.0)
        self.n_nodes_ = nodes
        self._keep_preprocessing(X)
        return self

    @property
    def _n_features_out(self) -> int:
        return self.features_.rank

    def _functions(self) -> Sequence[Function]:
        return [self._cosines(self.heights_)]

    @by_blocks
    def transform(self, X: Any) -> Array:
        """Return φ(x) for every row.

        Parameters
        ----------
        X : array, CSR, table, or row source

        Returns
        -------
        array of shape (n, m^d)
        """
        rows = self._rows_for(X)
        values = self.features_.transform(rows)
        values *= self.heights_
        return values


def gauss_hermite(nodes: int, columns: int) -> tuple[Array, Array]:
    """Return frequencies for a width of 1, shape (columns, k), and their weights, of which the sum is 1.

    Of ω and −ω the one is left out, and the other has the weight of both.
    """
    h, w = np.polynomial.hermite.hermgauss(nodes)
    h = 0.5 * (h - h[::-1])  # exactly symmetric, so that 0 is 0
    grid = np.array(list(itertools.product(range(nodes), repeat=columns)))
    half = grid[: (len(grid) + 1) // 2]  # ω and −ω are as far from the two ends of the list; the middle is 0
    weights = np.prod(w[half] / np.sqrt(np.pi), axis=1)
    points = np.sqrt(2.0) * h[half].T
    return points, np.where(points.any(axis=0), 2.0, 1.0) * weights
