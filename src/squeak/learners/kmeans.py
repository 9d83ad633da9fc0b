"""Kernel k-means on a dictionary: Lloyd's iterations as sums over the rows, wherever they lie."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning

from squeak.core import engine, state
from squeak.core.checks import check_between, check_whole
from squeak.core.constructors import parameters
from squeak.core.kernels import block, diagonal, gram
from squeak.core.nystrom import Features
from squeak.core.rows import take
from squeak.core.saved import Layout
from squeak.core.seeds import PROBE, draw_seed, generator_at
from squeak.core.types import Array, Rows
from squeak.data import PredictsBlocks, RowSource, by_blocks
from squeak.learners.base import DictionaryLearner
from squeak.learners.cached import GivenFeatures, kept_in_memory
from squeak.learners.centres import TINY, Centres, means
from squeak.learners.data import ArrayTraining, SourceTraining
from squeak.learners.expansion import Expansion
from squeak.learners.formula import Answers, Clusters, Function
from squeak.learners.rows import Transformer, all_or_nothing
from squeak.learners.tiles import atom_values, sum_tiles
from squeak.trees.sums import Arrays

STARTS_ITERATIONS = 100
"""Iterations at most over the atoms, where a start is made."""

SAME = 1e-9
"""Costs that differ by less than this part of Σ w k(x, x) are the same."""

ROUNDING = 1e-14
"""A squared distance below this part of the squared norms is zero: the rest is rounding."""


@dataclass(frozen=True)
class AssignTerm:
    """For the rows nearest to each centre: Σ w k(atoms, x), Σ w, and Σ w (‖c‖² − 2 c(x)) over all.

    ‖φ(x) − c‖² = k(x, x) − 2 c(x) + ‖c‖², and k(x, x) decides nothing. Without ``coef`` the atoms are the centres.
    """

    features: Any
    norms: Array
    coef: Array | None = None

    def __call__(self, X: Rows, pair: tuple[Any, Any]) -> Arrays:
        """Return the sums over a block."""
        weight, (m, k) = pair[1], (len(self.features.mixing), len(self.norms))

        def zero() -> Arrays:
            return np.zeros((k, m)), np.zeros(k), np.zeros(())

        def add(total: Arrays, tile: slice) -> None:
            values = block(self.features.kernel, take(X, tile), self.features.atoms)
            far = self.norms - 2.0 * (values if self.coef is None else values @ self.coef)
            nearest = far.argmin(axis=1)
            w = np.ones(len(values)) if weight is None else weight[tile]
            rows = np.arange(len(values))
            members = sp.csr_array((w, (nearest, rows)), shape=(k, len(values)))
            total[0][:] += members @ values
            total[1][:] += np.bincount(nearest, w, minlength=k)
            total[2][...] += w @ far[rows, nearest]

        return sum_tiles(X, m, math.isqrt(k * m) + 1, zero, add)


@dataclass(frozen=True)
class _DiagonalTerm:
    """Σ w k(x, x)."""

    kernel: Any

    def __call__(self, X: Rows, pair: tuple[Any, Any]) -> Arrays:
        values, weight = diagonal(self.kernel, X), pair[1]
        return (np.array(values.sum() if weight is None else weight @ values),)


@parameters
class KernelKMeans(Transformer, ClusterMixin, PredictsBlocks, DictionaryLearner):
    """k-means of the rows' feature vectors φ(x), with centres in the span of a dictionary.

    It minimises Σ w ‖φ(x) − c_label(x)‖² over labels and centres c = Σ_j a_j φ(atom_j). This is k-means on Nyström
    features, because the part of φ(x) outside the span is the same for every centre. An iteration is one sum over
    the rows. It starts from the atoms: each counts for the rows nearest to it, and of ``n_init`` k-means++ starts,
    each iterated on the atoms alone, the best one continues with the rows.

    Parameters
    ----------
    n_clusters : int
        The number of clusters.
    kernel : kernel, optional
        How similar two rows are. The default is an RBF of the median width.
    n_init : int
        The number of starts on the atoms; they need no pass over the rows.
    max_iter : int
        The largest number of passes over the rows.
    tol : float
        The iterations end when the centres move by less than this part of the mean squared distance.
    sampler, dictionary, max_atoms
        How the atoms are chosen; give at most one, as in :class:`KernelRidge`.
    memory_budget : float, optional
        The bytes that may be used to keep kernel values between passes: 512 MB by default, and 0 for none.
    random_state : None, int, RandomState or Generator
        The seed. The same seed gives the same result, on any number of threads.
    verbose : int
        1 shows progress.

    Attributes
    ----------
    labels_ : array of int, shape (n,)
        For rows in memory.
    inertia_ : float
        Σ w ‖φ(x) − c‖², the part outside the span included.
    dual_coef_ : array of shape (m, n_clusters)
        The centres as combinations of the atoms.
    cluster_weights_ : array of shape (n_clusters,)
        Σ w of every cluster.
    n_iter_, dictionary_, kernel_

    References
    ----------
    Arthur, Vassilvitskii, "k-means++", 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak import KernelKMeans
    >>> from squeak.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([c + 0.2 * rng.standard_normal((500, 2)) for c in ([0, 0], [2, 2], [0, 3])])
    >>> found = KernelKMeans(3, kernel=RBF(1.0), max_atoms=40, random_state=0).fit(X)
    >>> np.bincount(found.labels_).tolist()
    [500, 500, 500]
    >>> bool((found.predict(X) == found.labels_).all())
    True
    """

    kind: ClassVar[str] = "kernel-k-means"
    _state: ClassVar[Layout] = {
        "_feature_map.mixing": state.numbers("m", "r"),
        "_centres.points": state.numbers("k", "r"),
        "_weights": state.numbers("k", low=0.0),
        "inertia_": state.number(low=0.0),
        "n_iter_": state.whole(),
    }

    _centres: Centres = field(init=False)
    cluster_weights_: Array = field(init=False)

    n_clusters: int = field(default=8, kw_only=False)
    kernel: Any = None
    n_init: int = 10
    max_iter: int = 100
    tol: float = 1e-6
    memory_budget: float | None = None

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelKMeans:
        """Cluster all rows.

        Parameters
        ----------
        X : array, CSR, table, or row source
            A row source is read block by block, once an iteration, on the workers of a cluster where a Dask client
            is active.
        y : ignored
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        self._check_kmeans_parameters()
        data = self._training(X, None, sample_weight, targets=False)
        if not data.repeatable:
            raise ValueError("k-means reads the rows many times: an iterator cannot be; use partial_fit")
        d = self._choose_dictionary(data, self._own_kernel(), None)
        features = self._features(d)
        (trace,) = data.sum(_DiagonalTerm(d.kernel))
        held: Any = data.persist() if isinstance(data, SourceTraining) else data
        held, seen = kept_in_memory(held, features, self.memory_budget)
        with engine.single_blas():
            start, places = self._start(held, features, seen)
            centres, moved, n_iter = self._lloyd(
                held, seen, features.mixing, start, places, float(trace), self.max_iter, bool(self.verbose)
            )
        if moved:
            warnings.warn(
                f"k-means still moved after {n_iter} passes: raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        _, counts, inertia = held.sum(AssignTerm(seen, centres.norms, centres.coef))
        self.inertia_, self.n_iter_ = max(float(inertia + trace), 0.0), n_iter
        self._feature_map, self._centres, self.cluster_weights_ = features, centres, counts
        self.dual_coef_, self.dictionary_ = centres.coef, d
        self.__dict__.pop("labels_", None)
        if not isinstance(X, RowSource):
            self.labels_ = self.predict(X)
        return self

    def _start(self, data: Any, features: Features, seen: Any) -> tuple[Centres, Array]:
        """Return the best start, and the places of the atoms, each of which stands for the rows nearest to it."""
        from sklearn.cluster import kmeans_plusplus

        K, norms = gram(features.kernel, features.atoms), diagonal(features.kernel, features.atoms)
        sums, counts, _ = data.sum(AssignTerm(seen, norms))
        density = sums.sum(axis=0)  # Σ w k(atom, x): an order of the atoms that does not depend on that of the rows
        some = np.flatnonzero(counts > 0)
        some = some[np.lexsort((counts[some], density[some]))]
        if len(some) < self.n_clusters:
            raise ValueError(
                f"n_samples={len(some)} distinct rows in the dictionary, fewer than n_clusters={self.n_clusters}: "
                "take more atoms, or fewer clusters"
            )
        atoms, Z = ArrayTraining(K[some], None, counts[some]), K[some] @ features.mixing
        here, trace = GivenFeatures(features.mixing), float(counts[some] @ norms[some])
        seed, best, least = draw_seed(self.random_state), None, np.inf
        for number in range(self.n_init):
            draws = np.random.RandomState(generator_at(seed, PROBE, number).integers(2**31))
            points, _ = kmeans_plusplus(Z, self.n_clusters, sample_weight=counts[some], random_state=draws)
            start = Centres.of(points, features.mixing)
            start, _, _ = self._lloyd(atoms, here, features.mixing, start, Z, trace, STARTS_ITERATIONS)
            cost = float(atoms.sum(AssignTerm(here, start.norms, start.coef))[2])
            if cost < least - SAME * trace:  # rounding shall not choose between equal ends
                best, least = start, cost
        assert best is not None
        return best, Z

    def _lloyd(
        self,
        data: Any,
        seen: Any,
        mixing: Array,
        centres: Centres,
        places: Array,
        trace: float,
        passes: int,
        show: bool = False,
    ) -> tuple[Centres, bool, int]:
        """Return the centres after Lloyd's iterations, whether they still move, and how many there were."""
        from tqdm.auto import tqdm

        bar = tqdm(total=passes, desc="k-means", unit=" passes", disable=not show)
        with bar:
            for step in range(1, passes + 1):
                sums, counts, cost = data.sum(AssignTerm(seen, centres.norms, centres.coef))
                new = means(sums, counts, mixing, places)
                shift = float(np.sum((new.points - centres.points) ** 2))
                centres = new
                bar.update(1)
                if shift <= self.tol * max(float(cost) + trace, 0.0) / float(counts.sum()):
                    return centres, False, step
        return centres, True, passes

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelKMeans:
        """Take in more rows, which are not needed again: every centre becomes the mean of all rows it was given.

        The first rows are clustered by :meth:`fit`; the dictionary is the one given, or theirs, and stays.

        Parameters
        ----------
        X : array, CSR or table
        y : ignored
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        if not hasattr(self, "_centres"):
            return self.fit(X, None, sample_weight)
        data = self._array(X, None, sample_weight, targets=False, reset=False)
        centres, features, old = self._centres, self._feature_map, self.cluster_weights_
        sums, counts, cost = data.sum(AssignTerm(features, centres.norms, centres.coef))
        (trace,) = data.sum(_DiagonalTerm(features.kernel))
        weights = old + counts
        points = (old[:, None] * centres.points + sums @ features.mixing) / np.maximum(weights, TINY)[:, None]
        self._centres = Centres.of(np.where(weights[:, None] > 0, points, centres.points), features.mixing)
        self.cluster_weights_, self.dual_coef_ = weights, self._centres.coef
        self.inertia_ += max(float(cost + trace), 0.0)
        self.n_iter_ += 1
        self.labels_ = self.predict(X)
        return self

    def _check_kmeans_parameters(self) -> None:
        self._check_choice()
        for name in ("n_clusters", "n_init", "max_iter"):
            check_whole(name, getattr(self, name))
        check_between("tol", self.tol, 0.0, np.inf)

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_weights_)

    @by_blocks
    def _squared(self, X: Any, self_products: bool) -> Array:
        """Return ‖φ(x) − c‖² for all rows and centres, without k(x, x) where only comparisons matter."""
        rows, d, centres = self._rows_for(X), self.dictionary_, self._centres
        out = atom_values(rows, d, -2.0 * centres.coef, -centres.norms)
        if self_products:
            own = diagonal(d.kernel, rows)[:, None]
            out += own
            out[out < ROUNDING * (own + centres.norms)] = 0.0
        return out

    def _functions(self) -> Sequence[Function]:
        d, centres = self.dictionary_, self._centres
        return [Expansion(d.kernel, d.atoms, -2.0 * centres.coef, centres.norms)]

    def _answers(self) -> Answers:
        return Clusters(self.kernel_, self._centres.norms, ROUNDING)

    @by_blocks
    def predict(self, X: Any) -> Any:
        """Return the number of the nearest centre for every row.

        Parameters
        ----------
        X : array, CSR, table, or row source

        Returns
        -------
        array of int, shape (n,)
        """
        return self._squared(X, self_products=False).argmin(axis=1)

    @by_blocks
    def transform(self, X: Any) -> Array:
        """Return the distances ‖φ(x) − c‖ of every row from every centre.

        Parameters
        ----------
        X : array, CSR, table, or row source

        Returns
        -------
        array of shape (n, n_clusters)
        """
        return np.sqrt(self._squared(X, self_products=True))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return minus the sum of the squared distances from the nearest centres.

        Parameters
        ----------
        X : array, CSR, table, or row source
        y : ignored
        sample_weight : array of shape (n,), optional

        Returns
        -------
        float
        """
        nearest = self._squared(X, self_products=True).min(axis=1)
        return -float(nearest.sum() if sample_weight is None else np.asarray(sample_weight) @ nearest)

    @property
    def _weights(self) -> Array:
        """The weights of the clusters, as a file calls them."""
        return self.cluster_weights_

    @_weights.setter
    def _weights(self, weights: Array) -> None:
        self.cluster_weights_ = weights

    def _restore(self, found: dict[str, Any]) -> None:
        super()._restore(found)
        self._centres = Centres.of(found["_centres.points"], self._feature_map.mixing)
        self.dual_coef_ = self._centres.coef
