"""Sums over rows: the dense formula, and the same bits on any number of threads."""

import numpy as np
import pytest

from squeak.trees.sums import sum_blocks, sum_parts


@pytest.fixture
def parts():
    rng = np.random.default_rng(0)
    data = [(rng.standard_normal((n, 4)), rng.standard_normal(n)) for n in (1_000, 3, 777, 1)]

    def part(X, y):
        return lambda: iter([(X[i : i + 100], y[i : i + 100]) for i in range(0, len(X), 100)])

    return data, [part(X, y) for X, y in data]


def term(X, y):
    return X.T @ X, X.T @ y, len(X)


def test_sums_are_the_dense_formula(parts):
    data, readers = parts
    X, y = np.vstack([X for X, _ in data]), np.concatenate([y for _, y in data])
    square, cross, count = sum_parts(readers, term)
    np.testing.assert_allclose(square, X.T @ X, rtol=1e-12)
    np.testing.assert_allclose(cross, X.T @ y, rtol=1e-12, atol=1e-12)
    assert count == len(X)


def test_the_same_bits_on_any_number_of_threads(parts, monkeypatch):
    found = []
    for threads in ("1", "2", "4"):
        monkeypatch.setenv("SQUEAK_NUM_THREADS", threads)
        found.append(sum_parts(parts[1], term))
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_empty_parts_add_nothing_and_no_rows_are_an_error(parts):
    _, readers = parts
    with_empty = [*readers[:2], lambda: iter([]), *readers[2:]]
    for a, b in zip(sum_parts(with_empty, term), sum_parts(readers, term), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)  # other neighbours are added first
    assert sum_blocks(iter([]), term) is None
    with pytest.raises(ValueError, match="no rows to sum over"):
        sum_parts([lambda: iter([])], term)
