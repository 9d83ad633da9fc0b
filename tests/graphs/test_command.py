"""``squeak sparsify`` and ``squeak label``, in processes of their own."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from squeak.graphs import StreamSparsifier
from squeak.graphs.files import read_edges, write_edges
from squeak.graphs.forms import read_graph
from tests.test_cli import command


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph")
    G = nx.planted_partition_graph(2, 150, 0.5, 0.02, seed=0)
    edges = read_graph(G).edges
    write_edges(edges, folder / "edges.parquet")
    write_edges(edges, folder / "edges.txt")
    rows = [{"node": node, "label": "ab"[node // 150]} for node in (0, 5, 9, 30, 160, 170, 200, 299)]
    pd.DataFrame(rows).to_csv(folder / "labels.csv", index=False)
    return folder


@pytest.mark.parametrize("kind", ["parquet", "txt"])
def test_sparsify_writes_and_reports(folder, tmp_path, kind):
    out = tmp_path / "h.parquet"
    done = command(
        "sparsify", folder / f"edges.{kind}", "--oversampling", 10, "--out", out, "--figure", tmp_path / "h.png"
    )
    assert done.returncode == 0, done.stderr
    assert "every component is whole" in done.stdout
    assert "accuracy ε = " in done.stdout
    assert "StreamSparsifier" in done.stderr  # the bar
    assert (tmp_path / "h.png").stat().st_size > 10_000
    found = read_edges(out)
    expected = StreamSparsifier(10.0, random_state=0).fit(folder / "edges.parquet").sample_.graph
    assert np.array_equal(found.weights, expected.weights)
    assert len(found) < len(read_edges(folder / "edges.parquet"))


@pytest.mark.parametrize("way", ["online", "batch"])
def test_other_ways(folder, tmp_path, way):
    done = command(
        "sparsify", folder / "edges.txt", "--way", way, "--oversampling", 5, "--out", tmp_path / "h.csv", "-q"
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert len(read_edges(tmp_path / "h.csv")) > 298


def test_label_finds_the_two_halves(folder, tmp_path):
    out = tmp_path / "l.csv"
    done = command(
        *["label", folder / "edges.parquet", "--labels", folder / "labels.csv", "--oversampling", 10, "--out", out],
        *["--hold-out", 0.25],
    )
    assert done.returncode == 0, done.stderr
    assert "300 nodes labelled from 6 labels of 2 classes" in done.stdout
    assert "of 2 labels held out 100.0% were found" in done.stdout
    table = pd.read_csv(out)
    assert (table["label"] == np.repeat(["a", "b"], 150)).mean() > 0.98


MISTAKES = {
    "no file": (["sparsify", "nowhere.txt", "--out", "h.csv"], 1, "there is no file nowhere.txt"),
    "bad ending": (["sparsify", "{f}/edges.txt", "--out", "h.xlsx"], 2, "--out ends in"),
    "no folder": (["sparsify", "{f}/edges.txt", "--out", "no/h.csv"], 1, "does not exist"),
    "itself": (["sparsify", "{f}/edges.txt", "--out", "{f}/edges.txt"], 2, "overwritten"),
    "no labels": (["label", "{f}/edges.txt", "--labels", "no.csv", "--out", "l.csv"], 1, "there is no file no.csv"),
    "wrong columns": (
        ["label", "{f}/edges.txt", "--labels", "{f}/wrong.csv", "--out", "l.csv"],
        1,
        "needs the columns node and label",
    ),
    "bad edges": (["sparsify", "{f}/bad.txt", "--out", "h.csv"], 1, "bad.txt, line 2"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_get_one_line(name, folder, tmp_path):
    (folder / "wrong.csv").write_text("a,b\n1,2\n")
    (folder / "bad.txt").write_text("0 1\nx y\n")
    arguments, code, message = MISTAKES[name]
    done = command(*[one.replace("{f}", str(folder)) for one in arguments], cwd=tmp_path)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
