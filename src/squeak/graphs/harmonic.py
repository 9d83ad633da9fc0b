"""Labels for all nodes from a few: harmonic functions on a graph or on its sparsifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from squeak.core import engine
from squeak.core.checks import check_positive
from squeak.core.constructors import parameters
from squeak.core.estimator import Estimator
from squeak.core.kernels import RBF
from squeak.core.rows import check_rows
from squeak.core.seeds import RandomState
from squeak.core.types import Array
from squeak.graphs.edges import Edges, forest_beyond
from squeak.graphs.exact import grounded_solution
from squeak.graphs.forms import ASYMMETRY, is_networkx, is_path, named_pairs, read_graph
from squeak.graphs.labels import labels_by_name, of_one_kind, read_labels, read_values
from squeak.graphs.names import is_edge_frame, is_frame, is_square_frame, places_of
from squeak.graphs.neighbours import knn_edges, row_scales, similarities
from squeak.graphs.solver import NormalisedSystem, scaled_weights
from squeak.graphs.sparsifying import sparser

UNFELT = 1e-10
"""Of the degrees of both its ends: what hangs on edges below it is out of a solver's reach."""

STRONG, SHARE, FINEST = 1e-4, 1e-4, 1e-14
"""A link below the first part of its ends' degrees asks for a residual of the second part of that, or the last."""

FEW_NODES, WIDE = 1000, 1e10
"""Of so many nodes a graph with weights so far apart is solved by elimination, which they do not disturb."""

SOLVE = 1e-6
DEFAULT_ALPHA = 1.0


def graph_of(X: Any, kind: str, n_neighbors: int, scaling: str, n_nodes: int | None) -> tuple[Edges, Any, Any]:
    """Return the graph that a learner works on, the names of its nodes, and what new rows are compared with.

    There are names (or None) where X is a graph, and the last is None then. ``n_nodes`` is that of a list of
    edges, whose last nodes may have none.
    """
    if kind not in ("auto", "graph", "rows"):
        raise ValueError(f"kind must be 'auto', 'graph' or 'rows'; it is {kind!r}")
    if kind == "graph" or (kind == "auto" and _is_graph(X)):
        form = read_graph(X, n_nodes)
        return form.edges, form.nodes, None
    edges, scales, index = knn_edges(X, n_neighbors, scaling)
    return edges, None, (scales, index)


def _is_graph(X: Any) -> bool:
    if isinstance(X, Edges | tuple) or is_path(X) or is_networkx(X) or named_pairs(X) is not None:
        return True
    if is_frame(X):
        return is_square_frame(X) or is_edge_frame(X)
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if len(shape) != 2 or shape[0] != shape[1]:
        return False
    if sp.issparse(X):
        return True
    values = np.asarray(X)
    if values.dtype.kind not in "fiub" or not bool((values >= 0).all()):
        return False
    return bool((np.abs(values - values.T) <= ASYMMETRY * np.maximum(values, values.T)).all())


@dataclass(frozen=True)
class Harmonic:
    """The solution: f (centred where asked for), the plain one, which nodes labels reach, and the labels' mean."""

    scores: Array
    plain: Array
    reached: Any
    mean: Array


