"""Rows from anywhere: the same rows give the same blocks, and preprocessing is the same for ever after."""

import datetime
import os
import pickle
import re
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import squeak
from squeak import Kors, Squeak
from squeak.data import Cursor, Preprocessing, opening
from squeak.data.columns import OneHotColumn
from squeak.data.csv_text import CsvText
from squeak.data.learning import Request, select
from squeak.kernels import RBF, Linear
from squeak.leverage import estimate_accuracy
from squeak.samplers import ExactRLS, Uniform

N = 150_000  # three blocks of three columns


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).standard_normal((N, 3)) * [1.0, 10.0, 100.0] + [0.0, 5.0, -50.0]


@pytest.fixture(scope="module")
def origins(X, tmp_path_factory):
    """Return the same rows in every form there is, each as a function that gives a fresh one."""
    folder = tmp_path_factory.mktemp("rows")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    np.save(folder / "x.npy", X)
    frame.to_parquet(folder / "x.parquet", row_group_size=40_000)
    frame.to_csv(folder / "x.csv", index=False)
    (folder / "many").mkdir()
    for number, part in enumerate(np.array_split(X, 3)):
        name = folder / "many" / f"part-{number}.parquet"
        pq.write_table(pa.table(dict(zip("abc", part.T, strict=True))), name, row_group_size=7_000)
    cuts = [0, 1, 70_000, 70_010, N]
    return {
        "array": lambda: X,
        "memory map": lambda: np.load(folder / "x.npy", mmap_mode="r"),
        "npy": lambda: folder / "x.npy",
        "pandas": lambda: frame,
        "polars": lambda: pl.DataFrame({name: X[:, i] for i, name in enumerate("abc")}),
        "Arrow": lambda: pa.table(dict(zip("abc", X.T, strict=True))),
        "record batches": lambda: pa.RecordBatchReader.from_batches(
            pa.schema([(name, pa.float64()) for name in "abc"]),
            pa.table(dict(zip("abc", X.T, strict=True))).to_batches(max_chunksize=9_000),
        ),
        "Parquet": lambda: str(folder / "x.parquet"),
        "folder": lambda: folder / "many",
        "glob": lambda: str(folder / "many" / "*.parquet"),
        "list": lambda: [str(folder / "many" / f"part-{i}.parquet") for i in range(3)],
        "CSV": lambda: folder / "x.csv",
        "iterator": lambda: (X[a:b] for a, b in pairwise(cuts)),
        "function": lambda: lambda: (X[a:b] for a, b in pairwise(cuts)),
        "iterator of tables": lambda: iter([frame.iloc[:12_345], frame.iloc[12_345:]]),
    }


ORIGINS = [
    "array",
    "memory map",
    "npy",
    "pandas",
    "polars",
    "Arrow",
    "record batches",
    "Parquet",
    "folder",
    "glob",
    "list",
    "CSV",
    "iterator",
    "function",
    "iterator of tables",
]


def same_but_for_names(d, e):
    arrays = ("indices", "probabilities", "counts", "atoms")
    assert all(np.array_equal(getattr(d, name), getattr(e, name)) for name in arrays)
    assert (d.kernel, d.ridge, d.n_seen, d.sources) == (e.kernel, e.ridge, e.n_seen, e.sources)
    return True


@pytest.mark.parametrize("scale", [None, "standard"])
@pytest.mark.parametrize("origin", ORIGINS)
def test_the_same_rows_give_the_same_dictionary_bit_for_bit(origin, scale, origins, X):
    """The cut of the source into pieces, row groups or files changes no bit: blocks are cut anew."""
    learn = Squeak(kernel=RBF("median"), max_atoms=60, random_state=0)
    expected = learn.fit(X).dictionary_ if scale is None else learn.fit(squeak.rows(X, scale=scale)).dictionary_
    assert same_but_for_names(learn.fit(squeak.rows(origins[origin](), scale=scale)).dictionary_, expected)


@pytest.mark.parametrize("origin", ["array", "Parquet", "folder", "CSV", "function"])
def test_reading_goes_on_from_any_block(origin, origins):
    source = squeak.rows(origins[origin](), scale="robust")
    blocks = list(source.blocks())
    assert [len(block.X) for block in blocks] == [65_536, 65_536, N - 2 * 65_536]
    assert blocks[-1].cursor.kept == N
    for before, block in pairwise(blocks):
        again = next(source.blocks(before.cursor))
        assert np.array_equal(again.X, block.X)
        assert again.cursor == block.cursor


def test_float32_files_give_the_dictionary_within_a_millionth(X, tmp_path):
    small = X[:70_000].astype(np.float32)
    pq.write_table(pa.table(dict(zip("abc", small.T, strict=True))), tmp_path / "x.parquet")
    np.save(tmp_path / "x.npy", small)
    learn = Squeak(kernel=RBF(80.0), ridge=5.0, random_state=0)
    expected = learn.fit(small.astype(np.float64)).dictionary_
    for path in (tmp_path / "x.parquet", tmp_path / "x.npy"):
        source = squeak.rows(path)
        d = learn.fit(source).dictionary_
        assert d.atoms.dtype == np.float32
        assert np.array_equal(d.indices, expected.indices)
        np.testing.assert_allclose(d.weights, expected.weights, rtol=1e-6)
        np.testing.assert_allclose(d.atoms, expected.atoms, rtol=1e-6)


def test_sparse_rows_pass_as_they_are(rng):
    S = sp.csr_array(rng.random((500, 6)) * (rng.random((500, 6)) < 0.3))
    learn = Kors(kernel=Linear(), ridge=0.1, random_state=0)
    assert learn.fit(squeak.rows(S)).dictionary_ == learn.fit(S).dictionary_
    chosen = learn.fit(squeak.rows(S, columns=[4, 0])).dictionary_
    assert chosen.atoms.shape[1] == 2
    assert np.array_equal(chosen.atoms.toarray(), S.toarray()[chosen.indices][:, [4, 0]])
    blocks = squeak.rows(iter([S[:100], S[100:]]))
    assert learn.fit(blocks).dictionary_ == learn.fit(S).dictionary_


