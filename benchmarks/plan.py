"""``squeak plan`` beside real runs: commands on files of a million rows, and dictionaries on 1, 2 and 4 workers.

Two cores, which four workers share. Commands are run as new processes: first the plan, then what it was about; the
time is that of the whole process. ``stages`` compares the stages of a fit in processor seconds on one thread, which
other work on the machine hardly changes. ``scale`` predicts the runs of ``results/scale.json`` whose rows are made
as they are read. The calibration's numbers are kept, and the table of the docs out to 10¹² rows is computed from
them: an extrapolation. ``--parts`` measures some of it and keeps the rest as it was.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cluster import on_workers
from benchmarks.common import RESULTS, save
from benchmarks.scale import ALPHA, ONLINE_ATOMS, Make, source_of
from benchmarks.scaling import make_rows

LENGTHS, WORKERS, DIM, ATOMS = (100_000, 1_000_000, 10_000_000), (1, 2, 4), 8, 500
PARTS = ("commands", "stages", "scale", "workers", "large")
ROW_GROUP = 100_000
UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
LEARN = ["--kernel", "rbf", "--length-scale", "5", "--max-atoms", str(ATOMS), "--scale", "none"]


def write_files(folder: Path, rows: int) -> None:
    """Write the rows of the runs as npy, Parquet and CSV; the last column is the target."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    X, y = Make()(np.random.default_rng(0), rows)
    whole = np.column_stack([X, y])
    names = [*(f"x{j}" for j in range(DIM)), "y"]
    table = pa.table({name: whole[:, place] for place, name in enumerate(names)})
    np.save(folder / "rows.npy", whole)
    parquet.write_table(table, folder / "rows.parquet", row_group_size=ROW_GROUP)
    csv.write_csv(table, folder / "rows.csv")


def commands(folder: Path) -> dict[str, list[str]]:
    """Return what is planned and run, by name; results are written to the folder."""
    found = {}
    for ending, target in (("npy", str(DIM)), ("parquet", "y"), ("csv", "y")):
        file = str(folder / f"rows.{ending}")
        found[f"dictionary, {ending}"] = ["dictionary", file, "--drop", target, *LEARN]
        found[f"fit, {ending}"] = ["fit", file, "--target", target, "--alpha", "1", *LEARN]
    found["predict, parquet"] = ["predict", str(folder / "fit, parquet.sqk"), str(folder / "rows.parquet")]
    for name in ("dictionary, parquet", "fit, parquet"):
        found[f"{name}, 2 workers"] = [*found[name], "--workers", "2"]
    return found


def ran(*words: str) -> tuple[str, float]:
    """Run a command in a new process; return what it printed, and its seconds."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "squeak", *words], capture_output=True, text=True, check=False, env=os.environ
    )
    if done.returncode:
        raise RuntimeError(f"squeak {' '.join(words)}: {done.stderr}")
    return done.stdout, time.perf_counter() - start


def told(page: str) -> tuple[float, dict[str, float]]:
    """Return the seconds of a plan's page, and those of its stages."""
    line = next(line for line in page.splitlines() if line.startswith("time"))
    number = r"([\d.,]+) (ms|s|min|h)\b"
    whole = re.search(number, line)
    assert whole is not None, line
    stages = re.findall(rf"([a-z][a-z0-9 ]*) {number}", line.rsplit("rows: ", 1)[-1])
    return _seconds(*whole.groups()), {name.strip(): _seconds(value, unit) for name, value, unit in stages}


def _seconds(number: str, unit: str) -> float:
    return float(number.replace(",", "")) * UNITS[unit]


def one_pass(folder: Path, plans: list[dict[str, Any]]) -> list[float]:
    """Return the seconds of fits that read the rows once, each in a process of its own, as often as was planned."""
    code = (
        "import sys, squeak; from squeak.kernels import RBF; source = squeak.rows(sys.argv[1], target='y')\n"
        f"model = squeak.KernelRidge(RBF(5.0), alpha=1.0, max_atoms={ATOMS}, fit_intercept=True, random_state=0)\n"
        "model.fit(squeak.rows(iter(source), target=True)).save(sys.argv[2])"
    )
    found = []
    for _ in plans:
        start = time.perf_counter()
        words = [sys.executable, "-c", code, str(folder / "rows.parquet"), str(folder / "once.sqk")]
        subprocess.run(words, check=True)
        found.append(time.perf_counter() - start)
    return found


