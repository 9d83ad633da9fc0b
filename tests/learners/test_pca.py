"""Kernel PCA on a dictionary against dense eigenvectors, the bounds of the theory, and pre-images."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import KernelPCA as DenseKernelPCA
from sklearn.utils.estimator_checks import parametrize_with_checks

import squeak
from squeak import KernelPCA, Squeak
from squeak.core import storage
from squeak.core.kernels import gram
from squeak.core.nystrom import TriangularFeatures
from squeak.kernels import RBF, Laplacian, Linear, Matern
from squeak.learners.preimage import preimages
from squeak.leverage import accuracy, effective_dimension


@parametrize_with_checks([KernelPCA(kernel=RBF(1.0)), KernelPCA(3, kernel=RBF(1.0), centre=False, max_atoms=20)])
def test_scikit_learns_contract(estimator, check):
    check(estimator)


@pytest.fixture
def X(clusters):
    return clusters


@pytest.fixture
def learned(X):
    return Squeak(kernel=RBF(1.5), ridge=0.5, oversampling=8, random_state=0).fit(X).dictionary_


def test_with_all_rows_as_atoms_it_is_dense_kernel_pca(X):
    mine = KernelPCA(5, kernel=RBF(1.5), dictionary=X).fit(X)
    dense = DenseKernelPCA(5, kernel="rbf", gamma=1 / (2 * 1.5**2)).fit(X)
    np.testing.assert_allclose(mine.eigenvalues_, dense.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(np.abs(mine.transform(X)), np.abs(dense.transform(X)), atol=1e-8)
    new = X[:20] + 0.1
    np.testing.assert_allclose(np.abs(mine.transform(new)), np.abs(dense.transform(new)), atol=1e-8)


def test_uncentred_it_is_the_spectrum_of_the_kernel_matrix(X):
    K = RBF(1.5)(X)
    values = np.linalg.eigvalsh(K)[::-1]
    mine = KernelPCA(6, kernel=RBF(1.5), dictionary=X, centre=False).fit(X)
    np.testing.assert_allclose(mine.eigenvalues_, values[:6], rtol=1e-9)
    assert mine.reconstruction_error_ == pytest.approx(values[6:].sum(), rel=1e-8)
    assert mine.explained_variance_ratio_.sum() == pytest.approx(values[:6].sum() / len(X), rel=1e-9)
    np.testing.assert_allclose(mine.explained_variance_, values[:6] / len(X), rtol=1e-9)


@pytest.mark.parametrize("centre", [True, False])
def test_the_error_is_the_distance_from_the_components(X, learned, centre):
    """‖Φ − ΠΦ‖² formed in full, with an explicit feature map of all rows."""
    mine = KernelPCA(4, dictionary=learned, centre=centre).fit(X)
    K = gram(learned.kernel, X)
    values, U = np.linalg.eigh(K)
    phi = U * np.sqrt(np.maximum(values, 0))  # row i is φ(x_i)
    directions = mine.dual_coef_.T @ phi[learned.indices]
    np.testing.assert_allclose(directions @ directions.T, np.eye(4), atol=1e-7)
    scores = phi @ directions.T - (mine._mean @ mine._basis if centre else 0.0)
    np.testing.assert_allclose(mine.transform(X), scores, atol=1e-7)
    rest = len(X) - (len(X) * mine._mean @ mine._mean if centre else 0.0)
    assert mine.reconstruction_error_ == pytest.approx(rest - (scores**2).sum(), rel=1e-7)


@pytest.mark.parametrize("factor", ["eps", 1.0, 2.0])
def test_the_regularised_reconstruction_keeps_its_bound(X, learned, factor):
    """0 ⪯ K − K̃_α ⪯ α/(1 − ε)·K(K + (α − εγ)/(1 − ε))⁻¹ at the measured ε̂; with a tenth of α it fails."""
    K, eps, ridge = gram(learned.kernel, X), accuracy(learned, X), learned.ridge
    assert eps < 1
    alpha = ridge * (eps if factor == "eps" else factor)
    Z = TriangularFeatures(learned.kernel, learned.atoms, learned.weights, alpha).transform(X)
    gap = K - Z @ Z.T
    assert np.linalg.eigvalsh(gap)[0] > -1e-8

    def slack(alpha):
        shift = max(alpha - eps * ridge, 0.0) / (1 - eps)
        bound = alpha / (1 - eps) * K @ np.linalg.pinv(K + shift * np.eye(len(K)), rcond=1e-10, hermitian=True)
        return np.linalg.eigvalsh((bound + bound.T) / 2 - gap)[0]

    assert slack(alpha) > -1e-6
    assert slack(alpha / 10) < -1e-3


def test_the_plain_reconstruction_keeps_its_bound_and_ignores_weights(X, learned):
    K, eps = gram(learned.kernel, X), accuracy(learned, X)
    plain = TriangularFeatures(learned.kernel, learned.atoms).transform(X)
    weighted = TriangularFeatures(learned.kernel, learned.atoms, learned.weights).transform(X)
    np.testing.assert_array_equal(plain, weighted)
    left = np.linalg.eigvalsh(K - plain @ plain.T)
    assert left[0] > -1e-8
    assert left[-1] <= eps * learned.ridge / (1 - eps)


def test_components_on_a_dictionary_keep_the_bounds_of_the_theory(X, learned):
    K, eps, ridge = gram(learned.kernel, X), accuracy(learned, X), learned.ridge
    values = np.linalg.eigvalsh(K)[::-1]
    whole = KernelPCA(None, dictionary=learned, centre=False).fit(X)
    assert whole.reconstruction_error_ <= ridge / (1 - eps) * effective_dimension(
        X, kernel=learned.kernel, ridge=ridge
    )
    for k in (1, 3, 8):
        error = KernelPCA(k, dictionary=learned, centre=False).fit(X).reconstruction_error_
        best = values[k:].sum()
        assert best - 1e-8 <= error <= best + k * eps * ridge / (1 - eps)
    few = learned.atoms[:3]  # three rows of one cluster: no bound for them, and none is kept
    error = KernelPCA(8, kernel=learned.kernel, dictionary=few, centre=False).fit(X).reconstruction_error_
    assert error > values[8:].sum() + 8 * eps * ridge / (1 - eps)


def test_auto_keeps_the_eigenvalues_above_the_ridge(X, learned):
    mine = KernelPCA("auto", dictionary=learned, centre=False).fit(X)
    assert mine.eigenvalues_.min() > learned.ridge
    assert (
        KernelPCA(mine.n_components_ + 1, dictionary=learned, centre=False).fit(X).eigenvalues_[-1] <= learned.ridge
    )


def test_blocks_of_a_stream_are_one_fit_with_a_given_dictionary(X, learned):
    whole = KernelPCA(4, dictionary=learned).fit(X)
    parts = KernelPCA(4, dictionary=learned)
    for block in np.array_split(X, 7):
        parts.partial_fit(block)
    np.testing.assert_allclose(parts.eigenvalues_, whole.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(parts.transform(X), whole.transform(X), atol=1e-8)
    more = KernelPCA(4, dictionary=learned).fit(X[:100]).partial_fit(X[100:])
    np.testing.assert_allclose(more.transform(X), whole.transform(X), atol=1e-8)


def test_a_dictionary_learned_along_the_way_loses_little(rng):
    X = rng.standard_normal((3000, 2))
    stream = KernelPCA(5, kernel=RBF(1.5), max_atoms=60, random_state=0)
    for block in np.array_split(X, 10):
        stream.partial_fit(block)
    centred = KernelPCA(5, kernel=RBF(1.5), dictionary=X[:400]).fit(X)
    np.testing.assert_allclose(stream.eigenvalues_, centred.eigenvalues_, rtol=0.01)
    assert stream.reconstruction_error_ >= centred.reconstruction_error_
    once = KernelPCA(5, kernel=RBF(1.5), max_atoms=60, random_state=0).fit(squeak.rows(iter(np.array_split(X, 10))))
    np.testing.assert_allclose(once.eigenvalues_, centred.eigenvalues_, rtol=0.01)


def test_weights_are_repetitions(X, learned, rng):
    times = rng.integers(0, 4, len(X))
    weighted = KernelPCA(4, dictionary=learned).fit(X, sample_weight=times)
    repeated = KernelPCA(4, dictionary=learned).fit(X.repeat(times, axis=0))
    np.testing.assert_allclose(weighted.transform(X), repeated.transform(X), atol=1e-8)
    assert weighted.reconstruction_error_ == pytest.approx(repeated.reconstruction_error_, rel=1e-9)


def test_tables_sparse_rows_and_names(X):
    pandas = pytest.importorskip("pandas")
    mine = KernelPCA(2, kernel=RBF(1.5), dictionary=X[:50]).fit(X)
    frame = pandas.DataFrame(X, columns=list("abc"))
    named = KernelPCA(2, kernel=RBF(1.5), dictionary=X[:50]).set_output(transform="pandas").fit(frame)
    assert list(named.get_feature_names_out()) == ["kernelpca0", "kernelpca1"]
    assert list(named.transform(frame).columns) == ["kernelpca0", "kernelpca1"]
    np.testing.assert_allclose(named.transform(frame).to_numpy(), mine.transform(X), atol=1e-9)
    sparse = KernelPCA(2, kernel=RBF(1.5), dictionary=sp.csr_array(X[:50])).fit(sp.csr_array(X))
    np.testing.assert_allclose(sparse.transform(sp.csr_matrix(X)), mine.transform(X), atol=1e-7)
    assert sparse.inverse_transform(sparse.transform(sp.csr_matrix(X[:3]))).shape == (3, 3)


def test_saved_and_loaded_it_goes_on_where_it_was(X, learned, tmp_path):
    mine = KernelPCA(4, dictionary=learned).fit(X[:200])
    mine.save(tmp_path / "p.sqk")
    again = squeak.load(tmp_path / "p.sqk")
    np.testing.assert_array_equal(again.transform(X), mine.transform(X))
    np.testing.assert_array_equal(again.partial_fit(X[200:]).transform(X), mine.partial_fit(X[200:]).transform(X))
    assert again.reconstruction_error_ == mine.reconstruction_error_


@pytest.mark.parametrize("bad", [0, -1, 1.5, "all", True])
def test_bad_sizes_are_refused_before_anything_changes(X, bad):
    mine = KernelPCA(2, kernel=RBF(1.5), dictionary=X[:20]).fit(X)
    before = mine.transform(X)
    with pytest.raises(ValueError, match="n_components"):
        mine.set_params(n_components=bad).fit(X)
    np.testing.assert_array_equal(mine.transform(X), before)
    with pytest.raises(ValueError, match="2 components"):
        mine.inverse_transform(np.ones((3, 5)))


def test_preimages_of_the_linear_kernel_are_principal_components(X):
    mine = KernelPCA(2, kernel=Linear(), dictionary=X[:40]).fit(X)
    centred = X - X.mean(axis=0)
    _, _, V = np.linalg.svd(centred, full_matrices=False)
    expected = centred @ V[:2].T @ V[:2] + X.mean(axis=0)
    np.testing.assert_allclose(mine.inverse_transform(mine.transform(X)), expected, atol=1e-7)


def test_preimages_of_the_gaussian_are_the_nearest_on_a_grid(rng):
    """In one dimension the nearest feature vector can be found by looking at all of them."""
    atoms = np.sort(rng.uniform(-3, 3, 15)).reshape(-1, 1)
    coef = np.zeros((40, 15))
    for row in coef:
        row[rng.choice(15, 3, replace=False)] = rng.uniform(0.2, 1.0, 3)
    grid = np.linspace(-4, 4, 20_001).reshape(-1, 1)
    heights = coef @ RBF(1.5)(atoms, grid)  # ⟨P, φ(x)⟩: the nearest row has the most of it
    found = np.einsum("ij,ji->i", coef, RBF(1.5)(atoms, preimages(RBF(1.5), atoms, coef)))
    assert np.mean(found >= heights.max(axis=1) - 1e-6) > 0.9
    np.testing.assert_allclose(found, heights.max(axis=1), rtol=0.02)


@pytest.mark.parametrize("kernel", [RBF(1.0), 3.0 * RBF(1.0), Laplacian(2.0), Matern(1.0)], ids=str)
def test_noise_goes_out_with_the_last_components(rng, kernel):
    angle = rng.uniform(0, 2 * np.pi, 1500)
    clean = np.column_stack([np.cos(angle), np.sin(angle)])
    noisy = clean + 0.15 * rng.standard_normal(clean.shape)
    mine = KernelPCA(4, kernel=kernel, max_atoms=80, random_state=0).fit(noisy)
    off = np.abs(np.hypot(*mine.inverse_transform(mine.transform(noisy)).T) - 1).mean()
    assert off < 0.75 * np.abs(np.hypot(*noisy.T) - 1).mean()


@pytest.mark.parametrize("square", [[0.0, 40.0], [39.0, 40.0], [40.0, -1.0]])
def test_sums_that_are_not_those_of_the_rows_are_refused(square, X, tmp_path):
    arrays, content = KernelPCA(2, kernel=RBF(1.0), max_atoms=12, random_state=0).fit(X[:40]).to_parts()
    storage.write(tmp_path / "bad.sqk", "kernel-pca", arrays | {"square": np.array(square)}, content)
    with pytest.raises(storage.StorageError, match=r"the weight of its rows|'square' holds NaN, or lies outside"):
        squeak.load(tmp_path / "bad.sqk")
