"""``squeak optimize`` as a user meets it."""

import sys

import numpy as np
import pandas as pd
import pytest

import squeak
from tests.commands import command


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((150, 2)), columns=["a", "b"])
    frame["kind"] = rng.choice(["x", "y"], 150)
    frame["score"] = np.sin(4 * frame["a"]) + frame["b"] + (frame["kind"] == "x")
    frame.to_parquet(tmp_path / "table.parquet")
    return tmp_path / "table.parquet", frame


def test_a_column_is_replayed_and_a_run_goes_on_in_the_same_bits(table, tmp_path):
    path, frame = table
    whole = command("optimize", path, "--reward", "score", "--steps", 40, "--out", tmp_path / "whole.csv", "-q")
    assert whole.returncode == 0, whole.stderr
    assert "best row" in whole.stdout
    for steps in (15, 25):
        state = ["--state", tmp_path / "s.sqk", "--out", tmp_path / "parts.csv"]
        done = command("optimize", path, "--reward", "score", "--steps", steps, *state, "-q")
        assert done.returncode == 0, done.stderr
    pulls = pd.read_csv(tmp_path / "whole.csv")
    assert (tmp_path / "whole.csv").read_bytes() == (tmp_path / "parts.csv").read_bytes()
    assert len(pulls) == 40
    np.testing.assert_allclose(pulls["reward"], frame["score"].iloc[pulls["row"]])
    assert pulls["reward"].max() > frame["score"].quantile(0.97)


def test_a_command_gives_the_rewards_and_its_failure_is_one_line(table, tmp_path):
    path, _ = table
    script = tmp_path / "reward.py"
    script.write_text("import sys; print('thinking'); print(-float(sys.argv[2]))")
    asked = ["optimize", path, "--drop", "score", "--steps", 3, "-q", "--command"]
    done = command(*asked, f"{sys.executable} {script}", "--minimize")
    assert done.returncode == 0, done.stderr
    failed = command(*asked, f"{sys.executable} -c 'raise SystemExit(3)'")
    assert failed.returncode == 1
    assert "ended with code 3 for row" in failed.stderr
    assert "let it print nan" in failed.stderr
    assert len(failed.stderr.strip().splitlines()) == 1


def test_rows_that_fail_are_left_out_and_told_of(table, tmp_path):
    """Rows below .4 fail, some of the first eight among them; the run in two parts is the same."""
    path, frame = table
    script = tmp_path / "reward.py"
    script.write_text("import sys; a, b = map(float, sys.argv[2:4]); print('nan' if a < 0.4 else a + b)")
    judged = ["--drop", "score", "--command", f"{sys.executable} {script}"]
    files = ["--out", tmp_path / "whole.csv"], ["--state", tmp_path / "s.sqk", "--out", tmp_path / "parts.csv"]
    whole = command("optimize", path, *judged, "--steps", 30, *files[0], "-q")
    assert whole.returncode == 0, whole.stderr
    for steps in (4, 26):
        done = command("optimize", path, *judged, "--steps", steps, *files[1], "-q")
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "whole.csv").read_bytes() == (tmp_path / "parts.csv").read_bytes()
    pulls = pd.read_csv(tmp_path / "whole.csv")
    failed = pulls["reward"].isna()
    assert len(pulls) == 30
    assert 2 <= failed.sum() < 20
    assert (frame["a"].iloc[pulls["row"]].to_numpy() < 0.4).tolist() == failed.tolist()
    assert pulls["row"][failed].is_unique
    assert f"{failed.sum()} rows failed: " in whole.stdout


def test_a_study_in_which_every_row_fails_says_so(table, tmp_path):
    path, frame = table
    frame.iloc[:12].to_parquet(path)
    asked = ["optimize", path, "--drop", "score", "--state", tmp_path / "s.sqk", "-q", "--steps"]
    for steps, all_ in ((3, 3), (20, 12)):
        done = command(*asked, steps, "--command", f"{sys.executable} -c 'print(float(\"inf\"))'")
        assert done.returncode == 1
        assert f"all {all_} trials failed" in done.stderr


def test_neither_or_both_sources_of_rewards_are_a_mistake(table):
    path, _ = table
    for options in ([], ["--reward", "score", "--command", "true"]):
        assert command("optimize", path, *options).returncode == 2


