"""Options that several commands share, and what they mean in Python."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


class KernelName(StrEnum):
    """The kernels that the command knows."""

    rbf = "rbf"
    laplacian = "laplacian"
    matern = "matern"
    linear = "linear"


class SamplerName(StrEnum):
    """The samplers that read a stream."""

    squeak = "squeak"
    kors = "kors"


class Scale(StrEnum):
    """How columns are scaled."""

    standard = "standard"
    robust = "robust"
    none = "none"


class Categories(StrEnum):
    """How text becomes numbers."""

    onehot = "onehot"
    codes = "codes"
    none = "none"


class Missing(StrEnum):
    """What fills a missing value."""

    none = "none"
    mean = "mean"
    median = "median"


class BadRows(StrEnum):
    """What happens to rows with missing or infinite values."""

    refuse = "raise"
    skip = "skip"


Data = Annotated[list[str], typer.Argument(help="Parquet, CSV or npy: files, a folder, or a glob in quotes.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="The .sqk file to write.", show_default=False)]
Names = Annotated[str | None, typer.Option(help="Names, separated by commas.", show_default=False)]


def positive(value: float | None) -> float | None:
    """Refuse what is not a positive, finite number."""
    if value is not None and not 0 < value < math.inf:
        raise typer.BadParameter(f"{value} is not a positive number")
    return value


def one_character(value: str | None) -> str | None:
    """Return the delimiter; a backslash and a t stand for a tab."""
    value = "\t" if value == "\\t" else value
    if value is not None and len(value) != 1:
        raise typer.BadParameter(f"{value!r} is not one character")
    return value


ScaleBy = Annotated[Scale, typer.Option("--scale", help="Learned from the first rows, then frozen.")]
CategoriesAs = Annotated[Categories, typer.Option("--categories", help="How text becomes numbers.")]
MissingAs = Annotated[Missing, typer.Option("--missing", help="What fills a missing value.")]
OnBadRows = Annotated[
    BadRows, typer.Option("--on-bad-rows", help="Missing or infinite values: stop, or skip the row.")
]
Shuffle = Annotated[
    bool, typer.Option("--shuffle", help="Read row groups or files in random order; for sorted data.")
]
LearnRows = Annotated[int, typer.Option(min=1, help="Rows that scales and categories are learned from.")]
MaxCategories = Annotated[int, typer.Option(min=1, help="More values in a text column are refused.")]
Delimiter = Annotated[str | None, typer.Option(callback=one_character, help="Of CSV files; a comma unless said.")]
Header = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether CSV files begin with the columns' names.")
]
NaValues = Annotated[
    str | None, typer.Option(help="Words for a missing value in CSV files, beside NA and the like, by commas.")
]
KernelChoice = Annotated[KernelName, typer.Option("--kernel", help="How rows are compared.")]
TlsFile = Annotated[Path | None, typer.Option(help="For a scheduler that asks for TLS.", show_default=False)]
Checkpoint = Annotated[
    Path | None,
    typer.Option(help="Keep the state of the run here; the same command goes on.", show_default=False),
]
Every = Annotated[float, typer.Option(min=0, help="Seconds between two writes of the checkpoint.")]
Seed = Annotated[int, typer.Option(min=0, help="The random state.")]
MaxAtoms = Annotated[
    int | None,
    typer.Option(min=1, help="A hard limit on the size; 1000 where no ridge is given.", show_default=False),
]


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
    if length_scale not in ("median", "auto"):
        try:
            width = positive(float(length_scale)) or 1.0
        except ValueError:
            raise typer.BadParameter(
                f"--length-scale is a number, 'median' or 'auto', not {length_scale!r}"
            ) from None
    return {KernelName.rbf: RBF, KernelName.laplacian: Laplacian, KernelName.matern: Matern}[name](width)


def check_figure(figure: Path | None) -> None:
    """Fail before a long run where its figure could not be drawn."""
    if figure is None:
        return
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("--figure needs matplotlib: pip install 'squeak-learn[report]'") from None
    if figure.suffix not in (".png", ".svg", ".pdf"):
        raise typer.BadParameter(f"--figure ends in .png, .svg or .pdf; it is {figure}")


def refuse_settled(context: typer.Context, settled: set[str], why: str) -> None:
    """Refuse options on the command line that something else has settled."""
    given = sorted(given_options(context) & settled)
    if given:
        names = ", ".join("--" + name.replace("_", "-") for name in given)
        raise typer.BadParameter(f"{why}: {names} cannot change")


def given_options(context: typer.Context) -> set[str]:
    """Return the names of the parameters that stand on the command line."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}
