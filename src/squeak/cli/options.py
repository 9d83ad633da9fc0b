"""Options that several commands share, and what they mean in Python."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from squeak.cli.errors import option

KernelName = StrEnum("KernelName", ["rbf", "laplacian", "matern", "linear"])
"""The kernels that the command knows."""

SamplerName = StrEnum("SamplerName", ["squeak", "kors"])
"""The samplers that read a stream."""

Data = Annotated[
    list[str],
    typer.Argument(
        help="A file, a folder, a glob in quotes or a URL, of Parquet, CSV, JSON lines, Arrow or npy; or a "
        "database's URL."
    ),
]
Out = Annotated[Path, typer.Option("--out", "-o", help="The .sqk file to write.", show_default=False)]
Names = Annotated[
    str | None, typer.Option(help="Use only these columns: names, separated by commas.", show_default=False)
]
Dropped = Annotated[
    str | None, typer.Option(help="Leave out these columns: names, separated by commas.", show_default=False)
]


def positive(value: float | None) -> float | None:
    """Refuse what is not a positive, finite number."""
    if value is not None and not 0 < value < math.inf:
        raise typer.BadParameter(f"{value} is not a positive number")
    return value


KernelChoice = Annotated[
    KernelName, typer.Option("--kernel", help="The kernel, which says how similar two rows are.")
]
LengthScale = Annotated[
    str, typer.Option(help="The width of the kernel: a number, or 'median' for the median distance between rows.")
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        help="Write the state of the run to this file. If the run is killed, the same command continues it.",
        show_default=False,
    ),
]
Every = Annotated[float, typer.Option(min=0, help="How many seconds pass between two writes of the checkpoint.")]
Seed = Annotated[int, typer.Option(min=0, help="The seed of all random choices.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress bar and no summary.")]


def names_of(text: str | None) -> list[str] | None:
    """Return the names in a list separated by commas."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def or_none(choice: StrEnum) -> str | None:
    """Return the value of a choice; None for the choice 'none'."""
    return None if choice.value == "none" else choice.value


def kernel_of(name: KernelName, length_scale: str) -> Any:
    """Return the kernel of that name and width."""
    from squeak.kernels import RBF, Laplacian, Linear, Matern

    if name is KernelName.linear:
        return Linear()
    width: float | str = length_scale
    if length_scale not in ("median", "auto", "learned"):
        try:
            width = positive(float(length_scale)) or 1.0
        except ValueError:
            raise typer.BadParameter(
                f"--length-scale is a number, 'median', 'auto' or 'learned', not {length_scale!r}"
            ) from None
    return {KernelName.rbf: RBF, KernelName.laplacian: Laplacian, KernelName.matern: Matern}[name](width)


def refuse_settled(context: typer.Context, settled: set[str], why: str) -> None:
    """Refuse options on the command line that something else has settled."""
    refuse_changed(given_options(context) & settled, why)


def refuse_changed(names: set[str], why: str) -> None:
    """Refuse parameters that something else has settled, where there are any."""
    if names:
        raise typer.BadParameter(f"{why}: {', '.join(map(option, sorted(names)))} cannot change")


def given_options(context: typer.Context) -> set[str]:
    """Return the names of the parameters that stand on the command line."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


Measure = Annotated[
    bool,
    typer.Option(
        "--measure/--no-measure",
        help="Run the job on a small part of the rows, to predict the time for all of them.",
    ),
]
