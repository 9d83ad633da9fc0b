"""Graphs of every kind go in and come back as the same kind; what is no undirected graph is refused."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from squeak.graphs import DistributedSparsifier, OnlineSparsifier, StreamSparsifier, edge_blocks, sparsify
from squeak.graphs.edges import Edges, check_edges, merged
from squeak.graphs.forms import read_graph
from squeak.graphs.sources import read_edges, write_edges
from tests.graphs.oracles import COMPLETE, random_graph


@pytest.fixture
def graph():
    return random_graph(30, 100, 0)


def same(one, other):
    one, other = merged(one), merged(other)
    return (
        np.array_equal(one.u, other.u)
        and np.array_equal(one.v, other.v)
        and np.allclose(one.weights, other.weights)
    )


@pytest.mark.parametrize("kind", ["csr_matrix", "csc_array", "coo_matrix", "lil_matrix", "dok_array"])
def test_sparse_matrices_of_every_format(graph, kind):
    A = getattr(sp, kind)(graph.adjacency())
    form = read_graph(A)
    assert same(form.edges, graph)
    assert type(form.back(form.edges)) is type(A)
    assert abs(form.back(form.edges) - A).max() < 1e-12


def test_other_forms(graph):
    for given in (
        graph.adjacency().toarray(),
        (graph.u, graph.v, graph.weights),
        (graph.v, graph.u, graph.weights),
        np.column_stack([graph.v, graph.u, graph.weights]),
        graph,
    ):
        assert same(read_graph(given, graph.n_nodes).edges, graph)
    whole = read_graph(np.column_stack([graph.u, graph.v])).edges
    assert (whole.weights == 1).all()


def test_networkx_keeps_names_and_attributes():
    G = nx.Graph(name="club")
    G.add_node("z", colour="red")
    G.add_edge("a", "b", weight=2.0, kind="friend")
    G.add_edge("b", "z")
    H = sparsify(G, random_state=0)
    assert H.graph["name"] == "club"
    assert H.nodes["z"]["colour"] == "red"
    assert H.edges["a", "b"] == {"weight": 2.0, "kind": "friend"}
    assert list(H.nodes) == list(G.nodes)


def test_loops_are_dropped_and_parallel_edges_added_up():
    edges = read_graph(([0, 1, 1, 2], [1, 0, 1, 1], [1.0, 2.0, 9.0, 4.0])).edges
    assert (edges.u.tolist(), edges.v.tolist(), edges.weights.tolist()) == ([0, 1], [1, 2], [3.0, 4.0])
    multi = nx.MultiGraph([(0, 1), (0, 1), (1, 1)])
    assert read_graph(multi).edges.weights.tolist() == [2.0]
    assert len(read_graph(sp.identity(4)).edges) == 0


BAD = {
    "directed networkx": (nx.DiGraph([(0, 1)]), "directed"),
    "asymmetric": (sp.csr_matrix([[0, 1.0], [0, 0]]), "not symmetric"),
    "not square": (np.ones((3, 4)), "square"),
    "negative": (([0], [1], [-1.0]), "edge 0 has weight -1"),
    "nan": (([0, 1], [1, 2], [1.0, np.nan]), "edge 1 has weight nan"),
    "nan in a matrix": (sp.csr_matrix([[0, np.nan], [np.nan, 0]]), r"entry \(0, 1\).*nan"),
    "negative in a matrix": (np.array([[0, -1.0], [-1.0, 0]]), "weight -1"),
    "negative node": (([-1], [1]), "not a node number"),
    "half a node": (([0.5], [1.0]), "not a node number"),
    "a name missing": ((["a", None], ["b", "c"]), "edge 1 has no name"),
    "a column too many": (pd.DataFrame(np.ones((5, 4))), "4 columns; an edge list has two"),
    "lengths": (([0, 1], [1]), "2 first nodes and 1 second"),
    "weights' length": (([0, 1], [1, 2], [1.0]), "weights of shape"),
    "complex": (np.array([[0, 1j], [1j, 0]]), "real numbers"),
    "one dimension": (np.arange(4), "cannot be read"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_undirected_graph_is_refused(kind):
    given, message = BAD[kind]
    with pytest.raises((ValueError, TypeError), match=message):
        read_graph(given)
    with pytest.raises((ValueError, TypeError), match=message):
        sparsify(given)


def test_a_bad_block_changes_nothing():
    s = StreamSparsifier(random_state=0).partial_fit([(0, 1), (1, 2)])
    before = s.sample_
    for bad in ([(0, -1)], [(0, 1, np.nan)], [("a", "b")]):
        with pytest.raises((ValueError, TypeError)):
            s.partial_fit(bad)
        assert s.sample_ == before


def test_a_node_beyond_the_last_is_refused():
    with pytest.raises(ValueError, match="node 7 of a graph of 5 nodes"):
        StreamSparsifier(n_nodes=5).partial_fit([(0, 7)])


@pytest.mark.parametrize("ending", ["parquet", "csv", "npy", "txt"])
def test_files_are_written_and_read_back(graph, ending, tmp_path):
    path = tmp_path / f"edges.{ending}"
    write_edges(graph, path)
    found = read_edges(path)
    assert same(found, graph)
    assert np.array_equal(found.weights, graph.weights)
    one = StreamSparsifier(random_state=0).fit(path).sample_
    two = StreamSparsifier(random_state=0).fit(Edges(found.n_nodes, graph.u, graph.v, graph.weights)).sample_
    assert one == two


def test_text_with_comments_commas_and_no_weights(tmp_path):
    path = tmp_path / "snap.txt"
    path.write_text("# Nodes: 3\n% another\n0\t1\n1  2\n\n2 0\n")
    assert read_edges(path).u.tolist() == [0, 1, 0]
    path.write_text("0,1,2.5\n1,2,1\n")
    assert read_edges(path).weights.tolist() == [2.5, 1.0]


def test_a_bad_line_is_named(tmp_path):
    path = tmp_path / "bad.txt"
    path.write_text("# head\n0 1\n1 two\n")
    with pytest.raises(ValueError, match=r"bad.txt, line 3: '1 two'"):
        read_edges(path)
    path.write_text("0 1\n1 2 3\n")
    with pytest.raises(ValueError, match="line 2"):
        read_edges(path)


def test_too_many_columns_are_refused(tmp_path):
    path = tmp_path / "wide.csv"
    pd.DataFrame(np.ones((3, 4)), columns=list("abcd")).to_csv(path, index=False)
    with pytest.raises(ValueError, match="4 columns"):
        read_edges(path)


def test_an_iterator_of_blocks(graph):
    blocks = [
        np.column_stack([part.u, part.v, part.weights])
        for part in (graph.take(slice(0, 40)), graph.take(slice(40, None)))
    ]
    assert sum(len(block) for block in edge_blocks(iter(blocks))) == len(graph)


def test_no_edges(tmp_path):
    assert sparsify(sp.csr_matrix((4, 4))).nnz == 0
    with pytest.raises(ValueError, match="no edges"):
        StreamSparsifier().fit(sp.csr_matrix((4, 4)))
    assert check_edges([], []).n_nodes == 0


def test_names_in_place_of_numbers_are_refused_before_memory_is_taken():
    with pytest.raises(ValueError, match=r"go up to 2,000,000,000 with 2 edges.*number nodes from 0 on"):
        sparsify(([0, 5], [1, 2_000_000_000]))
    with pytest.raises(ValueError, match=r"go up to 2,000,000,000 with 2 edges"):
        sparsify([(0, 5, 1.0), (5, 2_000_000_000, 1.0)])
    assert check_edges([0], [40_000_000]).n_nodes == 40_000_001
    assert next(edge_blocks(iter([[(0, 60_000_000)]]))).n_nodes == 60_000_001  # of a stream more may come


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("cls", [StreamSparsifier, OnlineSparsifier, DistributedSparsifier])
def test_a_square_array_is_an_adjacency_matrix_of_any_size(cls, n):
    A = np.ones((n, n)) - np.eye(n)
    np.testing.assert_array_equal(cls(random_state=0).fit(A).sparsifier_.toarray(), A)


def test_a_block_of_two_or_three_edges_is_edges():
    s = StreamSparsifier(random_state=0).partial_fit(np.array([[0, 1], [1, 2]]))
    assert s.partial_fit([(0, 2, 5.0), (2, 3, 1.0), (3, 0, 1.0)]).n_seen_ == 5
    assert s.sparsifier_[0, 2] == 5.0
    assert StreamSparsifier(random_state=0).partial_fit(COMPLETE.adjacency()).n_seen_ == 66


def test_two_edges_are_not_taken_for_a_matrix():
    with pytest.raises(ValueError, match="may be two edges"):
        sparsify(np.array([[0, 1], [1, 2]]))


def test_a_small_entry_without_its_mirror_makes_a_graph_directed():
    A = sp.csr_matrix([[0, 1e12, 0], [1e12, 0, 1.0], [0, 5.0, 0]])
    with pytest.raises(ValueError, match="not symmetric"):
        read_graph(A)


def test_parallel_entries_are_added_up_before_they_overflow():
    entries = np.full(4, 100, dtype=np.int8)
    A = sp.coo_matrix((entries, ([0, 0, 1, 1], [1, 1, 0, 0])), (2, 2))
    assert read_graph(A).edges.weights.tolist() == [200.0]


def test_graphs_of_classes_derived_from_networkx_are_read():
    class Mine(nx.Graph):
        pass

    assert type(sparsify(Mine(nx.path_graph(4)), random_state=0)) is Mine


def test_a_matrix_of_too_many_nodes_is_refused():
    with pytest.raises(ValueError, match="12 nodes, n_nodes is 5"):
        StreamSparsifier(n_nodes=5).fit(COMPLETE.adjacency())


@pytest.mark.parametrize("text", ["0 1 1 7\n1 2 1 8\n2 3 1 9\n3 0 1 1\n", "0\n1\n", "5\n"])
def test_a_text_file_of_other_columns_is_refused(text, tmp_path):
    (tmp_path / "e.txt").write_text(text)
    with pytest.raises(ValueError, match=r"e\.txt has \d columns"):
        read_edges(tmp_path / "e.txt")


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "e.txt").write_bytes(b"\xff\xfe\x00\n")
    with pytest.raises(ValueError, match=r"e\.txt is not text"):
        read_edges(tmp_path / "e.txt")
