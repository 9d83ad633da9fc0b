"""DISRE: a node is the merge of its children, weights stay unbiased, and the bits do not depend on who computes.

Statistical family: 1 setting × 91 edges at 5.5 standard errors, as in test_sparsify.
"""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from squeak.core.seeds import draw_seed
from squeak.graphs import DistributedSparsifier, StreamSparsifier, spectral_accuracy
from squeak.graphs import sample as thinning_room
from squeak.graphs import state as state_room
from squeak.graphs.base import GraphPlan
from squeak.graphs.distributed import EdgeWork
from squeak.graphs.edges import Edges, spanned_alike
from squeak.graphs.oracle import Oracle, Scoring
from squeak.graphs.sample import joined
from squeak.graphs.sources import write_edges
from squeak.places import Threads, use
from squeak.samplers import Tree
from squeak.trees.parts import ArrayPart, PartError
from squeak.trees.run import node_seed
from tests.engines import ENGINES, deadly
from tests.graphs.oracles import random_graph
from tests.graphs.test_sparsify import CLIQUES, biased, shuffled


@pytest.fixture(scope="module")
def edges():
    return shuffled(random_graph(200, 15_000, 0))


def learn(**changes):
    return DistributedSparsifier(
        **{"oversampling": 12, "n_leaves": 4, "n_nodes": 200, "random_state": 3, **changes}
    )


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(state_room, "FIRST", 10)
    monkeypatch.setattr(state_room.StreamState, "_first_size", lambda self, nodes: 25)


def tree(e, seed, copies=1):
    """Return the root of a tree of three leaves, computed by the nodes' own functions."""
    work = EdgeWork(GraphPlan(2.0, copies, Scoring(0.0), True, 20, "edges"))
    rows = np.column_stack([e.u, e.v, e.weights])
    cuts = [0, 30, 60, len(e)]
    leaves = [work.leaf(ArrayPart(rows, a, b), i, seed + i, 0)[0] for i, (a, b) in enumerate(pairwise(cuts))]
    inner = work.merge(leaves[:2], seed + 100_000)[0]
    root = work.merge([inner, leaves[2]], seed + 200_000)[0]
    return replace(
        root, indices=np.array(cuts)[[int(root.sources[s][0]) for s in root.source_numbers]] + root.indices
    )


def test_weights_are_unbiased_through_two_levels(small):
    assert not biased(tree, shuffled(CLIQUES), 250).any()


def test_scores_by_the_current_weight_are_still_unbiased_but_keep_too_many(edges, monkeypatch):
    """The trap of spec A, section 7.1: a_e in the score is the original weight."""
    right = len(learn().fit(edges).sample_)
    monkeypatch.setattr(Oracle, "own_scores", lambda self, original: self.leverage[self._place])
    assert len(learn().fit(edges).sample_) > 1.15 * right


def test_a_merge_that_forgets_probabilities_is_caught(small, monkeypatch):
    def forgetful(p, q, scores, rng):
        lowered = np.minimum(p, scores)
        return np.minimum(1.0, 1.3 * lowered), rng.binomial(q, lowered / p)

    monkeypatch.setattr(thinning_room, "thin", forgetful)
    assert biased(partial(tree, copies=2), shuffled(CLIQUES), 120).any()


def test_a_node_is_the_merge_of_its_children(edges):
    s = learn(n_leaves=3, tree=((0, 2), 1)).fit(edges)
    seed = draw_seed(3)
    cuts = np.linspace(0, len(edges), 4).round().astype(int)
    leaves = []
    for i in range(3):
        stream = state_room.StreamState(
            GraphPlan(12.0, 1, Scoring(0.0), True, 200, str(i)), node_seed(seed, i), drops=True
        )
        stream.read(edges.take(slice(cuts[i], cuts[i + 1])))
        leaves.append(stream.result())

    def merge(children, node):
        union = joined(children, 200)
        place = node_seed(seed, node)
        return thinning_room.shrink(union, Oracle(union.atoms, Scoring(0.0), place), place, connected=True)

    root = merge([merge([leaves[0], leaves[2]], 3), leaves[1]], 4)
    starts = np.array([cuts[int(name)] for name, _ in root.sources])
    indices = starts[root.source_numbers] + root.indices
    order = np.argsort(indices)
    assert np.array_equal(s.sample_.indices, indices[order])
    assert np.array_equal(s.sample_.weights, root.weights[order])
    assert [node.rows for node in s.nodes_][-1] == len(edges)


