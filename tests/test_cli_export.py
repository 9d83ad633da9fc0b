"""The command ``squeak export``."""

import numpy as np
import pandas as pd
import pytest

import squeak
from tests.commands import command

pytest.importorskip("onnx", reason="onnx is not installed: no file was written")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a table, a model of it, and a dictionary."""
    folder = tmp_path_factory.mktemp("export")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"km": rng.gamma(2.0, 500.0, 300), "to": rng.choice(["AMS", "LIL"], 300)})
    frame["delay"] = frame["km"] / 100 + 5.0 * (frame["to"] == "LIL") + rng.standard_normal(300)
    frame.to_parquet(folder / "flights.parquet")
    source = squeak.rows(frame, "delay", scale="standard")
    model = squeak.KernelRidge(max_atoms=30, random_state=0).fit(source)
    model.save(folder / "model.sqk")
    model.dictionary_.save(folder / "d.sqk")
    return folder


def test_a_model_is_exported_and_gives_the_answers_of_the_command(folder, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: no file was run")
    done = command("export", folder / "model.sqk", tmp_path / "model.onnx")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("KernelRidge → ")
    done = command("predict", folder / "model.sqk", folder / "flights.parquet", "--out", tmp_path / "p.parquet")
    assert done.returncode == 0, done.stderr
    frame = pd.read_parquet(folder / "flights.parquet")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    inputs = {"km": frame[["km"]].to_numpy(), "to": frame[["to"]].to_numpy(dtype=object)}
    (got,) = session.run(["predict"], inputs)
    assert np.allclose(got, pd.read_parquet(tmp_path / "p.parquet")["prediction"], rtol=1e-10)


REFUSED = {
    "a dictionary": (["d.sqk", "new.onnx"], 1, "holds a Dictionary"),
    "another ending": (["model.sqk", "model.pb"], 2, "ends in .onnx"),
    "no model": (["no.sqk", "new.onnx"], 1, "no.sqk"),
    "no folder": (["model.sqk", "no/new.onnx"], 1, "the folder no does not exist"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_one_line_and_leave_no_file(folder, name):
    arguments, code, words = REFUSED[name]
    done = command("export", *arguments, cwd=folder)
    assert done.returncode == code
    assert words in done.stderr
    assert not (folder / "new.onnx").exists()
