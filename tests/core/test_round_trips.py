"""Values through formats: whatever holds a column, its rows are the same, or one error says what to do.

A table with one column of values is written in every format, learned from each, and encoded from each other. The
columns are all of Arrow's types, plain and as categories, with missing and extreme values among them.
"""

import datetime
import decimal
import itertools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import squeak
from squeak.data.columns import canonical, text_of
from squeak.data.csv_text import MISSING_WORDS

UTC = datetime.UTC
INTS = {f"{sign}int{bits}": (sign, bits) for sign in ("", "u") for bits in (8, 16, 32, 64)}


def extremes(sign, bits):
    low, high = (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return [low, high, 0, 1, 7]


def moments(unit, zone=None):
    found = [
        datetime.datetime(1970, 1, 1),
        datetime.datetime(2020, 2, 29, 13, 45, 59),
        datetime.datetime(1969, 12, 31, 23, 59, 59),
        datetime.datetime(2100, 1, 1),
    ]
    if unit != "ns":
        found += [datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30, 1, 2, 3)]
    if unit in ("us", "ns"):
        found.append(datetime.datetime(2021, 1, 1, 0, 0, 0, 250_000))
    return [one.replace(tzinfo=UTC) for one in found] if zone else found


DAYS = [
    datetime.date(1970, 1, 1),
    datetime.date(2020, 2, 29),
    datetime.date(1, 1, 1),
    datetime.date(9999, 12, 31),
]
TIMES = [datetime.time(0, 0), datetime.time(23, 59, 59), datetime.time(12, 30, 15)]
WORDS = ["a", "Größe", "日本", "it's", 'say "x"', "a,b", "two words", " x", "yes", "-"]

COLUMNS: dict[str, tuple[pa.DataType, list]] = {
    **{name: (getattr(pa, name)(), extremes(*what)) for name, what in INTS.items()},
    "float16": (pa.float16(), [np.float16(v) for v in (0.1, -2.5, 65504.0, 1.0, 6e-08)]),
    "float32": (pa.float32(), [0.1, -2.5, 3.4e38, 1.0, 1e-30, 16777216.0, 1e20]),
    "float64": (pa.float64(), [0.1, -2.5, 1.7e308, 1.0, 5e-324, 1e20, 1 / 3, 123456789.125]),
    "bool": (pa.bool_(), [True, False]),
    "decimal": (pa.decimal128(20, 4), [decimal.Decimal(v) for v in ("0.1", "-7", "1234567890.1234", "7.5")]),
    "decimal256": (pa.decimal256(40, 3), [decimal.Decimal(v) for v in ("0.125", "-7", "12345678901234567890.5")]),
    "string": (pa.string(), WORDS),
    "large_string": (pa.large_string(), WORDS),
    **({"string_view": (pa.string_view(), WORDS)} if hasattr(pa, "string_view") else {}),  # from pyarrow 16 on
    "numbers as text": (pa.string(), ["007", "7.0", "7", "1e5", "x1"]),
    "truths as text": (pa.string(), ["yes", "no", "True", "false"]),
    "date32": (pa.date32(), DAYS),
    "date64": (pa.date64(), DAYS),
    **{f"timestamp[{unit}]": (pa.timestamp(unit), moments(unit)) for unit in ("s", "ms", "us", "ns")},
    **{f"timestamp[{unit}, UTC]": (pa.timestamp(unit, "UTC"), moments(unit, True)) for unit in ("s", "us", "ns")},
    "timestamp[us, Paris]": (pa.timestamp("us", "Europe/Paris"), moments("us", True)[:4]),
    "time32[s]": (pa.time32("s"), TIMES),
    "time32[ms]": (pa.time32("ms"), [*TIMES, datetime.time(1, 2, 3, 500_000)]),
    "time64[us]": (pa.time64("us"), [*TIMES, datetime.time(1, 2, 3, 456_789)]),
    "time64[ns]": (pa.time64("ns"), [*TIMES, datetime.time(1, 2, 3, 456_789)]),
    **{
        f"duration[{unit}]": (pa.duration(unit), [datetime.timedelta(seconds=s) for s in (0, 1, -90_000, 86_400)])
        for unit in ("s", "ms", "us", "ns")
    },
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), WORDS),
    "dictionary of numbers": (pa.dictionary(pa.int8(), pa.int64()), [7, 8, 9]),
}
REFUSED = {
    "list": pa.array([[1], [2, 3]] * 10),
    "struct": pa.array([{"a": 1}, {"a": 2}] * 10),
    "binary": pa.array([b"a", b"b"] * 10),
    "fixed binary": pa.array([b"a", b"b"] * 10, pa.binary(1)),
    "map": pa.array([[("a", 1)], [("b", 2)]] * 10, pa.map_(pa.string(), pa.int64())),
    "null": pa.nulls(20),
}


