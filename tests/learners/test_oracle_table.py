"""Every estimator against a dense, slow, obvious version, over the options that change the problem and its data.

The quick tests take every so many cases of each table; the slow one takes them all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import squeak
from squeak import (
    KernelCCA,
    KernelClassifier,
    KernelKMeans,
    KernelPCA,
    KernelRidge,
    KernelRidgeCV,
    Nystroem,
    RandomFeatureClassifier,
    RandomFeatureRegressor,
    RandomFeatures,
    Squeak,
)
from squeak.kernels import RBF
from squeak.learners import KernelGradientDescent
from squeak.learners.tuning import alpha_grid
from tests.learners.table import (
    ATOMS,
    DATA,
    INNER,
    N,
    close,
    name_of,
    rows_of,
    table,
    targets_of,
    through_a_file,
    weights_of,
)
from tests.oracles import (
    DenseNystrom,
    dense_components,
    dense_correlations,
    dense_descent,
    dense_deviation,
    dense_inertia,
    dense_leave_one_out,
    dense_logistic,
    dense_ridge,
    dense_steps,
    dense_waves,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def whole_or_blocks(model: Any, way: str, X: Any, y: Any, w: Any) -> Any:
    """Fit at once, from a source, or in blocks of unequal sizes."""
    if way == "whole":
        return model.fit(X, y, sample_weight=w)
    if way == "source":
        return model.fit(squeak.rows(X, target=y) if y is not None else squeak.rows(X))
    parts = (slice(0, 7), slice(7, 40), slice(40, N))
    if way == "once":
        return model.fit(squeak.rows(((X[part], y[part]) for part in parts), target=True))
    for part in parts:
        extra = () if y is None else (y[part],)
        model.partial_fit(X[part], *extra, sample_weight=None if w is None else w[part])
    return model


def dictionary_of(case: dict[str, Any], rows: Any) -> tuple[Any, np.ndarray, Any, float]:
    """Return a dictionary for the learner, and its atoms, weights and ridge for the oracle."""
    if case.get("atoms") == "all":
        return rows.X, rows.dense, None, 0.0
    if case.get("atoms") == "learned":
        d = Squeak(rows.kernel, ridge=0.3 * rows.unit, random_state=0).fit(rows.X).dictionary_
        atoms = d.atoms.toarray() if case["form"] == "csr" else d.atoms
        return d, atoms.astype(float), d.weights, d.ridge
    return rows.X[:ATOMS], rows.dense[:ATOMS], None, 0.0


def settings_of(case: dict[str, Any], rows: Any) -> tuple[Any, DenseNystrom, dict[str, Any]]:
    """Return the dictionary, the oracle's kernel and the learner's parameters that all learners on atoms share."""
    d, atoms, weights, ridge = dictionary_of(case, rows)
    regularised = case.get("regularised", False)
    K = DenseNystrom(rows.kernel, atoms, *((weights, ridge) if regularised else ()))
    return d, K, {"kernel": None if case.get("atoms") == "learned" else rows.kernel, "dictionary": d}


# -- ridge regression ---------------------------------------------------------------------------------------------

RIDGE = {
    "solver": ("auto", "direct", "falkon"),
    "preconditioner": ("auto", "voronoi", "krill"),
    "atoms": ("some", "all", "learned"),
    "weight": (None, "even", "wild"),
    "intercept": (False, True),
    "outputs": (1, 2),
    "regularised": (False, True),
    "budget": (None, 0),
    "way": ("whole", "source", "blocks", "once"),
    "saved": (False, True),
}


def possible_ridge(case: dict[str, Any]) -> bool:
    if case["regularised"] and case["atoms"] != "learned":
        return False
    if case["way"] in ("source", "once") and case["weight"] is not None:
        return False
    if case["way"] in ("blocks", "once") and (case["solver"] == "falkon" or case["saved"]):
        return False
    return case["solver"] == "falkon" or (case["budget"] is None and case["preconditioner"] == "auto")


def close_deviation(model, found, K, X, Y, w, std, intercept):
    """Assert that deviations are in units of the targets, as far as rounding lets residuals be known from sums."""
    expected = dense_deviation(K, X, Y, w, model.alpha_, model._feature_map.rank, std, intercept)
    centre = model.intercept_ if intercept else 0.0
    floor = float(np.square(Y - centre).max() * (1 + (std**2).max() / model.alpha_))
    close(found.reshape(expected.shape) ** 2, expected**2, 1e-6, floor=floor)


def check_ridge(case: dict[str, Any]) -> None:
    rows = rows_of(case)
    Y, w = targets_of(case, rows, case["outputs"]), weights_of(case["weight"])
    alpha = 0.2 * rows.unit
    _, K, shared = settings_of(case, rows)
    model = KernelRidge(
        alpha=alpha,
        solver=case["solver"],
        preconditioner=case["preconditioner"],
        fit_intercept=case["intercept"],
        regularised=case["regularised"],
        memory_budget=case["budget"],
        max_iter=500,
        tol=1e-11,
        random_state=0,
        **shared,
    )
    model = whole_or_blocks(model, case["way"], rows.X, Y[:, 0] if Y.shape[1] == 1 else Y, w)
    model = through_a_file(model, case["saved"])
    ones = np.ones(N) if w is None else w
    values, std, mean = dense_ridge(K, rows.dense, Y, ones, alpha, rows.tests, case["intercept"])
    found, deviation = model.predict(rows.T, return_std=True)
    close(found.reshape(values.shape), values, 1e-6 if case["solver"] == "falkon" else 1e-8)
    close_deviation(model, deviation, K, rows.dense, Y, ones, std, case["intercept"])
    if case["intercept"]:
        close(model.intercept_, mean, 1e-12)


RIDGE_CASES = table(RIDGE, possible_ridge)

AUTO = {
    "atoms": ("some", "learned"),
    "weight": (None, "even", "wild"),
    "intercept": (False, True),
    "outputs": (1, 2),
    "way": ("whole", "source"),
}


def check_auto(case: dict[str, Any]) -> None:
    """The alpha of least generalised cross-validation error among those tried, and the solution at it."""
    rows = rows_of(case)
    Y, w = targets_of(case, rows, case["outputs"]), weights_of(case["weight"])
    _, K, shared = settings_of(case, rows)
    model = KernelRidge(alpha="auto", fit_intercept=case["intercept"], random_state=0, **shared)
    model = whole_or_blocks(model, case["way"], rows.X, Y[:, 0] if Y.shape[1] == 1 else Y, w)
    ones = np.ones(N) if w is None else w
    G, mean = K(rows.dense, rows.dense), (ones @ Y) / ones.sum() if case["intercept"] else 0.0

    def error(alpha: float) -> float:
        hat = G @ np.linalg.inv(G + alpha * np.diag(1 / ones))
        left = Y - mean - hat @ (Y - mean)
        return float(ones @ (left**2).sum(axis=1) / (1 - np.trace(hat) / N) ** 2)

    tried = alpha_grid(float(K.diag(K.atoms).mean()), float(ones.sum()))
    assert np.isclose(tried, model.alpha_, rtol=1e-9).any()
    assert error(model.alpha_) <= (1 + 1e-6) * min(map(error, tried))
    values, _, _ = dense_ridge(K, rows.dense, Y, ones, model.alpha_, rows.tests, case["intercept"])
    close(model.predict(rows.T).reshape(values.shape), values, 1e-6)


# -- cross-validation ---------------------------------------------------------------------------------------------

CV = {
    "atoms": ("some", "learned"),
    "weight": (None, "even", "wild"),
    "intercept": (False, True),
    "outputs": (1, 2),
    "way": ("whole", "source"),
    "saved": (False, True),
}


def possible_cv(case: dict[str, Any]) -> bool:
    return not (case["way"] == "source" and case["weight"] is not None)


def check_cv(case: dict[str, Any]) -> None:
    rows = rows_of(case)
    Y, w = targets_of(case, rows, case["outputs"]), weights_of(case["weight"])
    _, K, shared = settings_of(case, rows)
    alphas = tuple(rows.unit * alpha for alpha in (0.1, 1.0, 10.0))
    model = KernelRidgeCV(alphas=alphas, fit_intercept=case["intercept"], random_state=0, **shared)
    model = whole_or_blocks(model, case["way"], rows.X, Y[:, 0] if Y.shape[1] == 1 else Y, w)
    ones = np.ones(N) if w is None else w
    errors = [dense_leave_one_out(K, rows.dense, Y, ones, alpha, case["intercept"]) for alpha in alphas]
    close(model.errors_, errors, 1e-6)
    assert model.alpha_ == alphas[int(np.argmin(model.errors_))]
    model = through_a_file(model, case["saved"])
    values, std, _ = dense_ridge(K, rows.dense, Y, ones, model.alpha_, rows.tests, case["intercept"])
    found, deviation = model.predict(rows.T, return_std=True)
    close(found.reshape(values.shape), values, 1e-7)
    close_deviation(model, deviation, K, rows.dense, Y, ones, std, case["intercept"])


CV_CASES = table(CV, possible_cv)
AUTO_CASES = table(AUTO, possible_cv)

# -- classification -----------------------------------------------------------------------------------------------

CLASSIFIER = {
    "loss": ("squared", "logistic"),
    "solver": ("auto", "direct", "falkon"),
    "atoms": ("some", "all", "learned"),
    "classes": (2, 3),
    "weight": (None, "even", "wild"),
    "class_weight": (None, "balanced", "named"),
    "regularised": (False, True),
    "budget": (None, 0),
    "way": ("whole", "source"),
    "saved": (False, True),
}


def possible_classifier(case: dict[str, Any]) -> bool:
    if case["regularised"] and case["atoms"] != "learned":
        return False
    if case["way"] == "source" and (case["weight"] is not None or case["class_weight"] is not None):
        return False
    if case["loss"] == "logistic" and case["solver"] != "auto":
        return False
    if case.get("size", 1.0) != 1.0:
        return False
    return case["solver"] == "falkon" or case["loss"] == "logistic" or case["budget"] is None


def check_classifier(case: dict[str, Any]) -> None:
    from sklearn.utils import compute_sample_weight

    rows = rows_of(case)
    names = np.array(["a", "b", "c"])[: case["classes"]]
    y = names[np.argsort(np.argsort(targets_of(case, rows, 1)[:, 0])) * case["classes"] // N]
    w = weights_of(case["weight"])
    named = {"a": 0.5, "b": 4.0, "c": 1.0}
    class_weight = (
        {name: named[name] for name in names} if case["class_weight"] == "named" else case["class_weight"]
    )
    alpha = 0.2 * rows.unit
    _, K, shared = settings_of(case, rows)
    model = KernelClassifier(
        alpha=alpha,
        loss=case["loss"],
        solver=case["solver"],
        class_weight=class_weight,
        regularised=case["regularised"],
        memory_budget=case["budget"],
        max_iter=500,
        tol=1e-11 if case["loss"] == "squared" else 1e-9,
        random_state=0,
        **shared,
    )
    model = through_a_file(whole_or_blocks(model, case["way"], rows.X, y, w), case["saved"])
    ones = np.ones(N) if w is None else w
    if class_weight is not None:
        ones = ones * compute_sample_weight(class_weight, y)
    codes = (y[:, None] == names).astype(float)
    codes = codes[:, 1:] if len(names) == 2 else codes
    if case["loss"] == "squared":
        values, _, _ = dense_ridge(K, rows.dense, 2 * codes - 1, ones, alpha, rows.tests, True)
    else:
        values = dense_logistic(K, rows.dense, codes, ones, alpha, rows.tests)
    found = model.decision_function(rows.T).reshape(values.shape)
    close(found, values, 1e-8 if case["loss"] == "squared" and case["solver"] != "falkon" else 1e-5)
    clear = np.sort(np.hstack([values, -values]) if len(names) == 2 else values, axis=1)
    sure = clear[:, -1] - clear[:, -2] > 1e-4
    chosen = (values[:, 0] > 0).astype(int) if len(names) == 2 else values.argmax(axis=1)
    assert (model.predict(rows.T) == names[chosen])[sure].all()


CLASSIFIER_CASES = table(CLASSIFIER, possible_classifier, {**DATA, "size": (1.0,)})

# -- features and components --------------------------------------------------------------------------------------

NYSTROEM = {
    "form_of": ("eigen", "triangular"),
    "atoms": ("some", "all", "learned"),
    "regularised": (False, True),
    "way": ("whole", "source"),
    "saved": (False, True),
}


def possible_features(case: dict[str, Any]) -> bool:
    return case.get("size", 1.0) == 1.0 and not (case["regularised"] and case["atoms"] != "learned")


def check_nystroem(case: dict[str, Any]) -> None:
    rows = rows_of(case)
    _, K, shared = settings_of(case, rows)
    model = Nystroem(form=case["form_of"], regularised=case["regularised"], random_state=0, **shared)
    model = model.fit(rows.X if case["way"] == "whole" else squeak.rows(rows.X))
    model = through_a_file(model, case["saved"])
    Z, ours = model.transform(rows.T), model.transform(rows.X)
    close(Z @ ours.T, K(rows.tests, rows.dense), 1e-8, floor=rows.unit)


NYSTROEM_CASES = table(NYSTROEM, possible_features, {**DATA, "size": (1.0,)})

PCA = {
    "centre": (True, False),
    "atoms": ("some", "all", "learned"),
    "weight": (None, "even", "wild"),
    "way": ("whole", "source", "blocks"),
    "saved": (False, True),
}


def possible_pca(case: dict[str, Any]) -> bool:
    return case.get("size", 1.0) == 1.0 and not (case["way"] == "source" and case["weight"] is not None)


def check_pca(case: dict[str, Any]) -> None:
    rows = rows_of(case)
    w = weights_of(case["weight"])
    _, K, shared = settings_of(case, rows)
    model = KernelPCA(2, centre=case["centre"], random_state=0, **shared)
    model = through_a_file(whole_or_blocks(model, case["way"], rows.X, None, w), case["saved"])
    ones = np.ones(N) if w is None else w
    values, scores = dense_components(K, rows.dense, ones, case["centre"], rows.tests, 3)
    close(model.eigenvalues_, values[:2], 1e-9)
    found = model.transform(rows.T)
    apart = np.min(-np.diff(values)) / values[0]
    signs = np.sign(np.sum(found * scores[:, :2], axis=0))
    close(found * signs, scores[:, :2], 1e-9 / max(apart, 1e-4))


PCA_CASES = table(PCA, possible_pca, {**DATA, "size": (1.0,)})

CCA = {
    "atoms": ("some", "all", "learned"),
    "weight": (None, "even", "wild"),
    "outputs": (1, 2),
    "way": ("whole", "source"),
    "saved": (False, True),
}


def possible_cca(case: dict[str, Any]) -> bool:
    return not (case["way"] == "source" and case["weight"] is not None)


def check_cca(case: dict[str, Any]) -> None:
    rows = rows_of(case)
    Y, w = targets_of(case, rows, case["outputs"]), weights_of(case["weight"])
    _, K, shared = settings_of(case, rows)
    second = RBF(0.8 * case["size"])
    L = DenseNystrom(second, Y[:ATOMS])
    alpha = 0.5
    if rows.unit != 1.0:  # one penalty for both views
        second = rows.unit * second
        L, alpha = DenseNystrom(second, Y[:ATOMS]), 0.5 * rows.unit
    model = KernelCCA(1, alpha=alpha, kernel_y=second, dictionary_y=Y[:ATOMS], random_state=0, **shared)
    model = whole_or_blocks(model, case["way"], rows.X, Y[:, 0] if case["outputs"] == 1 else Y, w)
    model = through_a_file(model, case["saved"])
    ones = np.ones(N) if w is None else w
    values, scores = dense_correlations(K, L, rows.dense, Y, ones, alpha, rows.tests, 2)
    close(model.values_, values[:1], 1e-8)
    found = model.transform(rows.T)
    close(found * np.sign(found[:, 0] @ scores[:, 0]), scores[:, :1], 1e-8 / max(1 - values[1] / values[0], 1e-4))


CCA_CASES = table(CCA, possible_cca)

KMEANS = {
    "atoms": ("some", "all", "learned"),
    "weight": (None, "even", "wild"),
    "budget": (None, 0),
    "way": ("whole", "source"),
    "saved": (False, True),
}


def check_kmeans(case: dict[str, Any]) -> None:
    rows = rows_of(case)
    w = weights_of(case["weight"])
    _, K, shared = settings_of(case, rows)
    model = KernelKMeans(3, tol=0.0, max_iter=200, memory_budget=case["budget"], random_state=0, **shared)
    model = through_a_file(whole_or_blocks(model, case["way"], rows.X, None, w), case["saved"])
    ones, labels = np.ones(N) if w is None else w, model.predict(rows.X)
    close(model.inertia_, dense_inertia(K, rows.dense, ones, labels), 1e-8, floor=float(ones @ K.diag(rows.dense)))
    Z = K.features(rows.dense)
    centres = np.array([np.average(Z[labels == k], axis=0, weights=ones[labels == k]) for k in range(3)])
    here = K.features(rows.tests)
    outside = K.diag(rows.tests) - np.sum(here**2, axis=1)
    squares = ((here[:, None] - centres) ** 2).sum(axis=2) + outside[:, None]
    close(model.transform(rows.T) ** 2, squares, 1e-8, floor=rows.unit)
    own = ((Z[:, None] - centres) ** 2).sum(axis=2)
    assert (own[np.arange(N), labels] <= own.min(axis=1) + 1e-9 * rows.unit * np.abs(Z).max()).all()


KMEANS_CASES = table(KMEANS, possible_pca, {**DATA, "size": (1.0,)})

# -- without a dictionary -----------------------------------------------------------------------------------------

DESCENT = {"weight": (None, "even", "wild"), "outputs": (1, 2), "step": (1.0, 0.3), "saved": (False, True)}


def check_descent(case: dict[str, Any]) -> None:
    rows = rows_of(case)
    Y, w = targets_of(case, rows, case["outputs"]), weights_of(case["weight"])
    model = KernelGradientDescent(rows.kernel, step=case["step"], max_iter=40)
    model.fit(rows.X, Y[:, 0] if case["outputs"] == 1 else Y, sample_weight=w)
    model = through_a_file(model, case["saved"])
    K = DenseNystrom(rows.kernel, rows.dense)
    ones = np.ones(N) if w is None else w
    values = K.exact(rows.tests, rows.dense) @ dense_descent(
        K.exact(rows.dense, rows.dense), Y, ones, case["step"], 40
    )
    close(model.predict(rows.T).reshape(values.shape), values, 1e-9)


DESCENT_CASES = table(DESCENT)

RANDOM = {
    "weight": (None, "even"),
    "outputs": (1, 2),
    "tail": (0.0, 0.5),
    "decay": (0.0, 0.5),
    "way": ("whole", "source"),
    "saved": (False, True),
}


def possible_random(case: dict[str, Any]) -> bool:
    if case["way"] == "source" and case["weight"] is not None:
        return False
    return case.get("kernel") not in INNER


def check_random(case: dict[str, Any]) -> None:
    """φ(x) by its formula, and the gradient steps one after the other."""
    rows = rows_of(case)
    Y, w = targets_of(case, rows, case["outputs"]), weights_of(case["weight"])
    model = RandomFeatureRegressor(
        rows.kernel,
        n_features=30,
        batch_size=16,
        step=1.0,
        decay=case["decay"],
        max_iter=3,
        validation_fraction=0.0,
        tail=case["tail"],
        shuffle=False,
        random_state=0,
    )
    model = whole_or_blocks(model, case["way"], rows.X, Y[:, 0] if case["outputs"] == 1 else Y, w)
    model = through_a_file(model, case["saved"])
    again = RandomFeatures(rows.kernel, n_features=30, random_state=0).fit(rows.X)
    loose = _phase(case)
    close(again.transform(rows.T), dense_waves(again.features_, rows.tests), loose)
    ones = np.ones(N) if w is None else w / w.mean()
    mean = (ones @ Y) / ones.sum()
    Z, T = dense_waves(model.features_, rows.dense), dense_waves(model.features_, rows.tests)
    coef = dense_steps(
        Z, lambda F, part: F - Y[part], ones, mean, 2 * rows.unit, 16, 3, case["decay"], case["tail"]
    )
    close(model.predict(rows.T).reshape(len(T), -1), T @ coef + mean, loose)


def _phase(case: dict[str, Any]) -> float:
    """Return what a phase keeps: ω·x turns, x near an offset and ω as large as a hundred for heavy tails."""
    return max(1e-9, 1e-13 * case["offset"])


RANDOM_CASES = table(RANDOM, possible_random)

WAVES = {
    "loss": ("squared", "logistic"),
    "classes": (2, 3),
    "weight": (None, "even"),
    "tail": (0.0, 0.5),
    "way": ("whole", "source"),
    "saved": (False, True),
}


def possible_waves(case: dict[str, Any]) -> bool:
    return possible_random(case) and case.get("size", 1.0) == 1.0


def check_waves(case: dict[str, Any]) -> None:
    """Classification by gradient steps on random features: squared loss on ±1, or the logistic loss."""
    from scipy.special import expit, softmax

    rows = rows_of(case)
    names = np.array(["a", "b", "c"])[: case["classes"]]
    y = names[np.argsort(np.argsort(targets_of(case, rows, 1)[:, 0])) * case["classes"] // N]
    w = weights_of(case["weight"])
    model = RandomFeatureClassifier(
        rows.kernel,
        loss=case["loss"],
        n_features=30,
        batch_size=16,
        step=1.0,
        max_iter=3,
        validation_fraction=0.0,
        tail=case["tail"],
        shuffle=False,
        random_state=0,
    )
    model = through_a_file(whole_or_blocks(model, case["way"], rows.X, y, w), case["saved"])
    ones = np.ones(N) if w is None else w / w.mean()
    codes = (y[:, None] == names).astype(float)
    share = (ones @ codes / N + 1e-3) / (1 + 1e-3 * len(names))
    codes, share = (codes[:, 1:], share[1:]) if len(names) == 2 else (codes, share)
    if case["loss"] == "squared":
        mean, slope = 2 * share - 1, lambda F, part: F - (2 * codes - 1)[part]
    elif len(names) == 2:
        mean, slope = np.log(share / (1 - share)), lambda F, part: expit(F) - codes[part]
    else:
        mean, slope = np.log(share), lambda F, part: softmax(F, axis=1) - codes[part]
    Z, T = dense_waves(model.features_, rows.dense), dense_waves(model.features_, rows.tests)
    coef = dense_steps(Z, slope, ones, mean, 2 * rows.unit, 16, 3, 0.0, case["tail"])
    close(model.decision_function(rows.T).reshape(len(T), -1), T @ coef + mean, _phase(case))


WAVES_CASES = table(WAVES, possible_waves, {**DATA, "size": (1.0,)})

# -- the tests ----------------------------------------------------------------------------------------------------

TABLES = {
    "ridge": (check_ridge, RIDGE_CASES, 40),
    "auto": (check_auto, AUTO_CASES, 10),
    "cv": (check_cv, CV_CASES, 10),
    "classifier": (check_classifier, CLASSIFIER_CASES, 36),
    "nystroem": (check_nystroem, NYSTROEM_CASES, 12),
    "pca": (check_pca, PCA_CASES, 16),
    "cca": (check_cca, CCA_CASES, 10),
    "kmeans": (check_kmeans, KMEANS_CASES, 10),
    "descent": (check_descent, DESCENT_CASES, 8),
    "random": (check_random, RANDOM_CASES, 10),
    "waves": (check_waves, WAVES_CASES, 8),
}

QUICK = [
    pytest.param(check, cases[(i * len(cases)) // count], id=f"{name}-{name_of(cases[(i * len(cases)) // count])}")
    for name, (check, cases, count) in TABLES.items()
    for i in range(count)
]


@pytest.mark.filterwarnings("ignore:alpha='auto' ended")
@pytest.mark.parametrize(("check", "case"), QUICK)
def test_a_learner_gives_what_the_dense_version_gives(check, case):
    check(case)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:alpha='auto' ended")
@pytest.mark.parametrize("name", TABLES)
def test_every_case_of_the_table_agrees_with_the_dense_version(name):
    check, cases, _ = TABLES[name]
    failed = []
    for case in cases:
        try:
            check(case)
        except Exception as error:
            failed.append(f"{name_of(case)}: {type(error).__name__}: {error}")
    assert not failed, f"{len(failed)} of {len(cases)} cases:\n" + "\n".join(failed[:20])


@settings(max_examples=25)
@given(
    magnitude=st.floats(-6, 6),
    spread=st.floats(0, 5),
    size=st.floats(-12, 12),
    width=st.floats(-8, 8),
    alpha=st.floats(-3, 2),
    level=st.sampled_from([0.0, 1e3, 1e6]),
    solver=st.sampled_from(["direct", "falkon", "auto"]),
    intercept=st.booleans(),
)
def test_weights_and_units_of_any_size_give_the_dense_solution(
    magnitude, spread, size, width, alpha, level, solver, intercept
):
    """Weights over orders of magnitude, targets and rows in any unit, targets far from zero."""
    case = {name: values[0] for name, values in DATA.items()}
    case.update(scale=10.0**width, size=10.0**size)
    rows = rows_of(case)
    Y = targets_of(case, rows, 1) + level * case["size"]
    w = 10.0 ** (magnitude + spread * np.random.default_rng(3).uniform(-1, 1, N))
    penalty = 10.0**alpha * float(np.median(w))
    atoms = rows.X if solver == "auto" else rows.X[:ATOMS]
    K = DenseNystrom(rows.kernel, rows.dense if solver == "auto" else rows.dense[:ATOMS])
    model = KernelRidge(rows.kernel, alpha=penalty, dictionary=atoms, solver=solver, fit_intercept=intercept)
    model.set_params(max_iter=1000, tol=1e-12, random_state=0).fit(rows.X, Y[:, 0], w)
    values, std, mean = dense_ridge(K, rows.dense, Y, w, penalty, rows.tests, intercept)
    found, deviation = model.predict(rows.T, return_std=True)
    close(found - mean[0], values[:, 0] - mean[0], 1e-5)
    close_deviation(model, deviation, K, rows.dense, Y, w, std, intercept)
