"""Wherever the rows lie, in memory, in files or on a cluster's workers, learners find the same to rounding."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

import squeak
from squeak import (
    KernelBlend,
    KernelCCA,
    KernelKMeans,
    KernelPCA,
    LocalExperts,
    RandomFeatureClassifier,
    RandomFeatureRegressor,
    RandomFeatures,
)
from squeak.data import blocks as sources
from squeak.kernels import RBF
from squeak.places import Threads, use
from tests.engines import ENGINES

N = 2000


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((N, 3))
    X[: N // 2] += 3.0
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(N)


@pytest.fixture(scope="module")
def path(table, tmp_path_factory):
    X, y = table
    where = tmp_path_factory.mktemp("rows") / "rows.parquet"
    columns = {name: X[:, j] for j, name in enumerate("abc")}
    pq.write_table(pa.table({**columns, "y": y, "kind": np.where(y > 0, "up", "down")}), where, row_group_size=300)
    return where


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(sources, "LARGEST_BLOCK", 512)
    monkeypatch.setattr(sources, "SMALLEST_BLOCK", 16)


def cases(X):
    atoms = X[::40]
    sgd = {"n_features": 50, "batch_size": 37, "max_iter": 3, "shuffle": False, "random_state": 0}
    return {
        "pca": (KernelPCA(4, kernel=RBF(1.5), dictionary=atoms), None),
        "kmeans": (KernelKMeans(3, kernel=RBF(1.5), dictionary=atoms, tol=1e-4, random_state=0), None),
        "cca": (
            KernelCCA(
                2, kernel=RBF(1.5), kernel_y=RBF(1.0), dictionary=atoms, dictionary_y=np.linspace(-2, 2, 9)[:, None]
            ),
            "y",
        ),
        "features": (RandomFeatures(RBF(1.5), n_features=40, random_state=0), None),
        "regressor": (RandomFeatureRegressor(RBF("median"), **sgd), "y"),
        "classifier": (RandomFeatureClassifier(RBF(1.5), loss="logistic", **sgd), "kind"),
    }


NAMES = list(cases(np.zeros((80, 3))))


def outputs(model, X):
    method = "transform" if hasattr(model, "transform") else "decision_function"
    return model.predict(X) if isinstance(model, RandomFeatureRegressor) else getattr(model, method)(X)


def in_memory(name, table):
    X, y = table
    model, target = cases(X)[name]
    return clone(model).fit(X, {"y": y, "kind": np.where(y > 0, "up", "down"), None: None}[target])


def from_file(name, table, path):
    model, target = cases(table[0])[name]
    return clone(model).fit(squeak.rows(path, target=target, columns=["a", "b", "c"]))


def same(first, second, X):
    a, b = outputs(first, X), outputs(second, X)
    assert np.abs(a - b).max() <= 1e-8 * np.abs(a).max()


@pytest.mark.parametrize("name", NAMES)
def test_files_read_block_by_block_give_the_same(name, table, path, small_blocks, tmp_path):
    here, there = in_memory(name, table), from_file(name, table, path)
    same(here, there, table[0])
    there.save(tmp_path / "m.sqk")
    same(here, squeak.load(tmp_path / "m.sqk"), table[0])


@pytest.mark.parametrize("shuffle", [True, False])
def test_shuffled_rows_are_the_same_where_they_make_one_block(table, path, shuffle):
    X, y = table
    model = RandomFeatureRegressor(RBF("median"), n_features=50, max_iter=3, shuffle=shuffle, random_state=0)
    same(clone(model).fit(X, y), clone(model).fit(squeak.rows(path, target="y", columns=["a", "b", "c"])), X)


def test_a_shuffle_matters_for_sorted_rows(table):
    X, y = table
    order = np.argsort(y)
    made = RandomFeatureRegressor(RBF(1.5), n_features=100, max_iter=3, validation_fraction=0, random_state=0)
    shuffled, as_is = (clone(made).set_params(shuffle=s).fit(X[order], y[order]) for s in (True, False))
    assert shuffled.score(X, y) > as_is.score(X, y) + 0.05


def test_scaled_columns_are_scaled_again_for_new_rows(table, path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(10.0 * table[0] + 5.0, columns=list("abc"))
    source = squeak.rows(frame, target=table[1], scale="standard")
    model = RandomFeatureRegressor(RBF(1.0), n_features=60, random_state=0).fit(source)
    scaled = source.collect()[0]
    plain = RandomFeatureRegressor(RBF(1.0), n_features=60, random_state=0).fit(scaled, table[1])
    np.testing.assert_allclose(model.predict(frame), plain.predict(scaled), atol=1e-9)
    np.testing.assert_allclose(model.predict(source), plain.predict(scaled), atol=1e-9)
    with pytest.raises(ValueError, match="preprocessed in another way"):
        model.predict(squeak.rows(frame))


def test_rows_that_come_once_are_for_partial_fit(table):
    X, y = table
    for model, target in ((RandomFeatureRegressor(RBF(1.0)), True), (KernelCCA(1), True)):
        with pytest.raises(ValueError, match=r"once|iterator"):
            model.fit(squeak.rows(iter([(X, y)]), target=target))


@pytest.fixture(scope="module", params=list(ENGINES))
def workers(request):
    with ENGINES[request.param]() as workers:
        yield workers


def test_workers_give_the_same(table, path, workers):
    for name in set(NAMES) - {"features"}:
        same(in_memory(name, table), from_file(name, table, path), table[0])


def test_workers_fit_the_same_local_experts(table, workers):
    X, y = table
    blend = KernelBlend([RBF(1.5)], max_atoms=30, search_atoms=20, rounds=0)
    model = LocalExperts(blend, leaf_rows=700, split_kernel=RBF(1.5), random_state=0)
    there = clone(model).fit(X, y).predict(X)
    with use(Threads()):
        here = clone(model).fit(X, y)
    assert here.tree_.n_leaves > 3
    np.testing.assert_allclose(there, here.predict(X), atol=1e-9)


def test_workers_choose_the_same_automatic_model(table, workers):
    X, y = (part[:700] for part in table)
    model = squeak.AutoRegressor(leaf_rows=300, random_state=0)
    there = clone(model).fit(X, y)
    with use(Threads()):
        here = clone(model).fit(X, y)
    assert here.tree_.n_leaves > 1
    np.testing.assert_allclose(there.predict(X), here.predict(X), atol=1e-9)
