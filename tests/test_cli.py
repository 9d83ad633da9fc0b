"""The command as a user meets it: in processes of its own, with exit codes and one-line errors."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import squeak
from squeak.cli import main
from squeak.cli.pages import classification_scores
from squeak.kernels import RBF, Linear, PairwiseKernel
from squeak.samplers import RPCholesky
from tests.commands import ENVIRONMENT, command


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with flights as CSV and as two Parquet files."""
    folder = tmp_path_factory.mktemp("flights")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "distance": rng.gamma(2.0, 500.0, 20_000).round(0),
            "delay": rng.standard_normal(20_000) * 30,
            "to": rng.choice(["AMS", "CDG", "LIL"], 20_000),
        }
    )
    frame.to_csv(folder / "flights.csv", index=False)
    frame.iloc[:12_000].to_parquet(folder / "a.parquet", row_group_size=1_000)
    frame.iloc[12_000:].to_parquet(folder / "b.parquet", row_group_size=1_000)
    return folder


def test_a_dictionary_is_learned_shown_and_merged(folder, tmp_path):
    learned = command(
        *["dictionary", folder / "flights.csv", "--target", "delay", "--kernel", "rbf", "--length-scale", "median"],
        *["--ridge", 100, "--oversampling", 5, "--checkpoint", tmp_path / "run.sqk", "--out", tmp_path / "d.sqk"],
    )
    assert learned.returncode == 0, learned.stderr
    assert "20,000 rows read once" in learned.stdout
    assert "Squeak: " in learned.stderr  # the bar
    d = squeak.load(tmp_path / "d.sqk")
    source = squeak.rows(folder / "flights.csv", target="delay", scale="standard")
    expected = squeak.Squeak(kernel=RBF("median"), ridge=100.0, oversampling=5.0, random_state=0).fit(source)
    assert d == expected.dictionary_

    shown = command("show", tmp_path / "d.sqk", "--atoms", 3)
    assert shown.returncode == 0, shown.stderr
    for words in (
        f"{len(d):,} for 20,000 rows",
        "ridge",
        "eigenvalues of K",
        "one number for each of 3 values: AMS, CDG, LIL",
        "distance",
    ):
        assert words in shown.stdout
    atom = shown.stdout.splitlines()[-1].split()
    row = pd.read_csv(folder / "flights.csv").iloc[int(atom[0])]
    assert float(atom[3]) == pytest.approx(row["distance"], rel=1e-4)
    assert atom[4] == row["to"]
    assert "20,000 rows read so far" in command("show", tmp_path / "run.sqk").stdout


def test_parts_learned_apart_are_merged_where_they_fit(folder, tmp_path):
    options = ["--scale", "none", "--columns", "distance, delay", "--length-scale", 300, "--ridge", 10, "-q"]
    for name in "ab":
        done = command("dictionary", folder / f"{name}.parquet", *options, "--out", tmp_path / f"{name}.sqk")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    merged = command(
        "merge", tmp_path / "a.sqk", tmp_path / "b.sqk", "--out", tmp_path / "c.sqk", "--max-atoms", 40
    )
    assert merged.returncode == 0, merged.stderr
    assert "2 dictionaries of 20,000 rows" in merged.stdout
    c = squeak.load(tmp_path / "c.sqk")
    assert (c.n_seen, len(c) <= 40, len(c.sources)) == (20_000, True, 2)
    assert (folder / "a.parquet").exists()
    twice = command("merge", tmp_path / "a.sqk", tmp_path / "a.sqk", "--out", tmp_path / "no.sqk")
    assert twice.returncode == 1
    assert "merged data must be disjoint" in twice.stderr
    assert not (tmp_path / "no.sqk").exists()