def flights():
    return pd.DataFrame(
        {
            "day": pd.to_datetime(["2013-01-01 00:00", "2013-01-02 12:00", "2013-01-03 00:00", "2013-01-04 00:00"]),
            "km": [100, 300, 500, 700],
            "to": ["AMS", "LIL", None, "AMS"],
            "late": [True, False, True, False],
            "delay": [1.5, -3.0, np.nan, 4.0],
        }
    )


def test_columns_become_the_numbers_they_stand_for():
    source = squeak.rows(flights(), drop=["delay"], missing="mean")
    assert source.feature_names == ("day", "km", "to=AMS", "to=LIL", "to=(other)", "late")
    X, _ = source.collect()
    first_day = (datetime.date(2013, 1, 1) - datetime.date(1970, 1, 1)).days
    assert X.tolist() == [
        [first_day, 100, 1, 0, 0, 1],
        [first_day + 1.5, 300, 0, 1, 0, 0],
        [first_day + 2, 500, 0, 0, 1, 1],
        [first_day + 3, 700, 1, 0, 0, 0],
    ]
    back = source.preprocessing.decode(X)
    assert back["day"] == ["2013-01-01", "2013-01-02 12:00:00", "2013-01-03", "2013-01-04"]
    assert back["to"] == ["AMS", "LIL", "(other)", "AMS"]
    assert back["km"] == [100, 300, 500, 700]


def test_codes_unknown_values_and_chosen_categories():
    source = squeak.rows(
        flights(), columns=["to", "km"], categories={"to": "codes", "km": ["100", "700"]}, missing=0
    )
    assert source.collect()[0].tolist() == [[0, 1, 0, 0], [1, 0, 0, 1], [2, 0, 0, 1], [0, 0, 1, 0]]
    later = pd.DataFrame({"km": [700, 1], "to": ["CDG", "LIL"]})
    assert source.preprocessing.encode(later).tolist() == [[2, 0, 1, 0], [1, 0, 0, 1]]
    assert source.preprocessing.decode(source.preprocessing.encode(later))["to"] == ["(other)", "LIL"]


@pytest.mark.parametrize("frame", [flights(), pl.from_pandas(flights()), pa.Table.from_pandas(flights())])
def test_other_tables_give_the_same_rows(frame):
    source = squeak.rows(frame, target="km", missing="median", scale={"day": "standard", "delay": (1.0, 2.0)})
    X, y = source.collect()
    expected, _ = squeak.rows(
        flights(), target="km", missing="median", scale={"day": "standard", "delay": (1.0, 2.0)}
    ).collect()
    assert np.array_equal(X, expected)
    assert y.tolist() == [100, 300, 500, 700]
    days = np.array([0, 1.5, 2, 3])
    np.testing.assert_allclose(X[:, 0], (days - days.mean()) / days.std())
    assert X[:, -1].tolist() == [(v - 1.0) / 2.0 for v in (1.5, -3.0, 1.5, 4.0)]


def test_bad_rows_are_skipped_and_counted_wherever_they_are(rng):
    X = rng.standard_normal((200_000, 3))
    bad = rng.choice(200_000, 5_000, replace=False)
    X[bad, rng.integers(3, size=5_000)] = rng.choice([np.nan, np.inf, -np.inf], 5_000)
    whole = np.delete(X, bad, axis=0)
    y = np.arange(200_000.0)
    y[7] = np.nan
    source = squeak.rows(X, on_bad_rows="skip")
    blocks = list(source.blocks())
    assert np.array_equal(np.vstack([block.X for block in blocks]), whole)
    assert source.skipped_ == 5_000
    for before, block in pairwise(blocks):
        again = list(source.blocks(before.cursor))
        assert np.array_equal(again[0].X, block.X)
        assert source.skipped_ == 5_000
    paired = squeak.rows(X, target=y, on_bad_rows="skip")
    P, t = paired.collect()
    assert np.array_equal(P, X[t.astype(int)])
    assert 7 not in t
    assert paired.skipped_ == 5_000 + (7 not in bad)
    d = Squeak(kernel=RBF(3.0), ridge=50.0, random_state=0).fit(source).dictionary_
    assert np.array_equal(d.atoms, whole[d.indices])


def test_scales_are_learned_from_the_first_rows_and_then_frozen(rng):
    X = rng.standard_normal((1000, 2)) * [1.0, 5.0]
    X[500:] += 100.0
    source = squeak.rows(X, scale="standard", learn_rows=500)
    np.testing.assert_allclose(source.collect()[0], (X - X[:500].mean(axis=0)) / X[:500].std(axis=0))
    robust = squeak.rows(X, scale="robust", learn_rows=500)
    low, mid, high = np.percentile(X[:500], [25, 50, 75], axis=0)
    z = (X - mid) / (high - low)
    np.testing.assert_allclose(robust.collect()[0], z / np.sqrt(1 + (z / 3) ** 2))


def test_shuffling_reads_every_row_once_in_another_order(origins, X):
    plain = squeak.rows(origins["folder"]())
    one, two, other = (squeak.rows(origins["folder"](), shuffle=True, random_state=s) for s in (0, 0, 1))
    a, b, c = one.collect()[0], two.collect()[0], other.collect()[0]
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)
    assert not np.array_equal(a, X)
    assert np.array_equal(np.sort(a[:, 0]), np.sort(X[:, 0]))
    assert np.array_equal(plain.collect()[0], X)
    assert one.fingerprint == two.fingerprint != other.fingerprint


