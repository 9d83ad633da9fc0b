"""A sparsifier that is killed at any moment goes on from its checkpoint and ends in the same bits."""

import multiprocessing
import signal

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import squeak
from squeak.core import storage
from squeak.data import blocks as sources
from squeak.graphs import EdgeSample, OnlineSparsifier, StreamSparsifier
from tests.graphs import runs

KINDS = ("stream", "copies", "online")


@pytest.fixture(scope="module")
def processes():
    """Return a maker of processes that have squeak imported already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.graphs.runs", "tests.samplers.runs", "pyarrow.parquet"])
    return context


def edges(n=250, seed=0):
    """Return the edges of a complete graph in random order, with a loop in front."""
    rng = np.random.default_rng(seed)
    u, v = np.triu_indices(n, 1)
    table = rng.permutation(np.column_stack([u, v, rng.uniform(0.5, 2.0, len(u))]))
    return np.concatenate([[[3.0, 3.0, 1.0]], table])


E = edges()


def written(folder, kind):
    """Return the path of the edges in a file of a kind."""
    path = folder / f"edges.{kind}"
    frame = pd.DataFrame(E, columns=["u", "v", "weight"]).astype({"u": int, "v": int})
    if kind == "npy":
        np.save(path, E)
    elif kind == "txt":
        np.savetxt(path, E, fmt=["%d", "%d", "%.17g"])
    else:
        frame.to_parquet(path) if kind == "parquet" else frame.to_csv(path, index=False)
    return path


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(sources, "BLOCK_BYTES", runs.SMALL_BLOCKS)


def stopping(blocks, error, at):
    for number, block in enumerate(blocks):
        if number == at:
            raise error
        yield block


def unfinished(path, sparsifier, at=12):
    """Leave the checkpoint of a run that was interrupted."""
    with pytest.raises(KeyboardInterrupt):
        sparsifier.fit(stopping(np.array_split(E, 20), KeyboardInterrupt(), at), checkpoint=path, every=0)
    return squeak.load(path).n_seen_


@pytest.mark.parametrize("name", KINDS)
def test_kills_within_writes_end_in_the_same_bits(name, processes, tmp_path):
    data, checkpoint, result = written(tmp_path, "parquet"), tmp_path / "run.sqk", tmp_path / "result.sqk"
    seen = []
    for kill_at in ((3, 0), (2, 1), (3, 2), (2, 3), None):
        child = processes.Process(target=runs.run, args=(name, data, checkpoint, result, kill_at))
        child.start()
        child.join(60)
        assert child.exitcode == (0 if kill_at is None else -signal.SIGKILL)
        seen.append(squeak.load(checkpoint).n_seen_)
    assert sorted(set(seen)) == seen, "every run went on from where the one before was killed"
    assert EdgeSample.load(result) == runs.make(name).fit(E).sample_
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.parquet", "result.sqk", "run.sqk"]


@pytest.mark.parametrize("kind", ["parquet", "csv", "npy", "txt"])
def test_files_are_opened_again_and_changed_files_refused(kind, small_blocks, tmp_path, monkeypatch):
    data, path = written(tmp_path, kind), tmp_path / "run.sqk"
    whole = StreamSparsifier(6.0, random_state=0).fit(E).sample_
    assert StreamSparsifier(6.0, random_state=0).fit(data).sample_ == whole
    after, count = StreamSparsifier._read, {"blocks": 0}

    def read(self, *args, keeper=None, **rest):
        keep = keeper.keep

        def then_stop(*state):
            keep(*state)
            count["blocks"] += 1
            if count["blocks"] == 10:
                raise KeyboardInterrupt

        keeper.keep = then_stop
        return after(self, *args, keeper=keeper, **rest)

    with monkeypatch.context() as patch:
        patch.setattr(StreamSparsifier, "_read", read)
        with pytest.raises(KeyboardInterrupt):
            StreamSparsifier(6.0, random_state=0).fit(data, checkpoint=path, every=1e9)
    assert 0 < squeak.load(path).n_seen_ < len(E) - 1
    kept = data.read_bytes()
    data.write_bytes(kept.replace(kept[-200:-190], b"0123456789"))
    if kind in ("csv", "txt"):
        with pytest.raises(ValueError, match="a run over other data"):
            StreamSparsifier.resume(path)
    data.write_bytes(kept)
    monkeypatch.chdir(tmp_path.parent)
    assert StreamSparsifier.resume(path).sample_ == whole
    assert StreamSparsifier.resume(path).sample_ == whole  # it has ended: it is returned as it is


@pytest.mark.parametrize("name", KINDS)
def test_an_interrupted_iterator_is_given_again(name, small_blocks, tmp_path):
    path = tmp_path / "run.sqk"
    assert 0 < unfinished(path, runs.make(name)) < len(E) - 1
    kind = type(runs.make(name))
    with pytest.raises(ValueError, match="did not come from files; pass source="):
        kind.resume(path)
    with pytest.raises(ValueError, match="other data"):
        kind.resume(path, iter(np.array_split(E[1:][::-1], 20)))
    whole = runs.make(name).fit(E).sample_
    assert kind.resume(path, iter(np.array_split(E, 7))).sample_ == whole


FORMS = {
    "table": lambda: E,
    "columns": lambda: (E[:, 0].astype(int), E[:, 1].astype(int), E[:, 2]),
    "list": lambda: E[:50].tolist(),
    "adjacency with a node that has no edge": lambda: sp.block_diag([np.ones((30, 30)) - np.eye(30), [[0.0]]]),
    "networkx": lambda: nx.barbell_graph(8, 3),
    "iterator of matrices": lambda: iter([np.ones((6, 6)) - np.eye(6), np.zeros((9, 9))]),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_graph_reads_the_same_with_a_checkpoint(form, small_blocks, tmp_path):
    plain = StreamSparsifier(3.0, random_state=0).fit(FORMS[form]())
    kept = StreamSparsifier(3.0, random_state=0).fit(FORMS[form](), checkpoint=tmp_path / "run.sqk")
    assert kept.sample_ == plain.sample_
    assert kept.sparsifier_.shape == plain.sparsifier_.shape


def test_other_parameters_other_edges_and_other_classes_are_refused(small_blocks, tmp_path):
    path = tmp_path / "run.sqk"
    unfinished(path, runs.make("stream"))
    before = path.read_bytes()
    for other, message in (
        (StreamSparsifier(7.0, random_state=7), r"another oversampling \(6.0; now 7.0\)"),
        (StreamSparsifier(6.0, random_state=8), "another random_state"),
        (OnlineSparsifier(6.0, random_state=7), "another sampler"),
    ):
        with pytest.raises(ValueError, match=message):
            other.fit(iter([E]), checkpoint=path)
    with pytest.raises(TypeError, match=r"holds a run of StreamSparsifier: use StreamSparsifier\.resume"):
        OnlineSparsifier.resume(path, iter([E]))
    with pytest.raises(ValueError, match="other data"):
        StreamSparsifier.resume(path, E)  # an array has a fingerprint, the iterator had none
    with pytest.raises(storage.StorageError, match="holds a 'edge-stream'"):
        squeak.Squeak.resume(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", KINDS)
def test_a_saved_sparsifier_goes_on_as_if_it_had_not_been_saved(name, tmp_path):
    one = runs.make(name).partial_fit(E[:9_000])
    squeak.save(one, tmp_path / "s.sqk")
    again = squeak.load(tmp_path / "s.sqk")
    assert repr(again) == repr(one)
    assert again.sample_ == one.sample_
    assert (
        again.partial_fit(E[9_000:]).sample_ == one.partial_fit(E[9_000:]).sample_ == runs.make(name).fit(E).sample_
    )


@pytest.mark.parametrize("name", KINDS)
def test_an_iterator_that_fails_leaves_the_sparsifier_as_it_was(name):
    one, blocks = runs.make(name), np.array_split(E, 20)
    for method in (one.partial_fit, one.fit):
        with pytest.raises(OSError, match="gone"):
            method(stopping(blocks, OSError("gone"), 9))
        assert not hasattr(one, "_stream")
    one.partial_fit(blocks[0])
    before = one.sample_
    for bad in (stopping(blocks[1:], OSError("gone"), 9), iter([*blocks[1:9], [[0, 1, np.nan]]])):
        with pytest.raises((OSError, ValueError), match=r"gone|edge .* has weight nan"):
            one.partial_fit(bad)
        assert one.sample_ == before
        assert one.n_seen_ == len(blocks[0]) - 1
    with pytest.raises(OSError, match="gone"):
        one.fit(stopping(blocks, OSError("gone"), 9))
    assert one.partial_fit(iter(blocks[1:])).sample_ == runs.make(name).fit(E).sample_


def test_an_interrupt_keeps_the_blocks_that_were_read():
    one, blocks = runs.make("stream"), np.array_split(E, 20)
    with pytest.raises(KeyboardInterrupt):
        one.partial_fit(stopping(blocks, KeyboardInterrupt(), 9))
    assert one.n_seen_ == sum(map(len, blocks[:9])) - 1
    assert one.partial_fit(iter(blocks[9:])).sample_ == runs.make("stream").fit(E).sample_


def test_a_damaged_checkpoint_is_a_storage_error(tmp_path):
    path = tmp_path / "run.sqk"
    runs.make("stream").fit(E, checkpoint=path)
    kind, arrays, content = storage.read(path)
    for change in (
        {"seed": -1},
        {"scored": 10**9},
        {"nodes_seen": 3},
        {"scored_nodes": None},
        {"sampler": "Squeak"},
        {"params": {**content["params"], "oversampling": 5.0}},
        {"params": {**content["params"], "copies": "many"}},
    ):
        storage.write(path, kind, arrays, {**content, **change})
        with pytest.raises(storage.StorageError, match="its content is damaged"):
            squeak.load(path)
