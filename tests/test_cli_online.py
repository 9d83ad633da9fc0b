"""``squeak online`` over rows that come as time passes: standard input, a growing file, predictions on the way."""

import csv
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing

import numpy as np
import pytest
from typer.testing import CliRunner

import squeak
from squeak.cli import app, live
from squeak.core.storage import read as read_parts
from squeak.data.csv_text import CsvFormat
from squeak.data.lines import Growing, csv_tables, from_descriptor

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


@pytest.fixture
def growing():
    """Return a function that makes a reader of a file that grows, which is closed at the end."""
    with ExitStack() as stack:
        yield lambda *given, **options: stack.enter_context(closing(Growing(*given, **options)))


def run(*arguments):
    found = CliRunner().invoke(app, list(map(str, arguments)))
    assert found.exit_code == 0, (found.output, found.exception)
    return found


def piped(monkeypatch, text):
    """Let standard input give a text; the commands read its descriptor."""
    read, write = os.pipe()
    monkeypatch.setattr("squeak.cli.streams._standard_input", lambda kept: from_descriptor(read, kept.idle))
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
    monkeypatch.setattr("squeak.cli.streams._standard_input", lambda kept: from_descriptor(read, kept.idle))
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
        y, predictions = np.array(["up", 'do"wn\nor so']), np.array(["up", "=up"])

    one = live.Predictions("p.csv", goes_on=True)
    one(Block, 0)
    one(Block, 2)
    one.close()
    again = live.Predictions("p.csv", goes_on=True)  # its checkpoint was written after two rows
    again(Block, 2)
    again.close()
    expected = "prediction,target\n" + 'up,up\n\'=up,"do""wn\nor so"\n' * 2
    assert (folder / "p.csv").read_text() == expected
    with pytest.raises(ValueError, match="fewer predictions"):
        live.Predictions("p.csv", goes_on=True)(Block, 9)
    killed = live.Predictions("p.csv", goes_on=True)
    with pytest.raises(AttributeError):  # before it writes a row
        killed(None, 4)
    assert (folder / "p.csv").read_text() == expected
    killed.close()
    with (folder / "p.csv").open("a") as file:
        file.write('up,"do')  # a row that was half written
    more = live.Predictions("p.csv", goes_on=False, adds=True)
    more(Block, 0)
    more.close()
    assert (folder / "p.csv").read_text() == expected + 'up,up\n\'=up,"do""wn\nor so"\n'


def test_a_learner_that_goes_on_adds_its_predictions_or_is_told_to_write_anew(folder):
    run(*FIRST, "--predictions", "p.csv", "--out", "m.sqk")
    first = (folder / "p.csv").read_text()
    more = ["online", "rows.csv", "--target", "kind", "--resume", "m.sqk", "-q", "--predictions"]
    run(*more, "p.csv")
    both = (folder / "p.csv").read_text()
    assert both.startswith(first)
    assert both.count("\n") == 1201
    for name, extra, words in (
        ("rows.csv.bak", [], "holds no predictions"),
        ("p.csv", ["--checkpoint", "c.sqk"], "is there already"),
    ):
        (folder / "rows.csv.bak").write_text("precious\n")
        refused = CliRunner().invoke(app, [*more, name, *extra])
        assert refused.exit_code == 2
        assert words in " ".join(refused.output.replace("│", "").split())
    run(*more, "p.csv", "--overwrite")
    assert (folder / "p.csv").read_text().count("\n") == 601


def test_a_growing_file_is_read_as_it_grows(growing, tmp_path):
    path, stopped, found = tmp_path / "rows.csv", [], []
    path.write_text("a,y\n1,2\n3,")
    tables = csv_tables(growing(path, lambda: bool(stopped)), CsvFormat(), label="rows.csv", target="y")

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


class Learner:
    """What is saved: how many blocks were learned."""

    kind, blocks = "online", 0

    def to_parts(self):
        return {}, {"blocks": self.blocks}


def test_a_learner_of_lines_is_kept_where_its_run_ends_in_an_error(tmp_path, capsys):
    """Rows of standard input cannot be read again: what was learned of them is saved."""
    path = tmp_path / "m.sqk"

    def ends(where, blocks):
        with live.Kept(where, 60.0).begun(Learner()) as kept:
            for number in range(blocks):
                kept("block", number)
            raise ValueError("oops")

    for where, blocks in ((path, 0), (None, 1), (path, 1)):  # nothing learned, nowhere to save it, both
        assert not path.exists()
        with pytest.raises(ValueError, match="oops"):
            ends(where, blocks)
    assert path.exists()
    assert "before the error" in capsys.readouterr().err


def test_a_learner_of_lines_is_saved_from_time_to_time_also_where_none_come(tmp_path, monkeypatch):
    path, now, said, model = tmp_path / "m.sqk", [0.0], [], Learner()
    monkeypatch.setattr(live.time, "monotonic", lambda: now[0])
    kept = live.Kept(path, 30.0)
    kept.idle()
    kept.begun(model, lambda *given: said.append(given))
    for seconds, blocks, there in ((1.0, 1, None), (31.0, 0, 1), (50.0, 2, 1), (99.0, 0, 3)):
        now[0] = seconds
        for _ in range(blocks):
            model.blocks += 1
            kept("block", model.blocks)
        kept.idle()
        assert (read_parts(path)[2]["blocks"] if path.exists() else None) == there
    assert said == [("block", 1), ("block", 2), ("block", 3)]
    path.unlink()
    now[0] = 200.0
    kept.idle()
    assert not path.exists()  # nothing new was learned


