"""``squeak sample``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from squeak.cli.errors import echo
from squeak.cli.options import Data, KernelChoice, KernelName, LengthScale, Quiet, Seed, kernel_of, positive
from squeak.cli.outputs import APOSTROPHES, Overwrite, check_ending, check_outputs, is_fresh, write_table
from squeak.cli.reading import Columns, source_from


def sample(
    data: Data,
    *,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The .parquet or .csv file to write.", show_default=False)
    ],
    k: Annotated[int | None, typer.Option(min=1, help="Rows in the subset.", show_default=False)] = None,
    size: Annotated[
        float | None,
        typer.Option(callback=positive, help="Rows on average, instead of exactly --k.", show_default=False),
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="How many subsets; a column `sample` tells them apart.")] = 1,
    target: Annotated[str | None, typer.Option(help="A column that rows are not compared by.")] = None,
    reading: Columns,
    kernel: KernelChoice = KernelName.rbf,
    length_scale: LengthScale = "median",
    overwrite: Overwrite = False,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Draw a diverse subset of the rows of DATA (a determinantal point process) and write it with all its columns.

    Rows that resemble each other seldom come together. The data is read a few times and never held in memory. A
    column `row` has each row's number, counted over the rows that are not skipped.
    """
    from squeak.dpp import DPP

    if (k is None) == (size is None):
        raise typer.BadParameter("give --k for exactly so many rows, or --size for so many on average")
    check_ending(out, ".parquet", ".csv")
    check_outputs(data, overwrite=overwrite, others=[out])
    is_fresh(out, overwrite)
    origin = source_from(reading, data, target, seed=seed)
    process = DPP(
        kernel_of(kernel, length_scale),
        expected_size=size if k is None else k - 0.5,  # k itself is out of reach where the rank is k
        random_state=seed,
        verbose=0 if quiet else 1,
    ).fit(origin)
    found = process.sample(samples, k=k)
    changed = write_table(out, _table(origin, found))
    if not quiet:
        sizes = f"{k:,} rows" if k is not None else f"{sum(map(len, found)) / samples:.1f} rows on average"
        skipped = f" ({origin.skipped_:,} skipped)" if origin.skipped_ else ""
        echo(f"{samples:,} × {sizes} of {process.dictionary_.n_seen:,}{skipped} → {out}")
        echo(f"{process.kernel_}, {process.acceptance_rate_:.0%} of the proposals accepted")
    if changed:
        echo(APOSTROPHES, err=True)


def _table(origin: Any, found: list[Any]) -> Any:
    """Return the rows that were drawn with all their columns, and which they are."""
    import numpy as np
    import pyarrow as pa

    from squeak.data.original import originals

    needed = np.unique(np.concatenate(found))
    table = originals(origin, needed)
    table = table.take(pa.array(np.searchsorted(needed, np.concatenate(found))))
    extra = {"row": np.concatenate(found), "sample": np.repeat(np.arange(len(found)), [len(s) for s in found])}
    if len(found) == 1:
        del extra["sample"]
    for wanted, values in extra.items():
        name = wanted
        while name in table.column_names:
            name = f"squeak_{name}"
        table = table.append_column(name, pa.array(values))
    return table