def against_commands(rows: int, repeats: int, wanted: Callable[[str], bool]) -> list[dict[str, Any]]:
    """Plan and run every command in turn, as often as asked, and return the medians."""
    records = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, rows)
        for what, words in commands(folder).items():
            if not wanted(what) and what != "fit, parquet":
                continue
            out = str(folder / f"{what}{'.parquet' if words[0] == 'predict' else '.sqk'}")
            plans, times = [], []
            for _ in range(repeats):
                page, measuring = ran("plan", *words)
                seconds, stages = told(page)
                plans.append({"seconds": seconds, "stages": stages, "measuring": measuring})
                times.append(ran(*words, "--out", out, "--overwrite")[1])
            records.append(_record(what, rows, plans, times))
            if what == "fit, parquet":  # the same work, with the rows read once
                records.append(_record("fit in one pass, parquet", rows, plans, one_pass(folder, plans)))
    return records


def _record(what: str, rows: int, plans: list[dict[str, Any]], times: list[float]) -> dict[str, Any]:
    predicted = float(np.median([one["seconds"] for one in plans]))
    ratios = [one["seconds"] / spent for one, spent in zip(plans, times, strict=True)]
    found = {
        "what": what,
        "rows": rows,
        "predicted_seconds": predicted,
        "seconds": float(np.median(times)),
        "ratios": ratios,
        "measuring": float(np.median([one["measuring"] for one in plans])),
        "stages": plans[-1]["stages"],
        "load": os.getloadavg()[0],
    }
    print(
        f"  {what}: {predicted:.1f} s predicted, {found['seconds']:.1f} measured; "
        f"ratios {', '.join(f'{ratio:.2f}' for ratio in ratios)}; load {found['load']:.1f}",
        flush=True,
    )
    return found


STAGES = """
import json, sys, time
time.perf_counter = time.monotonic = time.process_time  # before anything takes them
import squeak
from sklearn.base import clone
from squeak.cli import forecast
from squeak.core.progress import Job
from squeak.kernels import RBF
source = squeak.rows(sys.argv[1], target=int(sys.argv[2]) if sys.argv[2].isdigit() else sys.argv[2])
model = squeak.KernelRidge(RBF(5.0), alpha=1.0, max_atoms=int(sys.argv[3]), fit_intercept=True, random_state=0)
planned = forecast.of_fit(source, model, None, 0.0)
with Job("", True, shown=False) as job:
    clone(model).set_params(verbose=1).fit(source)
print(json.dumps({name: [planned.stages[name], job.times[name]] for name in ("dictionary", "pass 2")}))
"""


def against_stages(rows: int) -> list[dict[str, Any]]:
    """Predict and measure the stages of fits, each in a process of its own whose clock is its processor's."""
    records = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, rows)
        threads = {"SQUEAK_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        for ending, target in (("npy", str(DIM)), ("parquet", "y"), ("csv", "y")):
            words = [sys.executable, "-c", STAGES, str(folder / f"rows.{ending}"), target, str(ATOMS)]
            done = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ | threads)
            for stage, (predicted, spent) in json.loads(done.stdout.splitlines()[-1]).items():
                records.append(
                    {"what": f"{stage}, {ending}", "rows": rows, "predicted_seconds": predicted, "seconds": spent}
                )
                print(f"  {stage}, {ending}: {predicted:.2f} s predicted, {spent:.2f} measured", flush=True)
    return records


