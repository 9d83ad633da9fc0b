"""``squeak.rows``: from whatever the user has to a row source."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from squeak.core.advice import Advice, InputTypeError
from squeak.core.checks import check_choice
from squeak.core.rows import refuse_masked
from squeak.core.seeds import RandomState, draw_seed
from squeak.data.arrow_files import ArrowReader
from squeak.data.csv_files import CsvReader
from squeak.data.csv_text import CsvFormat
from squeak.data.dask_parts import DelayedReader
from squeak.data.files import AnyPath, file_kind, find_files
from squeak.data.generated import GeneratedReader, GeneratedRows
from squeak.data.hive import with_folders
from squeak.data.json_files import JsonReader
from squeak.data.learning import Request
from squeak.data.parquet import ParquetReader
from squeak.data.preprocessing import Preprocessing
from squeak.data.queries import query_reader, stream_reader
from squeak.data.readers import ArrayReader, IteratorReader, Reader, TableReader, refuse_masked_targets
from squeak.data.source import RowSource
from squeak.data.targets import is_name


def rows(
    source: Any,
    target: Any = None,
    columns: Sequence[Any] | None = None,
    *,
    query: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    drop: Sequence[Any] = (),
    scale: Any = None,
    categories: Any = "onehot",
    missing: Any = None,
    on_bad_rows: str = "raise",
    shuffle: bool = False,
    preprocessing: Preprocessing | None = None,
    learn_rows: int = 20_000,
    max_categories: int = 100,
    delimiter: str | None = None,
    header: bool | None = None,
    na_values: Sequence[str] = (),
    encoding: str = "utf8",
    random_state: RandomState = None,
) -> RowSource:
    """Describe where rows are and how they become numbers; the result reads them block by block.

    Parameters
    ----------
    source : array, CSR, table, path, list of paths, database, Arrow stream, Dask collection, or iterator
        A table is one of pandas, polars (a LazyFrame too) or Arrow. A path may be a Parquet, CSV, JSON lines,
        Arrow or ``.npy`` file, a folder of them or a glob, here or elsewhere by its URL (``s3://``, ``gs://``,
        ``abfs://``, ``hdfs://``, ``https://``); CSV and JSON lines may be packed (``.gz``, ``.bz2``, ``.zst``,
        ``.lz4``). Folders named ``year=2020`` give a column. With ``query`` the source is a database. Anything with
        Arrow's stream interface (``__arrow_c_stream__``: a DuckDB relation, for one), a data set of Arrow or of
        Hugging Face, and a cursor with a result are read batch by batch. A Dask array or DataFrame is read by
        partitions, each computed where it is read. :class:`GeneratedRows` are made as they are read. An iterator
        gives blocks (arrays, CSR or tables, or pairs with their targets) and can be read once; a function that
        returns a new iterator can be called for every pass.
    target : str, int, array or True, optional
        The column to predict. For arrays it may also be the targets themselves, and for an iterator of pairs it is
        True.
    columns : sequence of str or int, optional
        The columns to use. By default these are all columns except the target.
    query : str or SQLAlchemy statement, optional
        What to ask a database, once for every pass. ``source`` is then a connection or a cursor of DB-API or ADBC,
        a DuckDB connection, a SQLAlchemy engine or connection, or a database's URL as SQLAlchemy writes it
        (``"sqlite:///flights.db"``). Every pass must give the same rows in the same order: where the order matters
        (checkpoints, folds), the query says ORDER BY.
    storage_options : mapping, optional
        Options of the file system that a URL leads to, as pyarrow's has them (``region``, ``endpoint_override``,
        ``anonymous``, …), or fsspec's where pyarrow has none. Without them credentials are found as those libraries
        find them. They are never stored.
    drop : sequence of str or int
        The columns to leave out.
    scale : {"standard", "robust", None}, (centre, scale), or a mapping from columns to these
        How numbers are scaled. "standard" is (x − mean)/std. "robust" is for columns with long tails: z/√(1 +
        (z/3)²) with z = (x − median)/(75% − 25% quantile), which stays within ±3. (If the two quantiles are equal,
        1.5 times the mean distance from the median takes the place of their distance.) The scale is learned from
        the first ``learn_rows`` rows and then stays fixed. In a mapping ``"*"`` stands for all other columns.
        Categories are not scaled.
    categories : {"onehot", "codes", "target", "auto", None}, list of values, or a mapping from columns to these
        How text becomes numbers: columns of 0 and 1, the number of the value, or the mean target of the rows with
        that value, in which no row sees its own target. "auto" is "onehot" for up to 20 values and "target" for
        more, if there are targets. All forms have a place for values that come up later. None refuses text. A
        column of numbers becomes a category if the mapping names it. A value is one category whatever file it comes
        from: ``1.0`` in CSV is the number 1 of a Parquet file, and ``true`` is ``True``.
    missing : {"mean", "median", None}, number, or a mapping from columns to these
        What fills a missing value. (A missing category goes to the place for other values.) With None, a row with a
        missing value is a bad row.
    on_bad_rows : {"raise", "skip"}
        What to do with rows that have missing or infinite values, and with CSV lines that have too many or too few
        values: refuse them, or skip and count them. A CSV column of numbers, dates or times with a few words in it
        is read as numbers, dates or times. The words are then refused, or are missing values, which a warning
        names.
    shuffle : bool
        Whether to read row groups (of Parquet), files (of CSV) or stretches (of arrays) in a random order. Use it
        for sorted data.
    preprocessing : Preprocessing, optional
        A preprocessing that was learned before, such as ``dictionary.preprocessing``, to be used in place of a new
        one.
    learn_rows : int
        The number of rows, the first in reading order, from which scales and categories are learned.
    max_categories : int
        A text column with more different values than this is refused, unless it becomes its mean target.
    delimiter, header, na_values, encoding
        How CSV files are read. The first line has the names of the columns unless ``header`` is False.
        ``na_values`` are words that stand for a missing value, beside the empty one, NA, N/A, n/a, NaN, nan, null,
        NULL, None and #N/A.
    random_state : None, int, RandomState or Generator
        The seed of ``shuffle``.

    Returns
    -------
    RowSource
        An object that every ``fit`` takes in place of an array. No more than a few blocks of rows are in memory.

    Notes
    -----
    Dates become days since 1970, times of day hours, durations seconds. Row numbers in messages count from 0
    and do not count a header. Rows skipped have no number in the dictionary: ``indices`` counts the rows
    kept, in reading order.

    A file that is changed or replaced after it was opened, and an iterator's function that gives another number of
    rows on a later pass, are errors. A warning says when, with a given ``preprocessing``, more than a tenth of the
    rows (and 5 or more) have a category that was not there when it was learned.

    References
    ----------
    The guide to row sources, docs/rows.md. Holzmüller, Grinsztajn, Steinwart (2024): "Better by default: strong
    pre-tuned MLPs and boosted trees on tabular data", for the soft clip.

    Examples
    --------
    >>> import pandas as pd, squeak
    >>> columns = {"km": [1.0, 2.0, None, 5.0], "to": ["A", "B", "A", "A"], "late": [0.0, 3.0, 1.0, 2.0]}
    >>> frame = pd.DataFrame(columns)
    >>> source = squeak.rows(frame, target="late", on_bad_rows="skip")
    >>> for X, y in source:
    ...     print(X, y)
    [[1. 1. 0. 0.]
     [2. 0. 1. 0.]
     [5. 1. 0. 0.]] [0. 3. 2.]
    >>> source.skipped_
    1
    """
    check_choice("on_bad_rows", on_bad_rows, "raise", "skip")
    if preprocessing is not None and not isinstance(preprocessing, Preprocessing):
        words = f"{{name}} must be a Preprocessing; it is a {type(preprocessing).__name__}"
        raise InputTypeError(Advice(words, "preprocessing", preprocessing))
    chosen = columns is not None or drop or scale is not None or missing is not None or categories != "onehot"
    if preprocessing is not None and chosen:
        raise ValueError(
            "with a given preprocessing there is nothing to choose: leave out columns, scale, categories, missing"
        )
    request = Request(
        _names(columns, "columns"),
        _names(drop, "drop") or (),
        _plain_lists(scale),
        _plain_lists(categories),
        missing,
        max_categories,
        learn_rows,
    )
    skip = on_bad_rows == "skip"
    if isinstance(source, RowSource):
        raise TypeError("this is a row source already")
    form = CsvFormat(
        "," if delimiter is None else delimiter, header, tuple(str(word) for word in na_values), encoding
    )
    needs = _Needs(request, preprocessing, target)
    if query is not None:
        reader: Reader = query_reader(source, query)
    elif is_paths(source):
        files = find_files(source, storage_options)
        if delimiter is None and all(".tsv" in path.name.lower() for path in files):
            form = replace(form, delimiter="\t")
        reader = open_files(files, target, needs, form, skip=skip)
    else:
        reader = _open(source, target)
    seed = draw_seed(random_state) if shuffle else None
    return RowSource(
        reader, request, target=target, skip=skip, preprocessing=preprocessing, shuffle_seed=seed, form=form
    )


@dataclass(frozen=True)
class _Needs:
    """Which columns of a file are needed, and which of them are text whatever they look like."""

    request: Request
    preprocessing: Preprocessing | None
    target: Any

    def columns(self, there: Sequence[str]) -> list[str]:
        """Return the columns that are needed of those that are there."""
        wanted = self.request.columns
        if self.preprocessing is not None and self.preprocessing.width is None:
            wanted = self.preprocessing.column_names
        needed, left = set(there if wanted is None else wanted), set(self.request.drop)
        return [name for name in there if (name in needed or name == self.target) and name not in left]

    def kinds(self) -> dict[str, str]:
        """Return what columns are, whatever they look like: "text" for categories, or as a preprocessing has it."""
        if self.preprocessing is None:
            return {str(name): "text" for name in self.request.as_text()}
        known = {column.name: getattr(column, "kind", column.code) for column in self.preprocessing.columns}
        return known | dict.fromkeys(self.words(), "text")

    def words(self) -> dict[str, Collection[str]]:
        """Return the known values of categories."""
        if self.preprocessing is not None:
            return {
                column.name: column.values for column in self.preprocessing.columns if hasattr(column, "values")
            }
        asked = self.request.categories if isinstance(self.request.categories, Mapping) else {}
        return {
            str(name): [str(one) for one in how] for name, how in asked.items() if isinstance(how, list | tuple)
        }


def _names(names: Any, option: str) -> tuple[Any, ...] | None:
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InputTypeError(Advice(f"{{name}} must be a list of column names, not {names!r}", option, names))
    return tuple(names)


def _plain_lists(value: Any) -> Any:
    """Return pandas-like lists of values as tuples, within a mapping too."""
    if isinstance(value, Mapping):
        return {name: _plain_lists(one) for name, one in value.items()}
    return tuple(value) if isinstance(value, np.ndarray | list) else value


def is_paths(source: Any) -> bool:
    """Tell whether a source is the name of a file, or a list of names."""
    some = source if isinstance(source, list | tuple) and source else [source]
    return all(isinstance(one, str | os.PathLike) for one in some)


def _open(source: Any, target: Any) -> Reader:
    """Return the reader that fits what the user has, which is no file."""
    library = type(source).__module__.partition(".")[0]
    if hasattr(source, "__dask_graph__"):
        return DelayedReader(source)
    if isinstance(source, GeneratedRows):
        return GeneratedReader(source)
    if library in ("pandas", "polars", "pyarrow") and hasattr(source, "shape") and hasattr(source, "columns"):
        return TableReader(source, _apart(target))
    if sp.issparse(source) or isinstance(source, np.ndarray):
        refuse_masked(source)
        return ArrayReader(source, _apart(target))
    if (found := stream_reader(source)) is not None:
        return found
    if isinstance(source, list | tuple):
        if not source:
            raise ValueError("there are no rows: the list is empty")
        if not hasattr(source[0], "shape"):
            refuse_masked(source)
            try:
                table = np.asarray(source)
            except ValueError:
                raise ValueError("the rows of the list have different numbers of columns") from None
            return ArrayReader(table, _apart(target))
        return IteratorReader(lambda: iter(source), has_target=target is True)
    if callable(source) or hasattr(source, "__next__"):
        return IteratorReader(source, has_target=target is True)
    raise TypeError(
        f"rows cannot be read from a {type(source).__name__}: pass an array, a table, a path, a database with a "
        "query, an Arrow stream or an iterator"
    )


def _apart(target: Any) -> Any:
    """Return targets that were given as numbers of their own, not by the name of a column."""
    if target is None or is_name(target) or target is True:
        return None
    refuse_masked_targets(target)
    return np.asarray(target)


def open_files(
    paths: Sequence[AnyPath], target: Any, needs: _Needs, form: CsvFormat, *, skip: bool, folders: Any = None
) -> Reader:
    """Return the reader of files, all of one kind; ``folders``: which of their folders' columns, where known."""
    kinds = {file_kind(path) for path in paths}
    if len(kinds) > 1:
        raise ValueError(f"the files are of several kinds ({', '.join(path.name for path in paths[:3])}, …)")
    kind, files, known = kinds.pop(), list(paths), needs.kinds()
    if kind == "npy":
        if len(files) > 1 or not isinstance(files[0], Path):
            raise ValueError("an npy file is read alone and from here: pass an iterator of arrays for several")
        return ArrayReader.open(files[0], _apart(target))
    if kind == "parquet":
        reader: Reader = ParquetReader(files, needs.columns)
    elif kind == "arrow":
        reader = ArrowReader(files, needs.columns)
    elif kind == "json":
        reader = JsonReader(files, needs.columns, known)
    elif kind == "csv":
        reader = CsvReader(
            files, form, needs.columns, skip=skip, kinds=known, words=needs.words(), target=needs.target
        )
    else:
        raise ValueError(
            f"{files[0].name} is of a kind that is not known: its name should end in .parquet, .csv, .tsv, .jsonl, "
            ".arrow, .feather or .npy (CSV and JSON lines also .gz, .bz2, .zst or .lz4)"
        )
    return with_folders(reader, files, known, folders)


def paths_of(recipe: Mapping[str, Any]) -> list[str]:
    """Return the names of a recipe's files, or raise."""
    paths = recipe["paths"]
    if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
        raise ValueError("the recipe of the source is damaged")
    return paths


def reopen(recipe: Mapping[str, Any], preprocessing: Preprocessing | None) -> RowSource:
    """Open the files of a recipe again, with the preprocessing that was learned then."""
    paths, seed, form = paths_of(recipe), recipe["shuffle_seed"], recipe["form"]
    csv = CsvFormat(
        str(form["delimiter"]),
        form["header"],
        tuple(str(word) for word in form["na_values"]),
        str(form["encoding"]),
    )
    found = [path for one in paths for path in find_files(one)]
    needs = _Needs(Request(), preprocessing, recipe["target"])
    folders = recipe.get("folders", ())
    reader = open_files(found, None, needs, csv, skip=bool(recipe["skip"]), folders=folders)
    return RowSource(
        reader,
        Request(),
        target=recipe["target"],
        skip=bool(recipe["skip"]),
        preprocessing=preprocessing,
        learned=True,
        shuffle_seed=None if seed is None else int(seed),
        form=csv,
    )