def solve_harmonic(graph: Edges, labelled: Any, values: Array, alpha: float, *, centred: bool) -> Harmonic:
    """Solve min Σ_S ‖f − y‖² + alpha·Tr fᵀLf for every column of y, all in one block.

    With Q = alpha·L + I_S and ỹ the labels less their mean: u = Q⁻¹ỹ, v = Q⁻¹1, and centred f = u −
    (1ᵀu/1ᵀv)·v, which sums to 0. Q·1 = 1_S, so the plain solution is u + mean. Components without a label are
    left out: there f = 0 and the plain solution is the labels' mean. Edges below rounding beside the others of both
    their ends hold nothing together. A node without edges tells nothing of others: its label has no part in the
    mean of ỹ nor its f in the sum, where any other node is labelled.
    """
    n, degrees = graph.n_nodes, graph.degrees()
    felt = graph.weights >= UNFELT * np.minimum(degrees[graph.u], degrees[graph.v])
    graph = graph if felt.all() else graph.take(felt)
    count, where = graph.components()
    reached = np.bincount(where[labelled], minlength=count)[where] > 0
    joined = graph.degrees() > 0
    if not joined[labelled].any():
        joined[:] = True
    mean = values[joined[labelled]].mean(axis=0)
    scores, plain = np.zeros((n, values.shape[1])), np.tile(values.mean(axis=0), (n, 1))
    number = np.cumsum(reached) - 1
    inside = reached[graph.u]
    small = Edges(int(reached.sum()), number[graph.u[inside]], number[graph.v[inside]], graph.weights[inside])
    small = small.with_weights(scaled_weights(small, alpha, "alpha"))
    mark = np.zeros(small.n_nodes)
    mark[number[labelled]] = 1.0
    right = np.zeros((small.n_nodes, values.shape[1] + 1))
    right[number[labelled], :-1] = values - mean
    right[:, -1] = 1.0
    columns = right if centred else right[:, :-1]
    with engine.single_blas():
        # in the residual's units an unlabelled node hears of labels through √weight
        tolerance = SOLVE * min(1.0, float(np.sqrt(small.weights.max(initial=0.0))) or 1.0)
        tolerance = min(tolerance, max(SHARE * weakest_link(small, mark), FINEST))
        if small.n_nodes <= FEW_NODES and small.weights.max(initial=0.0) > WIDE * small.weights.min(initial=np.inf):
            found = grounded_solution(small.adjacency().toarray(), mark, columns)
        else:
            found = NormalisedSystem(small, mark).solve(columns, tolerance)
    u = found[:, : values.shape[1]]
    plain[reached] = u + mean
    if not centred:
        return Harmonic(plain.copy(), plain, reached, mean)
    some = joined[reached]
    v = np.where(some[:, None], found[:, -1:], 0.0)
    scores[reached] = u - v * (u[some].sum(axis=0) / v.sum())
    return Harmonic(scores, plain, reached, mean)


def weakest_link(graph: Edges, added: Array) -> float:
    """Return the least a_e/√(d_u·d_v) of the best edges that hold components together; 1 where all are strong.

    The d are degrees and what is added to them. A label reaches what lies behind an edge through that part of the
    residual.
    """
    root = np.sqrt(graph.degrees() + added)
    part = graph.weights / root[graph.u] / root[graph.v]
    held = forest_beyond(graph, part >= STRONG, part)
    return float(part[held].min(initial=1.0))


@parameters
class _HarmonicBase(Estimator):
    """What the classifier and the regressor share: the graph, its sparsifier, and new rows."""

    alpha: float = field(default=DEFAULT_ALPHA, kw_only=False)
    centred: bool = True
    sparsifier: Any = None
    kind: str = "auto"
    n_neighbors: int = 10
    scaling: str = "local"
    random_state: RandomState = None

    node_names_: Any = field(init=False)

    def _read(self, X: Any, y: Any, read: Callable[[Any], tuple[Any, Any]]) -> tuple[Edges, Any, Any, Any, Any]:
        """Return the graph, the names of its nodes, the index of rows, y as an array, and where it has labels.

        ``read``: of :func:`read_labels` and :func:`read_values`.
        """
        check_positive("alpha", self.alpha)
        by_name = isinstance(y, Mapping)
        if by_name and not y:
            raise ValueError("y has no labels")
        if not by_name:
            y, labelled = read(y)
        graph, names, index = graph_of(X, self.kind, self.n_neighbors, self.scaling, None if by_name else len(y))
        if by_name:
            y, labelled = read(labels_by_name(y, names, graph.n_nodes))
        elif graph.n_nodes != len(y):
            raise ValueError(f"the graph has {graph.n_nodes} nodes, y has {len(y)} values")
        return graph, names, index, y, labelled

    def _solve(self, graph: Edges, labelled: Any, values: Array) -> tuple[Harmonic, Edges]:
        graph = sparser(graph, self.sparsifier, self.random_state)
        return solve_harmonic(graph, labelled, values, self.alpha, centred=self.centred), graph

    def _keep(self, graph: Edges, names: Any, index: Any) -> None:
        self.graph_, self._index = graph, index
        self.node_names_ = np.arange(graph.n_nodes) if names is None else names
        self._named = names is not None

    def _of_new(self, X: Any, values: Array) -> Array:
        """Return the values of nodes; of new rows the mean of the nearest nodes', weighted as edges are."""
        if self._index is None:
            if np.ndim(X) > 1:
                raise ValueError(
                    "the graph's own nodes are asked for by name or number, and all are in transduction_; new ones "
                    "need their edges"
                )
            return values[places_of(X, self.node_names_ if self._named else None, len(values))]
        scales, index = self._index
        distances, neighbours = index.kneighbors(check_rows(X, RBF(1.0), width=index.n_features_in_))
        own = scales[neighbours[:, 0]]
        if self.scaling == "local":
            own = row_scales(distances, "local", least=float(scales.min()))
        flat = similarities(
            distances.ravel(), np.repeat(own, distances.shape[1]), scales[neighbours].ravel(), self.scaling
        )
        weights = flat.reshape(distances.shape) + 1e-300
        return np.asarray(np.einsum("ij,ijk->ik", weights, values[neighbours]) / weights.sum(axis=1, keepdims=True))


