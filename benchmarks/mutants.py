"""How many small changes of the code do its tests notice? ``python -m benchmarks.mutants --room core``.

A mutant is the code with one change: an operator, a comparison and its boundary, a constant, a dropped ``not``, two
arguments swapped, ``min`` for ``max``, a result left out. A mutant is killed by a test that fails, crashes or takes
several times its time. The tests of a room are collected once. Every mutant is a fork of that process with the
function's code replaced, and runs the tests that call the function (a first run tells which do), those that have
killed before and quick ones first, until one fails or the budget of processor time is used. Tests of ``make
test-slow`` are left out.

Three layers of tests are counted apart: those of the room; with ``--shared`` the contract and battery that all
classes share; and the room's digests, which notice every change of a result and say of none that it is right.

Results are in ``benchmarks/results/mutants.json``. A survivor is marked there by hand as ``equivalent`` with the
reason, where no test could tell it from the code; the mark stays when the room is measured again.
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import math
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from functools import _lru_cache_wrapper
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from benchmarks.mutating import Mutant, changed_tree, codes, named, sampled

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "mutants.json"
SHARED = ("tests/test_battery.py", "tests/test_contract.py")
DIGESTS = "tests/test_digests.py"


def _files(room: str, words: str) -> tuple[str, ...]:
    return tuple(f"{room}/{word}" for word in words.split())


def _tests(room: str, words: str) -> tuple[str, ...]:
    return tuple(f"tests/{room}/test_{word}.py" for word in words.split())


ROOMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # sources, tests; what computes, not files and words
    "core": (
        _files(
            "core",
            "cholesky.py fourier.py kernels leverage.py nystrom.py rows.py screening.py seeds.py thinning.py",
        ),
        _tests(
            "core", "cholesky leverage thinning nystrom kernels screening metric_kernel dictionary checks engine"
        )
        + _tests("learners", "random_features"),
    ),
    "samplers": (
        _files(
            "samplers", "base.py baselines.py batch.py bless.py dictionary.py disqueak.py exact.py given.py kors.py"
        )
        + _files("samplers", "literal.py measured.py merging.py recursive.py rpcholesky.py shrinking.py squeak.py")
        + _files("samplers", "stream.py theory.py two_step.py uniform.py"),
        _tests("samplers", "batch literal streams fixed_size disqueak unbiased plan")
        + _tests("core", "dictionary accuracy"),
    ),
    "falkon": (("learners/falkon.py",), ("tests/learners/test_falkon.py", "tests/learners/test_kept.py")),
    "online": (("online",), ("tests/online",)),
    "dpp": (("dpp",), ("tests/dpp",)),
    "thinning": (
        ("core/thinning.py", "graphs/sample.py", "graphs/stream.py"),
        (
            *("tests/graphs/test_sparsify.py", "tests/graphs/test_literal.py", "tests/graphs/test_weights.py"),
            *("tests/graphs/test_distributed.py", "tests/graphs/test_checkpoint.py", "tests/graphs/test_names.py"),
            *("tests/graphs/test_sample.py", "tests/core/test_thinning.py"),
        ),
    ),
}
APART = ("test_cluster", "test_no_workers", "test_fuzz", "test_foresight")
"""Tests that start processes of their own, or mutate files by the thousand."""

OUTSIDE = ("/subprocess.py", "/tests/commands.py")
"""A test that calls these asks another process, which the change is not in."""


class Harness:
    """A pytest plugin that forks once per mutant in place of running the tests."""

    def __init__(self, room: str, size: int, seed: int, budget: float, skip: set[str], again: list[str]) -> None:
        sources, _ = ROOMS[room]
        self.room = {"core": "kernels", "thinning": "graphs", "falkon": "learners"}.get(room, room)
        self.paths = [
            path
            for source in sources
            for top in [ROOT / "src" / "squeak" / source]
            for path in (sorted(top.rglob("*.py")) if top.is_dir() else [top])
        ]
        self.size, self.seed, self.budget, self.skip, self.again = size, seed, budget, skip, again
        self.failed, self.end = False, math.inf
        self.cached: set[tuple[str, str]] = set()
        self.found: list[dict[str, Any]] = []
        self.killers: dict[str, Counter[int]] = defaultdict(Counter)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        marked = [item for item in session.items if item.get_closest_marker("slow") is None]
        self.items = [
            item
            for item in marked
            if not any(word in item.nodeid for word in APART)
            and (not item.nodeid.startswith(DIGESTS) or f"[{self.room}:" in item.nodeid)
        ]
        functions: dict[tuple[str, str], list[FunctionType]] = defaultdict(list)
        for thing in gc.get_objects():
            if isinstance(thing, FunctionType) and "/squeak/" in thing.__code__.co_filename:
                functions[(thing.__code__.co_filename, thing.__code__.co_qualname)].append(thing)
            elif isinstance(thing, _lru_cache_wrapper) and isinstance(thing.__wrapped__, FunctionType):
                code = thing.__wrapped__.__code__  # called by the first test alone
                self.cached.add((code.co_filename, code.co_qualname))
        start = time.process_time()
        self.survey()
        print(f"  {len(self.items)} tests surveyed", flush=True)
        chosen = named(self.paths, ROOT, self.again) or sampled(self.paths, ROOT, self.size, self.seed)
        for mutant in chosen:
            if time.monotonic() > self.end:
                print(f"  the time is up after {len(self.found)} of {len(chosen)} mutants", flush=True)
                break
            self.found.append(self.judge(mutant, functions))
            if len(self.found) % 20 == 0:
                print(f"  {len(self.found)} mutants: {dict(Counter(m['fate'] for m in self.found))}", flush=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.seconds = time.process_time() - start + used.ru_utime + used.ru_stime
        return True

    def layer(self, number: int) -> str:
        name = self.items[number].nodeid
        return "digests" if name.startswith(DIGESTS) else "shared" if name.startswith(SHARED) else "room"

    def survey(self) -> None:
        """Learn in a fork which test calls which function and how long it takes; leave out what fails unchanged.

        A test that takes more than twice the budget, slowed down by tracing, would not be chosen: it is cut short.
        """
        with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
            if os.fork() == 0:
                _quiet()
                signal.signal(signal.SIGPROF, _too_long)
                records = []
                for number, item in enumerate(self.items):
                    called: set[tuple[str, str]] = set()
                    outside: list[str] = []

                    def trace(
                        frame: Any, event: str, arg: Any, called: Any = called, outside: Any = outside
                    ) -> None:
                        name = frame.f_code.co_filename
                        if "/squeak/" in name:
                            called.add((name, frame.f_code.co_qualname.split(".<locals>")[0]))
                        elif name.endswith(OUTSIDE):
                            outside.append(name)

                    self.failed, start = False, time.process_time()
                    signal.setitimer(signal.ITIMER_PROF, 2 * self.budget)
                    threading.settrace(trace)
                    sys.settrace(trace)
                    self.run(item, number)
                    signal.setitimer(signal.ITIMER_PROF, 0)
                    sys.settrace(None)
                    threading.settrace(None)  # type: ignore[arg-type]
                    calls = [] if outside else sorted(called)
                    records.append([time.process_time() - start, self.failed, calls])
                Path(file.name).write_text(json.dumps(records))
                os._exit(0)
            os.wait()
            records = json.loads(file.read())
        self.times = [record[0] for record in records]
        self.calling: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.reaching: dict[str, set[int]] = defaultdict(set)
        for number, (_, failed, called) in enumerate(records):
            for name, function in called if not failed else []:
                self.calling[(name, function)].append(number)
                self.reaching[name].add(number)
        out = [self.items[i].nodeid for i, record in enumerate(records) if record[1]]
        print("  fails unchanged, or takes too long:", out, flush=True)

    def run(self, item: Any, number: int, following: Any = None) -> None:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)

    def chosen(self, mutant: Mutant) -> list[int]:
        """Return the tests for a mutant, likely killers first, of every layer as many as its budget allows."""
        path = str(ROOT / mutant.path)
        wide = ":" in mutant.function or (path, mutant.function) in self.cached
        tests = self.reaching[path] if wide else self.calling[(path, mutant.function)]
        before, stem = self.killers[mutant.path + mutant.function], f"test_{Path(mutant.path).stem}"
        order = sorted(
            tests, key=lambda i: (-before[i], self.times[i] > 1 or stem not in self.items[i].nodeid, self.times[i])
        )
        left, kept = dict.fromkeys(("room", "shared", "digests"), self.budget), []
        for layer in left:
            for number in order:
                if self.layer(number) == layer and left[layer] >= self.times[number]:
                    left[layer] -= self.times[number]
                    kept.append(number)
        return kept

    def judge(self, mutant: Mutant, functions: dict[tuple[str, str], list[FunctionType]]) -> dict[str, Any]:
        tests = self.chosen(mutant)
        facts: dict[str, Any] = {"key": mutant.key, "line": mutant.line, "tests": len(tests)}
        if mutant.key in self.skip:
            return facts | {"fate": "equivalent"}
        path = str(ROOT / mutant.path)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            _quiet()
            allowed = int(5 + 4 * sum(self.times[i] for i in tests))
            resource.setrlimit(resource.RLIMIT_CPU, (allowed, allowed + 1))
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
            if not _applied(mutant, functions, path):
                os._exit(3)
            for place, number in enumerate(tests):
                os.write(write, f"{number} ".encode())
                self.failed = False
                following = self.items[tests[place + 1]] if place + 1 < len(tests) else None
                self.run(self.items[number], number, following)
                if self.failed:
                    os._exit(1)
            os._exit(0)
        os.close(write)
        code = _waited(child, 600 + 20 * sum(self.times[i] for i in tests))
        with os.fdopen(read) as file:
            begun = file.read().split()
        if code == 3:
            return facts | {"fate": "not applied"}
        if code == 0:
            fate = "survived" if tests else "never called"
            print(f"  {fate:<12} {mutant.path}:{mutant.line} {mutant.before} → {mutant.after}", flush=True)
            return facts | {"fate": fate}
        last = int(begun[-1])
        self.killers[mutant.path + mutant.function][last] += 1
        if code < 0:
            print(f"  signal {-code:<5} {mutant.path}:{mutant.line} {mutant.before} → {mutant.after}", flush=True)
        return facts | {"fate": "killed", "by": self.layer(last), "test": self.items[last].nodeid}


def _too_long(*_: Any) -> None:
    raise TimeoutError


def _quiet() -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def _waited(child: int, limit: float) -> int:
    """Return the child's exit status; one that takes longer than the limit on the clock is ended."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -9