def test_sorted_files_need_shuffling_and_then_work(tmp_path):
    months = np.repeat(np.arange(12.0), 3_000)
    frame = pd.DataFrame({"month": months, "x": np.random.default_rng(0).standard_normal(36_000)})
    frame.to_parquet(tmp_path / "sorted.parquet", row_group_size=1_000)
    with pytest.raises(
        ValueError, match=r"sorted.parquet: column 'month' is constant \(0\) in the first 3,000 rows"
    ):
        squeak.rows(tmp_path / "sorted.parquet", scale="standard", learn_rows=3_000).collect()
    X, _ = squeak.rows(
        tmp_path / "sorted.parquet", scale="standard", learn_rows=12_000, shuffle=True, random_state=0
    ).collect()
    assert abs(X[:, 0].mean()) < 0.5


def test_what_was_learned_goes_with_the_dictionary_and_is_applied_again(tmp_path):
    frame = pd.DataFrame(
        {"km": np.random.default_rng(0).standard_normal(3_000) * 100, "to": ["A", "B", "C"] * 1_000}
    )
    source = squeak.rows(frame, scale="standard")
    d = Squeak(kernel=RBF(1.0), ridge=5.0, random_state=0).fit(source).dictionary_
    d.save(tmp_path / "d.sqk")
    again = squeak.load(tmp_path / "d.sqk")
    assert again == d
    X, _ = source.collect()
    by_hand = d.factor.scores(X)
    for rows in (frame, frame[["to", "km"]], source, squeak.rows(frame, preprocessing=again.preprocessing)):
        assert np.array_equal(again.leverage_scores(rows), by_hand)
    assert estimate_accuracy(again, frame).lower <= 1.0
    other = squeak.rows(frame, scale="robust")
    with pytest.raises(ValueError, match="preprocessed in another way"):
        again.leverage_scores(other)
    with pytest.raises(TypeError, match="column 'to' is not a number: pass a table with named columns"):
        again.leverage_scores(X[:, :2])
    e = Squeak(kernel=RBF(1.0), ridge=5.0, random_state=0, source="b").fit(other).dictionary_
    with pytest.raises(ValueError, match="preprocessed in different ways cannot be merged"):
        squeak.merge(d, e)


def test_an_array_with_a_scale_is_scaled_again_by_every_method(rng):
    X = rng.standard_normal((2_000, 2)) * [1.0, 50.0]
    d = Squeak(kernel=RBF(1.0), ridge=5.0, random_state=0).fit(squeak.rows(X, scale="standard")).dictionary_
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(d.leverage_scores(X), d.factor.scores(Z), rtol=1e-9)
    np.testing.assert_allclose(d.leverage_scores(pd.DataFrame(X)), d.factor.scores(Z), rtol=1e-9)


def test_partial_fit_after_a_source_takes_rows_as_the_user_has_them():
    frame = pd.DataFrame({"km": np.arange(4_000.0), "to": ["A", "B"] * 2_000})
    half = squeak.rows(frame.iloc[:2_000], scale="standard")
    s = Squeak(kernel=RBF(1.0), ridge=5.0, random_state=0).fit(half)
    s.partial_fit(frame.iloc[2_000:])
    t = Squeak(kernel=RBF(1.0), ridge=5.0, random_state=0).fit(half)
    t.partial_fit(squeak.rows(frame.iloc[2_000:], preprocessing=half.preprocessing))
    assert s.dictionary_ == t.dictionary_
    assert s.n_seen_ == 4_000


@pytest.mark.parametrize(
    "sampler", [Uniform(kernel=RBF(1.0), max_atoms=40, random_state=0), ExactRLS(RBF(1.0), 5.0, random_state=0)]
)
def test_every_sampler_reads_sources(sampler, tmp_path):
    frame = pd.DataFrame({"km": np.random.default_rng(0).standard_normal(900), "to": ["A", "B", "C"] * 300})
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=100)
    d = sampler.fit(squeak.rows(tmp_path / "x.parquet")).dictionary_
    X, _ = squeak.rows(frame).collect()
    assert np.array_equal(d.atoms, X[d.indices])
    assert d.preprocessing.feature_names == ("km", "to=A", "to=B", "to=C", "to=(other)")


def test_an_iterator_is_read_once_and_a_function_as_often_as_asked(rng):
    blocks = [rng.standard_normal((50, 2)) for _ in range(4)]
    once = squeak.rows(iter(blocks), scale="standard")
    assert len(once.collect()[0]) == 200
    with pytest.raises(ValueError, match="an iterator can be read only once"):
        once.collect()
    often = squeak.rows(lambda: iter(blocks), scale="standard")
    assert np.array_equal(often.collect()[0], often.collect()[0])
    pairs = squeak.rows(lambda: ((block, block[:, 0]) for block in blocks), target=True)
    X, y = pairs.collect()
    assert np.array_equal(X[:, 0], y)


def test_csv_of_every_form(tmp_path):
    (tmp_path / "a.tsv").write_text("km\tto\n1\tx\n2.5\ty\n")
    assert squeak.rows(tmp_path / "a.tsv").collect()[0].tolist() == [[1, 1, 0, 0], [2.5, 0, 1, 0]]
    (tmp_path / "b.csv").write_text("1;2\n3;NA\n5;?\n")
    source = squeak.rows(tmp_path / "b.csv", delimiter=";", header=False, na_values=["?"], on_bad_rows="skip")
    assert source.collect()[0].tolist() == [[1, 2]]
    assert source.skipped_ == 2
    (tmp_path / "c.csv").write_text('a,"b, c"\n1,2\n3\n5,6\n')
    short = squeak.rows(tmp_path / "c.csv", on_bad_rows="skip")
    assert short.collect()[0].tolist() == [[1, 2], [5, 6]]
    assert short.skipped_ == 1
    pd.DataFrame({"a": [1.0, 2.0]}).to_csv(tmp_path / "d.csv.gz", index=False)
    assert squeak.rows(tmp_path / "d.csv.gz").collect()[0].tolist() == [[1], [2]]
    (tmp_path / "e.csv").write_text("when,n\n2013-01-01,1\n2013-01-03,2\n")
    assert np.diff(squeak.rows(tmp_path / "e.csv").collect()[0][:, 0]).tolist() == [2]


