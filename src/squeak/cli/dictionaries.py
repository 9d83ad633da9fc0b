"""``squeak dictionary``, ``show`` and ``merge``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from squeak.cli.cluster import cluster
from squeak.cli.errors import echo
from squeak.cli.options import (
    BadRows,
    Categories,
    CategoriesAs,
    Checkpoint,
    Data,
    Delimiter,
    Every,
    Header,
    KernelChoice,
    KernelName,
    LearnRows,
    MaxAtoms,
    MaxCategories,
    Missing,
    MissingAs,
    Names,
    NaValues,
    OnBadRows,
    Out,
    SamplerName,
    Scale,
    ScaleBy,
    Seed,
    Shuffle,
    TlsFile,
    kernel_of,
    names_of,
    or_none,
    positive,
)
from squeak.cli.outputs import Overwrite, check_outputs, going_on


def dictionary(
    data: Data,
    out: Out,
    target: Annotated[str | None, typer.Option(help="The column to predict; it is left out of the rows.")] = None,
    columns: Names = None,
    drop: Names = None,
    scale: ScaleBy = Scale.standard,
    categories: CategoriesAs = Categories.onehot,
    missing: MissingAs = Missing.none,
    on_bad_rows: OnBadRows = BadRows.refuse,
    shuffle: Shuffle = False,
    learn_rows: LearnRows = 20_000,
    max_categories: MaxCategories = 100,
    delimiter: Delimiter = None,
    header: Header = None,
    na_values: NaValues = None,
    kernel: KernelChoice = KernelName.rbf,
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
    checkpoint: Checkpoint = None,
    every: Every = 30.0,
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
    overwrite: Overwrite = False,
    seed: Seed = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")] = False,
) -> None:
    """Learn a dictionary of the rows of DATA in one pass and write it to a file.

    With --workers or --scheduler each part (row group or file) is learned apart, and the dictionaries are
    merged up a tree; --checkpoint then names a folder.
    """
    import squeak as sq

    alone = workers is None and scheduler is None  # else the checkpoint is a folder
    check_outputs([*data, like], overwrite=overwrite, squeak_files=[out], states=[checkpoint if alone else None])
    model = None if like is None else sq.Dictionary.load(like)
    if model is not None:
        oversampling, ridge = model.oversampling or oversampling, ridge or model.ridge
    if ridge is None and max_atoms is None:
        max_atoms = 1000
    if sampler is SamplerName.kors and max_atoms is not None:
        raise typer.BadParameter("kors never drops an atom, so it takes --ridge and no --max-atoms")
    params: dict[str, Any] = {
        "kernel": kernel_of(kernel, length_scale) if model is None else model.kernel,
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
            "columns": names_of(columns),
            "drop": names_of(drop) or (),
            "scale": or_none(scale) if model is None else None,
            "categories": or_none(categories),
            "missing": or_none(missing),
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
        na_values=names_of(na_values) or (),
        random_state=seed,
        **choices,
    )
    with going_on(checkpoint, quiet):
        if apart:
            tls = {"ca": tls_ca, "cert": tls_cert, "key": tls_key}
            with cluster(workers, scheduler, tls):
                learner.fit(origin, checkpoint=checkpoint)
        else:
            learner.fit(origin, checkpoint=checkpoint, every=every)
    found = learner.dictionary_
    found.save(out)
    if not quiet:
        skipped = f", {origin.skipped_:,} skipped" if origin.skipped_ else ""
        echo(f"{found.n_seen:,} rows read once{skipped}; {len(found):,} atoms kept → {out}")
        echo(
            f"{found.kernel}, ridge {found.ridge:.4g}, effective dimension about {found.effective_dimension():.1f}"
        )


def show(
    file: Annotated[Path, typer.Argument(help="A .sqk file.")],
    atoms: Annotated[int, typer.Option(help="How many atoms to print.")] = 8,
) -> None:
    """Print what a .sqk file holds: sizes, spectrum, and its most telling atoms in your own columns."""
    import squeak as sq
    from squeak.core.storage import NotStoredError, read
    from squeak.page import page, page_of_fit, page_without_kernel

    kind, _, content = read(file)
    if kind == "fit":
        echo(page_of_fit(file, content))
        return
    try:
        echo(page(sq.load(file), file, atoms))
    except NotStoredError:
        echo(page_without_kernel(file))


def merge(
    files: Annotated[list[Path], typer.Argument(help="Two or more .sqk files of disjoint data.")],
    out: Out,
    max_atoms: Annotated[
        int | None, typer.Option(min=1, help="Leave at most so many atoms.", show_default=False)
    ] = None,
    overwrite: Overwrite = False,
    seed: Seed = 0,
) -> None:
    """Merge dictionaries of disjoint data into one that stands for all of it.

    They need the same kernel, columns and scales: learn the second with `squeak dictionary --like first.sqk`.
    """
    import squeak as sq

    if len(files) < 2:
        raise typer.BadParameter("name two dictionaries or more")
    check_outputs(files, overwrite=overwrite, squeak_files=[out])
    merged = sq.merge(*[sq.Dictionary.load(file) for file in files], random_state=seed, max_atoms=max_atoms)
    merged.save(out)
    echo(f"{len(files)} dictionaries of {merged.n_seen:,} rows; {len(merged):,} atoms kept → {out}")