def _applied(mutant: Mutant, functions: dict[tuple[str, str], list[FunctionType]], path: str) -> bool:
    """Put the change into this process; tell whether there was a place for it."""
    tree = changed_tree(mutant, ROOT)
    if ":" in mutant.function:
        return _constant_changed(mutant, tree, path)
    fresh = {(c.co_qualname, c.co_firstlineno): c for c in codes(compile(tree, path, "exec"))}
    done = False
    for function in functions[(path, mutant.function)]:
        code = fresh.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
        if code is not None and len(code.co_freevars) == len(function.__code__.co_freevars):
            function.__code__ = code
            done = True
            for thing in gc.get_objects():  # what was computed before the fork
                if isinstance(thing, _lru_cache_wrapper) and thing.__wrapped__ is function:
                    thing.cache_clear()
    return done


def _constant_changed(mutant: Mutant, tree: ast.Module, path: str) -> bool:
    owner, _, name = mutant.function.partition(":")
    old, new = ast.literal_eval(mutant.before), ast.literal_eval(mutant.after)
    loaded = [m for n, m in list(sys.modules.items()) if n.startswith("squeak") and getattr(m, "__file__", None)]
    if owner:
        module = next((m for m in loaded if m.__file__ == path), None)
        cls = getattr(module, owner, None)
        if cls is None or vars(cls).get(name) != old:
            return False
        setattr(cls, name, new)
        return True
    holders = [m for m in loaded if type(vars(m).get(name)) is type(old) and vars(m)[name] == old]
    for module in holders:
        setattr(module, name, new)
    return bool(holders)


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the scores: killed of all that could be, with exact binomial intervals of 95%."""
    from scipy.stats import binomtest

    real = [m for m in found if m["fate"] not in ("equivalent", "not applied")]
    by = Counter(m["by"] for m in real if m["fate"] == "killed")
    told: dict[str, Any] = {"mutants": len(real), "equivalent": sum(m["fate"] == "equivalent" for m in found)}
    for name, layers in (
        ("room", ["room"]),
        ("claims", ["room", "shared"]),
        ("all", ["room", "shared", "digests"]),
    ):
        killed = sum(by[layer] for layer in layers)
        low, high = binomtest(killed, max(len(real), 1)).proportion_ci(0.95, "exact")
        told[name] = {"killed": killed, "score": killed / max(len(real), 1), "low": float(low), "high": float(high)}
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how many mutants of a room its tests kill.")
    parser.add_argument("--room", choices=ROOMS, required=True)
    parser.add_argument("--sample", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=10.0, help="seconds of tests per mutant and layer")
    parser.add_argument("--shared", action="store_true", help="run the contract and the battery as well")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so many: a smaller sample")
    parser.add_argument("--again", action="store_true", help="only those that survived last time, after new tests")
    given = parser.parse_args()
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    marks: dict[str, str] = stored.setdefault("equivalent", {})
    entry = stored.setdefault("rooms", {}).setdefault(given.room, {})
    before = entry.get("survivors", []) if given.again else []
    keys = [mutant["key"] for mutant in before]
    harness = Harness(given.room, given.sample, given.seed, given.budget, set(marks), keys)
    harness.end = time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory() as folder:
        doctests = [f"src/squeak/{source}" for source in ROOMS[given.room][0]]
        arguments = [
            *ROOMS[given.room][1],
            *doctests,
            *(SHARED if given.shared else ()),
            DIGESTS,
            f"--basetemp={folder}/t",
        ]
        pytest.main([*arguments, "-s", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"], [harness])
    found, first = harness.found, None
    if before:
        last, first = entry["after"], entry["before"]
        given.sample, given.seed = entry["sample"], entry["seed"]
        found = found + entry["by_digests_alone"] + [{"fate": "killed", "by": "room"}] * last["room"]["killed"]
        found += [{"fate": "killed", "by": "shared"}] * (last["claims"]["killed"] - last["room"]["killed"])
        found += [{"fate": "equivalent"}] * last["equivalent"]
    told = summary(found)
    survivors = [m for m in found if m["fate"] in ("survived", "never called")]
    digests = [m for m in found if m.get("by") == "digests"]
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else stored  # another room may have ended
    entry = stored.setdefault("rooms", {}).setdefault(given.room, {})
    entry.clear()
    entry.update(sample=given.sample, seed=given.seed, budget=given.budget, processor_seconds=harness.seconds)
    entry.update(before=first or told, after=told, survivors=survivors, by_digests_alone=digests)
    RESULTS.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
    for name in ("room", "claims", "all"):
        part = told[name]
        words = (
            f"{part['killed']} of {told['mutants']}, {part['score']:.1%} ({part['low']:.1%} to {part['high']:.1%})"
        )
        print(f"  {given.room}, {name}: {words}")
    print(f"  {harness.seconds:.0f} s of processor time")


if __name__ == "__main__":
    main()