@pytest.mark.parametrize("shape", ["balanced", "sequential", Tree(((0, 1, 2), 3))])
def test_threads_do_not_matter_and_trees_are_all_good(edges, shape, monkeypatch):
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("SQUEAK_NUM_THREADS", threads)
        found.append(learn(tree=shape).fit(edges).sample_)
    assert found[0] == found[1]
    H = found[0].graph
    assert spanned_alike(edges, H)
    assert spectral_accuracy(edges, H) < 1.0
    alone = StreamSparsifier(12, n_nodes=200, random_state=0).fit(edges).sample_
    assert len(H) < 1.2 * len(alone)


def test_finished_nodes_are_kept(edges, tmp_path, monkeypatch):
    expected = learn().fit(edges).sample_
    real, calls = EdgeWork.merge, []

    def failing(self, children, seed):
        calls.append(seed)
        if len(calls) == 3:
            raise RuntimeError("the power is off")
        return real(self, children, seed)

    monkeypatch.setenv("SQUEAK_NUM_THREADS", "1")
    monkeypatch.setattr(EdgeWork, "merge", failing)
    with pytest.raises(RuntimeError, match="power"):
        learn().fit(edges, checkpoint=tmp_path / "run")
    monkeypatch.setattr(EdgeWork, "merge", real)
    s = learn().fit(edges, checkpoint=tmp_path / "run")
    assert s.sample_ == expected
    with pytest.raises(ValueError, match="a run of other"):
        learn(oversampling=9).fit(edges, checkpoint=tmp_path / "run")


def test_files_functions_and_arrays_give_the_same(edges, tmp_path):
    array = np.column_stack([edges.u, edges.v, edges.weights])
    expected = learn(n_leaves=2).fit(array).sample_
    paths = []
    for number, part in enumerate(np.array_split(np.arange(len(edges)), 2)):
        paths.append(str(tmp_path / f"{number}.txt"))
        write_edges(edges.take(part), paths[-1])
    assert learn(n_leaves=2).fit(paths).sample_ == expected
    cut = np.array_split(array, 2)
    assert learn(n_leaves=None).fit([lambda: cut[0], lambda: cut[1]]).sample_ == expected
    assert learn(n_leaves=2).fit(Edges(200, edges.u, edges.v, edges.weights)).sample_ == expected


def test_a_bad_part_is_named():
    with pytest.raises(PartError, match=r"part 1: .*weight nan"):
        learn(n_leaves=None, retries=0).fit([lambda: [(0, 1)], lambda: [(0, 1, np.nan)]])
    with pytest.raises(ValueError, match="n_leaves"):
        learn(n_leaves=0).fit(CLIQUES)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.xdist_group("cluster")
@pytest.mark.parametrize("engine", ["dask", "processes", "joblib"])
def test_a_killed_worker_does_not_change_the_bits(engine, edges, tmp_path):
    parts = [partial(np.asarray, part) for part in np.array_split(as_array(edges), 4)]
    expected = learn(n_leaves=None).fit(parts).sample_
    parts[2], killer = deadly(parts[2](), tmp_path)  # the first is looked at before the run
    with ENGINES[engine]():
        with use(Threads()):
            here = learn().fit(edges).sample_
        assert learn().fit(edges).sample_ == here
        killer.start()
        found = learn(n_leaves=None).fit(parts).sample_
        killer.join()
    assert found == expected
    assert (tmp_path / "killed").exists()


def as_array(edges):
    return np.column_stack([edges.u, edges.v, edges.weights])


def test_a_tree_of_parts_reads_small_graphs_and_last_nodes_as_they_are():
    T = nx.Graph()
    T.add_weighted_edges_from([(0, 1, 1), (1, 2, 3), (1, 3, 5)])  # three edges are no matrix of three nodes
    for graph in (T, nx.to_scipy_sparse_array(T), nx.to_numpy_array(T)):
        found = DistributedSparsifier(random_state=0).fit(graph).sparsifier_
        np.testing.assert_array_equal(found.toarray(), nx.to_numpy_array(T))
    A = np.zeros((6, 6))
    A[0, 1] = A[1, 0] = A[1, 2] = A[2, 1] = 1
    for graph in (A, sp.csr_matrix(A)):
        assert DistributedSparsifier(random_state=0).fit(graph).sparsifier_.shape == (6, 6)
    with pytest.raises(ValueError, match="an iterator cannot be read so"):
        DistributedSparsifier().fit(iter([[(0, 1)]]))
    nothing = DistributedSparsifier(ridge=1e12, n_leaves=2, random_state=0)
    assert len(nothing.fit(np.column_stack(np.triu_indices(120, 1))).sample_) == 0
