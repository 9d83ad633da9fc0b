"""``squeak plan fit`` and ``plan dictionary``: a measurement on the file itself; nothing is learned or written."""

import re

import numpy as np
import pandas as pd
import pytest

from squeak import AutoRegressor, KernelRidge, Squeak, rows
from squeak.cli import forecast, forecast_answers
from squeak.cli.forecast_answers import of_prediction
from squeak.kernels import RBF
from squeak.online import ConKonsRegressor
from squeak.samplers import planning
from tests.commands import command


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 3))
    table = pd.DataFrame(X, columns=list("abc")).assign(y=np.sin(X[:, 0]))
    table.to_parquet(tmp_path / "d.parquet", row_group_size=1000)
    table.to_csv(tmp_path / "d.csv", index=False)
    return tmp_path / "d.parquet"


@pytest.mark.parametrize("what", ["fit", "dictionary"])
def test_a_plan_tells_time_memory_and_passes(file, what):
    target = ["--target", "y"] if what == "fit" else ["--drop", "y"]
    done = command("plan", what, file, *target, "--kernel", "rbf", "--max-atoms", 40)
    assert done.returncode == 0, done.stderr
    for words in ("rows       3,000", "time  ", "memory     about", "passes  ", "measured   on some of the rows"):
        assert words in done.stdout
    assert "nothing was learned" in done.stdout
    assert "dictionary" in done.stdout
    assert "for 3,000 rows" in done.stdout
    assert sorted(path.name for path in file.parent.iterdir()) == ["d.csv", "d.parquet"]
    reckoned = command("plan", what, file, *target, "--kernel", "rbf", "--max-atoms", 40, "--no-measure")
    assert "give or take" in reckoned.stdout


def test_a_fit_that_chooses_everything_is_planned_too(file):
    done = command("plan", "fit", file, "--target", "y", "--max-atoms", 40)
    assert done.returncode == 0, done.stderr
    assert "kernels and metrics" in done.stdout
    assert "for 3,000 rows" in done.stdout
    limited = command("plan", "fit", file, "--target", "y", "--max-atoms", 40, "--no-trees", "--time-budget", 0.1)
    assert "kernels and metrics 0.1 s" in limited.stdout
    assert "one model" in limited.stdout  # whatever the budget


def test_workers_that_share_cores_take_turns(file, monkeypatch):
    source = rows(file, "y")
    learner = KernelRidge(RBF(1.0), max_atoms=40, alpha=0.1, random_state=0)
    monkeypatch.setattr(forecast.engine, "thread_count", lambda: 2)
    monkeypatch.setattr(forecast, "_started", lambda workers: 5.0)
    monkeypatch.setattr(forecast, "_line", lambda sizes, seconds: (0.0, 1.0))  # a second a row on both cores
    one, two, four = (forecast.of_fit(source, learner, workers, 1e9) for workers in (1, 2, 4))
    assert one.passes == two.passes == 2
    assert source.n_parts == 3  # in three turns by one worker, in two by any two that are at work at once
    assert one.stages["pass 2"] == pytest.approx(6_000, rel=1e-2)
    assert two.stages["pass 2"] == pytest.approx(4_000, rel=1e-2)
    assert four.stages["pass 2"] == pytest.approx(4_000, rel=1e-2)
    assert "on 4 workers" in four.lines()[0]
    assert four.stages["start"] > 5.0


def test_the_start_of_workers_is_measured():
    assert 0.5 < forecast._started(1) < 120.0


def test_a_prediction_is_planned_from_some_of_its_rows(file, tmp_path):
    model = tmp_path / "m.sqk"
    learner = KernelRidge(RBF(1.0), max_atoms=20, alpha=0.1, random_state=0).fit(rows(file, "y", scale="standard"))
    learner.save(model)
    done = command("plan", "predict", model, file, "--std")
    assert done.returncode == 0, done.stderr
    for words in ("for 3,000 rows", "prediction", "passes     1 over the rows", "nothing was written"):
        assert words in done.stdout
    assert "memory" not in done.stdout
    written, answers = [], rows(file, preprocessing=learner.preprocessing_)
    found = of_prediction(answers, learner, written.append)
    assert found.rows == sum(batch.num_rows for batch in written) == 3000
    assert found.stages["prediction"] <= found.measured * 1.5


@pytest.mark.parametrize("kind", ["number", "text"])
def test_a_stream_is_planned_from_some_of_its_rows(file, kind, monkeypatch):
    if kind == "text":
        table = pd.read_parquet(file)
        table.assign(y=np.where(table["y"] > 0, "high", "low")).to_parquet(file, row_group_size=1000)
    done = command("plan", "online", file, "--target", "y", "--max-atoms", 10)
    assert done.returncode == 0, done.stderr
    learned = "regression" if kind == "number" else "classification"
    for words in (
        "for 3,000 rows",
        "learning",
        "passes     1 over",
        "nothing was learned",
        f"learned as {learned}",
    ):
        assert words in done.stdout
    assert sorted(path.name for path in file.parent.iterdir()) == ["d.csv", "d.parquet"]
    if kind == "number":
        monkeypatch.setattr(forecast_answers, "MEASURED", 0.0)
        model = ConKonsRegressor(RBF(1.0), max_atoms=10, random_state=0)
        found = forecast_answers.of_stream(rows(file, "y"), model)
        assert 0 < model.n_seen_ < 300  # two of two hundred blocks
        assert found.stages["learning"] > found.measured
    done = command("plan", "online", "-", "--target", "y")
    assert done.returncode == 2
    assert "--dry-run is for files that are there" in done.stderr


