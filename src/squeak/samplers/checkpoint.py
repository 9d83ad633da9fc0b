"""Checkpoints: the whole state of a run in one file, replaced as the run goes on; resuming gives the same bits.

A state is written only where a block ends, for there the rest of the run depends on nothing but the state and the
rows to come. Seed and number of rows seen give every later coin; the factor is stored as it is, not built anew.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from squeak.core import storage
from squeak.core.advice import Advice, InputError
from squeak.core.checks import is_number
from squeak.core.described import params_to_data
from squeak.core.outputs import check_place, remove_leftovers
from squeak.core.rows import check_rows
from squeak.core.state import checked, flag, text, whole
from squeak.data import Cursor, RowSource, rows
from squeak.samplers.base import own_kernel

NOT_COMPARED = ("verbose", "random_state")
"""Parameters that may differ when a run goes on; the seed was drawn when it began."""


class Run:
    """One run with a checkpoint: writes the latest state at the end of a block when it is due.

    ``every``: seconds between two writes. ``parts_at``: gives the parts of a state, with its history.
    """

    def __init__(
        self,
        sampler: Any,
        source: RowSource,
        path: str | os.PathLike[str],
        every: float,
        parts_at: Callable[..., tuple[dict[str, Any], dict[str, Any]]],
    ) -> None:
        if not is_number(every) or not every >= 0:
            raise ValueError(f"every must be a number of seconds from 0 on; it is {every!r}")
        self.sampler, self.source, self.path, self.every = sampler, source, Path(path), every
        self._parts_at = parts_at
        self._last: tuple[Any, list[dict[str, float]], Cursor] | None = None
        self._written: Any = None  # the state that is in the file
        self._where = ""
        self.fingerprint = source.fingerprint  # once: some have to look at all targets for it
        self._when = time.monotonic()
        check_place(self.path, "the checkpoint ")
        if self.path.exists() and not os.access(self.path, os.W_OK):
            raise PermissionError(f"the checkpoint {self.path} cannot be written there")
        params_to_data(sampler)  # what cannot be stored is refused now, not after hours

    def keep(self, state: Any, history: list[dict[str, float]], cursor: Cursor) -> None:
        """Take note of the state at the end of a block, and write it when it is due."""
        self._last = (state, list(history), cursor)
        if time.monotonic() - self._when >= self.every:
            self.write()

    def write(self, *, finished: bool = False) -> None:
        """Write the latest state; the last good checkpoint stays if that fails."""
        if self._last is None or (self._last[0] is self._written and not finished):
            return
        state, history, cursor = self._last
        arrays, content = self._parts_at(state, history)
        content["run"] = {
            "cursor": [cursor.part, cursor.row, cursor.kept, cursor.skipped],
            "fingerprint": self.fingerprint,
            "recipe": self.source.recipe,
            "finished": finished,
            "skipped": self.source.skipped_ if finished else cursor.skipped,
        }
        where = _words_of(cursor)
        try:
            storage.write(self.path, self.sampler.kind, arrays, content)
        except OSError as error:
            good = f"the last good checkpoint is that of {self._where}" if self._where else "there is none"
            kept = ", and the sampler keeps all rows up to here" if hasattr(self.sampler, "resume") else ""
            raise storage.CheckpointError(
                f"the checkpoint {self.path} could not be written at {where} "
                f"({error.strerror or error}); {good}{kept}"
            ) from error
        self._written, self._where, self._when = state, where, time.monotonic()

    def begin(self, state: Any = None, cursor: Cursor | None = None) -> None:
        """Take note of the state that is in the file already."""
        self._written, self._where = state, "" if cursor is None else _words_of(cursor)


def _words_of(cursor: Cursor) -> str:
    """Return where a run is: workers read parts, and count no rows."""
    return f"row {cursor.kept:,}" if cursor.kept or not cursor.part else f"part {cursor.part:,}"


class Resumable:
    """Whatever reads a row source block by block and can have a checkpoint: streams of rows and edges, fits.

    It gives its states' parts (``_parts_at``), takes them back (``_state_from``), opens its source (``_as_source``,
    ``_reopened``) and reads it (``_read``, ``_restore``). A state is a value that no later block changes.
    """

    kind: ClassVar[str]
    _parts_at: ClassVar[Callable[..., Any]]
    _state_from: ClassVar[Callable[..., Any]]
    _as_source: ClassVar[Callable[..., Any]]
    _reopened: ClassVar[Callable[..., Any]]
    _read: ClassVar[Callable[..., Any]]
    _restore: ClassVar[Callable[..., Any]]

    def _run(self, X: Any, path: str | os.PathLike[str], every: float) -> Any:
        """Begin a run, or go on with one of the same parameters and data; one that has ended is kept as it is."""
        run = Run(self, self._as_source(X), path, every, self._parts_at)
        if not run.path.exists():
            return self._read_all(run)
        saved = _Saved.open(run.path, self.kind, self._state_from, getattr(self, "kernel", None))
        try:
            _check_same_parameters(self, saved.content)
            _check_same_data(run, saved)
        except ValueError as error:
            if saved.finished:
                return self._read_all(run)  # a run that is over may be replaced
            again, name = "finish it as it was begun", saved.content.get("sampler")
            resumed = f"finish it with {name}.resume" if hasattr(self, "resume") else again
            fact = f"{run.path} holds an unfinished run {error}"
            raise InputError(fact, Advice(again, "checkpoint", python=resumed), "delete it") from None
        if saved.finished and run.fingerprint:
            self._restore(saved.state, saved.history)
            run.source.skipped_ = saved.skipped
            return self
        return self._read_all(run, None if saved.finished else saved)

    def _read_all(self, run: Run, saved: _Saved | None = None) -> Any:
        """Read the rows, from the place of a checkpoint on, to their end; what stops it leaves a checkpoint."""
        state, start, past = (None, None, None) if saved is None else (saved.state, saved.cursor, saved.history)
        if start is not None:
            remove_leftovers(run.path)
        run.begin(state, start)
        try:
            self._read(run.source, state, start=start, keeper=run, past=past)
        except KeyboardInterrupt:
            run.write()
            raise
        run.write(finished=True)
        return self

    @classmethod
    def _resumed(
        cls,
        path: str | os.PathLike[str],
        source: Any,
        *,
        kernel: Any = None,
        every: float,
        verbose: int | None = None,
    ) -> Any:
        """Go on with the run in a checkpoint; see :meth:`squeak.samplers.stream.StreamSampler.resume`."""
        saved = _Saved.open(Path(path), cls.kind, cls._state_from, kernel)
        with storage.reading(os.fspath(path)):
            sampler: Any = cls.from_parts(saved.arrays, saved.content, kernel)  # type: ignore[attr-defined]
        if not issubclass(type(sampler), cls):
            name = type(sampler).__name__
            raise TypeError(f"{os.fspath(path)} holds a run of {name}: use {name}.resume")
        if verbose is not None:
            sampler.verbose = verbose
        if saved.finished:
            return sampler
        if source is None:
            if saved.recipe is None:
                raise ValueError(f"{os.fspath(path)}: the rows of this run did not come from files; pass source=")
            source = sampler._reopened(saved.recipe, saved.state.preprocessing)
        run = Run(sampler, sampler._as_source(source), path, every, sampler._parts_at)
        try:
            _check_same_data(run, saved)
        except ValueError as error:
            raise ValueError(f"{run.path} is the checkpoint of a run {error}") from None
        return sampler._read_all(run, saved)


def fit_with_checkpoint(sampler: Resumable, X: Any, path: str | os.PathLike[str], every: float) -> Any:
    """Begin a run, or go on with one of the same parameters and data; one that has ended is returned as it is."""
    return sampler._run(X, path, every)


def as_source(X: Any, kernel: Any) -> RowSource:
    """Return rows as a source that gives the same rows as ``fit`` without a checkpoint would read."""
    if isinstance(X, RowSource):
        return X
    if not (isinstance(X, np.ndarray) and X.ndim == 2 and not np.ma.isMaskedArray(X)):
        X = check_rows(X, own_kernel(kernel))
    if isinstance(X, list):
        raise TypeError("a run over objects can have no checkpoint: only rows of numbers are stored")
    return rows(X)


@dataclass(frozen=True)
class _Saved:
    """What a checkpoint holds."""

    arrays: dict[str, Any]
    content: dict[str, Any]
    state: Any
    history: list[dict[str, float]]
    cursor: Cursor
    fingerprint: str
    recipe: dict[str, Any] | None
    finished: bool
    skipped: int

    @classmethod
    def open(cls, path: Path, kind: str, state_from: Callable[..., Any], kernel: Any) -> _Saved:
        """Read a checkpoint; a damaged one is a StorageError."""
        _, arrays, content = storage.read(path, kind)
        run = content.get("run")
        if run is None:
            raise ValueError(f"{path} holds a saved sampler, not a checkpoint; squeak.load reads it")
        with storage.reading(str(path)):
            found, history = state_from(arrays, content, kernel)
            facts = checked(RUN, {}, run)
            cursor = Cursor(*(_count(place) for place in run["cursor"]))
            return cls(arrays, content, found, history, cursor, recipe=run["recipe"], **facts)


def _check_same_data(run: Run, saved: _Saved) -> None:
    now = run.fingerprint
    if saved.fingerprint != now or (not now and not run.source.begins_with(saved.state.head)):
        raise ValueError("over other data, or over the same read in another way")
    if run.source.preprocessing != saved.state.preprocessing:
        raise ValueError("over rows that were preprocessed in another way")


def _check_same_parameters(sampler: Any, content: dict[str, Any]) -> None:
    if content.get("sampler") != getattr(sampler, "run_name", type(sampler).__name__):
        word = "sampler" if hasattr(sampler, "resume") else "learner"
        raise ValueError(f"with another {word} ({content.get('sampler')})")
    now, then = params_to_data(sampler), content["params"]
    for name in now:
        if name not in NOT_COMPARED and now[name] != then.get(name):
            raise ValueError(f"with another {name} ({_words(then.get(name))}; now {_words(now[name])})")
    seed = now.get("random_state")
    if isinstance(seed, int) and seed != then.get("random_state"):
        raise ValueError(f"with another random_state ({then.get('random_state')}; now {seed})")


def _words(value: Any) -> str:
    return str(value["kernel_repr"]) if isinstance(value, dict) and "kernel_repr" in value else repr(value)


RUN = {"fingerprint": text(), "finished": flag(), "skipped": whole()}


def _count(value: Any) -> int:
    return int(checked({"count": whole()}, {}, {"count": value})["count"])
