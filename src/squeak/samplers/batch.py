"""What samplers share that see all rows before they choose: from rows to a choice to a dictionary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.kernels import diagonal
from squeak.core.leverage import WeightedFactor
from squeak.core.rows import label_of, n_rows, take
from squeak.core.seeds import draw_seed
from squeak.core.thinning import keep_probability, thin
from squeak.core.types import Array, IntArray, Rows
from squeak.data import Preprocessing, gather
from squeak.samplers.base import Plan, ScoreSampler, own_kernel
from squeak.samplers.dictionary import Dictionary
from squeak.samplers.record import Record


@dataclass(frozen=True)
class Choice:
    """Some rows by their numbers, with all that their weights counts/(copies·probabilities) need."""

    rows: IntArray
    probabilities: Array
    counts: IntArray
    copies: int
    ridge: float
    oversampling: float | None
    calibrated: bool = True

    @property
    def weights(self) -> Array:
        """The weight of each row."""
        return np.asarray(self.counts / (self.copies * self.probabilities))


def keep_by_score(scores: Array, plan: Plan, ridge: float, rng: np.random.Generator) -> Choice:
    """Keep each place of ``scores`` with probability p = min(1, (oversampling/copies)·score) a coin."""
    n = len(scores)
    chances = keep_probability(scores, plan.oversampling, plan.copies)
    probabilities, counts = thin(np.ones(n), np.full(n, plan.copies), chances, rng)
    kept = np.flatnonzero(counts)
    return Choice(kept, probabilities[kept], counts[kept], plan.copies, ridge, plan.oversampling)


def merge_draws(
    draws: IntArray, probabilities: Array, n_draws: int, ridge: float, oversampling: float | None = None
) -> Choice:
    """Return independent draws as a choice: a row drawn twice counts twice; ``probabilities`` are of one draw."""
    rows, first, counts = np.unique(draws, return_index=True, return_counts=True)
    return Choice(rows, probabilities[first], counts, n_draws, ridge, oversampling)


def bounded_scores(choice: Choice, X: Rows, plan: Plan, ridge: float, which: IntArray | None = None) -> Array:
    """Return the estimated scores of rows (all, or those named), at most 1; from no atoms, the bound k_ii/ridge."""
    rows = X if which is None else take(X, which)
    if choice.rows.size == 0:
        return np.minimum(diagonal(plan.kernel, rows) / ridge, 1.0)
    factor, _ = WeightedFactor.build(plan.kernel, take(X, choice.rows), choice.weights, ridge)
    return np.minimum(factor.scores(rows, plan.shrink), 1.0)


def constant_diagonal(kernel: Any, X: Rows) -> float | None:
    """Return k(x, x) where it is the same for every row by the kernel's nature, so that no row need be read."""
    stationary = getattr(kernel, "is_stationary", None)
    if stationary is None or not stationary():
        return None
    return float(diagonal(kernel, take(X, slice(0, 1)))[0])


class BatchSampler(ScoreSampler):
    """A sampler that reads rows as often as it needs before it chooses; it has ``fit`` and no ``partial_fit``."""

    passes_: float
    """How often the rows were read to score them, in units of all rows."""

    def fit(self, X: Any, y: Any = None) -> BatchSampler:
        """Choose among the rows of ``X``: an array, CSR, objects, or a row source (read into memory); no ``y``.

        Returns
        -------
        self
        """
        kernel = own_kernel(self.kernel)
        X, preprocessing = gather(X, kernel)
        plan = self._make_plan(X, kernel)
        with engine.single_blas():
            path, passes = self._choose(X, plan, draw_seed(self.random_state))
        if path[-1].rows.size == 0:
            raise ValueError(f"none of the {n_rows(X):,} rows was kept: raise oversampling or lower the ridge")
        self._path = [self._dictionary_of(choice, X, plan, preprocessing) for choice in path if choice.rows.size]
        self._dictionary, self.passes_ = self._path[-1], passes
        self.__dict__.update(self.__dict__.pop("_facts", {}))  # attributes of a fit that has succeeded
        return self

    def _choose(self, X: Rows, plan: Plan, seed: int) -> tuple[list[Choice], float]:
        """Return the choices along the way, the last of which counts, and how often the rows were read."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def _dictionary_of(
        self, choice: Choice, X: Rows, plan: Plan, preprocessing: Preprocessing | None
    ) -> Dictionary:
        order = np.argsort(choice.rows)
        return Dictionary(
            kernel=plan.kernel,
            atoms=take(X, choice.rows[order]),
            indices=choice.rows[order],
            probabilities=choice.probabilities[order],
            counts=choice.counts[order],
            copies=choice.copies,
            oversampling=choice.oversampling,
            ridge=choice.ridge,
            n_seen=n_rows(X),
            sources=((label_of(X) if self.source is None else str(self.source), n_rows(X)),),
            eps=plan.eps,
            calibrated=choice.calibrated,
            preprocessing=preprocessing,
            record=Record.of(self),
        )

    @property
    def dictionary_(self) -> Dictionary:
        """The dictionary of the rows given to fit."""
        return self._dictionary if hasattr(self, "_dictionary") else super().dictionary_
