"""``squeak plan``: what a run will take, on this machine or on workers, before it is begun."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from squeak.cli.commands import command
from squeak.cli.dictionaries import dictionary
from squeak.cli.errors import echo
from squeak.cli.models import fit, predict
from squeak.cli.options import positive
from squeak.cli.streams import online

plans = typer.Typer(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})


@plans.callback()
def plan(
    context: typer.Context,
    rows: Annotated[
        float | None,
        typer.Option(callback=positive, help="The number of rows, for example 1e9.", show_default=False),
    ] = None,
    dim: Annotated[int | None, typer.Option(min=1, help="The number of columns.", show_default=False)] = None,
    atoms: Annotated[int, typer.Option(min=1, help="The --max-atoms of the run.")] = 1000,
    workers: Annotated[int, typer.Option(min=1, help="The number of worker processes, each with one core.")] = 1,
    leaves: Annotated[
        int | None, typer.Option(min=1, help="Into how many parts the rows are cut.", show_default=False)
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The number of cores that the workers share, if they are fewer than the workers.",
            show_default=False,
        ),
    ] = None,
    bandwidth: Annotated[
        float, typer.Option(callback=positive, help="The megabytes per second between two workers.")
    ] = 100.0,
) -> None:
    """Predict time, memory and passes of a run before it is begun.

    `squeak plan fit …`, `plan dictionary …`, `plan online …` and `plan predict …` take the options of the commands
    of those names, and measure some of their rows here, for this process or for --workers. Without one of them, a
    dictionary of --rows rows of --dim columns is planned for workers elsewhere, after some seconds of measuring
    this machine on made rows; reading the rows from a disk is not in it.
    """
    if context.invoked_subcommand is not None:
        return
    if rows is None or dim is None:
        raise typer.BadParameter(
            "give --rows and --dim, or say squeak plan fit …, plan dictionary …, plan online … or plan predict …"
        )
    from squeak.cli.pages import prediction
    from squeak.samplers.planning import calibrate
    from squeak.samplers.planning import plan as predict

    echo(f"measuring leaves and merges with {atoms:,} atoms and {dim:,} columns here …", err=True)
    known = calibrate(dim, atoms)
    found = predict(
        rows, dim, atoms, workers, leaves=leaves, cores=cores, bandwidth=bandwidth * 1e6, calibration=known
    )
    echo(prediction(found, known))


def planned(function: Callable[..., None], ending: str, words: str) -> Callable[..., None]:
    """Return a command with the options of another one, but those of its results, that only tells what it costs.

    ``ending``: of the file that the other writes. ``words``: what its help says.
    """
    fixed: dict[str, Any] = {
        "out": Path(tempfile.gettempdir()) / f"squeak-plan{ending}",
        "dry_run": True,
        "overwrite": True,
        "checkpoint": None,
        "every": 30.0,
    }
    signature = inspect.signature(function, eval_str=True)
    fixed = {name: value for name, value in fixed.items() if name in signature.parameters}
    kept = [one for name, one in signature.parameters.items() if name not in fixed]

    def run(**values: Any) -> None:
        function(**values, **fixed)

    run.__name__, run.__doc__ = function.__name__, words
    options = [one.replace(default=True) if one.name == "measure" else one for one in kept]
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return run


PAGES: list[tuple[Callable[..., None], str, str]] = [
    (
        fit,
        ".sqk",
        "Predict time, memory and passes of `squeak fit` with the same options, from a run of some of its rows.",
    ),
    (
        dictionary,
        ".sqk",
        "Predict time, memory and passes of `squeak dictionary` with the same options, in the same way.",
    ),
    (online, ".sqk", "Predict the time of `squeak online` with the same options, from some of its rows."),
    (predict, ".parquet", "Predict the time of `squeak predict` with the same options, from some of its rows."),
]
for page in PAGES:
    plans.command()(command(planned(*page)))
