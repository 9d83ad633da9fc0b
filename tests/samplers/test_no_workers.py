"""A Dask cluster without workers: what waits for it goes on when one comes, and else ends with a clear error."""

import threading
from contextlib import contextmanager

import numpy as np
import pytest

import squeak
from squeak import Disqueak, KernelKMeans, KernelRidge
from squeak.core import dask_cluster
from squeak.graphs import DistributedSparsifier
from squeak.kernels import RBF
from squeak.places import ClusterError

distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.xdist_group("cluster"),
]

X = np.random.default_rng(0).standard_normal((2_000, 2))
Y = np.sin(X[:, 0])


def dictionary():
    return Disqueak(RBF(1.0), ridge=5.0, n_leaves=4, random_state=0).fit(X).dictionary_.weights


def sparsifier():
    clique = np.ones((40, 40)) - np.eye(40)
    return DistributedSparsifier(4.0, n_leaves=3, random_state=0).fit(clique).sample_.weights


def ridge():
    model = KernelRidge(RBF(1.0), alpha=1.0, dictionary=X[:50], random_state=0)
    return model.fit(squeak.rows(X, target=Y)).predict(X[:20])


def falkon():
    model = KernelRidge(RBF(1.0), alpha=1.0, dictionary=X[:50], solver="falkon", random_state=0)
    return model.fit(squeak.rows(X, target=Y)).predict(X[:20])


def centres():
    return KernelKMeans(3, kernel=RBF(1.0), max_atoms=20, random_state=0).fit(squeak.rows(X)).predict(X[:100])


WAYS = {way.__name__: way for way in (dictionary, sparsifier, ridge, falkon, centres)}


@contextmanager
def empty_cluster():
    """Have a client of a cluster on loopback that has no workers yet; they will be threads of this process."""
    with (
        distributed.LocalCluster(
            n_workers=0, processes=False, protocol="tcp://", host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster),
    ):
        yield cluster


@pytest.fixture(scope="module")
def alone():
    """Return what comes out without a cluster."""
    return {name: way() for name, way in WAYS.items()}


@pytest.fixture(scope="module")
def empty(alone):
    with empty_cluster() as cluster:
        yield cluster


@pytest.mark.parametrize("name", WAYS)
def test_without_workers_there_is_a_clear_error_after_the_stated_time(name, empty, monkeypatch):
    monkeypatch.setenv("SQUEAK_WORKER_WAIT", "0.3")
    words = (
        r"no worker of the Dask cluster has been at work for 0.3 seconds \(0 are there\), and \d+ of \d+ results"
    )
    with pytest.raises(ClusterError, match=words):
        WAYS[name]()


def test_a_run_goes_on_when_a_worker_comes(alone, monkeypatch):
    monkeypatch.setenv("SQUEAK_WORKER_WAIT", "60")
    with empty_cluster() as cluster:
        late = threading.Timer(0.5, lambda: cluster.scale(1))
        late.start()
        assert np.array_equal(dictionary(), alone["dictionary"])
        late.join()
        assert np.array_equal(sparsifier(), alone["sparsifier"])
        for name in ("ridge", "falkon", "centres"):
            np.testing.assert_allclose(WAYS[name](), alone[name], rtol=1e-9)


@pytest.mark.parametrize("words", ["soon", "0", "-1", "nan"])
def test_the_stated_time_is_a_positive_number_of_seconds(words, monkeypatch):
    monkeypatch.setenv("SQUEAK_WORKER_WAIT", words)
    with pytest.raises(ValueError, match="SQUEAK_WORKER_WAIT must be a positive number of seconds"):
        dask_cluster.worker_wait()
    monkeypatch.delenv("SQUEAK_WORKER_WAIT")
    assert dask_cluster.worker_wait() == dask_cluster.WORKER_WAIT == 300
