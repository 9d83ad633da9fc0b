"""What graph learners are compared with, against dense versions."""

import numpy as np
from scipy.linalg import eig

from squeak.graphs import EigenFunctions, HarmonicClassifier, NearestLabel, SimpleHarmonic, SubSampling, knn_graph
from tests.graphs.oracles import dense_laplacian, random_graph


def labels(n, rng, few=8):
    y = np.full(n, -1)
    y[rng.choice(n, few, replace=False)] = np.arange(few) % 2
    return y


def test_simple_hfs_is_least_squares_in_the_smoothest_eigenvectors(rng):
    graph = random_graph(40, 300, 3)
    y = labels(40, rng)
    _, vectors = np.linalg.eigh(dense_laplacian(graph))
    basis, some = vectors[:, :4], np.flatnonzero(y >= 0)
    codes = np.eye(2)[y[some]]
    found = SimpleHarmonic(4).fit(graph.adjacency(), y).scores_
    np.testing.assert_allclose(found, basis @ np.linalg.lstsq(basis[some], codes, rcond=None)[0], atol=1e-6)


def test_eigenfunctions_are_those_of_the_histogram(rng):
    """One column: (D − PWP)f = σ·diag(p·Wp)f on b bins, the smoothest interpolated, and a ridge in their span."""
    x = rng.standard_normal((60, 1))
    y, b, q = labels(60, rng), 12, 3
    density, cuts = np.histogram(x[:, 0], bins=b)
    p = (density + 0.05 * density.mean()) / 60
    middle = (cuts[1:] + cuts[:-1]) / 2
    W = np.exp(-((np.subtract.outer(middle, middle) / (0.2 * np.ptp(middle))) ** 2) / 2)
    PWP = np.diag(p) @ W @ np.diag(p)
    values, functions = eig(np.diag(PWP.sum(axis=1)) - PWP, np.diag(p * (W @ p)))
    order = np.argsort(values.real)[1 : q + 1]
    basis = np.column_stack([np.interp(x[:, 0], middle, functions[:, i].real) for i in order])
    basis = np.column_stack([np.ones(60), basis / np.linalg.norm(basis, axis=0) * np.sqrt(60)])
    some = np.flatnonzero(y >= 0)
    S = basis[some]
    cost = np.diag([1e-9, *values.real[order]])
    expected = basis @ np.linalg.solve(cost + 1e3 * S.T @ S, 1e3 * S.T @ np.eye(2)[y[some]])
    found = EigenFunctions(q, n_bins=b).fit(x, y).scores_
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_sample_of_all_rows_is_the_harmonic_function_and_others_copy_their_nearest(rng):
    X = rng.standard_normal((50, 2))
    y = labels(50, rng)
    whole = SubSampling(50, n_neighbors=6, random_state=0).fit(X, y)
    graph = knn_graph(X, 6)
    stable = HarmonicClassifier(alpha=1.0).fit(graph, y)
    assert (whole.transduction_ == stable.transduction_).mean() > 0.95  # rows in another order, ties apart
    part = SubSampling(15, n_neighbors=6, random_state=0).fit(X, y).scores_
    assert len(np.unique(part.round(9), axis=0)) <= 15 + 8


def test_the_nearest_label_is_the_nearest(rng):
    X = rng.standard_normal((50, 3))
    y = labels(50, rng)
    some = np.flatnonzero(y >= 0)
    nearest = some[np.argmin(((X[:, None] - X[some]) ** 2).sum(axis=2), axis=1)]
    assert np.array_equal(NearestLabel().fit(X, y).transduction_, y[nearest])
