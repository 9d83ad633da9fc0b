"""Uniform landmarks: every row the same chance. The comparison that leverage scores must beat."""

from __future__ import annotations

from typing import Any

import numpy as np

from squeak.core.dictionary import Dictionary
from squeak.core.leverage import check_ridge
from squeak.core.rows import check_rows, join, label_of, n_rows, take, width_of
from squeak.core.seeds import RandomState, coins, draw_seed
from squeak.samplers.base import DEFAULT_RIDGE, Sampler, diagonal, own_kernel, resolve


class Uniform(Sampler):
    """Keep ``max_atoms`` rows drawn without replacement, each set of that size equally likely.

    Weights are n/max_atoms. One pass: the rows with the smallest of their uniform numbers stay (a reservoir), so
    streams of unknown length work too. Blind to rare directions: one row unlike all others is missed with
    probability 1 − max_atoms/n.

    Parameters
    ----------
    kernel : kernel, optional
    max_atoms : int
    ridge : float, optional
        Not used for the choice; it is the ridge of the dictionary's scores. 1e-3 of the mean diagonal by default.
    source : str, optional
    random_state : None, int, RandomState or Generator

    References
    ----------
    Thesis, section 2.1.3; spec 2.2.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.samplers import Uniform
    >>> d = Uniform(kernel=RBF(1.0), max_atoms=50, random_state=0).fit(np.random.rand(400, 3)).dictionary_
    >>> len(d), float(d.weights.sum())
    (50, 400.0)
    """

    def __init__(
        self,
        kernel: Any = None,
        max_atoms: int = 100,
        ridge: float | None = None,
        source: str | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.kernel = kernel
        self.max_atoms = max_atoms
        self.ridge = ridge
        self.source = source
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Uniform:
        """Forget everything and choose among the rows of ``X``; ``y`` is ignored."""
        return self._read(X, fresh=True)

    def partial_fit(self, X: Any, y: Any = None) -> Uniform:
        """Read a block of rows; one at a time or many at once gives the same choice."""
        return self._read(X, fresh=not hasattr(self, "_rows"))

    def _read(self, X: Any, fresh: bool) -> Uniform:
        limit = self.max_atoms
        if isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 1:
            raise ValueError(f"max_atoms must be a whole number from 1 on; it is {limit!r}")
        kernel = own_kernel(self.kernel) if fresh else self._kernel
        seen = 0 if fresh else self._n_seen
        block = check_rows(
            X, kernel, width=None if fresh or seen == 0 else width_of(self._rows), first_row=seen
        )
        if fresh:
            kernel = resolve(kernel, block)
            mean = float(diagonal(kernel, block).mean())
            ridge = check_ridge(DEFAULT_RIDGE * mean if self.ridge is None else self.ridge)
            self._kernel, self._ridge, self._seed = kernel, ridge, draw_seed(self.random_state)
            self._rows, self._indices, self._uniforms = (
                take(block, slice(0, 0)),
                np.zeros(0, np.int64),
                np.zeros(0),
            )
            self._head = self._rows
            self._n_seen = 0
        n = n_rows(block)
        uniforms = np.concatenate([self._uniforms, coins(self._seed, seen, n)])
        indices = np.concatenate([self._indices, np.arange(seen, seen + n)])
        stay = np.sort(np.argsort(uniforms, kind="stable")[:limit])
        old, new = stay[stay < self._uniforms.size], stay[stay >= self._uniforms.size]
        rows = join(take(self._rows, old), take(block, new - self._uniforms.size))
        self._head = join(self._head, take(block, slice(0, max(0, 64 - n_rows(self._head)))))
        self._rows, self._indices, self._uniforms = rows, indices[stay], uniforms[stay]
        self._n_seen = seen + n
        return self

    @property
    def dictionary_(self) -> Dictionary:
        """The dictionary of all rows read so far."""
        if not hasattr(self, "_rows"):
            return super().dictionary_
        m, n = len(self._indices), self._n_seen
        return Dictionary(
            kernel=self._kernel,
            atoms=self._rows,
            indices=self._indices,
            probabilities=np.full(m, m / n),
            counts=np.ones(m, dtype=np.int64),
            copies=1,
            oversampling=None,
            ridge=self._ridge,
            n_seen=n,
            sources=((label_of(self._head) if self.source is None else str(self.source), n),),
        )
