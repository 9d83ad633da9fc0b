"""``squeak report`` as a user meets it, and what every command line has: version, module, completion."""

import signal
import sys

import numpy as np
import pytest

import squeak
from squeak.kernels import RBF, PairwiseKernel
from tests.commands import command
from tests.report.objects import flights


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with rows, a dictionary and a model of them."""
    folder = tmp_path_factory.mktemp("report")
    flights("x").to_csv(folder / "flights.csv", index=False)
    source = squeak.rows(folder / "flights.csv", "delay", scale="standard")
    squeak.Squeak(RBF("median"), ridge=1.0, random_state=0).fit(source).dictionary_.save(folder / "d.sqk")
    squeak.KernelRidge(RBF("median"), max_atoms=40, random_state=0).fit(source).save(folder / "m.sqk")
    return folder


def test_a_model_and_its_data_become_one_page(folder, tmp_path):
    done = command(
        "report",
        folder / "m.sqk",
        "--data",
        folder / "flights.csv",
        "--target",
        "delay",
        "--out",
        tmp_path / "r.html",
    )
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "r.html").read_text()
    assert "True against predicted" in text
    assert "m.sqk" in text
    rest = ("--data", folder / "flights.csv", "--out", tmp_path / "without.html")
    assert "no errors and no scores: --target names" in command("report", folder / "m.sqk", *rest).stdout
    assert "r.html (" in done.stdout


REFUSED = {
    "a file cut short": ("cut.sqk", [], "not a whole squeak file"),
    "a file that is no squeak file": ("flights.csv", [], "it is not a squeak file"),
    "no such file": ("nothing.sqk", [], "there is no file nothing.sqk"),
    "data without a column": ("d.sqk", ["--data", "less.csv"], "to"),
    "no such target": ("m.sqk", ["--data", "flights.csv", "--target", "speed"], "speed"),
    "a target without data": ("m.sqk", ["--target", "delay"], "--data"),
    "another ending": ("d.sqk", ["--out", "r.pdf"], ".html"),
    "no such folder": ("d.sqk", ["--out", "nowhere/r.html"], "nowhere"),
    "a kernel that is code": ("code.sqk", [], "is code"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_reported_gets_one_line_and_no_page(case, folder, tmp_path, monkeypatch, capsys):
    from squeak.cli import main

    for name in ("flights.csv", "d.sqk", "m.sqk"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "cut.sqk").write_bytes((folder / "d.sqk").read_bytes()[:-500])
    flights("x").drop(columns="to").to_csv(tmp_path / "less.csv", index=False)
    kernel = PairwiseKernel(lambda a, b: float(np.exp(-abs(a[0] - b[0]))))
    squeak.Squeak(kernel, ridge=1.0, random_state=0).fit(np.eye(3)).dictionary_.save(tmp_path / "code.sqk")
    before = sorted(entry.name for entry in tmp_path.iterdir())
    file, options, message = REFUSED[case]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["squeak", "report", file, *options, "--quiet"])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code in (1, 2)
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
    assert sorted(entry.name for entry in tmp_path.iterdir()) == before


def test_the_version_and_the_module():
    done = command("--version")
    assert (done.returncode, done.stdout) == (0, f"squeak {squeak.__version__}\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_be_taught_to_complete(shell, monkeypatch, capsys):
    from squeak.cli import main

    monkeypatch.setattr(sys, "argv", ["squeak", "--show-completion", shell])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 0
    assert "_SQUEAK_COMPLETE" in capsys.readouterr().out


def test_completion_knows_the_commands():
    words = {"_SQUEAK_COMPLETE": "complete_bash", "COMP_WORDS": "squeak re", "COMP_CWORD": "1"}
    done = command(**words)
    assert done.stdout.split() == ["report"]
