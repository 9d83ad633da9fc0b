"""One group of reading options for all commands, and errors that name the options of the command at hand."""

import inspect
import pickle
import shlex
import signal
import sys

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak.cli import COMMANDS, main
from squeak.cli.commands import command
from squeak.cli.errors import spell
from squeak.cli.reading import Columns, Files, Shuffled
from squeak.core.advice import Advice, InputError, InputTypeError
from squeak.core.checks import check_positive, check_whole

OPTIONS = {function.__name__: inspect.signature(command(function)).parameters for function in COMMANDS}
READING = {name for name, options in OPTIONS.items() if "delimiter" in options}


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["squeak", *map(str, arguments)])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as left:
        main()
    return left.value.code, capsys.readouterr()


@pytest.fixture
def semicolons(tmp_path, monkeypatch):
    """Return the path of a table whose delimiter is not a comma, in a folder that commands write to."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.random(60).round(3), "b": rng.random(60).round(3)})
    frame["y"] = frame.a + frame.b
    frame.to_csv("rows.csv", sep=";", index=False)
    frame.to_parquet("rows.parquet")
    pd.DataFrame({"u": np.arange(59), "v": np.arange(1, 60)}).to_csv("edges.csv", sep=";", index=False)
    pd.DataFrame({"node": [0, 59], "label": ["left", "right"]}).to_csv("labels.csv", index=False)
    return tmp_path


CALLS = {
    "dictionary": "dictionary rows.csv --max-atoms 10 --out d.sqk",
    "fit": "fit rows.csv --target y --max-atoms 10 --alpha 1 --length-scale 1 --out m.sqk",
    "predict": "predict model.sqk rows.csv --out p.csv",
    "evaluate": "evaluate model.sqk rows.csv --target y",
    "report": "report model.sqk --data rows.csv --target y --out r.html",
    "online": "online rows.csv --target y",
    "compare": "compare rows.csv --rows 20 --oversampling 2 --repeats 1",
    "sample": "sample rows.csv --k 3 --out s.csv",
    "optimize": "optimize rows.csv --reward y --steps 2",
    "sparsify": "sparsify edges.csv --out h.csv",
    "label": "label edges.csv --labels labels.csv --out l.csv",
}


def test_the_commands_that_read_tables_are_all_here():
    assert set(CALLS) == READING
    for name in READING:
        assert set(Files.__dataclass_fields__) <= set(OPTIONS[name])
    for name in ("dictionary", "fit", "online", "compare"):
        assert set(Shuffled.__dataclass_fields__) <= set(OPTIONS[name])
    for name in ("sample", "optimize"):
        assert set(Columns.__dataclass_fields__) <= set(OPTIONS[name])
    assert {options["learn_rows"].default for options in OPTIONS.values() if "learn_rows" in options} == {20_000}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_every_command_that_advises_a_delimiter_takes_it(name, semicolons, monkeypatch, capsys):
    frame = pd.read_parquet("rows.parquet")
    source = squeak.rows(frame, target="y")
    squeak.KernelRidge(alpha=1.0, max_atoms=10, random_state=0).fit(source).save("model.sqk")
    call = shlex.split(CALLS[name])
    code, printed = run(monkeypatch, capsys, *call)
    assert code == 1
    assert printed.err.endswith("has one column when cut at ','; is the delimiter ';'? pass --delimiter ';'\n")
    code, printed = run(monkeypatch, capsys, *call, "--delimiter", ";")
    assert code == 0, printed.err


def test_predict_advises_no_option_that_it_does_not_have(semicolons, monkeypatch, capsys):
    frame = pd.read_parquet("rows.parquet")
    source = squeak.rows(frame, target="y")
    squeak.KernelRidge(alpha=1.0, max_atoms=10, random_state=0).fit(source).save("model.sqk")
    frame.loc[3, "a"] = np.nan
    frame.to_csv("holes.csv", index=False)
    code, printed = run(monkeypatch, capsys, "predict", "model.sqk", "holes.csv", "--out", "p.csv")
    assert code == 1
    words = "column 'a' is nan; skip such rows with --on-bad-rows skip, or fit the model with --missing median\n"
    assert printed.err.endswith(words)


def test_sorted_rows_are_read_in_another_order(semicolons, monkeypatch, capsys):
    """The advice for a column that is constant in the first rows can be followed, and helps."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.random(2_000), "year": np.repeat([1.0, 2.0], 1_000)})
    frame["y"] = frame.a * frame.year
    frame.to_parquet("sorted.parquet", row_group_size=500)
    call = ["fit", "sorted.parquet", "--target", "y", "--max-atoms", 10, "--alpha", 1, "--out", "m.sqk", "-q"]
    call += ["--length-scale", 1, "--learn-rows", 1_000]
    code, printed = run(monkeypatch, capsys, *call)
    assert code == 1
    assert "leave it out with --drop year, read the data with --shuffle if it is sorted by it" in printed.err
    codes = {run(monkeypatch, capsys, *call, "--shuffle", "--seed", seed)[0] for seed in range(3)}
    assert 0 in codes


