"""Sums over rows: the dense formula, and the same bits on any number of threads, by workers, and block by block."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from squeak.places import Executors, Threads, use
from squeak.trees.sums import GROUP, PartSums, added, sum_blocks, sum_parts


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
    square, cross, count = sum_parts(readers, term, Threads())
    np.testing.assert_allclose(square, X.T @ X, rtol=1e-12)
    np.testing.assert_allclose(cross, X.T @ y, rtol=1e-12, atol=1e-12)
    assert count == len(X)


def test_the_same_bits_on_any_number_of_threads(parts, monkeypatch):
    found = []
    for threads in ("1", "2", "4"):
        monkeypatch.setenv("SQUEAK_NUM_THREADS", threads)
        found.append(sum_parts(parts[1], term, Threads()))
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_empty_parts_add_nothing_and_no_rows_are_an_error(parts):
    _, readers = parts
    with_empty = [*readers[:2], lambda: iter([]), *readers[2:]]
    for a, b in zip(sum_parts(with_empty, term, Threads()), sum_parts(readers, term, Threads()), strict=True):
        assert np.array_equal(a, b)
    assert sum_blocks(iter([]), term) is None
    with pytest.raises(ValueError, match="no rows to sum over"):
        sum_parts([lambda: iter([])], term, Threads())


@pytest.mark.parametrize("n", [1, 2, GROUP - 1, GROUP, GROUP + 1, 40, GROUP**2, GROUP**2 + GROUP + 3])
def test_parts_are_added_in_one_order_here_by_workers_and_block_by_block(n):
    rng = np.random.default_rng(n)
    sums = [(10.0 ** rng.uniform(-8, 8, 3),) for _ in range(n)]
    sums = [None if i and rng.random() < 0.1 else one for i, one in enumerate(sums)]
    (here,) = added(sums)
    with use(Executors(lambda: ThreadPoolExecutor(2))) as place:
        place._packed = lambda function, values: lambda: function(*values)
        (there,) = added([place.submit(sums.__getitem__, i) for i in range(n)], place)
    growing = PartSums()
    for part, one in enumerate(sums):
        if one is not None:
            growing = growing.at(part).plus(one)
    assert np.array_equal(here, there)
    assert np.array_equal(here, growing.total()[0])
    np.testing.assert_allclose(here, np.sum([one[0] for one in sums if one is not None], axis=0), rtol=1e-12)
    assert len(growing.waiting) <= 1 + np.log(n) / np.log(GROUP)
