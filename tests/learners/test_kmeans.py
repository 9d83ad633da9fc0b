"""Kernel k-means on a dictionary against Lloyd's iterations on the full kernel matrix."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import squeak
from squeak import KernelKMeans
from squeak.kernels import RBF, Linear


@parametrize_with_checks([KernelKMeans(3, kernel=RBF(1.0), n_init=3)])
def test_scikit_learns_contract(estimator, check):
    check(estimator)


@pytest.fixture
def blobs(rng):
    """Return 600 rows of four clusters of unequal size, and their labels."""
    sizes, centres = [300, 150, 100, 50], 4.0 * np.array([[0, 0], [1, 1], [0, 1], [1.5, 0]])
    labels = np.repeat(np.arange(4), sizes)
    order = rng.permutation(600)
    X = centres[labels] + 0.4 * rng.standard_normal((600, 2))
    return X[order], labels[order]


def dense_lloyd(K, labels, k):
    """Return labels and cost at the end of Lloyd's iterations on the whole kernel matrix, from given labels."""
    while True:
        members = np.eye(k)[labels] / np.bincount(labels, minlength=k)  # (n, k): columns are means
        far = np.diag(K)[:, None] - 2 * K @ members + np.einsum("ik,ij,jk->k", members, K, members)
        new = far.argmin(axis=1)
        if (new == labels).all():
            return labels, far.min(axis=1).sum()
        labels = new


def test_with_all_rows_as_atoms_it_ends_where_dense_iterations_do(blobs):
    X, _ = blobs
    mine = KernelKMeans(4, kernel=RBF(1.0), dictionary=X, random_state=0).fit(X)
    labels, cost = dense_lloyd(RBF(1.0)(X), mine.labels_, 4)
    assert (labels == mine.labels_).all()
    assert mine.inertia_ == pytest.approx(cost, rel=1e-9)
    np.testing.assert_allclose((mine.transform(X).min(axis=1) ** 2).sum(), cost, rtol=1e-9)
    assert mine.score(X) == pytest.approx(-cost, rel=1e-9)


def test_the_linear_kernel_is_plain_k_means(blobs):
    X, truth = blobs
    mine = KernelKMeans(4, kernel=Linear(), max_atoms=50, random_state=0).fit(X)
    centres = np.array([X[mine.labels_ == j].mean(axis=0) for j in range(4)])
    assert mine.inertia_ == pytest.approx(((X - centres[mine.labels_]) ** 2).sum(), rel=1e-8)
    np.testing.assert_allclose(mine.transform(X), np.linalg.norm(X[:, None] - centres, axis=2), atol=1e-6)
    np.testing.assert_allclose(mine.dual_coef_.T @ mine.dictionary_.atoms, centres, atol=1e-7)
    assert adjusted_rand_score(truth, mine.labels_) > 0.98


def test_few_atoms_find_the_clusters_of_many_rows(blobs):
    X, truth = blobs
    mine = KernelKMeans(4, kernel=RBF(1.0), max_atoms=40, random_state=0).fit(X)
    assert len(mine.dictionary_) <= 40
    assert adjusted_rand_score(truth, mine.labels_) > 0.98
    assert (mine.predict(X) == mine.labels_).all()
    np.testing.assert_array_equal(mine.cluster_weights_, np.bincount(mine.labels_))
    best = min(dense_lloyd(RBF(1.0)(X), truth, 4)[1], mine.inertia_)
    assert mine.inertia_ <= 1.01 * best


def test_rings_that_straight_lines_cannot_part(rng):
    """Concentric rings: a centre of one lies within the other, so the plain mean is no use."""
    angle, radius = rng.uniform(0, 2 * np.pi, 800), np.repeat([0.3, 3.0], 400)
    X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.05 * rng.standard_normal((800, 2))
    truth = np.repeat([0, 1], 400)
    narrow = KernelKMeans(2, kernel=RBF(1.0), max_atoms=40, random_state=0).fit(X)
    plain = KernelKMeans(2, kernel=Linear(), max_atoms=40, random_state=0).fit(X)
    assert adjusted_rand_score(truth, narrow.labels_) > 0.95 > 0.3 > adjusted_rand_score(truth, plain.labels_)


