"""What a learner that was fitted does with more rows, and with rows that nobody can learn from."""

import numpy as np
import pandas as pd
import pytest

import squeak
from squeak import (
    KernelBlend,
    KernelClassifier,
    KernelPCA,
    KernelRidge,
    KernelRidgeCV,
    LocalExperts,
    Nystroem,
    Squeak,
)
from squeak.core.rows import refuse_hidden
from squeak.kernels import RBF, Laplacian, Metric
from squeak.samplers import BlessR, RPCholesky, Uniform
from tests.test_state_machines import LABELS, SUBJECTS, Y, bad_rows
from tests.test_state_machines import X as ROWS


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] + 10.0


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("params", [{}, {"regularised": True}, {"solver": "direct"}])
def test_partial_fit_goes_on_from_the_fit(params, loaded, data, tmp_path):
    """With the atoms given, fit and partial_fit are one fit of all rows."""
    X, y = data
    d = Squeak(RBF(1.0), ridge=1.0, random_state=0).fit(X).dictionary_
    y = np.column_stack([y, -y])
    model = KernelRidge(alpha=0.1, dictionary=d, **params).fit(X[:400], y[:400], np.linspace(1, 2, 400))
    if loaded:
        model.save(tmp_path / "m.sqk")
        model = squeak.load(tmp_path / "m.sqk").set_params(dictionary=d, kernel=None)
    model.partial_fit(X[400:500], y[400:500]).partial_fit(X[500:], y[500:])
    weight = np.append(np.linspace(1, 2, 400), np.ones(200))
    right = KernelRidge(alpha=0.1, dictionary=d, **params).fit(X, y, weight)
    np.testing.assert_allclose(model.predict(X), right.predict(X), rtol=1e-7)


def test_the_atoms_and_the_intercept_of_a_fit_stay(data):
    X, y = data
    model = KernelRidge(RBF(1.0), alpha=0.1, max_atoms=50, fit_intercept=True, random_state=0).fit(X[:500], y[:500])
    atoms, intercept = model.dictionary_.atoms, model.intercept_
    model.partial_fit(X[500:], y[500:])
    assert np.array_equal(model.dictionary_.atoms, atoms)
    assert np.array_equal(model.intercept_, intercept)
    assert model.score(X, y) > 0.98


def test_every_row_as_an_atom_goes_on_too(data):
    X, y = data[0][:80], data[1][:80]
    model = KernelRidge(RBF(1.0), alpha=0.1, dictionary=X).fit(X, y)
    assert model.solver_ == "exact"
    model.partial_fit(X + 0.1, y)
    right = KernelRidge(RBF(1.0), alpha=0.1, dictionary=X).fit(np.vstack([X, X + 0.1]), np.append(y, y))
    np.testing.assert_allclose(model.predict(X), right.predict(X), rtol=1e-7)


def test_a_fit_by_falkon_says_that_it_cannot_go_on(data):
    X, y = data
    model = KernelRidge(RBF(1.0), max_atoms=30, solver="falkon", random_state=0).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="holds no sums"):
        model.set_params(solver="auto").partial_fit(X, y)
    assert np.array_equal(model.predict(X), before)


@pytest.mark.parametrize(
    "model", [KernelRidge(RBF(1.0), max_atoms=30), Nystroem(RBF(1.0), max_atoms=30), KernelPCA(2, kernel=RBF(1.0))]
)
def test_more_rows_of_another_width_are_refused(model, data):
    X, y = data
    model.set_params(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="expecting 3 features"):
        model.partial_fit(X[:, :2], y)
    assert model.n_features_in_ == 3


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("chosen", [{}, {"max_atoms": 40}, {"sampler": Squeak(ridge=0.5)}])
def test_nystroem_goes_on_from_its_fit(chosen, loaded, data, tmp_path):
    X, _ = data
    model = Nystroem(RBF(1.0), random_state=0, **chosen).fit(X[:400])
    if loaded:
        model.save(tmp_path / "m.sqk")
        model = squeak.load(tmp_path / "m.sqk")
    model.partial_fit(X[400:]).partial_fit(X[:50] + 0.1)
    d = model.dictionary_
    assert d.n_seen == 650
    assert "max_atoms" not in chosen or len(d) == 40
    assert np.any(d.indices < 400)
    assert np.any(d.indices >= 400)
    assert abs(d.weights.sum() - 650) < 250
    assert model.transform(X).shape == (600, model.n_components_)


@pytest.mark.parametrize("sampler", [BlessR(), Uniform(), RPCholesky()])
def test_nystroem_says_which_samplers_cannot_go_on(sampler, data):
    model = Nystroem(RBF(1.0), sampler=sampler.set_params(max_atoms=20), random_state=0).fit(data[0])
    before = model.transform(data[0])
    with pytest.raises(ValueError, match=r"needs all rows at once|cannot go on"):
        model.partial_fit(data[0])
    assert np.array_equal(model.transform(data[0]), before)