def column(name):
    """Return a column in which every value stands three times; pa.array takes no float16 from Python's floats."""
    kind, values = COLUMNS[name]
    if pa.types.is_dictionary(kind):
        return pa.array(values * 3, kind.value_type).dictionary_encode()
    if pa.types.is_float16(kind):
        return pa.array(np.array(values * 3, dtype=np.float16))
    return pa.array(values * 3, kind)


def arrow_csv(table, path):
    pyarrow.csv.write_csv(table, path)
    return path


FAR_DATES = "0001-01-02" in pd.Series(np.array(["0001-01-02"], "datetime64[us]")).to_csv()
"""Whether pandas writes dates that nanoseconds do not reach: 2.1 writes others in their place."""


def pandas_csv(table, path):
    if not FAR_DATES and any(map(pa.types.is_timestamp, table.schema.types)):
        return arrow_csv(table, path)
    table.to_pandas().to_csv(path, index=False)
    return path


def polars_csv(table, path):
    pl.from_arrow(table).write_csv(path)
    return path


def parquet(table, path):
    path = path.with_suffix(".parquet")
    pq.write_table(table, path)
    return path


def pandas_numpy(table, path):
    return table.to_pandas()


def pandas_arrow(table, path):
    return table.to_pandas(types_mapper=pd.ArrowDtype)


def pandas_nullable(table, path):
    return table.to_pandas().convert_dtypes()


FORMATS = {
    "Arrow": lambda table, path: table,
    "Parquet": parquet,
    "Arrow's CSV": arrow_csv,
    "pandas' CSV": pandas_csv,
    "polars' CSV": polars_csv,
    "pandas": pandas_numpy,
    "pandas of Arrow": pandas_arrow,
    "pandas nullable": pandas_nullable,
    "polars": lambda table, path: pl.from_arrow(table),
}


def held(table, form, folder):
    """Return the table in a format, or None where its library cannot hold or write it."""
    try:
        return FORMATS[form](table, folder / f"{abs(hash(form))}.csv")
    except (
        pa.ArrowException,
        NotImplementedError,
        pl.exceptions.PolarsError,
        TypeError,
        ValueError,
        OverflowError,
    ):
        return None
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # of polars, which is no Exception
            return None
        raise


CLEAR = (ValueError, TypeError)


def encoded(source, options):
    """Return the preprocessing learned from a source and its rows; or the error, which must name the column."""
    try:
        rows = squeak.rows(source, **options)
        return rows.preprocessing, rows.collect()[0]
    except CLEAR as caught:
        error = caught
    assert "'v'" in str(error)
    assert len(str(error)) < 500
    assert "\n" not in str(error)
    return None, error


def check(array, folder, categories, formats=FORMATS, rtol=0.0, **options):
    """Learn from every format and encode from every other: the same rows, or a clear error.

    Returns how many pairs gave the same rows.
    """
    table = pa.table({"v": array, "w": np.arange(float(len(array)))})
    choice = {"categories": {"v": "onehot"}} if categories else {}
    sources = {form: found for form in formats if (found := held(table, form, folder)) is not None}
    learned = {form: encoded(source, {**choice, **options}) for form, source in sources.items()}
    alike = 0
    for first, second in itertools.product(learned, learned):
        preprocessing, rows = learned[first]
        if preprocessing is None:
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _, again = encoded(sources[second], {"preprocessing": preprocessing})
        if isinstance(again, Exception) or any("'(other)'" in str(one.message) for one in caught):
            continue
        np.testing.assert_allclose(again, rows, rtol=rtol, err_msg=f"{first} to {second}")
        if categories and not rtol:
            assert learned[second][0] == preprocessing, (first, second)
        alike += 1
    return alike, len(sources) ** 2, {form: found[1] for form, found in learned.items() if found[0] is None}


def tolerance(name):
    """Return how far apart formats may be: text has the digits that a narrow float needs, not its float64's."""
    return {"float16": 1e-2, "float32": 1e-7}.get(name, 0.0)