def test_blocks_to_come_are_as_fast_as_the_later_half(file, monkeypatch):
    clock = iter([0.0, 10.0, 12.0, 13.0, 14.0])  # the first block pays for what is done once
    monkeypatch.setattr(forecast_answers.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(forecast_answers, "MEASURED", 13.5)
    found = forecast_answers._of_blocks("work", rows(file, "y"), iter([100] * 30))
    assert found.stages["work"] == pytest.approx(14.0 + 26 * 1.0)


def test_reading_takes_time_where_no_core_is_idle(monkeypatch):
    X = np.zeros((4, 1))
    ahead, inline = (forecast.Head(X, None, 1e-3, ahead=ahead) for ahead in (True, False))
    monkeypatch.setattr(forecast, "_cores", lambda: 2)
    monkeypatch.setattr(forecast.engine, "thread_count", lambda: 2)
    assert ahead.beside(10.0, 4_000) == 12.0
    assert ahead.beside(1.0, 4_000) == 4.0  # nothing is faster than reading
    assert inline.beside(10.0, 4_000) == 14.0
    monkeypatch.setattr(forecast.engine, "thread_count", lambda: 1)
    assert ahead.beside(10.0, 4_000) == 10.0


def test_rows_late_in_a_stream_cost_less(monkeypatch):
    asked = []
    monkeypatch.setattr(planning, "price_of_a_row", lambda d, X, late: asked.append(late) or 1.0 / late)
    d = Squeak(RBF(1.0), max_atoms=20, random_state=0).fit(np.random.default_rng(0).random((1_000, 2))).dictionary_
    assert planning.mean_price(d, None, 500) == 1.0
    assert planning.mean_price(d, None, 4_000) == pytest.approx((1_000 + 1_000 / 1.5 + 2_000 / 3.0) / 4_000)
    assert asked == [1.0, 1.0, 1.5, 3.0]


def test_lines_of_a_csv_file_are_weighed(file, monkeypatch):
    source = rows(file.with_suffix(".csv"), "y")
    assert forecast.count_rows(source) == (3000, False)
    monkeypatch.setattr(forecast, "SAMPLE_BYTES", 20_000)
    assert forecast.count_rows(source)[0] == pytest.approx(3000, rel=0.02)
    assert forecast.count_rows(rows(file, "y")) == (3000, True)


def test_mistakes_get_one_line(file):
    done = command("plan")
    assert done.returncode == 2
    assert "give --rows and --dim" in done.stderr
    done = command("fit", file, "--target", "y", "--out", file.with_suffix(".sqk"), "--measure")
    assert done.returncode == 2
    assert re.search(r"--measure goes with\s+--dry-run", done.stderr)


@pytest.mark.parametrize(
    ("rows", "width", "peak"), [(1_392, 8, 289), (4_177, 8, 676), (6_880, 8, 1_402), (20_640, 8, 645)]
)
def test_the_memory_of_an_automatic_fit_is_that_of_whole_fits(rows, width, peak):
    """Peaks of processes in MB, as they were measured."""
    assert 1 / 1.3 < forecast.memory_of_auto(rows, width, AutoRegressor()) / 1e6 / peak < 1.3


def test_the_memory_of_an_automatic_fit_grows_with_its_atoms():
    few, many = (forecast.memory_of_auto(5_000, 8, AutoRegressor(max_atoms=atoms)) for atoms in (500, None))
    assert few < 0.5 * many
    assert forecast.memory_of_auto(10**6, 50, AutoRegressor()) > 8 * 5 * 50e6


@pytest.mark.parametrize(
    ("name", "text", "given", "n"),
    [
        ("d.csv", "a,b\n1,2\n3,4\n", {}, 2),
        ("d.csv", "a,b\n1,2\n3,4", {}, 2),
        ("d.csv", "1,2\n3,4\n", {"header": False}, 2),
        ("d.jsonl", '{"a": 1}\n{"a": 2}\n{"a": 3}\n', {}, 3),
    ],
)
def test_the_names_of_columns_are_no_row(name, text, given, n, tmp_path):
    (tmp_path / name).write_text(text)
    assert forecast.weighed_rows(rows(tmp_path / name, **given)) == n


def test_two_files_have_two_lines_of_names(file):
    table = pd.read_csv(file.with_suffix(".csv"))
    for part in ("one", "two"):
        (file.parent / "parts").mkdir(exist_ok=True)
        table.to_csv(file.parent / "parts" / f"{part}.csv", index=False)
    assert forecast.weighed_rows(rows(file.parent / "parts", "y")) == 6_000
