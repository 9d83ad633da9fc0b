"""Uniform landmarks: every row the same chance. The comparison that leverage scores must beat."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from squeak.core.checks import check_whole
from squeak.core.constructors import parameters
from squeak.core.kernels import resolve
from squeak.core.rows import check_rows, check_same_kind, copy_rows, join, label_of, n_rows, take, width_of
from squeak.core.seeds import coins, draw_seed
from squeak.core.types import Array, IntArray, Rows
from squeak.data import Preprocessing, RowSource
from squeak.samplers.base import Sampler, own_kernel, ridge_or_default
from squeak.samplers.baselines import MultinomialNystrom
from squeak.samplers.dictionary import Dictionary
from squeak.samplers.record import Record


@dataclass(frozen=True)
class _Reservoir:
    """The rows with the smallest uniform numbers so far, replaced whole."""

    kernel: Any
    ridge: float
    seed: int
    limit: int
    rows: Rows
    indices: IntArray
    uniforms: Array
    n_seen: int
    head: Rows
    preprocessing: Preprocessing | None = None

    def add(self, block: Rows) -> _Reservoir:
        n, had = n_rows(block), self.uniforms.size
        uniforms = np.concatenate([self.uniforms, coins(self.seed, self.n_seen, n)])
        indices = np.concatenate([self.indices, np.arange(self.n_seen, self.n_seen + n)])
        stay = np.sort(np.argsort(uniforms, kind="stable")[: self.limit])
        rows = join(take(self.rows, stay[stay < had]), take(block, stay[stay >= had] - had))
        return replace(self, rows=rows, indices=indices[stay], uniforms=uniforms[stay], n_seen=self.n_seen + n)


@parameters
class Uniform(Sampler):
    """Keep ``max_atoms`` rows drawn at random without replacement, each set of that size equally likely.

    The weights are n/max_atoms. It needs one pass: the rows with the smallest of their random numbers stay (a
    reservoir), so streams of unknown length work too. It does not see rare directions: one row unlike all others is
    missed with probability 1 − max_atoms/n.

    Parameters
    ----------
    kernel : kernel, optional
        The kernel of the dictionary; the choice does not depend on it.
    max_atoms : int
        The number of rows to keep.
    ridge : float, optional
        The ridge of the dictionary's scores; the choice does not depend on it. The default is 1e-3 of the mean
        diagonal.
    replacement : bool
        Whether to draw each atom independently instead; a row that is drawn twice counts twice. It needs all rows
        at once, so there is no ``partial_fit``.
    source : str, optional
        The name of this part of the data, for merging.
    random_state : None, int, RandomState or Generator
        The seed. The same seed gives the same result, on any number of threads.

    References
    ----------
    Thesis, section 2.1.3; the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.samplers import Uniform
    >>> X = np.random.default_rng(0).random((400, 3))
    >>> d = Uniform(kernel=RBF(1.0), max_atoms=50, random_state=0).fit(X).dictionary_
    >>> len(d), float(d.weights.sum())
    (50, 400.0)
    """

    max_atoms: int = field(default=100, kw_only=False)
    ridge: float | None = None
    replacement: bool = False

    passes_ = 1.0

    def fit(self, X: Any, y: Any = None) -> Uniform:
        """Forget everything and choose among the rows of ``X``; ``y`` is ignored.

        Returns
        -------
        self
        """
        if self.replacement:
            return self._fit_with_replacement(X)
        if isinstance(X, RowSource):
            return self._fit_source(X)
        return self._start(X)

    def _fit_with_replacement(self, X: Any) -> Uniform:
        draws = MultinomialNystrom(
            self.kernel, self.max_atoms, ridge=self.ridge, source=self.source, random_state=self.random_state
        )
        self._dictionary = draws.fit(X).dictionary_
        self.__dict__.pop("_reservoir", None)
        return self

    def _fit_source(self, source: RowSource) -> Uniform:
        reservoir: _Reservoir | None = None
        for block in source.blocks():
            if reservoir is None:
                reservoir = self._begin(block.X, source.preprocessing)
            reservoir = reservoir.add(check_rows(block.X, reservoir.kernel, width=width_of(reservoir.head)))
        assert reservoir is not None  # a source gives rows or raises
        return self._keep(reservoir)

    def _start(self, X: Any) -> Uniform:
        block = check_rows(X, own_kernel(self.kernel))
        return self._keep(self._begin(block, None).add(block))

    def _keep(self, reservoir: _Reservoir) -> Uniform:
        self._reservoir = reservoir
        self.__dict__.pop("_dictionary", None)
        return self

    def _begin(self, block: Rows, preprocessing: Preprocessing | None) -> _Reservoir:
        """Return the empty reservoir of a stream that begins with a block."""
        kernel = own_kernel(self.kernel)
        limit = check_whole("max_atoms", self.max_atoms)
        block = check_rows(block, kernel)
        kernel = resolve(kernel, block)
        ridge = ridge_or_default(self.ridge, kernel, block)
        nobody, no_rows = np.zeros(0, dtype=np.int64), copy_rows(take(block, slice(0, 0)))
        head = copy_rows(take(block, slice(0, 1)))
        seed = draw_seed(self.random_state)
        return _Reservoir(kernel, ridge, seed, limit, no_rows, nobody, np.zeros(0), 0, head, preprocessing)

    @available_if(lambda self: not self.replacement)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None) -> Uniform:
        """Read a block of rows; one at a time or many at once gives the same choice.

        Returns
        -------
        self
        """
        if not hasattr(self, "_reservoir"):
            return self.fit(X)
        so_far = self._reservoir
        if so_far.preprocessing is not None:
            X = so_far.preprocessing.encode(X)
        block = check_rows(X, so_far.kernel, width=width_of(so_far.rows), first_row=so_far.n_seen)
        check_same_kind(so_far.head, block)
        return self._keep(so_far.add(block))

    @property
    def dictionary_(self) -> Dictionary:
        """The dictionary of all rows read so far."""
        if not hasattr(self, "_reservoir"):
            return self._dictionary if hasattr(self, "_dictionary") else super().dictionary_
        kept = self._reservoir
        m, n = kept.indices.size, kept.n_seen
        return Dictionary(
            kernel=kept.kernel,
            atoms=kept.rows,
            indices=kept.indices,
            probabilities=np.full(m, m / n),
            counts=np.ones(m, dtype=np.int64),
            copies=1,
            oversampling=None,
            ridge=kept.ridge,
            n_seen=n,
            sources=((label_of(kept.head) if self.source is None else str(self.source), n),),
            preprocessing=kept.preprocessing,
            record=Record.of(self),
        )
