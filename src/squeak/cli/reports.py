"""``squeak report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from squeak.cli.errors import echo
from squeak.cli.options import Quiet
from squeak.cli.outputs import Overwrite, check_ending, check_outputs
from squeak.cli.reading import Files, source_from


def report(
    *,
    file: Annotated[
        Path, typer.Argument(help="A .sqk file: a dictionary, a model, or anything else squeak saves.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML page to write.")] = Path("report.html"),
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="Rows: files, a folder, or a glob in quotes; more than once for more. Those that were "
            "learned from give the measured accuracy.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The column that the model predicts.", show_default=False)
    ] = None,
    reading: Files,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Write one HTML page about what a .sqk file holds: growth, spectrum, accuracy, columns, settings.

    The page needs no network. DATA is read once; the file and DATA are not changed.
    """
    import squeak as sq
    from squeak.report.given import preprocessing_of

    check_ending(out, ".html", ".htm")
    check_outputs([file, *(data or [])], overwrite=overwrite, others=[out])
    if target is not None and not data:
        raise typer.BadParameter("--target names a column of --data: give both")
    obj = sq.load(file)
    rows = None if not data else source_from(reading, data, target, preprocessing=preprocessing_of(obj))
    sq.report.write(obj, out, rows, name=file.name, verbose=0 if quiet else 1)
    if not quiet:
        echo(f"{file} → {out} ({out.stat().st_size / 1e3:,.0f} kB)")
