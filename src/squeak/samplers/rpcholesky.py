"""Partial pivoted Cholesky: landmarks one by one where the kernel is explained least, at random or greedily."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.checks import check_whole, is_number
from squeak.core.cholesky import NotPositiveDefiniteError, inverse_factor
from squeak.core.constructors import parameters
from squeak.core.kernels import block, diagonal, gram
from squeak.core.leverage import INDEFINITE
from squeak.core.rows import n_rows, take
from squeak.core.seeds import SAMPLE, generator_at
from squeak.core.types import Array, IntArray, Rows
from squeak.samplers.base import Plan
from squeak.samplers.batch import BatchSampler, Choice

TILE = 2048
LARGEST_ROUND = 128
"""Pivots taken together at most: enough for matrix products at full speed."""

ROUNDING = 1e-13
"""A residual below this part of the diagonal is rounding: its row has been explained."""


class _Partial:
    """F Fᵀ ≈ K from some columns of K, grown by several pivots at a time; ``left`` is diag(K − F Fᵀ).

    The columns of F lie in chunks, each as wide as all before it: memory follows the pivots that are taken,
    not the limit on them, and nothing is ever copied.
    """

    def __init__(self, kernel: Any, X: Rows, size: int) -> None:
        self.kernel, self.X, self._most = kernel, X, size
        self.diag = diagonal(kernel, X)
        self.left = self.diag.copy()
        self.pivots = np.zeros(0, dtype=np.int64)
        self._chunks: list[Array] = []

    def _columns(self, rows: Any) -> list[Array]:
        """Return the rows' part of F, chunk by chunk."""
        found, at = [], 0
        for chunk in self._chunks:
            width = min(chunk.shape[1], len(self.pivots) - at)
            found.append(chunk[rows, :width])
            at += width
        return found

    def residual(self, rows: IntArray) -> Array:
        """Return the rows' and columns' part of K − F Fᵀ."""
        R = gram(self.kernel, take(self.X, rows))
        for F in self._columns(rows):
            R -= F @ F.T
        return R

    def _room(self, wanted: int) -> int:
        """Make room for columns, and return how many of those wanted lie in one chunk."""
        free = sum(chunk.shape[1] for chunk in self._chunks) - len(self.pivots)
        if free == 0:
            width = int(np.clip(len(self.pivots), 2 * LARGEST_ROUND, max(self._most - len(self.pivots), 1)))
            self._chunks.append(np.empty((len(self.left), min(width, self._most - len(self.pivots)))))
            free = self._chunks[-1].shape[1]
        return int(min(wanted, free))

    def add(self, rows: IntArray, inverse: Array) -> Array:
        """Take rows in as pivots, as many as there is room for; return how much each in turn took off the trace.

        ``inverse`` is L⁻¹ of their residual matrix. One pass over all rows, in tiles on the threads.
        """
        room = self._room(len(rows))
        rows, inverse = rows[:room], inverse[:room, :room]
        atoms, F_atoms = take(self.X, rows), [F.copy() for F in self._columns(rows)]
        last = self._chunks[-1]
        first = len(self.pivots) - sum(chunk.shape[1] for chunk in self._chunks[:-1])

        def grow(tile: slice) -> Array:
            G = block(self.kernel, take(self.X, tile), atoms)
            for F, F_atom in zip(self._columns(tile), F_atoms, strict=True):
                G -= F @ F_atom.T
            new = G @ inverse.T
            last[tile, first : first + room] = new
            np.square(new, out=new)
            self.left[tile] -= new.sum(axis=1)
            return np.asarray(new.sum(axis=0))

        taken = np.sum(engine.map_ordered(grow, engine.tiles(len(self.left), TILE)), axis=0)
        worst = float(np.min(self.left + INDEFINITE * self.diag))
        if worst < 0:
            raise ValueError(
                f"{self.kernel!r} is not positive semi-definite: a row is left with {worst:.3g} < 0; "
                "use a PSD kernel"
            )
        self.left[self.left < ROUNDING * self.diag] = 0.0
        self.left[rows] = 0.0
        self.pivots = np.concatenate([self.pivots, rows])
        return np.asarray(taken)


@parameters
class _PivotedCholesky(BatchSampler):
    """Pivots until there are ``max_atoms``, or what is left of the trace falls below ``tol`` of it."""

    trace_error_: float = field(init=False)

    max_atoms: int = field(default=100, kw_only=False)
    tol: float = 0.0
    ridge: float | None = None

    def _choose(self, X: Rows, plan: Plan, seed: int) -> tuple[list[Choice], float]:
        if not is_number(self.tol) or not 0 <= self.tol < 1:
            raise ValueError(f"tol is a part of the trace, from 0 to below 1; it is {self.tol!r}")
        size = min(check_whole("max_atoms", self.max_atoms), n_rows(X))
        partial = _Partial(plan.kernel, X, size)
        trace = float(partial.diag.sum())
        if trace <= 0:
            raise ValueError(f"{plan.kernel!r} is zero on all rows")
        rng, passes, error, size_found = generator_at(seed, SAMPLE), 0.0, 1.0, 0
        while size_found < size and error > self.tol and partial.left.max() > 0:
            rows, inverse = self._next(partial, size - len(partial.pivots), rng)
            errors = error - np.cumsum(partial.add(rows, inverse)) / trace
            enough = int(np.argmax(errors <= self.tol)) + 1 if errors[-1] <= self.tol else len(errors)
            size_found, error, passes = size_found + enough, float(max(errors[enough - 1], 0.0)), passes + 1.0
        self._facts = {"trace_error_": error}
        ones = np.ones(size_found, dtype=np.int64)
        pivots = partial.pivots[:size_found]
        return [Choice(pivots, np.ones(size_found), ones, 1, plan.ridge, None, calibrated=False)], passes

    def _next(self, partial: _Partial, room: int, rng: np.random.Generator) -> tuple[IntArray, Array]:
        """Return the next pivots, at most ``room``, and L⁻¹ of their residual matrix."""
        raise TypeError(f"{type(self).__name__} is abstract")


