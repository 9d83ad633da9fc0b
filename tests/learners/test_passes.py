"""How often a fit reads its rows, counted in row groups; and one mean of the targets, however the rows come."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import squeak
from squeak import KernelClassifier, KernelRidge, KernelRidgeCV
from squeak.data.parquet import ParquetReader
from squeak.kernels import RBF
from tests.commands import command

GROUPS = 5


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (1000, 3))
    drift = np.linspace(0, 20, 1000)
    return X, np.sin(2 * X[:, 0]) + drift + 1000.0, np.where(np.hypot(X[:, 0], X[:, 1]) < 1.2, "in", "out")


@pytest.fixture
def path(table, tmp_path):
    X, y, c = table
    columns = {**{f"x{i}": X[:, i] for i in range(3)}, "y": y, "c": c}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet", row_group_size=1000 // GROUPS)
    return tmp_path / "rows.parquet"


@pytest.fixture
def read(monkeypatch):
    """Count how often each row group is opened."""
    count: Counter[int] = Counter()
    pieces = ParquetReader.pieces

    def counted(self, part, *args):
        count[part] += 1
        return pieces(self, part, *args)

    monkeypatch.setattr(ParquetReader, "pieces", counted)
    return count


def rows(path, target):
    """Return the rows of the file, with what is learned from the first of them learned already."""
    source = squeak.rows(str(path), target=target, columns=["x0", "x1", "x2"])
    assert source.preprocessing is not None
    return source


@pytest.mark.parametrize(
    ("model", "target", "passes"),
    [
        (KernelRidge(RBF(1.0), max_atoms=40), "y", 2),
        (KernelRidge(RBF(1.0), max_atoms=40, fit_intercept=True), "y", 2),
        (KernelRidge(RBF("median"), alpha="auto", max_atoms=40, fit_intercept=True), "y", 2),
        (KernelRidge(RBF(1.0), dictionary=np.zeros((1, 3)), fit_intercept=True), "y", 1),
        (KernelRidgeCV(RBF(1.0), max_atoms=40, fit_intercept=True), "y", 3),
        (KernelClassifier(RBF(1.0), max_atoms=40), "c", 2),
        (KernelClassifier(RBF(1.0), alpha="auto", max_atoms=40), "c", 2),
        (KernelClassifier(RBF(1.0), dictionary=np.zeros((1, 3))), "c", 2),
    ],
    ids=["ridge", "intercept", "auto", "given", "cv", "classes", "classes auto", "classes given"],
)
@pytest.mark.filterwarnings("ignore:alpha='auto' ended at the largest")  # the targets are noise
def test_a_fit_reads_each_row_group_this_often(model, target, passes, path, read):
    source = rows(path, target)
    read.clear()
    model.set_params(random_state=0).fit(source)
    assert read == Counter(dict.fromkeys(range(GROUPS), passes))


@pytest.mark.filterwarnings("ignore:alpha='auto' ended at the largest")
@pytest.mark.parametrize("alpha", [0.1, "auto"])
def test_a_file_and_an_array_give_one_intercept_and_one_model(alpha, path, table):
    X, y, c = table
    atoms = X[::20]
    for model, target, targets in (
        (KernelRidge(RBF(1.0), alpha=alpha, dictionary=atoms, fit_intercept=True), "y", y),
        (KernelRidgeCV(RBF(1.0), dictionary=atoms, fit_intercept=True), "y", y),
        (KernelClassifier(RBF(1.0), alpha=alpha, dictionary=atoms), "c", c),
    ):
        f = "decision_function" if target == "c" else "predict"
        whole = getattr(model.fit(X, targets), f)(X)
        intercept = model.intercept_
        source = rows(path, target)
        assert np.allclose(getattr(model.fit(source), f)(rows(path, target)), whole, rtol=1e-9, atol=1e-9)
        assert np.allclose(model.intercept_, intercept, rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("outputs", [1, 2])
def test_blocks_of_drifting_targets_give_the_result_of_one_fit(table, weighted, outputs):
    """The mean of the targets is that of all rows, not of the first block."""
    X, y, _ = table
    Y = y if outputs == 1 else np.column_stack([y, -3.0 * y + X[:, 0]])
    w = np.random.default_rng(1).exponential(size=len(X)) if weighted else None
    model = KernelRidge(RBF(1.0), alpha=0.1, dictionary=X[::20], fit_intercept=True)
    whole = model.fit(X, Y, w)
    expected, mean = whole.predict(X), whole.intercept_
    blocks = KernelRidge(RBF(1.0), alpha=0.1, dictionary=X[::20], fit_intercept=True)
    for part in np.array_split(np.arange(len(X)), 7):
        blocks.partial_fit(X[part], Y[part], None if w is None else w[part])
    assert np.allclose(blocks.intercept_, mean, rtol=1e-13)
    assert np.allclose(blocks.predict(X), expected, rtol=1e-11)


def test_classes_are_found_while_the_dictionary_is_learned(path, table):
    *_, c = table
    source = rows(path, "c")
    model = KernelClassifier(RBF(1.0), alpha=0.1, max_atoms=60, random_state=0).fit(source)
    assert model.classes_.tolist() == ["in", "out"]
    assert np.mean(model.predict(rows(path, "c")) == c) > 0.95


def test_a_target_of_numbers_is_refused_while_the_dictionary_is_learned(path):
    with pytest.raises(ValueError, match=r"[Uu]nknown label type|each a class of its own"):
        KernelClassifier(RBF(1.0), max_atoms=60, random_state=0).fit(rows(path, "y"))


def test_auto_does_not_need_the_number_of_rows_beforehand(waves, waves_file):
    path, rows, y = waves_file
    source = squeak.rows(path, "y", scale="standard")
    assert source.n_rows is None
    model = KernelRidge(RBF(1.0), alpha="auto", max_atoms=40, random_state=0).fit(source)
    assert model.alpha_ < 5
    assert model.score(rows, y) > 0.95


def test_a_dictionary_brings_its_preprocessing(waves_file):
    path, rows, y = waves_file
    d = (
        KernelRidge(RBF(1.0), alpha=0.1, max_atoms=30, random_state=0)
        .fit(squeak.rows(path, "y", scale="standard"))
        .dictionary_
    )
    assert KernelRidge(dictionary=d, alpha=0.1).fit(rows, y).score(rows, y) > 0.9
    with pytest.raises(ValueError, match="preprocessed in another way"):
        KernelRidge(dictionary=d, alpha=0.1).fit(squeak.rows(path, "y", scale=None))
    encoded = np.asarray(d.preprocessing.encode(rows))
    given = KernelRidge(RBF(1.0), dictionary=encoded[:30], alpha=0.1).fit(squeak.rows(path, "y", scale="standard"))
    assert given.score(rows, y) > 0.9


@pytest.mark.filterwarnings("ignore:column 'a' spreads")
def test_missing_values_at_prediction_are_a_matter_of_the_fit(waves_file, tmp_path):
    path, columns, _ = waves_file
    KernelRidge(RBF("median"), max_atoms=20).fit(squeak.rows(path, "y")).save(tmp_path / "m.sqk")
    columns.assign(a=np.nan).to_csv(tmp_path / "holes.csv", index=False)
    done = command("predict", "m.sqk", "holes.csv", "--out", "out.csv", cwd=tmp_path)
    assert done.returncode != 0
    assert "or fit the model with --missing median" in " ".join(done.stderr.split())
