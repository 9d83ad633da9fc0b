"""How a command reads tables: one group of options, and one way from them to a source of rows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

import typer

from squeak.cli.options import Dropped, Names, names_of, or_none

Scale = StrEnum("Scale", ["standard", "robust", "none"])
"""How columns are scaled."""

Categories = StrEnum("Categories", ["onehot", "codes", "target", "auto", "none"])
"""How text becomes numbers."""

Missing = StrEnum("Missing", ["none", "mean", "median"])
"""What fills a missing value."""

BadRows = StrEnum("BadRows", {"refuse": "raise", "skip": "skip"})
"""What happens to rows with missing or infinite values."""


def one_character(value: str | None) -> str | None:
    """Return the delimiter; a backslash and a t stand for a tab."""
    value = "\t" if value == "\\t" else value
    if value is not None and len(value) != 1:
        raise typer.BadParameter(f"{value!r} is not one character")
    return value


@dataclass(frozen=True)
class Files:
    """How files are read, whatever is done with their columns."""

    query: Annotated[
        str | None,
        typer.Option(
            help="A SELECT for a database; DATA is then its URL, such as sqlite:///flights.db.", show_default=False
        ),
    ] = None
    on_bad_rows: Annotated[
        BadRows,
        typer.Option(
            help="What to do with a row that has a missing or infinite value: stop with an error, or skip the row."
        ),
    ] = BadRows.refuse
    delimiter: Annotated[
        str | None,
        typer.Option(
            callback=one_character, help="The character between the fields of CSV files; a comma by default."
        ),
    ] = None
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether CSV files begin with a line of column names."),
    ] = None
    na_values: Annotated[
        str | None,
        typer.Option(
            help="Further words that stand for a missing value in CSV files (NA and the like always do), "
            "separated by commas."
        ),
    ] = None
    encoding: Annotated[str, typer.Option(help="The encoding of CSV files.")] = "utf8"

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of :func:`squeak.rows` for them."""
        return {
            "query": self.query,
            "encoding": self.encoding,
            "on_bad_rows": self.on_bad_rows.value,
            "delimiter": self.delimiter,
            "header": self.header,
            "na_values": names_of(self.na_values) or (),
        }

    def choices(self) -> dict[str, Any]:
        """Return the parameters that choose columns and what becomes of them."""
        return {}


@dataclass(frozen=True)
class Chosen(Files):
    """How files are read of which some columns are used as they are."""

    columns: Names = None
    drop: Dropped = None

    def choices(self) -> dict[str, Any]:
        """Return the parameters that choose columns and what becomes of them."""
        return {"columns": names_of(self.columns), "drop": names_of(self.drop) or ()}


@dataclass(frozen=True)
class Columns(Chosen):
    """How files are read, and how their columns become numbers."""

    scale: Annotated[
        Scale,
        typer.Option(
            help="How columns are scaled, as learned from the first rows; robust is for columns with long "
            "tails, and is what `squeak fit` uses without --kernel."
        ),
    ] = Scale.standard
    categories: Annotated[
        Categories, typer.Option(help="How text becomes numbers; `squeak fit` uses auto without --kernel.")
    ] = Categories.onehot
    missing: Annotated[
        Missing,
        typer.Option(help="What a missing value is replaced by; `squeak fit` uses median without --kernel."),
    ] = Missing.none
    learn_rows: Annotated[
        int,
        typer.Option(
            min=1,
            help="From how many rows the scales and categories are learned; `squeak fit` uses a "
            "million without --kernel.",
        ),
    ] = 20_000
    max_categories: Annotated[
        int, typer.Option(min=1, help="The largest number of different values that a text column may have.")
    ] = 100

    def choices(self) -> dict[str, Any]:
        """Return the parameters that choose columns and what becomes of them."""
        return {
            **super().choices(),
            "scale": or_none(self.scale),
            "categories": or_none(self.categories),
            "missing": or_none(self.missing),
            "learn_rows": self.learn_rows,
            "max_categories": self.max_categories,
        }


@dataclass(frozen=True)
class Shuffled(Columns):
    """The same for a command to which the order of the rows is all one."""

    shuffle: Annotated[
        bool, typer.Option("--shuffle", help="Read row groups or files in random order; use it for sorted data.")
    ] = False

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of :func:`squeak.rows` for them."""
        return {**super().parameters(), "shuffle": self.shuffle}


SETTLED = {"columns", "drop", "scale", "categories", "missing", "learn_rows", "max_categories"}
"""Options that a preprocessing has settled."""


def source_from(
    reading: Files,
    data: list[str],
    target: str | None = None,
    *,
    preprocessing: Any | Literal["learn"] = "learn",
    seed: int = 0,
) -> Any:
    """Return the source of rows that options ask for.

    ``data``: files, folders and globs, or a database's URL. ``preprocessing``: one that was learned before, which
    may be none at all; or the options say how it is learned. ``seed``: for the order of the parts.
    """
    import squeak as sq

    learned = isinstance(preprocessing, str)
    choices = reading.choices() if learned else {"preprocessing": preprocessing}
    files = data if len(data) > 1 else data[0]
    return sq.rows(files, target, random_state=seed, **reading.parameters(), **choices)
