"""Files larger than the memory we allow: 10⁷ rows × 20 columns through the command, against the same in memory.

The command runs as a user runs it, in a process of its own: its whole time counts, from start to exit, and its
whole resident memory. The run from memory counts only ``fit``. They take turns.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.common import save

ROWS, COLUMNS, BLOCK = 10_000_000, 20, 100_000
OPTIONS = {"length_scale": 6.0, "max_atoms": 500, "seed": 0}


def make_rows(folder: Path, n: int) -> None:
    """Write the same rows as Parquet, CSV and npy, block by block: a mixture of 30 clusters, to 6 digits."""
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    centres = 3 * rng.standard_normal((30, COLUMNS))
    names = [f"x{column}" for column in range(COLUMNS)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    out = np.lib.format.open_memmap(folder / "rows.npy", mode="w+", dtype=np.float64, shape=(n, COLUMNS))
    with (
        pq.ParquetWriter(folder / "rows.parquet", schema) as parquet,
        pc.CSVWriter(folder / "rows.csv", schema) as text,
    ):
        for start in range(0, n, 10 * BLOCK):
            size = min(10 * BLOCK, n - start)
            X = np.round(centres[rng.integers(0, 30, size)] + rng.standard_normal((size, COLUMNS)), 6)
            out[start : start + size] = X
            table = pa.table(list(X.T), schema=schema)
            parquet.write_table(table)
            text.write_table(table)
    out.flush()


def command(path: Path, out: Path) -> dict[str, float]:
    """Run ``squeak dictionary`` on a file and return its seconds and its largest resident memory."""
    arguments = [
        sys.executable,
        "-m",
        "squeak",
        "dictionary",
        str(path),
        "--out",
        str(out),
        "--quiet",
        "--scale",
        "none",
    ]
    for name, value in OPTIONS.items():
        arguments += [f"--{name.replace('_', '-')}", str(value)]
    start = time.perf_counter()
    child = subprocess.Popen(arguments)
    peak = 0.0
    while child.poll() is None:
        peak = max(peak, _peak_mb(child.pid))
        time.sleep(0.01)
    if child.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed")
    return {"seconds": time.perf_counter() - start, "peak_mb": peak}


def _peak_mb(process: int) -> float:
    """Return the largest resident memory that a process has had, libraries and mapped files included."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def in_memory(path: str) -> None:
    """Run in a fresh process: load all rows, then time ``fit``."""
    from squeak import Squeak
    from squeak.kernels import RBF

    X = np.load(path)
    sampler = Squeak(
        kernel=RBF(OPTIONS["length_scale"]), max_atoms=int(OPTIONS["max_atoms"]), random_state=int(OPTIONS["seed"])
    )
    start = time.perf_counter()
    sampler.fit(X)
    print(json.dumps({"seconds": time.perf_counter() - start}))
    sampler.dictionary_.save(sys.argv[2])


def run(rounds: int = 3, n: int = ROWS) -> None:
    import squeak

    found: dict[str, list[dict[str, float]]] = {"memory": [], "parquet": [], "csv": [], "npy": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_rows(folder, n)
        sizes = {path.suffix[1:]: path.stat().st_size / 1e6 for path in folder.iterdir()}
        for _ in range(rounds):
            mine = [sys.executable, "-m", "benchmarks.files", str(folder / "rows.npy"), str(folder / "memory.sqk")]
            done = subprocess.run(mine, capture_output=True, text=True, check=True)
            found["memory"].append(json.loads(done.stdout))
            for kind in ("parquet", "csv", "npy"):
                found[kind].append(command(folder / f"rows.{kind}", folder / f"{kind}.sqk"))
        memory = squeak.load(folder / "memory.sqk")
        same = {
            kind: bool(
                np.array_equal(memory.atoms, other.atoms)
                and np.array_equal(memory.probabilities, other.probabilities)
            )
            for kind in ("parquet", "csv", "npy")
            for other in [squeak.load(folder / f"{kind}.sqk")]
        }
    result = {
        "rows": n,
        "columns": COLUMNS,
        "options": OPTIONS,
        "megabytes": sizes,
        "same_bits": same,
        "atoms": len(memory),
    }
    base = np.array([entry["seconds"] for entry in found["memory"]])
    result["memory"] = {"rows_a_second": float(n / np.median(base))}
    print(f"  from memory {n / np.median(base):12,.0f} rows a second")
    for kind in ("parquet", "csv", "npy"):
        seconds = np.array([entry["seconds"] for entry in found[kind]])
        part = base / seconds
        peak = max(entry["peak_mb"] for entry in found[kind])
        result[kind] = {
            "rows_a_second": float(n / np.median(seconds)),
            "part_of_memory": float(np.median(part)),
            "spread": [float(part.min()), float(part.max())],
            "peak_mb": peak,
        }
        print(
            f"  {kind:<11} {n / np.median(seconds):12,.0f} rows a second, {np.median(part):.2f} of memory's "
            f"({part.min():.2f} to {part.max():.2f}), peak {peak:.0f} MB, same bits: {same[kind]}"
        )
    save("files", result)


if __name__ == "__main__":
    in_memory(sys.argv[1])