def test_weights_are_repetitions_and_memory_changes_nothing(blobs, rng):
    X, _ = blobs
    times = rng.integers(0, 4, len(X))
    weighted = KernelKMeans(4, kernel=RBF(1.0), dictionary=X[:60], random_state=0).fit(X, sample_weight=times)
    repeated = KernelKMeans(4, kernel=RBF(1.0), dictionary=X[:60], random_state=0).fit(X.repeat(times, axis=0))
    np.testing.assert_allclose(weighted.transform(X), repeated.transform(X), atol=1e-7)
    streamed = KernelKMeans(4, kernel=RBF(1.0), dictionary=X[:60], memory_budget=0, random_state=0)
    streamed.fit(X, sample_weight=times)
    np.testing.assert_allclose(streamed.transform(X), weighted.transform(X), atol=1e-8)


def test_centres_of_a_stream_are_means_of_all_they_were_given(blobs):
    X, truth = blobs
    mine = KernelKMeans(4, kernel=Linear(), dictionary=X[:30], random_state=0).partial_fit(X[:100])
    sums = np.array([X[:100][mine.labels_ == j].sum(axis=0) for j in range(4)])
    for block in np.array_split(X[100:], 5):
        before = mine.predict(block)
        mine.partial_fit(block)
        sums += np.array([block[before == j].sum(axis=0) for j in range(4)])
    centres = sums / mine.cluster_weights_[:, None]
    np.testing.assert_allclose(mine.dual_coef_.T @ X[:30], centres, atol=1e-7)
    assert mine.cluster_weights_.sum() == 600
    assert adjusted_rand_score(truth, mine.predict(X)) > 0.98


def test_a_cluster_that_lost_its_rows_begins_anew():
    from squeak.learners.centres import means

    mixing, places = np.eye(2), np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 5.0]])
    found = means(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([2.0, 0.0]), mixing, places)
    np.testing.assert_array_equal(found.points, [[0.5, 0.0], [0.0, 5.0]])


def test_pipelines_names_sparse_rows_and_files(blobs, tmp_path):
    X, truth = blobs
    pipe = make_pipeline(StandardScaler(), KernelKMeans(4, kernel=RBF(0.5), max_atoms=60, random_state=0)).fit(X)
    assert adjusted_rand_score(truth, pipe.predict(X)) > 0.98
    dense = KernelKMeans(4, kernel=RBF(1.0), dictionary=X[:40], random_state=0).fit(X)
    assert list(dense.get_feature_names_out()) == [f"kernelkmeans{j}" for j in range(4)]
    sparse = KernelKMeans(4, kernel=RBF(1.0), dictionary=sp.csr_array(X[:40]), random_state=0).fit(sp.csr_array(X))
    assert adjusted_rand_score(sparse.labels_, dense.labels_) == 1.0
    dense.save(tmp_path / "k.sqk")
    again = squeak.load(tmp_path / "k.sqk")
    np.testing.assert_array_equal(again.transform(X), dense.transform(X))
    np.testing.assert_array_equal(again.partial_fit(X[:50]).transform(X), dense.partial_fit(X[:50]).transform(X))


def test_what_cannot_be_is_said(blobs):
    X, _ = blobs
    with pytest.raises(ValueError, match="fewer than n_clusters=8"):
        KernelKMeans(8, kernel=RBF(1.0)).fit(np.ones((20, 2)))
    with pytest.raises(ValueError, match="n_init"):
        KernelKMeans(2, n_init=0).fit(X)
    with pytest.raises(ValueError, match="use partial_fit"):
        KernelKMeans(2).fit(squeak.rows(iter([X])))
    with pytest.warns(ConvergenceWarning, match="still moved after 1 passes"):
        KernelKMeans(25, kernel=RBF(1.0), max_iter=1, tol=0.0, max_atoms=40, random_state=0).fit(X)
