"""The command ``squeak``: learn a dictionary from files, look at it, merge it.

Exit codes: 0 done, 1 the data or a file is not as it should be, 2 the command line is not, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import re
import signal
import sys
from collections.abc import Iterator
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


TlsFile = Annotated[Path | None, typer.Option(help="For a scheduler that asks for TLS.", show_default=False)]
Seed = Annotated[int, typer.Option(min=0, help="The random state.")]
MaxAtoms = Annotated[
    int | None,
    typer.Option(min=1, help="A hard limit on the size; 1000 where no ridge is given.", show_default=False),
]


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
    learn_rows: Annotated[
        int, typer.Option(min=1, help="Rows that scales and categories are learned from.")
    ] = 20_000,
    max_categories: Annotated[int, typer.Option(min=1, help="More values in a text column are refused.")] = 100,
    delimiter: Annotated[
        str | None, typer.Option(callback=one_character, help="Of CSV files; a comma unless said.")
    ] = None,
    header: Annotated[
        bool | None, typer.Option("--header/--no-header", help="Whether CSV files begin with the columns' names.")
    ] = None,
    na_values: Annotated[
        str | None, typer.Option(help="Words for a missing value in CSV files, beside NA and the like, by commas.")
    ] = None,
    kernel: Annotated[KernelName, typer.Option(help="How rows are compared.")] = KernelName.rbf,
    length_scale: Annotated[str, typer.Option(help="The kernel's width: a number or 'median'.")] = "median",
    ridge: Annotated[
        float | None,
        typer.Option(
            callback=positive, help="Directions with eigenvalues well above it are kept.", show_default=False
        ),
    ] = None,
    max_atoms: MaxAtoms = None,
    oversampling: Annotated[
        float, typer.Option(callback=positive, help="Atoms per unit of effective dimension.")
    ] = 10.0,
    sampler: Annotated[SamplerName, typer.Option(help="SQUEAK drops atoms again; KORS never does.")] = (
        SamplerName.squeak
    ),
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Keep the state of the run here; the same command goes on.", show_default=False),
    ] = None,
    every: Annotated[float, typer.Option(min=0, help="Seconds between two writes of the checkpoint.")] = 30.0,
    like: Annotated[
        Path | None,
        typer.Option(
            help="Take kernel, columns, scales, oversampling and (unless given) the ridge from this dictionary, so "
            "that the two can be merged.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="A name for this part of the data, for merging.", show_default=False)
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Learn parts in so many processes and merge them (DISQUEAK).", show_default=False),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="The address of a Dask scheduler, to do so on its cluster.", show_default=False),
    ] = None,
    leaves: Annotated[
        int | None, typer.Option(min=1, help="Parts, where workers or a scheduler are used.", show_default=False)
    ] = None,
    tls_ca: TlsFile = None,
    tls_cert: TlsFile = None,
    tls_key: TlsFile = None,
    seed: Seed = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")] = False,
) -> None:
    """Learn a dictionary of the rows of DATA in one pass and write it to a file.

    With --workers or --scheduler each part (row group or file) is learned apart, and the dictionaries are
    merged up a tree; --checkpoint then names a folder.
    """
    import squeak as sq

    _check_out(out, [checkpoint, like], data)
    if checkpoint is not None and workers is None and scheduler is None:
        _check_out(checkpoint, [like], data)
    model = None if like is None else sq.Dictionary.load(like)
    if model is not None:
        oversampling, ridge = model.oversampling or oversampling, ridge or model.ridge
    if ridge is None and max_atoms is None:
        max_atoms = 1000
    if sampler is SamplerName.kors and max_atoms is not None:
        raise typer.BadParameter("kors never drops an atom, so it takes --ridge and no --max-atoms")
    params: dict[str, Any] = {
        "kernel": _kernel(kernel, length_scale) if model is None else model.kernel,
        "ridge": ridge,
        "oversampling": oversampling,
        "copies": 1 if model is None else model.copies,
        "source": source,
        "random_state": seed,
        "verbose": 0 if quiet else 1,
    }
    apart = workers is not None or scheduler is not None
    if workers is not None and scheduler is not None:
        raise typer.BadParameter("--workers starts processes here, --scheduler uses a cluster: give one of them")
    if leaves is not None and not apart:
        raise typer.BadParameter("--leaves is for --workers or --scheduler")
    learner: Any
    if apart:
        leaf = sq.Kors() if sampler is SamplerName.kors else sq.Squeak()
        learner = sq.Disqueak(**params, max_atoms=max_atoms, n_leaves=leaves, leaf=leaf)
    else:
        learner = sq.Kors(**params) if sampler is SamplerName.kors else sq.Squeak(**params, max_atoms=max_atoms)
    known = None if model is None else model.preprocessing
    choices: dict[str, Any] = {"preprocessing": known}
    if known is None:
        choices = {
            "columns": _names(columns),
            "drop": _names(drop) or (),
            "scale": _or_none(scale) if model is None else None,
            "categories": _or_none(categories),
            "missing": _or_none(missing),
        }
    origin = sq.rows(
        data if len(data) > 1 else data[0],
        target,
        on_bad_rows=on_bad_rows.value,
        shuffle=shuffle,
        learn_rows=learn_rows,
        max_categories=max_categories,
        delimiter=delimiter,
        header=header,
        na_values=_names(na_values) or (),
        random_state=seed,
        **choices,
    )
    if checkpoint is not None and checkpoint.exists() and not quiet:
        typer.echo(f"{checkpoint} is there: going on from it if its run had not ended", err=True)
    try:
        if apart:
            tls = {"ca": tls_ca, "cert": tls_cert, "key": tls_key}
            with _cluster(workers, scheduler, tls):
                learner.fit(origin, checkpoint=checkpoint)
        else:
            learner.fit(origin, checkpoint=checkpoint, every=every)
    except KeyboardInterrupt:
        if checkpoint is not None and checkpoint.exists():
            _stop(f"interrupted; the same command goes on from {checkpoint}", 130)
        raise
    found = learner.dictionary_
    found.save(out)
    if not quiet:
        skipped = f", {origin.skipped_:,} skipped" if origin.skipped_ else ""
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
    from squeak.core.storage import NotStoredError
    from squeak.page import page, page_without_kernel

    try:
        typer.echo(page(sq.load(file), file, atoms))
    except NotStoredError:
        typer.echo(page_without_kernel(file))


@app.command()
def merge(
    files: Annotated[list[Path], typer.Argument(help="Two or more .sqk files of disjoint data.")],
    out: Out,
    max_atoms: Annotated[
        int | None, typer.Option(min=1, help="Leave at most so many atoms.", show_default=False)
    ] = None,
    seed: Seed = 0,
) -> None:
    """Merge dictionaries of disjoint data into one that stands for all of it.

    They need the same kernel, columns and scales: learn the second with `squeak dictionary --like first.sqk`.
    """
    import squeak as sq

    if len(files) < 2:
        raise typer.BadParameter("name two dictionaries or more")
    _check_out(out, [], [])
    merged = sq.merge(*[sq.Dictionary.load(file) for file in files], random_state=seed, max_atoms=max_atoms)
    merged.save(out)
    typer.echo(f"{len(files)} dictionaries of {merged.n_seen:,} rows; {len(merged):,} atoms kept → {out}")


@app.command()
def compare(
    data: Data,
    target: Annotated[str | None, typer.Option(help="A column to leave out of the rows.")] = None,
    columns: Names = None,
    drop: Names = None,
    scale: Annotated[Scale, typer.Option(help="Learned from the first rows, then frozen.")] = Scale.standard,
    categories: Annotated[Categories, typer.Option(help="How text becomes numbers.")] = Categories.onehot,
    missing: Annotated[Missing, typer.Option(help="What fills a missing value.")] = Missing.none,
    on_bad_rows: Annotated[BadRows, typer.Option(help="Missing or infinite values: stop, or skip the row.")] = (
        BadRows.refuse
    ),
    rows: Annotated[int, typer.Option(min=2, help="Compare on so many rows, drawn from all.")] = 2_000,
    kernel: Annotated[KernelName, typer.Option(help="How rows are compared.")] = KernelName.rbf,
    length_scale: Annotated[str, typer.Option(help="The kernel's width: a number or 'median'.")] = "median",
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
    seed: Seed = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Run every sampler on some rows of DATA and print what each costs and how good it is."""
    import squeak as sq
    from squeak.kernels import Linear
    from squeak.page import comparison
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
    if figure is not None:
        import matplotlib  # noqa: F401  (fails now, not after the run)

        from squeak.report import draw_comparison

        if figure.suffix not in (".png", ".svg", ".pdf"):
            raise typer.BadParameter(f"--figure ends in .png, .svg or .pdf; it is {figure}")
        if not figure.parent.is_dir():
            raise FileNotFoundError(f"the folder {figure.parent} does not exist")
    chosen_kernel = _kernel(kernel, length_scale)
    source = sq.rows(
        data if len(data) > 1 else data[0],
        target,
        _names(columns),
        drop=_names(drop) or (),
        scale=_or_none(scale),
        categories=_or_none(categories),
        missing=_or_none(missing),
        on_bad_rows=on_bad_rows.value,
    )
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
    typer.echo(comparison(table))
    if figure is not None:
        draw_comparison(table, figure)
        typer.echo(f"wrote {figure}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for what it makes.")] = Path("demo"),
) -> None:
    """Stream a year of New York flights into a dictionary; needs the extra `demo`."""
    from squeak.demo import run

    run(out)


