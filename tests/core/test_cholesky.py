import numpy as np
import pytest

from squeak.core.cholesky import GrowingCholesky, NotPositiveDefiniteError, inverse_factor, pivoted_inverse_factor


@pytest.fixture
def A(rng):
    B = rng.standard_normal((90, 40))
    return B @ B.T + 0.1 * np.eye(90)


@pytest.mark.parametrize("cuts", [[1] * 90, [30, 1, 59], [90], [64, 26]], ids=str)
def test_growing_by_rows_or_blocks_is_the_fresh_factor(A, cuts):
    factor, at = GrowingCholesky(), 0
    for r in cuts:
        factor = factor.append_rows(A[at : at + r, :at], A[at : at + r, at : at + r])
        at += r
    L = np.linalg.cholesky(A)
    np.testing.assert_allclose(factor.inverse @ L, np.eye(90), atol=1e-11)
    assert np.array_equal(factor.inverse, np.tril(factor.inverse))
    np.testing.assert_allclose(factor.diagonal_of_inverse(), np.diag(np.linalg.inv(A)), rtol=1e-10)
    np.testing.assert_allclose(factor.project(A[:5]), np.linalg.solve(L, A[:5].T).T, atol=1e-10)


def test_the_parent_stays_as_it_was(A):
    parent = GrowingCholesky().append_rows(A[:50, :0], A[:50, :50])
    before = parent.inverse.copy()
    child = parent.append_rows(A[50:60, :50], A[50:60, 50:60])
    assert (parent.size, child.size) == (50, 60)
    assert np.array_equal(parent.inverse, before)


def test_a_second_child_gets_a_buffer_of_its_own(A):
    parent = GrowingCholesky().append_rows(A[:50, :0], A[:50, :50])
    first = parent.append_rows(A[50:60, :50], A[50:60, 50:60])
    kept = first.inverse.copy()
    second = parent.append_rows(A[60:70, :50], A[60:70, 60:70])
    assert np.array_equal(first.inverse, kept)
    members = [*range(50), *range(60, 70)]
    np.testing.assert_allclose(
        second.inverse @ np.linalg.cholesky(A[np.ix_(members, members)]), np.eye(60), atol=1e-11
    )


def test_buffers_grow_geometrically(A):
    factor, buffers = GrowingCholesky(), set()
    for t in range(90):
        factor = factor.append_rows(A[t : t + 1, :t], A[t : t + 1, t : t + 1])
        buffers.add(len(factor._buffer))
    assert buffers == {64, 96}


def test_pivoting_takes_the_largest_remaining_first(A):
    inverse, order = pivoted_inverse_factor(A)
    np.testing.assert_allclose(inverse @ A[np.ix_(order, order)] @ inverse.T, np.eye(90), atol=1e-10)
    assert order[0] == np.argmax(np.diag(A))
    pivots = 1 / np.diag(inverse)
    assert np.all(np.diff(pivots) <= 1e-12)


def test_what_is_not_positive_definite_is_refused(A):
    for factor in (inverse_factor, pivoted_inverse_factor):
        with pytest.raises(NotPositiveDefiniteError):
            factor(A - 5 * np.eye(90))
