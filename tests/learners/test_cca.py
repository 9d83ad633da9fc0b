"""Kernel CCA on two dictionaries against the generalised eigenvalue problem on the full kernel matrices."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from sklearn.utils.estimator_checks import parametrize_with_checks

import squeak
from squeak import KernelCCA
from squeak.kernels import RBF, Linear


@parametrize_with_checks([KernelCCA(kernel=RBF(1.0), kernel_y=RBF(1.0))])
def test_scikit_learns_contract(estimator, check):
    check(estimator)


@pytest.fixture
def views(rng):
    """Return two views of 250 rows that share an angle, each with noise of its own."""
    angle = rng.uniform(0, 2 * np.pi, 250)
    X = np.column_stack([np.cos(angle), np.sin(angle), rng.standard_normal(250)])
    Y = np.column_stack([np.cos(2 * angle), rng.standard_normal(250)]) + 0.1 * rng.standard_normal((250, 2))
    return X, Y


def dense_values(Kx, Ky, alpha, k):
    """Return the k largest ρ of [0, KxKy; KyKx, 0]v = ρ[Kx² + αKx, 0; 0, Ky² + αKy]v, kernels centred."""
    n = len(Kx)
    H = np.eye(n) - 1 / n
    Kx, Ky = H @ Kx @ H, H @ Ky @ H
    A = np.block([[np.zeros((n, n)), Kx @ Ky], [Ky @ Kx, np.zeros((n, n))]])
    B = scipy.linalg.block_diag(Kx @ Kx + alpha * Kx, Ky @ Ky + alpha * Ky) + 1e-10 * np.eye(2 * n)
    return scipy.linalg.eigh(A, B, eigvals_only=True)[::-1][:k]


@pytest.mark.parametrize("alpha", [0.1, 5.0])
def test_with_all_rows_as_atoms_it_is_the_dense_eigenproblem(views, alpha):
    X, Y = views
    mine = KernelCCA(3, kernel=RBF(1.5), kernel_y=RBF(1.0), alpha=alpha, dictionary=X, dictionary_y=Y).fit(X, Y)
    np.testing.assert_allclose(mine.values_, dense_values(RBF(1.5)(X), RBF(1.0)(Y), alpha, 3), rtol=1e-6)


def test_scores_keep_the_constraints(views):
    X, Y = views
    mine = KernelCCA(3, kernel=RBF(1.5), kernel_y=RBF(1.0), alpha=2.0, dictionary=X[:80], dictionary_y=Y[:60]).fit(
        X, Y
    )
    f, g = mine.transform(X, Y)
    for scores, coef, d in ((f, mine.dual_coef_, mine.dictionary_), (g, mine.dual_coef_y_, mine.dictionary_y_)):
        norms = coef.T @ d.kernel(d.atoms) @ coef
        np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-9)
        np.testing.assert_allclose((scores.T @ scores + 2.0 * norms) / len(X), np.eye(3), atol=1e-7)
    np.testing.assert_allclose(np.diag(f.T @ g) / len(X), mine.values_, rtol=1e-8)
    correlations = [np.corrcoef(f[:, j], g[:, j])[0, 1] for j in range(3)]
    np.testing.assert_allclose(mine.correlations_, correlations, rtol=1e-8)
    assert mine.score(X, Y) == pytest.approx(np.mean(correlations), rel=1e-8)


def test_linear_kernels_give_linear_cca(views):
    X, Y = views
    mine = KernelCCA(2, kernel=Linear(), kernel_y=Linear(), alpha=1e-6, max_atoms=50, random_state=0).fit(X, Y)
    Qx, Qy = (np.linalg.qr(view - view.mean(axis=0))[0] for view in (X, Y))
    np.testing.assert_allclose(mine.values_, np.linalg.svd(Qx.T @ Qy)[1][:2], rtol=1e-6)


def test_what_is_shared_is_found_on_new_rows_and_noise_is_not(views, rng):
    X, Y = views
    mine = KernelCCA(1, kernel=RBF(1.5), kernel_y=RBF(1.0), alpha=3.0, max_atoms=80, random_state=0).fit(
        X[:200], Y[:200]
    )
    assert mine.score(X[200:], Y[200:]) > 0.8
    none = KernelCCA(1, kernel=RBF(1.5), kernel_y=RBF(1.0), alpha=3.0, max_atoms=80, random_state=0)
    assert abs(none.fit(X[:200], rng.permutation(Y[:200])).score(X[200:], Y[200:])) < 0.5


def test_weights_are_repetitions(views, rng):
    X, Y = views
    times = rng.integers(0, 3, len(X))
    made = {"dictionary": X[:60], "dictionary_y": Y[:60], "alpha": 1.0}
    weighted = KernelCCA(2, kernel=RBF(1.5), kernel_y=RBF(1.0), **made).fit(X, Y, sample_weight=times)
    repeated = KernelCCA(2, kernel=RBF(1.5), kernel_y=RBF(1.0), **made).fit(
        X.repeat(times, axis=0), Y.repeat(times, axis=0)
    )
    np.testing.assert_allclose(weighted.transform(X), repeated.transform(X), atol=1e-8)
    np.testing.assert_allclose(weighted.transform_y(Y), repeated.transform_y(Y), atol=1e-8)


def test_sparse_rows_tables_and_files(views, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, Y = views
    mine = KernelCCA(2, kernel=RBF(1.5), kernel_y=RBF(1.0), dictionary=X[:60], dictionary_y=Y[:60]).fit(X, Y)
    frame = pandas.DataFrame(X, columns=list("abc"))
    other = pandas.DataFrame(Y, columns=list("de"))
    table = KernelCCA(2, kernel=RBF(1.5), kernel_y=RBF(1.0), dictionary=X[:60], dictionary_y=Y[:60]).fit(
        frame, other
    )
    np.testing.assert_allclose(table.transform(frame), mine.transform(X), atol=1e-9)
    np.testing.assert_allclose(table.transform_y(other), mine.transform_y(Y), atol=1e-9)
    sparse = KernelCCA(2, kernel=RBF(1.5), kernel_y=RBF(1.0), dictionary=sp.csr_array(X[:60]), dictionary_y=Y[:60])
    np.testing.assert_allclose(
        sparse.fit(sp.csr_array(X), Y).transform(sp.csr_array(X)), mine.transform(X), atol=1e-7
    )
    mine.save(tmp_path / "c.sqk")
    again = squeak.load(tmp_path / "c.sqk")
    np.testing.assert_array_equal(again.transform(X), mine.transform(X))
    np.testing.assert_array_equal(again.transform_y(Y), mine.transform_y(Y))
    assert list(mine.get_feature_names_out()) == ["kernelcca0", "kernelcca1"]


def test_a_source_carries_both_views(views):
    X, Y = views
    made = {"dictionary": X[:60], "dictionary_y": Y[:60]}
    here = KernelCCA(2, kernel=RBF(1.5), kernel_y=RBF(1.0), **made).fit(X, Y)
    there = KernelCCA(2, kernel=RBF(1.5), kernel_y=RBF(1.0), **made).fit(squeak.rows(X, target=Y))
    np.testing.assert_allclose(there.transform(X), here.transform(X), atol=1e-8)
    learned = KernelCCA(1, kernel=RBF(1.5), kernel_y=RBF(1.0), max_atoms=60, random_state=0).fit(
        squeak.rows(X, target=Y)
    )
    assert learned.dictionary_y_.atoms.shape[1] == 2
    assert len(learned.dictionary_y_) <= 60
    assert learned.values_[0] == pytest.approx(here.values_[0], rel=0.05)


def test_what_cannot_be_is_said(views):
    X, Y = views
    with pytest.raises(ValueError, match="alpha must be positive"):
        KernelCCA(alpha=0.0).fit(X, Y)
    with pytest.raises(ValueError, match="n_components"):
        KernelCCA(0).fit(X, Y)
    with pytest.raises(ValueError, match="inconsistent"):
        KernelCCA().fit(X, Y[:-1])
    mine = KernelCCA(1, kernel=RBF(1.0), kernel_y=RBF(1.0), max_atoms=20, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="the rows before had 2"):
        mine.transform_y(X)
    with pytest.raises(ValueError, match="250 and 249"):
        mine.score(X, Y[:-1])
