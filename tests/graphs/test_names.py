"""Nodes with names: every form goes in, numbers are those of the same graph, and names come back."""

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from squeak import load, save
from squeak.graphs import (
    DistributedSparsifier,
    HarmonicClassifier,
    HarmonicRegressor,
    KelnerLevin,
    LaplacianSmoother,
    OnlineSparsifier,
    StreamSparsifier,
    edge_blocks,
    edge_leverage,
    sparsifier_report,
    sparsify,
    spectral_accuracy,
)
from squeak.graphs.forms import read_graph
from squeak.graphs.sources import write_edges
from tests.commands import command

G = nx.relabel_nodes(nx.planted_partition_graph(2, 20, 0.8, 0.05, seed=1), lambda node: f"node {node}")
ROWS = [(u, v, 1.0 + (i % 3)) for i, (u, v) in enumerate(G.edges)]
FRAME = pd.DataFrame(ROWS, columns=["source", "target", "weight"])
for _u, _v, _w in ROWS:
    G.edges[_u, _v]["weight"] = _w


def by_name(u, v, weights):
    """Return the weight of every edge by its two names."""
    return {
        frozenset(ends): w for *ends, w in zip(np.asarray(u).tolist(), np.asarray(v).tolist(), weights, strict=True)
    }


EXPECTED = by_name(FRAME["source"], FRAME["target"], FRAME["weight"])


@pytest.fixture(
    params=["list", "array", "columns", "pandas", "many columns", "polars", "arrow", "csv", "parquet", "txt"]
)
def form(request, tmp_path):
    """Return the graph in a form with names."""
    kind, path = request.param, tmp_path / f"e.{request.param}"
    if kind == "csv":
        FRAME.to_csv(path, index=False)
    elif kind == "parquet":
        FRAME.to_parquet(path)
    elif kind == "txt":
        path.write_text("# a comment\n" + "".join(f"{u}, {v}, {w}\n" for u, v, w in ROWS))
    if kind in ("csv", "parquet", "txt"):
        return path
    if kind == "many columns":
        return FRAME.assign(since=range(len(FRAME)))[["since", "weight", "target", "source"]]
    return {
        "list": lambda: ROWS,
        "array": lambda: np.array(ROWS, dtype=object),
        "columns": lambda: tuple(FRAME[name] for name in FRAME),
        "pandas": lambda: FRAME,
        "polars": lambda: pytest.importorskip("polars").from_pandas(FRAME),
        "arrow": lambda: pa.Table.from_pandas(FRAME),
    }[kind]()


def test_a_graph_with_names_is_read_from_every_form(form):
    read = read_graph(form)
    assert by_name(read.nodes[read.edges.u], read.nodes[read.edges.v], read.edges.weights) == EXPECTED
    back = read.back(read.edges)
    assert spectral_accuracy(form, back) == pytest.approx(0.0, abs=1e-9)
    if hasattr(form, "columns"):
        assert type(back) is type(form)
    stream = StreamSparsifier(random_state=0).fit(form)
    assert by_name(*stream.edges_) == pytest.approx(EXPECTED)
    assert np.array_equal(stream.node_names_, read.nodes)
    assert np.array_equal(LaplacianSmoother().fit(form).node_names_, read.nodes)
    assert sum(edge_leverage(form)) == pytest.approx(G.number_of_nodes() - 1)


def test_labels_by_name_are_those_by_number(form):
    known = {"node 0": "a", "node 3": "a", "node 25": "b", "node 39": None, "node 7": np.nan}
    s = HarmonicClassifier().fit(form, known)
    y = np.array([known.get(name) for name in G], dtype=object)
    t = HarmonicClassifier().fit(G, y)
    assert t.node_names_.tolist() == list(G)
    np.testing.assert_allclose(s.predict_proba(list(G)), t.label_distributions_, atol=1e-6)
    assert s.predict(["node 3", "node 30"]).tolist() == ["a", "b"]
    assert s.classes_.dtype.kind == "U"
    values = HarmonicRegressor().fit(form, {"node 0": 1.0, "node 39": 2.0, "node 1": None})
    assert values.predict(["node 0"])[0] < values.predict(["node 39"])[0]


def test_networkx_and_square_tables_keep_their_names():
    square = nx.to_pandas_adjacency(G)
    H = sparsify(square, oversampling=2, random_state=0)
    assert isinstance(H, pd.DataFrame)
    assert list(H.index) == list(H.columns) == list(G)
    shuffled = nx.Graph()
    shuffled.add_nodes_from(sorted(G))
    shuffled.add_weighted_edges_from(ROWS)
    assert spectral_accuracy(G, shuffled) == pytest.approx(0.0, abs=1e-9)  # other places, the same names
    assert sparsifier_report(G, ROWS).same_components
    s = HarmonicClassifier().fit(square, {"node 0": 1, "node 39": 2})
    assert s.classes_.tolist() == [1, 2]
    assert HarmonicClassifier().fit(nx.path_graph(4), {0: "x", 3: "y"}).predict([1, 2]).tolist() == ["x", "y"]


@pytest.mark.parametrize("cls", [StreamSparsifier, OnlineSparsifier, KelnerLevin, DistributedSparsifier])
def test_every_sparsifier_gives_names_back(cls):
    s = cls(random_state=0).fit(ROWS)
    assert set(s.node_names_) == set(G)
    assert set(by_name(*s.edges_)) <= set(EXPECTED)


