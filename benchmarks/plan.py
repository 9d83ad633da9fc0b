"""``squeak plan`` beside real runs: time and a worker's memory from 10⁵ to 10⁷ rows, on 1, 2 and 4 workers.

Two cores, which four workers share. The calibration's numbers are kept, and the table of the docs out to 10¹² rows
is computed from them: an extrapolation.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cluster import on_workers
from benchmarks.common import save
from benchmarks.scaling import make_rows

LENGTHS, WORKERS, DIM, ATOMS = (100_000, 1_000_000, 10_000_000), (1, 2, 4), 8, 500


def run() -> None:
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
                found = plan(
                    rows,
                    DIM,
                    ATOMS,
                    workers,
                    cores=thread_count(),
                    leaves=min(64, source.n_parts),
                    calibration=known,
                )
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
    large = calibrate(50, 2000)
    save("plan", {"calibration": asdict(known), "large": asdict(large), "runs": records})
