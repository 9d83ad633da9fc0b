import numpy as np
import pytest

from squeak.core.kernels import gram
from squeak.core.nystrom import EigenFeatures, GrowingFeatures, TriangularFeatures
from squeak.kernels import RBF, Linear
from squeak.leverage import accuracy
from squeak.samplers import ExactRLS, Squeak

FORMS = [EigenFeatures, TriangularFeatures]


@pytest.fixture
def dictionary(clusters):
    return ExactRLS(kernel=RBF(1.0), ridge=1.0, oversampling=15, random_state=0).fit(clusters).dictionary_


@pytest.mark.parametrize("form", FORMS)
def test_plain_features_are_the_dense_projection_and_weights_drop_out(form, clusters, dictionary):
    d = dictionary
    K, C = gram(d.kernel, clusters), d.kernel(clusters, d.atoms)
    dense = C @ np.linalg.pinv(gram(d.kernel, d.atoms), rcond=1e-12, hermitian=True) @ C.T
    Z = form(d.kernel, d.atoms).transform(clusters)
    np.testing.assert_allclose(Z @ Z.T, dense, atol=2e-5)  # the pseudo-inverse is the rough one
    weighted = form(d.kernel, d.atoms, weights=d.weights, ridge=0.0).transform(clusters)
    assert np.array_equal(weighted, Z)
    eps = accuracy(d, clusters)
    assert eps < 1
    gap = np.linalg.eigvalsh(K - Z @ Z.T)
    assert gap[0] >= -1e-6
    assert gap[-1] <= eps * d.ridge / (1 - eps) + 1e-9


@pytest.mark.parametrize("size", [1e-20, 1e20])
def test_the_rank_of_features_does_not_depend_on_the_size_of_the_kernel(size, rng):
    X = rng.standard_normal((30, 3))
    features = EigenFeatures(size * Linear(), X)
    assert features.rank == 3
    Z = features.transform(X)
    np.testing.assert_allclose(Z @ Z.T, size * (X @ X.T), atol=1e-12 * size)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ridge", [0.1, 1.0])
def test_regularised_features_are_the_dense_formula(form, ridge, clusters, dictionary):
    d = dictionary
    root = np.sqrt(d.weights)
    C = d.kernel(clusters, d.atoms) * root
    W = root[:, None] * gram(d.kernel, d.atoms) * root
    dense = C @ np.linalg.solve(W + ridge * np.eye(len(d)), C.T)
    Z = form(d.kernel, d.atoms, weights=d.weights, ridge=ridge).transform(clusters)
    np.testing.assert_allclose(Z @ Z.T, dense, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_rank_deficient_atoms_give_no_more_features_than_rank(form, rng):
    X = rng.standard_normal((80, 3))
    features = form(Linear(), np.vstack([X[:10], X[:10]]))
    assert features.rank == 3
    Z = features.transform(X)
    np.testing.assert_allclose(Z @ Z.T, X @ X.T, atol=1e-10)
    with pytest.raises(ValueError, match="ridge must not be negative"):
        form(Linear(), X, ridge=-1.0)


@pytest.mark.parametrize("seed", range(3))
def test_reconstruction_keeps_lemma_4_3(seed, rng):
    """0 ⪯ K − K̃_α ⪯ (α/(1 − ε))·K(K + ((α − εγ)/(1 − ε))·I)⁺ at the measured ε̂, for α = ε̂γ, γ, 2γ.

    Plain features: 0 ⪯ K − K̃ ⪯ (εγ/(1 − ε))·I.
    """
    X = rng.standard_normal((200, 2))
    kernel, gamma = RBF(1.0), 1.0
    d = Squeak(kernel, ridge=gamma, oversampling=40, random_state=seed).fit(X).dictionary_
    eps = accuracy(d, X)
    assert eps < 1
    K = kernel(X)
    values, U = np.linalg.eigh(K)
    values = np.maximum(values, 0.0)
    for alpha in (eps * gamma, gamma, 2 * gamma):
        Z = TriangularFeatures(kernel, d.atoms, d.weights, alpha).transform(X)
        gap = K - Z @ Z.T
        shift = (alpha - eps * gamma) / (1 - eps)
        kept = values > 1e-10
        bound = (U[:, kept] * (alpha / (1 - eps) * values[kept] / (values[kept] + shift))) @ U[:, kept].T
        assert np.linalg.eigvalsh(gap)[0] > -1e-9
        assert np.linalg.eigvalsh(bound - gap)[0] > -1e-8
    Z = EigenFeatures(kernel, d.atoms).transform(X)
    assert np.linalg.eigvalsh(K - Z @ Z.T)[-1] <= eps * gamma / (1 - eps) + 1e-9


def test_features_that_grow_in_blocks_are_the_projection_and_rows_in_the_span_add_none(rng):
    X = rng.standard_normal((30, 3))
    atoms = np.vstack([X[:6], X[2:4], X[6:9]])  # two of them are there already
    features = GrowingFeatures.none(RBF(1.0), atoms)
    for first, last in ((0, 4), (4, 8), (8, 11)):
        added, tried = features.news(atoms[first:last], None)
        assert tried == last - first
        features = features.grown(atoms[:last], *added)
    assert features.members.tolist() == [0, 1, 2, 3, 4, 5, 8, 9, 10]
    Z, C = features.block(X), RBF(1.0)(X, X[:9])
    np.testing.assert_allclose(Z @ Z.T, C @ np.linalg.solve(RBF(1.0)(X[:9]), C.T), atol=1e-9)
    added, tried = features.news(X[9:14], 2)
    assert (added[0].tolist(), tried) == ([0, 1], 2)
