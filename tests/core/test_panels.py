"""The factor that is written over its matrix, against the dense one; what lies beyond the tiles is never read."""

import numpy as np
import pytest

from squeak.core import panels
from squeak.core.cholesky import NotPositiveDefiniteError
from squeak.core.panels import PanelFactor, symmetric_times


@pytest.fixture
def A(rng):
    B = rng.standard_normal((90, 40))
    return B @ B.T + 0.1 * np.eye(90)


def tiles_only(A, size):
    """Return A with NaN wherever it is not held: beyond the tiles of its diagonal."""
    out = np.full_like(A, np.nan)
    for start in range(0, len(A), size):
        stop = min(start + size, len(A))
        out[start:stop, :stop] = A[start:stop, :stop]
    return out


@pytest.mark.parametrize("size", [1, 7, 30, 90, 192])
@pytest.mark.parametrize(("dtype", "close"), [(np.float64, 1e-9), (np.float32, 2e-3)])
def test_the_factor_and_its_solutions_are_the_dense_ones(A, rng, monkeypatch, size, dtype, close):
    monkeypatch.setattr(panels, "PANEL", size)
    b = rng.standard_normal((90, 3))
    factor = PanelFactor(tiles_only(A, size).astype(dtype))
    L = np.linalg.cholesky(A)
    np.testing.assert_allclose(np.tril(factor.lower), L, atol=close)
    np.testing.assert_allclose(factor.forward(b), np.linalg.solve(L, b), atol=10 * close)
    np.testing.assert_allclose(factor.solve(b), np.linalg.solve(A, b), atol=100 * close)
    assert factor.solve(b).dtype == factor.lower.dtype == dtype
    np.testing.assert_allclose(symmetric_times(tiles_only(A, size), b), A @ b, atol=1e-11)
    rounded = symmetric_times(tiles_only(A, size).astype(np.float32), b)  # rounded once, then multiplied in float64
    np.testing.assert_allclose(rounded, A.astype(np.float32).astype(np.float64) @ b, atol=1e-11)


def test_a_view_of_a_larger_array_will_do(A, rng):
    room = np.full((120, 130), np.nan, dtype=np.float64)
    room[:90, :90] = A
    b = rng.standard_normal((90, 1))
    np.testing.assert_allclose(PanelFactor(room[:90, :90]).solve(b), np.linalg.solve(A, b), atol=1e-9)
    assert np.isnan(room[90:]).all()
    assert np.isnan(room[:, 90:]).all()


@pytest.mark.parametrize("place", [0, 50, 89])
def test_a_matrix_without_a_factor_is_refused_with_the_place(A, monkeypatch, place):
    monkeypatch.setattr(panels, "PANEL", 32)
    A[place, place] = -1.0
    with pytest.raises(NotPositiveDefiniteError, match=f"minor {place + 1} "):
        PanelFactor(A)


def test_nothing_and_one_number():
    assert PanelFactor(np.zeros((0, 0))).solve(np.zeros((0, 2))).shape == (0, 2)
    np.testing.assert_array_equal(PanelFactor(np.array([[4.0]])).solve(np.array([[8.0]])), [[2.0]])
