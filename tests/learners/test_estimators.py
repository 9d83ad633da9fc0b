"""Every learner is a scikit-learn estimator: their own suite of checks, pipelines, searches, clones, names."""

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import squeak
from squeak import (
    AutoClassifier,
    AutoRegressor,
    KernelBlend,
    KernelClassifier,
    KernelRidge,
    KernelRidgeCV,
    LocalExperts,
    Nystroem,
    Squeak,
)
from squeak.core.estimator import published
from squeak.kernels import RBF
from squeak.samplers import BlessR
from tests.test_docs_api import listed

KERNEL = RBF(1.0)  # a median width changes with repeated rows, which scikit-learn's checks of weights forbid
ESTIMATORS = [
    KernelRidge(KERNEL),
    KernelRidge(KERNEL, fit_intercept=True, max_atoms=500),
    KernelRidge(KERNEL, solver="falkon", tol=1e-12, max_iter=200),
    KernelRidgeCV(KERNEL),
    KernelClassifier(KERNEL),
    KernelClassifier(KERNEL, loss="logistic", tol=1e-11),
    Nystroem(KERNEL),
    Nystroem(KERNEL, form="triangular"),
    KernelBlend([KERNEL], max_atoms=20, search_atoms=20, rounds=1, random_state=0),
    LocalExperts(KernelRidge(KERNEL, max_atoms=40), leaf_rows=40, split_kernel=KERNEL, random_state=0),
    LocalExperts(KernelClassifier(KERNEL, max_atoms=20), leaf_rows=40, split_kernel=KERNEL, random_state=0),
    AutoRegressor(),
    AutoClassifier(),
]


OTHER_CLASS = (
    "probabilities are calibrated on rows that the scores have not seen, classes are those of the largest score: "
    "where two classes are as likely the two may differ, as they do in scikit-learn's SVC(probability=True)"
)


def expected_failures(estimator):
    """Return the checks that an estimator cannot pass, and why."""
    decides = estimator.estimator if isinstance(estimator, LocalExperts) else estimator
    if isinstance(decides, KernelClassifier) and decides.loss == "squared":
        twice = "probabilities come from leave-one-out scores, and a row that comes twice is not left out whole"
        equal = {f"check_sample_weight_equivalence_on_{form}_data": twice for form in ("dense", "sparse")}
        order = (
            "every part has a slope of its own: probabilities order rows of two parts in another way than scores"
        )
        parts = {} if decides is estimator else {"check_decision_proba_consistency": order}
        return {"check_classifiers_train": OTHER_CLASS, **equal, **parts}
    if not isinstance(estimator, KernelBlend | AutoRegressor | AutoClassifier):
        return {}
    known = {
        "check_sample_weight_equivalence_on_dense_data": (
            "choices are made on rows that are drawn by their numbers, and a row that comes twice has two numbers"
        )
    }
    if isinstance(estimator, AutoClassifier):
        known["check_classifiers_train"] = OTHER_CLASS
    return known


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((400, 3)), columns=["a", "b", "c"])
    return X, np.sin(X["a"]) + 0.1 * rng.standard_normal(400)


def test_names_of_columns_are_remembered(frame):
    X, y = frame
    model = KernelRidge(KERNEL, max_atoms=40, random_state=0).fit(X, y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[["b", "a", "c"]])
    names = Nystroem(KERNEL, max_atoms=10, random_state=0).fit(X).get_feature_names_out()
    assert names[:2].tolist() == ["nystroem0", "nystroem1"]
    table = Nystroem(KERNEL, max_atoms=10, random_state=0).set_output(transform="pandas").fit_transform(X)
    assert isinstance(table, pd.DataFrame)


@pytest.mark.parametrize("name", ["KernelRidge", "RandomFeatureRegressor", "AutoRegressor", "KernelPCA"])
def test_names_of_a_source_are_those_of_its_columns(name, tmp_path):
    table = pd.DataFrame({"size": np.arange(40.0), "town": ["Gent", "Mons", "Lille", "Ath"] * 10})
    table["price"] = table["size"] + 5 * (table["town"] == "Gent")
    table.to_parquet(tmp_path / "table.parquet")
    source = squeak.rows(tmp_path / "table.parquet", "price", scale="standard")
    model = getattr(squeak, name)(random_state=0).fit(source)
    model.save(tmp_path / "model.sqk")
    for one in (model, squeak.load(tmp_path / "model.sqk")):
        assert one.feature_names_in_.tolist() == ["size", "town"]
        assert one.n_features_in_ == 2
    if name == "KernelRidge":  # a dictionary of named columns names them as well
        again = squeak.KernelRidge(dictionary=model.dictionary_).fit(table, table["price"])
        assert again.feature_names_in_.tolist() == ["size", "town"]
    arrays = getattr(squeak, name)(random_state=0).fit(squeak.rows(table[["size"]].to_numpy(), table["price"]))
    assert (arrays.n_features_in_, hasattr(arrays, "feature_names_in_")) == (1, False)


