"""What travels between here and the workers: parts alone, sums of the size of the atoms, and nothing of size n."""

import pickle
import time
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from joblib import wrap_non_picklable_objects
from threadpoolctl import threadpool_info

import squeak
from squeak import KernelClassifier, KernelKMeans, KernelPCA, KernelRidge
from squeak.data import readers
from squeak.kernels import RBF
from squeak.learners import cached
from squeak.learners.data import ArrayTraining, SourceTraining
from squeak.places import Cluster, Executors, use

N, M = 6_000, 40


@pytest.fixture(scope="module")
def frame():
    X = np.random.default_rng(0).standard_normal((N, 3))
    y = np.sin(X[:, 0]) + X[:, 1]
    return pd.DataFrame(X, columns=list("abc")).assign(y=y, kind=np.where(y > 0, "up", "no"))


def dumps(given):
    """Return what travels, closures too."""
    return pickle.dumps(wrap_non_picklable_objects(given))


class Counting(Executors):
    """A cluster of two threads that keeps results, and counts the bytes that would travel to it and back."""

    keeps = True

    def __init__(self):
        super().__init__(lambda: ThreadPoolExecutor(2))
        self.sent, self.got, self.largest = [], 0, 0

    def _packed(self, function, values):
        return lambda: function(*values)

    def submit(self, function, *args, name="task"):
        own = [arg for arg in args if not isinstance(arg, Future | list)]
        self.sent.append(len(dumps((function, own))))
        return super().submit(function, *args, name=name)

    def gathered(self, tasks):
        found = super().gathered(tasks)
        sizes = [len(pickle.dumps(one)) for one in found]
        self.got, self.largest = self.got + sum(sizes), max(self.largest, *sizes)
        return found


def models(atoms):
    falkon = {"alpha": 0.5, "dictionary": atoms, "solver": "falkon", "random_state": 0}
    return {
        "ridge": ("y", KernelRidge(RBF(1.0), alpha=0.5, dictionary=atoms)),
        "falkon": ("y", KernelRidge(RBF(1.0), **falkon)),
        "stopped": ("y", KernelRidge(RBF(1.0), max_iter=3, **falkon)),
        "classes": ("kind", KernelClassifier(RBF(1.0), alpha=0.5, dictionary=atoms)),
        "logistic": ("kind", KernelClassifier(RBF(1.0), alpha=0.5, dictionary=atoms, loss="logistic")),
        "k-means": (None, KernelKMeans(3, kernel=RBF(1.0), dictionary=atoms, random_state=0)),
        "PCA": (None, KernelPCA(3, kernel=RBF(1.0), dictionary=atoms)),
    }


def source_of(given, target):
    return squeak.rows(given, target=target, drop=[name for name in ("y", "kind") if name != target])


def answers(model, X):
    names = ("decision_function", "predict" if isinstance(model, KernelRidge) else "transform")
    return getattr(model, next(name for name in names if hasattr(model, name)))(X)


@pytest.fixture
def many_parts(monkeypatch):
    monkeypatch.setattr(readers, "PART", 500)


@pytest.mark.parametrize("name", models(None))
def test_nothing_of_the_size_of_the_rows_comes_back(name, frame, many_parts, two_blas_threads):
    X = frame[["a", "b", "c"]]
    target, model = models(X[:M].to_numpy())[name]
    alone = answers(model.fit(source_of(frame, target)), X)
    with use(Counting()) as there:
        found = answers(model.fit(source_of(frame, target)), X)
    assert np.array_equal(found, alone)
    drawn = 4_000 if name in ("classes", "logistic") else 0  # rows for the calibration, of n as many as these
    assert there.largest < 16 * 8 * M * M + drawn * 100
    assert max(there.sent) < 500 * 60 + 16 * 8 * M * M  # a part alone, or features


def test_blas_has_one_thread_wherever_sums_are_formed(frame, many_parts, two_blas_threads):
    """Products of many numbers are rounded by how many threads share them."""

    def threads(X, pair):
        return (np.array([entry["num_threads"] for entry in threadpool_info() if entry["user_api"] == "blas"]),)

    X, y = frame[["a", "b", "c"]].to_numpy(), frame["y"].to_numpy()
    source = squeak.rows(X, target=y)
    assert np.all(ArrayTraining(X, y).sum(threads)[0] == 1)
    assert np.all(SourceTraining(source).sum(threads)[0] == source.n_parts)
    with use(Counting()) as there:
        workers = SourceTraining(source, client=there)
        assert np.all(workers.sum(threads)[0] == source.n_parts)
        assert np.all(workers.persist().sum(threads)[0] == source.n_parts)


def test_a_pass_of_falkon_moves_as_much_as_the_atoms_have_numbers(frame, many_parts, monkeypatch):
    """Kernel values stay with the workers, features travel once: a pass sends a vector, and gets one."""
    computed = []
    real = cached.KernelValues.__init__
    monkeypatch.setattr(
        cached.KernelValues,
        "__init__",
        lambda self, *args, **kwargs: computed.append(len(args[0])) or real(self, *args, **kwargs),
    )
    model = KernelRidge(RBF(1.0), alpha=0.5, dictionary=frame[["a", "b", "c"]][:M].to_numpy(), solver="falkon")
    passes = {}
    for most in (3, 13):
        with use(Counting()) as there:
            model.set_params(max_iter=most, tol=1e-30).fit(source_of(frame, "y"))
        passes[most] = sum(there.sent) + there.got
    assert sum(computed) == 2 * N  # once a fit
    a_pass = (passes[13] - passes[3]) / 10
    parts = N // 500
    assert a_pass < 8 * M * 4 + 900 * parts  # a vector each way, and words for every task
    assert a_pass < 8 * M * M  # less than the features


