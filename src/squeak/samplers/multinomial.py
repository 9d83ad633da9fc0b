"""Independent draws with given probabilities: the classical Nyström sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from squeak.core.kernels import diagonal
from squeak.core.rows import n_rows
from squeak.core.seeds import SAMPLE, RandomState, generator_at
from squeak.core.types import Array, Rows
from squeak.samplers.base import Plan, check_max_atoms
from squeak.samplers.batch import BatchSampler, Choice, merge_draws


class MultinomialNystrom(BatchSampler):
    """Draw ``max_atoms`` rows independently with given probabilities; a row drawn twice counts twice.

    Row i has weight count_i/(max_atoms·P_i), 1 in expectation. There are at most ``max_atoms`` atoms, fewer
    where rows were drawn more than once.

    Parameters
    ----------
    kernel : kernel, optional
    max_atoms : int
        The number of draws.
    probabilities : array of shape (n,), "diagonal", callable or None
        One for each row, scaled to sum 1; "diagonal" for k_ii/Tr K; a callable is given the rows; None for
        uniform.
    ridge : float, optional
        Not used for the choice; it is the ridge of the dictionary's scores.
    source : str, optional
    random_state : None, int, RandomState or Generator

    References
    ----------
    Thesis, section 2.1 (Nyström sampling; there binomial); the theory page. Williams and Seeger, NeurIPS 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import Linear
    >>> from squeak.samplers import MultinomialNystrom
    >>> X = np.random.default_rng(0).standard_normal((400, 3))
    >>> s = MultinomialNystrom(kernel=Linear(), max_atoms=50, probabilities="diagonal", random_state=0)
    >>> int(s.fit(X).dictionary_.counts.sum())
    50
    """

    def __init__(
        self,
        kernel: Any = None,
        max_atoms: int = 100,
        probabilities: Array | str | Callable[[Rows], Array] | None = None,
        ridge: float | None = None,
        source: str | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.kernel = kernel
        self.max_atoms = max_atoms
        self.probabilities = probabilities
        self.ridge = ridge
        self.source = source
        self.random_state = random_state

    oversampling = 1.0  # class attributes: sizes are asked for by max_atoms
    copies = 1

    def _choose(self, X: Rows, plan: Plan, seed: int) -> tuple[list[Choice], float]:
        chances = self._chances(X, plan)
        size = check_max_atoms(self.max_atoms)
        draws = generator_at(seed, SAMPLE).choice(n_rows(X), size, p=chances)
        return [merge_draws(draws, chances[draws], size, plan.ridge)], 1.0

    def _chances(self, X: Rows, plan: Plan) -> Array:
        n, asked = n_rows(X), self.probabilities
        if asked is None:
            return np.full(n, 1.0 / n)
        if isinstance(asked, str):
            if asked != "diagonal":
                raise ValueError(f"probabilities must be numbers, 'diagonal', a function or None; it is {asked!r}")
            chances = diagonal(plan.kernel, X)
        else:
            chances = np.asarray(asked(X) if callable(asked) else asked, dtype=np.float64)
        if chances.shape != (n,) or not np.isfinite(chances).all() or chances.min() < 0 or chances.sum() <= 0:
            raise ValueError(f"probabilities must be {n} finite numbers that are not negative and not all zero")
        return np.asarray(chances / chances.sum())
