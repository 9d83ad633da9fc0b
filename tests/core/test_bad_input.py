"""Bad input gets one clear error that names the row, the column or the file, and says what to do."""

import sqlite3

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import squeak
from squeak import Squeak
from squeak.kernels import RBF

rng = np.random.default_rng(0)


def good(n=2_000):
    return pd.DataFrame(
        {"distance": rng.standard_normal(n), "delay": rng.standard_normal(n), "to": ["A", "B"] * (n // 2)}
    )


def parquet(folder, frame, name="flights.parquet", **options):
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), folder / name, **options)
    return folder / name


def text(folder, content, name="flights.csv"):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / name


def with_value(column, row, value):
    frame = good()
    frame.loc[row, column] = value
    return frame


def cut_short(folder):
    path = parquet(folder, good())
    path.write_bytes(path.read_bytes()[:-1_000])
    return squeak.rows(path)


def damaged(folder):
    path = parquet(folder, good(), compression="snappy")
    data = bytearray(path.read_bytes())
    data[4:4_000] = b"\xff" * 3_996
    path.write_bytes(bytes(data))
    return squeak.rows(path)


def two_files(folder, other):
    parquet(folder, good(), "a.parquet")
    parquet(folder, other, "b.parquet")
    return squeak.rows(folder)


def two_texts(folder):
    text(folder, "a,b\n1,2\n", "x.csv")
    text(folder, "a,c\n1,2\n", "y.csv")
    return squeak.rows(str(folder / "*.csv"))


def one_bit(folder):
    """Without checksums a changed bit within a page of numbers is just another number; with them it is found."""
    path = parquet(folder, good(), compression="none", use_dictionary=False, write_page_checksum=True)
    data = bytearray(path.read_bytes())
    data[4_000] ^= 1
    path.write_bytes(bytes(data))
    return squeak.rows(path)


def cut_array(folder):
    np.save(folder / "x.npy", rng.standard_normal((100, 3)))
    (folder / "x.npy").write_bytes((folder / "x.npy").read_bytes()[:-8])
    return squeak.rows(folder / "x.npy")


