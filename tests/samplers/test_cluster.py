"""DISQUEAK on workers of every engine, which on loopback are processes, killed by their id while they work.

The result must have the bits of a run on threads, whatever happens to the workers.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak import Disqueak
from squeak.kernels import RBF
from squeak.places import ClusterError, Threads, use
from squeak.trees.parts import PartError
from tests.engines import BRIEF, ENGINES, cluster_of, deadly, is_gone

pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # a killed worker makes its peers complain
    pytest.mark.xdist_group("cluster"),
]


WORKER = (
    sys.executable,
    "-m",
    "distributed.cli.dask_worker",
    "--no-nanny",
    "--nthreads",
    "1",
    "--host",
    "127.0.0.1",
)
"""A worker that nobody brings back."""


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).standard_normal((12_000, 3))


def learn(**changes):
    return Disqueak(**{"kernel": RBF(1.0), "ridge": 5.0, "n_leaves": 12, "random_state": 0, **changes})


@pytest.fixture(scope="module")
def expected(X):
    return learn().fit(X).dictionary_


@pytest.fixture(scope="module", params=BRIEF)
def workers(request, expected):
    """Use two workers of an engine; ``expected`` was computed without them."""
    with ENGINES[request.param]() as workers:
        yield workers


@pytest.fixture(scope="module")
def client(expected):
    """Return a client of two Dask workers; ``expected`` was computed without it."""
    with cluster_of(2) as client:
        yield client


def sent_and_seen(submit, gathered):
    """Return whether arrays were aligned in tasks and when they came back, for messages of many lengths."""
    words = ["x" * length for length in range(16)]
    tasks = [submit(lambda word, array: (word, array), word, np.arange(1000.0)) for word in words]
    there = gathered([submit(lambda found: found[1].flags.aligned, task) for task in tasks])
    here = gathered([submit(lambda word, array: array.flags.aligned, word, np.arange(1000.0)) for word in words])
    return [*there, *here, *(array.flags.aligned for _, array in gathered(tasks))]


def test_arrays_arrive_aligned(workers):
    """Arrays that begin at an odd byte are multiplied in another order: sums would depend on what had travelled."""
    assert all(sent_and_seen(workers.place.submit, workers.place.gathered))
    if workers.client is not None:  # the test would notice: Dask itself does not align them
        plain = sent_and_seen(partial(workers.client.submit, pure=False), workers.client.gather)
        assert not all(plain)


def test_workers_give_the_bits_of_one_thread(X, expected, workers):
    s = learn().fit(X)
    assert s.dictionary_ == expected
    assert len(s.nodes_) == 23
    assert [node.rows for node in s.nodes_[:12]] == [1_000] * 12
    assert all(node.bytes > 0 and node.seconds > 0 for node in s.nodes_)


def test_two_runs_of_the_same_seed_do_not_share_results(X, expected, workers):
    """Dask takes tasks of the same key for the same task: other data must not find the results of this."""
    other = X[:6_000] + 1.0
    one, two = learn(), learn()
    threads = [threading.Thread(target=one.fit, args=(X,)), threading.Thread(target=two.fit, args=(other,))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert one.dictionary_ == expected
    assert two.dictionary_.n_seen == 6_000
    assert np.array_equal(two.dictionary_.atoms, other[two.dictionary_.indices])


def test_dask_collections_are_parts(X, expected, workers):
    import dask.array as da
    import dask.dataframe as dd

    assert learn(n_leaves=None).fit(da.from_array(X, chunks=(1_000, 3))).dictionary_ == expected
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=12)
    found = learn(n_leaves=None).fit(frame).dictionary_
    assert found.n_seen == 12_000
    assert np.array_equal(found.atoms, X[found.indices])
    with pytest.raises(ValueError, match="all columns in one chunk"):
        learn().fit(da.from_array(X, chunks=(1_000, 2)))
    with pytest.raises(ValueError, match="rechunk it"):
        learn(n_leaves=5).fit(da.from_array(X, chunks=(1_000, 3)))


def test_files_are_read_where_the_workers_are(X, workers, tmp_path):
    for number, part in enumerate(np.array_split(X, 4)):
        pd.DataFrame(part, columns=list("abc")).to_parquet(tmp_path / f"{number}.parquet", row_group_size=3_000)
    source = squeak.rows(tmp_path, scale="standard")
    there = learn(n_leaves=4).fit(source).dictionary_
    assert there.n_seen == 12_000
    rows, _ = source.collect()
    assert np.array_equal(there.atoms, rows[there.indices])


def fit_within_a_task(X):
    from squeak.core.places import elsewhere

    return elsewhere(), learn().fit(X).dictionary_


def test_a_fit_within_a_task_runs_there(X, expected, client):
    """It would wait for tasks that wait for its worker: with one thread each, for ever."""
    for where, found in client.gather(client.map(fit_within_a_task, [X, X, X], pure=False)):
        assert where is None
        assert found == expected


def worker_pids(client):
    return list(client.run(os.getpid).values())


def run_and_kill(X, client, seed, during="leaves", victims=1, run=None):
    """Run while workers are killed at a random moment; return the result and whether the kill hit the run.

    The killer waits until a leaf is at work or, during merges, until only merges are left to do. It hit the run if
    that had not ended when the processes were gone.
    """
    rng = np.random.default_rng(seed)
    client.wait_for_workers(2, timeout=120)
    targets = [int(pid) for pid in rng.permutation(worker_pids(client))[:victims]]
    done = threading.Event()
    hit = []

    def ready(dask_scheduler):
        states = [task.state for key, task in dask_scheduler.tasks.items() if str(key).startswith("squeak-leaf")]
        if during == "leaves":
            return "processing" in states
        return bool(states) and set(states) <= {"memory", "released", "forgotten"}

    def killer():
        while not done.is_set() and not client.run_on_scheduler(ready):
            time.sleep(0.005)
        if not done.wait(rng.uniform(0.0, 0.05)):
            for pid in targets:
                os.kill(pid, signal.SIGKILL)
            hit.append(all(is_gone(pid) for pid in targets) and not done.is_set())

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        found = learn().fit(X).dictionary_ if run is None else run()
    finally:
        done.set()
        thread.join()
    return found, hit == [True]


def test_a_worker_killed_while_it_reads_changes_no_bit(X, workers, tmp_path):
    if not workers.pids():
        pytest.skip("the ids of its workers are not known")
    parts = [partial(np.asarray, part) for part in np.array_split(X, 4)]
    with use(Threads()):
        calm = learn(n_leaves=None).fit(parts).dictionary_
    parts[2], killer = deadly(parts[2](), tmp_path)  # the first is looked at before the run
    killer.start()
    found = learn(n_leaves=None).fit(parts).dictionary_
    killer.join()
    assert found == calm
    assert (tmp_path / "killed").exists()


@pytest.mark.parametrize("during", ["leaves", "merges"])
def test_a_killed_worker_changes_no_bit(during, X, expected, client):
    hits = 0
    for seed in range(5):
        found, hit = run_and_kill(X, client, seed, during)
        assert found == expected
        hits += hit
        if hits:
            break
    assert hits, "no kill hit a run"


def test_both_workers_killed_at_once_change_no_bit(X, expected, client, monkeypatch):
    monkeypatch.setenv("SQUEAK_WORKER_WAIT", "120")  # workers come back sooner; if not, there is an error, no hang
    for seed in range(5):
        found, hit = run_and_kill(X, client, seed, victims=2)
        assert found == expected
        if hit:
            break
    assert hit, "no kill hit a run"


@pytest.mark.slow
@pytest.mark.parametrize("during", ["leaves", "merges"])
def test_both_workers_killed_at_once_in_six_runs(during, X, expected, monkeypatch):
    monkeypatch.setenv("SQUEAK_WORKER_WAIT", "120")
    hits = 0
    with cluster_of(2) as client:
        for seed in range(12):
            found, hit = run_and_kill(X, client, seed, during, victims=2)
            assert found == expected
            hits += hit
            if hits == 6:
                break
    assert hits == 6


@pytest.mark.slow
def test_workers_that_do_not_come_back_end_a_run_with_a_clear_error(X, monkeypatch):
    """Without nannies a killed worker is gone for good."""
    monkeypatch.setenv("SQUEAK_WORKER_WAIT", "3")
    with cluster_of(0) as client:
        address = client.scheduler.address
        workers = [subprocess.Popen([*WORKER, address], stderr=subprocess.DEVNULL) for _ in range(2)]
        try:
            with pytest.raises(ClusterError, match=r"at work for 3 seconds \(0 are there\)"):
                run_and_kill(X, client, 0, victims=2)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()


@pytest.mark.slow
def test_both_workers_killed_at_once_do_not_change_sums(X, client, monkeypatch):
    monkeypatch.setenv("SQUEAK_WORKER_WAIT", "120")
    source = squeak.rows(np.tile(X, (40, 1)), target=np.tile(np.sin(X[:, 0]), 40))
    model = squeak.KernelRidge(RBF(1.0), alpha=1.0, dictionary=X[:200], solver="falkon", random_state=0)
    with use(Threads()):
        whole = model.fit(source).predict(X[:50])
    for delay in (0.2, 0.1, 0.05, 0.02, 0.0):
        client.wait_for_workers(2, timeout=120)
        pids, done, gone = worker_pids(client), threading.Event(), []

        def kill(delay=delay, pids=pids, done=done, gone=gone):
            if not done.wait(delay):
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
                gone.extend(is_gone(pid) and not done.is_set() for pid in pids)

        killer = threading.Thread(target=kill)
        killer.start()
        again = model.fit(source).predict(X[:50])
        done.set()
        killer.join()
        assert np.array_equal(again, whole)
        if gone == [True, True]:
            break
    assert gone == [True, True], "no kill fell into a run"


@pytest.mark.slow
@pytest.mark.parametrize("during", ["leaves", "merges"])
def test_killed_workers_change_no_bit_in_twenty_runs(during, X, expected):
    """A nanny itself may fail to bring its worker back after some kills; then a new cluster takes over."""
    hits, seed = 0, 100
    while hits < 20 and seed < 180:
        with cluster_of(2) as client:
            for _ in range(5):
                try:
                    client.wait_for_workers(2, timeout=20)
                except TimeoutError:
                    break
                seed += 1
                found, hit = run_and_kill(X, client, seed, during)
                assert found == expected
                hits += hit
    assert hits >= 20


@pytest.mark.slow
def test_a_thousand_leaves_end_with_no_lost_future(X, client):
    s = learn(n_leaves=1_000, leaf="exact").fit(X)
    assert len(s.nodes_) == 1_999
    assert s.dictionary_.n_seen == 12_000
    deadline = time.monotonic() + 20
    while client.futures and time.monotonic() < deadline:  # released in the background
        assert {future.status for future in client.futures.values()} <= {"finished", "pending"}
        time.sleep(0.05)
    assert client.futures == {}  # none is left behind, cancelled or lost


@pytest.mark.slow
def test_four_workers_give_the_bits_of_one_thread(X, expected):
    with cluster_of(4):
        assert learn().fit(X).dictionary_ == expected


def test_a_part_that_fails_is_named_and_finished_ones_are_kept(X, workers, tmp_path):
    parts = np.array_split(X, 6)
    marks = tmp_path / "marks"
    marks.mkdir()

    def loader(number, fails):
        def load():
            seen = len(list(marks.glob(f"{number}-*")))
            (marks / f"{number}-{seen}").touch()
            if seen < fails:
                time.sleep(1.0 if fails > 2 else 0.0)  # others end in the meantime
                raise OSError("the disk blinked")
            return parts[number]

        return load

    flaky = [loader(number, 2 if number == 3 else 0) for number in range(6)]
    calm = learn(n_leaves=None, retries=0).fit([loader(number, 0) for number in range(6)]).dictionary_
    for path in marks.iterdir():
        path.unlink()
    assert learn(n_leaves=None, retries=2).fit(flaky).dictionary_ == calm
    for path in marks.iterdir():
        path.unlink()
    broken = [loader(number, 1_000 if number == 3 else 0) for number in range(6)]
    with pytest.raises(PartError, match="part 3: the disk blinked"):
        learn(n_leaves=None, retries=1).fit(broken, checkpoint=tmp_path / "run")
    kept = {path.name for path in (tmp_path / "run").glob("node-*.sqk")}
    assert kept
    assert "node-3.sqk" not in kept
    for path in marks.iterdir():
        path.unlink()
    again = learn(n_leaves=None, retries=1).fit(
        [loader(number, 0) for number in range(6)], checkpoint=tmp_path / "run"
    )
    assert again.dictionary_ == calm
    read_again = {int(path.name.split("-")[0]) for path in marks.iterdir()} - {0}  # part 0 is looked at beforehand
    assert read_again.isdisjoint({int(name[5:-4]) for name in kept if int(name[5:-4]) < 6})
