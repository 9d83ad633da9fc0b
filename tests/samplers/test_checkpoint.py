"""A run that is killed at any moment goes on from its checkpoint and ends in the same bits."""

import multiprocessing
import os
import signal
import stat
import time

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak import Kors, Squeak
from squeak.core import storage
from squeak.core.storage import CheckpointError
from squeak.kernels import RBF, PairwiseKernel
from squeak.samplers import checkpoint as checkpoints
from tests.samplers import runs

SAMPLERS = ("squeak", "max_atoms", "kors")


@pytest.fixture(scope="module")
def processes():
    """Return a maker of processes that have squeak imported already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.samplers.runs", "pyarrow.parquet", "pyarrow.compute"])
    return context


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return a folder of Parquet files: 60,000 rows in 30 row groups, some of them with missing values."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("data")
    for number in range(3):
        X = rng.standard_normal((20_000, 3))
        X[rng.choice(20_000, 50), 1] = np.nan
        frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(to=rng.choice(["x", "y", "z"], 20_000))
        frame.to_parquet(folder / f"{number}.parquet", row_group_size=2_000)
    return folder


@pytest.fixture(scope="module")
def never_killed(data, processes, tmp_path_factory):
    """Return, for each sampler, the saved bytes of a run that was never killed and the seconds it took."""
    folder = tmp_path_factory.mktemp("whole")
    found = {}
    for name in SAMPLERS:
        begin = time.monotonic()
        child = processes.Process(target=runs.run, args=(name, data, folder / f"{name}.sqk", folder / "r.sqk"))
        child.start()
        child.join(60)
        assert child.exitcode == 0
        found[name] = ((folder / "r.sqk").read_bytes(), time.monotonic() - begin)
    return found


@pytest.mark.parametrize("chain", range(6))
def test_sixty_kills_end_in_the_same_bits(chain, data, processes, never_killed, tmp_path):
    """Six runs, each killed ten times with SIGKILL: six times at a random moment, four times within a write."""
    name, rng = SAMPLERS[chain % 3], np.random.default_rng(chain)
    expected, seconds = never_killed[name]
    checkpoint, result = tmp_path / "run.sqk", tmp_path / "result.sqk"
    killed, rows_before = 0, []
    while killed < 10:
        within = killed % 5 in (1, 3)
        kill_at = (int(rng.integers(1, 4)), int(rng.integers(4))) if within else None
        child = processes.Process(target=runs.run, args=(name, data, checkpoint, result, kill_at))
        child.start()
        if not within:
            child.join(rng.uniform(0.02, 0.25 * seconds))
            if child.exitcode is None:
                os.kill(child.pid, signal.SIGKILL)
        child.join(60)
        if child.exitcode == 0:  # it was faster than the killer: begin anew, for the kills that are still due
            assert result.read_bytes() == expected
            checkpoint.unlink()
        else:
            assert child.exitcode == -signal.SIGKILL
            killed += 1
            if checkpoint.exists():
                rows_before.append(squeak.load(checkpoint).n_seen_)
    child = processes.Process(target=runs.run, args=(name, data, checkpoint, result))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert result.read_bytes() == expected
    assert len(set(rows_before)) > 2, "the kills did not fall on different moments"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".run.sqk.")] == []


def test_a_full_disk_gives_a_clear_error_and_leaves_the_last_good_checkpoint(data, processes, tmp_path):
    """A limit on the size of files is what a full disk is to a writer: the write fails half way."""
    checkpoint, report = tmp_path / "run.sqk", tmp_path / "report"
    child = processes.Process(target=runs.run_with_small_disk, args=("kors", data, checkpoint, report, 300_000))
    child.start()
    child.join(60)
    seen, message = report.read_text().split("\n")
    good = squeak.load(checkpoint).n_seen_
    assert message.startswith("CheckpointError: the checkpoint")
    assert f"could not be written at row {int(seen):,} (File too large)" in message
    assert f"the last good checkpoint is that of row {good:,}" in message
    assert 0 < good < int(seen)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report", "run.sqk"]


def source(X):
    return squeak.rows(X)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(runs.sources, "BLOCK_BYTES", 2**14)


@pytest.fixture
def X():
    return np.random.default_rng(1).standard_normal((6_000, 2))


def stop_at(monkeypatch, rows, error):
    """Make a run stop when its source has given so many rows."""
    keep = checkpoints.Run.keep

    def stopping(self, state, history, cursor):
        keep(self, state, history, cursor)
        if cursor.kept >= rows:
            raise error

    monkeypatch.setattr(checkpoints.Run, "keep", stopping)
    return lambda: monkeypatch.setattr(checkpoints.Run, "keep", keep)


def learn(**changes):
    return Squeak(**{"kernel": RBF(1.0), "ridge": 1.0, "random_state": 0, **changes})


def unfinished(X, path, monkeypatch, **changes):
    restore = stop_at(monkeypatch, 2_500, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        learn(**changes).fit(source(X), checkpoint=path, every=1e9)
    restore()


def test_ctrl_c_leaves_a_checkpoint_even_when_none_was_due(X, small_blocks, tmp_path, monkeypatch):
    unfinished(X, tmp_path / "run.sqk", monkeypatch)
    assert squeak.load(tmp_path / "run.sqk").n_seen_ >= 2_500
    whole = learn().fit(source(X))
    again = Squeak.resume(tmp_path / "run.sqk", X)
    assert again.dictionary_ == whole.dictionary_
    assert again.history_ == whole.history_
    assert Squeak.resume(tmp_path / "run.sqk").dictionary_ == whole.dictionary_  # it has ended: no rows are needed


def test_rows_that_cannot_be_read_again_are_given_again(X, small_blocks, tmp_path, monkeypatch):
    path = tmp_path / "run.sqk"
    blocks = np.array_split(X, 7)
    restore = stop_at(monkeypatch, 2_500, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        learn().fit(squeak.rows(iter(blocks)), checkpoint=path, every=0)
    restore()
    with pytest.raises(ValueError, match="did not come from files; pass source="):
        Squeak.resume(path)
    with pytest.raises(ValueError, match="other data"):
        Squeak.resume(path, squeak.rows(iter([block + 1.0 for block in blocks])))
    assert Squeak.resume(path, squeak.rows(iter(blocks))).dictionary_ == learn().fit(source(X)).dictionary_


OTHER = {
    "ridge": ({"ridge": 2.0}, r"another ridge \(1.0; now 2.0\)"),
    "kernel": ({"kernel": RBF(2.0)}, r"another kernel \(RBF\(length_scale=1.0\); now RBF\(length_scale=2.0\)\)"),
    "oversampling": ({"oversampling": 5}, "another oversampling"),
    "random state": ({"random_state": 1}, "another random_state"),
}


@pytest.mark.parametrize("what", OTHER)
def test_a_checkpoint_of_other_parameters_is_refused(what, X, small_blocks, tmp_path, monkeypatch):
    changes, message = OTHER[what]
    unfinished(X, tmp_path / "run.sqk", monkeypatch)
    before = (tmp_path / "run.sqk").read_bytes()
    with pytest.raises(ValueError, match=message):
        learn(**changes).fit(source(X), checkpoint=tmp_path / "run.sqk")
    assert (tmp_path / "run.sqk").read_bytes() == before
    assert learn().fit(source(X), checkpoint=tmp_path / "run.sqk").dictionary_ == learn().fit(source(X)).dictionary_


def test_a_checkpoint_of_other_data_or_another_class_is_refused(X, small_blocks, tmp_path, monkeypatch):
    path = tmp_path / "run.sqk"
    unfinished(X, path, monkeypatch)
    for rows in (X[:-1], X + 1e-9, X.astype(np.float32), squeak.rows(X, on_bad_rows="skip")):
        with pytest.raises(ValueError, match="a run over other data, or over the same read in another way"):
            Squeak.resume(path, rows)
    with pytest.raises(TypeError, match=r"holds a run of Squeak: use Squeak\.resume"):
        Kors.resume(path, X)
    with pytest.raises(ValueError, match="another sampler"):
        Kors(kernel=RBF(1.0), ridge=1.0, random_state=0).fit(source(X), checkpoint=path)
    squeak.save(learn().fit(X), path)
    with pytest.raises(ValueError, match="a saved sampler, not a checkpoint"):
        Squeak.resume(path, X)
    learn().fit(X).dictionary_.save(path)
    with pytest.raises(storage.StorageError, match="holds a 'dictionary'"):
        learn().fit(source(X), checkpoint=path)
    assert isinstance(squeak.load(path), squeak.Dictionary)


def test_a_path_that_cannot_be_written_is_refused_before_any_row_is_read(X, tmp_path):
    def never():
        raise AssertionError("a row was read")
        yield

    fresh = squeak.rows(lambda: iter([X]))
    fresh.reader._make = never
    for path, kind, message in (
        (tmp_path / "no" / "run.sqk", FileNotFoundError, "the folder .*no does not exist"),
        (tmp_path, IsADirectoryError, "is a folder; name a file"),
    ):
        with pytest.raises(kind, match=message):
            learn().fit(fresh, checkpoint=path)
    with pytest.raises(ValueError, match="every must be a number of seconds"):
        learn().fit(fresh, checkpoint=tmp_path / "run.sqk", every=-1)


def test_a_folder_that_becomes_unwritable_costs_no_rows(X, small_blocks, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    path = tmp_path / "run.sqk"
    restore = stop_at(monkeypatch, 2_500, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        learn().fit(source(X), checkpoint=path, every=0)
    restore()
    good = squeak.load(path).n_seen_
    sampler = learn()
    with monkeypatch.context() as patch:
        patch.setattr(storage, "write", full)
        with pytest.raises(
            CheckpointError, match=r"No space left on device\); the last good checkpoint is that of row"
        ):
            sampler.fit(source(X), checkpoint=path, every=0)
    assert squeak.load(path).n_seen_ == good < sampler.n_seen_


def test_a_bad_row_far_along_leaves_the_checkpoint_before_it(X, small_blocks, tmp_path):
    X[5_000, 1] = np.nan
    sampler = learn()
    with pytest.raises(ValueError, match="row 5000: column 1 is nan"):
        sampler.fit(source(X), checkpoint=tmp_path / "run.sqk", every=0)
    assert not hasattr(sampler, "_state")
    assert 4_000 <= squeak.load(tmp_path / "run.sqk").n_seen_ <= 5_000


def test_a_finished_run_is_begun_anew_by_fit(X, tmp_path):
    first = learn().fit(X, checkpoint=tmp_path / "run.sqk").dictionary_
    assert learn().fit(X, checkpoint=tmp_path / "run.sqk").dictionary_ == first
    other = learn(ridge=2.0).fit(X, checkpoint=tmp_path / "run.sqk").dictionary_
    assert Squeak.resume(tmp_path / "run.sqk").dictionary_ == other


def inner(a, b):
    return float(a @ b)


def test_a_kernel_that_is_code_is_given_again_and_a_schedule_refused(X, small_blocks, tmp_path, monkeypatch):
    path, few = tmp_path / "run.sqk", X[:2_000]
    kernel = PairwiseKernel(inner)
    restore = stop_at(monkeypatch, 1_024, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        learn(kernel=kernel).fit(source(few), checkpoint=path, every=0)
    restore()
    with pytest.raises(storage.NotStoredError, match=r"its kernel .*inner.* is code and is not stored; pass it"):
        Squeak.resume(path, few)
    whole = learn(kernel=kernel).fit(source(few)).dictionary_
    assert Squeak.resume(path, few, kernel=kernel).dictionary_ == whole
    with pytest.raises(TypeError, match="ridge is code, which is never stored"):
        learn(ridge=lambda n: 1.0).fit(source(X), checkpoint=tmp_path / "other.sqk", every=0)


@pytest.mark.parametrize("kind", ["parquet", "csv", "npy"])
def test_files_are_opened_again_and_changed_files_refused(kind, X, small_blocks, tmp_path, monkeypatch):
    data, path = tmp_path / f"x.{kind}", tmp_path / "run.sqk"

    def write(values):
        frame = pd.DataFrame({"a": values[:, 0], "b": values[:, 1], "t": np.arange(len(values)) % 3})
        if kind == "npy":
            np.save(data, frame.to_numpy())
        else:
            frame.to_parquet(data) if kind == "parquet" else frame.to_csv(data, index=False)

    write(X)
    opened = squeak.rows(data, target=2 if kind == "npy" else "t", scale="standard")
    restore = stop_at(monkeypatch, 2_500, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        learn().fit(opened, checkpoint=path, every=0)
    restore()
    changed = X.copy()
    changed[3_000, 1] += 5.0
    write(changed)
    if kind != "npy":  # of an array, 64 rows are looked at
        with pytest.raises(ValueError, match="a run over other data"):
            Squeak.resume(path)
    write(X)
    monkeypatch.chdir(tmp_path.parent)
    opened = squeak.rows(data, target=2 if kind == "npy" else "t", scale="standard")
    assert Squeak.resume(path).dictionary_ == learn().fit(opened).dictionary_


def test_a_finished_run_of_the_same_data_is_not_run_again(X, small_blocks, tmp_path, monkeypatch):
    first = learn().fit(X, checkpoint=tmp_path / "run.sqk").dictionary_
    monkeypatch.setattr(Squeak, "_absorb", lambda *_: pytest.fail("a row was read again"))
    assert learn().fit(X, checkpoint=tmp_path / "run.sqk").dictionary_ == first


def test_with_and_without_a_checkpoint_the_same_rows_are_read(X, tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b"])
    assert learn().fit(frame, checkpoint=tmp_path / "a.sqk").dictionary_ == learn().fit(frame).dictionary_
    for bad in (frame.assign(c="x"), "x.parquet", iter([X])):
        with pytest.raises(TypeError) as plain:
            learn().fit(bad)
        with pytest.raises(TypeError) as kept:
            learn().fit(bad, checkpoint=tmp_path / "b.sqk")
        assert str(plain.value) == str(kept.value)
    with pytest.raises(TypeError, match="a run over objects can have no checkpoint"):
        learn(kernel=PairwiseKernel(inner)).fit(list("abc"), checkpoint=tmp_path / "c.sqk")


def test_a_run_that_fails_after_going_on_leaves_the_sampler_as_it_was(X, small_blocks, tmp_path):
    sampler = learn().fit(X[:100])
    before = sampler.dictionary_
    bad = X.copy()
    bad[5_500, 0] = np.inf
    for _ in range(2):
        with pytest.raises(ValueError, match="row 5500: column 0 is inf"):
            sampler.fit(source(bad), checkpoint=tmp_path / "run.sqk", every=0)
        assert sampler.dictionary_ == before


def test_every_write_reaches_the_disk_file_and_folder(X, tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(
        storage.os, "fsync", lambda handle: (synced.append(os.fstat(handle).st_mode), fsync(handle))
    )
    learn().fit(X).dictionary_.save(tmp_path / "d.sqk")
    assert [stat.S_ISDIR(mode) for mode in synced] == [False, True]


def test_a_progress_bar_changes_no_byte_of_what_is_saved(tmp_path):
    X = np.random.default_rng(0).standard_normal((500, 2))
    for verbose in (0, 1):
        s = Squeak(kernel=RBF(1.0), ridge=1.0, random_state=0, verbose=verbose).fit(X)
        s.dictionary_.save(tmp_path / f"{verbose}.sqk")
    assert (tmp_path / "0.sqk").read_bytes() == (tmp_path / "1.sqk").read_bytes()
