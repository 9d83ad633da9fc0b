"""Rows of databases and of Arrow streams: the same rows as from a table, in every pass, and predictions back."""

import contextlib
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

import squeak
from squeak import KernelRidge, Squeak
from squeak.data import queries
from squeak.kernels import RBF

duckdb = pytest.importorskip("duckdb")
sqlalchemy = pytest.importorskip("sqlalchemy")
adbc = pytest.importorskip("adbc_driver_sqlite.dbapi")

N = 1_000
ASKED = "SELECT id, x, carrier, y FROM flights ORDER BY id"


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """Fetch a few rows at a time, so that a result comes in several batches."""
    monkeypatch.setattr(queries, "FETCHED_ROWS", 300)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"id": np.arange(N), "x": rng.standard_normal(N), "carrier": rng.choice(["AA", "DL"], N)})
    table["y"] = np.sin(table.x) + (table.carrier == "AA")
    return table


@pytest.fixture(scope="module")
def sqlite_file(frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("db") / "flights.db"
    with sqlite3.connect(path) as connection:
        frame.to_sql("flights", connection, index=False)
    connection.close()
    return path


@pytest.fixture(scope="module")
def duck_file(frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("db") / "flights.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("given", pa.Table.from_pandas(frame))
        connection.execute("CREATE TABLE flights AS SELECT * FROM given")
    return path


class Exported:
    """A table of another library, known by Arrow's stream interface and its length alone."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)

    def __len__(self):
        return len(self._table)


class HuggingFaceLike:
    """A data set with the two methods by which Hugging Face's give Arrow tables."""

    def __init__(self, table):
        self._table = table

    def with_format(self, kind):
        assert kind == "arrow"
        return self

    def iter(self, batch_size):
        return iter([self._table.slice(at, batch_size) for at in range(0, len(self._table), batch_size)])


def relation(given, opened):
    return opened(duckdb.connect(str(given.duck), read_only=True)).sql(ASKED)


def engine(given, opened):
    made = sqlalchemy.create_engine(f"sqlite:///{given.lite}")
    opened(contextlib.ExitStack()).callback(made.dispose)
    return made


def lite(given, opened):
    return opened(contextlib.closing(sqlite3.connect(given.lite)))


def adbc_lite(given, opened):
    return opened(adbc.connect(str(given.lite)))


ORIGINS = {  # what is given to squeak.rows with which query, and whether it can be asked again
    "sqlite connection": (lite, ASKED, True),
    "sqlite cursor": (lambda given, opened: lite(given, opened).cursor(), ASKED, True),
    "executed cursor": (lambda given, opened: lite(given, opened).execute(ASKED), None, False),
    "sqlite URL": (lambda given, opened: f"sqlite:///{given.lite}", ASKED, True),
    "SQLAlchemy engine": (engine, ASKED, True),
    "SQLAlchemy connection": (
        lambda given, opened: opened(engine(given, opened).connect()),
        sqlalchemy.text(ASKED),
        True,
    ),
    "ADBC connection": (adbc_lite, ASKED, True),
    "ADBC cursor": (lambda given, opened: opened(adbc_lite(given, opened).cursor()), ASKED, True),
    "DuckDB connection": (
        lambda given, opened: opened(duckdb.connect(str(given.duck), read_only=True)),
        ASKED,
        True,
    ),
    "DuckDB relation": (relation, None, True),
    "DuckDB URL": (lambda given, opened: f"duckdb:///{given.duck}", ASKED, True),
    "record batches": (lambda given, opened: given.table.to_reader(max_chunksize=300), None, False),
    "Arrow stream": (lambda given, opened: Exported(given.table), None, True),
    "Arrow data set": (lambda given, opened: pyarrow.dataset.dataset(given.table), None, True),
    "lazy frame": (lambda given, opened: pl.from_arrow(given.table).lazy(), None, True),
    "Hugging Face": (lambda given, opened: HuggingFaceLike(given.table), None, True),
}


@pytest.mark.parametrize("kind", ORIGINS)
def test_rows_are_those_of_the_table_in_every_pass(kind, frame, sqlite_file, duck_file):
    make, query, again = ORIGINS[kind]
    places = SimpleNamespace(lite=sqlite_file, duck=duck_file, table=pa.Table.from_pandas(frame))
    expected, y = squeak.rows(frame, "y", drop=["id"], scale="standard").collect()
    with contextlib.ExitStack() as stack:
        source = squeak.rows(make(places, stack.enter_context), "y", query=query, drop=["id"], scale="standard")
        assert source.repeatable is again
        for _ in range(2 if again else 1):
            X, found = source.collect()
            assert np.array_equal(X, expected)
            assert np.array_equal(found, y)
        if not again:
            with pytest.raises(ValueError, match="only once"):
                source.collect()


def test_a_model_learned_from_a_query_is_that_of_the_table(frame, sqlite_file):
    model = KernelRidge(RBF("median"), alpha=1.0, max_atoms=50, random_state=0)
    source = squeak.rows(sqlite3.connect(sqlite_file), "y", query=ASKED, drop=["id"])
    expected = model.fit(squeak.rows(frame, "y", drop=["id"])).dual_coef_
    assert np.array_equal(model.fit(source).dual_coef_, expected)


def test_a_run_over_a_query_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(queries, "FETCHED_ROWS", 20_000)
    counting = (
        "WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 139999) SELECT {} AS x FROM c"
    )
    connection, run = sqlite3.connect(":memory:"), tmp_path / "run.sqk"
    sampler = Squeak(RBF(200.0), max_atoms=15, random_state=0)
    source = squeak.rows(connection, query=counting.format("i % 997"))
    whole = sampler.fit(source).dictionary_
    tables = queries._tables

    def stopping(names, parts):
        for number, table in enumerate(tables(names, parts)):
            if number == 5:
                raise KeyboardInterrupt
            yield table

    with monkeypatch.context() as patch:
        patch.setattr(queries, "_tables", stopping)
        with pytest.raises(KeyboardInterrupt):
            sampler.fit(source, checkpoint=run)
    with pytest.raises(ValueError, match="over other data"):
        Squeak.resume(run, squeak.rows(connection, query=counting.format("i % 991 + 5")))
    assert Squeak.resume(run, squeak.rows(connection, query=counting.format("i % 997"))).dictionary_ == whole


def test_a_query_that_gives_other_rows_on_the_next_pass_is_an_error(frame):
    connection = sqlite3.connect(":memory:")
    frame.to_sql("flights", connection, index=False)
    source = squeak.rows(connection, query=ASKED)
    source.collect()
    connection.execute("DELETE FROM flights WHERE id < 10")
    with pytest.raises(ValueError, match="had 1,000 rows when it was first read and has 990 now"):
        source.collect()


def test_a_query_may_be_left_in_the_middle(duck_file):
    """DuckDB refuses a query while another result is open: what is not read to its end must be closed."""
    connection = duckdb.connect(str(duck_file), read_only=True)
    source = squeak.rows(connection, query=ASKED)
    reading = source.blocks()
    next(reading)
    reading.close()
    assert connection.execute("SELECT count(*) FROM flights").fetchone() == (N,)
    assert len(source.collect()[0]) == N


def test_values_of_a_database_become_the_numbers_they_stand_for():
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (a, b)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(1, None), (2.5, "u"), (3, "v")])
    X, _ = squeak.rows(connection, query="SELECT a, b FROM t", missing="mean").collect()
    assert X.tolist() == [[1.0, 0.0, 0.0, 1.0], [2.5, 1.0, 0.0, 0.0], [3.0, 0.0, 1.0, 0.0]]
    connection.execute("INSERT INTO t VALUES ('word', 'w')")
    with pytest.raises(TypeError, match="column 'a' of the query holds values of several or unknown types"):
        squeak.rows(connection, query="SELECT a, b FROM t", missing="mean").collect()


