"""``squeak dictionary``, ``show`` and ``merge``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from squeak.cli.clusters import Cluster
from squeak.cli.errors import echo
from squeak.cli.options import (
    Checkpoint,
    Data,
    Every,
    KernelChoice,
    KernelName,
    LengthScale,
    Out,
    Quiet,
    SamplerName,
    Seed,
    kernel_of,
    positive,
)
from squeak.cli.outputs import Overwrite, check_outputs, going_on
from squeak.cli.reading import Scale, Shuffled, source_from


def dictionary(
    data: Data,
    *,
    out: Out,
    target: Annotated[str | None, typer.Option(help="The column to predict; it is left out of the rows.")] = None,
    reading: Shuffled,
    kernel: KernelChoice = KernelName.rbf,
    length_scale: LengthScale = "median",
    ridge: Annotated[
        float | None,
        typer.Option(
            callback=positive, help="Directions with eigenvalues well above it are kept.", show_default=False
        ),
    ] = None,
    max_atoms: Annotated[
        int | None,
        typer.Option(min=1, help="A hard limit on the size; 1000 where no ridge is given.", show_default=False),
    ] = None,
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
    cluster: Cluster,
    leaves: Annotated[
        int | None, typer.Option(min=1, help="Parts, where workers or a scheduler are used.", show_default=False)
    ] = None,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Learn a dictionary of the rows of DATA in one pass and write it to a file.

    With --workers or --scheduler each part (row group or file) is learned apart, and the dictionaries are
    merged up a tree; --checkpoint then names a folder.
    """
    import squeak as sq

    apart = cluster.wanted()  # the checkpoint is a folder then
    check_outputs([*data, like], overwrite=overwrite, squeak_files=[out], states=[None if apart else checkpoint])
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
    if leaves is not None and not apart:
        raise typer.BadParameter("--leaves is for --workers or --scheduler")
    learner: Any
    if apart:
        leaf = sq.Kors() if sampler is SamplerName.kors else sq.Squeak()
        learner = sq.Disqueak(**params, max_atoms=max_atoms, n_leaves=leaves, leaf=leaf)
    else:
        learner = sq.Kors(**params) if sampler is SamplerName.kors else sq.Squeak(**params, max_atoms=max_atoms)
    known: Any = "learn" if model is None else model.preprocessing
    if model is not None and known is None:
        reading, known = replace(reading, scale=Scale.none), "learn"
    origin = source_from(reading, data, target, preprocessing=known, seed=seed)
    with going_on(checkpoint, quiet):
        if apart:
            with cluster.client():
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
    from squeak.cli.pages import page, page_of_fit, page_without_kernel
    from squeak.core.storage import NotStoredError, read

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
