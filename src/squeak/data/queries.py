"""Rows of databases and of Arrow streams, batch by batch: each pass asks the query anew."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from squeak.data.readers import IteratorReader

FETCHED_ROWS = 16_384
"""Rows that are asked of a database at once."""


class StreamReader(IteratorReader):
    """Batches that an Arrow stream or a query gives, once or anew for every pass.

    ``make``: returns the batches from the first on. ``repeatable``: whether it may be called again.
    """

    def __init__(self, make: Callable[[], Iterable[Any]], *, repeatable: bool = True) -> None:
        super().__init__(make if repeatable else iter(make()), has_target=False)

    nothing = "the query or stream has no rows"


def stream_reader(source: Any) -> StreamReader | None:
    """Return the reader of an Arrow stream, a lazy frame, a data set or an executed cursor; None for others."""
    library = type(source).__module__.partition(".")[0]
    if library == "polars" and type(source).__name__ == "LazyFrame":
        return StreamReader(lambda: _lazy(source))
    if library == "pyarrow" and hasattr(source, "read_next_batch"):
        return StreamReader(lambda: iter(source), repeatable=False)
    if library == "pyarrow" and hasattr(source, "to_batches"):  # a data set; tables were met before
        return StreamReader(lambda: source.to_batches())
    if (hasattr(source, "cursor") and hasattr(source, "close")) or _is_sqlalchemy(source):
        raise TypeError(f"a database's {type(source).__name__} needs a query: squeak.rows(…, query='SELECT …')")
    if type(source).__name__ == "DuckDBPyRelation":
        return StreamReader(lambda: _duckdb(source))
    if hasattr(source, "__arrow_c_stream__"):
        again = any(hasattr(source, name) for name in ("__len__", "num_rows", "shape"))
        return StreamReader(lambda: _arrow(source), repeatable=again)
    if hasattr(source, "with_format") and hasattr(source, "iter"):  # a data set of Hugging Face
        return StreamReader(lambda: source.with_format("arrow").iter(batch_size=FETCHED_ROWS))
    if hasattr(source, "fetchmany"):
        if getattr(source, "description", None) is None:
            raise TypeError("the cursor has no result: pass the query, squeak.rows(cursor, query='SELECT …')")
        return StreamReader(lambda: _fetched(source), repeatable=False)
    return None


def query_reader(source: Any, query: Any) -> StreamReader:
    """Return the reader of a query's rows, which is asked anew for every pass.

    ``source``: a connection or cursor of DB-API or ADBC, a DuckDB connection, a SQLAlchemy engine or connection, or
    the URL of a database as SQLAlchemy writes it.
    """
    if isinstance(source, str):
        source = _connected(source)
    ask: Callable[[Any, Any], Iterator[Any]]
    if _is_sqlalchemy(source):
        ask = _from_sqlalchemy
    elif not isinstance(query, str):
        raise TypeError(f"query is text for this database; it is a {type(query).__name__}")
    elif type(source).__module__.partition(".")[0] in ("duckdb", "_duckdb"):  # the second from version 1.5 on
        ask = _from_duckdb
    elif hasattr(source, "fetchmany") and hasattr(source, "execute"):
        ask = _from_cursor
    elif hasattr(source, "cursor"):
        ask = _from_connection
    else:
        raise TypeError(
            f"a {type(source).__name__} cannot be asked a query: pass a DB-API, ADBC or DuckDB connection or "
            "cursor, a SQLAlchemy engine, or the URL of a database"
        )
    return StreamReader(lambda: _answered(ask(source, query)))


def _answered(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the batches of a query."""
    with _one_error():
        yield from batches


@contextlib.contextmanager
def _one_error() -> Iterator[None]:
    """Have a database say what is wrong in a ValueError, behind which is the error of its driver."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ValueError | TypeError) or type(error).__module__ == "builtins":
            raise
        said = str(getattr(error, "orig", None) or error).partition("\n\n")[0]  # SQLAlchemy's has its driver's
        raise ValueError(f"the database reports an error: {' '.join(said.split())}") from error


def _connected(url: str) -> Any:
    """Return what is at a database's URL: duckdb:///file by DuckDB itself, everything else by SQLAlchemy."""
    kind, _, place = url.partition("://")
    if not place:
        raise ValueError(
            "with a query the source is a connection or a database's URL, such as sqlite:///flights.db; files are "
            "read without a query"
        )
    try:
        if kind == "duckdb":
            import duckdb
        else:
            from sqlalchemy import create_engine, make_url, pool
    except ImportError:
        raise ImportError(
            "a database's URL needs SQLAlchemy or DuckDB: pip install 'squeak-learn[sql]', or pass a connection"
        ) from None
    with _one_error():
        if kind == "duckdb":
            return duckdb.connect(_existing(place.removeprefix("/")), read_only=True)
        if kind.partition("+")[0] == "sqlite":
            _existing(make_url(url).database or "")  # else SQLite would make an empty one
        try:
            return create_engine(url, poolclass=pool.NullPool)  # a connection is closed after every pass
        except ImportError as error:
            raise ImportError(
                f"the driver of {kind}:// is not installed ({error}): install it, or name one that is, as in "
                f"{kind.partition('+')[0]}+DRIVER://…"
            ) from None