class HarmonicClassifier(ClassifierMixin, _HarmonicBase):
    """Label all nodes of a graph from a few labels: HFS, STABLE-HFS and, on a sparsifier, SPARSE-HFS.

    With one indicator column per class, it solves f = argmin Σ_S (f − y)² + alpha·fᵀLf, where S are the labelled
    nodes. Centred labels and Σf = 0 make it stable if labels are few (STABLE-HFS). All classes are solved in one
    block. A node gets the class with its largest f. The mean of the labels is not added back, because that would
    give problems with few labels to the most frequent class.

    Parameters
    ----------
    alpha : float
        The penalty, which is η·l in the thesis. With small values, f stays close to the labels.
    centred : bool
        Whether labels are centred. False gives plain HFS.
    sparsifier : None, number, sparsifier or callable
        None takes the graph as it is. A number is the oversampling of :func:`sparsify`. A
        :class:`StreamSparsifier`, or another sparsifier, is cloned and fitted to the edges. A function gets the
        edges and returns a graph.
    kind : {"auto", "graph", "rows"}
        What X is. With "auto", sparse, networkx and symmetric square matrices are graphs, and everything else is
        rows.
    n_neighbors, scaling
        Parameters of :func:`knn_graph`, for rows.
    random_state : None, int, RandomState or Generator
        The seed of the sparsifier.

    Attributes
    ----------
    classes_ : array
    node_names_ : array, shape (n,)
        The nodes in the order of the arrays below: their names, or their numbers where they have no names.
    transduction_ : array, shape (n,)
        A class for every node. Components without a label get the most frequent class among the labels.
    scores_ : array, shape (n, n_classes)
        f: the largest decides.
    label_distributions_ : array, shape (n, n_classes)
        The plain harmonic function: not negative, rows sum to 1.
    graph_ : Edges
        What was solved on.
    n_unreached_ : int
        Nodes in components without a label.

    References
    ----------
    Thesis, section 4.4, with the corrections of the theory page, "Graphs".

    Examples
    --------
    >>> import networkx as nx, numpy as np
    >>> from squeak.graphs import HarmonicClassifier
    >>> G = nx.karate_club_graph()
    >>> club = np.array([G.nodes[node]["club"] != "Mr. Hi" for node in G]).astype(int)
    >>> y = np.full(34, -1)
    >>> y[[0, 33]] = club[[0, 33]]
    >>> float((HarmonicClassifier().fit(G, y).transduction_ == club).mean()) > 0.85
    True

    Nodes with names, and labels by name:

    >>> friends = [("ann", "bob"), ("bob", "cid"), ("cid", "ann"), ("cid", "dee"), ("dee", "eve"), ("eve", "fay")]
    >>> s = HarmonicClassifier().fit(friends, {"ann": "red", "fay": "blue"})
    >>> s.predict(["bob", "eve"])
    array(['red', 'blue'], dtype='<U4')
    """

    def fit(self, X: Any, y: Any) -> HarmonicClassifier:
        """Learn from labels where y is not −1, None or NaN (for labels that are text: not "-1" either).

        Parameters
        ----------
        X : graph or rows
            See :func:`squeak.graphs.sparsify` for graphs; nodes may have names.
        y : array of shape (n,), or dict
            A label for every node, in the order of the graph (of edges between names: in the order in which these
            come), or the labels that are known, by the name of the node.

        Returns
        -------
        self
        """
        graph, names, index, y, labelled = self._read(X, y, read_labels)
        classes, codes = np.unique(of_one_kind(y[labelled]), return_inverse=True)
        values = np.eye(len(classes))[codes]
        found, graph = self._solve(graph, labelled, values)
        self._keep(graph, names, index)
        self.classes_ = classes
        self.scores_, self.label_distributions_ = found.scores, np.clip(found.plain, 0.0, 1.0)
        self.transduction_ = classes[self.scores_.argmax(axis=1)]
        self.transduction_[~found.reached] = classes[np.bincount(codes).argmax()]
        self.n_unreached_ = int((~found.reached).sum())
        return self

    def predict(self, X: Any) -> Any:
        """Return the classes of nodes, or of new rows by the weighted mean of f over their nearest rows.

        Parameters
        ----------
        X : list of nodes, or array of shape (k, d)
            Nodes by name, or by number where they have no names; rows where the classifier was fitted to rows.

        Returns
        -------
        array, shape (k,)
        """
        check_is_fitted(self)
        return self.classes_[self._of_new(X, self.scores_).argmax(axis=1)]

    def predict_proba(self, X: Any) -> Array:
        """Return ``label_distributions_`` of nodes, or its weighted mean over the rows nearest to new ones.

        Parameters
        ----------
        X : list of nodes, or array of shape (k, d)
            As in :meth:`predict`.

        Returns
        -------
        array, shape (k, n_classes)
        """
        check_is_fitted(self)
        return self._of_new(X, self.label_distributions_)


