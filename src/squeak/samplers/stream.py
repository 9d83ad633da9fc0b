"""The stream: rows come in blocks of any size, and the result does not depend on how they were cut."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Protocol

import numpy as np
from sklearn.exceptions import NotFittedError

from squeak.core import engine
from squeak.core.constructors import parameters
from squeak.core.described import estimator_from, params_to_data
from squeak.core.leverage import WeightedFactor
from squeak.core.rows import check_rows, check_same_kind, copy_rows, n_rows, take, width_of
from squeak.core.screening import Chance, decide, screen
from squeak.core.seeds import coins, draw_seed
from squeak.core.state import checked
from squeak.core.storage import CheckpointError
from squeak.core.types import Rows
from squeak.data import Cursor, Preprocessing, RowSource, block_rows, reopen
from squeak.samplers.base import DEFAULT_OVERSAMPLING, Coins, Plan, ScoreSampler, own_kernel
from squeak.samplers.checkpoint import Resumable, as_source
from squeak.samplers.dictionary import Dictionary
from squeak.samplers.progress import RowBar
from squeak.samplers.record import Record
from squeak.samplers.stream_state import HISTORY, State

LARGEST_CUT = 65_536
"""Sparse rows or objects taken in at a time; dense ones are cut by :func:`squeak.data.block_rows`."""

SMALLEST_BLOCK, LARGEST_BLOCK = 256, 16_384
"""Rows screened together: as many as were seen or as come before a shrink, within these; a matter of speed only."""


class Keeper(Protocol):
    """Something that wants to know of every state at the end of a block: a checkpoint."""

    def keep(self, state: State, history: list[dict[str, float]], cursor: Cursor) -> None:
        """Take note of a state and of the place in the source where it stands."""


@parameters
class StreamSampler(Resumable, Coins, ScoreSampler):
    """A sampler that reads each row once: screening, row-by-row entry, and a shrink now and then."""

    kind: ClassVar[str] = "stream"
    half_life: float | None = None
    verbose: int = 0

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        every: float = 30.0,
    ) -> StreamSampler:
        """Forget everything, then read the rows of ``X`` once.

        Parameters
        ----------
        X : rows of shape (n, d), or a row source
            Dense float32 or float64 (also memory-mapped), CSR, objects for a PairwiseKernel, or
            what :func:`squeak.rows` returns.
        y : ignored
        checkpoint : path, optional
            Keep the whole state of the run in this file, replaced as the run goes on. If the process dies, the same
            call goes on from there, as does :meth:`resume`, and ends in the same bits as a run that never
            stopped. A file that holds an unfinished run of other parameters or other data is refused.
        every : float
            Seconds between two writes of the checkpoint; 0 writes after every block.

        Returns
        -------
        Sampler
            This object.
        """
        if checkpoint is None:
            return self._read(X, None)
        found: StreamSampler = self._run(X, checkpoint, every)
        return found

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike[str],
        source: Any = None,
        *,
        kernel: Any = None,
        every: float = 30.0,
        verbose: int | None = None,
    ) -> Any:
        """Go on with a run that was stopped, from its last checkpoint to the end of its rows.

        The result has the same bits as that of a run that never stopped. A run that had ended is returned as it is.

        Parameters
        ----------
        path : path
            The checkpoint; it is kept up to date.
        source : rows or row source, optional
            The rows of the run from their beginning. When left out, the files that the checkpoint names are opened
            and read: pass the rows yourself when the checkpoint comes from somebody you do not trust.
        kernel : kernel, optional
            Needed only for a kernel that is code.
        every : float
            Seconds between two writes of the checkpoint.
        verbose : int, optional
            As the run had it when left out.

        Returns
        -------
        Sampler
            Fitted on all rows.
        """
        return cls._resumed(path, source, kernel=kernel, every=every, verbose=verbose)

    def partial_fit(self, X: Any, y: Any = None) -> StreamSampler:
        """Read a block of rows, any number of them; the dictionary is usable after every call.

        One row at a time or many at once gives the same dictionary for the same seed. (A width or a ridge that is
        to be learned from data is learned from the first block, so that block decides it.) Parameters are fixed
        by the first block too: to change one, call ``fit``.

        Returns
        -------
        Sampler
            This object.
        """
        return self._read(X, getattr(self, "_state", None))

    def _read(
        self,
        X: Any,
        state: State | None,
        *,
        start: Cursor | None = None,
        keeper: Keeper | None = None,
        past: list[dict[str, float]] | None = None,
    ) -> StreamSampler:
        """Take in the rows of ``X`` block by block; after an error the sampler is as it was before the call.

        ``start`` and ``past`` are the place in the source and the history of a state that comes from a checkpoint.
        """
        before, history = getattr(self, "_state", None), list(getattr(self, "history_", []))
        kernel = state.plan.kernel if state else own_kernel(self.kernel)
        width = width_of(state.head) if state else None
        preprocessing, total, blocks = self._blocks(X, kernel, state, start)
        if past is not None:
            self._restore(state, past)
        try:
            with engine.single_blas(), RowBar(self, total, 0 if start is None else start.kept) as bar:
                for rows, cursor in blocks:
                    seen = state.n_seen if state else 0
                    block = check_rows(rows, kernel, width=width, first_row=seen)
                    if state is None:
                        state = self._begin(block, kernel, preprocessing)
                        kernel, width = state.plan.kernel, width_of(block)
                    check_same_kind(state.head, block)
                    state = self._absorb(state, block, bar)
                    if keeper is not None and cursor is not None:
                        keeper.keep(state, self.history_, cursor)
        except CheckpointError:
            raise  # the rows are in; only the file is not
        except Exception:
            self._restore(before, history)
            raise
        finally:
            blocks.close()  # type: ignore[attr-defined]
        return self

    def _blocks(
        self, X: Any, kernel: Any, state: State | None, start: Cursor | None
    ) -> tuple[Preprocessing | None, int | None, Iterator[tuple[Any, Cursor | None]]]:
        """Return how rows are preprocessed, their number where it is known, and the rows cut into blocks."""
        if isinstance(X, RowSource):
            if state is not None and X.preprocessing != state.preprocessing:
                raise ValueError(
                    "these rows are preprocessed in another way than those before: "
                    "make them with squeak.rows(..., preprocessing=sampler.dictionary_.preprocessing)"
                )
            return X.preprocessing, X.n_rows, ((block.X, block.cursor) for block in X.blocks(start))
        known = None if state is None else state.preprocessing
        if known is not None:
            X = known.encode(X)
        if not (isinstance(X, np.ndarray) and X.ndim == 2 and not np.ma.isMaskedArray(X)):
            width = width_of(state.head) if state else None  # an array may be memory-mapped: it is checked in parts
            X = check_rows(X, kernel, width=width, first_row=state.n_seen if state else 0)
        size = block_rows(X.shape[1]) if isinstance(X, np.ndarray) else LARGEST_CUT
        parts = engine.tiles(max(n_rows(X), 1), size)
        return known, n_rows(X), ((take(X, part), None) for part in parts)

    def _as_source(self, X: Any) -> RowSource:
        return as_source(X, self.kernel)

    @staticmethod
    def _reopened(recipe: dict[str, Any], preprocessing: Preprocessing | None) -> RowSource:
        return reopen(recipe, preprocessing)

    def _begin(self, block: Rows, kernel: Any, preprocessing: Preprocessing | None) -> State:
        plan = self._make_plan(block, kernel)
        head = copy_rows(take(block, slice(0, 1)))
        scorer = WeightedFactor.empty(plan.kernel, head, plan.ridge)
        none = np.zeros(0, dtype=np.int64)
        seed = draw_seed(self.random_state)
        return State(
            plan, seed, scorer, none, np.zeros(0), none, 0, head, self._next_shrink(plan, 0), preprocessing
        )

    def go_on_from(self, d: Dictionary) -> StreamSampler:
        """Take a dictionary, of whatever sampler, for that of the rows so far; :meth:`partial_fit` reads more.

        Its kernel, ridge, copies and, where it has one, oversampling are kept. Its weights are unbiased and the
        probabilities behind them only ever fall from here on, so weights stay unbiased.

        Parameters
        ----------
        d : Dictionary
            Whose weights estimate sums over its rows.

        Returns
        -------
        Sampler
            This object.
        """
        if not d.calibrated:
            raise ValueError("the weights of this dictionary estimate nothing: more rows cannot be added to it")
        if d.half_life != self.half_life:
            raise ValueError(f"the half-life of the dictionary is {d.half_life}, of the sampler {self.half_life}")
        plan = replace(
            self._make_plan(d.atoms, d.kernel),
            ridge=d.ridge,
            oversampling=DEFAULT_OVERSAMPLING if d.oversampling is None else d.oversampling,
            copies=d.copies,
            eps=d.eps,
        )
        scorer, order = WeightedFactor.build(d.kernel, d.atoms, d.weights, d.ridge)
        seed, head = draw_seed(self.random_state), copy_rows(take(d.atoms, slice(0, 1)))
        rows = d.positions[order], d.probabilities[order], d.counts[order], d.n_seen, head
        state = State(plan, seed, scorer, *rows, self._next_shrink(plan, len(d)), d.preprocessing)
        self._commit(state, shrunk=True, first=True)
        return self

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
            size = min(max(SMALLEST_BLOCK, min(state.n_seen, state.rows_to_shrink())), LARGEST_BLOCK)
            size = min(size, state.rows_to_fade())
            after = self._absorb_block(state, take(X, slice(at, min(at + size, n))))
            if after.n_seen - state.n_seen == state.rows_to_fade():
                after = after.faded()
            self._commit(after, shrunk=after.shrink_at != state.shrink_at, first=state.n_seen == 0)
            bar.advance(after.n_seen - state.n_seen)
            at += after.n_seen - state.n_seen
            state = after
        return state

    def _absorb_block(self, state: State, X: Rows) -> State:
        """Take in a block, up to the row after which the dictionary had to be shrunk."""
        plan, first_row = state.plan, state.n_seen
        chance = Chance(plan.oversampling, plan.copies, plan.shrink)
        u = coins(state.seed, first_row, n_rows(X))
        candidates = screen(state.scorer, X, u, chance)
        at = 0
        while at < len(candidates):
            numbers = candidates[at : at + state.rows_together()]
            at += len(numbers)
            rows = take(X, numbers)
            entered = decide(state.scorer, rows, u[numbers], chance, state.shrink_at)
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
            state.guard()
            if state.shrink_at is not None and state.size >= state.shrink_at:
                return self._shrink(state)
        return replace(state, n_seen=first_row + n_rows(X))

    def _commit(self, state: State, shrunk: bool, first: bool) -> None:
        """Make a state the sampler's own; the one place where a stream moves on."""
        history = [] if first else self.history_
        if shrunk or not history or state.size > 1.1 * history[-1]["atoms"]:
            entry = state.facts()
            state.guard_early(entry["effective_dimension"])
            history = [*history, entry]
        self.__dict__.pop("_reading", None)
        self._state, self.history_ = state, history

    def _finished(self, state: State) -> State:
        """Return the state to be read from; a sampler with a limit on its size thins here."""
        return state

    @property
    def n_seen_(self) -> int:
        """How many rows have been read."""
        return self._state.n_seen if hasattr(self, "_state") else 0

    @property
    def effective_dimension_(self) -> float:
        """The effective dimension of all rows read so far, as the stream's own factor estimates it."""
        self._needs_rows()
        return self._state.scorer.effective_dimension()

    @property
    def factor_(self) -> WeightedFactor:
        """The factor of the atoms kept so far, as the stream has it: scores without a dictionary being made."""
        self._needs_rows()
        return self._state.scorer

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
            self._reading = self._finished(self._state).dictionary(self.source, Record.of(self, self.history_))
        return self._reading

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arrays and the rest as JSON data, for :func:`squeak.save`.

        Returns
        -------
        arrays, content : dict, dict
        """
        self._needs_rows()
        return self._parts_at(self._state, self.history_)

    def _parts_at(self, state: State, history: list[dict[str, float]]) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, content = state.to_parts()
        name, params = type(self).__name__, params_to_data(self)
        return arrays, {"sampler": name, "params": params, **content, "history": history}

    @staticmethod
    def _state_from(
        arrays: dict[str, Any], content: dict[str, Any], kernel: Any
    ) -> tuple[State, list[dict[str, float]]]:
        history = [checked(HISTORY, {}, entry) for entry in content["history"]]
        return State.from_parts(arrays, content, kernel), history

    @classmethod
    def from_parts(cls, arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> StreamSampler:
        """Return the sampler that :meth:`to_parts` took apart, ready for more rows.

        Returns
        -------
        Sampler
            Fitted.
        """
        from squeak.samplers.kors import Kors
        from squeak.samplers.squeak import Squeak

        known = {"Kors": Kors, "Squeak": Squeak}
        name = content["sampler"]
        if name not in known:
            raise ValueError(f"no sampler is known by the name {name!r}")
        found, history = cls._state_from(arrays, content, kernel)
        sampler: StreamSampler = estimator_from(known[name], content["params"], kernel)
        sampler._restore(found, history)
        return sampler

    def _needs_rows(self) -> None:
        if not hasattr(self, "_state"):
            raise NotFittedError(f"this {type(self).__name__} has seen no rows yet: call fit or partial_fit")
