"""The stream: rows come in blocks of any size, and the result does not depend on how they were cut."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from squeak.core import engine
from squeak.core.dictionary import Dictionary
from squeak.core.leverage import WeightedFactor
from squeak.core.rows import check_rows, check_same_kind, join, label_of, n_rows, take, width_of
from squeak.core.screening import decide, screen
from squeak.core.seeds import coins, draw_seed
from squeak.core.types import Array, IntArray, Rows
from squeak.samplers.base import Plan, ScoreSampler, own_kernel
from squeak.samplers.progress import RowBar

HEAD = 64
"""How many first rows are kept to name the source."""

CHUNK = 64
"""Rows decided together; a matter of speed only."""

CHECKED = 65_536
"""Rows checked and taken in at a time."""

GUARD_ROWS = 10_000


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
        to be learned from data is learned from the first block, so that block decides it.)
        """
        return self._read(X, getattr(self, "_state", None))

    def _read(self, X: Any, state: State | None) -> StreamSampler:
        before = getattr(self, "_state", None)
        history = list(getattr(self, "history_", []))
        kernel = state.plan.kernel if state else own_kernel(self.kernel)
        width = width_of(state.scorer.atoms) if state else None
        if isinstance(X, np.ndarray) and X.ndim == 2:  # maybe memory-mapped: checked part by part below
            rows = X
        else:
            rows = check_rows(X, kernel, width=width, first_row=state.n_seen if state else 0)
        try:
            with engine.single_blas(), RowBar(self, n_rows(rows)) as bar:
                for part in engine.tiles(max(n_rows(rows), 1), CHECKED):
                    seen = self._state.n_seen if state else 0
                    block = check_rows(take(rows, part), kernel, width=width, first_row=seen)
                    if state is None:
                        state = self._begin(block, kernel)
                        kernel, width = state.plan.kernel, width_of(block)
                    check_same_kind(state.head, block)
                    self._absorb(block, bar)
        except (ValueError, TypeError):
            self._restore(before, history)
            raise
        return self

    def _begin(self, block: Rows, kernel: Any) -> State:
        plan = self._make_plan(block, kernel)
        scorer = WeightedFactor.empty(plan.kernel, block, plan.ridge)
        none = np.zeros(0, dtype=np.int64)
        first = self._first_shrink()
        seed = draw_seed(self.random_state)
        state = State(plan, seed, scorer, none, np.zeros(0), none, 0, take(block, slice(0, 0)), first)
        self._restore(state, [])
        return state

    def _restore(self, state: State | None, history: list[dict[str, float]]) -> None:
        if state is None:
            self.__dict__.pop("_state", None)
            self.__dict__.pop("history_", None)
        else:
            self._state = state
            self.history_ = history

    def _first_shrink(self) -> int | None:
        return None

    def _shrink(self, state: State) -> State:
        return state

    def _absorb(self, X: Rows, bar: Any) -> None:
        """Take in checked rows; what was taken in before an interrupt stays."""
        n, at = n_rows(X), 0
        while at < n:
            state = self._state
            size = min(max(256, state.n_seen), 8 * 2048)
            block = take(X, slice(at, min(at + size, n)))
            taken = self._absorb_block(state, block)
            at += taken
            bar.advance(taken)

    def _absorb_block(self, state: State, X: Rows) -> int:
        """Take in a block up to the row after which the dictionary had to be shrunk; returns how many rows."""
        plan = state.plan
        chance = {"oversampling": plan.oversampling, "copies": plan.copies, "shrink": plan.shrink}
        u = coins(state.seed, state.n_seen, n_rows(X))
        candidates = screen(state.scorer, X, u, **chance)  # type: ignore[arg-type]
        first_row = state.n_seen
        head = state.head
        if n_rows(head) < HEAD:
            head = join(head, take(X, slice(0, HEAD - n_rows(head))))
        for chunk in engine.tiles(len(candidates), CHUNK):
            numbers = candidates[chunk]
            rows = take(X, numbers)
            entered = decide(state.scorer, rows, u[numbers], limit=state.shrink_at, **chance)  # type: ignore[arg-type]
            if entered.rows.size == 0:
                continue
            chosen = numbers[entered.rows]
            scorer = state.scorer.grow(take(rows, entered.rows), entered.weights, entered.projected, entered.schur)
            full = state.shrink_at is not None and scorer.factor.size >= state.shrink_at
            decided = int(numbers[entered.decided - 1]) + 1 if full else int(numbers[-1]) + 1
            state = replace(
                state,
                scorer=scorer,
                indices=np.concatenate([state.indices, first_row + chosen]),
                probabilities=np.concatenate([state.probabilities, entered.probabilities]),
                counts=np.concatenate([state.counts, entered.counts]),
                n_seen=first_row + decided,
            )
            self._guard(state)
            if full:
                state = replace(self._shrink(state), head=take(head, slice(0, state.n_seen)))
                self._commit(state)
                return decided
        self._commit(replace(state, n_seen=first_row + n_rows(X), head=head))
        return n_rows(X)

    def _commit(self, state: State) -> None:
        self._state = state
        self.__dict__.pop("_reading", None)
        if not self.history_ or state.size > 1.1 * self.history_[-1]["atoms"]:
            self._record(state)

    def _record(self, state: State) -> None:
        self.history_.append(
            {
                "rows": state.n_seen,
                "atoms": state.size,
                "effective_dimension": state.scorer.effective_dimension(),
                "ridge": state.scorer.ridge,
            }
        )

    def _guard(self, state: State) -> None:
        """Stop where rows hardly resemble each other, before the dictionary eats the memory."""
        if state.n_seen >= GUARD_ROWS and 2 * state.size > state.n_seen:
            raise ValueError(
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
        if not hasattr(self, "_state") or self._state.n_seen == 0:
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