def test_a_database_that_is_asked_wrongly_says_so_in_one_error(sqlite_file, duck_file, monkeypatch):
    monkeypatch.chdir(sqlite_file.parent)
    for url, query, message in [
        ("sqlite:///flights.db", None, r"^sqlite:///flights.db is a database; pass query='SELECT …' too$"),
        ("postgresql+psycopg://me:secret@host/db", None, r"^postgresql\+psycopg://host/db is a database"),
        ("flights.db", None, "^flights.db looks like a database; pass its URL, sqlite:///flights.db, and query="),
        ("sqlite:///flights.db", "SELECT * FROM flight", "^the database reports an error: no such table: flight$"),
        (f"duckdb:///{duck_file}", "SELECT * FROM flight", "^the database reports an error: .*flight does"),
        (
            sqlite3.connect(sqlite_file),
            "SELEC * FROM flights",
            '^the database reports an error: near "SELEC": syntax error$',
        ),
        ("mydb://host/flights", "SELECT 1", "^the database reports an error: .*mydb"),
        ("sqlite:///flights.db", "SELECT * FROM flights WHERE 1 = 0", "^the query or stream has no rows$"),
    ]:
        with pytest.raises(ValueError, match=message):
            squeak.rows(url, query=query)
    with pytest.raises(ValueError, match="no such table") as raised:
        squeak.rows("sqlite:///flights.db", query="SELECT * FROM flight")
    assert isinstance(raised.value.__cause__, sqlalchemy.exc.OperationalError)
    monkeypatch.setitem(sys.modules, "MySQLdb", None)
    with pytest.raises(ImportError, match=r"^the driver of mysql:// is not installed .*mysql\+DRIVER"):
        squeak.rows("mysql://me@host/flights", query="SELECT 1")
    for kind in ("sqlite", "duckdb"):
        with pytest.raises(FileNotFoundError, match="there is no database not_there"):
            squeak.rows(f"{kind}:///not_there.db", query="SELECT * FROM flights")
    assert not Path("not_there.db").exists()  # SQLite alone would make an empty one


