"""Which columns matter, and how: against slow versions on the user's own rows, and scikit-learn's own tools."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import inspection
from sklearn.metrics import r2_score

import squeak
from squeak import KernelClassifier, KernelRidge, LocalExperts
from squeak.kernels import RBF
from squeak.learners import KernelGradientDescent
from squeak.report import partial_dependence, permutation_importance, relevance

N = 600


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    km = rng.standard_normal(N)
    return pd.DataFrame(
        {
            "noise": rng.standard_normal(N),
            "km": km * 100,
            "miles": km * 62 + rng.standard_normal(N),
            "to": rng.choice(["A", "B", "C"], N, p=[0.5, 0.3, 0.2]),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 90, N), unit="D"),
        }
    )


@pytest.fixture(scope="module")
def y(frame):
    return np.sin(frame["km"].to_numpy() / 100) + (frame["to"] == "B").to_numpy() * 1.5


@pytest.fixture(scope="module")
def model(frame, y):
    source = squeak.rows(frame, y, scale="standard")
    return KernelRidge(RBF(3.0), alpha=0.1, max_atoms=150, random_state=0).fit(source)


def test_relevance_is_by_source_column_and_sorted(model, frame):
    shares = relevance(model)
    assert set(shares) == set(frame.columns)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    np.testing.assert_allclose(sum(shares.values()), 1.0)
    assert next(iter(shares)) == "to"
    np.testing.assert_array_equal([shares[name] for name in frame.columns], model.relevance_)


def test_importance_is_what_permuting_the_users_own_column_costs(model, frame, y, monkeypatch):
    found = permutation_importance(model, frame, y, repeats=4, random_state=0)
    orders = {}
    from squeak.report import importance

    def remembered(seed, *place):
        rng = generator_at(seed, *place)
        orders[place[1:]] = generator_at(seed, *place).permutation(N)
        return rng

    from squeak.core.seeds import generator_at

    monkeypatch.setattr(importance, "generator_at", remembered)
    again = permutation_importance(model, frame, y, repeats=4, random_state=0)
    assert again.names == found.names
    np.testing.assert_array_equal(again.drops, found.drops)
    whole = r2_score(y, model.predict(frame))
    np.testing.assert_allclose(found.score, whole)
    for place, name in enumerate(frame.columns):
        for turn in range(4):
            moved = frame.copy()
            moved[name] = frame[name].to_numpy()[orders[place, turn]]
            drop = whole - r2_score(y, model.predict(moved))
            np.testing.assert_allclose(found.drops[found.names.index(name), turn], drop, atol=1e-12)
    np.testing.assert_allclose(found.means, found.drops.mean(axis=1))
    np.testing.assert_allclose(found.errors, found.drops.std(axis=1, ddof=1) / 2)


def test_columns_that_move_together_are_named_and_permuted_as_one(model, frame, y):
    found = permutation_importance(model, frame, y, random_state=0)
    (group,) = found.together
    assert group.names == ("km", "miles")
    assert group.correlation > 0.9
    alone = dict(zip(found.names, found.means, strict=True))
    assert group.mean > max(alone["km"], alone["miles"]) + 3 * group.error
    assert "km and miles (rank correlation 0.99 or more) cost 1 ± 0.03 of R² together" in found.caveat
    assert abs(alone["noise"]) < 0.05
    apart = permutation_importance(model, frame.assign(miles=np.roll(frame["miles"], 7)), y, random_state=0)
    assert apart.together == ()
    assert apart.caveat == ""


def test_rows_may_come_in_any_form(model, frame, y):
    expected = permutation_importance(model, frame, y, random_state=3)
    import polars

    source = squeak.rows(frame, y, preprocessing=model.preprocessing_)
    for rows in ((polars.from_pandas(frame), y), (source, None), (frame[list(frame.columns[::-1])], y)):
        found = permutation_importance(model, *rows, random_state=3)
        assert found.names == expected.names
        np.testing.assert_allclose(found.drops, expected.drops, atol=1e-12)
    X = np.random.default_rng(1).standard_normal((N, 4)) * (np.random.default_rng(2).random((N, 4)) > 0.5)
    plain = KernelRidge(RBF(2.0), max_atoms=80, random_state=0).fit(X, X[:, 2])
    dense, sparse = (permutation_importance(plain, rows, X[:, 2], random_state=0) for rows in (X, sp.csr_array(X)))
    np.testing.assert_allclose(dense.drops, sparse.drops, atol=1e-9)
    assert dense.names[0] == "column 2"


def test_classes_are_scored_by_accuracy(frame, y):
    labels = np.where(y > y.mean(), "late", "on time")
    source = squeak.rows(frame, labels, scale="standard")
    model = KernelClassifier(RBF(3.0), alpha=0.1, loss="logistic", max_atoms=80, random_state=0).fit(source)
    found = permutation_importance(model, frame, labels, random_state=0)
    assert found.metric == "accuracy"
    assert found.score > 0.9
    assert found.names[0] == "to"
    (one,) = partial_dependence(model, frame, ["to"], random_state=0)
    assert one.outputs == ("on time",)
    assert one.values == ("C", "B", "A")
    chances = [model.predict_proba(frame.assign(to=value))[:, 1] for value in one.values]
    few = partial_dependence(model, frame, ["to"], max_rows=N, random_state=0)[0]
    np.testing.assert_allclose(few.means[:, 0], [part.mean() for part in chances])


def test_dependence_is_the_mean_over_rows_with_one_value(model, frame):
    found = {one.name: one for one in partial_dependence(model, frame, ["km", "to", "day"], max_rows=N, n_points=7)}
    for name, one in found.items():
        values = pd.to_datetime(one.values, format="ISO8601") if name == "day" else one.values
        answers = [model.predict(frame.assign(**{name: value})) for value in values]
        atol = 0.02 if name == "day" else 1e-9  # dates are shown by the second
        np.testing.assert_allclose(one.means[:, 0], [part.mean() for part in answers], atol=atol)
        np.testing.assert_allclose(one.low[:, 0], [np.quantile(part, 0.1) for part in answers], atol=atol)
        np.testing.assert_allclose(one.high[:, 0], [np.quantile(part, 0.9) for part in answers], atol=atol)
    low, high = np.quantile(frame["km"], [0.05, 0.95])
    np.testing.assert_allclose([found["km"].values[0], found["km"].values[-1]], [low, high])
    assert partial_dependence(model, frame)[0].name == "to"


def test_it_agrees_with_scikit_learn_on_its_grid():
    X = np.random.default_rng(5).uniform(-1, 1, (300, 3)).round(1)  # both look at every value then
    model = KernelRidge(RBF(1.0), alpha=0.1, max_atoms=60, random_state=0).fit(X, X[:, 0] ** 2 + X[:, 1])
    theirs = inspection.partial_dependence(model, X, [1], kind="average", grid_resolution=30, method="brute")
    (ours,) = partial_dependence(model, X, [1], n_points=30)
    np.testing.assert_allclose(ours.values, theirs["grid_values"][0])
    np.testing.assert_allclose(ours.means[:, 0], theirs["average"][0])


@pytest.mark.parametrize("table", [False, True])
def test_scikit_learns_inspection_works_on_our_estimators(table):
    rng = np.random.default_rng(6)
    X = rng.standard_normal((200, 3))
    y = X[:, 0] + np.sin(X[:, 1])
    rows = pd.DataFrame(X, columns=list("abc")) if table else X
    names = ["a"] if table else [0]
    for model in (
        KernelRidge(max_atoms=40, random_state=0).fit(rows, y),
        KernelClassifier(max_atoms=40, random_state=0).fit(rows, y > 0),
        KernelClassifier(loss="logistic", max_atoms=40, random_state=0).fit(rows, np.where(y > 0, "up", "down")),
    ):
        truth = y if isinstance(model, KernelRidge) else model.predict(rows)
        theirs = inspection.permutation_importance(model, rows, truth, n_repeats=4, random_state=0)
        ours = permutation_importance(model, rows, truth, repeats=4, random_state=0)
        assert ours.names[-1] == ("c" if table else "column 2")
        assert np.argmin(theirs.importances_mean) == 2
        found = inspection.partial_dependence(model, rows, names, grid_resolution=5)
        assert found["average"].shape == (1, 5)
        assert np.ptp(found["average"]) > 0.1


def test_one_seed_one_answer_and_rows_are_bounded(model, frame, y):
    one, two = (permutation_importance(model, frame, y, max_rows=100, random_state=1) for _ in range(2))
    assert np.array_equal(one.drops, two.drops)
    other = permutation_importance(model, frame, y, max_rows=100, random_state=2)
    assert not np.array_equal(one.drops, other.drops)


def test_local_experts_of_numbers_are_explained_as_numbers():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2))
    experts = LocalExperts(KernelRidge(RBF(1.0), max_atoms=40), leaf_rows=150, random_state=0).fit(
        X, np.sin(X[:, 0])
    )
    found = permutation_importance(experts, X, np.sin(X[:, 0]), random_state=0)
    assert found.metric == "R²"
    assert found.score > 0.9
    assert partial_dependence(experts, X, random_state=0)


def test_what_cannot_be_explained_is_said(model, frame, y):
    with pytest.raises(ValueError, match="importance is measured against targets"):
        permutation_importance(model, frame)
    with pytest.raises(ValueError, match="there is no column 'kilometres'"):
        partial_dependence(model, frame, ["kilometres"])
    pca = squeak.KernelPCA(2, max_atoms=20, random_state=0).fit(np.random.default_rng(0).standard_normal((50, 2)))
    with pytest.raises(TypeError, match="predicts nothing"):
        permutation_importance(pca, np.zeros((3, 2)), np.zeros(3))
    with pytest.raises(ValueError, match="repeats must be"):
        permutation_importance(model, frame, y, repeats=0)


def test_the_report_sorts_columns_and_leads_with_the_error(model, frame, y, tmp_path):
    page = squeak.report.write(model, tmp_path / "r.html", frame, y).read_text()
    head = page[page.index("<header") : page.index("</header")]
    places = [head.index(word) for word in ("Root mean squared error", "R²", "Atoms")]
    assert places == sorted(places)
    titles = [part.split("<")[0] for part in page.split("<h3>")[1:]]
    first = titles.index("Relevance")
    assert titles[first + 1] == "Permutation importance"
    found = permutation_importance(model, frame, y, repeats=3, max_rows=N, random_state=0)
    assert titles[first + 2 : first + 7] == [f"Dependence on {name}" for name in found.names]
    assert "km and miles (rank correlation" in page
    assert "Coverage of the intervals" in page


def test_a_classifiers_report_leads_with_accuracy_and_log_loss(frame, y, tmp_path):
    labels = np.where(y > y.mean(), "late", "on time")
    source = squeak.rows(frame, labels, scale="standard")
    model = KernelClassifier(RBF(3.0), loss="logistic", max_atoms=40, random_state=0).fit(source)
    page = squeak.report.write(model, tmp_path / "r.html", frame, labels).read_text()
    head = page[page.index("<header") : page.index("</header")]
    assert head.index("Accuracy") < head.index("Log loss") < head.index("Atoms")
    from sklearn.metrics import log_loss

    assert f"{log_loss(labels, model.predict_proba(frame)):.4g}" in head
    plain = squeak.report.write(model, tmp_path / "p.html").read_text()
    assert "Accuracy</" not in plain[plain.index("<header") : plain.index("</header")]


class WithIntervals(KernelRidge):
    """A regression whose intervals hold every target but those above a number."""

    kind = KernelRidge.kind

    def predict_interval(self, X, coverage=0.9):
        guess = self.predict(X)
        return guess - 10 * coverage, guess + 10 * coverage


def test_experts_that_do_not_know_their_errors_have_a_page_without_coverage(tmp_path):
    X = np.random.default_rng(0).standard_normal((300, 2))
    experts = LocalExperts(KernelGradientDescent(RBF(1.0), max_iter=5), leaf_rows=150, random_state=0).fit(
        X, X[:, 0]
    )
    page = squeak.report.write(experts, tmp_path / "r.html", X, X[:, 0]).read_text()
    assert "True against predicted" in page
    assert "Coverage of the intervals" not in page


def test_coverage_is_shown_where_the_model_has_intervals(frame, y, tmp_path, monkeypatch):
    from squeak.report.given import Given
    from squeak.report.learners import coverage_panel

    X = np.random.default_rng(0).standard_normal((100, 2))
    model = WithIntervals(RBF(1.0), max_atoms=20, random_state=0).fit(X, X[:, 0])
    truth = np.asarray(model.predict(X)) + np.where(np.arange(100) < 25, 9.2, 0.0)
    panel = coverage_panel(model, Given(X, truth, True, 0))
    assert panel.title == "Coverage of the intervals"
    for asked, held in (("50%", "75%"), ("90%", "75%"), ("95%", "100%")):
        assert f"asked {asked}: {held}" in str(panel.body)
    monkeypatch.setattr(KernelRidge, "predict_interval", WithIntervals.predict_interval, raising=False)
    whole = KernelRidge(RBF(1.0), max_atoms=20, random_state=0).fit(X, X[:, 0])
    assert "Coverage of the intervals" in squeak.report.write(whole, tmp_path / "r.html", X, X[:, 0]).read_text()
