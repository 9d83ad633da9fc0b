"""How time and memory of our automatic fit grow with the rows of a made table: ``tables --growth 10000,100000``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import squeak
from benchmarks.common import RESULTS, PeakMemory, save

SIZES = (10_000, 100_000, 1_000_000)

LIMIT = 400.0
"""Processor seconds after which xRFM is stopped."""


def made(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a table of ten columns, of which five matter, and a target with kinks, a jump and noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 10))
    y = np.sin(3 * X[:, 0]) + np.abs(X[:, 1]) * X[:, 2] + np.where(X[:, 3] > 0, X[:, 4], 0.0)
    return X, y + 0.3 * rng.standard_normal(n)


def one(n: int, peer: bool = False) -> dict[str, Any]:
    """Fit n rows, and return times, memory beyond the rows, and the error on 10,000 others; 0.3 is noise."""
    X, y = made(n, 0)
    model: Any = squeak.AutoRegressor(random_state=0)
    if peer:
        from benchmarks.tables_methods import XRFM

        model = XRFM(0, len(os.sched_getaffinity(0)))
    with PeakMemory() as memory:
        wall, processor = time.perf_counter(), time.process_time()
        model.fit(X, y)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
    new, truth = made(10_000, 1)
    error = float(np.sqrt(np.mean((model.predict(new) - truth) ** 2)))
    facts = {"fit_seconds": wall, "cpu_seconds": processor, "peak_mb": memory.peak / 1e6, "error": error}
    return facts if peer else facts | {"trees": model.trees}


def grow(sizes: list[int]) -> None:
    """Measure every size in a process of its own; those measured before stay in the file."""
    path = RESULTS / "tables_growth.json"
    found = json.loads(path.read_text())["sizes"] if path.exists() else {}
    for n in sizes:
        command = [sys.executable, "-m", "benchmarks.tables_growth", str(n)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[str(n)] = json.loads(done.stdout.splitlines()[-1])
        print(f"  {n:,} rows: {found[str(n)]}", flush=True)
        save("tables_growth", {"threads": len(os.sched_getaffinity(0)), "sizes": found})


def growth_table(found: dict[str, Any]) -> str:
    """Return the part of the page."""
    if not found:
        return "It has not been measured yet: `python -m benchmarks tables --growth`."
    lines = [
        f"A made table of ten columns, {found['threads']} threads, a process for each size; memory is beyond the "
        "rows, and 0.3 of the error is noise.",
        "",
        "| rows | seconds | of the processor | over rows·log(rows), relative to the first | memory | error |",
        "|---|---|---|---|---|---|",
    ]
    sizes = sorted(found["sizes"], key=int)
    rates = {n: found["sizes"][n]["cpu_seconds"] / (int(n) * np.log(int(n))) for n in sizes}
    for n in sizes:
        facts = found["sizes"][n]
        relative = f"{rates[n] / rates[sizes[0]]:.2f}" if facts.get("trees", True) else "–"
        lines.append(
            f"| {int(n):,}{'' if facts.get('trees', True) else ', `trees=False`'} | {facts['fit_seconds']:.0f} | "
            f"{facts['cpu_seconds']:.0f} | {relative} | {facts['peak_mb']:.0f} MB | {facts['error']:.3f} |"
        )
    if "xRFM" in found:
        facts = found["xRFM"]
        ours = found["sizes"][str(facts["rows"])]["cpu_seconds"]
        took = (
            f"takes {facts['cpu_seconds']:.0f} s of the processor, {facts['cpu_seconds'] / ours:.1f} times what ours takes, with an error of {facts['error']:.3f}"
            if facts["ended"]
            else f"had not ended after {facts['cpu_seconds']:.0f} s of the processor ({facts['cpu_seconds'] / ours:.1f} times what ours takes) and was stopped"
        )
        lines += [
            "",
            f"On {facts['rows']:,} of these rows xRFM (leaves of at most 10,000 rows) {took}; it held {facts['peak_mb'] / 1000:.1f} GB. Other work ran beside it, so that only "
            "processor time is compared (`python -m benchmarks.tables_growth 50000 xrfm`, in an environment that has xRFM).",
        ]
    if not all(facts.get("trees", True) for facts in found["sizes"].values()):
        lines += [
            "",
            "The lines with `trees=False` were measured before trees were a part of these models, on another "
            "machine and with other work beside them.",
        ]
    return "\n".join(lines)


def beside_xrfm(n: int) -> None:
    """Measure xRFM on one of the sizes, in a process of its own that is stopped after :data:`LIMIT` seconds."""
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.tables_growth", str(n), "peer"], stdout=subprocess.PIPE
    )
    spent, peak = 0.0, 0.0
    while child.poll() is None and spent < LIMIT:
        time.sleep(1.0)
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        spent = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
        held = [
            line for line in Path(f"/proc/{child.pid}/status").read_text().splitlines() if line.startswith("VmHWM")
        ]
        peak = float(held[0].split()[1]) * 1.024e-3 if held else peak
    facts: dict[str, Any] = {"rows": n, "ended": child.poll() == 0, "cpu_seconds": spent, "peak_mb": peak}
    child.kill()
    if facts["ended"] and child.stdout is not None:
        facts |= json.loads(child.stdout.read().splitlines()[-1])
    print(facts)
    save("tables_growth", {**json.loads((RESULTS / "tables_growth.json").read_text()), "xRFM": facts})


if __name__ == "__main__":
    if sys.argv[2:] == ["xrfm"]:
        beside_xrfm(int(sys.argv[1]))
    else:
        print(json.dumps(one(int(sys.argv[1]), peer=sys.argv[2:] == ["peer"])))