def test_whole_numbers_may_be_followed_by_fractions(tmp_path):
    """CSV types come from the first block; a fraction two blocks later is no error."""
    body = "n\n" + "1\n" * 3_000_000 + "0.5\n"
    (tmp_path / "long.csv").write_text(body)
    last = None
    for block in squeak.rows(tmp_path / "long.csv"):
        last = block[-1, 0]
    assert last == 0.5


def test_a_cursor_counts_what_was_read():
    assert Cursor().kept == 0
    source = squeak.rows(np.arange(10.0).reshape(5, 2))
    assert next(source.blocks()).cursor == Cursor(part=0, row=5, kept=5, skipped=0)


def test_the_target_of_an_array_is_no_column_of_its_rows(rng):
    """With and without a preprocessing: rows to predict for have no target."""
    X = rng.standard_normal((400, 4))
    rest = np.delete(X, 1, axis=1)
    for target in (1, np.int64(1), "1"):
        plain, scaled = squeak.rows(X, target=target), squeak.rows(X, target=target, scale="standard")
        assert np.array_equal(plain.collect()[0], rest)
        assert np.array_equal(plain.collect()[1], X[:, 1])
        for source in (plain, scaled):
            d = Squeak(kernel=RBF(2.0), ridge=1.0, random_state=0).fit(source).dictionary_
            assert d.leverage_scores(rest[:5]).shape == (5,)
    X[5, 2] = np.nan
    for scale in (None, "standard"):
        with pytest.raises(ValueError, match="row 5: column 2 is nan"):
            squeak.rows(X, target=1, scale=scale).collect()
    assert np.array_equal(squeak.rows(X[:5], target=1, columns=[3, 0]).collect()[0], X[:5, [3, 0]])


def test_targets_of_every_kind(rng):
    frame = pd.DataFrame({"x": np.arange(4.0), "class": ["a", None, "b", "a"]})
    X, y = squeak.rows(frame, target="class", on_bad_rows="skip").collect()
    assert (X[:, 0].tolist(), y.tolist()) == ([0, 2, 3], ["a", "b", "a"])
    X, y = squeak.rows(frame[["x"]], target=[1, 2, 3, 4]).collect()
    assert y.tolist() == [1, 2, 3, 4]
    for target in (
        pd.Series(["a", np.nan, "b", "c"]),
        np.array(["2020-01-01", "NaT", "2020-01-02", "NaT"], "M8[D]"),
    ):
        with pytest.raises(ValueError, match="row 1: the target is"):
            squeak.rows(frame[["x"]], target=target).collect()
    with pytest.raises(ValueError, match="block from row 0 on: 4 rows and 3 targets"):
        squeak.rows(iter([(frame[["x"]], np.zeros(3))]), target=True).collect()
    numbered = pd.DataFrame(rng.standard_normal((5, 3)))
    assert np.array_equal(squeak.rows(numbered, target=2, columns=[0]).collect()[0], numbered.to_numpy()[:, :1])


def test_a_category_has_one_name_whatever_its_type(tmp_path):
    frame = pd.DataFrame({"late": [True, False, True], "gate": [7.0, 12345678901.0, 7.0]})
    wanted = {"late": [True, False], "gate": [7, 12345678901]}
    expected = [[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0], [1, 0, 0, 1, 0, 0]]
    assert squeak.rows(frame, categories=wanted).collect()[0].tolist() == expected
    learned = squeak.rows(frame, categories={"late": "onehot", "gate": "onehot"}).preprocessing
    assert learned.encode(frame.astype({"gate": "int64"}))[:, 3:].tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0]]
    (tmp_path / "zip.csv").write_text("zip,x\n01234,1\n91234,2\n")
    rows, _ = squeak.rows(tmp_path / "zip.csv", categories={"zip": ["01234"]}).collect()
    assert rows.tolist() == [[1, 0, 1], [0, 1, 2]]
    with pytest.raises(ValueError, match="column 'gate' has none of the categories listed"):
        squeak.rows(frame, categories={"gate": [8]}).collect()
    days = pd.DataFrame({"day": pd.to_datetime(["2020-01-01", "2020-01-02"])})
    assert squeak.rows(days, categories={"day": "onehot"}).collect()[0].tolist() == [[1, 0, 0], [0, 1, 0]]


def test_columns_that_are_not_used_need_not_be_in_every_file(tmp_path):
    pq.write_table(pa.table({"a": [1.0, 2.0], "b": pa.nulls(2), "x": [1.0, 1.0]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"a": [3.0], "b": [5.0]}), tmp_path / "1.parquet")
    for choice in ({"columns": ["a", "b"]}, {"drop": ["x"]}):
        rows, _ = squeak.rows(tmp_path, missing=0.0, **choice).collect()
        assert rows.tolist() == [[1, 0], [2, 0], [3, 5]]
    pq.write_table(pa.table({"a": pa.array([1.0], pa.float32())}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"a": [1e300]}), tmp_path / "1.parquet")
    assert squeak.rows(tmp_path, columns=["a"]).collect()[0].tolist() == [[1.0], [1e300]]


def test_values_that_overflow_when_scaled_are_bad_rows(rng):
    X = rng.standard_normal((10, 2))
    X[4, 1] = 1e308
    with pytest.raises(ValueError, match=r"row 4: column 1 is 1e\+308, which no float64 holds when scaled"):
        squeak.rows(X, scale=(0.0, 1e-5)).collect()
    source = squeak.rows(X, scale=(0.0, 1e-5), on_bad_rows="skip")
    assert len(source.collect()[0]) == 9
    assert source.skipped_ == 1
    tiny, _ = squeak.rows(1e-300 * rng.standard_normal((100, 2)), scale="standard").collect()
    np.testing.assert_allclose(tiny.std(axis=0), 1.0)