def against_scale(known: list[dict[str, Any]], wanted: Callable[[str], bool]) -> list[dict[str, Any]]:
    """Predict the runs of the scale benchmark in which rows are made as they are read, beside what they took.

    ``known``: predictions of before; those of runs that were not measured again stay.
    """
    import squeak
    from squeak.cli import forecast
    from squeak.cli.forecast_answers import of_prediction, of_stream
    from squeak.kernels import RBF
    from squeak.online import ConKonsRegressor

    runs = json.loads((RESULTS / "scale.json").read_text())["runs"]
    measured = {(one["stage"], one["rows"], one["seconds"]) for one in runs}
    records = [old for old in known if (old["what"], old["rows"], old["seconds"]) in measured]
    old = {(record["what"], record["rows"]) for record in records}
    for one in runs:
        words = f"{one['stage']}, {one['rows']:,} rows"
        if (one["stage"], one["rows"]) in old or "killed" in words or not wanted(words):
            continue
        source, common = source_of(one["rows"], Make(), Path()), {"max_atoms": one["max_atoms"], "random_state": 0}
        ridge = squeak.KernelRidge(RBF(5.0), alpha=ALPHA, **common)
        if one["stage"] == "dictionary":
            planned = forecast.of_dictionary(source, squeak.Squeak(RBF(5.0), **common), None, 0.0)
        elif one["stage"].startswith("ridge"):
            planned = forecast.of_fit(source, ridge, None, 0.0)
        elif one["stage"] == "online":
            planned = of_stream(source, ConKonsRegressor(RBF(5.0), max_atoms=ONLINE_ATOMS, random_state=0))
        elif one["stage"] == "predict":  # by a model with as many atoms, of fewer rows
            fitted = ridge.fit(source_of(min(one["rows"], 100_000), Make(), Path()))
            planned = of_prediction(source, fitted, lambda batch: None)
        else:
            continue
        seconds = sum(spent for stage, spent in planned.stages.items() if stage != "start")  # not in the run's time
        found = {"what": one["stage"], "rows": one["rows"], "predicted_seconds": seconds, "seconds": one["seconds"]}
        records.append(found)
        print(
            f"  {one['stage']}, {one['rows']:,} rows: {seconds:.1f} s predicted, {one['seconds']:.1f} measured",
            flush=True,
        )
    return sorted(records, key=lambda found: (found["what"], found["rows"]))


def against_workers() -> dict[str, Any]:
    """Predict and run dictionaries on workers of this machine, from made rows alone."""
    import squeak
    from squeak.core.engine import thread_count
    from squeak.samplers.planning import calibrate, plan

    known = calibrate(DIM, ATOMS)
    records: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "rows.npy"
        make_rows(path, max(LENGTHS), DIM)
        X, part = np.load(path, mmap_mode="r"), Path(name) / "part.npy"
        for rows in LENGTHS:
            np.save(part, X[:rows])
            source = squeak.rows(part)
            for workers in WORKERS:
                leaves = min(64, source.n_parts)
                found = plan(rows, DIM, ATOMS, workers, cores=thread_count(), leaves=leaves, calibration=known)
                real = on_workers(source, workers, n_leaves=None)
                records.append(
                    {
                        "rows": rows,
                        "workers": workers,
                        "predicted_seconds": found.seconds,
                        "seconds": real["seconds"],
                        "predicted_mb": found.memory / 1e6,
                        "peak_mb": real["peak_mb"],
                    }
                )
                print(
                    f"  {rows:,} rows, {workers} workers: {found.seconds:.1f} s predicted, "
                    f"{real['seconds']:.1f} measured; "
                    f"{found.memory / 1e6:.0f} and {real['peak_mb']:.0f} MB",
                    flush=True,
                )
    ratios = [record["predicted_seconds"] / record["seconds"] for record in records]
    print(f"  predicted over measured: {min(ratios):.2f} to {max(ratios):.2f}")
    return {"calibration": asdict(known), "runs": records}


def extrapolated() -> dict[str, Any]:
    """Measure what the table of the docs is computed from."""
    from squeak.samplers.planning import calibrate

    return {"large": asdict(calibrate(50, 2000))}


def run(options: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks plan", description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--rows", type=float, default=1e6, help="of the commands")
    parser.add_argument("--repeats", type=int, default=3, help="of every command and of its plan")
    parser.add_argument("--only", default="", help="a word of the commands or runs; all without one")
    given = parser.parse_args(options or [])
    file = RESULTS / "plan.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    known.pop("measured_with", None)
    for part in given.parts.split(","):
        if part == "commands":
            fresh = against_commands(int(given.rows), given.repeats, lambda what: given.only in what)
            names = {one["what"] for one in fresh}
            known["commands"] = [old for old in known.get("commands", []) if old["what"] not in names] + fresh
        elif part == "stages":
            known["stages"] = against_stages(int(given.rows))
        elif part == "scale":
            known["scale"] = against_scale(known.get("scale", []), lambda what: given.only in what)
        elif part in PARTS:
            known |= against_workers() if part == "workers" else extrapolated()
        else:
            parser.error(f"--parts are some of {', '.join(PARTS)}")
        save("plan", known)
