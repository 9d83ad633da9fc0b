"""The stream: rows come in blocks of any size, and the result does not depend on how they were cut."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from squeak.core import engine
from squeak.core.dictionary import Dictionary
from squeak.core.leverage import WeightedFactor
from squeak.core.rows import check_rows, check_same_kind, copy_rows, label_of, n_rows, take, width_of
from squeak.core.screening import decide, screen
from squeak.core.seeds import coins, draw_seed
from squeak.core.types import Array, IntArray, Rows
from squeak.samplers.base import Plan, ScoreSampler, own_kernel
from squeak.samplers.progress import RowBar

CHUNK = 64
"""Rows decided together; a matter of speed only."""

CHECKED = 65_536
"""Rows checked and taken in at a time."""

SMALLEST_BLOCK, LARGEST_BLOCK = 256, 16_384
"""Rows screened together: as many as were seen, within these; a matter of speed only."""

GUARD_ROWS = 10_000
EARLY_GUARD_ROWS = 2_000


@dataclass(frozen=True)
class State:
    """All that a stream remembers, replaced whole: an interrupt leaves the old one or the new one.

    Between calls: ``scorer`` holds the atoms in the factor's order, and the three arrays follow it.
    """

    plan: Plan
    seed: int
    scorer: WeightedFactor
    indices: IntArray
    probabilities: Array
    counts: IntArray
    n_seen: int
    head: Rows
    shrink_at: int | None
    """The size at which the dictionary is shrunk next; None for a sampler that never shrinks."""

    @property
    def size(self) -> int:
        """The number of atoms."""
        return int(self.indices.size)


class StreamSampler(ScoreSampler):
    """A sampler that reads each row once: screening, row-by-row entry, and a shrink now and then."""

    random_state: Any
    source: str | None
    verbose: int

    def fit(self, X: Any, y: Any = None) -> StreamSampler:
        """Forget everything, then read the rows of ``X`` once.

        Parameters
        ----------
        X : rows of shape (n, d)
            Dense float32 or float64 (also memory-mapped), CSR, or objects for a PairwiseKernel.
        y : ignored
        """
        return self._read(X, None)

    def partial_fit(self, X: Any, y: Any = None) -> StreamSampler:
        """Read a block of rows, any number of them; the dictionary is usable after every call.

        One row at a time or many at once gives the same dictionary for the same seed. (A width or a ridge that is
        to be learned from data is learned from the first block, so that block decides it.) Parameters are fixed
        by the first block too: to change one, call ``fit``.
        """
        return self._read(X, getattr(self, "_state", None))

    def _read(self, X: Any, state: State | None) -> StreamSampler:
        before, history = getattr(self, "_state", None), list(getattr(self, "history_", []))
        kernel = state.plan.kernel if state else own_kernel(self.kernel)
        width = width_of(state.head) if state else None
        if isinstance(X, np.ndarray) and X.ndim == 2 and not np.ma.isMaskedArray(X):
            rows = X  # maybe memory-mapped: checked part by part below
        else:
            rows = check_rows(X, kernel, width=width, first_row=state.n_seen if state else 0)
        try:
            with engine.single_blas(), RowBar(self, n_rows(rows)) as bar:
                for part in engine.tiles(max(n_rows(rows), 1), CHECKED):
                    seen = state.n_seen if state else 0
                    block = check_rows(take(rows, part), kernel, width=width, first_row=seen)
                    if state is None:
                        state = self._begin(block, kernel)
                        kernel, width = state.plan.kernel, width_of(block)
                    check_same_kind(state.head, block)
                    state = self._absorb(state, block, bar)
        except Exception:
            self._restore(before, history)
            raise
        return self

    def _begin(self, block: Rows, kernel: Any) -> State:
        plan = self._make_plan(block, kernel)
        head = copy_rows(take(block, slice(0, 1)))
        scorer = WeightedFactor.empty(plan.kernel, head, plan.ridge)
        none = np.zeros(0, dtype=np.int64)
        seed = draw_seed(self.random_state)
        return State(plan, seed, scorer, none, np.zeros(0), none, 0, head, self._next_shrink(plan, 0))

    def _restore(self, state: State | None, history: list[dict[str, float]]) -> None:
        self.__dict__.pop("_reading", None)
        if state is None:
            self.__dict__.pop("_state", None)
            self.__dict__.pop("history_", None)
        else:
            self._state = state
            self.history_ = history

    def _next_shrink(self, plan: Plan, size: int) -> int | None:
        """Return the size at which a dictionary that now has ``size`` atoms is shrunk next."""
        return None

    def _shrink(self, state: State) -> State:
        return state

    def _absorb(self, state: State, X: Rows, bar: Any) -> State:
        """Take in checked rows; what was taken in before an interrupt stays."""
        n, at = n_rows(X), 0
        while at < n:
            size = min(max(SMALLEST_BLOCK, state.n_seen), LARGEST_BLOCK)
            after = self._absorb_block(state, take(X, slice(at, min(at + size, n))))
            self._commit(after, shrunk=after.shrink_at != state.shrink_at, first=state.n_seen == 0)
            bar.advance(after.n_seen - state.n_seen)
            at += after.n_seen - state.n_seen
            state = after
        return state

    def _absorb_block(self, state: State, X: Rows) -> State:
        """Take in a block, up to the row after which the dictionary had to be shrunk."""
        plan, first_row = state.plan, state.n_seen
        chance = {"oversampling": plan.oversampling, "copies": plan.copies, "shrink": plan.shrink}
        u = coins(state.seed, first_row, n_rows(X))
        candidates = screen(state.scorer, X, u, **chance)  # type: ignore[arg-type]
        for chunk in engine.tiles(len(candidates), CHUNK):
            numbers = candidates[chunk]
            rows = take(X, numbers)
            entered = decide(state.scorer, rows, u[numbers], limit=state.shrink_at, **chance)  # type: ignore[arg-type]
            if entered.rows.size == 0:
                continue
            scorer = state.scorer.grow(take(rows, entered.rows), entered.weights, entered.projected, entered.schur)
            state = replace(
                state,
                scorer=scorer,
                indices=np.concatenate([state.indices, first_row + numbers[entered.rows]]),
                probabilities=np.concatenate([state.probabilities, entered.probabilities]),
                counts=np.concatenate([state.counts, entered.counts]),
                n_seen=first_row + int(numbers[entered.decided - 1]) + 1,
            )
            self._guard(state)
            if state.shrink_at is not None and state.size >= state.shrink_at:
                return self._shrink(state)
        return replace(state, n_seen=first_row + n_rows(X))

    def _commit(self, state: State, shrunk: bool, first: bool) -> None:
        """Make a state the sampler's own; the one place where a stream moves on."""
        history = [] if first else self.history_
        if shrunk or not history or state.size > 1.1 * history[-1]["atoms"]:
            entry = self._facts(state)
            self._guard_early(state, entry["effective_dimension"])
            history = [*history, entry]
        self.__dict__.pop("_reading", None)
        self._state, self.history_ = state, history

    @staticmethod
    def _facts(state: State) -> dict[str, float]:
        return {
            "rows": state.n_seen,
            "atoms": state.size,
            "effective_dimension": state.scorer.effective_dimension(),
            "ridge": state.scorer.ridge,
        }

    def _guard(self, state: State) -> None:
        """Stop where rows hardly resemble each other, before the dictionary eats the memory."""
        if state.plan.max_atoms is None and state.n_seen >= GUARD_ROWS and 2 * state.size > state.n_seen:
            raise self._unlike(state)

    def _guard_early(self, state: State, effective_dimension: float) -> None:
        """Stop sooner where the kernel matrix is nearly diagonal; a limit or a growing ridge may yet cure it."""
        cured = state.plan.max_atoms is not None or state.plan.schedule is not None
        if not cured and state.n_seen >= EARLY_GUARD_ROWS and effective_dimension > 0.95 * state.n_seen:
            raise self._unlike(state)

    @staticmethod
    def _unlike(state: State) -> ValueError:
        return ValueError(
            f"{state.size:,} of {state.n_seen:,} rows had to be kept: under {state.plan.kernel!r} with ridge "
            f"{state.scorer.ridge:.3g} hardly any row resembles another. Use a larger length_scale "
            "(try 'median'), scale the columns, raise the ridge, lower the oversampling, or set max_atoms"
        )

    def _finished(self, state: State) -> State:
        """Return the state to be read from; a sampler with a limit on its size thins here."""
        return state

    @property
    def n_seen_(self) -> int:
        """How many rows have been read."""
        return self._state.n_seen if hasattr(self, "_state") else 0

    @property
    def n_features_in_(self) -> int | None:
        """The number of columns of the rows read; None for objects."""
        self._needs_rows()
        return width_of(self._state.head)

    @property
    def dictionary_(self) -> Dictionary:
        """The dictionary of all rows read so far; reading it changes nothing."""
        self._needs_rows()
        if not hasattr(self, "_reading"):
            self._reading = self._make_dictionary(self._finished(self._state))
        return self._reading

    def _needs_rows(self) -> None:
        if not hasattr(self, "_state"):
            raise NotFittedError(f"this {type(self).__name__} has seen no rows yet: call fit or partial_fit")

    def _make_dictionary(self, state: State) -> Dictionary:
        if state.size == 0:
            raise ValueError(
                f"none of the {state.n_seen:,} rows was kept: their scores times oversampling "
                f"{state.plan.oversampling:g} are too small; raise oversampling or max_atoms, or lower the ridge"
            )
        order = np.argsort(state.indices)
        label = label_of(state.head) if self.source is None else str(self.source)
        return Dictionary(
            kernel=state.plan.kernel,
            atoms=take(state.scorer.atoms, order),
            indices=state.indices[order],
            probabilities=state.probabilities[order],
            counts=state.counts[order],
            copies=state.plan.copies,
            oversampling=state.plan.oversampling,
            ridge=state.scorer.ridge,
            n_seen=state.n_seen,
            sources=((label, state.n_seen),),
            eps=state.plan.eps,
        )
