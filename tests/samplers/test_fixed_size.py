"""``max_atoms`` is met exactly, and weights stay unbiased.

Family of statistical tests: 2 laws of ``thin_to`` over 12 rows and 2 of samplers over 28 rows and their total.
Means are compared with 1 at 5.5 standard errors (two-sided normal tail 4e-8, so family-wise about 3e-6), plus the
allowance for rare outcomes of test_unbiased. Each has a mutated twin that is caught.
"""

import numpy as np
import pytest

from squeak import KernelRidge, Squeak, merge
from squeak.core.thinning import expected_survivors, thin_to
from squeak.kernels import RBF, Linear, Polynomial
from squeak.samplers import Bless, BlessR, RPCholesky
from squeak.samplers import bless as bless_room
from tests.samplers.test_unbiased import ERRORS, X, biased  # noqa: F401  (X is a fixture)

KERNELS = {"RBF": RBF(1.0), "Linear": Linear(), "Polynomial": Polynomial(degree=2)}


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).standard_normal((1000, 3))


@pytest.mark.parametrize("sampler", [BlessR, Squeak])
@pytest.mark.parametrize("size", [1, 7, 20])
@pytest.mark.parametrize("name", KERNELS)
def test_a_small_dictionary_has_as_many_atoms_as_asked_for(name, size, sampler, rows):
    for seed in range(3):
        assert len(sampler(kernel=KERNELS[name], max_atoms=size, random_state=seed).fit(rows).dictionary_) == size


@pytest.mark.parametrize("sampler", [BlessR, Squeak])
def test_a_large_dictionary_has_as_many_atoms_as_asked_for(sampler, rows):
    assert len(sampler(kernel=RBF(0.5), max_atoms=200, random_state=0).fit(rows).dictionary_) == 200


def test_a_stream_has_as_many_atoms_as_asked_for_after_every_block(rows):
    s = Squeak(kernel=RBF(0.5), max_atoms=50, copies=3, random_state=0)
    sizes = [len(s.partial_fit(block).dictionary_) for block in np.array_split(rows, 7)]
    assert sizes == [50] * 7


def test_a_merge_has_as_many_atoms_as_asked_for(rows):
    parts = [Squeak(kernel=RBF(1.0), ridge=1.0, random_state=i).fit(part) for i, part in enumerate((rows, -rows))]
    assert len(merge(*[s.dictionary_ for s in parts], max_atoms=120, random_state=0)) == 120


@pytest.mark.parametrize("sampler", [Bless, BlessR, Squeak, None])
@pytest.mark.parametrize("name", ["Linear", "Polynomial"])
def test_few_atoms_are_enough_for_a_kernel_of_low_rank(name, sampler, rows):
    """Linear on 3 columns has rank 3, the polynomial of degree 2 has rank 10: 20 atoms leave nothing out."""
    y = rows @ [1.0, 2.0, 3.0] if name == "Linear" else rows[:, 0] ** 2 + rows[:, 1] * rows[:, 2]
    for seed in range(3):
        chosen = {"max_atoms": 20} if sampler is None else {"sampler": sampler(max_atoms=20, random_state=seed)}
        model = KernelRidge(KERNELS[name], alpha=1e-3, random_state=seed, **chosen).fit(rows, y)
        assert model.score(rows, y) > 0.9999


def thinned_weights(counts, draw, runs=2000):
    rng = np.random.default_rng(3)
    p = rng.uniform(0.2, 1.0, 12)
    scores = rng.uniform(0.1, 1.0, 12)
    found = np.zeros((runs, 12))
    for run in range(runs):
        lowered, left = draw(p, counts, scores, 5, rng)
        assert np.count_nonzero(left) == 5
        assert np.all(lowered <= p)
        assert np.all(left <= counts)
        found[run] = (left / lowered) / (counts / p)
    return np.abs(found.mean(axis=0) - 1) > ERRORS * found.std(axis=0) / np.sqrt(runs) + 20 / runs


@pytest.mark.parametrize("coins", [1, 4])
def test_thinning_to_a_size_is_unbiased_and_its_twin_is_caught(coins):
    counts = np.full(12, coins)
    assert not thinned_weights(counts, thin_to).any()

    def hasty(p, counts, scores, size, rng):
        """Draw ``size`` rows by their scores, and take the probabilities of independent coins for theirs."""
        lowered = np.minimum(p, scores * size / expected_survivors(p, counts, scores))
        kept = rng.choice(len(p), size, replace=False, p=scores / scores.sum())
        left = np.zeros(len(p), dtype=int)
        left[kept] = counts[kept]
        return lowered, left

    assert thinned_weights(counts, hasty, 500).any()


def test_thinning_to_a_size_keeps_all_where_there_are_no_more():
    p, counts = np.array([0.5, 1.0, 0.2]), np.array([1, 2, 1])
    lowered, left = thin_to(p, counts, np.array([0.1, 0.0, 0.1]), 2, np.random.default_rng(0))
    assert left.tolist() == [1, 0, 1]
    assert lowered[[0, 2]].tolist() == [0.5, 0.2]


def full_walk(X, seed):  # noqa: F811
    return BlessR(RBF(1.0), oversampling=3, max_atoms=9, random_state=seed).fit(X).dictionary_


@pytest.mark.parametrize("runs", [100, pytest.param(300, marks=pytest.mark.slow)])
def test_a_walk_to_exactly_so_many_atoms_is_unbiased(runs, X):  # noqa: F811
    assert not biased(full_walk, X, runs).any()


def going_on(X, seed):  # noqa: F811
    half = BlessR(RBF(1.0), oversampling=3, max_atoms=9, random_state=seed).fit(X[:14]).dictionary_
    stream = Squeak(RBF(1.0), max_atoms=10, random_state=seed + 10_000).go_on_from(half)
    return stream.partial_fit(X[14:]).dictionary_


@pytest.mark.slow
def test_a_stream_that_goes_on_from_another_samplers_dictionary_is_unbiased(X):  # noqa: F811
    d = going_on(X, 0)
    assert (d.n_seen, len(d)) == (28, 10)
    assert not biased(going_on, X, 700).any()


def test_a_stream_does_not_go_on_from_weights_that_estimate_nothing(X):  # noqa: F811
    with pytest.raises(ValueError, match="estimate nothing"):
        Squeak(RBF(1.0)).go_on_from(RPCholesky(RBF(1.0), max_atoms=5, random_state=0).fit(X).dictionary_)


def test_forgetting_that_rows_were_thinned_to_the_size_is_caught(X, monkeypatch):  # noqa: F811
    def forgetful(p, counts, scores, size, rng):
        _, left = thin_to(p, counts, scores, size, rng)
        return np.minimum(p, scores), left

    monkeypatch.setattr(bless_room, "thin_to", forgetful)
    assert biased(full_walk, X, 100).any()
