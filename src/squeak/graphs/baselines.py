"""What the thesis compares with: few eigenvectors, eigenfunctions, a subset of nodes, the nearest label."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh, lstsq, solve
from sklearn.base import ClassifierMixin
from sklearn.neighbors import NearestNeighbors

from squeak.core.checks import check_whole
from squeak.core.constructors import parameters
from squeak.core.estimator import Estimator
from squeak.core.kernels import RBF
from squeak.core.rows import check_rows
from squeak.core.seeds import SAMPLE, RandomState, draw_seed, generator_at
from squeak.core.types import Array
from squeak.graphs.forms import read_graph
from squeak.graphs.harmonic import solve_harmonic
from squeak.graphs.labels import read_labels
from squeak.graphs.neighbours import knn_edges
from squeak.graphs.spectral import laplacian_eigenmaps


class _Baseline(ClassifierMixin, Estimator):
    """Reads labels as the harmonic classifiers do, and takes the class of the largest score."""

    def fit(self, X: Any, y: Any) -> Any:
        """Learn from labels where y is not −1.

        Parameters
        ----------
        X : rows; of :class:`SimpleHarmonic` a graph
        y : array, shape (n,)

        Returns
        -------
        self
        """
        y, labelled = read_labels(y)
        read, n = self._read(X)
        if n != len(y):
            raise ValueError(f"there are {n} nodes, y has {len(y)} values")
        self.classes_, codes = np.unique(y[labelled], return_inverse=True)
        self.scores_ = self._scores(read, labelled, np.eye(len(self.classes_))[codes])
        self.transduction_ = self.classes_[self.scores_.argmax(axis=1)]
        return self

    def _read(self, X: Any) -> tuple[Any, int]:
        """Return the rows, and how many there are."""
        rows = check_rows(X, RBF(1.0))
        rows = np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)
        return rows, len(rows)

    def _scores(self, rows: Any, labelled: Any, values: Array) -> Array:
        raise TypeError(f"{type(self).__name__} is abstract: use NearestLabel or another of squeak.graphs")


@parameters
class SimpleHarmonic(_Baseline):
    """SIMPLE-HFS: least squares on the labels in the span of the graph's q smoothest eigenvectors.

    Parameters
    ----------
    n_vectors : int
        q; of more than there are labels the fit of the smallest norm is taken.

    References
    ----------
    Ji, Yang, Lin, Jin, Han, "A simple algorithm for semi-supervised learning with improved generalization error
    bound", ICML 2012; the theory page, "Graphs".

    Examples
    --------
    >>> import networkx as nx, numpy as np
    >>> from squeak.graphs import SimpleHarmonic
    >>> y = np.full(10, -1)
    >>> y[[0, 9]] = 0, 1
    >>> SimpleHarmonic(n_vectors=2).fit(nx.barbell_graph(5, 0), y).transduction_
    array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
    """

    n_vectors: int = field(default=10, kw_only=False)

    def _read(self, X: Any) -> tuple[Any, int]:
        edges = read_graph(X).edges
        return edges, edges.n_nodes

    def _scores(self, edges: Any, labelled: Any, values: Array) -> Array:
        count = int(min(self.n_vectors - 1, edges.n_nodes - 1))
        basis = np.ones((edges.n_nodes, 1))
        if count > 0:
            found = laplacian_eigenmaps(edges, count, normalised=False)
            basis = np.hstack([basis / np.sqrt(edges.n_nodes), found])
        return np.asarray(basis @ lstsq(basis[labelled], values)[0])


@parameters
class EigenFunctions(_Baseline):
    """EigFun: smooth functions of each column's histogram, and a penalised fit in their span; no graph is built.

    Parameters
    ----------
    n_functions : int
        q, over all columns together.
    n_bins : int
        b, of each column's histogram; at least 2.
    penalty : float
        On the labels' error, against the functions' eigenvalues.

    References
    ----------
    Fergus, Weiss, Torralba, "Semi-supervised learning in gigantic image collections", NIPS 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.graphs import EigenFunctions
    >>> rng = np.random.default_rng(0)
    >>> truth = np.repeat([0, 1], 100)
    >>> X = rng.standard_normal((200, 2)) + 5 * truth[:, None]
    >>> y = np.where(np.arange(200) % 50 == 0, truth, -1)
    >>> float((EigenFunctions(4).fit(X, y).transduction_ == truth).mean()) > 0.9
    True
    """

    n_functions: int = field(default=50, kw_only=False)
    n_bins: int = 50
    penalty: float = 1e3

    def _scores(self, rows: Any, labelled: Any, values: Array) -> Array:
        check_whole("n_bins", self.n_bins, 2)
        found = [pair for column in rows.T if np.ptp(column) > 0 for pair in self._of_column(column)]
        found = sorted(found, key=lambda pair: pair[0])[: self.n_functions]
        basis = np.column_stack([np.ones(len(rows)), *(f for _, f in found)])
        cost = np.concatenate([[1e-9], [eigenvalue for eigenvalue, _ in found]])
        some = basis[labelled]
        M = np.diag(cost) + self.penalty * some.T @ some
        return np.asarray(basis @ solve(M, self.penalty * some.T @ values, assume_a="pos"))

    def _of_column(self, column: Array) -> list[tuple[float, Array]]:
        """Return the eigenvalues and functions of one column, interpolated to its rows, without the constant."""
        density, cuts = np.histogram(column, bins=self.n_bins)
        p = (density + 0.05 * density.mean()) / len(column)
        middle = 0.5 * (cuts[1:] + cuts[:-1])
        W = np.exp(-(((middle[:, None] - middle) / (0.2 * np.ptp(middle))) ** 2) / 2.0)
        smooth = W @ p
        PWP = p[:, None] * W * p
        eigenvalues, functions = eigh(np.diag(PWP.sum(axis=1)) - PWP, np.diag(p * smooth))
        kept = range(1, min(len(p), self.n_functions + 1))
        made = [(float(eigenvalues[i]), np.interp(column, middle, functions[:, i])) for i in kept]
        return [(value, f / max(np.linalg.norm(f), 1e-300) * np.sqrt(len(f))) for value, f in made]


@parameters
class SubSampling(_Baseline):
    """SubSampling: labelled rows and a uniform sample of the others make a graph; the rest copies its nearest row.

    Parameters
    ----------
    n_sample : int
        s.
    n_neighbors : int
    alpha : float
        Of the harmonic function on the sample.
    random_state : None, int, RandomState or Generator

    References
    ----------
    Thesis, section 4.4; the theory page, "Graphs".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.graphs import SubSampling
    >>> rng = np.random.default_rng(0)
    >>> truth = np.repeat([0, 1], 100)
    >>> X = rng.standard_normal((200, 2)) + 5 * truth[:, None]
    >>> y = np.where(np.arange(200) % 50 == 0, truth, -1)
    >>> float((SubSampling(60, random_state=0).fit(X, y).transduction_ == truth).mean()) > 0.9
    True
    """

    n_sample: int = field(default=1000, kw_only=False)
    n_neighbors: int = 10
    alpha: float = 1.0
    random_state: RandomState = None

    def _scores(self, rows: Any, labelled: Any, values: Array) -> Array:
        others = np.setdiff1d(np.arange(len(rows)), labelled)
        rng = generator_at(draw_seed(self.random_state), SAMPLE)
        drawn = rng.choice(others, min(len(others), self.n_sample), replace=False) if len(others) else others
        chosen = np.concatenate([labelled, np.sort(drawn)])
        if len(chosen) == 1:
            return np.tile(values, (len(rows), 1))
        neighbours = min(self.n_neighbors, len(chosen) - 1)
        edges, _, _ = knn_edges(rows[chosen], neighbours, "local")
        found = solve_harmonic(edges, np.arange(len(labelled)), values, self.alpha, centred=True)
        nearest = NearestNeighbors(n_neighbors=1).fit(rows[chosen]).kneighbors(rows)[1][:, 0]
        return np.asarray(found.scores[nearest])


class NearestLabel(_Baseline):
    """1-NN: the label of the nearest labelled row.

    References
    ----------
    The theory page, "Graphs".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.graphs import NearestLabel
    >>> NearestLabel().fit(np.array([[0.0], [1.0], [9.0]]), np.array([0, -1, 1])).transduction_
    array([0, 0, 1])
    """

    def _scores(self, rows: Any, labelled: Any, values: Array) -> Array:
        nearest = NearestNeighbors(n_neighbors=1).fit(rows[labelled]).kneighbors(rows)[1][:, 0]
        return np.asarray(values[nearest])
