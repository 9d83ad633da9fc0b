"""The benchmark of tables: its halves, its ratios, and results that a stopped run finds again."""

from __future__ import annotations

import json

import numpy as np
import pytest
from benchmarks import tables
from benchmarks.tables_data import APART, CHOSEN_ON, NAMES, Split
from benchmarks.tables_growth import made
from benchmarks.tables_methods import METHODS
from benchmarks.tables_page import coverage_words, mean_ratios, summary, tables_page
from benchmarks.tables_search import Searched


def record(table, method, split, error, **more):
    key = {"table": table, "split": split, "method": method, "settings": METHODS[method].settings}
    return key | {"error": error, "rows": 80, "columns": 3, "cpu_seconds": 1.0} | more


@pytest.fixture
def lines(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "LINES", tmp_path / "tables.jsonl")
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    return tmp_path / "tables.jsonl"


def test_every_table_is_in_one_half():
    assert sorted(CHOSEN_ON + APART) == sorted(NAMES)


def test_ratios_are_of_common_splits_and_their_mean_is_geometric():
    found = [
        record("cadata", "squeak", 0, 1.0),
        record("cadata", "hist", 0, 2.0),
        record("cadata", "hist", 1, 50.0),  # squeak has no such split
        record("casp", "squeak", 0, 8.0),
        record("casp", "hist", 0, 1.0),
    ]
    ratios = summary(found)["ratios"]["hist"]
    assert ratios["all tables"] == {"ratio": pytest.approx(2.0), "tables": 2}
    assert ratios["chosen on"] == {"ratio": pytest.approx(0.5), "tables": 1}
    assert ratios["apart"] == {"ratio": pytest.approx(8.0), "tables": 1}
    assert mean_ratios({}, "squeak", "hist") == {}


def test_the_best_peer_has_the_least_error():
    found = [
        record("cadata", m, 0, e) for m, e in (("squeak", 3.0), ("hist", 2.0), ("catboost", 4.0), ("before", 1.0))
    ]
    assert summary(found)["best"]["cadata"] == {"peer": "hist", "ratio": pytest.approx(1.5)}


def test_time_of_searches_is_told_beside_ours():
    found = [record("cadata", "squeak", 0, 1.0), record("cadata", "hist_searched", 0, 1.0, cpu_seconds=3.0)]
    assert summary(found)["search_time"] == pytest.approx(3.0)
    assert "took 3.00 times" in tables_page(summary(found), {})


def test_a_page_is_written_with_and_without_results():
    assert "have not been measured" in tables_page({}, {})
    page = tables_page(summary([record("cadata", "hist", 0, 2.0), record("cadata", "squeak", 0, 1.0)]), {})
    assert "| cadata | **1** (1) | 2 (1) |" in page


def test_the_page_names_tables_whose_intervals_cover_too_much_or_unevenly():
    facts = {
        "cadata": ("squeak", 0.925, 2.0, [0.9] * 10),
        "casp": ("squeak", 0.90, 2.0, [0.84] + [0.9] * 9),
        "abalone": ("squeak", 0.88, 4.0, [0.85, 0.95] * 5),
    }
    found = [
        record(table, method, 0, 1.0, interval={"coverage": coverage, "width": width, "tenths": tenths})
        for table, (method, coverage, width, tenths) in facts.items()
    ]
    found.append(record("casp", "quantile", 0, 1.0, interval={"coverage": 0.8, "width": 4.0, "tenths": [0.8] * 10}))
    words = coverage_words(summary(found)["intervals"])
    assert "88.0 to 92.5% of the test targets on 3 tables; they leave 88 to 92% on cadata (92.5%)." in words
    assert "on 2 of these tables, all but casp." in words
    assert "0.50 times as wide" in words
    assert words in tables_page(summary(found), {})


def test_the_page_tells_which_state_of_the_code_was_measured_on_what():
    found = [record("cadata", "squeak", split, 1.0, code=code) for split, code in ((1, "a"), (0, "a"), (2, "b"))]
    assert "`a`: cadata 0/1; `b`: cadata 2." in tables_page(summary(found), {})
    assert "states of the code" not in tables_page(summary(found[:2]), {})


def test_the_last_of_equal_results_counts(lines):
    tables.keep(record("cadata", "hist", 0, 2.0))
    tables.keep(record("cadata", "hist", 0, 1.0))
    assert [r["error"] for r in tables.recorded().values()] == [1.0]


def test_a_run_measures_only_what_is_not_cached(lines, monkeypatch):
    X, y = np.random.default_rng(0).standard_normal((100, 2)), np.arange(100.0)
    monkeypatch.setattr(tables, "load", lambda table, split: Split(table, 0, X[:80], y[:80], X[80:], y[80:]))
    monkeypatch.setattr(tables, "here", lambda table: True)
    options = ["--tables", "cadata", "--splits", "0,1", "--methods", "hist"]
    tables.errors(tables.parse(options))
    first = lines.read_text()
    assert [json.loads(line)["split"] for line in first.splitlines()] == [0, 1]
    tables.errors(tables.parse(options))
    assert lines.read_text() == first
    tables.errors(tables.parse([*options, "--again"]))
    assert len(lines.read_text().splitlines()) == 4


def test_coverage_is_counted_in_tenths_of_the_width():
    y = np.zeros(100)
    half = np.linspace(1.0, 2.0, 100)
    low = np.where(np.arange(100) < 10, half, -half)  # the ten narrowest intervals miss
    found = tables.interval_facts(np.minimum(low, low + 2 * half), low + 2 * half, y)
    assert found["coverage"] == pytest.approx(0.9)
    assert found["tenths"] == [0.0] + [1.0] * 9


def test_a_search_takes_the_best_of_its_settings():
    class Constant:
        def __init__(self, value=0.0):
            self.value = value

        def fit(self, X, y):
            return self

        def predict(self, X):
            return np.full(len(X), self.value)

    values = iter((3.0, 5.0, 4.0))

    def draw(rng):
        return {"value": next(values, 0.0)}

    found = Searched(Constant, draw, 0, budget=1.0).fit(np.zeros((50, 1)), np.full(50, 5.0))
    assert found.settings_ == {"value": 5.0}
    assert found.predict(np.zeros((2, 1))).tolist() == [5.0, 5.0]


def test_growth_is_told_beside_that_of_rows_times_their_logarithm():
    facts = {"fit_seconds": 1.0, "peak_mb": 5.0, "error": 0.3}
    sizes = {str(n): facts | {"cpu_seconds": n * np.log(n) / 1e4} for n in (100, 10_000)}
    page = tables_page({}, {}, {"threads": 2, "sizes": sizes})
    assert "| 10,000 | 1 | 9 | 1.00 | 5 MB | 0.300 |" in page
    assert "`trees=False`" not in page[page.index("### Growth") :]
    sizes["100"]["trees"] = False
    assert "| 100, `trees=False` | 1 |" in tables_page({}, {}, {"threads": 2, "sizes": sizes})
    X, y = made(50, 0)
    assert X.shape == (50, 10)
    assert y.shape == (50,)
