"""Sparsifiers of a stream of edges: one pass, memory for the sparsifier alone."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from squeak.core.seeds import RandomState, draw_seed
from squeak.graphs.blocks import edge_blocks
from squeak.graphs.forms import is_path
from squeak.graphs.sample import EdgeSample
from squeak.graphs.state import DEFAULT_OVERSAMPLING, StreamState, make_plan


class EdgeStream(BaseEstimator):
    """What the stream sparsifiers share: edges come in by their score; the sample is scored anew as it grows."""

    _drops = True

    def __init__(
        self,
        oversampling: float | str = DEFAULT_OVERSAMPLING,
        ridge: float = 0.0,
        copies: int = 1,
        connected: bool | None = None,
        n_nodes: int | None = None,
        eps: float | None = None,
        delta: float | None = None,
        n: int | None = None,
        source: str | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.oversampling = oversampling
        self.ridge = ridge
        self.copies = copies
        self.connected = connected
        self.n_nodes = n_nodes
        self.eps = eps
        self.delta = delta
        self.n = n
        self.source = source
        self.random_state = random_state

    def fit(self, graph: Any, y: Any = None) -> Any:
        """Forget what was seen, and read all edges of a graph, a file, or an iterator of blocks, once.

        Parameters
        ----------
        graph : see :func:`squeak.graphs.edge_blocks`
        y : ignored
        """
        fresh = self._begin()
        for block in edge_blocks(graph, self.n_nodes):
            fresh.read(block)
        if fresh.n_seen == 0:
            raise ValueError("there are no edges")
        self._stream = fresh
        return self

    def partial_fit(self, edges: Any, y: Any = None) -> Any:
        """Read a block of edges: (m, 2), (m, 3) or (u, v, weights); every edge of the stream once, in any order.

        A pair that comes again is another, parallel edge: its weight is added.
        """
        stream = self._stream if hasattr(self, "_stream") else self._begin()
        blocks = edges if hasattr(edges, "__next__") or is_path(edges) else iter([edges])
        for block in edge_blocks(blocks, self.n_nodes, first=stream.n_seen):
            stream.read(block)
        self._stream = stream
        return self

    def _begin(self) -> StreamState:
        return StreamState(make_plan(self), draw_seed(self.random_state), drops=self._drops)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_stream")

    def _now(self) -> StreamState:
        if not hasattr(self, "_stream") or self._stream.n_seen == 0:
            raise NotFittedError(f"this {type(self).__name__} has seen no edges yet: call fit or partial_fit")
        return self._stream

    @property
    def n_seen_(self) -> int:
        """Edges read so far."""
        return self._now().n_seen

    @property
    def sample_(self) -> EdgeSample:
        """The edges kept, with their state."""
        return self._now().result()

    @property
    def sparsifier_(self) -> Any:
        """The sparsifier of the edges seen so far, as a symmetric CSR adjacency matrix."""
        return self.sample_.graph.adjacency()

    @property
    def n_components_(self) -> int:
        """Components of the sparsifier; nodes without edges count as one each."""
        return self.sample_.graph.components()[0]


class StreamSparsifier(EdgeStream):
    """Sparsify a stream of edges in one pass, in memory for the sparsifier alone: Kelner and Levin's algorithm.

    It is SQUEAK on edges. A new edge e comes in with probability p = min(1, oversampling·s/(1 + s)), where s =
    a_e·r_e and r_e is the resistance between its ends in the sample; its weight is then a_e/p. When the sample
    has grown by half, all its edges are scored within it, p' = min(p, oversampling·a_e·r_e), and each stays with
    probability p'/p. Probabilities are fixed before each draw and never rise, so E[L_H] = L exactly.

    Parameters
    ----------
    oversampling : float or "theory"
        Kept edges per unit of leverage: about oversampling·(nodes − 1) edges stay. "theory" takes the theorem's
        number from ``eps``, ``delta`` and ``n`` (edges), and is far too large to use.
    ridge : float
        0: a spectral sparsifier. Positive: an (ε, ridge)-sparsifier, with oversampling·Tr L(L + ridge)⁻¹ edges.
    copies : int
        Coins of a fresh edge; 1 is measured best, ``oversampling`` coins are the papers' form.
    connected : bool, optional
        Keep every component whole: a spanning forest is never thinned. By default where ridge is 0.
    n_nodes : int, optional
        The largest node number seen and one more, where left out.
    eps, delta, n
        For "theory".
    source : str, optional
        A name for these edges, for merging.
    random_state : None, int, RandomState or Generator

    Attributes
    ----------
    sparsifier_ : CSR adjacency matrix
        Usable after every block.
    sample_ : EdgeSample
    n_seen_, n_components_ : int

    Notes
    -----
    With q̄ = 26·ρ·log(3m/δ)/ε², ρ = (1 + 3ε)/(1 − ε), every sparsifier on the way has accuracy ε with
    probability 1 − δ and at most 3·q̄·(n − 1) edges. Measured, ε·√(kept/n) is about 2 with one coin.

    References
    ----------
    Thesis, algorithm 11 and theorem 4.7, with the corrections of the theory page, "Graphs".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.graphs import StreamSparsifier, spectral_accuracy
    >>> u, v = np.triu_indices(400, 1)  # a complete graph, in five blocks
    >>> s = StreamSparsifier(oversampling=30, random_state=0)
    >>> for block in np.array_split(np.column_stack([u, v]), 5):
    ...     s = s.partial_fit(block)
    >>> s.n_seen_, s.n_components_, s.sparsifier_.nnz // 2 < 13_000
    (79800, 1, True)
    >>> spectral_accuracy((u, v), s.sparsifier_) < 0.6
    True
    """


class OnlineSparsifier(EdgeStream):
    """Sparsify a stream of edges and never take back what was kept: KORS on edges (online row sampling).

    An edge comes in with probability p = min(1, oversampling·s/(1 + s)), s = a_e·r_e in what was kept before
    it, and stays with weight a_e/p. Resistances are computed anew when the sample has grown by half; those in
    between are larger than they need be, never smaller.

    Parameters
    ----------
    oversampling, ridge, copies, connected, n_nodes, eps, delta, n, source, random_state
        As in :class:`StreamSparsifier`. A component is kept whole without a forest: an edge that joins two
        components of the sample always comes in.

    References
    ----------
    Cohen, Musco, Pachocki, "Online row sampling"; thesis, algorithm 8; the theory page, "Graphs".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.graphs import OnlineSparsifier
    >>> u, v = np.triu_indices(300, 1)
    >>> s = OnlineSparsifier(oversampling=10, random_state=0).fit((u, v))
    >>> s.n_components_, s.sparsifier_.nnz // 2 < 0.5 * len(u)
    (1, True)
    """

    _drops = False