def _existing(path: str) -> str:
    """Return the file of a database, or raise where there is none; :memory: and md:flights name no files."""
    if path and ":" not in path[2:] and not Path(path).exists():
        raise FileNotFoundError(f"there is no database {path}")
    return path


def _is_sqlalchemy(source: Any) -> bool:
    return type(source).__module__.startswith("sqlalchemy.") and hasattr(source, "execution_options")


def _duckdb(relation: Any) -> Iterator[Any]:
    """Yield the batches of a DuckDB relation."""
    yield from _arrow(_duckdb_reader(relation))


def _duckdb_reader(relation: Any) -> Any:
    """Return the reader of a DuckDB relation, for which versions before 1.5 have another name."""
    if relation is None:
        raise ValueError("the query gives no rows: it must be a SELECT")
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    return reader(FETCHED_ROWS)


def _from_duckdb(connection: Any, query: str) -> Iterator[Any]:
    """Yield the rows of a query, by a cursor of its own where a result of the connection is still open."""
    try:
        reader = _duckdb_reader(connection.sql(query))
    except Exception as error:
        if "unfinished result" not in str(error):
            raise
        reader = _duckdb_reader(connection.cursor().sql(query))
    yield from _arrow(reader)


def _arrow(source: Any) -> Iterator[Any]:
    """Yield the batches of an Arrow stream and close it at the end; DuckDB asks nothing while one is open."""
    import pyarrow as pa

    with pa.RecordBatchReader.from_stream(source) as stream:
        yield from stream


def _lazy(frame: Any) -> Iterator[Any]:
    """Yield the batches of a polars query; polars before 1.34 gives the result in one."""
    if hasattr(frame, "collect_batches"):
        yield from frame.collect_batches(chunk_size=FETCHED_ROWS, maintain_order=True)
    else:
        yield frame.collect()


def _from_sqlalchemy(source: Any, query: Any) -> Iterator[Any]:
    from sqlalchemy import text

    statement = text(query) if isinstance(query, str) else query
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(source.connect()) if hasattr(source, "connect") else source
        result = connection.execute(
            statement, execution_options={"stream_results": True, "max_row_buffer": FETCHED_ROWS}
        )
        stack.callback(result.close)
        if not result.returns_rows:
            raise ValueError("the query gives no rows: it must be a SELECT")
        names = list(result.keys())
        yield from _tables(names, result.partitions(FETCHED_ROWS))


def _from_connection(connection: Any, query: str) -> Iterator[Any]:
    """Yield the rows of a query, from a cursor on the server where the driver would fetch all rows at once."""
    with contextlib.ExitStack() as stack:
        options: dict[str, Any] = {}
        if type(connection).__module__.partition(".")[0] in ("psycopg", "psycopg2"):
            if getattr(connection, "autocommit", False) and hasattr(connection, "transaction"):
                stack.enter_context(connection.transaction())  # such a cursor lives in a transaction
            if not getattr(connection, "autocommit", False) or hasattr(connection, "transaction"):
                options = {"name": "squeak_rows"}
        cursor = connection.cursor(**options)
        stack.callback(cursor.close)
        yield from _from_cursor(cursor, query)


def _from_cursor(cursor: Any, query: str) -> Iterator[Any]:
    cursor.execute(query)
    yield from _fetched(cursor)


def _fetched(cursor: Any) -> Iterator[Any]:
    """Yield the rows that a cursor has to give."""
    if hasattr(cursor, "fetch_record_batch"):  # ADBC
        yield from _arrow(cursor.fetch_record_batch())
        return
    found = cursor.fetchmany(FETCHED_ROWS)
    if cursor.description is None:
        raise ValueError("the query gives no rows: it must be a SELECT")
    yield from _tables([column[0] for column in cursor.description], _rest(found, cursor))


def _rest(found: Sequence[Any], cursor: Any) -> Iterator[Sequence[Any]]:
    while found:
        yield found
        found = cursor.fetchmany(FETCHED_ROWS)


def _tables(names: Sequence[str], parts: Iterable[Sequence[Any]]) -> Iterator[Any]:
    """Yield tables of rows that came as tuples."""
    import pyarrow as pa

    first = 0
    for part in parts:
        columns = []
        for name, values in zip(names, zip(*part, strict=True), strict=True):
            try:
                columns.append(pa.array(values, from_pandas=True))
            except (pa.ArrowException, OverflowError) as error:
                reason = str(error).splitlines()[0]
                raise TypeError(
                    f"rows from row {first} on: column {name!r} of the query holds values of several or unknown "
                    f"types ({reason}); cast it to one in the query, or leave it out there"
                ) from None
        yield pa.table(columns, names=list(names))
        first += len(part)
