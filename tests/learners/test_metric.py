"""Widths by column that are learned from the targets."""

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak import KernelClassifier, KernelRidge
from squeak.kernels import RBF, Laplacian, Matern, Metric, Polynomial


@pytest.fixture(scope="module")
def table():
    """Five columns of which two matter, one of them much."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 5))
    return X, np.sin(3 * X[:, 0]) + 0.3 * X[:, 1] + 0.05 * rng.standard_normal(1500)


@pytest.mark.filterwarnings("ignore:length_scale='auto' ended at the largest")  # columns that do not matter
@pytest.mark.parametrize("kind", [RBF, Laplacian, Matern])
def test_widths_by_column_find_what_matters(kind, table):
    X, y = table
    one = KernelRidge(kind("auto"), "auto", max_atoms=300, random_state=0).fit(X[:1000], y[:1000])
    each = KernelRidge(kind("learned"), "auto", max_atoms=300, random_state=0).fit(X[:1000], y[:1000])
    widths = each.kernel_.length_scale
    assert widths.shape == (5,)
    assert widths[0] < widths[1] < widths[2:].min()
    assert 1 - each.score(X[1000:], y[1000:]) < 0.7 * (1 - one.score(X[1000:], y[1000:]))


def test_a_learned_width_is_an_ordinary_width(table, tmp_path):
    X, y = table
    model = KernelRidge(RBF("learned"), 1e-2, max_atoms=100, random_state=0).fit(X, y)
    again = KernelRidge(model.kernel_, 1e-2, max_atoms=100, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.kernel_.length_scale, again.kernel_.length_scale)
    model.save(tmp_path / "m.sqk")
    np.testing.assert_array_equal(squeak.load(tmp_path / "m.sqk").predict(X), model.predict(X))
    twin = KernelRidge(RBF("learned"), 1e-2, max_atoms=100, random_state=0).fit(X, y)
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))


def test_classes_weights_and_sources_learn_widths_too(table):
    X, y = table
    model = KernelClassifier(RBF("learned"), max_atoms=200, random_state=0).fit(X, y > 0)
    assert np.argmin(model.kernel_.length_scale) == 0
    weighted = KernelRidge(RBF("learned"), 1.0, max_atoms=100, random_state=0)
    weighted.fit(np.vstack([X, X]), np.concatenate([y, X[:, 4]]), np.repeat([1.0, 1e-9], 1500))
    assert np.argmin(weighted.kernel_.length_scale) == 0
    rows = squeak.rows(X, target=y)
    assert (
        np.argmin(KernelRidge(RBF("learned"), 1.0, max_atoms=100, random_state=0).fit(rows).kernel_.length_scale)
        == 0
    )


def test_sparse_rows_have_no_learned_widths(table):
    import scipy.sparse as sp

    X, y = table
    with pytest.raises(TypeError, match="needs dense rows"):
        KernelRidge(RBF("learned")).fit(sp.csr_array(X), y)


def test_categories_of_a_column_share_a_width_and_count_together():
    rng = np.random.default_rng(1)
    words = rng.choice(["a", "b", "c", "d"], 1200)
    frame = pd.DataFrame({"noise": rng.standard_normal(1200), "word": words, "x": rng.standard_normal(1200)})
    y = frame["x"] + 2.0 * (frame["word"] == "b")
    model = KernelRidge(RBF("learned"), 1e-2, max_atoms=200, random_state=0).fit(squeak.rows(frame, target=y))
    widths = model.kernel_.length_scale
    assert widths.shape == (7,)  # four words, and any other
    assert len(set(widths[1:6])) == 1
    assert widths[0] > widths[6]
    share = model.relevance_
    assert share.shape == (3,)
    assert share.sum() == pytest.approx(1.0)
    assert share[0] < 0.02 < share[1:].min()


def test_relevance_is_the_mean_squared_slope_by_finite_differences(table):
    X, y = table
    model = KernelRidge(RBF(1.5), 1.0, max_atoms=80, random_state=0).fit(X, y)
    atoms, step = model.dictionary_.atoms, 1e-5
    slopes = [(model.predict(atoms + step * e) - model.predict(atoms - step * e)) / (2 * step) for e in np.eye(5)]
    expected = np.mean(np.square(slopes), axis=1) * atoms.var(axis=0)
    np.testing.assert_allclose(model.relevance_, expected / expected.sum(), rtol=1e-6)
    with pytest.raises(AttributeError, match="needs the gradient"):
        _ = KernelRidge(Polynomial(2), 1.0, max_atoms=20, random_state=0).fit(X, y).relevance_


def test_a_target_that_is_noise_is_predicted_no_worse_than_by_its_mean(table):
    rng = np.random.default_rng(9)
    X, y = table[0], rng.standard_normal(1500)
    model = KernelRidge(RBF("learned"), "auto", fit_intercept=True, max_atoms=300, random_state=0)
    with pytest.warns(UserWarning, match="these columns tell hardly anything of the target"):
        model.fit(X[:1000], y[:1000])
    error = np.mean((model.predict(X[1000:]) - y[1000:]) ** 2)
    assert error < 1.02 * np.mean((y[:1000].mean() - y[1000:]) ** 2)


@pytest.mark.parametrize("learner", [KernelRidge, KernelClassifier])
def test_a_full_map_is_learned_by_every_learner(learner, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 4))
    y = np.sin(2 * (X[:, 0] + X[:, 1]))
    y = y if learner is KernelRidge else y > 0
    kernel = Metric(RBF("learned"))
    model = learner(kernel, alpha=0.1, max_atoms=60, random_state=0).fit(X[:600], y[:600])
    plain = learner(RBF("learned"), alpha=0.1, max_atoms=60, random_state=0).fit(X[:600], y[:600])
    assert model.dictionary_.kernel.T.shape == (4, 4)
    assert 1.0 - model.score(X[600:], y[600:]) < 0.7 * (1.0 - plain.score(X[600:], y[600:]))
    model.save(tmp_path / "m.sqk")
    np.testing.assert_array_equal(squeak.load(tmp_path / "m.sqk").predict(X), model.predict(X))


def test_a_width_is_looked_for_behind_a_map_that_is_given(table):
    X, y = table
    T = np.eye(5)[:2]
    for word in ("auto", "learned"):
        behind = KernelRidge(Metric(RBF(word), T), alpha=0.1, max_atoms=60, random_state=0).fit(X, y)
        alone = KernelRidge(RBF(word), alpha=0.1, max_atoms=60, random_state=0).fit(X[:, :2], y)
        np.testing.assert_array_equal(behind.dictionary_.kernel.T, T)
        np.testing.assert_allclose(
            behind.dictionary_.kernel.kernel.length_scale, alone.dictionary_.kernel.length_scale
        )
        np.testing.assert_allclose(behind.predict(X), alone.predict(X[:, :2]), atol=1e-8)
    same = KernelRidge(Metric(RBF("auto")), alpha=0.1, max_atoms=60, random_state=0).fit(X, y)
    assert isinstance(same.dictionary_.kernel, RBF)