def test_wide_rows_are_learned_from_within_bounds(tmp_path):
    """A block is 32 MB and learning takes 64 MB, whatever the width."""
    X = np.zeros((5_000, 4_000))
    X[:, 0] = np.arange(5_000)
    source = squeak.rows(X, scale={"0": "standard"})
    learned = sum(piece.n for piece in source._first_pieces())
    assert learned == 64 * 2**20 // (8 * 4_000)
    assert {len(block) for block in source} == {32 * 2**20 // (8 * 4_000), 5_000 % (32 * 2**20 // (8 * 4_000))}


def test_many_columns_can_be_saved(tmp_path):
    X = np.random.default_rng(0).standard_normal((20, 40_000))
    d = Squeak(kernel=RBF(400.0), ridge=1.0, random_state=0).fit(squeak.rows(X, scale="standard")).dictionary_
    d.save(tmp_path / "wide.sqk")
    assert squeak.load(tmp_path / "wide.sqk") == d


def test_reading_a_file_holds_a_few_blocks_only(tmp_path):
    """Arrow's own memory: while 64 MB of Parquet go by, never more than a few blocks of 10 MB."""
    X = np.random.default_rng(0).standard_normal((400_000, 20))
    table = pa.table({f"x{i}": X[:, i] for i in range(20)})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=20_000)
    del table
    before, peak = pa.total_allocated_bytes(), 0
    for block in squeak.rows(tmp_path / "x.parquet"):
        peak = max(peak, pa.total_allocated_bytes() - before)
        assert block.shape[0] <= 65_536
    assert peak < 45e6


def test_a_function_must_give_a_new_iterator(rng):
    one = iter([rng.random((5, 2)), rng.random((5, 2))])
    with pytest.raises(ValueError, match="the function gave the same iterator twice"):
        squeak.rows(lambda: one).collect()


def test_csv_with_newlines_in_values_other_encodings_and_empty_files(tmp_path):
    name = '"a\nb"'
    (tmp_path / "n.csv").write_text(f"{name},t\n" + '1,"x\ny"\n' * 700_000)
    source = squeak.rows(tmp_path / "n.csv", columns=["a\nb"])
    assert sum(len(block) for block in source) == 700_000
    (tmp_path / "l.csv").write_bytes("größe,x\n1,2\n".encode("latin1"))
    with pytest.raises(ValueError, match=r"l.csv is not text in utf8.*encoding='latin1'"):
        squeak.rows(tmp_path / "l.csv")
    assert squeak.rows(tmp_path / "l.csv", encoding="latin1").feature_names == ("größe", "x")
    (tmp_path / "y.csv").write_text("\n2019,2020\n1,2\n")
    assert squeak.rows(tmp_path / "y.csv", header=True).feature_names == ("2019", "2020")
    (tmp_path / "many").mkdir()
    (tmp_path / "many" / "a.csv").write_text("x\n")
    (tmp_path / "many" / "b.csv").write_text("x\n3\n")
    assert squeak.rows(tmp_path / "many").collect()[0].tolist() == [[3]]


def test_repr_reads_nothing():
    def never():
        raise AssertionError("rows were read")
        yield

    source = squeak.rows(lambda: iter([np.ones((3, 2))]))
    source.reader._make = never
    assert repr(source) == "RowSource(? rows, 2 columns, 1 part)"


def category_model(first, **choice):
    return squeak.rows(first, target="y", categories={"g": "onehot"}, **choice).preprocessing


@pytest.mark.parametrize("values", [[1.0, 2.0], [1e20, 0.1], [True, False], [7, 8]])
def test_a_category_is_the_same_from_csv_and_parquet(values, tmp_path):
    frame = pd.DataFrame({"g": values * 10, "y": np.arange(20.0)})
    frame.to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "b.csv").write_text((tmp_path / "a.csv").read_text().lower())
    frame.to_parquet(tmp_path / "a.parquet")
    forms = [tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "a.parquet", frame, pl.from_pandas(frame)]
    expected = category_model(frame)
    for first in forms:
        learned = category_model(first)
        assert learned == expected
        for second in forms:
            rows = squeak.rows(second, target="y", preprocessing=learned).collect()[0]
            assert np.array_equal(rows, expected.encode(frame))


def test_a_preprocessing_saved_with_other_spellings_means_the_same(tmp_path):
    """Earlier versions kept a CSV's own text, str(timestamp), and the digits of a float32's float64."""
    old = OneHotColumn("g", ("0.10000000149011612", "1.0", "2020-01-01 00:00:00", "true"))
    squeak.save(Preprocessing((old,)), tmp_path / "old.sqk")
    p = squeak.load(tmp_path / "old.sqk")
    assert p.columns[0].values == old.values

    def place(values, kind):
        return p.encode(pa.table({"g": pa.array(values, kind)})).argmax(axis=1).tolist()

    assert place(["1.0", "true", "2020-01-01 00:00:00"], pa.string()) == [1, 3, 2]
    assert place([0.1, 1.0], pa.float32()) == [0, 1]
    assert place([1], pa.int8()) == [1]
    assert place([True], pa.bool_()) == [3]
    assert place([datetime.date(2020, 1, 1)], pa.date32()) == [2]


def test_numbers_with_leading_zeros_and_two_spellings_stay_apart(tmp_path):
    (tmp_path / "z.csv").write_text("g,y\n007,1\n7,2\n")
    assert category_model(tmp_path / "z.csv").feature_names == ("g=007", "g=7", "g=(other)")
    (tmp_path / "v.csv").write_text("g,y\n1.1,1\n1.10,2\n")
    with pytest.warns(UserWarning, match="holds '1.1' and '1.10', one value written in two ways"):
        learned = category_model(tmp_path / "v.csv")
    assert learned.feature_names == ("g=1.1", "g=1.10", "g=(other)")
    texts = pa.table({"g": ["1.10", "1.1", "1.100"]})
    assert learned.encode(texts).argmax(axis=1).tolist() == [1, 0, 0]


