"""``squeak sparsify`` and ``squeak label``, in processes of their own."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from squeak.cli.graphs import label
from squeak.cli.reading import Chosen
from squeak.graphs import HarmonicClassifier, StreamSparsifier
from squeak.graphs.forms import read_graph
from squeak.graphs.sources import read_edges, write_edges
from tests.commands import command
from tests.graphs.oracles import two_cliques


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


@pytest.fixture
def cliques(tmp_path):
    graph, _ = two_cliques(10, 1, 1.0)
    write_edges(graph, tmp_path / "e.txt")
    return tmp_path


def run_label(cliques, table, **options):
    pd.DataFrame(table).to_csv(cliques / "l.csv", index=False)
    settings = {"oversampling": None, "alpha": 1.0, "hold_out": 0.0, "seed": 0, "quiet": True} | options
    files = {"labels": cliques / "l.csv", "out": cliques / "out.csv"}
    label([str(cliques / "e.txt")], reading=Chosen(), **files, **settings)
    return pd.read_csv(cliques / "out.csv")


def test_the_share_is_that_of_the_label_given(cliques):
    """One label against nine: the label is not always that of the largest share."""
    table = {"node": [5, *range(11, 20)], "label": ["a", *["b"] * 9]}
    found = run_label(cliques, table)
    y = np.full(20, -1)
    y[5], y[11:] = 0, 1
    s = HarmonicClassifier().fit(str(cliques / "e.txt"), y)
    assert found["label"].tolist() == ["ab"[code] for code in s.transduction_]
    assert (s.transduction_ != s.label_distributions_.argmax(axis=1)).any()
    np.testing.assert_allclose(found["share"], s.label_distributions_[np.arange(20), s.transduction_], atol=1e-9)


def test_rows_without_a_label_are_not_a_class(cliques):
    found = run_label(cliques, {"node": [0, 1, 12], "label": ["a", None, "b"]})
    assert set(found["label"]) == {"a", "b"}
    numbers = run_label(cliques, {"node": [0, 1, 12], "label": [7, None, 8]})
    assert set(numbers["label"].astype(float)) == {7.0, 8.0}


def test_two_labels_for_one_node_are_refused(cliques):
    with pytest.raises(ValueError, match="node 3 has two labels, 'a' and 'b'"):
        run_label(cliques, {"node": [3, 3], "label": ["a", "b"]})
    assert len(run_label(cliques, {"node": [3, 3, 12], "label": ["a", "a", "b"]})) == 20


def test_holding_out_leaves_a_label(cliques):
    assert set(run_label(cliques, {"node": [3], "label": ["a"]}, hold_out=0.9)["label"]) == {"a"}
