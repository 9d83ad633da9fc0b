"""``squeak plan``."""

from __future__ import annotations

from typing import Annotated

import typer

from squeak.cli.errors import echo
from squeak.cli.options import positive


def plan(
    rows: Annotated[float, typer.Option(callback=positive, help="Rows, for example 1e9.", show_default=False)],
    dim: Annotated[int, typer.Option(min=1, help="Columns of a row.", show_default=False)],
    atoms: Annotated[int, typer.Option(min=1, help="The limit --max-atoms of the run.")] = 1000,
    workers: Annotated[int, typer.Option(min=1, help="Processes, a core each.")] = 1,
    leaves: Annotated[
        int | None, typer.Option(min=1, help="Parts that are learned apart.", show_default=False)
    ] = None,
    cores: Annotated[
        int | None, typer.Option(min=1, help="Cores that the workers share, if fewer.", show_default=False)
    ] = None,
    bandwidth: Annotated[float, typer.Option(callback=positive, help="MB/s between two workers.")] = 100.0,
) -> None:
    """Predict time, memory and bytes moved of a run on workers, after some seconds of measuring this machine.

    Reading the rows from a disk is not in it.
    """
    from squeak.cli.pages import prediction
    from squeak.samplers.planning import calibrate
    from squeak.samplers.planning import plan as predict

    echo(f"measuring leaves and merges with {atoms:,} atoms and {dim:,} columns here …", err=True)
    known = calibrate(dim, atoms)
    found = predict(
        rows, dim, atoms, workers, leaves=leaves, cores=cores, bandwidth=bandwidth * 1e6, calibration=known
    )
    echo(prediction(found, known))