class RPCholesky(_PivotedCholesky):
    """Randomly pivoted Cholesky: each pivot drawn with probability proportional to what is left of its diagonal.

    d = diag K; repeat: s ~ d/Σd, the column g = K_(:,s) − F F_sᵀ, F ← [F, g/√g_s], d ← d − F_(:,−1)².
    Accelerated: a batch of proposals is drawn from d at once; each is accepted with probability (its residual
    after those accepted before it)/(its residual at the start), which gives exactly the sequential law. The
    best of the samplers where the goal is to approximate K and n × max_atoms numbers fit in memory; no ridge
    to choose.

    Its weights are 1 and estimate nothing (``calibrated`` is False).

    Parameters
    ----------
    kernel : kernel, optional
    max_atoms : int
    tol : float
        Stop once Tr(K − K̂) is at most this part of Tr K.
    ridge : float, optional
        Not used for the choice; learners may use it.
    source : str, optional
    random_state : None, int, RandomState or Generator

    Attributes
    ----------
    dictionary_ : Dictionary
    trace_error_ : float
        Tr(K − K̂)/Tr K of the Nyström approximation from the atoms, exact.

    References
    ----------
    Chen, Epperly, Tropp, Webber, "Randomly pivoted Cholesky", CPAM 2024, and Epperly, Tropp, Webber, "Embrace
    rejection", 2024; the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.samplers import RPCholesky
    >>> X = np.random.default_rng(0).standard_normal((2000, 2))
    >>> s = RPCholesky(kernel=RBF(2.0), max_atoms=200, tol=1e-3, random_state=0).fit(X)
    >>> s.trace_error_ <= 1e-3, len(s.dictionary_) < 60, s.dictionary_.calibrated
    (True, True, False)
    """

    def _next(self, partial: _Partial, room: int, rng: np.random.Generator) -> tuple[IntArray, Array]:
        chances = partial.left / partial.left.sum()
        batch = int(np.clip(max(len(partial.pivots), 8), 8, LARGEST_ROUND))
        drawn = rng.choice(len(chances), batch, p=chances)
        accepted, inverse = accept(partial, drawn, rng)
        return accepted[:room], inverse[:room, :room]


def accept(partial: _Partial, proposals: IntArray, rng: np.random.Generator) -> tuple[IntArray, Array]:
    """Return the proposals that rejection leaves, drawn from the diagonal left, and L⁻¹ of their residual matrix.

    Proposal i is accepted if u·(its residual at the start) < its residual after those accepted before. The
    first always is.
    """
    H = partial.residual(proposals)
    u = rng.random(len(proposals))
    limits = u * partial.left[proposals]
    chosen: list[int] = []
    L = np.zeros((len(proposals), len(proposals)))  # column j: the proposals against the j-th accepted one
    left = H.diagonal().copy()
    for i in range(len(proposals)):
        small = ROUNDING * partial.diag[proposals[i]]
        if chosen and (left[i] <= limits[i] or left[i] <= small):
            continue
        j = len(chosen)
        column = (H[:, i] - L[:, :j] @ L[i, :j]) / np.sqrt(max(left[i], small))
        L[:, j] = column
        left -= column**2
        chosen.append(i)
    rows = proposals[chosen]
    return rows, _inverse(H[np.ix_(chosen, chosen)])


def _inverse(H: Array) -> Array:
    """Return L⁻¹ of a residual matrix; a tiny shift where rounding has made it singular."""
    try:
        return inverse_factor(H)
    except NotPositiveDefiniteError:
        shift = 1e-12 * float(H.diagonal().max())
        return inverse_factor(H + max(shift, np.finfo(np.float64).tiny) * np.eye(len(H)))


class GreedyCholesky(_PivotedCholesky):
    """Greedily pivoted Cholesky: each pivot is the row with the most left of its diagonal.

    Deterministic. It chases outliers: where a few rows are unlike all others it takes them first, whatever the
    crowd needs. For comparison, and for kernels on few rows.

    Parameters
    ----------
    kernel, max_atoms, tol, ridge, source, random_state
        As in :class:`RPCholesky`; ``random_state`` is not used.

    References
    ----------
    Fine and Scheinberg, JMLR 2001; the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.samplers import GreedyCholesky
    >>> X = np.vstack([np.random.default_rng(0).standard_normal((500, 2)), [[50.0, 50.0]]])
    >>> d = GreedyCholesky(kernel=RBF(2.0), max_atoms=10).fit(X).dictionary_
    >>> 500 in d.indices
    True
    """

    def _next(self, partial: _Partial, room: int, rng: np.random.Generator) -> tuple[IntArray, Array]:
        row = int(np.argmax(partial.left))
        rows = np.array([row])
        return rows, 1.0 / np.sqrt(np.maximum(partial.residual(rows), ROUNDING * partial.diag[row]))