def test_a_warning_says_when_many_rows_are_of_no_known_category(tmp_path):
    learned = squeak.rows(pa.table({"g": ["a", "b"] * 10, "x": np.arange(20.0)})).preprocessing
    few = pa.table({"g": ["a"] * 46 + ["c"] * 4, "x": np.zeros(50)})
    many = pa.table({"g": ["a"] * 40 + ["c"] * 10, "x": np.zeros(50)})
    pq.write_table(many, tmp_path / "many.parquet", row_group_size=7)
    assert learned.encode(few)[:, 2].sum() == 4
    message = r"column 'g': 10 of 50 rows have values that were not there.*such as 'c'; known are 'a', 'b'"
    with pytest.warns(UserWarning, match=message):
        learned.encode(many)
    with pytest.warns(UserWarning, match="many.parquet: " + message):
        squeak.rows(tmp_path / "many.parquet", preprocessing=learned).collect()
    codes = squeak.rows(pa.table({"g": ["a", "b"] * 10}), categories="codes").preprocessing
    with pytest.warns(UserWarning, match=message):
        codes.encode(many)


@pytest.mark.parametrize("odd", ["?", "0x10", "2020-02-31", "-", "1,5"])
def test_a_column_of_numbers_but_for_a_word_is_numbers(odd, tmp_path):
    path = tmp_path / "o.csv"
    path.write_text("x,y\n" + "".join(f'"{odd if i == 70 else i / 8}",{i}\n' for i in range(200)))
    with pytest.raises(ValueError, match=rf"row 70 of o.csv: column 'x' is '{re.escape(odd)}', not a number"):
        squeak.rows(path, target="y")
    for choice, rows in (({}, 199), ({"missing": "mean"}, 200)):
        with pytest.warns(UserWarning, match=rf"o.csv: column 'x' holds numbers but for '{re.escape(odd)}'"):
            source = squeak.rows(path, target="y", on_bad_rows="skip", **choice)
        X, y = source.collect()
        assert X.shape == (rows, 1)
        assert source.skipped_ == 200 - rows
        assert np.array_equal(X[:70, 0], y[:70] / 8)
    assert squeak.rows(path, target="y", na_values=[odd], missing="mean").collect()[0].shape == (200, 1)
    asked = squeak.rows(path, target="y", categories={"x": "onehot"}, max_categories=500)
    assert asked.collect()[0].shape == (200, 201)
    assert squeak.rows(path, columns=["y"]).collect()[0].shape == (200, 1)


def test_dates_and_times_but_for_a_word_are_dates_and_times(tmp_path):
    days = [f"2020-01-{day:02}" for day in range(1, 31)]
    times = [f"10:{minute:02}:00.5" for minute in range(30)]
    (tmp_path / "d.csv").write_text("d,t\n" + "".join(f"{d},{t}\n" for d, t in zip(days, times, strict=True)))
    assert [column.kind for column in squeak.rows(tmp_path / "d.csv").preprocessing.columns] == ["date", "time"]
    days[7], times[8] = "2020-02-31", "25:00:00"
    (tmp_path / "d.csv").write_text("d,t\n" + "".join(f"{d},{t}\n" for d, t in zip(days, times, strict=True)))
    with pytest.raises(ValueError, match=r"row 7 of d.csv: column 'd' is '2020-02-31', not a date"):
        squeak.rows(tmp_path / "d.csv")
    with pytest.warns(UserWarning, match="dates but for '2020-02-31'|times but for '25:00:00'"):
        source = squeak.rows(tmp_path / "d.csv", on_bad_rows="skip")
    assert source.collect()[0].shape == (28, 2)
    assert source.skipped_ == 2


def test_categories_stay_categories_where_some_look_like_numbers(tmp_path):
    for name, values in {"sizes": ["8", "10", "12", "S", "M"], "cabins": ["1", "A2", "B3"]}.items():
        (tmp_path / f"{name}.csv").write_text("g,x\n" + "".join(f"{value},1\n" for value in values * 10))
        assert squeak.rows(tmp_path / f"{name}.csv", columns=["g"]).feature_names[-1] == "g=(other)"
    labels = [*map(str, range(10)), "X"]
    (tmp_path / "l.csv").write_text("x,label\n" + "".join(f"1,{value}\n" for value in labels * 10))
    assert set(squeak.rows(tmp_path / "l.csv", target="label").collect()[1]) == set(labels)


def test_words_beyond_the_first_block_are_skipped_too(tmp_path):
    path = tmp_path / "late.csv"
    path.write_text("a,b\n" + f"1,2{' ' * 40}\n" * 110_000 + "3,oops\n5,6\n")
    source = squeak.rows(path, on_bad_rows="skip")
    with pytest.warns(UserWarning, match="late.csv: column 'b' holds numbers but for 'oops'"):
        blocks = [block.X for block in source.blocks()]
    assert sum(map(len, blocks)) == 110_001
    assert blocks[-1][-1].tolist() == [5, 6]
    assert source.skipped_ == 1
    assert sum(len(block) for block in source) == 110_001  # and once more, without a warning


def test_a_model_reads_its_columns_as_they_were_learned(tmp_path):
    """A file to predict for may be short, and odd: what the columns are was learned before."""
    learned = squeak.rows(pd.DataFrame({"x": np.arange(9.0), "y": np.arange(9.0)})).preprocessing
    (tmp_path / "p.csv").write_text("x,y\n1,1\n?,2\n3,3\n")
    with pytest.raises(ValueError, match=r"row 1 of p.csv: column 'x' is '\?', not a number"):
        squeak.rows(tmp_path / "p.csv", preprocessing=learned)
    with pytest.warns(UserWarning, match=r"but for '\?'"):
        source = squeak.rows(tmp_path / "p.csv", preprocessing=learned, on_bad_rows="skip")
    assert source.collect()[0].tolist() == [[1, 1], [3, 3]]


