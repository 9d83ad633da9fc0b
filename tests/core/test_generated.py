"""Rows that are made as they are read: the same ones by place, wherever and however often."""

import pickle

import numpy as np
import pytest

import squeak
from squeak import Disqueak, GeneratedRows, KernelRidge, Squeak
from squeak.data import Cursor, readers
from squeak.kernels import RBF


def make(rng, n):
    X = rng.standard_normal((n, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(n)


@pytest.fixture
def small_parts(monkeypatch):
    from squeak.data import generated

    for room in (readers, generated):
        monkeypatch.setattr(room, "PART", 500)


def source(n=2_200, seed=0):
    return squeak.rows(GeneratedRows(make, n, random_state=seed), target=True)


def test_parts_are_the_same_alone_again_and_from_a_place(small_parts):
    made = source()
    X, y = made.collect()
    assert (X.shape, y.shape, made.n_parts, made.n_rows) == ((2_200, 2), (2_200,), 5, 2_200)
    again = pickle.loads(pickle.dumps(source().alone(3, 5)))
    assert np.array_equal(np.vstack(list(again.part_blocks(3, 5))), X[1_500:])
    rest = np.vstack([block.X for block in made.blocks(Cursor(2, 123, 1_123))])
    assert np.array_equal(rest, X[1_123:])
    assert np.array_equal(source().collect()[1], y)
    assert not np.array_equal(source(seed=1).collect()[1], y)
    assert source().fingerprint == made.fingerprint != source(seed=1).fingerprint
    assert source(2_201).fingerprint != made.fingerprint


def test_samplers_and_learners_take_them(small_parts, tmp_path):
    X, y = source().collect()
    assert Squeak(RBF(1.0), 1.0, random_state=0).fit(source()).dictionary_ == (
        Squeak(RBF(1.0), 1.0, random_state=0).fit(X).dictionary_
    )
    assert Disqueak(RBF(1.0), 1.0, n_leaves=5, random_state=0).fit(source()).dictionary_.n_seen == 2_200
    model = KernelRidge(RBF(1.0), 0.5, dictionary=X[:30], random_state=0)
    one = model.fit(source(), checkpoint=tmp_path / "run.sqk", every=0)
    np.testing.assert_allclose(one.predict(X), KernelRidge(RBF(1.0), 0.5, dictionary=X[:30]).fit(X, y).predict(X))


def test_bad_functions_are_refused():
    with pytest.raises(ValueError, match="n must be a whole number"):
        GeneratedRows(make, 0)
    with pytest.raises(TypeError, match="make must be a function"):
        GeneratedRows([1], 10)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda rng, n: np.zeros((n + 1, 2)), "gave 3: it gives as many rows as it is asked for"),
        (lambda rng, n: np.zeros(n), r"an array of shape \(2,\): rows form an array of shape \(rows, columns\)"),
        (lambda rng, n: np.full((n, 1), "a"), "rows of type <U1: make numbers of them"),
        (lambda rng, n: (np.zeros((n, 2)), np.zeros(n + 1)), r"targets of shape \(3,\): every row has one"),
        (lambda rng, n: (np.zeros((n, 2)), 1.0), r"targets of shape \(\): every row has one"),
        (lambda rng, n: (np.zeros((n, 2)),) * 3, "a tuple of 3: it gives rows, or a pair of rows and targets"),
        (lambda rng, n: [[1.0], [1.0, 2.0]], "rows or targets of different lengths: use arrays"),
    ],
)
def test_what_a_function_made_wrongly_is_told_apart(bad, words):
    with pytest.raises(ValueError, match=f"make was asked for 2 rows of numbers, and .*{words}"):
        squeak.rows(GeneratedRows(bad, 10, random_state=0))
