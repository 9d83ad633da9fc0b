"""Two steps, or many: uniform rows give scores, the scores give the dictionary."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from squeak.core import engine
from squeak.core.checks import check_whole
from squeak.core.constructors import parameters
from squeak.core.kernels import diagonal
from squeak.core.nystrom import TriangularFeatures
from squeak.core.rows import n_rows, take
from squeak.core.seeds import SAMPLE, generator_at
from squeak.core.types import Array, Rows
from squeak.samplers.base import Coins, Plan
from squeak.samplers.batch import BatchSampler, Choice, bounded_scores, keep_by_score, merge_draws
from squeak.samplers.dictionary import Dictionary
from squeak.samplers.measured import second_moment
from squeak.samplers.theory import many_step_oversampling, two_step_oversampling

TILE = 1024
LARGEST_FIRST = 5_000
"""First rows at most, where their number is not given."""


@parameters
class TwoStep(Coins, BatchSampler):
    """Score all rows from a first set of them, then keep rows by these scores.

    The first set is drawn with probability k_ii/Tr K (uniform where the diagonal is constant). Then τ̃_i =
    φ_iᵀ(ΦSSᵀΦᵀ + ridge·Π)⁻¹φ_i for all rows, counts ~ Binomial(copies, p), p = min(1,
    (oversampling/copies)·τ̃). The first set must have about Tr K/ridge rows: fine for a large ridge, too dear
    for a small one.

    Parameters
    ----------
    kernel, ridge, oversampling, copies, eps, delta, n, source, random_state
        As in :class:`Squeak`.
    first_atoms : int, optional
        Rows in the first set; ⌈Tr K/ridge⌉ by default, at most 5,000, and ⌈Tr K/ridge·4·log(8n/δ)/ε²⌉ in the
        papers' form.
    original : bool
        Score with Alaoui and Mahoney's own estimator, [K̄(K̄ + ridge·I)⁻¹]_ii with K̄ the regularised Nyström
        matrix: for comparison; it underestimates where the first set is small.

    Attributes
    ----------
    dictionary_ : Dictionary
    passes_ : float

    References
    ----------
    Thesis, algorithm 4 and equations 3.1, 3.2; the theory page. Alaoui and Mahoney, NeurIPS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.samplers import TwoStep
    >>> X = np.random.default_rng(0).standard_normal((2000, 2))
    >>> d = TwoStep(kernel=RBF(2.0), ridge=5.0, oversampling=5, random_state=0).fit(X).dictionary_
    >>> 30 < len(d) < 120
    True
    """

    _theory = staticmethod(two_step_oversampling)

    first_atoms: int | None = None
    original: bool = False

    def _choose(self, X: Rows, plan: Plan, seed: int) -> tuple[list[Choice], float]:
        first = self._first(X, plan, generator_at(seed, SAMPLE, 0))
        if self.original:
            scores, passes = _original_scores(X, first, plan), 2.0
        else:
            scores, passes = bounded_scores(first, X, plan, plan.ridge), 1.0
        return [first, keep_by_score(scores, plan, plan.ridge, generator_at(seed, SAMPLE, 1))], passes

    def _first(self, X: Rows, plan: Plan, rng: np.random.Generator) -> Choice:
        n, diag = n_rows(X), diagonal(plan.kernel, X)
        asked = math.ceil(diag.sum() / plan.ridge)
        if self.first_atoms is not None:
            size = min(n, check_whole("first_atoms", self.first_atoms))
        elif plan.eps and self.delta is not None:  # the theorem's number, for ε and δ/2
            size = min(n, math.ceil(asked * 4 * math.log(8 * n / self.delta) / plan.eps**2))
        else:
            size = min(n, LARGEST_FIRST, asked)
        if diag.max() == diag.min():
            rows = rng.choice(n, size, replace=False)
            return Choice(rows, np.full(size, size / n), np.ones(size, dtype=np.int64), 1, plan.ridge, None)
        chances = diag / diag.sum()
        draws = rng.choice(n, size, p=chances)
        return merge_draws(draws, chances[draws], size, plan.ridge)


def _original_scores(X: Rows, first: Choice, plan: Plan) -> Array:
    """Return [K̄(K̄ + ridge·I)⁻¹]_ii = z_iᵀ(ZᵀZ + ridge·I)⁻¹z_i with K̄ = Z Zᵀ the regularised Nyström matrix."""
    features = TriangularFeatures(plan.kernel, take(X, first.rows), first.weights, plan.ridge)
    inverse = np.linalg.inv(second_moment(features, X, TILE) + plan.ridge * np.eye(features.rank))

    def score(tile: slice) -> Array:
        Z = features.block(take(X, tile))
        return np.asarray(np.einsum("ij,ij->i", Z @ inverse, Z))

    diag = diagonal(plan.kernel, X)
    floor = diag / (diag.sum() + plan.ridge)  # no score is below it; a row that the first set does not see has 0
    return np.asarray(np.clip(np.concatenate(engine.map_ordered(score, engine.tiles(n_rows(X), TILE))), floor, 1.0))


@parameters
class ManyStep(Coins, BatchSampler):
    """Halve the ridge from Tr K to the one asked for; the dictionary at each ridge gives the scores at the next.

    At ridge_0 = Tr K a row's score is at most k_ii/(k_ii + ridge_0): the first dictionary is drawn by that.
    Then ridge_t = max(ridge_(t−1)/2, ridge), τ̃ from the dictionary before (with the papers' (1 + ε) on the
    ridge in their form), p = min(1, (oversampling/copies)·τ̃). It ends exactly at ``ridge``.

    Parameters
    ----------
    kernel, ridge, oversampling, copies, eps, delta, n, source, random_state
        As in :class:`Squeak`.
    score : callable, optional
        Given a dictionary, how well the task at hand is solved with it (larger is better): the ridge is
        halved no further once that stops improving, and the best dictionary is returned.

    Attributes
    ----------
    dictionary_ : Dictionary
    path_ : list of Dictionary
        One for each ridge, largest ridge first.
    passes_ : float

    References
    ----------
    Thesis, algorithm 5 with the clamp and the start of the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.samplers import ManyStep
    >>> X = np.random.default_rng(0).standard_normal((1500, 2))
    >>> s = ManyStep(kernel=RBF(2.0), ridge=1.0, oversampling=5, random_state=0).fit(X)
    >>> len(s.path_), s.dictionary_.ridge
    (12, 1.0)
    """

    _theory = staticmethod(many_step_oversampling)

    score: Callable[[Dictionary], float] | None = None

    def _choose(self, X: Rows, plan: Plan, seed: int) -> tuple[list[Choice], float]:
        diag = diagonal(plan.kernel, X)
        ridge = max(float(diag.sum()), plan.ridge)
        scores = diag / (diag + ridge)
        path: list[Choice] = []
        passes, best = 0.0, -np.inf
        while True:
            choice = keep_by_score(scores, plan, ridge, generator_at(seed, SAMPLE, len(path)))
            if self.score is not None and choice.rows.size:
                value = float(self.score(self._dictionary_of(choice, X, plan, None)))
                if np.isnan(value):
                    raise ValueError(f"score returned NaN for the dictionary at ridge {ridge:g}")
                if path and not value > best:
                    break
                best = value
            path.append(choice)
            if ridge == plan.ridge:
                break
            ridge = max(ridge / 2, plan.ridge)
            scores = bounded_scores(choice, X, plan, (1.0 + plan.eps) * ridge)
            passes += 1.0
        return path, passes

    @property
    def path_(self) -> list[Dictionary]:
        """The dictionaries along the way, largest ridge first."""
        self.dictionary_  # noqa: B018  (raises where nothing is fitted)
        return self._path
