"""JSON lines, Arrow files and packed text: the same rows as from Parquet, with the same refusals."""

import bz2
import datetime
import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import squeak
from squeak import Squeak
from squeak.data import json_files
from squeak.kernels import RBF

N = 700


def table():
    rng = np.random.default_rng(0)
    days = [datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=int(h)) for h in rng.integers(0, 9_000, N)]
    return pa.table(
        {
            "x": rng.standard_normal(N),
            "count": rng.integers(0, 9, N),
            "day": pa.array(days, pa.timestamp("us")),
            "carrier": rng.choice(["AA", "DL", "UA"], N),
            "late": rng.random(N) < 0.5,
            "y": np.where(rng.random(N) < 0.1, np.nan, rng.standard_normal(N)),
        }
    ).set_column(5, "y", pa.array(rng.standard_normal(N), mask=rng.random(N) < 0.1))


def lines(given):
    rows = [
        {name: value.isoformat() if isinstance(value, datetime.datetime) else value for name, value in row.items()}
        for row in given.to_pylist()
    ]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def written_arrow(path, given, *, stream=False, compression=None):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(str(path), given.schema, options=options) as writer:
        writer.write_table(given, max_chunksize=200)


def packed(path, content):
    with pa.output_stream(str(path), compression="detect") as stream:
        stream.write(content)


def write(folder, kind):
    """Write the table in one form and return its path."""
    given, path = table(), folder / kind
    text = given.to_pandas().to_csv(index=False).encode()
    if kind.endswith((".jsonl", ".ndjson")):
        path.write_bytes(lines(given))
    elif ".jsonl" in kind:
        packed(path, lines(given))
    elif kind.endswith((".csv.bz2", ".csv.zst", ".csv.lz4", ".csv.gz")):
        packed(path, text)
    else:
        written_arrow(path, given, stream=kind == "x.arrows", compression="zstd" if "feather" in kind else None)
    return path


KINDS = [
    "x.jsonl", "x.ndjson", "x.jsonl.gz", "x.jsonl.zst", "x.csv.gz", "x.csv.bz2", "x.csv.zst", "x.csv.lz4",
    "x.arrow", "x.arrows", "x.feather", "x.ipc",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_form_gives_the_rows_of_parquet(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(json_files, "STRETCH_BYTES", 10_000)
    pq.write_table(table(), tmp_path / "x.parquet")
    options = {"target": "y", "on_bad_rows": "skip", "scale": "robust", "drop": ["count"]}
    expected, y = squeak.rows(tmp_path / "x.parquet", **options).collect()
    source = squeak.rows(write(tmp_path, kind), **options)
    for _ in range(2):
        X, found = source.collect()
        assert np.array_equal(X, expected)
        assert np.array_equal(found, y)
    assert source.skipped_ == N - len(y) > 20


def test_record_batches_are_parts_and_are_shuffled(tmp_path):
    source = squeak.rows(write(tmp_path, "x.arrow"), columns=["x"], shuffle=True, random_state=0)
    assert (source.n_parts, source.n_rows) == (4, N)
    X = source.collect()[0][:, 0]
    assert not np.array_equal(X, table()["x"].to_numpy())
    assert np.array_equal(np.sort(X), np.sort(table()["x"].to_numpy()))


@pytest.mark.parametrize("kind", ["x.jsonl.gz", "x.arrow"])
def test_a_run_over_such_files_is_reopened_by_its_checkpoint(kind, tmp_path):
    source = squeak.rows(write(tmp_path, kind), columns=["x", "carrier"])
    d = Squeak(RBF(1.0), ridge=1.0, random_state=0).fit(source, checkpoint=tmp_path / "run.sqk").dictionary_
    again = squeak.data.reopen(source.recipe, source.preprocessing)
    assert again.fingerprint == source.fingerprint
    assert np.array_equal(again.collect()[0], source.collect()[0])
    assert np.array_equal(d.atoms, source.collect()[0][d.indices])


def test_a_field_that_a_line_does_not_have_is_missing(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1, "b": "u"}\n\n{"b": "v", "more": {"deep": [1]}}\n{"a": 2.5, "b": null}\n')
    X, _ = squeak.rows(path, columns=["a", "b"], missing={"a": 0.0, "*": "mean"}).collect()
    assert X.tolist() == [[1, 1, 0, 0], [0, 0, 1, 0], [2.5, 0, 0, 1]]
    with pytest.raises(ValueError, match=r"column 'more' has type struct<.*leave it out"):
        squeak.rows(path).collect()


BAD = {
    "words": (b'{"a": 1}\n{"a": "x"}\n', "x.jsonl", "changed from number to string in row 1"),
    "no JSON": (b"a,b\n1,2\n", "x.jsonl", "x.jsonl .* is cut short, damaged, or not a file of JSON lines"),
    "cut line": (b'{"a": 1}\n{"a": ', "x.jsonl", "is cut short, damaged, or not a file of JSON lines"),
    "empty": (b"\n", "x.jsonl", "x.jsonl has no rows"),
    "no gzip": (b"a,b\n1,2\n", "x.csv.gz", "x.csv.gz is cut short, damaged, or not a CSV file"),
    "no Arrow": (b"0123456789" * 10, "x.arrow", "x.arrow is cut short, damaged, or not an Arrow file"),
    "first Feather": (b"FEA1" + bytes(20), "x.feather", "first version of Feather"),
    "cut gzip": (gzip.compress(b"a,b\n" + b"1.5,2\n" * 9_999)[:-40], "x.csv.gz", "cut short|damaged"),
    "cut bzip": (bz2.compress(b"a,b\n" + b"1.5,2\n" * 9_999)[:-40], "x.csv.bz2", "cut short|damaged"),
}


@pytest.mark.parametrize("kind", BAD)
def test_damaged_files_get_one_error_that_names_them(kind, tmp_path):
    content, name, message = BAD[kind]
    (tmp_path / name).write_bytes(content)
    with pytest.raises((ValueError, OSError), match=message):
        squeak.rows(tmp_path / name).collect()


def test_a_cut_arrow_file_is_refused(tmp_path):
    path = write(tmp_path, "x.arrow")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="cut short, damaged"):
        squeak.rows(path)