QUICK = [
    "int64",
    "uint64",
    "float32",
    "float64",
    "bool",
    "decimal",
    "string",
    "date32",
    "timestamp[us]",
    "dictionary",
]
SOME = {form: FORMATS[form] for form in ("Arrow", "Parquet", "pandas' CSV", "pandas", "polars")}


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("categories", [False, True], ids=["plain", "category"])
def test_a_value_is_the_same_through_some_formats(name, categories, tmp_path):
    alike, pairs, refused = check(column(name), tmp_path, categories, SOME, tolerance(name))
    assert not refused
    assert alike == pairs


TYPED = tuple(form for form in FORMATS if "CSV" not in form)
SEPARATE = {
    "duration": TYPED,  # pandas writes "1 days 00:00:00", which is read as text, and Arrow and polars write none
    "numbers as text": TYPED,  # in a CSV they are numbers but for a word
    "float16": ("Arrow",),  # some write the digits of a float16, some those of the float32 of the same value
}


@pytest.mark.slow
@pytest.mark.parametrize("categories", [False, True], ids=["plain", "category"])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_value_is_the_same_through_all_formats(name, categories, tmp_path):
    alike, pairs, _ = check(column(name), tmp_path, categories, FORMATS, tolerance(name))
    whole = next((len(forms) ** 2 for start, forms in SEPARATE.items() if name.startswith(start)), pairs)
    assert alike >= min(whole, pairs)


def with_gaps(name):
    """Return a column with a missing value after each that is there; pandas makes floats of such whole numbers."""
    array = column(name)
    if name in ("int64", "uint64"):
        array = pa.array([0, 1, 2**53, 7] * 3, array.type)
    if name == "string_view":  # Arrow takes no places of it
        return pa.concat_arrays([pa.nulls(len(array), array.type), array])
    return array.take(pa.array([place // 2 if place % 2 == 0 else None for place in range(2 * len(array))]))


@pytest.mark.parametrize("categories", [False, True], ids=["plain", "category"])
@pytest.mark.parametrize("name", ["int64", "bool", "string", "timestamp[us]"])
def test_a_missing_value_is_missing_in_some_formats(name, categories, tmp_path):
    alike, pairs, refused = check(with_gaps(name), tmp_path, categories, SOME, tolerance(name), missing=0.0)
    assert not refused
    assert alike == pairs


@pytest.mark.slow
@pytest.mark.parametrize("categories", [False, True], ids=["plain", "category"])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_missing_value_is_missing_in_all_formats(name, categories, tmp_path):
    alike, pairs, _ = check(with_gaps(name), tmp_path, categories, FORMATS, tolerance(name), missing=0.0)
    whole = next((len(forms) ** 2 for start, forms in SEPARATE.items() if name.startswith(start)), pairs)
    assert alike >= min(whole, pairs)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "name", ["int64", "float64", "bool", "string", "date32", "timestamp[us, UTC]", "time64[us]"]
)
def test_rows_with_nothing_but_missing_values_are_encoded(name, form, tmp_path):
    """A batch to predict for may lack a column's values altogether: what was learned says what they are."""
    learned = squeak.rows(pa.table({"v": column(name), "w": column(name)}), missing=0.0).preprocessing
    batch = pa.table({"v": pa.nulls(2, column(name).type), "w": column(name)[:2]})
    source = held(batch, form, tmp_path)
    expected = learned.encode(batch)
    assert np.array_equal(squeak.rows(source, preprocessing=learned).collect()[0], expected)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", REFUSED)
def test_a_column_of_no_numbers_is_refused_by_name(name, form, tmp_path):
    source = held(pa.table({"v": REFUSED[name], "x": np.arange(20.0)}), form, tmp_path)
    if source is None or ("CSV" in form and "binary" in name) or (name == "list" and form == "polars' CSV"):
        return  # text, in this format
    if "pandas" in form and name in ("list", "struct", "map", "binary", "fixed binary") and "CSV" in form:
        return  # written as Python shows them
    _, error = encoded(source, {})
    assert isinstance(error, CLEAR)
    advised = "drop=['v']" in str(error) or "make them one, or drop it" in str(error)
    assert advised or ("CSV" in form and "'v' is nan" in str(error))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("words", [["NA", "nan", "a"], ["", "a", "b"], ["None", "null", "N/A"]])
def test_words_that_stand_for_missing_values_are_values_where_they_were_learned(words, form, tmp_path):
    """Text in a table may be "NA"; in a CSV it is a missing value, unless the column's categories are known."""
    table = pa.table({"v": words * 4})
    learned = squeak.rows(table).preprocessing
    source = held(table, form, tmp_path)
    assert np.array_equal(squeak.rows(source, preprocessing=learned).collect()[0], learned.encode(table))
    listed = squeak.rows(source, categories={"v": words}).preprocessing
    assert np.array_equal(listed.encode(table).argmax(axis=1), [0, 1, 2] * 4)


TRUTHS = [("true", "false"), ("True", "False"), ("TRUE", "FALSE")]


@pytest.mark.parametrize("spelled", TRUTHS)
def test_truth_values_are_the_same_in_every_spelling(spelled, tmp_path):
    table = pa.table({"v": [True, False] * 5})
    (tmp_path / "t.csv").write_text("v\n" + "\n".join(spelled * 5) + "\n")
    for choice in ({}, {"categories": {"v": "onehot"}}, {"categories": {"v": "codes"}}):
        for first, second in ((table, tmp_path / "t.csv"), (tmp_path / "t.csv", table)):
            learned = squeak.rows(first, **choice)
            again = squeak.rows(second, preprocessing=learned.preprocessing).collect()[0]
            assert np.array_equal(again, learned.collect()[0])
            assert squeak.rows(second, **choice).preprocessing == learned.preprocessing


SECONDS = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30)).map(
    lambda moment: moment.replace(microsecond=0)
)