def test_polars_frames_come_in(frame):
    polars = pytest.importorskip("polars")
    X, y = frame
    table = polars.DataFrame({name: X[name].to_numpy() for name in X.columns})
    ours = KernelRidge(KERNEL, max_atoms=40, random_state=0).fit(table, y).predict(table)
    assert np.allclose(ours, KernelRidge(KERNEL, max_atoms=40, random_state=0).fit(X, y).predict(X))


def test_pipelines_searches_and_clones(frame):
    X, y = frame
    line = make_pipeline(StandardScaler(), KernelRidge(KERNEL, max_atoms=40, random_state=0))
    grid = {"kernelridge__alpha": [0.1, 10.0], "kernelridge__kernel__length_scale": [0.5, 2.0]}
    search = GridSearchCV(line, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.8
    copy = clone(KernelRidge(KERNEL, alpha=3.0, sampler=BlessR(ridge=2.0)))
    assert (copy.alpha, copy.sampler.ridge, copy.kernel) == (3.0, 2.0, KERNEL)


def test_nystroem_feeds_linear_models(frame):
    X, y = frame
    two = make_pipeline(Nystroem(KERNEL, max_atoms=60, random_state=0), Ridge(alpha=0.3, fit_intercept=False))
    one = KernelRidge(KERNEL, alpha=0.3, max_atoms=60, random_state=0)
    assert np.allclose(two.fit(X, y).predict(X), one.fit(X, y).predict(X), atol=1e-6)
    labels = make_pipeline(Nystroem(KERNEL, max_atoms=60, random_state=0), LogisticRegression())
    assert labels.fit(X, y > 0).score(X, y > 0) > 0.9


def test_nystroem_reads_a_stream(frame):
    X = frame[0].to_numpy()
    map_ = Nystroem(KERNEL, max_atoms=50, random_state=0)
    for start in range(0, 400, 80):
        map_.partial_fit(X[start : start + 80])
    assert map_.dictionary_.n_seen == 400
    assert len(map_.dictionary_) <= 50
    Z = map_.transform(X)
    assert np.abs(Z @ Z.T - KERNEL(X)).mean() < 0.05
    given = Nystroem(KERNEL, dictionary=X[:30]).fit(X)
    assert np.allclose(given.transform(X[:30]) @ given.transform(X[:30]).T, KERNEL(X[:30]))
    assert given.n_components_ == 30
    assert Nystroem(KERNEL, dictionary=X[:30], n_components=5).fit_transform(X).shape == (400, 5)


def test_parameters_go_through_files(waves, tmp_path):
    X, y = waves
    KernelRidge(RBF(1.0), alpha=np.float32(0.5), max_atoms=np.int64(20)).fit(X, y).save(tmp_path / "m.sqk")
    again = squeak.load(tmp_path / "m.sqk")
    assert (again.alpha, again.max_atoms) == (0.5, 20)
    KernelRidgeCV(RBF(1.0), alphas=(0.5, 2.0)).fit(X, y).save(tmp_path / "m.sqk")
    assert squeak.load(tmp_path / "m.sqk").alphas == [0.5, 2.0]


def test_a_dictionary_of_other_columns_is_refused(waves):
    X, y = waves
    d = Squeak(RBF(1.0), ridge=1.0, random_state=0).fit(X).dictionary_
    with pytest.raises(ValueError, match=r"atoms have \d+ columns, these rows"):
        KernelRidge(dictionary=d).fit(X[:, :-1], y)


def test_two_different_kernels_are_refused(waves):
    X, y = waves
    with pytest.raises(ValueError, match="leave one of them out"):
        KernelRidge(RBF(2.0), sampler=Squeak(RBF(1.0), ridge=1.0)).fit(X, y)
    KernelRidge(RBF(1.0), sampler=Squeak(RBF(1.0), ridge=1.0, random_state=0)).fit(X, y)


def test_every_model_can_be_shown_in_the_terminal(waves, tmp_path):
    from squeak.cli.pages import page

    X, y = waves
    models = KernelRidge(KERNEL, max_atoms=20, random_state=0).fit(X, y), KernelClassifier(KERNEL).fit(X, y > 0)
    for model in models:
        model.save(tmp_path / "m.sqk")
        text = page(squeak.load(tmp_path / "m.sqk"), tmp_path / "m.sqk", 3)
        assert type(model).__name__ in text
        assert "alpha" in text


@pytest.mark.parametrize(("form", "library"), [("pandas", "pandas"), ("polars", "polars")])
@pytest.mark.parametrize("name", [name for name, _ in squeak.all_estimators("transformer")])
def test_transformers_answer_in_tables(frame, name, form, library):
    module = pytest.importorskip(library)
    X, y = frame
    model = dict(squeak.all_estimators())[name]().set_params(kernel=KERNEL, random_state=0)
    model.set_params(**{k: 20 for k in ("max_atoms",) if k in model.get_params()})
    plain = clone(model).fit(X, y).transform(X)
    table = model.set_output(transform=form).fit(X, y).transform(X)
    assert isinstance(table, module.DataFrame)
    assert list(table.columns) == list(model.get_feature_names_out())
    assert np.array_equal(np.asarray(table), plain)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    if name == "KernelCCA":
        assert model.score(X, y) == pytest.approx(
            clone(model).set_output(transform="default").fit(X, y).score(X, y)
        )


def test_weights_are_routed(frame):
    X, y = frame[0].to_numpy(), frame[1].to_numpy()
    weight = np.random.default_rng(1).random(400)
    with config_context(enable_metadata_routing=True):
        model = KernelRidge(KERNEL, max_atoms=40, random_state=0).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        line = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        found = line.fit(X, y, sample_weight=weight).predict(X)
        Z = StandardScaler().fit_transform(X)
        assert np.array_equal(found, clone(model).fit(Z, y, sample_weight=weight).predict(Z))
        assert not np.allclose(found, clone(model).fit(Z, y).predict(Z))
        search = GridSearchCV(model, {"alpha": [0.1, 10.0]}, cv=2).fit(Z, y, sample_weight=weight)
        assert search.best_score_ > 0.8
        for _, kind in squeak.all_estimators():
            if "sample_weight" in inspect.signature(kind.fit).parameters:
                assert "sample_weight" in inspect.signature(kind.set_fit_request).parameters


def test_html_links_to_our_pages(monkeypatch, tmp_path):
    names = dict(squeak.all_estimators())
    generated = {f"{module}.{name}.html" for module, name in listed() if name in names}
    monkeypatch.setenv("SQUEAK_DOCS", "https://squeak.invalid/")
    links = {kind.__new__(kind)._get_doc_link() for _, kind in squeak.all_estimators()}
    assert links == {f"https://squeak.invalid/api/generated/{page}" for page in generated}
    assert "https://squeak.invalid/api/generated/squeak.KernelRidge.html" in KernelRidge()._repr_html_()
    monkeypatch.setenv("SQUEAK_DOCS", str(tmp_path))
    assert BlessR()._get_doc_link() == f"{tmp_path.as_uri()}/api/generated/squeak.samplers.BlessR.html"
    monkeypatch.delenv("SQUEAK_DOCS")
    assert KernelRidge()._get_doc_link().startswith(published())
    assert type("Mine", (KernelRidge,), {"__module__": "mine"})()._get_doc_link() == ""


def test_estimators_are_found_by_type():
    names = [name for name, _ in squeak.all_estimators()]
    assert names == sorted(names)
    assert {"KernelRidge", "Squeak", "KonsClassifier", "HarmonicClassifier", "DPP"} <= set(names)
    assert dict(squeak.all_estimators("cluster")) == {"KernelKMeans": squeak.KernelKMeans}
    assert set(squeak.all_estimators(["cluster", "dpp"])) < set(squeak.all_estimators())
    with pytest.raises(ValueError, match=r"type_filter must be of 'classifier'.*it has 'kernel'"):
        squeak.all_estimators("kernel")


def test_a_name_that_lives_in_a_room_is_found_there():
    for name in ("MixedKonsClassifier", "minimize", "HarmonicClassifier", "DPP"):
        with pytest.raises(AttributeError, match=rf"; it is squeak\.[a-z]+\.{name}$"):
            getattr(squeak, name)
    with pytest.raises(AttributeError, match=r"no attribute 'nowhere'$"):
        squeak.nowhere  # noqa: B018
