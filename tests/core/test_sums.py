"""Sums over rows: the dense formula, and the same bits on any number of threads, by workers, and block by block."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from squeak.places import Executors, Threads, use
from squeak.trees import sums as sums_room
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


def on_threads(readers):
    with Threads() as here:
        return sum_parts(readers, term, here)


def test_sums_are_the_dense_formula(parts):
    data, readers = parts
    X, y = np.vstack([X for X, _ in data]), np.concatenate([y for _, y in data])
    square, cross, count = on_threads(readers)
    np.testing.assert_allclose(square, X.T @ X, rtol=1e-12)
    np.testing.assert_allclose(cross, X.T @ y, rtol=1e-12, atol=1e-12)
    assert count == len(X)


def test_the_same_bits_on_any_number_of_threads(parts, monkeypatch):
    found = []
    for threads in ("1", "2", "4"):
        monkeypatch.setenv("SQUEAK_NUM_THREADS", threads)
        found.append(on_threads(parts[1]))
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_empty_parts_add_nothing_and_no_rows_are_an_error(parts):
    _, readers = parts
    with_empty = [*readers[:2], lambda: iter([]), *readers[2:]]
    for a, b in zip(on_threads(with_empty), on_threads(readers), strict=True):
        assert np.array_equal(a, b)
    assert sum_blocks(iter([]), term) is None
    with pytest.raises(ValueError, match="no rows to sum over"):
        on_threads([lambda: iter([])])


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


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("many", [1, 10**9])
@pytest.mark.parametrize("n", [5, GROUP, 40, GROUP**2 + GROUP + 3])
def test_a_sum_by_workers_goes_on_from_any_group_of_parts_in_the_same_bits(keeps, many, n, monkeypatch):
    """With one task for each part or for each group, and wherever sums lie."""
    monkeypatch.setattr(sums_room, "MANY", many)
    rng = np.random.default_rng(n)
    values = [(10.0 ** rng.uniform(-8, 8, 3),) for _ in range(n)]
    values = [None if i and rng.random() < 0.1 else one for i, one in enumerate(values)]
    readers = [lambda one=one: iter([] if one is None else [(one[0], None)]) for one in values]
    expected = added(list(values))[0]

    def identity(X, y):
        return (X,)

    with use(Executors(lambda: ThreadPoolExecutor(2))) as place:
        place.keeps, place._packed = keeps, lambda function, given: lambda: function(*given)
        assert np.array_equal(sum_parts(readers, identity, place)[0], expected)
        kept = [PartSums()]
        assert np.array_equal(sum_parts(readers, identity, place, keep=kept.append)[0], expected)
        assert len(kept) == 1 + (-(-n // GROUP) if keeps else n // GROUP)
        for start in kept:
            again = sum_parts(readers, identity, place, start, lambda total: None)
            assert np.array_equal(again[0], expected)
