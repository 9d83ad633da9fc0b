"""What else a Laplacian is for: smoothing, embedding, clustering; on a graph or on its sparsifier."""

from __future__ import annotations

import warnings
from dataclasses import field
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, lobpcg
from sklearn.cluster import KMeans
from sklearn.utils.validation import check_is_fitted

from squeak.core import engine
from squeak.core.checks import check_positive, check_whole
from squeak.core.constructors import parameters
from squeak.core.estimator import Estimator
from squeak.core.seeds import PROBE, RandomState, draw_seed, generator_at
from squeak.core.types import Array
from squeak.graphs.edges import Edges
from squeak.graphs.forms import read_graph
from squeak.graphs.solver import NormalisedSystem, scaled_weights
from squeak.graphs.sparsifying import sparser, sparsify

DENSE = 600
"""Nodes up to which all eigenvectors are computed."""

SOLVE = 1e-7


@parameters
class LaplacianSmoother(Estimator):
    """Smooth values on the nodes of a graph: f = (I + smoothing·L)⁻¹y.

    Parameters
    ----------
    smoothing : float
        λ: how much neighbours draw each other together.
    sparsifier : None, number, sparsifier or callable
        As in :class:`HarmonicClassifier`. With an (ε, 1/smoothing)-sparsifier, ‖f̃ − f‖² ≤ ε²/(1 − ε)·yᵀf.
    random_state : None, int, RandomState or Generator

    Attributes
    ----------
    graph_ : Edges
        What values are smoothed on.
    node_names_ : array, shape (n,)
        The nodes in the order of the values: their names, or their numbers where they have no names.

    References
    ----------
    The theory page, "Graphs".

    Examples
    --------
    >>> import networkx as nx, numpy as np
    >>> from squeak.graphs import LaplacianSmoother
    >>> LaplacianSmoother(smoothing=1e6).fit(nx.path_graph(3)).transform(np.array([0.0, 3.0, 0.0])).round(3)
    array([1., 1., 1.])
    """

    smoothing: float = field(default=1.0, kw_only=False)
    sparsifier: Any = None
    random_state: RandomState = None

    def fit(self, graph: Any, y: Any = None) -> LaplacianSmoother:
        """Read the graph, and sparsify it where that is asked for.

        Parameters
        ----------
        graph : see :func:`squeak.graphs.sparsify`
        y : ignored

        Returns
        -------
        self
        """
        check_positive("smoothing", self.smoothing)
        form = read_graph(graph)
        edges = sparser(form.edges, self.sparsifier, self.random_state, ridge=1.0 / self.smoothing)
        self.graph_: Edges = edges
        self.node_names_ = np.arange(edges.n_nodes) if form.nodes is None else form.nodes
        self._system = NormalisedSystem(edges.with_weights(scaled_weights(edges, self.smoothing, "smoothing")), 1.0)
        return self

    def transform(self, y: Any) -> Array:
        """Return the smoothed values.

        Parameters
        ----------
        y : array, shape (n,) or (n, k)
            A value, or a row of values, for every node.

        Returns
        -------
        array, shape of y
        """
        check_is_fitted(self)
        values = np.atleast_1d(np.asarray(y, dtype=np.float64))
        if values.shape[0] != self.graph_.n_nodes or not np.isfinite(values).all():
            raise ValueError(f"y must have a finite value for each of the {self.graph_.n_nodes} nodes")
        with engine.single_blas():
            found = self._system.solve(values.reshape(len(values), -1), SOLVE)
        return np.asarray(found).reshape(values.shape)