class HarmonicRegressor(RegressorMixin, _HarmonicBase):
    """Values for all nodes of a graph from a few: HFS, STABLE-HFS and, on a sparsifier, SPARSE-HFS.

    f + mean of the labels, with f as in :class:`HarmonicClassifier`.

    Parameters
    ----------
    alpha, centred, sparsifier, kind, n_neighbors, scaling, random_state
        As in :class:`HarmonicClassifier`.

    Attributes
    ----------
    node_names_ : array, shape (n,)
    transduction_ : array, shape (n,)
        A value for every node; the labels' mean in components without a label.
    graph_ : Edges
    n_unreached_ : int

    References
    ----------
    Thesis, section 4.4; the theory page, "Graphs".

    Examples
    --------
    >>> import networkx as nx, numpy as np
    >>> from squeak.graphs import HarmonicRegressor
    >>> y = np.full(5, np.nan)
    >>> y[[0, 4]] = 0.0, 1.0
    >>> HarmonicRegressor(alpha=1e-6, centred=False).fit(nx.path_graph(5), y).transduction_.round(3)
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """

    def fit(self, X: Any, y: Any) -> HarmonicRegressor:
        """Learn from the values of y that are not NaN or None.

        Parameters
        ----------
        X : graph or rows
        y : array of shape (n,), or dict
            A value for every node, or the values that are known, by the name of the node.

        Returns
        -------
        self
        """
        graph, names, index, y, labelled = self._read(X, y, read_values)
        found, graph = self._solve(graph, labelled, y[labelled, None])
        self._keep(graph, names, index)
        self.transduction_ = found.plain[:, 0]
        if self.centred:
            self.transduction_ = np.where(found.reached, found.scores[:, 0] + found.mean, self.transduction_)
        self.n_unreached_ = int((~found.reached).sum())
        return self

    def predict(self, X: Any) -> Array:
        """Return the values of nodes of the graph, or of new rows by the weighted mean over their nearest rows.

        Parameters
        ----------
        X : list of nodes, or array of shape (k, d)
            As in :meth:`HarmonicClassifier.predict`.

        Returns
        -------
        array, shape (k,)
        """
        check_is_fitted(self)
        return self._of_new(X, self.transduction_[:, None])[:, 0]
