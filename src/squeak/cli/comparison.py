"""``squeak compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from squeak.cli.errors import echo
from squeak.cli.options import Data, KernelChoice, KernelName, LengthScale, Seed, kernel_of, positive
from squeak.cli.outputs import Overwrite, check_figure, check_outputs
from squeak.cli.reading import Shuffled, source_from


def compare(
    data: Data,
    *,
    target: Annotated[str | None, typer.Option(help="A column to leave out of the rows.")] = None,
    reading: Shuffled,
    rows: Annotated[int, typer.Option(min=2, help="Compare on so many rows, drawn from all.")] = 2_000,
    kernel: KernelChoice = KernelName.rbf,
    length_scale: LengthScale = "median",
    ridge: Annotated[
        float | None,
        typer.Option(callback=positive, help="1/1000 of the trace of K unless given.", show_default=False),
    ] = None,
    oversampling: Annotated[str, typer.Option(help="Numbers, separated by commas: one point of a curve each.")] = (
        "4,8,16"
    ),
    repeats: Annotated[int, typer.Option(min=1, help="Runs with different seeds.")] = 3,
    figure: Annotated[
        Path | None, typer.Option(help="Draw accuracy against atoms here (png, svg or pdf).", show_default=False)
    ] = None,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Run every sampler on some rows of DATA and print what each costs and how good it is."""
    from squeak.cli.pages import comparison
    from squeak.kernels import Linear
    from squeak.samplers import Uniform
    from squeak.samplers import compare as run

    try:
        grid = [float(value) for value in oversampling.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"--oversampling takes numbers separated by commas, not {oversampling!r}"
        ) from None
    for value in grid:
        positive(value)
    check_figure(figure)
    check_outputs(data, overwrite=overwrite, others=[figure])
    chosen_kernel = kernel_of(kernel, length_scale)
    source = source_from(reading, data, target, seed=seed)
    some = Uniform(Linear(), rows, ridge=1.0, random_state=seed).fit(source).dictionary_.atoms
    table = run(
        some,
        chosen_kernel,
        ridge,
        oversampling=grid,
        repeats=repeats,
        random_state=seed,
        verbose=0 if quiet else 1,
    )
    echo(comparison(table))
    if figure is not None:
        from squeak.report import draw_comparison

        draw_comparison(table, figure)
        echo(f"wrote {figure}")