@pytest.mark.parametrize("make", [KernelRidge, KernelRidgeCV, KernelClassifier])
def test_a_failed_refit_keeps_the_model(make, data):
    X, y = data
    y = y > 10 if make is KernelClassifier else y
    model = make(RBF(1.0), max_atoms=30, random_state=0).fit(X, y)
    before, bad = model.predict(X), X.copy()
    bad[77, 1] = np.nan
    for rows in (bad, X[:0], np.full(X.shape, "a")):
        with pytest.raises(ValueError):
            model.fit(rows, y[: len(rows)])
        assert np.array_equal(model.predict(X), before)


@pytest.mark.parametrize("kind", ["masked", "dates"])
@pytest.mark.parametrize("name", SUBJECTS)
def test_hidden_values_and_dates_are_refused_by_every_class(name, kind):
    """On the way in, as targets, and on the way out."""
    subject = SUBJECTS[name]
    where = slice(0, 40)
    model = subject.call(subject.make(), "fit", where)
    bad = bad_rows(kind, ROWS[where])
    with pytest.raises((ValueError, TypeError), match=r"masked values|dates"):
        subject.call(subject.make(), "fit", where, bad)
    for method in ("predict", "transform"):
        if hasattr(model, method):
            with pytest.raises((ValueError, TypeError), match=r"masked values|dates"):
                getattr(model, method)(bad)
    if subject.targets is Y and kind == "masked":
        with pytest.raises(ValueError, match=r"y: row \d+ has masked values"):
            subject.make().fit(ROWS[where], np.ma.array(Y[where], mask=Y[where] > 0))
    if subject.targets is LABELS and kind == "masked":
        with pytest.raises(ValueError, match=r"y: row \d+ has masked values"):
            subject.make().fit(ROWS[where], np.ma.array(LABELS[where], mask=Y[where] > 0))


def test_a_table_of_dates_is_refused_and_a_mask_that_hides_nothing_is_not(data):
    X, y = data
    table = pd.DataFrame({"a": X[:, 0], "day": pd.date_range("2020-01-01", periods=len(X))})
    with pytest.raises(TypeError, match="dates"):
        KernelRidge(RBF(1.0)).fit(table, y)
    with pytest.raises(TypeError, match="dates"):
        refuse_hidden([[np.datetime64("2020-01-01")]])
    plain = KernelRidge(RBF(1.0), max_atoms=20, random_state=0).fit(X, y).predict(X)
    masked = KernelRidge(RBF(1.0), max_atoms=20, random_state=0).fit(np.ma.array(X), y).predict(X)
    assert np.array_equal(plain, masked)


def test_another_number_of_outputs_is_refused(waves):
    X, y = waves
    model = KernelRidge(RBF(1.0), dictionary=X[:20]).partial_fit(X[:100], np.c_[y, y][:100])
    with pytest.raises(ValueError, match="another number of outputs"):
        model.partial_fit(X[100:], y[100:, None])


def experts(**given):
    return LocalExperts(leaf_rows=60, random_state=0, **given)


LOADED = {
    "kernels": lambda: KernelBlend(
        [RBF("learned"), Metric(Laplacian("learned"), None)],
        max_atoms=30,
        rounds=1,
        search_atoms=25,
        random_state=0,
    ),
    "sampler": lambda: KernelRidge(RBF(1.0), sampler=BlessR(max_atoms=20), random_state=0),
    "dictionary": lambda: KernelRidge(RBF(1.0), dictionary=ROWS[:20]),
    "estimator": lambda: experts(estimator=KernelRidge(RBF(0.7), max_atoms=20), split_kernel=RBF(2.0)),
    "blend": lambda: experts(
        estimator=KernelBlend([RBF(1.0)], max_atoms=20, rounds=1, search_atoms=25), split_kernel=RBF(2.0)
    ),
}


@pytest.mark.parametrize("case", LOADED)
def test_a_loaded_model_is_fitted_again_as_the_one_that_was_saved(case, tmp_path):
    """Kernels, samplers and estimators that were given as parameters are in the file."""
    model = LOADED[case]().fit(ROWS, Y)
    model.save(tmp_path / "m.sqk")
    loaded = squeak.load(tmp_path / "m.sqk")
    assert np.array_equal(loaded.predict(ROWS), model.predict(ROWS))
    assert np.array_equal(loaded.fit(ROWS, 1 - Y).predict(ROWS), LOADED[case]().fit(ROWS, 1 - Y).predict(ROWS))
