"""The command ``squeak``: learn a dictionary from files, look at it, merge it.

Exit codes: 0 done, 1 the data or a file is not as it should be, 2 the command line is not, 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from squeak._version import __version__

app = typer.Typer(
    name="squeak",
    help="Kernel learning at scale: one pass over the rows, a small weighted dictionary of them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


@app.callback(invoke_without_command=True)
def squeak(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    """Kernel learning at scale: one pass over the rows, a small weighted dictionary of them."""
    if version:
        typer.echo(f"squeak {__version__}")
        raise typer.Exit


@app.command()
def dictionary(
    data: Data,
    out: Out,
    target: Annotated[str | None, typer.Option(help="The column to predict; it is left out of the rows.")] = None,
    columns: Names = None,
    drop: Names = None,
    scale: Annotated[Scale, typer.Option(help="Learned from the first rows, then frozen.")] = Scale.standard,
    categories: Annotated[Categories, typer.Option(help="How text becomes numbers.")] = Categories.onehot,
    missing: Annotated[Missing, typer.Option(help="What fills a missing value.")] = Missing.none,
    on_bad_rows: Annotated[BadRows, typer.Option(help="Missing or infinite values: stop, or skip the row.")] = (
        BadRows.refuse
    ),
    shuffle: Annotated[
        bool, typer.Option(help="Read row groups or files in random order; for sorted data.")
    ] = False,
    learn_rows: Annotated[int, typer.Option(help="Rows that scales and categories are learned from.")] = 20_000,
    delimiter: Annotated[str | None, typer.Option(help="Of CSV files; a comma unless said.")] = None,
    header: Annotated[bool, typer.Option(help="Whether CSV files begin with the names of the columns.")] = True,
    kernel: Annotated[KernelName, typer.Option(help="How rows are compared.")] = KernelName.rbf,
    length_scale: Annotated[str, typer.Option(help="The kernel's width: a number or 'median'.")] = "median",
    ridge: Annotated[
        float | None, typer.Option(help="Directions with eigenvalues well above it are kept.", show_default=False)
    ] = None,
    max_atoms: Annotated[
        int | None, typer.Option(help="A hard limit on the size; 1000 where no ridge is given.", show_default=False)
    ] = None,
    oversampling: Annotated[float, typer.Option(help="Atoms per unit of effective dimension.")] = 10.0,
    sampler: Annotated[SamplerName, typer.Option(help="SQUEAK drops atoms again; KORS never does.")] = (
        SamplerName.squeak
    ),
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Keep the state of the run here; the same command goes on.", show_default=False),
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between two writes of the checkpoint.")] = 30.0,
    seed: Annotated[int, typer.Option(help="The random state.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")] = False,
) -> None:
    """Learn a dictionary of the rows of DATA in one pass and write it to a file."""
    import squeak as sq
    from squeak.samplers.base import check_max_atoms

    if ridge is None and max_atoms is None:
        max_atoms = 1000
    if sampler is SamplerName.kors and max_atoms is not None:
        raise typer.BadParameter("kors never drops an atom, so it takes --ridge and no --max-atoms")
    check_max_atoms(1 if max_atoms is None else max_atoms)
    _check_folder(out)
    source = sq.rows(
        data if len(data) > 1 else data[0],
        target,
        _names(columns),
        drop=_names(drop) or (),
        scale=_or_none(scale),
        categories=_or_none(categories),
        missing=_or_none(missing),
        on_bad_rows=on_bad_rows.value,
        shuffle=shuffle,
        learn_rows=learn_rows,
        delimiter="\t" if delimiter == "\\t" else delimiter,
        header=header,
        random_state=seed,
    )
    params: dict[str, Any] = {
        "kernel": _kernel(kernel, length_scale),
        "ridge": ridge,
        "oversampling": oversampling,
        "random_state": seed,
        "verbose": 0 if quiet else 1,
    }
    learner = sq.Kors(**params) if sampler is SamplerName.kors else sq.Squeak(**params, max_atoms=max_atoms)
    if checkpoint is not None and checkpoint.exists() and not quiet:
        typer.echo(f"{checkpoint} is there: going on from it if its run had not ended", err=True)
    try:
        learner.fit(source, checkpoint=checkpoint, every=every)
    except KeyboardInterrupt:
        if checkpoint is not None and checkpoint.exists():
            _stop(f"interrupted; the same command goes on from {checkpoint}", 130)
        raise
    found = learner.dictionary_
    found.save(out)
    if not quiet:
        skipped = f", {source.skipped_:,} skipped" if source.skipped_ else ""
        typer.echo(f"{found.n_seen:,} rows read once{skipped}; {len(found):,} atoms kept → {out}")
        typer.echo(
            f"{found.kernel}, ridge {found.ridge:.4g}, effective dimension about {found.effective_dimension():.1f}"
        )


@app.command()
def show(
    file: Annotated[Path, typer.Argument(help="A .sqk file.")],
    atoms: Annotated[int, typer.Option(help="How many atoms to print.")] = 8,
) -> None:
    """Print what a .sqk file holds: sizes, spectrum, and its most telling atoms in your own columns."""
    import squeak as sq
    from squeak.page import page

    typer.echo(page(sq.load(file), file, atoms))


@app.command()
def merge(
    files: Annotated[list[Path], typer.Argument(help="Two or more .sqk files of disjoint data.")],
    out: Out,
    max_atoms: Annotated[int | None, typer.Option(help="Leave at most so many atoms.", show_default=False)] = None,
    seed: Annotated[int, typer.Option(help="The random state.")] = 0,
) -> None:
    """Merge dictionaries of disjoint data into one that stands for all of it."""
    import squeak as sq

    _check_folder(out)
    merged = sq.merge(*[sq.Dictionary.load(file) for file in files], random_state=seed, max_atoms=max_atoms)
    merged.save(out)
    typer.echo(f"{len(files)} dictionaries of {merged.n_seen:,} rows; {len(merged):,} atoms kept → {out}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for what it makes.")] = Path("demo"),
) -> None:
    """Stream a year of New York flights into a dictionary; needs the extra `demo`."""
    from squeak.demo import run

    run(out)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _or_none(choice: StrEnum) -> str | None:
    return None if choice.value == "none" else choice.value


def _kernel(name: KernelName, length_scale: str) -> Any:
    from squeak.kernels import RBF, Laplacian, Linear, Matern

    if name is KernelName.linear:
        return Linear()
    width: float | str = length_scale
    if length_scale != "median":
        try:
            width = float(length_scale)
        except ValueError:
            raise typer.BadParameter(f"--length-scale is a number or 'median', not {length_scale!r}") from None
    return {KernelName.rbf: RBF, KernelName.laplacian: Laplacian, KernelName.matern: Matern}[name](width)


def _check_folder(out: Path) -> None:
    """Fail before a long run where its result could not be written."""
    if not out.parent.is_dir():
        raise FileNotFoundError(f"the folder {out.parent} does not exist")
    if out.is_dir():
        raise IsADirectoryError(f"{out} is a folder; name a file")
    if not os.access(out.parent, os.W_OK):
        raise PermissionError(f"{out} cannot be written there")


def _stop(message: str, code: int) -> NoReturn:
    typer.echo(f"squeak: {message}", err=True)
    sys.exit(code)


def _on_terminate(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command; a user's mistake gets one line and no traceback."""
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, _on_terminate)  # a scheduler's stop leaves a checkpoint too
    try:
        code = app(standalone_mode=False)
    except KeyboardInterrupt:
        _stop("interrupted", 130)
    except typer.Exit as leave:
        sys.exit(leave.exit_code)
    except Exception as error:
        shown = getattr(error, "show", None)
        if shown is not None:  # a mistake on the command line
            shown()
            sys.exit(getattr(error, "exit_code", 2))
        if type(error).__name__ == "Abort":
            _stop("interrupted", 130)
        if isinstance(error, ValueError | TypeError | OSError | ImportError | MemoryError):
            text = " ".join(str(error).split()) or type(error).__name__
            if isinstance(error, OSError) and error.filename is not None:
                text = f"{error.filename}: {error.strerror}"
            _stop(text, 1)
        raise
    sys.exit(code if isinstance(code, int) else 0)