MISTAKES = {
    "no file": (["dictionary", "nowhere.parquet", "--out", "d.sqk"], 1, "there is no file nowhere.parquet"),
    "no column": (
        ["dictionary", "{f}/flights.csv", "--target", "dely", "--out", "d.sqk"],
        1,
        "did you mean 'delay'?",
    ),
    "no folder": (["dictionary", "{f}/flights.csv", "--out", "no/d.sqk"], 1, "the folder no does not exist"),
    "no out": (["dictionary", "{f}/flights.csv"], 2, "Missing option '--out'"),
    "unknown kernel": (["dictionary", "{f}/flights.csv", "--kernel", "magic", "--out", "d"], 2, "Invalid value"),
    "bad width": (
        ["dictionary", "{f}/flights.csv", "--length-scale", "wide", "--out", "d.sqk"],
        2,
        "--length-scale is a number, 'median', 'auto' or 'learned', not 'wide'",
    ),
    "kors with a limit": (
        ["dictionary", "{f}/flights.csv", "--sampler", "kors", "--max-atoms", "5", "--out", "d.sqk"],
        2,
        "takes --ridge and no --max-atoms",
    ),
    "no such command": (["dictionry"], 2, "No such command"),
    "not a squeak file": (["show", "{f}/flights.csv"], 1, "flights.csv: it is not a squeak file"),
    "missing file": (["show", "nowhere.sqk"], 1, "nowhere.sqk: No such file or directory"),
    "one to merge": (["merge", "{f}/d.sqk", "--out", "x.sqk"], 2, "name two dictionaries or more"),
    "nothing to merge": (["merge", "{f}/d.sqk", "{f}/e.sqk", "--out", "x.sqk"], 1, "there is no file"),
    "out is the data": (
        ["dictionary", "{f}/flights.csv", "--out", "{f}/flights.csv"],
        2,
        "one of the files that are read",
    ),
    "out is somebody else's": (["dictionary", "{f}/a.parquet", "--out", "{f}/flights.csv"], 2, "not a squeak file"),
    "checkpoint is out": (
        ["dictionary", "{f}/flights.csv", "--checkpoint", "d.sqk", "--out", "d.sqk"],
        2,
        "named twice",
    ),
    "checkpoint is the data": (
        ["dictionary", "{f}/flights.csv", "--checkpoint", "{f}/flights.csv", "--out", "d.sqk"],
        2,
        "one of the files that are read",
    ),
    "no atoms": (
        ["dictionary", "{f}/flights.csv", "--max-atoms", "0", "--out", "d.sqk"],
        2,
        "--max-atoms",
    ),
    "negative ridge": (["dictionary", "{f}/flights.csv", "--ridge", "-1", "--out", "d.sqk"], 2, "not a positive"),
    "negative seed": (["dictionary", "{f}/flights.csv", "--seed", "-1", "--out", "d.sqk"], 2, "--seed"),
    "long delimiter": (
        ["dictionary", "{f}/flights.csv", "--delimiter", "ab", "--out", "d"],
        2,
        "not one character",
    ),
    "bad rows": (
        ["dictionary", "{f}/bad.csv", "--out", "d.sqk", "--quiet"],
        1,
        "row 1 of bad.csv: column 'b' is nan; skip such rows with --on-bad-rows skip, or fill",
    ),
    "wrong delimiter": (["dictionary", "{f}/semi.csv", "--out", "d.sqk"], 1, "pass --delimiter ';'"),
    "text refused": (
        ["dictionary", "{f}/flights.csv", "--categories", "none", "--out", "d.sqk"],
        1,
        "choose --categories onehot, --categories codes, or leave it out with --drop to",
    ),
    "constant column": (
        ["dictionary", "{f}/constant.csv", "--out", "d.sqk"],
        1,
        "constant.csv: column 'b' is constant (7) in the first 100 rows",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_line_and_an_exit_code(mistake, folder, tmp_path, monkeypatch, capsys):
    (folder / "constant.csv").write_text("a,b\n" + "".join(f"{i},7\n" for i in range(100)))
    (folder / "bad.csv").write_text("a,b\n1,2\n3,\n4,5\n")
    (folder / "semi.csv").write_text("a;b\n1;2\n3;4\n")
    arguments, code, words = MISTAKES[mistake]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", ["squeak", *(part.replace("{f}", str(folder)) for part in arguments)])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as left:
        main()
    errors = capsys.readouterr().err
    assert left.value.code == code
    assert words in errors
    if code == 1:
        assert errors.startswith("squeak: ")
        assert len(errors.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_second_part_learned_like_the_first_can_be_merged(folder, tmp_path):
    """With all defaults, widths and scales are those of the first part."""
    for name, extra in (("a", []), ("b", ["--like", tmp_path / "a.sqk"])):
        part = [
            "dictionary",
            folder / f"{name}.parquet",
            "--max-atoms",
            60,
            *extra,
            "--out",
            tmp_path / f"{name}.sqk",
        ]
        done = command(*part)
        assert done.returncode == 0, done.stderr
    merged = command("merge", tmp_path / "a.sqk", tmp_path / "b.sqk", "--out", tmp_path / "c.sqk")
    assert merged.returncode == 0, merged.stderr
    c = squeak.load(tmp_path / "c.sqk")
    assert (c.n_seen, c.preprocessing.column_names) == (20_000, ("distance", "delay", "to"))


def run_here(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["squeak", *map(str, arguments)])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as left:
        main()
    return left.value.code, capsys.readouterr()


def test_columns_of_an_npy_file_go_by_number(tmp_path, monkeypatch, capsys):
    X = np.random.default_rng(0).standard_normal((500, 4))
    np.save(tmp_path / "x.npy", X)
    options = ["--target", "0", "--drop", "2", "--scale", "none", "--length-scale", 2, "--ridge", 1, "-q"]
    code, _ = run_here(monkeypatch, capsys, "dictionary", tmp_path / "x.npy", *options, "--out", tmp_path / "d.sqk")
    assert code == 0
    d = squeak.load(tmp_path / "d.sqk")
    assert np.array_equal(d.atoms, X[d.indices][:, [1, 3]])


def shared(a, b):
    return float(len(set(a) & set(b)))


def test_show_prints_every_kind_of_file(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 12))
    S = sp.csr_array((np.ones(200), (np.arange(200), rng.integers(0, 10**6, 200))), shape=(200, 10**6))
    source = squeak.rows(X, scale="standard")
    objects = {
        "wide": squeak.Squeak(kernel=RBF(3.0), ridge=1.0, random_state=0).fit(X.astype(np.float32)).dictionary_,
        "sparse": squeak.Squeak(kernel=Linear(), ridge=1.0, random_state=0).fit(S[:50]).dictionary_,
        "text": squeak.Squeak(kernel=PairwiseKernel(shared), ridge=1.0, random_state=0)
        .fit(["ab", "bc"])
        .dictionary_,
        "uncalibrated": RPCholesky(kernel=RBF(3.0), max_atoms=5, random_state=0).fit(X).dictionary_,
        "one atom": squeak.Squeak(kernel=RBF(3.0), ridge=1.0, random_state=0).fit(X[:1]).dictionary_,
        "sampler": squeak.Kors(kernel=RBF(3.0), ridge=1.0, random_state=0).fit(X),
        "preprocessing": source.preprocessing,
        "experts": squeak.LocalExperts(squeak.KernelRidge(RBF(3.0)), leaf_rows=100, random_state=0).fit(X, X[:, 0]),
        "automatic": squeak.AutoRegressor(max_atoms=10, random_state=0).fit(
            squeak.rows(
                pd.DataFrame({"x": X[:, 0] - 4, "kind": np.where(X[:, 1] > 0, "up", "d" * 99)}),
                X[:, 0],
                scale="robust",
            )
        ),
    }
    words = {
        "sparse": "largest entries",
        "text": "its kernel is code",
        "preprocessing": "12 columns become 12 numbers",
        "experts": "LocalExperts",
        "automatic": "AutoRegressor",
    }
    for name, obj in objects.items():
        squeak.save(obj, tmp_path / "x.sqk")
        code, printed = run_here(monkeypatch, capsys, "show", tmp_path / "x.sqk")
        assert code == 0, (name, printed.err)
        assert words.get(name, "atoms") in printed.out
    for said in (
        "error on held-out rows",
        "% of the model",
        "all of these, by their weights: the model",
        "2 columns become 4 numbers",
        "one number for each of 2 values: ddd",
    ):
        assert said in printed.out
    assert "(x + " in printed.out  # and not x − -4
    assert "d" * 25 not in printed.out


def test_a_fit_that_chooses_everything_knows_the_categories_of_all_rows(tmp_path, monkeypatch, capsys):
    row = np.arange(20_600)
    towns = np.where(row < 20_000, row % 21, 21 + row % 5)
    pd.DataFrame({"town": [f"t{town}" for town in towns], "y": row % 7}).to_csv(tmp_path / "rows.csv", index=False)
    options = ["fit", tmp_path / "rows.csv", "--target", "y", "--task", "regression", "--dry-run", "--out", "m.sqk"]
    for more, words in (([], "26 values"), (["--kernel", "rbf", "--categories", "target"], "21 values")):
        code, printed = run_here(monkeypatch, capsys, *options, *more)
        assert code == 0, printed.err
        assert words in printed.out


def test_a_terminal_without_our_signs_is_no_error(folder, tmp_path):
    arguments = ["dictionary", folder / "flights.csv", "--max-atoms", "30", "--out", tmp_path / "d.sqk"]
    done = subprocess.run(
        [sys.executable, "-m", "squeak", *map(str, arguments)],
        capture_output=True,
        env={**ENVIRONMENT, "PYTHONIOENCODING": "cp1252"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_a_mistake_shows_no_traceback(tmp_path):
    done = command("dictionary", "nowhere.parquet", "--out", "d.sqk", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "squeak: there is no file nowhere.parquet\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_a_checkpoint_and_the_same_command_goes_on(number, folder, tmp_path):
    wide = np.random.default_rng(0).standard_normal((60_000, 500)).astype(np.float32)
    np.save(tmp_path / "wide.npy", wide)
    arguments = [
        "dictionary",
        tmp_path / "wide.npy",
        "--scale",
        "none",
        "--length-scale",
        "20",
        "--max-atoms",
        "300",
    ]
    arguments += ["--checkpoint", tmp_path / "run.sqk", "--every", "0", "--out", tmp_path / "d.sqk", "--quiet"]
    child = subprocess.Popen(
        [sys.executable, "-m", "squeak", *map(str, arguments)], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    try:
        limit = time.monotonic() + 60
        while not (tmp_path / "run.sqk").exists() and time.monotonic() < limit and child.poll() is None:
            time.sleep(0.01)
        os.kill(child.pid, number)
        _, errors = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 130, errors
    assert "interrupted; the same command goes on from" in errors
    assert "Traceback" not in errors
    assert 0 < squeak.load(tmp_path / "run.sqk").n_seen_ < 60_000
    assert not (tmp_path / "d.sqk").exists()
    done = command(*arguments)
    assert done.returncode == 0, done.stderr
    whole = squeak.Squeak(kernel=RBF(20.0), max_atoms=300, random_state=0).fit(wide)
    assert squeak.load(tmp_path / "d.sqk") == whole.dictionary_


def test_version_help_and_completion():
    assert command("--version", new=True).stdout == f"squeak {squeak.__version__}\n"
    assert command("--version", module=False).stdout == f"squeak {squeak.__version__}\n"
    text = command("--help").stdout
    for word in ("dictionary", "show", "merge", "demo", "--install-completion"):
        assert word in text


def test_importing_squeak_imports_neither_arrow_nor_typer():
    code = (
        "import sys, numpy as np, sklearn.base, sklearn.gaussian_process.kernels;"  # may import pandas
        "before = set(sys.modules); import squeak;"
        "squeak.Squeak(ridge=1.0, random_state=0).fit(np.random.rand(50, 2)); new = set(sys.modules) - before;"
        "print([name for name in ('pyarrow', 'typer', 'rich', 'pandas', 'matplotlib', 'tqdm') if name in new])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_compare_prints_a_table_and_draws_it(folder, tmp_path, monkeypatch, capsys):
    arguments = [
        folder / "flights.csv",
        "--rows",
        200,
        "--oversampling",
        "3,6",
        "--repeats",
        1,
        "--target",
        "delay",
    ]
    code, printed = run_here(monkeypatch, capsys, "compare", *arguments, "--figure", tmp_path / "c.png", "-q")
    assert code == 0, printed.err
    lines = printed.out.splitlines()
    assert lines[0].split()[:3] == ["sampler", "q", "atoms"]
    assert len(lines) == 1 + 2 * 11 + 1
    assert (tmp_path / "c.png").read_bytes()[:4] == b"\x89PNG"
    code, printed = run_here(monkeypatch, capsys, "compare", *arguments[:1], "--oversampling", "many")
    assert code == 2


@pytest.mark.filterwarnings("ignore")
def test_workers_learn_parts_and_give_the_bits_of_one_process(folder, tmp_path):
    pytest.importorskip("distributed")
    options = ["--drop", "to", "--max-atoms", 60, "--leaves", 4, "--workers", 2, "--out", tmp_path / "d.sqk"]
    done = command("dictionary", folder / "a.parquet", *options, "--checkpoint", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "12,000 rows read once" in done.stdout
    source = squeak.rows(folder / "a.parquet", drop=["to"], scale="standard")
    here = squeak.Disqueak(kernel=RBF("median"), max_atoms=60, n_leaves=4, random_state=0, oversampling=10.0)
    assert squeak.load(tmp_path / "d.sqk") == here.fit(source).dictionary_
    assert len(list((tmp_path / "run").glob("node-*.sqk"))) == 7


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_workers_fit_with_a_checkpoint(folder, tmp_path):
    """The same call takes what is in the file, and says so."""
    pytest.importorskip("distributed")
    options = ["--target", "delay", "--kernel", "rbf", "--max-atoms", 60, "--workers", 2]
    kept, coefficients = ("--checkpoint", tmp_path / "run.sqk"), []
    for name, more in (("plain", ()), ("kept", kept), ("again", kept)):
        done = command("fit", folder / "a.parquet", *options, *more, "--out", tmp_path / f"{name}.sqk")
        assert done.returncode == 0, done.stderr
        coefficients.append(squeak.load(tmp_path / f"{name}.sqk").dual_coef_)
    assert "going on from it" in done.stderr
    assert all(np.array_equal(one, coefficients[0]) for one in coefficients)


def test_a_dead_scheduler_is_named(folder, tmp_path, monkeypatch, capsys):
    pytest.importorskip("distributed")
    monkeypatch.setitem(__import__("dask").config.config["distributed"]["comm"]["timeouts"], "connect", "1s")
    arguments = ["dictionary", folder / "a.parquet", "--drop", "to", "--out", tmp_path / "d.sqk", "-q"]
    code, printed = run_here(monkeypatch, capsys, *arguments, "--scheduler", "tcp://127.0.0.1:9")
    assert code == 1
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in printed.err.splitlines()[-1]
    code, printed = run_here(monkeypatch, capsys, *arguments, "--workers", 2, "--scheduler", "tcp://127.0.0.1:9")
    assert code == 2
    code, printed = run_here(monkeypatch, capsys, *arguments, "--leaves", 2)
    assert code == 2


def test_fit_predict_and_evaluate(folder, tmp_path):
    """A regression, from files to predictions in files."""
    model, out = tmp_path / "model.sqk", tmp_path / "p.parquet"
    data = str(folder / "*.parquet")
    done = command("fit", data, "--target", "delay", "--kernel", "rbf", "--max-atoms", 60, "--out", model)
    assert done.returncode == 0, done.stderr
    assert "KernelRidge on" in done.stdout
    done = command("predict", model, data, "--out", out, "--std", "--interval", 0.9)
    assert done.returncode == 0, done.stderr
    table = pd.read_parquet(out)
    assert list(table.columns) == ["prediction", "std", "low", "high"]
    assert len(table) == 20_000
    assert (table.low < table.high).all()
    done = command("predict", model, data, "--out", out, "--interval", 90)
    assert done.returncode == 2
    assert "--interval lies strictly between 0 and 1" in " ".join(done.stderr.split())
    done = command("evaluate", model, data, "--target", "delay")
    assert "root mean squared error" in done.stdout
    covered = re.search(r"90% interval: ([0-9.]+)% of the targets lie in it, mean width", done.stdout)
    assert covered is not None
    assert 88 < float(covered[1]) < 93


def test_classes_go_from_a_file_to_their_probabilities_in_a_file(folder, tmp_path):
    model, out = tmp_path / "model.sqk", tmp_path / "p.parquet"
    data = str(folder / "b.parquet")
    done = command(
        "fit", data, "--target", "to", "--loss", "logistic", "--max-atoms", 40, "--alpha", 1, "--out", model, "-q"
    )
    assert done.returncode == 0, done.stderr
    done = command("predict", model, data, "--out", out, "--probabilities")
    assert done.returncode == 0, done.stderr
    table = pd.read_parquet(out)
    assert list(table.columns) == ["prediction", "p(AMS)", "p(CDG)", "p(LIL)"]
    assert np.allclose(table.iloc[:, 1:].sum(axis=1), 1.0)
    done = command("evaluate", model, data, "--target", "to")
    assert "accuracy" in done.stdout
    assert "log loss" in done.stdout


def test_a_database_is_read_and_its_key_comes_back(tmp_path, monkeypatch, capsys):
    pytest.importorskip("sqlalchemy")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": np.arange(100, 400), "x": rng.standard_normal(300)}).assign(y=lambda f: f.x**2)
    connection = sqlite3.connect("t.db")
    frame.to_sql("t", connection, index=False)
    connection.close()
    asked = ["--query", "SELECT * FROM t ORDER BY id"]
    fitted = ["--target", "y", "--drop", "id", "--kernel", "rbf", "--max-atoms", 50, "--out", "m.sqk"]
    run_here(monkeypatch, capsys, "fit", "sqlite:///t.db", *asked, *fitted)
    run_here(monkeypatch, capsys, "predict", "m.sqk", "sqlite:///t.db", *asked, "--keep", "id", "--out", "p.csv")
    found = pd.read_csv("p.csv")
    assert list(found.columns) == ["id", "prediction"]
    assert found.id.tolist() == frame.id.tolist()
    assert np.corrcoef(found.prediction, frame.y)[0, 1] > 0.99


def test_a_dry_run_tells_what_would_be_done_and_writes_nothing(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    fit = ["fit", folder / "flights.csv", "--dry-run", "--out", "m.sqk", "-q", "--target"]
    code, said = run_here(monkeypatch, capsys, *fit, "delay")
    assert code == 0, said.err
    for words in ("5 numbers per row", "one number for each of 3 values: AMS, CDG, LIL", "AutoRegressor"):
        assert words in said.out
    assert "learned as regression" in said.out
    code, said = run_here(
        monkeypatch, capsys, *fit, "to", "--max-atoms", 70, "--alpha", 1, "--checkpoint", "run.sqk"
    )
    assert code == 0, said.err
    for words in ("3 classes in the first rows", "at most 70 atoms", "KernelClassifier on it", "for every million"):
        assert words in said.out
    assert said.out.splitlines()[-1] == "nothing was learned"
    code, said = run_here(monkeypatch, capsys, *fit, "nothing")
    assert code == 1
    assert "there is no column 'nothing'" in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_read_by_its_url(folder, tmp_path, monkeypatch, capsys):
    pytest.importorskip("fsspec")
    monkeypatch.chdir(tmp_path)
    options = ["--target", "delay", "--ridge", 1000, "-q"]
    for name, data in (("url.sqk", f"file://{folder}/a.parquet"), ("path.sqk", folder / "a.parquet")):
        code, said = run_here(monkeypatch, capsys, "dictionary", data, *options, "--out", name)
        assert code == 0, said.err
    assert squeak.load("url.sqk") == squeak.load("path.sqk")


def test_a_few_whole_numbers_are_classes_and_the_command_says_so(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.random(400), "b": rng.random(400)})
    frame["level"] = (3 * frame.a).astype(int)
    frame.to_csv(tmp_path / "r.csv", index=False)
    model, out = tmp_path / "m.sqk", tmp_path / "p.csv"
    same = ["fit", tmp_path / "r.csv", "--target", "level", "--max-atoms", 30, "--out", model]
    done = command(*same, "--class-weight", "balanced")
    assert done.returncode == 0, done.stderr
    assert "the target has 3 different values, learned as classes" in " ".join(done.stderr.split())
    assert "--task regression predicts numbers" in " ".join(done.stderr.split())
    assert "KernelClassifier" in done.stdout
    done = command("predict", model, tmp_path / "r.csv", "--out", out, "--probabilities")
    assert done.returncode == 0, done.stderr
    assert list(pd.read_csv(out).columns) == ["prediction", "p(0)", "p(1)", "p(2)"]
    done = command(*same, "--task", "regression", "--quiet")
    assert done.returncode == 0, done.stderr
    assert "classes" not in done.stderr
    done = command("predict", model, tmp_path / "r.csv", "--out", out, "--probabilities")
    assert done.returncode == 1


def test_predictions_of_rows_that_are_not_skipped_can_be_joined(tmp_path):
    """Rows with a hole are left out; the column ``row`` says which rows the others are, through all files."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.random(300), "b": rng.random(300)})
    frame["y"] = frame.a + frame.b
    model, out = tmp_path / "model.sqk", tmp_path / "p.csv"
    frame.to_csv(tmp_path / "whole.csv", index=False)
    options = ["--target", "y", "--kernel", "rbf", "--max-atoms", 40, "--out", model, "-q"]
    assert command("fit", tmp_path / "whole.csv", *options).returncode == 0
    frame.loc[[0, 3, 7, 250], "a"] = np.nan
    for name, part in (("1.csv", frame.iloc[:120]), ("2.csv", frame.iloc[120:])):
        part.to_csv(tmp_path / name, index=False)
    files = [tmp_path / "1.csv", tmp_path / "2.csv"]
    done = command("predict", model, *files, "--out", out, "--on-bad-rows", "skip")
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(out)
    assert list(table.columns) == ["row", "prediction"]
    assert sorted(set(range(300)) - set(table.row)) == [0, 3, 7, 250]
    assert np.abs(table.prediction - frame.y[table.row].to_numpy()).max() < 0.1
    done = command("evaluate", model, *files, "--target", "a")
    assert done.returncode == 1
    assert "predicts from the column 'a'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--target", "delay", "--loss", "logistic"], 2, "for classes"),
        (["--target", "delay", "--class-weight", "balanced"], 2, "--class-weight is for classes"),
        (["--target", "to", "--task", "regression"], 1, "which is not a number: a regression predicts numbers"),
        (["--target", "nothing"], 1, "nothing"),
        (["--target", "delay", "--alpha", "much"], 2, "--alpha is a number or 'auto'"),
    ],
)
def test_fit_says_what_is_wrong(arguments, code, message, folder, tmp_path):
    done = command("fit", folder / "a.parquet", *arguments, "--out", tmp_path / "m.sqk")
    assert done.returncode == code, done.stderr
    assert message in " ".join(done.stderr.split())
    assert not (tmp_path / "m.sqk").exists()


@pytest.mark.parametrize("quiet", [["-q"], []])
def test_a_warning_is_one_line_without_code(quiet, tmp_path):
    lines = [f"{'odd' if i == 77 else i % 13},{i % 7},{i % 5}" for i in range(3_000)]
    (tmp_path / "d.csv").write_text("\n".join(["a,b,y", *lines]))
    options = ["--target", "y", "--missing", "median", "--on-bad-rows", "skip", "--ridge", 10, "--kernel", "rbf"]
    done = command("dictionary", tmp_path / "d.csv", *options, *quiet, "--out", tmp_path / "d.sqk")
    assert done.returncode == 0, done.stderr
    (said,) = (line for line in done.stderr.replace("\r", "\n").splitlines() if "warning" in line.lower())
    assert said.startswith("warning: ")
    assert "holds numbers but for 'odd'" in said
    assert ".py" not in done.stderr
    assert "warnings.warn" not in done.stderr


def test_scores_of_two_classes_have_the_area_under_the_curve():
    chances = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.7, 0.3]])
    real, classes = np.array(["no", "yes", "no", "yes"]), np.array(["no", "yes"])
    text = classification_scores(classes[chances.argmax(axis=1)], real, classes, chances)
    assert "ROC AUC   0.7500" in text  # three of the four pairs are in order
    assert "ROC AUC" not in classification_scores(real[:1], real[:1], classes, chances[:1])