def test_a_state_of_other_rows_is_refused(table, tmp_path):
    path, frame = table
    state = ["--steps", 5, "--state", tmp_path / "s.sqk", "-q"]
    assert command("optimize", path, "--reward", "score", *state).returncode == 0
    frame.iloc[:-1].to_parquet(tmp_path / "other.parquet")
    refused = command("optimize", tmp_path / "other.parquet", "--reward", "score", *state)
    assert refused.returncode == 1
    assert "belongs to other rows" in refused.stderr


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([], "--minimize cannot change"),
        (["--minimize", "--noise", 0.5, "--fixed"], "--fixed, --noise cannot change"),
        (["--minimize", "--reward", "a"], "--reward cannot change"),
        (["--minimize", "--kernel", "linear", "--length-scale", 2], "--kernel, --length-scale cannot change"),
    ],
)
def test_a_state_has_settled_what_the_rewards_are(table, tmp_path, changes, words):
    path, _ = table
    asked = ["optimize", path, "--reward", "score", "--steps", 5, "--state", tmp_path / "s.sqk", "-q"]
    for _ in range(2):
        assert command(*asked, "--minimize").returncode == 0
    before = (tmp_path / "s.sqk").read_bytes()
    refused = command(*asked, *changes)
    assert refused.returncode == 2
    assert words in " ".join(refused.stderr.replace("│", "").split())
    assert (tmp_path / "s.sqk").read_bytes() == before


def test_a_state_of_an_older_version_goes_on(table, tmp_path):
    """Its file does not say what was settled."""
    path, _ = table
    asked = ["optimize", path, "--reward", "score", "--state", tmp_path / "s.sqk", "-q", "--steps"]
    assert command(*asked, 10).returncode == 0
    squeak.load(tmp_path / "s.sqk").save(tmp_path / "s.sqk")
    assert command(*asked, 5).returncode == 0
    assert squeak.load(tmp_path / "s.sqk").n_told_ == 15


def test_the_units_of_rewards_do_not_matter(table, tmp_path):
    """Rewards of 5,000 ± 800 lead to the same rows as those of 0 ± 1."""
    path, frame = table
    frame["large"] = 5000.0 + 800.0 * frame["score"]
    frame.to_parquet(path)
    rows = {}
    for name, other in (("score", "large"), ("large", "score")):
        out = tmp_path / f"{name}.csv"
        done = command("optimize", path, "--reward", name, "--drop", other, "--steps", 40, "--out", out, "-q")
        assert done.returncode == 0, done.stderr
        rows[name] = pd.read_csv(out)["row"].tolist()
    assert rows["large"] == rows["score"]
    assert frame["score"].iloc[rows["large"]].max() > frame["score"].quantile(0.98)


def test_a_process_that_is_killed_loses_no_reward(table, tmp_path):
    """The command kills its own caller at the 12th reward; eleven are in the state."""
    path, _ = table
    script, calls = tmp_path / "reward.py", tmp_path / "calls"
    script.write_text(
        "import os, signal, sys\n"
        f"open({str(calls)!r}, 'a').write('x')\n"
        f"if os.path.getsize({str(calls)!r}) == 12: os.kill(os.getppid(), signal.SIGKILL)\n"
        "print(sys.argv[2])\n"
    )
    asked = ["optimize", path, "--drop", "score", "--state", tmp_path / "s.sqk", "-q"]
    asked += ["--command", f"{sys.executable} {script}"]
    assert command(*asked, "--steps", 20).returncode != 0
    assert squeak.load(tmp_path / "s.sqk").n_told_ == 11
    done = command(*asked, "--steps", 9)
    assert done.returncode == 0, done.stderr
    assert squeak.load(tmp_path / "s.sqk").n_told_ == 20


def test_the_command_gets_the_columns_as_they_stand_in_the_table(tmp_path):
    """Not the standardised and encoded numbers that rows are compared by."""
    frame = pd.DataFrame({"a": np.arange(30) * 100.0, "kind": ["x", "y", "z"] * 10, "note": ["n"] * 30})
    frame.to_csv(tmp_path / "t.csv", index=False)
    script = tmp_path / "reward.py"
    script.write_text(
        "import sys\n"
        "row, a, kind = sys.argv[1:]\n"
        "assert float(a) == 100.0 * int(row) and kind == 'xyz'[int(row) % 3]\n"
        "print(float(a))"
    )
    run = ["optimize", tmp_path / "t.csv", "--drop", "note", "--steps", 5, "-q"]
    done = command(*run, "--command", f"{sys.executable} {script}")
    assert done.returncode == 0, done.stderr
