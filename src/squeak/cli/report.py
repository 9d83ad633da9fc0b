"""``squeak report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from squeak.cli.errors import echo
from squeak.cli.options import BadRows, Delimiter, Header, NaValues, OnBadRows, names_of
from squeak.cli.outputs import Overwrite, check_outputs


def report(
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
    on_bad_rows: OnBadRows = BadRows.refuse,
    delimiter: Delimiter = None,
    header: Header = None,
    na_values: NaValues = None,
    overwrite: Overwrite = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")] = False,
) -> None:
    """Write one HTML page about what a .sqk file holds: growth, spectrum, accuracy, columns, settings.

    The page needs no network. DATA is read once; the file and DATA are not changed.
    """
    import squeak as sq

    if out.suffix not in (".html", ".htm"):
        raise typer.BadParameter(f"--out ends in .html; it is {out}")
    check_outputs([file, *(data or [])], overwrite=overwrite, others=[out])
    if target is not None and not data:
        raise typer.BadParameter("--target names a column of --data: give both")
    obj = sq.load(file)
    rows = None if not data else _opened(obj, data, target, on_bad_rows, delimiter, header, na_values)
    sq.report.write(obj, out, rows, name=file.name, verbose=0 if quiet else 1)
    if not quiet:
        echo(f"{file} → {out} ({out.stat().st_size / 1e3:,.0f} kB)")


def _opened(
    obj: Any,
    data: list[str],
    target: str | None,
    on_bad_rows: BadRows,
    delimiter: str | None,
    header: bool | None,
    na_values: str | None,
) -> Any:
    import squeak as sq
    from squeak.report.given import preprocessing_of

    return sq.rows(
        data if len(data) > 1 else data[0],
        target,
        preprocessing=preprocessing_of(obj),
        on_bad_rows=on_bad_rows.value,
        delimiter=delimiter,
        header=header,
        na_values=names_of(na_values) or (),
    )