def few_digits(value):
    """Leave out float32 of which text has other digits: whole ones beyond 2²⁴, and those next to zero."""
    return value == 0 or 2**-126 <= abs(value) <= 2**24 or abs(value) >= 2**63


VALUES = {
    "whole numbers": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "fractions": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "narrow fractions": (
        pa.float32(),
        st.floats(allow_nan=False, allow_infinity=False, width=32).filter(few_digits),
    ),
    "decimals": (
        pa.decimal128(18, 6),
        st.decimals(-(10**11), 10**11, places=6, allow_nan=False, allow_infinity=False),
    ),
    "truths": (pa.bool_(), st.booleans()),
    "days": (pa.date32(), st.dates()),
    "seconds": (pa.timestamp("s"), SECONDS),
    "microseconds": (pa.timestamp("us"), st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))),
    "times": (pa.time64("us"), st.times()),
}
TEXT = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1).filter(
    lambda word: word.strip() == word and word not in MISSING_WORDS
)


def hypothesis_case(name, values, categories, folder, formats):
    kind = pa.string() if name == "text" else VALUES[name][0]
    alike, pairs, refused = check(
        pa.array(values * 2, kind), folder, categories, formats, tolerance("float32" if "narrow" in name else "")
    )
    assert not refused
    assert alike == pairs


def values_of(name):
    return st.lists(TEXT if name == "text" else VALUES[name][1], min_size=1, max_size=6, unique=True)


@pytest.mark.parametrize("name", [*VALUES, "text"])
def test_values_that_hypothesis_finds_are_the_same_through_some_formats(name, tmp_path_factory):
    @settings(max_examples=5)
    @given(values_of(name), st.booleans())
    def run(values, categories):
        folder = tmp_path_factory.mktemp("v")
        formats = {form: FORMATS[form] for form in ("Arrow", "Parquet", "Arrow's CSV")}
        hypothesis_case(name, values, categories or name == "text", folder, formats)

    run()


@pytest.mark.slow
@pytest.mark.parametrize("name", [*VALUES, "text"])
def test_values_that_hypothesis_finds_are_the_same_through_all_formats(name, tmp_path_factory):
    @settings(max_examples=150)
    @given(values_of(name), st.booleans())
    def run(values, categories):
        hypothesis_case(name, values, categories or name == "text", tmp_path_factory.mktemp("v"), FORMATS)

    run()


@pytest.mark.parametrize("name", [*VALUES, "text"])
def test_the_text_of_a_value_is_its_own(name):
    """Different values never share a text, and the text of a text is the text."""

    @settings(max_examples=60)
    @given(values_of(name))
    def run(values):
        words = [text_of(value) for value in values]
        assert len(set(words)) == len({1 * value if name == "truths" else value for value in values})
        assert all((canonical(word) or word) == (canonical(canonical(word) or word) or word) for word in words)

    run()