def test_truth_values_are_classes_and_dates_days_as_targets(tmp_path):
    frame = pd.DataFrame({"x": np.arange(6.0), "t": [True, False, None, True, False, True]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    for source in (frame, pl.from_pandas(frame), tmp_path / "t.csv", tmp_path / "t.parquet"):
        X, y = squeak.rows(source, target="t", on_bad_rows="skip").collect()
        assert (y.dtype, y.tolist()) == (np.bool_, [True, False, True, False, True])
        assert len(X) == 5
    for given in (frame["t"], frame["t"].astype("boolean")):
        y = squeak.rows(frame[["x"]], target=given, on_bad_rows="skip").collect()[1]
        assert y.tolist() == [True, False, True, False, True]
    days = np.array(["1970-01-02", "9999-12-31"], "M8[D]")
    assert squeak.rows(np.eye(2), target=days).collect()[1].tolist() == [1, 2932896]
    assert squeak.rows(np.eye(2), target=days.astype("M8[s]")).collect()[1].tolist() == [1, 2932896]


def test_dates_of_every_unit_reach_as_far_as_the_unit_does():
    far = pa.array([0, 2**62], pa.int64())
    for unit, a_day in (("s", 86_400), ("ms", 86_400e3), ("us", 86_400e6)):
        X, _ = squeak.rows(
            pa.table({"d": far.cast(pa.timestamp(unit)), "l": far.cast(pa.duration(unit))})
        ).collect()
        np.testing.assert_allclose(X, [[0, 0], [2**62 / a_day, 2**62 / a_day * 86_400]], rtol=1e-15)


def test_dates_of_a_later_form_are_still_dates(tmp_path):
    """The first block has days in reach of nanoseconds; what follows has not."""
    body = "d\n" + f"2020-01-01 00:00:00.5{' ' * 40}\n" * 80_000 + "9999-12-31 00:00:00\n1500-01-01 12:00:00\n"
    (tmp_path / "d.csv").write_text(body)
    *_, last = squeak.rows(tmp_path / "d.csv").blocks()
    assert last.X[-2:, 0].tolist() == [2932896, -171663.5]


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy", "function"])
def test_rows_that_change_between_passes_are_noticed(kind, tmp_path):
    X = np.random.default_rng(0).standard_normal((500, 3))
    path, given = tmp_path / f"x.{kind}", [X]

    def write(rows):
        given[0] = rows
        frame = pd.DataFrame(rows, columns=list("abc"))
        new = tmp_path / f"new.{kind}"
        if kind == "csv":
            frame.to_csv(new, index=False)
        elif kind == "parquet":
            frame.to_parquet(new)
        elif kind == "npy":
            np.save(new, rows)
        if kind != "function":
            new.replace(path)

    write(X)
    source = squeak.rows((lambda: iter(given)) if kind == "function" else path, target=None)
    assert len(source.collect()[0]) == 500
    assert len(source.collect()[0]) == 500
    write(X[:200])
    message = "had 500 rows when it was first read and has 200 now" if kind == "function" else "was changed or repl"
    with pytest.raises(ValueError, match=message):
        source.collect()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_that_change_in_place_during_their_only_pass_are_noticed(kind, tmp_path, monkeypatch):
    frame, path = pd.DataFrame(np.eye(4), columns=list("abcd")), tmp_path / f"x.{kind}"
    (frame.to_csv if kind == "csv" else frame.to_parquet)(path)
    source = squeak.rows(path)
    pieces, size = source.reader.pieces, path.stat().st_size

    def changing(*how):
        for piece in pieces(*how):
            yield piece
            with open(path, "r+b") as file:  # the same file, of the same size
                file.seek(size - 1)
                file.write(b"\n")

    assert len(source.feature_names) == 4 + (kind == "csv")
    monkeypatch.setattr(source.reader, "pieces", changing)
    with pytest.raises(ValueError, match="was changed or replaced"):
        list(source.blocks())


@pytest.mark.parametrize("late", ["2.5", "x", "true", "2020-01-01", ""])
def test_the_type_of_a_column_does_not_hang_on_its_first_value(late, tmp_path, monkeypatch):
    """Columns with a number in the first row are read as numbers at first; where some are not, Arrow decides."""
    (tmp_path / "a.csv").write_text("a,b,c\n1,x,7\n" + "1,y,8\n" * 3 + f"{late},y,9\n" + f"{late},x,9\n" * 3)

    def read():
        return squeak.rows(tmp_path / "a.csv", target="c", missing="mean", categories="onehot")

    told = read()
    monkeypatch.setattr(CsvText, "numbers_at_first", lambda self, path: [])
    assert told.preprocessing == read().preprocessing
    np.testing.assert_array_equal(told.collect()[0], read().collect()[0])


def test_an_array_file_cut_while_it_is_read_is_an_error(tmp_path):
    X = np.random.default_rng(0).standard_normal((150_000, 2))
    np.save(tmp_path / "c.npy", X)
    np.save(tmp_path / "f.npy", np.asfortranarray(X))
    np.save(tmp_path / "big.npy", X.astype(">f4"))
    for name in ("c.npy", "f.npy", "big.npy"):
        assert np.array_equal(
            squeak.rows(tmp_path / name).collect()[0], X.astype(">f4") if name == "big.npy" else X
        )
        blocks = squeak.rows(tmp_path / name).blocks()
        next(blocks)
        os.truncate(tmp_path / name, 1_000)
        with pytest.raises(ValueError, match=f"{name} was changed or replaced after it was opened"):
            list(blocks)
    np.save(tmp_path / "m.npy", X)
    blocks = squeak.rows(np.load(tmp_path / "m.npy", mmap_mode="r")).blocks()
    next(blocks)
    os.truncate(tmp_path / "m.npy", 1_000)
    with pytest.raises(ValueError, match=r"m.npy was cut short while it was read"):
        list(blocks)


def test_lines_that_an_open_quote_swallows_are_counted(tmp_path):
    lines = ["a,b", *(f"{i},{i}" for i in range(50))]
    for close, rows in (('40",40', 19), ('40"', 19)):
        lines[11], lines[41] = '10,"10', close
        (tmp_path / "q.csv").write_text("\n".join(lines) + "\n")
        with pytest.raises(ValueError, match=r"row 10 of q.csv"):
            squeak.rows(tmp_path / "q.csv").collect()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "q.csv: column 'b' holds numbers but for '10")
            source = squeak.rows(tmp_path / "q.csv", on_bad_rows="skip")
        with pytest.warns(UserWarning, match="31 lines were skipped as one row, for a quote spans them"):
            assert len(source.collect()[0]) == rows
        assert source.skipped_ == 31
    lines = ["a,b", *(f"{i},w{i % 3}" for i in range(50))]
    lines[11] = '10,"w1'
    (tmp_path / "q.csv").write_text("\n".join(lines) + "\n")
    for policy in ("raise", "skip"):
        with pytest.raises(ValueError, match=r"row 10 of q.csv has a quote that is never closed, so that 4. lines"):
            squeak.rows(tmp_path / "q.csv", on_bad_rows=policy).collect()
    (tmp_path / "inch.csv").write_text('a,b\n1,5" pipe\n2,x\n')
    assert squeak.rows(tmp_path / "inch.csv").feature_names == ("a", 'b=5" pipe', "b=x", "b=(other)")


def test_lines_and_values_longer_than_a_block_are_read(tmp_path):
    long = "x" * 10_000_000
    (tmp_path / "h.csv").write_text("a,b\n" + "1,abc\n" * 3 + f"1,{long}\n" + "1,abc\n" * 3)
    assert squeak.rows(tmp_path / "h.csv", columns=["a"]).collect()[0].tolist() == [[1]] * 7
    names = [f"column {i}".ljust(600, "x") for i in range(2_000)]
    (tmp_path / "w.csv").write_text(",".join(names) + "\n" + ",".join(["1.5"] * 2_000) + "\n")
    assert squeak.rows(tmp_path / "w.csv", columns=names[-2:]).collect()[0].tolist() == [[1.5, 1.5]]


def test_columns_cost_no_more_the_more_there_are(monkeypatch):
    """Names are looked up, never searched for: no comparison of names beyond a few a column."""

    class Name(str):
        compared = 0

        def __eq__(self, other):
            Name.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    names = [Name(f"c{i}") for i in range(2_000)]
    request = Request(columns=tuple(names), drop=tuple(names[:500]))
    assert len(select(names, request)) == 1_500
    needs = opening._Needs(request, None, None)
    assert len(needs.columns([Name(str(name)) for name in names])) == 1_500
    assert Name.compared < 20 * 2_000


def test_masked_values_are_never_read(rng):
    masked = np.ma.masked_array(rng.random((4, 2)), [[0, 0], [0, 1], [0, 0], [0, 0]])
    p = squeak.rows(rng.random((4, 2)), scale="standard").preprocessing
    for read in (
        lambda: squeak.rows(masked),
        lambda: squeak.rows(iter([masked])),
        lambda: squeak.rows([masked]),
        lambda: p.encode(masked),
        lambda: squeak.rows(rng.random((4, 2)), target=masked[:, 1]),
        lambda: squeak.rows(iter([(rng.random((4, 2)), masked[:, 1])]), target=True),
    ):
        with pytest.raises(ValueError, match=r"row [01] has masked values"):
            read()
    assert squeak.rows(np.ma.masked_array(np.ones((2, 2)))).collect()[0].tolist() == [[1, 1], [1, 1]]


@pytest.mark.filterwarnings("ignore:length_scale='auto' ended")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_command_learns_truth_values_as_classes(kind, tmp_path):
    from typer.testing import CliRunner

    from squeak.cli import app

    frame = pd.DataFrame({"x": np.random.default_rng(0).standard_normal(200)})
    frame["late"] = frame["x"] > 0.3
    data, model, found = tmp_path / f"x.{kind}", tmp_path / "m.sqk", tmp_path / "p.csv"
    frame.to_csv(data, index=False) if kind == "csv" else frame.to_parquet(data)
    options = ["fit", str(data), "--target", "late", "--out", str(model), "--max-atoms", "20", "--quiet"]
    assert CliRunner().invoke(app, options).exit_code == 0
    assert squeak.load(model).classes_.tolist() == [False, True]
    assert CliRunner().invoke(app, ["predict", str(model), str(data), "--out", str(found)]).exit_code == 0
    assert (pd.read_csv(found)["prediction"] == frame["late"]).mean() > 0.9
    assert CliRunner().invoke(app, [*options, "--task", "regression"]).exit_code == 0
    assert not hasattr(squeak.load(model), "classes_")


@pytest.mark.parametrize("write", [pq.write_table, feather.write_feather])
def test_row_numbers_of_pandas_are_no_column(write, tmp_path):
    """A frame whose rows were shuffled is written with their numbers, and read as the frame is."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.random(40), "y": rng.random(40)}).iloc[rng.permutation(40)]
    path = tmp_path / ("rows.parquet" if write is pq.write_table else "rows.feather")
    write(pa.Table.from_pandas(frame), path)
    ours, theirs = squeak.rows(path, "y").collect()[0], squeak.rows(frame, "y").collect()[0]
    assert ours.shape == (40, 1)
    assert np.array_equal(ours, theirs)


def test_the_footer_of_a_parquet_file_is_parsed_once_for_all_row_groups(tmp_path, monkeypatch):
    paths = [tmp_path / f"{number}.parquet" for number in range(2)]
    for number, path in enumerate(paths):
        pq.write_table(pa.table({"a": np.arange(1_000.0) + number}), path, row_group_size=100)
    source = squeak.rows(paths)
    assert source.feature_names == ("a",)  # which reads the first rows
    asked, real = [], pq.ParquetFile
    monkeypatch.setattr(pq, "ParquetFile", lambda *args, **how: asked.append(how["metadata"]) or real(*args, **how))
    for _ in range(2):
        rows = np.concatenate([block[:, 0] for block in source])
        np.testing.assert_array_equal(rows, np.concatenate([np.arange(1_000.0), np.arange(1_000.0) + 1]))
    assert sum(known is None for known in asked) == 4  # each file, in each pass
    assert len(asked) == 40
    assert "_footer" not in pickle.loads(pickle.dumps(source)).reader.__dict__
