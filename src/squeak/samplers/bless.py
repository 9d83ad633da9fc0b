"""BLESS: the ridge comes down from the top, and at each ridge only a few rows need be looked at."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from squeak.core.checks import check_number, check_positive, check_whole
from squeak.core.constructors import parameters
from squeak.core.kernels import diagonal, gram
from squeak.core.leverage import dictionary_scores
from squeak.core.rows import n_rows, take
from squeak.core.seeds import SAMPLE, generator_at
from squeak.core.thinning import thin_to
from squeak.core.types import Array, IntArray, Rows
from squeak.samplers.base import Coins, Plan
from squeak.samplers.batch import BatchSampler, Choice, bounded_scores, constant_diagonal, merge_draws
from squeak.samplers.dictionary import Dictionary
from squeak.samplers.theory import bless_oversampling

SPARE_CANDIDATES = 20
"""Where exactly m atoms are to be drawn, 2·m + 20 candidates are expected: fewer than m are unheard of."""

SMALLEST_PART = 1e-7
"""Where max_atoms alone is given, the walk ends at this part of n·κ² at the latest."""


@dataclass(frozen=True)
class Size:
    """How many atoms a draw may leave, and whether it shall leave as many as that."""

    limit: int
    full: bool


@parameters
class _Bless(Coins, BatchSampler):
    """The walk down the ridges; a subclass draws the dictionary at each."""

    max_atoms: int | None = None
    ratio: float = 2.0
    copies: int = field(default=1, init=False)  # each row has one coin, or as many as it is drawn

    _theory = staticmethod(bless_oversampling)

    def _make_plan(self, first_rows: Rows, kernel: Any) -> Plan:
        plan = super()._make_plan(first_rows, kernel)
        if self.oversampling != "theory" or self.eps is None or self.delta is None or self.n is None:
            return plan
        # the theorem's constant grows with the ratio, and its estimator has no factor 1 − ε
        asked = bless_oversampling(self.eps, self.delta, self.n, self._checked_ratio())
        return replace(plan, oversampling=float(asked), eps=0.0)

    @classmethod
    def from_paper(cls, eps: float, delta: float, n: int, **params: Any) -> Any:
        """Return the sampler with the theorem's oversampling: scores within a factor 1 + eps, at every ridge.

        Returns
        -------
        Bless or BlessR
        """
        return cls(oversampling="theory", eps=eps, delta=delta, n=n, **params)

    def _checked_ratio(self) -> float:
        if check_number("ratio", self.ratio) <= 1:
            raise ValueError(f"ratio must be a number above 1; it is {self.ratio!r}")
        return float(self.ratio)

    def _first_ridge(self, kernel: Any, first_rows: Rows) -> float:
        if self.ridge is None and self.max_atoms is not None:
            smallest = SMALLEST_PART * n_rows(first_rows) * _largest_diagonal(kernel, first_rows)
            if not smallest > 0:
                raise ValueError(f"{kernel!r} is zero for all rows: no row tells anything; use another kernel")
            return smallest
        return super()._first_ridge(kernel, first_rows)

    def _choose(self, X: Rows, plan: Plan, seed: int) -> tuple[list[Choice], float]:
        limit = None if self.max_atoms is None else check_whole("max_atoms", self.max_atoms)
        path: list[Choice] = []
        read, nobody = 0, np.zeros(0, dtype=np.int64)
        before = Choice(nobody, np.zeros(0), nobody, 1, self._top(X, plan), None)
        for level, asked in enumerate(self._ridges(X, plan)):
            ridge = asked
            if limit is not None and before.rows.size:
                ridge = self._affordable(before, X, plan, asked, limit)
            size = None if limit is None else Size(limit, full=ridge > asked)
            choice, looked_at = self._draw(X, plan, before, ridge, generator_at(seed, SAMPLE, level), size)
            read += looked_at
            path.append(choice)
            if ridge > asked:
                break  # the limit was met between two ridges
            before = choice
        return path, read / n_rows(X)

    def _affordable(self, before: Choice, X: Rows, plan: Plan, ridge: float, limit: int) -> float:
        """Return the ridge, raised as far as the limit asks for.

        The size to expect is read from the dictionary before alone, not from the draw to come: the choice of
        the last ridge then has no part in any row's chance, and weights stay unbiased.
        """
        K = gram(plan.kernel, take(X, before.rows))

        def fits(trial: float) -> bool:
            scores = dictionary_scores(K, before.weights, trial)
            return plan.oversampling * float(before.weights @ scores) <= limit

        if fits(ridge):
            return ridge
        low, high = ridge, max(before.ridge, 2.0 * ridge)
        while not fits(high):
            low, high = high, 4.0 * high
        while high / low > 1.02:
            middle = math.sqrt(high * low)
            low, high = (low, middle) if fits(middle) else (middle, high)
        return high

    def _top(self, X: Rows, plan: Plan) -> float:
        """Return the ridge that the walk comes down from: n·κ², over min(t, 1) in the theorem."""
        share = min(self.eps, 1.0) if self.oversampling == "theory" and self.eps is not None else 1.0
        return max(n_rows(X) * _largest_diagonal(plan.kernel, X) / share, plan.ridge)

    def _ridges(self, X: Rows, plan: Plan) -> Iterator[float]:
        """Yield ridges that fall by about the ratio and end exactly at the one asked for."""
        top = self._top(X, plan)
        levels = max(1, math.ceil(math.log(top / plan.ridge) / math.log(self._checked_ratio())))
        for level in range(1, levels + 1):
            yield plan.ridge if level == levels else float(top * (plan.ridge / top) ** (level / levels))

    def _draw(
        self, X: Rows, plan: Plan, before: Choice, ridge: float, rng: np.random.Generator, size: Size | None
    ) -> tuple[Choice, int]:
        """Return the dictionary at a ridge, and how many rows were scored for it."""
        raise TypeError(f"{type(self).__name__} is abstract")

    @property
    def path_(self) -> list[Dictionary]:
        """The dictionaries at every ridge on the way, largest ridge first; they come for free."""
        self.dictionary_  # noqa: B018  (raises where nothing is fitted)
        return self._path


def _largest_diagonal(kernel: Any, X: Rows) -> float:
    constant = constant_diagonal(kernel, X)
    return float(diagonal(kernel, X).max()) if constant is None else constant


@parameters
class BlessR(_Bless):
    """BLESS without replacement (BLESS-R): each row by a coin, in two stages.

    At ridge γ a row is a candidate with probability β_i = min(1, oversampling·k_ii/(k_ii + γ)), an upper
    bound; only candidates are scored, τ̃ from the dictionary at the ridge before, and stay with probability
    p_i/β_i, p_i = min(oversampling·τ̃_i, β_i). p_i is the probability of inclusion, the weight is 1/p_i. The
    rows scored number about oversampling·n·κ²/γ: the time does not depend on n as long as γ/n does not (for a
    kernel whose diagonal is constant).

    Parameters
    ----------
    kernel, ridge, source, random_state
        As in :class:`Squeak`.
    oversampling : float or "theory"
        Atoms per unit of effective dimension; 2 to 10 in practice.
    max_atoms : int, optional
        Walk down the ridges as far as this size allows, and keep exactly so many rows at the last of them. With
        a ridge too, whichever comes first. A kernel of low rank needs fewer: about oversampling times its rank.
    ratio : float
        The factor between two ridges.
    eps, delta, n : optional
        For ``oversampling="theory"``.

    Attributes
    ----------
    dictionary_ : Dictionary
        At exactly the ridge asked for; with ``max_atoms``, at the smallest ridge whose dictionary fits.
    path_ : list of Dictionary
        At every ridge on the way.
    passes_ : float
        Rows scored, in units of n.

    References
    ----------
    Rudi, Calandriello, Carratino, Rosasco, "On fast leverage score sampling and optimal learning", NeurIPS
    2018; Carratino's thesis, algorithm 4, with the corrections of the theory page (the inclusion
    probability, not the acceptance ratio, is stored; scores are taken at the new ridge).

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.samplers import BlessR
    >>> X = np.random.default_rng(0).standard_normal((5000, 2))
    >>> s = BlessR(kernel=RBF(2.0), ridge=10.0, oversampling=5, random_state=0).fit(X)
    >>> s.dictionary_.ridge, len(s.path_)
    (10.0, 9)
    >>> len(BlessR(kernel=RBF(2.0), max_atoms=80, random_state=0).fit(X).dictionary_)
    80
    """

    def _draw(
        self, X: Rows, plan: Plan, before: Choice, ridge: float, rng: np.random.Generator, size: Size | None
    ) -> tuple[Choice, int]:
        full = size is not None and size.full
        least = 2 * size.limit + SPARE_CANDIDATES if size is not None and full else 0
        candidates, bounds = _candidates(X, plan, ridge, rng, least)
        u = rng.random(len(candidates))
        if candidates.size == 0:
            return Choice(candidates, np.zeros(0), np.zeros(0, dtype=np.int64), 1, ridge, plan.oversampling), 0
        wanted = plan.oversampling * bounded_scores(before, X, plan, ridge, candidates)
        kept, chances, ones = candidates, bounds, np.ones(len(candidates), dtype=np.int64)
        if not full:
            stay = u * bounds < wanted
            kept, chances, wanted, ones = kept[stay], np.minimum(wanted, bounds)[stay], wanted[stay], ones[stay]
        if size is not None and len(kept) > size.limit:
            # Row i is among those left with probability β_i. Given them, it stays with probability p_i/β_i, where
            # p_i is fixed before this draw: E[1/p_i; kept] = E[1/β_i; left] = 1, whatever the p_i are.
            chances, left = thin_to(chances, ones, wanted, size.limit, rng)
            stay = left > 0
            kept, chances, ones = kept[stay], chances[stay], ones[stay]
        return Choice(kept, chances, ones, 1, ridge, plan.oversampling), len(candidates)


def _candidates(
    X: Rows, plan: Plan, ridge: float, rng: np.random.Generator, least: int = 0
) -> tuple[IntArray, Array]:
    """Return the rows looked at, ``least`` or more of them to be expected, and the chance with which each was."""
    n, constant = n_rows(X), constant_diagonal(plan.kernel, X)
    floor = min(1.0, least / n)
    if constant is None:
        diag = diagonal(plan.kernel, X)
        bounds = np.maximum(np.minimum(1.0, plan.oversampling * diag / (diag + ridge)), floor)
        chosen = np.flatnonzero(rng.random(n) < bounds)
        return chosen, bounds[chosen]
    bound = max(min(1.0, plan.oversampling * constant / (constant + ridge)), floor)
    if bound == 1.0:
        return np.arange(n), np.ones(n)
    chosen = np.sort(distinct(n, int(rng.binomial(n, bound)), rng))
    return chosen, np.full(len(chosen), bound)


def distinct(n: int, size: int, rng: np.random.Generator) -> IntArray:
    """Return ``size`` different numbers below ``n``, every set equally likely, in time O(size) for few."""
    if size > n // 4:
        return rng.permutation(n)[:size]
    found = np.zeros(0, dtype=np.int64)
    while len(found) < size:  # the first of each number, in the order drawn
        drawn = np.concatenate([found, rng.integers(0, n, size - len(found))])
        _, first = np.unique(drawn, return_index=True)
        found = drawn[np.sort(first)]
    return found


@parameters
class Bless(_Bless):
    """BLESS with replacement: candidates drawn uniformly, atoms drawn from them by their scores.

    At ridge γ, R = ⌈candidates·min(n·κ²/γ, n)⌉ rows are drawn uniformly; scored from the dictionary at the
    ridge before, with P = τ̃/Σ τ̃ and d̃ = (n/R)·Σ τ̃; M = ⌈oversampling·d̃⌉ draws from P are the next
    dictionary. A draw has inclusion weight R·M·P/n; a row drawn more than once adds up.

    Parameters
    ----------
    kernel, ridge, oversampling, max_atoms, ratio, eps, delta, n, source, random_state
        As in :class:`BlessR`; the number of draws is kept to ``max_atoms``.
    candidates : float, optional
        Candidates per unit of n·κ²/γ, the papers' q₁; as ``oversampling`` when left out, and with "theory" no less
        than 5/(ratio·(1 + eps)) times that.

    Attributes
    ----------
    dictionary_ : Dictionary
    path_ : list of Dictionary
    passes_ : float

    References
    ----------
    As for :class:`BlessR`; Carratino's thesis, algorithm 3; the theory page.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.samplers import Bless
    >>> X = np.random.default_rng(0).standard_normal((5000, 2))
    >>> d = Bless(kernel=RBF(2.0), ridge=10.0, oversampling=3, random_state=0).fit(X).dictionary_
    >>> bool(abs(d.weights.sum() - 5000) < 1000)
    True
    """

    candidates: float | None = None

    def _draw(
        self, X: Rows, plan: Plan, before: Choice, ridge: float, rng: np.random.Generator, size: Size | None
    ) -> tuple[Choice, int]:
        n = n_rows(X)
        asked = self._asked(plan) if self.candidates is None else self.candidates
        tried = math.ceil(
            check_positive("candidates", asked) * min(n * _largest_diagonal(plan.kernel, X) / ridge, n)
        )
        rows = np.arange(n) if tried >= n else rng.integers(0, n, tried)
        scores = bounded_scores(before, X, plan, ridge, rows)
        looked_at = len(rows)
        if scores.sum() <= 0:  # zero on all rows looked at
            return Choice(rows[:0], scores[:0], rows[:0], 1, ridge, None), looked_at
        wanted = max(1, math.ceil(plan.oversampling * n / len(scores) * float(scores.sum())))  # ⌈q·d̃⌉
        if size is not None:
            wanted = size.limit if size.full else min(wanted, size.limit)
        chances = scores / scores.sum()
        draws = rng.choice(len(rows), wanted, p=chances)
        return merge_draws(rows[draws], chances[draws] * len(rows) / n, wanted, ridge), looked_at

    def _asked(self, plan: Plan) -> float:
        """Return q₁: as oversampling, or what the theorem asks for, 5·q₂/(q·(1 + t)), where that is more."""
        if self.oversampling != "theory" or self.eps is None:
            return plan.oversampling
        return plan.oversampling * max(1.0, 5.0 / (self._checked_ratio() * (1.0 + self.eps)))
