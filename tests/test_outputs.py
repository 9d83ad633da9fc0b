"""What the command writes, and over what it never writes; what it shows of texts that come from files."""

import errno
import os
import signal
import sys

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak.cli import main
from squeak.core import outputs
from squeak.core.text import for_cell, for_terminal
from squeak.graphs.sources import read_edges
from squeak.report.shell import tag

NAMES = ("plain", "=1+2", "x\x1b[31mRED\x1b]0;title\x07")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Return a folder with tables, graphs and models whose names are hostile."""
    folder = tmp_path_factory.mktemp("inputs")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((300, 2)), columns=["a", "b"])
    frame["kind"] = np.array(NAMES)[np.arange(300) % 3]
    frame["y"] = np.sin(4 * frame["a"]) + frame["b"]
    frame.to_csv(folder / "rows.csv", index=False)
    (folder / "g").mkdir()
    edges = rng.integers(0, 40, (400, 2))
    pd.DataFrame(edges[edges[:, 0] != edges[:, 1]], columns=["u", "v"]).to_csv(folder / "g" / "e.csv", index=False)
    pd.DataFrame({"node": [0, 1], "label": ["@one", "-1"]}).to_csv(folder / "labels.csv", index=False)
    source = squeak.rows(folder / "rows.csv", "y", scale="standard")
    squeak.KernelRidge(max_atoms=20, random_state=0).fit(source).save(folder / "m.sqk")
    classes = squeak.rows(folder / "rows.csv", "kind", drop=["y"], scale="standard")
    squeak.KernelClassifier(max_atoms=20, random_state=0).fit(classes).save(folder / "c.sqk")
    for name in ("d", "e"):
        squeak.Squeak(ridge=1.0, random_state=0, source=name).fit(source).dictionary_.save(folder / f"{name}.sqk")
    (folder / "link.csv").symlink_to("rows.csv")
    os.link(folder / "rows.csv", folder / "hard.csv")
    return folder


@pytest.fixture
def run(monkeypatch, capsys):
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("COLUMNS", "200")

    def run(folder, *arguments):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["squeak", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        shown = capsys.readouterr()
        return left.value.code or 0, shown.out, shown.err

    return run


OVER = {
    "predict": ["predict", "m.sqk", "rows.csv", "--out", "rows.csv"],
    "predict over the model": ["predict", "m.sqk", "rows.csv", "--out", "./g/../rows.csv"],
    "predict a link": ["predict", "m.sqk", "link.csv", "--out", "rows.csv"],
    "predict to a link": ["predict", "m.sqk", "rows.csv", "--out", "link.csv"],
    "predict to a hard link": ["predict", "m.sqk", "rows.csv", "--out", "hard.csv"],
    "optimize": ["optimize", "rows.csv", "--reward", "y", "--steps", "3", "--out", "rows.csv"],
    "optimize's state": ["optimize", "rows.csv", "--reward", "y", "--steps", "3", "--state", "rows.csv"],
    "sparsify": ["sparsify", "g/*.csv", "--out", "g/e.csv"],
    "sparsify into the glob": ["sparsify", "g/*.csv", "--out", "g/new.csv"],
    "sparsify into the folder": ["sparsify", "g", "--out", "g/new.csv"],
    "sparsify deep": ["sparsify", "**/e*.csv", "--out", "g/e2.csv"],
    "label over the edges": ["label", "g/e.csv", "--labels", "labels.csv", "--out", "g/e.csv"],
    "label over the labels": ["label", "g/e.csv", "--labels", "labels.csv", "--out", "labels.csv"],
    "sample": ["sample", "rows.csv", "--k", "3", "--out", "rows.csv"],
    "merge": ["merge", "d.sqk", "e.sqk", "--out", "e.sqk"],
    "dictionary": ["dictionary", "rows.csv", "--out", "rows.csv"],
    "like": ["dictionary", "rows.csv", "--like", "d.sqk", "--out", "d.sqk"],
    "fit": ["fit", "rows.csv", "--target", "y", "--out", "rows.csv"],
    "fit's checkpoint": ["fit", "rows.csv", "--target", "y", "--out", "n.sqk", "--checkpoint", "rows.csv"],
    "fit's dictionary": ["fit", "rows.csv", "--target", "y", "--dictionary", "d.sqk", "--out", "d.sqk"],
    "online": ["online", "rows.csv", "--target", "y", "--out", "rows.csv"],
    "online's resume": ["online", "rows.csv", "--target", "y", "--resume", "d.sqk", "--checkpoint", "d.sqk"],
    "two results": ["sparsify", "g/e.csv", "--out", "h.png", "--figure", "h.png"],
    "two states": ["fit", "rows.csv", "--target", "y", "--out", "n.sqk", "--checkpoint", "./n.sqk"],
}


@pytest.mark.parametrize("name", OVER)
def test_no_command_writes_over_what_it_reads(inputs, run, name):
    before = {path: path.read_bytes() for path in inputs.rglob("*") if path.is_file()}
    code, _, errors = run(inputs, *OVER[name])
    assert code == 2
    assert "files that are read" in errors or "when they are read again" in errors or "named twice" in errors
    assert {path: path.read_bytes() for path in inputs.rglob("*") if path.is_file()} == before


def test_overwrite_allows_it_and_the_input_was_read_to_its_end(inputs, run, tmp_path):
    (tmp_path / "rows.csv").write_bytes((inputs / "rows.csv").read_bytes())
    u, v = np.triu_indices(100, 1)
    pd.DataFrame({"u": u, "v": v}).to_csv(tmp_path / "e.csv", index=False)
    code, _, errors = run(tmp_path, "predict", inputs / "m.sqk", "rows.csv", "--out", "rows.csv", "--overwrite")
    assert code == 0, errors
    assert len(pd.read_csv(tmp_path / "rows.csv")) == 300
    options = ["--out", "e.csv", "--oversampling", "1", "--overwrite"]
    code, shown, errors = run(tmp_path, "sparsify", "e.csv", *options)
    assert code == 0, errors
    kept = len(read_edges(tmp_path / "e.csv"))
    assert f"4,950 edges became {kept:,} " in shown
    assert kept < 4950


def test_a_state_is_never_written_over_an_input(inputs, run):
    code, _, errors = run(
        inputs, "fit", "rows.csv", "--target", "y", "--out", "n.sqk", "--checkpoint", "rows.csv", "--overwrite"
    )
    assert code == 2
    assert "files that are read" in errors


def test_a_learner_goes_on_in_its_own_file(inputs, run, tmp_path):
    learner = ["online", inputs / "rows.csv", "--target", "y", "--out", "o.sqk", "-q"]
    assert run(tmp_path, *learner)[0] == 0
    code, _, errors = run(tmp_path, *learner, "--resume", "o.sqk")
    assert code == 0, errors
    assert squeak.load(tmp_path / "o.sqk").n_seen_ == 600


@pytest.mark.parametrize(
    "arguments",
    [["show", "m.sqk"], ["show", "c.sqk"], ["evaluate", "c.sqk", "rows.csv", "--target", "kind"]],
    ids=["columns", "classes", "scores"],
)
def test_texts_from_files_cannot_rewrite_the_terminal(inputs, run, arguments):
    code, shown, errors = run(inputs, *arguments)
    assert code == 0, errors
    assert r"x\x1b[31mRED" in shown
    assert all(c.isprintable() or c == "\n" for c in shown)


def test_an_error_cannot_rewrite_the_terminal_either(inputs, run, tmp_path):
    (tmp_path / "bad\x1b[2J.csv").write_text("a,b\n1,2\n3,\n")
    code, _, errors = run(tmp_path, "dictionary", "bad\x1b[2J.csv", "--out", "d.sqk", "-q")
    assert code == 1
    assert r"bad\x1b[2J.csv" in errors
    assert all(c.isprintable() or c == "\n" for c in errors)


def test_formulas_do_not_reach_a_csv_file_and_numbers_stay(inputs, run, tmp_path):
    code, _, errors = run(inputs, "predict", "c.sqk", "rows.csv", "--out", tmp_path / "p.csv")
    assert code == 0, errors
    assert "an apostrophe stands before them" in errors
    assert set(pd.read_csv(tmp_path / "p.csv")["prediction"]) <= {NAMES[0], f"'{NAMES[1]}", NAMES[2]}
    code, _, errors = run(inputs, "label", "g/e.csv", "--labels", "labels.csv", "--out", tmp_path / "l.csv")
    assert code == 0, errors
    assert set(pd.read_csv(tmp_path / "l.csv", dtype=str)["label"]) == {"'@one", "-1"}
    run(inputs, "predict", "c.sqk", "rows.csv", "--out", tmp_path / "p.parquet")
    assert set(pd.read_parquet(tmp_path / "p.parquet")["prediction"]) == set(NAMES)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        *[("=1", "'=1"), ("+a", "'+a"), ("-a", "'-a"), ("@a", "'@a"), ("\ta", "'\ta"), ("\ra", "'\ra")],
        *[("-1", "-1"), ("+1.5e3", "+1.5e3"), ("-inf", "-inf"), ("-", "-"), ("+", "+"), ("", ""), ("a=1", "a=1")],
    ],
)
def test_a_cell_is_guarded_only_where_a_spreadsheet_would_run_it(text, cell):
    assert for_cell(text) == cell


def test_attributes_hold_no_control_characters():
    assert tag("p", "a\x1b", title="b\x00\x1b\u202e") == '<p title="b\ufffd\ufffd\ufffd">a\ufffd</p>'
    assert for_terminal("a\n\x9b\u202eé") == r"a\n\x9b\u202eé"


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (["predict", "m.sqk", "rows.csv", "--out", "{}/p.csv"], "p.csv"),
        (["merge", "d.sqk", "e.sqk", "--out", "{}/x.sqk"], "x.sqk"),
        (["optimize", "rows.csv", "--reward", "y", "--drop", "kind", "--steps", "3", "--out", "{}/o.csv"], "o.csv"),
    ],
)
def test_a_full_disk_is_reported_with_the_files_name(inputs, run, tmp_path, monkeypatch, arguments, file):
    monkeypatch.setattr(outputs.os, "fsync", full)
    code, _, errors = run(inputs, *(part.format(tmp_path) for part in arguments))
    assert code == 1
    assert f"{tmp_path / file}: No space left on device" in errors
    assert list(tmp_path.iterdir()) == []


def test_rewards_survive_a_state_that_cannot_be_written(inputs, run, tmp_path, monkeypatch):
    search = ["optimize", "rows.csv", "--reward", "y", "--drop", "kind", "--steps", "4", "-q"]
    monkeypatch.setattr(squeak.bandits.AutoUCB, "save", full)
    code, _, errors = run(inputs, *search, "--state", tmp_path / "s.sqk", "--out", tmp_path / "o.csv")
    assert code == 1
    assert "every reward is in" in errors
    pulls = (tmp_path / "o.csv").read_text().splitlines()[1:]
    assert len(pulls) == 4
    code, _, errors = run(inputs, *search, "--state", tmp_path / "s.sqk")
    assert code == 1
    assert all(line in errors for line in pulls)


def test_what_a_dead_process_left_goes_and_what_a_living_one_writes_stays(tmp_path):
    out, other = tmp_path / "out.csv", tmp_path / ".other.csv.0123456789ab.tmp"
    left = tmp_path / ".out.csv.0123456789ab.tmp"
    left.write_text("half")
    other.write_text("another file's")
    with outputs.replacing(out) as first:
        assert not left.exists()
        with outputs.replacing(out) as second:
            second.write(b"second")
        assert out.read_bytes() == b"second"
        first.write(b"first")
    assert out.read_bytes() == b"first"
    assert sorted(path.name for path in tmp_path.iterdir()) == [other.name, out.name]


def test_a_fit_on_a_dictionary_is_the_librarys(inputs, run, tmp_path):
    code, _, errors = run(
        inputs,
        "fit",
        "rows.csv",
        "--target",
        "y",
        "--dictionary",
        "d.sqk",
        "--alpha",
        "1",
        "--out",
        tmp_path / "n.sqk",
    )
    assert code == 0, errors
    d = squeak.load(inputs / "d.sqk")
    source = squeak.rows(inputs / "rows.csv", "y", preprocessing=d.preprocessing)
    expected = squeak.KernelRidge(dictionary=d, alpha=1.0, fit_intercept=True).fit(source)
    assert np.array_equal(squeak.load(tmp_path / "n.sqk").dual_coef_, expected.dual_coef_)
    code, _, errors = run(
        inputs, "fit", "rows.csv", "--target", "y", "--dictionary", "d.sqk", "--kernel", "linear", "--out", "n.sqk"
    )
    assert code == 2
    assert "--kernel cannot change" in errors
    code, _, errors = run(inputs, "fit", "rows.csv", "--target", "a", "--dictionary", "d.sqk", "--out", "n.sqk")
    assert code == 1
    assert "have the column 'a'" in errors
