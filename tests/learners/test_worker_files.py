"""Rows that only workers can read: all is learned and predicted there, and nothing of their size comes back."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak import AutoRegressor, Disqueak, KernelClassifier, KernelKMeans, KernelPCA, KernelRidge, LocalExperts
from squeak.graphs import DistributedSparsifier
from squeak.kernels import RBF
from squeak.places import use
from tests.engines import cluster_of
from tests.learners.test_travelling import Counting, answers

dask = pytest.importorskip("dask")
da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")

PARTS, ROWS, M = 8, 600, 20
WORKER = "only-workers-see-it"


class Workers(Counting):
    """A cluster of two threads with a name of their own."""

    def __init__(self):
        super().__init__()
        self.make = lambda: ThreadPoolExecutor(2, thread_name_prefix=WORKER)


def made(part):
    rng = np.random.default_rng(part)
    X = rng.standard_normal((ROWS, 3))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(ROWS)
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y, "kind": np.where(y > 0, "up", "down")})


def hidden(part):
    """Return rows of a file that this program does not have."""
    if not threading.current_thread().name.startswith(WORKER):
        raise FileNotFoundError(f"{part}.parquet is not here")
    return made(part)


def collection(load, target, form):
    """Return the rows as a source: columns a, b, c and the target."""
    wanted = ["a", "b", "c", *([] if target is None else [target])]
    if form == "frame":
        frame = dd.from_map(lambda part: load(part)[wanted], range(PARTS), meta=made(0)[wanted][:0])
        return squeak.rows(frame, target=target)

    def numbers(part):
        found = load(part)[wanted]
        return found.assign(kind=found["kind"] == "up").to_numpy(float) if target == "kind" else found.to_numpy()

    chunks = [da.from_delayed(dask.delayed(numbers)(part), (ROWS, len(wanted)), float) for part in range(PARTS)]
    return squeak.rows(da.concatenate(chunks), target=None if target is None else 3)


def models():
    atoms = made(0)[["a", "b", "c"]].to_numpy()[:M]
    given = {"kernel": RBF(1.0), "dictionary": atoms}
    return {
        "ridge": ("y", KernelRidge(alpha=0.5, **given)),
        "falkon": ("y", KernelRidge(alpha=0.5, solver="falkon", random_state=0, **given)),
        "own atoms": ("y", KernelRidge(RBF("median"), alpha=0.5, max_atoms=M, random_state=0)),
        "classes": ("kind", KernelClassifier(alpha=0.5, random_state=0, **given)),
        "logistic": ("kind", KernelClassifier(alpha=0.5, loss="logistic", tol=1e-2, random_state=0, **given)),
        "k-means": (None, KernelKMeans(3, n_init=1, random_state=0, **given)),
        "PCA": (None, KernelPCA(3, **given)),
    }


@pytest.mark.parametrize("form", ["frame", "array"])
@pytest.mark.parametrize("name", models())
def test_learners_need_not_see_the_files(name, form, two_blas_threads):
    target, model = models()[name]
    new = made(99)[["a", "b", "c"]]
    new = new if form == "frame" else new.to_numpy()
    expected = None
    if name != "own atoms":  # here they are chosen in one stream, there by merging
        expected = answers(model.fit(collection(made, target, form)), new)
    with use(Workers()) as there:
        found = answers(model.fit(collection(hidden, target, form)), new)
    assert expected is None or np.array_equal(found, expected)
    most = 2 * ROWS if name in ("k-means", "PCA") else 4_000  # the first partition; for intervals or calibration
    assert there.largest < most * 100
    assert max(there.sent) < 20_000  # a partition's own graph, or features


@pytest.mark.parametrize("form", ["frame", "array"])
def test_dictionaries_need_not_see_the_files(form):
    columns = ["a", "b", "c"]

    def rows(load):
        if form == "frame":
            return dd.from_map(lambda part: load(part)[columns], range(PARTS), meta=made(0)[columns][:0])
        parts = [dask.delayed(lambda part: load(part)[columns].to_numpy())(part) for part in range(PARTS)]
        return da.concatenate([da.from_delayed(part, (np.nan, 3), float) for part in parts])

    learn = Disqueak(RBF(1.0), max_atoms=M, random_state=0)
    here = learn.fit(rows(made)).dictionary_
    with use(Workers()) as there:
        assert learn.fit(rows(hidden)).dictionary_ == here
    assert there.largest < 2 * ROWS * 100
    assert max(there.sent) < 20_000


def test_sparsifiers_need_not_see_the_files():
    def edges(load):
        def numbers(part):
            values = load(part)[["a", "b"]].to_numpy()
            ends = np.argsort(np.argsort(values, axis=0), axis=0) % 50
            return pd.DataFrame({"u": ends[:, 0], "v": ends[:, 1] + 50})

        return dd.from_map(numbers, range(PARTS), meta=pd.DataFrame({"u": [0], "v": [0]})[:0])

    learn = DistributedSparsifier(oversampling=5, n_nodes=100, random_state=0)
    here = learn.fit(edges(made)).sparsifier_
    with use(Workers()):
        assert abs(learn.fit(edges(hidden)).sparsifier_ - here).max() == 0.0


@pytest.mark.parametrize("name", ["experts", "auto"])
def test_what_chooses_in_memory_gets_its_rows_from_the_workers(name):
    model = {
        "experts": LocalExperts(KernelRidge(RBF(1.0), alpha=0.5, max_atoms=M), leaf_rows=1_500, random_state=0),
        "auto": AutoRegressor(max_atoms=M, trees=False, random_state=0),
    }[name]
    with use(Workers()):
        model.fit(collection(hidden, "y", "frame"))
    new = made(99)
    assert np.corrcoef(model.predict(new[["a", "b", "c"]]), new["y"])[0, 1] > 0.9


def test_errors_of_the_users_own_code_are_told_as_they_are():
    def broken(part):
        raise KeyError("distance")

    frame = dd.from_map(broken, range(2), meta=made(0)[["a", "b"]][:0])
    with pytest.raises(KeyError, match="distance"):
        squeak.rows(frame).collect()


def test_a_partition_takes_its_own_graph_alone():
    whole = pd.concat([made(part) for part in range(PARTS)])[["a", "b", "c"]]
    for given in (dd.from_pandas(whole, npartitions=PARTS), da.from_array(whole.to_numpy(), chunks=(ROWS, 3))):
        with use(Workers()) as there:
            KernelPCA(2, kernel=RBF(1.0), dictionary=whole.to_numpy()[:M]).fit(squeak.rows(given))
        assert max(there.sent) < 3 * 8 * ROWS * 3  # of the eight


@pytest.mark.parametrize("do", ["fit", "predict", "transform", "partial_fit", "y"])
def test_collections_that_would_come_here_whole_are_refused(do):
    X = made(0)[["a", "b", "c"]]
    many, one = (dd.from_pandas(X, npartitions=parts) for parts in (3, 1))
    model = KernelRidge(RBF(1.0), max_atoms=M, random_state=0).fit(X, X["a"])
    ways = {
        "fit": lambda rows: KernelRidge(RBF(1.0), max_atoms=M).fit(rows, X["a"]),
        "predict": model.predict,
        "transform": KernelPCA(2, kernel=RBF(1.0), max_atoms=M).fit(X).transform,
        "partial_fit": squeak.Squeak(RBF(1.0), max_atoms=M).partial_fit,
        "y": lambda rows: KernelRidge(RBF(1.0), max_atoms=M).fit(X, rows["a"]),
    }
    with pytest.raises(TypeError, match=r"squeak\.rows\(collection\)"):
        ways[do](many)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # scikit-learn reads no names of columns from it
        ways[do](one)


def test_real_workers_read_files_that_are_theirs_and_write_predictions(tmp_path, monkeypatch):
    theirs, out = tmp_path / "theirs", tmp_path / "out"
    theirs.mkdir()
    for part in range(4):
        made(part).to_parquet(theirs / f"{part}.parquet")

    def load(part):
        from distributed import get_worker

        get_worker()  # raises where there is none
        return pd.read_parquet(theirs / f"{part}.parquet")

    frame = dd.from_map(load, range(4), meta=made(0)[:0])
    with pytest.raises(ValueError, match="worker"):
        frame.partitions[0].compute(scheduler="sync")
    with cluster_of(2):
        rows = frame.drop(columns="kind")
        model = KernelRidge(RBF(1.0), alpha=0.5, max_atoms=50, random_state=0).fit(squeak.rows(rows, target="y"))
        meta = made(0)[:0].assign(predicted=0.0)
        rows = frame.map_partitions(lambda part: part.assign(predicted=model.predict(part)), meta=meta)
        rows.to_parquet(out)
    written = pd.read_parquet(out)
    assert len(written) == 4 * ROWS
    assert np.corrcoef(written["predicted"], written["y"])[0, 1] > 0.95
