"""``squeak optimize`` as a user meets it."""

import sys

import numpy as np
import pandas as pd
import pytest

from tests.test_cli import command


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
    asked = ["optimize", path, "--drop", "score", "--steps", 8, "-q", "--command"]
    done = command(*asked, f"{sys.executable} {script}", "--minimize")
    assert done.returncode == 0, done.stderr
    failed = command(*asked, f"{sys.executable} -c 'raise SystemExit(3)'")
    assert failed.returncode == 1
    assert "ended with code 3 for row" in failed.stderr
    assert len(failed.stderr.strip().splitlines()) == 1


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