def test_edges_are_chosen_among_columns(semicolons, monkeypatch, capsys):
    pd.DataFrame({"u": [0, 1, 2], "v": [1, 2, 0], "w": 1.0, "when": 5}).to_csv("wide.csv", index=False)
    code, printed = run(monkeypatch, capsys, "sparsify", "wide.csv", "--out", "h.csv", "-q")
    assert code == 1
    assert "has 4 columns" in printed.err
    assert printed.err.endswith("; choose them with --columns\n")
    assert run(monkeypatch, capsys, "sparsify", "wide.csv", "--columns", "u,v,w", "--out", "h.csv", "-q")[0] == 0
    (semicolons / "e.txt").write_text("0 1\n1 2\n")
    assert run(monkeypatch, capsys, "sparsify", "e.txt", "--delimiter", ";", "--out", "h.csv", "-q")[0] == 2


def test_errors_carry_the_parameter_and_its_value():
    with pytest.raises(InputError, match=r"^copies must be a whole number from 1 on; it is 0$") as caught:
        check_whole("copies", 0)
    assert (caught.value.parameter, caught.value.value) == ("copies", 0)
    with pytest.raises(InputTypeError) as caught:
        check_positive("max_atoms", {})
    assert caught.value.told(lambda advice: spell(advice, {"max_atoms"})) == (
        "--max-atoms must be a positive number; it is {}"
    )
    with pytest.raises(InputError) as caught:
        squeak.rows(pd.DataFrame({"a {}": [None, None]})).preprocessing  # noqa: B018
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.parameter == "drop"


@pytest.mark.parametrize(
    ("advice", "words"),
    [
        (Advice("pass {}", "header", False), "pass --no-header"),
        (Advice("pass {}", "delimiter", "\t"), r"pass --delimiter '\t'"),
        (Advice("pass {}", "na_values", ["?"]), "pass --na-values '?'"),
        (Advice("pass {}", "categories", {"a": "onehot"}), ""),
        (Advice("pass {}", "missing", "mean"), ""),
        (Advice("pass {}", "missing", "mean", otherwise="fit with {}"), "fit with --missing mean"),
        (Advice("'{}' is cut: raise {name}", "learn_rows"), "'{}' is cut: raise --learn-rows"),
    ],
)
def test_advice_in_the_words_of_a_command(advice, words):
    assert spell(advice, {"header", "delimiter", "na_values", "categories", "learn_rows"}) == words


def test_a_fit_chooses_everything_by_itself_and_says_which_way_it_took(semicolons, monkeypatch, capsys):
    """Exactly the library's automatic learner, unless the rows are many or an option is of a fit in passes."""
    call = ["fit", "rows.parquet", "--target", "y", "--max-atoms", 10, "--out", "m.sqk", "--overwrite"]
    code, printed = run(monkeypatch, capsys, *call)
    assert code == 0, printed.err
    assert "AutoRegressor: all settings were chosen by the error on held-out rows" in printed.out
    how = {"scale": "robust", "missing": "median", "categories": "auto"}
    source = squeak.rows("rows.parquet", "y", random_state=0, **how)
    expected = squeak.AutoRegressor(max_atoms=10, random_state=0).fit(source)
    found = squeak.load("m.sqk")
    frame = pd.read_parquet("rows.parquet")
    assert np.array_equal(found.predict(frame), expected.predict(frame))
    code, printed = run(monkeypatch, capsys, *call, "--alpha", 1)
    assert code == 0, printed.err
    assert "--alpha is not for --kernel auto: learned in passes, with an RBF kernel" in printed.out
    assert isinstance(squeak.load("m.sqk"), squeak.KernelRidge)
    assert run(monkeypatch, capsys, *call, "--alpha", 1, "--kernel", "auto")[0] == 2


@pytest.mark.parametrize("data", ["rows.parquet", "comma.csv"])
def test_more_rows_than_memory_should_hold_are_learned_in_passes(data, semicolons, monkeypatch, capsys):
    pd.read_parquet("rows.parquet").to_csv("comma.csv", index=False)
    call = ["fit", data, "--target", "y", "--max-atoms", 10, "--out", "m.sqk", "--overwrite"]
    monkeypatch.setattr("squeak.cli.automatic.MOST_ROWS", 59)
    code, printed = run(monkeypatch, capsys, *call)
    assert code == 0, printed.err
    assert "there are more than 59 rows: learned in passes" in printed.out
    assert isinstance(squeak.load("m.sqk"), squeak.KernelRidge)
    for option in (["--time-budget", 5], ["--no-trees"]):
        code, printed = run(monkeypatch, capsys, *call, *option)
        assert code == 2
        assert "is for --kernel auto; there are more than 59 rows" in " ".join(printed.err.split())
    monkeypatch.setattr("squeak.cli.automatic.MOST_ROWS", 60)
    assert run(monkeypatch, capsys, *call)[0] == 0
    assert squeak.load("m.sqk").trees is True
    assert run(monkeypatch, capsys, *call, "--no-trees")[0] == 0
    assert isinstance(squeak.load("m.sqk"), squeak.AutoRegressor)
    assert squeak.load("m.sqk").trees is False
