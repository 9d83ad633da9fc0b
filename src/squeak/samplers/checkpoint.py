"""Checkpoints: the whole state of a run in one file, replaced as the run goes on; resuming gives the same bits.

A state is written only where a block ends, for there the rest of the run depends on nothing but the state and the
rows to come. Seed and number of rows seen give every later coin; the factor is stored as it is, not built anew.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from squeak.core import storage
from squeak.core.cholesky import GrowingCholesky
from squeak.core.dictionary import (
    preprocessing_from_parts,
    preprocessing_parts,
    restored_kernel,
    stored_kernel,
)
from squeak.core.kernels.registry import check_stored
from squeak.core.leverage import WeightedFactor, check_ridge
from squeak.core.rows import check_rows, n_rows, rows_from_arrays, rows_to_arrays, width_of
from squeak.core.sources import Cursor, RowSource, rows
from squeak.core.state import LEAST, checked, flag, number, numbers, parameters, parts, seed, text, whole, wholes
from squeak.samplers.base import Plan, own_kernel
from squeak.samplers.kors import Kors
from squeak.samplers.squeak import Squeak
from squeak.samplers.stream import State, StreamSampler

SAMPLERS: dict[str, type[StreamSampler]] = {"Squeak": Squeak, "Kors": Kors}
NOT_COMPARED = ("verbose", "random_state")
"""Parameters that may differ when a run goes on; the seed was drawn when it began."""


class Run:
    """One run with a checkpoint: writes the latest state at the end of a block when it is due.

    Whatever reads a row source block by block can have one: Squeak, Kors and the sparsifiers of a stream of edges.
    It gives its states' parts (``_parts_at``), takes them back (``_state_from``), opens its source (``_as_source``,
    ``_reopened``) and reads it (``_read``, ``_restore``). A state is a value that no later block changes.
    """

    def __init__(self, sampler: Any, source: RowSource, path: str | os.PathLike[str], every: float) -> None:
        if isinstance(every, bool) or not isinstance(every, int | float) or not every >= 0:
            raise ValueError(f"every must be a number of seconds from 0 on; it is {every!r}")
        self.sampler, self.source, self.path, self.every = sampler, source, Path(path), every
        self._last: tuple[Any, list[dict[str, float]], Cursor] | None = None
        self._written = -1
        self._when = time.monotonic()
        _check_writable(self.path)
        params_to_data(sampler)  # what cannot be stored is refused now, not after hours

    def keep(self, state: Any, history: list[dict[str, float]], cursor: Cursor) -> None:
        """Take note of the state at the end of a block, and write it when it is due."""
        self._last = (state, list(history), cursor)
        if time.monotonic() - self._when >= self.every:
            self.write()

    def write(self, *, finished: bool = False) -> None:
        """Write the latest state; the last good checkpoint stays if that fails."""
        if self._last is None or (self._written == self._last[2].kept and not finished):
            return
        state, history, cursor = self._last
        arrays, content = self.sampler._parts_at(state, history)
        content["run"] = {
            "cursor": [cursor.part, cursor.row, cursor.kept, cursor.skipped],
            "fingerprint": self.source.fingerprint,
            "recipe": self.source.recipe,
            "finished": finished,
            "skipped": self.source.skipped_ if finished else cursor.skipped,
        }
        try:
            storage.write(self.path, self.sampler.kind, arrays, content)
        except OSError as error:
            good = (
                f"the last good checkpoint is that of row {self._written:,}"
                if self._written >= 0
                else "there is none"
            )
            kept = ", and the sampler keeps all rows up to here" if hasattr(self.sampler, "resume") else ""
            raise storage.CheckpointError(
                f"the checkpoint {self.path} could not be written at row {cursor.kept:,} "
                f"({error.strerror or error}); {good}{kept}"
            ) from error
        self._written, self._when = cursor.kept, time.monotonic()

    def read(
        self,
        state: Any = None,
        start: Cursor | None = None,
        past: list[dict[str, float]] | None = None,
    ) -> Any:
        """Read the rows, from a place on, to their end; what stops it leaves a checkpoint."""
        self._written = -1 if start is None else start.kept
        try:
            self.sampler._read(self.source, state, start=start, keeper=self, past=past)
        except KeyboardInterrupt:
            self.write()
            raise
        self.write(finished=True)
        return self.sampler


def fit_with_checkpoint(sampler: Any, X: Any, path: str | os.PathLike[str], every: float) -> Any:
    """Begin a run, or go on with one of the same parameters and data; one that has ended is returned as it is."""
    run = Run(sampler, sampler._as_source(X), path, every)
    if not run.path.exists():
        return run.read()
    saved = _Saved.open(run.path, type(sampler), getattr(sampler, "kernel", None))
    try:
        _check_same_parameters(sampler, saved.content)
        _check_same_data(run, saved)
    except ValueError as error:
        if saved.finished:
            return run.read()  # a run that is over may be replaced
        way = f"with {saved.content.get('sampler')}.resume" if hasattr(sampler, "resume") else "as it was begun"
        raise ValueError(f"{run.path} holds an unfinished run {error}: finish it {way}, or delete it") from None
    if saved.finished and run.source.fingerprint:
        sampler._restore(saved.state, saved.history)
        run.source.skipped_ = saved.skipped
        return sampler
    return run.read() if saved.finished else _go_on(run, saved)


def resume(
    cls: Any,
    path: str | os.PathLike[str],
    source: Any,
    *,
    kernel: Any = None,
    every: float,
    verbose: int | None = None,
) -> Any:
    """Go on with the run in a checkpoint; see :meth:`squeak.samplers.stream.StreamSampler.resume`."""
    saved = _Saved.open(Path(path), cls, kernel)
    with storage.reading(os.fspath(path)):
        sampler = cls.from_parts(saved.arrays, saved.content, kernel)
    if not isinstance(sampler, cls):
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
    run = Run(sampler, sampler._as_source(source), path, every)
    try:
        _check_same_data(run, saved)
    except ValueError as error:
        raise ValueError(f"{run.path} is the checkpoint of a run {error}") from None
    return _go_on(run, saved)


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
    def open(cls, path: Path, owner: Any, kernel: Any) -> _Saved:
        """Read a checkpoint; a damaged one is a StorageError."""
        _, arrays, content = storage.read(path, owner.kind)
        run = content.get("run")
        if run is None:
            raise ValueError(f"{path} holds a saved sampler, not a checkpoint; squeak.load reads it")
        with storage.reading(str(path)):
            found, history = owner._state_from(arrays, content, kernel)
            facts = checked(RUN, {}, run)
            cursor = Cursor(*(_count(place) for place in run["cursor"]))
            return cls(arrays, content, found, history, cursor, recipe=run["recipe"], **facts)


def _check_same_data(run: Run, saved: _Saved) -> None:
    now = run.source.fingerprint
    if saved.fingerprint != now or (not now and not run.source.begins_with(saved.state.head)):
        raise ValueError("over other data, or over the same read in another way")
    if run.source.preprocessing != saved.state.preprocessing:
        raise ValueError("over rows that were preprocessed in another way")


def _go_on(run: Run, saved: _Saved) -> Any:
    storage.remove_leftovers(run.path)
    return run.read(saved.state, saved.cursor, saved.history)


def _check_writable(path: Path) -> None:
    """Fail before any row is read where a checkpoint could not be written."""
    folder = path.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"the checkpoint's folder {folder} does not exist")
    if path.is_dir():
        raise IsADirectoryError(f"the checkpoint {path} is a folder; name a file")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise PermissionError(f"the checkpoint {path} cannot be written there")


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


def params_to_data(sampler: Any) -> dict[str, Any]:
    """Return the sampler's parameters as JSON data; a random state that is no int is left out, for it was used."""
    params: dict[str, Any] = {}
    for name, value in sampler.get_params(deep=False).items():
        if name == "kernel":
            params[name] = None if value is None else stored_kernel(value)
        elif name == "random_state":
            params[name] = int(value) if isinstance(value, int | np.integer) else None
        elif callable(value):
            raise TypeError(f"{name} is code, which is never stored: a run with a schedule can have no checkpoint")
        else:
            params[name] = value.item() if isinstance(value, np.generic) else value
    return params


