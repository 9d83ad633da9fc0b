"""The dense-oracle battery: whatever sampler made a dictionary, all that is computed from it is the dense formula.

A new sampler joins by its entry in the contract's list and inherits every test here.
"""

import numpy as np
import pytest
from sklearn.base import clone

from squeak.core.kernels import gram
from squeak.core.nystrom import EigenFeatures, TriangularFeatures
from squeak.leverage import accuracy, estimate_accuracy
from tests.oracles import dense_accuracy, dense_estimate
from tests.test_contract import SAMPLERS


@pytest.fixture(params=SAMPLERS, scope="module")
def case(request):
    """Return rows, their dictionary, the kernel matrix and one weight a row."""
    X = np.random.default_rng(5).standard_normal((350, 2)) * [1.0, 2.0]
    d = clone(SAMPLERS[request.param]).fit(X).dictionary_
    weights = np.zeros(len(X))
    weights[d.indices] = d.weights
    return X, d, gram(d.kernel, X), weights


def test_atoms_are_the_rows_at_their_indices(case):
    X, d, _, _ = case
    assert np.array_equal(X[d.indices], d.atoms)
    assert np.all(np.diff(d.indices) > 0)
    assert d.n_seen == 350


def test_leverage_scores_are_the_dense_formula(case):
    X, d, K, weights = case
    dense = dense_estimate(K, weights, d.ridge, 1 - d.eps)
    np.testing.assert_allclose(d.leverage_scores(X), dense, rtol=1e-5, atol=1e-8)


def test_effective_dimension_and_eigenvalues_are_those_of_the_weighted_matrix(case):
    _, d, K, weights = case
    root = np.sqrt(weights)
    eigenvalues = np.maximum(np.linalg.eigvalsh(root[:, None] * K * root)[::-1], 0)
    np.testing.assert_allclose(d.eigenvalues(), eigenvalues[: len(d)], atol=1e-8 * eigenvalues[0])
    assert d.effective_dimension() == pytest.approx((eigenvalues / (eigenvalues + d.ridge)).sum(), rel=1e-6)


def test_accuracy_is_the_dense_norm_and_lies_in_its_bracket(case):
    X, d, K, weights = case
    exact = accuracy(d, X)
    assert exact == pytest.approx(dense_accuracy(K, weights, d.ridge), rel=1e-6)
    found = estimate_accuracy(d, X, n_probe=350)
    assert found.lower <= exact <= found.upper


@pytest.mark.parametrize("form", [EigenFeatures, TriangularFeatures])
def test_features_are_the_dense_reconstruction(case, form):
    X, d, _, _ = case
    root = np.sqrt(d.weights)
    C = d.kernel(X, d.atoms) * root
    dense = C @ np.linalg.solve(root[:, None] * gram(d.kernel, d.atoms) * root + d.ridge * np.eye(len(d)), C.T)
    Z = form(d.kernel, d.atoms, d.weights, d.ridge).transform(X)
    np.testing.assert_allclose(Z @ Z.T, dense, atol=1e-7)
