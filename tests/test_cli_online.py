"""``squeak online`` over rows that come as time passes: standard input, a growing file, predictions on the way."""

import csv
import os
import threading
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import squeak
from squeak.cli import app, live
from squeak.data.csv_text import CsvFormat
from squeak.data.lines import csv_tables, from_descriptor, from_growing

FIRST = ["online", "rows.csv", "--target", "kind", "--max-atoms", "10", "-q"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with rows.csv: numbers on odd scales, a category, and a text to predict."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 2)) * [1e4, 1e-3]
    kind = np.where(X[:, 0] * 1e-4 + X[:, 1] * 1e3 > 0, "up", "down")
    with (tmp_path / "rows.csv").open("w") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "to", "kind"])
        writer.writerows(zip(*X.T.tolist(), np.where(X[:, 0] > 0, "AMS", "LIL"), kind, strict=True))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    found = CliRunner().invoke(app, list(map(str, arguments)))
    assert found.exit_code == 0, (found.output, found.exception)
    return found


def piped(monkeypatch, text):
    """Let standard input give a text; the commands read its descriptor."""
    read, write = os.pipe()
    monkeypatch.setattr("squeak.cli.streams._standard_input", lambda: from_descriptor(read))
    thread = threading.Thread(target=lambda: (os.write(write, text), os.close(write)))
    thread.start()
    return thread


def test_a_text_is_classes_and_scales_need_no_option(folder):
    said = run(*FIRST, "--out", "m.sqk").output
    assert "error rate" in said
    model = squeak.load("m.sqk")
    assert model.classes_.tolist() == ["down", "up"]
    assert model.scale_ is not None
    assert "--shuffle" not in said
    run(*FIRST, "--classes", "up,down,level", "--out", "m.sqk")
    assert squeak.load("m.sqk").classes_.tolist() == ["down", "level", "up"]
    with pytest.raises(AssertionError, match="text"):
        run(*FIRST, "--task", "regression")


def test_standard_input_gives_what_the_file_gives(folder, monkeypatch):
    thread = piped(monkeypatch, (folder / "rows.csv").read_bytes())
    run("online", "-", *FIRST[2:], "--learn-rows", 600, "--predictions", "piped.csv", "--out", "piped.sqk")
    thread.join()
    run(*FIRST, "--predictions", "file.csv", "--out", "file.sqk")
    lines = (folder / "file.csv").read_text().splitlines()
    assert lines[0] == "prediction,target"
    assert len(lines) == 601
    assert (folder / "piped.csv").read_text().splitlines() == lines
    wrong = np.mean([one != other for one, other in (line.split(",") for line in lines[300:])])
    assert wrong < 0.15


def test_a_learner_goes_on_with_lines_that_come_later(folder, monkeypatch):
    text = (folder / "rows.csv").read_bytes()
    lines = text.splitlines(keepends=True)
    run(*FIRST, "--predictions", "whole.csv")
    for part, extra in (
        (lines[:301], FIRST[2:]),
        ([lines[0], *lines[301:]], ["--target", "kind", "-q", "--resume", "m.sqk"]),
    ):
        thread = piped(monkeypatch, b"".join(part))
        said = run("online", "-", *extra, "--out", "m.sqk", "--predictions", "-").output
        thread.join()
    whole = (folder / "whole.csv").read_text().splitlines()
    shown = [line for line in said.splitlines() if line.split(",")[0] in ("up", "down")]
    assert np.mean([one != other for one, other in zip(shown, whole[301:], strict=True)]) < 0.02
    assert squeak.load("m.sqk").n_seen_ == 600


def test_rows_are_learned_as_they_come(folder, monkeypatch):
    """Later lines are written only when the predictions of the earlier ones are there."""
    header, *lines = (folder / "rows.csv").read_bytes().splitlines(keepends=True)
    read, write = os.pipe()
    monkeypatch.setattr("squeak.cli.streams._standard_input", lambda: from_descriptor(read))
    there = []

    def told():
        return len((folder / "p.csv").read_bytes().splitlines()) if (folder / "p.csv").exists() else 0

    def feed():
        os.write(write, header + b"".join(lines[:300]))
        for at in (300, 301, 350):
            end = time.monotonic() + 60.0
            while told() < at + 1 and time.monotonic() < end:
                time.sleep(0.01)
            there.append(told())
            os.write(write, b"".join(lines[at : {300: 301, 301: 350, 350: 400}[at]]))
        os.close(write)

    thread = threading.Thread(target=feed)
    thread.start()
    run("online", "-", *FIRST[2:], "--predictions", "p.csv")
    thread.join()
    assert there == [301, 302, 351]
    assert told() == 401


