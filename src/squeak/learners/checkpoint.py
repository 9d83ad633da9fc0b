"""Checkpoints of a fit: the dictionary's stream, then every sum over the rows, kept in one file as they grow.

All that a fit on a row source learns from the rows is a dictionary and sums (means, normal equations, the steps of
FALKON and Newton). A fit that goes on takes what is finished from the file, reads the rest of the pass it was in,
and computes everything else anew, in the same bits. Where workers read the rows, the sum of a pass is kept whenever
a group of parts has been added. A fit that goes on elsewhere than it was stopped begins the pass it was in again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from squeak.core import engine
from squeak.core.described import params_to_data
from squeak.data import Cursor, Preprocessing, RowSource
from squeak.learners.data import PersistedTraining, SourceTraining, Term
from squeak.samplers.checkpoint import Resumable, fit_with_checkpoint
from squeak.samplers.dictionary import Dictionary, preprocessing_from_parts, preprocessing_parts
from squeak.samplers.stream import StreamSampler
from squeak.trees.sums import GROUP, Arrays, PartSums, sum_parts

DICTIONARY, SAMPLER = "dictionary_", "sampler_"
"""What the names of their arrays begin with."""

NOT_STORED = ("callback", "verbose")


@dataclass(frozen=True)
class FitState:
    """What is known of a fit at some place of some pass; never changed, only replaced."""

    preprocessing: Preprocessing | None
    stream: tuple[Any, Any, list[dict[str, float]]] | None = None
    """The sampler, its state and its history, while the dictionary is learned."""
    dictionary: Dictionary | None = None
    done: tuple[Arrays, ...] = ()
    """The sums of the passes that have ended, in their order."""
    growing: PartSums | None = None
    """The sum of the pass at hand, up to the place of the checkpoint."""
    head: ClassVar[None] = None


@dataclass(frozen=True)
class KeptTraining(SourceTraining):
    """Rows of a source whose sums, and whose dictionary, are kept in a checkpoint as they grow."""

    run: Any = None

    def sum(self, term: Term) -> Arrays:
        """Return the sum of the term over all rows: from the checkpoint, or from there on."""
        found: Arrays = self.run.sum(self, term)
        return found

    def persist(self) -> Any:
        """Return the same rows, held by the workers of a cluster where they keep them."""
        held = super().persist()
        return KeptPersisted(**vars(held), run=self.run) if isinstance(held, PersistedTraining) else self


@dataclass(frozen=True)
class KeptPersisted(PersistedTraining):
    """Rows held by the workers of a cluster, whose sums are kept in a checkpoint, pass by pass."""

    run: Any = None

    def sum(self, term: Term) -> Arrays:
        """Return the sum of the term over all rows: from the checkpoint, or anew."""
        found: Arrays = self.run.passed(lambda: super(KeptPersisted, self).sum(term))
        return found


class FitRun(Resumable):
    """A learner's fit, as :class:`squeak.samplers.checkpoint.Run` keeps it."""

    kind = "fit"

    def __init__(self, learner: Any, fit: Callable[[Any, Any, Any, Any], None]) -> None:
        if not isinstance(learner.random_state, int | np.integer):
            raise ValueError(
                "a fit with a checkpoint needs a number as random_state: one that goes on must draw the same"
            )
        self.learner, self.fit, self.run_name = learner, fit, type(learner).__name__
        self._source: Any = None
        self._first: Any = None
        """The targets of the first block, where the fit goes on and may not read it again."""
        self._begin(FitState(None), Cursor(), None)

    def _begin(self, state: FitState, cursor: Cursor, keeper: Any) -> None:
        self._state, self._cursor, self._keeper, self._asked = state, cursor, keeper, 0

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """Return the learner's parameters, as what two fits are compared by."""
        params = self.learner.get_params(deep=False)
        return {name: _described(value) for name, value in params.items() if name not in NOT_STORED}

    def _as_source(self, X: Any) -> RowSource:
        if not isinstance(X, RowSource) or not X.repeatable:
            raise ValueError("checkpoint is for a row source that can be read again: pass squeak.rows(...)")
        self._source = X
        return X

    def _read(self, X: Any, state: Any, *, start: Any = None, keeper: Any = None, past: Any = None) -> None:
        self._begin(state or FitState(X.preprocessing), start or Cursor(), keeper)
        if state is not None:
            with closing(X.blocks(apart=True)) as blocks:
                self._first = next(blocks).y
        X.skipped_ = self._cursor.skipped
        self.fit(X, None, None, self)

    def _restore(self, state: FitState, history: Any) -> None:
        """Fit again from what is all there: no row is read but for the classes."""
        self._read(self._source, state)

    def _keep(self, state: FitState, cursor: Cursor) -> None:
        self._state, self._cursor = state, cursor
        if self._keeper is not None:
            self._keeper.keep(state, [], cursor)

    def sum(self, data: SourceTraining, term: Term) -> Arrays:
        """Return the next sum of the fit, in the bits of a fit without a checkpoint."""
        if self._first is not None:
            data.encoded(self._first)  # what is learned from the first block that is seen shall be the same
        return self.passed(lambda: (self._by_blocks if data.client is None else self._by_workers)(data, term))

    def passed(self, computed: Callable[[], Arrays]) -> Arrays:
        """Return the next sum of the fit: the one that is kept, or the one that is computed, which is kept then."""
        number, self._asked = self._asked, self._asked + 1
        if number < len(self._state.done):
            return self._state.done[number]
        found = computed()
        self._keep(replace(self._state, done=(*self._state.done, found), growing=None), self._cursor)
        return found

    def _by_blocks(self, data: SourceTraining, term: Term) -> Arrays:
        total, start = self._state.growing or PartSums(), None
        if total.here is None:  # nothing is there, or what workers have summed
            total = PartSums()
        else:
            start = self._cursor
        for block in data.read(start, apart=True):
            with engine.single_blas():
                arrays = term(block.X, data.pair(block.y))
            total = total.at(block.cursor.part).plus(arrays)  # a new sum: an interrupt leaves the old one whole
            self._keep(replace(self._state, growing=total), block.cursor)
        return total.total()

    def _by_workers(self, data: SourceTraining, term: Term) -> Arrays:
        growing = self._state.growing
        goes_on = growing is not None and growing.here is None and growing.part % GROUP == 0

        def keep(total: PartSums) -> None:
            self._keep(replace(self._state, growing=total), Cursor(total.part))

        assert data.client is not None
        return sum_parts(data.parts(), term, data.client, growing if goes_on else None, keep)

    def dictionary(self, sampler: Any, rows: RowSource) -> Dictionary:
        """Return what the sampler learns from the rows; a stream's state is kept along the way."""
        if self._state.dictionary is not None:
            return self._state.dictionary
        if isinstance(sampler, StreamSampler):
            _, state, history = self._state.stream or (None, None, None)
            start = None if state is None else self._cursor

            def keep(at: Any, past: list[dict[str, float]], cursor: Cursor) -> None:
                self._keep(replace(self._state, stream=(sampler, at, list(past))), cursor)

            sampler._read(rows, state, start=start, keeper=SimpleNamespace(keep=keep), past=history)
        else:
            sampler.fit(rows)
        found: Dictionary = sampler.dictionary_
        self._keep(replace(self._state, stream=None, dictionary=found), self._cursor)
        return found

    def _parts_at(self, state: FitState, history: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, encoding = preprocessing_parts(state.preprocessing)
        growing = state.growing
        sums = [*state.done, *([] if growing is None else [one or () for one in (*growing.waiting, growing.here)])]
        flat = [np.asarray(array).ravel() for arrays_ in sums for array in arrays_]
        content: dict[str, Any] = {
            "sampler": self.run_name,
            "params": params_to_data(self),
            "preprocessing": encoding,
            "sums": [[list(np.shape(array)) for array in arrays_] for arrays_ in sums],
            "growing": growing is not None,
            "part": 0 if growing is None else growing.part,
            "done": len(state.done),
        }
        arrays = {**arrays, "sums": np.concatenate([*flat, np.zeros(0)])}
        if state.dictionary is not None:
            inner, content["dictionary"] = state.dictionary.to_parts()
            arrays |= {DICTIONARY + name: array for name, array in inner.items()}
        if state.stream is not None:
            sampler, at, past = state.stream
            inner, content["stream"] = sampler._parts_at(at, past)
            arrays |= {SAMPLER + name: array for name, array in inner.items()}
        return arrays, content

    @staticmethod
    def _state_from(arrays: dict[str, Any], content: dict[str, Any], kernel: Any) -> tuple[FitState, list[Any]]:
        sums = list(_cut(arrays["sums"], content["sums"]))
        growing = None
        if content["growing"]:
            done, part = int(content.get("done", len(sums) - 1)), int(content.get("part", 0))
            if part < 0 or not 0 <= done < len(sums):
                raise ValueError("its sums are not those of a pass")
            *waiting, here = [one or None for one in sums[done:]]
            sums, growing = sums[:done], PartSums(tuple(waiting), part, here)
        state = FitState(preprocessing_from_parts(arrays, content), done=tuple(sums), growing=growing)
        if "dictionary" in content:
            found = Dictionary.from_parts(_within(arrays, DICTIONARY), content["dictionary"], kernel)
            state = replace(state, dictionary=found)
        if "stream" in content:
            at, past = StreamSampler._state_from(_within(arrays, SAMPLER), content["stream"], kernel)
            state = replace(state, stream=(None, at, past))
        return state, []


def fit_kept(
    learner: Any,
    fit: Callable[[Any, Any, Any, Any], None],
    X: Any,
    y: Any,
    weight: Any,
    path: str | os.PathLike[str],
    every: float,
) -> None:
    """Fit a learner on a row source with a checkpoint; the same call goes on with a fit that was stopped.

    ``fit`` is what does it, with a source, no targets, no weights and a :class:`FitRun`.
    """
    if y is not None or weight is not None:
        raise ValueError("a row source carries its targets and has no weights: pass neither beside a checkpoint")
    fit_with_checkpoint(FitRun(learner, fit), X, path, every)


def _within(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def _cut(flat: Any, shapes: Any) -> Iterator[Arrays]:
    """Yield the sums from their numbers in one row; what does not fit, or is not finite, raises."""
    at = 0
    if flat.ndim != 1 or flat.dtype != np.float64 or not np.isfinite(flat).all():
        raise ValueError("its sums are not numbers")
    for group in shapes:
        arrays = []
        for shape in group:
            lengths = tuple(int(length) for length in shape)
            size = int(np.prod(lengths, dtype=np.float64))
            if min(lengths, default=0) < 0 or at + size > len(flat):
                raise ValueError("its sums do not fit their shapes")
            arrays.append(np.array(flat[at : at + size]).reshape(lengths))
            at += size
        yield tuple(arrays)
    if at != len(flat):
        raise ValueError("its sums do not fit their shapes")


def _described(value: Any) -> Any:
    """Return a parameter as JSON data to be compared: objects and arrays by their content."""
    if isinstance(value, Dictionary):
        arrays, content = value.to_parts()
        digest = hashlib.sha256(repr(sorted(content.items(), key=str)).encode())
        for name in sorted(arrays):
            digest.update(np.ascontiguousarray(arrays[name]).tobytes())
        return f"dictionary {digest.hexdigest()[:16]}"
    if isinstance(value, BaseEstimator) and not hasattr(value, "diag"):
        return f"{type(value).__name__} {params_to_data(value)}"
    if isinstance(value, np.ndarray):
        return f"rows {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]}"
    return value
