"""Files of older versions load, and their objects answer as they did when they were written."""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests import write_files

FOLDERS = sorted((Path(__file__).parent / "data").glob("v*"))
EXPECTED = {folder: json.loads((folder / write_files.EXPECTED).read_text(encoding="utf8")) for folder in FOLDERS}
FILES = [pytest.param(folder, name, id=f"{folder.name}-{name}") for folder in FOLDERS for name in EXPECTED[folder]]
RTOL = 1e-10
LOOSE = {"random-feature-regressor": 1e-8, "random-feature-classifier": 1e-8}
KINDS_OF_0_1 = {
    *("dictionary", "preprocessing", "stream", "online", "edges", "dpp", "box_ucb"),
    *("kernel-ridge", "kernel-ridge-cv", "kernel-classifier", "kernel-gradient-descent", "nystroem"),
    *("kernel-pca", "kernel-k-means", "kernel-cca"),
    *("random-features", "random-feature-regressor", "random-feature-classifier"),
    *("gp_ucb", "bkb", "batch_bkb", "auto_ucb", "gp_bucb", "uniform_arms", "expected_improvement"),
    *("probability_of_improvement", "sor_ucb", "dictionary_thompson"),
}


def answers(folder, name, tmp_path):
    if name == write_files.TREE:
        for part in (write_files.TREE, write_files.EDGE_TREE):
            shutil.copytree(folder / part, tmp_path / part)
        return write_files.use_trees(tmp_path)
    if name in write_files.CHECKPOINTS:
        shutil.copy(folder / f"{name}.sqk", tmp_path)
        return write_files.use_checkpoint(name, tmp_path / f"{name}.sqk")
    _, use = write_files.FILES[name]
    return use(write_files.loaded(folder / f"{name}.sqk"))


@pytest.mark.parametrize(("folder", "name"), FILES)
def test_an_old_file_answers_as_it_did(folder, name, tmp_path):
    expected, found = EXPECTED[folder][name], answers(folder, name, tmp_path)
    assert set(found) == set(expected)
    for key, value in found.items():
        now, before = np.asarray(write_files.plain(value)), np.asarray(expected[key])
        if now.dtype.kind == "f":
            scale = np.abs(before).max(initial=0.0)
            tolerance = LOOSE.get(name, RTOL)
            np.testing.assert_allclose(
                now, before, rtol=tolerance, atol=tolerance * scale, err_msg=f"{name}: {key}"
            )
        else:
            np.testing.assert_array_equal(now, before, err_msg=f"{name}: {key}")


def kind_of(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("meta.json"))["kind"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_kind_of_that_version_has_a_file(folder):
    assert {kind_of(path) for path in folder.glob("*.sqk")} >= KINDS_OF_0_1
    assert {path.stem for path in folder.glob("*.sqk")} <= set(EXPECTED[folder])


def test_the_files_of_0_1_are_there_and_small():
    assert "v0.1" in [folder.name for folder in FOLDERS]
    for folder in FOLDERS:
        assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 500_000
