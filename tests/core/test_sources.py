"""Rows from anywhere: the same rows give the same blocks, and preprocessing is the same for ever after."""

import datetime
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import squeak
from squeak import Kors, Squeak
from squeak.core.sources import Cursor
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
    np.testing.assert_allclose(robust.collect()[0], (X - mid) / (high - low))


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