def test_predictions_go_back_as_an_arrow_stream_with_the_key(frame, duck_file, tmp_path):
    connection = duckdb.connect(str(duck_file), read_only=True)
    source = squeak.rows(connection, "y", query=ASKED, drop=["id"])
    model = KernelRidge(RBF("median"), max_atoms=50, random_state=0).fit(source)
    asked = squeak.rows(connection, query=ASKED, preprocessing=model.preprocessing_)
    stream = model.predict_arrow(asked, keep=["id"], std=True, coverage=0.9)
    other = duckdb.connect(str(tmp_path / "out.duckdb"))
    other.register("stream", stream)
    other.execute("CREATE TABLE predictions AS SELECT * FROM stream")
    found = other.execute("SELECT * FROM predictions ORDER BY id").fetchdf()
    assert list(found.columns) == ["id", "prediction", "std", "low", "high"]
    mean, std = model.predict(frame, return_std=True)
    np.testing.assert_allclose(found.prediction, mean, rtol=1e-9)
    np.testing.assert_allclose(found["std"], std, rtol=1e-9)
    assert found.id.tolist() == list(range(N))
    assert np.all((found.low < found.prediction) & (found.prediction < found.high))


def test_predictions_name_their_rows_where_some_are_skipped(frame):
    holes = frame.assign(x=frame.x.where(frame.id % 100 != 7))
    model = squeak.KernelClassifier(RBF(1.0), max_atoms=30, random_state=0)
    model.fit(squeak.rows(frame, "carrier", columns=["x", "y"]))
    asked = squeak.rows(holes, preprocessing=model.preprocessing_, on_bad_rows="skip")
    found = model.predict_arrow(asked, keep=["id"], probabilities=True).read_all()
    assert found.column_names == ["id", "row", "prediction", "p(AA)", "p(DL)"]
    kept = frame[frame.id % 100 != 7]
    assert found["id"].to_pylist() == found["row"].to_pylist() == kept.id.tolist()
    assert found["prediction"].to_pylist() == model.predict(kept).tolist()
    assert asked.skipped_ == 10
    with pytest.raises(ValueError, match="there is no column 'key'"):
        model.predict_arrow(asked, keep=["key"])
    with pytest.raises(ValueError, match="has the name of an answer"):
        model.predict_arrow(
            squeak.rows(frame.assign(prediction=0.0), preprocessing=model.preprocessing_), keep=["prediction"]
        )