def test_a_disk_that_is_full_for_a_moment_ends_no_run_and_hides_no_error(tmp_path, capsys):
    path = tmp_path / "gone" / "m.sqk"
    kept = live.Kept(path, 0.0).begun(Learner())
    kept("block", 0)
    kept.idle()
    assert "m.sqk could not be written: No such file" in capsys.readouterr().err
    with pytest.raises(ValueError, match="oops"), kept:
        raise ValueError("oops")
    path.parent.mkdir()
    kept.idle()
    assert path.exists()


def test_a_reader_that_waits_lets_others_work(growing, tmp_path):
    """A learner is saved meanwhile; here that brings the very bytes that are waited for."""

    def second(act):
        calls = []

        def idle():
            calls.append(1)
            if len(calls) == 2:
                act()

        return idle

    read, write = os.pipe()
    assert from_descriptor(read, second(lambda: os.write(write, b"a,b\n")))() == b"a,b\n"
    path = tmp_path / "rows.csv"
    path.write_text("")
    assert growing(path, lambda: False, second(lambda: path.write_text("a,b\n")))() == b"a,b\n"


def test_whole_numbers_at_first_do_not_make_a_target_whole(folder, monkeypatch):
    """The first 256 targets are whole numbers; those of a classifier are labels, and stay as they are."""
    head = b"a,y\n" + b"".join(b"%d,%d\n" % (i % 17, i) for i in range(300))
    for task in ("auto", "regression"):
        pieces = iter([head, b"3,2.5\n", b""])
        monkeypatch.setattr("squeak.cli.streams._standard_input", lambda kept, it=pieces: lambda: next(it))
        asked = ["online", "-", "--target", "y", "--method", "con-kons", "-q", "--task", task]
        run(*asked, "--predictions", "p.csv")
        assert (folder / "p.csv").read_text().endswith(",2.5\n")
    pieces = iter([b"a,y\n1,2\n", b"1,0\n", b""])
    tables = list(csv_tables(lambda: next(pieces), CsvFormat(), label="rows", target="y"))
    assert [table.to_pylist() for table in tables] == [[{"a": 1.0, "y": 2}], [{"a": 1.0, "y": 0}]]
    assert tables[0].schema.field("y").type == "int64"


def test_a_followed_file_that_is_renamed_and_begun_anew_is_followed_on(growing, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,y\n1,2\n")
    lines = growing(path, lambda: False)
    assert lines() == b"a,y\n1,2\n"
    with path.open("a") as late:
        path.rename(tmp_path / "rows.csv.1")
        late.write("3,4\n")  # by a process that has not noticed yet
    path.write_text("a,y\n5,6\n")
    assert lines() == b"3,4\n"
    assert lines() == b"5,6\n"
    path.write_text("a\n")
    with pytest.raises(ValueError, match="became shorter"):
        lines()


def test_a_followed_file_is_read_from_where_a_learner_had_come(growing, tmp_path):
    """If it still has the lines before; otherwise from its beginning."""
    path, stopped = tmp_path / "rows.csv", []
    path.write_text("a,y\n1,2\n3,4\n")
    lines = growing(path, lambda: bool(stopped))
    lines()
    assert lines.mark["place"] == 0  # what was given last may not have been learned
    stopped.append(1)
    assert lines() == b""
    with path.open("a") as file:
        file.write("5,6\n")
    more = growing(path, lambda: False, mark=lines.mark)
    assert more.goes_on
    assert [more(), more()] == [b"a,y\n", b"5,6\n"]
    assert more.mark["place"] == 12
    bare = growing(path, lambda: False, header=False, mark=lines.mark)
    assert bare() == b"5,6\n"
    path.write_text("a,y\n0,2\n3,4\n5,6\n")
    for mark in (lines.mark, {}, {"place": -1}, {"place": "12"}, {"place": 10**9}, None):
        anew = growing(path, lambda: False, mark=mark)
        assert not anew.goes_on
        assert anew() == path.read_bytes()


@pytest.mark.slow
def test_a_command_that_follows_a_file_is_stopped_and_goes_on_behind_what_it_has_learned(folder):
    """In between the file grows, and at last it is another one of the same name."""
    text = (folder / "rows.csv").read_text().splitlines(keepends=True)
    asked = [sys.executable, "-m", "squeak", "online", "rows.csv", "--follow", "--target", "kind", "--quiet"]
    asked += ["--predictions", "p.csv", "--out", "m.sqk"]

    def follow(*extra, until):
        process = subprocess.Popen([*asked, *extra], cwd=folder, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 100.0
        while time.monotonic() < end and process.poll() is None:
            if (folder / "p.csv").exists() and (folder / "p.csv").read_text().count("\n") == until:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 0, said
        return said

    (folder / "rows.csv").write_text("".join(text[:301]))
    follow("--max-atoms", "10", until=301)
    assert squeak.load(folder / "m.sqk").n_seen_ == 300
    (folder / "rows.csv").write_text("".join(text))
    assert "from its beginning" not in follow("--resume", "m.sqk", until=601)
    assert squeak.load(folder / "m.sqk").n_seen_ == 600
    (folder / "rows.csv").write_text("".join([text[0], *text[200:500]]))
    assert "from its beginning" in follow("--resume", "m.sqk", until=901)
    assert squeak.load(folder / "m.sqk").n_seen_ == 900


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