def test_predictions_of_a_run_that_goes_on_are_not_written_twice(folder):
    class Block:
        y, predictions = np.array(["up", "down"]), np.array(["up", "=up"])

    one = live.Predictions("p.csv", goes_on=True)
    one(Block, 0)
    one(Block, 2)
    one.close()
    again = live.Predictions("p.csv", goes_on=True)  # its checkpoint was written after two rows
    again(Block, 2)
    again.close()
    assert (folder / "p.csv").read_text() == "prediction,target\n" + "up,up\n'=up,down\n" * 2
    with pytest.raises(ValueError, match="fewer predictions"):
        live.Predictions("p.csv", goes_on=True)(Block, 9)


def test_a_growing_file_is_read_as_it_grows(tmp_path):
    path, stopped, found = tmp_path / "rows.csv", [], []
    path.write_text("a,y\n1,2\n3,")
    tables = csv_tables(from_growing(path, lambda: bool(stopped)), CsvFormat(), label="rows.csv", target="y")

    def grow():
        for text in ("4\n", "5,6\n", "7,8\n9,1"):  # the last line is still being written
            time.sleep(0.3)
            with path.open("a") as file:
                file.write(text)
        time.sleep(0.3)
        stopped.append(1)

    thread = threading.Thread(target=grow)
    thread.start()
    found = [row for table in tables for row in table.to_pylist()]
    thread.join()
    assert found == [{"a": 1.0, "y": 2}, {"a": 3.0, "y": 4}, {"a": 5.0, "y": 6}, {"a": 7.0, "y": 8}]


def test_lines_that_do_not_fit_are_named_or_skipped():
    def tables(text, **options):
        pieces = iter([text, b""])
        return [
            table.num_rows
            for table in csv_tables(lambda: next(pieces), CsvFormat(), label="standard input", **options)
        ]

    assert tables(b"a,b\n1,2\n3\n", skip=True) == [1]
    with pytest.raises(ValueError, match=r"standard input, after row 0.*2 columns"):
        tables(b"a,b\n1,2\n3\n")
    with pytest.raises(ValueError, match="standard input has no rows"):
        tables(b"a,b\n")

    def in_pieces(**options):
        pieces = iter([b"a,b\n1,2\n", b"3,4\noops,5\n6,7\n", b""])
        found = csv_tables(lambda: next(pieces), CsvFormat(), label="standard input", **options)
        return [row["a"] for table in found for row in table.to_pylist()]

    assert in_pieces(skip=True) == [1.0, 3.0, 6.0]
    with pytest.raises(ValueError, match=r"after row 1.*oops"):
        in_pieces()


def test_a_learner_of_lines_is_kept_where_its_run_ends_in_an_error(tmp_path, monkeypatch, capsys):
    """Rows of standard input cannot be read again: what was learned of them is saved, also from time to time."""
    path, saved = tmp_path / "m.sqk", []
    monkeypatch.setattr(squeak, "save", lambda model, where: saved.append((model, where)))

    def ends(where, blocks):
        with live.Kept("model", where, 60.0) as kept:
            for number in range(blocks):
                kept("block", number)
            raise ValueError("oops")

    for where, blocks in ((path, 0), (None, 1), (path, 1)):  # nothing learned, nowhere to save it, both
        with pytest.raises(ValueError, match="oops"):
            ends(where, blocks)
    assert saved == [("model", path)]
    assert "before the error" in capsys.readouterr().err
    said = []
    with live.Kept("model", path, 0.0, lambda *given: said.append(given)) as kept:
        kept("block", 0)
        kept("block", 9)
    assert said == [("block", 0), ("block", 9)]
    assert len(saved) == 3


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["-", "rows.csv"], "read alone"),
        (["-", "--checkpoint", "c.sqk"], "--resume goes on"),
        (["-", "--shuffle"], "as a whole"),
        (["none.csv", "--follow"], "CSV file that is there"),
    ],
)
def test_options_that_do_not_go_together_are_refused(folder, extra, words):
    found = CliRunner().invoke(app, ["online", *extra, "--target", "kind"])
    assert found.exit_code == 2
    assert words in found.output.replace("\n", " ")
