"""Kernels behind a linear map, and gradients of kernel sums, against finite differences and dense formulas."""

import numpy as np
import pytest
import scipy.sparse as sp

import squeak
from squeak.core.kernels import gradients
from squeak.kernels import RBF, Laplacian, Matern, Metric, Polynomial
from squeak.learners.metric import gradient_product, linear_map, stretches

KERNELS = [
    RBF(1.3),
    RBF(np.array([0.5, 2.0, 1.0])),
    Laplacian(2.0),
    Laplacian(np.array([0.7, 3.0, 1.5])),
    Matern(1.0, nu=0.5),
    Matern(1.2, nu=1.5),
    Matern(np.array([0.5, 1.0, 2.0]), nu=2.5),
    2.0 * RBF(1.0),
    RBF(1.0) + Laplacian(2.0),
    Metric(RBF(1.0), np.array([[1.0, 0.5, 0.0], [0.0, 2.0, -1.0]])),
    Metric(Laplacian(1.5), np.array([[1.0, 0.5, 0.3], [0.2, 2.0, -1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 0.0]])),
]


@pytest.fixture
def sums():
    rng = np.random.default_rng(5)
    return rng.standard_normal((40, 3)), rng.standard_normal((25, 3)), rng.standard_normal((25, 2))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_gradients_are_those_of_finite_differences(kernel, sums):
    X, atoms, coef = sums
    found, step = gradients(kernel, X, atoms, coef), 1e-5
    for column in range(3):
        shift = step * np.eye(3)[column]
        slope = (kernel(X + shift, atoms) - kernel(X - shift, atoms)) @ coef / (2 * step)
        np.testing.assert_allclose(found[:, column], slope, atol=2e-8)


def test_kernels_without_a_gradient_say_so(sums):
    X, atoms, coef = sums
    with pytest.raises(TypeError, match="gradient of Polynomial"):
        gradients(Polynomial(), X, atoms, coef)


@pytest.mark.parametrize("kernel", [KERNELS[0], KERNELS[2], KERNELS[9]], ids=str)
def test_the_gradient_product_is_the_dense_sum_in_whatever_blocks(kernel, sums):
    X, atoms, coef = sums
    X = np.tile(X, (60, 1)) + np.arange(2400)[:, None] / 1e4
    slopes = gradients(kernel, X, atoms, coef)
    dense = sum(np.outer(row[:, q], row[:, q]) for row in slopes for q in range(2)) / len(X)
    np.testing.assert_allclose(gradient_product(kernel, atoms, coef, X), dense, atol=1e-12)
    np.testing.assert_allclose(gradient_product(kernel, atoms, coef, X, full=False), np.diag(dense), atol=1e-12)
    halves = [gradient_product(kernel, atoms, coef, part) for part in np.split(X, 2)]
    np.testing.assert_allclose(np.mean(halves, axis=0), dense, atol=1e-12)


def test_a_metric_is_the_kernel_of_mapped_rows(sums):
    X, Y, _ = sums
    T = np.random.default_rng(0).standard_normal((2, 3))
    kernel = Metric(Matern(0.8), T)
    np.testing.assert_allclose(kernel(X, Y), Matern(0.8)(X @ T.T, Y @ T.T), atol=1e-14)
    np.testing.assert_allclose(kernel(sp.csr_array(X), sp.csr_array(Y)), kernel(X, Y), atol=1e-12)
    np.testing.assert_array_equal(kernel.diag(X), np.ones(40))
    assert kernel.is_stationary()
    wide = Metric(RBF("median"), T).resolve(X)
    assert wide.kernel == RBF("median").resolve(X @ T.T)


def test_a_metric_is_stored_and_used_as_any_kernel(sums, tmp_path):
    X = np.tile(sums[0], (20, 1))
    kernel = Metric(RBF(1.0), np.diag([1.0, 0.1, 0.0]))
    d = squeak.Squeak(kernel, 1.0, random_state=0).fit(X).dictionary_
    d.save(tmp_path / "d.sqk")
    again = squeak.load(tmp_path / "d.sqk")
    assert again == d
    assert again.kernel == kernel != Metric(RBF(1.0), np.eye(3))
    assert "shape (3, 3)" in repr(kernel)


def test_a_metric_refuses_a_map_that_does_not_fit(sums):
    X = sums[0]
    with pytest.raises(ValueError, match="maps rows of 2 columns"):
        Metric(RBF(1.0), np.ones((1, 2)))(X)
    with pytest.raises(ValueError, match="matrix of finite numbers"):
        Metric(RBF(1.0), np.diag([1.0, np.nan, 1.0]))(X)
    with pytest.raises(ValueError, match="matrix of finite numbers"):
        Metric(RBF(1.0), np.ones(3))(X)


def test_maps_have_the_product_as_their_square():
    A = np.random.default_rng(1).standard_normal((6, 4))
    G = A.T @ A
    T = linear_map(G)
    np.testing.assert_allclose(T @ T, G / np.linalg.eigvalsh(G)[-1], atol=1e-12)
    np.testing.assert_array_equal(linear_map(np.zeros((3, 3))), np.eye(3))
    np.testing.assert_allclose(stretches(G) ** 2, np.diag(G) / np.diag(G).max())
    shared = stretches(np.array([1.0, 3.0, 8.0]), groups=np.array([0, 0, 1]))
    np.testing.assert_allclose(shared**2, [0.25, 0.25, 1.0])
    np.testing.assert_array_equal(stretches(np.zeros(2)), np.ones(2))


def test_a_metric_without_a_map_resolves_to_its_kernel_and_one_with_a_map_in_mapped_rows(sums):
    X, T = sums[0], np.diag([1.0, 2.0, 3.0])
    assert Metric(RBF("median")).resolve(X) == RBF("median").resolve(X)
    assert Metric(RBF("median"), T).resolve(X) == Metric(RBF("median").resolve(X @ T.T), T)
