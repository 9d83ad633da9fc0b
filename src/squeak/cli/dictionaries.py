"""``squeak dictionary``, ``show``, ``report``, ``merge``, ``compare`` and ``sample``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from squeak.cli.clusters import Cluster
from squeak.cli.dry import a_dictionary
from squeak.cli.errors import echo
from squeak.cli.options import (
    Checkpoint,
    Data,
    Every,
    KernelChoice,
    KernelName,
    LengthScale,
    Measure,
    Out,
    Quiet,
    SamplerName,
    Seed,
    kernel_of,
    positive,
)
from squeak.cli.outputs import (
    APOSTROPHES,
    Overwrite,
    check_ending,
    check_figure,
    check_outputs,
    going_on,
    is_fresh,
    write_table,
)
from squeak.cli.reading import Columns, Files, Scale, Shuffled, source_from


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
            callback=positive,
            help="How strongly a direction must stand out to be kept; a larger ridge keeps fewer atoms.",
            show_default=False,
        ),
    ] = None,
    max_atoms: Annotated[
        int | None,
        typer.Option(
            min=1, help="How many atoms the dictionary has at most; 1000 if no ridge is given.", show_default=False
        ),
    ] = None,
    oversampling: Annotated[
        float,
        typer.Option(
            callback=positive,
            help="How many atoms are kept for each direction that stands out; more atoms are more accurate.",
        ),
    ] = 10.0,
    sampler: Annotated[SamplerName, typer.Option(help="SQUEAK may drop an atom again; KORS never does.")] = (
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
        int | None,
        typer.Option(
            min=1,
            help="Into how many parts the rows are cut, if workers or a scheduler are used.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Learn nothing; say what would be done, and what it would cost.")
    ] = False,
    measure: Measure = False,
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
    if measure and not dry_run:
        raise typer.BadParameter("--measure goes with --dry-run, and is what squeak plan dictionary does")
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
    if dry_run:
        echo(a_dictionary(origin, learner, cluster.workers, measure=measure))
        return
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
    """Print what a .sqk file holds: a model, a dictionary, or anything else that squeak saves."""
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
    files: Annotated[
        list[Path], typer.Argument(help="Two or more .sqk files with dictionaries of different rows.")
    ],
    out: Out,
    max_atoms: Annotated[
        int | None, typer.Option(min=1, help="How many atoms the result has at most.", show_default=False)
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


def compare(
    data: Data,
    *,
    target: Annotated[str | None, typer.Option(help="A column to leave out of the rows.")] = None,
    reading: Shuffled,
    rows: Annotated[
        int, typer.Option(min=2, help="How many rows, drawn from all, the samplers are compared on.")
    ] = 2_000,
    kernel: KernelChoice = KernelName.rbf,
    length_scale: LengthScale = "median",
    ridge: Annotated[
        float | None,
        typer.Option(
            callback=positive,
            help="The ridge; by default 1/1000 of the trace of the kernel matrix.",
            show_default=False,
        ),
    ] = None,
    oversampling: Annotated[
        str, typer.Option(help="The values of oversampling to compare, separated by commas.")
    ] = ("4,8,16"),
    repeats: Annotated[int, typer.Option(min=1, help="How many runs with different seeds are averaged.")] = 3,
    figure: Annotated[
        Path | None, typer.Option(help="Draw accuracy against atoms here (png, svg or pdf).", show_default=False)
    ] = None,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress bar.")] = False,
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
        some, chosen_kernel, ridge, oversampling=grid, repeats=repeats, random_state=seed, verbose=0 if quiet else 1
    )
    echo(comparison(table))
    if figure is not None:
        from squeak.report import draw_comparison

        draw_comparison(table, figure)
        echo(f"wrote {figure}")


def sample(
    data: Data,
    *,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The .parquet or .csv file to write.", show_default=False)
    ],
    k: Annotated[int | None, typer.Option(min=1, help="How many rows each subset has.", show_default=False)] = None,
    size: Annotated[
        float | None,
        typer.Option(
            callback=positive,
            help="How many rows each subset has on average, in place of exactly --k.",
            show_default=False,
        ),
    ] = None,
    samples: Annotated[
        int,
        typer.Option(
            min=1, help="How many subsets to draw; the column `sample` says which subset a row belongs to."
        ),
    ] = 1,
    target: Annotated[str | None, typer.Option(help="A column that is left out when rows are compared.")] = None,
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

    from squeak.data.source import originals

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


def report(
    *,
    file: Annotated[
        Path, typer.Argument(help="A .sqk file: a dictionary, a model, or anything else squeak saves.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML page to write.")] = Path("report.html"),
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="Rows for the page: files, a folder, a glob in quotes or a database's URL, once or several times. "
            "For a dictionary, give the rows that it was learned from.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The column that the model predicts.", show_default=False)
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(help="A second model: the page says which of the two is better on DATA.", show_default=False),
    ] = None,
    reading: Files,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Write one HTML page about what a .sqk file holds: growth, spectrum, accuracy, columns, settings.

    The page needs no network. DATA is read once; the file and DATA are not changed. With --compare the page
    compares two models on the same rows instead, which are then read once for each model.
    """
    from sklearn.base import ClassifierMixin, RegressorMixin

    import squeak as sq
    from squeak.report.given import preprocessing_of

    check_ending(out, ".html", ".htm")
    check_outputs([file, compare, *(data or [])], overwrite=overwrite, others=[out])
    if target is not None and not data:
        raise typer.BadParameter("--target names a column of --data: give both")
    if compare is not None and not (data and target):
        raise typer.BadParameter("--compare needs rows and their targets: give --data and --target")
    objects = [sq.load(path) for path in (file, *([] if compare is None else [compare]))]
    sources = [
        None if not data else source_from(reading, data, target, preprocessing=preprocessing_of(obj))
        for obj in objects
    ]
    if compare is not None:
        names = [file.name, compare.name] if file.name != compare.name else [str(file), str(compare)]
        sq.report.write_comparison(objects, out, sources, names=names)
    else:
        sq.report.write(objects[0], out, sources[0], name=file.name, verbose=0 if quiet else 1)
    if not quiet:
        echo(f"{file} → {out} ({out.stat().st_size / 1e3:,.0f} kB)")
        if data and target is None and isinstance(objects[0], RegressorMixin | ClassifierMixin):
            echo("the page has no errors and no scores: --target names the column of DATA that the model predicts")
