"""Tables in, models out: squeak's automatic models beside gradient boosters, a forest, Nyström ridge and xRFM.

    python -m benchmarks tables                                   everything that is not cached yet
    python -m benchmarks tables --tables casp,a9a --methods squeak,lightgbm --splits 0,1
    python -m benchmarks tables --methods squeak --again          after a change of our model
    python -m benchmarks tables --times                           times, on a quiet machine
    python -m benchmarks tables --growth 10000,100000             time and memory of our fit as rows grow

Errors are the root mean squared error or the part of wrong classes on rows that no method saw. Every result is
one line of ``results/tables.jsonl``, found again by table, split, method and version of the method's settings: a
run that was stopped goes on where it was. Runs for errors have one thread by default, and their times count only as
processor seconds. ``--times`` measures each method in a process of its own, one after the other, round after round.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import squeak
from benchmarks.common import RESULTS, PeakMemory, ratio, save
from benchmarks.tables_data import CLASSES, MOST_ROWS, NAMES, SPLITS, Split, here, load
from benchmarks.tables_growth import SIZES, grow
from benchmarks.tables_methods import METHODS, at_hand
from benchmarks.tables_page import summary

LINES = RESULTS / "tables.jsonl"
TIMED = ("cadata", "letter", "casp", "covtype", "nycflights")
UNTIMED = ("quantile", "hist_searched", "lightgbm_searched", "catboost_searched")
LIMIT = 120.0 / 50_000
"""Processor seconds that a search may take for each training row until squeak's own fit has been measured: our
declared limit, 60 s on two cores for 50,000 rows."""
LEAST_BUDGET = 10.0
COVERAGE = 0.9

Key = tuple[str, int, str, int]


def recorded() -> dict[Key, dict[str, Any]]:
    """Return the cached results; of several with one key the last one counts."""
    if not LINES.exists():
        return {}
    records = [json.loads(line) for line in LINES.read_text().splitlines()]
    return {(r["table"], r["split"], r["method"], r["settings"]): r for r in records}


def keep(record: dict[str, Any]) -> None:
    """Add a result to the cache."""
    RESULTS.mkdir(exist_ok=True)
    with LINES.open("a") as file:
        file.write(json.dumps(record) + "\n")


def code_digest() -> str:
    """Return a short digest of squeak's source: results of different states of the code differ in it."""
    source = Path(squeak.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(source.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def budget(found: dict[Key, dict[str, Any]], data: Split) -> float:
    """Return the processor seconds of a search: those of our fit to the same table, or the declared limit."""
    ours = [r["cpu_seconds"] for r in found.values() if r["table"] == data.table and r["method"] == "squeak"]
    return max(LEAST_BUDGET, float(np.median(ours)) if ours else LIMIT * len(data.y))


def interval_facts(low: np.ndarray, high: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return coverage and mean width, over all rows and in each tenth of the rows by predicted width."""
    inside = (low <= y) & (y <= high)
    tenths = np.array_split(np.argsort(high - low, kind="stable"), 10)
    return {
        "coverage": float(inside.mean()),
        "width": float(np.mean(high - low)),
        "tenths": [float(inside[rows].mean()) for rows in tenths],
    }


def measure(data: Split, name: str, threads: int, seconds: float) -> dict[str, Any]:
    """Fit one method to one split, and return its errors, its times and its memory beyond the rows."""
    from sklearn.metrics import log_loss

    method = METHODS[name]
    os.environ["SQUEAK_NUM_THREADS"] = str(threads)
    with warnings.catch_warnings(), threadpool_limits(threads):
        warnings.simplefilter("ignore")
        model = method.build(data, threads, *([seconds] if method.budgeted else []))
        with PeakMemory() as memory:
            wall, processor = time.perf_counter(), time.process_time()
            model.fit(data.X, data.y)
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
        start = time.perf_counter()
        predicted = np.ravel(model.predict(data.X_test))
        predict_seconds = time.perf_counter() - start
        found: dict[str, Any] = {
            "rows": len(data.y),
            "columns": data.X.shape[1],
            "fit_seconds": wall,
            "cpu_seconds": processor,
            "predict_seconds": predict_seconds,
            "peak_mb": memory.peak / 1e6,
            "threads": threads,
        }
        if data.classes:
            found["error"] = float(np.mean(predicted != data.y_test))
            if hasattr(model, "predict_proba"):
                chances = np.asarray(model.predict_proba(data.X_test), dtype=np.float64)
                found["log_loss"] = float(log_loss(data.y_test, chances, labels=np.arange(data.classes)))
        else:
            found["error"] = float(np.sqrt(np.mean((predicted - data.y_test) ** 2)))
            if hasattr(model, "predict_interval"):
                bounds = model.predict_interval(data.X_test, coverage=COVERAGE)
                low, high = bounds if isinstance(bounds, tuple) else np.asarray(bounds).T
                found["interval"] = interval_facts(np.asarray(low), np.asarray(high), data.y_test)
    if method.budgeted:
        found |= {"budget": seconds, "trials": model.trials_}
    if name == "squeak":
        found["code"] = code_digest()
    found["with"] = version(method.package or ("squeak-learn" if name in ("squeak", "before") else "scikit-learn"))
    return found


def errors(options: argparse.Namespace) -> None:
    """Measure what is chosen and not cached, split after split and table after table."""
    found = recorded()
    wanted = [
        (split, table, name)
        for split in options.splits
        for table in options.tables
        for name in options.methods
        if (options.again or (table, split, name, METHODS[name].settings) not in found)
        and not (METHODS[name].regression_only and table in CLASSES)
    ]
    data: Split | None = None
    place: tuple[str, int] | None = None
    for number, (split, table, name) in enumerate(wanted, 1):
        found = recorded()
        if not options.again and (table, split, name, METHODS[name].settings) in found:
            continue  # another run, beside this one, has measured it
        if place != (table, split):
            data, place = load(table, split), (table, split)
        assert data is not None
        words = f"  [{number}/{len(wanted)}] {table}, split {split}, {name}"
        try:
            result = measure(data, name, options.threads, budget(found, data))
        except Exception as problem:  # one method that fails must not end hours of others
            print(f"{words}: failed, {type(problem).__name__}: {problem}", flush=True)
            continue
        key = {"table": table, "split": split, "method": name, "settings": METHODS[name].settings}
        keep(key | result | {"quiet": False})
        print(f"{words}: {result['error']:.5g} ({result['cpu_seconds']:.1f} s of the processor)", flush=True)


def times(options: argparse.Namespace) -> None:
    """Time fit and prediction of every method in turn, each in a process of its own; ratios are to squeak's."""
    names = [name for name in options.methods if name not in UNTIMED]
    result: dict[str, Any] = {}
    for table in options.tables:
        shape: dict[str, int] = {}
        seconds: dict[str, dict[str, list[float]]] = {"fit": {}, "predict": {}, "peak_mb": {}}
        for round_ in range(options.rounds):
            for name in names:
                command = [sys.executable, "-m", "benchmarks.tables", table, name, str(options.threads)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    print(f"  {table}, {name}: failed, {done.stderr.strip().splitlines()[-1]}", flush=True)
                    continue
                one = json.loads(done.stdout.splitlines()[-1])
                shape = {"rows": one["rows"], "columns": one["columns"]}
                seconds["fit"].setdefault(name, []).append(one["fit_seconds"])
                seconds["predict"].setdefault(name, []).append(one["predict_seconds"])
                seconds["peak_mb"].setdefault(name, []).append(one["peak_mb"])
                print(f"  round {round_ + 1}, {table}, {name}: fit {one['fit_seconds']:.2f} s", flush=True)
        facts: dict[str, Any] = {
            what: {name: float(np.median(values)) for name, values in each.items()}
            for what, each in seconds.items()
        }
        for what in ("fit", "predict"):
            whole = {name: each for name, each in seconds[what].items() if len(each) == options.rounds}
            if "squeak" in whole:
                facts[f"{what}_ratio"] = {name: ratio(whole, name, "squeak") for name in whole if name != "squeak"}
        result[table] = facts | shape
        save("tables_times", {"threads": options.threads, "rounds": options.rounds, "tables": result})


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Return the options of a run, with tables and methods that are at hand."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks tables", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--tables", help="names, with commas between them")
    parser.add_argument("--methods", help=f"of {', '.join(METHODS)}")
    parser.add_argument("--splits", help=f"numbers from 0 to {SPLITS - 1}")
    parser.add_argument("--threads", type=int, help="1 by default; with --times, all cores")
    parser.add_argument("--again", action="store_true", help="measure what is cached, too")
    parser.add_argument("--times", action="store_true", help="times instead of errors: the machine must be quiet")
    parser.add_argument("--growth", nargs="?", const="", help="rows of a made table: how time and memory grow")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of --times")
    found = parser.parse_args(options)
    for what, known in (("tables", TIMED if found.times else NAMES), ("methods", tuple(METHODS))):
        given = getattr(found, what)
        names = given.split(",") if given else list(known)
        unknown = [name for name in names if name not in (NAMES if what == "tables" else METHODS)]
        if unknown:
            parser.error(f"--{what}: there is no {', '.join(unknown)}")
        present = [name for name in names if (here if what == "tables" else at_hand)(name)]
        if absent := [name for name in names if name not in present]:
            print(f"  not at hand, left out: {', '.join(absent)}")
        setattr(found, what, present)
    found.splits = [int(number) for number in found.splits.split(",")] if found.splits else list(range(SPLITS))
    found.threads = found.threads or (len(os.sched_getaffinity(0)) if found.times else 1)
    return found


def run(options: Sequence[str] = ()) -> None:
    """Measure errors, or times, and write the summary of all that is cached."""
    chosen = parse(options)
    if chosen.growth is not None:
        grow([int(n) for n in chosen.growth.split(",")] if chosen.growth else list(SIZES))
        return
    (times if chosen.times else errors)(chosen)
    current = {key: r for key, r in recorded().items() if METHODS[key[2]].settings == key[3]}
    save("tables", summary(list(current.values())) | {"most_rows": MOST_ROWS})


if __name__ == "__main__":
    table_, method_, threads_ = sys.argv[1:]
    print(json.dumps(measure(load(table_, 0), method_, int(threads_), LEAST_BUDGET)))
