import numpy as np
import pytest

from squeak.core import cholesky as room
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


@pytest.fixture
def small_panels(monkeypatch):
    """Panels of 16, so that 90 rows are many and the last panel is a small one."""
    monkeypatch.setattr(room, "PANEL", 16)
    monkeypatch.setattr(room, "LARGE", 40)


@pytest.mark.usefixtures("small_panels")
def test_panels_on_threads_are_the_factor_on_any_number_of_them(A, monkeypatch):
    given, found = A.copy(), {}
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("SQUEAK_NUM_THREADS", threads)
        inverse = inverse_factor(A)
        pivoted, order = pivoted_inverse_factor(A)
        products = room.times(A[:7], inverse), room.times_transposed(A[:7], inverse)
        found[threads] = [inverse, pivoted, order, *products]
        assert all(np.array_equal(*pair) for pair in zip(found[threads], found["1"], strict=True))
    assert np.array_equal(A, given)
    np.testing.assert_allclose(inverse @ np.linalg.cholesky(A), np.eye(90), atol=1e-11)
    np.testing.assert_allclose(pivoted @ A[np.ix_(order, order)] @ pivoted.T, np.eye(90), atol=1e-10)
    np.testing.assert_allclose(products[0], A[:7] @ inverse, atol=1e-11)
    np.testing.assert_allclose(products[1], A[:7] @ inverse.T, atol=1e-11)
    assert np.array_equal(inverse, np.tril(inverse))
    assert np.array_equal(pivoted, np.tril(pivoted))


@pytest.mark.usefixtures("small_panels")
def test_the_first_panel_has_the_largest_pivots_and_the_rest_is_in_order_of_what_it_leaves(A, monkeypatch):
    _, order = pivoted_inverse_factor(A)
    monkeypatch.setattr(room, "LARGE", 90)
    _, full = pivoted_inverse_factor(A)
    assert np.array_equal(order[:16], full[:16])
    assert np.array_equal(np.sort(order), np.arange(90))
    left = A - A[:, order[:16]] @ np.linalg.solve(A[np.ix_(order[:16], order[:16])], A[order[:16]])
    assert np.all(np.diff(left.diagonal()[order[16:]]) <= 1e-12)


@pytest.mark.usefixtures("small_panels")
@pytest.mark.parametrize("shift", [5.0, 0.1001])
def test_panels_refuse_what_is_not_positive_definite(A, shift):
    for factor in (inverse_factor, pivoted_inverse_factor):
        with pytest.raises(NotPositiveDefiniteError):
            factor(A - shift * np.eye(90))


def test_a_factor_with_room_grows_in_place(A):
    factor = GrowingCholesky(inverse_factor(A[:50, :50]), room=90)
    buffer = factor._buffer
    for at in range(50, 90, 10):
        factor = factor.append_rows(A[at : at + 10, :at], A[at : at + 10, at : at + 10])
    assert factor._buffer is buffer
    np.testing.assert_allclose(factor.inverse @ np.linalg.cholesky(A), np.eye(90), atol=1e-11)


def test_matrices_of_no_row_and_of_one():
    for empty in (inverse_factor(np.zeros((0, 0))), pivoted_inverse_factor(np.zeros((0, 0)))[0]):
        assert empty.shape == (0, 0)
    assert inverse_factor(np.array([[4.0]])) == [[0.5]]
    inverse, order = pivoted_inverse_factor(np.array([[4.0]]))
    assert (inverse.tolist(), order.tolist()) == ([[0.5]], [0])


def test_a_tolerance_is_a_part_of_the_largest_pivot_and_ends_the_factor_there():
    A = np.diag([1.0, 1e-3, 100.0])
    inverse, order = pivoted_inverse_factor(A, tolerance=1e-4)
    assert order.tolist() == [2, 0]
    np.testing.assert_allclose(inverse, np.diag([0.1, 1.0]))
    inverse, order = pivoted_inverse_factor(A, tolerance=0.5)
    assert (inverse.tolist(), order.tolist()) == ([[0.1]], [2])
    inverse, order = pivoted_inverse_factor(-np.eye(3), tolerance=1e-4)
    assert (inverse.shape, order.shape) == ((0, 0), (0,))