@contextlib.contextmanager
def _cluster(workers: int | None, scheduler: str | None, tls: dict[str, Path | None]) -> Iterator[None]:
    """Have a Dask client active: of processes of our own, or of the cluster at an address."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise ImportError("--workers and --scheduler need dask: pip install 'squeak-learn[dask]'") from None
    if scheduler is not None:
        files = {name: str(path) for name, path in tls.items() if path is not None}
        security = None
        if files:
            names = {"ca": "tls_ca_file", "cert": "tls_client_cert", "key": "tls_client_key"}
            security = distributed.Security(
                require_encryption=True, **{names[name]: path for name, path in files.items()}
            )
        try:
            client = distributed.Client(scheduler, timeout="10s", security=security)
        except (OSError, ValueError, TimeoutError) as error:
            reason = " ".join(str(error).split())[:200]
            raise OSError(f"no Dask scheduler answers at {scheduler}: {reason}") from None
        with client:
            yield
        return
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster),
    ):
        yield


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
            width = positive(float(length_scale)) or 1.0
        except ValueError:
            raise typer.BadParameter(f"--length-scale is a number or 'median', not {length_scale!r}") from None
    return {KernelName.rbf: RBF, KernelName.laplacian: Laplacian, KernelName.matern: Matern}[name](width)


def _check_out(out: Path, others: list[Path | None], data: list[str]) -> None:
    """Fail before a long run where its result could not be written, or would take the place of something else."""
    from squeak.core.sources.files import find_files
    from squeak.core.storage import StorageError, read

    if not out.parent.is_dir():
        raise FileNotFoundError(f"the folder {out.parent} does not exist")
    if out.is_dir():
        raise IsADirectoryError(f"{out} is a folder; name a file")
    if not os.access(out.parent, os.W_OK):
        raise PermissionError(f"{out} cannot be written there")
    inputs = [*(other for other in others if other is not None), *(find_files(data) if data else [])]
    if out.resolve() in {path.resolve() for path in inputs}:
        raise typer.BadParameter(f"{out} is named twice: it would be overwritten")
    if out.exists():
        try:
            read(out)
        except StorageError:
            raise typer.BadParameter(
                f"{out} is there already and is not a squeak file: choose another name"
            ) from None


IN_WORDS_OF_THE_COMMAND = (
    (r"on_bad_rows='skip'", "--on-bad-rows skip"),
    (r"missing='median'", "--missing median"),
    (r"pass delimiter='(.)'", r"pass --delimiter '\1'"),
    (r"pass delimiter='\\t'", r"pass --delimiter '\\t'"),
    (r"categories='onehot' or 'codes'", "--categories onehot or codes"),
    (r"with drop=", "with --drop"),
    (r"pass header=False, or header=True", "pass --no-header, or --header"),
    (r"pass na_values=\['(.*?)'\]", r"pass --na-values '\1'"),
    (r"max_categories=(\d+)", r"--max-categories \1"),
    (r"raise max_categories", "raise --max-categories"),
    (r"shuffle=True", "--shuffle"),
    (r"raise learn_rows", "raise --learn-rows"),
    (r", or give the column's scale", ""),
    (r", list the values that matter", ""),
    (r"set max_atoms", "set --max-atoms"),
)
"""Options in our messages as Python has them, and as the command has them."""


def _for_the_command(message: str) -> str:
    for python, words in IN_WORDS_OF_THE_COMMAND:
        message = re.sub(python, words, message)
    return message


def _stop(message: str, code: int) -> NoReturn:
    typer.echo(f"squeak: {message}", err=True)
    sys.exit(code)


def _on_terminate(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command; a user's mistake gets one line and no traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without our signs gets question marks, not an error
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
            _stop(_for_the_command(text), 1)
        raise
    sys.exit(code if isinstance(code, int) else 0)