@pytest.fixture(scope="module")
def postgres(frame):
    """Yield the address of a PostgreSQL server of our own, on loopback; it ends with the test."""
    psycopg = pytest.importorskip("psycopg")
    places = [Path(shutil.which("initdb") or "/nowhere"), *sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))]
    initdb = next((place for place in reversed(places) if place.exists()), None)
    if initdb is None:
        pytest.skip("PostgreSQL's server is not installed (Debian: apt-get install postgresql)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="squeak-pg-"))
    as_user = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        shutil.chown(folder, "nobody")
        as_user = {"user": "nobody"}
    command = [initdb, "-D", folder / "data", "-U", "squeak", "-A", "trust", "-E", "UTF8", "--no-sync"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **as_user)
    server = subprocess.Popen(
        [initdb.with_name("postgres"), "-D", folder / "data", "-p", str(port), "-h", "127.0.0.1", "-k", folder],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **as_user,
    )
    address = f"host=127.0.0.1 port={port} user=squeak dbname=postgres"
    try:
        for _ in range(200):
            try:
                connection = psycopg.connect(address)
                break
            except psycopg.OperationalError:
                assert server.poll() is None, "the server ended"
                time.sleep(0.1)
        with connection:
            connection.execute(
                "CREATE TABLE flights (id integer, x double precision, carrier text, y double precision)"
            )
            with connection.cursor().copy("COPY flights FROM STDIN") as copy:
                for row in frame.itertuples(index=False):
                    copy.write_row(tuple(row))
        yield address, port
    finally:
        server.send_signal(signal.SIGINT)  # ends its connections too
        server.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def test_postgresql_gives_the_same_rows_by_every_driver(frame, postgres):
    import psycopg

    address, port = postgres
    expected, y = squeak.rows(frame, "y", drop=["id"], scale="standard").collect()
    adbc_postgresql = pytest.importorskip("adbc_driver_postgresql.dbapi")
    with (
        psycopg.connect(address) as plain,
        psycopg.connect(address, autocommit=True) as free,
        adbc_postgresql.connect(f"postgresql://squeak@127.0.0.1:{port}/postgres") as arrow,
    ):
        for given in (plain, free, arrow, f"postgresql+psycopg://squeak@127.0.0.1:{port}/postgres"):
            source = squeak.rows(given, "y", query=ASKED, drop=["id"], scale="standard")
            for _ in range(2):
                X, found = source.collect()
                assert np.array_equal(X, expected)
                assert np.array_equal(found, y)
        assert free.info.transaction_status.name == "IDLE"
        typed = "SELECT date '1970-01-03' AS d, 1.5::numeric AS n, time '06:00' AS t, true AS b, NULL::text AS z"
        X, _ = squeak.rows(free, query=typed, drop=["z"]).collect()
        assert X.tolist() == [[2.0, 1.5, 6.0, 1.0]]


def test_the_server_keeps_what_is_not_yet_asked_for(postgres, monkeypatch):
    """A result is fetched from a cursor on the server, so that the client never holds all of it."""
    import psycopg

    fetched = []
    whole = psycopg.ServerCursor.fetchmany

    def fetchmany(self, size=0):
        fetched.append(size)
        return whole(self, size)

    monkeypatch.setattr(psycopg.ServerCursor, "fetchmany", fetchmany)
    with psycopg.connect(postgres[0]) as connection:
        assert len(squeak.rows(connection, query=ASKED).collect()[0]) == N
    assert fetched.count(300) >= 4


def test_times_with_a_zone_come_from_duckdb_as_dates(tmp_path):
    """By Arrow, and not row by row, which would need pytz."""
    with duckdb.connect(str(tmp_path / "times.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE times AS SELECT range % 5 AS y, "
            "TIMESTAMPTZ '2024-01-01 00:00:00+00' + INTERVAL 1 HOUR * range AS moment FROM range(100)"
        )
        source = squeak.rows(connection, query="SELECT * FROM times ORDER BY moment", target="y")
        assert [type(column).__name__ for column in source.preprocessing.columns] == ["DateColumn"]
        assert source.collect()[0][:, 0] == pytest.approx(19_723 + np.arange(100) / 24)


def test_dates_as_text_are_told(tmp_path):
    days = pd.date_range("2024-01-01", periods=40).astype(str)
    frame = pd.DataFrame({"day": days, "y": np.arange(40.0)})
    with pytest.warns(UserWarning, match="'day' holds dates as text, and is learned as 40 categories"):
        squeak.rows(frame, target="y").collect()
    few = pd.DataFrame({"day": list(days[:4]) * 10, "y": np.arange(40.0)})
    squeak.rows(few, target="y").collect()
    squeak.rows(frame, target="y", categories={"day": "onehot"}).collect()