def test_a_budget_says_how_many_kernel_values_workers_keep(frame, many_parts):
    X = frame[["a", "b", "c"]]
    atoms = X[:M].to_numpy()
    model = KernelRidge(RBF(1.0), alpha=0.5, dictionary=atoms, solver="falkon", random_state=0)
    found = []
    for budget in (0.0, 8.0 * M * 1_000, None):
        with use(Counting()):
            found.append(model.set_params(memory_budget=budget).fit(source_of(frame, "y")).dual_coef_)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


@pytest.mark.parametrize("form", ["array", "CSR", "table", "file", "file by columns"])
def test_a_part_travels_alone(form, frame, many_parts, tmp_path):
    import scipy.sparse as sp

    X, y = frame[["a", "b", "c"]].to_numpy(), frame["y"].to_numpy()
    file = tmp_path / "rows.npy"
    np.save(file, np.asfortranarray(X) if form == "file by columns" else np.ascontiguousarray(X))
    given = {"array": X, "CSR": sp.csr_array(X), "table": frame[["a", "b", "c"]]}.get(form, file)
    source = squeak.rows(given, target=y, **({"scale": "standard"} if form == "table" else {}))
    for first, stop in ((0, 1), (3, 5), (11, 12)):
        sent = dumps(source.alone(first, stop))
        assert len(sent) < 60 * 500 * (stop - first) + 4_000
        there = pickle.loads(pickle.dumps(source.alone(first, stop)))
        for here, found in zip(source.part_pairs(first, stop), there.part_pairs(first, stop), strict=True):
            assert abs(here.X - found.X).max() == 0.0
            assert np.array_equal(here.y, found.y)
    shuffled = squeak.rows(given, target=y, shuffle=True, random_state=0)
    for here, found in zip(shuffled.part_blocks(2, 5), shuffled.alone(2, 5).part_blocks(2, 5), strict=True):
        assert abs(here - found).max() == 0.0


def test_dask_collections_are_sources(frame):
    distributed = pytest.importorskip("distributed")
    import dask.array as da
    import dask.dataframe as dd

    X = frame[["a", "b", "c"]]
    given = models(X[:M].to_numpy())
    given = {name: given[name] for name in ("ridge", "classes")}
    whole = {name: answers(model.fit(source_of(frame, target)), X) for name, (target, model) in given.items()}
    array = da.from_array(frame[["a", "b", "c", "y"]].to_numpy(), chunks=(1_500, 4))
    collection = dd.from_pandas(frame, npartitions=3)
    local = distributed.LocalCluster(
        n_workers=1, processes=False, dashboard_address="127.0.0.1:0", host="127.0.0.1", protocol="tcp://"
    )
    with local, distributed.Client(local):
        for name in whole:
            target, model = given[name]
            found = answers(model.fit(source_of(collection, target)), X)
            assert np.abs(found - whole[name]).max() <= 1e-6 * np.abs(whole[name]).max(), name
        model = given["ridge"][1].fit(squeak.rows(array, target=3))
        np.testing.assert_allclose(model.predict(X.to_numpy()), whole["ridge"], rtol=1e-6)
        for held in (source_of(collection.persist(), "y"), squeak.rows(array.persist(), target=3)):
            with pytest.raises(ValueError, match="as it was before persist"):
                given["ridge"][1].fit(held)
    assert squeak.rows(array).n_rows == N


@pytest.mark.parametrize("name", ["ridge", "classes"])
def test_a_partition_without_rows_changes_nothing(name, frame):
    dask, dd = pytest.importorskip("dask"), pytest.importorskip("dask.dataframe")
    small = frame[:900]

    def fitted(*edges):
        parts = [dask.delayed(small[first:stop]) for first, stop in pairwise(edges)]
        collection = dd.from_delayed(parts, meta=small[:0])
        learner = {"ridge": KernelRidge, "classes": KernelClassifier}[name]
        model = learner(RBF(1.0), alpha=0.5, dictionary=small[["a", "b", "c"]][:M].to_numpy())
        return model.fit(source_of(collection, "y" if name == "ridge" else "kind")).dual_coef_

    with use(Executors(lambda: ThreadPoolExecutor(2))):
        np.testing.assert_allclose(fitted(0, 300, 300, 900), fitted(0, 300, 900), rtol=1e-6)


KEPT = []


def watching(X, pair):
    """Take down how many sums of parts are with the worker, which is a thread of this process."""
    from distributed import get_worker

    time.sleep(0.03)  # longer than it takes to submit a task
    KEPT.append(sum("squeak-task" in str(key) for key in get_worker().data))
    return (X.sum(axis=0),)


def test_a_dask_worker_keeps_few_of_the_parts_sums(frame, monkeypatch):
    """Sums are added as they come, and nobody here stands for those that were added: of 60, few are kept."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(readers, "PART", 100)
    KEPT.clear()
    workers = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**workers) as local, distributed.Client(local) as client:
        data = SourceTraining(squeak.rows(frame[["a", "b", "c"]]), client=Cluster(client))
        [total] = data.sum(watching)
    np.testing.assert_allclose(total, frame[["a", "b", "c"]].to_numpy().sum(axis=0))
    assert len(KEPT) == 60
    assert max(KEPT) < 30  # fewer than ten as a rule, more where the machine is busy
