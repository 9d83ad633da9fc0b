"""Sparsifiers of a stream of edges: one pass, memory for the sparsifier alone."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing
from dataclasses import field
from typing import Any, ClassVar

from sklearn.exceptions import NotFittedError

from squeak.core import state, storage
from squeak.core.constructors import parameters
from squeak.core.described import params_to_data
from squeak.core.rows import copy_rows
from squeak.core.seeds import draw_seed
from squeak.data import Cursor, Preprocessing, RowSource
from squeak.graphs.base import Sparsifier, make_plan
from squeak.graphs.edges import Edges
from squeak.graphs.forms import is_path
from squeak.graphs.names import Names, trimmed
from squeak.graphs.sample import EdgeSample
from squeak.graphs.sources import edge_blocks, edge_source, reopened_edges
from squeak.graphs.state import StreamState
from squeak.samplers.checkpoint import Resumable


@parameters
class EdgeStream(Resumable, Sparsifier):
    """What the stream sparsifiers share: edges come in by their score; the sample is scored anew as it grows."""

    kind: ClassVar[str] = "edge-stream"
    _drops: ClassVar[bool] = True
    _stream: StreamState = field(init=False)

    def fit(
        self, graph: Any, y: Any = None, *, checkpoint: str | os.PathLike[str] | None = None, every: float = 30.0
    ) -> Any:
        """Forget what was seen, and read all edges of a graph, a file, or an iterator of blocks, once.

        After an error the sparsifier is as it was; an interrupt keeps the blocks that were read.

        Parameters
        ----------
        graph : see :func:`squeak.graphs.edge_blocks`
        y : ignored
        checkpoint : path, optional
            Keep the whole state of the run in this file, replaced as the run goes on. If the process dies, the same
            call goes on from there, as does :meth:`resume`, and ends in the same bits as a run that never
            stopped. A file that holds an unfinished run of other parameters or other edges is refused.
        every : float
            Seconds between two writes of the checkpoint; 0 writes after every block.

        Returns
        -------
        self
        """
        if checkpoint is not None:
            return self._run(graph, checkpoint, every)
        return self._read(graph, None)

    @classmethod
    def resume(cls, path: str | os.PathLike[str], source: Any = None, *, every: float = 30.0) -> Any:
        """Go on with a run that was stopped, from its last checkpoint to the end of its edges.

        The result has the same bits as that of a run that never stopped. A run that had ended is returned as it is.

        Parameters
        ----------
        path : path
            The checkpoint; it is kept up to date.
        source : see :func:`squeak.graphs.edge_blocks`, optional
            The edges of the run from their beginning; not needed when they came from files, which are opened again.
        every : float
            Seconds between two writes of the checkpoint.

        Returns
        -------
        sparsifier
            As a run that never stopped would have left it.
        """
        return cls._resumed(path, source, every=every)

    def partial_fit(self, edges: Any, y: Any = None) -> Any:
        """Read a block of edges: (m, 2), (m, 3) or (u, v, weights); every edge of the stream once, in any order.

        A pair that comes again is another, parallel edge: its weight is added. A path or an iterator of blocks is
        read to its end. After an error the sparsifier is as it was; an interrupt keeps the blocks that were read.

        Parameters
        ----------
        edges : see :func:`squeak.graphs.edge_blocks`
        y : ignored

        Returns
        -------
        self
        """
        blocks = edges if hasattr(edges, "__next__") or is_path(edges) else iter([edges])
        return self._read(blocks, self._stream if hasattr(self, "_stream") else self._begin())

    def _read(
        self,
        X: Any,
        state: StreamState | None,
        *,
        start: Cursor | None = None,
        keeper: Any = None,
        past: Any = None,
    ) -> Any:
        """Take in the edges of ``X`` block by block: for a checkpoint from a place on, with a keeper of states."""
        before, fresh = getattr(self, "_stream", None), state is None
        state = self._begin() if state is None else state
        try:
            with closing(self._blocks(X, state, start, kept=keeper is not None)) as blocks:
                for block, cursor in blocks:
                    state = self._stream = state.after(block)
                    if cursor is not None and state.n_seen:
                        keeper.keep(state, [], cursor)
            if state.n_seen == 0 and fresh:
                raise ValueError("there are no edges")
        except storage.CheckpointError:
            raise  # the edges are in; only the file is not
        except Exception:
            self._restore(before)
            if before is not None:
                trimmed(before.names, before.n_nodes)
            raise
        self._stream = state
        return self

    def _blocks(
        self, X: Any, state: StreamState, start: Cursor | None, *, kept: bool
    ) -> Generator[tuple[Edges, Cursor | None]]:
        """Yield blocks of clean edges, with their places in the source where states are kept."""
        if not kept:
            for block in edge_blocks(X, self.n_nodes, first=state.n_seen, names=state.names):
                yield block, None
            return
        state.preprocessing = X.preprocessing
        state.names = getattr(X.reader, "known", state.names)
        with closing(X.blocks(start)) as found:
            for rows in found:
                if state.head is None:
                    state.head = copy_rows(rows.X[:1])
                first = rows.cursor.kept - rows.X.shape[0]
                block = next(edge_blocks(iter([rows.X]), self.n_nodes, first=first))
                yield block.on_nodes(max(block.n_nodes, getattr(X.reader, "n_nodes", 0))), rows.cursor

    def _begin(self) -> StreamState:
        return StreamState(make_plan(self), draw_seed(self.random_state), drops=self._drops)

    def _restore(self, state: StreamState | None, history: Any = None) -> None:
        if state is None:
            self.__dict__.pop("_stream", None)
        else:
            self._stream = state

    def _as_source(self, X: Any) -> RowSource:
        return edge_source(X, self.n_nodes)

    @staticmethod
    def _reopened(recipe: dict[str, Any], preprocessing: Preprocessing | None) -> RowSource:
        return reopened_edges(recipe, preprocessing)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the parts for a file.

        Returns
        -------
        arrays, content : dict, dict
        """
        return self._parts_at(self._now(), [])

    def _parts_at(self, state: StreamState, history: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, content = state.to_parts()
        return arrays, {"sampler": type(self).__name__, "params": params_to_data(self), **content}

    @classmethod
    def from_parts(cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> EdgeStream:
        """Return the sparsifier that :meth:`to_parts` took apart, ready for more edges.

        Returns
        -------
        StreamSparsifier or OnlineSparsifier
        """
        kinds: dict[str, type[EdgeStream]] = {one.__name__: one for one in (StreamSparsifier, OnlineSparsifier)}
        kind = kinds[content["sampler"]]
        found = kind(**state.parameters(kind, content["params"]))
        found._stream = StreamState.from_parts(make_plan(found), arrays, content, drops=kind._drops)
        return found

    @staticmethod
    def _state_from(arrays: dict[str, Any], content: dict[str, Any], kernel: Any) -> tuple[StreamState, list[Any]]:
        return EdgeStream.from_parts(arrays, content)._stream, []

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_stream")

    def _now(self) -> StreamState:
        if not hasattr(self, "_stream") or self._stream.n_seen == 0:
            raise NotFittedError(f"this {type(self).__name__} has seen no edges yet: call fit or partial_fit")
        return self._stream

    def _known(self) -> Names:
        return self._now().names

    @property
    def n_seen_(self) -> int:
        """Edges read so far."""
        return self._now().n_seen

    @property
    def sample_(self) -> EdgeSample:
        """The edges kept, with their state."""
        return self._now().result()


class StreamSparsifier(EdgeStream):
    """Sparsify a stream of edges in one pass, with memory for the sparsifier alone: Kelner and Levin's algorithm.

    It is SQUEAK on edges. A new edge e comes in with probability p = min(1, oversampling·s/(1 + s)), where s =
    a_e·r_e and r_e is the resistance between its ends in the sample. Its weight is then a_e/p. When the sample has
    grown by half, all its edges are scored within it, p' = min(p, oversampling·a_e·r_e), and each stays with
    probability p'/p. Probabilities are fixed before each draw and never rise, so E[L_H] = L exactly.

    Parameters
    ----------
    oversampling : float or "theory"
        The number of edges kept per unit of leverage: about oversampling·(nodes − 1) edges stay. "theory" takes the
        theorem's number from ``eps``, ``delta`` and ``n`` (edges), times (1 + η)/(1 − η) for scores with an error η
        = 0.1 above 1,000 nodes. It is far too large to use.
    ridge : float
        0 gives a spectral sparsifier. A positive number gives an (ε, ridge)-sparsifier, with oversampling·Tr L(L +
        ridge)⁻¹ edges.
    copies : int
        How many coins are tossed for a new edge. One coin was measured to be best; as many as ``oversampling`` are
        the papers' form.
    connected : bool, optional
        Whether every component stays whole: a spanning forest is then never thinned. By default it is so if ridge
        is 0.
    n_nodes : int, optional
        The number of nodes. By default it is the largest node number seen, plus one.
    eps, delta, n
        The accuracy, the probability of failure and the number of edges, for "theory".
    source : str, optional
        A name for these edges, for merging.
    random_state : None, int, RandomState or Generator
        The seed. The same seed gives the same result, on any number of threads.

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
    between are larger than they need be, never smaller. In a sample of more than 1,000 nodes with weights 1e15 or
    more apart they are not known for new edges, and all of these come in: :class:`StreamSparsifier`, which scores
    edges within the sample, is the one for such graphs.

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
