"""Spec test (14): the quantized solution is that of the duplicated graph; the quantizer's invariants."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from squeak.graphs import OnlineHarmonic
from squeak.graphs.quantized import Quantizer, quantized_harmonic


def duplicated(similarity, counts, labelled, values, ridge):
    """The plain regularised harmonic solution with every vertex repeated, read at the first copy of each."""
    owner = np.repeat(np.arange(len(counts)), counts)
    W = similarity[np.ix_(owner, owner)]
    np.fill_diagonal(W, 0.0)
    known = np.isin(owner, labelled)
    L = np.diag(W.sum(axis=1)) - W
    f = np.zeros((len(owner), values.shape[1]))
    f[known] = values[np.searchsorted(labelled, owner[known])]
    free = ~known
    right = W[np.ix_(free, known)] @ f[known]
    f[free] = np.linalg.solve(L[np.ix_(free, free)] + ridge * np.eye(free.sum()), right)
    first = np.searchsorted(owner, np.arange(len(counts)))
    return f[first]


def case(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, 2))
    W = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    counts = rng.integers(1, 5, size=12)
    counts[:3] = 1
    return W, counts, np.arange(3), rng.standard_normal((3, 2))


@pytest.mark.parametrize("seed", range(10))
def test_quantized_is_the_duplicated_graph(seed):
    W, counts, labelled, values = case(seed)
    found = quantized_harmonic(W, counts.astype(float), labelled, values, 0.1)
    np.testing.assert_allclose(found, duplicated(W, counts, labelled, values, 0.1), atol=1e-10)


def test_forgetting_the_counts_in_the_ridge_is_caught():
    W, counts, labelled, values = case(0)
    M = counts[:, None] * W * counts
    np.fill_diagonal(M, 0.0)
    free = np.ones(12, dtype=bool)
    free[labelled] = False
    L = np.diag(M.sum(axis=1)) - M
    wrong = np.linalg.solve(L[np.ix_(free, free)] + 0.1 * np.eye(9), M[np.ix_(free, ~free)] @ values)
    assert np.abs(wrong - duplicated(W, counts, labelled, values, 0.1)[free]).max() > 1e-3


@pytest.mark.parametrize("growth", [1.2, 1.5, 3.0])
def test_the_quantizer_keeps_its_invariants(growth):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((200, 3)), rng.standard_normal((5, 3)) * 50, np.zeros((10, 3))])
    q = Quantizer(15, growth)
    homes = []
    for number, x in enumerate(X, start=1):
        homes.append(q.add(x))
        assert len(q.centres) <= 15
        assert q.counts.sum() == number
        apart = np.sqrt(((q.centres[:, None] - q.centres) ** 2).sum(axis=2))
        if len(q.centres) > 1:
            assert apart[~np.eye(len(apart), dtype=bool)].min() >= q.radius - 1e-12
    nearest = np.sqrt(((X[:, None] - q.centres) ** 2).sum(axis=2)).min(axis=1)
    assert nearest.max() <= q.radius * growth / (growth - 1) + 1e-12


def test_below_the_limit_nothing_is_merged_but_equal_rows():
    X = np.random.default_rng(0).standard_normal((10, 2))
    q = Quantizer(20, 1.5)
    for x in np.vstack([X, X]):
        q.add(x)
    assert len(q.centres) == 10
    assert (q.counts == 2).all()
    assert q.radius == 0


def test_one_row_at_a_time_is_many_at_once_and_memory_is_bounded():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 2)), np.where(rng.random(400) < 0.02, rng.integers(2, size=400), -1)
    y[:2] = 0, 1
    many = OnlineHarmonic(20).fit(X, y)
    one = OnlineHarmonic(20)
    for x, label in zip(X, y, strict=True):
        one.partial_fit(x[None], np.array([label]))
    assert len(one.centres_) <= 20
    np.testing.assert_array_equal(one.centres_, many.centres_)
    np.testing.assert_array_equal(one.predict(X), many.predict(X))


def test_labels_before_and_after_and_bad_input():
    s = OnlineHarmonic(5)
    with pytest.raises(NotFittedError):
        s.predict([[0.0]])
    s.partial_fit([[0.0], [1.0]])
    with pytest.raises(NotFittedError, match="no labels"):
        s.predict([[0.0]])
    s.partial_fit([[0.0], [4.0]], [7, 9])
    assert s.predict([[0.1], [3.9]]).tolist() == [7, 9]
    for bad, message in (([[0.0, 1.0]], "columns"), ([[np.nan]], "nan")):
        with pytest.raises(ValueError, match=message):
            s.partial_fit(bad)
    with pytest.raises(ValueError, match="y has shape"):
        s.partial_fit([[1.0]], [1, 2])
    assert s.n_seen_ == 4
    for params in ({"max_centres": 0}, {"ridge": 0}, {"growth": 1.0}, {"length_scale": -1}):
        with pytest.raises(ValueError, match=next(iter(params))):
            OnlineHarmonic(**params).fit([[0.0]], [1])


def test_centres_far_from_the_origin_are_told_apart():
    """Squares of 1e8 hide differences of 1e-3; the radius was 0 and grew by factors for ever."""
    X = 1e8 + 1e-3 * np.arange(40.0)[:, None]
    s = OnlineHarmonic(5).fit(X, np.concatenate([[0, 1], np.full(38, -1)]))
    assert s.counts_.sum() == 38
    assert len(s.centres_) <= 5
    assert s.radius_ > 0


def test_rows_whose_squares_overflow_are_refused_and_change_nothing():
    s = OnlineHarmonic(np.int64(2)).fit([[0.0], [1.0]], [0, 1])
    for call in (s.fit, s.partial_fit):
        with pytest.raises(ValueError, match="row 1 has values beyond 1e\\+150"):
            call([[0.0], [1e300]], [-1, -1])
        with pytest.raises(ValueError, match="nan"):
            call([[np.nan]], [0])
        assert s.predict([[0.1], [0.9]]).tolist() == [0, 1]