def test_a_stream_of_named_blocks_is_numbered_once_and_fails_whole(tmp_path):
    blocks = [ROWS[start : start + 40] for start in range(0, len(ROWS), 40)]
    s = StreamSparsifier(random_state=0)
    for block in blocks[:3]:
        s.partial_fit(block)
    before, names = s.sample_, s.node_names_.tolist()
    for bad in (
        [("new", None, 1.0)],
        [(0, 1, 1.0)],
        [("new", "newer", -1.0)],
        iter([blocks[3], [("new", 3, "x")]]),
    ):
        with pytest.raises((ValueError, TypeError)):
            s.partial_fit(bad)
        assert s.sample_ == before
        assert s.node_names_.tolist() == names
    with pytest.raises(ValueError, match="were numbers; these have names"):
        StreamSparsifier().partial_fit([(0, 1), (1, 2), (2, 3)]).partial_fit(blocks[0])
    save(s, tmp_path / "s.sqk")
    again = load(tmp_path / "s.sqk")
    for block in blocks[3:]:
        s.partial_fit(block)
        again.partial_fit(block)
    assert again.sample_ == s.sample_
    assert again.node_names_.tolist() == s.node_names_.tolist() == read_graph(ROWS).nodes.tolist()


@pytest.mark.parametrize("ending", ["csv", "txt"])
def test_a_run_over_names_goes_on_from_its_checkpoint(tmp_path, ending, monkeypatch):
    path, kept = tmp_path / f"e.{ending}", tmp_path / "c.sqk"
    if ending == "csv":
        FRAME.to_csv(path, index=False)
    else:
        path.write_text("".join(f"{u},{v},{w}\n" for u, v, w in ROWS))
    whole = StreamSparsifier(random_state=0).fit(path)
    monkeypatch.setattr("squeak.graphs.sources.LINES", 50)
    monkeypatch.setattr("squeak.data.source.block_rows", lambda *_: 50)
    monkeypatch.setattr("squeak.graphs.state.StreamState.after", stop_after(2))
    with pytest.raises(KeyboardInterrupt):
        StreamSparsifier(random_state=0).fit(path, checkpoint=kept, every=0)
    monkeypatch.undo()
    resumed = StreamSparsifier.resume(kept)
    assert by_name(*resumed.edges_) == by_name(*whole.edges_)
    assert resumed.node_names_.tolist() == whole.node_names_.tolist()
    assert load(kept).node_names_.tolist() == whole.node_names_.tolist()


def stop_after(count):
    """Return the step of a stream that is interrupted after some blocks."""
    from squeak.graphs.state import StreamState

    after, seen = StreamState.after, []

    def step(self, block):
        seen.append(block)
        if len(seen) > count:
            raise KeyboardInterrupt
        return after(self, block)

    return step


MISTAKES = {
    "unknown node": (lambda: HarmonicClassifier().fit(ROWS, {"nobody": 1}), "no node 'nobody'"),
    "no labels": (lambda: HarmonicClassifier().fit(ROWS, {}), "y has no labels"),
    "all unknown": (lambda: HarmonicClassifier().fit(ROWS, {"node 0": None}), "y has no labels"),
    "asked for another": (
        lambda: HarmonicClassifier().fit(ROWS, {"node 0": 1}).predict(["nobody"]),
        "no node 'nobody'",
    ),
    "without a place for names": (lambda: list(edge_blocks(ROWS)), "whole numbers"),
    "damaged": (lambda: sparsify([("a", "b", "much")]), "could not convert"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_get_one_clear_error(name):
    call, message = MISTAKES[name]
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_a_header_in_a_text_file_is_told(tmp_path):
    path = tmp_path / "e.txt"
    path.write_text("source target\n0 1\n1 2\n")
    with pytest.raises(ValueError, match="begin a header with #"):
        read_graph(path)
    path.write_text("a b\nc\n")
    with pytest.raises(ValueError, match=r"line 2: 'c' is not an edge of two names"):
        read_graph(path)


def test_the_commands_take_names_and_give_them_back(tmp_path):
    edges, labels = tmp_path / "edges.csv", tmp_path / "known.csv"
    FRAME.to_csv(edges, index=False)
    pd.DataFrame({"node": ["node 0", "node 30", "hermit"], "label": ["red", "blue", "green"]}).to_csv(
        labels, index=False
    )
    done = command("label", edges, "--labels", labels, "--out", tmp_path / "all.csv")
    assert done.returncode == 0, done.stderr
    found = pd.read_csv(tmp_path / "all.csv").set_index("node")
    assert set(found.index) == {*G, "hermit"}
    assert found.loc["node 5", "label"] == "red"
    assert found.loc["node 35", "label"] == "blue"
    for way in ("stream", "batch"):
        done = command("sparsify", edges, "--out", tmp_path / f"{way}.csv", "--way", way, "--oversampling", 3)
        assert done.returncode == 0, done.stderr
        assert "every component is whole" in done.stdout
        kept = pd.read_csv(tmp_path / f"{way}.csv")
        assert set(by_name(kept["u"], kept["v"], kept["weight"])) <= set(EXPECTED)


def test_names_that_a_spreadsheet_would_run_get_an_apostrophe(tmp_path):
    form = read_graph([("=cmd()", "b"), ("b", "c")])
    write_edges(form.edges, tmp_path / "e.csv", form.nodes)
    assert pd.read_csv(tmp_path / "e.csv")["u"].tolist() == ["'=cmd()", "b"]
    write_edges(form.edges, tmp_path / "e.parquet", form.nodes)
    assert by_name(*StreamSparsifier().fit(tmp_path / "e.parquet").edges_) == by_name(
        ["=cmd()", "b"], ["b", "c"], [1, 1]
    )
    with pytest.raises(ValueError, match="nodes with names are written as"):
        write_edges(form.edges, tmp_path / "e.npy", form.nodes)
