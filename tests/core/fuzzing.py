"""Runs mutated files through load and use, and notes whatever is more than a clear error."""

from __future__ import annotations

import collections
import contextlib
import os
import resource
import signal
import sys
import tempfile
import traceback
import tracemalloc
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core.storage import NotStoredError, StorageError
from tests.core.mutations import MUTATIONS
from tests.core.specimens import SPECIMENS

FORBIDDEN = ("compile", "exec", "pickle.find_class", "os.system", "os.exec", "os.fork", "subprocess.Popen")
LOAD_SECONDS, USE_SECONDS = 5.0, 20.0
USE_BYTES = 64 * 2**20
"""What the use of an object of 40 rows may take."""

ADDRESS_SPACE = 3 * 2**30
"""More than this and the system says no: a bomb is noticed, and the machine lives."""


class TooLongError(BaseException):
    """Not an Exception, so that nobody takes it for a damaged file."""


@dataclass(frozen=True)
class Failure:
    """A file that did more than it may."""

    case: tuple[int, int]
    specimen: str
    mutation: str
    where: str
    what: str
    trace: str = ""


@dataclass
class Findings:
    """What came of a run."""

    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    failures: list[Failure] = field(default_factory=list)


def files_of(folder: Path, only: str = "") -> dict[str, bytes]:
    """Return one clean file of each specimen, as bytes; whatever is imported on the way is imported now."""
    os.environ["SQUEAK_SPECIMENS"] = str(folder)
    files = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, (name, specimen) in enumerate(SPECIMENS.items()):
            if only in name:
                path = folder / f"{number}.sqk"
                specimen.save(specimen.make(), path)
                files[name] = path.read_bytes()
                obj = specimen.load(path)
                kinds[name] = type(obj)
                specimen.use(obj)
    return files


kinds: dict[str, type] = {}
_watching: list[str] = []
_hooked: list[bool] = []


def _audit(event: str, arguments: Any) -> None:
    if _watching and event in FORBIDDEN:
        _watching.append(event)


def watch() -> None:
    """Note what is forbidden, from now on and while something is looked at."""
    if not _hooked:
        sys.addaudithook(_audit)
        _hooked.append(True)


@contextlib.contextmanager
def _bounded(seconds: float) -> Any:
    """Stop what takes too long on the processor, or waits ten times as long; the alarms are the main thread's."""

    def ring(number: int, frame: Any) -> None:
        raise TooLongError

    alarms = {signal.SIGPROF: (signal.ITIMER_PROF, seconds), signal.SIGALRM: (signal.ITIMER_REAL, 10 * seconds)}
    before = {number: signal.signal(number, ring) for number in alarms}
    for timer, after in alarms.values():
        signal.setitimer(timer, after)
    try:
        yield
    finally:
        for timer, _ in alarms.values():
            signal.setitimer(timer, 0.0)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def limited_memory() -> Any:
    """Hold the address space of this process a few gigabytes above what it has."""
    with open("/proc/self/statm") as stream:
        now = int(stream.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + ADDRESS_SPACE, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _all_finite(value: Any) -> bool:
    if isinstance(value, str | None):
        return True
    if isinstance(value, list | tuple):
        return all(map(_all_finite, value))
    array = np.asarray(value.data if sp.issparse(value) else value)
    return array.dtype.kind in "biufUO" and (array.dtype.kind != "f" or bool(np.isfinite(array).all()))


def _place(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "squeak/" in f.filename]
    ours = [f for f in frames if "tests/" not in f.filename]
    return " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(ours[-3:]))


def attempt(path: Path, specimen: str) -> tuple[str, str, str, str]:
    """Load a file and use what came of it; return the outcome, and where, what and how where it failed."""
    subject, size = SPECIMENS[specimen], path.stat().st_size
    _watching.append("begin")
    tracemalloc.start()
    stage = "load"
    try:
        with _bounded(LOAD_SECONDS):
            obj = subject.load(path)
        peak = tracemalloc.get_traced_memory()[1]
        if peak > 4 * size + 2**20:
            return "failed", stage, f"memory: {peak:,} bytes for a file of {size:,}", ""
        stage = "use"
        tracemalloc.reset_peak()
        if type(obj) is not kinds[specimen]:
            return "used", "", "", ""  # another specimen's file, whole
        with _bounded(USE_SECONDS):
            result = subject.use(obj)
        if tracemalloc.get_traced_memory()[1] > USE_BYTES:
            return "failed", stage, f"memory: {tracemalloc.get_traced_memory()[1]:,} bytes", ""
        if not _all_finite(result):
            return "failed", stage, "not finite", ""
        return "used", "", "", ""
    except TooLongError as error:
        return "failed", stage, "too long:", _place(error)
    except (StorageError, NotStoredError) as error:
        peak = tracemalloc.get_traced_memory()[1]
        if "MemoryError" in str(error) or (stage == "load" and peak > 4 * size + 2**20):
            return "failed", stage, f"memory: {peak:,} bytes for a file of {size:,}: {error}", _place(error)
        return "refused", "", "", ""
    except ValueError as error:
        clear = type(error) is not np.linalg.LinAlgError and (stage == "use" or "checkpoint" in specimen)
        if clear:
            return "refused in use", "", "", ""
        return "failed", stage, f"{type(error).__name__}: {error}", _place(error)
    except Exception as error:
        return "failed", stage, f"{type(error).__name__}: {error}", _place(error)
    finally:
        tracemalloc.stop()
        seen = _watching[1:]
        _watching.clear()
        assert not seen, seen


def run(cases: int, seed: int, only: str = "") -> Findings:
    """Mutate the specimens' files so many times; the same seed gives the same files."""
    watch()
    found = Findings()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), limited_memory():
        warnings.simplefilter("ignore")
        files = files_of(Path(folder), only)
        names, path = list(files), Path(folder) / "x.sqk"
        others = list(files.values())
        for number in range(cases):
            rng = np.random.default_rng([seed, number])
            name, mutate = names[number % len(names)], MUTATIONS[(number // len(names)) % len(MUTATIONS)]
            path.write_bytes(mutate(files[name], rng, others))
            with np.errstate(all="ignore"):
                outcome, *words = attempt(path, name)
            found.counts[outcome] += 1
            if outcome == "failed":
                found.failures.append(Failure((seed, number), name, mutate.__name__, *words))
    return found