def object_array(folder):
    np.save(folder / "x.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    return squeak.rows(folder / "x.npy")


def duplicate(folder):
    return squeak.rows(pd.DataFrame(np.ones((3, 2)), columns=["a", "a"]))


def nested(folder):
    pq.write_table(pa.table({"x": [1.0, 2.0], "tags": [[1], [2, 3]]}), folder / "n.parquet")
    return squeak.rows(folder / "n.parquet")


def width_changes(folder):
    return squeak.rows(iter([np.ones((5, 2)), np.ones((5, 3))]))


NAN = r"row 1204 of flights.parquet: column 'distance' is nan; skip such rows with on_bad_rows='skip', or fill"
KINDS = {
    "NaN in row 1,204": (lambda f: squeak.rows(parquet(f, with_value("distance", 1204, np.nan))), NAN),
    "null in row 1,204 of the third row group": (
        lambda f: squeak.rows(parquet(f, with_value("distance", 1204, None), row_group_size=500)),
        NAN,
    ),
    "infinite value": (
        lambda f: squeak.rows(parquet(f, with_value("delay", 7, -np.inf))),
        "row 7 of flights.parquet: column 'delay' is -inf",
    ),
    "infinite value where missing ones are filled": (
        lambda f: squeak.rows(parquet(f, with_value("delay", 7, np.inf)), missing="mean"),
        "row 7 of flights.parquet: column 'delay' is inf",
    ),
    "missing category": (
        lambda f: squeak.rows(parquet(f, with_value("to", 3, None))),
        "row 3 of flights.parquet: column 'to' is nan",
    ),
    "NaN in an array": (
        lambda f: squeak.rows(np.array([[1.0, 2.0], [np.nan, 3.0]])),
        "row 1: column 0 is nan; skip such rows",
    ),
    "NaN in a sparse array": (
        lambda f: squeak.rows(sp.csr_array(np.array([[1.0, 2.0], [0.0, np.nan]]))),
        "row 1: column 1 is nan; skip such rows",
    ),
    "column not there": (
        lambda f: squeak.rows(parquet(f, good()), columns=["distanse"]),
        "there is no column 'distanse'; did you mean 'distance'?",
    ),
    "target not there": (
        lambda f: squeak.rows(parquet(f, good()), target="y"),
        "there is no column 'y'; there are 'distance', 'delay', 'to'",
    ),
    "text with no categories chosen": (
        lambda f: squeak.rows(parquet(f, good()), categories=None),
        "flights.parquet: column 'to' is text; choose categories='onehot', categories='codes', or leave it out",
    ),
    "too many categories": (
        lambda f: squeak.rows(parquet(f, good().assign(id=[f"n{i}" for i in range(2_000)]))),
        "column 'id' has 2,000 different values in the first rows, more than max_categories=100",
    ),
    "another schema: column missing": (
        lambda f: two_files(f, good()[["distance", "to"]]),
        "b.parquet has other columns than a.parquet: there is no column 'delay'",
    ),
    "another schema: another type": (
        lambda f: two_files(f, good().assign(delay="late")),
        "b.parquet has other columns than a.parquet: 'delay' is text, in a.parquet number",
    ),
    "another header": (two_texts, "y.csv has other columns than x.csv: there is no column 'b'"),
    "empty Parquet file": (lambda f: squeak.rows(parquet(f, good()[:0])), "flights.parquet has no rows"),
    "empty CSV file": (lambda f: squeak.rows(text(f, "")), "flights.csv is empty"),
    "CSV with only a header": (lambda f: squeak.rows(text(f, "a,b\n")), "flights.csv has a header and no rows"),
    "Parquet cut short": (cut_short, "flights.parquet is cut short, damaged, or not a Parquet file"),
    "Parquet damaged within": (
        damaged,
        r"flights.parquet is cut short, damaged, or not a Parquet file \(row group 0\)",
    ),
    "Parquet with one bit changed": (one_bit, r"flights.parquet is cut short, damaged.*\(row group 0\)"),
    "npy cut short": (cut_array, "x.npy is cut short or not an array of numbers"),
    "npy of objects": (object_array, "x.npy is cut short or not an array of numbers.*objects"),
    "CSV line cut short": (
        lambda f: squeak.rows(text(f, "a,b\n1,2\n3,4\n5")),
        "row 2 of flights.csv has 1 value where 2 columns are: '5'; is the file cut short[?] skip",
    ),
    "CSV line with too many values far on": (
        lambda f: squeak.rows(text(f, "a,b\n" + f"1,2{' ' * 40}\n" * 110_000 + "1,2,3\n")),
        "row 110000 of flights.csv has 3 values where 2 columns are: '1,2,3'",
    ),
    "byte of another encoding in the first block": (
        lambda f: squeak.rows(text(f, b"a,b\n" + b"1,abc\n" * 300_000 + b"1,gr\xf6\n")),
        "row 300000 of flights.csv is not text in utf8: it holds the byte 0xf6; pass encoding='latin1'",
    ),
    "byte of another encoding far on": (
        lambda f: squeak.rows(text(f, b"a,b\n" + b"1,abc%b\n" % (b" " * 40) * 110_000 + b"1,gr\xf6\n")),
        "row 110000 of flights.csv is not text in utf8: it holds the byte 0xf6; pass encoding='latin1'",
    ),
    "wrong delimiter": (
        lambda f: squeak.rows(text(f, "a;b;c\n1;2;3\n")),
        "flights.csv has one column when cut at ','; is the delimiter ';'.*pass delimiter=';'",
    ),
    "no header": (lambda f: squeak.rows(text(f, "1,2\n3,4\n")), "the first line has numbers.*pass header=False"),
    "a word among numbers": (
        lambda f: squeak.rows(text(f, "a,b\n" + "1,2\n" * 2_000_000 + "3,oops\n")),
        r"row 2000000 of flights.csv: column 'b' is 'oops', not a number.*na_values=\['oops'\]",
    ),
    "zero bytes": (lambda f: squeak.rows(text(f, b"a,b\n\x00\x00,1\n")), "flights.csv is not a CSV file"),
    "constant column": (
        lambda f: squeak.rows(good().assign(delay=3.0), scale="standard"),
        r"column 'delay' is constant \(3\) in the first 2,000 rows, so it has no scale; leave it out",
    ),
    "target with NaN": (
        lambda f: squeak.rows(parquet(f, with_value("delay", 12, np.nan)), target="delay"),
        "row 12 of flights.parquet: the target 'delay' is missing; skip such rows",
    ),
    "fewer targets than rows": (
        lambda f: squeak.rows(np.ones((5, 2)), target=np.ones(4)),
        "there are 5 rows and 4 targets",
    ),
    "all rows skipped": (
        lambda f: squeak.rows(np.full((5, 2), np.nan), on_bad_rows="skip"),
        "there are no rows: all 5 were skipped",
    ),
    "nested column": (
        nested,
        r"n.parquet: column 'tags' has type list<.*>, of which no number can be made; leave it out",
    ),
    "column without values": (
        lambda f: squeak.rows(good().assign(delay=None)),
        r"column 'delay' has no values at all in the first rows; leave it out: squeak.rows\(..., drop=\['delay'\]",
    ),
    "mixed types": (
        lambda f: squeak.rows(pd.DataFrame({"a": [1, "x"]})),
        "column 'a' holds values of several or unknown types",
    ),
    "two columns of one name": (duplicate, "two columns are called 'a'"),
    "width changes": (width_changes, "rows from row 5 on have 3 columns; the rows before had 2"),
    "empty iterator": (lambda f: squeak.rows(iter([])), "the iterator gives no blocks"),
    "no file": (lambda f: squeak.rows(f / "no.parquet"), "there is no file .*no.parquet"),
    "no match": (lambda f: squeak.rows(str(f / "*.parquet")), r"no file matches .*\*\.parquet"),
    "empty folder": (lambda f: squeak.rows(f), "has no Parquet, CSV, JSON lines, Arrow or npy files"),
    "unknown kind of file": (
        lambda f: squeak.rows(text(f, "x", "a.docx")),
        "a.docx is of a kind that is not known",
    ),
    "one file twice": (lambda f: squeak.rows([text(f, "a\n1\n"), f / "flights.csv"]), "flights.csv is named twice"),
    "unknown scale": (lambda f: squeak.rows(good(), scale="minmax"), "scale must be 'standard', 'robust'"),
    "scale for a column not there": (
        lambda f: squeak.rows(good(), scale={"dist": "standard"}),
        "there is no column 'dist'",
    ),
    "unknown fill": (lambda f: squeak.rows(good(), missing="zero"), "missing must be 'mean', 'median', a number"),
    "unknown policy": (lambda f: squeak.rows(good(), on_bad_rows="drop"), "on_bad_rows must be 'raise' or 'skip'"),
    "nothing to shuffle": (lambda f: squeak.rows(parquet(f, good()), shuffle=True), "only one part"),
    "everything dropped": (lambda f: squeak.rows(good(), drop=["distance", "delay", "to"]), "no column is left"),
    "text as columns": (
        lambda f: squeak.rows(good(), columns="distance"),
        "columns must be a list of column names",
    ),
    "query of a file": (lambda f: squeak.rows("x.csv", query="SELECT 1"), "files are read without a query"),
    "query of a table": (lambda f: squeak.rows(pl.DataFrame({"a": [1.0]}), query="SELECT 1"), "be asked a query"),
    "connection without a query": (lambda f: squeak.rows(sqlite3.connect(":memory:")), "needs a query"),
    "cursor without a result": (lambda f: squeak.rows(sqlite3.connect(":memory:").cursor()), "has no result"),
    "query that is no SELECT": (
        lambda f: squeak.rows(sqlite3.connect(":memory:"), query="CREATE TABLE t (a)"),
        "it must be a SELECT",
    ),
    "a number": (lambda f: squeak.rows(3), "rows cannot be read from a int"),
    "sparse rows with a scale": (
        lambda f: squeak.rows(sp.csr_array(np.eye(3)), scale="standard"),
        "sparse rows cannot be centred",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_bad_input_gets_a_message_that_helps_and_changes_nothing(kind, tmp_path):
    make, message = KINDS[kind]
    fitted = Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0).fit(rng.standard_normal((50, 3)))
    before = fitted.dictionary_
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=message) as caught:
        fitted.fit(make(tmp_path))
    assert fitted.dictionary_ == before
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 420


def test_later_rows_get_the_same_care(tmp_path):
    """A model's own preprocessing meets tables that do not fit it."""
    d = Squeak(kernel=RBF(1.0), ridge=5.0, random_state=0).fit(squeak.rows(good(), scale="standard")).dictionary_
    for frame, message in (
        (good().drop(columns="delay"), "there is no column 'delay'"),
        (good().assign(delay="late"), "column 'delay' is text; a number is expected"),
        (with_value("delay", 3, np.nan), "row 3: column 'delay' is nan"),
        (pd.concat([good(), good()[["delay"]]], axis=1), "two columns are called 'delay'; give each its own name"),
    ):
        with pytest.raises(ValueError, match=message):
            d.leverage_scores(frame)
    with pytest.raises(TypeError, match="a table with named columns, or an array of numbers"):
        d.leverage_scores([["a", "b", "c"]])