def laplacian_eigenmaps(
    graph: Any, n_components: int = 2, *, normalised: bool = True, random_state: RandomState = 0
) -> Array:
    """Return coordinates for the nodes: the eigenvectors of the Laplacian with the smallest eigenvalues but 0.

    Parameters
    ----------
    graph : see :func:`squeak.graphs.sparsify`
        Connected: otherwise the first coordinates only tell the components apart.
    n_components : int
    normalised : bool
        Of D^(-1/2)LD^(-1/2), as D^(-1/2) times its eigenvectors; False: of L itself.
    random_state : None, int, RandomState or Generator
        For the first vectors, beyond 600 nodes.

    Returns
    -------
    array, shape (n, n_components)

    References
    ----------
    Belkin, Niyogi, "Laplacian eigenmaps for dimensionality reduction".

    Examples
    --------
    >>> import networkx as nx
    >>> from squeak.graphs import laplacian_eigenmaps
    >>> first = laplacian_eigenmaps(nx.barbell_graph(5, 0), 1)[:, 0]
    >>> bool((first[:5] > 0).all() != (first[5:] > 0).all())
    True
    """
    edges = read_graph(graph).edges
    n = edges.n_nodes
    if check_whole("n_components", n_components) >= n:
        raise ValueError(f"n_components must lie between 1 and {n - 1}; it is {n_components!r}")
    degrees = edges.degrees()
    scale = 1.0 / np.sqrt(np.where(degrees > 0, degrees, 1.0)) if normalised else np.ones(n)
    L = edges.laplacian().multiply(scale[:, None]).multiply(scale[None, :]).tocsr()
    with engine.single_blas():
        if n <= DENSE or 5 * (n_components + 4) >= n:  # LOBPCG is for few vectors
            vectors = np.linalg.eigh(L.toarray())[1][:, 1 : n_components + 1]
        else:
            vectors = _smallest(edges, L, scale, n_components, generator_at(draw_seed(random_state), PROBE))
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
    return np.asarray(scale[:, None] * vectors * signs)


def _smallest(edges: Edges, L: Any, scale: Array, count: int, rng: np.random.Generator) -> Array:
    """Return eigenvectors by LOBPCG, preconditioned with a rough solve of the Laplacian."""
    n = edges.n_nodes
    system = NormalisedSystem(edges, 1e-3 * float(edges.degrees().mean()))
    flat = (1.0 / scale)[:, None]
    flat /= np.linalg.norm(flat)
    ratio = (system.scale / scale)[:, None]

    def precondition(block: Array) -> Array:
        block = np.asarray(block).reshape(n, -1)
        found, _ = system.solve_normalised(block * ratio, 1e-2)
        return np.asarray(found * ratio)

    guess = rng.standard_normal((n, count + 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        M = LinearOperator((n, n), matvec=precondition, matmat=precondition)
        values, vectors = lobpcg(
            L, guess, M=M, Y=flat, tol=1e-7 * abs(L).max() * np.sqrt(n), largest=False, maxiter=60
        )
    return np.asarray(vectors[:, np.argsort(values)[:count]])


def spectral_clustering(
    graph: Any, n_clusters: int, *, sparsifier: float | None = None, random_state: RandomState = None
) -> Any:
    """Cut a graph into clusters: k-means on its Laplacian eigenmaps, on a sparsifier where that is asked for.

    Parameters
    ----------
    graph : see :func:`squeak.graphs.sparsify`
    n_clusters : int
    sparsifier : float, optional
        The oversampling of :func:`sparsify`.
    random_state : None, int, RandomState or Generator

    Returns
    -------
    array of int, shape (n,)
        The cluster of every node.

    References
    ----------
    von Luxburg, "A tutorial on spectral clustering".

    Examples
    --------
    >>> import networkx as nx
    >>> from squeak.graphs import spectral_clustering
    >>> labels = spectral_clustering(nx.barbell_graph(6, 0), 2, random_state=0)
    >>> len(set(labels[:6])), len(set(labels[6:])), len(set(labels))
    (1, 1, 2)
    """
    edges = read_graph(graph).edges
    if check_whole("n_clusters", n_clusters, 2) > edges.n_nodes:
        raise ValueError(f"n_clusters must lie between 2 and the {edges.n_nodes} nodes; it is {n_clusters!r}")
    seed = draw_seed(random_state)
    if sparsifier is not None:
        edges = sparsify(edges, oversampling=sparsifier, random_state=seed)
    points = laplacian_eigenmaps(edges, n_clusters - 1 if n_clusters > 2 else 1, random_state=seed)
    return KMeans(n_clusters, n_init=10, random_state=seed % 2**32).fit_predict(points)