def parts_of(
    sampler: StreamSampler, state: State, history: list[dict[str, float]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a stream's arrays and the rest as JSON data, for a file."""
    plan, scorer = state.plan, state.scorer
    encoding, described = preprocessing_parts(state.preprocessing)
    own = {"weights": scorer.weights, "factor": scorer.factor.inverse, "ridge": scorer.ridge}
    arrays, content = parts(STATE, {**vars(state), **own})
    arrays |= {**encoding, **rows_to_arrays(scorer.atoms), **rows_to_arrays(state.head, "head_")}
    return arrays, {
        "sampler": type(sampler).__name__,
        "params": params_to_data(sampler),
        **stored_kernel(plan.kernel),
        "plan": parts(PLAN, vars(plan))[1],
        **content,
        "preprocessing": described,
        "history": history,
    }


def state_from(
    arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None
) -> tuple[State, list[dict[str, float]]]:
    """Return the state and the history that :func:`parts_of` took apart, or raise what does not fit."""
    resolved = restored_kernel(content, kernel if content["kernel"] is None else None)
    atoms, head = rows_from_arrays(arrays), rows_from_arrays(arrays, "head_")
    m = n_rows(atoms)
    plan = checked(PLAN, {}, content["plan"])
    found = checked(STATE, arrays, content, m=m)
    if np.any(found["counts"] > plan["copies"]):
        raise ValueError("'counts' exceed the copies")
    if n_rows(head) != 1 or width_of(head) != width_of(atoms) or np.any(found["indices"] >= found["n_seen"]):
        raise ValueError("its arrays do not fit each other")
    if len(np.unique(found["indices"])) != m:
        raise ValueError("two atoms are the same row")
    check_stored(resolved, head)
    factor = GrowingCholesky(np.array(found["factor"]))
    kept = {name: np.array(found[name]) for name in ("indices", "probabilities", "counts")}
    restored = State(
        Plan(resolved, **plan),
        found["seed"],
        WeightedFactor(resolved, atoms, np.array(found["weights"]), check_ridge(found["ridge"]), factor),
        n_seen=found["n_seen"],
        head=head,
        shrink_at=found["shrink_at"],
        preprocessing=preprocessing_from_parts(arrays, content),
        **kept,
    )
    return restored, [_history_entry(entry) for entry in content["history"]]


PLAN = {
    "ridge": number(low=LEAST),
    "oversampling": number(low=LEAST),
    "copies": whole(low=1),
    "eps": number(low=0.0, high=1.0),
    "max_atoms": whole(low=1, optional=True),
}
STATE = {
    "seed": seed(),
    "ridge": number(low=LEAST),
    "n_seen": whole(low=1),
    "shrink_at": whole(low=1, optional=True),
    "indices": wholes("m"),
    "probabilities": numbers("m", low=LEAST, high=1.0),
    "counts": wholes("m", low=1),
    "weights": numbers("m", low=LEAST),
    "factor": numbers("m", "m"),
}
RUN = {"fingerprint": text(), "finished": flag(), "skipped": whole()}
HISTORY = {
    "rows": whole(),
    "atoms": whole(),
    "effective_dimension": number(),
    "ridge": number(),
}


def _history_entry(entry: Any) -> dict[str, float]:
    return checked(HISTORY, {}, entry)


def _count(value: Any) -> int:
    return int(checked({"count": whole()}, {}, {"count": value})["count"])


def sampler_from(arrays: dict[str, Any], content: dict[str, Any], kernel: Any = None) -> StreamSampler:
    """Return the fitted sampler from a file's parts, as it stood."""
    name, params = content["sampler"], dict(content["params"])
    if name not in SAMPLERS:
        raise ValueError(f"no sampler is known by the name {name!r}")
    found, history = state_from(arrays, content, kernel)
    own = params.pop("kernel")
    if own is not None:
        own = restored_kernel(own, kernel if own["kernel"] is None else None)
    sampler = SAMPLERS[name](kernel=own, **parameters(SAMPLERS[name], params))
    sampler._restore(found, history)
    return sampler
