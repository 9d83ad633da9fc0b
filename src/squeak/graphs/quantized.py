"""Labels for a stream of rows, from a few centres that stand for all: harmonic functions on quantized graphs."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
from scipy.linalg import solve
from scipy.spatial.distance import cdist
from sklearn.base import ClassifierMixin, clone
from sklearn.exceptions import NotFittedError

from squeak.core.checks import check_positive, check_whole
from squeak.core.constructors import parameters
from squeak.core.estimator import Estimator
from squeak.core.kernels import RBF
from squeak.core.rows import check_rows
from squeak.core.types import Array, IntArray

LARGEST = 1e150
"""The squares of larger values overflow."""


class Quantizer:
    """At most k centres for a stream of points, by doubling radii: every point within R·m/(m − 1) of its centre.

    Between calls centres are at least R apart and their counts sum to the points seen.
    """

    def __init__(self, max_centres: int, growth: float) -> None:
        self.max_centres, self.growth = max_centres, growth
        self.centres: Array = np.zeros((0, 0))
        self.counts: IntArray = np.zeros(0, dtype=np.int64)
        self.radius = 0.0

    def add(self, x: Array) -> int:
        """Take in one point; return the number of its centre."""
        if len(self.centres) == 0:
            self.centres, self.counts = x[None, :].copy(), np.ones(1, dtype=np.int64)
            return 0
        distances = cdist(x[None, :], self.centres)[0]
        nearest = int(distances.argmin())
        if distances[nearest] <= self.radius:
            self.counts[nearest] += 1
            return nearest
        self.centres = np.vstack([self.centres, x])
        self.counts = np.append(self.counts, 1)
        place = len(self.centres) - 1
        while len(self.centres) > self.max_centres:
            place = int(self._coarsen()[place])
        return place

    def _coarsen(self) -> IntArray:
        """Raise R until a centre goes; return the new number of every old centre."""
        apart = cdist(self.centres, self.centres)  # from differences: two centres that differ are never at 0
        smallest = float(apart[~np.eye(len(apart), dtype=bool)].min())
        self.radius = max(self.growth * self.radius, self.growth * smallest if self.radius == 0 else 0.0)
        while self.radius <= smallest:
            self.radius *= self.growth
        kept: list[int] = []
        home = np.zeros(len(apart), dtype=np.int64)
        for number in range(len(apart)):
            near = [place for place, old in enumerate(kept) if apart[number, old] < self.radius]
            if near:
                home[number] = min(near, key=lambda place: apart[number, kept[place]])
            else:
                home[number] = len(kept)
                kept.append(number)
        self.centres = self.centres[kept]
        self.counts = np.bincount(home, self.counts, minlength=len(kept)).astype(np.int64)
        return home


def quantized_harmonic(similarity: Array, counts: Array, labelled: IntArray, values: Array, ridge: float) -> Array:
    """Return the harmonic function on all vertices of a graph whose vertices stand for ``counts`` equal rows each.

    W^q = V·W̃·V, V = diag(counts), and f_u = (L^q_uu + ridge·V_uu)⁻¹·W^q_ul·f_l: the solution on the graph where
    every vertex is there as often as it counts.

    Source: Valko, Kveton, Huang, Ting, "Online semi-supervised learning on quantized graphs", UAI 2010.
    """
    W = counts[:, None] * similarity * counts
    np.fill_diagonal(W, 0.0)  # equal rows have equal values: what is between them says nothing
    free = np.ones(len(W), dtype=bool)
    free[labelled] = False
    found = np.zeros((len(W), values.shape[1]))
    found[labelled] = values
    if free.any():
        M = np.diag(W.sum(axis=1) + ridge * counts) - W
        found[free] = solve(M[np.ix_(free, free)], W[np.ix_(free, labelled)] @ values, assume_a="pos")
    return found


@parameters
class OnlineHarmonic(ClassifierMixin, Estimator):
    """Label a stream of rows, most of them without a label: semi-supervised learning on a quantized graph.

    Rows without a label are quantized to at most ``max_centres`` centres with counts; labelled rows stay their own
    vertices. The class of a row is read from the harmonic function on centres and labels, with ridge·counts on the
    diagonal. With m labels a prediction costs O(max_centres³ + m·max_centres), whatever the number of rows
    without a label.

    Parameters
    ----------
    max_centres : int
    length_scale : float
        Of the similarities exp(−d²/(2·length_scale²)).
    ridge : float
        γ_g: how fast labels fade with distance.
    growth : float
        By which factor the radius of centres grows; above 1.

    Attributes
    ----------
    classes_ : array
        The classes seen so far, sorted.
    centres_, counts_, radius_
        Of the rows without a label.
    n_seen_ : int

    References
    ----------
    Valko, Kveton, Huang, Ting, "Online semi-supervised learning on quantized graphs", UAI 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.graphs import OnlineHarmonic
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(2, size=300)
    >>> X = rng.standard_normal((300, 2)) + 4 * truth[:, None]
    >>> y = np.where(np.arange(300) < 4, truth, -1)
    >>> s = OnlineHarmonic(max_centres=40, length_scale=1.0)
    >>> for start in range(0, 300, 50):
    ...     s = s.partial_fit(X[start : start + 50], y[start : start + 50])
    >>> float((s.predict(X) == truth).mean()) > 0.95
    True
    """

    classes_: Any = field(init=False)
    n_seen_: int = field(init=False)
    _quantizer: Quantizer = field(init=False)
    _labelled: Array = field(init=False)
    _labels: IntArray = field(init=False)

    max_centres: int = field(default=100, kw_only=False)
    length_scale: float = 1.0
    ridge: float = 1e-2
    growth: float = 1.5

    def fit(self, X: Any, y: Any) -> OnlineHarmonic:
        """Forget what was seen, and read all rows.

        Parameters
        ----------
        X, y
            See :meth:`partial_fit`.

        Returns
        -------
        self
        """
        fresh = clone(self).partial_fit(X, y)
        self.__dict__.update(fresh.__dict__)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> OnlineHarmonic:
        """Read more rows.

        Parameters
        ----------
        X : array, shape (n, d)
        y : array of int, shape (n,), optional
            −1 where there is no label; it may be left out where there is none at all.

        Returns
        -------
        self
        """
        rows = self._rows(X)
        y = np.full(len(rows), -1) if y is None else np.asarray(y)
        if y.shape != (len(rows),):
            raise ValueError(f"there are {len(rows)} rows, y has shape {y.shape}")
        if y.dtype.kind not in "iu":
            raise TypeError(f"labels must be whole numbers, -1 for none; they are {y.dtype}")
        large = np.abs(rows).max(axis=1) > LARGEST
        if large.any():
            raise ValueError(f"row {int(large.argmax())} has values beyond {LARGEST:g}: scale the columns first")
        if not hasattr(self, "_quantizer"):
            self._begin(rows.shape[1])
        known = y != -1
        for x in rows[~known]:
            self._quantizer.add(x)
        self._labelled = np.vstack([self._labelled, rows[known]])
        self._labels = np.append(self._labels, y[known])
        self.n_seen_ += len(rows)
        self.classes_ = np.unique(self._labels)
        return self

    def _begin(self, width: int) -> None:
        for name in ("length_scale", "ridge", "growth"):
            check_positive(name, getattr(self, name))
        if self.growth <= 1:
            raise ValueError(f"growth must be above 1; it is {self.growth!r}")
        self._quantizer = Quantizer(check_whole("max_centres", self.max_centres), self.growth)
        self._labelled, self._labels = np.zeros((0, width)), np.zeros(0, dtype=np.int64)
        self.n_seen_ = 0

    def _rows(self, X: Any) -> Array:
        rows = np.asarray(check_rows(X, RBF(1.0)), dtype=np.float64)
        if hasattr(self, "_quantizer") and rows.shape[1] != self._labelled.shape[1]:
            raise ValueError(f"rows have {rows.shape[1]} columns; the rows before had {self._labelled.shape[1]}")
        return rows

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_quantizer")

    @property
    def centres_(self) -> Array:
        """The centres of the rows without a label."""
        return self._quantizer.centres

    @property
    def counts_(self) -> IntArray:
        """How many rows each centre stands for."""
        return self._quantizer.counts

    @property
    def radius_(self) -> float:
        """Centres are at least so far apart."""
        return self._quantizer.radius

    def scores(self, X: Any) -> Array:
        """Return the harmonic function at rows, each as one more vertex that leaves the others as they are.

        Parameters
        ----------
        X : array, shape (n, d)

        Returns
        -------
        array, shape (n, n_classes)
        """
        if not hasattr(self, "_quantizer") or len(self._labels) == 0:
            raise NotFittedError("this OnlineHarmonic has seen no labels yet: call partial_fit with some")
        rows = self._rows(X)
        centres, counts = self._quantizer.centres, self._quantizer.counts.astype(np.float64)
        vertices = np.vstack([self._labelled, centres]) if len(centres) else self._labelled
        multiples = np.concatenate([np.ones(len(self._labelled)), counts])
        values = (self._labels[:, None] == self.classes_).astype(np.float64)
        kernel = RBF(self.length_scale)
        known = np.arange(len(self._labels))
        f = quantized_harmonic(kernel(vertices, vertices), multiples, known, values, self.ridge)
        weights = kernel(rows, vertices) * multiples
        return np.asarray((weights @ f) / (weights.sum(axis=1, keepdims=True) + self.ridge))

    def predict(self, X: Any) -> Any:
        """Return a class for every row; of equal scores the first class.

        Parameters
        ----------
        X : array, shape (n, d)

        Returns
        -------
        array, shape (n,)
        """
        best = self.scores(X).argmax(axis=1)
        return self.classes_[best]
